//! One batch of changes becomes one snapshot of the target.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, TryStreamExt};
use iceberg::spec::{FormatVersion, MAIN_BRANCH};

use super::equality::EqualityPlan;
use super::lookup::{self, Found, Keys};
use super::position;
use crate::cdc::columns::prune;
use crate::cdc::config::{DeleteFormat, WriteMode};
use crate::cdc::diff::{FileDiff, Side};
use crate::cdc::reader::RowReader;
use crate::commit::{self, Change, Producer, Validation};
use crate::deletes::DeleteLoader;
use crate::io::normalize;
use crate::manifest::{Content, DataFile};
use crate::rowlevel::{Target, write_deletes};
use crate::types::arrow_schema;
use crate::write::{InputMapping, WriteOptions, write_data_files};
use crate::{Error, ErrorKind, Result, Table};

/// Attempts to bring a batch onto a head that others keep moving.
const ATTEMPTS: u32 = 12;
/// Longest wait before the next attempt, in ms.
const LONGEST_WAIT_MS: u64 = 2000;

/// How changes are applied.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Strategy.
    pub mode: WriteMode,
    /// Key columns.
    pub keys: Vec<String>,
    /// Whether an insert replaces the row with its key.
    pub upsert: bool,
    /// Form of merge-on-read deletes.
    pub deletes: DeleteFormat,
    /// Name of the sync in summaries.
    pub sync_id: String,
    /// Columns that are written, as the rows bring them.
    pub columns: SchemaRef,
    /// The struct column whose fields are the row, if `only` says so.
    pub only: Option<String>,
}

/// What a batch did.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The target after it.
    pub table: Table,
    /// Its snapshot; the ledger's, when rows name their tables.
    pub snapshot_id: i64,
    /// Commits with rows.
    pub commits: u64,
    /// Rows written.
    pub inserted: u64,
    /// Rows removed or replaced.
    pub deleted: u64,
}

/// How a batch ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is in the target.
    Done(Applied),
    /// Another run of the same sync moved the position first; nothing of this batch is in the target.
    Superseded(Table),
}

/// Applies a stream of changes whose column `_change_type` says what they are, and commits them with `summary`.
///
/// Errors: a change that the mode can't take, a key that does not identify rows, a conflict that keeps coming back. After an
/// error the target is as it was.
pub async fn apply(
    target: &Table,
    plan: &Plan,
    changes: SendableRecordBatchStream,
    summary: Vec<(String, String)>,
) -> Result<Outcome> {
    let before = known_position(target, plan)?;
    if plan.mode == WriteMode::MergeOnRead && plan.deletes == DeleteFormat::Equality {
        // refused before anything is written
        EqualityPlan::new(target, &plan.keys).await?;
    }
    let state = Arc::new(Mutex::new(State {
        keys: (!plan.keys.is_empty()).then(|| Keys::new(target, &plan.keys, plan.upsert)).transpose()?,
        gone: Vec::new(),
        inserted: 0,
    }));
    let router = Router::new(changes, plan.clone(), state.clone())?;
    let rows: SendableRecordBatchStream =
        if plan.upsert { last_of_each_key(router, &state).await? } else { Box::pin(router) };
    let options = WriteOptions { mapping: InputMapping::ByName, ..Default::default() };
    let new = write_data_files(target, vec![rows], &options).await?;
    let mut state = std::mem::take(&mut *state.lock().map_err(|_| Error::internal("the change stream panicked"))?);
    let keys = state.keys.take().filter(|k| !k.is_empty()).map(Keys::seal);
    let done = commit_batch(target, plan, keys, &state, &new, summary, before).await;
    if !matches!(done, Ok(Outcome::Done(_))) && !matches!(&done, Err(e) if e.kind() == ErrorKind::CommitUnknown) {
        discard(target, &new).await;
    }
    done
}

async fn commit_batch(
    target: &Table,
    plan: &Plan,
    keys: Option<Arc<Keys>>,
    state: &State,
    new: &[DataFile],
    summary: Vec<(String, String)>,
    before: Option<i64>,
) -> Result<Outcome> {
    let mut table = target.clone();
    let mut last: Option<Error> = None;
    for attempt in 0..ATTEMPTS {
        let (change, own, deleted) = change(&table, plan, keys.clone(), state, new, summary.clone()).await?;
        let inserted = state.inserted;
        let error = match commit::commit(&table, change).await {
            Ok(c) => {
                return Ok(Outcome::Done(Applied {
                    table: c.table,
                    snapshot_id: c.snapshot_id,
                    commits: 1,
                    inserted,
                    deleted,
                }));
            }
            Err(e) => e,
        };
        if error.kind() == ErrorKind::CommitUnknown {
            // the position in the target tells whether it happened
            let fresh = table.refresh().await.map_err(|_| rebuild(&error))?;
            if !plan.sync_id.is_empty()
                && let Some(p) = position::find(&fresh, &plan.sync_id)?
                && Some(p.target_snapshot_id) != before
                && summary.iter().any(|(k, v)| k == "floe.cdc.source-snapshot-id" && *v == p.snapshot_id.to_string())
            {
                let snapshot_id = p.target_snapshot_id;
                return Ok(Outcome::Done(Applied { table: fresh, snapshot_id, commits: 1, inserted, deleted }));
            }
            return Err(error);
        }
        discard(&table, &own).await;
        if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::CommitFailed) {
            return Err(error);
        }
        // the wait grows, and differs between two syncs of one target
        let longest = (10u64 << attempt.min(8)).min(LONGEST_WAIT_MS);
        tokio::time::sleep(Duration::from_millis(longest / 2 + u64::from(std::process::id()) % (longest / 2 + 1)))
            .await;
        table = table.refresh().await?;
        if known_position(&table, plan)? != before {
            return Ok(Outcome::Superseded(table));
        }
        last = Some(error);
    }
    let newest = table.metadata().current_snapshot_id().unwrap_or(-1);
    let cause = last.map(|e| e.to_string()).unwrap_or_default();
    Err(Error::conflict(format!(
        "the target was changed by others during each of {ATTEMPTS} attempts, last by snapshot {newest}: {cause}"
    ))
    .at(target.ident()))
}

/// Target snapshot that holds the sync's position; a write that is no sync has none.
fn known_position(table: &Table, plan: &Plan) -> Result<Option<i64>> {
    if plan.sync_id.is_empty() {
        return Ok(None);
    }
    Ok(position::find(table, &plan.sync_id)?.map(|p| p.target_snapshot_id))
}

fn rebuild(e: &Error) -> Error {
    Error::new(e.kind(), e.message().to_string())
}

/// The change for the table's present head; files that only this attempt uses; rows removed.
async fn change(
    table: &Table,
    plan: &Plan,
    keys: Option<Arc<Keys>>,
    state: &State,
    new: &[DataFile],
    summary: Vec<(String, String)>,
) -> Result<(Change, Vec<DataFile>, u64)> {
    let head = table.metadata().current_snapshot_id();
    let mut validation = Validation {
        from_snapshot: head,
        removed_files_exist: true,
        // whatever others add since the head was read may hold one of the keys, or be another run of this sync
        no_conflicting_data: true,
        no_conflicting_deletes: true,
        ..Validation::default()
    };
    let mut own = Vec::new();
    let mut removed = Vec::new();
    let mut deleted = 0;
    let mut producer = Producer::RowDelta;
    if plan.mode == WriteMode::MergeOnRead && plan.deletes == DeleteFormat::Equality {
        let deletes = EqualityPlan::new(table, &plan.keys).await?;
        own = deletes.write(&state.gone).await?;
        if plan.sync_id.is_empty() {
            // rows that others add meanwhile are older than these deletes and go; only those the deletes can't reach conflict
            validation.no_conflicting_data = !deletes.is_global();
            validation.filter = Some(deletes.unreached());
            validation.no_conflicting_deletes = false;
        }
        deleted = own.iter().map(|f| u64::try_from(f.record_count).unwrap_or(0)).sum();
    } else if let Some(keys) = keys
        && head.is_some()
    {
        let found = lookup::find(table, keys).await?;
        if found.missing > 0 && !plan.upsert {
            tracing::warn!("{} changed keys have no row in the target {}", found.missing, table.ident());
        }
        deleted = found.positions.values().map(crate::dv::DeletionVector::len).sum();
        if plan.mode == WriteMode::CopyOnWrite {
            producer = Producer::Overwrite;
            (own, removed) = rewrite(table, &found).await?;
        } else {
            let target =
                Target { table: table.clone(), branch: MAIN_BRANCH.into(), alias: table.ident().name().to_string() };
            let deletes = write_deletes(&target, &found.planned, found.positions).await?;
            (own, removed) = (deletes.added, deletes.removed);
        }
        validation.data_files_exist = own
            .iter()
            .filter(|f| f.content == Content::PositionDeletes)
            .filter_map(|f| f.referenced_data_file.clone())
            .collect();
    } else if plan.mode == WriteMode::CopyOnWrite {
        producer = Producer::Overwrite;
    }
    let added: Vec<DataFile> = new.iter().chain(&own).cloned().collect();
    if added.is_empty() && removed.is_empty() {
        // nothing to change, but the position moves on
        producer = Producer::FastAppend;
    }
    Ok((Change { added, removed, validation, summary, ..Change::new(producer) }, own, deleted))
}

/// Copy-on-write: rewrites the files that hold a found row without it; rows keep their lineage (LINEAGE-42).
async fn rewrite(table: &Table, found: &Found) -> Result<(Vec<DataFile>, Vec<DataFile>)> {
    let metadata = table.metadata().clone();
    let lineage = metadata.format_version() >= FormatVersion::V3;
    let schema = metadata.current_schema().clone();
    let arrow = arrow_schema(&schema, &metadata.ext);
    let mut fields: Vec<Arc<Field>> = arrow.fields().iter().cloned().collect();
    if lineage {
        for name in ["_row_id", "_last_updated_sequence_number"] {
            fields.push(Arc::new(Field::new(name, DataType::Int64, true)));
        }
    }
    let output = Arc::new(ArrowSchema::new(fields));
    let reader = RowReader::new(table.io().clone(), metadata.clone(), schema, arrow, None);
    let loader = Arc::new(DeleteLoader::new(table.io().clone(), metadata));
    let tasks: Vec<_> = found
        .planned
        .tasks
        .iter()
        .filter_map(|t| {
            let hits = found.positions.iter().find(|(p, _)| normalize(p) == normalize(&t.entry.file.path))?.1.clone();
            Some((t.clone(), hits))
        })
        .collect();
    let replaced = tasks.iter().map(|(t, _)| t.entry.file.clone()).collect();
    let out = output.clone();
    let stream = futures::stream::iter(tasks)
        .then(move |(task, hits)| {
            let (reader, loader, output) = (reader.clone(), loader.clone(), out.clone());
            async move {
                let diff = FileDiff {
                    before: None,
                    after: Some(Side { entry: task.entry.clone(), deletes: task.deletes.clone() }),
                    equality: Vec::new(),
                };
                let prepared = Arc::new(reader.prepare(&diff, &loader).await?);
                let keep = prepared.candidates.difference(&hits);
                let rows = reader.read(prepared, Some(keep)).await?;
                Ok::<_, Error>(rows.map(move |c| {
                    let c = c?;
                    let mut columns: Vec<ArrayRef> = c.rows.columns().to_vec();
                    if lineage {
                        columns.push(Arc::new(c.row_ids));
                        columns.push(Arc::new(c.last_updated));
                    }
                    Ok::<_, Error>(RecordBatch::try_new(output.clone(), columns)?)
                }))
            }
        })
        .try_flatten()
        .map_err(datafusion::error::DataFusionError::from);
    let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(output, stream));
    let options = WriteOptions { lineage, ..Default::default() };
    Ok((write_data_files(table, vec![stream], &options).await?, replaced))
}

pub(super) async fn discard(table: &Table, files: &[DataFile]) {
    let mut paths: Vec<_> = files.iter().map(|f| f.path.clone()).collect();
    paths.sort();
    paths.dedup();
    for p in paths {
        if let Err(e) = table.io().delete(&p).await {
            tracing::warn!("could not delete {p} of a sync that did not commit: {e}");
        }
    }
}

/// What the change stream leaves behind as it passes.
#[derive(Default)]
struct State {
    keys: Option<Keys>,
    /// Key columns of removed rows, for equality deletes.
    gone: Vec<RecordBatch>,
    inserted: u64,
}

/// Takes changes apart: keys of removed rows go to the state, rows to be written come out.
struct Router {
    input: SendableRecordBatchStream,
    plan: Plan,
    state: Arc<Mutex<State>>,
    change_type: usize,
}

impl Router {
    fn new(input: SendableRecordBatchStream, plan: Plan, state: Arc<Mutex<State>>) -> Result<Self> {
        let change_type = input.schema().index_of("_change_type")?;
        Ok(Self { input, plan, state, change_type })
    }

    fn route(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let types = batch
            .column(self.change_type)
            .as_string_opt::<i32>()
            .ok_or_else(|| Error::internal("_change_type is no string"))?;
        let of = |wanted: &[&str]| -> BooleanArray {
            types.iter().map(|t| Some(t.is_some_and(|t| wanted.contains(&t)))).collect()
        };
        let write = of(&["INSERT", "UPDATE_AFTER"]);
        let gone = if self.plan.upsert {
            of(&["DELETE", "UPDATE_BEFORE", "INSERT", "UPDATE_AFTER"])
        } else {
            of(&["DELETE", "UPDATE_BEFORE"])
        };
        if self.plan.mode == WriteMode::Append && gone.true_count() > 0 {
            return Err(super::appends::removes());
        }
        let rows = self.rows(batch)?;
        let mut state = self.state.lock().map_err(|_| Error::internal("the change stream panicked"))?;
        if gone.true_count() > 0 {
            let removed = filter_record_batch(&rows, &gone)?;
            if self.plan.mode == WriteMode::MergeOnRead && self.plan.deletes == DeleteFormat::Equality {
                state.gone.push(EqualityPlan::key_columns(&removed, &self.plan.keys)?);
            }
            if let Some(keys) = &mut state.keys {
                keys.add(&removed)?;
            }
        }
        let out = filter_record_batch(&rows, &write)?;
        state.inserted += out.num_rows() as u64;
        Ok(out)
    }

    /// The columns that are written.
    fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let find = |name: &str| -> Result<ArrayRef> {
            if let Some(only) = &self.plan.only {
                let s = batch
                    .column_by_name(only)
                    .and_then(|c| c.as_struct_opt())
                    .ok_or_else(|| Error::internal("`only` names no struct"))?;
                let c = s.column_by_name(name).ok_or_else(|| Error::internal(format!("no field {name}")))?;
                // a null struct is a row of nulls
                return match s.nulls() {
                    None => Ok(c.clone()),
                    Some(_) => Ok(arrow::compute::nullif(c, &arrow::compute::is_null(s)?)?),
                };
            }
            batch.column_by_name(name).cloned().ok_or_else(|| Error::internal(format!("no column {name}")))
        };
        let columns =
            self.plan.columns.fields().iter().map(|f| prune(&find(f.name())?, f)).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(self.plan.columns.clone(), columns)?)
    }
}

impl Stream for Router {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match self.input.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(batch))) => match self.route(&batch) {
                    Ok(b) if b.num_rows() == 0 => continue,
                    Ok(b) => Poll::Ready(Some(Ok(b))),
                    Err(e) => Poll::Ready(Some(Err(e.into()))),
                },
                other => other,
            };
        }
    }
}

impl RecordBatchStream for Router {
    fn schema(&self) -> SchemaRef {
        self.plan.columns.clone()
    }
}

/// Upsert: of several rows with one key in a batch the last counts (case H5). The rows of the batch are held in memory.
async fn last_of_each_key(mut router: Router, state: &Arc<Mutex<State>>) -> Result<SendableRecordBatchStream> {
    let schema = router.plan.columns.clone();
    let mut batches = Vec::new();
    let mut last: std::collections::HashMap<Box<[u8]>, (usize, usize)> = std::collections::HashMap::new();
    while let Some(batch) = router.next().await {
        let batch = batch?;
        let state = state.lock().map_err(|_| Error::internal("the change stream panicked"))?;
        let Some(keys) = &state.keys else {
            return Err(Error::invalid("`upsert` needs equality columns"));
        };
        for (i, row) in keys.encode(&batch)?.iter().enumerate() {
            last.insert(row.as_ref().into(), (batches.len(), i));
        }
        drop(state);
        batches.push(batch);
    }
    let mut at: Vec<(usize, usize)> = last.into_values().collect();
    at.sort_unstable();
    let refs: Vec<&RecordBatch> = batches.iter().collect();
    let out = if refs.is_empty() { Vec::new() } else { vec![interleave_record_batch(&refs, &at)?] };
    state.lock().map_err(|_| Error::internal("the change stream panicked"))?.inserted = at.len() as u64;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(out.into_iter().map(Ok)))))
}
