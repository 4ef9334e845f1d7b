//! A scenario of each kind by floe alone, in process: the reports made of them are reviewed snapshots in `reports/`. The whole
//! matrix is `floe conformance`'s, reviewed in `reports/matrix.txt`.

use floe_conformance::drivers::{Driver, Floe};
use floe_conformance::matrix::result::{EngineRow, Results};
use floe_conformance::matrix::{Session, deviations, run_scenario};
use floe_conformance::report::{markdown, terminal, verdicts};
use floe_conformance::scenario;

/// Rows by model, facts, questions, damage, a refusal and two writers.
const CHOSEN: &[&str] = &[
    "concurrency/deletes-in-turn",
    "dv/repeated-deletes",
    "lineage/kept-by-copy-on-write",
    "negative/dv-crc",
    "row-level/merge-duplicate-source",
    "upgrade/v2-deletes-fold-into-dv",
];

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
    let results = Results {
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
    };
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
