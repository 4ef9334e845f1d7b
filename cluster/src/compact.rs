//! Strings and binaries of a batch without the pages they point into. A view array that crosses a process boundary brings
//! every buffer it refers to, whole, with each batch; copying what is used costs less.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use floe_engine::Error;
use futures::StreamExt;

/// Copies what views point to.
#[derive(Debug)]
pub struct CompactExec {
    input: Arc<dyn ExecutionPlan>,
}

impl CompactExec {
    /// Over `input`, row for row.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

/// Whether a batch of this schema may hold views.
pub fn has_views(schema: &SchemaRef) -> bool {
    schema.fields().iter().any(|f| type_has_views(f.data_type()))
}

fn type_has_views(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Struct(fields) => fields.iter().any(|f| type_has_views(f.data_type())),
        DataType::List(f) => type_has_views(f.data_type()),
        _ => false,
    }
}

fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let s = array.as_struct();
            let columns = s.columns().iter().map(compact).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, s.nulls().cloned(), s.len())?)
        }
        DataType::List(field) if type_has_views(field.data_type()) => {
            let l = array.as_list::<i32>();
            let values = compact(l.values())?;
            Arc::new(ListArray::try_new(field.clone(), l.offsets().clone(), values, l.nulls().cloned())?)
        }
        _ => array.clone(),
    })
}

fn compact_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compact).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

impl DisplayAs for CompactExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactExec")
    }
}

impl ExecutionPlan for CompactExec {
    fn name(&self) -> &str {
        "CompactExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|_| Error::internal("a compaction has one input"))?;
        Ok(Arc::new(Self::new(input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let stream = input.map(|batch| batch.and_then(|b| compact_batch(&b)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}
