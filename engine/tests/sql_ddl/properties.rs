//! Values of known table properties: refused where they are set, left alone where another engine has set them.

use super::*;

/// A bad value of each kind, and a word of what is allowed.
const BAD: &[(&str, &str, &str)] = &[
    ("write.delete.mode", "merge", "merge-on-read"),
    ("write.update.isolation-level", "dirty", "serializable"),
    ("write.target-file-size-bytes", "abc", "whole number"),
    ("write.format.default", "csv", "parquet, avro, orc"),
    ("write.parquet.compression-codec", "foo", "zstd"),
    ("write.delete.parquet.page-size-bytes", "-1", "whole number"),
    ("write.metadata.metrics.column.id", "truncate(0)", "truncate(n)"),
    ("commit.retry.num-retries", "-1", "zero or more"),
    ("history.expire.min-snapshots-to-keep", "0", "at least 1"),
    ("history.expire.max-snapshot-age-ms", "5d", "whole number"),
    ("gc.enabled", "maybe", "true, false"),
];

#[tokio::test]
async fn bad_values_are_refused_where_they_are_set() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT) TBLPROPERTIES('owner'='me', 'write.delete.mode'='MERGE-ON-READ')").await;
    for (key, value, allowed) in BAD {
        let set = format!("TBLPROPERTIES('{key}'='{value}')");
        for sql in [
            format!("CREATE TABLE x (id INT) {set}"),
            format!("CREATE TABLE IF NOT EXISTS x (id INT) {set}"),
            format!("CREATE OR REPLACE TABLE t (id INT) {set}"),
            format!("REPLACE TABLE t (id INT) {set}"),
            format!("CREATE TABLE x {set} AS SELECT 1 AS id"),
            format!("ALTER TABLE t SET {set}"),
            format!("ALTER TABLE t SET TBLPROPERTIES('fine'='1', '{key}'='{value}')"),
        ] {
            assert_eq!(w.refused(&sql, &format!("{key} is {value:?}")).await, ErrorKind::InvalidInput);
            w.refused(&sql, allowed).await;
        }
    }
    assert_eq!(w.rows("SHOW TABLES IN ns").await, ["ns|t|false"], "a refused statement makes no table");
    w.run("ALTER TABLE t SET TBLPROPERTIES('anything'='else', 'write.parquet.compression-codec'='SNAPPY')").await;
    w.run("INSERT INTO t SELECT CAST(id AS INT) FROM range(0, 10, 1, 1); DELETE FROM t WHERE id = 1").await;
    assert_eq!(w.rows("SELECT content FROM t.delete_files").await, ["1"], "the mode is read in any case");
}

/// Another engine's table: read whatever its properties say, changed where they do not matter, refused where they are used.
#[tokio::test]
async fn a_table_that_has_bad_values_stays_readable() {
    for (key, value, _) in BAD {
        let mut w = world().await;
        w.run("CREATE TABLE t (id INT) TBLPROPERTIES('format-version'='2'); INSERT INTO t VALUES (1), (2)").await;
        let newest = w.session.table(&["t".to_string()]).await.expect("table").metadata_location().to_string();
        let text = std::fs::read_to_string(&newest).expect("metadata");
        let mut metadata: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        metadata["properties"][key] = serde_json::json!(value);
        std::fs::write(&newest, metadata.to_string()).expect("written");

        assert_eq!(w.rows("SELECT * FROM t ORDER BY id").await, ["1", "2"], "{key}");
        assert_eq!(w.rows(&format!("SHOW TBLPROPERTIES t ('{key}')")).await, [format!("{key}|{value}")]);
        // a statement that uses it names it; any other works
        for sql in
            ["ALTER TABLE t SET TBLPROPERTIES('other'='1')", "INSERT INTO t VALUES (3)", "DELETE FROM t WHERE id = 1"]
        {
            if let Err(e) = w.session.execute_one(sql).await {
                assert!(e.to_string().contains(key), "{key}={value}: {sql}: {e}");
            }
        }
        w.run(&format!("ALTER TABLE t UNSET TBLPROPERTIES('{key}')")).await;
        w.run("INSERT INTO t VALUES (4); DELETE FROM t WHERE id = 2").await;
    }
}
