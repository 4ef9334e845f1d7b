//! Maintenance through SQL and the library: rows and lineage stay, races end in a conflict or in right rows, files go only
//! when nothing reaches them.

mod maintenance_suite;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use floe_engine::ErrorKind;
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::expr::Pred;
use floe_engine::maintenance::{
    DataRewriteOptions, Location, OrphanOptions, PositionRewriteOptions, remove_orphan_files, rewrite_data_files,
    rewrite_position_delete_files,
};
use floe_engine::sql::Session;
use floe_engine::write::write_equality_deletes;
use iceberg::spec::Struct;
use maintenance_suite::{Raced, World, rows, world};

const MOR: &str =
    "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'";
const ALL: &str = "options => map('rewrite-all','true')";

async fn table(version: u8, partitioned: bool) -> World {
    let mut w = world().await;
    let by = if partitioned { "PARTITIONED BY (p)" } else { "" };
    w.run(&format!(
        "CREATE TABLE t (id INT, p INT, s STRING) USING iceberg {by} TBLPROPERTIES('format-version'='{version}',{MOR})"
    ))
    .await;
    for n in 0..3 {
        let values: Vec<String> = (0..20).map(|i| format!("({}, {}, 's{i}')", n * 20 + i, i % 2)).collect();
        w.run(&format!("INSERT INTO t VALUES {}", values.join(","))).await;
    }
    w
}

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_keeps_rows_and_lineage_and_drops_the_vectors() {
    for partitioned in [false, true] {
        let mut w = table(3, partitioned).await;
        w.run("DELETE FROM t WHERE id IN (3, 24, 45); UPDATE t SET s = 'new' WHERE id IN (4, 25); DELETE FROM t WHERE id = 46")
            .await;
        let before = w.seen().await;
        let done = w.call(&format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {ALL})")).await;
        assert_eq!(done["added_data_files_count"], if partitioned { "2" } else { "1" });
        assert_eq!(w.seen().await, before, "LINEAGE-11, LINEAGE-12");
        let (data, deletes) = w.live().await;
        assert_eq!(data.len(), if partitioned { 2 } else { 1 });
        assert!(deletes.is_empty(), "no vector without its file: {deletes:?}");
        // the new files are as old as the snapshot that was read (CONC-26)
        let table = w.table().await;
        let head = table.metadata().current_snapshot().expect("head").sequence_number();
        assert!(data.iter().all(|e| e.sequence_number == Some(head - 1)), "{data:?}");
        // nothing is left to do
        let again = w.call("CALL ice.system.rewrite_data_files('ns.t')").await;
        assert_eq!(again["rewritten_data_files_count"], "0");
        assert_eq!(w.table().await.metadata_location(), table.metadata_location());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_puffin_file_stays_until_its_last_vector_is_unreachable() {
    let mut w = table(3, true).await;
    // one statement, six data files: one Puffin file with six vectors
    w.run("DELETE FROM t WHERE id % 10 < 2").await;
    assert_eq!(w.count(".puffin"), 1);
    let before = w.seen().await;
    w.call(&format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {ALL}, where => 'p = 1')")).await;
    let (_, deletes) = w.live().await;
    assert_eq!(deletes.len(), 3, "the vectors of the other partition stay: {deletes:?}");
    let expire = "CALL ice.system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2100-01-01 00:00:00')";
    let done = w.call(expire).await;
    assert_eq!(done["deleted_data_files_count"], "3");
    assert_eq!(done["deleted_position_delete_files_count"], "0", "three vectors in it are live");
    assert_eq!(w.count(".puffin"), 1);
    assert_eq!(w.seen().await, before);
    w.call(&format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {ALL}, where => 'p = 0')")).await;
    let done = w.call(expire).await;
    assert_eq!(done["deleted_position_delete_files_count"], "1", "a Puffin file counts once");
    assert_eq!(w.count(".puffin"), 0);
    assert_eq!(w.seen().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_lost_the_race_with_deleted_rows_is_a_conflict() {
    for (version, rival) in [
        (2, "DELETE FROM t WHERE id = 7"),
        (3, "DELETE FROM t WHERE id = 7"),
        (3, "UPDATE t SET s = 'rival' WHERE id = 27"),
        (3, "DELETE FROM t WHERE id < 20"),
        (3, "MERGE INTO t USING (SELECT 8 AS k) u ON t.id = u.k WHEN MATCHED THEN DELETE"),
    ] {
        let mut w = table(version, false).await;
        let raced = Raced::new(w.catalog.clone(), rival).table().await;
        let o = DataRewriteOptions::parse(&raced, &options(&[("rewrite-all", "true")])).expect("options");
        let e = rewrite_data_files(&raced, Pred::True, &o).await.expect_err(rival);
        assert_eq!(e.kind(), ErrorKind::Conflict, "{rival}: {e}");
        let mut lone = table(version, false).await;
        lone.run(rival).await;
        assert_eq!(
            w.rows("SELECT id, p, s FROM t ORDER BY id").await,
            lone.rows("SELECT id, p, s FROM t ORDER BY id").await,
            "only what the rival did: {rival}"
        );
        let (data, _) = w.live().await;
        let on_disk = w.files().iter().filter(|f| f.ends_with(".parquet") && !f.contains("deletes")).count();
        let (theirs, _) = lone.live().await;
        assert_eq!(data.len(), theirs.len());
        // the rival may have dropped a file that is still in the folder, but nothing of the compaction is left
        let rivals = lone.files().iter().filter(|f| f.ends_with(".parquet") && !f.contains("deletes")).count();
        assert_eq!(on_disk, rivals, "{rival}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_goes_through_beside_an_append_and_an_equality_delete() {
    let mut w = table(3, false).await;
    let raced = Raced::new(w.catalog.clone(), "INSERT INTO t VALUES (100, 0, 'rival')").table().await;
    let o = DataRewriteOptions::parse(&raced, &options(&[("rewrite-all", "true")])).expect("options");
    rewrite_data_files(&raced, Pred::True, &o).await.expect("an append is no conflict");
    assert_eq!(w.rows("SELECT count(*), max(id) FROM t").await, ["61|100"]);

    // the files are as old as the snapshot that was read: an equality delete of later applies to them (CONC-26)
    delete_by_id(&w, &[5, 100]).await;
    assert_eq!(w.rows("SELECT count(*), max(id) FROM t").await, ["59|59"]);
    let before = w.seen().await;
    let done = w
        .call("CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true','remove-dangling-deletes','true'))")
        .await;
    assert_eq!(done["removed_delete_files_count"], "1");
    assert_eq!(w.seen().await, before);
    assert!(w.live().await.1.is_empty());
}

async fn delete_by_id(w: &World, ids: &[i32]) {
    let table = w.table().await;
    let field = Field::new("id", DataType::Int32, true)
        .with_metadata([("PARQUET:field_id".to_string(), "1".to_string())].into());
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(Int32Array::from(ids.to_vec()))])
            .expect("batch");
    let spec = table.metadata().default_partition_spec_id();
    let added = write_equality_deletes(&table, spec, Arc::new(Struct::empty()), &[1], vec![batch]).await.expect("file");
    commit(&table, Change { added, ..Change::new(Producer::RowDelta) }).await.expect("commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_and_compactions_at_once_never_bring_a_row_back() {
    let mut w = table(3, false).await;
    let mut expected: Vec<i32> = (0..60).collect();
    for round in 0..6 {
        let victim = round * 7;
        let mut other = Session::new(w.catalog.clone(), "ice");
        let delete = format!("USE ns; DELETE FROM t WHERE id = {victim}");
        let compact = format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {ALL})");
        let (compacted, deleted) = tokio::join!(w.session.execute(&compact), other.execute(&delete));
        for e in [compacted.as_ref().err(), deleted.as_ref().err()].into_iter().flatten() {
            assert!(matches!(e.kind(), ErrorKind::Conflict | ErrorKind::CommitFailed), "{e}");
        }
        if deleted.is_ok() {
            expected.retain(|id| *id != victim);
        }
        let got = rows(&mut w.session, "SELECT id FROM t ORDER BY id").await;
        let want: Vec<String> = expected.iter().map(i32::to_string).collect();
        assert_eq!(got, want, "round {round}");
    }
}

async fn upgraded(granularity: &str) -> World {
    let mut w = table(2, false).await;
    w.run(&format!("ALTER TABLE t SET TBLPROPERTIES('write.delete.granularity'='{granularity}')")).await;
    w.run("DELETE FROM t WHERE id IN (1, 21); DELETE FROM t WHERE id IN (2, 22, 42)").await;
    w.run("ALTER TABLE t SET TBLPROPERTIES('format-version'='3')").await;
    w
}

#[tokio::test(flavor = "multi_thread")]
async fn v2_deletes_become_vectors_after_an_upgrade() {
    for granularity in ["file", "partition"] {
        let mut w = upgraded(granularity).await;
        let rows = "SELECT id, p, s FROM t ORDER BY id";
        let before = w.rows(rows).await;
        let done = w.call(&format!("CALL ice.system.rewrite_position_delete_files(table => 'ns.t', {ALL})")).await;
        assert_eq!(done["added_delete_files_count"], "3", "one vector a data file (DV-2)");
        assert_eq!(w.rows(rows).await, before);
        let (_, deletes) = w.live().await;
        assert!(deletes.len() == 3 && deletes.iter().all(|d| d.file.is_dv()), "{deletes:?}");
        // vectors are never rewritten
        let again = w.call(&format!("CALL ice.system.rewrite_position_delete_files(table => 'ns.t', {ALL})")).await;
        assert_eq!(again["rewritten_delete_files_count"], "0");
        w.run("DELETE FROM t WHERE id = 3").await;
        assert_eq!(w.rows("SELECT count(*) FROM t").await, ["54"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folding_deletes_beside_another_writer_loses_no_delete() {
    for rival in [
        "DELETE FROM t WHERE id = 4",
        "DELETE FROM t WHERE id < 20",
        "CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true'))",
    ] {
        let mut w = upgraded("partition").await;
        let raced = Raced::new(w.catalog.clone(), rival).table().await;
        let o = PositionRewriteOptions::parse(&raced, &options(&[("rewrite-all", "true")])).expect("options");
        let e = rewrite_position_delete_files(&raced, Pred::True, &o).await.expect_err(rival);
        assert_eq!(e.kind(), ErrorKind::Conflict, "{rival}: {e}");
        let mut lone = upgraded("partition").await;
        lone.run(rival).await;
        let rows = "SELECT id, p, s FROM t ORDER BY id";
        assert_eq!(w.rows(rows).await, lone.rows(rows).await, "{rival}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v2_delete_files_are_merged_and_positions_of_gone_files_dropped() {
    let mut w = table(2, false).await;
    w.run("ALTER TABLE t SET TBLPROPERTIES('write.delete.granularity'='partition')").await;
    w.run("DELETE FROM t WHERE id IN (1, 21); DELETE FROM t WHERE id IN (2, 22, 42)").await;
    let rows = "SELECT id, p, s FROM t ORDER BY id";
    let before = w.rows(rows).await;
    let done = w.call(&format!("CALL ice.system.rewrite_position_delete_files(table => 'ns.t', {ALL})")).await;
    assert_eq!((done["rewritten_delete_files_count"].as_str(), done["added_delete_files_count"].as_str()), ("2", "1"));
    assert_eq!(w.rows(rows).await, before);
    let (_, deletes) = w.live().await;
    assert_eq!(deletes.iter().map(|d| d.file.record_count).sum::<i64>(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_packed_and_nothing_else_changes() {
    let mut w = table(3, false).await;
    w.run("ALTER TABLE t SET TBLPROPERTIES('commit.manifest-merge.enabled'='false')").await;
    w.run("DELETE FROM t WHERE id = 1; UPDATE t SET s = 'x' WHERE id = 30; INSERT INTO t VALUES (99, 1, 'z')").await;
    let before = w.seen().await;
    let (data, deletes) = w.live().await;
    let done = w.call("CALL ice.system.rewrite_manifests('ns.t')").await;
    assert_eq!(done["added_manifests_count"], "2");
    assert_eq!(w.rows("SELECT count(*) FROM t.manifests").await, ["2"]);
    assert_eq!(w.seen().await, before, "FRID-11");
    let (data2, deletes2) = w.live().await;
    let key = |e: &floe_engine::manifest::ManifestEntry| (e.file.path.clone(), e.sequence_number, e.file.first_row_id);
    let sorted = |l: &[floe_engine::manifest::ManifestEntry]| {
        let mut keys: Vec<_> = l.iter().map(key).collect();
        keys.sort();
        keys
    };
    assert_eq!((sorted(&data), sorted(&deletes)), (sorted(&data2), sorted(&deletes2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_follows_refs_and_refuses_what_it_must() {
    let mut w = table(3, false).await;
    let first = w.rows("SELECT snapshot_id FROM t.snapshots WHERE parent_id IS NULL").await.remove(0);
    w.run("ALTER TABLE t CREATE TAG keep; ALTER TABLE t CREATE BRANCH dev").await;
    w.run("DELETE FROM t.branch_dev WHERE id = 9; INSERT OVERWRITE t SELECT 1, 1, 'only'").await;
    let held = w.rows("SELECT snapshot_id FROM t.refs WHERE name = 'keep'").await.remove(0);
    w.refused(
        &format!("CALL ice.system.expire_snapshots(table => 'ns.t', snapshot_ids => array({held}))"),
        "Still referenced by refs",
    )
    .await;
    w.refused("CALL ice.system.expire_snapshots(table => 'ns.t', retain_last => 0)", "at least 1").await;
    w.run("ALTER TABLE t SET TBLPROPERTIES('gc.enabled'='false')").await;
    let all = "CALL ice.system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2100-01-01 00:00:00')";
    w.refused(all, "GC is disabled").await;
    w.refused("CALL ice.system.remove_orphan_files(table => 'ns.t')", "GC is disabled").await;
    w.run("ALTER TABLE t SET TBLPROPERTIES('gc.enabled'='true')").await;

    let none = w.call("CALL ice.system.expire_snapshots('ns.t')").await;
    assert!(none.values().all(|v| v == "0"), "nothing is five days old: {none:?}");
    let by_id =
        w.call(&format!("CALL ice.system.expire_snapshots(table => 'ns.t', snapshot_ids => array({first}))")).await;
    assert_eq!(by_id["deleted_manifest_lists_count"], "1");
    w.call(all).await;
    assert_eq!(w.rows("SELECT count(*) FROM t.snapshots").await, ["3"], "main, dev and keep");
    assert_eq!(w.rows("SELECT count(*) FROM t VERSION AS OF 'keep'").await, ["60"]);
    assert_eq!(w.rows("SELECT count(*) FROM t VERSION AS OF 'dev'").await, ["59"]);
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["1"]);
    w.run("ALTER TABLE t DROP TAG keep; ALTER TABLE t DROP BRANCH dev").await;
    let done = w.call(all).await;
    // each of the three inserts wrote two files, one a partition of its query
    assert_eq!(done["deleted_data_files_count"], "6");
    assert_eq!(done["deleted_position_delete_files_count"], "1");
    assert_eq!(w.count(".puffin"), 0);
    assert_eq!(w.rows("SELECT * FROM t").await, ["1|1|only"]);
    assert_eq!(w.count(".parquet"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_beside_a_new_branch_keeps_what_the_branch_holds() {
    let mut w = table(3, false).await;
    let first = w.rows("SELECT snapshot_id FROM t.snapshots WHERE parent_id IS NULL").await.remove(0);
    w.run("INSERT OVERWRITE t SELECT 1, 1, 'only'").await;
    let rival = format!("ALTER TABLE t CREATE BRANCH saved AS OF VERSION {first}");
    let raced = Raced::new(w.catalog.clone(), &rival).table().await;
    let options = floe_engine::maintenance::ExpireOptions { older_than_ms: Some(i64::MAX), ..Default::default() };
    let done = floe_engine::maintenance::expire_snapshots(&raced, &options).await.expect("retries");
    assert_eq!(done.snapshots.len(), 2);
    // two inserts of two files each are no longer reachable
    assert_eq!(done.data_files, 4);
    assert_eq!(w.rows("SELECT count(*) FROM t VERSION AS OF 'saved'").await, ["20"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_listed_then_removed_and_nothing_in_use_is() {
    let mut w = table(3, true).await;
    w.run("DELETE FROM t WHERE id = 3; ALTER TABLE t SET TBLPROPERTIES('a'='b')").await;
    let before = w.seen().await;
    let table = w.table().await;
    let root = w.dir.path().join("ns").join("t");
    for stray in ["data/stray.parquet", "data/stray.puffin", "metadata/stray.avro", "data/_hidden/x", "data/.x.crc"] {
        let path = root.join(stray);
        std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        std::fs::write(path, b"x").expect("file");
    }
    let all = w.files();
    w.refused(
        "CALL ice.system.remove_orphan_files(table => 'ns.t', older_than => TIMESTAMP '2100-01-01 00:00:00')",
        "less than 24 hours",
    )
    .await;
    assert!(w.rows("CALL ice.system.remove_orphan_files('ns.t')").await.is_empty(), "nothing is three days old");
    let dry = OrphanOptions { older_than_ms: Some(i64::MAX), dry_run: true, ..Default::default() };
    let listed = remove_orphan_files(&table, &dry).await.expect("lists");
    let names: Vec<&str> = listed.iter().filter_map(|l| l.rsplit('/').next()).collect();
    assert_eq!(names, ["stray.parquet", "stray.puffin", "stray.avro"], "{listed:?}");
    assert_eq!(w.files(), all, "a dry run deletes nothing");
    // the warehouse holds other tables, whose files this table does not know
    w.run("CREATE TABLE other (id INT) USING iceberg; INSERT INTO other VALUES (1)").await;
    let with_other = w.files();
    let other = w.session.table(&["ns".to_string(), "other".to_string()]).await.expect("a table");
    let above = root.parent().expect("namespace").display().to_string();
    for location in [other.metadata().location().to_string(), above] {
        for dry_run in [true, false] {
            let options = OrphanOptions { location: Some(location.clone()), dry_run, ..dry.clone() };
            let e = remove_orphan_files(&table, &options).await.expect_err("another table's files");
            assert!(e.to_string().contains("another table"), "{e}");
        }
    }
    assert_eq!(w.files(), with_other);
    assert_eq!(w.rows("SELECT id FROM other").await, ["1"]);
    let removed = remove_orphan_files(&table, &OrphanOptions { dry_run: false, ..dry }).await.expect("removes");
    assert_eq!(removed, listed);
    assert_eq!(w.files().len(), all.len() - 3);
    assert_eq!(w.seen().await, before);
    w.run("INSERT INTO t VALUES (70, 0, 'still works')").await;
}

#[test]
fn spellings_of_one_file_are_one_location() {
    for other in ["file:/a/b", "file:///a/b", "file://localhost/a/b", "/a//b"] {
        assert_eq!(Location::of(other), Location::of("/a/b"), "{other}");
    }
    assert_eq!(Location::of("s3a://x/a"), Location::of("s3://x/a"));
    assert_ne!(Location::of("s3://y/a"), Location::of("s3://x/a"));
    assert_ne!(Location::of("s3://x/a"), Location::of("/a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_and_filters_are_checked_before_anything_is_written() {
    let mut w = table(3, true).await;
    for (arguments, part) in [
        ("options => map('rewrite-al','true')", "delete-file-threshold"),
        ("options => map('min-input-files','0')", "'min-input-files'"),
        ("options => map('rewrite-all','yes')", "true or false"),
        ("options => map('delete-ratio-threshold','2')", "from 0 to 1"),
        ("options => map('target-file-size-bytes','10','min-file-size-bytes','10')", "'min-file-size-bytes'"),
        ("options => map('target-file-size-bytes','10','max-file-size-bytes','10')", "'max-file-size-bytes'"),
        ("strategy => 'sort'", "binpack"),
        ("where => 'nope = 1'", "nope"),
        ("where => 'id + p = 3'", "comparisons"),
        ("where => 'id ='", "where"),
    ] {
        w.refused(&format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {arguments})"), part).await;
    }
    w.refused(
        "CALL ice.system.rewrite_position_delete_files(table => 'ns.t', options => map('delete-file-threshold','1'))",
        "min-input-files",
    )
    .await;
    let none =
        w.call(&format!("CALL ice.system.rewrite_data_files(table => 'ns.t', {ALL}, where => 'id > 1000')")).await;
    assert_eq!(none["rewritten_data_files_count"], "0");
    // three small files a partition are fewer than five
    let few = w.call("CALL ice.system.rewrite_data_files('ns.t')").await;
    assert_eq!(few["rewritten_data_files_count"], "0");
    w.run("DELETE FROM t WHERE id IN (0, 2, 4)").await;
    let before = w.seen().await;
    let much = w.call("CALL ice.system.rewrite_data_files('ns.t')").await;
    assert_eq!(much["rewritten_data_files_count"], "3", "3 of 10 rows are deleted: that group is worth it");
    assert_eq!(w.seen().await, before);
}
