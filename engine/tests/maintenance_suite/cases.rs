//! Public fault reports of this field that no statement stages; see docs/cases.md.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use floe_engine::cdc::config::DeleteFormat;
use floe_engine::cdc::{Upsert, upsert};
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::maintenance::convert_equality_deletes;

use super::{World, rows, world};

async fn table() -> World {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, v INT) USING iceberg TBLPROPERTIES('format-version'='3','write.delete.mode'='merge-on-read')")
        .await;
    w.run("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS INT) FROM range(1, 4, 1, 1)").await;
    w
}

async fn changes(w: &mut World, from: i64) -> Vec<String> {
    w.run(&format!(
        "CALL ice.system.create_changelog_view(table => 'ns.t', changelog_view => 'c', options => map('start-snapshot-id','{from}'))"
    ))
    .await;
    rows(&mut w.session, "SELECT _change_type, id FROM c ORDER BY _change_ordinal, id").await
}

/// Case G7: none to DV, DV to a larger one, DV to another, DV to none.
#[tokio::test(flavor = "multi_thread")]
async fn a_vector_that_is_taken_back_brings_its_rows_back_in_the_changelog() {
    let mut w = table().await;
    let start = w.table().await.metadata().current_snapshot_id().expect("a snapshot");
    w.run("DELETE FROM t WHERE id = 1; DELETE FROM t WHERE id = 2").await;
    assert_eq!(changes(&mut w, start).await, ["DELETE|1", "DELETE|2"]);
    let both = w.table().await;
    let (_, live) = w.live().await;
    let at = both.metadata().current_snapshot_id().expect("a snapshot");
    commit(&both, Change { removed: vec![live[0].file.clone()], ..Change::new(Producer::RowDelta) })
        .await
        .expect("commit");
    assert_eq!(w.rows("SELECT id FROM t ORDER BY id").await, ["1", "2", "3"]);
    assert_eq!(changes(&mut w, at).await, ["INSERT|1", "INSERT|2"], "CDC-21");
    assert_eq!(changes(&mut w, start).await, ["DELETE|1", "DELETE|2", "INSERT|1", "INSERT|2"]);
}

/// Case H7: another program converts the equality deletes between two commits of a sink.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_goes_on_after_others_converted_its_equality_deletes() {
    let mut w = table().await;
    let how = Upsert { equality_columns: vec!["id".into()], deletes: DeleteFormat::Equality, summary: Vec::new() };
    for round in 1..4 {
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(Int32Array::from(vec![1, 3])) as ArrayRef),
            ("v", Arc::new(Int32Array::from(vec![round * 10, round * 30])) as ArrayRef),
        ]);
        upsert(&w.table().await, &[batch.expect("rows")], &how).await.expect("upsert");
        convert_equality_deletes(&w.table().await).await.expect("convert");
        let want = [format!("1|{}", round * 10), "2|2".to_string(), format!("3|{}", round * 30)];
        assert_eq!(w.rows("SELECT id, v FROM t ORDER BY id").await, want);
    }
}

/// Case D2: a count that metadata can't tell is counted.
#[tokio::test(flavor = "multi_thread")]
async fn counts_are_of_live_rows_whatever_deletes_there_are() {
    let mut w = table().await;
    let how = Upsert { equality_columns: vec!["id".into()], deletes: DeleteFormat::Equality, summary: Vec::new() };
    w.run("DELETE FROM t WHERE id = 3").await;
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["2"]);
    let gone = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![1, 77])) as ArrayRef),
        ("_change_type", Arc::new(arrow::array::StringArray::from(vec!["DELETE", "DELETE"])) as ArrayRef),
    ]);
    upsert(&w.table().await, &[gone.expect("rows")], &how).await.expect("upsert");
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["1"]);
    assert_eq!(w.rows("SELECT count(*), min(id) FROM t WHERE v > 0").await, ["1|2"]);
}

/// SORT-3, SORT-4: files say an order only when their rows are in it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_written_in_the_tables_order_and_files_say_so() {
    let mut w = table().await;
    let orders = "SELECT sort_order_id FROM t.files ORDER BY 1";
    w.run("ALTER TABLE t WRITE ORDERED BY v DESC NULLS LAST, id").await;
    w.run("INSERT INTO t SELECT CAST(id AS INT), CAST(id % 3 AS INT) FROM range(10, 16, 1, 1)").await;
    let rows = "SELECT id FROM t WHERE id >= 10 ORDER BY _pos";
    assert_eq!(w.rows(rows).await, ["11", "14", "10", "13", "12", "15"]);
    let order = w.table().await.metadata().default_sort_order().order_id;
    assert_eq!(w.rows(orders).await.last().expect("a file"), &order.to_string());
    w.run("INSERT INTO t VALUES (20, 1), (21, NULL), (22, 5), (23, 2)").await;
    let rows = "SELECT id FROM t WHERE id >= 20 ORDER BY _file, _pos";
    assert_eq!(w.rows(rows).await, ["22", "23", "20", "21"]);
    // an order by a transform is recorded and not kept
    w.run("ALTER TABLE t WRITE ORDERED BY bucket(4, id); INSERT INTO t VALUES (30, 1)").await;
    let single = w.rows("SELECT sort_order_id FROM t.files WHERE record_count = 1").await;
    assert!(single.len() == 1 && single.iter().all(|o| o == "0"), "{single:?}");
}
