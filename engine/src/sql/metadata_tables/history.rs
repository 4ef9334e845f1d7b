//! Tables that come from the metadata file alone.

use std::collections::HashSet;

use arrow::datatypes::{DataType, FieldRef};
use iceberg::spec::{SnapshotRef, SnapshotRetention};
use serde_json::{Value, json};

use super::{field, int, long, map, micros, text, time};
use crate::{Result, Table};

/// Snapshots, oldest first.
pub(super) fn ordered(table: &Table) -> Vec<SnapshotRef> {
    let mut all: Vec<SnapshotRef> = table.metadata().snapshots().cloned().collect();
    all.sort_by_key(|s| (s.sequence_number(), s.timestamp_ms(), s.snapshot_id()));
    all
}

pub(super) fn snapshots(table: &Table) -> (Vec<FieldRef>, Vec<Value>) {
    let fields = vec![
        time("committed_at"),
        long("snapshot_id"),
        long("parent_id"),
        text("operation"),
        text("manifest_list"),
        map("summary", DataType::Utf8, DataType::Utf8),
    ];
    let rows = ordered(table)
        .iter()
        .map(|s| {
            let mut summary: Vec<(&String, &String)> = s.summary().additional_properties.iter().collect();
            summary.sort();
            let summary: serde_json::Map<String, Value> =
                summary.into_iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect();
            json!({
                "committed_at": micros(s.timestamp_ms()),
                "snapshot_id": s.snapshot_id(),
                "parent_id": s.parent_snapshot_id(),
                "operation": s.summary().operation.as_str(),
                "manifest_list": s.manifest_list(),
                "summary": summary,
            })
        })
        .collect();
    (fields, rows)
}

pub(super) fn history(table: &Table) -> (Vec<FieldRef>, Vec<Value>) {
    let m = table.metadata();
    let mut ancestors = HashSet::new();
    let mut at = m.current_snapshot_id();
    while let Some(id) = at {
        if !ancestors.insert(id) {
            break;
        }
        at = m.snapshot_by_id(id).and_then(|s| s.parent_snapshot_id());
    }
    let fields = vec![
        time("made_current_at"),
        long("snapshot_id"),
        long("parent_id"),
        field("is_current_ancestor", DataType::Boolean),
    ];
    let rows = m
        .history()
        .iter()
        .map(|l| {
            json!({
                "made_current_at": micros(l.timestamp_ms),
                "snapshot_id": l.snapshot_id,
                "parent_id": m.snapshot_by_id(l.snapshot_id).and_then(|s| s.parent_snapshot_id()),
                "is_current_ancestor": ancestors.contains(&l.snapshot_id),
            })
        })
        .collect();
    (fields, rows)
}

pub(super) fn refs(table: &Table) -> Result<(Vec<FieldRef>, Vec<Value>)> {
    let fields = vec![
        text("name"),
        text("type"),
        long("snapshot_id"),
        long("max_reference_age_in_ms"),
        int("min_snapshots_to_keep"),
        long("max_snapshot_age_in_ms"),
    ];
    let rows = table
        .metadata()
        .refs()?
        .into_iter()
        .map(|(name, r)| {
            let (kind, age, keep, snapshot_age) = match r.retention {
                SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms } => {
                    ("BRANCH", max_ref_age_ms, min_snapshots_to_keep, max_snapshot_age_ms)
                }
                SnapshotRetention::Tag { max_ref_age_ms } => ("TAG", max_ref_age_ms, None, None),
            };
            json!({
                "name": name,
                "type": kind,
                "snapshot_id": r.snapshot_id,
                "max_reference_age_in_ms": age,
                "min_snapshots_to_keep": keep,
                "max_snapshot_age_in_ms": snapshot_age,
            })
        })
        .collect();
    Ok((fields, rows))
}

pub(super) fn metadata_log(table: &Table) -> (Vec<FieldRef>, Vec<Value>) {
    let m = table.metadata();
    let fields = vec![
        time("timestamp"),
        text("file"),
        long("latest_snapshot_id"),
        int("latest_schema_id"),
        long("latest_sequence_number"),
    ];
    let current = (m.last_updated_ms(), table.metadata_location().to_string());
    let rows = m
        .metadata_log()
        .iter()
        .map(|l| (l.timestamp_ms, l.metadata_file.clone()))
        .chain([current])
        .map(|(ms, file)| {
            let snapshot =
                m.history().iter().rev().find(|l| l.timestamp_ms <= ms).and_then(|l| m.snapshot_by_id(l.snapshot_id));
            json!({
                "timestamp": micros(ms),
                "file": file,
                "latest_snapshot_id": snapshot.map(|s| s.snapshot_id()),
                "latest_schema_id": snapshot.and_then(|s| s.schema_id()),
                "latest_sequence_number": snapshot.map(|s| s.sequence_number()),
            })
        })
        .collect();
    (fields, rows)
}
