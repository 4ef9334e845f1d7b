//! The changelog of a table: what rows each snapshot of a range deleted and inserted (CDC-20..28).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use iceberg::spec::{NestedFieldRef, Schema, SchemaRef as IcebergSchemaRef};

use super::columns;
use super::config::Columns;
use super::range::{self, End, Start, Step};
use super::reader::RowReader;
use super::resolve::Pairing;
use super::run::{Run, Shape};
use crate::expr::{FilePruner, Pred, from_df_all};
use crate::types::arrow_schema;
use crate::{Error, Result, Table};

/// Columns that say what a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaColumns {
    /// None.
    None,
    /// `_change_type` alone.
    Type,
    /// `_change_type`, `_change_ordinal`, `_commit_snapshot_id`, as Spark has them (CDC-4).
    Spark,
    /// Spark's, `_commit_snapshot_sequence_number`, `_commit_timestamp` and `_row_id`.
    All,
}

/// Default bytes of rows held at a time when deletes and inserts have to be matched.
pub const DEFAULT_MEMORY: usize = 256 << 20;

/// Builds a [`ChangelogScan`].
#[derive(Debug, Clone)]
pub struct ChangelogBuilder {
    table: Table,
    branch: Option<String>,
    start: Start,
    end: End,
    schema: Option<IcebergSchemaRef>,
    columns: Columns,
    filter: Option<String>,
    identifiers: Option<Vec<String>>,
    updates: bool,
    net: bool,
    carry_overs: bool,
    meta: MetaColumns,
    memory: usize,
    elsewhere: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl ChangelogBuilder {
    /// A rule that may have the reading of changed files run elsewhere: it sees a [`super::ChangesExec`].
    #[must_use]
    pub fn elsewhere(mut self, rule: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) -> Self {
        self.elsewhere = rule;
        self
    }

    /// Reads a branch other than `main`.
    #[must_use]
    pub fn branch(mut self, name: Option<String>) -> Self {
        self.branch = name;
        self
    }

    /// Range of snapshots.
    #[must_use]
    pub fn range(mut self, start: Start, end: End) -> Self {
        self.start = start;
        self.end = end;
        self
    }

    /// Reads rows with this schema instead of the table's current one.
    #[must_use]
    pub fn schema(mut self, schema: IcebergSchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Columns to give. Changes are judged on these (and the identifier columns): one that touches only other columns is none.
    #[must_use]
    pub fn columns(mut self, columns: Columns) -> Self {
        self.columns = columns;
        self
    }

    /// A SQL predicate over the table's columns. It is applied to rows before they are paired, so that an update which moves
    /// a row out of the filter is a delete.
    #[must_use]
    pub fn filter(mut self, sql: Option<String>) -> Self {
        self.filter = sql;
        self
    }

    /// Makes updates of deletes and inserts with equal values in these columns; empty = the schema's identifier fields.
    #[must_use]
    pub fn identifier_columns(mut self, names: Vec<String>) -> Self {
        self.identifiers = Some(names);
        self.updates = true;
        self
    }

    /// Makes updates: by identifier columns (given, or the schema's), else by `_row_id` where the table has row lineage.
    #[must_use]
    pub fn compute_updates(mut self, yes: bool) -> Self {
        self.updates = yes;
        self
    }

    /// Gives the net changes of the whole range (SPARK-4).
    #[must_use]
    pub fn net_changes(mut self, yes: bool) -> Self {
        self.net = yes;
        self
    }

    /// Keeps rows that copy-on-write only moved, as a delete and an insert: Spark's raw `.changes` table.
    #[must_use]
    pub fn carry_overs(mut self, keep: bool) -> Self {
        self.carry_overs = keep;
        self
    }

    /// Columns that say what a change is.
    #[must_use]
    pub fn meta_columns(mut self, meta: MetaColumns) -> Self {
        self.meta = meta;
        self
    }

    /// Bytes of rows held at a time, about, when deletes and inserts have to be matched; files are read again rather than
    /// more held.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes.max(1 << 10);
        self
    }

    /// Checks everything and finds the snapshots. Nothing but table metadata is looked at.
    pub async fn build(self) -> Result<ChangelogScan> {
        let place = self.table.ident().clone();
        self.build_inner().map_err(|e| e.at(place))
    }

    fn build_inner(self) -> Result<ChangelogScan> {
        if self.carry_overs && (self.updates || self.net) {
            return Err(
                Error::invalid("carry-overs can't be kept when updates or net changes are computed").clause("SPARK-5")
            );
        }
        let metadata = self.table.metadata().clone();
        let schema = self.schema.clone().unwrap_or_else(|| metadata.current_schema().clone());
        let output = columns::project(&schema, &self.columns)?;
        let (pairing, keys) = self.pairing(&schema)?;
        let mut steps = range::steps(&self.table, self.branch.as_deref(), &self.start, &self.end)?;
        steps.retain(Step::changes_rows);

        let (filter, pred, filter_columns) = match &self.filter {
            Some(sql) => {
                let f = parse_filter(sql, &schema, &metadata.ext)?;
                (Some(f.0), f.1, f.2)
            }
            None => (None, Pred::True, Vec::new()),
        };
        // a column that only the filter or the key needs is read whole beside the pruned output
        let mut read: Vec<NestedFieldRef> = output.clone();
        for f in schema.as_struct().fields() {
            let whole = filter_columns.contains(&f.name) || keys.contains(&f.name);
            match read.iter_mut().find(|r| r.id == f.id) {
                Some(r) if whole => *r = f.clone(),
                Some(_) => {}
                None if whole => read.push(f.clone()),
                None => {}
            }
        }
        let read_schema = Arc::new(Schema::builder().with_schema_id(schema.schema_id()).with_fields(read).build()?);
        let read_arrow = arrow_schema(&read_schema, &metadata.ext);
        let filter = filter.map(|e| physical_filter(e, &read_arrow)).transpose()?;

        let output_schema = Schema::builder().with_schema_id(schema.schema_id()).with_fields(output).build()?;
        let output_arrow = arrow_schema(&output_schema, &metadata.ext);
        let mut value_fields: Vec<FieldRef> = output_arrow.fields().iter().cloned().collect();
        value_fields.extend(keys.iter().filter_map(|k| read_arrow.field_with_name(k).ok().cloned().map(Arc::new)));
        let mut fields: Vec<FieldRef> = output_arrow.fields().iter().cloned().collect();
        fields.extend(meta_fields(self.meta));
        let pruner = Arc::new(FilePruner::new(pred, &metadata.inner));
        let run = Run {
            reader: RowReader::new(self.table.io().clone(), metadata, read_schema, read_arrow, filter),
            table: self.table,
            steps,
            pruner,
            shape: Shape { values: Arc::new(ArrowSchema::new(value_fields)), keys: keys.len(), pairing },
            outputs: output_arrow.fields().len(),
            schema: Arc::new(ArrowSchema::new(fields)),
            net: self.net,
            raw: self.carry_overs,
            meta: self.meta,
            memory: self.memory,
            elsewhere: self.elsewhere,
        };
        Ok(ChangelogScan { run: Arc::new(run), output_schema: Arc::new(output_schema) })
    }

    fn pairing(&self, schema: &Schema) -> Result<(Pairing, Vec<String>)> {
        if !self.updates {
            return Ok((Pairing::None, Vec::new()));
        }
        let mut names = match &self.identifiers {
            Some(names) if !names.is_empty() => names.clone(),
            _ => {
                schema.identifier_field_ids().filter_map(|id| schema.name_by_field_id(id)).map(str::to_string).collect()
            }
        };
        if names.is_empty() {
            if self.table.metadata().format_version() >= iceberg::spec::FormatVersion::V3 && self.identifiers.is_none()
            {
                return Ok((Pairing::RowId, Vec::new()));
            }
            return Err(Error::invalid(
                "updates need identifier columns: none were given, the schema has no identifier fields, \
                 and the table's format has no row lineage",
            )
            .clause("SPARK-5"));
        }
        names.sort();
        names.dedup();
        for n in &names {
            if !schema.as_struct().fields().iter().any(|f| f.name == *n) {
                return Err(columns::unknown(n, schema).clause("SPARK-5"));
            }
        }
        Ok((Pairing::Key, names))
    }
}

/// The row-level changes of a range of snapshots. Checked and ready; reading starts with [`ChangelogScan::stream`].
#[derive(Clone)]
pub struct ChangelogScan {
    run: Arc<Run>,
    output_schema: IcebergSchemaRef,
}

impl ChangelogScan {
    /// Starts a scan of a table's whole history on `main`.
    pub fn builder(table: Table) -> ChangelogBuilder {
        ChangelogBuilder {
            table,
            branch: None,
            start: Start::Beginning,
            end: End::Head,
            schema: None,
            columns: Columns::All,
            filter: None,
            identifiers: None,
            updates: false,
            net: false,
            carry_overs: false,
            meta: MetaColumns::All,
            memory: DEFAULT_MEMORY,
            elsewhere: None,
        }
    }

    /// Columns: the table's that were asked for, then those of [`MetaColumns`].
    pub fn schema(&self) -> SchemaRef {
        self.run.schema.clone()
    }

    /// The table's columns of the output, as an Iceberg schema.
    pub fn output_schema(&self) -> &IcebergSchemaRef {
        &self.output_schema
    }

    /// The snapshots whose changes are read, oldest first, without `replace` ones (CDC-6).
    pub fn steps(&self) -> &[Step] {
        &self.run.steps
    }

    /// Reads the changes, oldest first. Work stops when the stream is dropped, and waits for a slow consumer.
    pub fn stream(&self) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema(), 2);
        let (tx, run) = (builder.tx(), self.run.clone());
        builder.spawn(async move {
            let place = run.table.ident().clone();
            run.all(tx).await.map_err(|e| e.at(place))?;
            Ok(())
        });
        builder.build()
    }

    /// All changes in memory; for tests and small tables.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        use futures::TryStreamExt;
        Ok(self.stream().try_collect().await?)
    }
}

/// Arrow fields of the metadata columns.
fn meta_fields(meta: MetaColumns) -> Vec<FieldRef> {
    let spark = [
        Field::new("_change_type", DataType::Utf8, false),
        Field::new("_change_ordinal", DataType::Int32, false),
        Field::new("_commit_snapshot_id", DataType::Int64, false),
    ];
    let more = [
        Field::new("_commit_snapshot_sequence_number", DataType::Int64, false),
        Field::new("_commit_timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
        Field::new("_row_id", DataType::Int64, true),
    ];
    let fields: Vec<Field> = match meta {
        MetaColumns::None => Vec::new(),
        MetaColumns::Type => vec![spark[0].clone()],
        MetaColumns::Spark => spark.into(),
        MetaColumns::All => spark.into_iter().chain(more).collect(),
    };
    fields.into_iter().map(Arc::new).collect()
}

/// Parses a SQL predicate; gives the expression, what it says about files, and the columns it reads.
pub(crate) fn parse_filter(
    sql: &str,
    schema: &Schema,
    ext: &crate::types::ExtTypes,
) -> Result<(datafusion::logical_expr::Expr, Pred, Vec<String>)> {
    let arrow = arrow_schema(schema, ext);
    let df = DFSchema::try_from(arrow.as_ref().clone())?;
    // names are taken as written: a configuration quotes nothing
    let config = SessionConfig::new().set_bool("datafusion.sql_parser.enable_ident_normalization", false);
    let cx = SessionContext::new_with_config(config);
    let bad = |e: Error| {
        Error::invalid(format!("key `filter`: {sql:?} is no predicate over the table's columns: {}", e.message()))
    };
    let expr = cx.state().create_logical_expr(sql, &df).map_err(|e| bad(e.into()))?;
    let (simple, _) = datafusion::optimizer::simplify_expressions::ExprSimplifier::new(
        datafusion::logical_expr::simplify::SimplifyContext::default().with_schema(Arc::new(df.clone())),
    )
    .coerce(expr, &df)
    .map(|e| (e, ()))
    .map_err(|e| bad(e.into()))?;
    use datafusion::logical_expr::ExprSchemable;
    match simple.get_type(&df).map_err(|e| bad(e.into()))? {
        DataType::Boolean | DataType::Null => {}
        other => {
            return Err(Error::invalid(format!("key `filter`: {sql:?} gives {other}; a predicate is required")));
        }
    }
    let columns = simple.column_refs().iter().map(|c| c.name.clone()).collect();
    let pred = from_df_all(std::slice::from_ref(&simple), schema, ext);
    Ok((simple, pred, columns))
}

fn physical_filter(expr: datafusion::logical_expr::Expr, arrow: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let df = DFSchema::try_from(arrow.as_ref().clone())?;
    Ok(create_physical_expr(&expr, &df, &Default::default())?)
}
