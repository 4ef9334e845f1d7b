//! Metadata tables: `t.snapshots` and the like, with Spark's columns and types.

mod columns;
mod files;
mod history;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::json::ReaderBuilder;
use datafusion::catalog::{MemTable, TableProvider};
use serde_json::Value;

pub(in crate::sql) use columns::json_value;

use super::planner::UTC;
use crate::{Error, Result, Table};

/// A metadata table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataTable {
    /// All snapshots.
    Snapshots,
    /// Which snapshot was current when.
    History,
    /// Live data and delete files.
    Files,
    /// Live data files.
    DataFiles,
    /// Live delete files.
    DeleteFiles,
    /// Data files that any snapshot holds.
    AllDataFiles,
    /// Delete files that any snapshot holds.
    AllDeleteFiles,
    /// Files that any snapshot holds.
    AllFiles,
    /// Manifests of the snapshot.
    Manifests,
    /// Manifests of all snapshots.
    AllManifests,
    /// Manifest entries of the snapshot, removed files too.
    Entries,
    /// Totals by partition.
    Partitions,
    /// Branches and tags.
    Refs,
    /// Metadata files.
    MetadataLogEntries,
    /// Raw row-level changes.
    Changes,
}

impl MetadataTable {
    /// By its name in statements, without regard to case.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "snapshots" => Self::Snapshots,
            "history" => Self::History,
            "files" => Self::Files,
            "data_files" => Self::DataFiles,
            "delete_files" => Self::DeleteFiles,
            "all_data_files" => Self::AllDataFiles,
            "all_delete_files" => Self::AllDeleteFiles,
            "all_files" => Self::AllFiles,
            "manifests" => Self::Manifests,
            "all_manifests" => Self::AllManifests,
            "entries" => Self::Entries,
            "partitions" => Self::Partitions,
            "refs" => Self::Refs,
            "metadata_log_entries" => Self::MetadataLogEntries,
            "changes" => Self::Changes,
            _ => return None,
        })
    }
}

/// The rows of a metadata table; `snapshot` is the one to show where a table shows one, `None` = the table has none.
pub async fn batch(table: &Table, kind: MetadataTable, snapshot: Option<i64>) -> Result<RecordBatch> {
    use MetadataTable as M;
    let (fields, rows) = match kind {
        M::Snapshots => history::snapshots(table),
        M::History => history::history(table),
        M::Refs => history::refs(table)?,
        M::MetadataLogEntries => history::metadata_log(table),
        M::Manifests => files::manifests(table, snapshot.into_iter().collect()).await?,
        M::AllManifests => files::manifests(table, all_snapshots(table)).await?,
        M::Files | M::DataFiles | M::DeleteFiles => files::files(table, kind, snapshot.into_iter().collect()).await?,
        M::AllFiles | M::AllDataFiles | M::AllDeleteFiles => files::files(table, kind, all_snapshots(table)).await?,
        M::Entries => files::entries(table, snapshot).await?,
        M::Partitions => files::partitions(table, snapshot).await?,
        M::Changes => {
            let scan = crate::cdc::ChangelogScan::builder(table.clone())
                .carry_overs(true)
                .meta_columns(crate::cdc::MetaColumns::Spark)
                .build()
                .await?;
            return Ok(concat_batches(&scan.schema(), &scan.collect().await?)?);
        }
    };
    decode(Arc::new(Schema::new(fields)), &rows).map_err(|e| e.at(table.ident()))
}

pub(super) async fn provider(
    table: &Table,
    kind: MetadataTable,
    snapshot: Option<i64>,
) -> Result<Arc<dyn TableProvider>> {
    if kind == MetadataTable::Changes {
        // may be larger than memory: read when asked
        return crate::cdc::sql::changes_table(table).await;
    }
    let batch = batch(table, kind, snapshot).await?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// Ids of all snapshots, oldest first.
fn all_snapshots(table: &Table) -> Vec<i64> {
    history::ordered(table).iter().map(|s| s.snapshot_id()).collect()
}

/// Rows as JSON objects become a batch: one place knows how.
fn decode(schema: SchemaRef, rows: &[Value]) -> Result<RecordBatch> {
    if rows.is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    let mut decoder = ReaderBuilder::new(schema).with_batch_size(rows.len()).build_decoder()?;
    decoder.serialize(rows)?;
    decoder.flush()?.ok_or_else(|| Error::internal("metadata rows gave no batch"))
}

fn field(name: &str, ty: DataType) -> FieldRef {
    Arc::new(Field::new(name, ty, true))
}

fn long(name: &str) -> FieldRef {
    field(name, DataType::Int64)
}

fn int(name: &str) -> FieldRef {
    field(name, DataType::Int32)
}

fn text(name: &str) -> FieldRef {
    field(name, DataType::Utf8)
}

fn time(name: &str) -> FieldRef {
    field(name, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))
}

fn map(name: &str, key: DataType, value: DataType) -> FieldRef {
    let entries = DataType::Struct(vec![Field::new("key", key, false), Field::new("value", value, true)].into());
    field(name, DataType::Map(Arc::new(Field::new("key_value", entries, false)), false))
}

fn list(name: &str, element: DataType) -> FieldRef {
    field(name, DataType::List(Arc::new(Field::new("element", element, true))))
}

/// A time column's value from milliseconds.
fn micros(ms: i64) -> Value {
    Value::from(ms.saturating_mul(1000))
}
