//! The `floe` command as a user runs it: the README's tour, what bad input does, and what a killed process leaves behind.

#[path = "cli/advise.rs"]
mod advise;
#[path = "cli/io.rs"]
mod io;
#[path = "cli/messages.rs"]
mod messages;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const FLOE: &str = env!("CARGO_BIN_EXE_floe");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout").to_path_buf()
}

fn floe(dir: &Path, args: &[&str]) -> Output {
    Command::new(FLOE).current_dir(dir).args(args).stdin(Stdio::null()).output().expect("floe runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Rows as JSON lines of a statement that must succeed.
fn rows(dir: &Path, catalog: &str, sql: &str) -> Vec<serde_json::Value> {
    let out = floe(dir, &["sql", "--catalog", catalog, "--format", "json", "-c", sql]);
    assert!(out.status.success(), "{sql}: {}", text(&out.stderr));
    text(&out.stdout).lines().map(|l| serde_json::from_str(l).expect("a JSON object a line")).collect()
}

fn must(dir: &Path, catalog: &str, sql: &str) {
    let out = floe(dir, &["sql", "--catalog", catalog, "-c", sql]);
    assert!(out.status.success(), "{sql}: {}", text(&out.stderr));
}

/// Shell blocks of a Markdown page that call `cargo floe`, without those that run for minutes.
fn blocks(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for piece in page.split("```sh\n").skip(1) {
        let block = piece.split("```").next().unwrap_or_default();
        if block.contains("cargo floe") && !block.contains("cargo floe conformance") {
            found.push(block.replace("cargo floe", FLOE));
        }
    }
    found
}

/// What the blocks of a page print, run one after the other in one folder; there must be three at least.
fn shown_by(page: &str) -> String {
    let dir = tempfile::tempdir().expect("temporary folder");
    let blocks = blocks(page);
    assert!(blocks.len() >= 3, "the page lost its commands");
    let mut shown = String::new();
    for block in &blocks {
        let out = Command::new("bash").args(["-euc", block]).current_dir(dir.path()).output().expect("bash");
        assert!(out.status.success(), "{block}\n{}", text(&out.stderr));
        shown += &text(&out.stdout);
    }
    shown
}

#[test]
fn the_tour_of_the_readme_runs_as_it_is_printed() {
    let page = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let shown = shown_by(&page);
    for fact in ["99999", "added-dvs", ".puffin", "positions 1: 5000"] {
        assert!(shown.contains(fact), "the tour does not show {fact}:\n{shown}");
    }
}

/// Each bad input: exit 1, nothing on stdout, a message with these words, and no table made or changed.
#[test]
fn bad_input_is_named_and_writes_nothing() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(
        at,
        "hadoop:w",
        "CREATE NAMESPACE ns; CREATE TABLE ns.t (id INT, city STRING) USING iceberg; INSERT INTO ns.t VALUES (1, 'a'); CREATE TABLE ns.odd (id INT) USING iceberg TBLPROPERTIES ('write.delete.mode'='copy-on-write'); INSERT INTO ns.odd VALUES (1), (2)",
    );
    // as another engine may leave it: no statement of floe sets such a value
    let newest = at.join("w/ns/odd/metadata/v2.metadata.json");
    let metadata = std::fs::read_to_string(&newest).expect("metadata");
    std::fs::write(&newest, metadata.replace("copy-on-write", "never")).expect("written");
    let before = files(&at.join("w"));
    let sql: &[(&str, &[&str])] = &[
        ("SELEC 1", &["statement 1", "SELEC 1"]),
        ("SELECT 1 AS a; SELECT b FROM ns.t", &["statement 2", "b"]),
        ("SELECT * FROM ns.nothing", &["ns.nothing"]),
        ("DELETE FROM ns.t WHERE nope = 1", &["nope"]),
        ("UPDATE ns.t SET nope = 1", &["nope"]),
        ("INSERT INTO ns.t VALUES (1)", &["2", "1"]),
        ("INSERT INTO ns.t VALUES ('x', 'y')", &["id"]),
        ("ALTER TABLE ns.t SET TBLPROPERTIES ('format-version'='9')", &["format-version", "9"]),
        ("ALTER TABLE ns.t SET TBLPROPERTIES ('format-version'='1')", &["downgrade"]),
        ("ALTER TABLE ns.t DROP COLUMN nope", &["nope"]),
        ("ALTER TABLE ns.t ALTER COLUMN city TYPE INT", &["city"]),
        ("CREATE TABLE ns.t (id INT) USING iceberg", &["exists"]),
        ("CREATE TABLE ns.u (id WRONG) USING iceberg", &["WRONG"]),
        ("CREATE TABLE ns.u (id INT) USING iceberg PARTITIONED BY (bucket(0, id))", &["bucket"]),
        ("DELETE FROM ns.odd WHERE id = 1", &["write.delete.mode", "never"]),
        (
            "ALTER TABLE ns.t SET TBLPROPERTIES ('write.delete.mode'='never')",
            &["write.delete.mode", "never", "merge-on-read"],
        ),
        (
            "CREATE TABLE ns.u (id INT) TBLPROPERTIES ('write.format.default'='csv')",
            &["write.format.default", "csv", "avro"],
        ),
        ("SELECT * FROM ns.t VERSION AS OF 5", &["5"]),
        ("CALL system.expire_snapshots(tabel => 'ns.t')", &["tabel"]),
        ("SELECT * FROM ns.t.nothings", &["nothings"]),
    ];
    for (statement, words) in sql {
        let out = floe(at, &["sql", "--catalog", "hadoop:w", "-c", statement]);
        refused(&out, statement, words);
    }
    let commands: &[(&[&str], &[&str])] = &[
        (&["sql", "--catalog", "ftp:x", "-c", "SELECT 1"], &["ftp", "hadoop"]),
        (&["sql", "--catalog", "hadoop:w", "-f", "no-such-file.sql"], &["no-such-file.sql"]),
        (&["cdc", "sync", "--config", "no-such-file.yaml"], &["no-such-file.yaml"]),
        (&["io", "read", "--config", "no-such-file.yaml"], &["no-such-file.yaml"]),
    ];
    for (args, words) in commands {
        refused(&floe(at, args), &args.join(" "), words);
    }
    let unreadable = floe(at, &["dv", "check", "no-such-file.puffin"]);
    assert_eq!(unreadable.status.code(), Some(2), "as floe audit: 2 is unreadable");
    assert!(
        text(&unreadable.stderr).contains("no-such-file.puffin")
            || text(&unreadable.stdout).contains("no-such-file.puffin")
    );
    assert_eq!(files(&at.join("w")), before, "bad input wrote or removed a file");
}

fn refused(out: &Output, what: &str, words: &[&str]) {
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{what}: {err}");
    assert!(!err.contains("panicked"), "{what}: {err}");
    for w in words {
        assert!(err.to_lowercase().contains(&w.to_lowercase()), "{what}: the message does not say {w:?}: {err}");
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(d) = todo.pop() {
        for entry in std::fs::read_dir(&d).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                todo.push(entry.path());
            } else {
                found.push((entry.path(), entry.metadata().map_or(0, |m| m.len())));
            }
        }
    }
    found.sort();
    found
}

/// `floe sql` is killed (SIGKILL) at many moments of a script of statements; each time the table is the state before or after
/// one of them: readable, whole, clean to the auditor, and the next statement works (CONC-*).
#[test]
fn a_killed_floe_leaves_the_table_at_its_last_snapshot() {
    for catalog in ["hadoop:w", "sql:sqlite:catalog.db"] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let at = dir.path();
        let table = "CREATE NAMESPACE IF NOT EXISTS ns; CREATE TABLE ns.t (id BIGINT, v BIGINT) USING iceberg \
            TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')";
        must(at, catalog, table);
        // each round adds 1,000 rows of value 1, deletes 100 of them and moves 100 to value 2, again and again
        let round = "INSERT INTO ns.t SELECT id, 1 FROM range(0, 1000, 1, 2); DELETE FROM ns.t WHERE id >= 900; \
            UPDATE ns.t SET v = 2 WHERE id < 100 AND v = 1; ";
        let script = round.repeat(40);
        let moments = [0u64, 3, 7, 12, 18, 25, 60, 120, 200, 320];
        for wait in moments {
            let before = versions(at);
            let mut child = Command::new(FLOE)
                .current_dir(at)
                .args(["sql", "--catalog", catalog, "-q", "-c", &script])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("floe starts");
            // the moment counts from its first commit, however slow the machine is
            let start = Instant::now();
            while versions(at) == before && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(wait));
            child.kill().expect("a kill");
            child.wait().expect("its end");
            let counts = rows(
                at,
                catalog,
                "SELECT count(*) AS n, count(*) FILTER (WHERE v = 2) AS moved, count(*) FILTER (WHERE id >= 900) AS high FROM ns.t",
            );
            let number = |k: &str| counts[0][k].as_i64().expect("a count");
            let (n, moved, high) = (number("n"), number("moved"), number("high"));
            // whole statements only: high rows come by the thousand's hundred and go together
            assert!(high == 0 || high == 100, "half a statement: {counts:?}");
            assert_eq!((n - high) % 900, 0, "half a statement: {counts:?}");
            assert!(moved % 100 == 0 && moved <= (n - high) / 9, "half a statement: {counts:?}");
            // the next writer is not hindered, and brings the table to a known state
            must(at, catalog, "DELETE FROM ns.t WHERE id >= 900");
        }
        let snapshots = rows(at, catalog, "SELECT count(*) AS n FROM ns.t.snapshots");
        assert!(snapshots[0]["n"].as_i64().expect("a count") > 10, "no round was killed in the middle: {snapshots:?}");
        let out = floe(at, &["audit", table_folder(at).to_str().expect("a path")]);
        assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    }
}

fn versions(at: &Path) -> usize {
    files(at).iter().filter(|f| f.0.to_string_lossy().ends_with(".metadata.json")).count()
}

fn table_folder(at: &Path) -> PathBuf {
    let mut found = files(at).into_iter().map(|f| f.0);
    let metadata = found.rfind(|f| f.to_string_lossy().ends_with(".metadata.json"));
    metadata.and_then(|f| f.parent()?.parent().map(Path::to_path_buf)).expect("a table")
}

/// The one JSON form that scripts rely on: an object a row, no space, maps as objects, nothing for a statement without rows.
#[test]
fn json_rows_are_compact_objects() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sql = "CREATE NAMESPACE ns; CREATE TABLE ns.t (id INT) USING iceberg; INSERT INTO ns.t VALUES (1); \
        SELECT count(*) AS c FROM ns.t; SELECT summary FROM ns.t.snapshots";
    let out = floe(dir.path(), &["sql", "--format", "json", "-c", sql]);
    let shown = text(&out.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}{}", text(&out.stderr));
    assert_eq!(lines[0], r#"{"c":1}"#);
    let summary: serde_json::Value = serde_json::from_str(lines[1]).expect("JSON");
    assert_eq!(summary["summary"]["added-records"], "1");
}
