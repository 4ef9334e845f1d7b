//! DELETE and TRUNCATE.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;

use super::finish::{self, Written};
use super::rows::{self, PositionSink};
use super::template::{fill, plan, quoted};
use super::{Mode, Outcome, QueryPlanner, TARGET, Target, analyze, cow, mor, run, statement_context, values};
use crate::Result;
use crate::commit::{Drop, FileFilter, Producer};
use crate::expr::FilePruner;
use crate::scan::Planned;

/// Deletes the rows for which `selection` is true; `None` = all rows. Columns are called by the target's alias.
pub async fn delete(planner: &dyn QueryPlanner, target: &Target, selection: Option<Expr>) -> Result<Outcome> {
    let mode = target.mode("delete")?;
    let analysis = statement_context(planner, target.provider()?, 0);
    let pred = analyze::predicate(&analysis, target, selection.as_ref())?;
    let (planned, pruner) = target.plan(pred.clone()).await?;
    if !pred.has_unknown() && planned.tasks.iter().all(|t| pruner.must_match(&t.entry.file)) {
        return delete_files(target, &pruner).await;
    }
    let selection = selection.unwrap_or_else(finish::true_literal);
    let alias = quoted(&target.alias);
    let bytes = planned.work();
    let cx = statement_context(planner, target.provider()?.over_plan(&planned), bytes);
    match mode {
        Mode::MergeOnRead => {
            let sql = format!("SELECT {alias}._file, {alias}._pos FROM {TARGET} AS {alias} WHERE $1");
            let streams = run(&cx, plan(&cx, fill(&sql, &[selection], &[])?)?).await?;
            let sink = PositionSink::new(false);
            rows::collect_positions(streams, &sink).await?;
            let deletes = mor::write_deletes(target, &planned, sink.take()).await?;
            let written = Written { added: deletes.added, removed: deletes.removed, replaced: Vec::new() };
            finish::commit(target, "delete", Producer::RowDelta, written, Some(pruner)).await
        }
        Mode::CopyOnWrite => {
            let sql = format!("SELECT {alias}._file FROM {TARGET} AS {alias} WHERE $1");
            let streams = run(&cx, plan(&cx, fill(&sql, std::slice::from_ref(&selection), &[])?)?).await?;
            let files = rows::collect_files(streams).await?;
            let columns = values::select_list(&values::plain_columns(target, &target.alias));
            let lineage = cow::lineage_sql(target, &target.alias, None);
            let sql = format!(
                "SELECT {alias}._file, {alias}._pos, {keep} AS __floe_op, {columns}{lineage} FROM {TARGET} AS {alias} WHERE ($1) IS NOT TRUE",
                keep = rows::op::KEEP
            );
            let statement = fill(&sql, &[selection], &[])?;
            cow::rewrite(planner, target, "delete", &planned, files, statement, Vec::new(), None, pruner).await
        }
    }
}

/// Drops whole files: metrics settle the statement. Delete files that lie wholly inside the filter go too (DEL-22). The filter is
/// evaluated again on each attempt of the commit, so files that appear meanwhile are dropped or refused, never missed.
async fn delete_files(target: &Target, pruner: &Arc<FilePruner>) -> Result<Outcome> {
    let filter: Arc<dyn FileFilter> = pruner.clone();
    finish::submit(target, finish::dropping(target, Producer::DeleteFiles, Vec::new(), Drop::Filter(filter))).await
}

/// Removes all rows by dropping all files.
pub async fn truncate(target: &Target) -> Result<Outcome> {
    finish::submit(target, finish::dropping(target, Producer::DeleteFiles, Vec::new(), Drop::Everything)).await
}

/// Paths of planned files.
pub(super) fn all_files(planned: &Planned) -> HashSet<String> {
    planned.tasks.iter().map(|t| t.entry.file.path.to_string()).collect()
}
