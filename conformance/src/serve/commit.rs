//! Applying a client's commit on the catalog's current state (REST-50..53).

use std::sync::Arc;

use floe_engine::catalog::rest::wire::{self, Commit};
use floe_engine::catalog::{Catalog, TableCommit};
use floe_engine::table::Metadata;
use floe_engine::types::ExtTypes;
use floe_engine::{Error, ErrorKind, Result, Table};
use iceberg::spec::{FormatVersion, Snapshot, TableMetadata};
use iceberg::{TableIdent, TableUpdate};

/// How often a race lost behind the server is repeated before the client hears of it.
const ATTEMPTS: u32 = 10;

/// Makes a client's commit. [`ErrorKind::CommitFailed`]: a requirement does not hold, the client may rebase and retry.
pub(crate) async fn apply(catalog: Arc<dyn Catalog>, ident: &TableIdent, commit: &Commit) -> Result<Table> {
    if commit.creates() {
        return create(catalog, ident, commit).await;
    }
    let mut attempt = 1;
    loop {
        let base = catalog.clone().load_table(ident).await?;
        let metadata = next_metadata(&base, commit)?;
        let commit =
            TableCommit { base, metadata, updates: commit.updates.clone(), requirements: commit.requirements.clone() };
        match catalog.clone().commit_table(commit).await {
            // Someone else was faster; what the client required may still hold.
            Err(e) if e.kind() == ErrorKind::CommitFailed && attempt < ATTEMPTS => attempt += 1,
            other => return other,
        }
    }
}

async fn create(catalog: Arc<dyn Catalog>, ident: &TableIdent, commit: &Commit) -> Result<Table> {
    if catalog.table_exists(ident).await? {
        return Err(failed("assert-create: the table exists").at(ident));
    }
    let default = catalog.default_location(ident).await.ok();
    let start = wire::metadata_of_creation(commit, default)?;
    let rest: Vec<TableUpdate> = commit
        .updates
        .iter()
        .filter(|u| {
            matches!(
                u,
                TableUpdate::AddSnapshot { .. }
                    | TableUpdate::SetSnapshotRef { .. }
                    | TableUpdate::SetStatistics { .. }
                    | TableUpdate::SetPartitionStatistics { .. }
            )
        })
        .cloned()
        .collect();
    let ext = start.ext.clone();
    let inner = build(start.inner, None, &rest)?;
    match catalog.create_from_metadata(ident, Metadata { inner, ext }).await {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(failed("assert-create: the table exists").at(ident)),
        other => other,
    }
}

fn next_metadata(base: &Table, commit: &Commit) -> Result<Metadata> {
    let current = base.metadata();
    for requirement in &commit.requirements {
        requirement.check(Some(&current.inner)).map_err(|e| failed(e.message()).at(base.ident()))?;
    }
    let mut ext: ExtTypes = current.ext.clone();
    ext.0.extend(commit.ext.0.clone());
    let inner = build(current.inner.clone(), Some(base.metadata_location().to_string()), &commit.updates)?;
    Ok(Metadata { inner, ext })
}

fn build(start: TableMetadata, location: Option<String>, updates: &[TableUpdate]) -> Result<TableMetadata> {
    let mut version = start.format_version();
    let (mut last_sequence, mut next_row) = (start.last_sequence_number(), start.next_row_id());
    let mut builder = start.into_builder(location);
    for update in updates {
        match update {
            TableUpdate::UpgradeFormatVersion { format_version } => version = *format_version,
            TableUpdate::AddSnapshot { snapshot } => {
                check_snapshot(snapshot, version, last_sequence, next_row)?;
                last_sequence = snapshot.sequence_number();
                next_row += snapshot.added_rows_count().unwrap_or(0);
            }
            _ => {}
        }
        builder = update.clone().apply(builder).map_err(|e| Error::invalid(e.message().to_string()).with_source(e))?;
    }
    Ok(builder.build().map_err(|e| Error::invalid(e.message().to_string()).with_source(e))?.metadata)
}

/// A snapshot computed on an older state is a lost race even when its ref has not moved, as when another branch was
/// committed to (REST-53, META-7).
fn check_snapshot(snapshot: &Snapshot, version: FormatVersion, last_sequence: i64, next_row: u64) -> Result<()> {
    if version >= FormatVersion::V2
        && snapshot.parent_snapshot_id().is_some()
        && snapshot.sequence_number() <= last_sequence
    {
        return Err(failed(&format!(
            "snapshot {} has sequence number {}, the table's last one is {last_sequence}",
            snapshot.snapshot_id(),
            snapshot.sequence_number()
        ))
        .clause("META-7"));
    }
    if version >= FormatVersion::V3 {
        match snapshot.first_row_id() {
            Some(first) if first < next_row => {
                return Err(failed(&format!(
                    "snapshot {} has first-row-id {first}, the table's next row id is {next_row}",
                    snapshot.snapshot_id()
                ))
                .clause("REST-53"));
            }
            // The table's next row id would then stay below ids that are taken.
            Some(first) if first > next_row => {
                return Err(Error::invalid(format!(
                    "snapshot {} has first-row-id {first}; allowed: the table's next row id, {next_row}",
                    snapshot.snapshot_id()
                ))
                .clause("META-6"));
            }
            Some(_) => {}
            None => {
                return Err(Error::invalid(format!(
                    "snapshot {} of a V3 table has no first-row-id",
                    snapshot.snapshot_id()
                ))
                .clause("META-5"));
            }
        }
    }
    Ok(())
}

fn failed(message: &str) -> Error {
    Error::new(ErrorKind::CommitFailed, message.to_string())
}
