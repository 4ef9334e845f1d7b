//! Which columns get a dictionary.

use std::sync::Arc;

use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};

use super::*;

fn batch(n: i64) -> RecordBatch {
    let few = |v: i64| v % 10;
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..n)) as ArrayRef),
        ("kind", Arc::new(Int64Array::from_iter_values((0..n).map(few)))),
        ("price", Arc::new(Float64Array::from_iter_values((0..n).map(|v| v as f64 / 7.0)))),
        ("rate", Arc::new(Float64Array::from_iter_values((0..n).map(|v| few(v) as f64)))),
        ("day", Arc::new(Date32Array::from_iter_values((0..n).map(|v| few(v) as i32)))),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(0..n))),
        ("sum", Arc::new(Decimal128Array::from_iter_values((0..n).map(i128::from)))),
        ("name", Arc::new(StringArray::from_iter_values((0..n).map(|v| v.to_string())))),
        ("mostly_null", Arc::new((0..n).map(|v| (v % 2 == 0).then_some(v)).collect::<Int64Array>())),
    ])
    .expect("a batch")
}

fn with_dictionary(n: i64, asked: &str) -> Vec<String> {
    let batch = batch(n);
    let all = WriterProperties::builder().build();
    let props = fitted(&all, &batch, |p| p.string() == asked).expect("properties");
    let names = batch.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    names.into_iter().filter(|n| props.dictionary_enabled(&ColumnPath::from(n.as_str()))).collect()
}

#[test]
fn numbers_that_hardly_repeat_are_plain() {
    assert_eq!(with_dictionary(5000, ""), ["kind", "rate", "day", "name", "mostly_null"]);
}

#[test]
fn a_column_that_the_table_names_is_left_alone() {
    assert_eq!(with_dictionary(5000, "id"), ["id", "kind", "rate", "day", "name", "mostly_null"]);
}

#[test]
fn few_rows_say_nothing() {
    assert_eq!(with_dictionary(1000, "").len(), 9);
}
