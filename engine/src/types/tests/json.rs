//! Surrogates and table metadata JSON: TYPE-*, DEFV-*, JSON-1..6, META-*.

use serde_json::{Value, json};

use super::super::*;
use crate::ErrorKind;
use crate::table::Metadata;

/// Metadata as Java 1.12 words a V3 table with every extended type, nested too.
fn v3() -> Value {
    json!({
        "format-version": 3, "table-uuid": "6f4d0a4e-0f0a-4a3c-9b3d-0a1b2c3d4e5f", "location": "file:/w/ns/t",
        "last-sequence-number": 2, "last-updated-ms": 1796017769403i64, "last-column-id": 20, "current-schema-id": 1,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "id", "required": true, "type": "int", "doc": "key"},
                {"id": 20, "name": "later", "required": false, "type": "unknown"}]},
            {"type": "struct", "schema-id": 1, "identifier-field-ids": [1], "fields": [
                {"id": 1, "name": "id", "required": true, "type": "int", "doc": "key"},
                {"id": 2, "name": "v", "required": false, "type": "variant"},
                {"id": 3, "name": "st", "required": false, "type": {"type": "struct", "fields": [
                    {"id": 4, "name": "g", "required": false, "type": "geometry(OGC:CRS84)"},
                    {"id": 5, "name": "u", "required": false, "type": "unknown"}]}},
                {"id": 6, "name": "l", "required": false, "type": {"type": "list", "element-id": 7, "element": "variant", "element-required": false}},
                {"id": 8, "name": "m", "required": false, "type": {"type": "map", "key-id": 9, "key": "string", "value-id": 10, "value": "geography(OGC:CRS84, karney)", "value-required": false}},
                {"id": 11, "name": "d", "required": true, "type": "int", "initial-default": 42, "write-default": 43},
                {"id": 12, "name": "dd", "required": false, "type": "decimal(9, 2)", "initial-default": "14.20", "write-default": "14.20"},
                {"id": 13, "name": "x", "required": false, "type": "fixed[2]", "write-default": "00FF"},
                {"id": 20, "name": "later", "required": false, "type": "long"}]}],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.parquet.compression-codec": "zstd"}, "current-snapshot-id": 12, "next-row-id": 5,
        "refs": {"main": {"snapshot-id": 12, "type": "branch"}},
        "snapshots": [
            {"sequence-number": 1, "snapshot-id": 11, "timestamp-ms": 1796017769000i64, "summary": {"operation": "append"}, "manifest-list": "file:/w/a.avro", "schema-id": 0},
            {"sequence-number": 2, "snapshot-id": 12, "parent-snapshot-id": 11, "timestamp-ms": 1796017769403i64, "summary": {"operation": "append", "added-records": "5"},
             "manifest-list": "file:/w/b.avro", "schema-id": 1, "first-row-id": 0, "added-rows": 5}],
        "statistics": [], "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": 1796017769403i64, "snapshot-id": 12}],
        "metadata-log": [{"timestamp-ms": 1796017769000i64, "metadata-file": "file:/w/v1.metadata.json"}]
    })
}

fn load(v: &Value) -> crate::Result<Metadata> {
    Metadata::from_json(v.to_string().as_bytes())
}

/// Objects compared without key order.
fn same(a: &Value, b: &Value) {
    assert_eq!(
        serde_json::from_str::<std::collections::BTreeMap<String, Value>>(&a.to_string()).unwrap(),
        serde_json::from_str::<std::collections::BTreeMap<String, Value>>(&b.to_string()).unwrap()
    );
}

#[test]
fn metadata_round_trips_with_every_extended_type() {
    let before = v3();
    let m = load(&before).unwrap();
    assert_eq!(m.ext.get(2), Some(&ExtType::Variant));
    assert_eq!(m.ext.get(10), Some(&ExtType::Geography("geography(OGC:CRS84, karney)".into())));
    // EVO-1: unknown in schema 0, long now
    assert_eq!(m.ext.of(m.current_schema().field_by_id(20).unwrap()), None);
    assert_eq!(m.ext.of(m.schema_by_id(0).unwrap().field_by_id(20).unwrap()), Some(&ExtType::Unknown));
    // META-80: the snapshot from before the upgrade has no row range
    assert_eq!(m.snapshot_by_id(11).unwrap().row_range(), None);
    assert_eq!(m.snapshot_by_id(12).unwrap().row_range(), Some((0, 5)));
    let out: Value = serde_json::from_slice(&m.to_json().unwrap()).unwrap();
    same(&out, &before);
    assert_eq!(m.to_json().unwrap(), m.to_json().unwrap(), "order is fixed");
    // and a second time, by way of gzip (JSON-22)
    let again = Metadata::from_json(&gzip(&m.to_json().unwrap()).unwrap()).unwrap();
    assert_eq!(again.ext, m.ext);
    assert_eq!(again.inner, m.inner);
}

#[test]
fn old_metadata_left_in_upgraded_tables_is_read() {
    // META-81, META-90: a V1 snapshot in a V3 table has neither sequence number nor summary
    let mut v = v3();
    let s = v["snapshots"][0].as_object_mut().unwrap();
    s.remove("sequence-number");
    s.remove("summary");
    assert_eq!(load(&v).unwrap().snapshot_by_id(11).unwrap().sequence_number(), 0);
    // META-12: all three forms of no snapshot
    for none in [json!(null), json!(-1)] {
        let mut v = v3();
        v["current-snapshot-id"] = none;
        v["refs"] = json!({});
        v["snapshot-log"] = json!([]);
        assert_eq!(load(&v).unwrap().current_snapshot_id(), None);
    }
    let mut v = v3();
    for absent in [
        "current-snapshot-id",
        "refs",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "statistics",
        "properties",
        "partition-statistics",
    ] {
        v.as_object_mut().unwrap().remove(absent);
    }
    let out: Value = serde_json::from_slice(&load(&v).unwrap().to_json().unwrap()).unwrap();
    assert_eq!((&out["current-snapshot-id"], &out["snapshots"], &out["refs"]), (&Value::Null, &json!([]), &json!({})));
}

#[test]
fn v1_metadata_is_read() {
    let v = json!({"format-version": 1, "location": "file:/w/t", "last-updated-ms": 1, "last-column-id": 2,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": false, "type": "int"}]},
        "partition-spec": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}]});
    let m = load(&v).unwrap();
    assert_eq!((m.last_sequence_number(), m.default_partition_spec().fields().len()), (0, 1));
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Value), clause: &str, says: &str) {
    let mut v = v3();
    change(&mut v);
    let e = load(&v).unwrap_err();
    assert!(e.clause_id() == Some(clause) && e.message().contains(says), "want {clause} and {says:?}, got: {e}");
}

#[test]
fn malformed_metadata_is_named_by_field_and_clause() {
    let field = |v: &mut Value, i: usize, k: &str, x: Value| v["schemas"][1]["fields"][i][k] = x;
    refused(|v| v["format-version"] = json!(4), "META-F01", "is 4");
    refused(|v| drop(v.as_object_mut().unwrap().remove("location")), "META-F03", "location");
    refused(|v| drop(v.as_object_mut().unwrap().remove("next-row-id")), "META-F24", "next-row-id");
    refused(|v| v["last-column-id"] = json!("2"), "META-F06", "integer");
    refused(|v| v["current-schema-id"] = json!(7), "META-F01", "current-schema-id is 7");
    refused(|v| v["refs"]["main"]["snapshot-id"] = json!(99), "META-F01", "no such snapshot");
    refused(|v| drop(v["snapshots"][1].as_object_mut().unwrap().remove("manifest-list")), "META-F16", "snapshots[1]");
    refused(|v| v["snapshots"][1]["summary"]["operation"] = json!("upsert"), "META-F16", "upsert");
    refused(|v| field(v, 0, "type", json!("integer")), "JSON-3", "\"id\"");
    refused(|v| field(v, 6, "type", json!("decimal(39, 2)")), "TYPE-3", "1 to 38");
    refused(|v| field(v, 1, "initial-default", json!("00")), "DEFV-4", "variant");
    refused(|v| v["schemas"][1]["fields"][2]["type"]["fields"][1]["required"] = json!(true), "TYPE-1", "st.u");
    refused(|v| field(v, 5, "initial-default", json!("42")), "DEFV-1", "\"d\"");
    refused(|v| field(v, 6, "write-default", json!("14.205")), "DEFV-1", "\"dd\"");
    refused(|v| field(v, 1, "id", json!(1)), "TYPE-11", "share id 1");
    refused(|v| field(v, 1, "id", json!(2147483540)), "RID-1", "2147483540");
    refused(|v| drop(v["schemas"][1].as_object_mut().unwrap().remove("type")), "JSON-6", "schemas[1]");
    refused(|v| v["partition-specs"][0]["fields"] = json!([{"name": "x"}]), "JSON-10", "partition-specs[0]");
    let e = Metadata::from_json(b"{").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Malformed);
    assert_eq!(Metadata::from_json(&[0x1f, 0x8b, 1]).unwrap_err().clause_id(), Some("JSON-22"));
}

#[test]
fn defaults_that_the_model_would_lose_or_die_of_are_refused() {
    // The iceberg crate reads no ns default (and drops it), and panics on writing a tz default before 1970 with a fraction.
    for (t, d) in
        [("timestamp_ns", "2017-11-16T22:31:08.123456789"), ("timestamptz", "1969-12-31T23:59:59.500000+00:00")]
    {
        let mut v = v3();
        v["schemas"][1]["fields"][5] = json!({"id": 11, "name": "d", "required": false, "type": t, "write-default": d});
        assert_eq!(load(&v).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn type_strings_are_read_leniently_and_written_canonically() {
    let canon = |s: &str| {
        let (schema, ext) = schema_from_value(
            json!({"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": false, "type": s}]}),
        )
        .unwrap();
        let out = schema_to_json(&schema, &ext).unwrap();
        assert_eq!(type_name(schema.field_by_id(1).unwrap(), &ext), out["fields"][0]["type"].as_str().unwrap());
        out["fields"][0]["type"].as_str().unwrap().to_string()
    };
    // JSON-4, JSON-6
    assert_eq!(canon("decimal( 9 ,2)"), "decimal(9, 2)");
    assert_eq!(canon("fixed[ 3 ]"), "fixed[3]");
    assert_eq!(canon("Geometry"), "geometry(OGC:CRS84)");
    assert_eq!(canon("geography(EPSG:4979)"), "geography(EPSG:4979, spherical)");
    assert_eq!(canon("geography( OGC:CRS84 , KARNEY )"), "geography(OGC:CRS84, karney)");
    for bad in [
        "geography(a, flat)",
        "geometry()",
        "decimal(5)",
        "decimal(5,9)",
        "fixed[x]",
        "varchar",
        "geometry({\"type\":1})",
    ] {
        let v = json!({"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": false, "type": bad}]});
        assert!(schema_from_value(v).is_err(), "{bad}");
    }
}

#[test]
fn updates_get_and_lose_their_true_types() {
    let schema = v3()["schemas"][1].clone();
    let mut update = json!([{"action": "add-schema", "schema": schema}, {"action": "set-properties", "updates": {"type": "struct", "fields": "x"}}]);
    let before = update.clone();
    let mut ext = ExtTypes::default();
    substitute(&mut update, &mut ext).unwrap();
    assert_eq!(update[0]["schema"]["fields"][1]["type"], "binary");
    assert_eq!(ext.0.len(), 5);
    restore_types(&mut update, &ext);
    same(&update[0], &before[0]);
}

#[test]
fn a_struct_default_is_written_empty() {
    // DEFV-6
    let v = json!({"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "s", "required": false, "initial-default": {}, "write-default": {},
        "type": {"type": "struct", "fields": [{"id": 2, "name": "a", "required": false, "type": "int", "initial-default": 5, "write-default": 5}]}}]});
    let (schema, ext) = schema_from_value(v.clone()).unwrap();
    assert_eq!(schema_to_json(&schema, &ext).unwrap()["fields"][0]["initial-default"], json!({}));
}
