//! The text of a bound statement in DataFusion's words.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr, Ident,
    JoinConstraint, JoinOperator, LimitClause, ObjectName, ObjectNamePart, OrderByKind, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, Value, VisitorMut, WildcardAdditionalOptions,
};

use super::bind::{Binder, Bound, Names, lower, parts};
use crate::Error;

pub(super) struct Rewriter<'b> {
    bound: &'b [Bound],
    names: &'b Names,
    ctes: &'b HashSet<String>,
    name_outputs: bool,
    depth: usize,
}

impl<'b> Rewriter<'b> {
    pub(super) fn new(binder: &'b Binder<'_>, ctes: &'b HashSet<String>, name_outputs: bool) -> Self {
        Self { bound: &binder.bound, names: &binder.names, ctes, name_outputs, depth: 0 }
    }

    /// `ns.t.id` becomes `alias.id` when `ns.t` is a table of the statement.
    fn qualify(&self, ids: &mut Vec<Ident>, whole: bool) {
        let folded: Vec<String> = ids.iter().map(|i| i.value.to_lowercase()).collect();
        let hit = self
            .bound
            .iter()
            .filter(|b| b.path.len() > 1 && folded.starts_with(&b.path) && (whole || folded.len() > b.path.len()))
            .max_by_key(|b| b.path.len());
        if let Some(b) = hit {
            ids.splice(..b.path.len(), [quoted(&b.alias)]);
        }
        ids.iter_mut().for_each(|i| self.names.fix(i));
    }

    fn select(&self, s: &mut ast::Select) {
        let mut out = Vec::with_capacity(s.projection.len());
        for item in s.projection.drain(..) {
            match item {
                SelectItem::Wildcard(options) => out.extend(self.wildcard(options, &s.from)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let mut ids: Vec<Ident> = parts(&name).unwrap_or_default().iter().map(|p| quoted(p)).collect();
                    self.qualify(&mut ids, true);
                    let qualifier = ids.last().map_or_else(String::new, |i| i.value.clone());
                    out.push(self.qualified(ids, options, &self.hidden(&qualifier, &s.from)));
                }
                item => out.push(item),
            }
        }
        s.projection = out;
        if let GroupByExpr::Expressions(exprs, _) = &mut s.group_by {
            exprs.iter_mut().for_each(unwrap_number);
        }
        for join in s.from.iter_mut().flat_map(|f| &mut f.joins) {
            if let Some(JoinConstraint::Using(columns)) = constraint(&mut join.join_operator) {
                for part in columns.iter_mut().flat_map(|c| &mut c.0) {
                    if let ObjectNamePart::Identifier(i) = part {
                        self.names.fix(i);
                    }
                }
            }
        }
    }

    /// Hidden columns of the relation that the FROM clause calls `qualifier`.
    fn hidden(&self, qualifier: &str, from: &[ast::TableWithJoins]) -> Vec<String> {
        factors(from)
            .filter_map(|f| match f {
                TableFactor::Table { name, alias: Some(a), .. } if a.name.value.eq_ignore_ascii_case(qualifier) => {
                    Some(name)
                }
                _ => None,
            })
            .find_map(|name| self.bound.iter().find(|b| !b.internal.is_empty() && name.to_string() == b.internal))
            .map_or_else(Vec::new, |b| b.hidden.clone())
    }

    fn wildcard(&self, options: WildcardAdditionalOptions, from: &[ast::TableWithJoins]) -> Vec<SelectItem> {
        let relations: Vec<(Option<&TableAlias>, Vec<String>)> = factors(from)
            .map(|f| match f {
                TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => {
                    let hidden = alias.as_ref().map_or_else(Vec::new, |a| self.hidden(&a.name.value, from));
                    (alias.as_ref(), hidden)
                }
                _ => (None, Vec::new()),
            })
            .collect();
        let any_hidden = relations.iter().any(|(_, h)| !h.is_empty());
        match relations.as_slice() {
            [(_, hidden)] => vec![SelectItem::Wildcard(self.options(options, hidden))],
            several if any_hidden && several.iter().all(|(a, _)| a.is_some()) => several
                .iter()
                .filter_map(|(alias, hidden)| {
                    Some(self.qualified(
                        vec![alias.as_ref()?.name.clone()],
                        WildcardAdditionalOptions::default(),
                        hidden,
                    ))
                })
                .collect(),
            _ => vec![SelectItem::Wildcard(self.options(options, &[]))],
        }
    }

    fn qualified(&self, ids: Vec<Ident>, options: WildcardAdditionalOptions, hidden: &[String]) -> SelectItem {
        let name = ObjectName(ids.into_iter().map(ObjectNamePart::Identifier).collect());
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), self.options(options, hidden))
    }

    /// Adds the hidden columns to what `EXCEPT` leaves out.
    fn options(&self, mut options: WildcardAdditionalOptions, hidden: &[String]) -> WildcardAdditionalOptions {
        let mut except: Vec<Ident> = match options.opt_except.take() {
            Some(e) => std::iter::once(e.first_element).chain(e.additional_elements).collect(),
            None => Vec::new(),
        };
        except.iter_mut().for_each(|i| self.names.fix(i));
        for h in hidden {
            if !except.iter().any(|i| i.value == *h) {
                except.push(quoted(h));
            }
        }
        let mut except = except.into_iter();
        options.opt_except = except
            .next()
            .map(|first_element| ast::ExceptSelectItem { first_element, additional_elements: except.collect() });
        options
    }

    fn body(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(s) => self.select(s),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            _ => {}
        }
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, q: &mut Query) -> ControlFlow<Error> {
        if self.depth == 0 && self.name_outputs {
            name_outputs(&mut q.body);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, q: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        self.body(&mut q.body);
        if let Some(order) = &mut q.order_by
            && let OrderByKind::Expressions(exprs) = &mut order.kind
        {
            exprs.iter_mut().for_each(|o| unwrap_number(&mut o.expr));
        }
        match &mut q.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(unwrap_number);
                offset.iter_mut().for_each(|o| unwrap_number(&mut o.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                unwrap_number(offset);
                unwrap_number(limit);
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, alias, args, version, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some(path) = parts(name) else {
            return ControlFlow::Continue(());
        };
        if args.is_some() || (path.len() == 1 && version.is_none() && self.ctes.contains(&path[0].to_lowercase())) {
            for part in &mut name.0 {
                match part {
                    ObjectNamePart::Identifier(i) if args.is_some() => i.value = i.value.to_lowercase(),
                    ObjectNamePart::Identifier(i) => self.names.fix(i),
                    ObjectNamePart::Function(_) => {}
                }
            }
            return ControlFlow::Continue(());
        }
        let (path, at) = (lower(&path), version.as_ref().map(ToString::to_string));
        let hit = self.bound.iter().find(|b| !b.internal.is_empty() && b.path == path && b.version == at);
        let Some(b) = hit else {
            return ControlFlow::Break(Error::internal(format!("table {} was not resolved", path.join("."))));
        };
        *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(b.internal.clone()))]);
        *version = None;
        if alias.is_none() {
            *alias = Some(TableAlias { explicit: true, name: quoted(&b.alias), columns: Vec::new() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<Error> {
        match e {
            Expr::Identifier(i) => self.names.fix(i),
            Expr::CompoundIdentifier(ids) => {
                self.qualify(ids, false);
                if let [only] = ids.as_slice() {
                    *e = Expr::Identifier(only.clone());
                }
            }
            // an integer literal is an INT in Spark, if it fits
            Expr::Value(v) if matches!(&v.value, Value::Number(n, false) if n.parse::<i32>().is_ok()) => {
                let literal = std::mem::replace(e, null());
                *e = Expr::Cast {
                    kind: ast::CastKind::Cast,
                    expr: Box::new(literal),
                    data_type: ast::DataType::Int(None),
                    array: false,
                    format: None,
                };
            }
            Expr::Interval(i) => unwrap_number(&mut i.value),
            Expr::Cast { expr, data_type, .. } if is_string(data_type) => {
                let inner = std::mem::replace(expr.as_mut(), null());
                *e = call("spark_string", vec![inner]);
            }
            Expr::RLike { negated, expr, pattern, .. } => {
                let args = vec![std::mem::replace(expr.as_mut(), null()), std::mem::replace(pattern.as_mut(), null())];
                let matches = call("regexp_like", args);
                *e = if *negated {
                    Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(matches) }
                } else {
                    matches
                };
            }
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    // DataFusion takes the name of a struct's field as a string
                    if let ast::AccessExpr::Dot(field) = access
                        && let Expr::Identifier(i) = field
                    {
                        *field = Expr::Value(Value::SingleQuotedString(i.value.clone()).into());
                    }
                }
            }
            Expr::Function(f) => {
                for part in &mut f.name.0 {
                    if let ObjectNamePart::Identifier(i) = part {
                        let name = i.value.to_lowercase();
                        // DataFusion plans `map` by itself, and not the empty one
                        *i = Ident::new(if name == "map" { "spark_map".into() } else { name });
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_string(ty: &ast::DataType) -> bool {
    use ast::DataType as T;
    matches!(
        ty,
        T::String(_)
            | T::Text
            | T::Varchar(_)
            | T::Char(_)
            | T::Character(_)
            | T::CharacterVarying(_)
            | T::CharVarying(_)
    )
}

fn factors(from: &[ast::TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter().flat_map(|f| std::iter::once(&f.relation).chain(f.joins.iter().map(|j| &j.relation)))
}

fn constraint(op: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match op {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::Semi(c)
        | J::LeftSemi(c)
        | J::RightSemi(c)
        | J::Anti(c)
        | J::LeftAnti(c)
        | J::RightAnti(c) => Some(c),
        _ => None,
    }
}

pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

pub(super) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// A call of a function by its plain name.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Takes the INT cast off a literal again, where the grammar wants a bare number (positions, limits, intervals).
fn unwrap_number(e: &mut Expr) {
    if let Expr::Cast { expr, data_type: ast::DataType::Int(None), .. } = e
        && matches!(expr.as_ref(), Expr::Value(v) if matches!(v.value, Value::Number(..)))
    {
        *e = std::mem::replace(expr.as_mut(), null());
    }
}

/// Names output columns by their text, as Spark does.
fn name_outputs(body: &mut SetExpr) {
    match body {
        SetExpr::Select(s) => {
            let mut seen = HashSet::new();
            for item in &mut s.projection {
                let SelectItem::UnnamedExpr(e) = item else {
                    continue;
                };
                if matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                    continue;
                }
                let text = e.to_string();
                let text = if text.eq_ignore_ascii_case("count(*)") { "count(1)".to_string() } else { text };
                let mut name = text.clone();
                let mut n = 1;
                while !seen.insert(name.clone()) {
                    n += 1;
                    name = format!("{text} ({n})");
                }
                *item = SelectItem::ExprWithAlias { expr: std::mem::replace(e, null()), alias: quoted(&name) };
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_outputs(left);
            name_outputs(right);
        }
        _ => {}
    }
}
