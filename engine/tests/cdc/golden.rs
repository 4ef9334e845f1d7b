//! The changelog of copy-on-write tables is what Spark's is, statement by statement.

use std::collections::HashMap;

use crate::support::{World, shared};
use serde_json::Value;

/// Runs the statements of a golden history and compares every query of changes; snapshot ids go by their order.
async fn follow(name: &str, table: &str) {
    let path = shared().join("golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let golden: Value = serde_json::from_str(&text).expect("golden file");
    let mut world = World::new().await;
    let mut theirs: HashMap<i64, i64> = HashMap::new();
    let mut compared = 0;
    for step in golden["steps"].as_array().expect("steps") {
        let sql = step["sql"].as_str().expect("sql").replace("ice.ns.", "ns.");
        for s in step["snapshots_new"].as_array().into_iter().flatten() {
            let n = theirs.len() as i64;
            theirs.insert(s["snapshot-id"].as_i64().expect("id"), n);
        }
        if !sql.starts_with("SELECT") {
            world.run(&sql).await;
            continue;
        }
        let ours: HashMap<i64, i64> =
            world.snapshots(table).await.into_iter().enumerate().map(|(i, id)| (id, i as i64)).collect();
        let result = world.session.execute_one(&sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        let names: Vec<String> = result.schema.expect("columns").fields().iter().map(|f| f.name().clone()).collect();
        let line = |cells: Vec<(String, String)>| {
            cells.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
        };
        let mut got: Vec<String> = Vec::new();
        for b in &result.batches {
            let columns: Vec<_> = b
                .columns()
                .iter()
                .map(|c| floe_engine::sql::functions::spark_strings(c.as_ref()).expect("text"))
                .collect();
            for i in 0..b.num_rows() {
                got.push(line(
                    names
                        .iter()
                        .zip(&columns)
                        .map(|(n, c)| {
                            let v = c.value(i).to_string();
                            let v = if n == "_commit_snapshot_id" {
                                ours[&v.parse::<i64>().unwrap()].to_string()
                            } else {
                                v
                            };
                            (n.clone(), v)
                        })
                        .collect(),
                ));
            }
        }
        let want: Vec<String> = step["result"]
            .as_array()
            .expect("result")
            .iter()
            .map(|row| {
                line(
                    row.as_object()
                        .expect("row")
                        .iter()
                        .map(|(k, v)| {
                            let text = v.as_str().map_or_else(|| v.to_string(), str::to_string);
                            let text = if k == "_commit_snapshot_id" {
                                theirs[&v.as_i64().unwrap()].to_string()
                            } else {
                                text
                            };
                            (k.clone(), text)
                        })
                        .collect(),
                )
            })
            .collect();
        let sorted = |mut v: Vec<String>| {
            v.sort();
            v
        };
        assert_eq!(sorted(got), sorted(want), "{sql}");
        compared += 1;
    }
    assert!(compared >= 5, "only {compared} queries of {name} were compared");
}

#[tokio::test]
async fn spark_changes_of_a_v2_copy_on_write_table() {
    follow("changelog_v2_cow.s35-i1120.json", "changelog_v2_cow").await;
}

#[tokio::test]
async fn spark_changes_of_a_v3_copy_on_write_table() {
    follow("changelog_v3_cow.s35-i1120.json", "changelog_v3_cow").await;
}

/// The same history written merge-on-read, where Spark gives up (CDC-6, case G3), has the same changelog.
#[tokio::test]
async fn merge_on_read_has_the_changes_of_copy_on_write() {
    let mut world = World::new().await;
    let mut found = Vec::new();
    for (name, version, mode) in [
        ("cow", 3, "copy-on-write"),
        ("mor", 3, "merge-on-read"),
        ("cow2", 2, "copy-on-write"),
        ("mor2", 2, "merge-on-read"),
    ] {
        world
            .run(&format!(
                "CREATE TABLE ns.{name} (id INT, city STRING, state STRING) USING iceberg TBLPROPERTIES('format-version'='{version}', \
                 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}');
                 INSERT INTO ns.{name} SELECT CAST(id AS INT), CAST(id AS STRING), 'WA' FROM range(0, 6, 1, 1);
                 UPDATE ns.{name} SET state = 'NY' WHERE id = 1;
                 DELETE FROM ns.{name} WHERE id = 2;
                 MERGE INTO ns.{name} USING (SELECT 3 AS id, 'u' AS op UNION ALL SELECT 100, 'i') s ON ns.{name}.id = s.id \
                 WHEN MATCHED THEN UPDATE SET state = 'OR' WHEN NOT MATCHED THEN INSERT (id, city, state) VALUES (s.id, 'new', 'ID');
                 DELETE FROM ns.{name} WHERE id >= 0;
                 CALL ice.system.create_changelog_view(table => 'ns.{name}', changelog_view => '{name}_ids', \
                 identifier_columns => array('id'));"
            ))
            .await;
        found.push(world.rows(&format!("SELECT id, city, state, _change_type, _change_ordinal FROM {name}_ids")).await);
    }
    assert_eq!(found[0].len(), 18);
    for other in &found[1..] {
        assert_eq!(&found[0], other);
    }
}
