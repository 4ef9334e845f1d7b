//! Runs the workload: all engines take turns within every round.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::model::{Change, Model, NARROW, WIDE};
use super::usage::{Meter, Usage};
use super::{Contender, Plan, Report, Sample};
use crate::drivers::Driver;
use crate::facts::{TableState, newest};
use crate::protocol::{Answer, TableRef};
use crate::value::Rows;

/// Name of the shared catalog in statements.
pub(super) const CATALOG: &str = "ice";
/// Namespace of the benchmark's tables.
pub(super) const NAMESPACE: &str = "bench";

/// A table of one writer and mode.
#[derive(Clone)]
pub(super) struct Subject {
    /// Index of its engine.
    pub writer: usize,
    pub mode: String,
    pub name: String,
    /// Why it takes no further part: a statement failed or left wrong rows.
    pub broken: String,
}

impl Subject {
    /// Its name in statements.
    pub fn full(&self) -> String {
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
    run.scans(&mut subjects, "no deletes").await;
    let per = |f: fn(u32) -> Change| (0..=plan.samples).map(f).collect::<Vec<_>>();
    run.changes(&mut subjects, &per(|i| Change::DeleteOne(90 + 1000 * i))).await;
    run.changes(&mut subjects, &per(Change::Delete)).await;
    run.scans(&mut subjects, &format!("{} % deleted", plan.samples + 1)).await;
    run.changes(&mut subjects, &per(|i| Change::Update(30 + i))).await;
    run.changes(&mut subjects, &per(|i| Change::Merge(60 + i))).await;
    run.scans(&mut subjects, "after all changes").await;
    report(plan, run.drivers, absent, run.samples)
}

/// A workload that runs.
pub(super) struct Run<'a> {
    pub plan: &'a Plan,
    pub warehouse: &'a Path,
    pub drivers: &'a mut [Box<dyn Driver>],
    pub samples: Vec<Sample>,
    pub tell: &'a dyn Fn(&str),
}

impl Run<'_> {
    /// Makes a table for each writer and mode, with what its rows must be.
    async fn make(&mut self) -> Vec<(Subject, Model)> {
        let mut out = Vec::new();
        let (plan, fresh) = (self.plan, Model::new(self.plan.rows));
        for mode in &plan.modes {
            for writer in 0..self.drivers.len() {
                if !self.drivers[writer].hello().plays("write") {
                    continue;
                }
                let name = format!("{}_{}", self.drivers[writer].name(), mode.replace('-', "_"));
                let mut s = Subject { writer, mode: mode.clone(), name, broken: String::new() };
                for sql in [
                    format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}"),
                    Model::create(&s.full(), mode, &plan.properties),
                ] {
                    self.quietly(&mut s, &sql).await;
                }
                let insert = Model::insert(&s.full(), plan.rows);
                self.statement(&mut s, &insert, Sample { what: "insert".into(), ..Sample::default() }).await;
                out.push((s, fresh.clone()));
            }
        }
        out
    }

    /// A statement that is not measured.
    pub async fn quietly(&mut self, s: &mut Subject, sql: &str) {
        if s.broken.is_empty() {
            let t = table(self.warehouse, &s.name);
            s.broken = failure(self.drivers[s.writer].apply(sql, &t).await).unwrap_or_default();
        }
    }

    /// Times one statement of a table's writer; `like` says what it is.
    pub async fn statement(&mut self, s: &mut Subject, sql: &str, like: Sample) {
        let name = self.drivers[s.writer].name().to_string();
        (self.tell)(&format!("{}: {name} {}", like.name(), s.mode));
        let location = table(self.warehouse, &s.name).location;
        let before = bytes(Path::new(&location));
        let meter = Meter::start(self.drivers[s.writer].process());
        let start = Instant::now();
        self.quietly(s, sql).await;
        let seconds = start.elapsed().as_secs_f64();
        let usage = if s.broken.is_empty() { meter.stop() } else { Usage::default() };
        let sample = Sample {
            engine: name.clone(),
            writer: name,
            mode: s.mode.clone(),
            seconds: s.broken.is_empty().then_some(seconds),
            reason: s.broken.clone(),
            bytes: bytes(Path::new(&location)).saturating_sub(before),
            usage,
            ..like
        };
        self.samples.push(self.with_files(&s.name, sample));
    }

    /// The sample with the files of the table as its snapshot counts them.
    pub fn with_files(&self, name: &str, sample: Sample) -> Sample {
        let state = TableState::read(Path::new(&table(self.warehouse, name).location)).ok().flatten();
        let count = |key: &str| state.as_ref()?.snapshot()?["summary"][key].as_str()?.parse().ok();
        Sample {
            data_files: count("total-data-files"),
            delete_files: count("total-delete-files"),
            live_bytes: count("total-files-size"),
            ..sample
        }
    }

    /// A round for each change; every table of every writer has its turn in it. The rows are compared at the end, and when
    /// they are wrong none of the times counts.
    async fn changes(&mut self, subjects: &mut [(Subject, Model)], changes: &[Change]) {
        let first = self.samples.len();
        for (round, change) in (0u32..).zip(changes) {
            for (s, model) in subjects.iter_mut() {
                let sql = change.sql(&s.full(), self.plan.rows);
                self.statement(s, &sql, Sample { what: change.name().into(), round, ..Sample::default() }).await;
                model.apply(*change);
            }
        }
        for (s, model) in subjects.iter_mut().filter(|s| s.0.broken.is_empty()) {
            if let Err(why) = self.ask(s.writer, &s.name, NARROW, &model.answer(false)).await {
                s.broken = why;
                let name = self.drivers[s.writer].name();
                for x in self.samples[first..].iter_mut().filter(|x| x.writer == name && x.mode == s.mode) {
                    x.seconds = None;
                    x.reason.clone_from(&s.broken);
                }
            }
        }
    }

    /// Every reader reads every table, narrow and wide, in turns.
    async fn scans(&mut self, subjects: &mut [(Subject, Model)], state: &str) {
        for (width, wide) in [("narrow", false), ("wide", true)] {
            let sql = if wide { WIDE } else { NARROW };
            let wanted: Vec<_> = subjects.iter().map(|s| s.1.answer(wide)).collect();
            for round in 0..=self.plan.samples {
                for ((s, _), want) in subjects.iter().zip(&wanted) {
                    let like = Sample { what: format!("scan {width}, {state}"), round, ..Sample::default() };
                    for reader in 0..self.drivers.len() {
                        self.read(reader, s, sql, want, &like).await;
                    }
                }
            }
        }
    }

    /// A reader reads a table; an answer that is not the wanted one has no time.
    pub async fn read(&mut self, reader: usize, s: &Subject, sql: &str, want: &[String], like: &Sample) {
        (self.tell)(&format!("{}: {} reads {}", like.name(), self.drivers[reader].name(), s.name));
        let took = if s.broken.is_empty() { self.ask(reader, &s.name, sql, want).await } else { Err(s.broken.clone()) };
        let (seconds, usage, reason) = match took {
            Ok((t, usage)) => (Some(t), usage, String::new()),
            Err(why) => (None, Usage::default(), why),
        };
        self.samples.push(Sample {
            engine: self.drivers[reader].name().into(),
            writer: self.drivers[s.writer].name().into(),
            mode: s.mode.clone(),
            seconds,
            reason,
            usage,
            ..like.clone()
        });
    }

    /// Asks a question that ends before the table's name; the seconds and what they took when the answer is the wanted one.
    pub async fn ask(&mut self, reader: usize, name: &str, sql: &str, want: &[String]) -> Result<(f64, Usage), String> {
        let table = table(self.warehouse, name);
        let sql = format!("{sql}{CATALOG}.{NAMESPACE}.{name}");
        let meter = Meter::start(self.drivers[reader].process());
        let start = Instant::now();
        let answer = self.drivers[reader].query(&sql, &table).await;
        let seconds = start.elapsed().as_secs_f64();
        let usage = meter.stop();
        same(&texts(answer)?, want).map(|()| (seconds, usage))
    }
}

/// Whether the only row is the wanted one.
pub(super) fn same(got: &[Vec<String>], want: &[String]) -> Result<(), String> {
    if got == [want] { Ok(()) } else { Err(format!("wrong rows: {got:?} instead of {want:?}")) }
}

/// A table of the benchmark in its newest state.
pub(super) fn table(warehouse: &Path, name: &str) -> TableRef {
    newest(warehouse, NAMESPACE, name)
}

/// The samples with all that says how they came about.
pub(super) fn report(
    plan: &Plan,
    drivers: &[Box<dyn Driver>],
    absent: Vec<(String, String)>,
    samples: Vec<Sample>,
) -> Report {
    let one = |d: &dyn Driver| Contender {
        name: d.name().into(),
        version: d.hello().version.clone(),
        iceberg: d.hello().iceberg.clone(),
    };
    Report {
        schema: 1,
        floe: env!("CARGO_PKG_VERSION").into(),
        machine: machine(),
        plan: plan.clone(),
        engines: drivers.iter().map(|d| one(d.as_ref())).collect(),
        absent,
        samples,
    }
}

/// Rows as texts; sums are integers of several types, of which the digits count.
pub(super) fn texts(answer: Answer<Rows>) -> Result<Vec<Vec<String>>, String> {
    let rows = match answer {
        Answer::Ok(rows) => rows.rows.unwrap_or_default(),
        other => return Err(failure(other).unwrap_or_default()),
    };
    let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
    Ok(rows.iter().map(|r| r.iter().map(plain).collect()).collect())
}

/// Why there is no result.
pub(super) fn failure<T>(a: Answer<T>) -> Option<String> {
    match a {
        Answer::Ok(_) => None,
        Answer::Refused(m) => Some(format!("refused: {m}")),
        Answer::Skipped(m) => Some(m),
        Answer::Error(m) => Some(format!("failed: {m}")),
    }
}

/// Bytes in a folder.
pub(super) fn bytes(folder: &Path) -> u64 {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|f| match f.metadata() {
            Ok(m) if m.is_dir() => bytes(&f.path()),
            Ok(m) => m.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Processor and number of cores, as the system tells.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", if model.is_empty() { std::env::consts::ARCH } else { model })
}
