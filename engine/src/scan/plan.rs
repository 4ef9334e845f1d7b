//! Scan planning: which data files a scan reads, and the deletes that apply to each (SCAN-*).

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use iceberg::spec::{ManifestContentType, ManifestFile, SnapshotRef};

use crate::deletes::{DeleteIndex, Deletes};
use crate::expr::FilePruner;
use crate::manifest::{ManifestEntry, load_live, load_manifest_list};
use crate::table::Metadata;
use crate::{Error, Result, Table};

/// How many manifests are read at a time.
const MANIFEST_CONCURRENCY: usize = 8;
/// How many files one worker looks the deletes up for.
const LOOK_UPS: usize = 20_000;

/// A data file with its deletes.
#[derive(Debug, Clone)]
pub struct FileTask {
    /// The live manifest entry, inheritance applied.
    pub entry: Arc<ManifestEntry>,
    /// Deletes that apply to it.
    pub deletes: Deletes,
}

/// Data files of a snapshot that may hold selected rows, and the index of all live deletes near them.
#[derive(Debug)]
pub struct Planned {
    /// Files to read, in manifest order.
    pub tasks: Vec<FileTask>,
    /// The deletes; manifests whose partitions the filter excludes were not read.
    pub index: Arc<DeleteIndex>,
}

impl Planned {
    /// What reading all of it takes, in bytes: see [`work`].
    pub fn work(&self) -> i64 {
        self.tasks.iter().map(|t| work(t.entry.file.file_size, t.entry.file.record_count)).fold(0, i64::saturating_add)
    }
}

/// Bytes that stand for the work of reading so many rows that are stored in so many: rows that compress well are still decoded one by one,
/// in at least some eight bytes each.
pub(super) fn work(bytes: i64, rows: i64) -> i64 {
    bytes.max(rows.saturating_mul(8))
}

/// The snapshot of an id, or an error that names it.
pub fn snapshot(metadata: &Metadata, id: i64) -> Result<SnapshotRef> {
    metadata.snapshot_by_id(id).cloned().ok_or_else(|| {
        Error::not_found(format!("snapshot {id} is not in the table's metadata (expired or never there)"))
    })
}

/// Plans a scan of a snapshot; `None` = a table without snapshots.
pub async fn plan(table: &Table, snapshot_id: Option<i64>, pruner: &FilePruner) -> Result<Planned> {
    let Some(id) = snapshot_id else {
        return Ok(Planned { tasks: Vec::new(), index: Arc::default() });
    };
    let snapshot = snapshot(table.metadata(), id).map_err(|e| e.at(table.ident()))?;
    let manifests = load_manifest_list(table.io(), &snapshot).await?;
    let (data, deletes): (Vec<_>, Vec<_>) = manifests
        .into_iter()
        .filter(|m| has_live_files(m) && pruner.may_match_manifest(m))
        .partition(|m| m.content == ManifestContentType::Data);
    let (data, deletes) = futures::try_join!(
        read_live(table, data, |e| pruner.may_match(&e.file)),
        read_live(table, deletes, |e| pruner.may_match_partition(&e.file)),
    )?;
    let index = Arc::new(DeleteIndex::build(deletes, table.metadata())?);
    Ok(Planned { tasks: look_up(data, &index).await?, index })
}

/// The deletes of each file; those of very many files are looked up on all cores.
async fn look_up(data: Vec<Arc<ManifestEntry>>, index: &Arc<DeleteIndex>) -> Result<Vec<FileTask>> {
    let of = |index: &DeleteIndex, entry: Arc<ManifestEntry>| Ok(FileTask { deletes: index.for_file(&entry)?, entry });
    if data.len() <= LOOK_UPS {
        return data.into_iter().map(|e| of(index, e)).collect();
    }
    let mut tasks = Vec::with_capacity(data.len());
    let mut parts = stream::iter(data.chunks(LOOK_UPS).map(<[_]>::to_vec).collect::<Vec<_>>())
        .map(|part| {
            let index = index.clone();
            tokio::task::spawn_blocking(move || part.into_iter().map(|e| of(&index, e)).collect::<Result<Vec<_>>>())
        })
        .buffered(MANIFEST_CONCURRENCY);
    while let Some(part) = parts.next().await {
        tasks.extend(part.map_err(|e| Error::internal(format!("looking deletes up stopped: {e}")))??);
    }
    Ok(tasks)
}

/// A manifest whose counts say that it holds nothing live is skipped (SCAN-11); unknown counts are read.
fn has_live_files(m: &ManifestFile) -> bool {
    m.added_files_count != Some(0) || m.existing_files_count != Some(0)
}

/// Live entries of manifests that `keep`s accepts, in manifest order. Lineage is assigned by the reader before this filter (FRID-9).
pub(crate) async fn read_live(
    table: &Table,
    manifests: Vec<ManifestFile>,
    keep: impl Fn(&ManifestEntry) -> bool,
) -> Result<Vec<Arc<ManifestEntry>>> {
    let per_manifest: Vec<Vec<Arc<ManifestEntry>>> = stream::iter(manifests)
        .map(|m| {
            let (io, metadata) = (table.io().clone(), table.metadata().clone());
            // decoding is CPU work: a task each lets manifests decode on all cores
            async move {
                tokio::spawn(async move { load_live(&io, &m, &metadata).await })
                    .await
                    .map_err(|e| Error::internal(format!("manifest reader: {e}")))?
            }
        })
        .buffered(MANIFEST_CONCURRENCY)
        .try_collect()
        .await?;
    Ok(per_manifest.into_iter().flatten().filter(|e| keep(e)).collect())
}
