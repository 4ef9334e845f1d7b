//! Catalogs shared with others: PyIceberg and Spark on the JDBC catalog (SQLite and PostgreSQL), PyIceberg, DuckDB and Spark
//! on `floe serve`. Each reads the other's deletes.

use std::path::{Path, PathBuf};
use std::process::Command;

use floe_conformance::engines::{Home, find, installed as engine};
use floe_conformance::serve::Server;
use floe_engine::catalog::open_catalog;
use floe_engine::sql::Session;

use super::lake::{Props, props};
use super::servers::{copy, has, installed, must};

pub const WALK: &str = "CREATE NAMESPACE walk; USE walk; \
    CREATE TABLE t (id INT, s STRING) USING iceberg TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); \
    INSERT INTO t SELECT CAST(id AS INT), CAST(id AS STRING) FROM range(20000); DELETE FROM t WHERE id = 5000";

pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor").join(name)
}

/// A Python with PyIceberg and DuckDB; `None`, with the reason printed, where there is no Python.
fn python() -> Option<PathBuf> {
    if !has("python3") {
        eprintln!("skipped: no PyIceberg and DuckDB here (install python3 with venv)");
        return None;
    }
    let home = installed("python-pyiceberg-0.12.0-duckdb-1.5.5", |dir| {
        must(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv")));
        must(Command::new(dir.join("venv/bin/pip")).args([
            "install",
            "--quiet",
            "pyiceberg[pyarrow,sql-sqlite,sql-postgres]==0.12.0",
            "duckdb==1.5.5",
            "duckdb-extension-iceberg==1.5.5",
            "duckdb-extension-avro==1.5.5",
            "duckdb-extension-httpfs==1.5.5",
        ]));
    });
    Some(home.join("venv/bin/python"))
}

pub async fn session(spec: &str, props: &Props) -> Session {
    Session::new(open_catalog(spec, "lake", props.clone()).await.unwrap(), "lake")
}

pub async fn count(session: &mut Session, sql: &str) -> usize {
    session.execute_one(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).num_rows()
}

/// floe and PyIceberg in turns; `between` may change `walk.t` and says which ids it deleted.
async fn in_turns(python: &Path, spec: &str, floe: &Props, theirs: &[String], between: impl AsyncFnOnce() -> Vec<i32>) {
    let side = |step: &str, extra: &[String]| {
        must(Command::new(python).arg(script("pyiceberg_side.py")).arg(step).args(theirs).args(extra));
    };
    session(spec, floe).await.execute(WALK).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
    side("write", &[]);
    let mut mine = session(spec, floe).await;
    assert_eq!(count(&mut mine, "SELECT * FROM made.u").await, 4);
    mine.execute(
        "ALTER TABLE made.u SET TBLPROPERTIES('write.delete.mode'='merge-on-read'); DELETE FROM made.u WHERE id = 4",
    )
    .await
    .unwrap_or_else(|e| panic!("{spec}: {e}"));
    let mut gone = between().await;
    // What the others deleted is gone here, and stays so under a vector that floe merges.
    let mut mine = session(spec, floe).await;
    for id in &gone {
        assert_eq!(count(&mut mine, &format!("SELECT * FROM walk.t WHERE id = {id}")).await, 0, "{spec}");
    }
    mine.execute_one("DELETE FROM walk.t WHERE id = 9").await.unwrap_or_else(|e| panic!("{spec}: {e}"));
    gone.extend([5000, 9]);
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    side("read", &[format!("gone={}", gone.join(","))]);
}

/// Folder of the databases' drivers for Java.
pub fn jdbc_drivers() -> PathBuf {
    installed("jdbc-drivers-1", |dir| {
        for artifact in ["org.xerial:sqlite-jdbc:3.47.1.0", "org.postgresql:postgresql:42.7.7"] {
            copy(artifact, dir);
        }
    })
}

/// Spark on the same catalog, when it is installed; the ids it deleted from `walk.t`, whose 5000 was gone.
pub fn spark(uri: &str, warehouse: &str, scratch: &Path, token: &str) -> Vec<i32> {
    let home = Home::find().unwrap();
    let Some(spark) = find("spark35").ok().and_then(|e| engine(&e, &home)) else {
        eprintln!("without Spark: it is not installed (cargo floe engines install spark35)");
        return Vec::new();
    };
    let jars: Vec<String> = [spark.dir.join("jars"), jdbc_drivers()]
        .iter()
        .flat_map(|d| std::fs::read_dir(d).unwrap())
        .map(|f| f.unwrap().path().display().to_string())
        .filter(|f| f.ends_with(".jar"))
        .collect();
    let python = spark.dir.join("venv/bin/python");
    must(
        Command::new(&python)
            .arg(script("spark_side.py"))
            .args([uri, warehouse, &jars.join(",")])
            .arg(scratch)
            .arg(token)
            .env("PYSPARK_PYTHON", &python),
    );
    vec![7]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sqlite_catalog_is_shared_with_pyiceberg_and_spark() {
    let Some(python) = python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let warehouse = format!("file://{at}/wh");
    let theirs = ["name=lake", "type=sql", &format!("uri=sqlite:///{at}/c.db"), &format!("warehouse={warehouse}")];
    let theirs = theirs.map(String::from);
    in_turns(&python, &format!("sql:sqlite:{at}/c.db"), &props(&[("warehouse", &warehouse)]), &theirs, async || {
        spark(&format!("jdbc:sqlite:{at}/c.db"), &warehouse, dir.path(), "")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_catalog_is_shared_with_pyiceberg_and_spark() {
    let (Some(python), Some(server)) = (python(), super::postgres::Server::start()) else {
        return;
    };
    // Its port answers before the server takes sessions.
    drop(server.open().await);
    let dir = tempfile::tempdir().unwrap();
    let warehouse = format!("file://{}/wh", dir.path().display());
    let database = format!("127.0.0.1:{}/postgres", server.port);
    let theirs = [
        "name=lake",
        "type=sql",
        &format!("uri=postgresql+psycopg2://floe@{database}"),
        &format!("warehouse={warehouse}"),
    ];
    let theirs = theirs.map(String::from);
    in_turns(&python, &server.spec(), &props(&[("warehouse", &warehouse)]), &theirs, async || {
        spark(&format!("jdbc:postgresql://{database}"), &warehouse, dir.path(), "")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floes_server_is_shared_with_pyiceberg_duckdb_and_spark() {
    let Some(python) = python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let behind = props(&[("warehouse", &format!("file://{at}/wh"))]);
    let behind = open_catalog(&format!("sql:sqlite:{at}/c.db"), "behind", behind).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let router = Server::new(behind, Some("sEcReT".into())).router();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let theirs = ["name=lake", "type=rest", &format!("uri={uri}"), "token=sEcReT"].map(String::from);
    let spec = format!("rest:{uri}");
    let mine = props(&[("token", "sEcReT")]);
    in_turns(&python, &spec, &mine, &theirs, async || {
        let (python, uri, scratch) = (python.clone(), uri.clone(), dir.path().to_path_buf());
        let run = move || {
            must(Command::new(python).arg(script("duckdb_side.py")).args([&uri, "sEcReT"]));
            spark(&uri, "", &scratch, "sEcReT")
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    })
    .await;
    let mut session = session(&spec, &mine).await;
    assert_eq!(count(&mut session, "SELECT * FROM walk.copied").await, 100);
}
