//! A scenario of each kind by floe alone, in process: the reports made of them are reviewed snapshots in `reports/`. The whole
//! matrix is `floe conformance`'s, reviewed in `reports/matrix.txt`.

use floe_conformance::drivers::{Driver, Floe};
use floe_conformance::matrix::result::{Cell, EngineRow, Outcome, Results};
use floe_conformance::matrix::{Field, Session, deviations, run_scenario};
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

async fn run(chosen: Option<&[&str]>) -> Results {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let floe = Floe::new(&warehouse, "ice").expect("a catalog of a folder");
    let engines =
        vec![EngineRow { name: "floe".into(), version: floe.hello().version.clone(), ..EngineRow::default() }];
    let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(floe)];
    let session = Session { warehouse, catalog: "ice".into(), prefix: "by".into() };
    let root = scenario::find_root().expect("scenarios");
    let mut scenarios = scenario::load_all(&root, "*").expect("valid scenarios");
    if let Some(chosen) = chosen {
        scenarios.retain(|s| chosen.contains(&s.id.as_str()));
        assert_eq!(scenarios.len(), chosen.len());
    }
    let mut cells = Vec::new();
    for s in &scenarios {
        cells.extend(run_scenario(&session, &mut drivers, s, 0, &[0], &|_| {}).await);
    }
    let book = deviations::parse(deviations::FILE).expect("known deviations");
    let stale_deviations = deviations::apply(&book, &mut cells, &engines);
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
    field.round(&session, &scenarios, &|_| {}).await;
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
    field.round(&session, &scenarios, &|_| {}).await;
    // the one that joins later stands before it in reports; the third never started
    field.join(0, row("forgetful"), Some(Box::new(Forgetful(floe()))));
    field.join(2, EngineRow { skipped: "not here".into(), ..row("absent") }, None);
    assert_eq!(field.ahead(n), 5 * n as u64);
    field.round(&session, &scenarios, &|_| {}).await;
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
