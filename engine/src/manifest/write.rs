//! Writing a manifest (V2, V3) as Iceberg Java lays it out (MAN-2, MAN-3, MAN-16, MAN-23).

use std::collections::HashSet;

use bytes::Bytes;
use iceberg::spec::{
    FieldSummary, FormatVersion, ManifestContentType, ManifestFile, PartitionSpec, PrimitiveType, StructType,
};
use serde_json::{Value, json};

use super::container::{Codec, Writer, put_bytes, put_long, put_opt, put_str};
use super::values::{Summariser, avro_type, field, partition_type, primitive_types, put_value};
use super::{ById, Content, DataFile, ManifestEntry, Status};
use crate::table::Metadata;
use crate::types::schema_to_json;
use crate::{Error, Result};

/// What a manifest is written for.
#[derive(Debug, Clone)]
pub struct ManifestTarget {
    version: FormatVersion,
    content: ManifestContentType,
    spec_id: i32,
    partition: StructType,
    types: Vec<PrimitiveType>,
    header: Vec<(&'static str, String)>,
    codec: Codec,
}

impl ManifestTarget {
    /// A manifest of `content` for files of spec `spec_id`, in the format version and codec that the table asks for.
    pub fn new(metadata: &Metadata, spec_id: i32, content: ManifestContentType) -> Result<Self> {
        let version = metadata.format_version();
        if version == FormatVersion::V1 {
            return Err(Error::unsupported("manifests are written for format versions 2 and 3, the table has 1")
                .clause("META-F01"));
        }
        let spec = metadata
            .partition_spec_by_id(spec_id)
            .ok_or_else(|| Error::invalid(format!("the table has no partition spec {spec_id}")).clause("MAN-D04"))?;
        let partition = partition_type(metadata, spec_id)?;
        let codec = metadata.properties().get("write.manifest.compression-codec").map_or("gzip", String::as_str);
        Ok(Self {
            version,
            content,
            spec_id,
            types: primitive_types(&partition)?,
            partition,
            header: header(metadata, spec, version, content)?,
            codec: Codec::from_property(codec)?,
        })
    }
}

fn header(
    metadata: &Metadata,
    spec: &PartitionSpec,
    version: FormatVersion,
    content: ManifestContentType,
) -> Result<Vec<(&'static str, String)>> {
    let schema = metadata.current_schema();
    // true types, not the surrogates of the model: others read this header (TYPE-*)
    let schema_json = schema_to_json(schema, &metadata.ext)?.to_string();
    let fields =
        serde_json::to_string(spec.fields()).map_err(|e| Error::internal(format!("partition spec to JSON: {e}")))?;
    Ok(vec![
        ("schema", schema_json),
        ("schema-id", schema.schema_id().to_string()),
        ("partition-spec", fields),
        ("partition-spec-id", spec.spec_id().to_string()),
        ("format-version", (version as i32).to_string()),
        ("content", content.to_string()),
    ])
}

fn opt(name: &str, ty: Value, id: i32) -> Value {
    json!({"name": name, "type": ["null", ty], "default": null, "field-id": id})
}

fn req(name: &str, ty: Value, id: i32) -> Value {
    json!({"name": name, "type": ty, "field-id": id})
}

fn map_of(value: &str, key_id: i32) -> Value {
    let value_id = key_id + 1;
    json!({"type": "array", "logicalType": "map", "items": {
        "type": "record", "name": format!("k{key_id}_v{value_id}"),
        "fields": [req("key", json!("int"), key_id), req("value", json!(value), value_id)],
    }})
}

fn list_of(item: &str, id: i32) -> Value {
    json!({"type": "array", "items": item, "element-id": id})
}

/// A name that Avro accepts; Java's escapes: `_` before a leading digit, `_x` and the code point in upper-case hex.
fn avro_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        match c {
            'a'..='z' | 'A'..='Z' | '_' => out.push(c),
            '0'..='9' if i > 0 => out.push(c),
            '0'..='9' => {
                out.push('_');
                out.push(c);
            }
            other => out.push_str(&format!("_x{:X}", other as u32)),
        }
    }
    out
}

fn entry_schema(target: &ManifestTarget) -> Value {
    let mut seen = HashSet::new();
    let partition: Vec<Value> = target
        .partition
        .fields()
        .iter()
        .zip(&target.types)
        .map(|(f, ty)| {
            let name = avro_name(&f.name);
            let mut field = opt(&name, avro_type(ty, &mut seen), f.id);
            if name != f.name {
                field["iceberg-field-name"] = json!(f.name);
            }
            field
        })
        .collect();
    let mut fields = vec![
        req("content", json!("int"), 134),
        req("file_path", json!("string"), 100),
        req("file_format", json!("string"), 101),
        req("partition", json!({"type": "record", "name": "r102", "fields": partition}), 102),
        req("record_count", json!("long"), 103),
        req("file_size_in_bytes", json!("long"), 104),
        opt("column_sizes", map_of("long", 117), 108),
        opt("value_counts", map_of("long", 119), 109),
        opt("null_value_counts", map_of("long", 121), 110),
        opt("nan_value_counts", map_of("long", 138), 137),
        opt("lower_bounds", map_of("bytes", 126), 125),
        opt("upper_bounds", map_of("bytes", 129), 128),
        opt("key_metadata", json!("bytes"), 131),
        opt("split_offsets", list_of("long", 133), 132),
        opt("equality_ids", list_of("int", 136), 135),
        opt("sort_order_id", json!("int"), 140),
    ];
    if target.version >= FormatVersion::V3 {
        fields.push(opt("first_row_id", json!("long"), 142));
    }
    fields.push(opt("referenced_data_file", json!("string"), 143));
    if target.version >= FormatVersion::V3 {
        fields.push(opt("content_offset", json!("long"), 144));
        fields.push(opt("content_size_in_bytes", json!("long"), 145));
    }
    json!({"type": "record", "name": "manifest_entry", "fields": [
        req("status", json!("int"), 0),
        opt("snapshot_id", json!("long"), 1),
        opt("sequence_number", json!("long"), 3),
        opt("file_sequence_number", json!("long"), 4),
        req("data_file", json!({"type": "record", "name": "r2", "fields": fields}), 2),
    ]})
}

/// Number that stands for "the commit's" in a manifest written before its commit is numbered (SEQ-4).
pub const UNASSIGNED_SEQUENCE: i64 = -1;

/// Encodes a manifest and describes it for the manifest list.
///
/// The description has the sequence number [`UNASSIGNED_SEQUENCE`] and, when no live entry has an explicit data
/// sequence number, that minimum as well; no first row id (FRID-4). Entries keep what they carry: an ADDED entry
/// with null numbers inherits (SEQ-1); EXISTING and DELETED ones without numbers are refused (MAN-12).
pub fn write_manifest(
    target: &ManifestTarget,
    path: &str,
    snapshot_id: i64,
    entries: &[ManifestEntry],
) -> Result<(Bytes, ManifestFile)> {
    let mut w = Writer::new(&entry_schema(target), &target.header, target.codec);
    let mut summaries: Vec<Summariser> = target.types.iter().map(Summariser::new).collect();
    let (mut files, mut rows) = ([0u32; 3], [0u64; 3]);
    let mut min_sequence: Option<i64> = None;
    for e in entries {
        let wrong = |m: String, id| Error::internal(m).at(format!("entry {} of {path}", e.file.path)).clause(id);
        if e.status != Status::Added && (e.sequence_number.is_none() || e.snapshot_id.is_none()) {
            return Err(wrong(
                "an entry that is not ADDED must carry its snapshot and sequence number".into(),
                "MAN-12",
            ));
        }
        if e.file.spec_id != target.spec_id || e.file.partition.fields().len() != target.types.len() {
            return Err(wrong(
                format!("file of spec {} in a manifest of spec {}", e.file.spec_id, target.spec_id),
                "MAN-1",
            ));
        }
        if (e.file.content == Content::Data) != (target.content == ManifestContentType::Data) {
            return Err(wrong("data and delete files do not share a manifest".into(), "MAN-1"));
        }
        put_entry(&mut w.buf, target, e).map_err(|err| err.at(&e.file.path))?;
        w.end_record()?;
        for (i, s) in summaries.iter_mut().enumerate() {
            s.update(field(&e.file.partition, i));
        }
        let slot = e.status as usize;
        files[slot] += 1;
        rows[slot] = u64::try_from(e.file.record_count)
            .ok()
            .and_then(|n| rows[slot].checked_add(n))
            .ok_or_else(|| wrong(format!("record count {}", e.file.record_count), "MAN-D05"))?;
        if e.is_live()
            && let Some(seq) = e.sequence_number
        {
            min_sequence = Some(min_sequence.map_or(seq, |m| m.min(seq)));
        }
    }
    let bytes = Bytes::from(w.finish()?);
    let partitions: Vec<FieldSummary> = summaries.into_iter().map(Summariser::finish).collect();
    let file = ManifestFile {
        manifest_path: path.to_string(),
        manifest_length: bytes.len() as i64,
        partition_spec_id: target.spec_id,
        content: target.content,
        sequence_number: UNASSIGNED_SEQUENCE,
        min_sequence_number: min_sequence.unwrap_or(UNASSIGNED_SEQUENCE),
        added_snapshot_id: snapshot_id,
        added_files_count: Some(files[Status::Added as usize]),
        existing_files_count: Some(files[Status::Existing as usize]),
        deleted_files_count: Some(files[Status::Deleted as usize]),
        added_rows_count: Some(rows[Status::Added as usize]),
        existing_rows_count: Some(rows[Status::Existing as usize]),
        deleted_rows_count: Some(rows[Status::Deleted as usize]),
        partitions: Some(partitions),
        key_metadata: None,
        first_row_id: None,
    };
    Ok((bytes, file))
}

fn put_entry(out: &mut Vec<u8>, target: &ManifestTarget, e: &ManifestEntry) -> Result<()> {
    put_long(out, i64::from(e.status as i32));
    put_opt(out, e.snapshot_id, put_long);
    put_opt(out, e.sequence_number, put_long);
    put_opt(out, e.file_sequence_number, put_long);
    put_file(out, target, &e.file)
}

fn put_file(out: &mut Vec<u8>, target: &ManifestTarget, f: &DataFile) -> Result<()> {
    let v3 = target.version >= FormatVersion::V3;
    if !v3 && (f.content_offset.is_some() || f.content_size.is_some() || f.is_dv()) {
        return Err(Error::invalid("Must not use DVs for position deletes in V2").clause("DEL-5"));
    }
    put_long(out, i64::from(f.content as i32));
    put_str(out, &f.path);
    put_str(out, f.format.as_str());
    for (i, ty) in target.types.iter().enumerate() {
        match field(&f.partition, i) {
            None => out.push(0),
            Some(v) => {
                out.push(2);
                put_value(out, ty, v).map_err(|e| e.at(&target.partition.fields()[i].name))?;
            }
        }
    }
    put_long(out, f.record_count);
    put_long(out, f.file_size);
    let m = f.metrics.as_deref();
    put_longs(out, m.map(|m| &m.column_sizes));
    put_longs(out, m.map(|m| &m.value_counts));
    put_longs(out, m.map(|m| &m.null_value_counts));
    put_longs(out, m.map(|m| &m.nan_value_counts));
    put_bounds(out, m.map(|m| &m.lower_bounds));
    put_bounds(out, m.map(|m| &m.upper_bounds));
    put_opt(out, f.key_metadata.as_deref(), put_bytes);
    put_opt(out, f.split_offsets.as_deref(), |out, l| put_list(out, l.iter().copied()));
    put_opt(out, f.equality_ids.as_deref(), |out, l| put_list(out, l.iter().map(|i| i64::from(*i))));
    put_opt(out, f.sort_order_id.map(i64::from), put_long);
    if v3 {
        put_opt(out, if f.content == Content::Data { f.first_row_id } else { None }, put_long);
    }
    put_opt(out, f.referenced_data_file.as_deref(), put_str);
    if v3 {
        put_opt(out, f.content_offset, put_long);
        put_opt(out, f.content_size, put_long);
    }
    Ok(())
}

fn put_list(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = i64>) {
    if items.len() > 0 {
        put_long(out, items.len() as i64);
        items.for_each(|v| put_long(out, v));
    }
    out.push(0);
}

/// An empty map is written as null: the column has no such metric.
fn put_longs(out: &mut Vec<u8>, map: Option<&ById<i64>>) {
    put_opt(out, map.filter(|m| !m.is_empty()), |out, m| {
        put_long(out, m.len() as i64);
        for (k, v) in m.iter() {
            put_long(out, i64::from(*k));
            put_long(out, *v);
        }
        out.push(0);
    });
}

fn put_bounds(out: &mut Vec<u8>, map: Option<&ById<Vec<u8>>>) {
    put_opt(out, map.filter(|m| !m.is_empty()), |out, m| {
        put_long(out, m.len() as i64);
        for (k, v) in m.iter() {
            put_long(out, i64::from(*k));
            put_bytes(out, v);
        }
        out.push(0);
    });
}
