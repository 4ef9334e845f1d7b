//! MERGE INTO.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, TableFactor};
use futures::TryStreamExt;
use futures::future::try_join_all;

use super::rows::{self, PositionSink, op};
use super::template::{fill, plan, quoted};
use super::update::Assignment;
use super::{
    Cx, Mode, Outcome, QueryPlanner, TARGET, Target, cow, delete, mor, narrow, run, statement_context, values,
};
use crate::expr::Pred;
use crate::{Error, Result};

/// What a clause does.
#[derive(Debug, Clone)]
pub enum MergeAction {
    /// `UPDATE SET column = value, …`
    Update(Vec<Assignment>),
    /// `UPDATE SET *`: every column from the source's column of the same name.
    UpdateAll,
    /// `DELETE`
    Delete,
    /// `INSERT (columns) VALUES (values)`; no columns = all, in order.
    Insert(Vec<String>, Vec<Expr>),
    /// `INSERT *`
    InsertAll,
}

/// A WHEN clause.
#[derive(Debug, Clone)]
pub struct MergeClause {
    /// `AND condition`.
    pub condition: Option<Expr>,
    /// What it does.
    pub action: MergeAction,
}

/// A MERGE; clauses of a kind are tried in order, the first whose condition holds acts.
#[derive(Debug, Clone)]
pub struct MergeStatement {
    /// The source, without alias.
    pub source: TableFactor,
    /// Name by which expressions call the source.
    pub source_alias: String,
    /// `ON`.
    pub on: Expr,
    /// `WHEN MATCHED`.
    pub matched: Vec<MergeClause>,
    /// `WHEN NOT MATCHED [BY TARGET]`.
    pub not_matched: Vec<MergeClause>,
    /// `WHEN NOT MATCHED BY SOURCE`.
    pub not_matched_by_source: Vec<MergeClause>,
}

/// Placeholder table for the source in templates.
const SOURCE: &str = "__floe_source";
/// A source of up to so many bytes is held in memory.
const SOURCE_BYTES: usize = 256 << 20;
/// Column that is true for rows that have a source row.
const HAS_SOURCE: &str = "__floe_has_source";

/// Runs a MERGE. A target row that several source rows match is an error, unless the only matched clause is an unconditional
/// DELETE.
pub async fn merge(planner: &dyn QueryPlanner, target: &Target, m: &MergeStatement) -> Result<Outcome> {
    check(m, target)?;
    let mode = target.mode("merge")?;
    let (planned, pruner) = target.plan(Pred::True).await?;
    let bytes = planned.work();
    let provider = target.provider()?.over_plan(&planned);
    let cx = statement_context(planner, provider.clone(), bytes);
    let source = Source::read(&cx, m, mode).await?;
    let source_columns = source.columns;
    let (cx, sources) = match &source.rows {
        Some(rows) => (cx.with_rows(SOURCE, rows.clone()), Vec::new()),
        None => (cx, vec![(SOURCE, m.source.clone())]),
    };
    let unconditional_delete =
        matches!(m.matched.as_slice(), [MergeClause { condition: None, action: MergeAction::Delete }]);
    let checker = (!m.matched.is_empty() && !unconditional_delete).then(|| PositionSink::new(true));

    let mut exprs = vec![m.on.clone()];
    let rows = Rows::build(target, m, &source_columns, mode, &mut exprs)?;
    let (t, s) = (quoted(&target.alias), quoted(&m.source_alias));
    let from = |join: &str| {
        format!(
            "(SELECT * FROM {TARGET}) AS {t} {join} JOIN (SELECT *, true AS {HAS_SOURCE} FROM {SOURCE}) AS {s} ON $1"
        )
    };
    // rows of the target that match nothing matter only to NOT MATCHED BY SOURCE
    let mut cx = cx;
    if source.rows.is_some() && m.not_matched_by_source.is_empty() {
        let sql = format!("SELECT {t}._file FROM {}", from("INNER"));
        let join = plan(&cx, fill(&sql, &exprs[..1], &sources)?)?;
        let rows = planned.tasks.iter().map(|t| t.entry.file.record_count).sum();
        if let Some(filter) = narrow::by_join(&cx, join, rows).await? {
            cx = cx.with_target(provider.narrowed(filter));
        }
    }
    match mode {
        Mode::MergeOnRead => {
            let join = match (m.not_matched.is_empty(), m.not_matched_by_source.is_empty()) {
                (true, true) => "INNER",
                (false, true) => "RIGHT",
                (true, false) => "LEFT",
                (false, false) => "FULL",
            };
            let sql = format!("SELECT {} FROM {} WHERE {} IS NOT NULL", rows.select, from(join), rows.op);
            let logical: LogicalPlan = plan(&cx, fill(&sql, &exprs, &sources)?)?;
            mor::apply(&cx, target, "merge", &planned, logical, PositionSink::new(false), checker, pruner).await
        }
        // only NOT MATCHED clauses: nothing is rewritten, so the whole table takes part in the join and the rows are added
        Mode::CopyOnWrite if m.matched.is_empty() && m.not_matched_by_source.is_empty() => {
            let op = &rows.op;
            let sql =
                format!("SELECT {} FROM {} WHERE {t}._pos IS NULL AND {op} IS NOT NULL", rows.select, from("RIGHT"));
            let logical = plan(&cx, fill(&sql, &exprs, &sources)?)?;
            mor::apply(&cx, target, "merge", &planned, logical, PositionSink::new(false), None, pruner).await
        }
        Mode::CopyOnWrite => {
            let files: HashSet<String> = if !m.not_matched_by_source.is_empty() {
                delete::all_files(&planned)
            } else {
                let sql = format!("SELECT {t}._file FROM {}", from("INNER"));
                let streams = run(&cx, plan(&cx, fill(&sql, &exprs[..1], &sources)?)?).await?;
                rows::collect_files(streams).await?
            };
            // rows of the source without a match must be found in the whole table, not just in the rewritten files;
            // files without a match add nothing to that, so joining the rewritten files alone is the same
            let join = if m.not_matched.is_empty() { "LEFT" } else { "FULL" };
            let sql = format!("SELECT {} FROM {} WHERE {} IS NOT NULL", rows.select, from(join), rows.op);
            let statement = fill(&sql, &exprs, &sources)?;
            let rows = source.rows.into_iter().map(|rows| (SOURCE, rows)).collect();
            cow::rewrite(planner, target, "merge", &planned, files, statement, rows, checker, pruner).await
        }
    }
}

/// Refuses clauses that can't act, before anything runs.
fn check(m: &MergeStatement, target: &Target) -> Result<()> {
    let bad = |what: &str| Err(Error::invalid(format!("MERGE: {what}")).at(target.table.ident()));
    if m.matched.is_empty() && m.not_matched.is_empty() && m.not_matched_by_source.is_empty() {
        return bad("there is no WHEN clause");
    }
    for list in [&m.matched, &m.not_matched, &m.not_matched_by_source] {
        if list.iter().rev().skip(1).any(|c| c.condition.is_none()) {
            return bad("only the last WHEN clause of a kind may lack a condition");
        }
    }
    for c in &m.not_matched {
        match &c.action {
            MergeAction::Insert(cols, vals) if !cols.is_empty() && cols.len() != vals.len() => {
                return bad(&format!("INSERT names {} columns but gives {} values", cols.len(), vals.len()));
            }
            MergeAction::Insert(..) | MergeAction::InsertAll => {}
            _ => return bad("a NOT MATCHED clause inserts"),
        }
    }
    if m.matched.iter().any(|c| matches!(c.action, MergeAction::Insert(..) | MergeAction::InsertAll)) {
        return bad("a MATCHED clause updates or deletes");
    }
    if m.not_matched_by_source.iter().any(|c| !matches!(c.action, MergeAction::Update(_) | MergeAction::Delete)) {
        return bad("a NOT MATCHED BY SOURCE clause updates or deletes");
    }
    Ok(())
}

/// The source of a MERGE.
struct Source {
    columns: Vec<String>,
    /// Its rows, read once; `None` when they are too many to hold, or have columns of one name.
    rows: Option<Arc<dyn TableProvider>>,
}

impl Source {
    /// Reads the source once: copy-on-write asks it twice, and a join is planned by its size.
    ///
    /// Errors: a source too large to be held that gives other rows each time it is read, where it must be read twice.
    async fn read(cx: &Cx<'_>, m: &MergeStatement, mode: Mode) -> Result<Self> {
        let logical = plan(cx, fill(&format!("SELECT * FROM {SOURCE}"), &[], &[(SOURCE, m.source.clone())])?)?;
        let columns: Vec<String> = logical.schema().fields().iter().map(|f| f.name().clone()).collect();
        let unique = columns.iter().collect::<HashSet<_>>().len() == columns.len();
        let rows = if unique { hold(cx, logical.clone()).await? } else { None };
        if rows.is_none() && mode == Mode::CopyOnWrite && is_volatile(&logical)? {
            return Err(Error::unsupported(format!(
                "MERGE: a copy-on-write MERGE reads its source twice, and this one has other rows each time (a function such as random or \
                 uuid) and columns of one name, or more than {} MiB, so that it cannot be held; write it into a table first",
                SOURCE_BYTES >> 20
            )));
        }
        Ok(Self { columns, rows })
    }
}

/// The rows of a plan; `None` when they are more than [`SOURCE_BYTES`].
async fn hold(cx: &Cx<'_>, logical: LogicalPlan) -> Result<Option<Arc<dyn TableProvider>>> {
    let left = Arc::new(AtomicUsize::new(SOURCE_BYTES));
    let streams = run(cx, logical).await?;
    let Some(schema) = streams.first().map(|s| s.schema()) else { return Ok(None) };
    // the branches of a union say different things of nulls
    let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let tasks = streams.into_iter().map(|mut stream| {
        let (left, schema) = (left.clone(), schema.clone());
        tokio::spawn(async move {
            let mut batches = Vec::new();
            while let Some(batch) = stream.try_next().await? {
                let size = batch.get_array_memory_size();
                if left.fetch_update(Relaxed, Relaxed, |l| l.checked_sub(size)).is_err() {
                    return Ok(None);
                }
                let columns = batch.columns().iter().zip(schema.fields()).map(|(c, f)| cast(c, f.data_type()));
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                batches.push(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?);
            }
            Ok::<_, Error>(Some(batches))
        })
    });
    let mut partitions = Vec::new();
    for done in try_join_all(tasks).await.map_err(|e| Error::internal(format!("reading of the source stopped: {e}")))? {
        let Some(batches) = done? else { return Ok(None) };
        partitions.push(batches);
    }
    Ok(Some(Arc::new(MemTable::try_new(schema, partitions)?)))
}

/// Whether a plan may give other rows each time it runs.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// SQL of the joined rows.
struct Rows {
    /// `_file, _pos, op, columns…, lineage…`
    select: String,
    /// The op alone; NULL for a row that nothing is done with.
    op: String,
}

impl Rows {
    fn build(
        target: &Target,
        m: &MergeStatement,
        source_columns: &[String],
        mode: Mode,
        exprs: &mut Vec<Expr>,
    ) -> Result<Rows> {
        let (t, s) = (quoted(&target.alias), quoted(&m.source_alias));
        let has_target = format!("{t}._pos IS NOT NULL");
        let has_source = format!("{s}.{HAS_SOURCE} IS NOT NULL");
        let own: Vec<String> = values::plain_columns(target, &target.alias);
        let current = |c: &str| format!("{t}.{}", quoted(c));
        let mut ops: Vec<(String, i32)> = Vec::new();
        let mut columns: Vec<Vec<(String, String)>> = vec![Vec::new(); own.len()];
        let mut updated: Vec<String> = Vec::new();
        let groups = [
            (format!("{has_target} AND {has_source}"), &m.matched),
            (format!("NOT ({has_target})"), &m.not_matched),
            (format!("NOT ({has_source})"), &m.not_matched_by_source),
        ];
        for (group, clauses) in groups {
            for c in clauses {
                let when = match &c.condition {
                    None => group.clone(),
                    Some(e) => {
                        exprs.push(e.clone());
                        format!("{group} AND ${}", exprs.len())
                    }
                };
                let (code, new) = match &c.action {
                    MergeAction::Delete => (op::DELETE, None),
                    MergeAction::Update(a) => (op::UPDATE, Some(values::assigned_columns(target, a, exprs, current)?)),
                    MergeAction::UpdateAll => (op::UPDATE, Some(by_name(target, m, source_columns)?)),
                    MergeAction::InsertAll => (op::INSERT, Some(by_name(target, m, source_columns)?)),
                    MergeAction::Insert(cols, vals) => (op::INSERT, Some(inserted(target, cols, vals, exprs)?)),
                };
                // an earlier clause of the group wins, which CASE order gives; the delete needs its place in the order too
                ops.push((when.clone(), code));
                if code == op::UPDATE {
                    updated.push(when.clone());
                }
                let new = new.unwrap_or_else(|| own.clone());
                for (list, value) in columns.iter_mut().zip(new) {
                    list.push((when.clone(), value));
                }
            }
        }
        let rest = match mode {
            Mode::CopyOnWrite => {
                vec![(format!("{has_target} AND {has_source}"), op::MATCHED_KEEP), (has_target.clone(), op::KEEP)]
            }
            Mode::MergeOnRead => vec![(format!("{has_target} AND {has_source}"), op::MATCHED_SKIP)],
        };
        let whens: String = ops.iter().chain(&rest).map(|(w, code)| format!(" WHEN {w} THEN {code}")).collect();
        let op_sql = format!("CASE{whens} END");
        let column_sql: Vec<String> = columns
            .iter()
            .zip(&own)
            .map(|(list, own)| {
                if list.iter().all(|(_, v)| v == own) {
                    return own.clone();
                }
                let whens: String = list.iter().map(|(w, v)| format!(" WHEN {w} THEN {v}")).collect();
                format!("CASE{whens} ELSE {own} END")
            })
            .collect();
        let lineage = if target.lineage() {
            let op_update = op::UPDATE;
            let seq = if updated.is_empty() && mode == Mode::CopyOnWrite {
                format!("{t}._last_updated_sequence_number")
            } else {
                format!(
                    "CASE WHEN {op_sql} = {op_update} THEN CAST(NULL AS BIGINT) ELSE {t}._last_updated_sequence_number END"
                )
            };
            format!(", {t}._row_id, {seq} AS __floe_seq")
        } else {
            String::new()
        };
        let select =
            format!("{t}._file, {t}._pos, {op_sql} AS __floe_op, {}{lineage}", values::select_list(&column_sql));
        Ok(Rows { select, op: op_sql })
    }
}

/// Every column of the target from the source's column of the same name.
fn by_name(target: &Target, m: &MergeStatement, source_columns: &[String]) -> Result<Vec<String>> {
    let s = quoted(&m.source_alias);
    let schema = target.table.metadata().current_schema();
    schema
        .as_struct()
        .fields()
        .iter()
        .map(|f| {
            source_columns
                .iter()
                .find(|c| c.eq_ignore_ascii_case(&f.name))
                .map(|c| format!("{s}.{}", quoted(c)))
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "MERGE: the source has no column {} for `*`; it has: {}",
                        f.name,
                        source_columns.join(", ")
                    ))
                })
        })
        .collect()
}

fn inserted(target: &Target, cols: &[String], vals: &[Expr], exprs: &mut Vec<Expr>) -> Result<Vec<String>> {
    let schema = target.table.metadata().current_schema();
    let fields = schema.as_struct().fields();
    if cols.is_empty() {
        if vals.len() != fields.len() {
            return Err(Error::invalid(format!(
                "MERGE: INSERT gives {} values, the table has {} columns",
                vals.len(),
                fields.len()
            )));
        }
        return fields.iter().zip(vals).map(|(f, v)| values::literal_or_default(f, v, exprs)).collect();
    }
    for c in cols {
        if !fields.iter().any(|f| f.name.eq_ignore_ascii_case(c)) {
            return Err(Error::invalid(format!("MERGE: INSERT names {c}, which the table does not have"))
                .at(target.table.ident()));
        }
    }
    fields
        .iter()
        .map(|f| match cols.iter().position(|c| c.eq_ignore_ascii_case(&f.name)) {
            Some(i) => values::literal_or_default(f, &vals[i], exprs),
            None => values::default_sql(f),
        })
        .collect()
}
