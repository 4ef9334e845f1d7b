//! A table snapshot as a DataFusion table.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use iceberg::spec::{Schema, SchemaRef as IcebergSchemaRef};

use super::columns::{META_COLUMNS, MetaColumn};
use super::exec::IcebergScanExec;
use super::output::{OutColumn, Output};
use super::plan::{self, FileTask, Planned};
use super::reader::{LateFilter, ScanContext};
use super::split;
use crate::deletes::DeleteLoader;
use crate::expr::{FilePruner, from_df_all};
use crate::io::normalize;
use crate::types::read_arrow_schema;
use crate::{Result, Table};

/// A filter beside those of a query: rows that it does not let through may be left out, and the query must not miss them.
#[derive(Debug, Clone)]
pub struct RowFilter {
    /// What it means for whole files: a conjunction that metrics can judge.
    pub files: Vec<Expr>,
    /// What it says of a row.
    pub rows: Expr,
}

/// One snapshot of a table, with deletes applied; optionally with metadata columns after the table's columns.
#[derive(Debug, Clone)]
pub struct IcebergTableProvider {
    table: Table,
    snapshot_id: Option<i64>,
    schema: IcebergSchemaRef,
    table_columns: usize,
    arrow: SchemaRef,
    only_files: Option<Arc<HashSet<String>>>,
    planned: Option<Arc<Vec<FileTask>>>,
    narrowed: Option<Arc<RowFilter>>,
}

impl IcebergTableProvider {
    /// The table at a snapshot, with that snapshot's schema; `None` = the current snapshot with the current schema.
    pub fn try_new(
        table: Table,
        snapshot_id: Option<i64>,
        with_metadata_columns: bool,
    ) -> Result<Arc<dyn TableProvider>> {
        let schema = match snapshot_id {
            Some(id) => plan::snapshot(table.metadata(), id)
                .map_err(|e| e.at(table.ident()))?
                .schema(&table.metadata().inner)?,
            None => table.metadata().current_schema().clone(),
        };
        let snapshot_id = snapshot_id.or_else(|| table.metadata().current_snapshot_id());
        Ok(Arc::new(Self::with_schema(table, snapshot_id, schema, with_metadata_columns)?))
    }

    /// The table at a snapshot (`None` = no rows), read with a given schema: branches read with the table's current one.
    pub fn with_schema(
        table: Table,
        snapshot_id: Option<i64>,
        schema: IcebergSchemaRef,
        with_metadata_columns: bool,
    ) -> Result<Self> {
        let data = read_arrow_schema(&schema, &table.metadata().ext, true);
        let mut fields: Vec<FieldRef> = data.fields().iter().cloned().collect();
        let table_columns = fields.len();
        if with_metadata_columns {
            for c in META_COLUMNS {
                fields.push(c.field(table.metadata())?);
            }
        }
        let arrow = Arc::new(ArrowSchema::new(fields));
        Ok(Self { table, snapshot_id, schema, table_columns, arrow, only_files: None, planned: None, narrowed: None })
    }

    /// Restricts the scan to data files by path (normalised): copy-on-write reads just what it rewrites.
    #[must_use]
    pub fn only_files(mut self, paths: HashSet<String>) -> Self {
        self.only_files = Some(Arc::new(paths));
        self
    }

    /// Reads from a plan of the same snapshot that is there already, so that its manifests are read once. Every row that the
    /// queries over this table ask for must lie in the plan's files.
    #[must_use]
    pub fn over_plan(mut self, planned: &Planned) -> Self {
        self.planned = Some(Arc::new(planned.tasks.clone()));
        self
    }

    /// Leaves out rows that the queries over this table do not need.
    #[must_use]
    pub fn narrowed(mut self, filter: RowFilter) -> Self {
        self.narrowed = Some(Arc::new(filter));
        self
    }

    /// The snapshot that is read.
    pub fn snapshot_id(&self) -> Option<i64> {
        self.snapshot_id
    }

    fn output(&self, projection: Option<&[usize]>) -> Result<Output> {
        let all: Vec<usize> = (0..self.arrow.fields().len()).collect();
        let indices = projection.unwrap_or(&all);
        let mut table_indices: Vec<usize> = indices.iter().copied().filter(|i| *i < self.table_columns).collect();
        table_indices.sort_unstable();
        table_indices.dedup();
        let fields = table_indices.iter().map(|i| self.schema.as_struct().fields()[*i].clone());
        let schema = Arc::new(Schema::builder().with_schema_id(self.schema.schema_id()).with_fields(fields).build()?);
        let table_arrow =
            Arc::new(ArrowSchema::new(table_indices.iter().map(|i| self.arrow.field(*i).clone()).collect::<Vec<_>>()));
        let columns = indices
            .iter()
            .map(|i| match table_indices.binary_search(i) {
                Ok(at) => OutColumn::Table(at),
                Err(_) => OutColumn::Meta(META_COLUMNS[*i - self.table_columns]),
            })
            .collect();
        let arrow = Arc::new(self.arrow.project(indices)?);
        Ok(Output { schema, table_arrow, columns, arrow })
    }

    /// A filter that only needs table columns runs inside the reader, where it spares decoding other columns, or positions and rows.
    fn late_filter(&self, state: &dyn Session, output: &Output, filters: &[Expr]) -> Result<Option<LateFilter>> {
        let mut columns = HashSet::new();
        let usable: Vec<Expr> = filters
            .iter()
            .filter(|f| {
                f.column_refs().iter().all(|c| MetaColumn::by_name(&c.name).is_none()) && !has_volatile_or_subquery(f)
            })
            .cloned()
            .collect();
        for f in &usable {
            columns.extend(f.column_refs().iter().map(|c| c.name.clone()));
        }
        let Some(expr) = conjunction(usable) else { return Ok(None) };
        if columns.is_empty() || output.wants(MetaColumn::Deleted) {
            return Ok(None);
        }
        let indices: Vec<usize> =
            (0..self.table_columns).filter(|i| columns.contains(self.arrow.field(*i).name())).collect();
        let input = self.output(Some(&indices))?;
        let df_schema = DFSchema::try_from(input.arrow.as_ref().clone())?;
        let unqualified = unqualify(expr)?;
        let expr = create_physical_expr(&unqualified, &df_schema, state.execution_props())?;
        Ok(Some(LateFilter { input, expr }))
    }
}

fn unqualify(expr: Expr) -> Result<Expr> {
    use datafusion::common::tree_node::Transformed;
    Ok(expr
        .transform(|e| match e {
            Expr::Column(c) if c.relation.is_some() => {
                Ok(Transformed::yes(Expr::Column(datafusion::common::Column::new_unqualified(c.name))))
            }
            e => Ok(Transformed::no(e)),
        })?
        .data)
}

fn has_volatile_or_subquery(e: &Expr) -> bool {
    let mut found = e.is_volatile();
    let _ = e.apply(|e| {
        if matches!(e, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..))
        {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

#[async_trait]
impl TableProvider for IcebergTableProvider {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        self.arrow.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let metadata = self.table.metadata().clone();
        let output = self.output(projection.map(Vec::as_slice))?;
        let narrowed = self.narrowed.as_deref();
        let of_files: Vec<Expr> = filters.iter().chain(narrowed.iter().flat_map(|n| &n.files)).cloned().collect();
        let of_rows: Vec<Expr> = filters.iter().chain(narrowed.map(|n| &n.rows)).cloned().collect();
        let pred = from_df_all(&of_files, &self.schema, &metadata.ext);
        let pruner = Arc::new(FilePruner::new(pred, &metadata.inner));
        let mut tasks = match &self.planned {
            Some(tasks) => tasks.iter().filter(|t| pruner.may_match(&t.entry.file)).cloned().collect(),
            None => plan::plan(&self.table, self.snapshot_id, &pruner).await?.tasks,
        };
        if let Some(only) = &self.only_files {
            tasks.retain(|t| only.contains(&normalize(&t.entry.file.path)));
        }
        let exact_rows =
            (of_rows.is_empty() && !output.wants(MetaColumn::Deleted)).then(|| exact_rows(&tasks)).flatten();
        let late = self.late_filter(state, &output, &of_rows)?;
        let parallelism = state.config().target_partitions();
        let groups = split::group(tasks, &self.table, parallelism);
        let cx = ScanContext {
            io: self.table.io().clone(),
            deletes: DeleteLoader::new(self.table.io().clone(), metadata.clone()),
            metadata,
            output,
            pruner,
            late,
            batch_size: state.config().batch_size(),
        };
        Ok(Arc::new(IcebergScanExec::new(Arc::new(cx), groups, exact_rows)))
    }
}

/// Live rows from metadata alone: sound with deletion vectors, whose cardinality is exact; position-delete files may repeat
/// a position and equality deletes say nothing about rows, so those leave it unknown (SUMMARY-52).
fn exact_rows(tasks: &[FileTask]) -> Option<usize> {
    let mut total = 0i64;
    for t in tasks {
        if !t.deletes.positions.is_empty() || !t.deletes.equality.is_empty() {
            return None;
        }
        total += t.entry.file.record_count - t.deletes.dv.as_ref().map_or(0, |d| d.file.record_count);
    }
    usize::try_from(total).ok()
}
