//! A decimal literal beside DOUBLE or FLOAT is a DOUBLE, wherever they meet: no number is rounded to 15 digits after the point, none is
//! too large, and no row changes that the statement does not name.

use super::*;

/// Numbers that DECIMAL(30, 15) does not hold.
const ODD: &str = "(0, 1e0 / 3e0), (1, 1e-20), (2, 1e17), (3, CAST('NaN' AS DOUBLE)), (4, -1e300), (5, 2e0)";

async fn odd(w: &mut World) {
    w.run("CREATE TABLE t (k INT, v DOUBLE) TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')")
        .await;
    w.run(&format!("INSERT INTO t VALUES {ODD}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn comparisons_are_of_doubles() {
    let mut w = world().await;
    odd(&mut w).await;
    for (condition, keys) in [
        ("v > 0.0", "0 1 2 3 5"),
        ("v > 1.5", "2 3 5"),
        ("v <> 2.0", "0 1 2 3 4"),
        ("v = 2.0", "5"),
        ("v = 0.333333333333333", ""),
        ("v IN (0.0, 2.0)", "5"),
        ("v NOT IN (0.0, 2.0)", "0 1 2 3 4"),
        ("v BETWEEN 0.1 AND 2.5", "0 5"),
        ("v IS NOT DISTINCT FROM 2.0", "5"),
        ("coalesce(v, 0.5) = 2.0", "5"),
        ("nullif(v, 2.0) IS NULL", "5"),
        ("CASE v WHEN 0.0 THEN true WHEN 2.0 THEN true ELSE false END", "5"),
        ("v IN (SELECT 2.0)", "5"),
        ("v = (SELECT 2.0)", "5"),
        ("-1.5 * v < 0.0", "0 1 2 5"),
        ("CAST(v AS FLOAT) = 2.0", "5"),
    ] {
        let found = w.rows(&format!("SELECT k FROM t WHERE {condition} ORDER BY k")).await;
        assert_eq!(found.join(" "), keys, "{condition}");
    }
    let joined = "SELECT a.k FROM t a JOIN (SELECT 2.0 AS d UNION ALL SELECT 0.0) b ON a.v = b.d";
    assert_eq!(w.rows(joined).await, ["5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_keep_their_digits() {
    let mut w = world().await;
    odd(&mut w).await;
    let all = "SELECT CAST(v AS STRING) FROM t ORDER BY k";
    let before = w.rows(all).await;
    assert_eq!(before, ["0.3333333333333333", "1.0E-20", "1.0E17", "NaN", "-1.0E300", "2.0"]);
    w.run("UPDATE t SET v = CASE WHEN k = 5 THEN 0.5 ELSE v END").await;
    assert_eq!(w.rows(all).await[..5], before[..5]);
    assert_eq!(w.rows("SELECT v FROM t WHERE k = 5").await, ["0.5"]);
    for sql in [
        "SELECT coalesce(v, 0.5) FROM t WHERE k = 1",
        "SELECT greatest(v, 0.0) FROM t WHERE k = 1",
        "SELECT array(0.5, v)[1] FROM t WHERE k = 1",
        "SELECT v FROM (SELECT v FROM t WHERE k = 1 UNION ALL SELECT 0.5) WHERE v < 0.1",
        "SELECT CASE WHEN k = 9 THEN 0.5 WHEN k = 1 THEN v ELSE 1.5 END FROM t WHERE k = 1",
    ] {
        assert_eq!(w.rows(sql).await, ["1.0E-20"], "{sql}");
    }
    w.run("CREATE TABLE made USING iceberg AS SELECT coalesce(v, 0.5) AS v, 1.25 AS d FROM t WHERE k = 1").await;
    assert_eq!(w.rows("SELECT v, d FROM made").await, ["1.0E-20|1.25"]);
    let made = w.session.table(&["made".to_string()]).await.expect("the table");
    let types: Vec<String> =
        made.metadata().current_schema().as_struct().fields().iter().map(|f| f.field_type.to_string()).collect();
    assert_eq!(types, ["double", "decimal(3, 2)"], "decimals among themselves stay decimals");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_takes_the_rows_it_names() {
    let mut w = world().await;
    odd(&mut w).await;
    w.run("DELETE FROM t WHERE v = 0.0").await;
    w.run("DELETE FROM t WHERE v = 0.333333333333333").await;
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["6"]);
    w.run("MERGE INTO t USING (SELECT 2.0 AS d) s ON t.v = s.d WHEN MATCHED THEN DELETE").await;
    w.run("DELETE FROM t WHERE v > 1.5").await;
    assert_eq!(w.rows("SELECT k FROM t ORDER BY k").await, ["0", "1", "4"]);
}
