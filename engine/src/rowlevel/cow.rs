//! Copy-on-write: the data files that hold a touched row are read once more, changed, and written anew.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::Statement;

use super::finish::{self, Written};
use super::rows::{PositionSink, SplitStream};
use super::template::{self, quoted};
use super::{Outcome, QueryPlanner, Target, run, statement_context, values};
use crate::Result;
use crate::commit::Producer;
use crate::expr::FilePruner;
use crate::io::normalize;
use crate::scan::Planned;
use crate::write::{WriteOptions, write_data_files};

/// SQL of the lineage columns of rewritten rows, with a leading comma; empty before V3. A row for which `changed` is true
/// keeps its id and leaves its sequence number to be inherited (LINEAGE-12).
pub fn lineage_sql(target: &Target, alias: &str, changed: Option<&str>) -> String {
    if !target.lineage() {
        return String::new();
    }
    let alias = quoted(alias);
    match changed {
        None => format!(", {alias}._row_id, {alias}._last_updated_sequence_number"),
        Some(c) => format!(
            ", {alias}._row_id, CASE WHEN {c} THEN CAST(NULL AS BIGINT) ELSE {alias}._last_updated_sequence_number END AS __floe_seq"
        ),
    }
}

/// Rewrites `files` with the rows that `statement` gives for them, and commits the replacement. `statement` reads the target
/// and yields `_file, _pos, op, columns…, lineage…`; `rows` are tables in memory that it reads as well.
#[allow(clippy::too_many_arguments)]
pub async fn rewrite(
    planner: &dyn QueryPlanner,
    target: &Target,
    command: &str,
    planned: &Planned,
    files: HashSet<String>,
    statement: Statement,
    rows: Vec<(&'static str, Arc<dyn TableProvider>)>,
    checker: Option<PositionSink>,
    pruner: Arc<FilePruner>,
) -> Result<Outcome> {
    let mut written = Written::default();
    let normal: HashSet<String> = files.iter().map(|f| normalize(f)).collect();
    let touched: Vec<_> = planned.tasks.iter().filter(|t| normal.contains(&normalize(&t.entry.file.path))).collect();
    let only = target.provider()?.over_plan(planned).only_files(normal.clone());
    let bytes: i64 = touched.iter().map(|t| t.entry.file.file_size).sum();
    let count: i64 = touched.iter().map(|t| t.entry.file.record_count).sum();
    let columns = target.table.metadata().current_schema().as_struct().fields().len() as i64;
    let row_bytes = 8 * columns + if target.lineage() { 16 } else { 0 };
    let keeps_join_partitions = command == "merge" && count.saturating_mul(row_bytes) > JOIN_SPLIT_BYTES;
    let cx = statement_context(planner, only, if keeps_join_partitions { i64::MAX } else { bytes });
    let cx = rows.into_iter().fold(cx, |cx, (name, table)| cx.with_rows(name, table));
    let logical = template::plan(&cx, statement)?;
    let logical = values::cast_to_target(logical, super::rows::HEAD, target, target.lineage())?;
    let streams = run(&cx, logical).await?;
    // the files are replaced whole: positions are taken and not used
    let sink = PositionSink::new(false);
    let streams =
        streams.into_iter().map(|s| SplitStream::wrap(s, sink.clone(), checker.clone())).collect::<Result<Vec<_>>>()?;
    let options = WriteOptions { lineage: target.lineage(), ..Default::default() };
    written.added = write_data_files(&target.table, streams, &options).await?;
    written.replaced = touched.iter().map(|t| t.entry.file.clone()).collect();
    // a rewritten file's deletion vector goes with it (DV-4)
    written.removed = touched.iter().filter_map(|t| t.deletes.dv.as_ref()).map(|d| d.file.clone()).collect();
    finish::commit(target, command, Producer::Overwrite, written, Some(pruner)).await
}

/// A copy-on-write MERGE over more rows than fit in this, at eight bytes a value, writes one file a join partition, as Spark does.
const JOIN_SPLIT_BYTES: i64 = 3 << 20;
