//! Tables that come from manifest lists and manifests.

use std::collections::{BTreeMap, HashSet};

use arrow::datatypes::{DataType, Field, FieldRef};
use iceberg::spec::{Datum, ManifestContentType, ManifestFile, Type};
use serde_json::{Value, json};

use super::columns::{Partitions, Readable, file_columns, file_value};
use super::{MetadataTable, field, int, list, long, micros, text, time};
use crate::manifest::{Content, ManifestEntry, load_manifest_list, load_manifests, partition_type};
use crate::{Error, Result, Table};

/// Manifests of some snapshots, each once.
async fn manifests_of(table: &Table, snapshots: &[i64]) -> Result<Vec<ManifestFile>> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for id in snapshots {
        let snapshot = table
            .metadata()
            .snapshot_by_id(*id)
            .ok_or_else(|| Error::not_found(format!("table has no snapshot {id}")).at(table.ident()))?;
        for m in load_manifest_list(table.io(), snapshot).await? {
            if seen.insert(m.manifest_path.clone()) {
                out.push(m);
            }
        }
    }
    Ok(out)
}

pub(super) async fn manifests(table: &Table, snapshots: Vec<i64>) -> Result<(Vec<FieldRef>, Vec<Value>)> {
    let summary = DataType::Struct(
        vec![
            Field::new("contains_null", DataType::Boolean, true),
            Field::new("contains_nan", DataType::Boolean, true),
            Field::new("lower_bound", DataType::Utf8, true),
            Field::new("upper_bound", DataType::Utf8, true),
        ]
        .into(),
    );
    let fields = vec![
        int("content"),
        text("path"),
        long("length"),
        int("partition_spec_id"),
        long("added_snapshot_id"),
        int("added_data_files_count"),
        int("existing_data_files_count"),
        int("deleted_data_files_count"),
        int("added_delete_files_count"),
        int("existing_delete_files_count"),
        int("deleted_delete_files_count"),
        list("partition_summaries", summary),
    ];
    let mut rows = Vec::new();
    for m in manifests_of(table, &snapshots).await? {
        let data = m.content == ManifestContentType::Data;
        let count = |mine: bool, n: Option<u32>| if mine { n.unwrap_or(0) } else { 0 };
        rows.push(json!({
            "content": i32::from(!data),
            "path": m.manifest_path,
            "length": m.manifest_length,
            "partition_spec_id": m.partition_spec_id,
            "added_snapshot_id": m.added_snapshot_id,
            "added_data_files_count": count(data, m.added_files_count),
            "existing_data_files_count": count(data, m.existing_files_count),
            "deleted_data_files_count": count(data, m.deleted_files_count),
            "added_delete_files_count": count(!data, m.added_files_count),
            "existing_delete_files_count": count(!data, m.existing_files_count),
            "deleted_delete_files_count": count(!data, m.deleted_files_count),
            "partition_summaries": summaries(table, &m)?,
        }));
    }
    Ok((fields, rows))
}

fn summaries(table: &Table, m: &ManifestFile) -> Result<Value> {
    let ty = partition_type(&table.metadata().inner, m.partition_spec_id)?;
    let spec = table.metadata().partition_spec_by_id(m.partition_spec_id);
    let bound = |bytes: Option<&[u8]>, i: usize| -> Option<String> {
        let Type::Primitive(p) = ty.fields().get(i)?.field_type.as_ref() else {
            return None;
        };
        let datum = Datum::try_from_bytes(bytes?, p.clone()).ok()?;
        let transform = spec?.fields().get(i)?.transform;
        Some(crate::sql::schema::human(transform, datum.literal(), p))
    };
    let rows: Vec<Value> = m
        .partitions
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, s)| {
            json!({
                "contains_null": s.contains_null,
                "contains_nan": s.contains_nan,
                "lower_bound": bound(s.lower_bound.as_ref().map(|b| b.as_ref()), i),
                "upper_bound": bound(s.upper_bound.as_ref().map(|b| b.as_ref()), i),
            })
        })
        .collect();
    Ok(Value::Array(rows))
}

/// Entries of some snapshots' manifests.
async fn entries_of(
    table: &Table,
    snapshots: &[i64],
    keep: impl Fn(&ManifestFile) -> bool,
) -> Result<Vec<ManifestEntry>> {
    let manifests: Vec<ManifestFile> = manifests_of(table, snapshots).await?.into_iter().filter(|m| keep(m)).collect();
    let loaded = load_manifests(table.io(), &manifests, table.metadata()).await?;
    Ok(loaded.into_iter().flatten().collect())
}

pub(super) async fn files(
    table: &Table,
    kind: MetadataTable,
    snapshots: Vec<i64>,
) -> Result<(Vec<FieldRef>, Vec<Value>)> {
    use MetadataTable as M;
    let (partitions, readable) = (Partitions::of(table)?, Readable::of(table.metadata()));
    let mut fields = file_columns(&partitions);
    fields.push(readable.column());
    let content = match kind {
        M::DataFiles | M::AllDataFiles => Some(ManifestContentType::Data),
        M::DeleteFiles | M::AllDeleteFiles => Some(ManifestContentType::Deletes),
        _ => None,
    };
    let entries = entries_of(table, &snapshots, |m| content.is_none_or(|c| m.content == c)).await?;
    let mut seen = HashSet::new();
    let rows = entries
        .iter()
        .filter(|e| e.is_live() && seen.insert(e.file.key()))
        .map(|e| {
            let mut row = file_value(&e.file, &partitions);
            row.insert("readable_metrics".into(), readable.value(&e.file));
            Value::Object(row)
        })
        .collect();
    Ok((fields, rows))
}

pub(super) async fn entries(table: &Table, snapshot: Option<i64>) -> Result<(Vec<FieldRef>, Vec<Value>)> {
    let (partitions, readable) = (Partitions::of(table)?, Readable::of(table.metadata()));
    let fields = vec![
        int("status"),
        long("snapshot_id"),
        long("sequence_number"),
        long("file_sequence_number"),
        field("data_file", DataType::Struct(file_columns(&partitions).into())),
        readable.column(),
    ];
    let snapshots: Vec<i64> = snapshot.into_iter().collect();
    let rows = entries_of(table, &snapshots, |_| true)
        .await?
        .iter()
        .map(|e| {
            json!({
                "status": e.status as i32,
                "snapshot_id": e.snapshot_id,
                "sequence_number": e.sequence_number,
                "file_sequence_number": e.file_sequence_number,
                "data_file": file_value(&e.file, &partitions),
                "readable_metrics": readable.value(&e.file),
            })
        })
        .collect();
    Ok((fields, rows))
}

#[derive(Default)]
struct Totals {
    partition: Value,
    spec_id: i32,
    records: i64,
    files: i64,
    bytes: i64,
    position_records: i64,
    position_files: i64,
    equality_records: i64,
    equality_files: i64,
    updated: Option<(i64, i64)>,
}

pub(super) async fn partitions(table: &Table, snapshot: Option<i64>) -> Result<(Vec<FieldRef>, Vec<Value>)> {
    let partitions = Partitions::of(table)?;
    let column = partitions.column();
    let mut fields = Vec::new();
    if let Some(c) = &column {
        fields.extend([c.clone(), int("spec_id")]);
    }
    fields.extend([
        long("record_count"),
        int("file_count"),
        long("total_data_file_size_in_bytes"),
        long("position_delete_record_count"),
        int("position_delete_file_count"),
        long("equality_delete_record_count"),
        int("equality_delete_file_count"),
        time("last_updated_at"),
        long("last_updated_snapshot_id"),
    ]);
    let snapshots: Vec<i64> = snapshot.into_iter().collect();
    let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
    for e in entries_of(table, &snapshots, |_| true).await?.iter().filter(|e| e.is_live()) {
        let f = &e.file;
        let partition = partitions.value(f);
        let t = totals.entry(partition.to_string()).or_default();
        t.partition = partition;
        t.spec_id = t.spec_id.max(f.spec_id);
        match f.content {
            Content::Data => {
                t.records += f.record_count;
                t.files += 1;
                t.bytes += f.file_size;
            }
            Content::PositionDeletes => {
                t.position_records += f.record_count;
                t.position_files += 1;
            }
            Content::EqualityDeletes => {
                t.equality_records += f.record_count;
                t.equality_files += 1;
            }
        }
        if let Some(s) = e.snapshot_id.and_then(|id| table.metadata().snapshot_by_id(id)) {
            t.updated = t.updated.max(Some((s.timestamp_ms(), s.snapshot_id())));
        }
    }
    let rows = totals
        .into_values()
        .map(|t| {
            json!({
                "partition": t.partition,
                "spec_id": t.spec_id,
                "record_count": t.records,
                "file_count": t.files,
                "total_data_file_size_in_bytes": t.bytes,
                "position_delete_record_count": t.position_records,
                "position_delete_file_count": t.position_files,
                "equality_delete_record_count": t.equality_records,
                "equality_delete_file_count": t.equality_files,
                "last_updated_at": t.updated.map(|(ms, _)| micros(ms)),
                "last_updated_snapshot_id": t.updated.map(|(_, id)| id),
            })
        })
        .collect();
    Ok((fields, rows))
}
