//! `floe cdc` as a process: the document's commands, Ctrl-C, kill at any moment, two at once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const FLOE: &str = env!("CARGO_BIN_EXE_floe");

fn floe(dir: &Path, args: &[&str]) -> Command {
    let mut c = Command::new(FLOE);
    c.current_dir(dir).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

fn done(dir: &Path, args: &[&str]) -> String {
    let out = floe(dir, args).output().expect("floe runs");
    ok(&out);
    String::from_utf8(out.stdout).expect("text")
}

fn ok(out: &Output) {
    assert!(out.status.success(), "{}\n{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}

fn sql(dir: &Path, text: &str) -> Vec<Value> {
    let out = done(dir, &["sql", "--format", "json", "-c", text]);
    let mut rows: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).expect("a row")).collect();
    rows.sort_by_key(ToString::to_string);
    rows
}

/// A source with `n` snapshots, each of which changes some rows.
fn history(dir: &Path, n: usize) {
    let mut text =
        "CREATE NAMESPACE ns; CREATE TABLE ns.src (id INT, n INT) USING iceberg TBLPROPERTIES('format-version'='3', \
                    'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read');\n"
            .to_string();
    for i in 0..n {
        text += &match i % 3 {
            0 => format!(
                "INSERT INTO ns.src SELECT CAST(id AS INT), {i} FROM range({}, {}, 1, 1);\n",
                i * 10,
                i * 10 + 30
            ),
            1 => format!("UPDATE ns.src SET n = {i} WHERE id % 5 = {};\n", i % 5),
            _ => format!("DELETE FROM ns.src WHERE id % 11 = {};\n", i % 11),
        };
    }
    std::fs::write(dir.join("history.sql"), text).expect("file");
    done(dir, &["sql", "-f", "history.sql"]);
}

fn config(dir: &Path, source: &str, sync: &str) {
    // every row once: the key is the whole row, as ids repeat
    let text = format!(
        "source: {{table: ns.src, catalog_properties: {{type: hadoop, warehouse: ./warehouse}}{source}}}\n\
         target: {{table: copy.dst, catalog_properties: {{type: hadoop, warehouse: ./warehouse}}, mode: merge-on-read, \
         equality_columns: [id, n]}}\nsync: {{{sync}}}\n"
    );
    std::fs::write(dir.join("sync.yaml"), text).expect("file");
}

fn snapshots(dir: &Path) -> Vec<i64> {
    let rows = sql(dir, "SELECT snapshot_id, committed_at FROM ns.src.snapshots");
    rows.iter().map(|r| r["snapshot_id"].as_i64().expect("id")).collect()
}

/// The target's rows are those of one source snapshot (none, when it is not there yet); gives the snapshot.
fn is_a_prefix(dir: &Path) -> Option<i64> {
    if !dir.join("warehouse/copy/dst/metadata/version-hint.text").exists() {
        return None;
    }
    let rows = sql(dir, "SELECT * FROM copy.dst");
    if rows.is_empty() {
        return None;
    }
    let found =
        snapshots(dir).into_iter().find(|id| sql(dir, &format!("SELECT * FROM ns.src VERSION AS OF {id}")) == rows);
    assert!(found.is_some(), "the target is no snapshot of the source");
    found
}

fn same(dir: &Path) {
    assert_eq!(sql(dir, "SELECT * FROM copy.dst"), sql(dir, "SELECT * FROM ns.src"));
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Waits for a line on stderr that holds `word`; the rest of stderr is read on in the background.
fn wait_for(child: &mut Child, word: &str) -> String {
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut all = String::new();
    for line in lines.by_ref() {
        let line = line.expect("text");
        if line.contains(word) {
            std::thread::spawn(move || lines.for_each(drop));
            return line;
        }
        all += &line;
    }
    panic!("it ended without {word:?}: {all}");
}

fn end(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().expect("status").is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().expect("kill");
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("output")
}

/// Fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    text.split(&format!("```{language}\n"))
        .skip(1)
        .map(|b| b[..b.find("```").expect("the block ends")].to_string())
        .collect()
}

#[test]
fn the_commands_of_the_document_run_as_written() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cdc.md")).expect("docs/cdc.md");
    let tmp = tempfile::tempdir().expect("folder");
    std::fs::write(tmp.path().join("source.sql"), &blocks(&text, "sql")[0]).expect("file");
    std::fs::write(tmp.path().join("pipeline.yaml"), &blocks(&text, "yaml")[0]).expect("file");
    let path =
        format!("{}:{}", Path::new(FLOE).parent().expect("folder").display(), std::env::var("PATH").expect("PATH"));
    let mut printed = Vec::new();
    for command in blocks(&text, "sh")[0].lines() {
        let out = Command::new("sh")
            .args(["-c", command])
            .current_dir(tmp.path())
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .expect("sh runs");
        ok(&out);
        printed.push(String::from_utf8(out.stdout).expect("text"));
    }
    let [made, read, sync, select] = printed.as_slice() else { panic!("four commands, found {}", printed.len()) };
    assert_eq!(made, "");
    let json = blocks(&text, "json");
    assert_eq!(*read, json[0]);
    let report: Value = serde_json::from_str(sync).expect("a report");
    assert_eq!((&report["snapshots"], &report["commits"]), (&json!(3), &json!(3)));
    assert_eq!(*select, json[1]);
    // once more changes nothing
    let again = done(tmp.path(), &["cdc", "sync", "--config", "pipeline.yaml"]);
    assert_eq!(serde_json::from_str::<Value>(&again).expect("a report")["commits"], json!(0));
}

#[test]
fn ctrl_c_ends_a_waiting_stream() {
    let tmp = tempfile::tempdir().expect("folder");
    let dir = tmp.path();
    history(dir, 4);
    config(dir, ", streaming: true, poll_interval_seconds: 600, starting_strategy: earliest", "");
    let mut child = floe(dir, &["cdc", "sync", "--config", "sync.yaml"]).spawn().expect("starts");
    let line = wait_for(&mut child, "waiting");
    assert!(line.contains("behind: 0 snapshots, 0 s"), "{line}");
    interrupt(&child);
    let out = end(child);
    assert!(out.status.success(), "{:?}", out.status);
    let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report["snapshots"], json!(4));
    same(dir);
}

#[test]
fn ctrl_c_ends_a_busy_stream_after_the_snapshot_it_is_at() {
    let tmp = tempfile::tempdir().expect("folder");
    let dir = tmp.path();
    history(dir, 24);
    config(dir, ", streaming: true, poll_interval_seconds: 1, starting_strategy: earliest", "");
    let mut child = floe(dir, &["cdc", "sync", "--config", "sync.yaml"]).spawn().expect("starts");
    let first = wait_for(&mut child, "source snapshot");
    assert!(first.contains("behind: 23 snapshots"), "{first}");
    interrupt(&child);
    let out = end(child);
    assert!(out.status.success());
    let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(is_a_prefix(dir), report["position"].as_i64());
    assert!(report["snapshots"].as_u64().expect("a number") < 24, "it went on to the end: {report}");
    config(dir, "", "");
    done(dir, &["cdc", "sync", "--config", "sync.yaml"]);
    same(dir);
}

#[test]
fn a_stream_of_changes_remembers_where_it_was() {
    let tmp = tempfile::tempdir().expect("folder");
    let dir = tmp.path();
    history(dir, 6);
    let stream = ", streaming: true, poll_interval_seconds: 1, starting_strategy: earliest";
    config(dir, "", "");
    let all = done(dir, &["cdc", "read", "--config", "sync.yaml"]);
    config(dir, stream, "stop_after_snapshots: 2");
    let args = ["cdc", "read", "--config", "sync.yaml", "--state", "state"];
    let mut parts = vec![done(dir, &args), done(dir, &args)];
    config(dir, stream, "");
    let mut child = floe(dir, &args).spawn().expect("starts");
    wait_for(&mut child, "waiting; behind: 0 snapshots");
    interrupt(&child);
    let out = end(child);
    assert!(out.status.success());
    parts.push(String::from_utf8(out.stdout).expect("text"));
    assert!(parts.iter().all(|p| !p.is_empty()));
    assert_eq!(parts.concat(), all);
    std::fs::write(dir.join("state"), "soon").expect("file");
    let out = floe(dir, &args).output().expect("runs");
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("a snapshot id is required"));
}

#[test]
fn killed_at_random_moments_it_loses_and_doubles_nothing() {
    let tmp = tempfile::tempdir().expect("folder");
    let dir = tmp.path();
    history(dir, 18);
    config(dir, "", "");
    let start = Instant::now();
    done(dir, &["cdc", "sync", "--config", "sync.yaml"]);
    let whole = start.elapsed();
    std::fs::remove_dir_all(dir.join("warehouse/copy")).expect("removed");
    // moments spread over the run, by the golden ratio
    let mut killed = 0;
    for i in 1..=14u32 {
        let part = f64::from(i) * 0.618_033_988_749_895 % 1.0;
        let mut child = floe(dir, &["cdc", "sync", "--config", "sync.yaml", "-q"]).spawn().expect("starts");
        std::thread::sleep(whole.mul_f64(part * 0.5));
        if child.try_wait().expect("status").is_none() {
            killed += 1;
        }
        // SIGKILL
        child.kill().expect("kill");
        child.wait().expect("ended");
        is_a_prefix(dir);
    }
    assert!(killed >= 3, "only {killed} runs were still at work");
    done(dir, &["cdc", "sync", "--config", "sync.yaml"]);
    same(dir);
    let kept = sql(
        dir,
        "SELECT count(*) AS n FROM copy.dst.snapshots WHERE summary['floe.cdc.source-snapshot-id'] IS NOT NULL",
    );
    assert_eq!(kept, [json!({"n": 18})], "each source snapshot went in once");
}

#[test]
fn two_processes_with_one_target_are_both_right() {
    let tmp = tempfile::tempdir().expect("folder");
    let dir = tmp.path();
    history(dir, 9);
    config(dir, "", "");
    let spawn = || floe(dir, &["cdc", "sync", "--config", "sync.yaml"]).spawn().expect("starts");
    let (a, b) = (spawn(), spawn());
    let mut commits = 0;
    for child in [a, b] {
        let out = end(child);
        ok(&out);
        let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
        commits += report["commits"].as_u64().expect("a number");
    }
    assert_eq!(commits, 9, "every snapshot went in once");
    same(dir);
}
