//! `range(end)`, `range(start, end [, step [, partitions]])`: Spark's generator of `id BIGINT`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::scalar::ScalarValue;

use crate::{Error, Result};

/// Partitions when the call does not say; Spark takes the session's parallelism.
const DEFAULT_PARTITIONS: i64 = 2;
/// Rows a batch.
const BATCH: i64 = 8192;

/// The table of a call; the arguments are constants.
pub(super) fn range_table(args: &[Expr]) -> Result<Arc<dyn TableProvider>> {
    let values = args.iter().map(long).collect::<Result<Vec<_>>>()?;
    let (start, end, step, parts) = match values.as_slice() {
        [end] => (0, *end, 1, DEFAULT_PARTITIONS),
        [start, end] => (*start, *end, 1, DEFAULT_PARTITIONS),
        [start, end, step] => (*start, *end, *step, DEFAULT_PARTITIONS),
        [start, end, step, parts] => (*start, *end, *step, *parts),
        other => {
            return Err(Error::invalid(format!(
                "range takes (end), (start, end), (start, end, step) or (start, end, step, partitions), not {} arguments",
                other.len()
            )));
        }
    };
    if step == 0 {
        return Err(Error::invalid("range: the step must not be 0"));
    }
    if !(1..=65_536).contains(&parts) {
        return Err(Error::invalid(format!("range: the number of partitions is 1 to 65536, not {parts}")));
    }
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    // 128 bits: neither the count nor a bound overflows
    let (start, end, step) = (i128::from(start), i128::from(end), i128::from(step));
    let span = if step > 0 { end - start } else { start - end };
    let count = if span <= 0 { 0 } else { (span + step.abs() - 1) / step.abs() };
    let parts = i128::from(parts);
    let partitions = (0..parts)
        .map(|i| {
            let part =
                Part { schema: schema.clone(), start, step, from: i * count / parts, to: (i + 1) * count / parts };
            Arc::new(part) as Arc<dyn PartitionStream>
        })
        .collect();
    Ok(Arc::new(StreamingTable::try_new(schema, partitions)?))
}

fn long(e: &Expr) -> Result<i64> {
    match e {
        Expr::Literal(v, _) => match v.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(n))) => Ok(n),
            _ => Err(Error::invalid(format!("range takes integers, not {v}"))),
        },
        e => Err(Error::invalid(format!("range takes constants, not {e}"))),
    }
}

/// Elements `from..to` of the range.
#[derive(Debug)]
struct Part {
    schema: SchemaRef,
    start: i128,
    step: i128,
    from: i128,
    to: i128,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, start, step, to) = (self.schema.clone(), self.start, self.step, self.to);
        let batches = futures::stream::iter(
            std::iter::successors((self.from < to).then_some(self.from), move |at| {
                (at + i128::from(BATCH) < to).then_some(at + i128::from(BATCH))
            })
            .map(move |at| {
                let until = to.min(at + i128::from(BATCH));
                let ids: Int64Array = (at..until).map(|i| (start + i * step) as i64).collect();
                Ok(RecordBatch::try_new(schema.clone(), vec![Arc::new(ids) as ArrayRef])?)
            }),
        );
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}
