//! Which deletes apply to which data file, by the enumerated table of the rules, and metadata that lies about it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use iceberg::spec::{Literal, Struct};
use serde_json::{Value, json};

use super::equality::EqualityDeletes;
use super::*;
use crate::io::FileIo;
use crate::manifest::{Content, DataFile, FileFormat, ManifestEntry, Metrics, Status};
use crate::table::Metadata;

const DATA: &str = "/w/t/data/match.parquet";

/// Specs 0 and 1 are partitioned, 2 has no field, 3 has only a void one.
fn metadata() -> Metadata {
    let field = |id: i32, transform: &str| json!({"source-id": 1, "field-id": id, "name": format!("p{id}"), "transform": transform});
    let json = json!({
        "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "/w/t",
        "last-sequence-number": 9, "last-updated-ms": 1, "last-column-id": 4, "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "p", "required": false, "type": "int"},
            {"id": 2, "name": "d", "required": false, "type": "double"},
            {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
                {"id": 4, "name": "k", "required": false, "type": "long", "initial-default": 7}]}}]}],
        "default-spec-id": 0, "last-partition-id": 1002,
        "partition-specs": [
            {"spec-id": 0, "fields": [field(1000, "identity")]}, {"spec-id": 1, "fields": [field(1001, "bucket[4]")]},
            {"spec-id": 2, "fields": []}, {"spec-id": 3, "fields": [field(1002, "void")]}],
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {}, "snapshots": [],
    });
    Metadata::from_json(json.to_string().as_bytes()).expect("metadata")
}

fn entry(content: Content, format: FileFormat, path: &str, sequence_number: i64) -> ManifestEntry {
    ManifestEntry {
        status: Status::Added,
        snapshot_id: Some(1),
        sequence_number: Some(sequence_number),
        file_sequence_number: Some(sequence_number),
        file: DataFile {
            equality_ids: (content == Content::EqualityDeletes).then(|| vec![1]),
            ..DataFile::new(content, format, path, 0, tuple(Some(1)), 10, 100)
        },
    }
}

fn tuple(v: Option<i32>) -> Arc<Struct> {
    Arc::new([v.map(Literal::int)].into_iter().collect())
}

fn dv(path: &str, target: Option<&str>, sequence_number: i64) -> ManifestEntry {
    let mut e = entry(Content::PositionDeletes, FileFormat::Puffin, path, sequence_number);
    e.file.referenced_data_file = target.map(Into::into);
    (e.file.content_offset, e.file.content_size) = (Some(4), Some(42));
    e
}

fn vectors() -> Value {
    let shared = std::env::var("FLOE_SHARED").map(std::path::PathBuf::from).unwrap_or_else(|_| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|p| p.join("shared"))
            .find(|p| p.join("spec/test-vectors.json").is_file())
            .expect("no folder shared/ beside the checkout; set FLOE_SHARED to the folder with spec/test-vectors.json")
    });
    let text = std::fs::read(shared.join("spec/test-vectors.json")).expect("vectors");
    serde_json::from_slice::<Value>(&text).expect("JSON")["delete_application"].take()
}

/// SCAN-13. What Java answers with an error (SCAN-8) is one here too, never a delete that is silently left out.
#[test]
fn every_combination_applies_as_the_rules_say() {
    let metadata = metadata();
    let cases = vectors()["matrix"].as_array().expect("rows").clone();
    assert!(cases.len() > 80);
    for c in &cases {
        let data = entry(Content::Data, FileFormat::Parquet, DATA, c["data_seq"].as_i64().unwrap());
        let seq = c["delete_seq"].as_i64().unwrap();
        let target = match c["referenced_data_file"].as_str() {
            Some("match") => Some(DATA),
            Some("other") => Some("/w/t/data/other.parquet"),
            _ => None,
        };
        let mut d = match c["kind"].as_str().unwrap() {
            "dv" => dv("/w/t/data/d.puffin", target, seq),
            "pos" => entry(Content::PositionDeletes, FileFormat::Parquet, "/w/t/data/d.parquet", seq),
            _ => entry(Content::EqualityDeletes, FileFormat::Parquet, "/w/t/data/e.parquet", seq),
        };
        d.file.referenced_data_file = target.map(Into::into);
        match c["partition"].as_str().unwrap() {
            "other-values" => d.file.partition = tuple(Some(2)),
            "other-spec" => d.file.spec_id = 1,
            _ => {}
        }
        let mut data = data;
        let mut variants = vec![d.clone()];
        if c["delete_spec_unpartitioned"] == true {
            variants.clear();
            for (spec, partition) in [(2, Struct::empty()), (3, [None].into_iter().collect())] {
                d.file.spec_id = spec;
                d.file.partition = Arc::new(partition);
                variants.push(d.clone());
            }
            if c["partition"] == "same" {
                (data.file.spec_id, data.file.partition) = (2, Arc::new(Struct::empty()));
            }
        }
        for d in variants {
            let mut all = vec![Arc::new(d.clone())];
            if c["applicable_dv_exists"] == true {
                let mut other = dv("/w/t/data/x.puffin", Some(DATA), 3);
                (other.file.spec_id, other.file.partition) = (data.file.spec_id, data.file.partition.clone());
                all.push(Arc::new(other));
            }
            let found = DeleteIndex::build(all, &metadata).expect("an index").for_file(&data);
            let error = match (c["kind"].as_str(), c["referenced_data_file"].as_str()) {
                (Some("dv"), Some("match")) => c["partition"] != "same" || seq < c["data_seq"].as_i64().unwrap(),
                (Some("pos"), Some("match")) => {
                    c["partition"] != "same"
                        && c["applicable_dv_exists"] == false
                        && seq >= c["data_seq"].as_i64().unwrap()
                }
                _ => false,
            };
            match found {
                Err(e) => assert!(error && e.clause_id() == Some("SCAN-8"), "{c}: {e}"),
                Ok(found) => {
                    let all = found.dv.iter().chain(&found.positions).chain(&found.equality);
                    let applies = all.into_iter().any(|x| x.file.path == d.file.path);
                    assert!(!error, "{c}");
                    assert_eq!(Value::Bool(applies), c["applies"], "{c}");
                }
            }
        }
    }
}

#[test]
fn a_vector_without_its_data_file_and_two_for_one_are_refused() {
    let m = metadata();
    let build = |all: Vec<ManifestEntry>| DeleteIndex::build(all.into_iter().map(Arc::new), &m);
    // case B6: it would apply to everything, or to nothing
    assert_eq!(build(vec![dv("/a", None, 1)]).unwrap_err().clause_id(), Some("DV-6"));
    let e = build(vec![dv("/a", Some(DATA), 1), dv("/b", Some(&format!("file:{DATA}")), 2)]).unwrap_err();
    assert_eq!(e.clause_id(), Some("DV-2"), "{e}");
    // case B3: two vectors of one Puffin file are two
    let mut second = dv("/a", Some("/w/t/data/2.parquet"), 1);
    second.file.content_offset = Some(46);
    let index = build(vec![dv("/a", Some(DATA), 1), second]).expect("an index");
    assert_eq!(index.dvs().len(), 2);
}

#[test]
fn bounds_of_position_deletes_only_exclude_what_they_can() {
    let m = metadata();
    let data = entry(Content::Data, FileFormat::Parquet, DATA, 1);
    let named = |lower: &str, upper: &str| {
        let mut d = entry(Content::PositionDeletes, FileFormat::Parquet, "/w/t/data/d.parquet", 2);
        let mut metrics = Metrics::default();
        metrics.lower_bounds.insert(load::FILE_PATH_ID, lower.as_bytes().to_vec());
        metrics.upper_bounds.insert(load::FILE_PATH_ID, upper.as_bytes().to_vec());
        d.file.metrics = Some(Box::new(metrics));
        let index = DeleteIndex::build([Arc::new(d)], &m).expect("an index");
        index.for_file(&data).expect("deletes").positions.len()
    };
    for (lower, upper, applies) in [
        ("/w/t/data/a.parquet", "/w/t/data/z.parquet", 1),
        ("/w/t/data/n.parquet", "/w/t/data/z.parquet", 0),
        // case B8: inverted, so they say nothing
        ("/w/t/data/z.parquet", "/w/t/data/a.parquet", 1),
        // case B10: cut to 16 characters, equal, and no scope
        ("/w/t/data/match.", "/w/t/data/match.", 1),
        ("/w/t/data/match.", "/w/t/data/match/", 1),
        (&format!("file:{DATA}"), &format!("file:{DATA}"), 1),
    ] {
        assert_eq!(named(lower, upper), applies, "{lower}..{upper}");
    }
}

fn rows(columns: Vec<(&str, i32, ArrayRef)>) -> RecordBatch {
    let (fields, columns): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(n, id, c)| {
            let f = arrow::datatypes::Field::new(n, c.data_type().clone(), true);
            let metadata = [(crate::types::FIELD_ID_KEY.to_string(), id.to_string())].into_iter().collect();
            (f.with_metadata(metadata), c)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).expect("rows")
}

#[test]
fn nan_is_equal_to_nan_and_zeros_are_two() {
    let m = metadata();
    let mut set = EqualityDeletes::new(&[2], &m).expect("a set");
    let nan = |bits: u64| f64::from_bits(bits);
    let file = |v: Vec<Option<f64>>| rows(vec![("d", 2, Arc::new(Float64Array::from(v)) as ArrayRef)]);
    set.add(&file(vec![Some(nan(0x7ff8_0000_0000_0000)), Some(0.0)]), "e").expect("added");
    let data = file(vec![Some(nan(0xfff8_0000_0000_0001)), Some(-0.0), Some(0.0), None, Some(1.0)]);
    set.bind(&data.schema(), &m, &entry(Content::Data, FileFormat::Parquet, DATA, 1)).expect("bound");
    let keep: Vec<_> = set.keep(&data).expect("mask").iter().flatten().collect();
    assert_eq!(keep, [false, true, false, true, true]);
}

#[test]
fn a_file_without_the_column_or_without_ids_is_read_by_projection() {
    let m = metadata();
    let data = entry(Content::Data, FileFormat::Parquet, DATA, 1);
    let deletes = |k: Option<i64>| {
        let mut set = EqualityDeletes::new(&[4], &m).expect("a set");
        set.add(&rows(vec![("k", 4, Arc::new(Int64Array::from(vec![k])) as ArrayRef)]), "e").expect("added");
        set
    };
    // neither struct nor column: the struct is null, and so is the column
    let without = rows(vec![("p", 1, Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    for (k, kept) in [(None, false), (Some(7), true)] {
        let set = deletes(k);
        set.bind(&without.schema(), &m, &data).expect("bound");
        assert_eq!(set.keep(&without).expect("mask").value(0), kept, "{k:?}");
    }
    // the struct without the column: its initial-default, and null where the struct is null (EQDEL-3, EQDEL-4)
    let inner = rows(vec![("z", 9, Arc::new(Int32Array::from(vec![1, 1])) as ArrayRef)]);
    let s = arrow::array::StructArray::try_new(
        inner.schema().fields().clone(),
        inner.columns().to_vec(),
        Some(vec![true, false].into()),
    );
    let with_struct = rows(vec![("s", 3, Arc::new(s.expect("struct")) as ArrayRef)]);
    for (k, kept) in [(None, [true, false]), (Some(7), [false, true])] {
        let set = deletes(k);
        set.bind(&with_struct.schema(), &m, &data).expect("bound");
        let keep = set.keep(&with_struct).expect("mask");
        assert_eq!([keep.value(0), keep.value(1)], kept, "{k:?}");
    }
    // no ids at all: by position, as every read of such a file
    let plain = RecordBatch::try_from_iter([
        ("any", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("other", Arc::new(Float64Array::from(vec![1.5, 2.5])) as ArrayRef),
    ])
    .expect("rows");
    let one = |id: i32, column: ArrayRef| {
        let mut set = EqualityDeletes::new(&[id], &m).expect("a set");
        set.add(&rows(vec![("k", id, column)]), "e").expect("added");
        set.bind(&plain.schema(), &m, &data).expect("bound");
        set.keep(&plain).expect("mask").iter().flatten().collect::<Vec<_>>()
    };
    assert_eq!(one(2, Arc::new(Float64Array::from(vec![2.5]))), [true, false]);
    // but the value of an identity partition comes first (PROJ-2)
    assert_eq!(one(1, Arc::new(Int32Array::from(vec![2]))), [true, true]);
    assert_eq!(one(1, Arc::new(Int32Array::from(vec![1]))), [false, false]);
}

#[test]
fn what_is_no_equality_column_is_refused() {
    let m = metadata();
    for (ids, clause) in [(vec![3], "EQDEL-3"), (vec![77], "EQDEL-4")] {
        assert_eq!(EqualityDeletes::new(&ids, &m).unwrap_err().clause_id(), Some(clause));
    }
    let mut set = EqualityDeletes::new(&[1], &m).expect("a set");
    let other = rows(vec![("d", 2, Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]);
    assert_eq!(set.add(&other, "e").unwrap_err().clause_id(), Some("EQDEL-1"));
}

async fn position_file(path: &str, positions: Vec<i64>) -> (FileIo, DataFile) {
    let batch = rows(vec![
        ("file_path", load::FILE_PATH_ID, Arc::new(StringArray::from(vec![DATA; positions.len()])) as ArrayRef),
        ("pos", load::POS_ID, Arc::new(Int64Array::from(positions.clone())) as ArrayRef),
    ]);
    let mut bytes = Vec::new();
    let mut w = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("writer");
    w.write(&batch).expect("write");
    w.close().expect("close");
    let io = FileIo::default();
    io.write_new(path, bytes.clone().into()).await.expect("write");
    let mut e = entry(Content::PositionDeletes, FileFormat::Parquet, path, 2);
    (e.file.file_size, e.file.record_count) = (bytes.len() as i64, positions.len() as i64);
    (io, e.file)
}

#[tokio::test]
async fn positions_are_checked_as_they_are_read() {
    // case J7: not a huge position
    let (io, file) = position_file("memory:/negative/d.parquet", vec![0, -1]).await;
    let e = read_position_deletes(&io, &file).await.unwrap_err();
    assert_eq!(e.clause_id(), Some("POSDEL-1"), "{e}");
    // case D3: a position given twice deletes one row
    let (io, file) = position_file("memory:/twice/d.parquet", vec![3, 3, 5]).await;
    assert_eq!(read_position_deletes(&io, &file).await.expect("read")[DATA].len(), 2);
    // case A12, L1: ciphertext is never taken for a file
    let mut sealed = entry(Content::PositionDeletes, FileFormat::Avro, "memory:/sealed/d.avro", 2).file;
    sealed.key_metadata = Some(vec![1]);
    let e = read_position_deletes(&io, &sealed).await.unwrap_err();
    assert!(e.to_string().contains("encrypted"), "{e}");
}
