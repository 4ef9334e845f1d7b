//! Statements of our own around pieces of the user's: a SQL skeleton with `$n` for expressions.

use std::ops::ControlFlow;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Statement, TableFactor, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::Cx;
use crate::{Error, Result};

/// Parses `sql`, then puts `exprs[n-1]` for each `$n` and `sources[name]` for each table of that name.
pub fn fill(sql: &str, exprs: &[Expr], sources: &[(&str, TableFactor)]) -> Result<Statement> {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql)
        .map_err(|e| Error::internal(format!("template {sql:?}: {e}")))?;
    let mut statement = statements.pop().ok_or_else(|| Error::internal("empty template"))?;
    let mut filler = Filler { exprs, sources };
    if let ControlFlow::Break(e) = VisitMut::visit(&mut statement, &mut filler) {
        return Err(e);
    }
    Ok(statement)
}

struct Filler<'a> {
    exprs: &'a [Expr],
    sources: &'a [(&'a str, TableFactor)],
}

impl VisitorMut for Filler<'_> {
    type Break = Error;

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Value(v) = e
            && let Value::Placeholder(p) = &v.value
        {
            let n = p.trim_start_matches('$').parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            match n.and_then(|n| self.exprs.get(n)) {
                Some(x) => *e = Expr::Nested(Box::new(x.clone())),
                None => return ControlFlow::Break(Error::invalid(format!("parameter {p} has no value"))),
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, f: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Table { name, .. } = f
            && let [ObjectNamePart::Identifier(id)] = name.0.as_slice()
            && let Some((_, source)) = self.sources.iter().find(|(n, _)| *n == id.value)
        {
            *f = source.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Plans a filled statement.
pub fn plan(cx: &Cx, statement: Statement) -> Result<LogicalPlan> {
    match statement {
        Statement::Query(q) => cx.plan(*q),
        other => Err(Error::internal(format!("a template is a query, not {other}"))),
    }
}

/// A name in double quotes, for use in a template.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Renames qualified column references: `path.column` becomes `alias.column` for each of the given table paths.
pub struct Requalify {
    /// Table paths as the statement may write them, longest first.
    pub paths: Vec<Vec<String>>,
    /// The alias to use instead.
    pub alias: String,
}

impl Requalify {
    /// For a table named by `name` with an optional alias; with an alias only the alias names it.
    pub fn new(name: Option<&ObjectName>, user_alias: Option<&Ident>, alias: &str) -> Self {
        let mut paths = Vec::new();
        match (user_alias, name) {
            (Some(a), _) => paths.push(vec![a.value.to_lowercase()]),
            (None, Some(name)) => {
                let full: Vec<String> =
                    name.0.iter().filter_map(|p| p.as_ident()).map(|i| i.value.to_lowercase()).collect();
                for start in 0..full.len() {
                    paths.push(full[start..].to_vec());
                }
            }
            (None, None) => {}
        }
        Self { paths, alias: alias.to_string() }
    }

    /// Applies it to an expression, subqueries included.
    pub fn apply(&mut self, e: &mut Expr) {
        let _ = VisitMut::visit(e, self);
    }
}

impl VisitorMut for Requalify {
    type Break = ();

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(ids) = e {
            let hit = self.paths.iter().find(|p| {
                ids.len() > p.len() && p.iter().zip(ids.iter()).all(|(p, i)| i.value.to_lowercase() == *p)
            });
            if let Some(p) = hit {
                let rest = ids.split_off(p.len());
                let mut new = vec![Ident::with_quote('"', &self.alias)];
                new.extend(rest);
                *ids = new;
            }
        }
        ControlFlow::Continue(())
    }
}
