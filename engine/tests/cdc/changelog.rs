//! rows(from) + changes = rows(to), for each pair of snapshots and for every range, net or not, on random histories.

use std::collections::BTreeMap;

use crate::support::{World, apply, bag};
use floe_engine::ErrorKind;
use floe_engine::cdc::config::Columns;
use floe_engine::cdc::{End, MetaColumns, Start};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Columns of the tables.
const COLUMNS: usize = 3;

async fn rows_at(world: &mut World, id: Option<i64>) -> BTreeMap<String, i64> {
    match id {
        None => BTreeMap::new(),
        Some(id) => bag(&world.rows(&format!("SELECT * FROM ns.t VERSION AS OF {id}")).await),
    }
}

/// The law on every range of the table's history.
async fn law(world: &mut World, history: &str) {
    let ids: Vec<Option<i64>> = std::iter::once(None).chain(world.snapshots("t").await.into_iter().map(Some)).collect();
    let mut states = Vec::new();
    for id in &ids {
        states.push(rows_at(world, *id).await);
    }
    for from in 0..ids.len() {
        for to in from + 1..ids.len() {
            for variant in 0..4 {
                let start = ids[from].map_or(Start::Beginning, |id| Start::After(id.to_string()));
                let end = End::At(ids[to].expect("a snapshot").to_string());
                let changes = world
                    .try_changes("t", |b| {
                        let b = b.range(start, end).meta_columns(MetaColumns::Spark);
                        match variant {
                            0 => b,
                            1 => b.net_changes(true),
                            2 => b.identifier_columns(vec!["id".into()]),
                            // little memory: several passes over the files
                            _ => b.identifier_columns(vec!["id".into()]).net_changes(true).memory(1),
                        }
                    })
                    .await
                    .unwrap_or_else(|e| panic!("{history}\n{from}..{to} variant {variant}: {e}"));
                let mut rows = states[from].clone();
                apply(&mut rows, &changes, COLUMNS).expect("changes");
                assert_eq!(rows, states[to], "{history}\nrange {from}..{to} variant {variant}");
            }
        }
    }
}

fn statement() -> impl Strategy<Value = String> {
    let id = 0..40i32;
    prop_oneof![
        3 => (id.clone(), 1..12i32).prop_map(|(a, n)| format!(
            "INSERT INTO ns.t SELECT CAST(id AS INT), CAST(id % 3 AS STRING), id FROM range({a}, {}, 1, 1)", a + n
        )),
        2 => (id.clone(), 1..8i32).prop_map(|(a, n)| format!("DELETE FROM ns.t WHERE id BETWEEN {a} AND {}", a + n)),
        2 => (id.clone(), 1..8i32, 0..3i32).prop_map(|(a, n, v)| format!(
            "UPDATE ns.t SET n = n + {v} WHERE id BETWEEN {a} AND {}", a + n
        )),
        1 => (id.clone(), 0..3i32).prop_map(|(a, c)| format!("UPDATE ns.t SET city = '{c}' WHERE id = {a}")),
        1 => id.clone().prop_map(|a| format!(
            "MERGE INTO ns.t USING (SELECT CAST(id AS INT) AS id FROM range({a}, {}, 1, 1)) s ON ns.t.id = s.id AND ns.t.n < 0 \
             WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, city, n) VALUES (s.id, 'm', -1)", a + 3
        )),
        1 => Just("INSERT OVERWRITE ns.t SELECT id, city, n FROM ns.t WHERE id % 2 = 0".to_string()),
        1 => Just("UPDATE ns.t SET n = n".to_string()),
        1 => Just("DELETE FROM ns.t WHERE city = '1'".to_string()),
        1 => Just("ALTER TABLE ns.t SET TBLPROPERTIES('format-version'='3')".to_string()),
        1 => Just("ALTER TABLE ns.t SET TBLPROPERTIES('write.delete.mode'='copy-on-write', 'write.update.mode'='copy-on-write')".to_string()),
    ]
}

#[test]
fn changes_lead_from_any_snapshot_to_any_later_one() {
    let cases = std::env::var("FLOE_LAW_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 40, ..Config::default() });
    let strategy = (
        prop_oneof![Just(2), Just(3)],
        prop_oneof![Just("merge-on-read"), Just("copy-on-write")],
        prop_oneof![Just(""), Just("PARTITIONED BY (city)")],
        proptest::collection::vec(statement(), 2..7),
    );
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runner
        .run(&strategy, |(version, mode, partition, statements)| {
            runtime.block_on(async {
                let mut world = World::new().await;
                let create = format!(
                    "CREATE TABLE ns.t (id INT, city STRING, n BIGINT) USING iceberg {partition} TBLPROPERTIES('format-version'='{version}', \
                     'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}')"
                );
                world.run(&create).await;
                for s in &statements {
                    world.run(s).await;
                }
                law(&mut world, &format!("{create}; {}", statements.join("; "))).await;
            });
            Ok(())
        })
        .expect("the law holds");
}

async fn table(world: &mut World, version: u8) {
    world
        .run(&format!(
            "CREATE TABLE ns.t (id INT, city STRING, n BIGINT) USING iceberg TBLPROPERTIES('format-version'='{version}', \
             'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read')"
        ))
        .await;
}

#[tokio::test]
async fn row_lineage_pairs_updates_without_identifier_columns() {
    let mut world = World::new().await;
    table(&mut world, 3).await;
    world.run("INSERT INTO ns.t VALUES (1, 'a', 1), (2, 'b', 2); UPDATE ns.t SET n = 5 WHERE id = 2; DELETE FROM ns.t WHERE id = 1").await;
    let ids = world.snapshots("t").await;
    let got = world
        .changes("t", |b| {
            b.range(Start::After(ids[0].to_string()), End::Head).compute_updates(true).meta_columns(MetaColumns::Type)
        })
        .await;
    assert_eq!(got, ["1|a|1|DELETE", "2|b|2|UPDATE_BEFORE", "2|b|5|UPDATE_AFTER"]);
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_change() {
    for version in [2, 3] {
        let mut world = World::new().await;
        table(&mut world, version).await;
        world.run("INSERT INTO ns.t VALUES (1, 'a', 1), (1, 'a', 1); UPDATE ns.t SET n = 1").await;
        let ids = world.snapshots("t").await;
        assert_eq!(world.changes("t", |b| b.range(Start::At(ids[1].to_string()), End::Head)).await, [""; 0]);
        // multiplicity counts (case G8)
        world.run("DELETE FROM ns.t WHERE id = 1; INSERT INTO ns.t VALUES (1, 'a', 1)").await;
        let net = world
            .changes("t", |b| {
                b.net_changes(true).range(Start::After(ids[1].to_string()), End::Head).meta_columns(MetaColumns::Type)
            })
            .await;
        assert_eq!(net, ["1|a|1|DELETE"]);
    }
}

#[tokio::test]
async fn ranges_are_checked() {
    let mut world = World::new().await;
    table(&mut world, 3).await;
    assert!(world.changes("t", |b| b).await.is_empty(), "a table without snapshots has no changes");
    world.run("INSERT INTO ns.t VALUES (1, 'a', 1); INSERT INTO ns.t VALUES (2, 'b', 2)").await;
    let ids = world.snapshots("t").await;
    let future = i64::MAX / 4;
    // case G4
    assert!(world.changes("t", |b| b.range(Start::AfterTime(future), End::Head)).await.is_empty());
    assert!(world.changes("t", |b| b.range(Start::Beginning, End::AtTime(1))).await.is_empty());
    assert!(world.changes("t", |b| b.range(Start::After(ids[1].to_string()), End::Head)).await.is_empty());
    assert_eq!(world.changes("t", |b| b.range(Start::At(ids[1].to_string()), End::Head)).await.len(), 1);
    let e = world
        .try_changes("t", |b| b.range(Start::After(ids[1].to_string()), End::At(ids[0].to_string())))
        .await
        .expect_err("backwards");
    assert!(e.to_string().contains("not an ancestor"), "{e}");
    let e = world.try_changes("t", |b| b.range(Start::After("12345".into()), End::Head)).await.expect_err("unknown");
    assert_eq!(e.kind(), ErrorKind::NotFound);
    let e =
        world.try_changes("t", |b| b.range(Start::After("nobranch".into()), End::Head)).await.expect_err("unknown ref");
    assert!(e.to_string().contains("nobranch"), "{e}");
    world.run(&format!("ALTER TABLE ns.t CREATE TAG one AS OF VERSION {}", ids[0])).await;
    assert_eq!(world.changes("t", |b| b.range(Start::After("one".into()), End::Head)).await.len(), 1);
}

#[tokio::test]
async fn columns_filters_and_table_function() {
    let mut world = World::new().await;
    table(&mut world, 3).await;
    world.run("INSERT INTO ns.t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3); UPDATE ns.t SET n = 20 WHERE id = 2; UPDATE ns.t SET city = 'z' WHERE id = 3").await;
    let kept = world.changes("t", |b| b.columns(Columns::Keep(vec!["n".into()])).meta_columns(MetaColumns::Type)).await;
    assert_eq!(
        kept,
        ["1|INSERT", "20|INSERT", "2|DELETE", "2|INSERT", "3|INSERT"],
        "a change of a dropped column is none"
    );
    let filtered = world
        .changes("t", |b| {
            b.filter(Some("n < 10".into())).columns(Columns::Drop(vec!["city".into()])).meta_columns(MetaColumns::Type)
        })
        .await;
    assert_eq!(filtered, ["1|1|INSERT", "2|2|DELETE", "2|2|INSERT", "3|3|INSERT"]);
    let e = world.try_changes("t", |b| b.filter(Some("nope = 1".into()))).await.expect_err("no such column");
    assert!(e.to_string().contains("filter"), "{e}");
    let ids = world.snapshots("t").await;
    let sql = format!(
        "SELECT id, n, _change_type FROM table_changes('ns.t', {}, {}) WHERE _change_ordinal = 0",
        ids[0], ids[1]
    );
    assert_eq!(world.rows(&sql).await, ["2|20|INSERT", "2|2|DELETE"]);
    assert_eq!(world.rows("SELECT count(*) FROM ns.t.changes").await, ["7"]);
}

#[tokio::test]
async fn spark_options_of_the_view() {
    let mut world = World::new().await;
    table(&mut world, 3).await;
    world.run("INSERT INTO ns.t VALUES (1, 'a', 1); UPDATE ns.t SET n = 2").await;
    let ids = world.snapshots("t").await;
    world
        .run(&format!(
            "CALL system.create_changelog_view(table => 'ns.t', options => map('start-snapshot-id', '{}'), identifier_columns => array('id'))",
            ids[0]
        ))
        .await;
    assert_eq!(world.rows("SELECT n, _change_type FROM t_changes").await, ["1|UPDATE_BEFORE", "2|UPDATE_AFTER"]);
    for (call, word) in [
        ("options => map('start', '1')", "start-snapshot-id"),
        ("options => map('start-snapshot-id', '1', 'end-timestamp', '2')", "mixed"),
        ("identifier_columns => array('nope')", "nope"),
        ("net_changes => true, compute_updates => true", "combined"),
    ] {
        let e = world
            .session
            .execute_one(&format!("CALL system.create_changelog_view(table => 'ns.t', {call})"))
            .await
            .expect_err(call);
        assert!(e.to_string().contains(word), "{call}: {e}");
    }
}
