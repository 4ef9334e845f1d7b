//! The reading of changed files as a physical plan: what a changelog may have run elsewhere.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, Schema as ArrowSchema, SchemaRef, UInt32Type, UInt64Type,
};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::diff::FileDiff;
use super::reader::{Changed, Kind, RowReader};
use crate::deletes::DeleteLoader;
use crate::dv::DeletionVector;
use crate::{Error, Result};

/// Stored bytes of files that one task reads, about.
const TASK_BYTES: u64 = 64 << 20;
/// Columns after those of the table: file, whether the row comes, position, row id, sequence number.
const EXTRA: usize = 5;

/// A changed file of a changelog's unit.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    /// What changed.
    pub(super) diff: FileDiff,
    /// The rows in question; `None` = all that may have changed.
    pub(super) only: Option<DeletionVector>,
    /// Share of the file that is read, in bytes.
    pub(super) bytes: u64,
}

/// Reads the changed rows of files; a partition reads some of them, in order.
#[derive(Debug)]
pub struct ChangesExec {
    pub(super) reader: RowReader,
    pub(super) files: Arc<Vec<ChangedFile>>,
    /// Places in `files`, a list a partition.
    pub(super) groups: Vec<Vec<usize>>,
    loader: Arc<DeleteLoader>,
    properties: Arc<PlanProperties>,
}

impl ChangesExec {
    /// A plan over `files`, in order.
    pub(super) fn new(reader: RowReader, files: Vec<ChangedFile>) -> Self {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut room = 0u64;
        for (at, f) in files.iter().enumerate() {
            match groups.last_mut() {
                Some(last) if f.bytes <= room => last.push(at),
                _ => {
                    room = TASK_BYTES;
                    groups.push(vec![at]);
                }
            }
            room = room.saturating_sub(f.bytes);
        }
        Self::grouped(reader, files, groups)
    }

    pub(super) fn grouped(reader: RowReader, files: Vec<ChangedFile>, groups: Vec<Vec<usize>>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema_of(reader.arrow())),
            Partitioning::UnknownPartitioning(groups.len().max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let loader = Arc::new(reader.loader());
        Self { reader, files: Arc::new(files), groups, loader, properties }
    }

    /// Bytes of data files that are read, as stored.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }
}

/// Columns of the table as they are read, then those that say what a row is.
fn schema_of(read: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<FieldRef> = read.fields().iter().cloned().collect();
    let extra: [Field; EXTRA] = [
        Field::new("__floe_file", DataType::UInt32, false),
        Field::new("__floe_comes", DataType::Boolean, false),
        Field::new("__floe_pos", DataType::UInt64, false),
        Field::new("__floe_row_id", DataType::Int64, true),
        Field::new("__floe_sequence", DataType::Int64, true),
    ];
    fields.extend(extra.into_iter().map(Arc::new));
    Arc::new(ArrowSchema::new(fields))
}

/// Changed rows of a file as a batch.
fn to_batch(schema: &SchemaRef, file: u32, c: Changed) -> Result<RecordBatch> {
    let n = c.positions.len();
    let mut columns: Vec<ArrayRef> = c.rows.columns().to_vec();
    columns.push(Arc::new(UInt32Array::from(vec![file; n])));
    columns.push(Arc::new(BooleanArray::from(vec![c.kind == Kind::Insert; n])));
    columns.push(Arc::new(UInt64Array::from(c.positions)));
    columns.push(Arc::new(c.row_ids));
    columns.push(Arc::new(c.last_updated));
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// The file and the changed rows of a batch of [`to_batch`].
pub(super) fn from_batch(read: &SchemaRef, batch: &RecordBatch) -> Result<Option<(usize, Changed)>> {
    let other = || Error::internal("a batch of changes has other columns than were asked for");
    if batch.num_rows() == 0 {
        return Ok(None);
    }
    let n = batch.num_columns().checked_sub(EXTRA).filter(|n| *n == read.fields().len()).ok_or_else(other)?;
    let files = batch.column(n).as_primitive_opt::<UInt32Type>().ok_or_else(other)?.values();
    let comes = batch.column(n + 1).as_boolean_opt().ok_or_else(other)?;
    let positions = batch.column(n + 2).as_primitive_opt::<UInt64Type>().ok_or_else(other)?;
    let longs =
        |i: usize| -> Result<Int64Array> { batch.column(i).as_primitive_opt::<Int64Type>().cloned().ok_or_else(other) };
    // a batch is written whole and read whole: it stays one file's, of one kind
    if files.iter().any(|f| *f != files[0]) || comes.true_count() % comes.len() != 0 {
        return Err(Error::internal("changes of several files were put together"));
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let rows = RecordBatch::try_new_with_options(read.clone(), batch.columns()[..n].to_vec(), &options)?;
    let changed = Changed {
        kind: if comes.value(0) { Kind::Insert } else { Kind::Delete },
        rows,
        positions: positions.values().to_vec(),
        row_ids: longs(n + 3)?,
        last_updated: longs(n + 4)?,
    };
    Ok(Some((files[0] as usize, changed)))
}

impl DisplayAs for ChangesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangesExec: partitions={}, files={}", self.groups.len(), self.files.len())
    }
}

impl ExecutionPlan for ChangesExec {
    fn name(&self) -> &str {
        "ChangesExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { Err(Error::internal("a read has no children").into()) }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let places = self.groups.get(partition).cloned().unwrap_or_default();
        let (reader, files, loader) = (self.reader.clone(), self.files.clone(), self.loader.clone());
        let schema = self.schema();
        let out = schema.clone();
        let stream = futures::stream::iter(places)
            .then(move |at| {
                let (reader, files, loader, schema) = (reader.clone(), files.clone(), loader.clone(), out.clone());
                async move {
                    let file = &files[at];
                    let number = u32::try_from(at).map_err(|_| Error::invalid("more files than fit a number"))?;
                    let prepared = Arc::new(reader.prepare(&file.diff, &loader).await?);
                    let rows = reader.read(prepared, file.only.clone()).await?;
                    Ok::<_, Error>(rows.map(move |c| to_batch(&schema, number, c?)))
                }
            })
            .try_flatten()
            .map_err(DataFusionError::from);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }
}
