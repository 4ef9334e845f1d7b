//! Delete entries: what is allowed in which version, DV members, uniqueness, no delete lost (DEL, DV-2..16, EQDEL-3).

use std::collections::{HashMap, HashSet};

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model, Snapshot};
use crate::types::{Prim, Shape};

pub const FAMILY: Family = Family { title: "Delete entries", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("DEL-1", "row-level deletes need v2; v3 snapshots add no position delete files"),
    error("DEL-2", "v2 tables have no deletion vectors"),
    error("DEL-6", "a DV entry has referenced_data_file, content_offset and content_size_in_bytes"),
    error("DV-2", "a data file has at most one DV in a snapshot"),
    error("DV-3", "deletes of a data file are not lost from parent to child"),
    note("DV-10", "a DV entry has no metrics and no sort order"),
    note("DV-16", "no DV is empty"),
    error("EQDEL-3", "equality fields are known primitives, neither floating nor inside lists or maps"),
    warning("MAN-D22", "referenced_data_file is set on position deletes only"),
];

fn run(m: &Model, s: &mut Sink) {
    let v3_seqs: HashSet<i64> = m.snapshots.iter().filter(|x| m.is_v3_snapshot(x)).map(|x| x.seq).collect();
    for (_, r) in m.manifests() {
        for (i, e) in r.manifest.entries.iter().enumerate() {
            one(m, &v3_seqs, r, i, e, s);
        }
    }
    for x in &m.snapshots {
        unique(x, s);
        lost(m, x, s);
    }
}

fn one(m: &Model, v3: &HashSet<i64>, r: &ManifestRef, i: usize, e: &Entry, s: &mut Sink) {
    let at = |f: &str| r.manifest.at(i, &format!("data_file.{f}"));
    if e.referenced.is_some() && e.content != 1 {
        s.warn("MAN-D22", &r.path, at("referenced_data_file"), e.referenced.as_deref().unwrap_or_default(), "null");
    }
    if e.content == 0 {
        return;
    }
    if m.version < 2 {
        s.err("DEL-1", &r.path, at("content"), e.content, "0 in v1");
    }
    if e.content == 2 {
        for id in e.equality_ids.iter().flatten() {
            let why = match m.field(*id) {
                None => "not a field of any schema",
                Some(f) if f.in_collection => "inside a list or map",
                Some(f) => match &f.shape {
                    Shape::Prim(Prim::Float | Prim::Double) => "floating point (TRAP-24)",
                    Shape::Prim(Prim::Variant) => "variant",
                    Shape::Prim(_) => continue,
                    _ => "not a primitive",
                },
            };
            s.err(
                "EQDEL-3",
                &r.path,
                at("equality_ids"),
                format!("field {id}: {why}"),
                "a primitive that is not floating, outside lists and maps",
            );
        }
        return;
    }
    if e.is_dv() {
        if m.version == 2 {
            s.err("DEL-2", &r.path, at("file_format"), &e.format, "a position delete file in v2");
        }
        if e.referenced.is_none() || e.offset.is_none() || e.length.is_none() {
            s.err(
                "DEL-6",
                &r.path,
                at("referenced_data_file, content_offset, content_size_in_bytes"),
                format!("{:?}, {:?}, {:?}", e.referenced, e.offset, e.length),
                "all three set",
            );
        }
        if e.records == 0 {
            s.note("DV-16", &r.path, at("record_count"), 0, "at least one position");
        }
        let x = &e.metrics;
        if e.sort_order.is_some_and(|o| o != 0)
            || [&x.value_counts, &x.null_counts, &x.nan_counts]
                .iter()
                .any(|c| c.as_ref().is_some_and(|c| !c.is_empty()))
            || x.lower.as_ref().is_some_and(|l| !l.is_empty())
        {
            s.note("DV-10", &r.path, at("value_counts, lower_bounds, sort_order_id"), "set", "null");
        }
    } else if e.status == 1 && v3.contains(&r.seq) {
        s.err(
            "DEL-1",
            &r.path,
            at("file_format"),
            format!("{} position deletes added by a v3 snapshot", e.format),
            "a deletion vector",
        );
    }
}

/// Live DVs of a snapshot by the data file they name.
pub fn dvs(x: &Snapshot) -> HashMap<&str, (&ManifestRef, usize, &Entry)> {
    x.live()
        .filter(|(_, _, e)| e.content == 1 && e.is_dv())
        .filter_map(|t| Some((t.2.referenced.as_deref()?, t)))
        .collect()
}

fn unique(x: &Snapshot, s: &mut Sink) {
    let mut seen: HashMap<&str, String> = HashMap::new();
    for (r, i, e) in x.live().filter(|(_, _, e)| e.content == 1 && e.is_dv()) {
        let Some(d) = e.referenced.as_deref() else {
            continue;
        };
        let id = format!("{}@{}", e.path, e.offset.unwrap_or(-1));
        if let Some(other) = seen.insert(d, id.clone()) {
            s.err(
                "DV-2",
                &r.path,
                r.manifest.at(i, "data_file.referenced_data_file"),
                format!("{id} and {other} for {d}"),
                format!("one live DV in snapshot {}", x.id),
            );
        }
    }
}

/// A DV only ever grows while its data file lives: writers merge (DV-2, DV-3).
fn lost(m: &Model, x: &Snapshot, s: &mut Sink) {
    let Some(p) = m.parent(x).filter(|p| p.complete() && x.complete()) else {
        return;
    };
    let old = dvs(p);
    if old.is_empty() {
        return;
    }
    let new = dvs(x);
    let mut live: Option<HashSet<&str>> = None;
    for (d, (_, _, before)) in old {
        let now = new.get(d).map(|(_, _, e)| e.records);
        if now.is_some_and(|n| n >= before.records) {
            continue;
        }
        let live =
            live.get_or_insert_with(|| x.live().filter(|(_, _, e)| e.content == 0).map(|(_, _, e)| &*e.path).collect());
        if live.contains(d) {
            let found = now.map_or("no DV".to_string(), |n| format!("a DV of {n} positions"));
            s.err(
                "DV-3",
                &x.list.location,
                format!("DV of {d}"),
                found,
                format!("at least the {} positions of parent {}", before.records, p.id),
            );
        }
    }
}
