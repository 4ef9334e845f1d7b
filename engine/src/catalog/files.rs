//! Metadata files: their names, reading and writing them, and building the first one of a table.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use iceberg::TableCreation;
use iceberg::spec::TableMetadataBuilder;
use uuid::Uuid;

use super::{NewTable, TableCommit};
use crate::io::FileIo;
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result};

/// Largest metadata file that is unpacked, in bytes: a small gzip file can unpack to any size.
const MAX_METADATA_BYTES: u64 = 1 << 30;

/// Property names that steer a statement and are never stored (META-10).
pub const RESERVED_PROPERTIES: [&str; 9] = [
    "format-version",
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

/// Metadata that was parsed last, by the bytes it was parsed from.
static PARSED: Mutex<VecDeque<(Bytes, Arc<Metadata>)>> = Mutex::new(VecDeque::new());
/// How many are kept.
const KEPT: usize = 4;
/// Larger files are parsed each time.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Reads and parses a metadata file, gzip or plain (told by its first bytes, since names vary: FS-3). The file is read each time, since a
/// name may come again with other content; equal bytes are not parsed again, which a statement on a table of many snapshots lives from.
pub async fn read_metadata(io: &FileIo, location: &str) -> Result<Metadata> {
    let bytes = io.read(location).await?;
    let kept = PARSED.lock().ok().and_then(|p| p.iter().find(|(b, _)| *b == bytes).map(|(_, m)| m.clone()));
    if let Some(m) = kept {
        return Ok((*m).clone());
    }
    let json = unpack(bytes.clone()).map_err(|e| e.at(location))?;
    let metadata = Metadata::from_json(&json).map_err(|e| e.at(location))?;
    if json.len() <= MAX_KEPT_BYTES
        && let Ok(mut parsed) = PARSED.lock()
    {
        parsed.truncate(KEPT - 1);
        parsed.push_front((bytes, Arc::new(metadata.clone())));
    }
    Ok(metadata)
}

fn unpack(bytes: Bytes) -> Result<Bytes> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_ref())
        .take(MAX_METADATA_BYTES + 1)
        .read_to_end(&mut out)
        .map_err(|e| Error::malformed(format!("gzip of a metadata file is broken: {e}")).clause("FS-3"))?;
    if out.len() as u64 > MAX_METADATA_BYTES {
        return Err(Error::malformed(format!("metadata file unpacks to more than {MAX_METADATA_BYTES} bytes")));
    }
    Ok(out.into())
}

/// Bytes of a metadata file, packed if `gzip`.
pub fn encode_metadata(metadata: &Metadata, gzip: bool) -> Result<Bytes> {
    let json = metadata.to_json()?;
    if !gzip {
        return Ok(json.into());
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&json)?;
    Ok(encoder.finish()?.into())
}

/// Whether `write.metadata.compression-codec` asks for gzip (PROP-18).
pub fn wants_gzip(properties: &HashMap<String, String>) -> Result<bool> {
    match properties.get("write.metadata.compression-codec").map(|c| c.to_ascii_lowercase()).as_deref() {
        None | Some("none" | "") => Ok(false),
        Some("gzip") => Ok(true),
        Some(other) => {
            Err(Error::invalid(format!("write.metadata.compression-codec is {other:?}; allowed: none, gzip"))
                .clause("PROP-18"))
        }
    }
}

/// Folder of a table's metadata files (LOC-2).
pub fn metadata_folder(metadata: &Metadata) -> String {
    match metadata.properties().get("write.metadata.path") {
        Some(p) => p.trim_end_matches('/').to_string(),
        None => format!("{}/metadata", metadata.location().trim_end_matches('/')),
    }
}

/// A fresh name of a metastore table's metadata file: `%05d-<uuid>[.gz].metadata.json` (FS-10, FS-11).
pub fn next_metastore_location(metadata: &Metadata, base_location: Option<&str>) -> Result<String> {
    let version = base_location.map_or(0, |l| metastore_version(l) + 1);
    let gz = if wants_gzip(metadata.properties())? { ".gz" } else { "" };
    Ok(format!("{}/{version:05}-{}{gz}.metadata.json", metadata_folder(metadata), Uuid::new_v4()))
}

/// Version of a metastore metadata file by its name, −1 if it has none (FS-11).
fn metastore_version(location: &str) -> i64 {
    let name = location.rsplit('/').next().unwrap_or(location);
    name.split_once('-').and_then(|(v, _)| v.parse().ok()).filter(|v| *v >= 0).unwrap_or(-1)
}

/// Writes a metadata file under a name nobody else uses.
pub async fn write_metadata(io: &FileIo, location: &str, metadata: &Metadata) -> Result<()> {
    let bytes = encode_metadata(metadata, wants_gzip(metadata.properties())?)?;
    if let Some((folder, _)) = location.rsplit_once('/') {
        io.create_folder(folder).await?;
    }
    io.commit_new(location, bytes).await
}

/// Metadata of a new table at `location`, with the catalog's `table-default.*` and `table-override.*` properties (CAT-7)
/// and zstd as the stored Parquet codec when none is asked for (META-9).
pub fn first_metadata(table: &NewTable, location: &str, catalog_props: &HashMap<String, String>) -> Result<Metadata> {
    let mut properties = HashMap::from([("write.parquet.compression-codec".to_string(), "zstd".to_string())]);
    properties.extend(with_prefix(catalog_props, "table-default."));
    properties.extend(table.properties.clone());
    properties.extend(with_prefix(catalog_props, "table-override."));
    refuse_reserved(&properties)?;
    wants_gzip(&properties)?;
    let creation = TableCreation::builder()
        .name(table.ident.name().to_string())
        .location(location.trim_end_matches('/').to_string())
        .schema(table.schema.clone())
        .partition_spec_opt(table.partition_spec.clone())
        .sort_order_opt(table.sort_order.clone())
        .properties(properties)
        .format_version(table.format_version)
        .build();
    let built = TableMetadataBuilder::from_table_creation(creation)
        .and_then(TableMetadataBuilder::build)
        .map_err(|e| Error::invalid(e.message().to_string()).at(&table.ident).with_source(e))?;
    let ext = reassigned_ext(table, built.metadata.current_schema());
    Ok(Metadata { inner: built.metadata, ext })
}

/// The builder gives fresh field ids; extended types follow their columns by name.
fn reassigned_ext(table: &NewTable, schema: &iceberg::spec::Schema) -> ExtTypes {
    let moved = table.ext.0.iter().filter_map(|(id, ext)| {
        let name = table.schema.name_by_field_id(*id)?;
        Some((schema.field_id_by_name(name)?, ext.clone()))
    });
    ExtTypes(moved.collect())
}

/// Refuses property names that are never stored (META-10).
pub fn refuse_reserved(properties: &HashMap<String, String>) -> Result<()> {
    let mut found: Vec<&str> =
        properties.keys().map(String::as_str).filter(|k| RESERVED_PROPERTIES.contains(k)).collect();
    found.sort_unstable();
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("reserved property names cannot be stored: {}", found.join(", "))).clause("META-10"))
}

fn with_prefix<'a>(props: &'a HashMap<String, String>, prefix: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    props.iter().filter_map(move |(k, v)| Some((k.strip_prefix(prefix)?.to_string(), v.clone())))
}

/// What every catalog checks before it writes a new version: the same table (META-F02), no downgrade, a change from the
/// base that the requirements allow.
pub fn check_commit(commit: &TableCommit) -> Result<()> {
    let ident = commit.base.ident();
    let base = commit.base.metadata();
    for requirement in &commit.requirements {
        requirement.check(Some(&base.inner)).map_err(|e| {
            Error::new(ErrorKind::CommitFailed, e.message().to_string()).at(ident).clause("REST-50").with_source(e)
        })?;
    }
    if commit.metadata.uuid() != base.uuid() {
        return Err(Error::invalid(format!(
            "a commit cannot change the table's UUID: it is {} and would become {}",
            base.uuid(),
            commit.metadata.uuid()
        ))
        .at(ident)
        .clause("META-F02"));
    }
    if commit.metadata.format_version() < base.format_version() {
        return Err(Error::invalid(format!(
            "format version {} cannot be lowered to {}",
            base.format_version(),
            commit.metadata.format_version()
        ))
        .at(ident)
        .clause("META-8"));
    }
    wants_gzip(commit.metadata.properties())?;
    Ok(())
}

/// After a commit: deletes metadata files that fell out of the log, if the table asks for it (PROP-19). Best effort, the
/// commit has happened.
pub async fn delete_expired_metadata(io: &FileIo, commit: &TableCommit) {
    let wanted = commit.metadata.properties().get("write.metadata.delete-after-commit.enabled");
    if !wanted.is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return;
    }
    let kept: HashSet<&str> = commit.metadata.metadata_log().iter().map(|l| l.metadata_file.as_str()).collect();
    for old in commit.base.metadata().metadata_log() {
        if !kept.contains(old.metadata_file.as_str())
            && let Err(e) = io.delete(&old.metadata_file).await
        {
            tracing::warn!("cannot delete old metadata file: {e}");
        }
    }
}
