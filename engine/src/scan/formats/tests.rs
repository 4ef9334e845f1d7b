//! Avro and ORC bytes as Iceberg's writers lay them out.

use apache_avro::types::Value as Avro;
use arrow::array::*;
use arrow::datatypes::*;
use bytes::Bytes;

use super::*;
use crate::types::field_id;

// `apache_avro` words nested types anew when it writes; what Iceberg's own writer words is read in `types/avro-data-files`
const SCHEMA: &str = r#"{"type":"record","name":"table","fields":[
 {"name":"id","type":["null","int"],"default":null,"field-id":1},
 {"name":"s","type":["null","string"],"default":null,"field-id":2}]}"#;

fn file() -> Bytes {
    let schema = apache_avro::Schema::parse_str(SCHEMA).expect("schema");
    let mut w = apache_avro::Writer::new(&schema, Vec::new());
    let some = |v: Avro| Avro::Union(1, Box::new(v));
    let null = || Avro::Union(0, Box::new(Avro::Null));
    for (id, s) in [(some(Avro::Int(7)), some(Avro::String("x".into()))), (null(), null())] {
        w.append(Avro::Record(vec![("id".into(), id), ("s".into(), s)])).expect("row");
    }
    w.into_inner().expect("file").into()
}

#[test]
fn avro_columns_have_their_ids_are_projected_and_counted() {
    for (roots, expected) in [(vec![1, 0], 2), (vec![], 2), (vec![0], 5)] {
        let (schema, f) = avro::AvroFile::open(file()).expect("opens");
        let ids: Vec<_> = schema.fields().iter().map(|f| field_id(f)).collect();
        assert_eq!(ids, [Some(1), Some(2)], "AVRO-3");
        let rows = FileRows { schema, kind: Kind::Avro(f), expected_rows: expected };
        let got: Result<Vec<RecordBatch>> = rows.batches(&roots, 1).expect("reads").collect();
        match got {
            Ok(b) => {
                assert_eq!((expected, b.len()), (2, 2), "one row a batch");
                let names: Vec<_> = b[0].schema().fields().iter().map(|f| f.name().clone()).collect();
                assert!(
                    roots.is_empty() == names.is_empty() && (roots.is_empty() || names == ["id", "s"]),
                    "{names:?}"
                );
                if !roots.is_empty() {
                    assert_eq!(b[0].column(0).as_primitive::<Int32Type>().value(0), 7);
                    assert!(b[1].columns().iter().all(|c| c.is_null(0)));
                }
            }
            Err(e) => assert_eq!((expected, e.clause_id()), (5, Some("MAN-30")), "{e}"),
        }
    }
}

#[test]
fn broken_files_are_errors() {
    let avro = file();
    for cut in [0, 3, 50, avro.len() - 1] {
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
