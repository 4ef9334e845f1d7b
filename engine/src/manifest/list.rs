//! Manifest lists (ML-*): reading all versions, writing V2 and V3.

use bytes::Bytes;
use iceberg::spec::{ByteBuf, FieldSummary, FormatVersion, ManifestContentType, ManifestFile};
use serde_json::{Value, json};

use super::avro::{Decoder, Node, Schema};
use super::container::{Codec, Container, Writer, put_bytes, put_long, put_opt, put_str};
use super::write::UNASSIGNED_SEQUENCE;
use crate::{Error, Result};

const IDS: &[(i32, &str)] = &[
    (500, "manifest_path"),
    (501, "manifest_length"),
    (502, "partition_spec_id"),
    (517, "content"),
    (515, "sequence_number"),
    (516, "min_sequence_number"),
    (503, "added_snapshot_id"),
    (504, "added_files_count"),
    (505, "existing_files_count"),
    (506, "deleted_files_count"),
    (512, "added_rows_count"),
    (513, "existing_rows_count"),
    (514, "deleted_rows_count"),
    (507, "partitions"),
    (519, "key_metadata"),
    (520, "first_row_id"),
];

const SUMMARY_IDS: &[(i32, &str)] =
    &[(509, "contains_null"), (518, "contains_nan"), (510, "lower_bound"), (511, "upper_bound")];

/// For each field in writing order its id (0 = skip) and node.
fn compile(schema: &Schema, node: usize, table: &[(i32, &str)]) -> Result<Vec<(i32, usize)>> {
    let Node::Record(fields) = &schema.nodes[node] else {
        return Err(Error::malformed("Avro schema of a manifest list must be a record").clause("ML-32"));
    };
    Ok(fields
        .iter()
        .map(|f| {
            let hit = match f.id {
                Some(id) => table.iter().find(|t| t.0 == id),
                None => table.iter().find(|t| t.1 == f.name),
            };
            (hit.map_or(0, |t| t.0), f.node)
        })
        .collect())
}

/// Reads a manifest list of any version; what V1 lacks reads as its default (ML-31). `location` is for errors.
pub fn read_manifest_list(bytes: &[u8], location: &str) -> Result<Vec<ManifestFile>> {
    let mut out = Vec::new();
    read_inner(bytes, location, &mut out).map_err(|e| e.at(location))?;
    Ok(out)
}

fn read_inner(bytes: &[u8], location: &str, out: &mut Vec<ManifestFile>) -> Result<()> {
    let mut container = Container::open(bytes)?;
    let program = compile(&container.schema, 0, IDS)?;
    for (id, clause) in [(500, "ML-1"), (501, "ML-2"), (503, "ML-7")] {
        if !program.iter().any(|p| p.0 == id) {
            return Err(Error::malformed(format!("manifest list schema has no field {id}")).clause(clause));
        }
    }
    container.for_each(|schema, d| {
        let entry = read_entry(schema, &program, d).map_err(|e| e.at(format!("{location} entry {}", out.len())))?;
        out.push(entry);
        Ok(())
    })
}

fn read_entry(schema: &Schema, program: &[(i32, usize)], d: &mut Decoder<'_>) -> Result<ManifestFile> {
    let mut m = ManifestFile {
        manifest_path: String::new(),
        manifest_length: -1,
        partition_spec_id: 0,
        content: ManifestContentType::Data,
        sequence_number: 0,
        min_sequence_number: 0,
        added_snapshot_id: -1,
        added_files_count: None,
        existing_files_count: None,
        deleted_files_count: None,
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    };
    let (mut has_path, mut has_snapshot) = (false, false);
    for &(id, node) in program {
        match id {
            500 => {
                if let Some(p) = schema.opt_str(node, d)? {
                    m.manifest_path = p.to_string();
                    has_path = true;
                }
            }
            501 => m.manifest_length = schema.opt_long(node, d)?.unwrap_or(-1),
            502 => m.partition_spec_id = schema.opt_int(node, d)?.unwrap_or(0),
            517 => {
                m.content = match schema.opt_long(node, d)? {
                    None | Some(0) => ManifestContentType::Data,
                    Some(1) => ManifestContentType::Deletes,
                    Some(c) => {
                        return Err(Error::malformed(format!("content {c}; allowed: 0, 1")).clause("ML-4"));
                    }
                }
            }
            515 => m.sequence_number = schema.opt_long(node, d)?.unwrap_or(0),
            516 => m.min_sequence_number = schema.opt_long(node, d)?.unwrap_or(0),
            503 => {
                if let Some(v) = schema.opt_long(node, d)? {
                    m.added_snapshot_id = v;
                    has_snapshot = true;
                }
            }
            504 => m.added_files_count = count(schema, node, d, "added_files_count", "ML-8")?,
            505 => m.existing_files_count = count(schema, node, d, "existing_files_count", "ML-9")?,
            506 => m.deleted_files_count = count(schema, node, d, "deleted_files_count", "ML-10")?,
            512 => m.added_rows_count = count(schema, node, d, "added_rows_count", "ML-11")?,
            513 => m.existing_rows_count = count(schema, node, d, "existing_rows_count", "ML-12")?,
            514 => m.deleted_rows_count = count(schema, node, d, "deleted_rows_count", "ML-13")?,
            507 => m.partitions = read_summaries(schema, node, d)?,
            519 => m.key_metadata = schema.opt_bytes(node, d)?.map(<[u8]>::to_vec),
            520 => m.first_row_id = count(schema, node, d, "first_row_id", "ML-16")?,
            _ => schema.skip(node, d)?,
        }
    }
    if !has_path {
        return Err(Error::malformed("manifest_path is null").clause("ML-1"));
    }
    if !has_snapshot {
        return Err(Error::malformed("added_snapshot_id is null").clause("ML-7"));
    }
    if m.content == ManifestContentType::Deletes {
        m.first_row_id = None;
    }
    Ok(m)
}

fn count<T: TryFrom<i64>>(
    schema: &Schema,
    node: usize,
    d: &mut Decoder<'_>,
    name: &str,
    id: &'static str,
) -> Result<Option<T>> {
    schema
        .opt_long(node, d)?
        .map(|v| T::try_from(v).map_err(|_| Error::malformed(format!("{name} is {v}")).clause(id)))
        .transpose()
}

fn read_summaries(schema: &Schema, node: usize, d: &mut Decoder<'_>) -> Result<Option<Vec<FieldSummary>>> {
    let mut out = Vec::new();
    let mut program = None;
    let present = schema.opt_array(node, d, |item, d| {
        let program = match &mut program {
            Some(p) => p,
            none => none.insert(compile(schema, item, SUMMARY_IDS)?),
        };
        let mut s = FieldSummary { contains_null: true, ..Default::default() };
        for &(id, node) in program.iter() {
            match id {
                509 => s.contains_null = schema.opt_bool(node, d)?.unwrap_or(true),
                518 => s.contains_nan = schema.opt_bool(node, d)?,
                510 => s.lower_bound = schema.opt_bytes(node, d)?.map(|b| ByteBuf::from(b.to_vec())),
                511 => s.upper_bound = schema.opt_bytes(node, d)?.map(|b| ByteBuf::from(b.to_vec())),
                _ => schema.skip(node, d)?,
            }
        }
        out.push(s);
        Ok(())
    })?;
    Ok(present.then_some(out))
}

/// What a manifest list is written for.
#[derive(Debug, Clone, Copy)]
pub struct ListTarget {
    /// Format version: 2 or 3.
    pub version: FormatVersion,
    /// The snapshot.
    pub snapshot_id: i64,
    /// Its parent.
    pub parent_snapshot_id: Option<i64>,
    /// Its sequence number; new manifests get it (SEQ-4).
    pub sequence_number: i64,
    /// Its first row id, V3 only: the table's `next-row-id` (META-6).
    pub first_row_id: Option<i64>,
}

/// Encodes a manifest list; gives also the entries as written and, for V3, the next free row id (FRID-7).
///
/// New manifests (sequence number [`UNASSIGNED_SEQUENCE`]) must be of the target snapshot. Row ids go to every data
/// manifest that has none, whoever wrote it, so the first commit after an upgrade numbers the old files (LINEAGE-21).
pub fn write_manifest_list(
    target: &ListTarget,
    manifests: &[ManifestFile],
) -> Result<(Bytes, Vec<ManifestFile>, Option<i64>)> {
    let v3 = match target.version {
        FormatVersion::V1 => {
            return Err(Error::unsupported("manifest lists are written for format versions 2 and 3").clause("META-F01"));
        }
        FormatVersion::V2 => false,
        FormatVersion::V3 => true,
    };
    let mut next_row_id = match (v3, target.first_row_id) {
        (false, _) => None,
        (true, Some(id)) => Some(id),
        (true, None) => {
            return Err(Error::internal("a V3 snapshot needs a first row id").clause("META-S09"));
        }
    };
    let mut meta = vec![
        ("snapshot-id", target.snapshot_id.to_string()),
        ("parent-snapshot-id", target.parent_snapshot_id.map_or("null".to_string(), |p| p.to_string())),
        ("sequence-number", target.sequence_number.to_string()),
    ];
    if let Some(id) = next_row_id {
        meta.push(("first-row-id", id.to_string()));
    }
    meta.push(("format-version", (target.version as i32).to_string()));
    let mut w = Writer::new(&list_schema(v3), &meta, Codec::Deflate);
    let mut written = Vec::with_capacity(manifests.len());
    for m in manifests {
        let mut m = m.clone();
        if m.sequence_number == UNASSIGNED_SEQUENCE {
            if m.added_snapshot_id != target.snapshot_id {
                return Err(Error::internal(format!("unnumbered manifest of snapshot {}", m.added_snapshot_id))
                    .at(&m.manifest_path)
                    .clause("SEQ-4"));
            }
            m.sequence_number = target.sequence_number;
        }
        if m.min_sequence_number == UNASSIGNED_SEQUENCE {
            m.min_sequence_number = target.sequence_number;
        }
        if m.content == ManifestContentType::Deletes || !v3 {
            m.first_row_id = None;
        } else if m.first_row_id.is_none()
            && let Some(next) = next_row_id
        {
            let (Some(added), Some(existing)) = (m.added_rows_count, m.existing_rows_count) else {
                return Err(Error::malformed("manifest without row counts cannot be given row ids")
                    .at(&m.manifest_path)
                    .clause("FRID-7"));
            };
            m.first_row_id = Some(next as u64);
            let after = i64::try_from(added).ok().zip(i64::try_from(existing).ok());
            let after = after.and_then(|(a, e)| next.checked_add(a)?.checked_add(e));
            next_row_id =
                Some(after.ok_or_else(|| Error::malformed("row ids overflow").at(&m.manifest_path).clause("FRID-7"))?);
        }
        put_entry(&mut w.buf, &m, v3);
        w.end_record()?;
        written.push(m);
    }
    Ok((Bytes::from(w.finish()?), written, next_row_id))
}

fn list_schema(v3: bool) -> Value {
    let req = |name: &str, ty: &str, id: i32| json!({"name": name, "type": ty, "field-id": id});
    let opt =
        |name: &str, ty: Value, id: i32| json!({"name": name, "type": ["null", ty], "default": null, "field-id": id});
    let summary = json!({"type": "record", "name": "r508", "fields": [
        req("contains_null", "boolean", 509),
        opt("contains_nan", json!("boolean"), 518),
        opt("lower_bound", json!("bytes"), 510),
        opt("upper_bound", json!("bytes"), 511),
    ]});
    let mut fields = vec![
        req("manifest_path", "string", 500),
        req("manifest_length", "long", 501),
        req("partition_spec_id", "int", 502),
        req("content", "int", 517),
        req("sequence_number", "long", 515),
        req("min_sequence_number", "long", 516),
        req("added_snapshot_id", "long", 503),
        req("added_files_count", "int", 504),
        req("existing_files_count", "int", 505),
        req("deleted_files_count", "int", 506),
        req("added_rows_count", "long", 512),
        req("existing_rows_count", "long", 513),
        req("deleted_rows_count", "long", 514),
        opt("partitions", json!({"type": "array", "items": summary, "element-id": 508}), 507),
        opt("key_metadata", json!("bytes"), 519),
    ];
    if v3 {
        fields.push(opt("first_row_id", json!("long"), 520));
    }
    json!({"type": "record", "name": "manifest_file", "fields": fields})
}

fn put_entry(out: &mut Vec<u8>, m: &ManifestFile, v3: bool) {
    put_str(out, &m.manifest_path);
    put_long(out, m.manifest_length);
    put_long(out, i64::from(m.partition_spec_id));
    put_long(out, i64::from(m.content as i32));
    put_long(out, m.sequence_number);
    put_long(out, m.min_sequence_number);
    put_long(out, m.added_snapshot_id);
    for count in [m.added_files_count, m.existing_files_count, m.deleted_files_count] {
        // unknown counts of a V1 manifest must read as "may contain": one file that the reader then does not find
        put_long(out, count.map_or(1, i64::from));
    }
    for rows in [m.added_rows_count, m.existing_rows_count, m.deleted_rows_count] {
        put_long(out, rows.map_or(0, |r| r as i64));
    }
    put_opt(out, m.partitions.as_deref(), |out, list| {
        if !list.is_empty() {
            put_long(out, list.len() as i64);
            for s in list {
                out.push(u8::from(s.contains_null));
                put_opt(out, s.contains_nan, |out, b| out.push(u8::from(b)));
                put_opt(out, s.lower_bound.as_deref(), |out, b| put_bytes(out, b));
                put_opt(out, s.upper_bound.as_deref(), |out, b| put_bytes(out, b));
            }
        }
        out.push(0);
    });
    put_opt(out, m.key_metadata.as_deref(), put_bytes);
    if v3 {
        put_opt(out, m.first_row_id.map(|v| v as i64), put_long);
    }
}
