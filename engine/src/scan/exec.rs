//! The physical scan.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::reader::{self, ScanContext};
use super::split::Split;

/// Reads groups of splits, one group a partition.
#[derive(Debug)]
pub struct IcebergScanExec {
    cx: Arc<ScanContext>,
    groups: Vec<Vec<Split>>,
    /// Live rows when they are known exactly from metadata.
    exact_rows: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IcebergScanExec {
    pub(super) fn new(cx: Arc<ScanContext>, groups: Vec<Vec<Split>>, exact_rows: Option<usize>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(cx.output.arrow.clone()),
            Partitioning::UnknownPartitioning(groups.len().max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { cx, groups, exact_rows, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The same scan with metrics of its own: a scan that was decoded once serves many tasks.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.cx.clone(), self.groups.clone(), self.exact_rows)
    }

    /// Bytes of the data files' parts that are read, as stored.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().flatten().map(|s| u64::try_from(s.weight).unwrap_or(0)).sum()
    }

    pub(super) fn context(&self) -> &ScanContext {
        &self.cx
    }

    pub(super) fn groups(&self) -> &[Vec<Split>] {
        &self.groups
    }

    pub(super) fn exact_rows(&self) -> Option<usize> {
        self.exact_rows
    }

    /// Number of data files read.
    pub fn file_count(&self) -> usize {
        let mut paths: Vec<_> = self.groups.iter().flatten().map(|s| &s.task.entry.file.path).collect();
        paths.sort();
        paths.dedup();
        paths.len()
    }
}

impl DisplayAs for IcebergScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_deletes = self.groups.iter().flatten().filter(|s| !s.task.deletes.is_empty()).count();
        write!(
            f,
            "IcebergScanExec: partitions={}, files={}, splits with deletes={with_deletes}, late filter={}",
            self.groups.len(),
            self.file_count(),
            self.cx.late.as_ref().map_or_else(|| "none".into(), |l| l.expr.to_string())
        )
    }
}

impl ExecutionPlan for IcebergScanExec {
    fn name(&self) -> &str {
        "IcebergScanExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        self.cx.output.arrow.clone()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { Err(DataFusionError::Internal("a scan has no children".into())) }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let splits = self.groups.get(partition).cloned().unwrap_or_default();
        let cx = self.cx.clone();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let stream = futures::stream::iter(splits)
            .then(move |split| reader::read(cx.clone(), split))
            .try_flatten()
            .map_err(DataFusionError::from)
            .inspect_ok(move |b| baseline.record_output(b.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Statistics> {
        let mut s = Statistics::new_unknown(&self.schema());
        if partition.is_none() {
            if let Some(n) = self.exact_rows {
                s.num_rows = Precision::Exact(n);
            } else {
                let rows: i64 = self.groups.iter().flatten().map(|s| s.task.entry.file.record_count).sum();
                s.num_rows = Precision::Inexact(usize::try_from(rows).unwrap_or(0));
            }
        }
        Ok(s)
    }
}
