//! Faults of manifest lists and manifests.

use floe_audit::Severity::{Error, Note, Warning};
use serde_json::json;

use super::Case;

/// Damages the first name in the Avro schema: what is left is JSON only for a reader that puts up with bad UTF-8.
#[allow(clippy::ptr_arg)] // a patch may change the length
fn damage_schema(b: &mut Vec<u8>) {
    let find = |b: &[u8], what: &[u8]| b.windows(what.len()).position(|w| w == what).expect("it is there");
    let schema = find(b, b"avro.schema");
    let name = b"\"name\":\"";
    let at = schema + find(&b[schema..], name) + name.len();
    b[at] ^= 0xff;
}

pub const CASES: &[Case] = &[
    ("ML-1", Error, |t| t.list(4).drop_field("min_sequence_number")),
    ("ML-1", Error, |t| t.patches.push(("snap-s4.avro".into(), |b| b.truncate(b.len() - 7)))),
    ("ML-1", Error, |t| t.skip.push("snap-s4.avro".into())),
    ("ML-1", Error, |t| t.patches.push(("snap-s4.avro".into(), damage_schema))),
    ("ML-2", Error, |t| t.list(4).records[0]["manifest_length"] = json!(17)),
    ("ML-3", Error, |t| t.list(4).records[0]["partition_spec_id"] = json!(8)),
    ("ML-4", Error, |t| t.list(4).records[0]["content"] = json!(1)),
    ("ML-5", Error, |t| t.list(4).records[1]["sequence_number"] = json!(2)),
    ("ML-6", Error, |t| t.list(5).records[1]["min_sequence_number"] = json!(5)),
    ("ML-6", Warning, |t| t.list(4).records[2]["min_sequence_number"] = json!(1)),
    ("ML-7", Error, |t| t.list(4).records[0]["added_snapshot_id"] = json!(103)),
    ("ML-8", Error, |t| t.list(1).records[0]["added_files_count"] = json!(1)),
    ("ML-11", Error, |t| t.list(5).records[1]["deleted_rows_count"] = json!(0)),
    ("ML-14", Error, |t| t.list(1).records[0]["partitions"] = json!([])),
    ("ML-20", Error, |t| t.file("m1", 0)["partition"]["region"] = json!(null)),
    ("ML-22", Error, |t| t.list(1).records[0]["partitions"][0]["lower_bound"] = json!("f".as_bytes())),
    ("ML-22", Error, |t| t.list(1).records[0]["partitions"][0]["upper_bound"] = json!("fz".as_bytes())),
    ("ML-16", Error, |t| t.list(4).records[2]["first_row_id"] = json!(7)),
    ("ML-30", Error, |t| {
        let copy = t.list(4).records[0].clone();
        t.list(4).records.push(copy);
    }),
    ("ML-32", Note, |t| {
        t.list(4).meta.insert("snapshot-id".into(), "55".into());
    }),
    // Files
    ("MAN-1", Error, |t| t.man("m4").drop_field("record_count")),
    ("MAN-1", Error, |t| t.skip.push("m4.avro".into())),
    ("MAN-1", Error, |t| t.patches.push(("m4.avro".into(), damage_schema))),
    ("MAN-1", Error, |t| t.patches.push(("m4.avro".into(), |b| b[0] = b'X'))),
    ("MAN-1", Error, |t| {
        let s = t
            .man("m4")
            .schema
            .to_string()
            .replace("\"field-id\":100,", "\"field-id\":900,")
            .replace("\"field-id\":100}", "\"field-id\":900}");
        t.man("m4").schema = serde_json::from_str(&s).expect("schema");
    }),
    ("MAN-K1", Error, |t| {
        t.man("m4").meta.insert("schema".into(), "{".into());
    }),
    ("MAN-K2", Error, |t| {
        t.man("m4").meta.insert("schema-id".into(), "one".into());
    }),
    ("TRAP-1", Note, |t| {
        t.man("m4").meta.remove("schema-id");
    }),
    ("MAN-K3", Error, |t| {
        t.man("m4").meta.insert("partition-spec".into(), "[]".into());
    }),
    ("MAN-K4", Error, |t| {
        t.man("m4").meta.insert("partition-spec-id".into(), "3".into());
    }),
    ("MAN-K5", Error, |t| {
        t.man("m4").meta.insert("format-version".into(), "4".into());
    }),
    ("MAN-K6", Error, |t| {
        t.man("m4").meta.insert("content".into(), "both".into());
    }),
    ("MAN-D04", Error, |t| {
        let s = t.man("m4").schema.to_string().replace("\"field-id\":1000", "\"field-id\":1009");
        t.man("m4").schema = serde_json::from_str(&s).expect("schema");
    }),
    ("MAN-D07", Warning, |t| t.man("m4").add_data_field("block_size_in_bytes", 105, json!("long"))),
    ("MAN-D08", Warning, |t| {
        t.man("m4").add_data_field("file_ordinal", 106, json!("int"));
        t.file("m4", 0)["file_ordinal"] = json!(1);
    }),
    ("META-74", Note, |t| t.list(4).records[0]["key_metadata"] = json!([1, 2])),
    // Entries
    ("MAN-E1", Error, |t| t.entry("m4", 0)["status"] = json!(3)),
    ("MAN-10", Error, |t| t.entry("m4", 0)["snapshot_id"] = json!(101)),
    ("MAN-12", Error, |t| t.entry("m7", 0)["sequence_number"] = json!(null)),
    ("SEQ-1", Warning, |t| t.entry("m4", 0)["file_sequence_number"] = json!(4)),
    ("SEQ-2", Error, |t| t.entry("m4", 0)["sequence_number"] = json!(5)),
    ("SEQ-2", Error, |t| t.entry("m4", 0)["file_sequence_number"] = json!(2)),
    ("MAN-13", Error, |t| t.entry("m7", 0)["sequence_number"] = json!(2)),
    ("MAN-D01", Error, |t| t.file("m4", 0)["content"] = json!(1)),
    ("MAN-D02", Error, |t| t.file("m4", 0)["file_path"] = json!("data/c.parquet")),
    ("MAN-D03", Error, |t| t.file("m4", 0)["file_format"] = json!("csv")),
    ("TRAP-2", Note, |t| t.file("m4", 0)["file_format"] = json!("PARQUET")),
    ("MAN-D05", Error, |t| t.file("m4", 0)["record_count"] = json!(2)),
    ("MAN-D05", Error, |t| t.file("m4", 0)["record_count"] = json!(-1)),
    ("MAN-D06", Error, |t| t.file("m4", 0)["file_size_in_bytes"] = json!(9)),
    ("META-F16", Error, |t| t.skip.push("a.parquet".into())),
    ("META-F16", Error, |t| t.skip.push("dv1.puffin".into())),
    ("MAN-D11", Error, |t| t.file("m1", 0)["value_counts"][0]["value"] = json!(3)),
    ("MAN-D12", Error, |t| t.file("m1", 0)["null_value_counts"][0]["value"] = json!(9)),
    ("MAN-D12", Error, |t| t.file("m1", 0)["null_value_counts"][2]["value"] = json!(0)),
    ("BIN-11", Error, |t| t.file("m1", 0)["lower_bounds"][0]["value"] = json!([1, 2, 3])),
    ("MAN-21", Error, |t| t.file("m1", 0)["lower_bounds"][1]["value"] = json!("zz".as_bytes())),
    ("MAN-21", Error, |t| t.file("m1", 0)["upper_bounds"][0]["value"] = json!(3i64.to_le_bytes())),
    ("BIN-16", Warning, |t| t.file("m1", 0)["lower_bounds"][2]["value"] = json!(f64::NAN.to_le_bytes())),
    ("MAN-D18", Error, |t| t.file("m1", 0)["split_offsets"] = json!([300, 4])),
    ("MAN-D19", Error, |t| t.file("m9", 0)["equality_ids"] = json!(null)),
    ("MAN-D19", Error, |t| t.file("m4", 0)["equality_ids"] = json!([1])),
    ("SORT-4", Warning, |t| t.file("m2", 0)["sort_order_id"] = json!(1)),
    ("FRID-1", Error, |t| t.file("m4", 0)["first_row_id"] = json!(7)),
    ("FRID-1", Error, |t| t.file("m9", 0)["first_row_id"] = json!(0)),
    ("MAN-D24", Error, |t| t.file("m4", 0)["content_offset"] = json!(4)),
    ("MAN-D22", Warning, |t| t.file("m4", 0)["referenced_data_file"] = json!("x")),
    // Commits
    ("MAN-14", Warning, |t| t.file("m6", 0)["file_path"] = t.file("m1", 1)["file_path"].clone()),
    ("MAN-15", Error, |t| t.file("m6", 0)["file_path"] = t.file("m1", 0)["file_path"].clone()),
    ("MAN-11", Error, |t| {
        t.man("m7").records.remove(1);
    }),
    // First row ids
    ("LINEAGE-21", Error, |t| t.list(4).records[0]["first_row_id"] = json!(null)),
    ("FRID-3", Error, |t| t.file("m7", 0)["first_row_id"] = json!(null)),
    ("FRID-3", Error, |t| t.file("m7", 1)["first_row_id"] = json!(2)),
    ("FRID-9", Note, |t| t.file("m7", 1)["first_row_id"] = json!(null)),
    ("FRID-4", Error, |t| t.list(4).records[1]["first_row_id"] = json!(1)),
    ("FRID-5", Error, |t| t.list(4).records[0]["first_row_id"] = json!(8)),
    ("FRID-5", Error, |t| t.list(4).records[0]["first_row_id"] = json!(3)),
    ("LINEAGE-1", Error, |t| t.list(4).records[0]["first_row_id"] = json!(2)),
    ("LINEAGE-41", Error, |t| t.list(6).records[0]["first_row_id"] = json!(40)),
    // Deletes
    ("DEL-1", Error, |t| t.meta["format-version"] = json!(1)),
    ("DEL-1", Error, |t| {
        let p = t.file("m2", 0).clone();
        let e = t.entry("m9", 0);
        e["data_file"] = p;
    }),
    ("DEL-2", Error, |t| t.meta["format-version"] = json!(2)),
    ("DEL-6", Error, |t| t.file("m3", 0)["referenced_data_file"] = json!(null)),
    ("DV-2", Error, |t| {
        let e = t.entry("m5", 1);
        e["status"] = json!(0);
    }),
    ("DV-3", Error, |t| {
        t.man("m5").records.pop();
    }),
    ("DV-10", Note, |t| t.file("m3", 0)["value_counts"] = json!([{"key": 1, "value": 1}])),
    ("DV-16", Note, |t| t.file("m3", 0)["record_count"] = json!(0)),
    ("EQDEL-3", Error, |t| t.file("m9", 0)["equality_ids"] = json!([3])),
    ("EQDEL-3", Error, |t| t.file("m9", 0)["equality_ids"] = json!([8])),
    // Reach
    ("SCAN-1", Error, |t| t.entry("m5", 2)["sequence_number"] = json!(0)),
    ("DV-7", Error, |t| t.file("m3", 0)["partition"]["region"] = json!("us")),
    ("DV-7", Error, |t| t.file("m3", 0)["record_count"] = json!(5)),
    ("DV-4", Warning, |t| {
        let gone = format!("{}/data/gone.parquet", t.root);
        t.file("m5", 0)["referenced_data_file"] = json!(gone);
    }),
    ("SCAN-2", Note, |t| t.file("m2", 0)["partition"]["region"] = json!("eu")),
    ("SCAN-2", Note, |t| t.file("m2", 0)["referenced_data_file"] = json!("file:/gone.parquet")),
    ("SCAN-3", Note, |t| t.entry("m9", 0)["sequence_number"] = json!(1)),
    ("DV-15", Note, |t| t.entry("m3", 2)["status"] = json!(0)),
];
