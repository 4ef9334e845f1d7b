//! The container launcher for real: the same verdicts as native, the REST catalog in a container of its own, nothing left
//! behind. Where no Docker daemon answers these tests say so and end; `FLOE_REQUIRE=docker` makes that a failure.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_conformance::drivers::{Driver, Place, Process};
use floe_conformance::engines::{self, Engine, Home};
use floe_conformance::launch::{self, Rest};
use floe_conformance::matrix::result::Cell;
use floe_conformance::matrix::{Seat, Session, run_scenario};
use floe_conformance::protocol::{Answer, TableRef};
use floe_conformance::report;
use floe_conformance::scenario;
use floe_engine::catalog::open_catalog;
use floe_engine::sql;
use serde_json::json;

/// One engine at a time: each takes a gigabyte and both cores.
static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Rows, facts, damage and an upgrade.
const CHOSEN: [&str; 4] =
    ["dv/repeated-deletes", "negative/dv-crc", "row-level/merge-all-clauses", "upgrade/v2-deletes-fold-into-dv"];

fn required() -> bool {
    std::env::var("FLOE_REQUIRE").unwrap_or_default().split(',').any(|r| r == "docker")
}

/// Prints why a test ends here.
fn skip(why: &str) {
    assert!(!required(), "{why}, and FLOE_REQUIRE asks for containers");
    eprintln!("skipped: {why}");
}

/// An engine's entry, its installation and its image, or nothing with the reason printed.
async fn installed(name: &str) -> Option<(Engine, std::path::PathBuf, String)> {
    let found = async {
        launch::daemon().await?;
        let engine = engines::find(name)?;
        let image = launch::image_of(&engine.name, &engine.image)?;
        let (copy, home) = (engine.clone(), Home::find()?);
        let done = tokio::task::spawn_blocking(move || engines::install(&copy, &home, &|_| {})).await;
        let dir = done.map_err(|e| e.to_string())??.dir;
        Ok::<_, String>((engine, dir, image))
    };
    found.await.map_err(|why| skip(&why)).ok()
}

/// Starts an engine over `folder/warehouse`; a container that cannot be had is a reason to skip.
async fn start(folder: &Path, engine: &Engine, dir: &Path, place: Place, rest: Option<String>) -> Option<Process> {
    let warehouse = folder.join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let mut what = engine.launch(dir, &folder.join(&engine.name), &warehouse, "ice", "").expect("a launch");
    what.rest = rest;
    Process::start_at(what, place).await.map_err(|why| skip(&why)).ok()
}

/// What is compared: everything but texts, which hold paths and ids.
fn verdicts(cells: &[Cell]) -> Vec<String> {
    let line = |c: &Cell| {
        let checks: Vec<String> =
            c.checks.iter().map(|k| format!("{} {} {}", k.step, k.what, k.outcome.word())).collect();
        format!("{} {} {}: {}; {}", c.scenario, c.writer, c.reader, c.outcome.word(), checks.join(", "))
    };
    cells.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spark_in_a_container_gives_the_verdicts_of_spark_as_a_process() {
    let _one = ONE.lock().await;
    let Some((engine, dir, image)) = installed("spark35").await else { return };
    let root = scenario::find_root().expect("scenarios");
    let mut scenarios = scenario::load_all(&root, "*").expect("valid scenarios");
    scenarios.retain(|s| CHOSEN.contains(&s.id.as_str()));
    assert_eq!(scenarios.len(), CHOSEN.len());
    let mut seen = Vec::new();
    for place in [Place::Container(image), Place::Native] {
        let tmp = tempfile::tempdir().expect("temporary folder");
        let Some(p) = start(tmp.path(), &engine, &dir, place, None).await else { return };
        assert_eq!(p.hello().engine, "Apache Spark");
        let seat = Seat::new(Box::new(p));
        let session = Session { warehouse: tmp.path().join("warehouse"), catalog: "ice".into(), prefix: "by".into() };
        let mut cells = Vec::new();
        for s in &scenarios {
            cells.extend(run_scenario(&session, &[&seat], s, 0, &[0]).await);
        }
        seat.stop().await;
        assert!(!seat.alive().await);
        seen.push(verdicts(&cells));
    }
    assert_eq!(seen[0].len(), 3 * CHOSEN.len());
    assert!(seen[0].iter().any(|l| l.contains("dv/repeated-deletes spark35 spark35: pass")), "{:#?}", seen[0]);
    assert_eq!(seen[0], seen[1]);
    gone(std::process::id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spark_and_floe_share_a_table_through_a_rest_catalog_in_a_container() {
    share_a_table("spark35").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trino_and_floe_share_a_table_through_a_rest_catalog_in_a_container() {
    share_a_table("trino").await;
}

/// The engine, the REST catalog (a container each) and floe (outside) see each other's deletion vectors.
async fn share_a_table(engine: &str) {
    let _one = ONE.lock().await;
    let Some((entry, dir, image)) = installed(engine).await else { return };
    let tmp = tempfile::tempdir().expect("temporary folder");
    let warehouse = tmp.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("folder");
    let mut rest = match Rest::start(&warehouse, &tmp.path().join("rest")).await {
        Ok(rest) => rest,
        Err(why) => return skip(&why),
    };
    let place = Place::Container(image);
    let Some(mut p) = start(tmp.path(), &entry, &dir, place, Some(rest.uri.clone())).await else { return };
    let (namespace, name) = ("ns".to_string(), "t".to_string());
    let t = TableRef { namespace, name, location: String::new(), metadata: String::new(), snapshot: None };
    for sql in [
        "CREATE NAMESPACE ns",
        "CREATE TABLE ns.t (id INT, city STRING) USING iceberg \
         TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')",
        "INSERT INTO ns.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "DELETE FROM ns.t WHERE id = 2",
    ] {
        assert_eq!(p.apply(sql, &t).await, Answer::Ok(()), "{sql}");
    }
    // floe, outside, by the same address: the vector is there, and its own goes on top of it
    let catalog = open_catalog(&format!("rest:{}", rest.uri), "ice", Default::default()).await.expect("catalog");
    let mut session = sql::Session::new(Arc::clone(&catalog), "ice");
    session.execute_one("DELETE FROM ns.t WHERE id = 3").await.expect("floe deletes");
    let Answer::Ok(rows) = p.scan(&t).await else { panic!("{engine} reads") };
    assert_eq!(rows.rows, Some(vec![vec![json!(1), json!("a")]]), "{engine} sees both deletes");
    let found = session.execute_one("SELECT id FROM ns.t").await.expect("floe reads");
    assert_eq!(found.batches.iter().map(|b| b.num_rows()).sum::<usize>(), 1);
    p.stop().await;
    rest.stop();
    gone(std::process::id()).await;
}

/// Waits until no container of a process is left.
async fn gone(pid: u32) {
    let start = Instant::now();
    loop {
        let left = launch::of_process(|p| p == pid).await;
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "left behind: {left:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn floe(out: &Path, more: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_floe"));
    c.args(["conformance", "--launcher", "container", "--scenario", "dv/repeated-deletes", "--out"]).arg(out);
    c.args(more).current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_no_container_and_a_killed_run_s_are_swept_up() {
    let _one = ONE.lock().await;
    if installed("spark35").await.is_none() {
        return;
    }
    for signal in ["INT", "KILL"] {
        let tmp = tempfile::tempdir().expect("temporary folder");
        let mut run = floe(tmp.path(), &["--engines", "spark35"]).spawn().expect("starts");
        let pid = run.id();
        let start = Instant::now();
        while launch::of_process(|p| p == pid).await.is_empty() {
            if let Some(status) = run.try_wait().expect("status") {
                let out = run.wait_with_output().expect("output");
                let said = String::from_utf8_lossy(&out.stdout).into_owned();
                return skip(&format!("the run ended with {status} before its container was there: {said}"));
            }
            assert!(start.elapsed() < Duration::from_secs(240), "no container appeared");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().expect("kill");
        assert!(sent.success());
        let ended = run.wait().expect("ends");
        if signal == "INT" {
            assert_eq!(ended.code(), Some(130));
        } else {
            launch::sweep().await;
        }
        gone(pid).await;
    }
}

#[test]
fn without_a_daemon_engines_are_skipped_with_the_reason() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let run =
        floe(tmp.path(), &["--engines", "floe,duckdb"]).env("DOCKER_HOST", "unix:///nowhere/docker.sock").output();
    let run = run.expect("runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "a skip is no failure: {said}");
    assert!(said.contains("duckdb: no Docker daemon answers"), "{said}");
    let results = report::read(tmp.path()).expect("results");
    assert_eq!(results.launcher, "container");
    assert!(results.engines[1].skipped.starts_with("no Docker daemon answers"), "{}", results.engines[1].skipped);
    assert!(results.engines[0].skipped.is_empty(), "floe itself needs none");
}
