//! One scenario by one writer, seen by all readers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::damage::damage;
use super::facts_check;
use super::result::{AUDIT, Cell, Check, FACTS, Outcome};
use super::sync;
use crate::compare::{self, Difference};
use crate::drivers::Driver;
use crate::facts::TableState;
use crate::protocol::{Answer, TableRef};
use crate::scenario::{By, Expected, SPARK_FACTS, Scenario, Step, SyncStep, expected_states};

/// What a reader need not be able to do, because only a writer does it.
const WRITER_ONLY: &[&str] = &[
    "write-dv",
    "upsert",
    "row-level",
    "merge",
    "upgrade",
    "procedures",
    "branches",
    "changelog",
    "metadata-tables",
    "lineage",
    "time-travel",
    SPARK_FACTS,
];

/// Told of each finished cell.
pub type Progress<'a> = &'a (dyn Fn(&Cell) + Sync);

/// What the whole run shares.
#[derive(Debug, Clone)]
pub struct Session {
    /// Folder of the shared warehouse, absolute.
    pub warehouse: PathBuf,
    /// Name of the shared catalog in statements.
    pub catalog: String,
    /// Start of the namespaces' names; two passes of one run keep apart by it.
    pub prefix: String,
}

/// A reader's checks so far.
#[derive(Default)]
struct Column {
    checks: Vec<Check>,
    spent: Duration,
}

/// A state that readers go back to.
struct State {
    step: usize,
    table: TableRef,
    expected: Expected,
}

/// Runs a scenario with the engine at `writer` as its writer, and gives a cell for the facts and one for each reader in
/// `readers` (indexes into `drivers`). Engines without the needed role get no cell.
pub async fn run_scenario(
    session: &Session,
    drivers: &mut [Box<dyn Driver>],
    scenario: &Scenario,
    writer: usize,
    readers: &[usize],
    done: Progress<'_>,
) -> Vec<Cell> {
    for d in drivers.iter_mut() {
        d.revive().await;
    }
    let two_writers = scenario.steps.iter().any(|s| s.by == By::Reader);
    let mut cells = Vec::new();
    if two_writers {
        // the reader writes too, so each pair has a table of its own
        let both: Vec<usize> = readers.iter().copied().filter(|r| drivers[*r].hello().plays("write")).collect();
        for r in both {
            let tag = format!("{}__{}", drivers[writer].name(), drivers[r].name());
            let mut run = Run::new(session, scenario, drivers, writer, Some(r), vec![r], &tag);
            run.go().await;
            cells.extend(run.cells(false));
        }
    } else {
        let tag = drivers[writer].name().to_string();
        let mut run = Run::new(session, scenario, drivers, writer, None, readers.to_vec(), &tag);
        run.go().await;
        cells.extend(run.cells(true));
    }
    cells.iter().for_each(done);
    cells
}

struct Run<'a> {
    scenario: &'a Scenario,
    drivers: &'a mut [Box<dyn Driver>],
    writer: usize,
    second: Option<usize>,
    readers: Vec<usize>,
    catalog: String,
    namespace: String,
    name: String,
    folder: PathBuf,
    facts: Column,
    audit: Column,
    columns: Vec<Column>,
    states: Vec<State>,
    /// Current snapshot after each step.
    snapshots: Vec<Option<i64>>,
    /// Snapshots that the writer made where the scenario expects none.
    extra: i64,
    /// Why the writer could not finish.
    stopped: Option<Check>,
}

impl<'a> Run<'a> {
    fn new(
        session: &Session,
        scenario: &'a Scenario,
        drivers: &'a mut [Box<dyn Driver>],
        writer: usize,
        second: Option<usize>,
        readers: Vec<usize>,
        tag: &str,
    ) -> Self {
        let word = |s: &str| s.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
        let (namespace, name) = (format!("{}_{}", session.prefix, word(tag)), word(&scenario.id));
        let folder = session.warehouse.join(&namespace).join(&name);
        let columns = readers.iter().map(|_| Column::default()).collect();
        let catalog = session.catalog.clone();
        let (facts, audit, states, stopped) = (Column::default(), Column::default(), Vec::new(), None);
        let snapshots = Vec::new();
        Self {
            scenario,
            drivers,
            writer,
            second,
            readers,
            catalog,
            namespace,
            name,
            folder,
            facts,
            audit,
            columns,
            states,
            snapshots,
            extra: 0,
            stopped,
        }
    }

    fn table(&self, state: Option<&TableState>, snapshot: Option<i64>) -> TableRef {
        TableRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            location: self.folder.display().to_string(),
            metadata: state.map_or_else(String::new, |s| s.metadata.display().to_string()),
            snapshot,
        }
    }

    /// Index of the engine that runs a step.
    fn who(&self, step: &Step) -> usize {
        match step.by {
            By::Writer => self.writer,
            By::Reader => self.second.unwrap_or(self.writer),
        }
    }

    fn fill(&self, sql: &str) -> String {
        sql.replace("{table}", &format!("{}.{}", self.namespace, self.name))
            .replace("{namespace}", &self.namespace)
            .replace("{name}", &self.name)
            .replace("{catalog}", &self.catalog)
    }

    async fn go(&mut self) {
        let expected = match expected_states(self.scenario) {
            Ok(e) => e,
            Err(e) => {
                self.stopped = Some(Check::new(1, "scenario", Outcome::Errored, e));
                return;
            }
        };
        let start = Instant::now();
        let make = format!("CREATE NAMESPACE IF NOT EXISTS {}", self.namespace);
        let table = self.table(None, None);
        if let Answer::Refused(m) | Answer::Error(m) | Answer::Skipped(m) =
            self.drivers[self.writer].apply(&make, &table).await
        {
            self.stopped = Some(Check::new(1, "namespace", Outcome::Errored, m));
            return;
        }
        let intact = !self.scenario.steps.iter().any(|s| s.damage.is_some());
        let mut before: Option<TableState> = None;
        let mut held = String::new();
        for (i, (step, want)) in self.scenario.steps.iter().zip(expected).enumerate() {
            let n = i + 1;
            let after = match self.step(n, step, before.as_ref()).await {
                Ok(after) => after,
                Err(check) => {
                    self.facts.spent += start.elapsed();
                    self.stopped = Some(check);
                    return;
                }
            };
            self.snapshots.push(after.as_ref().and_then(TableState::snapshot_id));
            let Some(after) = after else { continue };
            let who = self.who(step);
            let exact = self.drivers[who].hello().has(SPARK_FACTS);
            self.facts.checks.extend(facts_check::check(n, step, before.as_ref(), Some(&after), exact));
            let made = after.snapshots().len() as i64 - before.as_ref().map_or(0, |b| b.snapshots().len()) as i64;
            if step.no_snapshot && !exact {
                self.extra += made.max(0);
            }
            // a statement that must change rows and leaves the table as it was is looked at all the same
            let moved = before.as_ref().is_none_or(|b| b.metadata != after.metadata) || want.digest != held;
            held.clone_from(&want.digest);
            // files never change, so a reader may remember one: what will be damaged is not shown to it before
            let shown = step.unreadable || intact;
            let asked =
                moved || step.unreadable || step.sync.is_some() || step.changes.is_some() || !step.queries.is_empty();
            if shown && asked {
                let head = self.table(Some(&after), None);
                self.read_live(n, step, &head, &want, moved || step.unreadable).await;
                if let Some(sync) = &step.sync {
                    self.read_copy(n, sync, &want).await;
                }
                let made_snapshot = after.snapshot_id() != before.as_ref().and_then(TableState::snapshot_id);
                if made_snapshot && !step.unreadable && step.damage.is_none() {
                    self.states.push(State {
                        step: n,
                        table: self.table(Some(&after), after.snapshot_id()),
                        expected: want,
                    });
                }
            }
            before = Some(after);
        }
        self.facts.spent += start.elapsed();
        if intact {
            self.read_history(before.as_ref()).await;
            self.judge_changes(self.scenario.steps.len()).await;
        }
        self.judge_bytes(self.scenario.steps.len(), intact).await;
    }

    /// floe syncs the copy; then every reader reads it, and must find the rows of the table.
    async fn read_copy(&mut self, n: usize, sync: &SyncStep, want: &Expected) {
        let start = Instant::now();
        let (folder, name) = (sync::copy_of(&self.folder), format!("{}_copy", self.name));
        let done = sync::run(&self.folder, &self.catalog, sync).await;
        self.facts.checks.push(match done {
            Ok(()) => Check::pass(n, "sync"),
            Err(m) => Check::new(n, "sync", Outcome::Errored, m),
        });
        self.facts.spent += start.elapsed();
        let Ok(Some(state)) = TableState::read(&folder) else { return };
        let mut copy = self.table(Some(&state), None);
        (copy.name, copy.location) = (name, folder.display().to_string());
        let work = self.drivers.iter_mut().enumerate().filter(|(i, _)| self.readers.contains(i)).map(|(i, d)| {
            let copy = &copy;
            async move {
                let start = Instant::now();
                let check = judge(n, "rows of the copy", d.scan(copy).await, |rows| compare::state(want, rows));
                (i, vec![check], start.elapsed())
            }
        });
        for (i, checks, spent) in join_all(work).await {
            self.record(i, checks, spent);
        }
    }

    /// The auditor's word on the table as the scenario left it, and on its copy: clean when it is intact, faulty when it was
    /// damaged.
    async fn judge_bytes(&mut self, n: usize, intact: bool) {
        let mut checks = self.judge_folder(n, intact, self.folder.clone()).await;
        let copy = sync::copy_of(&self.folder);
        if copy.exists() {
            let copy = self.judge_folder(n, true, copy).await;
            checks.checks.extend(copy.checks);
            checks.spent += copy.spent;
        }
        self.audit = checks;
    }

    async fn judge_folder(&self, n: usize, intact: bool, folder: PathBuf) -> Column {
        let start = Instant::now();
        // it blocks on files and runs threads of its own
        let done =
            tokio::task::spawn_blocking(move || floe_audit::audit(&folder, &floe_audit::Options::default())).await;
        let check = match done {
            Ok(Ok(r)) if intact && r.errors > 0 => {
                let worst = r.findings.iter().filter(|f| f.severity == floe_audit::Severity::Error);
                let lines: Vec<String> = worst
                    .map(|f| {
                        format!("{} {} {}: found {}, allowed {}", f.clause, short(&f.file), f.place, f.found, f.allowed)
                    })
                    .collect();
                let first = lines.first().map_or("", String::as_str);
                let mut c = Check::new(n, "bytes", Outcome::Fail, format!("{} violations, e.g. {first}", r.errors));
                c.expected = "no violation of a MUST".into();
                c.got = lines.join("\n");
                c
            }
            Ok(Ok(r)) if !intact && r.errors == 0 => Check::new(n, "bytes", Outcome::Fail, "the damage was not found"),
            Ok(Err(e)) if intact => Check::new(n, "bytes", Outcome::Errored, e.to_string()),
            Err(e) => Check::new(n, "bytes", Outcome::Errored, e.to_string()),
            Ok(_) => Check::pass(n, "bytes"),
        };
        Column { checks: vec![check], spent: start.elapsed() }
    }

    /// Runs a step's statement or damage. `Ok(None)`: there is no table yet. `Err`: the scenario cannot go on.
    async fn step(&mut self, n: usize, step: &Step, before: Option<&TableState>) -> Result<Option<TableState>, Check> {
        if let Some(d) = &step.damage {
            damage(&self.folder, d).map_err(|e| Check::new(n, "damage", Outcome::Errored, e))?;
        } else {
            let who = self.who(step);
            let (sql, table) = (self.fill(&step.sql), self.table(before, None));
            let answer = self.drivers[who].apply(&sql, &table).await;
            match (&step.refused, answer) {
                (None, Answer::Ok(())) => self.facts.checks.push(Check::pass(n, "statement")),
                (None, Answer::Refused(m)) => {
                    return Err(Check::new(n, "statement", Outcome::Refused, m));
                }
                (None, Answer::Skipped(m)) => {
                    return Err(Check::new(n, "statement", Outcome::Skipped, m));
                }
                (_, Answer::Error(m)) if !self.drivers[who].alive() => {
                    return Err(Check::new(n, "statement", Outcome::Errored, m));
                }
                (None, Answer::Error(m)) => {
                    return Err(Check::new(n, "statement", Outcome::Errored, m));
                }
                (Some(_), Answer::Skipped(m)) => {
                    return Err(Check::new(n, "refusal", Outcome::Skipped, m));
                }
                (Some(_), Answer::Ok(())) => {
                    let m = "the statement was accepted and had to be refused";
                    return Err(Check::new(n, "refusal", Outcome::Fail, m));
                }
                (Some(r), Answer::Refused(m) | Answer::Error(m)) => {
                    let lower = m.to_lowercase();
                    let says = r.mentions.is_empty() || r.mentions.iter().any(|w| lower.contains(&w.to_lowercase()));
                    let mut c = Check::pass(n, "refusal");
                    if !says && lacking(self.scenario, self.drivers[who].as_ref(), true).is_some() {
                        // it knows no such statement, and so says nothing of this one
                        return Err(Check::new(n, "refusal", Outcome::Refused, m));
                    }
                    if !says {
                        c = Check::new(n, "refusal", Outcome::Fail, format!("refused with an unhelpful message: {m}"));
                        c.expected = format!("a message with one of: {}", r.mentions.join(", "));
                        c.got = m;
                    }
                    self.facts.checks.push(c);
                }
            }
        }
        let read =
            TableState::read(&self.folder).map_err(|e| Check::new(n, "metadata", Outcome::Errored, e.to_string()))?;
        if step.refused.is_some() {
            let same = before.and_then(TableState::snapshot_id) == read.as_ref().and_then(TableState::snapshot_id);
            self.facts.checks.push(match same {
                true => Check::pass(n, "table unchanged"),
                false => Check::new(n, "table unchanged", Outcome::Fail, "a refused statement changed the table"),
            });
        }
        Ok(read)
    }

    /// Every reader reads the newest state in its one session, all at once; then answers the step's questions.
    async fn read_live(&mut self, n: usize, step: &Step, head: &TableRef, want: &Expected, scan: bool) {
        let from =
            step.changes.as_ref().and_then(|c| c.after).and_then(|n| self.snapshots.get(n - 1).copied().flatten());
        let to = self.snapshots.last().copied().flatten();
        let queries: Vec<String> = step.queries.iter().map(|q| self.fill(&q.sql)).collect();
        let extra = self.extra;
        let work = self.drivers.iter_mut().enumerate().filter(|(i, _)| self.readers.contains(i)).map(|(i, d)| {
            let queries = &queries;
            async move {
                let start = Instant::now();
                let mut checks = Vec::new();
                if scan {
                    let answer = d.scan(head).await;
                    checks.push(if step.unreadable {
                        judge_unreadable(n, answer)
                    } else {
                        judge(n, "rows", answer, |rows| compare::state(want, rows))
                    });
                }
                for (q, sql) in step.queries.iter().zip(queries) {
                    let lacks = q.features.iter().find(|f| !d.hello().has(f));
                    checks.push(match lacks {
                        _ if !d.hello().sql => Check::new(n, "query", Outcome::Skipped, "the reader takes no SQL"),
                        Some(f) => Check::new(n, "query", Outcome::Skipped, format!("the reader declares no {f}")),
                        None => {
                            let answer = d.query(sql, head).await.and_then(|r| Ok(compare::renumbered(r, extra)));
                            judge(n, "query", answer, |rows| compare::query(q, rows))
                        }
                    });
                }
                if let Some(c) = &step.changes {
                    let can = d.hello().has("changelog");
                    checks.push(if can {
                        judge(n, "changes", d.changes(head, from, to).await, |rows| {
                            compare::changes(c, &want.columns, rows)
                        })
                    } else {
                        Check::new(n, "changes", Outcome::Skipped, "the reader declares no changelog")
                    });
                }
                (i, checks, start.elapsed())
            }
        });
        for (i, checks, spent) in join_all(work).await {
            self.record(i, checks, spent);
        }
    }

    /// Every reader goes back over all states in a random order that is the same in each run.
    async fn read_history(&mut self, last: Option<&TableState>) {
        if self.states.len() < 2 {
            return;
        }
        let kept = |s: &State| {
            let id = s.table.snapshot;
            last.is_some_and(|l| l.snapshots().iter().any(|x| x["snapshot-id"].as_i64() == id))
        };
        let order = shuffled(self.states.len(), &self.scenario.id);
        let states: Vec<&State> = order.into_iter().map(|i| &self.states[i]).filter(|s| kept(s)).collect();
        let work = self.drivers.iter_mut().enumerate().filter(|(i, _)| self.readers.contains(i)).map(|(i, d)| {
            let states = &states;
            async move {
                let start = Instant::now();
                let mut checks = Vec::new();
                let can = d.hello().has("time-travel");
                for s in states.iter().filter(|_| can) {
                    let answer = d.scan(&s.table).await;
                    checks
                        .push(judge(s.step, "rows at its snapshot", answer, |rows| compare::state(&s.expected, rows)));
                }
                (i, checks, start.elapsed())
            }
        });
        let results = join_all(work).await;
        for (i, checks, spent) in results {
            self.record(i, checks, spent);
        }
    }

    /// Whoever wrote the table: what floe reads as its changes must lead from each snapshot's rows to the next one's.
    async fn judge_changes(&mut self, n: usize) {
        let drivers = &self.drivers;
        let Some(floe) = self.readers.iter().copied().find(|r| drivers[*r].name() == "floe") else {
            return;
        };
        let start = Instant::now();
        let checks = match sync::changes_law(&self.folder, &self.catalog).await {
            Ok(()) => vec![Check::pass(n, "changes of its history")],
            Err(m) => vec![Check::new(n, "changes of its history", Outcome::Fail, m)],
        };
        self.record(floe, checks, start.elapsed());
    }

    fn record(&mut self, driver: usize, checks: Vec<Check>, spent: Duration) {
        if let Some(k) = self.readers.iter().position(|r| *r == driver) {
            self.columns[k].checks.extend(checks);
            self.columns[k].spent += spent;
        }
    }

    /// Folds what was checked into cells. A writer's refusal shows in all its cells; it is accepted when the writer does
    /// not declare what the scenario needs. A reader's is accepted when the reader does not.
    fn cells(self, with_facts: bool) -> Vec<Cell> {
        let (id, writer) = (&self.scenario.id, self.drivers[self.writer].name().to_string());
        let lacks = |d: &dyn Driver, writes: bool| lacking(self.scenario, d, writes).map(str::to_string);
        let writer_lacks = lacks(self.drivers[self.writer].as_ref(), true);
        let mut out = Vec::new();
        let mut facts = self.facts.checks;
        facts.extend(self.stopped.clone());
        let mut fold = |reader: &str, checks: Vec<Check>, spent: Duration, lacks: Option<String>| {
            let mut cell = Cell::of(id, &writer, reader, checks, spent.as_millis() as u64);
            if let (Outcome::Refused, Some(f)) = (cell.outcome, lacks) {
                cell.accepted = true;
                cell.reason = format!("{} (it declares no {f})", cell.reason);
            }
            out.push(cell);
        };
        if with_facts {
            fold(FACTS, facts, self.facts.spent, writer_lacks.clone());
            let mut audit = self.audit;
            audit.checks.extend(self.stopped.clone());
            fold(AUDIT, audit.checks, audit.spent, writer_lacks.clone());
        } else if let Some(second) = self.second {
            // a pair's facts belong to the pair
            let mut checks = facts;
            checks.extend(self.columns.into_iter().flat_map(|c| c.checks));
            let both = writer_lacks.or_else(|| lacks(self.drivers[second].as_ref(), true));
            let name = self.drivers[second].name().to_string();
            fold(&name, checks, self.facts.spent, both);
            return out;
        }
        for (r, mut column) in self.readers.iter().zip(self.columns) {
            let d = self.drivers[*r].as_ref();
            let mut lacking = lacks(d, false);
            if let Some(stop) = &self.stopped {
                column.checks.push(stop.clone());
                lacking = writer_lacks.clone().or(lacking);
            }
            fold(d.name(), column.checks, column.spent, lacking);
        }
        out
    }
}

/// The first capability that a scenario needs of an engine, as its writer or its reader, and that the engine does not declare.
fn lacking<'a>(scenario: &'a Scenario, d: &dyn Driver, writes: bool) -> Option<&'a str> {
    let needed = scenario.features.iter().map(String::as_str).filter(|f| writes || !WRITER_ONLY.contains(f));
    needed.into_iter().find(|f| !d.hello().has(f))
}

/// A file's name without its folders.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn judge(
    n: usize,
    what: &str,
    answer: Answer<crate::value::Rows>,
    compare: impl FnOnce(&crate::value::Rows) -> Option<Difference>,
) -> Check {
    match answer {
        Answer::Ok(rows) => match compare(&rows) {
            None => Check::pass(n, what),
            Some(d) => {
                let mut c = Check::new(n, what, Outcome::Fail, d.reason);
                (c.expected, c.got) = (d.expected, d.got);
                c
            }
        },
        Answer::Refused(m) => Check::new(n, what, Outcome::Refused, m),
        Answer::Skipped(m) => Check::new(n, what, Outcome::Skipped, m),
        Answer::Error(m) => Check::new(n, what, Outcome::Errored, m),
    }
}

/// A table that must not be readable: a refusal passes, and so does an error; rows are a wrong answer.
fn judge_unreadable(n: usize, answer: Answer<crate::value::Rows>) -> Check {
    let what = "malformed table refused";
    match answer {
        Answer::Ok(rows) => {
            let m = format!("malformed table was answered with {} rows", rows.count);
            let mut c = Check::new(n, what, Outcome::Fail, m);
            c.expected = "an error".into();
            c.got = format!("{} rows", rows.count);
            c
        }
        Answer::Refused(_) | Answer::Error(_) => Check::pass(n, what),
        Answer::Skipped(m) => Check::new(n, what, Outcome::Skipped, m),
    }
}

/// A permutation of `0..n` that depends only on `seed`.
fn shuffled(n: usize, seed: &str) -> Vec<usize> {
    let mut state =
        seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)) | 1;
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    order
}
