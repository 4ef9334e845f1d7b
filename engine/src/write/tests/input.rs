//! Input rows: what is cast, what is refused, and that a refused write leaves nothing.

use arrow::array::types::{Decimal128Type, Float32Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::array::*;
use arrow::datatypes::{DataType, Field, TimeUnit};
use serde_json::json;

use super::data::{partitioned, rows};
use super::*;

#[tokio::test]
async fn bad_rows_are_refused_by_column_and_leave_nothing() {
    let t = table(
        json!([{"id": 1, "name": "id", "required": true, "type": "int"}, {"id": 2, "name": "d", "required": false, "type": "decimal(5, 2)"},
            {"id": 3, "name": "st", "required": false, "type": {"type": "struct", "fields": [{"id": 4, "name": "x", "required": true, "type": "int"}]}}]),
        None,
        &[],
    );
    let structs = |x: Vec<Option<i32>>, valid: Vec<bool>| -> ArrayRef {
        let a: ArrayRef = Arc::new(Int32Array::from(x));
        Arc::new(StructArray::new(vec![Field::new("x", DataType::Int32, true)].into(), vec![a], Some(valid.into())))
    };
    let good = |n: usize| structs(vec![Some(1); n], vec![true; n]);
    let decimals = |v: Vec<f64>| Arc::new(Float64Array::from(v)) as ArrayRef;
    let cases: Vec<(ArrayRef, ArrayRef, ArrayRef, &str)> = vec![
        (Arc::new(Int32Array::from(vec![Some(1), None])), decimals(vec![1.0, 2.0]), good(2), "\"id\" is NOT NULL"),
        (Arc::new(Int64Array::from(vec![1, 1 << 40])), decimals(vec![1.0, 2.0]), good(2), "\"id\""),
        (Arc::new(StringArray::from(vec!["1", "2"])), decimals(vec![1.0, 2.0]), good(2), "\"id\" is int"),
        (Arc::new(Int32Array::from(vec![1, 2])), decimals(vec![1.0, 2.005]), good(2), "\"d\""),
        (Arc::new(Int32Array::from(vec![1, 2])), decimals(vec![1.0, 99999.0]), good(2), "\"d\""),
        (
            Arc::new(Int32Array::from(vec![1, 2])),
            decimals(vec![1.0, 2.0]),
            structs(vec![Some(1), None], vec![true, true]),
            "\"st.x\" is NOT NULL",
        ),
    ];
    for (id, d, st, says) in cases {
        let fine = batch(vec![
            ("id", Arc::new(Int32Array::from(vec![5])) as ArrayRef),
            ("d", decimals(vec![1.25])),
            ("st", good(1)),
        ]);
        let id_type = id.data_type().clone();
        let bad = batch(vec![("id", id), ("d", d), ("st", st)]);
        let first = if id_type == DataType::Int32 { vec![fine.clone(), bad] } else { vec![bad] };
        let e = write_data_files(&t, vec![stream_of(vec![fine]), stream_of(first)], &WriteOptions::default())
            .await
            .unwrap_err();
        assert!(e.message().contains(says), "{says}: {e}");
        for arrow in ["Int32", "Int64", "Utf8", "Float64", "Decimal128"] {
            assert!(!e.message().contains(arrow), "Arrow's words: {e}");
        }
        assert_eq!(files_below(&t).await, 0, "{says}");
    }
    // A null under a null parent is no violation.
    let ok = batch(vec![
        ("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("d", decimals(vec![1.25])),
        ("st", structs(vec![None], vec![false])),
    ]);
    assert_eq!(write_data_files(&t, vec![stream_of(vec![ok])], &WriteOptions::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_failing_stream_leaves_no_file() {
    let t = partitioned();
    let schema = rows(0..1).schema();
    let failing = stream::iter((0..3).map(Ok).collect::<Vec<_>>()).map(|r: Result<i64>| match r {
        Ok(2) => Err(datafusion::error::DataFusionError::from(Error::not_found("gone"))),
        Ok(i) => Ok(rows(i * 50..i * 50 + 50)),
        Err(e) => Err(e.into()),
    });
    let failing: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, failing));
    // One byte a file: files are already complete when the error comes.
    let options = WriteOptions { target_file_size: Some(1), ..WriteOptions::default() };
    let e = write_data_files(&t, vec![failing, stream_of(vec![rows(0..9)])], &options).await.unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::NotFound);
    assert_eq!(files_below(&t).await, 0);
    for (key, value) in [
        ("write.target-file-size-bytes", "big"),
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.page-size-bytes", "0"),
        ("write.metadata.metrics.default", "some"),
    ] {
        let t = table(json!([{"id": 1, "name": "a", "required": false, "type": "int"}]), None, &[(key, value)]);
        let one = batch(vec![("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
        let e = write_data_files(&t, vec![stream_of(vec![one])], &WriteOptions::default()).await.unwrap_err();
        assert!(e.message().contains(key), "{e}");
        assert_eq!(files_below(&t).await, 0);
    }
}

#[tokio::test]
async fn columns_by_name_take_write_defaults() {
    // DEFV-1, DEFV-5
    let t = table(
        json!([{"id": 1, "name": "id", "required": true, "type": "int"}, {"id": 2, "name": "d", "required": true, "type": "int", "initial-default": 1, "write-default": 42},
            {"id": 3, "name": "o", "required": false, "type": "string"},
            {"id": 4, "name": "st", "required": false, "initial-default": {}, "write-default": {}, "type": {"type": "struct", "fields": [
                {"id": 5, "name": "a", "required": true, "type": "int", "initial-default": 7, "write-default": 8}, {"id": 6, "name": "b", "required": false, "type": "string"}]}}]),
        None,
        &[],
    );
    let by_name = WriteOptions { mapping: InputMapping::ByName, ..WriteOptions::default() };
    let only = |n: &str| stream_of(vec![batch(vec![(n, Arc::new(Int16Array::from(vec![1, 2])) as ArrayRef)])]);
    let files = write_data_files(&t, vec![only("ID")], &by_name).await.unwrap();
    let (back, _) = read(&t, &files[0]).await;
    assert_eq!(back.column(1).as_primitive::<Int32Type>().values(), &[42, 42]);
    assert_eq!(back.column(2).null_count(), 2);
    // DEFV-6: an empty struct is made of its members' defaults
    let st = back.column(3).as_struct();
    assert_eq!((st.null_count(), st.column(1).null_count()), (0, 2));
    assert_eq!(st.column(0).as_primitive::<Int32Type>().values(), &[8, 8]);
    assert!(write_data_files(&t, vec![only("d")], &by_name).await.unwrap_err().message().contains("\"id\""));
    assert!(write_data_files(&t, vec![only("nix")], &by_name).await.unwrap_err().message().contains("\"nix\""));
}

#[tokio::test]
async fn casts_keep_values() {
    let t = table(
        json!([{"id": 1, "name": "f", "required": false, "type": "float"}, {"id": 2, "name": "ts", "required": false, "type": "timestamp"},
            {"id": 3, "name": "u", "required": false, "type": "uuid"}, {"id": 4, "name": "dec", "required": false, "type": "decimal(9, 2)"},
            {"id": 5, "name": "l", "required": false, "type": {"type": "list", "element-id": 6, "element-required": false, "element": "long"}}]),
        None,
        &[],
    );
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
    let rows = batch(vec![
        ("f", Arc::new(Float64Array::from(vec![0.1])) as ArrayRef),
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![-1]).with_timezone("UTC")) as ArrayRef),
        ("u", Arc::new(StringArray::from(vec!["f79c3e09-677c-4bbd-a479-3f349cb785e7"])) as ArrayRef),
        ("dec", Arc::new(Float64Array::from(vec![1_234_567.89])) as ArrayRef),
        ("l", Arc::new(list) as ArrayRef),
    ]);
    let files = write_data_files(&t, vec![stream_of(vec![rows])], &WriteOptions::default()).await.unwrap();
    let (back, _) = read(&t, &files[0]).await;
    assert_eq!(back.column(0).as_primitive::<Float32Type>().value(0), 0.1f32);
    assert_eq!(back.column(1).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(back.column(1).as_primitive::<TimestampMicrosecondType>().value(0), -1, "down, not towards zero");
    assert_eq!(back.column(2).as_fixed_size_binary().value(0)[0], 0xf7);
    assert_eq!(back.column(3).as_primitive::<Decimal128Type>().value(0), 123_456_789);
    assert_eq!(back.column(4).as_list::<i32>().values().as_primitive::<Int64Type>().value(0), 1);
}

#[tokio::test]
async fn every_codec_of_the_property_is_written() {
    // PROP-10
    let codecs =
        [("zstd", "19"), ("gzip", "9"), ("brotli", "5"), ("snappy", ""), ("LZ4_RAW", ""), ("uncompressed", "")];
    for (codec, level) in codecs {
        let mut properties = vec![("write.parquet.compression-codec", codec)];
        if !level.is_empty() {
            properties.push(("write.parquet.compression-level", level));
        }
        let one = || stream_of(vec![batch(vec![("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)])]);
        let columns = json!([{"id": 1, "name": "a", "required": false, "type": "int"}]);
        let t = table(columns.clone(), None, &properties);
        let files = write_data_files(&t, vec![one()], &WriteOptions::default()).await.unwrap();
        let (back, reader) = read(&t, &files[0]).await;
        assert_eq!(back.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
        let stored = format!("{:?}", reader.metadata().row_group(0).column(0).compression()).to_lowercase();
        assert!(stored.starts_with(&codec.to_lowercase()), "{codec}: {stored}");
        if !level.is_empty() {
            let t = table(columns, None, &[properties[0], ("write.parquet.compression-level", "99")]);
            let e = write_data_files(&t, vec![one()], &WriteOptions::default()).await.unwrap_err();
            assert_eq!(e.clause_id(), Some("PROP-10"), "{e}");
        }
    }
}
