//! Puffin files (PUFFIN-*): the model, and the writer. Reading is in [`super::footer`].

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::codec::check_blob_len;
use super::vector::DeletionVector;
use crate::{Error, Result};

/// Magic of a Puffin file: at its start, before the footer's payload, and at its end (PUFFIN-1, PUFFIN-2).
pub const PUFFIN_MAGIC: [u8; 4] = *b"PFA1";
/// Type of a deletion vector's blob (PUFFIN-21).
pub const DV_BLOB_TYPE: &str = "deletion-vector-v1";
/// Property of a deletion vector's blob: location of the data file (DV-27).
pub const REFERENCED_DATA_FILE: &str = "referenced-data-file";
/// Property of a deletion vector's blob: number of positions, decimal (DV-27).
pub const CARDINALITY: &str = "cardinality";
/// Field id of `_pos`, which Java gives as the field of a deletion vector (DV-29).
pub const POS_FIELD_ID: i32 = 2147483645;

/// Largest position that Java's reader takes (DV-32, TRAP-22); written vectors stay below.
const JAVA_MAX_POSITION: u64 = 0x7FFF_FFFE_8000_0000;
/// Footer bytes besides the payload: two magics, payload size, flags (PUFFIN-2).
pub(super) const FOOTER_FRAME: u64 = 16;

/// One blob as the footer describes it (PUFFIN-6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobMetadata {
    /// Type.
    pub blob_type: String,
    /// Field ids it was made from, in order; not checked against a schema (PUFFIN-22).
    pub fields: Vec<i32>,
    /// Snapshot, or −1 (DV-28).
    pub snapshot_id: i64,
    /// Sequence number, or −1 (DV-28).
    pub sequence_number: i64,
    /// First byte in the file.
    pub offset: i64,
    /// Bytes as stored.
    pub length: i64,
    /// `lz4` or `zstd`; `None` when stored plain (PUFFIN-7).
    pub compression_codec: Option<String>,
    /// Properties.
    pub properties: BTreeMap<String, String>,
}

impl BlobMetadata {
    /// Whether it is a deletion vector (PUFFIN-21).
    pub fn is_dv(&self) -> bool {
        self.blob_type == DV_BLOB_TYPE
    }

    /// Data file that a deletion vector is of (DV-27).
    pub fn referenced_data_file(&self) -> Option<&str> {
        self.properties.get(REFERENCED_DATA_FILE).map(String::as_str)
    }

    /// Cardinality property, if it is there and a decimal number (DV-27).
    pub fn cardinality(&self) -> Option<u64> {
        self.properties.get(CARDINALITY)?.parse().ok()
    }

    /// The footer's JSON object, keys in Java's order (PUFFIN-9).
    fn to_json(&self) -> Value {
        let mut o = Map::new();
        o.insert("type".into(), json!(self.blob_type));
        o.insert("fields".into(), json!(self.fields));
        o.insert("snapshot-id".into(), json!(self.snapshot_id));
        o.insert("sequence-number".into(), json!(self.sequence_number));
        o.insert("offset".into(), json!(self.offset));
        o.insert("length".into(), json!(self.length));
        if let Some(codec) = &self.compression_codec {
            o.insert("compression-codec".into(), json!(codec));
        }
        if !self.properties.is_empty() {
            // As Java writes them: the file first, then the cardinality.
            let rank = |k: &str| (k != REFERENCED_DATA_FILE, k != CARDINALITY);
            let mut properties: Vec<_> = self.properties.iter().collect();
            properties.sort_by_key(|(k, _)| rank(k));
            o.insert("properties".into(), string_map(properties));
        }
        Value::Object(o)
    }
}

fn string_map<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    Value::Object(pairs.into_iter().map(|(k, v)| (k.clone(), json!(v))).collect())
}

/// Where a deletion vector was put: the three numbers that its manifest entry repeats (DV-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobLocation {
    /// `content_offset`.
    pub offset: i64,
    /// `content_size_in_bytes`.
    pub length: i64,
    /// `record_count`.
    pub cardinality: i64,
}

/// Builds a Puffin file in memory. Blobs follow each other from byte 4 on, uncompressed (PUFFIN-9).
///
/// A file without blobs is legal Puffin, but an engine never leaves one behind: ask [`PuffinWriter::is_empty`] first.
#[derive(Debug)]
pub struct PuffinWriter {
    bytes: Vec<u8>,
    blobs: Vec<BlobMetadata>,
    properties: Vec<(String, String)>,
}

impl Default for PuffinWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl PuffinWriter {
    /// A file whose property `created-by` names this build (PUFFIN-5).
    pub fn new() -> Self {
        Self::with_properties([("created-by".to_string(), format!("floe {}", env!("CARGO_PKG_VERSION")))])
    }

    /// A file with just these file properties, in this order; a repeated key keeps its place and takes the last value.
    pub fn with_properties(properties: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { bytes: PUFFIN_MAGIC.to_vec(), blobs: Vec::new(), properties: properties.into_iter().collect() }
    }

    /// Adds a deletion vector of `referenced_data_file` (DV-27..29). Refused, and nothing is added: an empty vector (DV-16),
    /// an empty location (DV-6), a second vector of one data file (DV-2), a position or a blob too large for Java (DV-32).
    pub fn add_dv(&mut self, dv: &DeletionVector, referenced_data_file: &str) -> Result<BlobLocation> {
        let refuse = |clause, message: String| Err(Error::invalid(message).at(referenced_data_file).clause(clause));
        let cardinality = dv.len();
        let Some(max) = dv.max() else {
            return refuse("DV-16", "an empty deletion vector is not written".into());
        };
        if referenced_data_file.is_empty() {
            return refuse("DV-6", "a deletion vector names its data file; the location is empty".into());
        }
        if self.blobs.iter().any(|b| b.referenced_data_file() == Some(referenced_data_file)) {
            return refuse("DV-2", "a second deletion vector for one data file; merge them first".into());
        }
        if max > JAVA_MAX_POSITION {
            return refuse("DV-32", format!("position {max}; readers take at most {JAVA_MAX_POSITION}"));
        }
        let blob = dv.encode().map_err(|e| e.at(referenced_data_file))?;
        let metadata = self.add_blob(
            BlobMetadata {
                blob_type: DV_BLOB_TYPE.into(),
                fields: vec![POS_FIELD_ID],
                snapshot_id: -1,
                sequence_number: -1,
                properties: BTreeMap::from([
                    (REFERENCED_DATA_FILE.into(), referenced_data_file.into()),
                    (CARDINALITY.into(), cardinality.to_string()),
                ]),
                ..Default::default()
            },
            &blob,
        )?;
        // A blob is below 2 GiB and holds less than 2^63 positions.
        Ok(BlobLocation { offset: metadata.offset, length: metadata.length, cardinality: cardinality as i64 })
    }

    /// Adds a blob as it is; offset and length of `metadata` are set here. `bytes` are stored as given: if `compression_codec`
    /// is set they are already compressed. Refused: a compressed deletion vector (DV-27).
    pub fn add_blob(&mut self, mut metadata: BlobMetadata, bytes: &[u8]) -> Result<&BlobMetadata> {
        if metadata.is_dv() && metadata.compression_codec.is_some() {
            return Err(Error::invalid("a deletion vector is never compressed").clause("DV-27"));
        }
        check_blob_len(bytes.len() as u64)?;
        metadata.offset = self.bytes.len() as i64;
        metadata.length = bytes.len() as i64;
        self.bytes.extend_from_slice(bytes);
        self.blobs.push(metadata);
        Ok(&self.blobs[self.blobs.len() - 1])
    }

    /// Whether no blob was added.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Blobs so far.
    pub fn blobs(&self) -> &[BlobMetadata] {
        &self.blobs
    }

    /// The whole file. An error if the footer does not fit its 4-byte length (PUFFIN-2).
    pub fn finish(mut self) -> Result<Bytes> {
        let mut footer = Map::new();
        footer.insert("blobs".into(), self.blobs.iter().map(BlobMetadata::to_json).collect());
        if !self.properties.is_empty() {
            footer.insert("properties".into(), string_map(self.properties.iter().map(|(k, v)| (k, v))));
        }
        let payload = Value::Object(footer).to_string();
        let size = i32::try_from(payload.len()).map_err(|_| {
            Error::unsupported(format!("a Puffin footer of {} bytes; at most {}", payload.len(), i32::MAX))
                .clause("PUFFIN-2")
        })?;
        self.bytes.extend_from_slice(&PUFFIN_MAGIC);
        self.bytes.extend_from_slice(payload.as_bytes());
        self.bytes.extend_from_slice(&size.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&PUFFIN_MAGIC);
        Ok(self.bytes.into())
    }
}
