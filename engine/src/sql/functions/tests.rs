use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};

use super::spark_strings;

fn texts(a: &dyn Array) -> Vec<Option<String>> {
    spark_strings(a).expect("prints").iter().map(|v| v.map(str::to_string)).collect()
}

fn some(v: &[&str]) -> Vec<Option<String>> {
    v.iter().map(|s| Some(s.to_string())).collect()
}

#[test]
fn doubles_print_as_java_does() {
    let a = Float64Array::from(vec![
        0.0,
        -0.0,
        1.5,
        100.0,
        1e7,
        1.25e10,
        9_999_999.0,
        1e-3,
        1e-4,
        123.456,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
    ]);
    assert_eq!(
        texts(&a),
        some(&[
            "0.0",
            "-0.0",
            "1.5",
            "100.0",
            "1.0E7",
            "1.25E10",
            "9999999.0",
            "0.001",
            "1.0E-4",
            "123.456",
            "NaN",
            "Infinity",
            "-Infinity",
            "1.0E300"
        ])
    );
    let f = Float32Array::from(vec![1.1f32, 3.4028235e38]);
    assert_eq!(texts(&f), some(&["1.1", "3.4028235E38"]));
}

#[test]
fn decimals_times_and_bytes_print_as_spark_does() {
    let d = Decimal128Array::from(vec![123456789, -5, 0]).with_precision_and_scale(18, 2).expect("decimal");
    assert_eq!(texts(&d), some(&["1234567.89", "-0.05", "0.00"]));
    let d = Decimal128Array::from(vec![0, 15]).with_precision_and_scale(38, 10).expect("decimal");
    assert_eq!(texts(&d), some(&["0E-10", "1.5E-9"]));
    let t = TimestampMicrosecondArray::from(vec![0, -1, 1_748_781_296_123_456, 1_500_000]).with_timezone("+00:00");
    assert_eq!(
        texts(&t),
        some(&[
            "1970-01-01 00:00:00",
            "1969-12-31 23:59:59.999999",
            "2025-06-01 12:34:56.123456",
            "1970-01-01 00:00:01.5"
        ])
    );
    let b = BinaryArray::from_vec(vec![b"abc"]);
    assert_eq!(texts(&b), some(&["abc"]));
}

#[test]
fn structs_are_cast_by_position() {
    use arrow::datatypes::{DataType, Field, Fields};
    let from: ArrayRef = Arc::new(arrow::array::StructArray::from(vec![
        (Arc::new(Field::new("col1", DataType::Int64, true)), Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        (Arc::new(Field::new("col2", DataType::Utf8, true)), Arc::new(StringArray::from(vec!["x"])) as ArrayRef),
    ]));
    let to = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ]));
    let cast = super::nested::cast_by_position(&from, &to).expect("casts");
    assert_eq!(cast.data_type(), &to);
    let too_big: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX]));
    assert!(super::nested::cast_by_position(&too_big, &DataType::Int32).is_err());
}
