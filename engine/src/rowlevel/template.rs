//! Statements of our own around pieces of the user's: a SQL skeleton with `$n` for expressions.

use std::ops::ControlFlow;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, Statement, TableFactor, Value, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::Cx;
use crate::{Error, Result};

/// Parses `sql`, then puts `exprs[n-1]` for each `$n` and `sources[name]` for each table of that name.
pub fn fill(sql: &str, exprs: &[Expr], sources: &[(&str, TableFactor)]) -> Result<Statement> {
    let mut statements =
        Parser::parse_sql(&GenericDialect {}, sql).map_err(|e| Error::internal(format!("template {sql:?}: {e}")))?;
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
