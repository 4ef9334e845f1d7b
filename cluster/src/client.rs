//! The coordinator's side: jobs are submitted, watched, and their partitions fetched.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballista_core::client::BallistaClient;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, ExecuteQueryParams, GetJobStatusParams, KeyValuePair, PartitionLocation,
    execute_query_result, job_status,
};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use floe_engine::{Error, ErrorKind, Result};
use tonic::transport::Channel;

use crate::codec::FloeCodec;
use crate::node::{functions, task_context};
use crate::place::Place;

/// Longest message between the processes, in bytes: a plan with its files and rows, a block of a partition.
pub const MAX_MESSAGE: usize = 1 << 30;
/// Plans that read less than this many bytes of files stay in the coordinator: starting a job takes longer than reading them.
pub const MIN_BYTES: u64 = 64 << 20;
/// Plans with more bytes of rows in memory than this stay in the coordinator: they travel inside the plan.
const MAX_ROWS_IN_PLAN: u64 = 256 << 20;
/// Waits between two looks at a job, in ms: first and longest.
const POLL_MS: (u64, u64) = (10, 100);

/// A cluster that a coordinator sends plans to.
pub struct Cluster {
    scheduler: SchedulerGrpcClient<Channel>,
    min_bytes: u64,
    pub(crate) codec: FloeCodec,
    pub(crate) tasks: Arc<TaskContext>,
    submitted: AtomicU64,
    kept: AtomicU64,
    alive: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("min_bytes", &self.min_bytes).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects to a scheduler, `http://HOST:PORT`.
    pub async fn connect(scheduler: &str) -> Result<Self> {
        let io = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Io, format!("no scheduler: {e}")).at(scheduler);
        let endpoint = create_grpc_client_endpoint(scheduler.to_string(), Some(&GrpcClientConfig::default()));
        let channel = endpoint.map_err(|e| io(&e))?.connect().await.map_err(|e| io(&e))?;
        let functions: Arc<BallistaFunctionRegistry> = Arc::new(functions());
        Ok(Self {
            scheduler: SchedulerGrpcClient::new(channel)
                .max_encoding_message_size(MAX_MESSAGE)
                .max_decoding_message_size(MAX_MESSAGE),
            min_bytes: MIN_BYTES,
            codec: FloeCodec::new(functions, HashMap::new()),
            tasks: task_context(),
            submitted: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            alive: None,
        })
    }

    /// Plans that read fewer bytes of files stay in the coordinator; [`MIN_BYTES`] by default.
    #[must_use]
    pub fn min_bytes(mut self, bytes: u64) -> Self {
        self.min_bytes = bytes;
        self
    }

    /// A look at the executors: once it says no, a job fails instead of waiting for ever.
    #[must_use]
    pub fn while_alive(mut self, alive: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.alive = Some(Box::new(alive));
        self
    }

    /// The rule that sends a session's plans here; see [`floe_engine::sql::Session::set_last_rule`].
    pub fn rule(self: &Arc<Self>) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        Arc::new(Place::new(self.clone()))
    }

    /// Jobs submitted so far, runs of one job after a loss counted each.
    pub fn jobs(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Plans that were looked at and stayed in the coordinator.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    pub(crate) fn count_kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn takes(&self, size: crate::fit::Size) -> bool {
        size.files > 0 && size.files >= self.min_bytes && size.memory <= MAX_ROWS_IN_PLAN
    }

    /// Runs a packed plan to its end.
    ///
    /// Errors: a task failed for good, the scheduler or all executors are gone.
    pub(crate) async fn run(self: &Arc<Self>, plan: Vec<u8>, settings: Vec<KeyValuePair>) -> Result<Job> {
        let mut scheduler = self.scheduler.clone();
        let gone = |e: tonic::Status| Error::new(ErrorKind::Io, format!("the scheduler: {}", e.message()));
        let operation_id = uuid::Uuid::new_v4().to_string();
        let session_id = operation_id.clone();
        let query = ExecuteQueryParams { session_id, settings, operation_id, query: Some(Query::LogicalPlan(plan)) };
        let answer = scheduler.execute_query(query).await.map_err(gone)?.into_inner();
        let job_id = match answer.result {
            Some(execute_query_result::Result::Success(s)) => s.job_id,
            other => return Err(Error::internal(format!("the scheduler refused a plan: {other:?}"))),
        };
        self.submitted.fetch_add(1, Ordering::Relaxed);
        let mut job = Job { cluster: self.clone(), job_id, partitions: HashMap::new(), over: false };
        let mut wait = POLL_MS.0;
        loop {
            let params = GetJobStatusParams { job_id: job.job_id.clone() };
            let status = scheduler.get_job_status(params).await.map_err(gone)?.into_inner().status;
            match status.and_then(|s| s.status) {
                Some(job_status::Status::Successful(s)) => {
                    job.over = true;
                    for location in s.partition_location {
                        let partition = location.partition_id.as_ref().map_or(0, |p| p.partition_id as usize);
                        job.partitions.entry(partition).or_default().push(location);
                    }
                    return Ok(job);
                }
                Some(job_status::Status::Failed(e)) => {
                    job.over = true;
                    return Err(failure(&e.error));
                }
                _ if self.alive.as_ref().is_some_and(|alive| !alive()) => {
                    return Err(Error::new(ErrorKind::Io, "no executor is left"));
                }
                _ => {
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                    wait = (wait * 2).min(POLL_MS.1);
                }
            }
        }
    }
}

/// What a job's message says when rows between two stages went with their executor. The scheduler runs most of these tasks
/// again by itself, but it does not see through an error that the partitions of a join share.
const LOSSES: [&str; 2] = ["FetchFailed(", "ExecutorLost"];
/// How the error of such a job begins.
const LOST: &str = "an executor was lost: ";

/// Whether a job failed because an executor was lost; another run of it may end well.
pub(crate) fn is_loss(e: &Error) -> bool {
    e.kind() == ErrorKind::Io && e.message().starts_with(LOST)
}

/// The error of a job. A kind that an executor's message begins with is kept; it lost its type on the way.
fn failure(message: &str) -> Error {
    if LOSSES.iter().any(|l| message.contains(l)) {
        return Error::new(ErrorKind::Io, format!("{LOST}{message}"));
    }
    const KINDS: [ErrorKind; 6] = [
        ErrorKind::Malformed,
        ErrorKind::Unsupported,
        ErrorKind::InvalidInput,
        ErrorKind::NotFound,
        ErrorKind::Denied,
        ErrorKind::Io,
    ];
    let named = |k: &&ErrorKind| message.contains(&format!("External error: {}: ", k.as_str()));
    let kind = KINDS.iter().find(named).copied().unwrap_or(ErrorKind::InvalidInput);
    Error::new(kind, format!("on the cluster: {message}"))
}

/// A job that is done, with the places of its partitions. When dropped, executors forget what it wrote.
pub(crate) struct Job {
    cluster: Arc<Cluster>,
    job_id: String,
    partitions: HashMap<usize, Vec<PartitionLocation>>,
    over: bool,
}

impl Job {
    /// Streams of one partition; there may be several, or none when it has no row.
    ///
    /// Errors: the executor that holds it is gone.
    pub(crate) async fn fetch(&self, partition: usize) -> Result<Vec<SendableRecordBatchStream>> {
        let mut out = Vec::new();
        for l in self.partitions.get(&partition).into_iter().flatten() {
            let (Some(executor), Some(id)) = (&l.executor_meta, &l.partition_id) else {
                return Err(Error::internal("a partition without a place"));
            };
            let port = u16::try_from(executor.port).map_err(|_| Error::internal("an executor's port"))?;
            let lost = |e: ballista_core::error::BallistaError| {
                Error::new(ErrorKind::Io, format!("executor {}:{port} does not answer: {e}", executor.host))
            };
            let mut client =
                BallistaClient::try_new(&executor.host, port, MAX_MESSAGE, false, None, 1, 0).await.map_err(lost)?;
            let id = id.clone().into();
            out.push(
                client.fetch_partition(&executor.id, &id, l.file_id, l.is_sort_shuffle, false).await.map_err(lost)?,
            );
        }
        Ok(out)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (mut scheduler, job_id) = (self.cluster.scheduler.clone(), std::mem::take(&mut self.job_id));
        let over = self.over;
        runtime.spawn(async move {
            // best effort: the scheduler cleans up by itself after a while
            if over {
                let _ = scheduler.clean_job_data(CleanJobDataParams { job_id }).await;
            } else {
                let _ = scheduler.cancel_job(CancelJobParams { job_id }).await;
            }
        });
    }
}

/// A session's settings for a job. Joins are as they were planned: the scheduler changes none by size.
pub(crate) fn settings(config: &ConfigOptions) -> Vec<KeyValuePair> {
    const FIXED: [(&str, &str); 5] = [
        ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
        ("ballista.optimizer.broadcast_join_threshold_bytes", "0"),
        ("ballista.planner.adaptive.enabled", "false"),
        ("ballista.client.grpc_max_message_size", "1073741824"),
    ];
    let own = config.entries().into_iter().filter(|e| !FIXED.iter().any(|(k, _)| *k == e.key));
    let own = own.map(|e| KeyValuePair { key: e.key, value: e.value });
    let fixed = FIXED.iter().map(|(k, v)| KeyValuePair { key: (*k).into(), value: Some((*v).into()) });
    own.chain(fixed).collect()
}
