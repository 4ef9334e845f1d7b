//! Metadata tables: `t.snapshots` and the like, with Spark's columns.

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use crate::{Error, Result, Table};

/// A metadata table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MetadataTable {
    Snapshots,
    History,
    Files,
    DataFiles,
    DeleteFiles,
    AllDataFiles,
    Manifests,
    Entries,
    Partitions,
    Refs,
    MetadataLogEntries,
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
            "manifests" => Self::Manifests,
            "entries" => Self::Entries,
            "partitions" => Self::Partitions,
            "refs" => Self::Refs,
            "metadata_log_entries" => Self::MetadataLogEntries,
            _ => return None,
        })
    }
}

/// The rows of a metadata table, as of a snapshot where that matters.
pub(super) async fn provider(
    table: &Table,
    kind: MetadataTable,
    _snapshot: Option<i64>,
) -> Result<Arc<dyn TableProvider>> {
    Err(Error::unsupported(format!("metadata table {kind:?} is not available")).at(table.ident()))
}
