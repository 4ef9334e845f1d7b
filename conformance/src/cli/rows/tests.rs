use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};

use super::{Format, write};

fn batch() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(-1234567), None]).with_precision_and_scale(9, 2).expect("decimal");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("l", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("f", Arc::new(Float32Array::from(vec![Some(1.1), None]))),
        ("d", Arc::new(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY]))),
        ("dec", Arc::new(decimals)),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500_000), None]).with_timezone("+00:00"))),
        ("tsn", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None]))),
        ("t", Arc::new(Time64MicrosecondArray::from(vec![Some(3_600_000_001), None]))),
        ("bin", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255][..]), None]))),
        ("s", Arc::new(StringArray::from(vec![Some("a \"b\",\n"), Some("")]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).expect("batch")
}

fn printed(format: Format) -> String {
    let batch = batch();
    let names: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    let mut out = Vec::new();
    write(&mut out, &[batch], &names, format).expect("prints");
    String::from_utf8(out).expect("text")
}

#[test]
fn json_keeps_every_value() {
    let text = printed(Format::Json);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            r#"{"l":9223372036854775807,"f":1.1,"d":"NaN","dec":"-12345.67","ts":"1970-01-01T00:00:01.5Z","tsn":"1969-12-31T23:59:59.999999","t":"01:00:00.000001","bin":"00ff","s":"a \"b\",\n"}"#,
            r#"{"l":null,"f":null,"d":"-Infinity","dec":null,"ts":null,"tsn":null,"t":null,"bin":null,"s":""}"#,
        ]
    );
}

#[test]
fn csv_tells_null_from_empty() {
    let text = printed(Format::Csv);
    assert!(text.starts_with("l,f,d,dec,ts,tsn,t,bin,s\n"), "{text}");
    assert!(text.contains("\"a \"\"b\"\",\n\""), "{text}");
    assert!(text.ends_with(",,-Infinity,,,,,,\"\"\n"), "{text}");
}

#[test]
fn a_table_has_a_frame() {
    let text = printed(Format::Table);
    let widths: Vec<usize> = text.lines().map(|l| l.chars().count()).collect();
    assert_eq!(widths.len(), 6);
    assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    assert!(!text.replace('\n', "").contains(char::is_control), "bytes are shown, not sent to the terminal: {text}");
    assert!(text.contains("\\x00"), "{text}");
    assert!(text.contains("| NULL"), "{text}");
}
