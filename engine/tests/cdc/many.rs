//! A sync whose rows say which table they go to.

use std::collections::BTreeMap;

use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::{Report, Sync};
use floe_engine::cdc::table_ident;
use floe_engine::sql::Session;
use floe_engine::{Error, Result};
use tokio::sync::watch;

use crate::support::{Mortal, World, catalog_over, finished};
use crate::sync::source;

fn config(target: &str, sync: &str) -> PipelineConfig {
    let text = format!(
        "source: {{table: ns.src}}\n\
         target: {{table: 'copy.city_{{city}}', mode: merge-on-read, equality_columns: [id]{target}}}\n\
         sync: {{{sync}}}"
    );
    PipelineConfig::parse(&text, "test").unwrap_or_else(|e| panic!("{text}\n{e}"))
}

async fn run(world: &World, config: PipelineConfig) -> Result<Report> {
    let (_keep, stop) = watch::channel(false);
    Sync::with_catalogs(config, world.catalog.clone(), world.catalog.clone())?.run(stop, |_| {}).await
}

/// Every table holds the source's rows of its city, and no table is missing.
async fn same(world: &mut World) {
    let mut want: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in world.rows("SELECT city, id, n FROM ns.src").await {
        let (city, rest) = row.split_once('|').expect("columns");
        want.entry(city.to_string()).or_default().push(rest.to_string());
    }
    let ns = table_ident("copy.x").expect("name").namespace().clone();
    let tables = world.catalog.list_tables(&ns).await.expect("tables");
    for t in tables.iter().map(|t| t.name()).filter(|n| *n != "floe_sync") {
        let city = t.strip_prefix("city_").expect("a table of a city");
        let rows = world.rows(&format!("SELECT id, n FROM copy.{t} WHERE city = '{city}'")).await;
        assert_eq!(rows, want.remove(city).unwrap_or_default(), "{t}");
        assert_eq!(world.rows(&format!("SELECT count(*) FROM copy.{t}")).await, [rows.len().to_string()], "{t}");
    }
    assert!(want.is_empty(), "without a table: {want:?}");
}

const HISTORY: [&str; 5] = [
    "INSERT INTO ns.src SELECT CAST(id AS INT), CAST(id % 5 AS STRING), id * 10 FROM range(0, 60, 1, 2)",
    // rows move to another table, a new one
    "UPDATE ns.src SET city = 'moved' WHERE id % 10 = 3",
    "DELETE FROM ns.src WHERE id BETWEEN 40 AND 49",
    "UPDATE ns.src SET n = -1 WHERE city = '1'",
    "DELETE FROM ns.src WHERE city = '2'",
];

#[tokio::test]
async fn each_row_goes_to_its_table() {
    for options in ["", "snapshots_per_commit: 3", "snapshots_per_commit: 100"] {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        world.run(HISTORY[0]).await;
        let report = run(&world, config("", options)).await.expect("first");
        assert_eq!((report.snapshots, report.commits), (1, 5));
        same(&mut world).await;
        for sql in &HISTORY[1..] {
            world.run(sql).await;
        }
        assert_eq!(run(&world, config("", options)).await.expect("the rest").snapshots, 4);
        same(&mut world).await;
        assert_eq!(run(&world, config("", options)).await.expect("nothing").commits, 0);
        assert_eq!(world.rows("SELECT count(*) FROM copy.floe_sync").await, ["0"], "the ledger has no rows");
    }
}

#[tokio::test]
async fn a_column_that_names_tables_is_checked_before_any_work() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    let text = "source: {table: ns.src}\ntarget: {table: 'copy.t_{nope}', mode: append}";
    let e = run(&world, PipelineConfig::parse(text, "p").expect("parses")).await.expect_err("no such column");
    assert!(e.to_string().contains("nope") && e.to_string().contains("city"), "{e}");
    let ns = table_ident("copy.x").expect("name").namespace().clone();
    assert!(!world.catalog.namespace_exists(&ns).await.expect("answer"), "something was made");
}

#[tokio::test]
async fn a_value_that_is_no_name_stops_the_batch() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    run(&world, config("", "")).await.expect("first");
    world.run("INSERT INTO ns.src VALUES (100, '1', 1), (101, NULL, 2)").await;
    let e = run(&world, config("", "")).await.expect_err("null names no table");
    assert!(e.to_string().contains("column city is null"), "{e}");
    world.run("DELETE FROM ns.src WHERE id = 101").await;
    // in one batch the row never was
    run(&world, config("", "snapshots_per_commit: 10")).await.expect("net of both snapshots");
    same(&mut world).await;
}

#[tokio::test]
async fn two_at_once_are_both_right() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in HISTORY {
        world.run(sql).await;
    }
    let (a, b) = tokio::join!(run(&world, config("", "")), run(&world, config("", "snapshots_per_commit: 2")));
    for r in [a, b] {
        r.expect("a sync");
    }
    same(&mut world).await;
}

#[tokio::test]
async fn a_column_may_name_the_table_and_not_be_in_it() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    run(&world, config(", drop: [city]", "")).await.expect("sync");
    assert_eq!(world.rows("SELECT * FROM copy.city_3 WHERE id < 10").await, ["3|30", "8|80"]);
}

/// Killed at the n-th I/O operation, for every n; then run again with other batches.
#[tokio::test]
async fn killed_at_any_operation() {
    let mut n = 0;
    loop {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        world.run("INSERT INTO ns.src VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', 3)").await;
        let store = Mortal::new();
        let mortal = catalog_over(world.dir.path(), store.clone());
        let go = async |options: &str| {
            let (_keep, stop) = watch::channel(false);
            Sync::with_catalogs(config("", options), world.catalog.clone(), mortal.clone())?.run(stop, |_| {}).await
        };
        go("").await.expect("first load");
        let mut writer = Session::new(world.catalog.clone(), "ice");
        writer
            .execute(
                "UPDATE ns.src SET city = 'a', n = 20 WHERE id = 2; INSERT INTO ns.src VALUES (4, 'b', 4), (5, 'c', 5); \
                 DELETE FROM ns.src WHERE id = 1",
            )
            .await
            .expect("history");
        store.die_after(n);
        let died = go(if n % 2 == 0 { "snapshots_per_commit: 2" } else { "" }).await;
        store.revive();
        let finished = finished(died);
        go(if n % 3 == 0 { "snapshots_per_commit: 10" } else { "" })
            .await
            .unwrap_or_else(|e: Error| panic!("restart after {n}: {e}"));
        same(&mut world).await;
        if finished {
            assert!(n > 20, "the sync did {n} operations only");
            return;
        }
        n += 1;
    }
}
