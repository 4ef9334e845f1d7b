//! The stream of a row-level statement, taken apart: positions to delete, rows to write.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, StringArray};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int32Type, Int64Type, SchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt, TryStreamExt};

use crate::dv::DeletionVector;
use crate::{Error, Result};

/// What a row of the stream asks for; the values of the `__floe_op` column.
pub mod op {
    /// Copy-on-write: the row stays as it is.
    pub const KEEP: i32 = 0;
    /// The row goes.
    pub const DELETE: i32 = 1;
    /// The row is replaced.
    pub const UPDATE: i32 = 2;
    /// A new row.
    pub const INSERT: i32 = 3;
    /// Copy-on-write MERGE: a matched row that no clause changes; it stays.
    pub const MATCHED_KEEP: i32 = 4;
    /// Merge-on-read MERGE: a matched row that no clause changes; nothing is written.
    pub const MATCHED_SKIP: i32 = 5;
}

/// Deleted positions by data file, as the file's manifest entry spells its path.
pub type Positions = HashMap<String, DeletionVector>;

/// Collects positions from many streams; refuses a position that comes twice when asked to.
#[derive(Debug, Default, Clone)]
pub struct PositionSink {
    inner: Arc<Mutex<Positions>>,
    refuse_repeats: bool,
}

impl PositionSink {
    /// A sink; `refuse_repeats` for MERGE, where a target row matched by two source rows is an error.
    pub fn new(refuse_repeats: bool) -> Self {
        Self { inner: Arc::default(), refuse_repeats }
    }

    /// Adds the rows of a batch.
    pub fn add(&self, file: &ArrayRef, pos: &ArrayRef) -> Result<()> {
        if file.is_empty() {
            return Ok(());
        }
        let pos = pos
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| Error::internal(format!("_pos has type {}", pos.data_type())))?;
        let (keys, names) = file_names(file)?;
        let mut map = self.inner.lock().expect("no panic while held");
        let mut i = 0;
        while i < keys.len() {
            let key = keys[i];
            let dv = map.entry(names.value(key as usize).to_string()).or_default();
            while i < keys.len() && keys[i] == key {
                let fresh = dv.try_insert(pos.value(i) as u64)?;
                if !fresh && self.refuse_repeats {
                    return Err(Error::invalid(
                        "MERGE: a single row of the target table matches more than one row of the source; \
                         make the source unique on the join condition",
                    ));
                }
                i += 1;
            }
        }
        Ok(())
    }

    /// What was collected.
    pub fn take(&self) -> Positions {
        std::mem::take(&mut *self.inner.lock().expect("no panic while held"))
    }
}

/// A `_file` column as keys into names; a plan may have turned the dictionary into plain strings.
fn file_names(file: &ArrayRef) -> Result<(Vec<i32>, StringArray)> {
    let dict_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let dict = cast(file, &dict_type)?;
    let dict: &DictionaryArray<Int32Type> =
        dict.as_dictionary_opt().ok_or_else(|| Error::internal("_file is no dictionary"))?;
    if dict.null_count() > 0 {
        return Err(Error::internal("_file is null for a row of the target"));
    }
    let names = dict.values().as_string_opt::<i32>().ok_or_else(|| Error::internal("_file is no string"))?;
    Ok((dict.keys().values().to_vec(), names.clone()))
}

/// Drains streams whose columns are `_file, _pos` into a sink, concurrently.
pub async fn collect_positions(streams: Vec<SendableRecordBatchStream>, sink: &PositionSink) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for mut s in streams {
        let sink = sink.clone();
        tasks.spawn(async move {
            while let Some(batch) = s.try_next().await.map_err(Error::from)? {
                sink.add(batch.column(0), batch.column(1))?;
            }
            Result::Ok(())
        });
    }
    join_all(tasks).await
}

/// The names of the data files in streams whose first column is `_file`.
pub async fn collect_files(streams: Vec<SendableRecordBatchStream>) -> Result<HashSet<String>> {
    let found: Arc<Mutex<HashSet<String>>> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for mut s in streams {
        let found = found.clone();
        tasks.spawn(async move {
            while let Some(batch) = s.try_next().await.map_err(Error::from)? {
                if batch.num_rows() == 0 {
                    continue;
                }
                let (keys, names) = file_names(batch.column(0))?;
                let mut last = -1;
                for k in keys {
                    if k != last {
                        found.lock().expect("no panic while held").insert(names.value(k as usize).to_string());
                        last = k;
                    }
                }
            }
            Result::Ok(())
        });
    }
    join_all(tasks).await?;
    let out = std::mem::take(&mut *found.lock().expect("no panic while held"));
    Ok(out)
}

async fn join_all(mut tasks: tokio::task::JoinSet<Result<()>>) -> Result<()> {
    while let Some(r) = tasks.join_next().await {
        r.map_err(|e| Error::internal(format!("task: {e}")))??;
    }
    Ok(())
}

/// Splits a stream `(_file, _pos, op, rest…)`: positions of deleted and updated rows go to the sink, and the rest of the
/// rows to be written comes out.
pub struct SplitStream {
    input: SendableRecordBatchStream,
    sink: PositionSink,
    checker: Option<PositionSink>,
    schema: SchemaRef,
}

/// Columns before the values to write.
pub const HEAD: usize = 3;

impl SplitStream {
    /// Wraps a stream. `checker` sees every matched row, changed or not, to refuse one that is matched twice.
    pub fn wrap(
        input: SendableRecordBatchStream,
        sink: PositionSink,
        checker: Option<PositionSink>,
    ) -> Result<SendableRecordBatchStream> {
        let all: Vec<usize> = (HEAD..input.schema().fields().len()).collect();
        let schema = Arc::new(input.schema().project(&all)?);
        Ok(Box::pin(Self { input, sink, checker, schema }))
    }

    fn take_apart(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let ops = cast(batch.column(2), &DataType::Int32)?;
        let ops = ops.as_primitive::<Int32Type>();
        let pick = |wanted: &[i32]| -> BooleanArray {
            ops.iter().map(|o| Some(o.is_some_and(|o| wanted.contains(&o)))).collect()
        };
        let add = |sink: &PositionSink, rows: &BooleanArray| -> Result<()> {
            if rows.true_count() == 0 {
                return Ok(());
            }
            let hit = filter_record_batch(&batch.project(&[0, 1])?, rows)?;
            sink.add(hit.column(0), hit.column(1))
        };
        if let Some(checker) = &self.checker {
            add(checker, &pick(&[op::DELETE, op::UPDATE, op::MATCHED_KEEP, op::MATCHED_SKIP]))?;
        }
        add(&self.sink, &pick(&[op::DELETE, op::UPDATE]))?;
        let write = pick(&[op::KEEP, op::UPDATE, op::INSERT, op::MATCHED_KEEP]);
        let values: Vec<usize> = (HEAD..batch.num_columns()).collect();
        let values = batch.project(&values)?;
        Ok(if write.true_count() == batch.num_rows() { values } else { filter_record_batch(&values, &write)? })
    }
}

impl Stream for SplitStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match self.input.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(batch))) => match self.take_apart(&batch) {
                    Ok(b) if b.num_rows() == 0 => continue,
                    Ok(b) => Poll::Ready(Some(Ok(b))),
                    Err(e) => Poll::Ready(Some(Err(e.into()))),
                },
                other => other,
            };
        }
    }
}

impl RecordBatchStream for SplitStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
