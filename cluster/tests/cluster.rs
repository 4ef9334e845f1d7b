//! Statements on a scheduler and two executors give the rows that they give without them.

mod support;

use support::{cluster, play, scenarios, warehouse};

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_give_the_same_rows_on_two_executors() {
    let cluster = cluster(1).await;
    for (name, steps) in scenarios() {
        let want = play(&mut warehouse(None), &steps, false).await;
        let got = play(&mut warehouse(Some(cluster.rule())), &steps, false).await;
        for (want, got) in want.iter().zip(&got) {
            assert_eq!(want, got, "{name}");
        }
    }
    println!("{} jobs, {} plans kept", cluster.jobs(), cluster.kept());
    assert!(cluster.jobs() > 200, "{} jobs", cluster.jobs());
}

/// Tables with partitions, and the statements that need them to meet.
const TABLES: &str = "
    CREATE NAMESPACE ice.ns;
    CREATE TABLE ns.t (id BIGINT, g INT, s STRING, d DOUBLE) PARTITIONED BY (bucket(4, id)) TBLPROPERTIES (
        'format-version' = '3', 'write.delete.mode' = 'MODE', 'write.update.mode' = 'MODE', 'write.merge.mode' = 'MODE',
        'read.split.target-size' = '1');
    INSERT INTO ns.t SELECT id, CAST(id % 7 AS INT), concat('row ', id), id / 4 FROM range(4000);
    INSERT INTO ns.t SELECT id, NULL, NULL, NULL FROM range(4000, 4100);
    CREATE TABLE ns.s (id BIGINT, s STRING) TBLPROPERTIES ('format-version' = '3', 'read.split.target-size' = '1');
    INSERT INTO ns.s SELECT id * 3, concat('new ', id) FROM range(500);
    INSERT INTO ns.s SELECT 10000 + id, concat('new ', id) FROM range(500);
";

const STATEMENTS: [&str; 12] = [
    "DELETE FROM ns.t WHERE g = 3 AND d > 100",
    "UPDATE ns.t SET s = upper(s), d = d + 1 WHERE id % 10 = 4",
    "MERGE INTO ns.t USING ns.s ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET s = s.s \
     WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, s.s)",
    "MERGE INTO ns.t USING ns.s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, g, s, d) VALUES (s.id, 9, s.s, 0)",
    "MERGE INTO ns.t USING (SELECT * FROM ns.s WHERE id < 600) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET g = 99 \
     WHEN NOT MATCHED BY SOURCE AND t.g = 5 THEN DELETE",
    "DELETE FROM ns.t WHERE id IN (SELECT id FROM ns.s WHERE id % 9 = 0)",
    "DELETE FROM ns.t WHERE id NOT IN (SELECT id + 1 FROM ns.s) AND g = 6",
    "INSERT INTO ns.t SELECT t.id + 100000, t.g, s.s, t.d FROM ns.t JOIN ns.s ON t.id = s.id",
    "UPDATE ns.t SET s = NULL",
    "DELETE FROM ns.t WHERE g IS NULL",
    "INSERT OVERWRITE ns.s SELECT id, s FROM ns.s WHERE id < 900",
    "DELETE FROM ns.t WHERE id < 1000",
];

const QUERIES: [&str; 12] = [
    "SELECT * FROM ns.t",
    "SELECT count(*), sum(id), min(s), max(d) FROM ns.t",
    "SELECT g, count(*), sum(d), max(s) FROM ns.t GROUP BY g",
    "SELECT id, s FROM ns.t WHERE s LIKE '%9' AND d < 800 ORDER BY id DESC LIMIT 17",
    "SELECT t.id, t.s, s.s FROM ns.t LEFT JOIN ns.s ON t.id = s.id",
    "SELECT t.id, s.id FROM ns.t FULL JOIN ns.s ON t.id = s.id",
    "SELECT count(*) FROM ns.t WHERE EXISTS (SELECT 1 FROM ns.s WHERE s.id = t.id)",
    "SELECT id FROM ns.t WHERE id NOT IN (SELECT id FROM ns.s)",
    "SELECT a.id, b.id FROM ns.s a JOIN ns.s b ON a.id < b.id AND a.s = b.s",
    "SELECT g, row_number() OVER (PARTITION BY g ORDER BY id) FROM ns.t",
    "SELECT _spec_id, _partition, count(*), count(_pos), count(_row_id) FROM ns.t GROUP BY 1, 2",
    "SELECT DISTINCT g FROM ns.t UNION ALL SELECT 1 FROM ns.s WHERE id = 3",
];

async fn same(mode: &str) {
    let cluster = cluster(1).await;
    let (mut here, mut there) = (warehouse(None), warehouse(Some(cluster.rule())));
    for w in [&mut here, &mut there] {
        w.run(&TABLES.replace("MODE", mode)).await;
    }
    for (n, statement) in STATEMENTS.into_iter().enumerate() {
        here.run(statement).await;
        there.run(statement).await;
        // every query after the first statement and the last; in between each has its turns
        let all = n == 0 || n + 1 == STATEMENTS.len();
        for (_, q) in QUERIES.into_iter().enumerate().filter(|(i, _)| all || *i == 0 || (n + i) % 4 == 0) {
            let before = cluster.jobs();
            let (want, got) = (here.rows(q).await, there.rows(q).await);
            assert!(want.is_ok(), "{q}: {want:?}");
            assert_eq!(want, got, "{mode}: {q} after {statement}");
            // this one needs all rows of its subquery in one memory
            assert!(cluster.jobs() > before || q.contains("NOT IN"), "{q} did not run on the cluster");
        }
        let snapshots = "SELECT count(*) FROM ns.t.snapshots";
        assert_eq!(here.rows(snapshots).await, there.rows(snapshots).await, "{statement}");
    }
    println!("{mode}: {} jobs, {} plans kept", cluster.jobs(), cluster.kept());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_over_partitions_merge_on_read() {
    same("merge-on-read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_over_partitions_copy_on_write() {
    same("copy-on-write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_inputs_submit_no_job() {
    let cluster = cluster(floe_cluster::MIN_BYTES).await;
    let mut w = warehouse(Some(cluster.rule()));
    w.run(&TABLES.replace("MODE", "merge-on-read")).await;
    for s in STATEMENTS {
        w.run(s).await;
    }
    for q in QUERIES {
        assert!(w.rows(q).await.is_ok(), "{q}");
    }
    assert_eq!(cluster.jobs(), 0);
    assert!(cluster.kept() >= QUERIES.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_tasks_come_back() {
    let cluster = cluster(1).await;
    let (mut here, mut there) = (warehouse(None), warehouse(Some(cluster.rule())));
    for w in [&mut here, &mut there] {
        w.run(&TABLES.replace("MODE", "merge-on-read")).await;
    }
    // the text is no number: a task fails, not the plan
    let q = "SELECT CAST(s AS INT) FROM ns.t WHERE id = 5";
    assert_eq!(here.rows(q).await, there.rows(q).await);
    let merge =
        "MERGE INTO ns.t USING (SELECT id % 5 AS id FROM ns.s) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET g = 1";
    let (want, got) = (here.rows(merge).await, there.rows(merge).await);
    assert!(want.is_err());
    assert_eq!(want, got);
    let all = "SELECT count(*), sum(g) FROM ns.t";
    assert_eq!(here.rows(all).await, there.rows(all).await);
}
