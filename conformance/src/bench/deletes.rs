//! The workload `deletes`: what a DELETE costs to write and to read after, by the share of rows that it deletes, by where they lie and by
//! how the table keeps its deletes; then many small deletes one after the other, and a compaction.
//!
//! floe makes every table, so that all begin with the same files, and takes it back to the snapshot it had between the samples of a share. A
//! small table first shows who can do what: what cannot be done is one sample with the reason. Everybody reads floe's tables and its own,
//! floe reads all.

mod targets;

use std::path::Path;

use super::data::{COPY_ON_WRITE_V2, Oracle};
use super::run::{CATALOG, NAMESPACE, Run, Subject, failure, report, same, table, texts};
use super::{EQUALITY_DELETES, Plan, Report, Sample};
use crate::drivers::{Driver, Floe};
use crate::facts::TableState;

pub use targets::text as targets;

/// Shares of the rows that a DELETE deletes, one in so many.
const ONE_IN: [u32; 8] = [100_000, 10_000, 1_000, 100, 20, 10, 4, 2];
/// Those that everybody takes part in. At the others only engines that write copy-on-write and with delete files, on their own tables: a
/// break-even needs narrow steps, and nobody else has one.
const FOR_ALL: [u32; 3] = [1_000, 100, 10];
/// The share that is deleted from tables of several sizes, one in so many, scattered.
pub const BY_SIZE: u32 = 100;
/// Rows and share of the tables on which it is tried who can do what.
const TRIAL: (u32, u32) = (1_000, 10);
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
/// A DELETE from a table of another size.
pub const DELETE_BY_SIZE: &str = "delete by size";
/// A scan after it.
pub const SCAN_BY_SIZE: &str = "scan by size";
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

    /// The numbers of its rows, when they are neighbours.
    pub(super) fn range(self, rows: u32) -> std::ops::Range<u32> {
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

/// A table of the run.
struct Table {
    subject: Subject,
    /// How it is made: its mode, or [`COPY_ON_WRITE_V2`].
    layout: String,
    /// Whether its writer can delete by condition: scattered rows, neighbours.
    deletes: [bool; 2],
    /// Engines that read it.
    readers: Vec<usize>,
    /// It takes part at every share.
    every: bool,
}

/// Runs the plan on started engines over `warehouse`. `tell` hears what is being measured.
///
/// # Errors
/// When the rows cannot be made, or floe cannot open the warehouse.
pub async fn run(
    plan: &Plan,
    warehouse: &Path,
    drivers: &mut [Box<dyn Driver>],
    absent: Vec<(String, String)>,
    tell: &dyn Fn(&str),
) -> Result<Report, String> {
    let keeper = Floe::new(warehouse, CATALOG).map_err(|e| e.to_string())?;
    let oracle = Oracle::new(plan.table, plan.rows, &plan.properties)?;
    let mut bench = Bench { run: Run { plan, warehouse, drivers, samples: Vec::new(), tell }, keeper };
    let mut tables = bench.tables().await?;
    for t in &mut tables {
        bench.make(&oracle, t).await;
    }
    let want = oracle.answer(|_| false);
    for round in 0..=plan.samples {
        for t in &tables {
            let like = Sample { what: SCAN.into(), round, ..Sample::default() };
            let like = bench.run.with_files(&t.subject.name, like);
            bench.read(t, t.readers.clone(), oracle.scan(), &want, &like).await;
        }
    }
    for clustered in [false, true] {
        for one_in in ONE_IN.into_iter().filter(|n| *n <= plan.rows) {
            bench.share(&oracle, &mut tables, Cut { one_in, clustered }).await;
        }
    }
    bench.many(&oracle, &mut tables).await;
    for t in tables.iter().filter(|_| !plan.sizes.is_empty()) {
        bench.drop_table(&t.subject.name).await;
    }
    for rows in plan.sizes.clone() {
        bench.size(&Oracle::new(plan.table, rows, &plan.properties)?, &mut tables).await;
    }
    Ok(report(plan, bench.run.drivers, absent, bench.run.samples))
}

struct Bench<'a> {
    run: Run<'a>,
    /// Makes tables and takes them back.
    keeper: Floe,
}

impl Bench<'_> {
    /// The tables that there will be: of each mode, for each engine that can write it.
    async fn tables(&mut self) -> Result<Vec<Table>, String> {
        let oracle = Oracle::new(self.run.plan.table, TRIAL.0, &self.run.plan.properties)?;
        let mut out = Vec::new();
        for mode in self.run.plan.modes.clone() {
            for writer in 0..self.run.drivers.len() {
                out.extend(self.trial(&oracle, &mode, writer).await);
                self.run.drivers[writer].revive().await;
            }
        }
        let writes = |writer: usize, whole: bool| {
            out.iter().any(|t: &Table| t.subject.writer == writer && (t.subject.mode == "copy-on-write") == whole)
        };
        let both: Vec<usize> = (0..self.run.drivers.len()).filter(|w| writes(*w, true) && writes(*w, false)).collect();
        out.iter_mut().for_each(|t| t.every = both.contains(&t.subject.writer));
        Ok(out)
    }

    /// Tries on a small table whether an engine can write a mode, and who can read what it wrote.
    async fn trial(&mut self, oracle: &Oracle, mode: &str, writer: usize) -> Option<Table> {
        let hello = self.run.drivers[writer].hello().clone();
        let name = format!("{}_{}", self.run.drivers[writer].name(), mode).replace('-', "_");
        let subject = Subject { writer, mode: mode.into(), name: format!("trial_{name}"), broken: String::new() };
        let mut t = Table { subject, layout: mode.into(), deletes: [false; 2], readers: Vec::new(), every: false };
        let no = if !hello.plays("write") {
            Some("it only reads here: its driver takes no statement that writes")
        } else if mode == EQUALITY_DELETES && !hello.has("upsert") {
            Some("it has no statement that writes equality deletes")
        } else {
            None
        };
        if let Some(why) = no {
            self.cannot(&t, writer, DELETE, "", why.into());
            return None;
        }
        // files that are written anew are the same in both versions, and not everybody writes V3
        let layouts: &[&str] = if mode == "copy-on-write" { &["copy-on-write", COPY_ON_WRITE_V2] } else { &[mode] };
        let mut failed = Vec::new();
        for (i, layout) in layouts.iter().enumerate() {
            t.layout = (*layout).into();
            t.subject.name = format!("trial{i}_{name}");
            failed.clear();
            if let Err(why) = oracle.make(&mut self.keeper, self.run.warehouse, &t.subject.name, layout).await {
                failed.push(("", why));
                continue;
            }
            for clustered in [false, true] {
                let cut = Cut { one_in: TRIAL.1, clustered };
                let before = self.snapshot(&t.subject);
                match self.attempt(oracle, &t.subject, cut).await {
                    Ok(()) => t.deletes[usize::from(clustered)] = true,
                    Err(why) => failed.push((cut.place(), why)),
                }
                self.back(&mut t.subject, before).await;
            }
            if t.deletes.contains(&true) {
                break;
            }
            self.drop_table(&t.subject.name).await;
        }
        for (place, why) in failed {
            self.cannot(&t, writer, DELETE, place, why);
        }
        if let Some(place) = t.deletes.iter().position(|d| *d) {
            let cut = Cut { one_in: TRIAL.1, clustered: place == 1 };
            let done = self.attempt(oracle, &t.subject, cut).await;
            let want = oracle.answer(oracle.chosen(cut));
            for reader in self.interested(writer) {
                let read = match &done {
                    Ok(()) => self.run.ask(reader, &t.subject.name, oracle.scan(), &want).await.map(|_| ()),
                    Err(why) => Err(why.clone()),
                };
                match read {
                    Ok(()) => t.readers.push(reader),
                    Err(why) => self.cannot(&t, reader, SCAN, "", why),
                }
                self.run.drivers[reader].revive().await;
            }
        }
        self.drop_table(&t.subject.name).await;
        t.subject.name = name;
        t.deletes.contains(&true).then_some(t)
    }

    /// Who reads the tables of a writer: itself and floe; everybody those of floe, or all when floe takes no part.
    fn interested(&self, writer: usize) -> Vec<usize> {
        let floe = self.run.drivers.iter().position(|d| d.name() == "floe");
        let reads = |r: &usize| *r == writer || floe.is_none_or(|f| *r == f || writer == f);
        (0..self.run.drivers.len()).filter(reads).collect()
    }

    /// Deletes, and looks whether the right rows went in the way that the mode asks for.
    async fn attempt(&mut self, oracle: &Oracle, s: &Subject, cut: Cut) -> Result<(), String> {
        let mut s = s.clone();
        let (before, delete) = statements(oracle, &s, &oracle.condition(cut));
        for sql in before.iter().chain([&delete]) {
            self.run.quietly(&mut s, sql).await;
        }
        if !s.broken.is_empty() {
            return Err(s.broken);
        }
        let t = table(self.run.warehouse, &s.name);
        let got = texts(self.keeper.query(&format!("{}{}", oracle.scan(), s.full()), &t).await)?;
        same(&got, &oracle.answer(oracle.chosen(cut)))?;
        let sql = format!("SELECT DISTINCT content, upper(file_format) AS f FROM {}.files WHERE content > 0", s.full());
        let files = texts(self.keeper.query(&sql, &t).await)?;
        let asked: &[[&str; 2]] = match s.mode.as_str() {
            "copy-on-write" => &[],
            "merge-on-read" => &[["1", "PUFFIN"]],
            EQUALITY_DELETES => &[["2", "PARQUET"]],
            _ => &[["1", "PARQUET"]],
        };
        if files == asked {
            return Ok(());
        }
        let said = |f: &Vec<String>| match f[..] {
            [ref c, ref f] if c == "1" && f == "PUFFIN" => "deletion vectors".to_string(),
            [ref c, _] if c == "1" => "position delete files".to_string(),
            _ => "equality delete files".to_string(),
        };
        let how = files.iter().map(said).collect::<Vec<_>>().join(" and ");
        Err(format!(
            "it does not do what the mode asks for: it wrote {}",
            if how.is_empty() { "whole files" } else { &how }
        ))
    }

    /// A sample that says why there are no others of its kind.
    fn cannot(&mut self, t: &Table, engine: usize, what: &str, place: &str, reason: String) {
        (self.run.tell)(&format!("{}: {what} {place} {}: {reason}", self.run.drivers[engine].name(), t.subject.mode));
        self.run.samples.push(Sample {
            what: what.into(),
            engine: self.run.drivers[engine].name().into(),
            writer: self.run.drivers[t.subject.writer].name().into(),
            mode: t.subject.mode.clone(),
            place: place.into(),
            reason,
            ..Sample::default()
        });
    }

    async fn make(&mut self, oracle: &Oracle, t: &mut Table) {
        (self.run.tell)(&format!("making {}, {} rows", t.subject.name, oracle.rows()));
        let made = oracle.make(&mut self.keeper, self.run.warehouse, &t.subject.name, &t.layout).await;
        if let Err(why) = made {
            self.cannot(t, t.subject.writer, DELETE, "", why.clone());
            t.subject.broken = why;
        }
    }

    /// Every table that takes part at this share loses its rows, is read, and goes back; a sample a round.
    async fn share(&mut self, oracle: &Oracle, tables: &mut [Table], cut: Cut) {
        let like = Sample { percent: Some(cut.percent()), place: cut.place().into(), ..Sample::default() };
        let all = FOR_ALL.contains(&cut.one_in);
        let mut taking: Vec<&mut Table> = tables.iter_mut().filter(|t| all || t.every).collect();
        self.rounds(oracle, &mut taking, cut, [DELETE, SCAN], &like, !all).await;
    }

    /// DELETE, scans and the way back in turns; `alone`: only the writer reads.
    async fn rounds(
        &mut self,
        oracle: &Oracle,
        tables: &mut [&mut Table],
        cut: Cut,
        what: [&str; 2],
        like: &Sample,
        alone: bool,
    ) {
        let condition = oracle.condition(cut);
        let (rows, want) = (oracle.count(oracle.chosen(cut)), oracle.answer(oracle.chosen(cut)));
        for round in 0..=self.run.plan.samples {
            for t in tables.iter_mut().filter(|t| t.deletes[usize::from(cut.clustered)] && t.subject.broken.is_empty())
            {
                let before = self.snapshot(&t.subject);
                let delete = Sample { what: what[0].into(), round, rows, ..like.clone() };
                self.delete(oracle, &mut t.subject, &condition, delete).await;
                let readers = t.readers.iter().copied().filter(|r| !alone || *r == t.subject.writer).collect();
                let scan = Sample { what: what[1].into(), round, ..like.clone() };
                self.read(t, readers, oracle.scan(), &want, &scan).await;
                self.back(&mut t.subject, before).await;
            }
        }
    }

    /// Small deletes one after the other, scans now and then, a compaction at the end.
    async fn many(&mut self, oracle: &Oracle, tables: &mut [Table]) {
        let rounds = self.run.plan.small_deletes;
        let like = Sample { percent: Some(100.0 / f64::from(SMALL)), place: SCATTERED.into(), ..Sample::default() };
        let often = (rounds / 5).max(1);
        for i in 0..rounds {
            let condition = oracle.residue(SMALL, i);
            let looked = (i + 1) % often == 0 || i == 0;
            let want = if looked { oracle.answer(|r| oracle.residue_of(r, SMALL) <= i) } else { Vec::new() };
            for t in tables.iter_mut().filter(|t| t.deletes[0] && t.subject.broken.is_empty()) {
                let delete = Sample { what: SMALL_DELETE.into(), round: i + 1, ..like.clone() };
                self.delete(oracle, &mut t.subject, &condition, delete).await;
                if looked {
                    let scan = Sample { what: SMALL_SCAN.into(), round: i + 1, ..like.clone() };
                    self.read(t, t.readers.clone(), oracle.scan(), &want, &scan).await;
                }
            }
        }
        let want = oracle.answer(|r| oracle.residue_of(r, SMALL) < rounds);
        for t in tables.iter_mut().filter(|t| rounds > 0 && t.deletes[0] && t.subject.broken.is_empty()) {
            let sql = format!(
                "CALL {CATALOG}.system.rewrite_data_files(table => '{NAMESPACE}.{}', options => map('rewrite-all', 'true'))",
                t.subject.name
            );
            self.run
                .statement(&mut t.subject, &sql, Sample { what: COMPACT.into(), round: 1, ..Sample::default() })
                .await;
            let scan = Sample { what: "scan after compaction".into(), round: 1, ..Sample::default() };
            self.read(t, t.readers.clone(), oracle.scan(), &want, &scan).await;
        }
    }

    /// The share [`BY_SIZE`] of tables with deletion vectors of another size; they are removed afterwards.
    async fn size(&mut self, oracle: &Oracle, tables: &mut [Table]) {
        let taking = tables.iter_mut().filter(|t| t.subject.mode == "merge-on-read" && t.deletes[0]);
        let mut taking: Vec<&mut Table> = taking.collect();
        for t in &mut taking {
            t.subject.broken.clear();
            self.make(oracle, t).await;
        }
        let like = Sample { table_rows: oracle.rows(), ..Sample::default() };
        let cut = Cut { one_in: BY_SIZE, clustered: false };
        self.rounds(oracle, &mut taking, cut, [DELETE_BY_SIZE, SCAN_BY_SIZE], &like, false).await;
        for t in taking {
            self.drop_table(&t.subject.name).await;
        }
    }

    /// Times the deletion of the rows of a condition, in the table's mode.
    async fn delete(&mut self, oracle: &Oracle, s: &mut Subject, condition: &str, like: Sample) {
        let (before, delete) = statements(oracle, s, condition);
        for sql in before.iter() {
            self.run.quietly(s, sql).await;
        }
        self.run.statement(s, &delete, like).await;
    }

    /// Lets engines read a table that is whole.
    async fn read(&mut self, t: &Table, readers: Vec<usize>, sql: &str, want: &[String], like: &Sample) {
        for reader in readers {
            if t.subject.broken.is_empty() {
                self.run.read(reader, &t.subject, sql, want, like).await;
            }
        }
    }

    /// Takes a table back to a snapshot.
    async fn back(&mut self, s: &mut Subject, snapshot: Option<i64>) {
        let Some(id) = snapshot else {
            s.broken = "the table's snapshot cannot be read".into();
            return;
        };
        if self.snapshot(s) == Some(id) {
            return;
        }
        let sql = format!("CALL {CATALOG}.system.rollback_to_snapshot('{NAMESPACE}.{}', {id})", s.name);
        let t = table(self.run.warehouse, &s.name);
        if let Some(why) = failure(self.keeper.apply(&sql, &t).await) {
            s.broken = format!("it cannot be taken back: {why}");
        }
    }

    async fn drop_table(&mut self, name: &str) {
        let sql = format!("DROP TABLE IF EXISTS {CATALOG}.{NAMESPACE}.{name} PURGE");
        // room for the next tables; what stays is removed with the folder
        let _ = self.keeper.apply(&sql, &table(self.run.warehouse, name)).await;
    }

    fn snapshot(&self, s: &Subject) -> Option<i64> {
        TableState::read(Path::new(&table(self.run.warehouse, &s.name).location)).ok()??.snapshot_id()
    }
}

/// What comes before the statement and is not measured, and the statement that deletes the rows of a condition.
fn statements(oracle: &Oracle, s: &Subject, condition: &str) -> (Option<String>, String) {
    if s.mode == EQUALITY_DELETES {
        let [view, call] = oracle.by_equality(&s.name, condition);
        return (Some(view), call);
    }
    (None, format!("DELETE FROM {} WHERE {condition}", s.full()))
}

#[cfg(test)]
mod tests;
