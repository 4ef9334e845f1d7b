//! Procedures that move refs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention};

use super::args::Args;
use super::counts;
use crate::sql::commit;
use crate::sql::session::{Session, StatementResult};
use crate::table::Metadata;
use crate::{Error, Result, Table};

/// The snapshot and its ancestors, newest first.
fn ancestors(m: &Metadata, from: Option<i64>) -> Vec<i64> {
    let mut out = Vec::new();
    let mut at = from;
    while let Some(id) = at {
        if out.contains(&id) {
            break;
        }
        out.push(id);
        at = m.snapshot_by_id(id).and_then(|s| s.parent_snapshot_id());
    }
    out
}

fn branch_at(m: &Metadata, name: &str, id: i64) -> Result<SnapshotReference> {
    let mut r = m.refs()?.remove(name).unwrap_or_else(|| {
        let retention =
            SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        SnapshotReference::new(id, retention)
    });
    r.snapshot_id = id;
    Ok(r)
}

async fn move_main(table: &Table, to: i64) -> Result<StatementResult> {
    let before = table.metadata().current_snapshot_id();
    commit::update(table, |m, builder, _| Ok(builder.set_ref(MAIN_BRANCH, branch_at(m, MAIN_BRANCH, to)?)?)).await?;
    counts(&[("previous_snapshot_id", before), ("current_snapshot_id", Some(to))])
}

pub(super) async fn rollback_to_snapshot(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let id = args.need_integer("snapshot_id")?;
    if table.metadata().snapshot_by_id(id).is_none() {
        return Err(Error::not_found(format!("Cannot roll back to unknown snapshot id: {id}")).at(table.ident()));
    }
    if !ancestors(table.metadata(), table.metadata().current_snapshot_id()).contains(&id) {
        let message = format!("Cannot roll back to snapshot, not an ancestor of the current state: {id}");
        return Err(Error::invalid(message).at(table.ident()));
    }
    move_main(&table, id).await
}

pub(super) async fn rollback_to_timestamp(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let ms = args.time_ms("timestamp")?.ok_or_else(|| Error::invalid("rollback_to_timestamp needs timestamp"))?;
    let m = table.metadata();
    let found = ancestors(m, m.current_snapshot_id())
        .into_iter()
        .find(|id| m.snapshot_by_id(*id).is_some_and(|s| s.timestamp_ms() < ms));
    match found {
        Some(id) => move_main(&table, id).await,
        None => Err(Error::not_found("Cannot roll back, no valid snapshot older than the timestamp").at(table.ident())),
    }
}

pub(super) async fn set_current_snapshot(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let id = match (args.integer("snapshot_id")?, args.string("ref")?) {
        (Some(id), None) if table.metadata().snapshot_by_id(id).is_some() => id,
        (Some(id), None) => {
            return Err(Error::not_found(format!("table has no snapshot {id}")).at(table.ident()));
        }
        (None, Some(name)) => table
            .snapshot_of_ref(&name)
            .map(|s| s.snapshot_id())
            .ok_or_else(|| Error::not_found(format!("table has no branch or tag {name:?}")).at(table.ident()))?,
        _ => {
            return Err(Error::invalid("set_current_snapshot takes either snapshot_id or ref"));
        }
    };
    move_main(&table, id).await
}

pub(super) async fn fast_forward(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let (branch, to) = (args.need_string("branch")?, args.need_string("to")?);
    let m = table.metadata();
    let refs = m.refs()?;
    let target = refs
        .get(&to)
        .map(|r| r.snapshot_id)
        .ok_or_else(|| Error::not_found(format!("Ref does not exist: {to}")).at(table.ident()))?;
    let before = refs.get(&branch).map(|r| r.snapshot_id);
    if refs.get(&branch).is_some_and(|r| !r.is_branch()) {
        return Err(Error::invalid(format!("{branch:?} is a tag, not a branch")).at(table.ident()));
    }
    if before.is_some_and(|b| !ancestors(m, Some(target)).contains(&b)) {
        let message = format!("Cannot fast-forward: {branch} is not an ancestor of {to}");
        return Err(Error::invalid(message).at(table.ident()));
    }
    commit::update(&table, |m, builder, _| {
        let now = m.refs()?.get(&branch).map(|r| r.snapshot_id);
        if now != before {
            return Err(Error::conflict(format!("branch {branch:?} moved meanwhile")));
        }
        Ok(builder.set_ref(&branch, branch_at(m, &branch, target)?)?)
    })
    .await?;
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("branch_updated", Arc::new(StringArray::from(vec![branch])), false),
        ("previous_ref", Arc::new(Int64Array::from(vec![before])), true),
        ("updated_ref", Arc::new(Int64Array::from(vec![target])), false),
    ];
    Ok(StatementResult::batch(RecordBatch::try_from_iter_with_nullable(columns)?))
}

pub(super) async fn register_table(session: &Session, args: &Args) -> Result<StatementResult> {
    let ident = session.table_ident(&args.table()?)?;
    let table = session.catalog().clone().register_table(&ident, &args.need_string("metadata_file")?).await?;
    let current = table.metadata().current_snapshot();
    let total = |key: &str| current.and_then(|s| s.summary().additional_properties.get(key)?.parse().ok());
    counts(&[
        ("current_snapshot_id", current.map(|s| s.snapshot_id())),
        ("total_records_count", total("total-records")),
        ("total_data_files_count", total("total-data-files")),
    ])
}

pub(super) async fn ancestors_of(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let m = table.metadata();
    let from = args.integer("snapshot_id")?.or(m.current_snapshot_id());
    if let Some(id) = from.filter(|id| m.snapshot_by_id(*id).is_none()) {
        return Err(Error::not_found(format!("table has no snapshot {id}")).at(table.ident()));
    }
    let ids = ancestors(m, from);
    let times: Vec<Option<i64>> = ids.iter().map(|id| m.snapshot_by_id(*id).map(|s| s.timestamp_ms())).collect();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("snapshot_id", Arc::new(Int64Array::from(ids)), true),
        ("timestamp", Arc::new(Int64Array::from(times)), true),
    ];
    Ok(StatementResult::batch(RecordBatch::try_from_iter_with_nullable(columns)?))
}
