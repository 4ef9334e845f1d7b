//! Rows that copy-on-write only moved, told by lineage: a row of a removed file that is in an added file with the same
//! `_row_id` and `_last_updated_sequence_number` (CDC-25, LINEAGE-12). A rewrite keeps most rows in their order, so both sides
//! are held as runs of consecutive ids: the cost in memory goes with what changed, not with the size of the files.

use std::collections::HashMap;

use arrow::array::{Array, Int64Array};

use crate::Result;
use crate::dv::DeletionVector;

#[cfg(test)]
mod tests;

/// Runs that are held at a time; more than that are looked at in several passes.
pub(super) const MAX_RUNS: usize = 4_000_000;
/// Ids of one block fall into the same pass, so that passes do not break runs.
const BLOCK_BITS: u32 = 16;

/// Whether a row id belongs to a pass.
pub(super) fn in_pass(id: i64, pass: u64, passes: u64) -> bool {
    passes == 1 || ((id >> BLOCK_BITS) as u64) % passes == pass
}

/// Rows of a removed file with consecutive ids and positions, last updated by one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    id: i64,
    source: u32,
    len: u32,
    position: u64,
    updated: i64,
}

/// Lineage of some rows of one file, in file order.
pub(super) struct Lineage<'a> {
    pub(super) ids: &'a Int64Array,
    pub(super) updated: &'a Int64Array,
    pub(super) positions: &'a [u64],
}

impl Lineage<'_> {
    /// Id, sequence number and position of the rows that have both (LINEAGE-5).
    fn rows(&self) -> impl Iterator<Item = (i64, i64, u64)> {
        let complete = self.ids.null_count() + self.updated.null_count() == 0;
        let (ids, updated) = (self.ids.values(), self.updated.values());
        (0..self.positions.len())
            .filter(move |i| complete || (self.ids.is_valid(*i) && self.updated.is_valid(*i)))
            .map(|i| (ids[i], updated[i], self.positions[i]))
    }
}

/// Adds the rows of `source` that `wanted` takes to its runs.
pub(super) fn add_runs(runs: &mut Vec<Stretch>, source: u32, rows: &Lineage<'_>, wanted: impl Fn(i64) -> bool) {
    for (id, updated, position) in rows.rows() {
        if !wanted(id) {
            continue;
        }
        match runs.last_mut() {
            Some(r)
                if r.source == source
                    && r.updated == updated
                    && r.len < u32::MAX
                    && r.id.checked_add(i64::from(r.len)) == Some(id)
                    && r.position + u64::from(r.len) == position =>
            {
                r.len += 1;
            }
            _ => runs.push(Stretch { id, source, len: 1, position, updated }),
        }
    }
}

/// The rows of the removed files, by id.
#[derive(Debug, Default)]
pub(super) struct Index {
    runs: Vec<Stretch>,
}

/// Rows of an added file that are those of a removed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    source: u32,
    from: u64,
    to: u64,
    len: u64,
}

impl Index {
    /// An id stands for one row: of rows that share one (which no right table has, LINEAGE-2) the first counts, and the
    /// others are left to the comparison by value.
    pub(super) fn new(mut runs: Vec<Stretch>) -> Self {
        runs.sort_unstable();
        let mut free_from = i64::MIN;
        runs.retain_mut(|r| {
            let taken = u64::try_from(i128::from(free_from) - i128::from(r.id)).unwrap_or(0);
            let Ok(taken) = u32::try_from(taken) else { return false };
            if taken >= r.len {
                return false;
            }
            r.id += i64::from(taken);
            r.position += u64::from(taken);
            r.len -= taken;
            free_from = r.id.saturating_add(i64::from(r.len));
            true
        });
        Self { runs }
    }

    /// Adds the rows of an added file that were only moved to its spans.
    pub(super) fn find(&self, spans: &mut Vec<Span>, rows: &Lineage<'_>) {
        let holds =
            |i: usize, id: i64| self.runs.get(i).is_some_and(|r| r.id <= id && id.abs_diff(r.id) < u64::from(r.len));
        let mut at = 0;
        for (id, updated, position) in rows.rows() {
            if !holds(at, id) {
                // rows keep their order, so the next run is the likely one
                at = if holds(at + 1, id) {
                    at + 1
                } else {
                    self.runs.partition_point(|r| r.id <= id).saturating_sub(1)
                };
                if !holds(at, id) {
                    continue;
                }
            }
            let run = &self.runs[at];
            if run.updated != updated {
                continue;
            }
            let from = run.position + id.abs_diff(run.id);
            match spans.last_mut() {
                Some(s) if s.source == run.source && s.from + s.len == from && s.to + s.len == position => s.len += 1,
                _ => spans.push(Span { source: run.source, from, to: position, len: 1 }),
            }
        }
    }
}

/// Positions of moved rows by source, removed and added ones. A removed row is found again once.
pub(super) fn mark(moved: &mut HashMap<u32, DeletionVector>, added: u32, spans: &[Span]) -> Result<()> {
    for s in spans {
        if moved.entry(s.source).or_default().deleted_in(s.from, s.len) == 0 {
            moved.entry(s.source).or_default().insert_range(s.from..s.from + s.len)?;
            moved.entry(added).or_default().insert_range(s.to..s.to + s.len)?;
            continue;
        }
        for i in 0..s.len {
            if moved.entry(s.source).or_default().try_insert(s.from + i)? {
                moved.entry(added).or_default().try_insert(s.to + i)?;
            }
        }
    }
    Ok(())
}
