//! Project Nessie 0.99.0, for real, its tables on an S3 server. It keeps V2 tables only, so the walk-through of V3 tables cannot pass.

use std::process::Command;
use std::time::Duration;

use floe_conformance::engines::find_jdk;
use floe_engine::ErrorKind;

use super::interop::{count, session};
use super::s3::{SECRET, server as s3_server};
use super::servers::{Running, copy, free_ports, has, installed, start};

const JAR: &str = "nessie-quarkus-0.99.0-runner.jar";

/// A Nessie without branches but its first, in memory; `None`, with the reason printed, without a JDK 21 or Maven.
fn server(endpoint: &str) -> Option<(Running, String)> {
    let jdk = match (find_jdk(21), has("mvn")) {
        (Ok(jdk), true) => jdk,
        (Ok(_), false) => return skip("mvn is not on the path"),
        (Err(why), _) => return skip(&why),
    };
    let home = installed("nessie-0.99.0", |dir| copy("org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner", dir));
    let ports = free_ports(2);
    let store = "nessie.catalog.service.s3.default-options";
    let mut java = Command::new(jdk.join("bin/java"));
    java.args(["-Xmx700m", "-XX:TieredStopAtLevel=1"]);
    for (key, value) in [
        ("quarkus.http.host", "127.0.0.1"),
        ("quarkus.http.port", &ports[0].to_string()),
        ("quarkus.management.host", "127.0.0.1"),
        ("quarkus.management.port", &ports[1].to_string()),
        ("nessie.version.store.type", "IN_MEMORY"),
        ("nessie.catalog.default-warehouse", "wh"),
        ("nessie.catalog.warehouses.wh.location", "s3://lake/nessie"),
        (&format!("{store}.endpoint"), endpoint),
        (&format!("{store}.region"), "us-east-1"),
        (&format!("{store}.path-style-access"), "true"),
        (&format!("{store}.request-signing-enabled"), "false"),
        (&format!("{store}.access-key"), "urn:nessie-secret:quarkus:floe-keys"),
        ("floe-keys.name", "test"),
        ("floe-keys.secret", SECRET),
    ] {
        java.arg(format!("-D{key}={value}"));
    }
    java.arg("-jar").arg(home.join(JAR));
    let server = start(java, tempfile::tempdir().unwrap(), ports[0], Duration::from_secs(240));
    Some((server, format!("rest:http://127.0.0.1:{}/iceberg", ports[0])))
}

fn skip<T>(why: &str) -> Option<T> {
    eprintln!("skipped: no Nessie here: {why}");
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nessie_keeps_v2_tables_and_is_not_trusted_with_v3() {
    let Some((_s3, props)) = s3_server().await else {
        return;
    };
    let Some((_nessie, spec)) = server(&props["s3.endpoint"]) else {
        return;
    };
    let mut mine = session(&spec, &props).await;
    let made = "CREATE NAMESPACE walk; USE walk; \
        CREATE TABLE t (id INT, s STRING) USING iceberg TBLPROPERTIES('format-version'='2', 'write.delete.mode'='merge-on-read'); \
        INSERT INTO t SELECT CAST(id AS INT), CAST(id AS STRING) FROM range(1000); DELETE FROM t WHERE id = 500";
    mine.execute(made).await.unwrap_or_else(|e| panic!("{e}"));
    // Another session reads what Nessie keeps.
    let mut mine = session(&spec, &props).await;
    assert_eq!(count(&mut mine, "SELECT * FROM walk.t").await, 999);
    assert_eq!(count(&mut mine, "SELECT * FROM walk.t.delete_files WHERE record_count = 1").await, 1);
    // It would make a V2 table and say nothing: once it knows V3 this fails, and the catalog's row is to be run.
    let v3 = "CREATE TABLE walk.t3 (id INT) USING iceberg TBLPROPERTIES('format-version'='3')";
    let e = mine.execute_one(v3).await.unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("format version v2"), "{e}");
    assert_eq!(count(&mut mine, "SHOW TABLES IN walk").await, 1, "the table of the wrong version is gone");
}
