//! The processes of a cluster: a scheduler and executors, with floe's codec and functions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::UpdateTaskStatusParams;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use floe_engine::sql::planner;
use floe_engine::{Error, ErrorKind, Result};

use crate::carry::{CarriedCodec, TakeOut};
use crate::client::MAX_MESSAGE;
use crate::codec::FloeCodec;

/// Seconds between an executor's signs of life.
const HEARTBEAT_SECONDS: u64 = 1;
/// Time between two looks for tasks that wait.
const HAND_OUT: Duration = Duration::from_millis(500);
/// Seconds that a finished job's rows stay on executors when nobody cleans them up.
const JOB_DATA_SECONDS: u64 = 600;

/// Where a scheduler listens and when it gives an executor up.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// Address.
    pub address: SocketAddr,
    /// Seconds without a sign of life.
    pub lost_after: u64,
}

/// An executor.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Address on which rows are fetched from it.
    pub address: SocketAddr,
    /// Port on which the scheduler gives it tasks.
    pub task_port: u16,
    /// The scheduler.
    pub scheduler: SocketAddr,
    /// Tasks at a time.
    pub slots: usize,
    /// Folder of the rows between two stages.
    pub work_dir: String,
    /// Properties of stores, with secrets: they do not come with plans.
    pub store: HashMap<String, String>,
}

/// The functions that plans may name.
pub fn functions() -> BallistaFunctionRegistry {
    BallistaFunctionRegistry::from(&planner::context(planner::config(), Arc::default(), None).state())
}

/// A context in which plans are decoded.
pub fn task_context() -> Arc<TaskContext> {
    planner::context(planner::config(), Arc::default(), None).task_ctx()
}

/// Runs a scheduler until the process ends.
pub async fn run_scheduler(s: Scheduler) -> Result<()> {
    let codec = Arc::new(FloeCodec::new(Arc::new(functions()), HashMap::new()));
    let state = planner::context(planner::config(), Arc::default(), None).state();
    let plans = codec.clone();
    let build = move |config: SessionConfig| {
        // plans come planned: nothing here may change them
        Ok(SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_optimizer_rules(Vec::new())
            .with_physical_optimizer_rules(Vec::new())
            .with_query_planner(Arc::new(TakeOut(plans.clone())))
            .build())
    };
    let config = SchedulerConfig {
        external_host: s.address.ip().to_string(),
        bind_host: s.address.ip().to_string(),
        bind_port: s.address.port(),
        scheduling_policy: TaskSchedulingPolicy::PushStaged,
        // tasks go to as many machines as there are
        task_distribution: TaskDistributionPolicy::RoundRobin,
        finished_job_data_clean_up_interval_seconds: JOB_DATA_SECONDS,
        executor_timeout_seconds: s.lost_after,
        expire_dead_executor_interval_seconds: 1,
        grpc_server_max_decoding_message_size: MAX_MESSAGE as u32,
        grpc_server_max_encoding_message_size: MAX_MESSAGE as u32,
        override_session_builder: Some(Arc::new(build)),
        override_logical_codec: Some(Arc::new(CarriedCodec)),
        override_physical_codec: Some(codec),
        ..SchedulerConfig::default()
    };
    let failed = |e| Error::new(ErrorKind::Io, format!("the scheduler: {e}")).at(s.address);
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    let scheduler = create_scheduler(cluster, Arc::new(config)).await.map_err(failed)?;
    tokio::spawn(hand_out(scheduler.clone()));
    start_grpc_service(s.address, scheduler).await.map_err(failed)
}

/// Has waiting tasks handed out again and again. Ballista hands them out when something happens on an executor; the tasks of
/// one that is lost while the others are idle would wait for ever.
async fn hand_out(scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>) {
    loop {
        tokio::time::sleep(HAND_OUT).await;
        if scheduler.running_job_number() == 0 {
            continue;
        }
        let executors = scheduler.state.executor_manager.get_executors_state().await.unwrap_or_default();
        for (executor, ..) in executors {
            // a report of nothing: what follows it is the handing out
            let nothing = UpdateTaskStatusParams { executor_id: executor.id, task_status: Vec::new() };
            if let Err(e) = SchedulerGrpc::update_task_status(&scheduler, tonic::Request::new(nothing)).await {
                log::debug!("waiting tasks were not handed out: {e}");
            }
        }
    }
}

/// Runs an executor until the process is told to end.
pub async fn run_executor(e: Executor) -> Result<()> {
    let functions = Arc::new(functions());
    let host = e.address.ip().to_string();
    let config = ExecutorProcessConfig {
        bind_host: host.clone(),
        external_host: Some(host),
        port: e.address.port(),
        grpc_port: e.task_port,
        scheduler_host: e.scheduler.ip().to_string(),
        scheduler_port: e.scheduler.port(),
        scheduler_connect_timeout_seconds: 30,
        concurrent_tasks: e.slots,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(e.work_dir),
        grpc_max_decoding_message_size: MAX_MESSAGE as u32,
        grpc_max_encoding_message_size: MAX_MESSAGE as u32,
        executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
        override_function_registry: Some(functions.clone()),
        override_logical_codec: Some(Arc::new(CarriedCodec)),
        override_physical_codec: Some(Arc::new(FloeCodec::new(functions, e.store))),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config))
        .await
        .map_err(|err| Error::new(ErrorKind::Io, format!("the executor: {err}")).at(e.address))
}
