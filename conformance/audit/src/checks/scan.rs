//! Which deletes reach which data files: binding of DVs and dangling deletes (SCAN, DV-4..7).

use std::collections::HashMap;

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model, Snapshot};

pub const FAMILY: Family = Family { title: "Deletes and the files they reach", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("SCAN-1", "a DV's data sequence number is not below its data file's"),
    error("DV-7", "a DV has the spec and partition of its data file, and not more positions than rows"),
    warning("DV-4", "a DV names a live data file; others dangle"),
    note("SCAN-2", "a position delete file can reach a live data file"),
    note("SCAN-3", "an equality delete file can reach a live data file"),
    note("DV-15", "file-scoped position deletes go when their data file has a DV"),
];

fn run(m: &Model, s: &mut Sink) {
    for x in m.snapshots.iter().filter(|x| x.complete()) {
        if x.list.refs.iter().any(|r| r.manifest.entries.iter().any(|e| e.live() && e.content != 0)) {
            bind(m, x, s);
        }
    }
}

/// Smallest and largest data sequence number of the live data files of a partition.
type Span = (i64, i64);

fn bind(m: &Model, x: &Snapshot, s: &mut Sink) {
    let mut data: HashMap<&str, (&ManifestRef, &Entry)> = HashMap::new();
    let mut parts: HashMap<(Option<i64>, String), Span> = HashMap::new();
    let mut all: Option<Span> = None;
    let loose = x.live().any(|(_, _, e)| e.content != 0 && !e.is_dv());
    for (r, _, e) in x.live().filter(|(_, _, e)| e.content == 0) {
        data.insert(&e.path, (r, e));
        if loose && let Some(q) = r.seq_of(e) {
            let widen = |s: &mut Span| *s = (s.0.min(q), s.1.max(q));
            widen(parts.entry((r.spec_id, e.partition.key())).or_insert((q, q)));
            widen(all.get_or_insert((q, q)));
        }
    }
    let dvs = super::deletes::dvs(x);
    for (r, i, e) in x.live().filter(|(_, _, e)| e.content != 0) {
        let at = |f: &str| r.manifest.at(i, f);
        let q = r.seq_of(e).unwrap_or(i64::MAX);
        if e.is_dv() {
            let Some(d) = e.referenced.as_deref() else {
                continue;
            };
            let Some((dr, de)) = data.get(d) else {
                s.warn(
                    "DV-4",
                    &r.path,
                    at("data_file.referenced_data_file"),
                    d,
                    format!("a data file live in snapshot {}", x.id),
                );
                continue;
            };
            let dq = dr.seq_of(de).unwrap_or(0);
            if dq > q {
                s.err("SCAN-1", &r.path, at("sequence_number"), q, format!("at least {dq}, that of {d}"));
            }
            if dr.spec_id != r.spec_id || de.partition != e.partition {
                s.err(
                    "DV-7",
                    &r.path,
                    at("data_file.partition"),
                    format!("spec {:?} {}", r.spec_id, e.partition.key()),
                    format!("spec {:?} {} of {d}", dr.spec_id, de.partition.key()),
                );
            }
            if e.records > de.records {
                s.err(
                    "DV-7",
                    &r.path,
                    at("data_file.record_count"),
                    e.records,
                    format!("at most the {} rows of {d}", de.records),
                );
            }
            continue;
        }
        let span = parts.get(&(r.spec_id, e.partition.key()));
        if e.content == 1 {
            let target = e.referenced.as_deref();
            let reaches = match target {
                Some(d) => data.get(d).is_some_and(|(dr, de)| {
                    dr.seq_of(de).unwrap_or(0) <= q && dr.spec_id == r.spec_id && de.partition == e.partition
                }),
                None => span.is_some_and(|(min, _)| *min <= q),
            };
            if !reaches {
                s.note(
                    "SCAN-2",
                    &r.path,
                    at("data_file"),
                    format!("{} reaches no live data file", e.path),
                    format!("a data file with sequence number up to {q} in its partition"),
                );
            } else if let Some(d) = target.filter(|d| dvs.contains_key(d)) {
                s.note(
                    "DV-15",
                    &r.path,
                    at("data_file"),
                    format!("{} still live", e.path),
                    format!("removed, {d} has a DV"),
                );
            }
        } else {
            let global =
                r.spec_id.and_then(|id| m.spec(id)).is_some_and(|sp| sp.fields.iter().all(|f| f.transform == "void"));
            let reach = if global { all.as_ref() } else { span };
            if reach.is_none_or(|(min, _)| *min >= q) {
                s.note(
                    "SCAN-3",
                    &r.path,
                    at("data_file"),
                    format!("{} reaches no live data file", e.path),
                    format!("a data file with sequence number below {q}"),
                );
            }
        }
    }
}
