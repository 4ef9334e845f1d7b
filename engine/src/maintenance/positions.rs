//! Rewriting of V2 position-delete files: into fewer files, or after an upgrade into deletion vectors (DEL-5, DV-2).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use iceberg::spec::FormatVersion;

use super::data::table_target;
use super::discard;
use super::options::{Given, SizeOptions};
use super::select::{Group, pack, size};
use crate::commit::{Change, Producer, Validation, commit};
use crate::deletes::{DeleteLoader, Deletes};
use crate::dv::DeletionVector;
use crate::expr::{FilePruner, Pred};
use crate::manifest::{Content, DataFile, FileKey, ManifestEntry};
use crate::rowlevel::write_vectors;
use crate::scan::{FileTask, plan};
use crate::write::{Granularity, PositionDeletes, write_position_deletes};
use crate::{Error, ErrorKind, Result, Table};

/// Delete files that are looked into at a time.
const CONCURRENCY: usize = 16;

/// Options of [`rewrite_position_delete_files`].
#[derive(Debug, Clone)]
pub struct PositionRewriteOptions {
    /// Sizes.
    pub sizes: SizeOptions,
}

impl PositionRewriteOptions {
    /// From Spark's names; an unknown name is refused with the allowed ones.
    pub fn parse(table: &Table, options: &BTreeMap<String, String>) -> Result<Self> {
        let given = Given::new("rewrite_position_delete_files", options, &[])?;
        let target = table_target(table, "write.delete.target-file-size-bytes", 64 << 20)?;
        Ok(Self { sizes: given.sizes(target)? })
    }
}

/// What [`rewrite_position_delete_files`] did. Bytes are those a summary counts: of a vector its blob.
#[derive(Debug, Clone)]
pub struct PositionRewrite {
    /// The table after it.
    pub table: Table,
    /// Delete files that are replaced.
    pub rewritten_files: i64,
    /// Delete files or vectors that replace them.
    pub added_files: i64,
    /// Bytes of the replaced files.
    pub rewritten_bytes: i64,
    /// Bytes of the new ones.
    pub added_bytes: i64,
}

/// Rewrites V2 position-delete files in the partitions of `filter`. Positions of data files that are gone are dropped.
/// In a V3 table every data file concerned gets a deletion vector with all of its positions; vectors themselves are
/// never rewritten.
///
/// # Errors
/// [`crate::ErrorKind::Conflict`] when a replaced delete file, or a data file that gets a vector, is concurrently
/// removed, or gets a vector from elsewhere (CONC-12, CONC-16).
pub async fn rewrite_position_delete_files(
    table: &Table,
    filter: Pred,
    options: &PositionRewriteOptions,
) -> Result<PositionRewrite> {
    let table = table.refresh().await?;
    let nothing = |table: Table| PositionRewrite {
        table,
        rewritten_files: 0,
        added_files: 0,
        rewritten_bytes: 0,
        added_bytes: 0,
    };
    let Some(start) = table.metadata().current_snapshot_id() else { return Ok(nothing(table)) };
    let pruner = FilePruner::new(filter, &table.metadata().inner);
    let everything = FilePruner::new(Pred::True, &table.metadata().inner);
    let planned = plan(&table, Some(start), &everything).await?;
    let mut candidates: Vec<Arc<ManifestEntry>> = planned
        .index
        .entries()
        .filter(|e| e.file.content == Content::PositionDeletes && !e.file.is_dv())
        .filter(|e| pruner.may_match_partition(&e.file))
        .filter(|e| options.sizes.rewrite_all || options.sizes.misfits(size(&e.file)))
        .cloned()
        .collect();
    // the index has no order of its own
    candidates.sort_by(|a, b| (a.sequence_number, &a.file.path).cmp(&(b.sequence_number, &b.file.path)));
    let mut groups = pack(candidates, &options.sizes, None, |e| e);
    groups.retain(|g| options.sizes.rewrite_all || options.sizes.worth_it(g.files.len() as u64, g.bytes));
    if groups.is_empty() {
        return Ok(nothing(table));
    }
    let added = if table.metadata().format_version() >= FormatVersion::V3 {
        to_vectors(&table, &planned.tasks, &groups).await?
    } else {
        to_files(&table, &planned.tasks, &groups).await?
    };
    let removed: Vec<DataFile> = groups.iter().flat_map(|g| &g.files).map(|e| e.file.clone()).collect();
    let mut done = PositionRewrite {
        rewritten_files: removed.len() as i64,
        added_files: added.len() as i64,
        rewritten_bytes: removed.iter().map(DataFile::summary_size).sum(),
        added_bytes: added.iter().map(|(f, _)| f.summary_size()).sum(),
        table: table.clone(),
    };
    let files: Vec<DataFile> = added.iter().map(|(f, _)| f.clone()).collect();
    let change = Change {
        removed,
        validation: Validation {
            from_snapshot: Some(start),
            data_files_exist: files
                .iter()
                .filter(|f| f.is_dv())
                .filter_map(|f| f.referenced_data_file.clone())
                .collect(),
            removed_files_exist: true,
            ..Validation::default()
        },
        added_at: added,
        ..Change::new(Producer::Rewrite)
    };
    match commit(&table, change).await {
        Ok(c) => done.table = c.table,
        Err(e) => {
            // an unknown outcome may have happened: its files must stay (CONC-41)
            if e.kind() != ErrorKind::CommitUnknown {
                discard(&table, &files).await;
            }
            return Err(e);
        }
    }
    Ok(done)
}

type Groups = [Group<Arc<ManifestEntry>>];

fn keys(files: &[Arc<ManifestEntry>]) -> HashSet<FileKey> {
    files.iter().map(|e| e.file.key()).collect()
}

fn newest(files: &[Arc<ManifestEntry>]) -> i64 {
    files.iter().filter_map(|e| e.sequence_number).max().unwrap_or(0)
}

/// The positions that the delete files of `chosen` delete in each live data file.
async fn positions(
    loader: &DeleteLoader,
    tasks: &[FileTask],
    chosen: &HashSet<FileKey>,
) -> Result<Vec<(FileTask, DeletionVector)>> {
    let found: Vec<Option<(FileTask, DeletionVector)>> = stream::iter(tasks.iter().cloned())
        .map(|task| async move {
            // a vector hides every position-delete file of its data file (SCAN-2)
            if task.deletes.dv.is_some() {
                return Ok::<_, Error>(None);
            }
            let mine: Vec<_> =
                task.deletes.positions.iter().filter(|p| chosen.contains(&p.file.key())).cloned().collect();
            let mine = Deletes { positions: mine, ..Deletes::default() };
            Ok(loader.positions(&task.entry.file, &mine).await?.map(|dv| (task, dv)))
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// V2: each group becomes new files with the newest sequence number of the group, so that they apply to the same data
/// files as before.
async fn to_files(table: &Table, tasks: &[FileTask], groups: &Groups) -> Result<Vec<(DataFile, i64)>> {
    let granularity = Granularity::of(table)?;
    let loader = DeleteLoader::new(table.io().clone(), table.metadata().clone());
    let mut out: Vec<(DataFile, i64)> = Vec::new();
    for g in groups {
        let written = async {
            let found = positions(&loader, tasks, &keys(&g.files)).await?;
            let deletes = found
                .into_iter()
                .map(|(task, positions)| PositionDeletes {
                    path: task.entry.file.path.clone(),
                    spec_id: task.entry.file.spec_id,
                    partition: task.entry.file.partition.clone(),
                    positions,
                })
                .collect();
            write_position_deletes(table, deletes, granularity).await
        }
        .await;
        match written {
            Ok(files) => out.extend(files.into_iter().map(|f| (f, newest(&g.files)))),
            Err(e) => {
                let files: Vec<DataFile> = out.into_iter().map(|(f, _)| f).collect();
                discard(table, &files).await;
                return Err(e);
            }
        }
    }
    Ok(out)
}

/// V3: every data file with a position in a chosen file gets one vector with the positions of all its delete files, for
/// the vector hides those that stay (SCAN-2, DV-2).
async fn to_vectors(table: &Table, tasks: &[FileTask], groups: &Groups) -> Result<Vec<(DataFile, i64)>> {
    let loader = DeleteLoader::new(table.io().clone(), table.metadata().clone());
    let chosen: HashSet<FileKey> = groups.iter().flat_map(|g| keys(&g.files)).collect();
    let mut vectors = Vec::new();
    let mut sequences = Vec::new();
    for (task, _) in positions(&loader, tasks, &chosen).await? {
        if let Some(all) = loader.positions(&task.entry.file, &task.deletes).await? {
            sequences.push(newest(&task.deletes.positions));
            vectors.push((task.entry.file.clone(), all));
        }
    }
    let files = write_vectors(table, &vectors).await?;
    Ok(files.into_iter().zip(sequences).collect())
}
