//! Exactly once: other writers of the target, two syncs of one, death at every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{Mortal, World, catalog_over, finished};
use crate::sync::{HISTORY, KEYED, config, same, source, sync, sync_over};
use floe_engine::cdc::sync::Sync;
use floe_engine::sql::Session;
use floe_engine::{Error, ErrorKind};
use tokio::sync::watch;

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
async fn another_writer_at_the_same_time_is_no_obstacle() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    for sql in &HISTORY[1..] {
        world.run(sql).await;
    }
    let mut theirs = Session::new(world.catalog.clone(), "ice");
    let foreign = async {
        for i in 0..8 {
            let sql = format!("INSERT INTO copy.dst VALUES ({}, 'theirs', 0)", -1 - i);
            theirs.execute(&sql).await.expect("insert");
        }
    };
    let (done, ()) = tokio::join!(sync(&world, config("", KEYED, "")), foreign);
    done.expect("sync");
    let mut want = world.rows("SELECT * FROM ns.src").await;
    want.extend((1..=8).map(|i| format!("-{i}|theirs|0")));
    want.sort();
    assert_eq!(world.rows("SELECT * FROM copy.dst").await, want);
}

#[tokio::test]
async fn a_writer_that_is_always_first_is_named() {
    let mut world = World::new().await;
    source(&mut world, 3, "merge-on-read", "").await;
    world.run(HISTORY[0]).await;
    sync(&world, config("", KEYED, "")).await.expect("sync");
    world.run(HISTORY[1]).await;
    let before = world.rows("SELECT * FROM copy.dst").await;
    let store = Mortal::new();
    let (catalog, n) = (world.catalog.clone(), Arc::new(AtomicI64::new(0)));
    let counted = n.clone();
    *store.before_commit.lock().expect("no panic") = Some(Arc::new(move || {
        let (catalog, n) = (catalog.clone(), counted.clone());
        Box::pin(async move {
            let i = n.fetch_add(1, Ordering::SeqCst) + 1;
            let mut theirs = Session::new(catalog, "ice");
            theirs.execute(&format!("INSERT INTO copy.dst VALUES (-{i}, 'theirs', 0)")).await.expect("insert");
        })
    }));
    let contested = catalog_over(world.dir.path(), store.clone());
    let e = sync_over(&world, config("", KEYED, ""), contested).await.expect_err("always second");
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    let ids = world.rows("SELECT snapshot_id FROM copy.dst.snapshots").await;
    assert!(ids.iter().any(|id| e.to_string().contains(id)), "no snapshot is named: {e}");
    let mut want = before;
    want.extend((1..=n.load(Ordering::SeqCst)).map(|i| format!("-{i}|theirs|0")));
    want.sort();
    assert_eq!(world.rows("SELECT * FROM copy.dst").await, want, "a sync that gave up left something");
    sync(&world, config("", KEYED, "")).await.expect("now it is alone");
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

/// Killed at the n-th I/O operation on the target, for every n, then run again: no row lost, none doubled.
async fn killed_everywhere(target: &str, sync: &str, source_too: bool) {
    let mut n = 0;
    let run = async |world: &World, mortal: &Arc<dyn floe_engine::catalog::Catalog>| {
        let from = if source_too { mortal.clone() } else { world.catalog.clone() };
        let (_keep, stop) = watch::channel(false);
        Sync::with_catalogs(config("", target, sync), from, mortal.clone())?.run(stop, |_| {}).await
    };
    loop {
        let mut world = World::new().await;
        source(&mut world, 3, "merge-on-read", "").await;
        world.run(HISTORY[0]).await;
        let store = Mortal::new();
        let mortal = catalog_over(world.dir.path(), store.clone());
        run(&world, &mortal).await.expect("first load");
        for sql in &HISTORY[1..3] {
            world.run(sql).await;
        }
        store.die_after(n);
        let died = run(&world, &mortal).await;
        store.revive();
        let finished = finished(died);
        // whatever is visible after the death is a whole prefix of the source's history
        let seen = world.rows("SELECT * FROM copy.dst").await;
        let mut prefix = false;
        for id in world.snapshots("src").await {
            prefix |= seen == world.rows(&format!("SELECT * FROM ns.src VERSION AS OF {id}")).await;
        }
        assert!(prefix, "killed at {n}: the target is no snapshot of the source");
        run(&world, &mortal).await.unwrap_or_else(|e: Error| panic!("restart after {n}: {e}"));
        same(&mut world).await;
        if finished {
            assert!(n > 10, "the sync did {n} operations only");
            return;
        }
        n += 1;
    }
}

#[tokio::test]
async fn killed_at_any_operation_of_merge_on_read() {
    killed_everywhere(KEYED, "", false).await;
}

#[tokio::test]
async fn killed_at_any_operation_of_copy_on_write() {
    killed_everywhere("mode: copy-on-write, equality_columns: [id]", "", false).await;
}

#[tokio::test]
async fn killed_at_any_operation_on_either_side() {
    killed_everywhere(KEYED, "snapshots_per_commit: 2", true).await;
}

#[tokio::test]
async fn killed_at_any_operation_of_equality_deletes() {
    killed_everywhere(KEYED, "delete_format: equality", false).await;
}
