//! Statements that change rows: names are resolved here, the row-level module does the rest.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::Query;

use super::ast::{Delete, Insert, Merge, Name, Update};
use super::session::{Session, StatementResult};
use crate::{Error, Result, Table};

/// Reads a table; `hidden` adds the metadata columns.
pub(super) fn scan(
    table: Table,
    _snapshot: Option<i64>,
    _hidden: bool,
) -> Result<Arc<dyn TableProvider>> {
    Err(Error::unsupported("scan not available").at(table.ident()))
}

/// Appends the rows of a query to a table: `CREATE TABLE … AS`.
pub(super) async fn append_query(
    _session: &Session,
    table: &Name,
    _query: Box<Query>,
) -> Result<()> {
    Err(not_available("CREATE TABLE … AS", table))
}

/// `INSERT INTO|OVERWRITE`.
pub(super) async fn insert(_session: &mut Session, insert: Insert) -> Result<StatementResult> {
    Err(not_available("INSERT", &insert.table))
}

/// `DELETE FROM`.
pub(super) async fn delete(_session: &mut Session, delete: Delete) -> Result<StatementResult> {
    Err(not_available("DELETE", &delete.table))
}

/// `UPDATE`.
pub(super) async fn update(_session: &mut Session, update: Update) -> Result<StatementResult> {
    Err(not_available("UPDATE", &update.table))
}

/// `MERGE INTO`.
pub(super) async fn merge(_session: &mut Session, merge: Merge) -> Result<StatementResult> {
    Err(not_available("MERGE", &merge.target))
}

/// `TRUNCATE TABLE`.
pub(super) async fn truncate(_session: &mut Session, table: &Name) -> Result<StatementResult> {
    Err(not_available("TRUNCATE", table))
}

fn not_available(what: &str, table: &Name) -> Error {
    Error::unsupported(format!("{what} is not available")).at(table.join("."))
}
