//! Expiry of snapshots (META-R03..R05, PROP-28): the metadata first, then the files that no snapshot reaches any more.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{MAIN_BRANCH, SnapshotRef, SnapshotReference, SnapshotRetention};

use super::reach::{Reachable, reachable};
use super::{Location, delete_files, require_gc};
use crate::commit::update_metadata_seeing;
use crate::manifest::Content;
use crate::table::Metadata;
use crate::{Error, Result, Table};

/// Options of [`expire_snapshots`]; what is not given comes from the table's `history.expire.*` properties.
#[derive(Debug, Clone, Default)]
pub struct ExpireOptions {
    /// Snapshots older than this go, milliseconds since the epoch.
    pub older_than_ms: Option<i64>,
    /// Snapshots that every branch keeps, its head included, whatever their age.
    pub retain_last: Option<i64>,
    /// Snapshots that go whatever their age.
    pub snapshot_ids: Vec<i64>,
}

/// What [`expire_snapshots`] did: numbers of files that were deleted.
#[derive(Debug, Clone)]
pub struct Expired {
    /// The table after it.
    pub table: Table,
    /// Snapshots that are gone.
    pub snapshots: Vec<i64>,
    /// Data files.
    pub data_files: i64,
    /// Position-delete files and Puffin files.
    pub position_delete_files: i64,
    /// Equality-delete files.
    pub equality_delete_files: i64,
    /// Manifests.
    pub manifests: i64,
    /// Manifest lists.
    pub manifest_lists: i64,
    /// Statistics files.
    pub statistics_files: i64,
}

/// What goes from one version of the metadata.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Plan {
    refs: BTreeSet<String>,
    snapshots: BTreeSet<i64>,
}

/// Removes expired snapshots and refs, then deletes what only they reached. A file is deleted only if no retained
/// snapshot reaches it: a Puffin file stays while one vector in it is live.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a table whose `gc.enabled` is false, a snapshot id that is unknown or that a
/// ref holds, and `retain_last` below 1; all before anything is written.
pub async fn expire_snapshots(table: &Table, options: &ExpireOptions) -> Result<Expired> {
    let base = table.refresh().await?;
    require_gc(&base, "expire snapshots")?;
    let now = chrono::Utc::now().timestamp_millis();
    let planned = plan(base.metadata(), options, now).map_err(|e| e.at(base.ident()))?;
    // whatever can't be read is found before anything changes
    let mut found = files(&base, base.metadata(), &planned.snapshots).await?;

    let mut last = (planned.clone(), base.metadata().as_ref().clone());
    let next = update_metadata_seeing(
        &base,
        |metadata, mut builder, _| {
            let plan = plan(metadata, options, now)?;
            for name in &plan.refs {
                builder = builder.remove_ref(name);
            }
            for id in &plan.snapshots {
                if metadata.statistics_for_snapshot(*id).is_some() {
                    builder = builder.remove_statistics(*id);
                }
                if metadata.partition_statistics_for_snapshot(*id).is_some() {
                    builder = builder.remove_partition_statistics(*id);
                }
            }
            let ids: Vec<i64> = plan.snapshots.iter().copied().collect();
            last = (plan, metadata.clone());
            Ok(builder.remove_snapshots(&ids))
        },
        Vec::new(),
    )
    .await?;
    let (done, old) = last;
    let ids = |m: &Metadata| -> BTreeSet<i64> { m.snapshots().map(|s| s.snapshot_id()).collect() };
    if done != planned || ids(&old) != ids(base.metadata()) {
        // concurrent commits came between: what they reach counts
        found = files(&next, &old, &done.snapshots).await?;
    }
    delete(next, done, &old, found).await
}

/// Files that expired snapshots of `metadata` reach and retained ones do not. `table` reads them.
async fn files(table: &Table, metadata: &Metadata, expired: &BTreeSet<i64>) -> Result<Reachable> {
    if expired.is_empty() {
        return Ok(Reachable::default());
    }
    let (gone, kept): (Vec<&SnapshotRef>, Vec<&SnapshotRef>) =
        metadata.snapshots().partition(|s| expired.contains(&s.snapshot_id()));
    let kept = reachable(table, kept, |_| false).await?;
    let mut gone = reachable(table, gone, |m| kept.manifests.contains_key(m)).await?;
    gone.manifest_lists.retain(|l, _| !kept.manifest_lists.contains_key(l));
    gone.content.retain(|f, _| !kept.content.contains_key(f));
    Ok(gone)
}

async fn delete(next: Table, plan: Plan, old: &Metadata, found: Reachable) -> Result<Expired> {
    let statistics = |m: &Metadata| -> BTreeMap<Location, String> {
        let table = m.statistics_iter().map(|s| &s.statistics_path);
        let partitions = m.partition_statistics_iter().map(|s| &s.statistics_path);
        table.chain(partitions).map(|p| (Location::of(p), p.clone())).collect()
    };
    let mut gone_statistics = statistics(old);
    let kept = statistics(next.metadata());
    gone_statistics.retain(|l, _| !kept.contains_key(l));

    let by_kind = |kind: Content| {
        let files: Vec<String> = found.content.values().filter(|(_, c)| *c == kind).map(|(p, _)| p.clone()).collect();
        files
    };
    // from the leaves up: what a failure leaves behind can still be found from the manifests
    let data_files = delete_files(&next, by_kind(Content::Data)).await.len() as i64;
    let position_delete_files = delete_files(&next, by_kind(Content::PositionDeletes)).await.len() as i64;
    let equality_delete_files = delete_files(&next, by_kind(Content::EqualityDeletes)).await.len() as i64;
    let manifests: Vec<String> = found.manifests.into_values().map(|m| m.manifest_path).collect();
    let manifests = delete_files(&next, manifests).await.len() as i64;
    let manifest_lists = delete_files(&next, found.manifest_lists.into_values()).await.len() as i64;
    let statistics_files = delete_files(&next, gone_statistics.into_values()).await.len() as i64;
    Ok(Expired {
        snapshots: plan.snapshots.into_iter().collect(),
        data_files,
        position_delete_files,
        equality_delete_files,
        manifests,
        manifest_lists,
        statistics_files,
        table: next,
    })
}

fn property(metadata: &Metadata, key: &str, default: i64) -> Result<i64> {
    match metadata.properties().get(key) {
        None => Ok(default),
        Some(v) => v.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            Error::invalid(format!("property {key} is {v:?}; a positive integer is allowed")).clause("PROP-28")
        }),
    }
}

/// What expires of one version of the metadata at a time.
fn plan(metadata: &Metadata, options: &ExpireOptions, now: i64) -> Result<Plan> {
    let age = property(metadata, "history.expire.max-snapshot-age-ms", 432_000_000)?;
    let least = property(metadata, "history.expire.min-snapshots-to-keep", 1)?;
    let ref_age = property(metadata, "history.expire.max-ref-age-ms", i64::MAX)?;
    let older_than = options.older_than_ms.unwrap_or(now.saturating_sub(age));
    let least = options.retain_last.unwrap_or(least);
    if least < 1 {
        return Err(Error::invalid(format!("Number of snapshots to retain must be at least 1, cannot be: {least}")));
    }
    let mut plan = Plan::default();
    let mut kept: BTreeMap<String, SnapshotReference> = BTreeMap::new();
    for (name, r) in metadata.refs()? {
        let age = match &r.retention {
            SnapshotRetention::Branch { max_ref_age_ms, .. } | SnapshotRetention::Tag { max_ref_age_ms } => {
                max_ref_age_ms.unwrap_or(ref_age)
            }
        };
        let fresh = metadata.snapshot_by_id(r.snapshot_id).is_some_and(|s| now.saturating_sub(s.timestamp_ms()) <= age);
        // main never expires (META-R05)
        if name == MAIN_BRANCH || fresh {
            kept.insert(name, r);
        } else {
            plan.refs.insert(name);
        }
    }
    for id in &options.snapshot_ids {
        let holders: Vec<&str> = kept.iter().filter(|(_, r)| r.snapshot_id == *id).map(|(n, _)| n.as_str()).collect();
        if !holders.is_empty() {
            return Err(Error::invalid(format!(
                "Cannot expire {id}. Still referenced by refs: [{}]",
                holders.join(", ")
            )));
        }
    }
    let mut retained: BTreeSet<i64> = BTreeSet::new();
    let mut referenced: BTreeSet<i64> = BTreeSet::new();
    for r in kept.values() {
        retained.insert(r.snapshot_id);
        referenced.insert(r.snapshot_id);
        let SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, .. } = &r.retention else {
            continue;
        };
        let older_than = max_snapshot_age_ms.map_or(older_than, |age| now.saturating_sub(age));
        let least = min_snapshots_to_keep.map_or(least, i64::from);
        let mut keeps = true;
        for (n, s) in ancestors(metadata, r.snapshot_id).into_iter().enumerate() {
            keeps = keeps && ((n as i64) < least || s.timestamp_ms() >= older_than);
            if keeps {
                retained.insert(s.snapshot_id());
            }
            referenced.insert(s.snapshot_id());
        }
    }
    for s in metadata.snapshots() {
        let id = s.snapshot_id();
        // staged snapshots, and those of refs that moved away, go by age alone
        let young = !referenced.contains(&id) && s.timestamp_ms() >= older_than;
        if options.snapshot_ids.contains(&id) || !(retained.contains(&id) || young) {
            plan.snapshots.insert(id);
        }
    }
    Ok(plan)
}

/// A snapshot and its ancestors, newest first.
fn ancestors(metadata: &Metadata, head: i64) -> Vec<&SnapshotRef> {
    let mut out: Vec<&SnapshotRef> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = Some(head);
    while let Some(s) = at.and_then(|id| metadata.snapshot_by_id(id)) {
        if !seen.insert(s.snapshot_id()) {
            break;
        }
        at = s.parent_snapshot_id();
        out.push(s);
    }
    out
}
