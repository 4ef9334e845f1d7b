//! One scenario by one writer, seen by all readers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::damage::damage;
use super::facts_check;
use super::judge::{judge, judge_unreadable, short, shuffled};
use super::result::{AUDIT, Cell, Check, FACTS, Outcome};
use super::seat::{Clock, Seat, Turn};
use super::sync;
use crate::compare;
use crate::facts::TableState;
use crate::protocol::{Answer, TableRef};
use crate::scenario::{By, Expected, SPARK_FACTS, Scenario, Step, SyncStep, expected_states};
use crate::value::Rows;

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

/// A state that readers go back to.
struct State {
    step: usize,
    table: TableRef,
    expected: Expected,
}

/// Runs a scenario with the engine at `writer` as its writer, and gives a cell for the facts and one for each reader in
/// `readers` (indexes into `seats`). Engines without the needed role get no cell.
pub async fn run_scenario(
    session: &Session,
    seats: &[&Seat],
    scenario: &Scenario,
    writer: usize,
    readers: &[usize],
) -> Vec<Cell> {
    if !scenario.steps.iter().any(|s| s.by == By::Reader) {
        let mut run = Run::new(session, scenario, seats, writer, None, readers.to_vec(), seats[writer].name());
        run.go().await;
        return run.cells(true);
    }
    // the reader writes too, so each pair has a table of its own
    let mut cells = Vec::new();
    for r in readers.iter().copied().filter(|r| seats[*r].hello().plays("write")) {
        let tag = format!("{}__{}", seats[writer].name(), seats[r].name());
        let mut run = Run::new(session, scenario, seats, writer, Some(r), vec![r], &tag);
        run.go().await;
        cells.extend(run.cells(false));
    }
    cells
}

struct Run<'a> {
    scenario: &'a Scenario,
    seats: &'a [&'a Seat],
    writer: usize,
    second: Option<usize>,
    readers: Vec<usize>,
    catalog: String,
    namespace: String,
    name: String,
    folder: PathBuf,
    facts: Vec<Check>,
    audit: (Vec<Check>, Duration),
    /// Checks of each reader, in their order.
    columns: Vec<Vec<Check>>,
    /// Which engines died in this run.
    lost: Vec<AtomicBool>,
    /// Time in statements.
    writing: Clock,
    /// Time in each engine as a reader.
    reading: Vec<Clock>,
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
        seats: &'a [&'a Seat],
        writer: usize,
        second: Option<usize>,
        readers: Vec<usize>,
        tag: &str,
    ) -> Self {
        let word = |s: &str| s.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
        let (namespace, name) = (format!("{}_{}", session.prefix, word(tag)), word(&scenario.id));
        let folder = session.warehouse.join(&namespace).join(&name);
        let columns = readers.iter().map(|_| Vec::new()).collect();
        Self {
            scenario,
            seats,
            writer,
            second,
            readers,
            catalog: session.catalog.clone(),
            namespace,
            name,
            folder,
            facts: Vec::new(),
            audit: (Vec::new(), Duration::ZERO),
            columns,
            lost: seats.iter().map(|_| AtomicBool::new(false)).collect(),
            writing: Clock::default(),
            reading: seats.iter().map(|_| Clock::default()).collect(),
            states: Vec::new(),
            snapshots: Vec::new(),
            extra: 0,
            stopped: None,
        }
    }

    /// An engine's turn as a reader.
    async fn reader(&self, i: usize) -> Result<Turn<'_>, String> {
        self.seats[i].turn(&self.lost[i], &self.reading[i]).await
    }

    async fn scan(&self, i: usize, table: &TableRef) -> Answer<Rows> {
        match self.reader(i).await {
            Ok(mut d) => d.scan(table).await,
            Err(m) => Answer::Error(m),
        }
    }

    async fn query(&self, i: usize, sql: &str, table: &TableRef) -> Answer<Rows> {
        match self.reader(i).await {
            Ok(mut d) => d.query(sql, table).await,
            Err(m) => Answer::Error(m),
        }
    }

    async fn changes(&self, i: usize, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        match self.reader(i).await {
            Ok(mut d) => d.changes(table, from, to).await,
            Err(m) => Answer::Error(m),
        }
    }

    /// Runs a statement; whether the engine still lives comes with its answer.
    async fn apply(&self, i: usize, sql: &str, table: &TableRef) -> (Answer<()>, bool) {
        match self.seats[i].turn(&self.lost[i], &self.writing).await {
            Ok(mut d) => (d.apply(sql, table).await, d.alive()),
            Err(m) => (Answer::Error(m), false),
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

    /// Whether the facts of a step can be held against its engine: it makes those that Spark makes, and nobody came before
    /// whose way with what the scenario needs is another one, which shows in the files that the engine found.
    fn exact(&self, step: usize) -> bool {
        let steps = &self.scenario.steps;
        let who = self.who(&steps[step]);
        let mut before = steps[..step].iter().map(|s| self.who(s)).filter(|w| *w != who);
        self.seats[who].hello().has(SPARK_FACTS)
            && before.all(|w| lacking(self.scenario, self.seats[w], true).is_none())
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
        let make = format!("CREATE NAMESPACE IF NOT EXISTS {}", self.namespace);
        let table = self.table(None, None);
        if let Answer::Refused(m) | Answer::Error(m) | Answer::Skipped(m) =
            self.apply(self.writer, &make, &table).await.0
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
                    self.stopped = Some(check);
                    return;
                }
            };
            self.snapshots.push(after.as_ref().and_then(TableState::snapshot_id));
            let Some(after) = after else { continue };
            let exact = self.exact(i);
            self.facts.extend(facts_check::check(n, step, before.as_ref(), Some(&after), exact));
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
        self.writing.add(start.elapsed());
        self.facts.push(match done {
            Ok(()) => Check::pass(n, "sync"),
            Err(m) => Check::new(n, "sync", Outcome::Errored, m),
        });
        let Ok(Some(state)) = TableState::read(&folder) else { return };
        let mut copy = self.table(Some(&state), None);
        (copy.name, copy.location) = (name, folder.display().to_string());
        let (me, copy) = (&*self, &copy);
        let work = self.readers.iter().map(|r| async move {
            let answer = me.scan(*r, copy).await;
            vec![judge(n, "rows of the copy", answer, |rows| compare::state(want, rows))]
        });
        let checks = join_all(work).await;
        self.record(checks);
    }

    /// The auditor's word on the table as the scenario left it, and on its copy: clean when it is intact, faulty when it was
    /// damaged.
    async fn judge_bytes(&mut self, n: usize, intact: bool) {
        let mut checks = self.judge_folder(n, intact, self.folder.clone()).await;
        let copy = sync::copy_of(&self.folder);
        if copy.exists() {
            let copy = self.judge_folder(n, true, copy).await;
            checks.0.extend(copy.0);
            checks.1 += copy.1;
        }
        self.audit = checks;
    }

    async fn judge_folder(&self, n: usize, intact: bool, folder: PathBuf) -> (Vec<Check>, Duration) {
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
        (vec![check], start.elapsed())
    }

    /// Runs a step's statement or damage. `Ok(None)`: there is no table yet. `Err`: the scenario cannot go on.
    async fn step(&mut self, n: usize, step: &Step, before: Option<&TableState>) -> Result<Option<TableState>, Check> {
        if let Some(d) = &step.damage {
            damage(&self.folder, d).map_err(|e| Check::new(n, "damage", Outcome::Errored, e))?;
        } else {
            let who = self.who(step);
            let (sql, table) = (self.fill(&step.sql), self.table(before, None));
            let (answer, alive) = self.apply(who, &sql, &table).await;
            match (&step.refused, answer) {
                (None, Answer::Ok(())) => self.facts.push(Check::pass(n, "statement")),
                (None, Answer::Refused(m)) => {
                    return Err(Check::new(n, "statement", Outcome::Refused, m));
                }
                (None, Answer::Skipped(m)) => {
                    return Err(Check::new(n, "statement", Outcome::Skipped, m));
                }
                (_, Answer::Error(m)) if !alive => {
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
                    if !says && lacking(self.scenario, self.seats[who], true).is_some() {
                        // it knows no such statement, and so says nothing of this one
                        return Err(Check::new(n, "refusal", Outcome::Refused, m));
                    }
                    if !says {
                        c = Check::new(n, "refusal", Outcome::Fail, format!("refused with an unhelpful message: {m}"));
                        c.expected = format!("a message with one of: {}", r.mentions.join(", "));
                        c.got = m;
                    }
                    self.facts.push(c);
                }
            }
        }
        let read =
            TableState::read(&self.folder).map_err(|e| Check::new(n, "metadata", Outcome::Errored, e.to_string()))?;
        if step.refused.is_some() {
            let same = before.and_then(TableState::snapshot_id) == read.as_ref().and_then(TableState::snapshot_id);
            self.facts.push(match same {
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
        let (me, queries) = (&*self, &queries);
        let work = self.readers.iter().map(|r| async move {
            let hello = me.seats[*r].hello();
            let mut checks = Vec::new();
            if scan {
                let answer = me.scan(*r, head).await;
                checks.push(if step.unreadable {
                    judge_unreadable(n, answer)
                } else {
                    judge(n, "rows", answer, |rows| compare::state(want, rows))
                });
            }
            for (q, sql) in step.queries.iter().zip(queries) {
                let lacks = q.features.iter().find(|f| !hello.has(f));
                checks.push(match lacks {
                    _ if !hello.sql => Check::new(n, "query", Outcome::Skipped, "the reader takes no SQL"),
                    Some(f) => Check::new(n, "query", Outcome::Skipped, format!("the reader declares no {f}")),
                    None => {
                        let answer = me.query(*r, sql, head).await;
                        let answer = answer.and_then(|r| Ok(compare::renumbered(r, extra)));
                        judge(n, "query", answer, |rows| compare::query(q, rows))
                    }
                });
            }
            if let Some(c) = &step.changes {
                checks.push(if hello.has("changelog") {
                    let answer = me.changes(*r, head, from, to).await;
                    judge(n, "changes", answer, |rows| compare::changes(c, &want.columns, rows))
                } else {
                    Check::new(n, "changes", Outcome::Skipped, "the reader declares no changelog")
                });
            }
            checks
        });
        let checks = join_all(work).await;
        self.record(checks);
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
        let (me, states) = (&*self, &states);
        let work = self.readers.iter().map(|r| async move {
            let mut checks = Vec::new();
            let can = me.seats[*r].hello().has("time-travel");
            for s in states.iter().filter(|_| can) {
                let answer = me.scan(*r, &s.table).await;
                checks.push(judge(s.step, "rows at its snapshot", answer, |rows| compare::state(&s.expected, rows)));
            }
            checks
        });
        let checks = join_all(work).await;
        self.record(checks);
    }

    /// Whoever wrote the table: what floe reads as its changes must lead from each snapshot's rows to the next one's.
    async fn judge_changes(&mut self, n: usize) {
        let Some(k) = self.readers.iter().position(|r| self.seats[*r].name() == "floe") else {
            return;
        };
        let start = Instant::now();
        let check = match sync::changes_law(&self.folder, &self.catalog).await {
            Ok(()) => Check::pass(n, "changes of its history"),
            Err(m) => Check::new(n, "changes of its history", Outcome::Fail, m),
        };
        self.columns[k].push(check);
        self.reading[self.readers[k]].add(start.elapsed());
    }

    /// Takes in checks of all readers, in their order.
    fn record(&mut self, checks: Vec<Vec<Check>>) {
        for (column, checks) in self.columns.iter_mut().zip(checks) {
            column.extend(checks);
        }
    }

    /// Folds what was checked into cells. A writer's refusal shows in all its cells; it is accepted when the writer does
    /// not declare what the scenario needs. A reader's is accepted when the reader does not.
    fn cells(self, with_facts: bool) -> Vec<Cell> {
        let (id, writer) = (&self.scenario.id, self.seats[self.writer].name().to_string());
        let lacks = |seat: usize, writes: bool| lacking(self.scenario, self.seats[seat], writes).map(str::to_string);
        let writer_lacks = lacks(self.writer, true);
        let mut out = Vec::new();
        let mut facts = self.facts;
        facts.extend(self.stopped.clone());
        let mut fold = |reader: &str, checks: Vec<Check>, spent: Duration, lacks: Option<String>| {
            let mut cell = Cell::of(id, &writer, reader, checks, spent.as_millis() as u64);
            if let (Outcome::Refused, Some(f)) = (cell.outcome, lacks) {
                cell.accepted = true;
                cell.reason = format!("{} (it declares no {f})", cell.reason);
            }
            out.push(cell);
        };
        let written = self.writing.spent();
        if with_facts {
            fold(FACTS, facts, written, writer_lacks.clone());
            let (mut audit, spent) = self.audit;
            audit.extend(self.stopped.clone());
            fold(AUDIT, audit, spent, writer_lacks.clone());
        } else if let Some(second) = self.second {
            // a pair's facts belong to the pair
            let mut checks = facts;
            checks.extend(self.columns.into_iter().flatten());
            let both = writer_lacks.or_else(|| lacks(second, true));
            fold(self.seats[second].name(), checks, written + self.reading[second].spent(), both);
            return out;
        }
        for (r, mut checks) in self.readers.iter().zip(self.columns) {
            let mut lacking = lacks(*r, false);
            if let Some(stop) = &self.stopped {
                checks.push(stop.clone());
                lacking = writer_lacks.clone().or(lacking);
            }
            fold(self.seats[*r].name(), checks, self.reading[*r].spent(), lacking);
        }
        out
    }
}

/// The first capability that a scenario needs of an engine, as its writer or its reader, and that the engine does not declare.
fn lacking<'a>(scenario: &'a Scenario, seat: &Seat, writes: bool) -> Option<&'a str> {
    let needed = scenario.features.iter().map(String::as_str).filter(|f| writes || !WRITER_ONLY.contains(f));
    needed.into_iter().find(|f| !seat.hello().has(f))
}
