//! Golden steps that no Spark SQL expresses, and the fitting of ids that differ from run to run.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::write::write_equality_deletes;
use floe_engine::{Error, Result, Table};
use iceberg::spec::Struct;

/// What a step says, as floe can run it: Spark's snapshot ids become ours, and schema changes of the Java API become SQL.
pub fn fit(sql: &str, table: Option<&Table>, seen: &[i64]) -> String {
    if sql.contains("addColumn('api_dflt'") {
        return "ALTER TABLE ns.types_all ADD COLUMN api_dflt INT DEFAULT 42".into();
    }
    if sql.contains("addColumn('tsns', timestamp_ns)") {
        return "ALTER TABLE ns.types_all ADD COLUMN tsns TIMESTAMP_NS".into();
    }
    if sql.contains("addColumn d_int=42") {
        return "ALTER TABLE ns.defaults_v3 ADD COLUMNS (d_int INT DEFAULT 42, d_str STRING DEFAULT 'dflt', \
                d_req INT NOT NULL DEFAULT 7)"
            .into();
    }
    let (Some(table), Some(at)) = (table, sql.find("rollback_to_snapshot(")) else { return sql.to_string() };
    let mut snapshots: Vec<_> = table.metadata().snapshots().filter(|s| seen.contains(&s.snapshot_id())).collect();
    snapshots.sort_by_key(|s| s.sequence_number());
    // the case rolls back to the head before its last delete
    let Some(previous) = snapshots.iter().rev().nth(1) else { return sql.to_string() };
    let call = &sql[at..];
    let digits: String = call[call.find(',').unwrap_or(0)..].chars().filter(char::is_ascii_digit).collect();
    sql.replace(&digits, &previous.snapshot_id().to_string())
}

/// A step that was done through the Iceberg Java API: an equality delete on `id in (a, b)`.
pub async fn api(sql: &str, table: Option<Table>) -> Result<()> {
    let table = table.ok_or_else(|| Error::not_found("the case has no table yet"))?;
    let Some((_, list)) = sql.split_once("equality delete on id in (") else {
        return Err(Error::unsupported(format!("no translation of {sql}")));
    };
    let ids: Vec<i32> = list.trim_end_matches(')').split(',').filter_map(|v| v.trim().parse().ok()).collect();
    let field = Field::new("id", DataType::Int32, true)
        .with_metadata(HashMap::from([("PARQUET:field_id".to_string(), "1".to_string())]));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(Int32Array::from(ids))])?;
    let spec = table.metadata().default_partition_spec_id();
    let added = write_equality_deletes(&table, spec, Arc::new(Struct::empty()), &[1], vec![batch]).await?;
    let change = Change { added, ..Change::new(Producer::RowDelta) };
    commit(&table, change).await.map(|_| ())
}
