//! A scenario of each kind by floe alone, in process: the reports made of them are reviewed snapshots in `reports/`. The whole
//! matrix is `floe conformance`'s, reviewed in `reports/matrix.txt`.

use floe_conformance::drivers::{Driver, Floe};
use floe_conformance::matrix::result::{Cell, EngineRow, Outcome, Results};
use floe_conformance::matrix::{Field, Seat, Session, deviations, run_scenario};
use floe_conformance::protocol::{Answer, Hello, TableRef};
use floe_conformance::report::{markdown, terminal, verdicts};
use floe_conformance::scenario::generated::History;
use floe_conformance::scenario::{self, Scenario};
use floe_conformance::value::Rows;

/// Rows by model, facts, questions, damage, a refusal and two writers.
const CHOSEN: &[&str] = &[
    "concurrency/deletes-in-turn",
    "dv/repeated-deletes",
    "lineage/kept-by-copy-on-write",
    "negative/dv-crc",
    "row-level/merge-duplicate-source",
    "upgrade/v2-deletes-fold-into-dv",
];

fn results_of(
    engines: Vec<EngineRow>,
    scenarios: Vec<Scenario>,
    cells: Vec<Cell>,
    stale_deviations: Vec<String>,
) -> Results {
    Results {
        schema: 1,
        floe: String::new(),
        started: 0,
        seconds: 0.0,
        launcher: "native".into(),
        engines,
        scenarios,
        cells,
        stale_deviations,
        catalogs: vec![],
        figures: vec![],
    }
}

/// Ways that go through the scenarios at once, each with a floe and a warehouse of its own.
const WAYS: usize = 2;

async fn run(chosen: Option<&[&str]>) -> Results {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let root = scenario::find_root().expect("scenarios");
    let mut scenarios = scenario::load_all(&root, "*").expect("valid scenarios");
    if let Some(chosen) = chosen {
        scenarios.retain(|s| chosen.contains(&s.id.as_str()));
        assert_eq!(scenarios.len(), chosen.len());
    }
    let mut engines = Vec::new();
    let mut tasks = Vec::new();
    for (way, part) in scenarios.chunks(scenarios.len().div_ceil(WAYS)).enumerate() {
        let warehouse = tmp.path().join(way.to_string()).join("warehouse");
        std::fs::create_dir_all(&warehouse).expect("folder");
        let floe = Floe::new(&warehouse, "ice").expect("a catalog of a folder");
        let version = floe.hello().version.clone();
        engines = vec![EngineRow { name: "floe".into(), version, ..EngineRow::default() }];
        let (part, seat) = (part.to_vec(), Seat::new(Box::new(floe)));
        let session = Session { warehouse, catalog: "ice".into(), prefix: "by".into() };
        tasks.push(tokio::spawn(async move {
            let mut cells = Vec::new();
            for s in &part {
                cells.extend(run_scenario(&session, &[&seat], s, 0, &[0]).await);
            }
            cells
        }));
    }
    let mut cells = Vec::new();
    for t in tasks {
        cells.extend(t.await.expect("a way that ends"));
    }
    let book = deviations::parse(deviations::FILE).expect("known deviations");
    let stale_deviations = deviations::apply(&book, &mut cells, &engines, chosen.is_none());
    let results = results_of(engines, scenarios, cells, stale_deviations);
    assert!(results.green(), "{}", terminal::text(&results));
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_a_scenario_of_each_kind() {
    let results = run(Some(CHOSEN)).await;
    insta::with_settings!({ snapshot_path => "../../reports/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("verdicts", verdicts::text(&results));
        insta::assert_snapshot!("matrix", terminal::text(&results));
        insta::assert_snapshot!("markdown", markdown::text(&results));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_is_accepted_of_floe_by_itself() {
    let results = run(None).await;
    assert!(results.scenarios.len() >= 80, "{} scenarios", results.scenarios.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_histories_hold_of_floe() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let mut field = Field::default();
    let row = |name: &str| EngineRow { name: name.into(), ..EngineRow::default() };
    field.join(0, row("floe"), Some(Box::new(Floe::new(&warehouse, "ice").expect("a catalog"))));
    let session = Session { warehouse, catalog: "ice".into(), prefix: "run".into() };
    let histories: Vec<History> = (1..=25).map(History::of).collect();
    let scenarios: Vec<Scenario> = histories.iter().map(History::scenario).collect();
    field.round(&session, &scenarios, &|_| {}, || false).await;
    let (_, cells) = field.so_far(&scenarios);
    assert_eq!(cells.len(), 3 * histories.len());
    let bad: Vec<_> = cells.iter().filter(|c| c.outcome != Outcome::Pass).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// floe, but for DELETE by a range, which it says it did and leaves.
struct Forgetful(Floe);

#[async_trait::async_trait]
impl Driver for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }
    fn hello(&self) -> &Hello {
        self.0.hello()
    }
    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()> {
        if sql.starts_with("DELETE") && sql.contains("id <") { Answer::Ok(()) } else { self.0.apply(sql, table).await }
    }
    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        self.0.scan(table).await
    }
    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows> {
        self.0.query(sql, table).await
    }
    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        self.0.changes(table, from, to).await
    }
    async fn revive(&mut self) {}
    fn alive(&self) -> bool {
        true
    }
    async fn stop(&mut self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_join_in_rounds_and_a_failing_history_is_cut_down_to_its_core() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let floe = || Floe::new(&warehouse, "ice").expect("a catalog");
    let row = |name: &str| EngineRow { name: name.into(), ..EngineRow::default() };
    let session = Session { warehouse: warehouse.clone(), catalog: "ice".into(), prefix: "run".into() };
    let histories: Vec<History> = (1..=12).map(History::of).collect();
    let scenarios: Vec<Scenario> = histories.iter().map(History::scenario).collect();
    let n = scenarios.len();
    let mut field = Field::default();
    field.join(1, row("floe"), Some(Box::new(floe())));
    assert_eq!(field.ahead(n), 3 * n as u64);
    field.round(&session, &scenarios, &|_| {}, || false).await;
    // the one that joins later stands before it in reports; the third never started
    field.join(0, row("forgetful"), Some(Box::new(Forgetful(floe()))));
    field.join(2, EngineRow { skipped: "not here".into(), ..row("absent") }, None);
    assert_eq!(field.ahead(n), 5 * n as u64);
    field.round(&session, &scenarios, &|_| {}, || false).await;
    let (engines, cells) = field.so_far(&scenarios);
    assert_eq!(engines.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["forgetful", "floe", "absent"]);
    let of_first: Vec<String> = cells[..8].iter().map(|c| format!("{} {}", c.writer, c.reader)).collect();
    let want = ["metadata", "audit", "forgetful", "floe"];
    let want: Vec<String> = ["forgetful", "floe"].iter().flat_map(|w| want.map(|r| format!("{w} {r}"))).collect();
    assert_eq!(of_first, want, "no pair twice, none left out");
    assert!(cells.iter().all(|c| c.writer == "forgetful" || c.outcome == Outcome::Pass));
    let results = results_of(engines, scenarios, cells, Vec::new());
    assert!(verdicts::of(&results).is_empty(), "generated histories are not reviewed");
    let found = field.cut_down(&session, &histories, &results).await;
    let (_, _, least) = found.iter().find(|f| f.0 == "forgetful" && f.1 == "floe").expect("a reader saw it");
    let said: Vec<&str> = least.steps.iter().map(|s| s.sql.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(said, ["CREATE", "INSERT", "DELETE"], "{least:#?}");
    assert!(least.steps[2].sql.contains("id <"), "{least:#?}");
}

/// floe as an engine that rewrites files where others write deletes, and does not say that it can do more.
struct Rewriter(Floe, Hello);

#[async_trait::async_trait]
impl Driver for Rewriter {
    fn name(&self) -> &str {
        "rewriter"
    }
    fn hello(&self) -> &Hello {
        &self.1
    }
    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()> {
        self.0.apply(&sql.replace("merge-on-read", "copy-on-write"), table).await
    }
    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        self.0.scan(table).await
    }
    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows> {
        self.0.query(sql, table).await
    }
    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        self.0.changes(table, from, to).await
    }
    async fn revive(&mut self) {}
    fn alive(&self) -> bool {
        true
    }
    async fn stop(&mut self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_a_second_engine_count_only_where_the_first_one_declares_what_is_needed() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let session = Session { warehouse: warehouse.clone(), catalog: "ice".into(), prefix: "by".into() };
    let root = scenario::find_root().expect("scenarios");
    let scenarios = scenario::load_all(&root, "concurrency/upgrade-by-the-other").expect("a valid scenario");
    for (declares, want) in [(false, Outcome::Pass), (true, Outcome::Fail)] {
        let floe = || Floe::new(&warehouse, "ice").expect("a catalog");
        let mut hello = floe().hello().clone();
        hello.capabilities.retain(|c| c != "spark-facts" && (declares || c != "write-dv"));
        let seats = [Seat::new(Box::new(Rewriter(floe(), hello))), Seat::new(Box::new(floe()))];
        let session = Session { prefix: format!("by{declares}"), ..session.clone() };
        let cells = run_scenario(&session, &[&seats[0], &seats[1]], &scenarios[0], 0, &[1]).await;
        assert_eq!(cells.iter().map(|c| c.outcome).collect::<Vec<_>>(), [want], "{cells:#?}");
    }
}

/// The cells of a field, as words; each pair of a scenario must be there once.
fn pairs(field: &Field, scenarios: &[Scenario]) -> Vec<String> {
    let (_, cells) = field.so_far(scenarios);
    assert!(cells.iter().all(|c| c.outcome == Outcome::Pass), "{cells:#?}");
    let pairs: Vec<String> = cells.iter().map(|c| format!("{} {} {}", c.scenario, c.writer, c.reader)).collect();
    let once: std::collections::BTreeSet<&String> = pairs.iter().collect();
    assert_eq!(once.len(), pairs.len(), "a pair was run twice: {pairs:#?}");
    pairs
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_round_leaves_is_the_next_ones_and_writers_at_once_miss_no_pair() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let named = |name: &'static str| {
        let row = EngineRow { name: name.into(), ..EngineRow::default() };
        (row, Box::new(Mortal::new(name, &warehouse, "")) as Box<dyn Driver>)
    };
    let session = Session { warehouse: warehouse.clone(), catalog: "ice".into(), prefix: "run".into() };
    let scenarios: Vec<Scenario> = (1..=6).map(|n| History::of(n).scenario()).collect();
    let mut field = Field::default();
    let (row, driver) = named("one");
    field.join(0, row, Some(driver));
    // asked before each scenario: enough after two
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let enough = move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 2;
    field.round(&session, &scenarios, &|_| {}, enough).await;
    assert_eq!(pairs(&field, &scenarios).len(), 2 * 3);
    assert_eq!(field.ahead(scenarios.len()), 4 * 3);
    for (place, name) in ["two", "three"].into_iter().enumerate() {
        let (row, driver) = named(name);
        field.join(place + 1, row, Some(driver));
    }
    let ahead = field.ahead(scenarios.len());
    assert_eq!(ahead, 2 * 2 + 4 * 5 + 2 * 6 * 5, "the rest of the first, and all of the others");
    let before = pairs(&field, &scenarios).len() as u64;
    field.round(&session, &scenarios, &|_| {}, || false).await;
    let all = pairs(&field, &scenarios);
    assert_eq!(all.len() as u64, before + ahead);
    assert_eq!(all.len(), scenarios.len() * 3 * 5, "metadata, audit and three readers of each writer");
    assert_eq!(field.ahead(scenarios.len()), 0);
}

/// floe under another name that ends when it is to read a table whose name holds `poison`.
struct Mortal {
    floe: Floe,
    name: &'static str,
    poison: &'static str,
    alive: bool,
    deaths: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Mortal {
    fn new(name: &'static str, warehouse: &std::path::Path, poison: &'static str) -> Self {
        let floe = Floe::new(warehouse, "ice").expect("a catalog");
        Self { floe, name, poison, alive: true, deaths: std::sync::Arc::default() }
    }
}

#[async_trait::async_trait]
impl Driver for Mortal {
    fn name(&self) -> &str {
        self.name
    }
    fn hello(&self) -> &Hello {
        self.floe.hello()
    }
    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()> {
        self.floe.apply(sql, table).await
    }
    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        if self.alive && !self.poison.is_empty() && table.name.contains(self.poison) {
            self.alive = false;
            self.deaths.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        if self.alive { self.floe.scan(table).await } else { Answer::Error("it is dead".into()) }
    }
    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows> {
        self.floe.query(sql, table).await
    }
    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        self.floe.changes(table, from, to).await
    }
    async fn revive(&mut self) {
        self.alive = true;
    }
    fn alive(&self) -> bool {
        self.alive
    }
    async fn stop(&mut self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_is_asked_no_more_of_that_table_and_all_of_the_others() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let session = Session { warehouse: warehouse.clone(), catalog: "ice".into(), prefix: "run".into() };
    let root = scenario::find_root().expect("scenarios");
    let mut scenarios = scenario::load_all(&root, "dv/*").expect("valid scenarios");
    scenarios.retain(|s| ["dv/repeated-deletes", "dv/smoke", "dv/update-then-delete"].contains(&s.id.as_str()));
    let writer = |name| Box::new(Mortal::new(name, &warehouse, ""));
    let mortal = Mortal::new("mortal", &warehouse, "dv_repeated_deletes");
    let deaths = mortal.deaths.clone();
    let mut field = Field::default();
    let drivers: Vec<Box<dyn Driver>> = vec![writer("one"), writer("two"), Box::new(mortal)];
    for (place, driver) in drivers.into_iter().enumerate() {
        let row = EngineRow { name: driver.name().into(), ..EngineRow::default() };
        field.join(place, row, Some(driver));
    }
    field.round(&session, &scenarios, &|_| {}, || false).await;
    let (_, cells) = field.so_far(&scenarios);
    for c in &cells {
        let killed = [&c.reader, &c.writer].iter().any(|e| *e == "mortal") && c.scenario == "dv/repeated-deletes";
        let want = if killed { Outcome::Errored } else { Outcome::Pass };
        assert_eq!(c.outcome, want, "{} {} -> {}: {}", c.scenario, c.writer, c.reader, c.reason);
    }
    // once a table: by each of the three that wrote it
    assert_eq!(deaths.load(std::sync::atomic::Ordering::Relaxed), 3);
}
