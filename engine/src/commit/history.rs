//! The walk through the snapshots that were committed since an operation read the table (CONC-1).

use iceberg::spec::{ManifestContentType, SnapshotRef, TableMetadata};

use super::validate::{Concurrent, Needs};
use crate::manifest::{load_manifest_list, load_manifests};
use crate::{Error, Result, Table};

/// Snapshots from `head` (inclusive, newest first) back to `start` (exclusive; `None` = the whole history).
///
/// Fails when the walk ends without meeting `start`: the snapshot was expired, or is not an ancestor (CONC-7, CONC-10).
pub(crate) fn ancestors_between(
    metadata: &TableMetadata,
    head: Option<i64>,
    start: Option<i64>,
) -> Result<Vec<SnapshotRef>> {
    let mut out = Vec::new();
    let mut at = head;
    while let Some(id) = at {
        if Some(id) == start {
            return Ok(out);
        }
        let Some(snapshot) = metadata.snapshot_by_id(id) else {
            break;
        };
        at = snapshot.parent_snapshot_id();
        out.push(snapshot.clone());
        if out.len() > metadata.snapshots().len() {
            return Err(Error::malformed("snapshot parents form a cycle").clause("META-S02"));
        }
    }
    let whole = start.is_none() && at.is_none();
    if whole {
        return Ok(out);
    }
    let last = out.last().map_or_else(|| "none".to_string(), |s| s.snapshot_id().to_string());
    Err(Error::conflict(format!(
        "Cannot determine history between starting snapshot {} and the last known ancestor {last}",
        start.map_or_else(|| "null".to_string(), |s| s.to_string())
    ))
    .clause("CONC-7"))
}

/// Loads what the snapshots did, as far as `needs` says.
pub(crate) async fn load(table: &Table, snapshots: &[SnapshotRef], needs: Needs) -> Result<Vec<Concurrent>> {
    let mut out = Vec::with_capacity(snapshots.len());
    for snapshot in snapshots {
        let id = snapshot.snapshot_id();
        let mut own = Concurrent {
            snapshot_id: id,
            operation: snapshot.summary().operation.clone(),
            row_ids: snapshot.row_range().is_some(),
            data: Vec::new(),
            deletes: Vec::new(),
        };
        if needs.data || needs.deletes {
            let mut manifests = load_manifest_list(table.io(), snapshot).await?;
            manifests.retain(|m| {
                m.added_snapshot_id == id
                    && match m.content {
                        ManifestContentType::Data => needs.data,
                        ManifestContentType::Deletes => needs.deletes,
                    }
            });
            let loaded = load_manifests(table.io(), &manifests, table.metadata()).await?;
            for (m, entries) in manifests.iter().zip(loaded) {
                let to = if m.content == ManifestContentType::Data { &mut own.data } else { &mut own.deletes };
                to.extend(entries.into_iter().filter(|e| e.snapshot_id == Some(id)));
            }
        }
        out.push(own);
    }
    Ok(out)
}
