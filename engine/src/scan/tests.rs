//! Columns that a file lays out otherwise than the table does.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema};
use parquet_variant_compute::{json_to_variant, shred_variant};
use serde_json::json;

use super::adapt::BatchAdapter;
use crate::manifest::{Content, DataFile, FileFormat, ManifestEntry, Status};
use crate::sql::functions::variant_json;
use crate::table::Metadata;
use crate::types::{FIELD_ID_KEY, arrow_schema};

fn metadata() -> Metadata {
    let json = json!({
        "format-version": 3, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "/w/t", "next-row-id": 0,
        "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1, "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "v", "required": false, "type": "variant"}]}],
        "default-spec-id": 0, "last-partition-id": 999, "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {}, "snapshots": [],
    });
    Metadata::from_json(json.to_string().as_bytes()).expect("metadata")
}

fn entry() -> ManifestEntry {
    let file = DataFile::new(
        Content::Data,
        FileFormat::Parquet,
        "/w/t/data/a.parquet",
        0,
        Arc::new(iceberg::spec::Struct::empty()),
        1,
        1,
    );
    ManifestEntry {
        status: Status::Added,
        snapshot_id: Some(1),
        sequence_number: Some(1),
        file_sequence_number: Some(1),
        file,
    }
}

fn named(name: &str, ty: DataType) -> FieldRef {
    Arc::new(Field::new(name, ty, true))
}

/// Case L6: fields that are not columns of their own stay in `value`, and come back with those that are.
#[test]
fn shredded_variants_are_put_together_again() {
    let texts = [
        Some(r#"{"city":"x","id":1,"name":"n"}"#),
        Some(r#"{"city":[1,null],"id":"no number","name":"n"}"#),
        Some(r#"{"other":true}"#),
        Some("null"),
        None,
        Some("[1,2]"),
        Some("7"),
    ];
    let json: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let whole = json_to_variant(&json).expect("variants");
    let m = metadata();
    let schema = m.current_schema().clone();
    let expected = arrow_schema(&schema, &m.ext);
    for shape in [
        DataType::Struct(Fields::from(vec![named("id", DataType::Int64), named("name", DataType::Utf8)])),
        DataType::Struct(Fields::from(vec![named("id", DataType::Int64)])),
        DataType::Int64,
        DataType::Utf8,
    ] {
        let shredded = shred_variant(&whole, &shape).expect("shreds").into_inner();
        assert!(shredded.column_by_name("typed_value").is_some(), "{shape}");
        let id = [(FIELD_ID_KEY.to_string(), "1".to_string())].into_iter().collect();
        let field = Field::new("v", shredded.data_type().clone(), true).with_metadata(id);
        let file = Arc::new(ArrowSchema::new(vec![field]));
        let batch = RecordBatch::try_new(file.clone(), vec![Arc::new(shredded)]).expect("rows");
        let adapter = BatchAdapter::try_new(&file, &schema, &expected, &m, &entry()).expect("an adapter");
        let got = adapter.adapt(&batch).expect("reads");
        let got = variant_json(got.column(0)).expect("JSON");
        let got: Vec<_> = (0..got.len()).map(|i| got.is_valid(i).then(|| got.value(i))).collect();
        assert_eq!(got, texts, "{shape}");
    }
}
