//! Column metrics (METR-*, BIN-16).

use arrow::array::*;
use arrow::datatypes::{DataType, Field};
use iceberg::spec::PrimitiveLiteral as L;
use serde_json::json;

use super::*;

fn vectors() -> Value {
    let dir = std::env::var("FLOE_SHARED").map(std::path::PathBuf::from).ok().or_else(|| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|a| a.join("shared"))
            .find(|p| p.join("spec/test-vectors.json").is_file())
    });
    let dir =
        dir.expect("no folder shared/ beside the checkout; set FLOE_SHARED to the folder with spec/test-vectors.json");
    let text = std::fs::read_to_string(dir.join("spec/test-vectors.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["metrics_truncation"].clone()
}

#[test]
fn bounds_truncate_as_the_vectors_say() {
    let hex = |s: &str| -> Vec<u8> {
        (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
    };
    let mut n = 0;
    for v in vectors().as_array().unwrap() {
        let len = v["L"].as_u64().map(|n| n as usize);
        let (input, want) = if v["kind"] == "binary" {
            (L::Binary(hex(v["in_hex"].as_str().unwrap())), v["out_hex"].as_str().map(|s| L::Binary(hex(s))))
        } else {
            (L::String(v["in"].as_str().unwrap().into()), v["out"].as_str().map(|s| L::String(s.into())))
        };
        let got = if v["fn"] == "min" { Some(truncate_lower(input, len)) } else { truncate_upper(input, len) };
        assert_eq!(got, want, "{v}");
        n += 1;
    }
    assert_eq!(n, 15);
}

async fn metrics_of(fields: Value, properties: &[(&str, &str)], rows: RecordBatch) -> crate::manifest::Metrics {
    let t = table(fields, None, properties);
    let files = write_data_files(
        &t,
        vec![stream_of(vec![rows.slice(0, 1), rows.slice(1, rows.num_rows() - 1)])],
        &WriteOptions::default(),
    )
    .await
    .unwrap();
    *files[0].metrics.clone().unwrap()
}

#[tokio::test]
async fn floats_have_no_nan_bounds_and_keep_signed_zeros() {
    let fields = json!([{"id": 1, "name": "d", "required": false, "type": "double"}, {"id": 2, "name": "n", "required": false, "type": "float"}]);
    let rows = batch(vec![
        ("d", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(0.0), Some(-0.0), None])) as ArrayRef),
        ("n", Arc::new(Float32Array::from(vec![Some(f32::NAN), Some(f32::NAN), None, None])) as ArrayRef),
    ]);
    let m = metrics_of(fields, &[], rows).await;
    // MAN-D11: values include nulls and NaNs
    assert_eq!((m.value_counts[&1], m.null_value_counts[&1], m.nan_value_counts[&1]), (4, 1, 1));
    assert_eq!(
        (m.lower_bounds[&1].as_slice(), m.upper_bounds[&1].as_slice()),
        (&(-0.0f64).to_le_bytes()[..], &0.0f64.to_le_bytes()[..])
    );
    assert_eq!(m.nan_value_counts[&2], 2);
    assert!(!m.lower_bounds.contains_key(&2) && !m.upper_bounds.contains_key(&2));
    assert!(m.column_sizes[&1] > 0 && m.column_sizes[&2] > 0);
}

#[tokio::test]
async fn nested_columns_count_nulls_of_their_parents_and_lists_have_no_bounds() {
    let fields = json!([{"id": 1, "name": "s", "required": false, "type": {"type": "struct", "fields": [{"id": 3, "name": "x", "required": false, "type": "string"}]}},
        {"id": 2, "name": "l", "required": false, "type": {"type": "list", "element-id": 4, "element-required": false, "element": "int"}}]);
    let x: ArrayRef = Arc::new(StringArray::from(vec![Some("hidden by a null parent"), Some("b"), None]));
    let s = StructArray::new(
        vec![Field::new("x", DataType::Utf8, true)].into(),
        vec![x],
        Some(vec![false, true, true].into()),
    );
    let l = ListArray::from_iter_primitive::<arrow::array::types::Int32Type, _, _>([
        Some(vec![Some(1)]),
        None,
        Some(vec![]),
    ]);
    let m = metrics_of(fields, &[], batch(vec![("s", Arc::new(s) as ArrayRef), ("l", Arc::new(l) as ArrayRef)])).await;
    assert_eq!((m.value_counts[&3], m.null_value_counts[&3]), (3, 2));
    assert_eq!((m.lower_bounds[&3].as_slice(), m.upper_bounds[&3].as_slice()), (&b"b"[..], &b"b"[..]));
    // METR-3
    assert!(!m.value_counts.contains_key(&4) && !m.lower_bounds.contains_key(&4));
}

#[tokio::test]
async fn modes_come_from_properties() {
    let fields = json!([{"id": 1, "name": "a", "required": false, "type": "string"}, {"id": 2, "name": "b", "required": false, "type": "string"},
        {"id": 3, "name": "c", "required": false, "type": "string"}, {"id": 4, "name": "d", "required": false, "type": "string"}]);
    let text = "abcdefghijklmnopqrstuvwxyz";
    let column = || Arc::new(StringArray::from(vec![text, text])) as ArrayRef;
    let rows = || batch(vec![("a", column()), ("b", column()), ("c", column()), ("d", column())]);
    let column = |c: &str| format!("write.metadata.metrics.column.{c}");
    let (b, c, d) = (column("b"), column("c"), column("d"));
    let m = metrics_of(fields.clone(), &[(&b, "none"), (&c, "counts"), (&d, "full")], rows()).await;
    // METR-1, METR-2
    assert_eq!(
        (m.lower_bounds[&1].as_slice(), m.upper_bounds[&1].as_slice()),
        (&b"abcdefghijklmnop"[..], &b"abcdefghijklmnoq"[..])
    );
    assert!(!m.value_counts.contains_key(&2) && !m.column_sizes.contains_key(&2));
    assert!(m.value_counts[&3] == 2 && !m.lower_bounds.contains_key(&3));
    assert_eq!(m.upper_bounds[&4], text.as_bytes());
    let m = metrics_of(fields, &[("write.metadata.metrics.max-inferred-column-defaults", "2")], rows()).await;
    assert_eq!(m.value_counts.keys().copied().collect::<std::collections::BTreeSet<_>>(), [1, 2].into());
}
