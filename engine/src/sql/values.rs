//! `DEFAULT` in the rows of an INSERT.

use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Values};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::rowlevel::{Target, default_sql};
use crate::{Error, Result};

/// Replaces the bare keyword DEFAULT in literal rows by the column's write default (DEFV-*).
pub(super) fn fill_defaults(query: &mut Query, columns: &[String], target: &Target) -> Result<()> {
    match query.body.as_mut() {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (i, e) in row.iter_mut().enumerate() {
                    fill(e, columns.get(i), target)?;
                }
            }
        }
        SetExpr::Select(select) if select.from.is_empty() => {
            for (i, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(e) = item {
                    fill(e, columns.get(i), target)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn fill(e: &mut Expr, column: Option<&String>, target: &Target) -> Result<()> {
    let Expr::Identifier(i) = e else { return Ok(()) };
    if i.quote_style.is_some() || !i.value.eq_ignore_ascii_case("default") {
        return Ok(());
    }
    let schema = target.table.metadata().current_schema();
    let field = column
        .and_then(|c| schema.as_struct().fields().iter().find(|f| f.name.eq_ignore_ascii_case(c)))
        .ok_or_else(|| Error::invalid("DEFAULT stands for no column of the table").at(target.table.ident()))?;
    let sql = default_sql(field)?;
    *e = Parser::new(&GenericDialect {})
        .try_with_sql(&sql)
        .and_then(|mut p| p.parse_expr())
        .map_err(|x| Error::internal(format!("default {sql}: {x}")))?;
    Ok(())
}

/// `VALUES …` as a query.
pub(super) fn query_of(values: Values) -> Result<Query> {
    let internal = |e: datafusion::sql::sqlparser::parser::ParserError| Error::internal(e.to_string());
    let mut query = Parser::new(&GenericDialect {})
        .try_with_sql("VALUES (1)")
        .and_then(|mut p| p.parse_query())
        .map_err(internal)?;
    *query.body = SetExpr::Values(values);
    Ok(*query)
}
