//! Real processes: the driver against a driver of no engine (answers, faults, time-outs, and that nothing is left running),
//! and `floe cdc`.

mod cdc;

#[path = "process/custom.rs"]
mod custom;
#[path = "process/google.rs"]
mod google;
#[path = "process/install.rs"]
mod install;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use floe_conformance::drivers::{Driver, Floe, Launch, Process};
use floe_conformance::matrix::result::{Cell, Outcome};
use floe_conformance::matrix::{Seat, Session, run_scenario};
use floe_conformance::protocol::{Answer, TableRef};
use floe_conformance::scenario;
use serde_json::json;

fn launch(scratch: &Path) -> Launch {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Launch {
        name: "fake".into(),
        command: vec!["python3".into(), here.join("tests/fixtures/fake_driver.py").display().to_string()],
        env: vec![
            ("PYTHONPATH".into(), here.join("drivers").display().to_string()),
            ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
        ],
        scratch: scratch.to_path_buf(),
        warehouse: scratch.join("warehouse"),
        catalog: "ice".into(),
        rest: None,
        start_timeout: Duration::from_secs(180),
        step_timeout: Duration::from_secs(60),
    }
}

fn table() -> TableRef {
    TableRef {
        namespace: "ns".into(),
        name: "t".into(),
        location: "/t".into(),
        metadata: "/t/v1.metadata.json".into(),
        snapshot: None,
    }
}

#[tokio::test]
async fn outcomes_are_kept_apart_and_values_keep_their_types() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let mut p = Process::start(launch(tmp.path())).await.expect("starts");
    assert_eq!(p.hello().engine, "fake");
    assert_eq!(p.apply("ok", &table()).await, Answer::Ok(()));
    assert_eq!(p.apply("refuse", &table()).await, Answer::Refused("no such thing".into()));
    assert_eq!(p.apply("skip", &table()).await, Answer::Skipped("cannot ask".into()));
    assert_eq!(p.apply("fail", &table()).await, Answer::Error("ValueError: broken".into()));
    let Answer::Ok(rows) = p.scan(&table()).await else { panic!("scan") };
    let found = rows.rows.expect("few rows");
    let first = vec![
        json!(1),
        json!("hé"),
        json!("3fc00000"),
        json!("1.50"),
        json!([["a", null], ["b", 1]]),
        json!([1, [1, null]]),
    ];
    assert_eq!(found, [first, vec![json!(null); 6]]);
    assert_eq!(rows.columns[3].to_string(), "d decimal(9,2)");
    let Answer::Ok(many) = p.query("1001", &table()).await else { panic!("query") };
    assert_eq!((many.count, many.rows), (1001, None), "beyond the limit rows stay behind");
    p.stop().await;
    assert!(!p.alive());
}

#[tokio::test]
async fn an_engine_that_dies_gives_its_last_words_from_then_on() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let mut p = Process::start(launch(tmp.path())).await.expect("starts");
    let Answer::Error(why) = p.apply("die", &table()).await else { panic!("must be an error") };
    assert!(why.contains("ended") && why.contains("last words"), "{why}");
    assert!(!p.alive());
    assert_eq!(p.scan(&table()).await, Answer::Error(why));
    p.revive().await;
    assert_eq!(p.apply("ok", &table()).await, Answer::Ok(()), "the next scenario gets a fresh engine");
}

#[tokio::test]
async fn an_engine_that_hangs_is_ended_in_time_with_its_whole_group() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let mut spec = launch(tmp.path());
    spec.step_timeout = Duration::from_secs(2);
    let mut p = Process::start(spec).await.expect("starts");
    let start = Instant::now();
    let Answer::Error(why) = p.apply("hang", &table()).await else { panic!("must be an error") };
    assert!(why.contains("no answer within 2 s") && why.contains("about to hang"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(!p.alive());
}

#[tokio::test]
async fn what_cannot_start_is_a_reason() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let mut spec = launch(tmp.path());
    spec.command = vec!["floe-no-such-program".into()];
    let why = Process::start(spec).await.err().expect("cannot start");
    assert!(why.contains("cannot start floe-no-such-program"), "{why}");
    let mut spec = launch(tmp.path());
    spec.command = vec!["sh".into(), "-c".into(), "echo not json; sleep 60".into()];
    let why = Process::start(spec).await.err().expect("speaks no protocol");
    assert!(why.contains("broke the protocol"), "{why}");
}

/// The smoke scenario and its neighbour, by floe, read by floe and by an engine that falls at the smoke scenario's scans.
async fn with_a_reader_that(falls: &str, limit: Duration) -> Vec<Cell> {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let mut spec = launch(&tmp.path().join("fake"));
    spec.step_timeout = limit;
    spec.env.push(("FAKE_SCAN".into(), falls.into()));
    let floe = Floe::new(&warehouse, "ice").expect("a catalog of a folder");
    let fake = Process::start(spec).await.expect("starts");
    let seats = [Seat::new(Box::new(floe)), Seat::new(Box::new(fake))];
    let seats: Vec<&Seat> = seats.iter().collect();
    let session = Session { warehouse, catalog: "ice".into(), prefix: "by".into() };
    let root = scenario::find_root().expect("scenarios");
    let mut cells = Vec::new();
    for id in ["dv/smoke", "row-level/delete-nothing"] {
        for s in scenario::load_all(&root, id).expect("valid scenarios") {
            cells.extend(run_scenario(&session, &seats, &s, 0, &[0, 1]).await);
        }
    }
    cells
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_or_hangs_errs_in_its_own_cells_and_the_rest_goes_on() {
    for (falls, limit, says) in [
        ("die", 60, ["engine ended", "last words of a scan"]),
        ("hang", 8, ["no answer within 8 s", "a scan is about to hang"]),
    ] {
        let cells = with_a_reader_that(falls, Duration::from_secs(limit)).await;
        let cell = |s: &str, r: &str| {
            let found = cells.iter().find(|c| c.scenario == s && c.reader == r);
            found.unwrap_or_else(|| panic!("{falls}: no cell of {r} in {s}"))
        };
        for s in ["dv/smoke", "row-level/delete-nothing"] {
            assert_eq!(cell(s, "floe").outcome, Outcome::Pass, "{falls}: {}", cell(s, "floe").reason);
        }
        let fallen = cell("dv/smoke", "fake");
        assert_eq!(fallen.outcome, Outcome::Errored, "{falls}");
        assert!(says.iter().all(|w| fallen.reason.contains(w)), "{}", fallen.reason);
        let next = cell("row-level/delete-nothing", "fake");
        assert_eq!(next.outcome, Outcome::Fail, "a fresh engine answers, with its own rows: {}", next.reason);
    }
}

#[test]
fn sparks_text_becomes_trinos() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let out = std::process::Command::new("python3")
        .arg(here.join("tests/fixtures/trino_text_cases.py"))
        .env("PYTHONPATH", here.join("drivers"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
