//! Resolves the tables of a statement and words its text for DataFusion: names, literals, casts, wildcards.
//!
//! Every table is registered with the planner under an internal one-part name and given an alias, so that names of any
//! depth work; identifiers are matched to columns without regard to case, as Spark does.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields};
use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, Query, TableFactor, TableVersion, Value, ValueWithSpan, Visit,
    VisitMut, Visitor,
};

use super::ast::Name;
use super::planner::Planner;
use super::rewrite::Rewriter;
use super::session::{Session, Version};
use crate::{Error, Result};

/// Columns that a scan can add and `*` never shows.
pub const METADATA_COLUMNS: [&str; 7] =
    ["_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id", "_last_updated_sequence_number"];

/// A table of the statement.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    /// Path as written, in lower case.
    pub path: Vec<String>,
    /// Time travel as written.
    pub version: Option<String>,
    /// Name in the planner; empty for the target of a row-level statement, which its executor registers.
    pub internal: String,
    /// Name in the query, if the query gives none.
    pub alias: String,
    /// Hidden columns that the registered table shows.
    pub hidden: Vec<String>,
}

/// Names of a statement's columns, aliases and relations, matched without regard to case.
#[derive(Debug, Default)]
pub(super) struct Names {
    exact: HashSet<String>,
    folded: HashMap<String, String>,
}

impl Names {
    pub(super) fn add(&mut self, name: &str) {
        self.exact.insert(name.to_string());
        self.folded.entry(name.to_lowercase()).or_insert_with(|| name.to_string());
    }

    fn add_fields(&mut self, fields: &Fields) {
        for f in fields {
            self.add(f.name());
            self.add_type(f.data_type());
        }
    }

    fn add_type(&mut self, ty: &DataType) {
        match ty {
            DataType::Struct(fields) => self.add_fields(fields),
            DataType::List(f) | DataType::LargeList(f) | DataType::Map(f, _) => self.add_type(f.data_type()),
            _ => {}
        }
    }

    /// The identifier as it is defined somewhere, if it is only written in another case.
    pub(super) fn fix(&self, ident: &mut Ident) {
        if !self.exact.contains(&ident.value)
            && let Some(defined) = self.folded.get(&ident.value.to_lowercase())
        {
            ident.value.clone_from(defined);
        }
    }
}

/// Binds the queries and expressions of one statement.
pub struct Binder<'s> {
    session: &'s Session,
    planner: Planner,
    pub(super) bound: Vec<Bound>,
    pub(super) names: Names,
    depth: usize,
}

/// Views nested deeper than this refer to themselves.
const VIEW_DEPTH: usize = 16;

impl<'s> Binder<'s> {
    /// A binder for one statement.
    pub fn new(session: &'s Session) -> Self {
        Self::at_depth(session, 0)
    }

    fn at_depth(session: &'s Session, depth: usize) -> Self {
        Self { session, planner: Planner::new(session.context()), bound: Vec::new(), names: Names::default(), depth }
    }

    /// Plans what was bound, over the tables that were resolved.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The same, to register the target of a row-level statement under the alias of [`Binder::add_target`].
    pub fn planner_mut(&mut self) -> &mut Planner {
        &mut self.planner
    }

    /// Makes the target of a row-level statement known: `path` (as written) and `alias` name its columns. Returns the
    /// qualifier that bound expressions use for it: the alias, or the last part of the path.
    pub fn add_target(&mut self, path: &Name, alias: Option<&str>, columns: &Fields) -> String {
        let qualifier = alias.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_string);
        self.names.add(&qualifier);
        self.names.add_fields(columns);
        METADATA_COLUMNS.iter().for_each(|c| self.names.add(c));
        self.bound.push(Bound {
            path: lower(path),
            version: None,
            internal: String::new(),
            alias: qualifier.clone(),
            hidden: Vec::new(),
        });
        qualifier
    }

    /// Resolves the tables of a query and words it for the planner.
    pub async fn bind_query(&mut self, query: &mut Query) -> Result<()> {
        self.bind(query, false).await
    }

    /// The same; output columns without a name get Spark's: their text.
    pub async fn bind_output(&mut self, query: &mut Query) -> Result<()> {
        self.bind(query, true).await
    }

    /// Resolves the tables of an expression's subqueries and words it for the planner.
    pub async fn bind_expr(&mut self, expr: &mut Expr) -> Result<()> {
        self.bind(expr, false).await
    }

    /// Words an expression without tables for the planner.
    pub fn word(&self, expr: &mut Expr) -> Result<()> {
        let none = HashSet::new();
        match VisitMut::visit(expr, &mut Rewriter::new(self, &none, false)) {
            ControlFlow::Break(e) => Err(e),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// Resolves a table factor: the source of a `MERGE`.
    pub async fn bind_factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        self.bind(factor, false).await
    }

    async fn bind<N: Visit + VisitMut + Send + Sync>(&mut self, node: &mut N, name_outputs: bool) -> Result<()> {
        for call in crate::cdc::sql::take_calls(node, self.bound.len())? {
            let provider = crate::cdc::sql::call_provider(self.session, &call).await?;
            self.names.add_fields(&provider.schema().fields().clone());
            self.planner.register(&call.internal, provider)?;
            self.bound.push(Bound {
                path: vec![call.internal.clone()],
                version: None,
                internal: call.internal,
                alias: "table_changes".into(),
                hidden: Vec::new(),
            });
        }
        let mut found = Collector::default();
        if let ControlFlow::Break(e) = Visit::visit(&*node, &mut found) {
            return Err(e);
        }
        for name in &found.names {
            self.names.add(name);
        }
        for (path, version) in &found.tables {
            if path.len() == 1 && found.ctes.contains(&path[0].to_lowercase()) {
                continue;
            }
            self.resolve(path, version.as_ref(), found.metadata_columns).await?;
        }
        let mut rewriter = Rewriter::new(self, &found.ctes, name_outputs);
        match VisitMut::visit(node, &mut rewriter) {
            ControlFlow::Break(e) => Err(e),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    async fn resolve(&mut self, path: &Name, version: Option<&TableVersion>, hidden: bool) -> Result<()> {
        let key = (lower(path), version.map(ToString::to_string));
        let done = |b: &Bound| b.path == key.0 && b.version == key.1 && !b.internal.is_empty();
        if self.bound.iter().any(done) {
            return Ok(());
        }
        let at = match version {
            Some(v) => Some(self.version(v)?),
            None => None,
        };
        let (provider, hidden_columns) = self.provider(path, at.as_ref(), hidden).await?;
        self.names.add_fields(&provider.schema().fields().clone());
        let internal = format!("__floe_{}", self.bound.len());
        // two tables of one name in a FROM clause need aliases, as they would to be told apart anyway
        let alias = path.last().cloned().unwrap_or_default();
        self.names.add(&alias);
        self.planner.register(&internal, provider)?;
        self.bound.push(Bound { path: key.0, version: key.1, internal, alias, hidden: hidden_columns });
        Ok(())
    }

    async fn provider(
        &self,
        path: &Name,
        version: Option<&Version>,
        hidden: bool,
    ) -> Result<(Arc<dyn TableProvider>, Vec<String>)> {
        if let [name] = path.as_slice()
            && let Some(view) = self.session.view(name)
        {
            if version.is_some() {
                return Err(Error::invalid("a view has no versions").at(name));
            }
            return Ok((self.view(name, view).await?, Vec::new()));
        }
        self.session.provider(path, version, hidden).await
    }

    /// Boxed: a view may read views.
    fn view<'a>(
        &'a self,
        name: &'a str,
        view: &'a super::session::View,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn TableProvider>>> + Send + 'a>> {
        Box::pin(async move { self.view_provider(name, view).await })
    }

    async fn view_provider(&self, name: &str, view: &super::session::View) -> Result<Arc<dyn TableProvider>> {
        match view {
            super::session::View::Rows(provider) => Ok(provider.clone()),
            super::session::View::Query { query, columns } => {
                if self.depth >= VIEW_DEPTH {
                    return Err(
                        Error::invalid(format!("views nest deeper than {VIEW_DEPTH}: does one read itself?")).at(name)
                    );
                }
                let mut query = query.clone();
                let mut inner = Binder::at_depth(self.session, self.depth + 1);
                inner.bind_output(&mut query).await?;
                let mut plan = inner.planner.plan_query(*query)?;
                if !columns.is_empty() {
                    plan = rename(plan, columns, name)?;
                }
                Ok(Arc::new(datafusion::datasource::ViewTable::new(plan, None)))
            }
        }
    }

    fn version(&self, v: &TableVersion) -> Result<Version> {
        let wrong = || Error::invalid(format!("expected a snapshot id or the name of a branch or tag, found {v}"));
        match v {
            TableVersion::Function(Expr::Function(f)) => {
                let ast::FunctionArguments::List(list) = &f.args else {
                    return Err(wrong());
                };
                match list.args.as_slice() {
                    [
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                            value, ..
                        }))),
                    ] => match value {
                        Value::Number(n, _) => Ok(Version::Snapshot(n.parse().map_err(|_| wrong())?)),
                        Value::SingleQuotedString(s) => {
                            Ok(s.parse().map_or_else(|_| Version::Ref(s.clone()), Version::Snapshot))
                        }
                        _ => Err(wrong()),
                    },
                    _ => Err(wrong()),
                }
            }
            TableVersion::TimestampAsOf(e) | TableVersion::ForSystemTimeAsOf(e) => {
                let value = self.planner.constant(e.clone())?;
                super::session::timestamp_ms(&value)
                    .map(Version::TimestampMs)
                    .ok_or_else(|| Error::invalid(format!("expected a time, found {e}")))
            }
            _ => Err(wrong()),
        }
    }
}

/// Renames a plan's columns.
fn rename(
    plan: datafusion::logical_expr::LogicalPlan,
    columns: &[String],
    view: &str,
) -> Result<datafusion::logical_expr::LogicalPlan> {
    let fields = plan.schema().columns();
    if fields.len() != columns.len() {
        return Err(Error::invalid(format!(
            "the view names {} columns, its query has {}",
            columns.len(),
            fields.len()
        ))
        .at(view));
    }
    let exprs = fields.into_iter().zip(columns).map(|(c, n)| datafusion::logical_expr::Expr::Column(c).alias(n));
    Ok(datafusion::logical_expr::LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
}

pub(super) fn lower(path: &[String]) -> Vec<String> {
    path.iter().map(|p| p.to_lowercase()).collect()
}

/// Parts of an object name, if all are identifiers.
pub(super) fn parts(name: &ObjectName) -> Option<Name> {
    name.0
        .iter()
        .map(|p| match p {
            ObjectNamePart::Identifier(i) => Some(i.value.clone()),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

/// What a statement refers to.
#[derive(Default)]
struct Collector {
    tables: Vec<(Name, Option<TableVersion>)>,
    ctes: HashSet<String>,
    names: Vec<String>,
    metadata_columns: bool,
}

impl Collector {
    fn ident(&mut self, i: &Ident) {
        let name = i.value.to_lowercase();
        self.metadata_columns |= METADATA_COLUMNS.contains(&name.as_str());
    }

    fn select_names(&mut self, body: &ast::SetExpr) {
        match body {
            ast::SetExpr::Select(s) => {
                for item in &s.projection {
                    if let ast::SelectItem::ExprWithAlias { alias, .. } = item {
                        self.names.push(alias.value.clone());
                    }
                }
            }
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.select_names(left);
                self.select_names(right);
            }
            _ => {}
        }
    }
}

impl Visitor for Collector {
    type Break = Error;

    fn pre_visit_query(&mut self, q: &Query) -> ControlFlow<Error> {
        for cte in q.with.iter().flat_map(|w| &w.cte_tables) {
            self.ctes.insert(cte.alias.name.value.to_lowercase());
            self.names.push(cte.alias.name.value.clone());
            self.names.extend(cte.alias.columns.iter().map(|c| c.name.value.clone()));
        }
        self.select_names(&q.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let alias = match factor {
            TableFactor::Table { name, alias, args: None, version, .. } => {
                let Some(path) = parts(name) else {
                    return ControlFlow::Break(Error::invalid(format!("not the name of a table: {name}")));
                };
                self.tables.push((path, version.clone()));
                alias
            }
            TableFactor::Table { alias, .. } => {
                // the column of `range`, the only table function
                self.names.push("id".into());
                alias
            }
            TableFactor::Derived { alias, .. } => alias,
            _ => &None,
        };
        if let Some(alias) = alias {
            self.names.push(alias.name.value.clone());
            self.names.extend(alias.columns.iter().map(|c| c.name.value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<Error> {
        match e {
            Expr::Identifier(i) => self.ident(i),
            Expr::CompoundIdentifier(ids) => ids.iter().for_each(|i| self.ident(i)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
