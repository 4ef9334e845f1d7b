//! Keeps a table in step with another: changes of the source, applied to the target exactly once.
//!
//! The position in the source is part of the target snapshot that brings the data ([`position`]). A run that starts, or starts
//! again after whatever ended the last one, goes on from the position it finds; what a dead run wrote without committing is
//! garbage that nothing refers to.

mod appends;
mod apply;
mod batch;
mod difference;
mod drift;
mod equality;
mod evolve;
mod lookup;
mod many;
pub mod position;
mod probe;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use iceberg::TableIdent;

pub use apply::Applied;
pub(super) use apply::{Outcome, Plan, apply};
pub(super) use lookup::Keys;
pub(super) use target::{key_columns, load_or_create};

use super::config::{CdcReadConfig, PipelineConfig, SyncConfig, WriteConfig};
use super::connect::{connect, table_ident};
use super::range::{self, End, Lag, Start, Step};
use crate::catalog::Catalog;
use crate::{Error, Result, Table};

/// Asks a run to end after the snapshot it is at, when it turns true.
pub type Stop = tokio::sync::watch::Receiver<bool>;

/// What a run tells while it works.
#[derive(Debug, Clone)]
pub enum Event {
    /// A batch of source snapshots is in the target.
    Applied {
        /// Newest source snapshot of the batch.
        source_snapshot: i64,
        /// Target snapshot that holds it; the ledger's, when rows name their tables.
        target_snapshot: i64,
        /// Source snapshots in the batch.
        snapshots: usize,
        /// Rows written.
        inserted: u64,
        /// Rows removed or replaced.
        deleted: u64,
        /// Where the target is now.
        lag: Lag,
    },
    /// Nothing to do; a stream waits.
    Heartbeat {
        /// Where the target is.
        lag: Lag,
    },
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Source snapshots applied.
    pub snapshots: u64,
    /// Target commits.
    pub commits: u64,
    /// Rows written.
    pub inserted: u64,
    /// Rows removed or replaced.
    pub deleted: u64,
    /// Newest source snapshot in the target.
    pub position: Option<i64>,
}

/// A sync between two tables, or a table and those that its rows name.
pub struct Sync(Arc<Inner>);

struct Inner {
    source_catalog: Arc<dyn Catalog>,
    target_catalog: Arc<dyn Catalog>,
    source: CdcReadConfig,
    target: WriteConfig,
    sync: SyncConfig,
    elsewhere: Option<Arc<dyn PhysicalOptimizerRule + Send + std::marker::Sync>>,
}

/// Where a run goes on.
enum Resume {
    At(Start),
    /// After the source's head of now, which is recorded first.
    Latest,
}

impl Sync {
    /// Opens the catalogs of a configuration. Nothing is read or written.
    pub async fn open(config: PipelineConfig) -> Result<Self> {
        let Some(target) = &config.target else {
            return Err(Error::invalid("key `target` is required for a sync"));
        };
        let (source, target) = (connect(&config.source.read.catalog).await?, connect(&target.catalog).await?);
        Self::with_catalogs(config, source, target)
    }

    /// A sync over catalogs that are open.
    pub fn with_catalogs(config: PipelineConfig, source: Arc<dyn Catalog>, target: Arc<dyn Catalog>) -> Result<Self> {
        let PipelineConfig { source: read, target: write, sync } = config;
        let write = write.ok_or_else(|| Error::invalid("key `target` is required for a sync"))?;
        if let Some(c) = &write.change_type_column
            && !["_change_type", "change_type"].iter().any(|n| c.eq_ignore_ascii_case(n))
        {
            return Err(Error::unsupported(format!(
                "`change_type_column` is {c:?}; the change type of a sync is that of the source's changelog, CHANGE_TYPE"
            ))
            .at("target"));
        }
        if read.identifier_columns.is_some() || read.net_changes {
            return Err(Error::invalid(
                "`identifier_columns` and `net_changes` are for `floe cdc read`; a sync goes by `target.equality_columns`",
            )
            .at("source"));
        }
        let inner = Inner {
            source_catalog: source,
            target_catalog: target,
            source: read,
            target: write,
            sync,
            elsewhere: None,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// A rule that may have the reading of the source's changed files run elsewhere. Only before a run.
    #[must_use]
    pub fn elsewhere(mut self, rule: Arc<dyn PhysicalOptimizerRule + Send + std::marker::Sync>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.elsewhere = Some(rule);
        }
        self
    }

    /// Runs until the source's head (batch) or until it is stopped (stream).
    pub async fn run(&self, stop: Stop, tell: impl FnMut(&Event)) -> Result<Report> {
        self.0.run(stop, tell).await
    }
}

impl Inner {
    async fn run(self: &Arc<Self>, mut stop: Stop, mut tell: impl FnMut(&Event)) -> Result<Report> {
        let source_ident = table_ident(&self.source.read.table)?;
        let mut source = self.source_catalog.clone().load_table(&source_ident).await?;
        let sync_id = self.sync.id.clone().unwrap_or_else(|| format!("table {}", source.metadata().uuid()));
        self.check_appends(&source, &sync_id).await?;
        let mut report = Report::default();
        let mut target = self.load_target(&source).await?;
        let mut started_empty = false;
        loop {
            let mut position = position::find(&target, &sync_id)?;
            if let Some(p) = &position {
                p.check_source(&source, target.ident())?;
            }
            report.position = position.as_ref().map(|p| p.snapshot_id);
            let resume = match &position {
                Some(p) => Resume::At(Start::After(p.snapshot_id.to_string())),
                None if started_empty => Resume::At(Start::Beginning),
                None => self.configured_start(),
            };
            let start = match resume {
                Resume::At(start) => start,
                Resume::Latest => match self.record_head(&source, &target, &sync_id).await? {
                    Some(t) => {
                        target = t;
                        continue;
                    }
                    None => {
                        started_empty = true;
                        Start::Beginning
                    }
                },
            };
            let steps = range::steps(&source, self.source.branch.as_deref(), &start, &self.end())?;
            let mut moved = false;
            let mut rest = steps.as_slice();
            let mut from = start;
            while let Some((batch, tail)) = self.next_batch(rest) {
                if *stop.borrow() {
                    return Ok(report);
                }
                let outcome = match self.target.table.fixed() {
                    Some(_) => {
                        self.apply_one(&source, &target, batch, from.clone(), &sync_id, position.as_ref()).await?
                    }
                    None => many::apply_many(self, &source, &target, batch, from.clone(), &sync_id).await?,
                };
                match outcome {
                    Outcome::Done(done) => {
                        let last = batch[batch.len() - 1].snapshot.snapshot_id();
                        let counted = batch.iter().filter(|s| s.changes_rows()).count();
                        report.snapshots += counted as u64;
                        report.commits += done.commits;
                        report.inserted += done.inserted;
                        report.deleted += done.deleted;
                        report.position = Some(last);
                        tell(&Event::Applied {
                            source_snapshot: last,
                            target_snapshot: done.snapshot_id,
                            snapshots: counted,
                            inserted: done.inserted,
                            deleted: done.deleted,
                            lag: Lag::of(tail),
                        });
                        target = done.table;
                        position = position::find(&target, &sync_id)?;
                        from = Start::After(last.to_string());
                        rest = tail;
                        moved = true;
                        if self.is_over(&report) {
                            return Ok(report);
                        }
                    }
                    // another run of this sync was there first: go on from where it is
                    Outcome::Superseded(fresh) => {
                        target = fresh;
                        moved = true;
                        break;
                    }
                }
            }
            if !self.source.streaming {
                if moved && !rest.is_empty() && self.next_batch(rest).is_some() {
                    continue;
                }
                return Ok(report);
            }
            if !moved {
                tell(&Event::Heartbeat { lag: Lag::default() });
                if self.sync.stop_when_idle
                    || self.end().is_reached_when_idle()
                    || wait(&mut stop, self.source.poll_interval).await
                {
                    return Ok(report);
                }
            }
            source = source.refresh().await?;
            target = target.refresh().await?;
        }
    }

    fn configured_start(&self) -> Resume {
        self.source.start.fixed().map_or(Resume::Latest, Resume::At)
    }

    fn end(&self) -> End {
        match &self.sync.stop_at_snapshot {
            Some(s) => End::At(s.clone()),
            None => self.source.end(),
        }
    }

    fn is_over(&self, report: &Report) -> bool {
        self.sync.stop_after_snapshots.is_some_and(|n| report.snapshots >= n)
    }

    /// The table that holds the position: the target, or the ledger of many.
    async fn load_target(&self, source: &Table) -> Result<Table> {
        let (fields, read) = self.fields(source.metadata().current_schema())?;
        match self.target.table.fixed() {
            Some(name) => {
                let ident: TableIdent = table_ident(name)?;
                load_or_create(&self.target_catalog, &ident, &self.target, &fields, &source.metadata().ext).await
            }
            None => {
                self.target.table.check(&read).map_err(|e| e.at("target"))?;
                let name = self.sync.ledger.as_deref().ok_or_else(|| Error::internal("a template without a ledger"))?;
                many::ledger(&self.target_catalog, &table_ident(name)?).await
            }
        }
    }

    /// Records the source's head as the position, so that a restart does not forget where `latest` was. `None` = no snapshot.
    async fn record_head(&self, source: &Table, target: &Table, sync_id: &str) -> Result<Option<Table>> {
        use crate::commit::{Change, Producer, commit};
        let branch = self.source.branch.as_deref().unwrap_or(iceberg::spec::MAIN_BRANCH);
        let Some(head) = source.snapshot_of_ref(branch) else {
            return Ok(None);
        };
        let schema = source.metadata().current_schema().schema_id();
        let change =
            Change { summary: self.summary(sync_id, source, head, schema), ..Change::new(Producer::FastAppend) };
        Ok(Some(commit(target, change).await?.table))
    }

    /// Summary keys of a target snapshot: the position, and what is configured. `schema` = id of the schema rows were read with.
    fn summary(
        &self,
        sync_id: &str,
        source: &Table,
        last: &iceberg::spec::Snapshot,
        schema: i32,
    ) -> Vec<(String, String)> {
        let mut out = position::summary(sync_id, source, last, schema);
        out.extend(self.target.snapshot_properties.iter().map(|(k, v)| (k.clone(), v.clone())));
        out
    }
}

/// Waits; true when the run is to end.
async fn wait(stop: &mut Stop, time: Duration) -> bool {
    if *stop.borrow() {
        return true;
    }
    tokio::select! {
        changed = stop.changed() => match changed {
            Ok(()) => *stop.borrow(),
            // nobody is left who could stop it: the time is waited out
            Err(_) => {
                tokio::time::sleep(time).await;
                false
            }
        },
        () = tokio::time::sleep(time) => false,
    }
}
