//! INSERT INTO and INSERT OVERWRITE.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortOptions, concat_batches};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use iceberg::spec::{NullOrder, SortDirection, Transform};

use super::finish;
use super::template::{fill, plan};
use super::{Cx, Outcome, QueryPlanner, Target, physical, statement_context, values};
use crate::commit::{Drop, Producer};
use crate::write::{WriteOptions, write_data_files};
use crate::{Error, Result};

/// What an INSERT does with rows that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertMode {
    /// Keeps them.
    Append,
    /// Replaces all rows (static overwrite of the whole table).
    OverwriteAll,
    /// Replaces the partitions that get new rows (dynamic overwrite).
    OverwritePartitions,
}

/// Parallelism of literal rows, as Spark's local relations have it here: two tasks.
const LITERAL_TASKS: usize = 2;

/// Inserts the rows of `query`, which the caller planned. `columns` names the columns that the query gives, in its order; the others take their write
/// default or null. A file is written for each partition of the query's plan.
pub async fn insert(
    planner: &dyn QueryPlanner,
    target: &Target,
    query: LogicalPlan,
    columns: Option<&[String]>,
    mode: InsertMode,
) -> Result<Outcome> {
    let logical = match columns {
        Some(c) => arrange(&statement_context(planner, target.provider()?, 0), query, c, target)?,
        None => query,
    };
    let literal = is_literal(&logical);
    let logical = values::cast_to_target(logical, 0, target, false)?;
    let (streams, ordered) = streams(planner.context(), logical, literal, target).await?;
    // rows of several streams that meet in one partition's file are in no order
    let one_a_file = target.table.metadata().default_partition_spec().is_unpartitioned() || streams.len() == 1;
    let options = WriteOptions { sorted: ordered && one_a_file, ..Default::default() };
    let added = write_data_files(&target.table, streams, &options).await?;
    let change = match mode {
        InsertMode::Append => finish::dropping(target, Producer::MergeAppend, added, Drop::Nothing),
        InsertMode::OverwriteAll => finish::dropping(target, Producer::Overwrite, added, Drop::Everything),
        InsertMode::OverwritePartitions => {
            let mut hit: Vec<_> = Vec::new();
            for f in &added {
                let key = (f.spec_id, f.partition.clone());
                if !hit.contains(&key) {
                    hit.push(key);
                }
            }
            finish::dropping(target, Producer::ReplacePartitions, added, Drop::Partitions(hit))
        }
    };
    finish::submit(target, change).await
}

/// Brings the query's columns into the table's order, with defaults for the ones that are not given.
fn arrange(cx: &Cx<'_>, logical: LogicalPlan, columns: &[String], target: &Target) -> Result<LogicalPlan> {
    let given = logical.schema().columns();
    if given.len() != columns.len() {
        return Err(Error::invalid(format!("INSERT names {} columns but gives {}", columns.len(), given.len()))
            .at(target.table.ident()));
    }
    let schema = target.table.metadata().current_schema();
    let fields = schema.as_struct().fields();
    for (i, c) in columns.iter().enumerate() {
        if !fields.iter().any(|f| f.name.eq_ignore_ascii_case(c)) {
            return Err(Error::invalid(format!("INSERT names column {c}, which the table does not have"))
                .at(target.table.ident()));
        }
        if columns[..i].iter().any(|d| d.eq_ignore_ascii_case(c)) {
            return Err(Error::invalid(format!("INSERT names column {c} twice")).at(target.table.ident()));
        }
    }
    let mut exprs = Vec::with_capacity(fields.len());
    for f in fields {
        let e = match columns.iter().position(|c| c.eq_ignore_ascii_case(&f.name)) {
            Some(i) => DfExpr::Column(given[i].clone()),
            None => default_expr(cx, &values::default_sql(f)?)?,
        };
        exprs.push(e.alias(&f.name));
    }
    Ok(LogicalPlanBuilder::from(logical).project(exprs)?.build()?)
}

/// A constant SQL expression as a plan expression.
fn default_expr(cx: &Cx<'_>, sql: &str) -> Result<DfExpr> {
    match plan(cx, fill(&format!("SELECT {sql}"), &[], &[])?)? {
        LogicalPlan::Projection(p) if p.expr.len() == 1 => Ok(p.expr[0].clone().unalias()),
        other => Err(Error::internal(format!("a default became {other}"))),
    }
}

/// Name of the relation that holds literal rows planned one by one.
const LITERAL_ROWS: &str = "__floe_rows";

/// One relation of literal rows that were planned apart, each cast to the target's columns.
pub async fn literal_rows(planner: &dyn QueryPlanner, target: &Target, rows: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    let ctx = planner.context();
    let mut batches = Vec::with_capacity(rows.len());
    for row in rows {
        let row = values::cast_to_target(row, 0, target, false)?;
        batches.extend(collect(physical(ctx, row).await?, ctx.task_ctx()).await?);
    }
    let schema = batches.first().ok_or_else(|| Error::internal("no literal rows"))?.schema();
    let table = MemTable::try_new(schema, vec![batches])?;
    Ok(LogicalPlanBuilder::scan(LITERAL_ROWS, provider_as_source(Arc::new(table)), None)?.build()?)
}

/// Whether the rows are literals in the statement.
fn is_literal(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Values(_) => true,
        LogicalPlan::TableScan(s) => s.table_name.table() == LITERAL_ROWS,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => plan.inputs().iter().all(|p| is_literal(p)),
        _ => false,
    }
}

/// Sorts each partition of a plan by the table's default order (SORT-3), and whether it did: an order with transforms or
/// nested columns leaves the rows as they come.
fn in_order(plan: Arc<dyn ExecutionPlan>, target: &Target) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let metadata = target.table.metadata();
    let fields = metadata.current_schema().as_struct().fields();
    let mut by = Vec::new();
    for f in &metadata.default_sort_order().fields {
        let at = fields.iter().position(|c| c.id == f.source_id && c.field_type.is_primitive());
        let Some(at) = at.filter(|_| f.transform == Transform::Identity) else { return Ok((plan, false)) };
        let options = SortOptions {
            descending: f.direction == SortDirection::Descending,
            nulls_first: f.null_order == NullOrder::First,
        };
        by.push(PhysicalSortExpr::new(Arc::new(Column::new(plan.schema().field(at).name(), at)), options));
    }
    Ok(match LexOrdering::new(by) {
        Some(order) => (Arc::new(SortExec::new(order, plan).with_preserve_partitioning(true)), true),
        None => (plan, false),
    })
}

async fn streams(
    ctx: &SessionContext,
    logical: LogicalPlan,
    literal: bool,
    target: &Target,
) -> Result<(Vec<SendableRecordBatchStream>, bool)> {
    let state = ctx.state();
    // the partitions of the query decide the files; a repartition for speed must not
    let config = state.config().clone().with_round_robin_repartition(false);
    let ctx = SessionContext::new_with_state(SessionStateBuilder::new_from_existing(state).with_config(config).build());
    let mut plan = physical(&ctx, logical).await?;
    if literal {
        let (plan, ordered) = in_order(Arc::new(CoalescePartitionsExec::new(plan)), target)?;
        let schema = plan.schema();
        let batches = collect(plan, ctx.task_ctx()).await?;
        return Ok((slices(&concat_batches(&schema, &batches)?), ordered));
    }
    if has_repartition(&plan) && plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    let (plan, ordered) = in_order(plan, target)?;
    Ok((execute_stream_partitioned(plan, ctx.task_ctx())?, ordered))
}

fn has_repartition(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.as_any().is::<RepartitionExec>() || plan.children().iter().any(|c| has_repartition(c))
}

/// Rows in as many nearly equal slices as there are tasks, but no empty ones.
fn slices(all: &RecordBatch) -> Vec<SendableRecordBatchStream> {
    let rows = all.num_rows();
    let tasks = LITERAL_TASKS.min(rows);
    (0..tasks)
        .map(|i| {
            let (from, to) = (i * rows / tasks, (i + 1) * rows / tasks);
            let slice = all.slice(from, to - from);
            let stream = futures::stream::iter([Ok(slice)]);
            Box::pin(RecordBatchStreamAdapter::new(all.schema(), stream)) as SendableRecordBatchStream
        })
        .collect()
}
