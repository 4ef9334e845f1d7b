//! Schema changes of the source: refused with the statements that help, or made in the target too.

use floe_engine::ErrorKind;

use crate::support::World;
use crate::sync::{KEYED, config, same, source, sync};

const FULL: &str = "schema_evolution: full";

async fn start() -> World {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world
        .run("INSERT INTO ns.src SELECT CAST(id AS INT), CAST(id % 7 AS STRING), id * 10 FROM range(0, 20, 1, 1)")
        .await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    world
}

async fn refused(world: &World, evolution: &str, words: &[&str]) {
    let e = sync(world, config("", KEYED, evolution)).await.expect_err("must be refused");
    assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
    for w in words {
        assert!(e.to_string().contains(w), "{e} does not say {w:?}");
    }
}

#[tokio::test]
async fn a_new_column_is_refused_or_added() {
    let mut world = start().await;
    world.run("ALTER TABLE ns.src ADD COLUMN extra BIGINT; UPDATE ns.src SET extra = 5 WHERE id < 5").await;
    let words =
        ["column extra long is missing", "ALTER TABLE copy.dst ADD COLUMN extra BIGINT", "schema_evolution: add"];
    refused(&world, "", &words).await;
    sync(&world, config("", KEYED, "schema_evolution: add")).await.expect("added");
    same(&mut world).await;
}

/// The statement in the message is the one that helps.
#[tokio::test]
async fn the_statements_of_a_refusal_mend_it() {
    let mut world = start().await;
    let mut refusals = 0;
    for change in [
        "ALTER TABLE ns.src ADD COLUMN extra STRING; UPDATE ns.src SET extra = 'e' WHERE id < 5",
        "ALTER TABLE ns.src RENAME COLUMN extra TO more; UPDATE ns.src SET more = 'f' WHERE id = 7",
        "ALTER TABLE ns.src ADD COLUMN small INT; INSERT INTO ns.src VALUES (50, 'x', 1, 'm', 3)",
        "ALTER TABLE ns.src ALTER COLUMN small TYPE BIGINT; INSERT INTO ns.src VALUES (51, 'x', 1, 'm', 5000000000)",
    ] {
        world.run(change).await;
        if let Err(e) = sync(&world, config("", KEYED, "")).await {
            let text = e.to_string();
            let statement = text.split("Run: ").nth(1).and_then(|t| t.split("; or set").next()).expect("a statement");
            world.run(statement).await;
            sync(&world, config("", KEYED, "")).await.unwrap_or_else(|e| panic!("after {statement}: {e}"));
            refusals += 1;
        }
        same(&mut world).await;
    }
    assert_eq!(refusals, 4);
}

#[tokio::test]
async fn renames_need_full_evolution() {
    let mut world = start().await;
    world.run("ALTER TABLE ns.src RENAME COLUMN city TO town; UPDATE ns.src SET town = 'f' WHERE id = 1").await;
    for off in ["", "schema_evolution: add"] {
        let words = ["renamed column city to town", "RENAME COLUMN city TO town", FULL];
        refused(&world, off, &words).await;
    }
    sync(&world, config("", KEYED, FULL)).await.expect("renamed");
    same(&mut world).await;
    world
        .run(
            "ALTER TABLE ns.src ADD COLUMN a INT; ALTER TABLE ns.src ADD COLUMN b INT; \
             UPDATE ns.src SET a = 1, b = 2 WHERE id < 9",
        )
        .await;
    sync(&world, config("", KEYED, FULL)).await.expect("added");
    // two names change places: one after the other, it would be a conflict
    world
        .run(
            "ALTER TABLE ns.src RENAME COLUMN a TO c; ALTER TABLE ns.src RENAME COLUMN b TO a; \
             ALTER TABLE ns.src RENAME COLUMN c TO b; DELETE FROM ns.src WHERE id = 8",
        )
        .await;
    sync(&world, config("", KEYED, FULL)).await.expect("swapped");
    let columns = "SELECT id, town, n, a, b FROM";
    let want = world.rows(&format!("{columns} ns.src")).await;
    assert_eq!(world.rows(&format!("{columns} copy.dst")).await, want);
}

#[tokio::test]
async fn a_dropped_column_goes_with_full_evolution_and_stays_empty_without() {
    let change = "ALTER TABLE ns.src DROP COLUMN n; INSERT INTO ns.src VALUES (100, 'new')";
    let mut world = start().await;
    world.run(change).await;
    sync(&world, config("", KEYED, "")).await.expect("the target's column is its own business");
    assert_eq!(world.rows("SELECT id, n FROM copy.dst WHERE id IN (1, 100)").await, ["100|NULL", "1|10"]);
    let mut world = start().await;
    world.run(change).await;
    sync(&world, config("", KEYED, FULL)).await.expect("dropped");
    same(&mut world).await;
}

#[tokio::test]
async fn a_name_that_comes_again_is_another_column() {
    let mut world = start().await;
    world
        .run(
            "ALTER TABLE ns.src DROP COLUMN n; ALTER TABLE ns.src ADD COLUMN n BIGINT; \
             UPDATE ns.src SET n = 1 WHERE id = 3",
        )
        .await;
    for off in ["", "schema_evolution: add"] {
        refused(&world, off, &["dropped column n", FULL]).await;
    }
    sync(&world, config("", KEYED, FULL)).await.expect("replaced");
    same(&mut world).await;
    // and not once more
    world.run("UPDATE ns.src SET n = 2 WHERE id = 4; UPDATE ns.src SET n = 3 WHERE id = 5").await;
    sync(&world, config("", KEYED, FULL)).await.expect("followed");
    same(&mut world).await;
}

#[tokio::test]
async fn types_widen_and_structs_grow() {
    let mut world = World::new().await;
    world
        .run(
            "CREATE TABLE ns.src (id INT, s STRUCT<x: INT, y: STRING>) USING iceberg \
             TBLPROPERTIES('format-version'='3', 'write.update.mode'='merge-on-read'); \
             INSERT INTO ns.src SELECT 1, named_struct('x', 1, 'y', 'a')",
        )
        .await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    same(&mut world).await;
    world
        .run(
            "ALTER TABLE ns.src ADD COLUMN s.z INT; ALTER TABLE ns.src ALTER COLUMN s.x TYPE BIGINT; \
             ALTER TABLE ns.src ALTER COLUMN id TYPE BIGINT; \
             INSERT INTO ns.src SELECT 5000000000, named_struct('x', 6000000000, 'y', 'b', 'z', 3)",
        )
        .await;
    let words = ["s.z", "ADD COLUMN s.z INT", "ALTER COLUMN s.x TYPE BIGINT", "ALTER COLUMN id TYPE BIGINT"];
    refused(&world, "", &words).await;
    sync(&world, config("", KEYED, "schema_evolution: add")).await.expect("grown");
    same(&mut world).await;
}

/// The first sync meets a source whose schema moved long ago.
#[tokio::test]
async fn a_history_with_schema_changes_is_followed_from_the_start() {
    for evolution in ["", "schema_evolution: add", FULL, "schema_evolution: full, snapshots_per_commit: 10"] {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        world
            .run(
                "INSERT INTO ns.src VALUES (1, 'a', 1), (2, 'b', 2); ALTER TABLE ns.src RENAME COLUMN city TO town; \
                 UPDATE ns.src SET n = 5 WHERE id = 1; ALTER TABLE ns.src DROP COLUMN n; \
                 ALTER TABLE ns.src ADD COLUMN n STRING; INSERT INTO ns.src VALUES (3, 'c', 'n')",
            )
            .await;
        sync(&world, config("", KEYED, evolution)).await.unwrap_or_else(|e| panic!("{evolution}: {e}"));
        same(&mut world).await;
    }
}
