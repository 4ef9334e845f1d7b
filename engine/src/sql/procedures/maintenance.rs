//! Procedures that maintain a table; results as Spark gives them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use iceberg::spec::MAIN_BRANCH;

use super::args::{Args, Parameter};
use crate::expr::Pred;
use crate::maintenance::{
    DataRewriteOptions, ExpireOptions, OrphanOptions, PositionRewriteOptions, convert_equality_deletes,
    expire_snapshots, remove_orphan_files, require_interval, rewrite_data_files, rewrite_manifests,
    rewrite_position_delete_files,
};
use crate::rowlevel::{self, Target};
use crate::sql::bind::Binder;
use crate::sql::dml;
use crate::sql::parser::parse_expression;
use crate::sql::session::{Session, StatementResult};
use crate::{Error, Result, Table};

/// The procedures of this module and their parameters.
pub(super) const PROCEDURES: &[(&str, &[Parameter])] = &[
    ("convert_equality_deletes", &[Parameter::required("table")]),
    (
        "expire_snapshots",
        &[
            Parameter::required("table"),
            Parameter::optional("older_than"),
            Parameter::optional("retain_last"),
            Parameter::optional("max_concurrent_deletes"),
            Parameter::optional("stream_results"),
            Parameter::optional("snapshot_ids"),
        ],
    ),
    (
        "remove_orphan_files",
        &[
            Parameter::required("table"),
            Parameter::optional("older_than"),
            Parameter::optional("location"),
            Parameter::optional("dry_run"),
            Parameter::optional("max_concurrent_deletes"),
        ],
    ),
    (
        "rewrite_data_files",
        &[
            Parameter::required("table"),
            Parameter::optional("strategy"),
            Parameter::optional("sort_order"),
            Parameter::optional("options"),
            Parameter::optional("where"),
        ],
    ),
    ("rewrite_manifests", &[Parameter::required("table"), Parameter::optional("use_caching")]),
    (
        "rewrite_position_delete_files",
        &[Parameter::required("table"), Parameter::optional("options"), Parameter::optional("where")],
    ),
];

enum Cell {
    Int(i64),
    Long(i64),
}

fn row(cells: &[(&str, Cell)]) -> Result<StatementResult> {
    let mut columns = Vec::with_capacity(cells.len());
    for (name, cell) in cells {
        let array: ArrayRef = match cell {
            Cell::Long(n) => Arc::new(Int64Array::from(vec![*n])),
            Cell::Int(n) => {
                let n = i32::try_from(*n).map_err(|_| Error::internal(format!("{name} is {n}: too many files")))?;
                Arc::new(Int32Array::from(vec![n]))
            }
        };
        columns.push((*name, array, false));
    }
    Ok(StatementResult::batch(RecordBatch::try_from_iter_with_nullable(columns)?))
}

/// What `where` says about files. One that metadata can't decide is refused: it would choose every file.
async fn filter(session: &Session, table: &Table, args: &Args) -> Result<Pred> {
    let Some(text) = args.string("where")? else { return Ok(Pred::True) };
    let mut expr = parse_expression(&text).map_err(|e| e.at("where"))?;
    let mut target = Target { table: table.clone(), branch: MAIN_BRANCH.to_string(), alias: String::new() };
    let mut binder = Binder::new(session);
    dml::bind_target(&mut binder, &mut target, &args.table()?, None)?;
    binder.bind_expr(&mut expr).await?;
    let pred = rowlevel::file_filter(binder.planner(), &target, &expr)?;
    if pred.has_unknown() {
        return Err(Error::unsupported(format!(
            "where => '{text}': files are chosen by comparisons of columns with constants, joined by AND and OR"
        )));
    }
    Ok(pred)
}

pub(super) async fn data_files(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let strategy = args.string("strategy")?.unwrap_or_else(|| "binpack".into());
    if !strategy.eq_ignore_ascii_case("binpack") || args.string("sort_order")?.is_some() {
        return Err(Error::unsupported(format!(
            "rewrite_data_files: strategy {strategy:?} and sort_order; allowed: strategy 'binpack', no sort_order"
        )));
    }
    let options = DataRewriteOptions::parse(&table, &args.map("options")?)?;
    let filter = filter(session, &table, args).await?;
    let done = rewrite_data_files(&table, filter, &options).await?;
    row(&[
        ("rewritten_data_files_count", Cell::Int(done.rewritten_files)),
        ("added_data_files_count", Cell::Int(done.added_files)),
        ("rewritten_bytes_count", Cell::Long(done.rewritten_bytes)),
        ("failed_data_files_count", Cell::Int(0)),
        ("removed_delete_files_count", Cell::Int(done.removed_deletes)),
    ])
}

pub(super) async fn position_delete_files(session: &Session, args: &Args) -> Result<StatementResult> {
    let table = session.table(&args.table()?).await?;
    let options = PositionRewriteOptions::parse(&table, &args.map("options")?)?;
    let filter = filter(session, &table, args).await?;
    let done = rewrite_position_delete_files(&table, filter, &options).await?;
    row(&[
        ("rewritten_delete_files_count", Cell::Int(done.rewritten_files)),
        ("added_delete_files_count", Cell::Int(done.added_files)),
        ("rewritten_bytes_count", Cell::Long(done.rewritten_bytes)),
        ("added_bytes_count", Cell::Long(done.added_bytes)),
    ])
}

pub(super) async fn equality_deletes(session: &Session, args: &Args) -> Result<StatementResult> {
    let done = convert_equality_deletes(&session.table(&args.table()?).await?).await?;
    row(&[
        ("converted_equality_delete_files_count", Cell::Int(done.converted_files)),
        ("added_delete_files_count", Cell::Int(done.added_files)),
        ("deleted_rows_count", Cell::Long(done.deleted_rows)),
    ])
}

pub(super) async fn manifests(session: &Session, args: &Args) -> Result<StatementResult> {
    args.boolean("use_caching")?;
    let done = rewrite_manifests(&session.table(&args.table()?).await?).await?;
    row(&[("rewritten_manifests_count", Cell::Int(done.rewritten)), ("added_manifests_count", Cell::Int(done.added))])
}

/// `max_concurrent_deletes` only hints at speed; a wrong one is still refused.
fn concurrency(args: &Args) -> Result<()> {
    match args.integer("max_concurrent_deletes")? {
        Some(n) if n < 1 => Err(Error::invalid(format!("max_concurrent_deletes should have value > 0, value: {n}"))),
        _ => Ok(()),
    }
}

pub(super) async fn snapshots(session: &Session, args: &Args) -> Result<StatementResult> {
    concurrency(args)?;
    args.boolean("stream_results")?;
    let table = session.table(&args.table()?).await?;
    let options = ExpireOptions {
        older_than_ms: args.time_ms("older_than")?,
        retain_last: args.integer("retain_last")?,
        snapshot_ids: args.integers("snapshot_ids")?.unwrap_or_default(),
    };
    let done = expire_snapshots(&table, &options).await?;
    row(&[
        ("deleted_data_files_count", Cell::Long(done.data_files)),
        ("deleted_position_delete_files_count", Cell::Long(done.position_delete_files)),
        ("deleted_equality_delete_files_count", Cell::Long(done.equality_delete_files)),
        ("deleted_manifest_files_count", Cell::Long(done.manifests)),
        ("deleted_manifest_lists_count", Cell::Long(done.manifest_lists)),
        ("deleted_statistics_files_count", Cell::Long(done.statistics_files)),
    ])
}

pub(super) async fn orphan_files(session: &Session, args: &Args) -> Result<StatementResult> {
    concurrency(args)?;
    let table = session.table(&args.table()?).await?;
    let older_than_ms = args.time_ms("older_than")?;
    older_than_ms.map_or(Ok(()), require_interval)?;
    let options = OrphanOptions {
        older_than_ms,
        location: args.string("location")?,
        dry_run: args.boolean("dry_run")?.unwrap_or(false),
    };
    let found = remove_orphan_files(&table, &options).await?;
    let column: ArrayRef = Arc::new(StringArray::from(found));
    Ok(StatementResult::batch(RecordBatch::try_from_iter_with_nullable([("orphan_file_location", column, false)])?))
}
