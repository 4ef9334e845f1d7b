//! The SQL catalog on PostgreSQL: the common suite and races, on a server that the test starts from the system's binaries.

mod catalog_suite;
#[path = "catalog_suite/postgres.rs"]
mod postgres;

use std::collections::HashMap;

use catalog_suite::*;
use floe_engine::ErrorKind;
use floe_engine::catalog::open_catalog;
use iceberg::spec::FormatVersion;
use postgres::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgresql_passes_the_suite_and_loses_no_commit() {
    let Some(server) = Server::start() else {
        return;
    };
    let catalog = server.open().await;
    run(catalog.clone(), Abilities::ALL, &format!("{}/outside", server.dir.path().display())).await;

    let id = ident(&["n"], "t");
    make_table(&catalog, &id).await;
    let mut writers = Vec::new();
    for _ in 0..6 {
        writers.push(server.open().await);
    }
    race(&catalog, writers, &id, 6).await;

    // No warehouse, no guess; and a user who is refused.
    let bare = open_catalog(&server.spec(), "pg", HashMap::new()).await.unwrap();
    let e = bare.create_table(new_table(&ident(&["n"], "u"), FormatVersion::V3)).await.unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidInput && e.message().contains("warehouse"), "{e}");
    let nobody = format!("sql:postgres://stranger@127.0.0.1:{}/postgres", server.port);
    let e = open_catalog(&nobody, "pg", HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
}
