//! How far a target is: written into the summary of the very snapshot that brings the data, so that both are there or
//! neither (SUMMARY-37).

use iceberg::TableIdent;
use iceberg::spec::MAIN_BRANCH;

use crate::{Error, Result, Table};

const SYNC_ID: &str = "floe.cdc.sync-id";
const UUID: &str = "floe.cdc.source-uuid";
const SNAPSHOT: &str = "floe.cdc.source-snapshot-id";
const SEQUENCE: &str = "floe.cdc.source-sequence-number";
const SCHEMA: &str = "floe.cdc.source-schema-id";

/// The source snapshot whose changes a target holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// UUID of the source table.
    pub uuid: String,
    /// Snapshot; everything up to it is in the target.
    pub snapshot_id: i64,
    /// Its sequence number (CDC-27).
    pub sequence_number: i64,
    /// Schema with which the rows were read.
    pub schema_id: Option<i32>,
    /// The target's snapshot that says so.
    pub target_snapshot_id: i64,
}

impl Position {
    /// Refuses to go on when the source is another table than the one this position is in.
    pub(super) fn check_source(&self, source: &Table, target: &TableIdent) -> Result<()> {
        if self.uuid == source.metadata().uuid().to_string() {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the target follows the table with UUID {}, and {} has {}: the source was replaced. Give the sync another `id` to \
             start anew",
            self.uuid,
            source.ident(),
            source.metadata().uuid()
        ))
        .at(target))
    }
}

/// The table property that says which schema of the source a target was brought to while it was at which position: it is set
/// in the very commit that changes the target's schema, so that a crash before the next data does not change it twice.
pub(super) fn schema_mark(sync_id: &str, schema: i32, at: Option<&Position>) -> (String, String) {
    (mark_key(sync_id), format!("{schema}@{}", at.map_or("start".to_string(), |p| p.snapshot_id.to_string())))
}

fn mark_key(sync_id: &str) -> String {
    format!("floe.cdc.schema.{sync_id}")
}

/// The source's schema that a target was last brought to.
pub(super) fn last_schema(target: &Table, position: Option<&Position>, sync_id: &str) -> Option<i32> {
    let mark = target.metadata().properties().get(&mark_key(sync_id)).and_then(|v| v.split_once('@'));
    let now = position.map_or("start".to_string(), |p| p.snapshot_id.to_string());
    match mark {
        Some((schema, at)) if at == now => schema.parse().ok(),
        _ => position.and_then(|p| p.schema_id),
    }
}

/// Summary keys that record a position; `schema` = id of the source's schema with which the rows were read.
pub fn summary(
    sync_id: &str,
    source: &Table,
    snapshot: &iceberg::spec::Snapshot,
    schema: i32,
) -> Vec<(String, String)> {
    vec![
        (SYNC_ID.to_string(), sync_id.to_string()),
        (UUID.to_string(), source.metadata().uuid().to_string()),
        (SNAPSHOT.to_string(), snapshot.snapshot_id().to_string()),
        (SEQUENCE.to_string(), snapshot.sequence_number().to_string()),
        (SCHEMA.to_string(), schema.to_string()),
    ]
}

/// The newest position that sync `sync_id` left in the target's history. `None` = it never wrote to the target.
///
/// Errors: the history was cut off before a position was found, so that going on could bring rows twice.
pub fn find(target: &Table, sync_id: &str) -> Result<Option<Position>> {
    let m = &target.metadata().inner;
    let mut at = m.snapshot_for_ref(MAIN_BRANCH).cloned();
    let mut steps = 0;
    while let Some(s) = at {
        let p = &s.summary().additional_properties;
        if p.get(SYNC_ID).is_some_and(|id| id == sync_id) {
            let number = |key: &str| -> Result<i64> {
                p.get(key).and_then(|v| v.parse().ok()).ok_or_else(|| {
                    Error::malformed(format!("summary of snapshot {} has no usable {key}", s.snapshot_id()))
                        .at(target.ident())
                })
            };
            return Ok(Some(Position {
                uuid: p.get(UUID).cloned().unwrap_or_default(),
                snapshot_id: number(SNAPSHOT)?,
                sequence_number: number(SEQUENCE)?,
                schema_id: p.get(SCHEMA).and_then(|v| v.parse().ok()),
                target_snapshot_id: s.snapshot_id(),
            }));
        }
        let parent = s.parent_snapshot_id();
        at = parent.and_then(|p| m.snapshot_by_id(p)).cloned();
        if let (Some(p), None) = (parent, &at) {
            return Err(Error::not_found(format!(
                "the target's history before snapshot {} was expired (parent {p} is gone) and no kept snapshot holds the \
                 position of sync {sync_id:?}; going on could bring rows twice. Keep more snapshots in the target, or sync \
                 into a new table",
                s.snapshot_id()
            ))
            .at(target.ident()));
        }
        steps += 1;
        if steps > m.snapshots().len() {
            return Err(Error::malformed("snapshot parents form a cycle").clause("META-S02"));
        }
    }
    Ok(None)
}
