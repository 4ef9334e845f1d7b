use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::display::array_value_to_string;
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType as P, Type};
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::types::type_from_json;

/// Columns by name and type as table metadata words it.
fn fields(columns: &[(&str, serde_json::Value)]) -> (Vec<NestedFieldRef>, ExtTypes) {
    let mut ext = ExtTypes::default();
    let mut out = Vec::new();
    for (i, (name, t)) in columns.iter().enumerate() {
        let id = i32::try_from(i).expect("few columns") + 1;
        let t = type_from_json(t, id, &mut ext).expect("a type");
        out.push(Arc::new(NestedField::optional(id, *name, t)));
    }
    (out, ext)
}

fn read(text: &str, columns: &[(&str, serde_json::Value)], only: Option<&str>) -> Result<RecordBatch> {
    let (fields, ext) = fields(columns);
    let batches = rows_for(text, "in.jsonl", Known { fields: &fields, ext: &ext, only })?;
    Ok(batches.into_iter().next().expect("rows"))
}

/// The values of column `c` of type `t`, as Arrow prints them.
fn column_of(t: &serde_json::Value, values: &[&str]) -> Result<Vec<String>> {
    let text: String = values.iter().map(|v| format!("{{\"c\": {v}}}\n")).collect();
    let batch = read(&text, &[("c", t.clone())], None)?;
    let c = batch.column(0);
    Ok((0..c.len()).map(|i| array_value_to_string(c, i).expect("prints")).collect())
}

fn plain(t: &str) -> serde_json::Value {
    serde_json::Value::String(t.into())
}

#[test]
fn values_that_fit_are_taken_exactly() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("boolean", &[("true", "true"), ("false", "false"), ("null", "")]),
        (
            "int",
            &[
                ("7", "7"),
                ("-0", "0"),
                ("7.0", "7"),
                ("2e3", "2000"),
                ("20.00e-1", "2"),
                ("2147483647", "2147483647"),
                ("-2147483648", "-2147483648"),
            ],
        ),
        (
            "long",
            &[
                ("9223372036854775807", "9223372036854775807"),
                ("-9223372036854775808", "-9223372036854775808"),
                ("9007199254740993", "9007199254740993"),
            ],
        ),
        (
            "float",
            &[
                ("0.1", "0.1"),
                ("1e30", "1e30"),
                ("16777217", "16777216.0"),
                ("0e999", "0.0"),
                ("\"NaN\"", "NaN"),
                ("\"-Infinity\"", "-inf"),
            ],
        ),
        ("double", &[("0.1", "0.1"), ("-1.5e300", "-1.5e300"), ("0.0", "0.0"), ("\"Infinity\"", "inf")]),
        (
            "decimal(5,2)",
            &[
                ("1.23", "1.23"),
                ("999.99", "999.99"),
                ("\"-999.99\"", "-999.99"),
                ("1.230000", "1.23"),
                ("12e-1", "1.20"),
                ("0", "0.00"),
                ("0.0000", "0.00"),
            ],
        ),
        (
            "decimal(38,10)",
            &[
                ("\"1234567890123456789012345678.0123456789\"", "1234567890123456789012345678.0123456789"),
                ("1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"),
            ],
        ),
        (
            "date",
            &[("\"2024-02-29\"", "2024-02-29"), ("\"1969-12-31\"", "1969-12-31"), ("\"0001-01-01\"", "0001-01-01")],
        ),
        (
            "time",
            &[
                ("\"23:59:59.999999\"", "23:59:59.999999"),
                ("\"00:00:00\"", "00:00:00"),
                ("\"10:30\"", "10:30:00"),
                ("\"00:00:00.1000000000000\"", "00:00:00.100"),
            ],
        ),
        (
            "timestamp",
            &[
                ("\"2024-02-29T12:00:00.5\"", "2024-02-29T12:00:00.500"),
                ("\"2024-02-29 12:00:00\"", "2024-02-29T12:00:00"),
                ("\"2024-02-29\"", "2024-02-29T00:00:00"),
                ("\"1969-12-31T23:59:59.999999\"", "1969-12-31T23:59:59.999999"),
            ],
        ),
        (
            "timestamptz",
            &[
                ("\"2024-02-29T12:00:00Z\"", "2024-02-29T12:00:00Z"),
                ("\"2024-02-29T12:00:00+02:00\"", "2024-02-29T10:00:00Z"),
                ("\"2024-02-29T12:00:00-09:30\"", "2024-02-29T21:30:00Z"),
                ("\"2024-02-29T12:00:00\"", "2024-02-29T12:00:00Z"),
            ],
        ),
        ("timestamp_ns", &[("\"2024-02-29T12:00:00.123456789\"", "2024-02-29T12:00:00.123456789")]),
        ("timestamptz_ns", &[("\"2024-02-29T12:00:00.000000001Z\"", "2024-02-29T12:00:00.000000001Z")]),
        ("string", &[("\"a\\n\\u00e4\"", "a\nä"), ("\"\"", ""), ("\"7\"", "7")]),
        (
            "uuid",
            &[
                ("\"f79c3e09-677c-4bbd-a479-3f349cb785e7\"", "f79c3e09677c4bbda4793f349cb785e7"),
                ("\"f79c3e09677c4bbda4793f349cb785e7\"", "f79c3e09677c4bbda4793f349cb785e7"),
            ],
        ),
        ("fixed[2]", &[("\"00fF\"", "00ff")]),
        ("binary", &[("\"\"", ""), ("\"00ff10\"", "00ff10")]),
        ("geometry", &[("\"0101\"", "0101")]),
        ("unknown", &[("null", "")]),
    ];
    for (t, values) in cases {
        let given: Vec<&str> = values.iter().map(|v| v.0).collect();
        let want: Vec<&str> = values.iter().map(|v| v.1).collect();
        assert_eq!(column_of(&plain(t), &given).unwrap_or_else(|e| panic!("{t}: {e}")), want, "{t}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused_by_name() {
    let cases: &[(&str, &[&str])] = &[
        ("boolean", &["1", "0", "\"true\"", "[]", "{}"]),
        (
            "int",
            &[
                "1.5",
                "2147483648",
                "-2147483649",
                "1e10",
                "1e-1",
                "\"7\"",
                "true",
                "99999999999999999999",
                "1e400",
                "[1]",
                "{\"a\": 1}",
            ],
        ),
        (
            "long",
            &[
                "9223372036854775808",
                "-9223372036854775809",
                "0.1",
                "\"7\"",
                "1e19",
                "9007199254740993.5",
                "1e99999999999999999999",
            ],
        ),
        ("float", &["1e300", "-1e39", "1e-300", "\"1.5\"", "\"inf\"", "\"nan\"", "true"]),
        ("double", &["1e309", "-1e999", "1e-400", "\"1.5\"", "1e99999999999999999999"]),
        (
            "decimal(5,2)",
            &[
                "1.239",
                "1000",
                "\"1000.00\"",
                "\"1.234\"",
                "1e3",
                "\"\"",
                "\"x\"",
                "\"1.\"",
                "\"NaN\"",
                "true",
                "1e-3",
                "\" 1\"",
                "\"+1\"",
                "1e400",
            ],
        ),
        (
            "decimal(38,0)",
            &["100000000000000000000000000000000000000", "0.5", "170141183460469231731687303715884105728"],
        ),
        ("date", &["19000", "\"2024-02-30\"", "\"20240229\"", "\"2024-02-29T00:00:00\"", "\"soon\"", "\"\"", "1.5"]),
        ("time", &["0", "\"24:00:00\"", "\"12:00:00.1234567\"", "\"12:00:60\"", "\"12\"", "\"12:00:00Z\""]),
        (
            "timestamp",
            &[
                "0",
                "\"2024-02-29T12:00:00Z\"",
                "\"2024-02-29T12:00:00+01:00\"",
                "\"2024-02-29T12:00:00.1234567\"",
                "\"2024-02-30T00:00:00\"",
                "\"2024-02-29T23:59:60\"",
                "\"12:00:00\"",
            ],
        ),
        (
            "timestamptz",
            &[
                "1709208000000000",
                "\"2024-02-29T12:00:00+25:00\"",
                "\"2024-02-29T12:00:00 Europe/Paris\"",
                "\"2024-02-29T12:00:00.0000001Z\"",
                "\"2024-02-29Z\"",
            ],
        ),
        (
            "timestamp_ns",
            &["\"2024-02-29T12:00:00.1234567891\"", "\"1600-01-01T00:00:00\"", "\"2300-01-01T00:00:00\"", "5"],
        ),
        ("timestamptz_ns", &["\"2300-01-01T00:00:00Z\""]),
        ("string", &["7", "true", "[]", "{}", "1.5", "\"\\ud800\""]),
        ("uuid", &["\"x\"", "\"f79c3e09-677c-4bbd-a479\"", "7"]),
        ("fixed[2]", &["\"00\"", "\"0000ff\"", "\"zz00\"", "0"]),
        ("binary", &["\"0\"", "\"0g\"", "\"é\"", "[0]"]),
        ("geometry(OGC:CRS84)", &["\"POINT (1 2)\"", "{}"]),
        ("unknown", &["0", "\"\"", "{}"]),
    ];
    for (t, values) in cases {
        for v in *values {
            // the second of three rows, so that the line is known to be counted
            let text = format!("{{\"c\": null}}\n{{\"c\": {v}}}\n{{\"c\": null}}\n");
            let e = read(&text, &[("c", plain(t))], None).expect_err(&format!("{t} {v}"));
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{t} {v}: {e}");
            let said = e.to_string();
            let shown = format!("column \"c\" is {} and cannot hold {v}", t.replace(',', ", "));
            assert!(said.contains(&shown) && said.contains("in.jsonl line 2"), "{t} {v}: {said}");
            assert!(said.contains("allowed: "), "{said}");
            for arrow in ["Int32", "Int64", "Utf8", "Decimal128", "Date32", "Timestamp("] {
                assert!(!said.contains(arrow), "Arrow's words in {said}");
            }
        }
    }
}

#[test]
fn nested_values_are_held_to_the_same_rules() {
    let point = serde_json::json!({"type": "struct", "fields": [
        {"id": 10, "name": "x", "required": true, "type": "int"},
        {"id": 11, "name": "y", "required": false, "type": "decimal(5,2)"}]});
    let list =
        serde_json::json!({"type": "list", "element-id": 20, "element-required": true, "element": point.clone()});
    let map = serde_json::json!({"type": "map", "key-id": 30, "key": "int", "value-id": 31, "value-required": false, "value": "date"});
    let columns = [("s", point), ("l", list), ("m", map)];

    let text = r#"{"s": {"x": 1, "y": "1.5"}, "l": [{"x": 1}, {"y": 2, "x": 3}], "m": {"1": "2024-01-01", "-2": null}}
        {"s": null, "l": [], "m": {}}
        {"l": null}"#;
    let batch = read(text, &columns, None).expect("fits");
    let printed = |c: usize| -> Vec<String> {
        (0..3).map(|i| array_value_to_string(batch.column(c), i).expect("prints")).collect()
    };
    assert_eq!(printed(0), ["{x: 1, y: 1.50}", "", ""]);
    assert_eq!(printed(1), ["[{x: 1, y: }, {x: 3, y: 2.00}]", "[]", ""]);
    assert_eq!(printed(2), ["{1: 2024-01-01, -2: }", "{}", ""]);

    let refused = [
        (r#"{"s": {"x": 1.5}}"#, "column \"s.x\" is int and cannot hold 1.5"),
        (r#"{"s": {"y": 1.5}}"#, "column \"s.x\" is int NOT NULL and has no value"),
        (r#"{"s": {"x": null}}"#, "column \"s.x\" is int NOT NULL and has no value"),
        (r#"{"s": {"x": 1, "z": 2}}"#, "column \"s\" has no field \"z\"; allowed: x, y"),
        (r#"{"s": [1]}"#, "column \"s\" is struct<x: int, y: decimal(5, 2)> and cannot hold [1]"),
        (r#"{"s": {"x": 1, "x": 1}}"#, "column \"s\": the key \"x\" comes twice in one object"),
        (r#"{"l": {"x": 1}}"#, "column \"l\" is list<struct<x: int, y: decimal(5, 2)>> and cannot hold"),
        (r#"{"l": [{"x": 1}, null]}"#, "column \"l.element\" is struct<x: int, y: decimal(5, 2)> NOT NULL"),
        (r#"{"l": [{"x": 1, "y": 0.001}]}"#, "column \"l.element.y\" is decimal(5, 2) and cannot hold 0.001"),
        (r#"{"m": {"1.5": null}}"#, "column \"m.key\" is int and cannot hold 1.5"),
        (r#"{"m": {"1": 19000}}"#, "column \"m.value\" is date and cannot hold 19000"),
        (r#"{"m": {"1": null, "1": null}}"#, "the key \"1\" comes twice in one object"),
        (r#"{"m": {"1": null, "1.0": null}}"#, "column \"m.key\" has the key 1.0 twice"),
        (r#"{"m": [1]}"#, "column \"m\" is map<int, date> and cannot hold [1]"),
    ];
    for (text, want) in refused {
        let said = read(&format!("{{}}\n{text}"), &columns, None).expect_err(text).to_string();
        assert!(said.contains(want) && said.contains("line 2"), "{text}: {said}");
    }
}

#[test]
fn variants_are_taken_as_they_are_printed() {
    let columns = [("v", plain("variant"))];
    let text = "{\"v\": {\"metadata\": \"010000\", \"value\": \"0c05\"}}\n{\"v\": null}";
    let batch = read(text, &columns, None).expect("fits");
    let v = batch.column(0).as_struct();
    assert!(v.is_valid(0) && v.is_null(1));
    assert_eq!(v.column_by_name("value").expect("part").as_binary::<i32>().value(0), [0x0c, 5]);
    for bad in [
        "5",
        "{\"value\": \"00\"}",
        "{\"metadata\": \"0\", \"value\": \"00\"}",
        "{\"metadata\": \"00\", \"value\": \"00\", \"a\": 1}",
    ] {
        let said = read(&format!("{{\"v\": {bad}}}"), &columns, None).expect_err(bad).to_string();
        assert!(said.contains("column \"v\" is variant and cannot hold") && said.contains("hex"), "{said}");
    }
}

#[test]
fn rows_are_objects_and_their_keys_come_once() {
    let refused = [
        ("{\"a\": 1, \"b\": 2, \"a\": 1}", "the key \"a\" comes twice in one object", 1),
        ("{\"a\": 1}\n{\"a\": 2, \"\\u0061\": 3}", "the key \"a\" comes twice in one object", 2),
        ("{\"a\": 1}\n[1]", "found [1]", 2),
        ("{\"a\": 1}\n\n7", "found 7", 3),
        ("null", "found null", 1),
        ("{\"a\": 1}\n{\"a\": }", "rows are JSON objects, one a line", 2),
        ("{\"a\": 1", "rows are JSON objects, one a line", 1),
        ("{\"a\": 01}", "rows are JSON objects, one a line", 1),
        ("{\"a\": NaN}", "rows are JSON objects, one a line", 1),
        ("{}\n{}", "the rows have no columns", 1),
    ];
    for (text, want, line) in refused {
        let said = read(text, &[], None).expect_err(text).to_string();
        assert!(said.contains(want) && said.contains(&format!("in.jsonl line {line}")), "{text}: {said}");
    }
    // objects over several lines, several on a line, blank lines, a byte order mark
    let batch = read("\u{feff}\n{\"a\":\n1}{\"a\": 2}\n\n{\"b\": null}\n", &[], None).expect("rows");
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 2));
    assert!(rows_from_json("\n", "x", None, None).expect("no rows").is_empty());
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let long = format!("{{\"c\": \"{}\"}}", "ä".repeat(10_000));
    let said = read(&long, &[("c", plain("int"))], None).expect_err("no int").to_string();
    assert!(said.contains('…') && said.chars().count() < 400, "{said}");
}

#[test]
fn types_are_taken_from_the_rows_where_no_table_tells() {
    let types = |text: &str| -> Result<Vec<String>> {
        Ok(read(text, &[], None)?
            .schema()
            .fields()
            .iter()
            .map(|f| format!("{}: {}", f.name(), f.data_type()))
            .collect())
    };
    let text = "{\"a\": 1, \"b\": 1.5, \"c\": \"x\", \"d\": true, \"e\": null, \"f\": [1, null], \"g\": {\"h\": 1}}\n\
                {\"b\": 2, \"g\": {\"i\": [{\"j\": \"y\"}]}, \"f\": []}";
    let got = types(text).expect("types");
    assert_eq!(got[..5], ["a: Int64", "b: Float64", "c: Utf8", "d: Boolean", "e: Utf8"]);
    assert!(got[5].contains("Int64") && got[6].contains("Utf8"), "{got:?}");

    let refused = [
        ("{\"a\": 1}\n{\"a\": \"x\"}", "holds numbers in other rows, and cannot hold \"x\""),
        ("{\"a\": [1]}\n{\"a\": 1}", "holds arrays in other rows"),
        ("{\"a\": 1}\n{\"a\": 9223372036854775808}", "would be long"),
        ("{\"a\": 1.5}\n{\"a\": 9007199254740993}", "would be double"),
        ("{\"a\": 1}\n{\"a\": 1e999}", "cannot hold 1e999"),
        ("{\"a\": {\"b\": [1]}}\n{\"a\": {\"b\": [\"x\"]}}", "column \"a.b.element\""),
        ("{}\n{\"a\": {}}", "objects without a field"),
    ];
    for (text, want) in refused {
        let said = types(text).expect_err(text).to_string();
        assert!(said.contains(want) && said.contains("line 2"), "{text}: {said}");
    }
    let deep = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let said = types(&deep).expect_err("deep").to_string();
    assert!(said.contains("nested deeper") || said.contains("recursion"), "{said}");
}

#[test]
fn the_fields_of_one_struct_have_the_types_of_the_table() {
    let columns = [("day", plain("date")), ("n", plain("int"))];
    let text = "{\"row\": {\"day\": \"2024-01-01\", \"n\": 5}, \"other\": 1}\n{\"row\": null}";
    let batch = read(text, &columns, Some("row")).expect("fits");
    let row = batch.column_by_name("row").expect("column").as_struct();
    assert_eq!(row.column(0).data_type(), &DataType::Date32);
    assert!(row.is_null(1));
    let said = read("{\"row\": {\"n\": 1.5}}", &columns, Some("row")).expect_err("no int").to_string();
    assert!(said.contains("column \"row.n\" is int and cannot hold 1.5"), "{said}");
}

/// `m` times ten to the `e`, times ten to the `scale`, if that is whole.
fn oracle(m: i64, e: i32, scale: i32) -> Option<i128> {
    let (shift, m) = (e + scale, i128::from(m));
    match u32::try_from(shift) {
        Ok(s) => Some(m * 10i128.pow(s)),
        Err(_) => {
            let d = 10i128.pow(shift.unsigned_abs());
            (m % d == 0).then_some(m / d)
        }
    }
}

proptest! {
    #[test]
    fn a_number_is_taken_exactly_or_not_at_all(m in any::<i64>(), small in -20_000i64..20_000, e in -12i32..12, pick in any::<bool>()) {
        let m = if pick { small } else { m };
        let text = format!("{m}e{e}");
        let int = oracle(m, e, 0).and_then(|v| i32::try_from(v).ok());
        let got = column_of(&plain("int"), &[&text]).ok();
        prop_assert_eq!(got, int.map(|v| vec![v.to_string()]));
        let long = oracle(m, e, 0).and_then(|v| i64::try_from(v).ok());
        let got = column_of(&plain("long"), &[&text]).ok();
        prop_assert_eq!(got, long.map(|v| vec![v.to_string()]));
        let decimal = oracle(m, e, 2).filter(|v| v.abs() < 1_000_000_000);
        let batch = read(&format!("{{\"c\": {text}}}"), &[("c", plain("decimal(9,2)"))], None);
        let got = batch.ok().map(|b| b.column(0).as_primitive::<arrow::datatypes::Decimal128Type>().value(0));
        prop_assert_eq!(got, decimal);
    }

    #[test]
    fn plain_notation_is_read_as_scientific(whole in 0u64..1_000_000, fraction in "[0-9]{0,6}", negative in any::<bool>()) {
        let sign = if negative { "-" } else { "" };
        let plain = if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") };
        let scientific = format!("{sign}{whole}{fraction}e-{}", fraction.len());
        let value = |t: &str| values::Exact::parse(t).and_then(|e| e.scaled(6));
        prop_assert!(value(&plain).is_some());
        prop_assert_eq!(value(&plain), value(&scientific));
    }

    #[test]
    fn any_text_is_rows_or_an_error(text in "[\\[\\]{}\":,0-9a-z. \\\\\n-]{0,60}") {
        let _ = rows_from_json(&text, "x", None, None);
    }
}

#[test]
fn every_primitive_has_its_words() {
    // what a column takes is said for each type, and is no type's name of Arrow
    for p in [P::Boolean, P::Int, P::Decimal { precision: 9, scale: 2 }, P::TimestamptzNs, P::Fixed(4), P::Uuid] {
        let field = NestedField::optional(1, "c", Type::Primitive(p));
        let text = Text::new("{\"c\": [1]}", "x");
        let rows = text.rows().expect("rows");
        let cells = &members(&text, "", &rows).expect("members")[0].1;
        let said = column(&text, "c", &field, &ExtTypes::default(), cells).expect_err("a list").to_string();
        assert!(said.contains("allowed: "), "{said}");
    }
}
