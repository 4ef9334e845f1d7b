use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};

use super::{spark_strings, variant_json};

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

async fn one(sql: &str) -> String {
    let ctx = crate::sql::planner::context(crate::sql::planner::config(), std::sync::Arc::default(), None);
    match ctx.sql(sql).await {
        Ok(df) => match df.collect().await {
            Ok(batches) => texts(batches[0].column(0).as_ref())[0].clone().unwrap_or_else(|| "NULL".into()),
            Err(e) => format!("error: {e}"),
        },
        Err(e) => format!("error: {e}"),
    }
}

#[tokio::test]
async fn variants_are_made_of_json_and_asked_by_path() {
    let v = r#"parse_json('{"a":1,"s":"x","n":{"k":[1,null,true]},"d":1.5,"odd.name":2}')"#;
    for (call, want) in [
        ("variant_get($v, '$.a', 'int')", "1"),
        ("variant_get($v, '$.a', 'long')", "1"),
        ("variant_get($v, '$.s', 'string')", "x"),
        ("variant_get($v, '$.n.k[0]', 'int')", "1"),
        ("variant_get($v, '$.n.k[2]', 'boolean')", "true"),
        ("variant_get($v, '$[''n''][\"k\"][0]', 'int')", "1"),
        ("variant_get($v, '$[''odd.name'']', 'int')", "2"),
        ("variant_get($v, '$.d', 'double')", "1.5"),
        ("variant_get($v, '$.nothing', 'int')", "NULL"),
        ("variant_get($v, '$.n.k[9]', 'int')", "NULL"),
        ("to_json(variant_get($v, '$.n'))", r#"{"k":[1,null,true]}"#),
        ("try_variant_get($v, '$.s', 'int')", "NULL"),
        ("is_variant_null(variant_get($v, '$.n.k[1]'))", "true"),
        ("is_variant_null(parse_json('null'))", "true"),
        ("is_variant_null($v)", "false"),
        ("to_json(parse_json('123456789012.345'))", "123456789012.345"),
        ("to_json(parse_json(NULL))", "NULL"),
        ("to_json(try_parse_json('{'))", "NULL"),
        ("parse_json(NULL) IS NULL", "true"),
        ("parse_json('null') IS NULL", "false"),
    ] {
        assert_eq!(one(&format!("SELECT {}", call.replace("$v", v))).await, want, "{call}");
    }
    for (call, part) in [
        ("parse_json('{')", "no JSON"),
        ("variant_get($v, '$.s', 'int')", "variant_get"),
        ("variant_get($v, 'a', 'int')", "no path"),
        ("variant_get($v, '$.', 'int')", "no path"),
        ("variant_get($v, '$.a', 'integers')", "allowed: boolean"),
        ("variant_get('x', '$.a')", "takes a variant"),
        ("to_json(1)", "takes a variant"),
    ] {
        let got = one(&format!("SELECT {}", call.replace("$v", v))).await;
        assert!(got.starts_with("error") && got.contains(part), "{call}: {got}");
    }
}

fn variants(rows: &[(&[u8], &[u8])]) -> ArrayRef {
    let part = |pick: fn(&(&[u8], &[u8])) -> Vec<u8>| -> ArrayRef {
        Arc::new(BinaryArray::from_iter_values(rows.iter().map(pick)))
    };
    let field = |n: &str| Arc::new(arrow::datatypes::Field::new(n, arrow::datatypes::DataType::Binary, false));
    let columns = vec![part(|r| r.0.to_vec()), part(|r| r.1.to_vec())];
    let fields = vec![field("metadata"), field("value")];
    Arc::new(arrow::array::StructArray::try_new(fields.into(), columns, None).expect("variants"))
}

#[test]
fn malformed_variants_are_errors_and_never_more() {
    // what the encoding rules give (VAR-2..4)
    let good: [(&[u8], &[u8], &str); 7] = [
        (&[1, 0, 0], &[0], "null"),
        (&[1, 0, 0], &[4], "true"),
        (&[1, 0, 0], &[0x0c, 0x22], "34"),
        (&[1, 0, 0], &[0x0d, b'n', b'/', b'a'], "\"n/a\""),
        (&[1, 0, 0], &[2, 0, 0], "{}"),
        (&[1, 0, 0], &[3, 0, 0], "[]"),
        (&[1, 1, 0, 1, b'a'], &[2, 1, 0, 0, 2, 0x0c, 1], r#"{"a":1}"#),
    ];
    for (metadata, value, json) in good {
        let all = variants(&[(metadata, value)]);
        assert_eq!(variant_json(&all).expect("valid").value(0), json);
        // case L8: every cut and every other byte is an error or another value
        for i in 0..value.len() {
            let _ = variant_json(&variants(&[(metadata, &value[..i])]));
            for b in [0u8, 1, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff] {
                let mut v = value.to_vec();
                v[i] = b;
                let _ = variant_json(&variants(&[(metadata, &v)]));
                let mut m = metadata.to_vec();
                if let Some(at) = m.get_mut(i) {
                    *at = b;
                    let _ = variant_json(&variants(&[(&m, value)]));
                }
            }
        }
    }
    for (metadata, value) in [
        (&[1u8, 0, 0][..], &[][..]),
        (&[], &[0]),
        (&[1, 0], &[0]),
        (&[1, 0, 0], &[0x0c]),
        (&[1, 0, 0], &[2, 9, 9, 9]),
        (&[2, 0], &[0]),
    ] {
        assert!(variant_json(&variants(&[(metadata, value)])).is_err(), "{metadata:?} {value:?}");
    }
}
