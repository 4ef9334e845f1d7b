//! Trino, and Spark where it is installed, on a PostgreSQL catalog and a Hive metastore that floe writes: each reads the
//! others' deletion vectors, and adds to them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use floe_conformance::engines::{Home, find, installed as engine};
use serde_json::{Value, json};

use super::hive::{HIVE_3, server as hive_server};
use super::interop::{WALK, count, jdbc_drivers, script, session, spark};
use super::lake::{Props, props};

/// A Trino server behind its driver.
struct Trino {
    child: Child,
    /// Its end is the driver's sign to end the server.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Trino {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl Trino {
    /// Starts a server over `catalogs`; `None`, with the reason printed, where Trino is not installed.
    fn start(scratch: &Path, catalogs: &Value) -> Option<Self> {
        let home = Home::find().unwrap();
        let recipe = find("trino").unwrap();
        let why = recipe.missing();
        let Some(trino) = why.is_none().then(|| engine(&recipe, &home)).flatten() else {
            let why = why.unwrap_or_else(|| "it is not installed".into());
            eprintln!("skipped: no Trino here: {why} (cargo floe engines install trino)");
            return None;
        };
        let launch = recipe.launch(&trino.dir, scratch, scratch, "none", "").unwrap();
        // The installation with the database's driver added to its plug-in.
        let own = scratch.join("trino");
        let plugin = own.join("plugin/iceberg");
        std::fs::create_dir_all(&plugin).unwrap();
        symlink(trino.dir.join("lib"), own.join("lib")).unwrap();
        for from in [trino.dir.join("plugin/iceberg"), jdbc_drivers()] {
            for file in std::fs::read_dir(from).unwrap().map(|f| f.unwrap().path()) {
                symlink(&file, plugin.join(file.file_name().unwrap())).unwrap();
            }
        }
        let log = std::fs::File::create(scratch.join("trino.log")).unwrap();
        let mut child = Command::new(&launch.command[0])
            .arg(script("trino_side.py"))
            .arg(catalogs.to_string())
            .envs(launch.env)
            .env("FLOE_ENGINE_DIR", &own)
            .env("FLOE_SCRATCH", scratch)
            .env("PYTHONPATH", scratch.join("driver"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut trino = Self { child, input, output };
        let said = trino.line();
        let text = std::fs::read_to_string(scratch.join("trino.log")).unwrap_or_default();
        assert_eq!(said.trim(), "ready", "Trino does not start:\n{text}");
        Some(trino)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Runs a statement; its rows.
    fn run(&mut self, sql: &str) -> Value {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{}", json!(sql)).unwrap();
        input.flush().unwrap();
        let line = self.line();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{sql}: {line:?}: {e}"));
        assert!(answer.is_array(), "{sql}: {answer}");
        answer
    }
}

/// What a catalog in Trino has beside its kind.
const FILES: &str = "connector.name=iceberg\nfs.hadoop.enabled=true\nfs.native-local.enabled=true\nlocal.location=/\n";

/// floe writes, Trino and `other` read and write on, floe merges its vectors with theirs, Trino reads the end.
async fn in_turns(trino: &mut Trino, name: &str, spec: &str, floe: &Props, other: impl FnOnce() -> Vec<i32>) {
    let puffins = "WHERE lower(file_format) = 'puffin'";
    session(spec, floe).await.execute(WALK).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
    let mut gone = other();
    let left = |gone: &[i32]| json!([[19_999 - gone.len(), 0]]);
    let seen = |gone: &[i32]| {
        let ids: String = gone.iter().map(|id| format!(", {id}")).collect();
        format!("SELECT count(*), count_if(id IN (5000{ids})) FROM {name}.walk.t")
    };
    // floe's vector (and the other's) in Trino, which writes one on top, and a table of its own.
    assert_eq!(trino.run(&seen(&gone)), left(&gone), "{name}");
    trino.run(&format!("DELETE FROM {name}.walk.t WHERE id = 8"));
    gone.push(8);
    assert_eq!(trino.run(&seen(&gone)), left(&gone), "{name}");
    trino.run(&format!("CREATE SCHEMA {name}.made"));
    trino.run(&format!("CREATE TABLE {name}.made.u (id integer, s varchar) WITH (format_version = 3)"));
    trino.run(&format!("INSERT INTO {name}.made.u VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')"));
    trino.run(&format!("DELETE FROM {name}.made.u WHERE id = 2"));

    // Trino's vectors in floe: one a data file, and merged with floe's next ones.
    let mut mine = session(spec, floe).await;
    for id in &gone {
        assert_eq!(count(&mut mine, &format!("SELECT * FROM walk.t WHERE id = {id}")).await, 0, "{name}: {id}");
    }
    assert_eq!(count(&mut mine, "SELECT * FROM made.u").await, 4, "{name}");
    for table in ["walk.t", "made.u"] {
        assert_eq!(
            count(&mut mine, &format!("SELECT * FROM {table}.delete_files {puffins}")).await,
            1,
            "{name}: {table}"
        );
    }
    let deletes = "DELETE FROM walk.t WHERE id = 9; \
        ALTER TABLE made.u SET TBLPROPERTIES('write.delete.mode'='merge-on-read'); DELETE FROM made.u WHERE id = 4";
    mine.execute(deletes).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    gone.push(9);

    assert_eq!(trino.run(&seen(&gone)), left(&gone), "{name}");
    assert_eq!(trino.run(&format!("SELECT id FROM {name}.made.u ORDER BY id")), json!([[1], [3], [5]]), "{name}");
    for table in ["walk.\"t$files\"", "made.\"u$files\""] {
        let vectors =
            format!("SELECT count(*) FROM {name}.{table} WHERE content = 1 AND lower(file_format) = 'puffin'");
        assert_eq!(trino.run(&vectors), json!([[1]]), "{name}: {table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_and_hive_catalogs_are_shared_with_trino_and_spark() {
    let (Some(postgres), Some((hive, port))) = (super::postgres::Server::start(), hive_server(&HIVE_3, None)) else {
        return;
    };
    drop(postgres.open().await);
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| format!("file://{}/{name}", dir.path().display());
    let database = format!("jdbc:postgresql://127.0.0.1:{}/postgres", postgres.port);
    let metastore = format!("thrift://127.0.0.1:{port}");
    let catalogs = json!({
        "pg": format!("{FILES}iceberg.catalog.type=jdbc\niceberg.jdbc-catalog.catalog-name=lake\n\
            iceberg.jdbc-catalog.driver-class=org.postgresql.Driver\niceberg.jdbc-catalog.connection-url={database}\n\
            iceberg.jdbc-catalog.connection-user=floe\niceberg.jdbc-catalog.default-warehouse-dir={}\n", place("pg")),
        "hms": format!("{FILES}iceberg.catalog.type=hive_metastore\nhive.metastore.uri={metastore}\n"),
    });
    let Some(mut trino) = Trino::start(dir.path(), &catalogs) else {
        return;
    };
    let at = |name: &str| props(&[("warehouse", &place(name))]);
    in_turns(&mut trino, "pg", &postgres.spec(), &at("pg"), || spark(&database, &place("pg"), dir.path(), "")).await;
    let spec = format!("hive:{metastore}");
    in_turns(&mut trino, "hms", &spec, &at("hms"), || spark(&metastore, &place("hms"), dir.path(), "")).await;
    drop((trino, hive));
}
