//! An executor that is killed while it works costs time, never rows; the commit is made once.

mod support;

use std::sync::Arc;
use std::time::Duration;

use floe_cluster::{Cluster, Layout, Local};
use support::{program, warehouse};

const TABLE: &str = "
    CREATE NAMESPACE ice.ns;
    CREATE TABLE ns.t (id BIGINT, g INT, s STRING) PARTITIONED BY (bucket(8, id)) TBLPROPERTIES (
        'format-version' = '3', 'write.delete.mode' = 'MODE', 'write.update.mode' = 'MODE', 'write.merge.mode' = 'MODE',
        'read.split.target-size' = '1');
    INSERT INTO ns.t SELECT id, CAST(id % 7 AS INT), concat('row ', id) FROM range(400000);
";

/// Slow on purpose: a task takes long enough to be killed in its middle.
const SLOW: &str = "md5(concat(md5(concat(md5(concat(md5(concat(md5(s), s)), s)), s)), s)) <> 'x'";

/// Runs `statement` on two executors of which one is killed while the job runs; the table is as it is without a cluster.
async fn killed_in(mode: &str, statement: &str) {
    let mut here = warehouse(None);
    here.run(&TABLE.replace("MODE", mode)).await;
    here.run(statement).await;
    let local = Local::start(program(), &Layout { lost_after: 4, ..Layout::default() }).expect("a cluster");
    let cluster = Cluster::connect(&local.url()).await.expect("a scheduler").min_bytes(1).while_alive(local.alive());
    let cluster = Arc::new(cluster);
    let mut there = warehouse(Some(cluster.rule()));
    there.run(&TABLE.replace("MODE", mode)).await;
    let before = there.rows("SELECT snapshot_id FROM ns.t.snapshots").await.expect("snapshots").len();
    let killer = async {
        // a first partition is done, others are not
        while cluster.jobs() == 0 || local.rows_written(0) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(local.kill(0));
    };
    {
        let work = there.session.execute_one(statement);
        tokio::pin!(work);
        let early = tokio::select! {
            done = &mut work => Some(done),
            () = killer => None,
        };
        assert!(early.is_none(), "the statement ended before an executor was killed: {early:?}");
        work.await.expect("the statement ends well");
    }
    let after = there.rows("SELECT snapshot_id FROM ns.t.snapshots").await.expect("snapshots").len();
    assert_eq!(after, before + 1, "one statement, one snapshot");
    for q in ["SELECT count(*), sum(id), sum(g) FROM ns.t", "SELECT g, count(*), min(s), max(s) FROM ns.t GROUP BY g"] {
        assert_eq!(here.rows(q).await, there.rows(q).await, "{q}");
    }
    // what the table says of its files is all that is there: no task left a file behind
    let listed = there.rows("SELECT file_path FROM ns.t.all_files").await.expect("files").len();
    let found = files(there.dir.path()).len();
    assert!(found <= listed, "{found} files in the folder, {listed} in the table");
}

fn files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut out = Vec::new();
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = e.path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "parquet" || e == "puffin") {
            out.push(path);
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_survives_an_executor() {
    killed_in("merge-on-read", &format!("DELETE FROM ns.t WHERE g = 2 AND {SLOW}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_an_executor() {
    killed_in("merge-on-read", &format!("UPDATE ns.t SET s = concat(s, '!') WHERE g = 2 AND {SLOW}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_survives_an_executor() {
    let merge = format!(
        "MERGE INTO ns.t USING (SELECT id * 3 AS id FROM range(1000)) s ON t.id = s.id AND {SLOW} \
         WHEN MATCHED THEN UPDATE SET g = 100 WHEN NOT MATCHED THEN INSERT (id, g, s) VALUES (s.id, 1, 'new')"
    );
    killed_in("copy-on-write", &merge).await;
}
