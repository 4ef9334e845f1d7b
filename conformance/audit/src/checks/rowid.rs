//! Assignment of first_row_id in manifest lists and entries (FRID, LINEAGE-21).

use std::collections::HashMap;

use super::{Check, Family, error, note};
use crate::finding::Sink;
use crate::model::{Model, Snapshot};

pub const FAMILY: Family = Family { title: "First row ids", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("LINEAGE-21", "every data manifest of a v3 snapshot has a first_row_id"),
    error("FRID-3", "a file keeps its first_row_id from snapshot to snapshot"),
    note("FRID-9", "deleted entries store the file's first_row_id"),
    error("FRID-4", "a manifest keeps its first_row_id from list to list"),
    error("FRID-5", "ids given by a snapshot lie in its range and do not overlap"),
    error("LINEAGE-1", "row-id ranges of live data files are disjoint"),
    error("LINEAGE-41", "row ids of live files lie below next-row-id"),
];

fn run(m: &Model, s: &mut Sink) {
    if m.version < 3 {
        return;
    }
    let next = m.int("next-row-id").unwrap_or(i64::MAX);
    for x in &m.snapshots {
        if !m.is_v3_snapshot(x) || !x.complete() {
            continue;
        }
        assigned(x, s);
        carried(m, x, s);
        disjoint(x, next, s);
    }
}

fn assigned(x: &Snapshot, s: &mut Sink) {
    let f = &x.list.location;
    let first = x.first_row_id.unwrap_or(0);
    let end = first.saturating_add(x.added_rows.unwrap_or(0));
    let mut floor = first;
    for (i, r) in x.list.refs.iter().enumerate().filter(|(_, r)| r.content == 0) {
        let at = || format!("record {i}: first_row_id");
        let Some(id) = r.first_row_id else {
            s.err("LINEAGE-21", f, at(), "null", "an assigned id");
            continue;
        };
        // Below the snapshot's range: assigned earlier. The snapshot's own manifests must lie inside.
        if id < first {
            if r.added_snapshot == Some(x.id) && r.manifest.null_rows > 0 {
                s.err("FRID-5", f, at(), id, format!("at least the snapshot's first-row-id, {first}"));
            }
            continue;
        }
        let used = id.saturating_add(r.manifest.null_rows);
        if id < floor || used > end {
            s.err(
                "FRID-5",
                f,
                at(),
                format!("[{id}, {used})"),
                format!("inside [{floor}, {end}), what is left of the snapshot's range"),
            );
        }
        floor = floor.max(used);
    }
}

fn carried(m: &Model, x: &Snapshot, s: &mut Sink) {
    let Some(p) = m.parent(x).filter(|p| p.complete() && m.is_v3_snapshot(p)) else {
        return;
    };
    let old: HashMap<&str, Option<i64>> = p.list.refs.iter().map(|r| (r.path.as_str(), r.first_row_id)).collect();
    let mut files: Option<HashMap<&str, i64>> = None;
    for (i, r) in x.list.refs.iter().enumerate().filter(|(_, r)| r.content == 0) {
        if let Some(before) = old.get(r.path.as_str()) {
            if before.is_some() && *before != r.first_row_id {
                s.err(
                    "FRID-4",
                    &x.list.location,
                    format!("record {i}: first_row_id"),
                    format!("{:?}", r.first_row_id),
                    format!("{before:?} as in the parent"),
                );
            }
            continue;
        }
        let files = files.get_or_insert_with(|| {
            p.live()
                .filter(|(_, _, e)| e.content == 0)
                .filter_map(|(r, _, e)| Some((&*e.path, r.first_row_of(e)?)))
                .collect()
        });
        for (k, e) in r.manifest.entries.iter().enumerate().filter(|(_, e)| e.status != 1) {
            let Some(before) = files.get(&*e.path) else {
                continue;
            };
            let place = r.manifest.at(k, "data_file.first_row_id");
            if e.live() && r.first_row_of(e) != Some(*before) {
                s.err(
                    "FRID-3",
                    &r.path,
                    place,
                    format!("{:?}", r.first_row_of(e)),
                    format!("{before} as in the parent"),
                );
            } else if !e.live() && e.first_row_id.is_none() {
                s.note("FRID-9", &r.path, place, "null on a deleted entry", before);
            } else if !e.live() && e.first_row_id != Some(*before) {
                s.err("FRID-3", &r.path, place, format!("{:?}", e.first_row_id), format!("{before} as in the parent"));
            }
        }
    }
}

fn disjoint(x: &Snapshot, next: i64, s: &mut Sink) {
    let mut ranges: Vec<(i64, i64, &str)> = x
        .live()
        .filter(|(_, _, e)| e.content == 0 && e.records > 0)
        .filter_map(|(r, _, e)| Some((r.first_row_of(e)?, e.records, &*e.path)))
        .collect();
    ranges.sort_unstable();
    for w in ranges.windows(2) {
        if w[0].0.saturating_add(w[0].1) > w[1].0 {
            s.err(
                "LINEAGE-1",
                w[1].2,
                "first_row_id",
                format!("[{}, {}) in snapshot {}", w[1].0, w[1].0 + w[1].1, x.id),
                format!("at least {}, after {}", w[0].0 + w[0].1, w[0].2),
            );
        }
    }
    if let Some((first, n, path)) = ranges.last()
        && first.saturating_add(*n) > next
    {
        s.err(
            "LINEAGE-41",
            path,
            "first_row_id",
            format!("[{first}, {})", first + n),
            format!("below next-row-id, {next}"),
        );
    }
}
