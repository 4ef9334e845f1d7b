//! Runs the workload: all engines take turns within every round.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::model::{Change, Model, NARROW, WIDE};
use super::{Contender, Plan, Report, Sample};
use crate::drivers::Driver;
use crate::facts::newest;
use crate::protocol::{Answer, TableRef};
use crate::value::Rows;

/// Name of the shared catalog in statements.
pub(super) const CATALOG: &str = "ice";
/// Namespace of the benchmark's tables.
pub(super) const NAMESPACE: &str = "bench";

/// A table of one writer and mode, with what its rows must be.
pub(super) struct Subject {
    pub writer: usize,
    pub mode: String,
    pub name: String,
    pub model: Model,
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
    /// Makes a table for each writer and mode.
    pub async fn make(&mut self) -> Vec<Subject> {
        let mut out = Vec::new();
        let (plan, fresh) = (self.plan, Model::new(self.plan.rows));
        for mode in &plan.modes {
            for writer in 0..self.drivers.len() {
                if !self.drivers[writer].hello().plays("write") {
                    continue;
                }
                let name = format!("{}_{}", self.drivers[writer].name(), mode.replace('-', "_"));
                let mut s = Subject { writer, mode: mode.clone(), name, model: fresh.clone(), broken: String::new() };
                for sql in
                    [format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}"), Model::create(&s.full(), mode)]
                {
                    self.quietly(&mut s, &sql).await;
                }
                let insert = Model::insert(&s.full(), plan.rows);
                self.statement(&mut s, &insert, Sample { what: "insert".into(), ..Sample::default() }).await;
                out.push(s);
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
        let start = Instant::now();
        self.quietly(s, sql).await;
        let seconds = start.elapsed().as_secs_f64();
        self.samples.push(Sample {
            engine: name.clone(),
            writer: name,
            mode: s.mode.clone(),
            seconds: s.broken.is_empty().then_some(seconds),
            reason: s.broken.clone(),
            bytes: bytes(Path::new(&location)).saturating_sub(before),
            ..like
        });
    }

    /// A round for each change; every table of every writer has its turn in it. The rows are compared at the end, and when
    /// they are wrong none of the times counts.
    async fn changes(&mut self, subjects: &mut [Subject], changes: &[Change]) {
        let first = self.samples.len();
        for (round, change) in (0u32..).zip(changes) {
            for s in subjects.iter_mut() {
                let sql = change.sql(&s.full(), self.plan.rows);
                self.statement(s, &sql, Sample { what: change.name().into(), round, ..Sample::default() }).await;
                s.model.apply(*change);
            }
        }
        for s in subjects.iter_mut().filter(|s| s.broken.is_empty()) {
            if let Err(why) = self.ask(s.writer, s, false).await {
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
    async fn scans(&mut self, subjects: &mut [Subject], state: &str) {
        for (width, wide) in [("narrow", false), ("wide", true)] {
            for round in 0..=self.plan.samples {
                for s in subjects.iter() {
                    self.read(s, wide, &Sample { what: format!("scan {width}, {state}"), round, ..Sample::default() })
                        .await;
                }
            }
        }
    }

    /// Every reader reads a table; an answer that is not the model's has no time.
    pub async fn read(&mut self, s: &Subject, wide: bool, like: &Sample) {
        for reader in 0..self.drivers.len() {
            (self.tell)(&format!("{}: {} reads {}", like.name(), self.drivers[reader].name(), s.name));
            let took = if s.broken.is_empty() { self.ask(reader, s, wide).await } else { Err(s.broken.clone()) };
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

    /// Asks the question; the seconds when the answer is the model's.
    async fn ask(&mut self, reader: usize, s: &Subject, wide: bool) -> Result<f64, String> {
        let table = table(self.warehouse, &s.name);
        let sql = format!("{}{CATALOG}.{NAMESPACE}.{}", if wide { WIDE } else { NARROW }, s.name);
        let start = Instant::now();
        let answer = self.drivers[reader].query(&sql, &table).await;
        let seconds = start.elapsed().as_secs_f64();
        let got = texts(answer)?;
        let want = s.model.answer(wide);
        if got == [want.clone()] { Ok(seconds) } else { Err(format!("wrong rows: {got:?} instead of {want:?}")) }
    }
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
