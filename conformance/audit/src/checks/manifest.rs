//! Manifest files as Avro: readable, complete schema, file metadata (MAN-1, MAN-K*).

use serde_json::Value as Json;

use super::{Check, Family, error, list::judge_fields, note, warning};
use crate::avro::{Node, V};
use crate::finding::Sink;
use crate::load::spec_fields;
use crate::model::{ManifestRef, Model};

pub const FAMILY: Family = Family { title: "Manifest files", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("MAN-1", "a listed manifest exists, is readable Avro, and has the required fields with their ids and types"),
    error("MAN-K1", "file metadata schema is a schema in JSON"),
    error("MAN-K3", "file metadata partition-spec has the fields of the spec in the table metadata"),
    error("MAN-K4", "file metadata partition-spec-id is that of the manifest list"),
    error("MAN-K5", "file metadata format-version is not above the table's"),
    error("MAN-K6", "file metadata content is data or deletes"),
    error("MAN-K2", "file metadata schema-id, when present, is a number"),
    note("TRAP-1", "file metadata schema-id is required, but Java does not write it"),
    error("MAN-D04", "the partition struct has the fields of the spec, by partition field id"),
    warning("MAN-D07", "deprecated block_size_in_bytes is not written from v2 on"),
    warning("MAN-D08", "deprecated file_ordinal, sort_columns and distinct_counts are not written"),
    note("META-74", "encrypted manifests and lists cannot be judged"),
];

const ENTRY: &[(i64, &str, &str, i64)] = &[
    (0, "status", "int", 1),
    (1, "snapshot_id", "long", 9),
    (3, "sequence_number", "long", 9),
    (4, "file_sequence_number", "long", 9),
    (2, "data_file", "record", 1),
];

const DATA: &[(i64, &str, &str, i64)] = &[
    (134, "content", "int", 2),
    (100, "file_path", "string", 1),
    (101, "file_format", "string", 1),
    (102, "partition", "record", 1),
    (103, "record_count", "long", 1),
    (104, "file_size_in_bytes", "long", 1),
    (108, "column_sizes", "array", 9),
    (109, "value_counts", "array", 9),
    (110, "null_value_counts", "array", 9),
    (137, "nan_value_counts", "array", 9),
    (125, "lower_bounds", "array", 9),
    (128, "upper_bounds", "array", 9),
    (131, "key_metadata", "bytes", 9),
    (132, "split_offsets", "array", 9),
    (135, "equality_ids", "array", 9),
    (140, "sort_order_id", "int", 9),
    (142, "first_row_id", "long", 9),
    (143, "referenced_data_file", "string", 9),
    (144, "content_offset", "long", 9),
    (145, "content_size_in_bytes", "long", 9),
];

fn run(m: &Model, s: &mut Sink) {
    if let Some(x) = m.snapshots.iter().find(|x| x.list.encrypted) {
        s.note("META-74", &x.list.location, "file", "encrypted manifest list", "plain Avro");
    }
    for (_, r) in m.manifests() {
        let man = &r.manifest;
        if man.encrypted {
            s.note("META-74", &r.path, "file", "encrypted manifest", "plain Avro");
            continue;
        }
        if let Some(why) = &man.broken {
            s.err(
                "MAN-1",
                &r.path,
                if man.missing { "file" } else { "avro" },
                why,
                "a readable Avro file of manifest_entry records",
            );
        }
        let Some(root) = &man.root else { continue };
        let v = man.version();
        judge_fields("MAN-1", &r.path, "avro.schema", root, ENTRY, v, s);
        let Node::Rec(fields) = &**root else { continue };
        if let Some(f) = fields.iter().find(|f| f.id == Some(2)) {
            let node = f.node.unwrap_optional().0;
            judge_fields("MAN-1", &r.path, "avro.schema/data_file", node, DATA, v, s);
            if let Node::Rec(inner) = node
                && v >= 2
                && inner.iter().any(|f| f.id == Some(105))
            {
                s.warn("MAN-D07", &r.path, "avro.schema/data_file", "field 105", "left out from v2 on");
            }
        }
        if man.broken.is_none() {
            keys(m, r, s);
            for (i, e) in man.entries.iter().enumerate() {
                if e.has_ordinal || e.has_sort_columns || e.has_distinct {
                    s.warn(
                        "MAN-D08",
                        &r.path,
                        man.at(i, "file_ordinal, sort_columns or distinct_counts"),
                        "a value",
                        "null",
                    );
                }
            }
        }
    }
}

fn keys(m: &Model, r: &ManifestRef, s: &mut Sink) {
    let man = &r.manifest;
    let key = |k: &str| man.meta.get(k).map(String::as_str);
    let v = man.version();
    let json = |k: &str| key(k).and_then(|t| serde_json::from_str::<Json>(t).ok());
    if json("schema").is_none_or(|j| j.get("fields").is_none()) {
        s.err("MAN-K1", &r.path, "file metadata schema", key("schema").unwrap_or("absent"), "the table schema as JSON");
    }
    match key("schema-id") {
        None if v >= 2 => s.note("TRAP-1", &r.path, "file metadata schema-id", "absent", "a schema id"),
        Some(t) if t.parse::<i64>().is_err() => {
            s.err("MAN-K2", &r.path, "file metadata schema-id", t, "a decimal number")
        }
        _ => {}
    }
    let id = key("partition-spec-id").and_then(|t| t.parse::<i64>().ok());
    if (v >= 2 || id.is_some()) && id != r.spec_id {
        s.err(
            "MAN-K4",
            &r.path,
            "file metadata partition-spec-id",
            key("partition-spec-id").unwrap_or("absent"),
            format!("{:?}", r.spec_id),
        );
    }
    match key("format-version").map(str::parse::<i64>) {
        None if r.seq == 0 => {}
        Some(Ok(n)) if (1..=m.version.max(1)).contains(&n) => {}
        _ => s.err(
            "MAN-K5",
            &r.path,
            "file metadata format-version",
            key("format-version").unwrap_or("absent"),
            format!("1 to {}", m.version),
        ),
    }
    if v >= 2 && !matches!(key("content"), Some("data" | "deletes")) {
        s.err("MAN-K6", &r.path, "file metadata content", key("content").unwrap_or("absent"), "data or deletes");
    }
    let Some(spec) = r.spec_id.and_then(|id| m.spec(id)) else {
        return;
    };
    let stored = json("partition-spec");
    let same = stored.as_ref().is_some_and(|j| {
        let have = spec_fields(j);
        have.len() == spec.fields.len()
            && have
                .iter()
                .zip(&spec.fields)
                .all(|(a, b)| a.sources == b.sources && a.transform == b.transform && (a.id == b.id || a.id.is_none()))
    });
    if !same {
        s.err(
            "MAN-K3",
            &r.path,
            "file metadata partition-spec",
            key("partition-spec").unwrap_or("absent"),
            format!("the fields of spec {}", spec.id),
        );
    }
    let want: Vec<i64> = spec.fields.iter().filter_map(|f| f.id).collect();
    if want.len() == spec.fields.len() && man.root.is_some() {
        let mut have = man.partition_ids.clone();
        have.sort_unstable();
        let mut sorted = want.clone();
        sorted.sort_unstable();
        if have != sorted {
            s.err(
                "MAN-D04",
                &r.path,
                "avro.schema/data_file/partition",
                format!("{:?}", man.partition_ids),
                format!("{want:?}"),
            );
            return;
        }
    }
    for (pos, id) in man.partition_ids.iter().enumerate() {
        let Some(ty) = spec.fields.iter().find(|f| f.id == Some(*id)).and_then(|f| super::spec::result_type(m, f))
        else {
            continue;
        };
        let fits = |v: &V| {
            v.is_null()
                || ty == crate::types::Prim::Unknown
                || super::list::value_bytes(&ty, v).is_some_and(|b| ty.bound_len_ok(&b))
        };
        if let Some((i, e)) =
            man.entries.iter().enumerate().find(|(_, e)| e.partition.0.get(pos).is_some_and(|v| !fits(v)))
        {
            s.err(
                "MAN-D04",
                &r.path,
                man.at(i, "data_file.partition"),
                e.partition.key(),
                format!("a {ty:?} in field {id}"),
            );
        }
    }
}
