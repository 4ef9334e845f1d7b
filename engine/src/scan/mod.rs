//! Scans: planning, and a DataFusion table over one snapshot with deletes, lineage and metadata columns applied.

mod adapt;
mod columns;
mod exec;
mod formats;
mod output;
mod plan;
mod provider;
mod reader;
mod rowgroups;
mod split;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

pub use adapt::BatchAdapter;
pub use columns::{LAST_UPDATED_FIELD_ID, META_COLUMNS, MetaColumn, ROW_ID_FIELD_ID};
pub use exec::IcebergScanExec;
pub(crate) use formats::FileRows;
pub use plan::{FileTask, Planned, plan, snapshot};
pub use provider::{IcebergTableProvider, RowFilter};
pub use wire::ScanWire;
