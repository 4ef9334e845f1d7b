use serde_json::{Value, json};

use super::*;

fn cols() -> Vec<Column> {
    vec![Column("id".into(), "int".into()), Column("s".into(), "string".into())]
}

fn want(rows: Vec<Row>) -> Expected {
    Expected { columns: cols(), digest: digest(&rows), rows }
}

fn row(i: i64, s: &str) -> Row {
    vec![json!(i), json!(s)]
}

#[test]
fn order_is_ignored_and_multiplicity_is_not() {
    let w = want(vec![row(1, "a"), row(2, "b")]);
    assert_eq!(state(&w, &Rows::new(cols(), vec![row(2, "b"), row(1, "a")], 10)), None);
    let d = state(&w, &Rows::new(cols(), vec![row(2, "b"), row(1, "a"), row(1, "a")], 10)).expect("a row too many");
    assert_eq!(d.reason, "1 row too many, e.g. (1, 'a')");
}

#[test]
fn a_resurrected_row_and_a_lost_one_are_both_named() {
    let w = want(vec![row(1, "a"), row(2, "b")]);
    let d = state(&w, &Rows::new(cols(), vec![row(1, "a"), row(3, "c")], 10)).expect("differs");
    assert_eq!(d.reason, "1 row missing, e.g. (2, 'b'); 1 row too many, e.g. (3, 'c')");
}

#[test]
fn null_is_not_the_text_null_and_types_must_agree() {
    let w = want(vec![vec![json!(1), Value::Null]]);
    assert!(state(&w, &Rows::new(cols(), vec![row(1, "null")], 10)).is_some());
    let other = vec![Column("id".into(), "long".into()), Column("s".into(), "string".into())];
    let d = state(&w, &Rows::new(other, vec![vec![json!(1), Value::Null]], 10)).expect("types differ");
    assert_eq!(d.reason, "column types differ: id is int and was read as long");
}

#[test]
fn large_results_are_compared_by_digest() {
    let rows: Vec<Row> = (0..50).map(|i| row(i, "x")).collect();
    let w = want(rows.clone());
    assert_eq!(state(&w, &Rows::new(cols(), rows.clone(), 10)), None);
    let mut other = rows;
    other[7] = row(7, "y");
    let d = state(&w, &Rows::new(cols(), other, 10)).expect("differs");
    assert_eq!(d.reason, "50 rows as expected, but their contents differ");
}

#[test]
fn an_ordered_query_minds_its_order() {
    let q = Query {
        sql: String::new(),
        rows: vec![vec![toml::Value::Integer(1)], vec![toml::Value::Integer(2)]],
        ordered: true,
        ..Query::default()
    };
    let c = vec![Column("n".into(), "long".into())];
    assert_eq!(query(&q, &Rows::new(c.clone(), vec![vec![json!(1)], vec![json!(2)]], 10)), None);
    let d = query(&q, &Rows::new(c, vec![vec![json!(2)], vec![json!(1)]], 10)).expect("order");
    assert_eq!(d.reason, "right rows in the wrong order");
}

#[test]
fn sequence_numbers_count_from_the_first_snapshot_the_scenario_knows_of() {
    let columns =
        || vec![Column("id".into(), "int".into()), Column("_last_updated_sequence_number".into(), "long".into())];
    let got = Rows::new(columns(), vec![vec![json!(2), json!(3)], vec![json!(4), Value::Null]], 10);
    assert_eq!(renumbered(got.clone(), 0), got);
    let want = Rows::new(columns(), vec![vec![json!(2), json!(2)], vec![json!(4), Value::Null]], 10);
    assert_eq!(renumbered(got, 1), want);
}
