//! Data files.

use arrow::array::types::{Int64Type, TimestampMicrosecondType};
use arrow::array::*;
use arrow::datatypes::DataType;
use iceberg::spec::{Literal, Transform, UnboundPartitionField};
use parquet::basic::{LogicalType, Type as Physical};
use serde_json::json;

use super::*;
use crate::types::{field_id, literal_from_json, literal_to_array};

/// Every storable type, nested ones with every kind of field id.
fn everything() -> Value {
    let prims = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "decimal(9, 2)",
        "decimal(18, 4)",
        "decimal(38, 10)",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "fixed[3]",
        "binary",
        "variant",
        "unknown",
        "geometry(EPSG:4979)",
        "geography(OGC:CRS84, karney)",
    ];
    let mut fields: Vec<_> = prims
        .iter()
        .enumerate()
        .map(|(i, t)| json!({"id": i + 1, "name": format!("c{i}"), "required": false, "type": t}))
        .collect();
    fields.push(json!({"id": 23, "name": "st", "required": false, "type": {"type": "struct", "fields": [
        {"id": 26, "name": "a", "required": false, "type": "int"}, {"id": 27, "name": "u", "required": false, "type": "unknown"}]}}));
    fields.push(json!({"id": 24, "name": "l", "required": false, "type": {"type": "list", "element-id": 28, "element-required": false, "element": "string"}}));
    fields.push(json!({"id": 25, "name": "m", "required": false, "type": {"type": "map", "key-id": 29, "key": "string", "value-id": 30, "value-required": false, "value": "double"}}));
    json!(fields)
}

#[tokio::test]
async fn every_type_is_stored_and_read_back() {
    let t = table(everything(), None, &[]);
    let schema = t.metadata().current_schema().clone();
    let values = [
        json!(true),
        json!(-7),
        json!(1i64 << 40),
        json!(1.5),
        json!(2.5),
        json!("1234567.89"),
        json!("-12345678901234.5678"),
        json!("1234567890123456789012345678.0123456789"),
        json!("1969-12-31"),
        json!("23:59:59.999999"),
        json!("1969-12-31T23:59:59.999999"),
        json!("2025-01-01T00:00:00.000001+00:00"),
        json!("2025-01-01T00:00:00.000000001"),
        json!("1969-12-31T23:59:59.999999999+00:00"),
        json!("héllo"),
        json!("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        json!("00FF01"),
        json!("00FF"),
    ];
    let arrow = crate::types::arrow_schema(&schema, &t.metadata().ext);
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (i, f) in arrow.fields().iter().enumerate() {
        let field = &schema.as_struct().fields()[i];
        let one: ArrayRef = match f.name().as_str() {
            "c18" => {
                let part: ArrayRef = Arc::new(BinaryArray::from(vec![&[1u8, 0][..]]));
                let value: ArrayRef = Arc::new(BinaryArray::from(vec![&[0u8][..]]));
                let DataType::Struct(parts) = f.data_type() else { panic!("{f}") };
                Arc::new(StructArray::new(parts.clone(), vec![part, value], None))
            }
            "c19" => new_null_array(&DataType::Null, 1),
            "c20" | "c21" => Arc::new(BinaryArray::from(vec![&[1u8, 2][..]])),
            name => {
                let v = match name {
                    "st" => json!({"26": 5}),
                    "l" => json!(["a", null]),
                    "m" => json!({"keys": ["k"], "values": [1.5]}),
                    _ => values[i].clone(),
                };
                let lit = literal_from_json(&v, &field.field_type).unwrap().unwrap();
                literal_to_array(Some(&lit), f.data_type(), 1).unwrap()
            }
        };
        let nulls = new_null_array(f.data_type(), 1);
        columns.push(arrow::compute::concat(&[&one, &nulls]).unwrap());
    }
    let rows = RecordBatch::try_new(arrow, columns).unwrap();
    let files = write_data_files(&t, vec![stream_of(vec![rows.clone()])], &WriteOptions::default()).await.unwrap();
    assert_eq!(files.len(), 1);
    let (back, reader) = read(&t, &files[0]).await;
    // Unknown columns are in no file (TYPE-1, PARQ-13), at the top and inside structs.
    assert_eq!(back.num_columns(), rows.num_columns() - 1);
    assert!(back.column_by_name("c19").is_none());
    for f in back.schema().fields() {
        let (got, want) = (back.column_by_name(f.name()).unwrap(), rows.column_by_name(f.name()).unwrap());
        if f.name() == "st" {
            assert_eq!(got.as_struct().num_columns(), 1);
            assert_eq!(got.as_struct().column(0), want.as_struct().column(0));
            continue;
        }
        // The reader words UTC in its own way and knows no key_value ids; the values count.
        let got = arrow::compute::cast(got, want.data_type()).unwrap();
        assert_eq!(&got, want, "{}", f.name());
        assert_eq!(field_id(f), schema.field_id_by_name(f.name()), "PARQ-1");
    }
    // PARQ-9, PARQ-11, PARQ-12, PARQ-14
    let descr = reader.parquet_schema();
    let root = descr.root_schema().get_fields();
    let of = |n: &str| root.iter().find(|f| f.name() == n).unwrap();
    assert_eq!(of("c15").get_basic_info().logical_type_ref(), Some(&LogicalType::Uuid));
    assert!(matches!(of("c18").get_basic_info().logical_type_ref(), Some(LogicalType::Variant { .. })));
    assert_eq!(of("c18").get_basic_info().id(), 19);
    assert!(!of("c18").get_fields()[0].get_basic_info().has_id());
    assert_eq!(
        of("c20").get_basic_info().logical_type_ref(),
        Some(&LogicalType::Geometry { crs: Some("EPSG:4979".into()) })
    );
    assert!(matches!(of("c21").get_basic_info().logical_type_ref(), Some(LogicalType::Geography { crs: None, .. })));
    let physical = |n: &str| of(n).get_physical_type();
    assert_eq!(
        (physical("c5"), physical("c6"), physical("c7")),
        (Physical::INT32, Physical::INT64, Physical::FIXED_LEN_BYTE_ARRAY)
    );
    let leaves: Vec<_> =
        descr.columns().iter().map(|c| (c.path().string(), c.self_type().get_basic_info().id_or())).collect();
    assert!(leaves.contains(&("l.list.element".into(), Some(28))), "{leaves:?}");
    assert!(
        leaves.contains(&("m.key_value.key".into(), Some(29)))
            && leaves.contains(&("m.key_value.value".into(), Some(30)))
    );
    // The footer names the schema as Java does, with true types.
    let kv = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let json: Value =
        serde_json::from_str(kv.iter().find(|k| k.key == "iceberg.schema").unwrap().value.as_ref().unwrap()).unwrap();
    assert_eq!(json["fields"][18]["type"], "variant");
    assert!(kv.iter().all(|k| k.key != "ARROW:schema"));
}

trait IdOr {
    fn id_or(&self) -> Option<i32>;
}

impl IdOr for parquet::schema::types::BasicTypeInfo {
    fn id_or(&self) -> Option<i32> {
        self.has_id().then(|| self.id())
    }
}

pub(super) fn partitioned() -> Table {
    let spec = UnboundPartitionSpec::builder()
        .add_partition_fields([
            UnboundPartitionField {
                source_id: 1,
                field_id: Some(1000),
                name: "id_bucket".into(),
                transform: Transform::Bucket(4),
            },
            UnboundPartitionField {
                source_id: 2,
                field_id: Some(1001),
                name: "ts_day".into(),
                transform: Transform::Day,
            },
        ])
        .unwrap()
        .build();
    table(
        json!([{"id": 1, "name": "id", "required": false, "type": "int"}, {"id": 2, "name": "ts", "required": false, "type": "timestamptz"},
               {"id": 3, "name": "state", "required": false, "type": "string"}]),
        Some(spec),
        &[],
    )
}

pub(super) fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    // 2025-01-01 and two days more, as the golden case partitioned_v3_mor
    let ts = TimestampMicrosecondArray::from_iter_values(
        ids.clone().map(|i| 1_735_689_600_000_000 + i % 3 * 86_400_000_000),
    );
    batch(vec![
        ("a", Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef),
        ("b", Arc::new(ts) as ArrayRef),
        ("c", Arc::new(StringViewArray::from_iter_values(ids.map(|_| "WA"))) as ArrayRef),
    ])
}

#[tokio::test]
async fn rows_of_all_streams_meet_in_one_file_a_partition() {
    let t = partitioned();
    let streams =
        vec![stream_of(vec![rows(0..40), rows(40..60)]), stream_of(vec![rows(60..61)]), stream_of(vec![rows(61..120)])];
    let files = write_data_files(&t, streams, &WriteOptions::default()).await.unwrap();
    assert_eq!(files.len(), 12, "as Spark: golden case partitioned_v3_mor");
    let mut seen = std::collections::BTreeSet::new();
    for f in &files {
        let (back, _) = read(&t, f).await;
        let [Some(Literal::Primitive(bucket)), Some(Literal::Primitive(day))] = f.partition.fields() else {
            panic!("{f:?}")
        };
        let (iceberg::spec::PrimitiveLiteral::Int(bucket), iceberg::spec::PrimitiveLiteral::Int(day)) = (bucket, day)
        else {
            panic!("{f:?}")
        };
        let folder = format!("/data/id_bucket={bucket}/ts_day=2025-01-0{}/", day - 20089 + 1);
        assert!(f.path.contains(&folder) && f.path.ends_with(".parquet"), "{} {folder}", f.path);
        for id in back.column(0).as_primitive::<arrow::array::types::Int32Type>().values() {
            assert_eq!(((crate::types::hash_bytes(&i64::from(*id).to_le_bytes()) & i32::MAX) % 4), *bucket, "PART-2");
            assert!(seen.insert(*id));
        }
        let ts = back.column(1).as_primitive::<TimestampMicrosecondType>();
        assert!(ts.values().iter().all(|v| v.div_euclid(86_400_000_000) == i64::from(*day)));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..120).collect::<Vec<_>>());
    assert_eq!(files_below(&t).await, 12);
}

#[tokio::test]
async fn more_partitions_than_open_files_still_give_all_rows() {
    let spec = UnboundPartitionSpec::builder()
        .add_partition_fields([UnboundPartitionField {
            source_id: 1,
            field_id: Some(1000),
            name: "id".into(),
            transform: Transform::Identity,
        }])
        .unwrap()
        .build();
    let t = table(json!([{"id": 1, "name": "id", "required": false, "type": "int"}]), Some(spec), &[]);
    let ids = |n: i32| {
        batch(vec![(
            "id",
            Arc::new(Int32Array::from_iter((0..n).map(|i| (i % 301 != 300).then_some(i % 301)))) as ArrayRef,
        )])
    };
    let files =
        write_data_files(&t, vec![stream_of(vec![ids(602)]), stream_of(vec![ids(301)])], &WriteOptions::default())
            .await
            .unwrap();
    assert_eq!(files.len(), 301, "300 values and null (PART-27)");
    assert!(files.iter().all(|f| f.record_count == 3));
    assert!(files.iter().any(|f| f.path.contains("/id=null/") && f.partition.fields() == [None]));
}

#[tokio::test]
async fn unpartitioned_streams_become_files_and_empty_ones_none() {
    let t = table(
        json!([{"id": 1, "name": "a", "required": true, "type": "long"}]),
        None,
        &[("write.parquet.compression-codec", "snappy")],
    );
    let ints = |r: std::ops::Range<i32>| batch(vec![("x", Arc::new(Int32Array::from_iter_values(r)) as ArrayRef)]);
    let streams = vec![stream_of(vec![ints(0..3)]), stream_of(vec![ints(0..0)]), stream_of(vec![ints(3..10)])];
    let files = write_data_files(&t, streams, &WriteOptions::default()).await.unwrap();
    assert_eq!(files.iter().map(|f| f.record_count).collect::<Vec<_>>(), [3, 7]);
    for f in &files {
        assert_eq!((f.content, f.spec_id, f.sort_order_id, f.first_row_id), (Content::Data, 0, Some(0), None));
        assert_eq!(f.split_offsets, Some(vec![4]), "PARQ-17: the first row group begins after the magic");
    }
    // Rolling: every batch reaches one byte, so each becomes a file.
    let options = WriteOptions { target_file_size: Some(1), ..WriteOptions::default() };
    let files = write_data_files(&t, vec![stream_of(vec![ints(0..3), ints(3..6)])], &options).await.unwrap();
    assert_eq!(files.len(), 2);
    // and with a data path of its own (LOC-2), on the local file system
    let dir = tempfile::tempdir().unwrap();
    let location = format!("file://{}/t", dir.path().display());
    let t = table_at(&location, json!([{"id": 1, "name": "a", "required": true, "type": "long"}]), None, &[]);
    let files = write_data_files(&t, vec![stream_of(vec![ints(0..3)])], &WriteOptions::default()).await.unwrap();
    assert!(files[0].path.starts_with(&format!("{location}/data/00000-0-")), "{}", files[0].path);
    read(&t, &files[0]).await;
}

#[tokio::test]
async fn lineage_columns_are_stored_with_their_ids() {
    let t = table(json!([{"id": 1, "name": "a", "required": false, "type": "int"}]), None, &[]);
    let rows = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("_row_id", Arc::new(Int64Array::from(vec![Some(7), None])) as ArrayRef),
        ("_last_updated_sequence_number", Arc::new(Int64Array::from(vec![Some(3), None])) as ArrayRef),
    ]);
    let options = WriteOptions { lineage: true, ..WriteOptions::default() };
    let files = write_data_files(&t, vec![stream_of(vec![rows.clone()])], &options).await.unwrap();
    let (back, _) = read(&t, &files[0]).await;
    // LINEAGE-16, LINEAGE-18
    let schema = back.schema();
    assert_eq!(
        schema.fields().iter().map(|f| field_id(f).unwrap()).collect::<Vec<_>>(),
        [1, 2_147_483_540, 2_147_483_539]
    );
    assert_eq!(back.column(1).as_primitive::<Int64Type>(), rows.column(1).as_primitive::<Int64Type>());
    assert!(back.column(2).is_null(1));
    // without the option the same rows have two columns too many
    assert!(write_data_files(&t, vec![stream_of(vec![rows])], &WriteOptions::default()).await.is_err());
}
