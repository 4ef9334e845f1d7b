//! Merge-on-read: positions become deletion vectors (V3) or position-delete files (V2).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use futures::{StreamExt, TryStreamExt, stream};
use iceberg::spec::FormatVersion;
use uuid::Uuid;

use super::finish::{self, Written};
use super::rows::{PositionSink, Positions, SplitStream};
use super::{Cx, Outcome, Target, run, values};
use crate::commit::Producer;
use crate::deletes::{DeleteLoader, Deletes, file_scope};
use crate::dv::{DeletionVector, PuffinWriter};
use crate::expr::FilePruner;
use crate::io::normalize;
use crate::manifest::{Content, DataFile, FileFormat, ManifestEntry};
use crate::scan::{FileTask, Planned};
use crate::write::{Granularity, PositionDeletes, WriteOptions, write_data_files, write_position_deletes};
use crate::{Error, Result, Table};

/// Deletes written for a statement, and the old ones that they replace.
#[derive(Debug, Default)]
pub struct RowDeletes {
    /// New delete files.
    pub added: Vec<DataFile>,
    /// Delete files that are superseded.
    pub removed: Vec<DataFile>,
}

/// Runs `logical`, which yields `_file, _pos, op, columns…, lineage…`; writes new rows and deletes; commits a row delta.
#[allow(clippy::too_many_arguments)]
pub async fn apply(
    cx: &Cx<'_>,
    target: &Target,
    command: &str,
    planned: &Planned,
    logical: LogicalPlan,
    sink: PositionSink,
    checker: Option<PositionSink>,
    pruner: Arc<FilePruner>,
) -> Result<Outcome> {
    let logical = values::cast_to_target(logical, super::rows::HEAD, target, target.lineage())?;
    let streams = run(cx, logical).await?;
    let streams =
        streams.into_iter().map(|s| SplitStream::wrap(s, sink.clone(), checker.clone())).collect::<Result<Vec<_>>>()?;
    let options = WriteOptions { lineage: target.lineage(), ..Default::default() };
    let data = write_data_files(&target.table, streams, &options).await?;
    let deletes = match write_deletes(target, planned, sink.take()).await {
        Ok(d) => d,
        Err(e) => {
            finish::discard(target, &data).await;
            return Err(e);
        }
    };
    let mut added = data;
    added.extend(deletes.added);
    let written = Written { added, removed: deletes.removed, replaced: Vec::new() };
    finish::commit(target, command, Producer::RowDelta, written, Some(pruner)).await
}

/// Writes deletes for positions of data files that were planned.
pub async fn write_deletes(target: &Target, planned: &Planned, positions: Positions) -> Result<RowDeletes> {
    let tasks: HashMap<String, &FileTask> = planned.tasks.iter().map(|t| (normalize(&t.entry.file.path), t)).collect();
    let mut touched = Vec::with_capacity(positions.len());
    for (path, dv) in positions {
        if dv.is_empty() {
            continue;
        }
        let task = tasks
            .get(&normalize(&path))
            .ok_or_else(|| Error::internal(format!("rows of {path} were deleted but the file was not planned")))?;
        touched.push(((*task).clone(), dv));
    }
    // a stable order makes the files of two equal runs equal
    touched.sort_by(|a, b| a.0.entry.file.path.cmp(&b.0.entry.file.path));
    if touched.is_empty() {
        return Ok(RowDeletes::default());
    }
    if target.table.metadata().format_version() >= FormatVersion::V3 {
        write_dvs(target, planned, touched).await
    } else {
        write_v2(target, planned, touched).await
    }
}

/// Merges with what was deleted before, writes all vectors into one Puffin file, and retires old vectors and the
/// position-delete files whose scope is just that data file (DV-2, DV-3, DV-14).
async fn write_dvs(target: &Target, planned: &Planned, touched: Vec<(FileTask, DeletionVector)>) -> Result<RowDeletes> {
    let loader = DeleteLoader::new(target.table.io().clone(), target.table.metadata().clone());
    let merged: Vec<(FileTask, DeletionVector)> = stream::iter(touched)
        .map(|(task, new)| {
            let loader = &loader;
            async move {
                let mut all = new;
                if let Some(old) = loader.positions(&task.entry.file, &task.deletes).await? {
                    all.union_with(&old);
                }
                Ok::<_, Error>((task, all))
            }
        })
        .buffered(16)
        .try_collect()
        .await?;
    let mut out = RowDeletes::default();
    for (task, _) in &merged {
        if let Some(old) = &task.deletes.dv {
            out.removed.push(old.file.clone());
        }
        for p in planned.index.position_files_of(&task.entry) {
            if scope_is(&p, &task.entry) {
                out.removed.push(p.file.clone());
            }
        }
    }
    let vectors: Vec<_> = merged.into_iter().map(|(task, dv)| (task.entry.file.clone(), dv)).collect();
    out.added = write_vectors(&target.table, &vectors).await?;
    Ok(out)
}

/// Writes the vectors of data files into one Puffin file; its delete files come back in the order given. No vectors, no file.
pub async fn write_vectors(table: &Table, vectors: &[(DataFile, DeletionVector)]) -> Result<Vec<DataFile>> {
    if vectors.is_empty() {
        return Ok(Vec::new());
    }
    let mut puffin = PuffinWriter::new();
    let path = format!("{}/00000-{}-{}-00001-deletes.puffin", table.data_location(), vectors.len(), Uuid::new_v4());
    let mut blobs = Vec::with_capacity(vectors.len());
    for (data, dv) in vectors {
        blobs.push(puffin.add_dv(dv, &data.path)?);
    }
    let bytes = puffin.finish()?;
    let size = bytes.len() as i64;
    let mut out = Vec::with_capacity(vectors.len());
    for ((data, _), blob) in vectors.iter().zip(blobs) {
        out.push(DataFile {
            referenced_data_file: Some(data.path.clone()),
            content_offset: Some(blob.offset),
            content_size: Some(blob.length),
            ..DataFile::new(
                Content::PositionDeletes,
                FileFormat::Puffin,
                path.as_str(),
                data.spec_id,
                data.partition.clone(),
                blob.cardinality,
                size,
            )
        });
    }
    table.io().write_new(&path, bytes).await?;
    Ok(out)
}

fn scope_is(delete: &ManifestEntry, data: &ManifestEntry) -> bool {
    file_scope(&delete.file).is_some_and(|s| normalize(&s) == normalize(&data.file.path))
}

/// V2: with `file` granularity the new file of a data file takes in its older file-scoped deletes and replaces them; with
/// `partition` granularity the new positions of a partition go into one more file (POSDEL-7).
async fn write_v2(target: &Target, planned: &Planned, touched: Vec<(FileTask, DeletionVector)>) -> Result<RowDeletes> {
    let granularity = Granularity::of(&target.table).map_err(|e| e.at(target.table.ident()))?;
    let loader = DeleteLoader::new(target.table.io().clone(), target.table.metadata().clone());
    let mut out = RowDeletes::default();
    let mut all = Vec::with_capacity(touched.len());
    for (task, mut dv) in touched {
        if granularity == Granularity::File {
            let scoped: Vec<_> =
                planned.index.position_files_of(&task.entry).into_iter().filter(|p| scope_is(p, &task.entry)).collect();
            let old = Deletes { positions: scoped.clone(), ..Default::default() };
            if let Some(old) = loader.positions(&task.entry.file, &old).await? {
                dv.union_with(&old);
            }
            out.removed.extend(scoped.iter().map(|p| p.file.clone()));
        }
        all.push(PositionDeletes {
            path: task.entry.file.path.clone(),
            spec_id: task.entry.file.spec_id,
            partition: task.entry.file.partition.clone(),
            positions: dv,
        });
    }
    out.added = write_position_deletes(&target.table, all, granularity).await?;
    Ok(out)
}
