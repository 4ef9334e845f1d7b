use serde_json::json;

use super::*;

const CASE: &str = r#"
title = "t"
clauses = ["DV-1"]
features = ["v3"]
columns = ["id int", "s string", "d decimal(9,2)"]

[[step]]
sql = "CREATE TABLE {table} (id INT, s STRING, d DECIMAL(9,2))"

[[step]]
sql = "INSERT"
model = [{ fill = "0..5", row = ["$", "$", "1.50"] }, { insert = [[9, { null = true }, "0.00"]] }]

[[step]]
sql = "MERGE"
model = [{ delete = [1, "3..=4"] }, { update = 0, set = { s = "x" } }]

[[step]]
sql = "ALTER"
columns = ["id long", "note string", "s string"]
"#;

#[test]
fn the_model_gives_the_rows_of_every_step() {
    let s = parse("dv/case", "case.toml", CASE).expect("valid");
    let states = expected_states(&s).expect("model");
    assert_eq!(states.iter().map(|e| e.rows.len()).collect::<Vec<_>>(), [0, 6, 3, 3]);
    assert_eq!(states[1].rows[4], vec![json!(4), json!("4"), json!("1.50")]);
    assert_eq!(
        states[2].rows,
        [
            vec![json!(0), json!("x"), json!("1.50")],
            vec![json!(2), json!("2"), json!("1.50")],
            vec![json!(9), json!(null), json!("0.00")]
        ]
    );
    assert_eq!(states[3].rows[1], vec![json!(2), json!(null), json!("2")]);
}

#[test]
fn faults_name_file_line_and_what_is_allowed() {
    let fault = |text: &str| parse("dv/case", "case.toml", text).expect_err("faulty").to_string();
    let e = fault(&CASE.replace("sql = \"MERGE\"", "sq = \"MERGE\""));
    assert!(e.starts_with("case.toml:15: unknown field `sq`"), "{e}");
    let e = fault(&CASE.replace("[\"v3\"]", "[\"v9\"]"));
    assert!(e.contains("unknown feature \"v9\"; allowed: v2, v3"), "{e}");
    let e = fault(&CASE.replace("\"3..=4\"", "\"3-4\""));
    assert!(e.contains("a..b"), "{e}");
    let e = fault(&CASE.replace("set = { s", "set = { nope"));
    assert!(e.starts_with("case.toml:14: step 3: no column nope"), "{e}");
    let e = parse("odd/case", "case.toml", CASE).expect_err("area").to_string();
    assert!(e.contains("unknown area \"odd\"; allowed: dv"), "{e}");
}

#[test]
fn the_reader_leaves_nothing_in_its_session() {
    let by_reader = |sql: &str| CASE.replace("sql = \"MERGE\"", &format!("sql = \"{sql}\"\nby = \"reader\""));
    for sql in [
        "USE {namespace}",
        "SET a.b = 1",
        "create or replace  temporary view v AS SELECT 1",
        "CREATE TEMP VIEW v AS SELECT 1",
    ] {
        let e = parse("concurrency/case", "case.toml", &by_reader(sql)).expect_err(sql).to_string();
        assert!(e.contains("case.toml:14: the reader's session"), "{sql}: {e}");
        let writer = by_reader(sql).replace("by = \"reader\"\n", "");
        parse("concurrency/case", "case.toml", &writer).expect("a writer may");
    }
    for sql in ["DELETE FROM {table} WHERE id = 1", "CREATE TABLE {table} (view INT)"] {
        parse("concurrency/case", "case.toml", &by_reader(sql)).expect(sql);
    }
}

#[test]
fn keys_take_ranges_and_steps() {
    let k: Keys = toml::Value::Array(vec!["1..10 step 4".into(), 20.into()]).try_into().expect("keys");
    assert_eq!(k.iter().collect::<Vec<_>>(), [1, 5, 9, 20]);
    assert!(k.contains(9) && !k.contains(10) && !k.contains(2));
}

#[test]
fn globs() {
    assert!(matches("dv/*", "dv/a") && matches("*", "x/y") && matches("walk", "dv/walk-through"));
    assert!(!matches("dv/*", "types/a") && !matches("*/b", "dv/a"));
}

#[test]
fn every_scenario_of_the_project_is_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    match load_all(&root, "*") {
        Ok(all) => assert!(all.len() >= 15, "only {} scenarios found", all.len()),
        Err(faults) => panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}
