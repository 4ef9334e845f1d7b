//! Manifest entries: status, sequence numbers, file facts, metrics (MAN-E*, MAN-D*, SEQ, FRID-1).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::{Check, Family, error, note, warning};
use crate::avro::hex;
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model};
use crate::types::{Prim, Shape, le_float};

pub const FAMILY: Family = Family { title: "Manifest entries", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("MAN-E1", "status is 0, 1 or 2"),
    error("MAN-10", "added and deleted entries carry the snapshot that wrote their manifest"),
    error("MAN-12", "existing and deleted entries store both sequence numbers"),
    warning("SEQ-1", "new files are written with null sequence numbers"),
    error("SEQ-2", "sequence numbers do not exceed the manifest's, nor the data number the file number"),
    error("MAN-13", "a file's sequence numbers never change"),
    error("MAN-D01", "content is 0 in data manifests, 1 or 2 in delete manifests"),
    error("MAN-D02", "file_path is a full path"),
    error("MAN-D03", "file_format is avro, orc, parquet or, for a DV, puffin"),
    note("TRAP-2", "file_format is lower case in the text, upper case in Java's files"),
    error("MAN-D05", "record_count is present, not negative, and the number of rows in the file"),
    error("MAN-D06", "file_size_in_bytes is the size of the file"),
    error("META-F16", "every file a listed snapshot needs exists"),
    error("MAN-D11", "a top-level column's value count is the record count"),
    error("MAN-D12", "null and NaN counts do not exceed the value count, null counts agree with the footer"),
    error("BIN-11", "bounds are single values of the column's type"),
    error("MAN-21", "bounds cover the footer's minimum and maximum, and a lower bound is not above the upper bound"),
    warning("BIN-16", "NaN is never a bound"),
    error("MAN-D18", "split offsets ascend and lie in the file"),
    error("MAN-D19", "equality_ids are set for equality deletes and for nothing else"),
    warning("SORT-4", "position deletes have no sort order"),
    error("FRID-1", "new data files and all deletes are written with a null first_row_id"),
    error("MAN-D24", "content_offset and content_size_in_bytes come together, for DVs only"),
];

fn run(m: &Model, s: &mut Sink) {
    let mut numbers: HashMap<(Arc<str>, Option<i64>), (Option<i64>, Option<i64>)> = HashMap::new();
    let manifests = m.manifests();
    for (_, r) in &manifests {
        // One note a manifest: writers spell it one way throughout.
        let entries = &r.manifest.entries;
        if let Some(i) = entries.iter().position(|e| e.format.bytes().any(|b| b.is_ascii_uppercase())) {
            s.note(
                "TRAP-2",
                &r.path,
                r.manifest.at(i, "data_file.file_format"),
                &entries[i].format,
                entries[i].format.to_ascii_lowercase(),
            );
        }
        for (i, e) in r.manifest.entries.iter().enumerate() {
            status(r, i, e, s);
            sequence(r, i, e, &mut numbers, s);
            facts(r, i, e, s);
        }
    }
    crate::parallel_findings(m.threads, &manifests, s, |(_, r), s| {
        for (i, e) in r.manifest.entries.iter().enumerate() {
            metrics(m, r, i, e, s);
        }
    });
    sizes(m, s);
}

fn status(r: &ManifestRef, i: usize, e: &Entry, s: &mut Sink) {
    let at = |f: &str| r.manifest.at(i, f);
    if !(0..=2).contains(&e.status) {
        s.err("MAN-E1", &r.path, at("status"), e.status, "0, 1 or 2");
        return;
    }
    let own = r.manifest.version() >= 2 && e.status != 0;
    if own
        && let (Some(id), Some(added)) = (e.snapshot_id, r.added_snapshot)
        && id != added
    {
        s.err("MAN-10", &r.path, at("snapshot_id"), id, format!("{added}, which added the manifest"));
    }
    let deletes = r.manifest.deletes() || r.content == 1;
    if if deletes { !(1..=2).contains(&e.content) } else { e.content != 0 } {
        s.err(
            "MAN-D01",
            &r.path,
            at("data_file.content"),
            e.content,
            if deletes { "1 or 2 in a delete manifest" } else { "0 in a data manifest" },
        );
    }
    if r.manifest.version() >= 3 && e.first_row_id.is_some() && (e.content != 0 || e.status == 1) {
        s.err(
            "FRID-1",
            &r.path,
            at("data_file.first_row_id"),
            e.first_row_id.unwrap_or(0),
            if e.content == 0 { "null on an added data file" } else { "null on a delete file" },
        );
    }
}

fn sequence(
    r: &ManifestRef,
    i: usize,
    e: &Entry,
    numbers: &mut HashMap<(Arc<str>, Option<i64>), (Option<i64>, Option<i64>)>,
    s: &mut Sink,
) {
    if r.manifest.version() < 2 {
        return;
    }
    let at = |f: &str| r.manifest.at(i, f);
    if e.status != 1 {
        for (v, f) in [(e.seq, "sequence_number"), (e.file_seq, "file_sequence_number")] {
            if v.is_none() {
                s.err("MAN-12", &r.path, at(f), "null", "an explicit number on an existing or deleted entry");
            }
        }
    } else if e.file_seq.is_some() {
        s.warn(
            "SEQ-1",
            &r.path,
            at("file_sequence_number"),
            e.file_seq.unwrap_or(0),
            "null on an added entry: it inherits the commit's",
        );
    }
    let (q, fq) = (r.seq_of(e), r.file_seq_of(e));
    if q.is_some_and(|q| q > r.seq || q < 0)
        || fq.is_some_and(|f| f > r.seq || f < 0)
        || (e.status == 1 && fq != Some(r.seq))
        || q > fq && fq.is_some()
    {
        s.err(
            "SEQ-2",
            &r.path,
            at("sequence_number, file_sequence_number"),
            format!("{q:?}, {fq:?}"),
            format!("data number ≤ file number ≤ {}, the manifest's; an added file's number is the manifest's", r.seq),
        );
    }
    if let Some(old) = numbers.insert(e.key(), (q, fq)) {
        let differs = |a: Option<i64>, b: Option<i64>| a.is_some() && b.is_some() && a != b;
        // A path added again by a later commit is MAN-14's business; entries that carry a file over must agree.
        if e.status != 1 && (differs(old.0, q) || differs(old.1, fq)) {
            s.err(
                "MAN-13",
                &r.path,
                at("sequence_number, file_sequence_number"),
                format!("{q:?}, {fq:?}"),
                format!("{:?}, {:?} as in another manifest", old.0, old.1),
            );
        }
    }
}

fn facts(r: &ManifestRef, i: usize, e: &Entry, s: &mut Sink) {
    let at = |f: &str| r.manifest.at(i, &format!("data_file.{f}"));
    for h in &e.holes {
        let clause = match *h {
            "file_path" => "MAN-D02",
            "file_format" => "MAN-D03",
            "record_count" => "MAN-D05",
            "file_size_in_bytes" => "MAN-D06",
            _ => "MAN-D04",
        };
        s.err(clause, &r.path, at(h), "null or another type", "a value");
    }
    if !e.holes.is_empty() {
        return;
    }
    let absolute = e.path.contains(':') || e.path.starts_with('/');
    if !absolute {
        s.err("MAN-D02", &r.path, at("file_path"), &e.path, "a full path");
    }
    let low = e.format.to_ascii_lowercase();
    if !matches!(low.as_str(), "avro" | "orc" | "parquet" | "puffin") || (low == "puffin" && e.content != 1) {
        s.err("MAN-D03", &r.path, at("file_format"), &e.format, "avro, orc, parquet; puffin for a DV");
    }
    if e.records < 0 {
        s.err("MAN-D05", &r.path, at("record_count"), e.records, "0 or more");
    }
    if let Some(o) = &e.split_offsets
        && (o.windows(2).any(|w| w[0] >= w[1]) || o.iter().any(|x| *x < 0 || *x >= e.size))
    {
        s.err("MAN-D18", &r.path, at("split_offsets"), format!("{o:?}"), format!("ascending, below {}", e.size));
    }
    let ids = e.equality_ids.as_ref().is_some_and(|v| !v.is_empty());
    if ids != (e.content == 2) {
        s.err(
            "MAN-D19",
            &r.path,
            at("equality_ids"),
            format!("{:?}", e.equality_ids),
            if e.content == 2 { "at least one field id" } else { "null" },
        );
    }
    if e.content == 1 && e.sort_order.is_some_and(|o| o != 0) {
        s.warn("SORT-4", &r.path, at("sort_order_id"), e.sort_order.unwrap_or(0), "null on position deletes");
    }
    let blob = e.offset.is_some() || e.length.is_some();
    if (blob && !e.is_dv()) || e.offset.is_some() != e.length.is_some() {
        s.err(
            "MAN-D24",
            &r.path,
            at("content_offset, content_size_in_bytes"),
            format!("{:?}, {:?} in a {low} file", e.offset, e.length),
            "both, in a puffin entry only",
        );
    }
}

fn metrics(m: &Model, r: &ManifestRef, i: usize, e: &Entry, s: &mut Sink) {
    let at = |f: &str, id: i64| r.manifest.at(i, &format!("data_file.{f}[{id}]"));
    let x = &e.metrics;
    let by_id = |v: &Option<Vec<(i64, i64)>>| -> HashMap<i64, i64> { v.iter().flatten().copied().collect() };
    let (null_counts, nan_counts) = (by_id(&x.null_counts), by_id(&x.nan_counts));
    for (id, n) in x.value_counts.iter().flatten() {
        let flat = m.field(*id).is_some_and(|f| f.top && matches!(f.shape, Shape::Prim(_)));
        if flat && e.content == 0 && *n != e.records {
            s.err("MAN-D11", &r.path, at("value_counts", *id), n, e.records);
        }
        let (nulls, nans) = (null_counts.get(id).copied().unwrap_or(0), nan_counts.get(id).copied().unwrap_or(0));
        if nulls < 0 || nans < 0 || nulls.saturating_add(nans) > *n {
            s.err(
                "MAN-D12",
                &r.path,
                at("null_value_counts", *id),
                format!("{nulls} nulls, {nans} NaN"),
                format!("at most {n} together"),
            );
        }
    }
    let lower: HashMap<i64, &Vec<u8>> = x.lower.iter().flatten().map(|(k, v)| (*k, v)).collect();
    let upper = x.upper.iter().flatten().map(|(k, v)| (*k, v));
    for (k, b, which) in
        lower.iter().map(|(k, b)| (*k, *b, "lower_bounds")).chain(upper.clone().map(|(k, b)| (k, b, "upper_bounds")))
    {
        let Some(ty) = prim_of(m, k) else { continue };
        if !ty.bound_len_ok(b) {
            s.err(
                "BIN-11",
                &r.path,
                at(which, k),
                format!("{} bytes {}", b.len(), hex(&b[..b.len().min(32)])),
                format!("a {ty:?} in single-value form"),
            );
        } else if matches!(ty, Prim::Float | Prim::Double) && le_float(b).is_some_and(f64::is_nan) {
            s.warn("BIN-16", &r.path, at(which, k), "NaN", "no bound");
        }
    }
    for (k, hi) in upper {
        let (Some(lo), Some(ty)) = (lower.get(&k), prim_of(m, k)) else {
            continue;
        };
        // Geography bounds may wrap (BIN-17) and have no order here.
        if ty.bound_len_ok(lo) && ty.bound_len_ok(hi) && ty.bound_cmp(lo, hi) == Some(std::cmp::Ordering::Greater) {
            s.err("MAN-21", &r.path, at("lower_bounds", k), hex(lo), format!("at most the upper bound {}", hex(hi)));
        }
    }
}

/// Type of a column, or of the two reserved columns of position deletes.
fn prim_of(m: &Model, id: i64) -> Option<Prim> {
    match id {
        2_147_483_546 => return Some(Prim::String),
        2_147_483_545 | 2_147_483_540 | 2_147_483_539 => return Some(Prim::Long),
        _ => {}
    }
    match &m.field(id)?.shape {
        Shape::Prim(p) => Some(p.clone()),
        _ => None,
    }
}

/// Sizes and existence of every distinct live file, in parallel.
fn sizes(m: &Model, s: &mut Sink) {
    let mut seen = HashSet::new();
    let mut work: Vec<(&ManifestRef, usize, &Entry)> = Vec::new();
    for (_, r) in m.manifests() {
        for (i, e) in r.manifest.entries.iter().enumerate() {
            if e.live() && e.holes.is_empty() && seen.insert(e.key()) {
                work.push((r, i, e));
            }
        }
    }
    let cache: Mutex<HashMap<Arc<str>, Option<u64>>> = Mutex::new(HashMap::new());
    let lock = || cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut paths: Vec<Arc<str>> = work.iter().map(|(_, _, e)| e.path.clone()).collect();
    paths.sort();
    paths.dedup();
    crate::parallel(m.threads, &paths, |p| {
        let size = m.size(p);
        lock().insert(p.clone(), size);
    });
    for (r, i, e) in work {
        let at = r.manifest.at(i, "data_file.file_size_in_bytes");
        match lock().get(&e.path).copied().flatten() {
            None => s.err("META-F16", &e.path, "file", "missing", format!("a file, since {} lists it live", r.path)),
            // The size of an encrypted file is that of its cipher text, as on disk (META-74).
            Some(n) if n as i64 != e.size => {
                s.err("MAN-D06", &r.path, at, e.size, format!("{n}, the size of {}", e.path))
            }
            Some(_) => {}
        }
    }
}
