//! What floe's plans add to DataFusion's and Ballista's, as bytes: scans, readings of changes, the views' compaction,
//! functions with state.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use arrow::datatypes::{DataType, Field, Schema};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::protobuf;
use floe_engine::Error;
use floe_engine::cdc::{ChangesExec, ChangesWire};
use floe_engine::rowlevel::{keys_parts, keys_udf, store_type, store_udf};
use floe_engine::scan::{IcebergScanExec, ScanWire};
use floe_engine::sql::functions::{assign_parts, assign_udf};
use prost::Message;

use crate::compact::CompactExec;

/// First bytes of a scan; a protobuf message of Ballista's can't begin so.
const SCAN: &[u8] = b"floe:scan:1:";
/// First bytes of a reading of changes.
const CHANGES: &[u8] = b"floe:changes:1:";
/// First bytes of a compaction of views.
const COMPACT: &[u8] = b"floe:compact:1:";
/// Readers that an executor keeps decoded: the tasks of a stage all bring the same one.
const KEPT: usize = 8;

/// Floe's nodes and functions; the rest is Ballista's.
pub struct FloeCodec {
    ballista: BallistaPhysicalExtensionCodec,
    functions: Arc<BallistaFunctionRegistry>,
    store: HashMap<String, String>,
    decoded: Mutex<VecDeque<(Vec<u8>, Arc<dyn ExecutionPlan>)>>,
}

impl std::fmt::Debug for FloeCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FloeCodec").finish_non_exhaustive()
    }
}

impl FloeCodec {
    /// A codec over `functions`. `store` are properties of this process's stores (credentials), which win over those that come
    /// with a plan.
    pub fn new(functions: Arc<BallistaFunctionRegistry>, store: HashMap<String, String>) -> Self {
        Self { ballista: BallistaPhysicalExtensionCodec::default(), functions, store, decoded: Mutex::default() }
    }

    /// A scan or a reading of changes: decoded once, whatever number of tasks brings it.
    fn reader(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let known = self.decoded.lock().ok().and_then(|d| d.iter().find(|(b, _)| b == buf).map(|(_, p)| p.clone()));
        let plan = match known {
            Some(plan) => plan,
            None => {
                let plan = self.decode(buf, ctx)?;
                if let Ok(mut kept) = self.decoded.lock() {
                    kept.push_back((buf.to_vec(), plan.clone()));
                    if kept.len() > KEPT {
                        kept.pop_front();
                    }
                }
                plan
            }
        };
        Ok(match plan.as_any().downcast_ref::<IcebergScanExec>() {
            Some(scan) => Arc::new(scan.again()),
            None => plan,
        })
    }

    fn decode(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(rest) = buf.strip_prefix(CHANGES) {
            let (filter, wire) = take_filter(rest)?;
            let wire = ChangesWire::parse(wire)?;
            let filter = wire.filter_schema().map(|s| self.filter(filter, &s, ctx)).transpose()?;
            return Ok(Arc::new(wire.build(filter, &self.store)?));
        }
        let (filter, wire) = take_filter(buf.strip_prefix(SCAN).unwrap_or_default())?;
        let wire = ScanWire::parse(wire)?;
        let filter = wire.late_schema()?.map(|s| self.filter(filter, &s, ctx)).transpose()?;
        Ok(Arc::new(wire.build(filter, &self.store)?))
    }

    fn filter(&self, bytes: &[u8], columns: &Schema, ctx: &TaskContext) -> Result<Arc<dyn PhysicalExpr>> {
        let proto = protobuf::PhysicalExprNode::decode(bytes)
            .map_err(|e| Error::malformed(format!("the filter of a scan: {e}")))?;
        parse_physical_expr(&proto, ctx, columns, self)
    }

    fn put(&self, kind: &[u8], filter: Option<&Arc<dyn PhysicalExpr>>, wire: &[u8], buf: &mut Vec<u8>) -> Result<()> {
        let filter = match filter {
            Some(expr) => serialize_physical_expr(expr, self)?.encode_to_vec(),
            None => Vec::new(),
        };
        let length = u32::try_from(filter.len()).map_err(|_| Error::unsupported("a filter of more than 4 GiB"))?;
        for part in [kind, length.to_le_bytes().as_slice(), &filter, wire] {
            buf.extend_from_slice(part);
        }
        Ok(())
    }
}

/// A filter's bytes, and the rest.
fn take_filter(buf: &[u8]) -> Result<(&[u8], &[u8])> {
    let short = || DataFusionError::from(Error::malformed("a scan's bytes end too early"));
    let (length, rest) = buf.split_first_chunk::<4>().ok_or_else(short)?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)
}

impl PhysicalExtensionCodec for FloeCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if buf.starts_with(SCAN) || buf.starts_with(CHANGES) {
            return self.reader(buf, ctx);
        }
        if buf == COMPACT {
            let [input] = inputs else { return Err(Error::malformed("a compaction has one input").into()) };
            return Ok(Arc::new(CompactExec::new(input.clone())));
        }
        self.ballista.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: Arc<dyn ExecutionPlan>, buf: &mut Vec<u8>) -> Result<()> {
        if let Some(scan) = node.as_any().downcast_ref::<IcebergScanExec>() {
            return self.put(SCAN, scan.late_filter().map(|(f, _)| f), &scan.to_wire()?, buf);
        }
        if let Some(changes) = node.as_any().downcast_ref::<ChangesExec>() {
            return self.put(CHANGES, changes.filter().map(|(f, _)| f), &changes.to_wire()?, buf);
        }
        if node.as_any().is::<CompactExec>() {
            buf.extend_from_slice(COMPACT);
            return Ok(());
        }
        self.ballista.try_encode(node, buf)
    }

    fn try_encode_udf(&self, f: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        if let Some(to) = store_type(f) {
            return put_type(buf, to, "");
        }
        if let Some((to, column)) = assign_parts(f) {
            return put_type(buf, to, column);
        }
        if let Some(keys) = keys_parts(f) {
            buf.extend_from_slice(&keys);
            return Ok(());
        }
        // a name stands for a function only where both sides mean the same one by it
        match self.functions.udf(f.name()) {
            Ok(known) if *known == *f => Ok(()),
            _ => Err(foreign(f.name())),
        }
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        if name == "is_source_key" {
            return Ok(Arc::new(keys_udf(buf)?));
        }
        let schema = protobuf::Schema::decode(buf)
            .map_err(|e| Error::malformed(format!("the type of function {name}: {e}")))
            .and_then(|s| Schema::try_from(&s).map_err(|e| Error::malformed(format!("function {name}: {e}"))))?;
        let field = schema.fields().first().ok_or_else(|| foreign(name))?;
        Ok(Arc::new(match name {
            "store" => store_udf(field.data_type().clone()),
            _ => assign_udf(name, field.data_type(), field.name()),
        }))
    }

    fn try_encode_udaf(&self, f: &AggregateUDF, _: &mut Vec<u8>) -> Result<()> {
        match self.functions.udaf(f.name()) {
            Ok(known) if *known == *f => Ok(()),
            _ => Err(foreign(f.name())),
        }
    }

    fn try_encode_udwf(&self, f: &WindowUDF, _: &mut Vec<u8>) -> Result<()> {
        match self.functions.udwf(f.name()) {
            Ok(known) if *known == *f => Ok(()),
            _ => Err(foreign(f.name())),
        }
    }
}

fn foreign(name: &str) -> DataFusionError {
    Error::unsupported(format!("function {name} is not known on executors")).into()
}

/// A type (and a column's name) as a schema of one field.
fn put_type(buf: &mut Vec<u8>, ty: &DataType, name: &str) -> Result<()> {
    let schema = Schema::new(vec![Field::new(name, ty.clone(), true)]);
    let proto = protobuf::Schema::try_from(&schema).map_err(|e| Error::unsupported(format!("type {ty}: {e}")))?;
    buf.extend_from_slice(&proto.encode_to_vec());
    Ok(())
}
