//! Manifest lists: Avro shape, counts, bounds, sequence numbers (ML-*).

use std::collections::HashSet;

use super::{Check, Family, error, note, spec::result_type, warning};
use crate::avro::{Node, V, hex};
use crate::finding::Sink;
use crate::model::{ManifestRef, Model, Snapshot};
use crate::types::Prim;

pub const FAMILY: Family = Family { title: "Manifest lists", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("ML-1", "a snapshot's manifest list is a readable Avro file with the required fields, ids and types"),
    error("ML-2", "manifest_length is the size of the manifest"),
    error("ML-3", "partition_spec_id names a listed spec"),
    error("ML-4", "content is 0 or 1 and that of the manifest"),
    error("ML-5", "a manifest's sequence number is that of the snapshot that added it"),
    error("ML-6", "min_sequence_number is not above a live file's data sequence number"),
    warning("ML-6", "min_sequence_number is the smallest data sequence number of the live files"),
    error("ML-7", "added_snapshot_id is present and agrees with the sequence number"),
    error("ML-8", "added, existing and deleted file counts are those of the manifest"),
    error("ML-11", "added, existing and deleted row counts are those of the manifest"),
    error("ML-14", "there is one partition summary a field of the spec"),
    error("ML-20", "contains_null is true when a partition value is null"),
    error("ML-22", "partition bounds cover the partition values"),
    error("ML-16", "delete manifests have no first_row_id"),
    error("ML-30", "no manifest is listed twice, or later than its snapshot"),
    note("ML-32", "Avro metadata of the list repeats the snapshot"),
];

/// field id, name, Avro kind, first version that requires it (9: never)
const FIELDS: &[(i64, &str, &str, i64)] = &[
    (500, "manifest_path", "string", 1),
    (501, "manifest_length", "long", 1),
    (502, "partition_spec_id", "int", 1),
    (517, "content", "int", 2),
    (515, "sequence_number", "long", 2),
    (516, "min_sequence_number", "long", 2),
    (503, "added_snapshot_id", "long", 1),
    (504, "added_files_count", "int", 2),
    (505, "existing_files_count", "int", 2),
    (506, "deleted_files_count", "int", 2),
    (512, "added_rows_count", "long", 2),
    (513, "existing_rows_count", "long", 2),
    (514, "deleted_rows_count", "long", 2),
    (507, "partitions", "array", 9),
    (519, "key_metadata", "bytes", 9),
    (520, "first_row_id", "long", 9),
];

/// Reports fields missing from a record schema, or of another Avro type.
pub fn judge_fields(
    clause: &'static str,
    file: &str,
    place: &str,
    root: &Node,
    fields: &[(i64, &str, &str, i64)],
    version: i64,
    s: &mut Sink,
) {
    let Node::Rec(have) = root else { return };
    for (id, name, kind, since) in fields {
        match have.iter().find(|f| f.id == Some(*id)) {
            None if *since <= version => {
                let named = have.iter().any(|f| f.name == *name);
                let found = if named { format!("{name} without field-id {id}") } else { format!("no {name}") };
                s.err(clause, file, place, found, format!("{name} with field-id {id}"));
            }
            None => {}
            Some(f) => {
                let (n, optional) = f.node.unwrap_optional();
                let ok = n.kind() == *kind
                    || (*kind == "long" && n.kind() == "int")
                    || (*kind == "bytes" && n.kind() == "fixed");
                if !ok || (optional && *since <= version && *since <= 1) {
                    s.err(
                        clause,
                        file,
                        place,
                        format!("{name} is {}{}", if optional { "optional " } else { "" }, n.kind()),
                        format!("{}{kind}", if *since <= 1 { "required " } else { "" }),
                    );
                }
            }
        }
    }
}

fn run(m: &Model, s: &mut Sink) {
    let mut counted: HashSet<&str> = HashSet::new();
    for x in &m.snapshots {
        let l = &x.list;
        if let Some(why) = &l.broken {
            s.err(
                "ML-1",
                &l.location,
                if l.missing { "file" } else { "avro" },
                why,
                "a readable Avro file of manifest_file records",
            );
            continue;
        }
        if l.encrypted || l.inline {
            continue;
        }
        let version =
            l.meta.get("format-version").and_then(|v| v.parse().ok()).unwrap_or(if x.seq > 0 { m.version } else { 1 });
        if let Some(root) = &l.root {
            judge_fields("ML-1", &l.location, "avro.schema", root, FIELDS, version, s);
        }
        for (key, want) in [("snapshot-id", x.id), ("sequence-number", x.seq)] {
            if let Some(found) = l.meta.get(key).filter(|v| v.parse() != Ok(want)) {
                s.note("ML-32", &l.location, key, found, want);
            }
        }
        let mut paths = HashSet::new();
        for (i, r) in l.refs.iter().enumerate() {
            if !paths.insert(r.path.as_str()) {
                s.err("ML-30", &l.location, at(i, "manifest_path"), &r.path, "each manifest once");
            }
            record(m, x, i, r, version, s);
            if counted.insert(r.path.as_str()) && r.manifest.broken.is_none() && !r.manifest.encrypted {
                counts(m, x, i, r, version, s);
                partitions(m, x, i, r, s);
            }
        }
    }
}

fn at(i: usize, field: &str) -> String {
    format!("record {i}: {field}")
}

fn record(m: &Model, x: &Snapshot, i: usize, r: &ManifestRef, version: i64, s: &mut Sink) {
    let f = &x.list.location;
    if let (Some(n), Some(size)) = (r.length, r.manifest.file_size)
        && n as u64 != size
    {
        s.err("ML-2", f, at(i, "manifest_length"), n, size);
    }
    if r.spec_id.is_none_or(|id| m.spec(id).is_none()) {
        s.err("ML-3", f, at(i, "partition_spec_id"), format!("{:?}", r.spec_id), "a spec of the metadata");
    }
    let known = r.manifest.broken.is_none() && !r.manifest.encrypted;
    if !(0..=1).contains(&r.content)
        || (known && r.manifest.meta.contains_key("content") && (r.content == 1) != r.manifest.deletes())
    {
        s.err(
            "ML-4",
            f,
            at(i, "content"),
            r.content,
            format!(
                "0 data or 1 deletes, and that of the manifest ({})",
                r.manifest.meta.get("content").map_or("data", String::as_str)
            ),
        );
    }
    if r.content == 1 && r.first_row_id.is_some() {
        s.err("ML-16", f, at(i, "first_row_id"), r.first_row_id.unwrap_or(0), "null in a delete manifest");
    }
    let Some(added) = r.added_snapshot else {
        s.err("ML-7", f, at(i, "added_snapshot_id"), "null", "the snapshot that added the manifest");
        return;
    };
    if version < 2 {
        return;
    }
    if r.seq > x.seq {
        s.err("ML-30", f, at(i, "sequence_number"), r.seq, format!("at most the snapshot's {}", x.seq));
    }
    if let Some(a) = m.snapshot(added)
        && a.seq != r.seq
    {
        s.err("ML-5", f, at(i, "sequence_number"), r.seq, format!("{}, that of snapshot {added}", a.seq));
    }
    // A manifest that carries this snapshot's number was written by it.
    if r.seq == x.seq && r.seq > 0 && added != x.id {
        s.err("ML-7", f, at(i, "added_snapshot_id"), added, x.id);
    }
}

fn counts(_m: &Model, x: &Snapshot, i: usize, r: &ManifestRef, version: i64, s: &mut Sink) {
    let f = &x.list.location;
    let mut files = [0i64; 3];
    let mut rows = [0i64; 3];
    let mut min: Option<i64> = None;
    for e in &r.manifest.entries {
        let k = match e.status {
            1 => 0,
            0 => 1,
            2 => 2,
            _ => continue,
        };
        files[k] += 1;
        rows[k] += e.records.max(0);
        if e.live()
            && let Some(q) = r.seq_of(e)
        {
            min = Some(min.map_or(q, |m| m.min(q)));
        }
    }
    for (k, what) in ["added", "existing", "deleted"].iter().enumerate() {
        // v1 lists may leave counts out; null then means unknown (ML-8).
        if r.files[k].map_or(version >= 2, |n| n != files[k]) {
            s.err("ML-8", f, at(i, &format!("{what}_files_count")), show(r.files[k]), files[k]);
        }
        if r.rows[k].map_or(version >= 2, |n| n != rows[k]) {
            s.err("ML-11", f, at(i, &format!("{what}_rows_count")), show(r.rows[k]), rows[k]);
        }
    }
    if let (Some(have), Some(min)) = (r.min_seq, min) {
        if have > min {
            s.err("ML-6", f, at(i, "min_sequence_number"), have, format!("at most {min}"));
        } else if have < min {
            s.warn("ML-6", f, at(i, "min_sequence_number"), have, min);
        }
    }
}

fn show(v: Option<i64>) -> String {
    v.map_or("null".into(), |v| v.to_string())
}

/// Single-value form of a partition value, for comparison with field summaries.
pub fn value_bytes(p: &Prim, v: &V) -> Option<Vec<u8>> {
    Some(match (p, v) {
        (Prim::Boolean, V::Bool(b)) => vec![u8::from(*b)],
        (Prim::Int | Prim::Date, V::Int(i)) => i32::try_from(*i).ok()?.to_le_bytes().to_vec(),
        (_, V::Int(i)) => i.to_le_bytes().to_vec(),
        (Prim::Float, V::Float(f)) => (*f as f32).to_le_bytes().to_vec(),
        (_, V::Float(f)) => f.to_le_bytes().to_vec(),
        (_, V::Str(t)) => t.as_bytes().to_vec(),
        (_, V::Bytes(b)) => b.clone(),
        _ => return None,
    })
}

fn partitions(m: &Model, x: &Snapshot, i: usize, r: &ManifestRef, s: &mut Sink) {
    let f = &x.list.location;
    let (Some(parts), Some(spec)) = (&r.partitions, r.spec_id.and_then(|id| m.spec(id))) else {
        return;
    };
    if parts.len() != spec.fields.len() {
        s.err("ML-14", f, at(i, "partitions"), parts.len(), spec.fields.len());
        return;
    }
    for (k, (sum, field)) in parts.iter().zip(&spec.fields).enumerate() {
        let (Some(pos), Some(ty)) =
            (r.manifest.partition_ids.iter().position(|id| Some(*id) == field.id), result_type(m, field))
        else {
            continue;
        };
        let place = |w: &str| at(i, &format!("partitions[{k}].{w}"));
        for e in r.manifest.entries.iter() {
            let Some(v) = e.partition.0.get(pos) else {
                continue;
            };
            if v.is_null() {
                if sum.contains_null == Some(false) {
                    s.err("ML-20", f, place("contains_null"), "false", format!("true, {} has a null", e.path));
                    break;
                }
                continue;
            }
            if matches!(v, V::Float(x) if x.is_nan()) {
                continue;
            }
            let Some(b) = value_bytes(&ty, v) else {
                continue;
            };
            let outside = |bound: &Option<Vec<u8>>, wrong: std::cmp::Ordering| match bound {
                None => true,
                Some(bound) => ty.bound_cmp(bound, &b) == Some(wrong),
            };
            if outside(&sum.lower, std::cmp::Ordering::Greater) {
                s.err(
                    "ML-22",
                    f,
                    place("lower_bound"),
                    sum.lower.as_deref().map_or("null".into(), hex),
                    format!("at most {} ({})", hex(&b), e.path),
                );
                break;
            }
            if outside(&sum.upper, std::cmp::Ordering::Less) {
                s.err(
                    "ML-22",
                    f,
                    place("upper_bound"),
                    sum.upper.as_deref().map_or("null".into(), hex),
                    format!("at least {} ({})", hex(&b), e.path),
                );
                break;
            }
        }
    }
}
