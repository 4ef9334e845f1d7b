//! Loading manifest lists and manifests of a table.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use iceberg::spec::{ManifestContentType, ManifestFile, Snapshot};

use super::ManifestEntry;
use super::list::read_manifest_list;
use super::read::{Columns, expected, read_manifest, read_manifest_with};
use super::values::partition_type;
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, Result, Table};

/// Manifests that are fetched at a time.
const CONCURRENCY: usize = 8;

/// The manifests of a snapshot, in list order.
pub async fn load_manifest_list(io: &FileIo, snapshot: &Snapshot) -> Result<Vec<ManifestFile>> {
    let location = snapshot.manifest_list();
    if location.is_empty() {
        return Err(Error::unsupported(format!(
            "snapshot {} lists its manifests in the metadata (V1 without a manifest list)",
            snapshot.snapshot_id()
        ))
        .clause("META-S06"));
    }
    read_manifest_list(&io.read(location).await?, location)
}

/// All entries of a manifest, DELETED ones included, with inheritance applied.
pub async fn load_manifest(io: &FileIo, file: &ManifestFile, metadata: &Metadata) -> Result<Vec<ManifestEntry>> {
    let partition = partition_type(metadata, file.partition_spec_id).map_err(|e| e.at(&file.manifest_path))?;
    let bytes = fetch(io, file).await?;
    // decoding is plain computation: it runs on a worker so that several manifests decode at once
    let file = file.clone();
    tokio::task::spawn_blocking(move || read_manifest(&bytes, &file, &partition))
        .await
        .map_err(|e| Error::internal(format!("reading a manifest stopped: {e}")))?
}

/// Live entries of a manifest, with inheritance applied.
pub(crate) async fn load_live(
    io: &FileIo,
    file: &ManifestFile,
    metadata: &Metadata,
) -> Result<Vec<Arc<ManifestEntry>>> {
    let partition = partition_type(metadata, file.partition_spec_id).map_err(|e| e.at(&file.manifest_path))?;
    let bytes = fetch(io, file).await?;
    let file = file.clone();
    let read = move || {
        let mut out = Vec::with_capacity(expected(&file, &bytes));
        read_manifest_with(&bytes, &file, &partition, Columns::All, |e| {
            if e.is_live() {
                out.push(Arc::new(e));
            }
            Ok(())
        })?;
        Ok(out)
    };
    tokio::task::spawn_blocking(read).await.map_err(|e| Error::internal(format!("reading a manifest stopped: {e}")))?
}

async fn fetch(io: &FileIo, file: &ManifestFile) -> Result<bytes::Bytes> {
    if file.key_metadata.is_some() {
        return Err(Error::unsupported("encrypted manifests").at(&file.manifest_path).clause("ML-15"));
    }
    io.read(&file.manifest_path).await
}

/// Entries of several manifests, fetched concurrently (bounded), in the order of `files`.
pub async fn load_manifests(
    io: &FileIo,
    files: &[ManifestFile],
    metadata: &Arc<Metadata>,
) -> Result<Vec<Vec<ManifestEntry>>> {
    // boxed one by one: a closure over references inside a stream would make callers' futures not Send
    let mut loads: Vec<BoxFuture<'_, Result<Vec<ManifestEntry>>>> = Vec::with_capacity(files.len());
    for f in files {
        loads.push(load_manifest(io, f, metadata).boxed());
    }
    futures::stream::iter(loads).buffered(CONCURRENCY).try_collect().await
}

/// Live entries of a snapshot: data files, then delete files, each in manifest order.
pub async fn live_entries(table: &Table, snapshot_id: i64) -> Result<(Vec<ManifestEntry>, Vec<ManifestEntry>)> {
    let metadata = table.metadata();
    let snapshot = metadata
        .snapshot_by_id(snapshot_id)
        .ok_or_else(|| Error::not_found(format!("snapshot {snapshot_id}")).at(table.ident()))?;
    let manifests: Vec<_> = load_manifest_list(table.io(), snapshot)
        .await?
        .into_iter()
        .filter(|m| m.has_added_files() || m.has_existing_files())
        .collect();
    let loaded = load_manifests(table.io(), &manifests, metadata).await?;
    let (mut data, mut deletes) = (Vec::new(), Vec::new());
    for (m, entries) in manifests.iter().zip(loaded) {
        let to = if m.content == ManifestContentType::Data { &mut data } else { &mut deletes };
        to.extend(entries.into_iter().filter(ManifestEntry::is_live));
    }
    Ok((data, deletes))
}
