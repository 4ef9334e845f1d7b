//! DELETE, UPDATE, MERGE and INSERT: written once as plans over the scan, with two strategies (PROP-1..4, CONC-30..32).
//!
//! A row-level statement becomes a stream of rows `(_file, _pos, op, new values…, lineage)`. Merge-on-read turns the
//! positions into deletion vectors (V3) or position-delete files (V2) and writes the new rows; copy-on-write rewrites the
//! files that hold a touched row.

mod analyze;
mod cow;
mod delete;
mod finish;
mod insert;
mod keys;
mod merge;
mod mor;
mod narrow;
mod rows;
mod store;
mod template;
mod update;
mod values;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Expr, Query};

pub use delete::{delete, truncate};
pub use insert::{InsertMode, insert, literal_rows};
pub use keys::{keys_parts, keys_udf};
pub use merge::{MergeAction, MergeClause, MergeStatement, merge};
pub(crate) use mor::write_deletes;
pub use mor::write_vectors;
pub use store::{store_type, store_udf};
pub use update::{Assignment, update};
pub use values::default_sql;

use crate::commit::Isolation;
use crate::expr::{FilePruner, Pred};
use crate::scan::{IcebergTableProvider, Planned, plan};
use crate::{Error, Result, Table};

/// Name under which the target of a statement is registered.
pub(crate) const TARGET: &str = "__floe_target";

/// Rows below this many bytes of input are processed by one task, so that a small statement writes one file.
const SMALL_INPUT: i64 = 32 << 20;

/// How a statement changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Rewrites data files.
    CopyOnWrite,
    /// Adds deletes.
    MergeOnRead,
}

/// The table a statement changes.
#[derive(Debug, Clone)]
pub struct Target {
    /// The version that the statement reads.
    pub table: Table,
    /// The branch it reads and commits to.
    pub branch: String,
    /// Name by which the statement's expressions call the table.
    pub alias: String,
}

/// What a statement did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The new version.
    pub table: Table,
    /// The new snapshot; `None` when nothing was committed.
    pub snapshot_id: Option<i64>,
}

impl Target {
    /// The snapshot that the statement reads.
    pub fn snapshot_id(&self) -> Option<i64> {
        self.table.snapshot_of_ref(&self.branch).map(|s| s.snapshot_id())
    }

    fn command_property(&self, command: &str, what: &str, default: &'static str) -> String {
        self.table.property(&format!("write.{command}.{what}"), default).to_ascii_lowercase()
    }

    /// Strategy of `delete`, `update` or `merge` (PROP-1: copy-on-write unless the table says otherwise).
    pub fn mode(&self, command: &str) -> Result<Mode> {
        if self.table.metadata().format_version() == iceberg::spec::FormatVersion::V1 {
            return Ok(Mode::CopyOnWrite);
        }
        match self.command_property(command, "mode", "copy-on-write").as_str() {
            "copy-on-write" => Ok(Mode::CopyOnWrite),
            "merge-on-read" => Ok(Mode::MergeOnRead),
            other => {
                Err(Error::invalid(format!("write.{command}.mode is {other:?}; allowed: copy-on-write, merge-on-read"))
                    .at(self.table.ident()))
            }
        }
    }

    /// Isolation of `delete`, `update` or `merge`.
    pub fn isolation(&self, command: &str) -> Result<Isolation> {
        Isolation::parse(&self.command_property(command, "isolation-level", "serializable"))
            .map_err(|e| e.at(format!("write.{command}.isolation-level")))
    }

    /// Whether new rows carry lineage columns (V3).
    pub fn lineage(&self) -> bool {
        self.table.metadata().format_version() >= iceberg::spec::FormatVersion::V3
    }

    /// The target as a DataFusion table with metadata columns.
    pub(crate) fn provider(&self) -> Result<IcebergTableProvider> {
        let schema = self.table.metadata().current_schema().clone();
        IcebergTableProvider::with_schema(self.table.clone(), self.snapshot_id(), schema, true)
    }

    /// Plans the files that may hold rows of `pred`.
    pub(crate) async fn plan(&self, pred: Pred) -> Result<(Planned, Arc<FilePruner>)> {
        let pruner = Arc::new(FilePruner::new(pred, &self.table.metadata().inner));
        let planned = plan(&self.table, self.snapshot_id(), &pruner).await?;
        Ok((planned, pruner))
    }
}

/// Plans queries over the other tables of a statement; the SQL session implements it.
pub trait QueryPlanner: Send + Sync {
    /// Plans a query that knows these tables by these names.
    fn plan_with(&self, query: Query, tables: &[(&'static str, Arc<dyn TableProvider>)]) -> Result<LogicalPlan>;
    /// The session that runs plans.
    fn context(&self) -> &SessionContext;
}

/// What one statement is planned and run with.
pub struct Cx<'a> {
    planner: &'a dyn QueryPlanner,
    tables: Vec<(&'static str, Arc<dyn TableProvider>)>,
    ctx: SessionContext,
}

impl Cx<'_> {
    fn plan(&self, query: Query) -> Result<LogicalPlan> {
        self.planner.plan_with(query, &self.tables)
    }

    /// With another [`TARGET`].
    fn with_target(mut self, provider: IcebergTableProvider) -> Self {
        self.tables.retain(|t| t.0 != TARGET);
        self.tables.push((TARGET, Arc::new(provider)));
        self
    }

    /// With one more table whose rows are in memory: a join of it with the target holds it whole and streams the target, unless the
    /// join's partitions decide the files.
    fn with_rows(mut self, name: &'static str, table: Arc<dyn TableProvider>) -> Self {
        self.tables.push((name, table));
        let state = self.ctx.state_ref();
        let mut state = state.write();
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        if optimizer.hash_join_single_partition_threshold > 0 {
            optimizer.hash_join_single_partition_threshold = usize::MAX;
            optimizer.hash_join_single_partition_threshold_rows = usize::MAX;
        }
        drop(state);
        self
    }
}

/// A context for one statement: `provider` is [`TARGET`], the parallelism fits the size of the input.
pub(crate) fn statement_context(
    planner: &dyn QueryPlanner,
    provider: IcebergTableProvider,
    input_bytes: i64,
) -> Cx<'_> {
    let state = planner.context().state();
    let mut config = state.config().clone();
    if input_bytes < SMALL_INPUT {
        // one task reads in file order, so small statements are deterministic
        config = config.with_target_partitions(1);
    }
    // the query's own partitions decide the files; a repartition for speed alone must not
    config = config.with_round_robin_repartition(false);
    if input_bytes == i64::MAX {
        // a large join is split by its keys, whatever the size of its smaller side
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold = 0;
        optimizer.hash_join_single_partition_threshold_rows = 0;
    }
    let ctx = SessionContext::new_with_state(SessionStateBuilder::new_from_existing(state).with_config(config).build());
    Cx { planner, tables: vec![(TARGET, Arc::new(provider))], ctx }
}

/// Runs a plan, one stream a partition.
pub(crate) async fn run(cx: &Cx<'_>, plan: LogicalPlan) -> Result<Vec<SendableRecordBatchStream>> {
    let physical = physical(&cx.ctx, plan).await?;
    Ok(execute_stream_partitioned(physical, cx.ctx.task_ctx())?)
}

/// What a filter over the target says about whole files, for operations that choose files by it.
pub fn file_filter(planner: &dyn QueryPlanner, target: &Target, selection: &Expr) -> Result<Pred> {
    let cx = statement_context(planner, target.provider()?, 0);
    analyze::predicate(&cx, target, Some(selection))
}

pub(crate) async fn physical(ctx: &SessionContext, plan: LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(ctx.state().create_physical_plan(&plan).await?)
}
