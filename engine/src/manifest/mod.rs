//! Manifests and manifest lists: the model of an entry, and the Avro codecs (MAN-*, ML-*, SEQ-*, FRID-*).

mod avro;
mod by_id;
mod container;
mod list;
mod load;
mod read;
mod values;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use iceberg::spec::Struct;

pub use by_id::ById;
pub use list::{ListTarget, read_manifest_list, write_manifest_list};
pub(crate) use load::load_live;
pub use load::{live_entries, load_manifest, load_manifest_list, load_manifests};
pub use read::{Columns, read_manifest, read_manifest_with};
pub use values::partition_type;
pub(crate) use values::{may_hold, primitive_types};
pub use write::{ManifestTarget, UNASSIGNED_SEQUENCE, write_manifest};

/// Content of a file (MAN-*): the numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Content {
    /// Rows of the table.
    Data = 0,
    /// Position deletes: a Parquet/Avro/ORC file (V2) or a deletion vector (V3).
    PositionDeletes = 1,
    /// Equality deletes.
    EqualityDeletes = 2,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Parquet.
    Parquet,
    /// Avro.
    Avro,
    /// ORC.
    Orc,
    /// Puffin; as a delete file this means a deletion vector (DEL-6).
    Puffin,
}

impl FileFormat {
    /// Upper-case name, as Java writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parquet => "PARQUET",
            Self::Avro => "AVRO",
            Self::Orc => "ORC",
            Self::Puffin => "PUFFIN",
        }
    }
}

/// Column metrics of a file, by field id; bounds in single-value binary form (BIN-*).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Bytes.
    pub column_sizes: ById<i64>,
    /// Values, nulls and NaNs included.
    pub value_counts: ById<i64>,
    /// Nulls.
    pub null_value_counts: ById<i64>,
    /// NaNs.
    pub nan_value_counts: ById<i64>,
    /// Lower bounds.
    pub lower_bounds: ById<Vec<u8>>,
    /// Upper bounds.
    pub upper_bounds: ById<Vec<u8>>,
}

/// A data file, position-delete file, equality-delete file or deletion vector, as a manifest describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// What it holds.
    pub content: Content,
    /// Full location.
    pub path: Arc<str>,
    /// Format.
    pub format: FileFormat,
    /// Partition spec of `partition`; from the manifest's metadata, not stored in the entry.
    pub spec_id: i32,
    /// Partition tuple, in the spec's field order.
    pub partition: Arc<Struct>,
    /// Rows; for a deletion vector its cardinality (DV-7).
    pub record_count: i64,
    /// Length of the whole file in bytes, also for a deletion vector (DV-7).
    pub file_size: i64,
    /// Column metrics; `None` when the entry has none.
    pub metrics: Option<Box<Metrics>>,
    /// Encryption key metadata.
    pub key_metadata: Option<Vec<u8>>,
    /// Row-group offsets.
    pub split_offsets: Option<Vec<i64>>,
    /// Equality field ids of an equality-delete file.
    pub equality_ids: Option<Vec<i32>>,
    /// Sort order.
    pub sort_order_id: Option<i32>,
    /// First row id: data files only; after reading, inheritance is applied (FRID-2, FRID-8).
    pub first_row_id: Option<i64>,
    /// The only data file that this delete file refers to (DV-6).
    pub referenced_data_file: Option<Arc<str>>,
    /// Offset of a deletion vector's blob.
    pub content_offset: Option<i64>,
    /// Length of a deletion vector's blob.
    pub content_size: Option<i64>,
}

/// Identity of a content file: many deletion vectors share one Puffin path (DV-5, SUMMARY-42).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Location, normalised.
    pub path: Arc<str>,
    /// Blob offset of a deletion vector.
    pub offset: Option<i64>,
    /// Blob length of a deletion vector.
    pub size: Option<i64>,
}

impl DataFile {
    /// A file with what every entry must have, and none of what is optional. `file_size` in bytes.
    pub fn new(
        content: Content,
        format: FileFormat,
        path: impl Into<Arc<str>>,
        spec_id: i32,
        partition: Arc<Struct>,
        record_count: i64,
        file_size: i64,
    ) -> Self {
        Self {
            content,
            path: path.into(),
            format,
            spec_id,
            partition,
            record_count,
            file_size,
            metrics: None,
            key_metadata: None,
            split_offsets: None,
            equality_ids: None,
            sort_order_id: None,
            first_row_id: None,
            referenced_data_file: None,
            content_offset: None,
            content_size: None,
        }
    }

    /// Whether this is a deletion vector: the format alone decides (DEL-6).
    pub fn is_dv(&self) -> bool {
        self.content != Content::Data && self.format == FileFormat::Puffin
    }

    /// Identity.
    pub fn key(&self) -> FileKey {
        FileKey { path: self.path.clone(), offset: self.content_offset, size: self.content_size }
    }

    /// Bytes that a summary counts: a deletion vector's blob, else the file (SUMMARY-41).
    pub fn summary_size(&self) -> i64 {
        if self.is_dv() { self.content_size.unwrap_or(self.file_size) } else { self.file_size }
    }
}

/// Status of an entry; the numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// Carried over.
    Existing = 0,
    /// Added by the entry's snapshot.
    Added = 1,
    /// Removed by the entry's snapshot.
    Deleted = 2,
}

/// An entry of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestEntry {
    /// Status.
    pub status: Status,
    /// Snapshot that added or removed the file; read back with inheritance (SEQ-5).
    pub snapshot_id: Option<i64>,
    /// Data sequence number; read back with inheritance (SEQ-1).
    pub sequence_number: Option<i64>,
    /// File sequence number; read back with inheritance.
    pub file_sequence_number: Option<i64>,
    /// The file.
    pub file: DataFile,
}

impl ManifestEntry {
    /// Whether the file is part of the snapshot.
    pub fn is_live(&self) -> bool {
        self.status != Status::Deleted
    }
}
