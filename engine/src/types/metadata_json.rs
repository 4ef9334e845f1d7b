//! Table metadata JSON, with what the `iceberg` crate's parser cannot take worked round (META-*, JSON-*).

use std::io::{Read, Write};

use iceberg::spec::{PartitionSpec, Schema, SortOrder, TableMetadata};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{ExtTypes, overlay};
use crate::table::Metadata;
use crate::{Error, Result};

/// Upper limit of unpacked metadata: a small gzip file must not be able to fill the memory.
const MAX_METADATA_BYTES: u64 = 4 << 30;

/// Parses table metadata, gzip or plain (JSON-22). The caller adds the file's location with [`Error::at`].
///
/// # Errors
/// [`crate::ErrorKind::Malformed`] naming the field and clause; [`crate::ErrorKind::Unsupported`] for a newer version.
pub fn metadata_from_json(bytes: &[u8]) -> Result<Metadata> {
    let plain;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .take(MAX_METADATA_BYTES)
            .read_to_end(&mut out)
            .map_err(|e| Error::malformed(format!("metadata is not valid gzip: {e}")).clause("JSON-22"))?;
        plain = out;
        &plain[..]
    } else {
        bytes
    };
    let mut value: Value = serde_json::from_slice(bytes)
        .map_err(|e| Error::malformed(format!("metadata is not JSON: {e}")).clause("META-1"))?;
    let version = check_fields(&value)?;
    upgrade(&mut value, version);
    let mut ext = ExtTypes::default();
    strip(&mut value, &mut ext)?;
    match TableMetadata::deserialize(&value) {
        Ok(inner) => Ok(Metadata { inner, ext }),
        Err(e) => Err(explain(&value, version, &e.to_string())),
    }
}

/// Writes table metadata: schemas, specs, orders and snapshots in a fixed order, true types and defaults back in
/// place. Plain JSON; see [`gzip`] for the compressed form.
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] for a default that the `iceberg` model cannot write.
pub fn metadata_to_json(metadata: &Metadata) -> Result<Vec<u8>> {
    let m = &metadata.inner;
    for schema in m.schemas_iter() {
        overlay::check_defaults(schema)?;
    }
    let mut value = serde_json::to_value(m).map_err(|e| Error::internal(format!("table metadata to JSON: {e}")))?;
    let o = value.as_object_mut().ok_or_else(|| Error::internal("table metadata is not an object"))?;
    if let Some(Value::Array(schemas)) = o.get_mut("schemas") {
        for s in schemas.iter_mut() {
            let id = s.get("schema-id").and_then(Value::as_i64).unwrap_or_default() as i32;
            if let Some(schema) = m.schema_by_id(id) {
                overlay::restore_schema(s, schema, &metadata.ext)?;
            }
        }
    }
    if let Some(s) = o.get_mut("schema") {
        overlay::restore_schema(s, m.current_schema(), &metadata.ext)?;
    }
    // The model keeps all of these in hash maps: without an order every write of one state would differ.
    for (list, key) in [
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
        ("statistics", "snapshot-id"),
        ("partition-statistics", "snapshot-id"),
    ] {
        sort_list(o, list, |v| v.get(key).and_then(Value::as_i64));
    }
    sort_list(o, "encryption-keys", |v| v.get("key-id").and_then(Value::as_str).map(str::to_string));
    sort_list(o, "snapshots", |v| {
        let n = |k| v.get(k).and_then(Value::as_i64).unwrap_or_default();
        (Some(n("sequence-number")), Some(format!("{:020}{:020}", n("timestamp-ms"), n("snapshot-id"))))
    });
    for map in ["properties", "refs"] {
        if let Some(Value::Object(p)) = o.get_mut(map) {
            p.sort_keys();
        }
    }
    write_empty_lists(o);
    serde_json::to_vec(&value).map_err(|e| Error::internal(format!("table metadata to JSON: {e}")))
}

/// Compresses metadata JSON (JSON-22); the file name must then end in `.gz.metadata.json` (JSON-23).
pub fn gzip(json: &[u8]) -> Result<Vec<u8>> {
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    w.write_all(json)?;
    Ok(w.finish()?)
}

fn sort_list<K: Ord>(o: &mut Map<String, Value>, list: &str, key: impl Fn(&Value) -> K) {
    if let Some(Value::Array(a)) = o.get_mut(list) {
        a.sort_by_key(key);
    }
}

/// Java writes these even when empty, and old readers of other engines expect them (META-11, META-12).
fn write_empty_lists(o: &mut Map<String, Value>) {
    let v3 = o.get("format-version").and_then(Value::as_i64).unwrap_or_default() >= 3;
    o.entry("current-snapshot-id").or_insert(if v3 { Value::Null } else { Value::from(-1) });
    for list in ["snapshots", "statistics", "partition-statistics", "snapshot-log", "metadata-log"] {
        o.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    }
    for map in ["properties", "refs"] {
        o.entry(map).or_insert_with(|| Value::Object(Map::new()));
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Int,
    Str,
    List,
    Object,
}

/// Fields by the version from which they are required, 0 when always optional (META-F01..25).
const FIELDS: &[(&str, Kind, i64, &str)] = &[
    ("table-uuid", Kind::Str, 2, "META-F02"),
    ("location", Kind::Str, 1, "META-F03"),
    ("last-sequence-number", Kind::Int, 2, "META-F04"),
    ("last-updated-ms", Kind::Int, 1, "META-F05"),
    ("last-column-id", Kind::Int, 1, "META-F06"),
    ("schema", Kind::Object, 0, "META-F07"),
    ("schemas", Kind::List, 2, "META-F08"),
    ("current-schema-id", Kind::Int, 2, "META-F09"),
    ("partition-spec", Kind::List, 0, "META-F10"),
    ("partition-specs", Kind::List, 2, "META-F11"),
    ("default-spec-id", Kind::Int, 2, "META-F12"),
    ("last-partition-id", Kind::Int, 2, "META-F13"),
    ("properties", Kind::Object, 0, "META-F14"),
    ("current-snapshot-id", Kind::Int, 0, "META-F15"),
    ("snapshots", Kind::List, 0, "META-F16"),
    ("snapshot-log", Kind::List, 0, "META-F17"),
    ("metadata-log", Kind::List, 0, "META-F18"),
    ("sort-orders", Kind::List, 2, "META-F19"),
    ("default-sort-order-id", Kind::Int, 2, "META-F20"),
    ("refs", Kind::Object, 0, "META-F21"),
    ("statistics", Kind::List, 0, "META-F22"),
    ("partition-statistics", Kind::List, 0, "META-F23"),
    ("next-row-id", Kind::Int, 3, "META-F24"),
    ("encryption-keys", Kind::List, 0, "META-F25"),
];

/// Checks the version and the presence and kind of each top-level field; the version.
fn check_fields(value: &Value) -> Result<i64> {
    let o = value.as_object().ok_or_else(|| Error::malformed("metadata is not a JSON object").clause("META-1"))?;
    let version = o
        .get("format-version")
        .and_then(Value::as_i64)
        .ok_or_else(|| Error::malformed("metadata has no integer \"format-version\"").clause("META-F01"))?;
    if !(1..=3).contains(&version) {
        return Err(Error::unsupported(format!("format-version is {version}; supported: 1, 2, 3")).clause("META-F01"));
    }
    for (name, kind, since, clause) in FIELDS {
        match o.get(*name).filter(|v| !v.is_null()) {
            None if *since > 0 && version >= *since => {
                return Err(Error::malformed(format!("metadata of version {version} has no {name:?}")).clause(clause));
            }
            None => {}
            Some(v) => {
                let (ok, want) = match kind {
                    Kind::Int => (v.is_i64(), "an integer"),
                    Kind::Str => (v.is_string(), "a string"),
                    Kind::List => (v.is_array(), "a list"),
                    Kind::Object => (v.is_object(), "an object"),
                };
                if !ok {
                    return Err(Error::malformed(format!("metadata field {name:?} must be {want}")).clause(clause));
                }
            }
        }
    }
    if version == 1 && !["schema", "schemas"].iter().any(|k| o.get(*k).is_some_and(|v| !v.is_null())) {
        return Err(Error::malformed("metadata of version 1 has neither \"schema\" nor \"schemas\"").clause("META-F07"));
    }
    Ok(version)
}

/// Fills in what older versions left out and the parser wants (META-81, META-90): snapshots that a V1 table wrote keep
/// no sequence number and maybe no summary after an upgrade, and the parser refuses both.
fn upgrade(value: &mut Value, version: i64) {
    let Some(o) = value.as_object_mut() else {
        return;
    };
    // The parser takes absence, not null, for these.
    o.retain(|_, v| !v.is_null());
    let Some(Value::Array(snapshots)) = o.get_mut("snapshots") else {
        return;
    };
    for s in snapshots.iter_mut().filter_map(Value::as_object_mut) {
        s.retain(|_, v| !v.is_null());
        if version >= 2 {
            s.entry("sequence-number").or_insert(Value::from(0));
            // The crate's own choice for V1 snapshots without a summary.
            let summary = s.entry("summary").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(summary) = summary {
                summary.entry("operation").or_insert("append".into());
            }
        }
    }
}

/// Puts surrogates into all schemas.
fn strip(value: &mut Value, ext: &mut ExtTypes) -> Result<()> {
    let Some(o) = value.as_object_mut() else {
        return Ok(());
    };
    let mut plain = Vec::new();
    if let Some(Value::Array(schemas)) = o.get_mut("schemas") {
        for (i, s) in schemas.iter_mut().enumerate() {
            plain_surrogates(s, &mut plain);
            overlay::strip_schema(s, ext).map_err(|e| prefix(e, &format!("schemas[{i}]")))?;
        }
    }
    if let Some(s) = o.get_mut("schema") {
        plain_surrogates(s, &mut plain);
        overlay::strip_schema(s, ext).map_err(|e| prefix(e, "schema"))?;
    }
    // With one entry an id, "unknown in one schema and boolean in another" could not be told apart on writing.
    if let Some((id, t)) = plain.iter().find(|(id, t)| ext.get(*id).is_some_and(|e| e.surrogate().to_string() == *t)) {
        return Err(Error::unsupported(format!(
            "column id {id} is {t} in one schema and {} in another",
            ext.get(*id).map_or("", |e| e.as_str())
        ))
        .clause("EVO-1"));
    }
    Ok(())
}

/// Ids whose type is written as one that also serves as a surrogate.
fn plain_surrogates(v: &Value, out: &mut Vec<(i32, String)>) {
    match v {
        Value::Object(o) => {
            for (id, t) in [("id", "type"), ("element-id", "element"), ("key-id", "key"), ("value-id", "value")] {
                if let (Some(id), Some(Value::String(t))) = (o.get(id).and_then(Value::as_i64), o.get(t))
                    && (t == "boolean" || t == "binary")
                {
                    out.push((id as i32, t.clone()));
                }
            }
            o.values().for_each(|v| plain_surrogates(v, out));
        }
        Value::Array(a) => a.iter().for_each(|v| plain_surrogates(v, out)),
        _ => {}
    }
}

fn prefix(e: Error, place: &str) -> Error {
    let out = Error::new(e.kind(), format!("{place}: {}", e.message()));
    match e.clause_id() {
        Some(c) => out.clause(c),
        None => out,
    }
}

/// Says which part is wrong: the parser's own message is only that no variant matched.
fn explain(value: &Value, version: i64, message: &str) -> Error {
    let each = |list: &str, check: &dyn Fn(&Value) -> Option<String>, clause: &'static str| -> Option<Error> {
        value
            .get(list)?
            .as_array()?
            .iter()
            .enumerate()
            .find_map(|(i, v)| check(v).map(|why| Error::malformed(format!("{list}[{i}]: {why}")).clause(clause)))
    };
    let parse = |e: serde_json::Error| e.to_string();
    let schema = |v: &Value| {
        if version >= 2 && v.get("schema-id").and_then(Value::as_i64).is_none() {
            return Some("no integer \"schema-id\"".into());
        }
        serde_json::from_value::<Schema>(v.clone()).err().map(parse)
    };
    let snapshot = |v: &Value| {
        let missing = [("snapshot-id", "an integer"), ("timestamp-ms", "an integer"), ("manifest-list", "a string")]
            .into_iter()
            .find(|(k, want)| match *want {
                "an integer" => v.get(k).and_then(Value::as_i64).is_none(),
                _ => v.get(k).and_then(Value::as_str).is_none(),
            });
        if let Some((k, want)) = missing {
            return Some(format!("no {k:?}, which must be {want}"));
        }
        let op = v.get("summary").and_then(|s| s.get("operation"))?;
        let known = op.as_str().is_some_and(|s| ["append", "replace", "overwrite", "delete"].contains(&s));
        (!known).then(|| format!("operation {op}; allowed: append, replace, overwrite, delete"))
    };
    each("schemas", &schema, "META-F08")
        .or_else(|| {
            each("partition-specs", &|v| serde_json::from_value::<PartitionSpec>(v.clone()).err().map(parse), "JSON-10")
        })
        .or_else(|| {
            each("sort-orders", &|v| serde_json::from_value::<SortOrder>(v.clone()).err().map(parse), "JSON-14")
        })
        .or_else(|| each("snapshots", &snapshot, "META-F16"))
        .unwrap_or_else(|| {
            // The reason of a version's own conversion is lost in the parser's untagged enum; ask again by hand.
            let reason = consistency(value).unwrap_or_else(|| message.to_string());
            Error::malformed(format!("table metadata of version {version}: {reason}")).clause("META-F01")
        })
}

/// Checks references inside the document, the other reason for which the parser gives up.
fn consistency(value: &Value) -> Option<String> {
    let has = |list: &str, key: &str, id: i64| {
        value
            .get(list)
            .and_then(Value::as_array)
            .is_some_and(|a| a.iter().any(|v| v.get(key).and_then(Value::as_i64) == Some(id)))
    };
    for (field, list, key) in [
        ("current-schema-id", "schemas", "schema-id"),
        ("default-spec-id", "partition-specs", "spec-id"),
        ("default-sort-order-id", "sort-orders", "order-id"),
        ("current-snapshot-id", "snapshots", "snapshot-id"),
    ] {
        if let Some(id) = value.get(field).and_then(Value::as_i64)
            && id != -1
            && !has(list, key, id)
        {
            return Some(format!("{field} is {id}, and no such entry is in {list}"));
        }
    }
    if let Some(Value::Object(refs)) = value.get("refs") {
        for (name, r) in refs {
            let id = r.get("snapshot-id").and_then(Value::as_i64);
            if !id.is_some_and(|id| has("snapshots", "snapshot-id", id)) {
                return Some(format!("ref {name:?} points at {id:?}, and no such snapshot exists"));
            }
        }
        let main = refs.get("main").and_then(|m| m.get("snapshot-id")).and_then(Value::as_i64);
        let current = value.get("current-snapshot-id").and_then(Value::as_i64).filter(|id| *id != -1);
        if main.is_some() && main != current {
            return Some(format!("current-snapshot-id is {current:?} and ref main is {main:?} (META-33)"));
        }
    }
    None
}
