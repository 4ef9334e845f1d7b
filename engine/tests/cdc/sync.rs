//! A target follows its source: created, updated, restarted, killed at every step.

use std::sync::Arc;

use crate::support::{Mortal, World, catalog_over};
use floe_engine::ErrorKind;
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::{Report, Sync};
use floe_engine::{Error, Result};
use tokio::sync::watch;

const KEYED: &str = "mode: merge-on-read, equality_columns: [id]";

fn config(source: &str, target: &str, sync: &str) -> PipelineConfig {
    let text = format!("source: {{table: ns.src{source}}}\ntarget: {{table: copy.dst, {target}}}\nsync: {{{sync}}}");
    PipelineConfig::parse(&text, "test").unwrap_or_else(|e| panic!("{text}\n{e}"))
}

async fn sync_over(
    world: &World,
    config: PipelineConfig,
    target: Arc<dyn floe_engine::catalog::Catalog>,
) -> Result<Report> {
    let (_keep, stop) = watch::channel(false);
    Sync::with_catalogs(config, world.catalog.clone(), target)?.run(stop, |_| {}).await
}

async fn sync(world: &World, config: PipelineConfig) -> Result<Report> {
    sync_over(world, config, world.catalog.clone()).await
}

async fn same(world: &mut World) {
    let source = world.rows("SELECT * FROM ns.src").await;
    let target = world.rows("SELECT * FROM copy.dst").await;
    assert_eq!(source, target);
}

async fn source(world: &mut World, version: u8, mode: &str, partition: &str) {
    world
        .run(&format!(
            "CREATE TABLE ns.src (id INT, city STRING, n BIGINT) USING iceberg {partition} TBLPROPERTIES('format-version'='{version}', \
             'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}')"
        ))
        .await;
}

const HISTORY: [&str; 7] = [
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
    let table = floe_engine::cdc::table_ident("copy.dst").expect("name");
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
async fn a_new_column_is_refused_or_added() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    world.run("ALTER TABLE ns.src ADD COLUMN extra STRING; UPDATE ns.src SET extra = 'e' WHERE id < 5").await;
    let e = sync(&world, config("", KEYED, "")).await.expect_err("a column is missing");
    assert!(
        e.to_string().contains("extra") && e.to_string().contains("ALTER TABLE copy.dst ADD COLUMN extra STRING"),
        "{e}"
    );
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
    sync(&world, config("", KEYED, "schema_evolution: add")).await.expect("added");
    same(&mut world).await;
    world.run("ALTER TABLE ns.src RENAME COLUMN extra TO more; UPDATE ns.src SET more = 'f' WHERE id = 1").await;
    sync(&world, config("", KEYED, "schema_evolution: full")).await.expect("renamed");
    same(&mut world).await;
    world.run("ALTER TABLE ns.src DROP COLUMN more; DELETE FROM ns.src WHERE id = 1").await;
    sync(&world, config("", KEYED, "schema_evolution: full")).await.expect("dropped");
    same(&mut world).await;
}

#[tokio::test]
async fn another_writer_of_the_target_is_no_obstacle() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    world.run("INSERT INTO copy.dst VALUES (-1, 'theirs', 0)").await;
    world.run(HISTORY[1]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    let mut want = world.rows("SELECT * FROM ns.src").await;
    want.push("-1|theirs|0".into());
    want.sort();
    assert_eq!(world.rows("SELECT * FROM copy.dst").await, want);
}

#[tokio::test]
async fn two_syncs_at_once_are_both_right() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    for sql in HISTORY {
        world.run(sql).await;
    }
    let (a, b) = tokio::join!(sync(&world, config("", KEYED, "")), sync(&world, config("", KEYED, "")));
    let commits: u64 = [a, b].into_iter().map(|r| r.expect("a sync").commits).sum();
    assert_eq!(commits, 7, "every snapshot went in once");
    same(&mut world).await;
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

/// Killed at the n-th I/O operation on the target, for every n, then run again: no row lost, none doubled.
async fn killed_everywhere(target: &str, step_by: i64) {
    let mut n = 0;
    loop {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        world.run(HISTORY[0]).await;
        let store = Mortal::new();
        let mortal = catalog_over(world.dir.path(), store.clone());
        sync_over(&world, config("", target, ""), mortal.clone()).await.expect("first load");
        for sql in &HISTORY[1..3] {
            world.run(sql).await;
        }
        store.die_after(n);
        let died = sync_over(&world, config("", target, ""), mortal.clone()).await;
        store.revive();
        let finished = match died {
            Ok(_) => true,
            Err(e) => {
                let text = e.to_string();
                assert!(
                    text.contains("died") || matches!(e.kind(), ErrorKind::Io | ErrorKind::CommitUnknown),
                    "{text}"
                );
                false
            }
        };
        // whatever is visible after the death is a whole prefix of the source's history
        let seen = world.rows("SELECT * FROM copy.dst").await;
        let mut prefix = false;
        for id in world.snapshots("src").await {
            prefix |= seen == world.rows(&format!("SELECT * FROM ns.src VERSION AS OF {id}")).await;
        }
        assert!(prefix, "killed at {n}: the target is no snapshot of the source");
        sync_over(&world, config("", target, ""), mortal)
            .await
            .unwrap_or_else(|e: Error| panic!("restart after {n}: {e}"));
        same(&mut world).await;
        if finished {
            assert!(n > 10, "the sync did {n} operations only");
            return;
        }
        n += step_by;
    }
}

#[tokio::test]
async fn killed_at_any_operation_of_merge_on_read() {
    killed_everywhere(KEYED, 1).await;
}

#[tokio::test]
async fn killed_at_any_operation_of_copy_on_write() {
    killed_everywhere("mode: copy-on-write, equality_columns: [id]", 1).await;
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
