//! Keeps a table in step with another: changes of the source, applied to the target exactly once.
//!
//! The position in the source is part of the target snapshot that brings the data ([`position`]). A run that starts, or starts
//! again after whatever ended the last one, goes on from the position it finds; what a dead run wrote without committing is
//! garbage that nothing refers to.

mod apply;
mod equality;
mod evolve;
mod lookup;
pub mod position;
mod target;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iceberg::TableIdent;
use iceberg::spec::{NestedFieldRef, Operation, Schema, SchemaRef};

pub use apply::Applied;
pub(super) use apply::{Outcome, Plan, apply};
pub(super) use lookup::Keys;
pub(super) use target::{key_columns, load_or_create};

use super::changelog::{ChangelogScan, MetaColumns};
use super::columns;
use super::config::{
    CdcReadConfig, Columns, PipelineConfig, RangeStart, SchemaEvolution, Strategy, SyncConfig, WriteConfig,
};
use super::connect::{connect, table_ident};
use super::range::{self, Base, End, Start, Step};
use crate::catalog::Catalog;
use crate::types::{arrow_schema, field_path};
use crate::{Error, ErrorKind, Result, Table};

/// Asks a run to end after the snapshot it is at, when it turns true.
pub type Stop = tokio::sync::watch::Receiver<bool>;

/// What a run tells while it works.
#[derive(Debug, Clone)]
pub enum Event {
    /// A batch of source snapshots is in the target.
    Applied {
        /// Newest source snapshot of the batch.
        source_snapshot: i64,
        /// Target snapshot that holds it.
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

/// How far a target is behind its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Source snapshots that are not in the target, `replace` ones not counted.
    pub snapshots: usize,
    /// Age of the oldest of them, in seconds; 0 when there is none.
    pub seconds: u64,
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

/// A sync between two tables.
pub struct Sync {
    source_catalog: Arc<dyn Catalog>,
    target_catalog: Arc<dyn Catalog>,
    source: CdcReadConfig,
    target: WriteConfig,
    sync: SyncConfig,
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
        if write.table.fixed().is_none() {
            return Err(Error::unsupported(format!(
                "a sync needs one target; {:?} depends on the row. `floe io write` takes such names",
                write.table.text
            ))
            .at("target.table"));
        }
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
        Ok(Self { source_catalog: source, target_catalog: target, source: read, target: write, sync })
    }

    /// Runs until the source's head (batch) or until it is stopped (stream).
    pub async fn run(&self, mut stop: Stop, mut tell: impl FnMut(&Event)) -> Result<Report> {
        let source_ident = table_ident(&self.source.read.table)?;
        let target_ident = table_ident(&self.target.table.text)?;
        let mut source = self.source_catalog.clone().load_table(&source_ident).await?;
        let sync_id = self.sync.id.clone().unwrap_or_else(|| format!("table {}", source.metadata().uuid()));
        let mut report = Report::default();
        let mut target = self.load_target(&source, &target_ident).await?;
        let mut started_empty = false;
        loop {
            let position = position::find(&target, &sync_id)?;
            if let Some(p) = &position
                && p.uuid != source.metadata().uuid().to_string()
            {
                return Err(Error::conflict(format!(
                    "the target follows the table with UUID {}, and {source_ident} has {}: the source was replaced. Give the \
                     sync another `id` to start anew",
                    p.uuid,
                    source.metadata().uuid()
                ))
                .at(&target_ident));
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
                match self.apply_batch(&source, &target, batch, from.clone(), &sync_id, position.as_ref()).await? {
                    apply::Outcome::Done(done) => {
                        let last = batch[batch.len() - 1].snapshot.snapshot_id();
                        let counted = batch.iter().filter(|s| changes(s)).count();
                        report.snapshots += counted as u64;
                        report.commits += 1;
                        report.inserted += done.inserted;
                        report.deleted += done.deleted;
                        report.position = Some(last);
                        tell(&Event::Applied {
                            source_snapshot: last,
                            target_snapshot: done.snapshot_id,
                            snapshots: counted,
                            inserted: done.inserted,
                            deleted: done.deleted,
                            lag: lag(tail),
                        });
                        target = done.table;
                        from = Start::After(last.to_string());
                        rest = tail;
                        moved = true;
                        if self.is_over(&source, &report, last)? {
                            return Ok(report);
                        }
                    }
                    // another run of this sync was there first: go on from where it is
                    apply::Outcome::Superseded(fresh) => {
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
                tell(&Event::Heartbeat { lag: lag(&[]) });
                if self.sync.stop_when_idle || wait(&mut stop, self.source.poll_interval).await {
                    return Ok(report);
                }
            }
            source = source.refresh().await?;
            target = target.refresh().await?;
        }
    }

    fn configured_start(&self) -> Resume {
        Resume::At(match &self.source.start {
            RangeStart::Snapshot(s) => Start::At(s.clone()),
            RangeStart::AfterSnapshot(s) => Start::After(s.clone()),
            RangeStart::Timestamp(ms) => Start::AtTime(*ms),
            RangeStart::Unset if self.source.effective_strategy() == Strategy::Latest => {
                return Resume::Latest;
            }
            RangeStart::Unset => Start::Beginning,
        })
    }

    fn end(&self) -> End {
        match (&self.source.to_snapshot, self.source.to_timestamp) {
            (Some(s), _) => End::At(s.clone()),
            (None, Some(ms)) => End::AtTime(ms),
            (None, None) => End::Head,
        }
    }

    fn is_over(&self, source: &Table, report: &Report, last: i64) -> Result<bool> {
        if self.sync.stop_after_snapshots.is_some_and(|n| report.snapshots >= n) {
            return Ok(true);
        }
        match &self.sync.stop_at_snapshot {
            Some(s) => Ok(range::resolve(&source.metadata().inner, s)?.snapshot_id() == last),
            None => Ok(false),
        }
    }

    /// The steps of the next target commit and those after it. A batch has one schema; steps that change nothing ride along,
    /// and make none of their own.
    fn next_batch<'s>(&self, steps: &'s [Step]) -> Option<(&'s [Step], &'s [Step])> {
        steps.iter().position(changes)?;
        let schema = |s: &Step| s.snapshot.schema_id();
        let (mut n, mut counted) = (0, 0);
        for s in steps {
            let counts = usize::from(changes(s));
            if counted > 0 && (counted + counts > self.sync.snapshots_per_commit || schema(s) != schema(&steps[n - 1]))
            {
                break;
            }
            counted += counts;
            n += 1;
        }
        Some(steps.split_at(n))
    }

    /// Fields of the rows that are written, given the source's schema.
    fn fields(&self, schema: &Schema) -> Result<(Vec<NestedFieldRef>, SchemaRef)> {
        let read = columns::project(schema, &self.source.read.columns).map_err(|e| e.at("source"))?;
        let read = Arc::new(Schema::builder().with_schema_id(schema.schema_id()).with_fields(read).build()?);
        let written = columns::project(&read, &self.target.columns).map_err(|e| e.at("target"))?;
        Ok((written, read))
    }

    async fn load_target(&self, source: &Table, ident: &TableIdent) -> Result<Table> {
        let (fields, _) = self.fields(source.metadata().current_schema())?;
        target::load_or_create(&self.target_catalog, ident, &self.target, &fields, &source.metadata().ext).await
    }

    /// Records the source's head as the position, so that a restart does not forget where `latest` was. `None` = no snapshot.
    async fn record_head(&self, source: &Table, target: &Table, sync_id: &str) -> Result<Option<Table>> {
        use crate::commit::{Change, Producer, commit};
        let branch = self.source.branch.as_deref().unwrap_or(iceberg::spec::MAIN_BRANCH);
        let Some(head) = source.snapshot_of_ref(branch) else {
            return Ok(None);
        };
        let change = Change { summary: self.summary(sync_id, source, head), ..Change::new(Producer::FastAppend) };
        Ok(Some(commit(target, change).await?.table))
    }

    fn summary(&self, sync_id: &str, source: &Table, last: &iceberg::spec::Snapshot) -> Vec<(String, String)> {
        let mut out = position::summary(sync_id, source, last);
        out.extend(self.target.snapshot_properties.iter().map(|(k, v)| (k.clone(), v.clone())));
        out
    }

    async fn apply_batch(
        &self,
        source: &Table,
        target: &Table,
        batch: &[Step],
        start: Start,
        sync_id: &str,
        position: Option<&position::Position>,
    ) -> Result<apply::Outcome> {
        let last = &batch[batch.len() - 1].snapshot;
        let schema = last.schema(&source.metadata().inner)?;
        let (fields, read) = self.fields(&schema)?;
        let ext = &source.metadata().ext;
        let difference = target::Difference::of(&fields, ext, target);
        let mut table = target.clone();
        if self.sync.schema_evolution != SchemaEvolution::Off {
            let old = position.and_then(|p| p.schema_id).and_then(|id| source.metadata().schema_by_id(id)).cloned();
            let full = self.sync.schema_evolution == SchemaEvolution::Full;
            let old = old.filter(|_| full).map(|s| self.fields(&s).map(|f| f.0)).transpose()?;
            table = evolve::evolve(&table, &fields, ext, old.as_deref()).await?;
        } else if !difference.is_empty() {
            return Err(difference.refuse(target, ext));
        }
        let keys = target::key_columns(&table, &self.target)?;
        let written = Schema::builder().with_fields(fields).build()?;
        if let Some(k) = keys.iter().find(|k| field_path(&written, k).is_none()) {
            return Err(columns::unknown(k, &written).at("equality_columns"));
        }
        let only = match &self.target.columns {
            Columns::Only(c) => Some(c.clone()),
            _ => None,
        };
        let plan = apply::Plan {
            mode: self.target.mode,
            keys: keys.clone(),
            upsert: self.target.upsert,
            deletes: self.sync.delete_format,
            sync_id: sync_id.to_string(),
            columns: arrow_schema(&written, ext),
            only: only.clone(),
        };
        let mut scan = ChangelogScan::builder(source.clone())
            .branch(self.source.branch.clone())
            .range(start, End::At(last.snapshot_id().to_string()))
            .schema(schema)
            .columns(self.source.read.columns.clone())
            .filter(self.source.read.filter.clone())
            .meta_columns(MetaColumns::Spark)
            .net_changes(batch.len() > 1)
            .memory(self.sync.memory_mb << 20);
        // inside `only` the key is no top-level column of the source: rows are matched by value alone
        if !keys.is_empty()
            && only.is_none()
            && keys.iter().all(|k| read.as_struct().fields().iter().any(|f| f.name == *k))
        {
            scan = scan.identifier_columns(keys);
        }
        let scan = scan.build().await?;
        apply::apply(&table, &plan, scan.stream(), self.summary(sync_id, source, last)).await
    }
}

/// Whether a step can change rows.
fn changes(s: &Step) -> bool {
    s.snapshot.summary().operation != Operation::Replace || matches!(s.base, Base::Empty)
}

fn lag(rest: &[Step]) -> Lag {
    let waiting: Vec<_> = rest.iter().filter(|s| changes(s)).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let oldest = waiting.first().map(|s| u64::try_from(s.snapshot.timestamp_ms()).unwrap_or(0) / 1000);
    Lag { snapshots: waiting.len(), seconds: oldest.map_or(0, |o| now.saturating_sub(o)) }
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

/// Whether an error is worth another run later, as a service would do.
pub fn is_transient(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io | ErrorKind::CommitFailed | ErrorKind::CommitUnknown)
}
