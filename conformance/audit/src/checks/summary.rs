//! Snapshot summaries against what the manifests say (SUMMARY-10..29).

use std::collections::HashSet;

use super::commit::own;
use super::{Check, Family, error, note};
use crate::finding::Sink;
use crate::model::{Entry, Model, Snapshot};

pub const FAMILY: Family = Family { title: "Snapshot summaries", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("SUMMARY-10", "added-data-files counts the data files added"),
    error("SUMMARY-11", "deleted-data-files counts the data files removed"),
    error("SUMMARY-12", "total-data-files counts the live data files"),
    error("SUMMARY-13", "added-delete-files counts delete files and DVs added"),
    error("SUMMARY-14", "removed-delete-files counts delete files and DVs removed"),
    error("SUMMARY-15", "total-delete-files counts the live delete files and DVs"),
    error("SUMMARY-16", "equality delete files added and removed are counted"),
    error("SUMMARY-17", "position delete files added and removed are counted, DVs left out"),
    error("SUMMARY-18", "DVs added and removed are counted"),
    error("SUMMARY-19", "added-records and deleted-records sum the data files' records"),
    error("SUMMARY-20", "total-records sums the live data files' records"),
    error("SUMMARY-21", "added and removed file sizes are summed, a DV by its blob or its file"),
    error("SUMMARY-22", "total-files-size sums the live files"),
    error("SUMMARY-23", "position deletes added and removed are summed"),
    error("SUMMARY-24", "total-position-deletes sums the live position deletes"),
    error("SUMMARY-25", "equality delete rows added and removed are summed"),
    error("SUMMARY-26", "total-equality-deletes sums the live equality delete rows"),
    note("SUMMARY-28", "changed-partition-count counts the partitions touched"),
    note("SUMMARY-29", "manifests-created and manifests-kept count the manifests of the list"),
    note("TRAP-17", "totals vanish after a foreign snapshot; consumers recompute"),
];

#[derive(Default)]
struct Sum {
    data: i64,
    deletes: i64,
    eq: i64,
    pos: i64,
    dvs: i64,
    records: i64,
    /// Sizes with DVs by blob, and by Puffin file (SUMMARY-41, TRAP-19).
    blob_size: i64,
    file_size: i64,
    pos_rows: i64,
    eq_rows: i64,
    /// Puffin files already counted once, a third reading of "size of files".
    puffins: HashSet<std::sync::Arc<str>>,
    once_size: i64,
}

impl Sum {
    fn add(&mut self, e: &Entry) {
        match e.content {
            0 => {
                self.data += 1;
                self.records += e.records;
            }
            1 => {
                self.deletes += 1;
                if e.is_dv() {
                    self.dvs += 1
                } else {
                    self.pos += 1
                }
                self.pos_rows += e.records;
            }
            _ => {
                self.deletes += 1;
                self.eq += 1;
                self.eq_rows += e.records;
            }
        }
        self.blob_size += e.counted_size();
        self.file_size += e.size;
        if !e.is_dv() || self.puffins.insert(e.path.clone()) {
            self.once_size += e.size;
        }
    }
}

fn run(m: &Model, s: &mut Sink) {
    for x in m.snapshots.iter().filter(|x| x.complete() && !x.list.inline) {
        judge(m, x, s);
    }
}

fn judge(m: &Model, x: &Snapshot, s: &mut Sink) {
    let (mut added, mut removed, mut live) = (Sum::default(), Sum::default(), Sum::default());
    let mut parts = HashSet::new();
    let mut seen = HashSet::new();
    for (r, _, e) in own(x) {
        parts.insert((r.spec_id, e.partition.key()));
        if seen.insert((e.key(), e.status)) {
            if e.status == 1 { added.add(e) } else { removed.add(e) }
        }
    }
    for (_, _, e) in x.live() {
        live.add(e);
    }
    let mut check = |clause: &'static str, key: &str, allowed: &[i64]| {
        let Some(text) = x.summary.get(key) else {
            return;
        };
        if !text.parse::<i64>().is_ok_and(|v| allowed.contains(&v)) {
            s.err(clause, &m.file, x.ptr(&format!("summary/{key}")), text, allowed[0]);
        }
    };
    check("SUMMARY-10", "added-data-files", &[added.data]);
    check("SUMMARY-11", "deleted-data-files", &[removed.data]);
    check("SUMMARY-12", "total-data-files", &[live.data]);
    check("SUMMARY-13", "added-delete-files", &[added.deletes]);
    check("SUMMARY-14", "removed-delete-files", &[removed.deletes]);
    check("SUMMARY-15", "total-delete-files", &[live.deletes]);
    for (verb, t) in [("added", &added), ("removed", &removed)] {
        check("SUMMARY-16", &format!("{verb}-equality-delete-files"), &[t.eq]);
        check("SUMMARY-17", &format!("{verb}-position-delete-files"), &[t.pos]);
        check("SUMMARY-18", &format!("{verb}-dvs"), &[t.dvs]);
        check("SUMMARY-21", &format!("{verb}-files-size"), &[t.blob_size, t.file_size, t.once_size]);
        check("SUMMARY-23", &format!("{verb}-position-deletes"), &[t.pos_rows]);
        check("SUMMARY-25", &format!("{verb}-equality-deletes"), &[t.eq_rows]);
    }
    check("SUMMARY-19", "added-records", &[added.records]);
    check("SUMMARY-19", "deleted-records", &[removed.records]);
    check("SUMMARY-20", "total-records", &[live.records]);
    check("SUMMARY-22", "total-files-size", &[live.blob_size, live.file_size, live.once_size]);
    check("SUMMARY-24", "total-position-deletes", &[live.pos_rows]);
    check("SUMMARY-26", "total-equality-deletes", &[live.eq_rows]);
    let note = |s: &mut Sink, clause, key: &str, real: usize| {
        if let Some(t) = x.summary.get(key)
            && t.parse() != Ok(real)
        {
            s.note(clause, &m.file, x.ptr(&format!("summary/{key}")), t, real);
        }
    };
    note(s, "SUMMARY-28", "changed-partition-count", parts.len());
    let created = x.list.refs.iter().filter(|r| r.added_snapshot == Some(x.id)).count();
    note(s, "SUMMARY-29", "manifests-created", created);
    note(s, "SUMMARY-29", "manifests-kept", x.list.refs.len() - created);
    if !x.summary.contains_key("total-records") && m.parent(x).is_none_or(|p| p.summary.contains_key("total-records")) {
        s.note("TRAP-17", &m.file, x.ptr("summary"), "no total-records", "totals");
    }
}
