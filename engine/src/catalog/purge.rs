//! Which files belong to a table and go when it is purged: data and delete files, manifests, manifest lists, statistics
//! and metadata files that any listed snapshot names.

use std::collections::BTreeSet;

use apache_avro::types::Value;
use futures::StreamExt;
use iceberg::TableIdent;

use super::files::read_metadata;
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result};

/// Files deleted at the same time.
const PARALLEL_DELETES: usize = 16;

/// Files that go with a table that is dropped: all of them with `purge`, else none.
pub async fn dropped_files(io: &FileIo, ident: &TableIdent, location: &str, purge: bool) -> Result<BTreeSet<String>> {
    if !purge {
        return Ok(BTreeSet::new());
    }
    let metadata = read_metadata(io, location).await?;
    table_files(io, &metadata, location).await.map_err(|e| e.at(ident))
}

/// Locations of all files of a table whose current metadata file is `metadata_location`. Fails before anything is deleted
/// when a manifest cannot be read, and refuses a table whose `gc.enabled` is false (PROP-29).
pub async fn table_files(io: &FileIo, metadata: &Metadata, metadata_location: &str) -> Result<BTreeSet<String>> {
    if metadata.properties().get("gc.enabled").is_some_and(|v| v.eq_ignore_ascii_case("false")) {
        return Err(Error::invalid(
            "gc.enabled is false: purging may delete files that other tables use; drop without purge",
        )
        .clause("PROP-29"));
    }
    let mut files = BTreeSet::from([metadata_location.to_string()]);
    files.extend(metadata.metadata_log().iter().map(|l| l.metadata_file.clone()));
    files.extend(metadata.statistics_iter().map(|s| s.statistics_path.clone()));
    files.extend(metadata.partition_statistics_iter().map(|s| s.statistics_path.clone()));
    let mut manifests = BTreeSet::new();
    for snapshot in metadata.snapshots() {
        let list = snapshot.manifest_list();
        if list.is_empty() {
            continue;
        }
        for record in avro_records(io, list).await? {
            manifests.insert(text(&record, &["manifest_path"], list)?);
        }
        files.insert(list.to_string());
    }
    for manifest in manifests {
        for record in avro_records(io, &manifest).await? {
            files.insert(text(&record, &["data_file", "file_path"], &manifest)?);
        }
        files.insert(manifest);
    }
    Ok(files)
}

/// Deletes files, a bounded number at a time; the first failure is returned after all were tried.
pub async fn delete_files(io: &FileIo, files: BTreeSet<String>) -> Result<()> {
    let results: Vec<Result<()>> = futures::stream::iter(files)
        .map(|file| async move { io.delete(&file).await })
        .buffer_unordered(PARALLEL_DELETES)
        .collect()
        .await;
    results.into_iter().collect()
}

/// Records of an Avro file; none of one that is gone: what it named can no longer be found, and the purge goes on.
async fn avro_records(io: &FileIo, location: &str) -> Result<Vec<Value>> {
    let bytes = match io.read(location).await {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            tracing::warn!("purge: {location} is gone, files that only it names stay behind");
            return Ok(Vec::new());
        }
        other => other?,
    };
    let broken = |e: apache_avro::Error| Error::malformed(format!("not a readable Avro file: {e}")).at(location);
    apache_avro::Reader::new(bytes.as_ref()).map_err(broken)?.collect::<Result<_, _>>().map_err(broken)
}

/// The string at a path of record fields.
fn text(record: &Value, path: &[&str], location: &str) -> Result<String> {
    let mut current = record;
    for name in path {
        let Value::Record(fields) = current else {
            break;
        };
        match fields.iter().find(|(n, _)| n == name) {
            Some((_, value)) => current = value,
            None => break,
        }
    }
    match current {
        Value::String(s) => Ok(s.clone()),
        _ => Err(Error::malformed(format!("record has no string {:?}", path.join("."))).at(location)),
    }
}
