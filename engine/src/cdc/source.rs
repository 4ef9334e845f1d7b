//! A configured read of changes: one batch, or a stream that polls.

use iceberg::spec::MAIN_BRANCH;

use super::changelog::{ChangelogScan, MetaColumns};
use super::config::{CdcReadConfig, SyncConfig};
use super::range::{self, End, Lag, Start};
use crate::{Error, Result, Table};

/// Reads changes as a configuration says. A batch is one scan; a stream hands out one scan a snapshot, so that it can be ended,
/// and taken up again, between any two.
pub struct CdcSource {
    config: CdcReadConfig,
    table: Table,
    next: Start,
    meta: MetaColumns,
    /// Snapshots that a stream may still hand out.
    left: Option<u64>,
    end: End,
    stop_when_idle: bool,
    position: Option<i64>,
    lag: Lag,
    over: bool,
}

impl CdcSource {
    /// A source over a loaded table. Rows carry their change type; with `include_metadata_columns` all metadata columns.
    pub fn new(config: CdcReadConfig, table: Table) -> Result<Self> {
        let meta = if config.include_metadata_columns { MetaColumns::All } else { MetaColumns::Type };
        let head = table.snapshot_of_ref(config.branch.as_deref().unwrap_or(MAIN_BRANCH)).map(|s| s.snapshot_id());
        let next = match (config.start.fixed(), head) {
            (Some(start), _) => start,
            (None, Some(id)) => Start::After(id.to_string()),
            (None, None) => Start::Beginning,
        };
        if config.streaming && config.net_changes {
            return Err(
                Error::invalid("`net_changes` needs an end: it can't be combined with `streaming`").at("source")
            );
        }
        Ok(Self {
            end: config.end(),
            config,
            table,
            next,
            meta,
            left: None,
            stop_when_idle: false,
            position: None,
            lag: Lag::default(),
            over: false,
        })
    }

    /// Ends a stream as `sync.stop_*` say.
    #[must_use]
    pub fn bounded(mut self, stop: &SyncConfig) -> Self {
        self.left = stop.stop_after_snapshots;
        if let Some(s) = &stop.stop_at_snapshot {
            self.end = End::At(s.clone());
        }
        self.stop_when_idle = stop.stop_when_idle;
        self
    }

    /// Goes on after a snapshot that an earlier run ended with; it wins over the configured start.
    #[must_use]
    pub fn resume_after(mut self, snapshot_id: i64) -> Self {
        self.next = Start::After(snapshot_id.to_string());
        self.position = Some(snapshot_id);
        self
    }

    /// Newest snapshot that was handed out: what [`CdcSource::resume_after`] takes once its rows are used.
    pub fn position(&self) -> Option<i64> {
        self.position
    }

    /// How far behind the table the stream is after the scan that was handed out last.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Whether nothing will come any more: a batch was handed out, or a stream has reached its end.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The next scan, over what is there now; `None` when it is over, or a stream has nothing new.
    pub async fn next(&mut self) -> Result<Option<ChangelogScan>> {
        if self.over {
            return Ok(None);
        }
        let end = self.end.clone();
        if !self.config.streaming {
            self.over = true;
            let scan = self.scan(self.next.clone(), end).await?;
            self.position = scan.steps().last().map(|s| s.snapshot.snapshot_id()).or(self.position);
            return Ok(Some(scan));
        }
        self.table = self.table.refresh().await?;
        let steps = range::steps(&self.table, self.config.branch.as_deref(), &self.next, &end)?;
        let Some(n) = steps.iter().position(range::Step::changes_rows) else {
            self.lag = Lag::default();
            self.over = self.stop_when_idle || end.is_reached_when_idle();
            return Ok(None);
        };
        let id = steps[n].snapshot.snapshot_id();
        let scan = self.scan(self.next.clone(), End::At(id.to_string())).await?;
        self.next = Start::After(id.to_string());
        self.position = Some(id);
        self.lag = Lag::of(&steps[n + 1..]);
        self.left = self.left.map(|n| n.saturating_sub(1));
        self.over = self.left == Some(0);
        Ok(Some(scan))
    }

    async fn scan(&self, start: Start, end: End) -> Result<ChangelogScan> {
        let m = self.table.metadata();
        let has_ids = m.current_schema().identifier_field_ids().next().is_some();
        let lineage = m.format_version() >= iceberg::spec::FormatVersion::V3;
        let mut builder = ChangelogScan::builder(self.table.clone())
            .branch(self.config.branch.clone())
            .range(start, end)
            .columns(self.config.read.columns.clone())
            .filter(self.config.read.filter.clone())
            .compute_updates(has_ids || lineage)
            .net_changes(self.config.net_changes)
            .meta_columns(self.meta);
        if let Some(ids) = &self.config.identifier_columns {
            builder = builder.identifier_columns(ids.clone());
        }
        builder.build().await
    }
}
