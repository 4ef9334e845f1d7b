//! Where a plan runs: large ones on the cluster, small ones here.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use floe_engine::Error;

use crate::carry::{pack, unpack};
use crate::client::{Cluster, settings};
use crate::exec::ClusterExec;
use crate::fit::{fit, size};

/// Sends the part of a plan that has partitions to a cluster. What comes after the partitions meet — the last merge, a limit,
/// a total — stays in the coordinator, and so does a plan that reads little or that tasks can't run.
#[derive(Debug)]
pub struct Place {
    cluster: Arc<Cluster>,
}

impl Place {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    /// The plan with its part below the last meeting point sent; `None` = the partitions never meet.
    fn below_meeting(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [child] = plan.children()[..] else { return Ok(None) };
        if plan.output_partitioning().partition_count() != 1 {
            return Ok(None);
        }
        let meets = plan.as_any().is::<CoalescePartitionsExec>() || plan.as_any().is::<SortPreservingMergeExec>();
        let placed = if meets && child.output_partitioning().partition_count() > 1 {
            // no partition needs to give more rows than the whole may
            let limited: Arc<dyn ExecutionPlan> = match plan.fetch() {
                Some(n) => Arc::new(LocalLimitExec::new(child.clone(), n)),
                None => child.clone(),
            };
            Some(self.send(limited, config)?)
        } else {
            self.below_meeting(child, config)?
        };
        placed.map(|p| plan.clone().with_new_children(vec![p])).transpose()
    }

    fn send(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        ClusterExec::plan(self.cluster.clone(), plan, settings(config))
    }
}

impl PhysicalOptimizerRule for Place {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.cluster.takes(size(&plan)) {
            self.cluster.count_kept();
            return Ok(plan);
        }
        let sent = match self.below_meeting(&plan, config) {
            Ok(Some(sent)) => Ok(sent),
            Ok(None) => self.send(plan.clone(), config),
            Err(e) => Err(e),
        };
        sent.or_else(|e| {
            // whatever can't travel runs here, as it would without a cluster
            log::info!("a plan stays in the coordinator: {e}");
            self.cluster.count_kept();
            Ok(plan)
        })
    }

    fn name(&self) -> &str {
        "floe_place"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The bytes of a plan, if tasks can run it and it arrives as it was.
pub(crate) fn packed(cluster: &Cluster, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
    let fitted = fit(plan.clone())?;
    let bytes = pack(fitted.clone(), &cluster.codec)?;
    let arrived = unpack(&bytes, &cluster.tasks, &cluster.codec)?;
    same(&fitted, &arrived)?;
    Ok(bytes)
}

/// Refuses a plan that lost something on the way: nodes, columns or partitions.
fn same(sent: &Arc<dyn ExecutionPlan>, came: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let (a, b) = (sent.schema(), came.schema());
    let columns = a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
    let (children, others) = (sent.children(), came.children());
    if sent.name() != came.name()
        || !columns
        || children.len() != others.len()
        || sent.output_partitioning().partition_count() != came.output_partitioning().partition_count()
    {
        return Err(Error::unsupported(format!("{} arrives as another plan", sent.name())).into());
    }
    children.into_iter().zip(others).try_for_each(|(a, b)| same(a, b))
}
