//! Ballista takes logical plans from clients and plans them itself. Floe's plans are planned already: one travels as a
//! logical leaf that holds its bytes, and the scheduler's planner takes it out again.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::datasource::TableProvider;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::TableReference;
use datafusion_proto::logical_plan::{AsLogicalPlan, LogicalExtensionCodec};
use datafusion_proto::physical_plan::{AsExecutionPlan, PhysicalExtensionCodec};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use floe_engine::Error;

/// A physical plan as a logical leaf.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Carried {
    bytes: Arc<[u8]>,
    schema: DFSchemaRef,
}

impl PartialOrd for Carried {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.bytes.partial_cmp(&other.bytes)
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Carried({} bytes)", self.bytes.len())
    }
}

impl Carried {
    fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into(), schema: Arc::new(DFSchema::empty()) }
    }
}

impl UserDefinedLogicalNodeCore for Carried {
    fn name(&self) -> &str {
        "Carried"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

/// The bytes that Ballista's client message takes for a physical plan.
///
/// Errors: a node, function or file that another process can't have.
pub fn pack(plan: Arc<dyn ExecutionPlan>, codec: &dyn PhysicalExtensionCodec) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    PhysicalPlanNode::try_from_physical_plan(plan, codec)?.try_encode(&mut bytes)?;
    let leaf = LogicalPlan::Extension(Extension { node: Arc::new(Carried::new(bytes)) });
    let mut out = Vec::new();
    LogicalPlanNode::try_from_logical_plan(&leaf, &CarriedCodec)?.try_encode(&mut out)?;
    Ok(out)
}

/// The physical plan in bytes of [`pack`].
pub fn unpack(bytes: &[u8], ctx: &TaskContext, codec: &dyn PhysicalExtensionCodec) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = LogicalPlanNode::try_decode(bytes)?.try_into_logical_plan(ctx, &CarriedCodec)?;
    take_out(&plan, ctx, codec)
}

fn take_out(
    plan: &LogicalPlan,
    ctx: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<Arc<dyn ExecutionPlan>> {
    let carried = match plan {
        LogicalPlan::Extension(e) => e.node.as_any().downcast_ref::<Carried>(),
        _ => None,
    };
    let carried = carried.ok_or_else(|| Error::unsupported("the scheduler takes plans of floe's client only"))?;
    PhysicalPlanNode::try_decode(&carried.bytes)?.try_into_physical_plan(ctx, codec)
}

/// Reads and writes [`Carried`] and nothing else.
#[derive(Debug)]
pub struct CarriedCodec;

impl LogicalExtensionCodec for CarriedCodec {
    fn try_decode(&self, buf: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        Ok(Extension { node: Arc::new(Carried::new(buf)) })
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        let carried = node.node.as_any().downcast_ref::<Carried>();
        buf.extend_from_slice(&carried.ok_or_else(|| Error::unsupported("only carried plans travel"))?.bytes);
        Ok(())
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        table: &TableReference,
        _: arrow::datatypes::SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        Err(Error::unsupported(format!("table {table} can't travel; plans do")).into())
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        _: Arc<dyn TableProvider>,
        _: &mut Vec<u8>,
    ) -> Result<()> {
        Err(Error::unsupported(format!("table {table} can't travel; plans do")).into())
    }
}

/// The scheduler's planner: takes the plan out that came.
pub struct TakeOut(pub Arc<dyn PhysicalExtensionCodec>);

impl fmt::Debug for TakeOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeOut")
    }
}

#[async_trait]
impl QueryPlanner for TakeOut {
    async fn create_physical_plan(&self, plan: &LogicalPlan, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
        take_out(plan, state.task_ctx().as_ref(), self.0.as_ref())
    }
}
