//! A run with a cell of every kind: two scenarios by floe for real, one and a second engine made up.

use std::path::Path;

use floe_conformance::drivers::{Driver, Floe};
use floe_conformance::matrix::result::{CatalogResult, Cell, Check, EngineRow, Outcome, Results};
use floe_conformance::matrix::{Seat, Session, run_scenario};
use floe_conformance::scenario;

/// The scenarios of the sample, in order.
pub const SCENARIOS: [&str; 3] = ["dv/repeated-deletes", "row-level/merge-duplicate-source", "types/floats"];

/// Where the made-up engine fails, expected and got being known.
pub const FAILED: &str = "dv/repeated-deletes";

/// The run, made once for all tests.
pub async fn run() -> Results {
    static ONCE: tokio::sync::OnceCell<Results> = tokio::sync::OnceCell::const_new();
    let made = ONCE.get_or_init(|| async {
        let tmp = tempfile::tempdir().expect("temporary folder");
        make(tmp.path()).await
    });
    made.await.clone()
}

/// The engine `other` fails one cell, is refused another, and `absent` took no part.
async fn make(folder: &Path) -> Results {
    let warehouse = folder.join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let floe = Floe::new(&warehouse, "ice").expect("a catalog of a folder");
    let hello = floe.hello().clone();
    let row = |name: &str, title: &str| EngineRow {
        name: name.into(),
        title: title.into(),
        version: "1.2.3".into(),
        roles: hello.roles.clone(),
        capabilities: hello.capabilities.clone(),
        command: format!("cargo floe conformance --engines floe,{name}"),
        ..EngineRow::default()
    };
    let seat = Seat::new(Box::new(floe));
    let session = Session { warehouse, catalog: "ice".into(), prefix: "by".into() };
    let root = scenario::find_root().expect("scenarios");
    let mut scenarios = scenario::load_all(&root, "*").expect("valid scenarios");
    scenarios.retain(|s| SCENARIOS.contains(&s.id.as_str()));
    let mut cells = Vec::new();
    // the one with NaN and infinities is here for its values
    for reader in ["metadata", "audit", "floe"] {
        cells.push(Cell::of("types/floats", "floe", reader, vec![Check::pass(2, "rows")], 1));
    }
    for s in scenarios.iter().filter(|s| s.id != "types/floats") {
        cells.extend(run_scenario(&session, &[&seat], s, 0, &[0]).await);
    }
    assert!(cells.iter().all(|c| c.outcome == Outcome::Pass), "{cells:?}");
    cells.sort_by_key(|c| SCENARIOS.iter().position(|s| *s == c.scenario));
    for c in &mut cells {
        c.ms = 7;
    }
    let mut others: Vec<Cell> = cells.iter().filter(|c| c.reader == "floe").cloned().collect();
    for c in &mut others {
        c.reader = "other".into();
        match c.scenario.as_str() {
            FAILED => {
                let mut k = Check::new(3, "rows", Outcome::Fail, "1 row too many, e.g. (5, \"<b>5</b>\")");
                k.expected = "id int, city string\n(4, \"4\")\n(6, \"6\")".into();
                k.got = "id int, city string\n(4, \"4\")\n(5, \"<b>5</b>\")\n(6, \"6\")".into();
                *c = Cell::of(&c.scenario, "floe", "other", vec![Check::pass(2, "rows"), k], 1500);
            }
            "types/floats" => {
                let k = Check::new(2, "rows", Outcome::Refused, "no doubles");
                *c = Cell::of(&c.scenario, "floe", "other", vec![k], 1);
                c.accepted = true;
                c.known = "it has none (other/other#1)".into();
            }
            _ => {
                let k = Check::new(1, "rows", Outcome::Skipped, "the reader declares no merge");
                *c = Cell::of(&c.scenario, "floe", "other", vec![k], 1);
            }
        }
    }
    cells.extend(others);
    let mut absent = row("absent", "Absent 9");
    absent.skipped = "java is not on the path".into();
    Results {
        schema: 1,
        floe: "0.1.0".into(),
        started: 1_764_500_000,
        seconds: 2.5,
        launcher: "native".into(),
        engines: vec![row("floe", "floe 0.1.0"), row("other", "Other 1.2.3"), absent],
        scenarios,
        cells,
        stale_deviations: vec![],
        catalogs: catalogs(),
        figures: vec!["mutations: 9 of 9 killed (2025-01-31)".into()],
    }
}

/// A catalog that passed, one that failed, one that was skipped.
fn catalogs() -> Vec<CatalogResult> {
    let row = |name: &str, outcome, reason: &str, checks| CatalogResult {
        name: name.into(),
        title: format!("Catalog {name}"),
        outcome,
        reason: reason.into(),
        command: format!("cargo floe conformance --engines floe --catalogs {name}"),
        checks,
        seconds: 0.5,
    };
    let mut wrong = Check::new(2, "SELECT count(*) FROM mytable_v3", Outcome::Fail, "another answer");
    (wrong.expected, wrong.got) = ("99999".into(), "<b>7</b>".into());
    let why = "step 2, SELECT count(*) FROM mytable_v3: another answer";
    vec![
        row("fine", Outcome::Pass, "", vec![Check::pass(1, "reach"), Check::pass(2, "list namespaces")]),
        row("broken", Outcome::Fail, why, vec![Check::pass(1, "reach"), wrong]),
        row("elsewhere", Outcome::Skipped, "needs an account & its keys", vec![]),
    ]
}
