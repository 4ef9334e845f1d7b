//! What a scan leaves out before it decodes more: filters inside the reader, and the keys of a MERGE's source.

use super::*;

const MODES: [&str; 2] = ["merge-on-read", "copy-on-write"];

fn properties(mode: &str) -> String {
    format!(
        "TBLPROPERTIES('format-version'='3', 'write.merge.mode'='{mode}', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}')"
    )
}

/// A data file whose bounds hold no key of the source is not opened: it may even be gone.
#[tokio::test(flavor = "multi_thread")]
async fn merge_opens_no_file_without_a_source_key() {
    for mode in MODES {
        let mut w = world().await;
        w.run(&format!("CREATE TABLE t (id BIGINT, n BIGINT) {}", properties(mode))).await;
        for from in [0, 100] {
            w.run(&format!("INSERT INTO t SELECT id, 0 FROM range({from}, {})", from + 100)).await;
        }
        let merge = |id: u32| {
            format!(
                "MERGE INTO t USING (SELECT {id} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1 WHEN NOT MATCHED THEN \
                 INSERT (id, n) VALUES (s.id, 2)"
            )
        };
        let file = w.rows("SELECT DISTINCT _file FROM t WHERE id = 150").await;
        let file = file[0].trim_start_matches("file:");
        let bytes = std::fs::read(file).expect("the data file");
        std::fs::remove_file(file).expect("removed");
        w.run(&merge(5)).await;
        assert!(w.session.execute(&merge(150)).await.is_err(), "{mode}: its rows are needed");
        std::fs::write(file, bytes).expect("put back");
        w.run(&merge(150)).await;
        w.run(&merge(777)).await;
        let changed = w.rows("SELECT id, n FROM t WHERE n > 0 ORDER BY id").await;
        assert_eq!(changed, ["5|1", "150|1", "777|2"], "{mode}");
        assert_eq!(w.rows("SELECT count(*) FROM t").await, ["201"], "{mode}");
    }
}

/// Keys of each type find their rows, through casts and beside other conditions; null is no key.
#[tokio::test(flavor = "multi_thread")]
async fn merge_matches_by_keys_of_every_type() {
    let types = ["INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "DOUBLE", "DECIMAL(9, 2)"];
    for (mode, ty) in MODES.iter().flat_map(|m| types.map(|t| (m, t))) {
        let mut w = world().await;
        let value = |k: &str| match ty {
            "DATE" => format!("date_add(DATE '2020-01-01', CAST({k} AS INT))"),
            "TIMESTAMP" => format!("CAST(date_add(DATE '2020-01-01', CAST({k} AS INT)) AS TIMESTAMP)"),
            "INT" => format!("CAST({k} AS BIGINT)"),
            t => format!("CAST({k} AS {t})"),
        };
        w.run(&format!("CREATE TABLE t (k {ty}, n BIGINT) {}", properties(mode))).await;
        w.run(&format!("INSERT INTO t SELECT CAST({} AS {ty}), id FROM range(0, 2000, 1, 2)", value("id"))).await;
        w.run("INSERT INTO t VALUES (NULL, 5000)").await;
        w.run("DELETE FROM t WHERE n = 7").await;
        w.run(&format!(
            "MERGE INTO t USING (SELECT {} AS key, id FROM (SELECT id * 500 + 3 AS id FROM range(0, 6) UNION ALL SELECT 7) \
             UNION ALL SELECT NULL, -1) s ON s.key = t.k AND t.n <> 503 WHEN MATCHED AND s.id = 1003 THEN DELETE \
             WHEN MATCHED THEN UPDATE SET n = -t.n WHEN NOT MATCHED THEN INSERT (k, n) VALUES (NULL, s.id + 10000)",
            value("id")
        ))
        .await;
        let negative = w.rows("SELECT n FROM t WHERE n < 0 ORDER BY n").await;
        assert_eq!(negative, ["-1503", "-3"], "{mode} {ty}");
        let added = w.rows("SELECT n FROM t WHERE n > 5000 ORDER BY n").await;
        assert_eq!(added, ["9999", "10007", "10503", "12003", "12503"], "{mode} {ty}");
        assert_eq!(w.rows("SELECT count(*), count(k) FROM t").await, ["2004|1998"], "{mode} {ty}");
    }
}

/// A filter that cannot be evaluated for a row that is deleted fails no query: the row is not there.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_rows_fail_no_filter() {
    let mut w = world().await;
    w.run(&format!("CREATE TABLE t (s STRING, n BIGINT) {}", properties("merge-on-read"))).await;
    w.run("INSERT INTO t SELECT CASE WHEN id = 3 THEN 'x' ELSE CAST(id AS STRING) END, id FROM range(0, 10, 1, 1)")
        .await;
    for columns in ["s", "s, n"] {
        let e = w.session.execute(&format!("SELECT {columns} FROM t WHERE CAST(s AS INT) = 5")).await;
        assert!(e.is_err(), "a live row that is no number fails");
    }
    w.run("DELETE FROM t WHERE n = 3").await;
    assert_eq!(w.rows("SELECT s FROM t WHERE CAST(s AS INT) = 5").await, ["5"]);
    assert_eq!(w.rows("SELECT s, n FROM t WHERE CAST(s AS INT) = 5").await, ["5|5"]);
    w.run("UPDATE t SET n = -1 WHERE CAST(s AS INT) = 5").await;
    w.run("DELETE FROM t WHERE CAST(s AS INT) = 6").await;
    assert_eq!(w.rows("SELECT count(*), sum(n) FROM t").await, ["8|30"]);
}

/// The filter inside the reader gives positions and lineage of just the rows that pass, whatever was deleted before, and ends when it
/// lets most rows through.
#[tokio::test(flavor = "multi_thread")]
async fn narrow_filters_keep_positions_and_row_ids() {
    let mut w = world().await;
    w.run(&format!("CREATE TABLE t (id BIGINT) {}", properties("merge-on-read"))).await;
    w.run("INSERT INTO t SELECT id FROM range(0, 300000, 1, 1)").await;
    w.run("DELETE FROM t WHERE id % 10 = 7").await;
    let rows = w.rows("SELECT id, _pos, _row_id FROM t WHERE id % 50000 = 17 OR id % 50000 = 18 ORDER BY id").await;
    let want: Vec<String> = (0..6).map(|i| 50000 * i + 18).map(|v| format!("{v}|{v}|{v}")).collect();
    assert_eq!(rows, want);
    for (condition, count) in [("id >= 5", 269_995), ("id % 2 = 1", 120_000), ("id < 0", 0)] {
        let sql = format!("SELECT count(*), coalesce(sum(id - _pos), 0) FROM t WHERE {condition}");
        assert_eq!(w.rows(&sql).await, [format!("{count}|0")], "{condition}");
    }
}

/// Where the condition says that null equals null, a source of nulls has its row in the target (however few keys it has).
#[tokio::test(flavor = "multi_thread")]
async fn merge_by_null_safe_equality_finds_nulls() {
    for (mode, ty) in MODES.iter().flat_map(|m| ["INT", "STRING", "DATE"].map(|t| (m, t))) {
        for on in
            ["t.k <=> s.k", "s.k IS NOT DISTINCT FROM t.k", "t.k <=> s.k AND t.n = -1", "t.k <=> s.k AND t.n = s.m"]
        {
            let mut w = world().await;
            w.run(&format!("CREATE TABLE t (k {ty}, n INT) {}", properties(mode))).await;
            let value = if ty == "DATE" { "date_add(DATE '2020-01-01', CAST(id AS INT))" } else { "id" };
            w.run(&format!("INSERT INTO t SELECT CAST({value} AS {ty}), CAST(id AS INT) FROM range(0, 500, 1, 2)"))
                .await;
            w.run("INSERT INTO t VALUES (NULL, -1)").await;
            w.run(&format!(
                    "MERGE INTO t USING (SELECT CAST(NULL AS {ty}) AS k, -1 AS m) s ON {on} WHEN MATCHED THEN UPDATE SET n = -2 \
                     WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 9000)"
                ))
                .await;
            let got = w.rows("SELECT count(*), min(n), max(n) FROM t").await;
            assert_eq!(got, ["501|-2|499"], "{mode} {ty} {on}");
        }
    }
}

/// DELETE and SELECT agree about zeros of both signs, in one file and alone in one.
#[tokio::test(flavor = "multi_thread")]
async fn delete_removes_what_select_finds_of_zeros() {
    let conditions = [
        "d = 0.0D",
        "d <> 0.0D",
        "d < 0.0D",
        "d <= 0.0D",
        "d > -0.0D",
        "d >= 0.0D",
        "d IN (0.0D, 7.0D)",
        "NOT d = -0.0D",
    ];
    for (mode, condition) in MODES.iter().flat_map(|m| conditions.map(|c| (m, c))) {
        for ty in ["DOUBLE", "FLOAT"] {
            let mut w = world().await;
            w.run(&format!("CREATE TABLE t (d {ty}, k INT) {}", properties(mode))).await;
            for rows in
                ["(-0.0D, 1)", "(0.0D, 2)", "(0.0D, 3), (-0.0D, 4)", "(-0.0D, 5), (1.0D, 6)", "(-1.0D, 7), (0.0D, 8)"]
            {
                w.run(&format!("INSERT INTO t SELECT CAST(a AS {ty}), CAST(b AS INT) FROM (VALUES {rows}) AS v(a, b)"))
                    .await;
            }
            let found = w.rows(&format!("SELECT k FROM t WHERE {condition} ORDER BY k")).await;
            let all = w.rows("SELECT k FROM t ORDER BY k").await;
            w.run(&format!("DELETE FROM t WHERE {condition}")).await;
            let left = w.rows("SELECT k FROM t ORDER BY k").await;
            let want: Vec<String> = all.into_iter().filter(|k| !found.contains(k)).collect();
            assert_eq!(left, want, "{mode} {ty} {condition}");
        }
    }
}
