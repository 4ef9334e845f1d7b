//! The workload `deletes`: what a DELETE costs to write and to read after, by the share of rows that it deletes, by where they lie and by
//! how the table keeps its deletes; then many small deletes one after the other, and a compaction. Between samples of a share the table
//! goes back to the snapshot it had.

use std::path::Path;

use super::run::{CATALOG, NAMESPACE, Run, Subject, report, table};
use super::{Plan, Report, Sample};
use crate::drivers::Driver;
use crate::facts::TableState;

/// Shares of the rows that a DELETE deletes, one in so many.
const ONE_IN: [u32; 8] = [100_000, 10_000, 1_000, 100, 20, 10, 4, 2];
/// One row in so many goes with each of the small deletes.
const SMALL: u32 = 10_000;
/// What is measured, as samples call it.
pub const DELETE: &str = "delete";
/// A scan of the table before, and after the deletes of a share.
pub const SCAN: &str = "scan";
/// One of many small deletes.
pub const SMALL_DELETE: &str = "small delete";
/// A scan after some of them.
pub const SMALL_SCAN: &str = "scan after small deletes";
/// Compaction of the table with all of them.
pub const COMPACT: &str = "compaction";
/// Rows lie anywhere.
pub const SCATTERED: &str = "scattered";
/// Rows are neighbours.
pub const CLUSTERED: &str = "clustered";

/// Which rows a DELETE deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// One row in so many.
    pub one_in: u32,
    /// The rows are neighbours, from a third of the table on.
    pub clustered: bool,
}

impl Cut {
    /// Share of the rows, in per cent.
    pub fn percent(self) -> f64 {
        100.0 / f64::from(self.one_in)
    }

    /// Where they lie.
    pub fn place(self) -> &'static str {
        if self.clustered { CLUSTERED } else { SCATTERED }
    }

    fn range(self, rows: u32) -> std::ops::Range<u32> {
        rows / 3..rows / 3 + (rows / self.one_in).max(1)
    }

    /// The condition in SQL.
    pub fn sql(self, rows: u32) -> String {
        if self.clustered {
            let r = self.range(rows);
            format!("id >= {} AND id < {}", r.start, r.end)
        } else {
            format!("id % {} = {}", self.one_in, self.one_in / 2)
        }
    }

    /// Whether a row is among them.
    pub fn has(self, id: u32, rows: u32) -> bool {
        if self.clustered { self.range(rows).contains(&id) } else { id % self.one_in == self.one_in / 2 }
    }

    /// How many rows of a range of ids are among them, in a table of `rows` rows.
    pub fn count(self, ids: std::ops::Range<u32>, rows: u32) -> u32 {
        if self.clustered {
            let r = self.range(rows);
            r.end.min(ids.end).saturating_sub(r.start.max(ids.start))
        } else {
            // ids below n that are among them
            let below = |n: u32| (n + self.one_in - 1 - self.one_in / 2) / self.one_in;
            below(ids.end) - below(ids.start)
        }
    }
}

/// Runs the plan on started engines over `warehouse`. `tell` hears what is being measured.
pub async fn run(
    plan: &Plan,
    warehouse: &Path,
    drivers: &mut [Box<dyn Driver>],
    absent: Vec<(String, String)>,
    tell: &dyn Fn(&str),
) -> Report {
    let mut run = Run { plan, warehouse, drivers, samples: Vec::new(), tell };
    let mut subjects = run.make().await;
    let whole = Sample { what: SCAN.into(), ..Sample::default() };
    for round in 0..=plan.samples {
        for s in &mut subjects {
            run.read(s, false, &Sample { round, ..whole.clone() }).await;
        }
    }
    for clustered in [false, true] {
        for one_in in ONE_IN.into_iter().filter(|n| *n <= plan.rows) {
            run.share(&mut subjects, Cut { one_in, clustered }).await;
        }
    }
    run.many(&mut subjects).await;
    report(plan, run.drivers, absent, run.samples)
}

impl Run<'_> {
    /// Every table loses one row in so many, is read by all, and goes back; a sample a round.
    async fn share(&mut self, subjects: &mut [Subject], cut: Cut) {
        let like = Sample { percent: Some(cut.percent()), place: cut.place().into(), ..Sample::default() };
        for round in 0..=self.plan.samples {
            for s in subjects.iter_mut() {
                let before = self.snapshot(s);
                let sql = format!("DELETE FROM {} WHERE {}", s.full(), cut.sql(self.plan.rows));
                self.statement(s, &sql, Sample { what: DELETE.into(), round, ..like.clone() }).await;
                let whole = s.model.clone();
                s.model.delete(|id| cut.has(id, self.plan.rows));
                self.read(s, false, &Sample { what: SCAN.into(), round, ..like.clone() }).await;
                s.model = whole;
                match before {
                    Some(id) => {
                        let sql = format!("CALL {CATALOG}.system.rollback_to_snapshot('{NAMESPACE}.{}', {id})", s.name);
                        self.quietly(s, &sql).await;
                    }
                    None if s.broken.is_empty() => s.broken = "the table's snapshot cannot be read".into(),
                    None => {}
                }
            }
        }
    }

    /// Small deletes one after the other, scans now and then, a compaction at the end.
    async fn many(&mut self, subjects: &mut [Subject]) {
        let rounds = self.plan.small_deletes;
        let like = Sample { percent: Some(100.0 / f64::from(SMALL)), place: SCATTERED.into(), ..Sample::default() };
        let often = (rounds / 5).max(1);
        for i in 0..rounds {
            for s in subjects.iter_mut() {
                let sql = format!("DELETE FROM {} WHERE id % {SMALL} = {i}", s.full());
                self.statement(s, &sql, Sample { what: SMALL_DELETE.into(), round: i + 1, ..like.clone() }).await;
                s.model.delete(|id| id % SMALL == i);
                if (i + 1) % often == 0 || i == 0 {
                    self.read(s, false, &Sample { what: SMALL_SCAN.into(), round: i + 1, ..like.clone() }).await;
                }
            }
        }
        for s in subjects.iter_mut().filter(|_| rounds > 0) {
            let sql = format!(
                "CALL {CATALOG}.system.rewrite_data_files(table => '{NAMESPACE}.{}', options => map('rewrite-all', 'true'))",
                s.name
            );
            self.statement(s, &sql, Sample { what: COMPACT.into(), round: 1, ..Sample::default() }).await;
            self.read(s, false, &Sample { what: "scan after compaction".into(), round: 1, ..Sample::default() }).await;
        }
    }

    fn snapshot(&self, s: &Subject) -> Option<i64> {
        let state = TableState::read(Path::new(&table(self.warehouse, &s.name).location)).ok()??;
        state.json["current-snapshot-id"].as_i64()
    }
}

#[cfg(test)]
mod tests;
