//! Loads a table into a [`Model`]: parses what can be parsed, remembers what cannot.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;

use crate::avro::{self, Field, Node, V};
use crate::model::*;
use crate::types::Schema;

/// Loads the metadata file and every manifest list and manifest it names.
///
/// # Errors
/// Text when the metadata file itself cannot be read or is not a JSON object: nothing can be judged then.
pub fn load(target: &Path, opts: &crate::Options) -> Result<Model, String> {
    let path = find_metadata(target)?;
    let mut bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes = gunzip(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let meta: Json = serde_json::from_slice(&bytes).map_err(|e| format!("{}: not JSON: {e}", path.display()))?;
    if !meta.is_object() {
        return Err(format!("{}: not a JSON object", path.display()));
    }
    let declared = meta.get("location").and_then(Json::as_str).unwrap_or_default();
    let dir = path.canonicalize().unwrap_or_else(|_| path.clone());
    let root = dir.parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let declared = strip_file(declared).trim_end_matches('/').to_string();
    let locator = Locator { maps: opts.maps.clone(), declared, root };
    let mut m = Model {
        file: path.display().to_string(),
        version: meta.get("format-version").and_then(Json::as_i64).unwrap_or(0),
        path,
        locator,
        data: opts.data,
        threads: opts.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from)).max(1),
        ..Model::default()
    };
    m.schemas = schemas(&meta);
    m.specs = specs(&meta);
    m.meta = meta;
    snapshots(&mut m);
    Ok(m)
}

/// Inflates a gzip file through the Avro crate's deflate codec: the header is skipped by hand (RFC 1952).
fn gunzip(b: &[u8]) -> Result<Vec<u8>, String> {
    let flags = *b.get(3).ok_or("gzip header cut short")?;
    let mut p = 10;
    if flags & 4 != 0 {
        let n = b.get(p..p + 2).ok_or("gzip header cut short")?;
        p += 2 + usize::from(u16::from_le_bytes([n[0], n[1]]));
    }
    for bit in [8, 16] {
        if flags & bit != 0 {
            p += 1 + b.get(p..).and_then(|r| r.iter().position(|x| *x == 0)).ok_or("gzip header cut short")?;
        }
    }
    if flags & 2 != 0 {
        p += 2;
    }
    let end = b.len().checked_sub(8).filter(|e| *e > p).ok_or("gzip file cut short")?;
    let mut body = b[p..end].to_vec();
    let codec: apache_avro::Codec = "deflate".parse().map_err(|_| "no deflate codec")?;
    codec.decompress(&mut body).map_err(|e| format!("gzip body: {e}"))?;
    let crc = crc32fast::hash(&body).to_le_bytes();
    if crc != b[end..end + 4] { Err("gzip checksum does not match".into()) } else { Ok(body) }
}

fn schemas(meta: &Json) -> Vec<Schema> {
    let list = meta.get("schemas").and_then(Json::as_array);
    let mut out: Vec<Schema> =
        list.into_iter().flatten().enumerate().map(|(i, j)| Schema::parse(j, &format!("/schemas/{i}"))).collect();
    if out.is_empty()
        && let Some(j) = meta.get("schema")
    {
        out.push(Schema::parse(j, "/schema"));
    }
    out
}

/// Parses a list of partition fields.
pub fn spec_fields(j: &Json) -> Vec<SpecField> {
    let text = |f: &Json, k: &str| f.get(k).and_then(Json::as_str).unwrap_or_default().to_string();
    let sources = |f: &Json| match f.get("source-ids").and_then(Json::as_array) {
        Some(a) => a.iter().filter_map(Json::as_i64).collect(),
        None => f.get("source-id").and_then(Json::as_i64).into_iter().collect(),
    };
    let fields = j.as_array().into_iter().flatten();
    fields
        .map(|f| SpecField {
            sources: sources(f),
            id: f.get("field-id").and_then(Json::as_i64),
            name: text(f, "name"),
            transform: text(f, "transform"),
        })
        .collect()
}

fn specs(meta: &Json) -> Vec<Spec> {
    let list = meta.get("partition-specs").and_then(Json::as_array);
    let one = |i: usize, j: &Json| Spec {
        id: j.get("spec-id").and_then(Json::as_i64).unwrap_or(-1),
        fields: j.get("fields").map(spec_fields).unwrap_or_default(),
        ptr: format!("/partition-specs/{i}"),
    };
    let mut out: Vec<Spec> = list.into_iter().flatten().enumerate().map(|(i, j)| one(i, j)).collect();
    if out.is_empty()
        && let Some(j) = meta.get("partition-spec")
    {
        out.push(Spec { id: 0, fields: spec_fields(j), ptr: "/partition-spec".into() });
    }
    out
}

fn snapshots(m: &mut Model) {
    let mut out = Vec::new();
    for (index, j) in m.meta.get("snapshots").and_then(Json::as_array).into_iter().flatten().enumerate() {
        let int = |k: &str| j.get(k).and_then(Json::as_i64);
        let mut s = Snapshot {
            index,
            id: int("snapshot-id").unwrap_or(-1),
            parent: int("parent-snapshot-id"),
            seq: int("sequence-number").unwrap_or(0),
            timestamp: int("timestamp-ms"),
            first_row_id: int("first-row-id"),
            added_rows: int("added-rows"),
            ..Snapshot::default()
        };
        let summary = j.get("summary").and_then(Json::as_object).into_iter().flatten();
        s.summary = summary.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect();
        s.list = match j.get("manifest-list").and_then(Json::as_str) {
            Some(loc) => list(m, loc, j.get("key-id").is_some_and(|k| !k.is_null())),
            None => inline(j, s.id),
        };
        out.push(s);
    }
    read_manifests(m, &mut out);
    m.by_id = out.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
    m.snapshots = out;
}

/// v1 snapshots may list manifest paths themselves (META-S06).
fn inline(j: &Json, id: i64) -> List {
    let paths = j.get("manifests").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let refs = paths
        .map(|p| ManifestRef { path: p.to_string(), added_snapshot: Some(id), ..ManifestRef::default() })
        .collect();
    List { inline: true, refs, ..List::default() }
}

fn list(m: &Model, loc: &str, encrypted: bool) -> List {
    let mut l = List { location: loc.to_string(), encrypted, ..List::default() };
    let bytes = match m.read(loc) {
        Ok(b) => b,
        Err(e) => {
            l.missing = true;
            l.broken = Some(e.to_string());
            return l;
        }
    };
    if encrypted || bytes.starts_with(b"AGS1") {
        l.encrypted = true;
        return l;
    }
    match avro::read(&bytes) {
        Ok(f) => {
            if let Node::Rec(fields) = &*f.root {
                l.refs = f.records.iter().map(|r| list_record(fields, r)).collect();
            } else {
                l.broken = Some(format!("records are {}, not records", f.root.kind()));
            }
            l.meta = f.meta;
            l.root = Some(f.root);
        }
        Err(e) => l.broken = Some(e),
    }
    l
}

/// Values of a record by field id.
struct ById<'a>(HashMap<i64, &'a V>);

impl<'a> ById<'a> {
    fn new(fields: &[Field], v: &'a V) -> Self {
        let V::Rec(vals) = v else {
            return ById(HashMap::new());
        };
        ById(fields.iter().zip(vals).filter_map(|(f, v)| Some((f.id?, v))).collect())
    }
    fn int(&self, id: i64) -> Option<i64> {
        self.0.get(&id).and_then(|v| v.int())
    }
    fn bytes(&self, id: i64) -> Option<&[u8]> {
        self.0.get(&id).and_then(|v| v.bytes())
    }
}

fn list_record(fields: &[Field], v: &V) -> ManifestRef {
    let r = ById::new(fields, v);
    let partitions = r.0.get(&507).and_then(|v| if let V::Arr(a) = v { Some(a) } else { None });
    let sub = fields.iter().find(|f| f.id == Some(507)).and_then(|f| match f.node.unwrap_optional().0 {
        Node::Arr(el) => Some(el.clone()),
        _ => None,
    });
    let partitions = partitions.map(|a| a.iter().map(|p| summary_record(sub.as_deref(), p)).collect());
    ManifestRef {
        path: r.0.get(&500).and_then(|v| v.str()).unwrap_or_default().to_string(),
        length: r.int(501),
        spec_id: r.int(502),
        content: r.int(517).unwrap_or(0),
        seq: r.int(515).unwrap_or(0),
        min_seq: r.int(516),
        added_snapshot: r.int(503),
        files: [r.int(504), r.int(505), r.int(506)],
        rows: [r.int(512), r.int(513), r.int(514)],
        partitions,
        first_row_id: r.int(520),
        encrypted: r.bytes(519).is_some_and(|b| !b.is_empty()),
        manifest: Arc::default(),
    }
}

fn summary_record(node: Option<&Node>, v: &V) -> FieldSummary {
    let Some(Node::Rec(fields)) = node.map(|n| n.unwrap_optional().0) else {
        return FieldSummary::default();
    };
    let r = ById::new(fields, v);
    let b = |id: i64| r.0.get(&id).and_then(|v| v.boolean());
    FieldSummary {
        contains_null: b(509),
        lower: r.bytes(510).map(<[u8]>::to_vec),
        upper: r.bytes(511).map(<[u8]>::to_vec),
    }
}

/// Reads each distinct manifest once, in parallel, and hands it to every list that names it.
fn read_manifests(m: &Model, snaps: &mut [Snapshot]) {
    let mut wanted: BTreeMap<String, bool> = BTreeMap::new();
    for r in snaps.iter().flat_map(|s| &s.list.refs) {
        *wanted.entry(r.path.clone()).or_default() |= r.encrypted;
    }
    let work: Vec<(String, bool)> = wanted.into_iter().collect();
    let done: Mutex<HashMap<String, Arc<Manifest>>> = Mutex::new(HashMap::new());
    crate::parallel(m.threads, &work, |(loc, enc)| {
        let man = Arc::new(manifest(m, loc, *enc));
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(loc.clone(), man);
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for r in snaps.iter_mut().flat_map(|s| &mut s.list.refs) {
        if let Some(man) = done.get(&r.path) {
            r.manifest = man.clone();
        }
    }
}

fn manifest(m: &Model, loc: &str, encrypted: bool) -> Manifest {
    let mut out = Manifest { encrypted, ..Manifest::default() };
    let bytes = match m.read(loc) {
        Ok(b) => b,
        Err(e) => {
            out.missing = true;
            out.broken = Some(e.to_string());
            return out;
        }
    };
    out.file_size = Some(bytes.len() as u64);
    if encrypted || bytes.starts_with(b"AGS1") {
        out.encrypted = true;
        return out;
    }
    let f = match avro::read(&bytes) {
        Ok(f) => f,
        Err(e) => {
            out.broken = Some(e);
            return out;
        }
    };
    let Node::Rec(fields) = &*f.root else {
        out.broken = Some(format!("records are {}, not records", f.root.kind()));
        return out;
    };
    let data = fields.iter().find(|x| x.id == Some(2)).map(|x| x.node.clone());
    let Some(Node::Rec(inner)) = data.as_deref().map(|n| n.unwrap_optional().0) else {
        out.broken = Some("no data_file record with field id 2".into());
        out.root = Some(f.root.clone());
        return out;
    };
    if let Some(Node::Rec(p)) = inner.iter().find(|x| x.id == Some(102)).map(|x| x.node.unwrap_optional().0) {
        out.partition_ids = p.iter().map(|x| x.id.unwrap_or(-1)).collect();
    }
    out.entries = f.records.into_iter().map(|r| entry(fields, inner, r)).collect();
    let mut next = 0;
    for e in &mut out.entries {
        if e.live() && e.content == 0 && e.first_row_id.is_none() {
            e.row_id_offset = Some(next);
            next += e.records;
        }
    }
    out.null_rows = next;
    out.meta = f.meta;
    out.root = Some(f.root);
    out
}

fn entry(fields: &[Field], inner: &[Field], r: V) -> Entry {
    let mut e = Entry { status: -1, records: -1, size: -1, ..Entry::default() };
    let V::Rec(vals) = r else { return e };
    let mut holes = Vec::new();
    for (f, v) in fields.iter().zip(vals) {
        match f.id {
            Some(0) => e.status = v.int().unwrap_or(-1),
            Some(1) => e.snapshot_id = v.int(),
            Some(3) => e.seq = v.int(),
            Some(4) => e.file_seq = v.int(),
            Some(2) => {
                let V::Rec(vals) = v else { continue };
                for (f, v) in inner.iter().zip(vals) {
                    data_field(&mut e, f.id.unwrap_or(-1), v, &mut holes);
                }
            }
            _ => {}
        }
    }
    e.holes = holes;
    e
}

fn data_field(e: &mut Entry, id: i64, v: V, holes: &mut Vec<&'static str>) {
    let some = !v.is_null();
    match (id, v) {
        (134, V::Int(i)) => e.content = i,
        (100, V::Str(s)) => e.path = s.into(),
        (100, _) => holes.push("file_path"),
        (101, V::Str(s)) => e.format = s,
        (101, _) => holes.push("file_format"),
        (102, V::Rec(p)) => e.partition = V2(p),
        (102, _) => holes.push("partition"),
        (103, V::Int(i)) => e.records = i,
        (103, _) => holes.push("record_count"),
        (104, V::Int(i)) => e.size = i,
        (104, _) => holes.push("file_size_in_bytes"),
        (106, _) => e.has_ordinal = some,
        (107, _) => e.has_sort_columns = some,
        (109, v) => e.metrics.value_counts = counts(v),
        (110, v) => e.metrics.null_counts = counts(v),
        (137, v) => e.metrics.nan_counts = counts(v),
        (111, _) => e.has_distinct = some,
        (125, v) => e.metrics.lower = bounds(v),
        (128, v) => e.metrics.upper = bounds(v),
        (131, V::Bytes(b)) => e.encrypted = !b.is_empty(),
        (132, V::Arr(a)) => e.split_offsets = Some(a.iter().filter_map(V::int).collect()),
        (135, V::Arr(a)) => e.equality_ids = Some(a.iter().filter_map(V::int).collect()),
        (140, v) => e.sort_order = v.int(),
        (142, v) => e.first_row_id = v.int(),
        (143, V::Str(s)) => e.referenced = Some(s.into()),
        (144, v) => e.offset = v.int(),
        (145, v) => e.length = v.int(),
        _ => {}
    }
}

/// Key/value pairs of an integer-keyed map stored as an array of two-field records (MAN-3).
fn pairs(v: V) -> Option<Vec<(i64, V)>> {
    let V::Arr(a) = v else { return None };
    let pair = |r: V| {
        let V::Rec(mut kv) = r else { return None };
        let value = kv.pop()?;
        Some((kv.pop()?.int()?, value))
    };
    Some(a.into_iter().filter_map(pair).collect())
}

fn counts(v: V) -> Option<Vec<(i64, i64)>> {
    Some(pairs(v)?.into_iter().filter_map(|(k, v)| Some((k, v.int()?))).collect())
}

fn bounds(v: V) -> Option<Vec<(i64, Vec<u8>)>> {
    let take = |v: V| if let V::Bytes(b) = v { Some(b) } else { None };
    Some(pairs(v)?.into_iter().filter_map(|(k, v)| Some((k, take(v)?))).collect())
}
