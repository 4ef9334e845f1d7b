//! A configured read of changes: one batch, or a stream that polls.

use super::changelog::{ChangelogScan, MetaColumns};
use super::config::{CdcReadConfig, RangeStart, Strategy};
use super::range::{self, End, Start};
use crate::{Error, Result, Table};

/// Reads changes as a configuration says. A stream hands out one scan after another; each covers the snapshots since the last.
pub struct CdcSource {
    config: CdcReadConfig,
    table: Table,
    next: Option<Start>,
    meta: MetaColumns,
}

impl CdcSource {
    /// A source over a loaded table. Rows carry their change type; with `include_metadata_columns` all metadata columns.
    pub fn new(config: CdcReadConfig, table: Table) -> Result<Self> {
        let meta = if config.include_metadata_columns { MetaColumns::All } else { MetaColumns::Type };
        let head = table
            .snapshot_of_ref(config.branch.as_deref().unwrap_or(iceberg::spec::MAIN_BRANCH))
            .map(|s| s.snapshot_id());
        let next = match &config.start {
            RangeStart::Snapshot(s) => Start::At(s.clone()),
            RangeStart::AfterSnapshot(s) => Start::After(s.clone()),
            RangeStart::Timestamp(ms) => Start::AtTime(*ms),
            RangeStart::Unset => match (config.effective_strategy(), head) {
                (Strategy::Latest, Some(id)) => Start::After(id.to_string()),
                _ => Start::Beginning,
            },
        };
        if config.streaming && config.net_changes {
            return Err(
                Error::invalid("`net_changes` needs an end: it can't be combined with `streaming`").at("source")
            );
        }
        Ok(Self { config, table, next: Some(next), meta })
    }

    /// The next scan, over what is there now; `None` when a batch was handed out, or a stream has nothing new.
    pub async fn next(&mut self) -> Result<Option<ChangelogScan>> {
        let Some(start) = self.next.clone() else {
            return Ok(None);
        };
        let end = match (&self.config.to_snapshot, self.config.to_timestamp) {
            (Some(s), _) => End::At(s.clone()),
            (None, Some(ms)) => End::AtTime(ms),
            (None, None) => End::Head,
        };
        if self.config.streaming {
            self.table = self.table.refresh().await?;
        }
        let m = self.table.metadata();
        let has_ids = m.current_schema().identifier_field_ids().next().is_some();
        let lineage = m.format_version() >= iceberg::spec::FormatVersion::V3;
        let mut builder = ChangelogScan::builder(self.table.clone())
            .branch(self.config.branch.clone())
            .range(start.clone(), end.clone())
            .columns(self.config.read.columns.clone())
            .filter(self.config.read.filter.clone())
            .compute_updates(has_ids || lineage)
            .net_changes(self.config.net_changes)
            .meta_columns(self.meta);
        if let Some(ids) = &self.config.identifier_columns {
            builder = builder.identifier_columns(ids.clone());
        }
        let scan = builder.build().await?;
        if !self.config.streaming {
            self.next = None;
            return Ok(Some(scan));
        }
        let steps = range::steps(&self.table, self.config.branch.as_deref(), &start, &end)?;
        let Some(last) = steps.last() else {
            return Ok(None);
        };
        self.next = Some(Start::After(last.snapshot.snapshot_id().to_string()));
        Ok(Some(scan))
    }
}
