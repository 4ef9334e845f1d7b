//! The changelog in SQL: `CALL system.create_changelog_view(…)`, `t.changes`, and `table_changes('ns.t', from, to)`.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, TableFactor, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::changelog::{ChangelogScan, MetaColumns};
use super::config::DeleteFormat;
use super::range::{End, Start};
use super::upsert::{Upsert, upsert};
use crate::sql::procedures::{Args, Parameter, counts};
use crate::sql::{Session, StatementResult, View};
use crate::{Error, Result, Table};

/// Parameters of `create_changelog_view` (SPARK-1).
pub(crate) const CHANGELOG_VIEW: &[Parameter] = &[
    Parameter::required("table"),
    Parameter::optional("changelog_view"),
    Parameter::optional("options"),
    Parameter::optional("compute_updates"),
    Parameter::optional("identifier_columns"),
    Parameter::optional("net_changes"),
];

/// Parameters of `upsert`.
pub(crate) const UPSERT: &[Parameter] = &[
    Parameter::required("table"),
    Parameter::required("source"),
    Parameter::required("equality_columns"),
    Parameter::optional("delete_format"),
];

/// `CALL system.upsert(…)`: the rows of a table or view take the place of those with the same key; see [`upsert`].
pub(crate) async fn call_upsert(session: &mut Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let deletes = match args.string("delete_format")?.as_deref().unwrap_or("positions") {
        "positions" => DeleteFormat::Positions,
        "equality" => DeleteFormat::Equality,
        other => {
            return Err(Error::invalid(format!("upsert: delete_format is {other:?}; allowed: positions, equality")));
        }
    };
    let source = args.need_string("source")?;
    let parts = crate::sql::parser::parse_name(&source).map_err(|e| e.at("source"))?;
    let quoted: Vec<String> = parts.iter().map(|p| format!("`{}`", p.replace('`', "``"))).collect();
    let rows = Box::pin(session.execute_one(&format!("SELECT * FROM {}", quoted.join(".")))).await?;
    let how = Upsert {
        equality_columns: args.strings("equality_columns")?.unwrap_or_default(),
        deletes,
        summary: Vec::new(),
    };
    let done = upsert(&table, &rows.batches, &how).await?;
    let count = |n: u64| i64::try_from(n).ok();
    counts(&[("upserted_rows_count", count(done.inserted)), ("deleted_rows_count", count(done.deleted))])
}

/// A scan as a DataFusion table; each read runs it anew.
#[derive(Clone)]
struct Changes(ChangelogScan, SchemaRef);

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("snapshots", &self.0.steps().len()).finish()
    }
}

impl PartitionStream for Changes {
    fn schema(&self) -> &SchemaRef {
        &self.1
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.0.stream()
    }
}

/// A scan as a DataFusion table.
pub fn provider(scan: ChangelogScan) -> Result<Arc<dyn TableProvider>> {
    let schema = scan.schema();
    Ok(Arc::new(StreamingTable::try_new(schema.clone(), vec![Arc::new(Changes(scan, schema))])?))
}

/// `t.changes`: raw rows, carried-over ones too, as Spark's metadata table has them (SPARK-2).
pub(crate) async fn changes_table(table: &Table) -> Result<Arc<dyn TableProvider>> {
    provider(ChangelogScan::builder(table.clone()).carry_overs(true).meta_columns(MetaColumns::Spark).build().await?)
}

/// `CALL system.create_changelog_view(…)` (SPARK-1..5): a temporary view over the changes, fixed to the snapshots of now.
pub(crate) async fn create_changelog_view(session: &mut Session, args: &Args) -> Result<StatementResult> {
    let name = args.table()?;
    let table = session.table(&name).await?;
    let identifiers = args.strings("identifier_columns")?;
    let net = args.boolean("net_changes")?.unwrap_or(false);
    let updates = args.boolean("compute_updates")?.unwrap_or(identifiers.is_some() && !net);
    if updates && net {
        return Err(Error::invalid("create_changelog_view: net_changes and compute_updates can't be combined")
            .clause("SPARK-5"));
    }
    let (start, end, branch) = options(args)?;
    let mut builder = ChangelogScan::builder(table)
        .branch(branch)
        .range(start, end)
        .meta_columns(MetaColumns::Spark)
        .net_changes(net)
        .elsewhere(session.last_rule());
    if updates {
        builder = match identifiers {
            Some(names) => builder.identifier_columns(names),
            None => builder.compute_updates(true),
        };
    }
    let scan = builder.build().await?;
    let view = match args.string("changelog_view")? {
        Some(v) => v,
        None => format!("{}_changes", name.last().map(String::as_str).unwrap_or_default()),
    };
    session.register_view(view.trim_matches('`'), View::Rows(provider(scan)?));
    let names: StringArray = [Some(view)].into_iter().collect();
    let batch = RecordBatch::try_from_iter([("changelog_view", Arc::new(names) as arrow::array::ArrayRef)])?;
    Ok(StatementResult::batch(batch))
}

/// The options of a range (SPARK-2).
fn options(args: &Args) -> Result<(Start, End, Option<String>)> {
    const KEYS: [&str; 5] = ["start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp", "branch"];
    let given = args.map("options")?;
    if let Some(k) = given.keys().find(|k| !KEYS.contains(&k.as_str())) {
        return Err(Error::invalid(format!(
            "create_changelog_view: unknown option {k:?}; allowed: {}",
            KEYS.join(", ")
        )));
    }
    let of = |k: &str| given.get(k).cloned();
    if (of(KEYS[0]).is_some() || of(KEYS[1]).is_some()) && (of(KEYS[2]).is_some() || of(KEYS[3]).is_some()) {
        return Err(
            Error::invalid("create_changelog_view: snapshot ids and timestamps can't be mixed").clause("SPARK-2")
        );
    }
    let time = |k: &str| -> Result<Option<i64>> {
        of(k)
            .map(|t| {
                t.parse().map_err(|_| {
                    Error::invalid(format!(
                        "create_changelog_view: option {k} is {t:?}; milliseconds since the epoch are allowed"
                    ))
                })
            })
            .transpose()
    };
    let start = match (of(KEYS[0]), time(KEYS[2])?) {
        (Some(id), _) => Start::After(id),
        (None, Some(ms)) => Start::AfterTime(ms),
        (None, None) => Start::Beginning,
    };
    let end = match (of(KEYS[1]), time(KEYS[3])?) {
        (Some(id), _) => End::At(id),
        (None, Some(ms)) => End::AtTime(ms),
        (None, None) => End::Head,
    };
    Ok((start, end, of(KEYS[4])))
}

/// A call of `table_changes` that was taken out of a statement.
pub(crate) struct Call {
    /// Name of the table that stands in its place.
    pub internal: String,
    table: String,
    from: Option<String>,
    to: Option<String>,
}

/// Takes the calls of `table_changes` out of a statement; `n` makes their names unique.
pub(crate) fn take_calls<N: VisitMut>(node: &mut N, n: usize) -> Result<Vec<Call>> {
    let mut taker = Taker { calls: Vec::new(), n };
    match VisitMut::visit(node, &mut taker) {
        ControlFlow::Break(e) => Err(e),
        ControlFlow::Continue(()) => Ok(taker.calls),
    }
}

struct Taker {
    calls: Vec<Call>,
    n: usize,
}

impl VisitorMut for Taker {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, args, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let (Some(a), [part]) = (args.as_ref(), name.0.as_slice()) else {
            return ControlFlow::Continue(());
        };
        let called = part.as_ident().is_some_and(|i| i.value.eq_ignore_ascii_case("table_changes"));
        if !called {
            return ControlFlow::Continue(());
        }
        let texts = a.args.iter().map(constant).collect::<Option<Vec<Option<String>>>>();
        let (table, from, to) = match texts.as_deref() {
            Some([Some(t)]) => (t.clone(), None, None),
            Some([Some(t), from]) => (t.clone(), from.clone(), None),
            Some([Some(t), from, to]) => (t.clone(), from.clone(), to.clone()),
            _ => {
                return ControlFlow::Break(Error::invalid(
                    "table_changes takes ('namespace.table' [, from [, to]]): from (exclusive) and to (inclusive) are snapshot \
                     ids, branches, tags or NULL",
                ));
            }
        };
        let internal = format!("__floe_changes_{}_{}", self.n, self.calls.len());
        *name = ast::ObjectName::from(vec![ast::Ident::new(internal.clone())]);
        *args = None;
        self.calls.push(Call { internal, table, from, to });
        ControlFlow::Continue(())
    }
}

/// A constant argument as text; inner `None` = NULL.
fn constant(arg: &FunctionArg) -> Option<Option<String>> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = arg else {
        return None;
    };
    match e {
        Expr::Value(v) => match &v.value {
            Value::Null => Some(None),
            Value::Number(n, _) => Some(Some(n.clone())),
            Value::SingleQuotedString(s) => Some(Some(s.clone())),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(v) => match &v.value {
                Value::Number(n, _) => Some(Some(format!("-{n}"))),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The table of a call: changes with all metadata columns.
pub(crate) async fn call_provider(session: &Session, call: &Call) -> Result<Arc<dyn TableProvider>> {
    let name = crate::sql::parser::parse_name(&call.table).map_err(|e| e.at("table_changes"))?;
    let table = session.table(&name).await?;
    let start = call.from.clone().map_or(Start::Beginning, Start::After);
    let end = call.to.clone().map_or(End::Head, End::At);
    provider(ChangelogScan::builder(table).range(start, end).elsewhere(session.last_rule()).build().await?)
}
