//! Stored row lineage: uniqueness over live rows, bounds, and replaced DVs position by position (LINEAGE-40..43, DV-3).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::{Check, Family, error};
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model, Snapshot};
use crate::rows::{self, LAST_SEQ, ROW_ID};

pub const FAMILY: Family = Family { title: "Row lineage", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("LINEAGE-40", "row ids are unique over the live rows of a snapshot"),
    error("LINEAGE-43", "stored _last_updated_sequence_number is from 0 to the file's own sequence number"),
];

type Stored = Vec<Option<i64>>;

fn run(m: &Model, s: &mut Sink) {
    replaced(m, s);
    if m.version < 3 || !m.data {
        return;
    }
    let stored = read(m, s);
    if stored.is_empty() {
        // Without stored ids LINEAGE-1 has judged everything.
        return;
    }
    let mut heads: HashSet<i64> = m.int("current-snapshot-id").into_iter().collect();
    heads.extend(
        m.get("refs")
            .and_then(|r| r.as_object())
            .into_iter()
            .flatten()
            .filter_map(|(_, r)| r.get("snapshot-id")?.as_i64()),
    );
    let weight: usize = stored.values().map(Vec::len).sum();
    // Every snapshot while that is cheap, else the heads of the refs.
    let all = weight.saturating_mul(m.snapshots.len()) < 20_000_000;
    for x in m.snapshots.iter().filter(|x| (all || heads.contains(&x.id)) && m.is_v3_snapshot(x) && x.complete()) {
        unique(m, x, &stored, s);
    }
}

/// Stored `_row_id` of every live data file that has the column; judges both columns on the way.
fn read(m: &Model, s: &mut Sink) -> HashMap<Arc<str>, Stored> {
    let mut seen = HashSet::new();
    let mut work: Vec<(&ManifestRef, &Entry)> = Vec::new();
    for (_, r) in m.manifests() {
        for e in &r.manifest.entries {
            if e.live()
                && e.content == 0
                && e.format.eq_ignore_ascii_case("parquet")
                && !e.encrypted
                && seen.insert(e.path.clone())
            {
                work.push((r, e));
            }
        }
    }
    let next = m.int("next-row-id").unwrap_or(i64::MAX);
    let out = Mutex::new(HashMap::new());
    crate::parallel_findings(m.threads, &work, s, |(r, e), s| {
        let Ok(f) = rows::open(&m.locator.path(&e.path)) else {
            return;
        };
        if let Some(ids) = rows::leaf(&f, ROW_ID).and_then(|c| rows::longs(&f, c).ok())
            && ids.iter().any(Option::is_some)
        {
            if let Some(bad) = ids.iter().flatten().find(|v| **v < 0 || **v >= next) {
                s.err("LINEAGE-41", &e.path, "_row_id", bad, format!("from 0 to below next-row-id, {next}"));
            }
            out.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(e.path.clone(), ids);
        }
        let Some(seqs) = rows::leaf(&f, LAST_SEQ).and_then(|c| rows::longs(&f, c).ok()) else {
            return;
        };
        let own = r.file_seq_of(e).unwrap_or(i64::MAX);
        if let Some(bad) = seqs.iter().flatten().find(|v| **v < 0 || **v > own) {
            s.err("LINEAGE-43", &e.path, "_last_updated_sequence_number", bad, format!("from 0 to {own}"));
        }
    });
    out.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What is deleted in a file of a snapshot.
struct Deleted<'a> {
    unknown: bool,
    dv: Option<&'a crate::dv::Positions>,
    pos: Vec<&'a Vec<i64>>,
}

impl Deleted<'_> {
    fn has(&self, p: i64) -> bool {
        self.unknown
            || self.dv.is_some_and(|d| d.contains(p.max(0) as u64))
            || self.pos.iter().any(|v| v.binary_search(&p).is_ok())
    }
}

fn unique(m: &Model, x: &Snapshot, stored: &HashMap<Arc<str>, Stored>, s: &mut Sink) {
    // Equality deletes hide rows only a join could name: uniqueness cannot be judged then.
    if x.live().any(|(_, _, e)| e.content == 2) {
        return;
    }
    let data: Vec<(i64, &Entry)> =
        x.live().filter(|(_, _, e)| e.content == 0).filter_map(|(r, _, e)| Some((r.first_row_of(e)?, e))).collect();
    if !data.iter().any(|(_, e)| stored.contains_key(&e.path)) {
        return;
    }
    let dvs = super::deletes::dvs(x);
    let posdels: Vec<&Entry> = x.live().filter(|(_, _, e)| e.content == 1 && !e.is_dv()).map(|t| t.2).collect();
    let deleted = |e: &Entry| Deleted {
        // A DV that does not parse has a finding of its own; what it deletes is unknown.
        unknown: dvs.get(&*e.path).is_some_and(|(_, _, d)| !m.dv_positions().contains_key(&d.key())),
        dv: dvs.get(&*e.path).and_then(|(_, _, d)| m.dv_positions().get(&d.key())),
        pos: posdels.iter().filter_map(|d| m.position_deletes().get(&d.path)?.by_path.get(&e.path)).collect(),
    };
    let mut explicit: Vec<(i64, &str, usize)> = Vec::new();
    let mut implicit: Vec<(i64, i64, &Entry)> = Vec::new();
    for (first, e) in &data {
        let Some(ids) = stored.get(&e.path) else {
            implicit.push((*first, *first + e.records, e));
            continue;
        };
        let d = deleted(e);
        for (p, id) in ids.iter().enumerate() {
            if !d.has(p as i64) {
                explicit.push((id.unwrap_or(*first + p as i64), &e.path, p));
            }
        }
    }
    explicit.sort_unstable();
    for w in explicit.windows(2) {
        if w[0].0 == w[1].0 {
            s.err(
                "LINEAGE-40",
                w[1].1,
                format!("row {}", w[1].2),
                format!("_row_id {}", w[1].0),
                format!("another id, row {} of {} has it in snapshot {}", w[0].2, w[0].1, x.id),
            );
        }
    }
    implicit.sort_unstable_by_key(|t| t.0);
    let mut cache: HashMap<&str, Deleted> = HashMap::new();
    for (id, path, p) in explicit {
        let i = implicit.partition_point(|r| r.0 <= id);
        let Some((first, end, e)) = i.checked_sub(1).map(|i| implicit[i]) else {
            continue;
        };
        if id < end && !cache.entry(&*e.path).or_insert_with(|| deleted(e)).has(id - first) {
            s.err(
                "LINEAGE-40",
                path,
                format!("row {p}"),
                format!("_row_id {id}"),
                format!("another id, row {} of {} has it in snapshot {}", id - first, e.path, x.id),
            );
        }
    }
}

/// A replaced DV keeps every position of the one before (DV-2, DV-3); `deletes` compares counts, this compares bits.
fn replaced(m: &Model, s: &mut Sink) {
    let mut done = HashSet::new();
    for x in m.snapshots.iter().filter(|x| x.complete()) {
        let Some(p) = m.parent(x).filter(|p| p.complete()) else {
            continue;
        };
        let old = super::deletes::dvs(p);
        if old.is_empty() {
            continue;
        }
        for (d, (_, _, now)) in super::deletes::dvs(x) {
            let Some((_, _, before)) = old.get(d) else {
                continue;
            };
            if before.key() == now.key() || now.records < before.records || !done.insert((before.key(), now.key())) {
                continue;
            }
            let all = m.dv_positions();
            if let (Some(a), Some(b)) = (all.get(&before.key()), all.get(&now.key()))
                && let Some(gone) = a.first_missing_in(b)
            {
                s.err(
                    "DV-3",
                    &now.path,
                    format!("blob at {}", now.offset.unwrap_or(-1)),
                    format!("no position {gone} of {d}"),
                    format!("every position of the DV it replaces in {}", before.path),
                );
            }
        }
    }
}
