//! The attempts of a commit: refresh, validate, apply, store, swap, and what is cleaned up when (CONC-40..43).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use iceberg::spec::{MAIN_BRANCH, ManifestFile, Operation, Snapshot, Summary as SnapshotSummary, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};

use super::apply::{Applied, Context, Manifest};
use super::summary::add_totals;
use super::{Change, Producer, Rule, history, validate};
use crate::catalog::TableCommit;
use crate::manifest::{ListTarget, load_manifest_list, write_manifest_list};
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result, Table};

/// A commit that went through.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The table after it.
    pub table: Table,
    /// The new snapshot (or the branch head, when there was nothing to rewrite).
    pub snapshot_id: i64,
}

/// Retry settings (PROP-25).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    left: u64,
    wait: Duration,
    max_wait: Duration,
    deadline: Instant,
}

impl Retry {
    pub(crate) fn of(table: &Table) -> Result<Self> {
        let number = |key: &str, default: u64| match table.metadata().properties().get(key) {
            None => Ok(default),
            Some(v) => v.trim().parse::<u64>().map_err(|_| {
                Error::invalid(format!("{v:?} is not a whole number of zero or more")).at(key).clause("PROP-25")
            }),
        };
        let total = Duration::from_millis(number("commit.retry.total-timeout-ms", 1_800_000)?);
        let now = Instant::now();
        Ok(Self {
            left: number("commit.retry.num-retries", 4)?,
            wait: Duration::from_millis(number("commit.retry.min-wait-ms", 100)?),
            max_wait: Duration::from_millis(number("commit.retry.max-wait-ms", 60_000)?),
            deadline: now.checked_add(total).unwrap_or(now + Duration::from_secs(1 << 30)),
        })
    }

    /// Waits before the next attempt; `false` when there is none left.
    pub(crate) async fn again(&mut self) -> bool {
        if self.left == 0 || Instant::now() >= self.deadline {
            return false;
        }
        self.left -= 1;
        // jitter of up to a tenth keeps writers that collided from colliding again
        let noise = f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 2550.0;
        tokio::time::sleep(self.wait.min(self.max_wait).mul_f64(1.0 + noise)).await;
        self.wait = self.wait.saturating_mul(2).min(self.max_wait);
        true
    }
}

/// Commits a change as a snapshot.
///
/// Errors: [`ErrorKind::InvalidInput`] before anything is written, when the change is wrong by itself or for the
/// table's format version; [`ErrorKind::Conflict`] when a concurrent commit makes it wrong; [`ErrorKind::CommitFailed`]
/// when all retries lost the race. After these the manifests and lists that the attempts wrote are deleted; the data
/// files are the caller's. After [`ErrorKind::CommitUnknown`] nothing is deleted (CONC-41).
pub async fn commit(table: &Table, change: Change) -> Result<Committed> {
    change.check()?;
    change.check_version(table.metadata().format_version())?;
    let mut job = Job {
        uuid: uuid::Uuid::new_v4().to_string(),
        snapshot_id: new_snapshot_id(table.metadata()),
        attempt: 0,
        manifest_count: 0,
        written: Vec::new(),
    };
    let mut retry = Retry::of(table)?;
    loop {
        match job.attempt(table, &change).await {
            Ok(done) => {
                job.clean_unused(&done, table).await;
                return Ok(Committed { table: done.table, snapshot_id: done.snapshot_id });
            }
            Err(e) if e.kind() == ErrorKind::CommitFailed && retry.again().await => {
                tracing::debug!("commit to {} lost the race, trying again: {e}", table.ident());
            }
            Err(e) if e.kind() == ErrorKind::CommitUnknown => return Err(e),
            Err(e) => {
                job.clean_all(table).await;
                return Err(e);
            }
        }
    }
}

/// A positive snapshot id that is not in use: a random UUID folded to 63 bits (META-13).
pub(crate) fn new_snapshot_id(metadata: &TableMetadata) -> i64 {
    loop {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        let id = ((high ^ low) & i64::MAX as u64) as i64;
        if id != 0 && metadata.snapshot_by_id(id).is_none() {
            return id;
        }
    }
}

struct Job {
    uuid: String,
    snapshot_id: i64,
    attempt: u32,
    manifest_count: u32,
    /// Files of all attempts.
    written: Vec<String>,
}

struct Done {
    table: Table,
    snapshot_id: i64,
    /// Manifests and list that the committed snapshot uses.
    used: Vec<String>,
}

impl Job {
    async fn attempt(&mut self, table: &Table, change: &Change) -> Result<Done> {
        self.attempt += 1;
        let base = table.refresh().await?;
        let metadata = base.metadata().clone();
        if change.validation.makes(Rule::VersionOnAttempt) {
            change.check_version(metadata.format_version())?;
        }
        check_branch(&metadata, &change.branch)?;
        // a branch that does not exist starts at main (META-33)
        let on_branch = metadata.snapshot_for_ref(&change.branch);
        let head = on_branch.or_else(|| metadata.current_snapshot()).cloned();
        if let Some(head) = &head {
            let wanted = validate::needs(change);
            let start = change.validation.from_snapshot;
            if wanted.data || wanted.deletes || start.is_some() {
                let since = match history::ancestors_between(&metadata, Some(head.snapshot_id()), start) {
                    Err(_) if !change.validation.makes(Rule::KnownHistory) => Vec::new(),
                    since => since?,
                };
                let history = history::load(&base, &since, wanted).await?;
                let read = start.and_then(|s| metadata.snapshot_by_id(s));
                let read_row_ids = read.is_none_or(|s| s.row_range().is_some());
                validate::validate(change, metadata.format_version(), read_row_ids, &history)?;
            }
        }
        let parent = match &head {
            Some(head) => load_manifest_list(base.io(), head).await?,
            None => Vec::new(),
        };
        let context = Context { table: &base, change, snapshot_id: self.snapshot_id, parent };
        let mut applied = context.apply().await?;
        if change.producer == Producer::RewriteManifests
            && !applied.manifests.iter().any(|m| matches!(m, Manifest::New(_)))
        {
            let head =
                head.ok_or_else(|| Error::invalid("the table has no snapshot, so no manifests").at(base.ident()))?;
            return Ok(Done { snapshot_id: head.snapshot_id(), table: base, used: Vec::new() });
        }
        let manifests = self.store(&base, &mut applied).await?;
        let target = ListTarget {
            version: metadata.format_version(),
            snapshot_id: self.snapshot_id,
            parent_snapshot_id: head.as_ref().map(|h| h.snapshot_id()),
            sequence_number: metadata.next_sequence_number(),
            first_row_id: first_row_id(&metadata)?,
        };
        let (bytes, listed, next_row_id) = write_manifest_list(&target, &manifests)?;
        let list = format!("{}/snap-{}-{}-{}.avro", base.metadata_folder(), self.snapshot_id, self.attempt, self.uuid);
        self.written.push(list.clone());
        base.io().write_new(&list, bytes).await?;

        let previous = on_branch.map(|s| &s.summary().additional_properties);
        let summary = summary(change, applied.summary, previous);
        let snapshot = snapshot(&metadata, &target, &list, summary, next_row_id);
        let next = swap(&base, snapshot, &change.branch).await?;
        let mut used: Vec<String> = listed.into_iter().map(|m| m.manifest_path).collect();
        used.push(list);
        Ok(Done { table: next, snapshot_id: self.snapshot_id, used })
    }

    /// Gives the new manifests their paths and stores them, a few at a time.
    async fn store(&mut self, base: &Table, applied: &mut Applied) -> Result<Vec<ManifestFile>> {
        let folder = base.metadata_folder();
        let mut out = Vec::with_capacity(applied.manifests.len());
        let mut puts: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for m in &applied.manifests {
            match m {
                Manifest::Old(f) => out.push(f.clone()),
                Manifest::New(d) => {
                    let path = format!("{folder}/{}-m{}.avro", self.uuid, self.manifest_count);
                    self.manifest_count += 1;
                    self.written.push(path.clone());
                    out.push(ManifestFile { manifest_path: path.clone(), ..d.file.clone() });
                    let (io, bytes) = (base.io(), d.bytes.clone());
                    puts.push(async move { io.write_new(&path, bytes).await }.boxed());
                }
            }
        }
        futures::stream::iter(puts).buffer_unordered(4).try_collect::<Vec<()>>().await?;
        Ok(out)
    }

    async fn clean_unused(&self, done: &Done, table: &Table) {
        let unused: Vec<&String> = self.written.iter().filter(|w| !done.used.contains(w)).collect();
        delete(table, unused).await;
    }

    async fn clean_all(&self, table: &Table) {
        delete(table, self.written.iter().collect()).await;
    }
}

/// Deletes files of failed attempts; what cannot be deleted is an orphan, not an error.
async fn delete(table: &Table, files: Vec<&String>) {
    for f in files {
        if let Err(e) = table.io().delete(f).await {
            tracing::warn!("could not delete an uncommitted file: {e}");
        }
    }
}

/// A tag takes no commits (META-33).
fn check_branch(metadata: &Metadata, branch: &str) -> Result<()> {
    if branch == MAIN_BRANCH || metadata.snapshot_for_ref(branch).is_none() {
        return Ok(());
    }
    // the model gives no access to a ref's kind; its JSON does
    let json = serde_json::to_value(&metadata.inner)
        .map_err(|e| Error::internal(format!("metadata does not serialise: {e}")))?;
    if json["refs"][branch]["type"] == "tag" {
        return Err(Error::invalid(format!(
            "{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots"
        ))
        .clause("META-33"));
    }
    Ok(())
}

/// First row id of the next snapshot: the table's counter, exactly (META-6).
fn first_row_id(metadata: &TableMetadata) -> Result<Option<i64>> {
    if metadata.format_version() < iceberg::spec::FormatVersion::V3 {
        return Ok(None);
    }
    i64::try_from(metadata.next_row_id()).map(Some).map_err(|_| {
        Error::malformed(format!("next-row-id {} does not fit a long", metadata.next_row_id())).clause("META-F24")
    })
}

fn summary(
    change: &Change,
    counted: Vec<(String, String)>,
    previous: Option<&HashMap<String, String>>,
) -> SnapshotSummary {
    let mut map: HashMap<String, String> = change.summary.iter().cloned().collect();
    map.remove("operation");
    if change.producer == Producer::ReplacePartitions {
        map.insert("replace-partitions".into(), "true".into());
    }
    map.extend(counted);
    add_totals(previous, &mut map);
    map.insert("engine-name".into(), "floe".into());
    map.insert("engine-version".into(), env!("CARGO_PKG_VERSION").into());
    let operation: Operation = change.operation();
    SnapshotSummary { operation, additional_properties: map }
}

fn snapshot(
    metadata: &TableMetadata,
    target: &ListTarget,
    list: &str,
    summary: SnapshotSummary,
    next_row_id: Option<i64>,
) -> Snapshot {
    // a clock that went backwards must neither break the commit nor the order of the log (META-7)
    let now = chrono::Utc::now().timestamp_millis();
    let logged = metadata.history().last().map_or(0, |l| l.timestamp_ms);
    let builder = Snapshot::builder()
        .with_snapshot_id(target.snapshot_id)
        .with_parent_snapshot_id(target.parent_snapshot_id)
        .with_sequence_number(target.sequence_number)
        .with_timestamp_ms(now.max(metadata.last_updated_ms()).max(logged))
        .with_manifest_list(list)
        .with_summary(summary)
        .with_schema_id(metadata.current_schema_id());
    match (target.first_row_id, next_row_id) {
        (Some(first), Some(next)) => builder.with_row_range(first as u64, (next - first) as u64).build(),
        _ => builder.build(),
    }
}

/// Puts the snapshot into new metadata and asks the catalog to make it current.
async fn swap(base: &Table, snapshot: Snapshot, branch: &str) -> Result<Table> {
    let metadata = base.metadata();
    let head = metadata.snapshot_for_ref(branch).map(|s| s.snapshot_id());
    let built = metadata
        .inner
        .clone()
        .into_builder(Some(base.metadata_location().to_string()))
        .set_branch_snapshot(snapshot, branch)?
        .build()?;
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch { r#ref: branch.to_string(), snapshot_id: head },
    ];
    let next = Metadata { inner: built.metadata, ext: metadata.ext.clone() };
    submit(base, next, built.changes, requirements).await
}

/// Hands a new version to the catalog. An I/O or internal error of the catalog leaves the outcome open (CONC-41).
pub(crate) async fn submit(
    base: &Table,
    metadata: Metadata,
    updates: Vec<TableUpdate>,
    requirements: Vec<TableRequirement>,
) -> Result<Table> {
    let commit = TableCommit { base: base.clone(), metadata, updates, requirements };
    base.catalog().clone().commit_table(commit).await.map_err(|e| match e.kind() {
        ErrorKind::Io | ErrorKind::Internal => {
            Error::new(ErrorKind::CommitUnknown, format!("the catalog failed during the commit: {}", e.message()))
                .at(base.ident())
                .clause("CONC-41")
                .with_source(e)
        }
        _ => e,
    })
}
