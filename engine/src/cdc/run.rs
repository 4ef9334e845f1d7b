//! The work of a changelog scan: unit by unit, in as many passes as memory asks for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::{interleave_record_batch, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use iceberg::spec::SnapshotRef;
use tokio::sync::mpsc::Sender;

use super::carry::{self, Index, Lineage, Span, Stretch};
use super::changelog::MetaColumns;
use super::columns::prune;
use super::diff::{DiffPlanner, FileDiff};
use super::range::Step;
use super::reader::{Changed, Kind, Prepared, RowReader};
use super::reading::{self, ChangedFile, ChangesExec};
use super::resolve::{ChangeType, Collected, Encoder, Pairing, resolve, row_hash};
use crate::deletes::DeleteLoader;
use crate::dv::DeletionVector;
use crate::expr::FilePruner;
use crate::{Error, Result, Table};

/// Rows of an output batch at most.
const OUTPUT_ROWS: usize = 8192;
/// Files whose deletes are loaded at a time.
const PREPARE_CONCURRENCY: usize = 8;
/// Files that are decoded at a time.
const FILE_CONCURRENCY: usize = 2;

/// A stream of changed rows that is yet to be opened, each with the place of its source.
type Opening = BoxFuture<'static, Result<BoxStream<'static, Result<(usize, Changed)>>>>;

/// Output of a scan; closed when nobody reads any more.
type Output = Sender<std::result::Result<RecordBatch, DataFusionError>>;

/// A checked changelog scan.
pub(super) struct Run {
    pub(super) table: Table,
    pub(super) steps: Vec<Step>,
    pub(super) pruner: Arc<FilePruner>,
    pub(super) reader: RowReader,
    pub(super) shape: Shape,
    /// Number of output columns.
    pub(super) outputs: usize,
    pub(super) schema: SchemaRef,
    pub(super) net: bool,
    pub(super) raw: bool,
    pub(super) meta: MetaColumns,
    pub(super) memory: usize,
    /// May have the reading of files run elsewhere.
    pub(super) elsewhere: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

/// How rows that were read become rows to be resolved.
#[derive(Clone)]
pub(super) struct Shape {
    /// Columns that are compared: output columns, then key columns.
    pub(super) values: SchemaRef,
    /// Number of key columns.
    pub(super) keys: usize,
    pub(super) pairing: Pairing,
}

/// A changed file of a snapshot, with the rows of it that are still in question.
struct Source {
    ordinal: u32,
    diff: FileDiff,
    prepared: Arc<Prepared>,
    /// Candidates that are no carry-overs; `None` = all.
    only: Option<DeletionVector>,
}

impl Source {
    fn rows(&self) -> u64 {
        self.only.as_ref().unwrap_or(&self.prepared.candidates).len()
    }

    /// As a file of a plan.
    fn to_read(&self) -> ChangedFile {
        let f = self.diff.file();
        let share = self.rows() as f64 / f.record_count.max(1) as f64;
        ChangedFile { diff: self.diff.clone(), only: self.only.clone(), bytes: (f.file_size as f64 * share) as u64 }
    }
}

impl Shape {
    /// The rows that this pass takes: rows that may be matched with each other fall into the same pass.
    fn collect(&self, c: Changed, ordinal: u32, pass: u64, passes: u64) -> Result<Option<Collected>> {
        let rows = self.of(&c.rows)?;
        if passes == 1 {
            return Ok(Some(Collected { rows, kind: c.kind, ordinal, row_ids: c.row_ids }));
        }
        let from = match self.pairing {
            Pairing::Key => rows.num_columns() - self.keys,
            _ => 0,
        };
        let columns = &rows.columns()[from..];
        let encoded = Encoder::new(columns.iter().map(|c| c.data_type()))?.encode(columns)?;
        let mine: Vec<u32> = (0..rows.num_rows())
            .filter(|i| {
                let hash = match self.pairing {
                    Pairing::RowId if c.row_ids.is_valid(*i) => c.row_ids.value(*i) as u64,
                    _ => row_hash(encoded.row(*i)),
                };
                hash % passes == pass
            })
            .filter_map(|i| u32::try_from(i).ok())
            .collect();
        if mine.is_empty() {
            return Ok(None);
        }
        let mine = UInt32Array::from(mine);
        let row_ids = take(&c.row_ids, &mine, None)?;
        let row_ids = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&row_ids).clone();
        Ok(Some(Collected { rows: take_record_batch(&rows, &mine)?, kind: c.kind, ordinal, row_ids }))
    }

    /// Read columns as output columns and key columns.
    fn of(&self, read: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .values
            .fields()
            .iter()
            .map(|f| {
                let c = read
                    .column_by_name(f.name())
                    .ok_or_else(|| Error::internal(format!("column {} was not read", f.name())))?;
                prune(c, f)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(self.values.clone(), columns)?)
    }
}

impl Run {
    /// Sends all changes.
    pub(super) async fn all(&self, tx: Output) -> Result<()> {
        let mut planner = DiffPlanner::new(self.table.clone(), self.pruner.clone());
        let mut unit = Vec::new();
        for (ordinal, step) in self.steps.iter().enumerate() {
            let ordinal = u32::try_from(ordinal).map_err(|_| Error::invalid("more snapshots than fit an ordinal"))?;
            let mut sources = self.sources(&mut planner, step, ordinal).await?;
            if self.net {
                unit.append(&mut sources);
            } else {
                self.unit(sources, &tx).await?;
            }
            if tx.is_closed() {
                return Ok(());
            }
        }
        if self.net {
            self.unit(unit, &tx).await?;
        }
        Ok(())
    }

    /// The changed files of a snapshot, without rows that copy-on-write only moved as far as lineage tells.
    async fn sources(&self, planner: &mut DiffPlanner, step: &Step, ordinal: u32) -> Result<Vec<Source>> {
        let diffs = planner.plan(step).await?;
        // deletes are cached for one snapshot: a longer life would hold every delete file of the range
        let loader = DeleteLoader::new(self.table.io().clone(), self.table.metadata().clone());
        let prepared: Vec<(FileDiff, Prepared)> = futures::stream::iter(diffs)
            .map(|d| {
                let loader = &loader;
                async move { self.reader.prepare(&d, loader).await.map(|p| (d, p)) }
            })
            .buffered(PREPARE_CONCURRENCY)
            .try_collect()
            .await?;
        let mut sources: Vec<Source> = prepared
            .into_iter()
            .filter(|(_, p)| !p.candidates.is_empty())
            .map(|(diff, p)| Source { ordinal, diff, prepared: Arc::new(p), only: None })
            .collect();
        if !self.raw {
            self.drop_carried_over(&mut sources).await?;
        }
        Ok(sources)
    }

    /// A row of a removed file that is in an added file with the same `_row_id` and `_last_updated_sequence_number` was only
    /// moved (CDC-25, LINEAGE-12). Only the lineage columns are read for this.
    async fn drop_carried_over(&self, sources: &mut [Source]) -> Result<()> {
        let pick = |removed: bool, sources: &[Source]| -> Vec<usize> {
            (0..sources.len())
                .filter(|i| {
                    let p = &sources[*i].prepared;
                    p.is_whole() && p.has_lineage() && p.may_delete == removed
                })
                .collect()
        };
        let (removed, added) = (pick(true, sources), pick(false, sources));
        if removed.is_empty() || added.is_empty() {
            return Ok(());
        }
        let reader = self.reader.lineage_only()?;
        let rows: u64 = removed.iter().map(|i| sources[*i].rows()).sum();
        let prepared = |i: &usize| (*i as u32, sources[*i].prepared.clone());
        let removed: Vec<_> = removed.iter().map(prepared).collect();
        let added: Vec<_> = added.iter().map(prepared).collect();
        let mut moved: HashMap<u32, DeletionVector> = HashMap::new();
        let (mut pass, mut passes) = (0, 1);
        while pass < passes {
            let runs = each(removed.clone(), |(i, p)| runs_of(reader.clone(), i, p, pass, passes));
            let runs: Vec<Stretch> = runs.await?.into_iter().flatten().collect();
            if passes == 1 && runs.len() > carry::MAX_RUNS {
                passes = rows.div_ceil(carry::MAX_RUNS as u64);
                continue;
            }
            let index = Arc::new(Index::new(runs));
            let spans = each(added.clone(), |(_, p)| spans_of(reader.clone(), index.clone(), p));
            for ((i, _), spans) in added.iter().zip(spans.await?) {
                carry::mark(&mut moved, *i, &spans)?;
            }
            pass += 1;
        }
        for (i, rows) in moved {
            let source = &mut sources[i as usize];
            source.only = Some(source.prepared.candidates.difference(&rows));
        }
        Ok(())
    }

    /// Resolves and sends the changes of a unit: a snapshot, or the whole range for net changes.
    async fn unit(&self, sources: Vec<Source>, tx: &Output) -> Result<()> {
        let deletes = sources.iter().any(|s| s.prepared.may_delete);
        let inserts = sources.iter().any(|s| s.prepared.may_insert);
        let there = self.elsewhere(&sources)?;
        let ordinals: Arc<Vec<u32>> = Arc::new(sources.iter().map(|s| s.ordinal).collect());
        // one kind of rows alone has nothing to be matched with
        if self.raw || !(deletes && inserts) {
            for stream in self.streams(&sources, there.as_ref())? {
                let mut stream = stream.await?;
                while let Some((file, c)) = stream.try_next().await? {
                    let n = c.rows.num_rows();
                    let change = if c.kind == Kind::Delete { ChangeType::Delete } else { ChangeType::Insert };
                    let values = self.shape.of(&c.rows)?;
                    let batch =
                        self.finish(&values, &vec![change; n], &vec![ordinals[file]; n], Arc::new(c.row_ids))?;
                    if !send(tx, batch).await {
                        return Ok(());
                    }
                }
            }
            return Ok(());
        }
        let passes = self.passes(&sources);
        for pass in 0..passes {
            let gathered = each(self.streams(&sources, there.as_ref())?, |stream| {
                let (shape, ordinals) = (self.shape.clone(), ordinals.clone());
                async move {
                    let mut mine: Vec<Collected> = Vec::new();
                    let mut stream = stream.await?;
                    while let Some((file, c)) = stream.try_next().await? {
                        mine.extend(shape.collect(c, ordinals[file], pass, passes)?);
                    }
                    Ok(mine)
                }
            });
            let batches: Vec<Collected> = gathered.await?.into_iter().flatten().collect();
            let resolved = resolve(&batches, self.shape.keys, self.shape.pairing)?;
            let rows: Vec<&RecordBatch> = batches.iter().map(|b| &b.rows).collect();
            for chunk in resolved.chunks(OUTPUT_ROWS) {
                let at: Vec<(usize, usize)> = chunk.iter().map(|r| r.at).collect();
                let values = interleave_record_batch(&rows, &at)?;
                let ids: Int64Array = at
                    .iter()
                    .map(|(b, r)| batches[*b].row_ids.is_valid(*r).then(|| batches[*b].row_ids.value(*r)))
                    .collect();
                let changes: Vec<ChangeType> = chunk.iter().map(|r| r.change).collect();
                let ordinals: Vec<u32> = chunk.iter().map(|r| r.ordinal).collect();
                if !send(tx, self.finish(&values, &changes, &ordinals, Arc::new(ids))?).await {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The plan of the unit's reading, if it runs elsewhere.
    fn elsewhere(&self, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(rule) = &self.elsewhere else { return Ok(None) };
        let files = sources.iter().map(Source::to_read).collect();
        let plan = Arc::new(ChangesExec::new(self.reader.clone(), files));
        let placed = rule.optimize(plan, crate::sql::planner::config().options())?;
        Ok((!placed.as_any().is::<ChangesExec>()).then_some(placed))
    }

    /// The changed rows of the sources, each with the place of its source: a stream a file here, a stream a partition there.
    fn streams(&self, sources: &[Source], there: Option<&Arc<dyn ExecutionPlan>>) -> Result<Vec<Opening>> {
        if let Some(plan) = there {
            let read = self.reader.arrow();
            let rows = execute_stream_partitioned(plan.clone(), Arc::default())?;
            return Ok(rows
                .into_iter()
                .map(|rows| {
                    let read = read.clone();
                    let changed = rows.map(move |b| reading::from_batch(&read, &b?));
                    let changed = changed.try_filter_map(|c| futures::future::ready(Ok(c)));
                    futures::future::ready(Ok(changed.boxed())).boxed()
                })
                .collect());
        }
        Ok(sources
            .iter()
            .enumerate()
            .map(|(at, s)| {
                let (reader, file, only) = (self.reader.clone(), s.prepared.clone(), s.only.clone());
                async move { Ok(reader.read(file, only).await?.map_ok(move |c| (at, c)).boxed()) }.boxed()
            })
            .collect())
    }

    /// Passes over the files so that the rows of one pass fit the memory.
    fn passes(&self, sources: &[Source]) -> u64 {
        let bytes: f64 = sources
            .iter()
            .filter_map(|s| {
                let f = s.prepared.file()?;
                // decoded rows and their encoded twins are several times what is stored
                let per_row = f.file_size as f64 / f.record_count.max(1) as f64 * 6.0 + 128.0;
                Some(s.rows() as f64 * per_row)
            })
            .sum();
        ((bytes / self.memory as f64).ceil() as u64).clamp(1, 1 << 16)
    }

    /// Output columns of `values` with the metadata columns.
    fn finish(
        &self,
        values: &RecordBatch,
        changes: &[ChangeType],
        ordinals: &[u32],
        row_ids: ArrayRef,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = values.columns()[..self.outputs].to_vec();
        if self.meta != MetaColumns::None {
            columns.push(Arc::new(StringArray::from_iter_values(changes.iter().map(|c| c.as_str()))));
        }
        if matches!(self.meta, MetaColumns::Spark | MetaColumns::All) {
            let snapshot = |o: &u32| -> &SnapshotRef { &self.steps[*o as usize].snapshot };
            columns.push(Arc::new(Int32Array::from_iter_values(ordinals.iter().map(|o| *o as i32))));
            columns.push(Arc::new(Int64Array::from_iter_values(ordinals.iter().map(|o| snapshot(o).snapshot_id()))));
            if self.meta == MetaColumns::All {
                columns.push(Arc::new(Int64Array::from_iter_values(
                    ordinals.iter().map(|o| snapshot(o).sequence_number()),
                )));
                columns.push(Arc::new(
                    TimestampMicrosecondArray::from_iter_values(
                        ordinals.iter().map(|o| snapshot(o).timestamp_ms() * 1000),
                    )
                    .with_timezone("UTC"),
                ));
                columns.push(row_ids);
            }
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

/// Runs `work` for several files, a task each, so that they decode on all cores; results in the files' order.
pub(super) async fn each<I, T, F>(files: impl IntoIterator<Item = I>, work: impl Fn(I) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let tasks: Vec<F> = files.into_iter().map(work).collect();
    futures::stream::iter(tasks)
        .map(|task| async move {
            tokio::spawn(task).await.map_err(|e| Error::internal(format!("reading of a file stopped: {e}")))?
        })
        .buffered(FILE_CONCURRENCY)
        .try_collect()
        .await
}

/// The rows of a removed file as runs.
async fn runs_of(reader: RowReader, source: u32, file: Arc<Prepared>, pass: u64, passes: u64) -> Result<Vec<Stretch>> {
    let mut runs = Vec::new();
    let mut stream = reader.read(file, None).await?;
    while let Some(c) = stream.try_next().await? {
        carry::add_runs(&mut runs, source, &lineage(&c), |id| carry::in_pass(id, pass, passes));
        if passes == 1 && runs.len() > carry::MAX_RUNS {
            // the caller starts again with several passes
            break;
        }
    }
    Ok(runs)
}

/// The rows of an added file that were only moved.
async fn spans_of(reader: RowReader, index: Arc<Index>, file: Arc<Prepared>) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    let mut stream = reader.read(file, None).await?;
    while let Some(c) = stream.try_next().await? {
        index.find(&mut spans, &lineage(&c));
    }
    Ok(spans)
}

fn lineage(c: &Changed) -> Lineage<'_> {
    Lineage { ids: &c.row_ids, updated: &c.last_updated, positions: &c.positions }
}

/// Sends a batch; false when nobody listens any more.
async fn send(tx: &Output, batch: RecordBatch) -> bool {
    batch.num_rows() == 0 || tx.send(Ok(batch)).await.is_ok()
}
