//! The end of a statement: the commit, and what is left behind when it fails.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Value};

use super::{Outcome, Target};
use crate::commit::{self, Change, Drop, FileFilter, Producer, Validation};
use crate::expr::FilePruner;
use crate::manifest::{Content, DataFile};
use crate::{ErrorKind, Result};

/// Files of a statement.
#[derive(Debug, Default)]
pub struct Written {
    /// New data and delete files.
    pub added: Vec<DataFile>,
    /// Delete files that are superseded.
    pub removed: Vec<DataFile>,
    /// Data files that are replaced or dropped.
    pub replaced: Vec<DataFile>,
}

/// Commits the files of `command` (`delete`, `update`, `merge`), validated at the command's isolation level (CONC-30, CONC-31).
pub async fn commit(
    target: &Target,
    command: &str,
    producer: Producer,
    written: Written,
    filter: Option<Arc<FilePruner>>,
) -> Result<Outcome> {
    let Written { added, removed, replaced } = written;
    let isolation = target.isolation(command)?;
    let filter = filter.map(|f| f as Arc<dyn FileFilter>);
    let from = target.snapshot_id();
    let validation = match producer {
        Producer::RowDelta => {
            let referenced = added
                .iter()
                .filter(|f| f.content == Content::PositionDeletes)
                .filter_map(|f| f.referenced_data_file.clone())
                .collect();
            Validation::merge_on_read(isolation, command != "delete", from, filter, referenced)
        }
        _ => Validation::copy_on_write(isolation, from, filter),
    };
    let change = Change {
        branch: target.branch.clone(),
        added,
        removed: replaced.into_iter().chain(removed).collect(),
        validation,
        ..Change::new(producer)
    };
    submit(target, change).await
}

/// Commits a change that needs no statement-level validation, or has its own.
pub async fn submit(target: &Target, change: Change) -> Result<Outcome> {
    let files: Vec<DataFile> = change.added.clone();
    match commit::commit(&target.table, change).await {
        Ok(c) => Ok(Outcome { table: c.table, snapshot_id: Some(c.snapshot_id) }),
        Err(e) => {
            // an unknown outcome may have happened: its files must stay (CONC-41)
            if e.kind() != ErrorKind::CommitUnknown {
                discard(target, &files).await;
            }
            Err(e)
        }
    }
}

/// A change that drops whatever matches, evaluated again on each attempt.
pub fn dropping(target: &Target, producer: Producer, added: Vec<DataFile>, drop: Drop) -> Change {
    Change { branch: target.branch.clone(), added, drop, ..Change::new(producer) }
}

/// Deletes files of a statement that did not commit; best effort, the first error of the statement is what counts.
pub async fn discard(target: &Target, files: &[DataFile]) {
    let mut paths: Vec<_> = files.iter().map(|f| f.path.clone()).collect();
    paths.sort();
    paths.dedup();
    for p in paths {
        if let Err(e) = target.table.io().delete(&p).await {
            tracing::warn!("could not delete {p} of a failed statement: {e}");
        }
    }
}

/// The literal TRUE.
pub fn true_literal() -> Expr {
    Expr::Value(Value::Boolean(true).into())
}
