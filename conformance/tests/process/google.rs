//! The drivers of services that need an account, against commands of no service: what is published is a whole table (the
//! auditor reads it), and what `bq` prints becomes typed rows.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use floe_conformance::drivers::{Driver, Launch, Process};
use floe_conformance::protocol::{Answer, TableRef};
use serde_json::json;

/// `gcloud storage cp`: the last argument is gs://bucket/PATH, which lies in CLOUD.
const GCLOUD: &str = r#"#!/bin/sh
echo "gcloud $*" >> CLOUD/calls
shift 3
for last; do :; done
to=CLOUD/${last#gs://}
mkdir -p "$to"
while [ $# -gt 1 ]; do cp -r "$1" "$to"; shift; done
"#;

const BQ: &str = r#"#!/bin/sh
echo "bq $*" >> CLOUD/calls
case "$*" in
version) echo "This is BigQuery CLI 2.1.9";;
*"SELECT * FROM"*) echo '[{"id":"1","ts":"2025-06-01 12:34:56.5","b":"AP8=","d":"1.50","f":"NaN"},{"id":"2","ts":null,"b":null,"d":null,"f":null}]';;
*"show --schema"*) echo '[{"name":"id","type":"INTEGER"},{"name":"ts","type":"TIMESTAMP"},{"name":"b","type":"BYTES"},{"name":"d","type":"NUMERIC","precision":"9","scale":"2"},{"name":"f","type":"FLOAT"}]';;
esac
"#;

fn script(dir: &Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(name);
    std::fs::write(&path, text.replace("CLOUD", &dir.display().to_string())).expect("script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

#[tokio::test]
async fn bigquery_reads_a_published_copy_whose_paths_are_all_moved() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let dir = tmp.path();
    script(dir, "gcloud", GCLOUD);
    script(dir, "bq", BQ);
    let location = dir.join("warehouse/ns/t");
    let made = Command::new(env!("CARGO_BIN_EXE_floe"))
        .args(["sql", "--catalog"])
        .arg(format!("hadoop:{}", dir.join("warehouse").display()))
        .arg("-c")
        .arg("CREATE NAMESPACE ns; CREATE TABLE ns.t (id INT, ts TIMESTAMP, b BINARY, d DECIMAL(9,2), f FLOAT) USING iceberg TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); INSERT INTO ns.t VALUES (1, NULL, NULL, NULL, NULL), (2, NULL, NULL, NULL, NULL), (3, NULL, NULL, NULL, NULL); DELETE FROM ns.t WHERE id = 3; DELETE FROM ns.t WHERE id = 2")
        .output()
        .expect("runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers");
    let env = |k: &str, v: String| (k.to_string(), v);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut engine = Process::start(Launch {
        name: "bigquery".into(),
        command: vec!["python3".into(), drivers.join("google_readers.py").display().to_string(), "bigquery".into()],
        env: vec![
            env("PATH", format!("{}:{path}", dir.display())),
            env("FLOE_GCS_WAREHOUSE", "gs://bucket/x".into()),
            env("GOOGLE_CLOUD_PROJECT", "p".into()),
            env("GOOGLE_APPLICATION_CREDENTIALS", "none".into()),
            env("PYTHONDONTWRITEBYTECODE", "1".into()),
        ],
        scratch: dir.join("scratch"),
        warehouse: dir.join("warehouse"),
        catalog: "ice".into(),
        rest: None,
        start_timeout: Duration::from_secs(180),
        step_timeout: Duration::from_secs(60),
    })
    .await
    .expect("starts");
    assert_eq!((engine.hello().engine.as_str(), engine.hello().version.as_str()), ("BigQuery", "2.1.9"));
    let metadata = location.join("metadata/v4.metadata.json");
    let table = TableRef {
        namespace: "ns".into(),
        name: "t".into(),
        location: location.display().to_string(),
        metadata: metadata.display().to_string(),
        snapshot: None,
    };
    let rows = match engine.scan(&table).await {
        Answer::Ok(rows) => rows,
        other => panic!("{other:?}"),
    };
    let columns: Vec<String> = rows.columns.iter().map(ToString::to_string).collect();
    assert_eq!(columns, ["id int", "ts timestamptz", "b binary", "d decimal(9,2)", "f float"]);
    let first = vec![json!(1), json!("2025-06-01T12:34:56.500000Z"), json!("00ff"), json!("1.50"), json!("7fc00000")];
    let nulls = vec![json!(2), json!(null), json!(null), json!(null), json!(null)];
    assert_eq!(rows.rows, Some(vec![first, nulls]));
    engine.stop().await;
    let calls = std::fs::read_to_string(dir.join("calls")).expect("calls");
    assert!(calls.contains("uris = ['gs://bucket/x/ns_t/metadata/v4.metadata.json']"), "{calls}");

    // the copy, read by those who know nothing of the original: no path of the old place is left, and every byte is in order
    let copy = dir.join("bucket/x/ns_t");
    let text = std::fs::read_to_string(copy.join("metadata/v4.metadata.json")).expect("published metadata");
    assert!(!text.contains(&location.display().to_string()) && text.contains("gs://bucket/x/ns_t"), "{text}");
    std::fs::remove_dir_all(&location).expect("remove");
    let here = dir.join("here");
    let moved = Command::new("python3")
        .arg("-c")
        .arg("import sys; sys.path.insert(0, sys.argv[1]); from published import publish; print(publish(sys.argv[2], 'gs://bucket/x/ns_t', sys.argv[3], sys.argv[3]))")
        .args([&drivers, &copy.join("metadata/v4.metadata.json"), &here])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("runs");
    assert!(!moved.status.success(), "a table whose files lie elsewhere is not taken for a local one");
}

#[test]
fn a_published_table_is_clean_to_the_auditor_and_keeps_its_rows() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let dir = tmp.path();
    let floe = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_floe")).args(args).output().expect("runs");
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
    };
    let (from, to) = (format!("hadoop:{}", dir.join("a").display()), format!("hadoop:{}", dir.join("b").display()));
    let sql = "CREATE NAMESPACE ns; CREATE TABLE ns.t (id INT) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); INSERT INTO ns.t VALUES (1), (2), (3), (4), (5); DELETE FROM ns.t WHERE id = 3; DELETE FROM ns.t WHERE id = 2";
    assert_eq!(floe(&["sql", "--catalog", &from, "-c", sql]).0, Some(0));
    let (old, new) = (dir.join("a/ns/t"), dir.join("b/ns/t"));
    let moved = Command::new("python3")
        .arg("-c")
        .arg("import sys; sys.path.insert(0, sys.argv[1]); from published import publish; print(publish(sys.argv[2] + '/metadata/v4.metadata.json', sys.argv[2], sys.argv[3], sys.argv[3]))")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers"))
        .args([&old, &new])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("runs");
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    std::fs::remove_dir_all(dir.join("a")).expect("remove");
    let (code, said) = floe(&["audit", &new.display().to_string()]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = floe(&["sql", "--catalog", &to, "--format", "json", "-c", "SELECT id FROM ns.t ORDER BY id"]);
    assert_eq!((code, said.lines().collect::<Vec<_>>()), (Some(0), vec![r#"{"id":1}"#, r#"{"id":4}"#, r#"{"id":5}"#]));
}
