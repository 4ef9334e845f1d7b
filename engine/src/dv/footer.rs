//! Reading a Puffin file's footer, with full validation (PUFFIN-1..10, DV-27, DV-28).

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use super::codec::{MAX_BLOB_LEN, MIN_BLOB_LEN};
use super::puffin::{BlobMetadata, CARDINALITY, FOOTER_FRAME, PUFFIN_MAGIC, REFERENCED_DATA_FILE};
use super::vector::DeletionVector;
use crate::io::FileIo;
use crate::{Error, Result};

/// Bytes read from the end of a file at first; a footer of a few hundred blobs is in there.
const TAIL: u64 = 64 * 1024;
/// Payload size, flags, magic: what a file ends with (PUFFIN-8).
const TRAILER: u64 = 12;
/// Smallest file: a magic and a footer without payload.
const MIN_FILE: u64 = 4 + FOOTER_FRAME;

/// A Puffin file, as its footer describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuffinFile {
    /// File properties (PUFFIN-5).
    pub properties: BTreeMap<String, String>,
    /// Blobs, in the footer's order (PUFFIN-10).
    pub blobs: Vec<BlobMetadata>,
    /// Bytes of the whole file.
    pub file_size: u64,
    /// First byte of the footer: its leading magic.
    pub footer_offset: u64,
}

#[derive(Deserialize)]
struct FileJson {
    blobs: Vec<BlobJson>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BlobJson {
    r#type: String,
    fields: Vec<i32>,
    snapshot_id: i64,
    sequence_number: i64,
    offset: i64,
    length: i64,
    #[serde(default)]
    compression_codec: Option<String>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// A fault at byte `at` of a file.
fn fault(file: &str, at: u64, clause: &'static str, message: impl std::fmt::Display) -> Error {
    Error::malformed(format!("Puffin: {message}")).at(format!("{file} byte {at}")).clause(clause)
}

/// Reads and validates the footer of a whole file; `file` names it in errors.
pub fn read_footer(file: &str, bytes: &[u8]) -> Result<PuffinFile> {
    check_size(file, bytes.len() as u64)?;
    check_magic(file, "file", &bytes[..4], 0)?;
    let size = bytes.len() as u64;
    let payload = payload_size(file, size, &bytes[bytes.len() - TRAILER as usize..])?;
    parse_footer(file, size, &bytes[bytes.len() - (payload + FOOTER_FRAME) as usize..])
}

/// Reads and validates the footer of a file in two requests, or three if the footer is large; blobs are not read.
pub async fn read_footer_of(io: &FileIo, path: &str) -> Result<PuffinFile> {
    let size = io.size(path).await?.ok_or_else(|| Error::not_found("no such Puffin file").at(path))?;
    check_size(path, size)?;
    let mut tail = io.read_range(path, size - size.min(TAIL)..size).await?;
    let head = if size <= TAIL { tail.slice(..4) } else { io.read_range(path, 0..4).await? };
    check_magic(path, "file", &head, 0)?;
    let footer = payload_size(path, size, &tail[tail.len() - TRAILER as usize..])? + FOOTER_FRAME;
    if footer > tail.len() as u64 {
        tail = io.read_range(path, size - footer..size).await?;
    }
    parse_footer(path, size, &tail[tail.len() - footer as usize..])
}

fn check_size(file: &str, size: u64) -> Result<()> {
    if size < MIN_FILE {
        return Err(fault(file, 0, "PUFFIN-1", format!("{size} bytes; a file has at least {MIN_FILE}")));
    }
    Ok(())
}

fn check_magic(file: &str, what: &str, found: &[u8], at: u64) -> Result<()> {
    if found != PUFFIN_MAGIC {
        return Err(fault(file, at, "PUFFIN-1", format!("{what} magic {found:02x?}, expected {PUFFIN_MAGIC:02x?}")));
    }
    Ok(())
}

/// Checks the last bytes of a file of `size` bytes and returns the length of the footer's payload, which fits the file.
fn payload_size(file: &str, size: u64, trailer: &[u8]) -> Result<u64> {
    let word = |i: usize| [trailer[i], trailer[i + 1], trailer[i + 2], trailer[i + 3]];
    check_magic(file, "trailing", &word(8), size - 4)?;
    let flags = u32::from_le_bytes(word(4));
    if flags & !1 != 0 {
        return Err(fault(
            file,
            size - 8,
            "PUFFIN-3",
            format!("footer flags {flags:#010x}; all bits but the lowest are reserved and 0"),
        ));
    }
    let stored = i32::from_le_bytes(word(0));
    let most = size - MIN_FILE;
    match u64::try_from(stored) {
        Ok(payload) if payload <= most => {}
        _ => {
            return Err(fault(
                file,
                size - TRAILER,
                "PUFFIN-2",
                format!("footer payload of {stored} bytes; 0 to {most} fit a file of {size} bytes"),
            ));
        }
    }
    if flags & 1 != 0 {
        return Err(Error::unsupported("Puffin: the footer is LZ4-compressed; only plain footers are read")
            .at(format!("{file} byte {}", size - 8))
            .clause("PUFFIN-9"));
    }
    Ok(stored as u64)
}

/// `footer` is the whole footer, from its leading magic on.
fn parse_footer(file: &str, file_size: u64, footer: &[u8]) -> Result<PuffinFile> {
    let footer_offset = file_size - footer.len() as u64;
    check_magic(file, "footer", &footer[..4], footer_offset)?;
    let payload = &footer[4..footer.len() - TRAILER as usize];
    let json: FileJson = serde_json::from_slice(payload)
        .map_err(|e| fault(file, footer_offset + 4, "PUFFIN-5", format!("footer payload: {e}")).with_source(e))?;
    let blobs = json.blobs.into_iter().map(|b| BlobMetadata {
        blob_type: b.r#type,
        fields: b.fields,
        snapshot_id: b.snapshot_id,
        sequence_number: b.sequence_number,
        offset: b.offset,
        length: b.length,
        compression_codec: b.compression_codec,
        properties: b.properties,
    });
    let puffin = PuffinFile { properties: json.properties, blobs: blobs.collect(), file_size, footer_offset };
    for (i, blob) in puffin.blobs.iter().enumerate() {
        let bad = |clause, message: String| Err(fault(file, footer_offset + 4, clause, format!("blob {i}: {message}")));
        let end = blob.offset.checked_add(blob.length);
        if blob.offset < 4 || blob.length < 0 || end.is_none_or(|e| e as u64 > footer_offset) {
            return bad(
                "PUFFIN-6",
                format!(
                    "offset {}, length {}; blobs lie between byte 4 and the footer at {footer_offset}",
                    blob.offset, blob.length
                ),
            );
        }
        if let Some(codec) = &blob.compression_codec {
            if blob.is_dv() {
                return bad(
                    "DV-27",
                    format!("a deletion vector with compression codec {codec:?}; it is never compressed"),
                );
            }
            if codec != "lz4" && codec != "zstd" {
                return bad("PUFFIN-7", format!("compression codec {codec:?}; allowed: lz4, zstd"));
            }
        }
        if blob.is_dv() {
            if !(MIN_BLOB_LEN..=MAX_BLOB_LEN).contains(&(blob.length as u64)) {
                return bad(
                    "DV-24",
                    format!("a deletion vector of {} bytes; {MIN_BLOB_LEN} to {MAX_BLOB_LEN}", blob.length),
                );
            }
            if blob.referenced_data_file().is_none_or(str::is_empty) {
                return bad("DV-27", format!("a deletion vector without property {REFERENCED_DATA_FILE}"));
            }
            if blob.cardinality().is_none() {
                let found = blob.properties.get(CARDINALITY);
                return bad("DV-27", format!("property {CARDINALITY} {found:?}; a decimal number is required"));
            }
            if (blob.snapshot_id, blob.sequence_number) != (-1, -1) {
                return bad(
                    "DV-28",
                    format!("snapshot-id {}, sequence-number {}; both are -1", blob.snapshot_id, blob.sequence_number),
                );
            }
        }
    }
    Ok(puffin)
}

impl PuffinFile {
    /// The blob at exactly this offset and length.
    pub fn blob_at(&self, offset: i64, length: i64) -> Option<&BlobMetadata> {
        self.blobs.iter().find(|b| (b.offset, b.length) == (offset, length))
    }

    /// Decodes a deletion vector of the footer out of the whole file's bytes and checks its cardinality property (DV-27).
    pub fn decode_dv(&self, file: &str, bytes: &Bytes, blob: &BlobMetadata) -> Result<DeletionVector> {
        let range = usize::try_from(blob.offset).ok().zip(usize::try_from(blob.length).ok());
        let stored = range
            .and_then(|(o, l)| bytes.get(o..o.checked_add(l)?))
            .ok_or_else(|| fault(file, self.footer_offset, "PUFFIN-6", "the blob lies outside the file"))?;
        let dv = DeletionVector::decode_in(stored, file, blob.offset as u64)?;
        if blob.cardinality().is_some_and(|c| c != dv.len()) {
            let (found, expected) = (dv.len(), blob.properties.get(CARDINALITY));
            return Err(fault(
                file,
                blob.offset as u64,
                "DV-27",
                format!("{found} positions in a deletion vector whose property {CARDINALITY} is {expected:?}"),
            ));
        }
        Ok(dv)
    }
}
