//! DDL, metadata tables and procedures through SQL, on a Hadoop-layout warehouse.

#[path = "sql_ddl/expressions.rs"]
mod expressions;
#[path = "sql_ddl/floats.rs"]
mod floats;
#[path = "sql_ddl/narrow.rs"]
mod narrow;
#[path = "sql_ddl/properties.rs"]
mod properties;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use floe_engine::ErrorKind;
use floe_engine::catalog::HadoopCatalog;
use floe_engine::sql::Session;
use floe_engine::sql::functions::spark_strings;
use iceberg::spec::{FormatVersion, Transform};

struct World {
    session: Session,
    _dir: tempfile::TempDir,
}

async fn world() -> World {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = HadoopCatalog::new("ice", &dir.path().display().to_string(), HashMap::new()).expect("catalog");
    let mut session = Session::new(Arc::new(catalog), "ice");
    session.execute("CREATE NAMESPACE IF NOT EXISTS ns; USE ns").await.expect("namespace");
    World { session, _dir: dir }
}

impl World {
    async fn run(&mut self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}\n{e}");
        }
    }

    async fn refused(&mut self, sql: &str, part: &str) -> ErrorKind {
        let before = self.session.table(&["t".to_string()]).await.ok().map(|t| t.metadata_location().to_string());
        let e = self.session.execute_one(sql).await.expect_err(sql);
        assert!(e.to_string().contains(part), "{sql}\n{e}");
        let after = self.session.table(&["t".to_string()]).await.ok().map(|t| t.metadata_location().to_string());
        assert_eq!(before, after, "a refused statement changes nothing: {sql}");
        e.kind()
    }

    async fn rows(&mut self, sql: &str) -> Vec<String> {
        let all = self.session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        all.last().expect("a statement").batches.iter().flat_map(lines).collect()
    }
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let columns: Vec<_> = batch.columns().iter().map(|c| spark_strings(c.as_ref()).expect("prints")).collect();
    (0..batch.num_rows())
        .map(|r| columns.iter().map(|c| if c.is_null(r) { "NULL" } else { c.value(r) }).collect::<Vec<_>>().join("|"))
        .collect()
}

#[tokio::test]
async fn namespaces_and_tables() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT) USING iceberg; CREATE TABLE IF NOT EXISTS ice.ns.t (id INT); CREATE TABLE ns.u AS SELECT 1 AS a, 'x' AS b, 1.5 AS c").await;
    assert_eq!(w.rows("SHOW TABLES IN ns").await, ["ns|t|false", "ns|u|false"]);
    assert_eq!(w.rows("DESCRIBE ns.u").await, ["a|int|NULL", "b|string|NULL", "c|decimal(2,1)|NULL"]);
    assert_eq!(w.rows("SHOW NAMESPACES").await, ["ns"]);
    assert_eq!(w.refused("CREATE TABLE t (id INT)", "exists").await, ErrorKind::AlreadyExists);
    assert_eq!(w.refused("USE nowhere", "nowhere").await, ErrorKind::NotFound);
    w.refused("CREATE TABLE x (id INT) USING parquet", "iceberg").await;
    w.refused("CREATE TABLE x (id INT) TBLPROPERTIES('format-version'='4')", "v4").await;
    w.run("DROP TABLE t; DROP TABLE IF EXISTS t; DROP NAMESPACE ns CASCADE").await;
    assert_eq!(w.rows("SHOW NAMESPACES").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_default_format_version_is_2_and_upgrades_go_up_only() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT)").await;
    assert_eq!(w.session.table(&["t".into()]).await.expect("t").metadata().format_version(), FormatVersion::V2);
    w.run("ALTER TABLE t SET TBLPROPERTIES('format-version'='3', 'a'='b')").await;
    let t = w.session.table(&["t".into()]).await.expect("t");
    assert_eq!(t.metadata().format_version(), FormatVersion::V3);
    assert_eq!(t.property("a", ""), "b");
    w.refused("ALTER TABLE t SET TBLPROPERTIES('format-version'='2')", "Cannot downgrade v3 table to v2").await;
    w.run("ALTER TABLE t UNSET TBLPROPERTIES('a')").await;
    w.refused("ALTER TABLE t UNSET TBLPROPERTIES('a')", "no property").await;
}

#[tokio::test]
async fn columns_evolve_by_the_rules() {
    let mut w = world().await;
    w.run(
        "CREATE TABLE t (id INT NOT NULL, s STRING, st STRUCT<a: INT>, arr ARRAY<STRUCT<x: INT>>, d DECIMAL(9,2)) \
         TBLPROPERTIES('format-version'='3');
         ALTER TABLE t ADD COLUMNS (n BIGINT COMMENT 'new' FIRST, st.b STRING, arr.element.y DOUBLE);
         ALTER TABLE t ADD COLUMN dflt INT NOT NULL DEFAULT 5 AFTER id;
         ALTER TABLE t RENAME COLUMN s TO str;
         ALTER TABLE t ALTER COLUMN dflt TYPE BIGINT;
         ALTER TABLE t ALTER COLUMN d TYPE DECIMAL(18,2);
         ALTER TABLE t ALTER COLUMN str AFTER id",
    )
    .await;
    assert_eq!(
        w.rows("DESCRIBE t").await,
        [
            "n|bigint|new",
            "id|int|NULL",
            "str|string|NULL",
            "dflt|bigint|NULL",
            "st|struct<a:int,b:string>|NULL",
            "arr|array<struct<x:int,y:double>>|NULL",
            "d|decimal(18,2)|NULL",
        ]
    );
    let t = w.session.table(&["t".into()]).await.expect("t");
    let schema = t.metadata().current_schema().clone();
    // ids: 5 columns, then st.a, arr.element, arr.element.x; new ones count on
    assert_eq!(schema.field_id_by_name("n"), Some(9));
    assert_eq!(schema.field_id_by_name("str"), Some(2));
    let dflt = schema.field_by_name("dflt").expect("dflt");
    assert!(dflt.required && dflt.initial_default.is_some() && dflt.write_default.is_some());

    w.refused("ALTER TABLE t ALTER COLUMN str TYPE INT", "Cannot change column type").await;
    w.refused("ALTER TABLE t ALTER COLUMN id TYPE STRING", "Cannot change column type").await;
    w.refused("ALTER TABLE t ADD COLUMN req INT NOT NULL", "without a default").await;
    w.refused("ALTER TABLE t ADD COLUMN ID INT", "already exists").await;
    w.refused("ALTER TABLE t RENAME COLUMN str TO id", "already exists").await;
    w.refused("ALTER TABLE t DROP COLUMN nope", "no column").await;
    w.refused("ALTER TABLE t ALTER COLUMN str SET NOT NULL", "non-nullable").await;

    w.run("ALTER TABLE t SET IDENTIFIER FIELDS id").await;
    w.refused("ALTER TABLE t DROP COLUMN id", "identifier").await;
    w.refused("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", "identifier").await;
    w.run("ALTER TABLE t DROP IDENTIFIER FIELDS id; ALTER TABLE t DROP COLUMNS (id, st.a)").await;
    let t = w.session.table(&["t".into()]).await.expect("t");
    assert_eq!(t.metadata().current_schema().field_id_by_name("id"), None);
}

#[tokio::test]
async fn version_2_refuses_version_3_types_and_defaults() {
    let mut w = world().await;
    for ty in ["TIMESTAMP_NS", "VARIANT", "UNKNOWN", "GEOMETRY"] {
        w.refused(&format!("CREATE TABLE t (x {ty})"), "format-version 3").await;
    }
    w.refused("CREATE TABLE t (x INT DEFAULT 1)", "format-version 3").await;
    w.run("CREATE TABLE t (id INT, v VARIANT, u UNKNOWN, g GEOMETRY, ns TIMESTAMP_NS) TBLPROPERTIES('format-version'='3')").await;
    assert_eq!(
        w.rows("DESCRIBE t").await,
        ["id|int|NULL", "v|variant|NULL", "u|void|NULL", "g|geometry(OGC:CRS84)|NULL", "ns|timestamp_ns|NULL"]
    );
    w.run("ALTER TABLE t ALTER COLUMN u TYPE STRING").await;
}

#[tokio::test]
async fn partitions_evolve() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, ts TIMESTAMP, s STRING) PARTITIONED BY (bucket(4, id), days(ts))").await;
    w.run("ALTER TABLE t ADD PARTITION FIELD truncate(2, s) AS pre; ALTER TABLE t DROP PARTITION FIELD days(ts)").await;
    let t = w.session.table(&["t".into()]).await.expect("t");
    let fields: Vec<(String, Transform, i32)> = t
        .metadata()
        .default_partition_spec()
        .fields()
        .iter()
        .map(|f| (f.name.clone(), f.transform, f.field_id))
        .collect();
    assert_eq!(
        fields,
        [("id_bucket_4".to_string(), Transform::Bucket(4), 1000), ("pre".to_string(), Transform::Truncate(2), 1002)]
    );
    w.refused("ALTER TABLE t ADD PARTITION FIELD bucket(4, id)", "same source and transform").await;
    w.refused("ALTER TABLE t ADD PARTITION FIELD days(id)", "").await;
    w.refused("ALTER TABLE t DROP PARTITION FIELD hours(ts)", "no such partition field").await;
    w.refused("ALTER TABLE t DROP COLUMN id", "partition field").await;
    w.run("ALTER TABLE t REPLACE PARTITION FIELD pre WITH hours(ts); ALTER TABLE t DROP PARTITION FIELD ts_hour").await;
    w.run("ALTER TABLE t WRITE ORDERED BY id DESC, s").await;
    let t = w.session.table(&["t".into()]).await.expect("t");
    assert_eq!(t.metadata().default_sort_order().fields.len(), 2);
    assert_eq!(t.property("write.distribution-mode", ""), "range");
}

#[tokio::test]
async fn replace_keeps_history_and_ids_of_same_columns() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, s STRING); CREATE OR REPLACE TABLE t (x DOUBLE, id INT) PARTITIONED BY (id)").await;
    let t = w.session.table(&["t".into()]).await.expect("t");
    let schema = t.metadata().current_schema();
    assert_eq!((schema.field_id_by_name("id"), schema.field_id_by_name("x")), (Some(1), Some(3)));
    assert_eq!(t.metadata().default_partition_spec().fields().len(), 1);
    w.refused("REPLACE TABLE nope (id INT)", "does not exist").await;
}

#[tokio::test]
async fn refs_and_metadata_tables() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES('format-version'='3')").await;
    assert_eq!(w.rows("SELECT count(*) FROM t.snapshots").await, ["0"]);
    w.refused("ALTER TABLE t CREATE BRANCH dev", "needs a snapshot").await;
    w.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").await;
    w.run("ALTER TABLE t CREATE TAG keep RETAIN 2 DAYS; ALTER TABLE t CREATE BRANCH dev").await;
    w.run("INSERT INTO t VALUES (3, 'a')").await;
    assert_eq!(
        w.rows("SELECT name, type, max_reference_age_in_ms FROM ns.t.refs ORDER BY name").await,
        ["dev|BRANCH|NULL", "keep|TAG|172800000", "main|BRANCH|NULL"]
    );
    assert_eq!(
        w.rows("SELECT operation, summary['added-records'] FROM t.snapshots ORDER BY committed_at").await,
        ["append|2", "append|1"]
    );
    assert_eq!(w.rows("SELECT count(*) FROM t.tag_keep").await, ["2"]);
    assert_eq!(w.rows("SELECT count(*) FROM t VERSION AS OF 'dev'").await, ["2"]);
    assert_eq!(w.rows("SELECT count(*) FROM t TIMESTAMP AS OF '2100-01-01 00:00:00'").await, ["3"]);
    assert_eq!(
        w.rows("SELECT partition.p, record_count, file_count FROM t.partitions ORDER BY 1").await,
        ["a|2|2", "b|1|1"]
    );
    assert_eq!(
        w.rows("SELECT content, file_format, sum(record_count) FROM t.files GROUP BY content, file_format").await,
        ["0|PARQUET|3"]
    );
    assert_eq!(w.rows("SELECT count(*) FROM t.manifests").await, ["2"]);
    assert_eq!(
        w.rows("SELECT sum(record_count) FROM t.entries JOIN t.files ON entries.data_file.file_path = files.file_path")
            .await,
        ["3"]
    );
    assert_eq!(w.rows("SELECT count(*) FROM t.history WHERE is_current_ancestor").await, ["2"]);
    assert_eq!(w.rows("SELECT count(*) > 1 FROM t.metadata_log_entries").await, ["true"]);
    assert_eq!(w.rows("SELECT readable_metrics.id.lower_bound, readable_metrics.id.value_count FROM t.files WHERE record_count = 1 AND partition.p = 'b'").await, ["2|1"]);
    w.refused("ALTER TABLE t CREATE TAG keep", "exists").await;
    w.refused("ALTER TABLE t DROP BRANCH main", "can't be dropped").await;
    w.refused("ALTER TABLE t DROP BRANCH keep", "is a tag").await;

    let first = w.rows("SELECT snapshot_id FROM t.refs WHERE name = 'keep'").await.remove(0);
    w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.t', {first})")).await;
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["2"]);
    w.refused("CALL ice.system.rollback_to_snapshot('ns.t', 5)", "unknown snapshot").await;
    w.run("INSERT INTO t.branch_dev VALUES (9, 'z')").await;
    let moved = w.rows("CALL system.fast_forward(table => 't', branch => 'main', to => 'dev')").await;
    assert!(moved[0].starts_with("main|"), "{moved:?}");
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["3"]);
    w.refused("CALL ice.system.nope()", "there is no procedure").await;
    w.refused("CALL ice.system.fast_forward('t', 'main')", "needs to").await;
}

#[tokio::test]
async fn metadata_columns_are_hidden_from_stars() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, s STRING) TBLPROPERTIES('format-version'='3'); INSERT INTO t VALUES (1, 'a'), (2, 'b')").await;
    assert_eq!(w.rows("SELECT *, _row_id FROM t WHERE _pos >= 0 ORDER BY id").await, ["1|a|0", "2|b|1"]);
    assert_eq!(
        w.rows("SELECT x.*, y.* FROM t x JOIN ns.t y ON x._row_id = y._row_id WHERE x.ID = 2").await,
        ["2|b|2|b"]
    );
    assert_eq!(w.rows("SELECT * FROM ns.t WHERE NS.T.Id = 1").await, ["1|a"]);
}

/// A source that gives other rows each time it is read is read once, in both modes: else copy-on-write would find the files with some
/// rows and change them by others.
#[tokio::test]
async fn merge_reads_its_source_once() {
    for mode in ["copy-on-write", "merge-on-read"] {
        let mut w = world().await;
        w.run(&format!(
            "CREATE TABLE t (id INT, n INT) USING iceberg PARTITIONED BY (truncate(10, id)) \
             TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='{mode}'); \
             INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(200); \
             MERGE INTO t USING (SELECT DISTINCT CAST(random() * 400 AS INT) AS id FROM range(30)) s ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET n = 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 2)"
        ))
        .await;
        let [all, ids, olds] = ["count(*)", "count(DISTINCT id)", "count(*) FILTER (WHERE id < 200)"];
        let seen = w.rows(&format!("SELECT {all} - {ids}, {olds} FROM t")).await;
        assert_eq!(seen, ["0|200"], "{mode}: no key twice, none lost");
    }
}
