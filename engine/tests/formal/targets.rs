//! What hostile bytes are given to: one function a reader. The fuzz crate and the tests share this file.

use std::sync::OnceLock;

use floe_engine::cdc::config::{PipelineConfig, parse_managed_read, parse_managed_write};
use floe_engine::dv::{DeletionVector, describe, read_footer};
use floe_engine::manifest::{read_manifest, read_manifest_list};
use floe_engine::sql::parser::{parse, parse_expression, parse_name};
use floe_engine::types::metadata_from_json;
use iceberg::spec::{ManifestContentType, ManifestFile, NestedField, PrimitiveType, StructType, Type};

/// A reader of bytes that someone else wrote.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 7] = [
    ("dv", dv),
    ("puffin", puffin),
    ("metadata", metadata),
    ("manifest", manifest),
    ("manifest_list", manifest_list),
    ("sql", sql),
    ("config", config),
];

/// A deletion-vector blob, and a bare vector; what is accepted is one set and encodes to itself.
pub fn dv(data: &[u8]) {
    let _ = describe(data);
    for read in [DeletionVector::decode(data), DeletionVector::decode_vector(data)] {
        if let Ok(set) = read
            && set.len() < 1 << 20
        {
            let again = DeletionVector::decode(&set.encode().expect("a set that was read can be written"));
            assert!(again.is_ok_and(|a| a == set), "a vector is not read as it was written");
        }
    }
}

/// A Puffin file: its footer, and the vectors that the footer names.
pub fn puffin(data: &[u8]) {
    let Ok(file) = read_footer("fuzz.puffin", data) else { return };
    let bytes = bytes::Bytes::copy_from_slice(data);
    for blob in file.blobs.iter().take(16) {
        let _ = file.decode_dv("fuzz.puffin", &bytes, blob);
    }
}

/// Table metadata, plain or packed; what is accepted can be written and read again.
pub fn metadata(data: &[u8]) {
    if let Ok(m) = metadata_from_json(data) {
        let json = m.to_json().expect("metadata that were read can be written");
        metadata_from_json(&json).expect("metadata that were written can be read");
    }
}

/// A partition type of one int, as the corpus has it.
pub fn partition() -> &'static StructType {
    static TYPE: OnceLock<StructType> = OnceLock::new();
    TYPE.get_or_init(|| {
        StructType::new(vec![NestedField::optional(1000, "p", Type::Primitive(PrimitiveType::Int)).into()])
    })
}

/// An entry of a manifest list for a manifest of unknown content.
fn listed(content: ManifestContentType) -> ManifestFile {
    ManifestFile {
        manifest_path: "fuzz.avro".into(),
        manifest_length: 0,
        partition_spec_id: 0,
        content,
        sequence_number: 3,
        min_sequence_number: 1,
        added_snapshot_id: 7,
        // counts that a hostile list could claim
        added_files_count: Some(u32::MAX),
        existing_files_count: Some(u32::MAX),
        deleted_files_count: Some(0),
        added_rows_count: Some(1),
        existing_rows_count: Some(0),
        deleted_rows_count: Some(0),
        partitions: None,
        key_metadata: None,
        first_row_id: Some(5),
    }
}

/// A manifest, read as data and as deletes.
pub fn manifest(data: &[u8]) {
    for content in [ManifestContentType::Data, ManifestContentType::Deletes] {
        let _ = read_manifest(data, &listed(content), partition());
    }
}

/// A manifest list.
pub fn manifest_list(data: &[u8]) {
    let _ = read_manifest_list(data, "fuzz.avro");
}

/// SQL text: a statement, an expression, a name.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = parse(text);
    let _ = parse_expression(text);
    let _ = parse_name(text);
}

/// Configuration files.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = PipelineConfig::parse(text, "fuzz");
    let _ = parse_managed_read(text, "fuzz");
    let _ = parse_managed_write(text, "fuzz");
}
