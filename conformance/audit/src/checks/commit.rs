//! What a snapshot did, against what it says: operation, re-added files, replaced content (META-20, META-21, MAN-14, PART-2).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Check, Family, error, warning};
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model, Snapshot};

pub const FAMILY: Family = Family { title: "Commits against their label", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("OP-1", "an append adds data files and removes nothing"),
    error("OP-6", "a delete adds no data files"),
    error("META-21", "a replace keeps the number of live rows"),
    warning("MAN-14", "a deleted file path is not added again"),
    error("MAN-15", "a data file is live at most once in a snapshot"),
    error("MAN-11", "a live file of the parent is either still live or recorded as deleted"),
];

/// Entries a snapshot wrote: those of manifests it added, with its id.
pub fn own(x: &Snapshot) -> impl Iterator<Item = (&ManifestRef, usize, &Entry)> {
    let refs = x.list.refs.iter().filter(move |r| r.added_snapshot == Some(x.id));
    refs.flat_map(|r| r.manifest.entries.iter().enumerate().map(move |(i, e)| (r, i, e)))
        .filter(move |(r, _, e)| e.status != 0 && r.snapshot_of(e) == Some(x.id))
}

/// Live rows when they can be counted from manifests: records minus DV cardinalities, no other deletes about.
fn live_rows(x: &Snapshot) -> Option<i64> {
    let mut n = 0;
    for (_, _, e) in x.live() {
        match e.content {
            0 => n += e.records,
            _ if e.is_dv() => n -= e.records,
            _ => return None,
        }
    }
    Some(n)
}

fn run(m: &Model, s: &mut Sink) {
    let mut deleted: HashMap<Arc<str>, i64> = HashMap::new();
    for x in &m.snapshots {
        for (_, _, e) in own(x).filter(|(_, _, e)| e.status == 2 && e.content == 0) {
            deleted.entry(e.path.clone()).or_insert(x.seq);
        }
    }
    for x in &m.snapshots {
        if x.list.broken.is_some() {
            continue;
        }
        let (mut removes, mut adds, mut adds_deletes) = (None, None, None);
        for (r, i, e) in own(x) {
            let place = || format!("{} entry {i}", r.path);
            match (e.content, e.status) {
                (0, 1) => adds = adds.or_else(|| Some(place())),
                (0, 2) => removes = removes.or_else(|| Some(place())),
                (_, 1) => adds_deletes = adds_deletes.or_else(|| Some(place())),
                _ => {}
            }
            if e.status == 1
                && e.content == 0
                && let Some(seq) = deleted.get(&e.path).filter(|seq| **seq <= x.seq)
            {
                s.warn(
                    "MAN-14",
                    &r.path,
                    r.manifest.at(i, "data_file.file_path"),
                    &e.path,
                    format!("a new path, commit {seq} deleted this one"),
                );
            }
        }
        match x.operation() {
            Some("append") => {
                for p in [removes, adds_deletes].into_iter().flatten() {
                    s.err(
                        "OP-1",
                        &m.file,
                        x.ptr("summary/operation"),
                        format!("append, but {p} removes data or adds deletes"),
                        "delete or overwrite",
                    );
                }
            }
            Some("delete") => {
                if let Some(p) = adds {
                    s.err(
                        "OP-6",
                        &m.file,
                        x.ptr("summary/operation"),
                        format!("delete, but {p} adds data"),
                        "overwrite",
                    );
                }
            }
            Some("replace") => replaced(m, x, s),
            _ => {}
        }
        twice(x, s);
        vanished(m, x, s);
    }
}

fn replaced(m: &Model, x: &Snapshot, s: &mut Sink) {
    let Some(p) = m.parent(x).filter(|p| p.complete() && x.complete()) else {
        return;
    };
    if let (Some(a), Some(b)) = (live_rows(p), live_rows(x))
        && a != b
    {
        s.err(
            "META-21",
            &m.file,
            x.ptr("summary/operation"),
            format!("replace, but {b} live rows after {a}"),
            "the same number of live rows",
        );
    }
}

fn twice(x: &Snapshot, s: &mut Sink) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (r, i, e) in x.live().filter(|(_, _, e)| e.content == 0) {
        if !seen.insert(&e.path) {
            s.err(
                "MAN-15",
                &r.path,
                r.manifest.at(i, "data_file.file_path"),
                &e.path,
                format!("live once in snapshot {}", x.id),
            );
        }
    }
}

/// Files may not drop out of a table silently: each one live in the parent is live or DELETED in the child.
fn vanished(m: &Model, x: &Snapshot, s: &mut Sink) {
    let Some(p) = m.parent(x).filter(|p| p.complete() && x.complete()) else {
        return;
    };
    let kept: HashSet<&str> = x.list.refs.iter().map(|r| r.path.as_str()).collect();
    let mut here = None;
    for r in p.list.refs.iter().filter(|r| !kept.contains(r.path.as_str())) {
        let here = here.get_or_insert_with(|| {
            x.list.refs.iter().flat_map(|r| &r.manifest.entries).map(Entry::key).collect::<HashSet<_>>()
        });
        for e in r.manifest.entries.iter().filter(|e| e.live() && e.content == 0) {
            if !here.contains(&e.key()) {
                s.err(
                    "MAN-11",
                    &x.list.location,
                    "entries",
                    format!("no entry for {}, live in parent {}", e.path, p.id),
                    "a live or a deleted entry",
                );
            }
        }
    }
}
