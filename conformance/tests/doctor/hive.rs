//! The Hive metastore, for real: 3.1.3 on Derby with locks, and 4.0.1 on PostgreSQL, whose compare-and-swap commits go
//! without (Derby cannot compare the parameter's column).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use floe_engine::ErrorKind;
use floe_engine::catalog::open_catalog;
use iceberg::NamespaceIdent;

use super::catalog_suite::Abilities;
use super::interop::jdbc_drivers;
use super::lake::{carries, props};
use super::postgres;
use super::servers::{Running, copy, free_ports, has, installed, must, start};

/// A release of the metastore: its archive's artifact and the class that makes its database.
pub struct Release {
    version: &'static str,
    artifact: &'static str,
    schema_tool: &'static str,
}

/// The last one without HIVE-26882.
pub const HIVE_3: Release = Release {
    version: "3.1.3",
    artifact: "hive-standalone-metastore",
    schema_tool: "org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
};
/// One with HIVE-26882: it compares a parameter with the expected value when it replaces a table.
pub const HIVE_4: Release = Release {
    version: "4.0.1",
    artifact: "hive-standalone-metastore-server",
    schema_tool: "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool",
};

/// What the metastore needs beside its own archive: the Hadoop client, and libraries that the client leaves out.
const JARS: [&str; 13] = [
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.apache.hadoop:hadoop-hdfs:3.4.2",
    "commons-io:commons-io:2.11.0",
    "org.slf4j:slf4j-api:1.7.36",
    "javax.servlet:javax.servlet-api:3.1.0",
    "com.lmax:disruptor:3.4.4",
    "commons-collections:commons-collections:3.2.2",
    "commons-cli:commons-cli:1.2",
    "commons-logging:commons-logging:1.2",
    "org.apache.httpcomponents:httpclient:4.5.13",
    "org.apache.httpcomponents:httpcore:4.4.13",
    "com.google.code.gson:gson:2.9.0",
];

/// Java with the metastore on its class path, and its files in `dir`.
fn java(home: &Path, dir: &Path) -> Command {
    let mut java = Command::new("java");
    for module in ["net", "lang", "util", "nio", "io"] {
        java.arg(format!("--add-opens=java.base/java.{module}=ALL-UNNAMED"));
    }
    java.arg("-Xmx512m").arg(format!("-Dmetastore.log.dir={}", dir.display()));
    java.arg(format!("-Dderby.stream.error.file={}", dir.join("derby.log").display()));
    let part = |p: &str| home.join(p).display().to_string();
    let drivers = jdbc_drivers().display().to_string();
    java.arg("-cp").arg(format!("{}:{}:{}:{drivers}/*", dir.display(), part("lib/*"), part("hadoop/*")));
    java.current_dir(home).env("METASTORE_HOME", home);
    java
}

/// A metastore with an empty database, Derby's unless another is given; `None`, with the reason printed, without Java or
/// Maven.
pub fn server(release: &Release, database: Option<&postgres::Server>) -> Option<(Running, u16)> {
    let Release { version, artifact, schema_tool } = release;
    if !has("java") || !has("mvn") {
        eprintln!("skipped: no Hive metastore here (it comes through Maven: install a JDK 17 and mvn)");
        return None;
    }
    let folder = format!("apache-hive-metastore-{version}-bin");
    let home = installed(&format!("hive-metastore-{version}"), |dir| {
        copy(&format!("org.apache.hive:{artifact}:{version}:tar.gz:bin"), dir);
        let archive = dir.join(format!("{artifact}-{version}-bin.tar.gz"));
        must(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(dir));
        JARS.iter().for_each(|j| copy(j, &dir.join(&folder).join("hadoop")));
    })
    .join(&folder);
    let dir = tempfile::tempdir().unwrap();
    let port = free_ports(1)[0];
    let at = dir.path().display();
    // Derby keeps the tables under the default user's name.
    let (kind, driver, user, url) = match database {
        None => {
            let url = format!("jdbc:derby:;databaseName={at}/db;create=true");
            ("derby", "org.apache.derby.jdbc.EmbeddedDriver", "APP", url)
        }
        Some(p) => {
            let url = format!("jdbc:postgresql://127.0.0.1:{}/postgres", p.port);
            ("postgres", "org.postgresql.Driver", "floe", url)
        }
    };
    let settings = [
        ("metastore.thrift.uris", format!("thrift://127.0.0.1:{port}")),
        ("metastore.thrift.bind.host", "127.0.0.1".into()),
        ("metastore.warehouse.dir", format!("file://{at}/warehouse")),
        ("javax.jdo.option.ConnectionDriverName", driver.into()),
        ("javax.jdo.option.ConnectionURL", url),
        ("javax.jdo.option.ConnectionUserName", user.into()),
        ("javax.jdo.option.ConnectionPassword", "mine".into()),
        ("metastore.task.threads.always", "org.apache.hadoop.hive.metastore.events.EventCleanerTask".into()),
        ("metastore.expression.proxy", "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy".into()),
        ("metastore.event.db.notification.api.auth", "false".into()),
        ("metastore.server.min.threads", "2".into()),
        ("metastore.server.max.threads", "50".into()),
    ];
    let settings: String =
        settings.iter().map(|(k, v)| format!("<property><name>{k}</name><value>{v}</value></property>")).collect();
    std::fs::write(dir.path().join("metastore-site.xml"), format!("<configuration>{settings}</configuration>"))
        .unwrap();
    must(java(&home, dir.path()).args([schema_tool, "-dbType", kind, "-initSchema"]));
    let mut command = java(&home, dir.path());
    command.args(["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", &port.to_string()]);
    Some((start(command, dir, port, Duration::from_secs(180)), port))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hive_metastore_carries_tables() {
    let Some((server, port)) = server(&HIVE_3, None) else {
        return;
    };
    let can = Abilities { nested: false, built_in: &["default"], ..Abilities::ALL };
    let warehouse = format!("file://{}/wh", server.dir.path().display());
    let props = props(&[("warehouse", &warehouse)]);
    let spec = format!("hive:thrift://127.0.0.1:{port}");
    carries(&spec, &props, can).await;

    // The metastore's own databases place tables, too.
    let catalog = open_catalog(&spec, "h", Default::default()).await.unwrap();
    let places = catalog.namespace_properties(&NamespaceIdent::new("default".into())).await.unwrap();
    assert!(places["location"].starts_with("file:"), "{places:?}");
    let e = catalog.create_namespace(&NamespaceIdent::new("Upper".into()), Default::default()).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::InvalidInput, Some("CAT-5")));
}

/// The same suite and the same race, with the metastore's own compare-and-swap in place of its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hive_metastore_carries_tables_without_locks() {
    let Some(database) = postgres::Server::start() else {
        return;
    };
    drop(database.open().await);
    let Some((server, port)) = server(&HIVE_4, Some(&database)) else {
        return;
    };
    let can = Abilities { nested: false, built_in: &["default"], ..Abilities::ALL };
    let warehouse = format!("file://{}/wh", server.dir.path().display());
    let props = props(&[("warehouse", &warehouse), ("iceberg.engine.hive.lock-enabled", "false")]);
    carries(&format!("hive:thrift://127.0.0.1:{port}"), &props, can).await;
}
