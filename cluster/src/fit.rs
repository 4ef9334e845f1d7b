//! Plans as tasks can run them. In one process the partitions of a join share its build side and know together which of its
//! rows found a match; tasks share nothing.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use floe_engine::Error;
use floe_engine::cdc::ChangesExec;
use floe_engine::scan::IcebergScanExec;

use crate::compact::{CompactExec, has_views};

/// What a plan reads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes of data files, as stored.
    pub files: u64,
    /// Bytes of rows in the coordinator's memory, which would travel with the plan.
    pub memory: u64,
}

/// What a plan reads.
pub fn size(plan: &Arc<dyn ExecutionPlan>) -> Size {
    let mut out = Size::default();
    if let Some(scan) = plan.as_any().downcast_ref::<IcebergScanExec>() {
        out.files += scan.bytes();
    }
    if let Some(changes) = plan.as_any().downcast_ref::<ChangesExec>() {
        out.files += changes.bytes();
    }
    if let Some(rows) = plan.as_any().downcast_ref::<DataSourceExec>()
        && let Some(rows) = rows.data_source().as_any().downcast_ref::<MemorySourceConfig>()
    {
        out.memory += rows.partitions().iter().flatten().map(|b| b.get_array_memory_size() as u64).sum::<u64>();
    }
    for child in plan.children() {
        let of = size(child);
        out.files += of.files;
        out.memory += of.memory;
    }
    out
}

/// Whether each build row's fate depends on all probe rows: such a join can't have its build side copied to every task.
fn keeps_build_side(join: JoinType) -> bool {
    matches!(join, JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
}

fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

/// `plan` so that its partitions may run in tasks of their own, with as many partitions as before.
///
/// Errors: [`floe_engine::ErrorKind::Unsupported`] for a plan whose partitions need one memory.
pub fn fit(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let before = partitions(&plan);
    let fitted = plan.transform_up(|node| Ok(Transformed::yes(step(node)?)))?.data;
    let fitted = compacted(fitted);
    if partitions(&fitted) != before {
        return Err(Error::unsupported("the plan's partitions would change").into());
    }
    Ok(fitted)
}

fn step(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(one) = one_column(&node)? {
        // rows without columns: `count(*)` asks for no more
        return Ok(Arc::new(ProjectionExec::try_new(Vec::<ProjectionExpr>::new(), step(one)?)?));
    }
    if let Some(join) = node.as_any().downcast_ref::<HashJoinExec>() {
        return hash_join(join).map(|j| j.unwrap_or(node));
    }
    if let Some(join) = node.as_any().downcast_ref::<NestedLoopJoinExec>()
        && keeps_build_side(*join.join_type())
        && partitions(join.right()) > 1
    {
        return Err(
            Error::unsupported(format!("a {} join without equal columns needs one memory", join.join_type())).into()
        );
    }
    if let Some(r) = node.as_any().downcast_ref::<RepartitionExec>() {
        if !matches!(r.partitioning(), Partitioning::Hash(..)) {
            return Err(Error::unsupported("rows dealt out in turn can't be dealt out by tasks").into());
        }
        return compact_inputs(node);
    }
    if node.as_any().is::<CoalescePartitionsExec>() || node.as_any().is::<SortPreservingMergeExec>() {
        return compact_inputs(node);
    }
    Ok(node)
}

/// A node that gives rows without columns, with one column instead: DataFusion's codec takes "no columns" for "all columns".
fn one_column(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !node.schema().fields().is_empty() {
        return Ok(None);
    }
    let first = Some(vec![0]);
    if let Some(f) = node.as_any().downcast_ref::<FilterExec>()
        && f.projection().is_some()
        && !f.input().schema().fields().is_empty()
    {
        let one = FilterExecBuilder::new(f.predicate().clone(), f.input().clone())
            .with_default_selectivity(f.default_selectivity())
            .with_batch_size(f.batch_size())
            .with_fetch(f.fetch())
            .apply_projection(first)?;
        return Ok(Some(Arc::new(one.build()?)));
    }
    if let Some(j) = node.as_any().downcast_ref::<HashJoinExec>() {
        return Ok(Some(j.builder().with_projection(first).build_exec()?));
    }
    if let Some(j) = node.as_any().downcast_ref::<NestedLoopJoinExec>() {
        let (left, right, filter) = (j.left().clone(), j.right().clone(), j.filter().cloned());
        return Ok(Some(Arc::new(NestedLoopJoinExec::try_new(left, right, filter, j.join_type(), first)?)));
    }
    Ok(None)
}

/// `None` = the join is right as it is.
fn hash_join(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if *join.partition_mode() != PartitionMode::CollectLeft {
        return Ok(None);
    }
    let n = partitions(join.right());
    if n > 1 && join.null_aware {
        return Err(Error::unsupported("NOT IN over nullable rows needs one memory").into());
    }
    if n == 1 || !keeps_build_side(*join.join_type()) {
        let left = join.left().clone();
        // what is below a coalescing is compact already, and the planner looks for the coalescing itself
        let left = if left.as_any().is::<CoalescePartitionsExec>() { left } else { compacted(left) };
        return Ok(Some(join.builder().with_new_children(vec![left, join.right().clone()])?.build_exec()?));
    }
    // both sides by their keys: each build row meets all its probe rows in one task
    let mut left = join.left().clone();
    if left.as_any().is::<CoalescePartitionsExec>() {
        left = left.children()[0].clone();
    }
    let (on_left, on_right): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let spread = |side: Arc<dyn ExecutionPlan>, keys| -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RepartitionExec::try_new(compacted(side), Partitioning::Hash(keys, n))?))
    };
    let sides = vec![spread(left, on_left)?, spread(join.right().clone(), on_right)?];
    let whole = join.builder().with_partition_mode(PartitionMode::Partitioned).with_new_children(sides)?;
    Ok(Some(whole.build_exec()?))
}

fn compact_inputs(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs: Vec<_> = node.children().into_iter().map(|c| compacted(c.clone())).collect();
    node.with_new_children(inputs)
}

/// With views made compact, where there are any and it was not done below.
fn compacted(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if !has_views(&plan.schema()) || plan.as_any().is::<CompactExec>() {
        return plan;
    }
    Arc::new(CompactExec::new(plan))
}
