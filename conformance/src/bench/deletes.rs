//! The workload `deletes`: what a DELETE costs to write and to read after, by the share of rows that it deletes, by where they lie and by
//! how the table keeps its deletes; then many small deletes one after the other, and a compaction. Between samples of a share the table
//! goes back to the snapshot it had.

use std::path::Path;
use std::time::Instant;

use super::model::{Model, NARROW};
use super::run::{CATALOG, NAMESPACE, bytes, failure, report, table, texts};
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
}

impl Cut {
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

/// Properties of a table that keeps its deletes in this way.
pub(super) fn properties(mode: &str) -> String {
    let (version, mode) = if mode == super::POSITION_DELETES { (2, "merge-on-read") } else { (3, mode) };
    format!(
        "'format-version'='{version}', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}'"
    )
}

/// A table of one writer and mode.
struct Subject {
    writer: usize,
    mode: String,
    name: String,
    /// Rows that the statements left.
    model: Model,
    /// Why it takes no further part.
    broken: String,
}

impl Subject {
    fn full(&self) -> String {
        format!("{CATALOG}.{NAMESPACE}.{}", self.name)
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
            run.scans(s, &Sample { round, ..whole.clone() }).await;
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

struct Run<'a> {
    plan: &'a Plan,
    warehouse: &'a Path,
    drivers: &'a mut [Box<dyn Driver>],
    samples: Vec<Sample>,
    tell: &'a dyn Fn(&str),
}

impl Run<'_> {
    /// A table for each writer and mode.
    async fn make(&mut self) -> Vec<Subject> {
        let mut out = Vec::new();
        let (plan, fresh) = (self.plan, Model::new(self.plan.rows));
        for mode in &plan.modes {
            for writer in
                (0..self.drivers.len()).filter(|w| self.drivers[*w].hello().plays("write")).collect::<Vec<_>>()
            {
                let name = format!("{}_{}", self.drivers[writer].name(), mode.replace('-', "_"));
                let mut s = Subject { writer, mode: mode.clone(), name, model: fresh.clone(), broken: String::new() };
                let create = format!(
                    "CREATE TABLE {} (id BIGINT, city STRING, n BIGINT) USING iceberg TBLPROPERTIES({})",
                    s.full(),
                    properties(mode)
                );
                for sql in [format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}"), create] {
                    self.quietly(&mut s, &sql).await;
                }
                let insert = Model::insert(&s.full(), plan.rows);
                self.statement(&mut s, &insert, Sample { what: "insert".into(), ..Sample::default() }).await;
                out.push(s);
            }
        }
        out
    }

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
                self.scans(s, &Sample { what: SCAN.into(), round, ..like.clone() }).await;
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
                    self.scans(s, &Sample { what: SMALL_SCAN.into(), round: i + 1, ..like.clone() }).await;
                }
            }
        }
        for s in subjects.iter_mut().filter(|_| rounds > 0) {
            let sql = format!(
                "CALL {CATALOG}.system.rewrite_data_files(table => '{NAMESPACE}.{}', options => map('rewrite-all', 'true'))",
                s.name
            );
            self.statement(s, &sql, Sample { what: COMPACT.into(), round: 1, ..Sample::default() }).await;
            self.scans(s, &Sample { what: "scan after compaction".into(), round: 1, ..Sample::default() }).await;
        }
    }

    fn snapshot(&self, s: &Subject) -> Option<i64> {
        let state = TableState::read(Path::new(&table(self.warehouse, &s.name).location)).ok()??;
        state.json["current-snapshot-id"].as_i64()
    }

    /// A statement that is not measured.
    async fn quietly(&mut self, s: &mut Subject, sql: &str) {
        if s.broken.is_empty() {
            let t = table(self.warehouse, &s.name);
            s.broken = failure(self.drivers[s.writer].apply(sql, &t).await).unwrap_or_default();
        }
    }

    /// Times one statement of a table's writer.
    async fn statement(&mut self, s: &mut Subject, sql: &str, like: Sample) {
        let name = self.drivers[s.writer].name().to_string();
        (self.tell)(&format!("{} {}: {name} {}", like.what, like.place, s.mode));
        let t = table(self.warehouse, &s.name);
        let before = bytes(Path::new(&t.location));
        let start = Instant::now();
        if s.broken.is_empty() {
            s.broken = failure(self.drivers[s.writer].apply(sql, &t).await).unwrap_or_default();
        }
        let seconds = start.elapsed().as_secs_f64();
        self.samples.push(Sample {
            engine: name.clone(),
            writer: name,
            mode: s.mode.clone(),
            seconds: s.broken.is_empty().then_some(seconds),
            reason: s.broken.clone(),
            bytes: bytes(Path::new(&t.location)).saturating_sub(before),
            ..like
        });
    }

    /// Every reader reads a table; an answer that is not the model's has no time.
    async fn scans(&mut self, s: &mut Subject, like: &Sample) {
        let want = s.model.answer(false);
        for reader in 0..self.drivers.len() {
            (self.tell)(&format!("{} {}: {} reads {}", like.what, like.place, self.drivers[reader].name(), s.name));
            let sql = format!("{NARROW}{}", s.full());
            let t = table(self.warehouse, &s.name);
            let start = Instant::now();
            let took = if s.broken.is_empty() {
                let answer = self.drivers[reader].query(&sql, &t).await;
                let seconds = start.elapsed().as_secs_f64();
                texts(answer).and_then(|got| {
                    if got == [want.clone()] {
                        Ok(seconds)
                    } else {
                        Err(format!("wrong rows: {got:?} instead of {want:?}"))
                    }
                })
            } else {
                Err(s.broken.clone())
            };
            let (seconds, reason) = match took {
                Ok(t) => (Some(t), String::new()),
                Err(why) => (None, why),
            };
            self.samples.push(Sample {
                engine: self.drivers[reader].name().into(),
                writer: self.drivers[s.writer].name().into(),
                mode: s.mode.clone(),
                seconds,
                reason,
                ..like.clone()
            });
        }
    }
}

#[cfg(test)]
mod tests;
