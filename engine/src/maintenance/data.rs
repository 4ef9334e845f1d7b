//! Compaction of data files (OP-12, CONC-25..27, LINEAGE-11..13).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt, stream};
use iceberg::spec::FormatVersion;

use super::options::{Given, SizeOptions};
use super::select::{Group, pack, size};
use super::{dangling, discard};
use crate::commit::{Change, Producer, Validation, commit};
use crate::deletes::file_scope;
use crate::expr::{FilePruner, Pred};
use crate::io::normalize;
use crate::manifest::DataFile;
use crate::scan::{FileTask, IcebergTableProvider, META_COLUMNS, MetaColumn, plan, snapshot};
use crate::write::{WriteOptions, write_data_files};
use crate::{ErrorKind, Result, Table};

/// Options of [`rewrite_data_files`].
#[derive(Debug, Clone)]
pub struct DataRewriteOptions {
    /// Sizes.
    pub sizes: SizeOptions,
    /// A file with this many delete files is rewritten.
    pub delete_file_threshold: u64,
    /// A file whose known deleted rows are at least this share of it is rewritten.
    pub delete_ratio_threshold: f64,
    /// New files take the sequence number of the snapshot that was read, so that later equality deletes still apply to
    /// them (CONC-26).
    pub use_starting_sequence_number: bool,
    /// Afterwards, remove delete files that apply to nothing.
    pub remove_dangling_deletes: bool,
    /// Groups that are rewritten at a time.
    pub max_concurrent_groups: u64,
}

const OPTIONS: [&str; 5] = [
    "delete-file-threshold",
    "delete-ratio-threshold",
    "max-concurrent-file-group-rewrites",
    "remove-dangling-deletes",
    "use-starting-sequence-number",
];

impl DataRewriteOptions {
    /// From Spark's names; an unknown name is refused with the allowed ones.
    pub fn parse(table: &Table, options: &BTreeMap<String, String>) -> Result<Self> {
        let given = Given::new("rewrite_data_files", options, &OPTIONS)?;
        let target = table_target(table, "write.target-file-size-bytes", 512 << 20)?;
        Ok(Self {
            sizes: given.sizes(target)?,
            delete_file_threshold: given.number("delete-file-threshold", 0, u64::MAX)?,
            delete_ratio_threshold: given.ratio("delete-ratio-threshold", 0.3)?,
            use_starting_sequence_number: given.flag("use-starting-sequence-number", true)?,
            remove_dangling_deletes: given.flag("remove-dangling-deletes", false)?,
            max_concurrent_groups: given.number("max-concurrent-file-group-rewrites", 1, 5)?,
        })
    }

    fn too_many_deletes(&self, task: &FileTask) -> bool {
        let d = &task.deletes;
        let files = u64::from(d.dv.is_some()) + (d.positions.len() + d.equality.len()) as u64;
        if files > 0 && files >= self.delete_file_threshold {
            return true;
        }
        // only deletes of this file alone say how many of its rows are gone
        let scoped = d.positions.iter().filter(|p| file_scope(&p.file).is_some());
        let gone: i64 = d.dv.iter().chain(scoped).map(|p| p.file.record_count).sum();
        let rows = task.entry.file.record_count;
        gone > 0 && rows > 0 && gone.min(rows) as f64 / rows as f64 >= self.delete_ratio_threshold
    }

    fn wants(&self, task: &FileTask) -> bool {
        self.sizes.rewrite_all || self.sizes.misfits(size(&task.entry.file)) || self.too_many_deletes(task)
    }

    fn wants_group(&self, group: &Group<FileTask>) -> bool {
        self.sizes.rewrite_all
            || self.sizes.worth_it(group.files.len() as u64, group.bytes)
            || group.files.iter().any(|t| self.too_many_deletes(t))
    }
}

/// A target size from a table property.
pub(super) fn table_target(table: &Table, key: &str, default: u64) -> Result<u64> {
    match table.metadata().properties().get(key) {
        None => Ok(default),
        Some(v) => v.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            crate::Error::invalid(format!("property {key} is {v:?}; a positive integer is allowed"))
                .at(table.ident())
                .clause("PROP-6")
        }),
    }
}

/// What [`rewrite_data_files`] did.
#[derive(Debug, Clone)]
pub struct DataRewrite {
    /// The table after it.
    pub table: Table,
    /// Data files that are replaced.
    pub rewritten_files: i64,
    /// Data files that replace them.
    pub added_files: i64,
    /// Bytes of the replaced data files.
    pub rewritten_bytes: i64,
    /// Deletion vectors of replaced files and dangling delete files that are removed.
    pub removed_deletes: i64,
}

/// Rewrites small, large and much-deleted data files of `filter` with their deletes applied, equality deletes included,
/// in one commit. Rows keep `_row_id` and `_last_updated_sequence_number`; a replaced file's deletion vector goes in the
/// same commit, other vectors of its Puffin file stay.
///
/// # Errors
/// [`crate::ErrorKind::Conflict`] when a concurrent commit deleted rows of a replaced file, or the file; the new files
/// are then removed.
pub async fn rewrite_data_files(table: &Table, filter: Pred, options: &DataRewriteOptions) -> Result<DataRewrite> {
    let table = table.refresh().await?;
    let mut done = DataRewrite {
        table: table.clone(),
        rewritten_files: 0,
        added_files: 0,
        rewritten_bytes: 0,
        removed_deletes: 0,
    };
    if let Some(start) = table.metadata().current_snapshot_id() {
        let pruner = FilePruner::new(filter, &table.metadata().inner);
        let planned = plan(&table, Some(start), &pruner).await?;
        let spec = table.metadata().default_partition_spec_id();
        let candidates = planned.tasks.into_iter().filter(|t| options.wants(t));
        let mut groups = pack(candidates, &options.sizes, Some(spec), |t| &t.entry);
        groups.retain(|g| options.wants_group(g));
        if !groups.is_empty() {
            compact(&mut done, start, groups, options).await?;
        }
    }
    if options.remove_dangling_deletes {
        let (table, removed) = dangling::remove(&done.table).await?;
        done.table = table;
        done.removed_deletes += removed;
    }
    Ok(done)
}

async fn compact(
    done: &mut DataRewrite,
    start: i64,
    groups: Vec<Group<FileTask>>,
    options: &DataRewriteOptions,
) -> Result<()> {
    let table = done.table.clone();
    let written = write_groups(&table, start, &groups, options).await?;
    let tasks = || groups.iter().flat_map(|g| &g.files);
    let mut removed: Vec<DataFile> = tasks().map(|t| t.entry.file.clone()).collect();
    let vectors: Vec<DataFile> = tasks().filter_map(|t| t.deletes.dv.as_ref()).map(|d| d.file.clone()).collect();
    done.rewritten_files = removed.len() as i64;
    done.rewritten_bytes = removed.iter().map(|f| f.file_size).sum();
    done.added_files = written.len() as i64;
    done.removed_deletes = vectors.len() as i64;
    removed.extend(vectors);
    let versioned = table.metadata().format_version() > FormatVersion::V1;
    let sequence = snapshot(table.metadata(), start)?.sequence_number();
    let change = Change {
        added: written.clone(),
        removed,
        validation: Validation { from_snapshot: Some(start), removed_files_exist: true, ..Validation::default() },
        data_sequence_number: (versioned && options.use_starting_sequence_number).then_some(sequence),
        ..Change::new(Producer::Rewrite)
    };
    match commit(&table, change).await {
        Ok(c) => done.table = c.table,
        Err(e) => {
            // an unknown outcome may have happened: its files must stay (CONC-41)
            if e.kind() != ErrorKind::CommitUnknown {
                discard(&table, &written).await;
            }
            return Err(e);
        }
    }
    Ok(())
}

/// Writes all groups, a few at a time; after an error no file of any of them is left.
async fn write_groups(
    table: &Table,
    start: i64,
    groups: &[Group<FileTask>],
    options: &DataRewriteOptions,
) -> Result<Vec<DataFile>> {
    let at_once = usize::try_from(options.max_concurrent_groups).unwrap_or(1);
    let mut jobs = Vec::with_capacity(groups.len());
    for g in groups {
        jobs.push(write_group(table, start, g, &options.sizes));
    }
    // all of them run to their end, so that an error leaves no writer behind
    let results: Vec<Result<Vec<DataFile>>> = stream::iter(jobs).buffered(at_once).collect().await;
    let mut written = Vec::new();
    let mut failed = None;
    for r in results {
        match r {
            Ok(files) => written.extend(files),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    match failed {
        None => Ok(written),
        Some(e) => {
            discard(table, &written).await;
            Err(e)
        }
    }
}

async fn write_group(table: &Table, start: i64, group: &Group<FileTask>, sizes: &SizeOptions) -> Result<Vec<DataFile>> {
    let metadata = table.metadata();
    let lineage = metadata.format_version() >= FormatVersion::V3;
    let only: HashSet<String> = group.files.iter().map(|t| normalize(&t.entry.file.path)).collect();
    let schema = metadata.current_schema().clone();
    let provider = IcebergTableProvider::with_schema(table.clone(), Some(start), schema, true)?.only_files(only);
    let columns = provider.schema().fields().len() - META_COLUMNS.len();
    let mut projection: Vec<usize> = (0..columns).collect();
    if lineage {
        for wanted in [MetaColumn::RowId, MetaColumn::LastUpdatedSequenceNumber] {
            projection.extend(META_COLUMNS.iter().position(|c| *c == wanted).map(|i| columns + i));
        }
    }
    // no more streams than files are expected: each stream ends with a file of its own
    let files = group.bytes.div_ceil(sizes.target).max(1);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let parallelism = usize::try_from(files).unwrap_or(cores).min(cores);
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(parallelism));
    let scan = provider.scan(&ctx.state(), Some(&projection), &[], None).await?;
    let streams = join(execute_stream_partitioned(scan, ctx.task_ctx())?, parallelism);
    let options = WriteOptions { lineage, target_file_size: Some(sizes.roll_at()), ..WriteOptions::default() };
    write_data_files(table, streams, &options).await
}

/// Joins neighbouring streams so that at most `most` are left.
fn join(streams: Vec<SendableRecordBatchStream>, most: usize) -> Vec<SendableRecordBatchStream> {
    if streams.len() <= most {
        return streams;
    }
    let per = streams.len().div_ceil(most);
    let mut out: Vec<SendableRecordBatchStream> = Vec::with_capacity(most);
    let mut rest = streams.into_iter().peekable();
    while let Some(schema) = rest.peek().map(|s| s.schema()) {
        let chunk: Vec<_> = rest.by_ref().take(per).collect();
        let joined = stream::iter(chunk.into_iter().map(Ok::<_, DataFusionError>)).try_flatten();
        out.push(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), joined)));
    }
    out
}
