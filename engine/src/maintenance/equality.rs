//! Conversion of equality deletes: into deletion vectors in a V3 table, into position deletes in a V2 table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;
use iceberg::spec::MAIN_BRANCH;

use super::discard;
use crate::commit::{Change, Producer, Validation, commit};
use crate::deletes::DeleteLoader;
use crate::dv::DeletionVector;
use crate::expr::{FilePruner, Pred};
use crate::io::normalize;
use crate::manifest::{Content, DataFile};
use crate::rowlevel::{Target, write_deletes};
use crate::scan::{FileTask, IcebergTableProvider, plan};
use crate::{Error, ErrorKind, Result, Table};

/// What [`convert_equality_deletes`] did.
#[derive(Debug, Clone)]
pub struct EqualityConversion {
    /// The table after it.
    pub table: Table,
    /// Equality-delete files that are gone.
    pub converted_files: i64,
    /// Deletion vectors or position-delete files in their place.
    pub added_files: i64,
    /// Rows that they delete and that nothing else deleted.
    pub deleted_rows: i64,
}

/// Finds the rows that live equality deletes match, deletes them by position, and drops the equality-delete files, in one
/// `replace` snapshot. Rows that readers see, and their lineage, stay as they are. A vector takes in what was deleted from
/// its data file before (DV-2, DV-14).
///
/// Only rows older than an equality delete are its concern, so what others append meanwhile needs no look.
///
/// # Errors
/// [`crate::ErrorKind::Conflict`] when a data file that a converted delete applies to is concurrently removed or rewritten
/// (its rows may live on in a file that needs the equality delete), or gets another vector (CONC-11, CONC-16).
pub async fn convert_equality_deletes(table: &Table) -> Result<EqualityConversion> {
    let table = table.refresh().await?;
    let nothing = EqualityConversion { table: table.clone(), converted_files: 0, added_files: 0, deleted_rows: 0 };
    let Some(start) = table.metadata().current_snapshot_id() else { return Ok(nothing) };
    let planned = plan(&table, Some(start), &FilePruner::new(Pred::True, &table.metadata().inner)).await?;
    let mut converted: Vec<DataFile> = planned
        .index
        .entries()
        .filter(|e| e.file.content == Content::EqualityDeletes)
        .map(|e| e.file.clone())
        .collect();
    if converted.is_empty() {
        return Ok(nothing);
    }
    // the index has no order of its own
    converted.sort_by(|a, b| a.path.cmp(&b.path));
    let concerned: Vec<&FileTask> = planned.tasks.iter().filter(|t| !t.deletes.equality.is_empty()).collect();
    let data_files_exist = concerned.iter().map(|t| t.entry.file.path.clone()).collect();
    let positions = matched(&table, start, &concerned).await?;
    let deleted_rows = positions.values().map(|dv| i64::try_from(dv.len()).unwrap_or(i64::MAX)).sum();
    let target = Target { table: table.clone(), branch: MAIN_BRANCH.into(), alias: table.ident().name().to_string() };
    let deletes = write_deletes(&target, &planned, positions).await?;
    let mut done = EqualityConversion {
        table: table.clone(),
        converted_files: converted.len() as i64,
        added_files: deletes.added.len() as i64,
        deleted_rows,
    };
    let change = Change {
        added: deletes.added.clone(),
        removed: converted.into_iter().chain(deletes.removed).collect(),
        validation: Validation {
            from_snapshot: Some(start),
            data_files_exist,
            removed_files_exist: true,
            ..Validation::default()
        },
        ..Change::new(Producer::Rewrite)
    };
    match commit(&table, change).await {
        Ok(c) => done.table = c.table,
        Err(e) => {
            // an unknown outcome may have happened: its files must stay (CONC-41)
            if e.kind() != ErrorKind::CommitUnknown {
                discard(&table, &deletes.added).await;
            }
            return Err(e);
        }
    }
    Ok(done)
}

/// Rows of the files that an equality delete matches and that no position was deleted for, by data file path.
async fn matched(table: &Table, snapshot: i64, tasks: &[&FileTask]) -> Result<HashMap<String, DeletionVector>> {
    let paths: HashSet<String> = tasks.iter().map(|t| normalize(&t.entry.file.path)).collect();
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let schema = table.metadata().current_schema().clone();
    let provider = IcebergTableProvider::with_schema(table.clone(), Some(snapshot), schema, true)?.only_files(paths);
    let mut rows = SessionContext::new()
        .read_table(Arc::new(provider))?
        .filter(col("_deleted"))?
        .select_columns(&["_file", "_pos"])?
        .execute_stream()
        .await?;
    let mut all: HashMap<String, DeletionVector> = HashMap::new();
    while let Some(batch) = rows.try_next().await? {
        let files = cast(batch.column(0), &DataType::Utf8)?;
        let files = files.as_string::<i32>();
        let positions = batch.column(1).as_primitive::<Int64Type>();
        for (file, pos) in files.iter().zip(positions.values()) {
            let file = file.ok_or_else(|| Error::internal("a row without a file"))?;
            let pos = u64::try_from(*pos).map_err(|_| Error::internal(format!("row position {pos}")))?;
            match all.get_mut(file) {
                Some(dv) => dv.try_insert(pos)?,
                None => all.entry(file.to_string()).or_default().try_insert(pos)?,
            };
        }
    }
    let loader = DeleteLoader::new(table.io().clone(), table.metadata().clone());
    for t in tasks {
        let Some(dv) = all.get_mut(&*t.entry.file.path) else { continue };
        if let Some(old) = loader.positions(&t.entry.file, &t.deletes).await? {
            *dv = dv.difference(&old);
        }
    }
    all.retain(|_, dv| !dv.is_empty());
    Ok(all)
}
