//! The session over temporary views and `range`, without tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};

use super::{Session, StatementResult};
use crate::catalog::{Catalog, NewTable, TableCommit};
use crate::{Error, ErrorKind, Result, Table};

/// A catalog with nothing in it.
#[derive(Debug)]
struct Empty;

fn nothing<T>() -> Result<T> {
    Err(Error::not_found("the catalog is empty"))
}

#[async_trait]
impl Catalog for Empty {
    fn name(&self) -> &str {
        "empty"
    }
    async fn list_namespaces(&self, _: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        Ok(Vec::new())
    }
    async fn create_namespace(&self, _: &NamespaceIdent, _: HashMap<String, String>) -> Result<()> {
        nothing()
    }
    async fn namespace_exists(&self, _: &NamespaceIdent) -> Result<bool> {
        Ok(false)
    }
    async fn namespace_properties(&self, _: &NamespaceIdent) -> Result<HashMap<String, String>> {
        nothing()
    }
    async fn drop_namespace(&self, _: &NamespaceIdent) -> Result<()> {
        nothing()
    }
    async fn list_tables(&self, _: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        Ok(Vec::new())
    }
    async fn table_exists(&self, _: &TableIdent) -> Result<bool> {
        Ok(false)
    }
    async fn create_table(self: Arc<Self>, _: NewTable) -> Result<Table> {
        nothing()
    }
    async fn load_table(self: Arc<Self>, _: &TableIdent) -> Result<Table> {
        nothing()
    }
    async fn drop_table(&self, _: &TableIdent, _: bool) -> Result<()> {
        nothing()
    }
    async fn rename_table(&self, _: &TableIdent, _: &TableIdent) -> Result<()> {
        nothing()
    }
    async fn register_table(self: Arc<Self>, _: &TableIdent, _: &str) -> Result<Table> {
        nothing()
    }
    async fn commit_table(self: Arc<Self>, _: TableCommit) -> Result<Table> {
        nothing()
    }
}

fn session() -> Session {
    Session::new(Arc::new(Empty), "ice")
}

fn shown(r: &StatementResult) -> Vec<String> {
    let text = pretty_format_batches(&r.batches).expect("formats").to_string();
    text.lines()
        .filter(|l| l.starts_with('|'))
        .skip(1)
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join("|"))
        .collect()
}

async fn rows(sql: &str) -> Vec<String> {
    let all = session().execute(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
    shown(all.last().expect("a statement"))
}

#[tokio::test]
async fn the_walk_through_view_and_range() {
    let sql = "CREATE OR REPLACE TEMPORARY VIEW large_source AS SELECT id, CAST(id AS STRING) AS city, 'WA' AS state FROM range(100000);
        SELECT count(*) c, sum(id) s, max(city) m FROM large_source";
    assert_eq!(rows(sql).await, ["100000|4999950000|99999"]);
    assert_eq!(rows("SELECT id FROM range(10, 0, -3)").await, ["10", "7", "4", "1"]);
    assert_eq!(rows("SELECT ID FROM Range(1 + 1, 4, 1, 1) ORDER BY 1 DESC LIMIT 1").await, ["3"]);
    assert!(session().execute("SELECT * FROM range(0, 1, 0)").await.is_err());
}

#[tokio::test]
async fn range_keeps_its_partitions_through_projection_and_filter() {
    let s = session();
    for (sql, parts) in [
        ("SELECT CAST(id AS INT), 'x' FROM range(0, 10, 1, 1) WHERE id > 3", 1),
        ("SELECT id + 1 FROM range(100)", 2),
        ("SELECT id FROM range(0, 9, 1, 5)", 5),
    ] {
        let super::Statement::Query(mut q) = super::parser::parse(sql).expect("parses") else { panic!("no query") };
        let mut b = super::bind::Binder::new(&s);
        b.bind_output(&mut q).await.expect("binds");
        let plan = b.planner().plan_query(*q).expect("plans");
        let frame = b.planner().context().execute_logical_plan(plan).await.expect("runs");
        let physical = frame.create_physical_plan().await.expect("physical");
        assert_eq!(
            datafusion::physical_plan::ExecutionPlanProperties::output_partitioning(&physical).partition_count(),
            parts,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn spark_words() {
    for (sql, want) in [
        ("SELECT 1 / 2", "0.5"),
        ("SELECT 7 DIV 2, 7 % 4, -7 % 4, 1 / 0, 5 % 0", "3|3|-3||"),
        ("SELECT \"it's\" = 'it\\'s', 1 == 1, NULL <=> NULL, 'abc' RLIKE 'b.'", "true|true|true|true"),
        ("SELECT crc32('1|2'), concat_ws('|', 'a', NULL, 'b')", "2444571087|a|b"),
        (
            "SELECT CAST(1.5D AS STRING), CAST(1e10 AS STRING), CAST(-0.0F AS STRING), CAST(true AS STRING)",
            "1.5|1.0E10|-0.0|true",
        ),
        (
            "SELECT CAST(TIMESTAMP'2025-01-01 00:00:00' + make_interval(0,0,0,CAST(id AS INT),0,5,0) AS STRING) FROM range(1, 2)",
            "2025-01-02 00:05:00",
        ),
        ("SELECT CAST(TIMESTAMP'2025-01-31 12:00:00' + INTERVAL 1 DAY AS STRING)", "2025-02-01 12:00:00"),
        ("SELECT CAST(TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS STRING)", "1969-12-31 23:59:59.999999"),
        (
            "SELECT CAST(struct(1, 'x', NULL) AS STRING), CAST(array(1, NULL, 3) AS STRING), CAST(map('k', 1.5D) AS STRING)",
            "{1, x, null}|[1, null, 3]|{k -> 1.5}",
        ),
        ("SELECT CAST(map() AS STRING), CAST(array() AS STRING)", "{}|[]"),
        ("SELECT named_struct('a', 1).a, map('a', 2)['a'], array(5, 6)[1]", "1|2|6"),
        ("SELECT CAST(DATE'1969-12-31' AS STRING), CAST(CAST('1.25' AS DECIMAL(9,2)) AS STRING)", "1969-12-31|1.25"),
        ("SELECT s.ID, S.op FROM (SELECT 1 AS id, 'u' AS Op UNION ALL SELECT 2, 'd') s ORDER BY s.id LIMIT 1", "1|u"),
        (
            "SELECT CAST(X'4142' AS STRING), nvl(NULL, 2), ifnull(NULL, 3), date_add(DATE'2025-01-31', 1)",
            "AB|2|3|2025-02-01",
        ),
    ] {
        assert_eq!(rows(sql).await, [want], "{sql}");
    }
}

#[tokio::test]
async fn literals_have_sparks_types() {
    let s = session();
    let r = s
        .query(match super::parser::parse("SELECT 1, 3000000000, 1.5, 1.5D, 'x', NULL, 2L").expect("parses") {
            super::Statement::Query(q) => *q,
            other => panic!("{other:?}"),
        })
        .await
        .expect("runs");
    let types: Vec<String> =
        r.schema.expect("schema").fields().iter().map(|f| super::show::arrow_type_text(f.data_type())).collect();
    assert_eq!(types, ["int", "bigint", "decimal(2,1)", "double", "string", "void", "bigint"]);
}

#[tokio::test]
async fn the_failing_statement_is_named_and_earlier_ones_stay() {
    let mut s = session();
    let e = s.execute("CREATE TEMP VIEW v AS SELECT 1 AS a;\n\nSELECT b FROM v;").await.expect_err("no column b");
    let text = e.to_string();
    assert!(text.contains("statement 2 (line 3): SELECT b FROM v"), "{text}");
    assert_eq!(shown(&s.execute_one("SELECT * FROM V").await.expect("view stays")), ["1"]);
    let e = s.execute_one("CREATE TEMP VIEW v AS SELECT 2").await.expect_err("exists");
    assert_eq!(e.kind(), ErrorKind::AlreadyExists);
    assert!(
        s.execute_one("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM v").await.is_err(),
        "a view can't read itself"
    );
    s.execute_one("DROP VIEW v").await.expect("drops");
    assert!(s.execute_one("DROP VIEW v").await.is_err());
    s.execute_one("DROP VIEW IF EXISTS v").await.expect("nothing to drop");
}

#[tokio::test]
async fn settings_are_kept() {
    let mut s = session();
    s.execute_one("SET spark.sql.sources.partitionOverwriteMode = dynamic").await.expect("sets");
    assert!(s.dynamic_overwrite());
    let r = s.execute_one("SET spark.sql.sources.partitionoverwritemode").await.expect("reads");
    assert_eq!(shown(&r), ["spark.sql.sources.partitionoverwritemode|dynamic"]);
}
