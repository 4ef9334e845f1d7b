//! A target follows its source: created, updated, restarted, killed at every step.

use std::sync::Arc;

use crate::support::World;
use floe_engine::Result;
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::{Event, Report, Sync};
use floe_engine::cdc::{law, table_ident};
use tokio::sync::watch;

pub const KEYED: &str = "mode: merge-on-read, equality_columns: [id]";

pub fn config(source: &str, target: &str, sync: &str) -> PipelineConfig {
    let text = format!("source: {{table: ns.src{source}}}\ntarget: {{table: copy.dst, {target}}}\nsync: {{{sync}}}");
    PipelineConfig::parse(&text, "test").unwrap_or_else(|e| panic!("{text}\n{e}"))
}

pub async fn sync_over(
    world: &World,
    config: PipelineConfig,
    target: Arc<dyn floe_engine::catalog::Catalog>,
) -> Result<Report> {
    let (_keep, stop) = watch::channel(false);
    Sync::with_catalogs(config, world.catalog.clone(), target)?.run(stop, |_| {}).await
}

pub async fn sync(world: &World, config: PipelineConfig) -> Result<Report> {
    sync_over(world, config, world.catalog.clone()).await
}

pub async fn same(world: &mut World) {
    let source = world.rows("SELECT * FROM ns.src").await;
    let target = world.rows("SELECT * FROM copy.dst").await;
    assert_eq!(source, target);
}

/// The copy is a table like any other: its own changes obey the law.
pub async fn lawful(world: &World) {
    let copy = world.catalog.clone().load_table(&table_ident("copy.dst").expect("name")).await.expect("copy");
    law::check(&copy).await.unwrap_or_else(|e| panic!("{e}")).expect("readable");
}

pub async fn source(world: &mut World, version: u8, mode: &str, partition: &str) {
    world
        .run(&format!(
            "CREATE TABLE ns.src (id INT, city STRING, n BIGINT) USING iceberg {partition} TBLPROPERTIES('format-version'='{version}', \
             'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}')"
        ))
        .await;
}

pub const HISTORY: [&str; 7] = [
    "INSERT INTO ns.src SELECT CAST(id AS INT), CAST(id % 7 AS STRING), id * 10 FROM range(0, 100, 1, 2)",
    "UPDATE ns.src SET city = 'moved' WHERE id % 10 = 3",
    "DELETE FROM ns.src WHERE id BETWEEN 40 AND 49",
    "MERGE INTO ns.src USING (SELECT 5 AS id UNION ALL SELECT 200) s ON ns.src.id = s.id WHEN MATCHED THEN UPDATE SET n = -1 \
     WHEN NOT MATCHED THEN INSERT (id, city, n) VALUES (s.id, 'new', 0)",
    "INSERT INTO ns.src VALUES (NULL, 'null key', 1)",
    "UPDATE ns.src SET n = 2 WHERE id IS NULL",
    "DELETE FROM ns.src WHERE id >= 90",
];

#[tokio::test]
async fn follows_every_kind_of_change_in_every_mode() {
    for (version, mode) in [(3, "merge-on-read"), (3, "copy-on-write"), (2, "merge-on-read")] {
        for target in [
            "mode: merge-on-read, equality_columns: [id]",
            "mode: copy-on-write, equality_columns: [id]",
            "mode: merge-on-read, equality_columns: [id], partition_fields: ['bucket(id, 4)', city], sort_fields: [id desc]",
            "mode: merge-on-read, equality_columns: [id], table_properties: {format-version: 2}",
        ] {
            let mut world = World::new().await;
            source(&mut world, version, mode, "").await;
            for (i, sql) in HISTORY.iter().enumerate() {
                world.run(sql).await;
                let report = sync(&world, config("", target, "")).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
                assert_eq!(report.snapshots, 1, "step {i} {sql}");
                same(&mut world).await;
            }
            lawful(&world).await;
            let again = sync(&world, config("", target, "")).await.expect("nothing to do");
            assert_eq!((again.snapshots, again.commits), (0, 0));
        }
    }
}

#[tokio::test]
async fn catches_up_snapshot_by_snapshot_or_in_batches() {
    for (per_commit, commits) in [(1, 7), (3, 3), (100, 1)] {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "PARTITIONED BY (city)").await;
        for sql in HISTORY {
            world.run(sql).await;
        }
        let report =
            sync(&world, config("", KEYED, &format!("snapshots_per_commit: {per_commit}"))).await.expect("sync");
        assert_eq!((report.snapshots, report.commits), (7, commits));
        same(&mut world).await;
        lawful(&world).await;
    }
}

#[tokio::test]
async fn equality_deletes_when_asked_for() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in HISTORY {
        world.run(sql).await;
        sync(&world, config("", KEYED, "delete_format: equality")).await.expect("sync");
        same(&mut world).await;
    }
    lawful(&world).await;
    let kinds = world.rows("SELECT DISTINCT content FROM copy.dst.delete_files").await;
    assert_eq!(kinds, ["2"]);
}

#[tokio::test]
async fn creates_what_the_configuration_describes() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    let target = format!(
        "{KEYED}, partition_fields: ['truncate(city, 2)'], sort_fields: ['id desc nulls first'], table_properties: {{a.b: c}}"
    );
    sync(&world, config("", &target, "")).await.expect("sync");
    let table = table_ident("copy.dst").expect("name");
    let table = world.catalog.clone().load_table(&table).await.expect("target");
    let m = table.metadata();
    assert_eq!(m.format_version(), iceberg::spec::FormatVersion::V3);
    assert_eq!(m.default_partition_spec().fields()[0].name, "city_trunc");
    assert_eq!(m.default_sort_order().fields.len(), 1);
    assert_eq!(m.properties()["a.b"], "c");
    assert_eq!(m.properties()["write.delete.mode"], "merge-on-read");
    let summary = &m.current_snapshot().expect("snapshot").summary().additional_properties;
    assert_eq!(summary["floe.cdc.source-snapshot-id"], world.snapshots("src").await[0].to_string());
}

#[tokio::test]
async fn needs_equality_columns_for_a_new_target() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    let e = sync(&world, config("", "mode: merge-on-read", "")).await.expect_err("no key");
    assert!(e.to_string().contains("equality_columns"), "{e}");
    let e = sync(&world, config("", "mode: merge-on-read, equality_columns: [nope]", ""))
        .await
        .expect_err("no such column");
    assert!(e.to_string().contains("nope"), "{e}");
}

#[tokio::test]
async fn append_mode_refuses_deletes() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", "mode: append", "")).await.expect("inserts");
    same(&mut world).await;
    world.run(HISTORY[2]).await;
    let e = sync(&world, config("", "mode: append", "")).await.expect_err("deletes");
    assert!(e.to_string().contains("merge-on-read"), "{e}");
}

/// The whole range is looked at before the first commit, whatever kind of snapshot removes the row.
#[tokio::test]
async fn append_mode_writes_nothing_when_a_later_snapshot_removes_rows() {
    const INSERT: &str = "INSERT INTO ns.src VALUES (1000, 'x', 1)";
    let removals = [
        HISTORY[1],
        HISTORY[2],
        HISTORY[3],
        "INSERT OVERWRITE ns.src SELECT 1 AS id, 'all' AS city, CAST(1 AS BIGINT) AS n",
        "DELETE FROM ns.src",
    ];
    for mode in ["merge-on-read", "copy-on-write"] {
        for removal in removals {
            let mut world = World::new().await;
            source(&mut world, 3, mode, "").await;
            for sql in [HISTORY[0], INSERT, removal, INSERT] {
                world.run(sql).await;
            }
            let ids = world.snapshots("src").await;
            let e = sync(&world, config("", "mode: append", "")).await.expect_err(removal).to_string();
            assert!(e.contains(&ids[2].to_string()) && e.contains("nothing was written"), "{removal}: {e}");
            let ns = table_ident("copy.dst").expect("name").namespace().clone();
            assert!(!world.catalog.namespace_exists(&ns).await.expect("answer"), "{removal}: something was made");

            // an end before it, and a target that has got so far, are no obstacle; then nothing more is written
            let source = format!(", to_snapshot: {}", ids[0]);
            assert_eq!(sync(&world, config(&source, "mode: append", "")).await.expect("one").commits, 1);
            let source = format!(", to_snapshot: {}", ids[3]);
            sync(&world, config(&source, "mode: append", "")).await.expect_err(removal);
            let stops = format!("stop_at_snapshot: {}", ids[1]);
            assert_eq!(sync(&world, config("", "mode: append", &stops)).await.expect("two").commits, 1);
            assert_eq!(world.rows("SELECT count(*) FROM copy.dst").await, ["101"]);
        }
    }
}

/// Snapshots that could remove rows and, seen as the sync sees them, remove none.
#[tokio::test]
async fn append_mode_takes_what_only_adds() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "PARTITIONED BY (city)").await;
    world.run("INSERT OVERWRITE ns.src VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)").await;
    world.run("MERGE INTO ns.src USING (SELECT 4 AS id) s ON ns.src.id = s.id WHEN NOT MATCHED THEN INSERT (id, city, n) VALUES (s.id, 'd', 4)").await;
    sync(&world, config("", "mode: append", "")).await.expect("they add only");
    same(&mut world).await;

    world.run("INSERT INTO ns.src VALUES (5, 'e', 5)").await;
    world.run("DELETE FROM ns.src WHERE id = 5").await;
    sync(&world, config("", "mode: append", "snapshots_per_commit: 2")).await.expect("in one batch the row never was");
    world.run("INSERT INTO ns.src VALUES (6, 'f', -6)").await;
    world.run("UPDATE ns.src SET n = -7 WHERE id = 6").await;
    world.run("DELETE FROM ns.src WHERE id = 6").await;
    sync(&world, config(", filter: 'n > 0'", "mode: append", "")).await.expect("the filter leaves no such row");
    same(&mut world).await;
    world.run("UPDATE ns.src SET city = 'z' WHERE id = 4").await;
    let e = sync(&world, config("", "mode: append", "")).await.expect_err("an update");
    assert!(e.to_string().contains("nothing was written"), "{e}");
}

#[tokio::test]
async fn filters_and_drops_columns() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in HISTORY {
        world.run(sql).await;
        sync(&world, config(", filter: 'n > 0 AND id < 60', drop: [city]", KEYED, "")).await.expect("sync");
        let source = world.rows("SELECT id, n FROM ns.src WHERE n > 0 AND id < 60").await;
        assert_eq!(source, world.rows("SELECT * FROM copy.dst").await, "{sql}");
    }
}

#[tokio::test]
async fn starts_where_it_is_told() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in &HISTORY[..2] {
        world.run(sql).await;
    }
    let report = sync(&world, config(", starting_strategy: latest", KEYED, "")).await.expect("sync");
    assert_eq!(report.snapshots, 0);
    assert!(world.rows("SELECT * FROM copy.dst").await.is_empty());
    world.run("INSERT INTO ns.src VALUES (1000, 'x', 1)").await;
    let report = sync(&world, config(", starting_strategy: latest", KEYED, "")).await.expect("sync");
    assert_eq!((report.snapshots, report.inserted), (1, 1));
    assert_eq!(world.rows("SELECT id FROM copy.dst").await, ["1000"]);
}

#[tokio::test]
async fn a_replaced_source_is_refused() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", KEYED, "id: one")).await.expect("sync");
    world.run("DROP TABLE ns.src").await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    let e = sync(&world, config("", KEYED, "id: one")).await.expect_err("another table");
    assert!(e.to_string().contains("UUID"), "{e}");
}

#[tokio::test]
async fn a_stream_ends_when_idle_and_after_a_count() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in &HISTORY[..4] {
        world.run(sql).await;
    }
    let streaming = ", streaming: true, poll_interval_seconds: 1, starting_strategy: earliest";
    let report = sync(&world, config(streaming, KEYED, "stop_after_snapshots: 2")).await.expect("two");
    assert_eq!(report.snapshots, 2);
    let report = sync(&world, config(streaming, KEYED, "stop_when_idle: true")).await.expect("the rest");
    assert_eq!(report.snapshots, 2);
    same(&mut world).await;
}

#[tokio::test]
async fn several_changes_of_a_key_in_one_batch_squash() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run("INSERT INTO ns.src VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)").await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    // the key moves to another row and back: what is left of each key is one delete and one insert at most
    for sql in [
        "UPDATE ns.src SET id = 10 WHERE id = 1",
        "INSERT INTO ns.src VALUES (1, 'new', 5)",
        "DELETE FROM ns.src WHERE id = 10",
        "DELETE FROM ns.src WHERE city = 'new'",
        "UPDATE ns.src SET id = 1 WHERE id = 2",
        "UPDATE ns.src SET n = n + 1 WHERE id = 3",
        "UPDATE ns.src SET n = n - 1 WHERE id = 3",
    ] {
        world.run(sql).await;
    }
    let report = sync(&world, config("", KEYED, "snapshots_per_commit: 100")).await.expect("sync");
    assert_eq!((report.snapshots, report.commits), (7, 1));
    assert_eq!((report.inserted, report.deleted), (1, 2), "1 is replaced, 2 is gone, 3 is as it was");
    same(&mut world).await;
}

/// One snapshot that removes a key, writes it, and writes it again: MERGE sees each row once, so it takes a commit by hand.
#[tokio::test]
async fn several_changes_of_a_key_in_one_snapshot_squash() {
    for (version, mode) in [(2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")] {
        let mut world = World::new().await;
        source(&mut world, version, mode, "").await;
        world.run("INSERT INTO ns.src VALUES (1, 'a', 1), (2, 'b', 2)").await;
        sync(&world, config("", KEYED, "")).await.expect("sync");
        // keys change places inside one snapshot
        world
            .run(
                "MERGE INTO ns.src USING (SELECT 1 AS id, 2 AS other UNION ALL SELECT 2, 1) s ON ns.src.id = s.id \
                 WHEN MATCHED THEN UPDATE SET id = s.other",
            )
            .await;
        let report = sync(&world, config("", KEYED, "")).await.expect("sync");
        assert_eq!((report.inserted, report.deleted), (2, 2));
        same(&mut world).await;
    }
}

#[tokio::test]
async fn a_key_that_does_not_identify_rows_is_refused() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run("INSERT INTO ns.src VALUES (1, 'a', 1), (1, 'b', 2)").await;
    sync(&world, config("", KEYED, "")).await.expect("inserts ask for no key");
    world.run("DELETE FROM ns.src WHERE city = 'a'").await;
    let before = world.rows("SELECT * FROM copy.dst").await;
    let e = sync(&world, config("", KEYED, "")).await.expect_err("which of the two?");
    assert!(e.to_string().contains("do not identify rows"), "{e}");
    assert_eq!(world.rows("SELECT * FROM copy.dst").await, before);
}

#[tokio::test]
async fn null_keys_are_values() {
    for target in [KEYED, "mode: copy-on-write, equality_columns: [id, city]"] {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        for sql in [
            "INSERT INTO ns.src VALUES (NULL, 'a', 1), (1, NULL, 2), (2, 'b', 3)",
            "UPDATE ns.src SET n = 10 WHERE id IS NULL",
            "UPDATE ns.src SET n = 11 WHERE city IS NULL; DELETE FROM ns.src WHERE city = 'a'",
            "DELETE FROM ns.src WHERE city IS NULL",
        ] {
            world.run(sql).await;
            sync(&world, config("", target, "")).await.unwrap_or_else(|e| panic!("{target} {sql}: {e}"));
            same(&mut world).await;
        }
    }
}

#[tokio::test]
async fn a_rolled_back_source_is_refused() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    world.run(HISTORY[1]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    let first = world.snapshots("src").await[0];
    world.run(&format!("CALL ice.system.rollback_to_snapshot(table => 'ns.src', snapshot_id => {first})")).await;
    let e = sync(&world, config("", KEYED, "")).await.expect_err("the position is no ancestor any more");
    assert!(e.to_string().contains("not an ancestor"), "{e}");
}

/// The lag that each event of a run tells.
async fn lags(world: &World, config: PipelineConfig) -> Vec<(usize, u64)> {
    let (_keep, stop) = watch::channel(false);
    let mut seen = Vec::new();
    let sync = Sync::with_catalogs(config, world.catalog.clone(), world.catalog.clone()).expect("sync");
    sync.run(stop, |e| match e {
        Event::Applied { lag, .. } | Event::Heartbeat { lag } => seen.push((lag.snapshots, lag.seconds)),
    })
    .await
    .expect("sync");
    seen
}

#[tokio::test]
async fn a_stream_tells_how_far_it_is_behind() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in &HISTORY[..3] {
        world.run(sql).await;
    }
    // compaction is no work
    world.run("CALL ice.system.rewrite_data_files(table => 'ns.src', options => map('rewrite-all', 'true'))").await;
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let streaming = ", streaming: true, poll_interval_seconds: 1, starting_strategy: earliest";
    let seen = lags(&world, config(streaming, KEYED, "stop_when_idle: true")).await;
    let snapshots: Vec<usize> = seen.iter().map(|s| s.0).collect();
    assert_eq!(snapshots, [2, 1, 0, 0], "three commits and a heartbeat");
    assert!(seen[0].1 >= 2 && seen[1].1 >= 2 && seen[3].1 == 0, "{seen:?}");
}

#[tokio::test]
async fn a_stream_starts_and_ends_where_it_is_told() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in &HISTORY[..3] {
        world.run(sql).await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let ids = world.snapshots("src").await;
    let times: Vec<i64> = {
        let t = world.table("src").await;
        ids.iter().map(|id| t.metadata().snapshot_by_id(*id).expect("snapshot").timestamp_ms()).collect()
    };
    let streaming = ", streaming: true, poll_interval_seconds: 1";
    // keys of later snapshots that have no row in the target, since the first was left out, are let go
    for (start, snapshots) in [
        (", starting_strategy: earliest".to_string(), 3),
        (", starting_strategy: latest".into(), 0),
        (String::new(), 0),
        (format!(", from_snapshot: {}", ids[1]), 2),
        (format!(", start_snapshot_id: {}", ids[1]), 1),
        (format!(", from_timestamp: {}", times[2]), 1),
        (format!(", starting_strategy: snapshot, from_snapshot: {}", ids[1]), 2),
        (format!(", starting_strategy: snapshot, start_snapshot_id: {}", ids[1]), 1),
        (format!(", starting_strategy: timestamp, from_timestamp: {}", times[1]), 2),
        (format!(", starting_strategy: timestamp, from_timestamp: {}", times[2] + 1), 0),
        (format!(", from_timestamp: {}, to_timestamp: {}", times[0], times[1]), 2),
        (format!(", from_snapshot: {}, to_snapshot: {}", ids[0], ids[1]), 2),
    ] {
        world.run("DROP TABLE IF EXISTS copy.dst").await;
        // a stream with an end needs no other bound
        let stop = if start.contains("to_") { "" } else { "stop_when_idle: true" };
        let text = format!("{streaming}{start}");
        let report = sync(&world, config(&text, KEYED, stop)).await.unwrap_or_else(|e| panic!("{start}: {e}"));
        assert_eq!(report.snapshots, snapshots, "{start}");
    }
    world.run("DROP TABLE IF EXISTS copy.dst").await;
    let text = format!("{streaming}, starting_strategy: earliest");
    let report = sync(&world, config(&text, KEYED, &format!("stop_at_snapshot: {}", ids[1]))).await.expect("bounded");
    assert_eq!(report.position, Some(ids[1]));
}
