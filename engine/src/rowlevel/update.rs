//! UPDATE.

use datafusion::sql::sqlparser::ast::Expr;

use super::finish;
use super::rows::{self, PositionSink, op};
use super::template::{fill, plan, quoted};
use super::{Mode, Outcome, QueryPlanner, TARGET, Target, analyze, cow, mor, run, statement_context, values};
use crate::Result;

/// `column[.field…] = value`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Column, then fields inside structs.
    pub path: Vec<String>,
    /// The value; the bare identifier DEFAULT is the column's write default.
    pub value: Expr,
}

/// Sets columns of the rows for which `selection` is true; the row keeps its `_row_id` (LINEAGE-14, LINEAGE-42).
pub async fn update(
    planner: &dyn QueryPlanner,
    target: &Target,
    assignments: &[Assignment],
    selection: Option<Expr>,
) -> Result<Outcome> {
    let mode = target.mode("update")?;
    let analysis = statement_context(planner, target.provider()?, 0);
    let pred = analyze::predicate(&analysis, target, selection.as_ref())?;
    let (planned, pruner) = target.plan(pred).await?;
    let selection = selection.unwrap_or_else(finish::true_literal);
    let alias = quoted(&target.alias);
    let bytes = planned.work();
    let cx = statement_context(planner, target.provider()?.over_plan(&planned), bytes);
    let mut exprs = vec![selection];
    let current = |c: &str| format!("{alias}.{}", quoted(c));
    match mode {
        Mode::MergeOnRead => {
            let columns = values::select_list(&values::assigned_columns(target, assignments, &mut exprs, current)?);
            let lineage = if target.lineage() {
                format!(", {alias}._row_id, CAST(NULL AS BIGINT) AS __floe_seq")
            } else {
                String::new()
            };
            let sql = format!(
                "SELECT {alias}._file, {alias}._pos, {} AS __floe_op, {columns}{lineage} FROM {TARGET} AS {alias} WHERE $1",
                op::UPDATE
            );
            let logical = plan(&cx, fill(&sql, &exprs, &[])?)?;
            mor::apply(&cx, target, "update", &planned, logical, PositionSink::new(false), None, pruner).await
        }
        Mode::CopyOnWrite => {
            let sql = format!("SELECT {alias}._file FROM {TARGET} AS {alias} WHERE $1");
            let streams = run(&cx, plan(&cx, fill(&sql, &exprs[..1], &[])?)?).await?;
            let files = rows::collect_files(streams).await?;
            // each column: its new value where the filter is true, else its own
            let new = values::assigned_columns(target, assignments, &mut exprs, current)?;
            let columns: Vec<String> = values::plain_columns(target, &target.alias)
                .into_iter()
                .zip(new)
                .map(|(old, new)| if old == new { old } else { format!("CASE WHEN $1 THEN {new} ELSE {old} END") })
                .collect();
            let lineage = cow::lineage_sql(target, &target.alias, Some("$1"));
            let sql = format!(
                "SELECT {alias}._file, {alias}._pos, {} AS __floe_op, {}{lineage} FROM {TARGET} AS {alias}",
                op::KEEP,
                values::select_list(&columns)
            );
            let statement = fill(&sql, &exprs, &[])?;
            cow::rewrite(planner, target, "update", &planned, files, statement, Vec::new(), None, pruner).await
        }
    }
}
