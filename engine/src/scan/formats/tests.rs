//! Avro and ORC bytes as Iceberg's writers lay them out.

use std::collections::HashMap;

use apache_avro::types::Value as Avro;
use arrow::array::*;
use arrow::datatypes::*;
use bytes::Bytes;

use super::*;
use crate::types::field_id;

const SCHEMA: &str = r#"{"type":"record","name":"table","fields":[
 {"name":"id","type":["null","int"],"default":null,"field-id":1},
 {"name":"ts","type":["null",{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":false}],"default":null,"field-id":2},
 {"name":"tz","type":["null",{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":true}],"default":null,"field-id":3},
 {"name":"d","type":["null",{"type":"fixed","name":"decimal_9_2","size":4,"logicalType":"decimal","precision":9,"scale":2}],"default":null,"field-id":4},
 {"name":"l","type":["null",{"type":"array","items":["null","string"],"element-id":6}],"default":null,"field-id":5},
 {"name":"m","type":["null",{"type":"map","values":["null","int"],"key-id":8,"value-id":9}],"default":null,"field-id":7},
 {"name":"n","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k11_v12","fields":[
   {"name":"key","type":"int","field-id":11},{"name":"value","type":["null","string"],"default":null,"field-id":12}]}}],"default":null,"field-id":10},
 {"name":"s","type":["null",{"type":"record","name":"r13","fields":[{"name":"a","type":["null",{"type":"fixed","name":"decimal_9_1","size":4,"logicalType":"decimal","precision":9,"scale":1}],"default":null,"field-id":14}]}],"default":null,"field-id":13},
 {"name":"u","type":["null",{"type":"fixed","name":"uuid_fixed","size":16,"logicalType":"uuid"}],"default":null,"field-id":15}
]}"#;

fn some(v: Avro) -> Avro {
    Avro::Union(1, Box::new(v))
}

fn null() -> Avro {
    Avro::Union(0, Box::new(Avro::Null))
}

fn file() -> Bytes {
    // the writer's crate has its own idea of uuid, and drops what it does not know from the header
    let schema = apache_avro::Schema::parse_str(&SCHEMA.replace(",\"logicalType\":\"uuid\"", "")).expect("schema");
    let mut w = apache_avro::Writer::new(&schema, Vec::new());
    let decimal = |v: i32| Avro::Decimal(apache_avro::Decimal::from(v.to_be_bytes()));
    let row = vec![
        ("id".into(), some(Avro::Int(7))),
        ("ts".into(), some(Avro::TimestampMicros(-1))),
        ("tz".into(), some(Avro::TimestampMicros(1))),
        ("d".into(), some(decimal(-123))),
        ("l".into(), some(Avro::Array(vec![some(Avro::String("x".into())), null()]))),
        ("m".into(), some(Avro::Map(HashMap::from([("k".to_string(), some(Avro::Int(1)))])))),
        (
            "n".into(),
            some(Avro::Array(vec![Avro::Record(vec![
                ("key".into(), Avro::Int(5)),
                ("value".into(), some(Avro::String("five".into()))),
            ])])),
        ),
        ("s".into(), some(Avro::Record(vec![("a".into(), some(decimal(45)))]))),
        ("u".into(), some(Avro::Fixed(16, uuid::Uuid::from_u128(9).as_bytes().to_vec()))),
    ];
    let nulls = row.iter().map(|(n, _): &(String, Avro)| (n.clone(), null())).collect();
    w.append(Avro::Record(row)).expect("row");
    w.append(Avro::Record(nulls)).expect("row");
    with_header(&w.into_inner().expect("file")).into()
}

/// The file with [`SCHEMA`] in its header, as Iceberg's writers put it there.
fn with_header(file: &[u8]) -> Vec<u8> {
    let mark = &file[file.len() - 16..];
    let header = file.windows(16).position(|w| w == mark).expect("the header's mark") + 16;
    let mut out = b"Obj\x01\x04".to_vec();
    for (key, value) in [("avro.codec", "null"), ("avro.schema", SCHEMA)] {
        for text in [key, value] {
            let mut n = text.len() << 1;
            while n > 127 {
                out.push(u8::try_from(n & 127).expect("seven bits") | 128);
                n >>= 7;
            }
            out.push(u8::try_from(n).expect("seven bits"));
            out.extend(text.as_bytes());
        }
    }
    out.push(0);
    out.extend(mark);
    out.extend(&file[header..]);
    out
}

#[test]
fn avro_types_and_ids_are_those_of_the_table() {
    let (schema, f) = avro::AvroFile::open(file()).expect("opens");
    let ids: Vec<_> = schema.fields().iter().map(|f| field_id(f)).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 7, 10, 13, 15].map(Some), "AVRO-3");
    let rows = FileRows { schema: schema.clone(), kind: Kind::Avro(f), expected_rows: 2 };
    let all: Vec<RecordBatch> =
        rows.batches(&(0..9).collect::<Vec<_>>(), 100).expect("reads").collect::<Result<_>>().expect("rows");
    let b = &all[0];
    assert_eq!(b.num_rows(), 2);
    assert!(b.columns().iter().all(|c| c.is_null(1)));
    assert_eq!(b.column(0).as_primitive::<Int32Type>().value(0), 7);
    assert_eq!(b.column(1).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None), "AVRO-4");
    assert_eq!(b.column(1).as_primitive::<TimestampMicrosecondType>().value(0), -1);
    assert_eq!(b.column(2).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    assert_eq!(b.column(3).as_primitive::<Decimal128Type>().value(0), -123);
    let DataType::List(e) = b.column(4).data_type() else { panic!("{schema}") };
    assert_eq!(field_id(e), Some(6));
    for (i, ids) in [(5, [8, 9]), (6, [11, 12])] {
        let DataType::Map(e, _) = b.column(i).data_type() else { panic!("{schema}") };
        let DataType::Struct(kv) = e.data_type() else { panic!("{e}") };
        assert_eq!([field_id(&kv[0]), field_id(&kv[1])], ids.map(Some), "AVRO-2");
    }
    let n = b.column(6).as_map();
    assert_eq!(n.value(0).column(0).as_primitive::<Int32Type>().value(0), 5);
    assert_eq!(n.value(0).column(1).as_string::<i32>().value(0), "five");
    let s = b.column(7).as_struct();
    assert_eq!(s.column(0).as_primitive::<Decimal128Type>().value(0), 45);
    assert_eq!(b.column(8).as_fixed_size_binary().value(0)[15], 9);
}

#[test]
fn avro_columns_are_projected_and_rows_counted() {
    for (roots, expected) in [(vec![7, 0], 2), (vec![], 2), (vec![3], 5)] {
        let (schema, f) = avro::AvroFile::open(file()).expect("opens");
        let rows = FileRows { schema, kind: Kind::Avro(f), expected_rows: expected };
        let got: Result<Vec<RecordBatch>> = rows.batches(&roots, 1).expect("reads").collect();
        match got {
            Ok(b) => {
                assert_eq!((expected, b.len()), (2, 2), "one row a batch");
                let names: Vec<_> = b[0].schema().fields().iter().map(|f| f.name().clone()).collect();
                assert_eq!(names.len(), roots.len());
                assert!(roots.is_empty() || names == ["id", "s"], "file order: {names:?}");
            }
            Err(e) => assert_eq!((expected, e.clause_id()), (5, Some("MAN-30")), "{e}"),
        }
    }
}

#[test]
fn broken_files_are_errors() {
    let avro = file();
    for cut in [0, 3, 100, avro.len() - 1] {
        let read = avro::AvroFile::open(avro.slice(0..cut)).and_then(|(schema, f)| {
            let rows = FileRows { schema, kind: Kind::Avro(f), expected_rows: 2 };
            rows.batches(&[0], 10)?.collect::<Result<Vec<_>>>()
        });
        assert!(read.is_err(), "Avro cut at {cut}");
    }
    let orc = orc_file();
    for cut in [0, 3, orc.len() / 2, orc.len() - 1] {
        assert!(orc::OrcFile::open(orc.slice(0..cut)).is_err(), "ORC cut at {cut}");
    }
}

/// A file as `orc-rust` writes it: without attributes.
fn orc_file() -> Bytes {
    let rows = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef),
    ])
    .expect("rows");
    let mut out = Vec::new();
    let mut w = orc_rust::arrow_writer::ArrowWriterBuilder::new(&mut out, rows.schema()).try_build().expect("writer");
    w.write(&rows).expect("write");
    w.close().expect("close");
    out.into()
}

#[test]
fn orc_rows_without_ids_come_by_name() {
    for roots in [vec![0, 1], vec![1], vec![]] {
        let (schema, f) = orc::OrcFile::open(orc_file()).expect("opens");
        assert!(schema.fields().iter().all(|f| field_id(f).is_none()));
        let rows = FileRows { schema, kind: Kind::Orc(f), expected_rows: 3 };
        let b: Vec<RecordBatch> = rows.batches(&roots, 2).expect("reads").collect::<Result<_>>().expect("rows");
        assert_eq!(b.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        assert_eq!(b[0].num_columns(), roots.len());
    }
}
