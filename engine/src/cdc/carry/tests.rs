//! Runs against a plain map of rows.

use std::collections::HashMap;

use arrow::array::Int64Array;
use proptest::prelude::*;

use super::{Index, Lineage, add_runs, in_pass, mark};
use crate::dv::DeletionVector;

/// Rows of a file: id and sequence number, null or not.
type Rows = Vec<(Option<i64>, Option<i64>)>;

struct Columns {
    ids: Int64Array,
    updated: Int64Array,
    positions: Vec<u64>,
}

impl Columns {
    fn new(rows: &Rows, skip: u64) -> Self {
        Self {
            ids: rows.iter().map(|r| r.0).collect(),
            updated: rows.iter().map(|r| r.1).collect(),
            positions: (0..rows.len() as u64).map(|p| p + skip).collect(),
        }
    }

    fn lineage(&self) -> Lineage<'_> {
        Lineage { ids: &self.ids, updated: &self.updated, positions: &self.positions }
    }
}

fn by_runs(removed: &[Rows], added: &[Rows], passes: u64) -> HashMap<u32, DeletionVector> {
    let mut moved = HashMap::new();
    for pass in 0..passes {
        let mut runs = Vec::new();
        for (i, rows) in removed.iter().enumerate() {
            add_runs(&mut runs, i as u32, &Columns::new(rows, 7).lineage(), |id| in_pass(id, pass, passes));
        }
        let index = Index::new(runs);
        for (i, rows) in added.iter().enumerate() {
            let mut spans = Vec::new();
            index.find(&mut spans, &Columns::new(rows, 3).lineage());
            mark(&mut moved, (removed.len() + i) as u32, &spans).expect("positions");
        }
    }
    moved.retain(|_, dv| !dv.is_empty());
    moved
}

/// What the clause says, row by row: equal id and equal sequence number; of removed rows with one id the first counts.
fn by_map(removed: &[Rows], added: &[Rows]) -> HashMap<u32, DeletionVector> {
    let mut old: HashMap<i64, (i64, u32, u64)> = HashMap::new();
    for (i, rows) in removed.iter().enumerate() {
        for (n, row) in rows.iter().enumerate() {
            if let (Some(id), Some(updated)) = row {
                old.entry(*id).or_insert((*updated, i as u32, n as u64 + 7));
            }
        }
    }
    let mut moved: HashMap<u32, DeletionVector> = HashMap::new();
    for (i, rows) in added.iter().enumerate() {
        for (n, row) in rows.iter().enumerate() {
            if let (Some(id), Some(updated)) = row
                && let Some((was, source, at)) = old.get(id).copied()
                && was == *updated
            {
                old.remove(id);
                moved.entry(source).or_default().try_insert(at).expect("a position");
                moved.entry((removed.len() + i) as u32).or_default().try_insert(n as u64 + 3).expect("a position");
            }
        }
    }
    moved
}

#[test]
fn a_rewrite_without_some_rows_is_few_runs() {
    let removed: Rows = (0..100_000).map(|i| (Some(i), Some(1))).collect();
    let added: Rows =
        removed.iter().filter(|r| r.0 != Some(5000)).map(|r| (r.0, if r.0 == Some(7) { None } else { r.1 })).collect();
    let mut runs = Vec::new();
    add_runs(&mut runs, 0, &Columns::new(&removed, 0).lineage(), |_| true);
    assert_eq!(runs.len(), 1);
    let mut spans = Vec::new();
    Index::new(runs).find(&mut spans, &Columns::new(&added, 0).lineage());
    assert_eq!(spans.len(), 3);
    let mut moved = HashMap::new();
    mark(&mut moved, 1, &spans).expect("positions");
    assert_eq!(moved[&0].len(), 99_998);
    assert!(!moved[&0].contains(5000) && !moved[&0].contains(7));
    assert_eq!(moved[&1].len(), 99_998);
}

#[test]
fn largest_ids_do_not_overflow() {
    let rows: Rows = vec![(Some(i64::MAX - 1), Some(1)), (Some(i64::MAX), Some(1)), (Some(i64::MIN), Some(1))];
    let moved = by_runs(std::slice::from_ref(&rows), std::slice::from_ref(&rows), 1);
    assert_eq!(moved[&0].len(), 3);
}

fn unique_files(ids: Vec<(i64, Option<i64>)>, cuts: usize) -> Vec<Rows> {
    let mut seen = std::collections::HashSet::new();
    let rows: Rows = ids.into_iter().filter(|r| seen.insert(r.0)).map(|(id, u)| (Some(id), u)).collect();
    rows.chunks(rows.len().div_ceil(cuts).max(1)).map(<[_]>::to_vec).collect()
}

proptest! {
    #[test]
    fn runs_find_what_a_map_finds(
        old in prop::collection::vec((0i64..300_000, prop::option::weighted(0.95, 0i64..2)), 0..400),
        new in prop::collection::vec((0i64..300_000, prop::option::weighted(0.95, 0i64..2)), 0..400),
        dense in any::<bool>(),
        passes in 1u64..4,
    ) {
        let near = |rows: Vec<(i64, Option<i64>)>| rows.into_iter().map(|(id, u)| (if dense { id % 60 } else { id }, u)).collect();
        let (removed, added) = (unique_files(near(old), 3), unique_files(near(new), 2));
        prop_assert_eq!(by_runs(&removed, &added, passes), by_map(&removed, &added));
    }

    #[test]
    fn a_removed_row_is_found_once_even_if_ids_repeat(
        old in prop::collection::vec((0i64..20, 0i64..1), 0..60),
        new in prop::collection::vec((0i64..20, 0i64..1), 0..60),
    ) {
        let rows = |v: Vec<(i64, i64)>| -> Rows { v.into_iter().map(|(id, u)| (Some(id), Some(u))).collect() };
        let (removed, added) = (vec![rows(old)], vec![rows(new)]);
        let moved = by_runs(&removed, &added, 1);
        let count = |i: u32| moved.get(&i).map_or(0, DeletionVector::len);
        prop_assert_eq!(count(0), count(1));
        prop_assert_eq!(count(0), by_map(&removed, &added).get(&0).map_or(0, DeletionVector::len));
    }
}
