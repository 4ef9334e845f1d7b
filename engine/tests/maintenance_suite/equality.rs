//! Equality deletes: written by upserts, read with the exact sequence and partition rules, converted to vectors.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};
use floe_engine::cdc::config::DeleteFormat;
use floe_engine::cdc::{Upsert, upsert};
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::maintenance::convert_equality_deletes;
use floe_engine::manifest::Content;
use floe_engine::write::write_equality_deletes;
use floe_engine::{ErrorKind, Table};
use iceberg::spec::Struct;

use super::{Raced, World, world};

const MOR: &str =
    "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'";

async fn create(version: u8, columns: &str, by: &str) -> World {
    let mut w = world().await;
    w.run(&format!("CREATE TABLE t ({columns}) USING iceberg {by} TBLPROPERTIES('format-version'='{version}',{MOR})"))
        .await;
    w
}

fn how(columns: &[&str], deletes: DeleteFormat) -> Upsert {
    Upsert { equality_columns: columns.iter().map(ToString::to_string).collect(), deletes, summary: Vec::new() }
}

fn ints(columns: &[(&str, Vec<Option<i32>>)]) -> RecordBatch {
    let columns = columns.iter().map(|(n, v)| (*n, Arc::new(Int32Array::from(v.clone())) as ArrayRef, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("rows")
}

/// Live equality deletes, vectors and V2 position deletes.
async fn deletes(w: &World) -> (usize, usize, usize) {
    let (_, d) = w.live().await;
    let equality = d.iter().filter(|e| e.file.content == Content::EqualityDeletes).count();
    let vectors = d.iter().filter(|e| e.file.is_dv()).count();
    (equality, vectors, d.len() - equality - vectors)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_replaces_the_rows_of_its_keys_and_no_others() {
    for (version, format, expected) in [
        (2, "equality", (1, 0, 0)),
        (3, "equality", (1, 0, 0)),
        (2, "positions", (0, 0, 1)),
        (3, "positions", (0, 1, 0)),
    ] {
        let mut w = create(version, "id INT, v STRING", "").await;
        w.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (NULL, 'n')").await;
        // the same key twice: the last row counts (case H5)
        w.run(
            "CREATE OR REPLACE TEMPORARY VIEW v AS \
             SELECT * FROM (VALUES (2, 'B'), (3, 'c'), (3, 'C'), (CAST(NULL AS INT), 'N')) AS x(id, v)",
        )
        .await;
        let call = format!(
            "CALL ice.system.upsert(table => 'ns.t', source => 'v', equality_columns => array('id'), delete_format => '{format}')"
        );
        let done = w.call(&call).await;
        assert_eq!(done["upserted_rows_count"], "3");
        let all = "SELECT id, v FROM t ORDER BY id NULLS FIRST, v";
        let want = ["NULL|N", "1|a", "2|B", "3|C"];
        assert_eq!(w.rows(all).await, want, "EQDEL-2, SCAN-5: not the rows of the same snapshot");
        assert_eq!(deletes(&w).await, expected, "v{version} {format}");
        let (data, gone) = w.live().await;
        let head = w.table().await.metadata().current_snapshot().expect("head").sequence_number();
        assert!(gone.iter().all(|d| d.sequence_number == Some(head)), "SEQ-1");
        assert!(data.iter().any(|d| d.sequence_number == Some(head)));
        // again the same: nothing but new sequence numbers changes
        w.call(&call).await;
        assert_eq!(w.rows(all).await, want);
        assert_eq!(w.rows("SELECT count(*) FROM t").await, ["4"], "no count from totals");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_type_makes_a_row_delete_its_key() {
    let w = &mut create(3, "id INT, v INT", "").await;
    w.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await;
    for (format, rows, want) in [
        (DeleteFormat::Equality, [(1, "DELETE"), (4, "INSERT"), (4, "DELETE"), (2, "UPDATE_AFTER")], ["2|20", "3|3"]),
        (DeleteFormat::Positions, [(2, "INSERT"), (2, "DELETE"), (9, "DELETE"), (5, "INSERT")], ["3|3", "5|50"]),
    ] {
        let ids: Vec<_> = rows.iter().map(|r| Some(r.0)).collect();
        let mut batch = ints(&[("id", ids.clone()), ("v", ids.iter().map(|i| i.map(|i| i * 10)).collect())]);
        let words: StringArray = rows.iter().map(|r| Some(r.1)).collect();
        let mut columns: Vec<(String, ArrayRef)> = vec![];
        for (f, c) in batch.schema().fields().iter().zip(batch.columns()) {
            columns.push((f.name().clone(), c.clone()));
        }
        columns.push(("_change_type".into(), Arc::new(words)));
        batch = RecordBatch::try_from_iter(columns).expect("rows");
        upsert(&w.table().await, &[batch], &how(&["id"], format)).await.expect("upsert");
        assert_eq!(w.rows("SELECT id, v FROM t ORDER BY id").await, want, "{format:?}");
    }
    let wrong = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("_change_type", Arc::new(StringArray::from(vec!["GONE"])) as ArrayRef),
    ]);
    let e = upsert(&w.table().await, &[wrong.expect("rows")], &how(&["id"], DeleteFormat::Equality)).await.unwrap_err();
    assert!(e.to_string().contains("GONE"), "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn equality_deletes_of_a_partitioned_table_stay_in_their_partition_or_are_refused() {
    // a key over partitions needs the partition's source in it (case I2)
    let w = &mut create(3, "p INT, id INT, v INT", "PARTITIONED BY (p)").await;
    w.run("INSERT INTO t VALUES (0, 100, 1), (1, 100, 2), (NULL, 100, 3)").await;
    let files = w.files();
    let rows = ints(&[("p", vec![Some(0)]), ("id", vec![Some(100)]), ("v", vec![Some(9)])]);
    let e = upsert(&w.table().await, &[rows.clone()], &how(&["id"], DeleteFormat::Equality)).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::InvalidInput, Some("SCAN-3")), "{e}");
    assert_eq!(w.files(), files, "refused before anything is written");
    let all = "SELECT p, id, v FROM t ORDER BY p NULLS FIRST, v";
    upsert(&w.table().await, &[rows.clone()], &how(&["p", "id"], DeleteFormat::Equality)).await.expect("upsert");
    assert_eq!(w.rows(all).await, ["NULL|100|3", "0|100|9", "1|100|2"]);
    let null = ints(&[("p", vec![None]), ("id", vec![Some(100)]), ("v", vec![Some(8)])]);
    upsert(&w.table().await, &[null], &how(&["id", "p"], DeleteFormat::Equality)).await.expect("upsert");
    assert_eq!(w.rows(all).await, ["NULL|100|8", "0|100|9", "1|100|2"], "the null partition is one of them");
    // by position any partition is found
    upsert(&w.table().await, &[rows], &how(&["id"], DeleteFormat::Positions)).await.expect("upsert");
    assert_eq!(w.rows(all).await, ["0|100|9"]);
    // after evolution the deletes are written for each spec that has files
    w.run("INSERT INTO t VALUES (5, 7, 1)").await;
    w.run("ALTER TABLE t ADD PARTITION FIELD bucket(4, id)").await;
    w.run("INSERT INTO t VALUES (5, 7, 2), (5, 8, 2)").await;
    let rows = ints(&[("p", vec![Some(5)]), ("id", vec![Some(7)]), ("v", vec![Some(3)])]);
    upsert(&w.table().await, &[rows], &how(&["p", "id"], DeleteFormat::Equality)).await.expect("upsert");
    assert_eq!(w.rows("SELECT id, v FROM t WHERE p = 5 ORDER BY id, v").await, ["7|3", "8|2"], "SCAN-12");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_of_an_unpartitioned_spec_reaches_every_partition() {
    // cases I1 and I3, TRAP-29: whatever ids the specs have
    for first in ["", "PARTITIONED BY (p)"] {
        let w = &mut create(3, "p INT, id INT", first).await;
        w.run("INSERT INTO t VALUES (0, 1), (1, 1), (1, 2)").await;
        let evolve = if first.is_empty() { "ADD PARTITION FIELD p" } else { "DROP PARTITION FIELD p" };
        w.run(&format!("ALTER TABLE t {evolve}; INSERT INTO t VALUES (2, 1), (2, 3)")).await;
        let rows = ints(&[("p", vec![Some(7)]), ("id", vec![Some(1)])]);
        upsert(&w.table().await, &[rows], &how(&["id"], DeleteFormat::Equality)).await.expect("upsert");
        let (_, d) = w.live().await;
        assert_eq!(d.len(), 1, "one global delete");
        assert!(w.table().await.metadata().is_unpartitioned(d[0].file.spec_id), "{d:?}");
        assert_eq!(w.rows("SELECT p, id FROM t ORDER BY id, p").await, ["7|1", "1|2", "2|3"], "SCAN-4");
        // pruning by partition must not lose the delete
        assert_eq!(w.rows("SELECT count(*) FROM t WHERE p = 0").await, ["0"]);
        let before = w.seen().await;
        let done = convert_equality_deletes(&w.table().await).await.expect("convert");
        assert_eq!((done.converted_files, done.deleted_rows), (1, 3), "case I7");
        assert_eq!(w.seen().await, before);
    }
}

async fn delete_where(w: &World, ids: &[i32], columns: Vec<(&str, ArrayRef)>) {
    let table = w.table().await;
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).expect("rows");
    let spec = table.metadata().default_partition_spec_id();
    let added = write_equality_deletes(&table, spec, Arc::new(Struct::empty()), ids, vec![batch]).await.expect("file");
    commit(&table, Change { added, ..Change::new(Producer::RowDelta) }).await.expect("commit");
}

fn nested(field: &str, values: Vec<Option<i32>>, valid: Vec<bool>) -> ArrayRef {
    let field = Arc::new(Field::new(field, DataType::Int32, true));
    let values: ArrayRef = Arc::new(Int32Array::from(values));
    Arc::new(StructArray::try_new(vec![field].into(), vec![values], Some(valid.into())).expect("struct"))
}

#[tokio::test(flavor = "multi_thread")]
async fn equality_columns_inside_structs_follow_schema_evolution() {
    let w = &mut create(3, "id INT, s STRUCT<a: INT, b: STRING>", "").await;
    w.run("INSERT INTO t VALUES (1, struct(10, 'x')), (2, struct(20, 'y')), (3, NULL), (4, struct(CAST(NULL AS INT), 'z'))")
        .await;
    let table = w.table().await;
    let a = table.metadata().current_schema().field_by_name("s.a").expect("s.a").id;
    delete_where(w, &[a], vec![("s", nested("a", vec![Some(20)], vec![true]))]).await;
    let ids = "SELECT id FROM t ORDER BY id";
    assert_eq!(w.rows(ids).await, ["1", "3", "4"]);
    // a null parent is a null leaf, on both sides (EQDEL-3)
    delete_where(w, &[a], vec![("s", nested("a", vec![Some(0)], vec![false]))]).await;
    assert_eq!(w.rows(ids).await, ["1"], "EQDEL-3");
    // moved, widened and renamed columns are found by id
    w.run("ALTER TABLE t RENAME COLUMN s.a TO aa; ALTER TABLE t ALTER COLUMN s.aa TYPE BIGINT").await;
    w.run("ALTER TABLE t ADD COLUMN s.c INT; INSERT INTO t VALUES (5, named_struct('aa', 50, 'b', 'w', 'c', 1))").await;
    assert_eq!(w.rows(ids).await, ["1", "5"]);
    let c = w.table().await.metadata().current_schema().field_by_name("s.c").expect("s.c").id;
    // old files lack the column: its value there is null (EQDEL-4)
    delete_where(w, &[c], vec![("s", nested("c", vec![None], vec![true]))]).await;
    assert_eq!(w.rows(ids).await, ["5"], "EQDEL-4");
    let before = w.seen().await;
    let done = convert_equality_deletes(&w.table().await).await.expect("convert");
    assert_eq!((done.converted_files, done.deleted_rows, deletes(w).await), (3, 4, (0, 2, 0)));
    assert_eq!(w.seen().await, before);
    // a key in a struct, looked up or not
    let s = |aa: i64| -> ArrayRef {
        let fields = vec![
            Arc::new(Field::new("aa", DataType::Int64, true)),
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(Field::new("c", DataType::Int32, true)),
        ];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(arrow::array::Int64Array::from(vec![aa])),
            Arc::new(StringArray::from(vec!["new"])),
            Arc::new(Int32Array::from(vec![2])),
        ];
        Arc::new(StructArray::try_new(fields.into(), columns, None).expect("struct"))
    };
    for (id, format) in [(6, DeleteFormat::Equality), (7, DeleteFormat::Positions)] {
        let rows = RecordBatch::try_from_iter([("id", Arc::new(Int32Array::from(vec![id])) as ArrayRef), ("s", s(50))]);
        upsert(&w.table().await, &[rows.expect("rows")], &how(&["s.aa"], format)).await.expect("upsert");
        assert_eq!(w.rows(ids).await, [id.to_string()], "{format:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equality_columns_that_were_dropped_or_added_still_count() {
    let w = &mut create(3, "id INT, k INT", "").await;
    w.run("INSERT INTO t VALUES (1, 10), (2, 20), (3, NULL)").await;
    delete_where(w, &[2], vec![("k", Arc::new(Int32Array::from(vec![20])))]).await;
    w.run("ALTER TABLE t DROP COLUMN k").await;
    assert_eq!(w.rows("SELECT id FROM t ORDER BY id").await, ["1", "3"], "case I6, EQDEL-4");
    // a column of the same name is another one
    w.run("ALTER TABLE t ADD COLUMN k INT; INSERT INTO t VALUES (4, 20)").await;
    assert_eq!(w.rows("SELECT id FROM t ORDER BY id").await, ["1", "3", "4"]);
    // the columns of the query need not hold the key (case I5), null rows stay (case I4)
    assert_eq!(w.rows("SELECT count(*) FROM t WHERE id > 1").await, ["2"]);
    convert_equality_deletes(&w.table().await).await.expect("convert");
    assert_eq!(w.rows("SELECT id FROM t ORDER BY id").await, ["1", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_equality_delete_by_a_float_or_a_part_of_a_list() {
    let w = &mut create(3, "id INT, d DOUBLE, l ARRAY<INT>, m MAP<STRING, INT>", "").await;
    w.run("INSERT INTO t VALUES (1, 1.5D, array(1), map('a', 1))").await;
    let files = w.files();
    for column in ["d", "l", "m", "l.element", "nope", "id.x"] {
        let rows = RecordBatch::try_from_iter([
            ("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
            ("d", Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef),
        ]);
        let e = upsert(&w.table().await, &[rows.expect("rows")], &how(&[column], DeleteFormat::Equality))
            .await
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{column}: {e}");
    }
    assert_eq!(w.files(), files, "EQDEL-3: refused before anything is written");
    // by position a float may be a key; every NaN is the same
    w.run("INSERT INTO t VALUES (2, CAST('NaN' AS DOUBLE), NULL, NULL)").await;
    let rows = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![3])) as ArrayRef),
        ("d", Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef),
    ]);
    upsert(&w.table().await, &[rows.expect("rows")], &how(&["d"], DeleteFormat::Positions)).await.expect("upsert");
    assert_eq!(w.rows("SELECT id FROM t ORDER BY id").await, ["1", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversion_keeps_rows_and_lineage() {
    for version in [2, 3] {
        let w = &mut create(version, "id INT, v INT", "").await;
        w.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)").await;
        w.run("INSERT INTO t VALUES (5, 5), (6, 6)").await;
        w.run("DELETE FROM t WHERE id = 2").await;
        for id in [1, 2, 5] {
            let rows = ints(&[("id", vec![Some(id)]), ("v", vec![Some(id * 10)])]);
            upsert(&w.table().await, &[rows], &how(&["id"], DeleteFormat::Equality)).await.expect("upsert");
        }
        let see = if version == 3 { "*, _row_id, _last_updated_sequence_number" } else { "*" };
        let see = format!("SELECT {see} FROM t ORDER BY id");
        let before = w.rows(&see).await;
        assert_eq!(before.len(), 6);
        let done = w.call("CALL ice.system.convert_equality_deletes('ns.t')").await;
        assert_eq!(done["converted_equality_delete_files_count"], "3");
        assert_eq!(done["deleted_rows_count"], "2", "2 was deleted before, by position");
        assert_eq!(w.rows(&see).await, before, "v{version}");
        // one vector a data file, with what was deleted before (DV-2); V2 takes the old file-scoped deletes in
        assert_eq!(deletes(w).await, if version == 3 { (0, 2, 0) } else { (0, 0, 2) });
        let table = w.table().await;
        let head = table.metadata().current_snapshot().expect("head");
        assert_eq!(head.summary().operation.as_str(), "replace");
        assert_eq!(head.summary().additional_properties["removed-equality-delete-files"], "3");
        assert_eq!(head.summary().additional_properties["total-equality-deletes"], "0");
        let again = w.call("CALL ice.system.convert_equality_deletes('ns.t')").await;
        assert_eq!(again["converted_equality_delete_files_count"], "0");
        assert_eq!(w.table().await.metadata_location(), table.metadata_location());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversion_beside_other_writers_brings_no_row_back() {
    let before = || async {
        let w = create(3, "id INT, v INT", "").await;
        let mut w = w;
        w.run("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS INT) FROM range(1, 4, 1, 1)").await;
        let rows = ints(&[("id", vec![Some(1)]), ("v", vec![Some(10)])]);
        upsert(&w.table().await, &[rows], &how(&["id"], DeleteFormat::Equality)).await.expect("upsert");
        w
    };
    for (rival, conflict) in [
        ("DELETE FROM t WHERE id = 2", true),
        ("DELETE FROM t WHERE v < 9", true),
        ("CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true'))", true),
        ("CALL ice.system.convert_equality_deletes('ns.t')", true),
        ("INSERT INTO t VALUES (1, 11), (4, 4)", false),
        (
            "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 3 AS id, 30 AS v; CALL ice.system.upsert(table => 'ns.t', source => 'v', equality_columns => array('id'), delete_format => 'equality')",
            false,
        ),
    ] {
        let mut w = before().await;
        let raced = Raced::new(w.catalog.clone(), rival).table().await;
        let result = convert_equality_deletes(&raced).await;
        match (&result, conflict) {
            (Err(e), true) => assert_eq!(e.kind(), ErrorKind::Conflict, "{rival}: {e}"),
            (Ok(_), false) => {}
            other => panic!("{rival}: {other:?}"),
        }
        let mut lone = before().await;
        lone.run(rival).await;
        let all = "SELECT id, v FROM t ORDER BY id, v";
        assert_eq!(w.rows(all).await, lone.rows(all).await, "only what the rival did: {rival}");
        w.run("CALL ice.system.convert_equality_deletes('ns.t')").await;
        assert_eq!(w.rows(all).await, lone.rows(all).await);
        assert_eq!(deletes(&w).await.0, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_beside_other_writers_leaves_one_row_a_key() {
    let one = |id: i32, v: i32| ints(&[("id", vec![Some(id)]), ("v", vec![Some(v)])]);
    for format in [DeleteFormat::Equality, DeleteFormat::Positions] {
        for (rival, want) in [
            ("INSERT INTO t VALUES (1, 7)", ["1|100", "2|2"]),
            ("UPDATE t SET v = 8 WHERE id = 1", ["1|100", "2|2"]),
            ("DELETE FROM t WHERE id = 1", ["1|100", "2|2"]),
            (
                "CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true'))",
                ["1|100", "2|2"],
            ),
            ("UPDATE t SET v = 9 WHERE id = 2", ["1|100", "2|9"]),
        ] {
            let mut w = create(3, "id INT, v INT", "").await;
            w.run("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (2, 2)").await;
            let raced: Table = Raced::new(w.catalog.clone(), rival).table().await;
            upsert(&raced, &[one(1, 100)], &how(&["id"], format)).await.unwrap_or_else(|e| panic!("{rival}: {e}"));
            assert_eq!(w.rows("SELECT id, v FROM t ORDER BY id, v").await, want, "{format:?}, {rival}");
        }
    }
    // a rival that adds a spec whose files the deletes can't reach
    let w = &mut create(3, "id INT, v INT", "PARTITIONED BY (id)").await;
    w.run("INSERT INTO t VALUES (1, 1)").await;
    let rival = "ALTER TABLE t ADD PARTITION FIELD bucket(2, v); INSERT INTO t VALUES (1, 7)";
    let raced = Raced::new(w.catalog.clone(), rival).table().await;
    upsert(&raced, &[one(1, 100)], &how(&["id"], DeleteFormat::Equality)).await.map_or_else(
        |e| assert!(matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Conflict), "{e}"),
        |_| panic!("the row of the other spec would stay beside the new one"),
    );
    assert_eq!(w.rows("SELECT id, v FROM t ORDER BY v").await, ["1|1", "1|7"]);
}
