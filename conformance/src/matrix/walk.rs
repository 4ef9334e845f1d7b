//! The walk-through as SQL text on any catalog: a V3 table that gets deletion vectors, and a V2 table that is upgraded.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use floe_engine::catalog::Catalog;
use floe_engine::sql::{Session, StatementResult};

use super::catalogs::failed;
use super::result::{Check, Outcome};

/// Statements, and the one value that a query must give. `{ns}` is a namespace of this process.
const STEPS: [(&str, &str); 19] = [
    ("CREATE NAMESPACE IF NOT EXISTS {ns}", ""),
    ("USE {ns}", ""),
    (
        "CREATE TABLE mytable_v3 (id INT, city STRING, state STRING) USING iceberg TBLPROPERTIES('format-version'='3', \
         'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read')",
        "",
    ),
    (
        "CREATE OR REPLACE TEMPORARY VIEW large_source AS \
         SELECT id, CAST(id AS STRING) AS city, 'WA' AS state FROM range(100000)",
        "",
    ),
    ("INSERT OVERWRITE mytable_v3 SELECT * FROM large_source", ""),
    ("DELETE FROM mytable_v3 WHERE id = 5000", ""),
    ("UPDATE mytable_v3 SET state = 'NY' WHERE id = 1", ""),
    ("SELECT count(*) FROM mytable_v3", "99999"),
    ("SELECT count(*) FROM mytable_v3 WHERE id = 5000", "0"),
    ("SELECT state FROM mytable_v3 WHERE id = 1", "NY"),
    ("SELECT summary['added-dvs'] FROM mytable_v3.snapshots WHERE operation = 'delete'", "1"),
    ("SELECT count(*) FROM mytable_v3.delete_files WHERE lower(file_format) = 'puffin'", "1"),
    ("SELECT count(*) FROM mytable_v3.history", "3"),
    (
        "CREATE TABLE mytable_v2 (id INT, city STRING, state STRING) USING iceberg TBLPROPERTIES('format-version'='2', \
         'write.delete.mode'='merge-on-read')",
        "",
    ),
    ("INSERT INTO mytable_v2 VALUES (1, 'a', 'WA'), (2, 'b', 'WA'), (3, 'c', 'WA')", ""),
    ("DELETE FROM mytable_v2 WHERE id = 2", ""),
    ("ALTER TABLE mytable_v2 SET TBLPROPERTIES('format-version'='3')", ""),
    ("DELETE FROM mytable_v2 WHERE id = 3", ""),
    ("SELECT max(id) FROM mytable_v2", "1"),
];

/// What takes everything away again.
const END: [&str; 3] = ["DROP TABLE mytable_v3 PURGE", "DROP TABLE mytable_v2 PURGE", "DROP NAMESPACE {ns}"];

/// Walks; each statement becomes a check, and the first that fails is the last before the tables are dropped.
pub async fn walk(catalog: Arc<dyn Catalog>, checks: &mut Vec<Check>) {
    let ns = format!("floe_walk_{}", std::process::id());
    let mut session = Session::new(catalog, "lake");
    let mut sound = true;
    for (sql, want) in STEPS {
        let (step, what) = (checks.len() + 1, sql.replace("{ns}", &ns));
        checks.push(match session.execute_one(&what).await {
            Err(e) => failed(step, sql, &e, ""),
            Ok(_) if want.is_empty() => Check::pass(step, sql),
            Ok(result) => judge(step, sql, want, &result),
        });
        if checks.last().is_some_and(|c| c.outcome != Outcome::Pass) {
            sound = false;
            break;
        }
    }
    for sql in END {
        let done = session.execute_one(&sql.replace("{ns}", &ns)).await;
        // after a failure there may be nothing to drop
        if sound {
            let step = checks.len() + 1;
            checks.push(done.map_or_else(|e| failed(step, sql, &e, ""), |_| Check::pass(step, sql)));
        }
    }
}

fn judge(step: usize, sql: &str, want: &str, result: &StatementResult) -> Check {
    let got: Vec<String> = result
        .batches
        .iter()
        .flat_map(|b| {
            (0..b.num_rows()).map(|r| array_value_to_string(b.column(0), r).unwrap_or_else(|e| e.to_string()))
        })
        .collect();
    if got == [want] {
        return Check::pass(step, sql);
    }
    let mut check = Check::new(step, sql, Outcome::Fail, "another answer");
    check.expected = want.into();
    check.got = got.join("\n");
    check
}
