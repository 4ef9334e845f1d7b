//! Every scenario by floe alone, in process: the verdicts are a reviewed snapshot in `reports/`.

use floe_conformance::drivers::{Driver, Floe};
use floe_conformance::matrix::result::{EngineRow, Results};
use floe_conformance::matrix::{Session, deviations, run_scenario};
use floe_conformance::report::{terminal, verdicts};
use floe_conformance::scenario;

#[tokio::test(flavor = "multi_thread")]
async fn floe_by_itself() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let floe = Floe::new(&warehouse, "ice").expect("a catalog of a folder");
    let engines = vec![EngineRow {
        name: "floe".into(),
        version: floe.hello().version.clone(),
        ..EngineRow::default()
    }];
    let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(floe)];
    let session = Session {
        warehouse,
        catalog: "ice".into(),
        prefix: "by".into(),
    };
    let root = scenario::find_root().expect("scenarios");
    let scenarios = scenario::load_all(&root, "*").expect("valid scenarios");
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
    };
    assert!(results.green(), "{}", terminal::text(&results));
    insta::with_settings!({ snapshot_path => "../../reports", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("floe-by-itself", verdicts::text(&results));
    });
}
