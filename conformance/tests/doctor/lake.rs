//! What every store must carry: the catalogs' suite, races, and tables with deletion vectors through SQL.

use std::collections::HashMap;
use std::sync::Arc;

use floe_conformance::matrix::catalogs::put_on;
use floe_conformance::matrix::result::Outcome;
use floe_engine::catalog::{Catalog, open_catalog};
use floe_engine::sql::Session;

use super::catalog_suite::*;

pub type Props = HashMap<String, String>;

pub fn props(of: &[(&str, &str)]) -> Props {
    of.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

async fn open(spec: &str, props: &Props) -> Arc<dyn Catalog> {
    open_catalog(spec, "lake", props.clone()).await.unwrap()
}

/// Everything a catalog of `spec` must do.
pub async fn carries(spec: &str, props: &Props, can: Abilities) {
    let outside = tempfile::tempdir().unwrap();
    run(open(spec, props).await, can, &outside.path().display().to_string()).await;
    loses_no_commit(spec, props).await;
    keeps_deletes(spec, props).await;
    // The doctor's steps and the walk-through, as a conformance run has them.
    let checks = put_on(spec, props.clone()).await;
    assert!(checks.len() >= 25 && checks.iter().all(|c| c.outcome == Outcome::Pass), "{spec}: {checks:?}");
}

async fn loses_no_commit(spec: &str, props: &Props) {
    const WRITERS: usize = 4;
    const EACH: usize = 4;
    let catalog = open(spec, props).await;
    let id = ident(&["races"], "t");
    make_table(&catalog, &id).await;
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(open(spec, props).await);
    }
    race(&catalog, writers, &id, EACH).await;
    catalog.drop_table(&id, true).await.unwrap();
    catalog.drop_namespace(id.namespace()).await.unwrap();
}

/// The walk through a table with deletion vectors, left in place as `walk.t`.
pub async fn keeps_deletes(spec: &str, props: &Props) {
    let mut session = Session::new(open(spec, props).await, "lake");
    session
        .execute(
            "CREATE NAMESPACE walk; USE walk; \
             CREATE TABLE t (id INT, s STRING) USING iceberg TBLPROPERTIES('format-version'='3', \
             'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'); \
             INSERT INTO t SELECT id, CAST(id AS STRING) FROM range(20000); \
             DELETE FROM t WHERE id = 5000; UPDATE t SET s = 'NY' WHERE id = 1",
        )
        .await
        .unwrap_or_else(|e| panic!("{spec}: {e}"));
    reads_deletes(spec, props).await;
}

/// Another session reads what is in the store, not what the first remembers.
pub async fn reads_deletes(spec: &str, props: &Props) {
    let mut session = Session::new(open(spec, props).await, "lake");
    for (sql, rows) in [
        ("SELECT * FROM walk.t", 19_999),
        ("SELECT * FROM walk.t WHERE id = 5000", 0),
        ("SELECT * FROM walk.t WHERE id = 1 AND s = 'NY'", 1),
        ("SELECT * FROM walk.t.delete_files WHERE lower(file_format) = 'puffin'", 1),
    ] {
        let got = session.execute_one(sql).await.unwrap_or_else(|e| panic!("{spec}: {sql}: {e}"));
        assert_eq!(got.num_rows(), rows, "{spec}: {sql}");
    }
}
