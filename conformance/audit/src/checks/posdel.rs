//! Rows of Parquet position delete files, and their folding into DVs (POSDEL, DV-3).

use std::collections::{HashMap, HashSet};

use super::{Check, Family, error, note};
use crate::finding::Sink;
use crate::model::Model;

pub const FAMILY: Family = Family { title: "Position delete files", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("POSDEL-1", "rows have file_path and pos, required, with their reserved ids"),
    error("POSDEL-2", "rows are sorted by file_path, then pos"),
    note("POSDEL-3", "every file_path is a data file the table knows"),
    error("POSDEL-5", "referenced_data_file is the only file_path of the rows"),
];

fn run(m: &Model, s: &mut Sink) {
    if !m.data {
        return;
    }
    let files = m.position_deletes();
    if files.is_empty() {
        return;
    }
    let known: HashSet<&str> = m
        .manifests()
        .iter()
        .flat_map(|(_, r)| &r.manifest.entries)
        .filter(|e| e.content == 0)
        .map(|e| &*e.path)
        .collect();
    let mut seen = HashSet::new();
    for (_, r) in m.manifests() {
        for (i, e) in r.manifest.entries.iter().enumerate().filter(|(_, e)| e.live() && e.content == 1) {
            let Some(d) = files.get(&e.path).filter(|_| seen.insert(e.path.clone())) else {
                continue;
            };
            if let Some(why) = &d.broken {
                s.err("POSDEL-1", &e.path, "columns", why, "file_path (2147483546) and pos (2147483545), required");
                continue;
            }
            if let Some(row) = &d.unsorted {
                s.err("POSDEL-2", &e.path, "rows", row, "after its predecessor");
            }
            if let Some(want) = &e.referenced
                && let Some(other) = d.by_path.keys().find(|k| *k != want)
            {
                s.err(
                    "POSDEL-5",
                    &r.path,
                    r.manifest.at(i, "data_file.referenced_data_file"),
                    want,
                    format!("null, {} also deletes from {other}", e.path),
                );
            }
            if let Some(p) = d.by_path.keys().find(|k| !known.contains(&***k)) {
                s.note("POSDEL-3", &e.path, "file_path", p, "a data file of the table's manifests");
            }
        }
    }
    folded(m, s);
}

/// A DV holds every position that applicable position delete files name (DV-3).
fn folded(m: &Model, s: &mut Sink) {
    let files = m.position_deletes();
    let mut done = HashSet::new();
    for x in m.snapshots.iter().filter(|x| x.complete()) {
        let dvs = super::deletes::dvs(x);
        if dvs.is_empty() {
            continue;
        }
        let data: HashMap<&str, _> =
            x.live().filter(|(_, _, e)| e.content == 0).map(|(r, _, e)| (&*e.path, (r, e))).collect();
        for (r, _, e) in x.live().filter(|(_, _, e)| e.content == 1 && !e.is_dv()) {
            let Some(d) = files.get(&e.path) else {
                continue;
            };
            for (path, rows) in &d.by_path {
                let (Some((dr, de)), Some((_, _, dv))) = (data.get(&**path), dvs.get(&**path)) else {
                    continue;
                };
                let applies = dr.spec_id == r.spec_id
                    && de.partition == e.partition
                    && dr.seq_of(de).unwrap_or(0) <= r.seq_of(e).unwrap_or(0);
                if !applies || !done.insert((e.path.clone(), dv.key())) {
                    continue;
                }
                let Some(p) = m.dv_positions().get(&dv.key()) else {
                    continue;
                };
                if let Some(gone) = rows.iter().find(|q| **q >= 0 && !p.contains(**q as u64)) {
                    s.err(
                        "DV-3",
                        &dv.path,
                        format!("blob at {}", dv.offset.unwrap_or(-1)),
                        format!("no position {gone} of {path}"),
                        format!("every position of {}", e.path),
                    );
                }
            }
        }
    }
}
