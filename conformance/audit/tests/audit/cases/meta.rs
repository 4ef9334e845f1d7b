//! Faults of the metadata file.

use floe_audit::Severity::{Error, Note, Warning};
use serde_json::{Value as Json, json};

use super::Case;
use crate::fixture::Table;

fn drop(j: &mut Json, k: &str) {
    j.as_object_mut().expect("object").remove(k);
}

/// Appends to a list of the metadata.
fn push(t: &mut Table, list: &str, v: Json) {
    if t.meta[list].is_null() {
        t.meta[list] = json!([]);
    }
    t.meta[list].as_array_mut().expect("list").push(v);
}

fn add_column(t: &mut Table, ty: Json, extra: Json) {
    let mut c = json!({"id": 20, "name": "extra", "required": false, "type": ty});
    for (k, v) in extra.as_object().into_iter().flatten() {
        c[k] = v.clone();
    }
    t.meta["last-column-id"] = json!(20);
    t.meta["schemas"][1]["fields"].as_array_mut().expect("fields").push(c);
}

fn spec_field(t: &mut Table, source: i64, transform: &str) {
    push(
        t,
        "partition-specs",
        json!({"spec-id": 1, "fields": [{"source-id": source, "field-id": 1001, "name": "n", "transform": transform}]}),
    );
    t.meta["last-partition-id"] = json!(1001);
    t.meta["default-spec-id"] = json!(1);
}

pub const CASES: &[Case] = &[
    ("META-F01", Error, |t| t.meta["format-version"] = json!(4)),
    ("META-F02", Error, |t| drop(&mut t.meta, "table-uuid")),
    ("META-F02", Error, |t| t.meta["table-uuid"] = json!("not-a-uuid")),
    ("META-F03", Error, |t| drop(&mut t.meta, "location")),
    ("META-F04", Error, |t| t.meta["last-sequence-number"] = json!(5)),
    ("META-F05", Error, |t| drop(&mut t.meta, "last-updated-ms")),
    ("META-F05", Warning, |t| t.meta["last-updated-ms"] = json!(1_600_000_000_000i64)),
    ("META-F06", Error, |t| t.meta["last-column-id"] = json!(7)),
    ("META-F08", Error, |t| t.meta["schemas"][0]["schema-id"] = json!(1)),
    ("META-F09", Error, |t| t.meta["current-schema-id"] = json!(9)),
    ("META-F11", Error, |t| drop(&mut t.meta, "partition-specs")),
    ("META-F12", Error, |t| t.meta["default-spec-id"] = json!(3)),
    ("META-F13", Error, |t| t.meta["last-partition-id"] = json!(999)),
    ("META-F14", Error, |t| t.meta["properties"]["a"] = json!(1)),
    ("META-F15", Error, |t| t.meta["refs"]["main"]["snapshot-id"] = json!(105)),
    ("META-F15", Error, |t| t.meta["current-snapshot-id"] = json!(999)),
    ("META-F19", Error, |t| t.meta["sort-orders"][1]["order-id"] = json!(0)),
    ("META-F20", Error, |t| t.meta["default-sort-order-id"] = json!(4)),
    ("META-F21", Error, |t| t.meta["refs"]["old"]["snapshot-id"] = json!(999)),
    ("META-F24", Error, |t| drop(&mut t.meta, "next-row-id")),
    ("META-R02", Error, |t| t.meta["refs"]["old"]["type"] = json!("label")),
    ("META-R03", Error, |t| t.meta["refs"]["old"]["min-snapshots-to-keep"] = json!(2)),
    ("META-R04", Error, |t| t.meta["refs"]["main"]["max-snapshot-age-ms"] = json!(0)),
    ("META-R05", Error, |t| t.meta["refs"]["old"]["max-ref-age-ms"] = json!(-5)),
    ("META-70", Error, |t| push(t, "encryption-keys", json!({"key-id": "k"}))),
    ("META-83", Warning, |t| t.meta["schema"] = json!({"type": "struct", "fields": []})),
    ("META-10", Note, |t| t.meta["properties"]["format-version"] = json!("3")),
    ("TRAP-3", Note, |t| {
        t.meta["current-snapshot-id"] = json!(-1);
        t.meta["refs"] = json!({});
    }),
    ("TRAP-13", Note, |t| push(t, "encryption-keys", json!({"key-id": "k", "key-metadata": "AA=="}))),
    ("LOC-1", Note, |t| t.meta["location"] = json!("/nowhere/table")),
    // Schemas
    ("JSON-1", Error, |t| t.meta["schemas"][1]["type"] = json!("record")),
    ("JSON-2", Error, |t| drop(t.column(2), "required")),
    ("JSON-3", Error, |t| t.column(2)["type"] = json!("float128")),
    ("JSON-4", Warning, |t| add_column(t, json!("fixed[ 4 ]"), json!({}))),
    ("JSON-5", Error, |t| drop(&mut t.column(5)["type"], "element-id")),
    ("TYPE-1", Error, |t| add_column(t, json!("unknown"), json!({"required": true}))),
    ("TYPE-3", Error, |t| add_column(t, json!("decimal(39,2)"), json!({}))),
    ("TYPE-11", Error, |t| t.column(3)["id"] = json!(2)),
    ("TYPE-20", Error, |t| {
        t.meta["format-version"] = json!(2);
        add_column(t, json!("timestamp_ns"), json!({}));
    }),
    ("RID-1", Error, |t| {
        add_column(t, json!("int"), json!({"id": 2_147_483_448i64}));
        t.meta["last-column-id"] = json!(2_147_483_448i64);
    }),
    ("IDF-2", Error, |t| t.meta["schemas"][1]["identifier-field-ids"] = json!([2])),
    ("IDF-2", Error, |t| t.meta["schemas"][1]["identifier-field-ids"] = json!([8])),
    ("META-91", Error, |t| t.meta["format-version"] = json!(2)),
    ("DEFV-2", Error, |t| t.meta["schemas"][0]["fields"][1]["initial-default"] = json!("x")),
    ("DEFV-4", Error, |t| add_column(t, json!("variant"), json!({"write-default": 1}))),
    ("DEFV-6", Error, |t| t.column(4)["initial-default"] = json!({"6": "1.00"})),
    ("JSON-30", Error, |t| t.column(3)["write-default"] = json!("seven")),
    ("JSON-30", Error, |t| add_column(t, json!("timestamptz"), json!({"write-default": "2020-01-01T00:00:00"}))),
    ("EVO-8", Error, |t| t.meta["schemas"][0]["fields"][2]["type"] = json!({"type": "struct", "fields": []})),
    ("EVO-2", Error, |t| t.meta["schemas"][0]["fields"][2]["type"] = json!("string")),
    // Specs and orders
    ("JSON-10", Error, |t| drop(&mut t.meta["partition-specs"][0]["fields"][0], "field-id")),
    ("JSON-11", Error, |t| t.meta["partition-specs"][0]["fields"][0]["source-ids"] = json!([2])),
    ("TRAP-14", Note, |t| {
        spec_field(t, 1, "bucket[4]");
        let f = &mut t.meta["partition-specs"][1]["fields"][0];
        drop(f, "source-id");
        f["source-ids"] = json!([1, 2]);
    }),
    ("JSON-13", Note, |t| spec_field(t, 1, "zorder[3]")),
    ("PART-1", Error, |t| spec_field(t, 8, "identity")),
    ("PART-1", Error, |t| spec_field(t, 99, "identity")),
    ("PART-3", Error, |t| {
        let f = t.meta["partition-specs"][0]["fields"].as_array_mut().expect("fields");
        f.push(json!({"source-id": 1, "field-id": 1000, "name": "n", "transform": "identity"}));
    }),
    ("PART-3", Warning, |t| {
        spec_field(t, 1, "bucket[4]");
        t.meta["partition-specs"][1]["fields"][0]["field-id"] = json!(1000);
    }),
    ("PART-4", Error, |t| {
        let mut copy = t.meta["partition-specs"][0].clone();
        copy["spec-id"] = json!(1);
        push(t, "partition-specs", copy);
    }),
    ("PART-5", Error, |t| t.meta["partition-specs"][0]["fields"][0]["transform"] = json!("zorder")),
    ("PART-20", Error, |t| spec_field(t, 3, "bucket[4]")),
    ("SORT-1", Error, |t| t.meta["sort-orders"][1]["fields"][0]["direction"] = json!("up")),
    ("SORT-1", Error, |t| t.meta["sort-orders"][1]["fields"] = json!([])),
    // Snapshots
    ("META-S01", Error, |t| t.snap(2)["snapshot-id"] = json!(101)),
    ("META-13", Warning, |t| t.snap(1)["snapshot-id"] = json!(-101)),
    ("META-S02", Error, |t| t.snap(1)["parent-snapshot-id"] = json!(106)),
    ("META-S03", Error, |t| t.snap(4)["sequence-number"] = json!(3)),
    ("META-S03", Error, |t| drop(t.snap(4), "sequence-number")),
    ("META-S04", Error, |t| drop(t.snap(4), "timestamp-ms")),
    ("META-7", Note, |t| t.snap(4)["timestamp-ms"] = json!(1_699_999_900_000i64)),
    ("META-S05", Error, |t| drop(t.snap(4), "manifest-list")),
    ("META-S06", Error, |t| t.snap(4)["manifests"] = json!(["x"])),
    ("META-S08", Error, |t| t.snap(4)["schema-id"] = json!(17)),
    ("META-S09", Error, |t| drop(t.snap(5), "first-row-id")),
    ("META-S10", Error, |t| drop(t.snap(5), "added-rows")),
    ("META-S11", Error, |t| t.snap(5)["key-id"] = json!("nokey")),
    ("META-20", Error, |t| t.summary(4, "operation", "update")),
    ("SUMMARY-1", Error, |t| drop(&mut t.snap(4)["summary"], "operation")),
    ("META-2", Error, |t| t.meta["next-row-id"] = json!(12)),
    ("META-22", Error, |t| t.snap(4)["first-row-id"] = json!(6)),
    ("META-6", Note, |t| t.snap(6)["first-row-id"] = json!(15)),
    // Logs, statistics, names
    ("META-40", Error, |t| t.meta["snapshot-log"][0] = json!({"snapshot-id": 101})),
    ("META-41", Warning, |t| t.meta["snapshot-log"][0]["snapshot-id"] = json!(55)),
    ("META-45", Error, |t| t.meta["metadata-log"][0] = json!({"timestamp-ms": 1})),
    ("META-T01", Error, |t| drop(&mut t.meta["statistics"][0], "blob-metadata")),
    ("META-T02", Error, |t| t.skip.push("stats.puffin".into())),
    ("META-T03", Error, |t| t.meta["statistics"][0]["file-size-in-bytes"] = json!(1)),
    ("META-T04", Error, |t| t.meta["statistics"][0]["file-footer-size-in-bytes"] = json!(1)),
    ("META-T06", Error, |t| t.meta["statistics"][0]["blob-metadata"][0]["fields"] = json!([2])),
    ("META-55", Error, |t| {
        let copy = t.meta["partition-statistics"][0].clone();
        push(t, "partition-statistics", copy);
    }),
    ("FS-2", Note, |t| t.name = "latest.metadata.json".into()),
    ("FS-4", Note, |t| t.hint = Some("9".into())),
    // Labels
    ("OP-1", Error, |t| t.summary(4, "operation", "append")),
    ("OP-1", Error, |t| t.summary(2, "operation", "append")),
    ("OP-6", Error, |t| t.summary(1, "operation", "delete")),
    ("META-21", Error, |t| t.file("m6", 0)["record_count"] = json!(2)),
    // Summaries
    ("SUMMARY-10", Error, |t| t.summary(1, "added-data-files", "3")),
    ("SUMMARY-11", Error, |t| t.summary(5, "deleted-data-files", "2")),
    ("SUMMARY-12", Error, |t| t.summary(5, "total-data-files", "4")),
    ("SUMMARY-13", Error, |t| t.summary(3, "added-delete-files", "1")),
    ("SUMMARY-14", Error, |t| t.summary(3, "removed-delete-files", "2")),
    ("SUMMARY-15", Error, |t| t.summary(3, "total-delete-files", "3")),
    ("SUMMARY-16", Error, |t| t.summary(6, "added-equality-delete-files", "2")),
    ("SUMMARY-17", Error, |t| t.summary(3, "added-position-delete-files", "2")),
    ("SUMMARY-18", Error, |t| t.summary(4, "removed-dvs", "2")),
    ("SUMMARY-19", Error, |t| t.summary(5, "deleted-records", "1")),
    ("SUMMARY-20", Error, |t| t.summary(3, "total-records", "4")),
    ("SUMMARY-21", Error, |t| t.summary(1, "added-files-size", "1")),
    ("SUMMARY-22", Error, |t| t.summary(1, "total-files-size", "1")),
    ("SUMMARY-23", Error, |t| t.summary(4, "added-position-deletes", "1")),
    ("SUMMARY-24", Error, |t| t.summary(4, "total-position-deletes", "3")),
    ("SUMMARY-25", Error, |t| t.summary(6, "added-equality-deletes", "7")),
    ("SUMMARY-26", Error, |t| t.summary(6, "total-equality-deletes", "0")),
    ("SUMMARY-28", Note, |t| t.summary(1, "changed-partition-count", "1")),
    ("SUMMARY-29", Note, |t| t.summary(4, "manifests-kept", "2")),
    ("TRAP-17", Note, |t| drop(&mut t.snap(4)["summary"], "total-records")),
];
