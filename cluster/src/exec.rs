//! The node of the coordinator's plan whose rows come from a job.

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use ballista_core::serde::protobuf::KeyValuePair;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use floe_engine::Error;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::Mutex;

use crate::client::{Cluster, Job, is_loss};
use crate::place::packed;

/// Runs of a job, the first one included: executors that hold its rows may be lost before the rows are fetched.
const RUNS: usize = 4;
/// Wait before a job runs again.
const AFTER_LOSS: Duration = Duration::from_millis(500);
/// Bytes of a partition that are held in memory while the rest of it is fetched.
const HELD: usize = 64 << 20;

/// Runs its plan as one job, when the first of its partitions is asked for. A partition's rows are given once all of them are
/// here: an executor that is lost meanwhile costs another run of the job, never a row twice.
#[derive(Debug)]
pub struct ClusterExec {
    plan: Arc<dyn ExecutionPlan>,
    shared: Arc<Shared>,
    metrics: ExecutionPlanMetricsSet,
}

struct Shared {
    cluster: Arc<Cluster>,
    bytes: Vec<u8>,
    settings: Vec<KeyValuePair>,
    /// The newest run, with its number from 1.
    run: Mutex<(usize, Option<Arc<Job>>)>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl ClusterExec {
    /// `plan` on `cluster`.
    ///
    /// Errors: [`floe_engine::ErrorKind::Unsupported`] for a plan that can't travel.
    pub fn plan(
        cluster: Arc<Cluster>,
        plan: Arc<dyn ExecutionPlan>,
        settings: Vec<KeyValuePair>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let bytes = packed(&cluster, &plan)?;
        let shared = Shared { cluster, bytes, settings, run: Mutex::new((0, None)) };
        Ok(Arc::new(Self { plan, shared: Arc::new(shared), metrics: ExecutionPlanMetricsSet::new() }))
    }
}

impl Shared {
    /// A run of the job that is newer than number `seen`.
    async fn run_after(&self, seen: usize) -> Result<(usize, Arc<Job>), Error> {
        let mut run = self.run.lock().await;
        if let (number, Some(job)) = &*run
            && *number > seen
        {
            return Ok((*number, job.clone()));
        }
        loop {
            match self.cluster.run(self.bytes.clone(), self.settings.clone()).await {
                Ok(job) => {
                    let job = Arc::new(job);
                    *run = (run.0 + 1, Some(job.clone()));
                    return Ok((run.0, job));
                }
                Err(e) if is_loss(&e) && run.0 + 1 < RUNS => {
                    log::warn!("run {} of a job: {e}", run.0 + 1);
                    run.0 += 1;
                    tokio::time::sleep(AFTER_LOSS).await;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// All rows of a partition.
    async fn partition(&self, partition: usize, schema: &SchemaRef) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut seen = 0;
        loop {
            let (number, job) = self.run_after(seen).await?;
            match whole(&job, partition, schema).await {
                Ok(rows) => return Ok(rows),
                Err(e) if number < RUNS => {
                    log::warn!("partition {partition} of run {number} is lost: {e}");
                    seen = number;
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Fetches a partition: into memory, and past [`HELD`] bytes into a file without a name.
async fn whole(
    job: &Job,
    partition: usize,
    schema: &SchemaRef,
) -> Result<BoxStream<'static, Result<RecordBatch>>, Error> {
    let (mut held, mut bytes) = (Vec::new(), 0);
    let mut file: Option<StreamWriter<BufWriter<File>>> = None;
    for mut stream in job.fetch(partition).await? {
        while let Some(batch) = stream.try_next().await? {
            let batch = with_schema(&batch, schema)?;
            match &mut file {
                Some(file) => file.write(&batch)?,
                None => {
                    bytes += batch.get_array_memory_size();
                    held.push(batch);
                    if bytes > HELD {
                        file = Some(StreamWriter::try_new(BufWriter::new(tempfile::tempfile()?), schema)?);
                    }
                }
            }
        }
    }
    let held = futures::stream::iter(held.into_iter().map(Ok));
    let Some(file) = file else { return Ok(held.boxed()) };
    let mut file = file.into_inner()?.into_inner().map_err(|e| Error::from(e.into_error()))?;
    file.rewind()?;
    let rest = StreamReader::try_new(BufReader::new(file), None)?;
    let schema = schema.clone();
    let rest = futures::stream::iter(rest).map(move |b| Ok(with_schema(&b?, &schema)?));
    Ok(held.chain(rest).boxed())
}

/// The columns under the plan's schema: what a task knew of nulls may be less.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)?)
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterExec: plan bytes={}", self.shared.bytes.len())
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &str {
        "ClusterExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [plan] = <[_; 1]>::try_from(children).map_err(|_| Error::internal("a job has one plan"))?;
        if Arc::ptr_eq(&plan, &self.plan) {
            return Ok(self);
        }
        Self::plan(self.shared.cluster.clone(), plan, self.shared.settings.clone())
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (shared, schema) = (self.shared.clone(), self.schema());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = async move { shared.partition(partition, &schema).await };
        let stream = futures::stream::once(rows).try_flatten();
        let stream = stream.inspect_ok(move |b| baseline.record_output(b.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
