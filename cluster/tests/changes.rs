//! Changelogs whose files are read on executors, and syncs of them: the rows and the target are those without a cluster.

mod support;

use std::sync::Arc;

use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;
use support::{Warehouse, cluster, warehouse};

const TABLES: &str = "
    CREATE NAMESPACE ice.ns;
    CREATE TABLE ns.t (id BIGINT, g INT, s STRING) PARTITIONED BY (bucket(4, id)) TBLPROPERTIES (
        'format-version' = '3', 'write.delete.mode' = 'MODE', 'write.update.mode' = 'MODE', 'write.merge.mode' = 'MODE');
    INSERT INTO ns.t SELECT id, CAST(id % 7 AS INT), concat('row ', id) FROM range(3000);
    DELETE FROM ns.t WHERE g = 3;
    UPDATE ns.t SET s = upper(s) WHERE id % 10 = 4;
    INSERT INTO ns.t SELECT id, NULL, NULL FROM range(3000, 3100);
    MERGE INTO ns.t USING (SELECT id * 5 AS id FROM range(800)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET g = 50 WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'new');
    INSERT OVERWRITE ns.t SELECT * FROM ns.t WHERE id < 2000;
";

const VIEWS: [&str; 4] = [
    "CALL ice.system.create_changelog_view(table => 'ns.t', changelog_view => 'c')",
    "CALL ice.system.create_changelog_view(table => 'ns.t', changelog_view => 'c', identifier_columns => array('id'))",
    "CALL ice.system.create_changelog_view(table => 'ns.t', changelog_view => 'c', net_changes => true)",
    "CALL ice.system.create_changelog_view(table => 'ns.t', changelog_view => 'c', compute_updates => true)",
];

#[tokio::test(flavor = "multi_thread")]
async fn changelogs_are_the_same() {
    for mode in ["merge-on-read", "copy-on-write"] {
        let cluster = cluster(1).await;
        let (mut here, mut there) = (warehouse(None), warehouse(Some(cluster.rule())));
        for w in [&mut here, &mut there] {
            w.run(&TABLES.replace("MODE", mode)).await;
        }
        for view in VIEWS {
            here.run(view).await;
            there.run(view).await;
            // snapshot ids are each table's own
            let q = "SELECT id, g, s, _change_type, _change_ordinal FROM c";
            let before = cluster.jobs();
            let (want, got) = (here.rows(q).await, there.rows(q).await);
            assert!(want.as_ref().is_ok_and(|r| r.len() > 1000), "{want:?}");
            assert_eq!(want, got, "{mode}: {view}");
            assert!(cluster.jobs() > before, "{view} was read here");
        }
    }
}

async fn sync(w: &Warehouse, rule: bool, cluster: &Arc<floe_cluster::Cluster>) -> u64 {
    let text = "source: {table: ns.t}\ntarget: {table: ns.copy, mode: merge-on-read, equality_columns: [id]}\n\
                sync: {snapshots_per_commit: 3}";
    let config = PipelineConfig::parse(text, "test").expect("a configuration");
    let catalog = w.session.catalog().clone();
    let mut sync = Sync::with_catalogs(config, catalog.clone(), catalog).expect("a sync");
    if rule {
        sync = sync.elsewhere(cluster.rule());
    }
    let (_keep, stop) = tokio::sync::watch::channel(false);
    sync.run(stop, |_| ()).await.expect("a run").commits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_brings_the_same_rows_once() {
    let cluster = cluster(1).await;
    let (mut here, mut there) = (warehouse(None), warehouse(Some(cluster.rule())));
    for w in [&mut here, &mut there] {
        w.run(&TABLES.replace("MODE", "merge-on-read")).await;
    }
    let before = cluster.jobs();
    let (want, got) = (sync(&here, false, &cluster).await, sync(&there, true, &cluster).await);
    assert_eq!(want, got);
    assert!(cluster.jobs() > before, "the changes were read here");
    assert_eq!(sync(&there, true, &cluster).await, 0, "a second run has nothing to bring");
    for q in ["SELECT * FROM ns.copy", "SELECT count(*) FROM ns.copy.snapshots"] {
        let (want, got) = (here.rows(q).await, there.rows(q).await);
        assert!(want.is_ok(), "{want:?}");
        assert_eq!(want, got, "{q}");
    }
}
