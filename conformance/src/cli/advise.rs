//! `floe advise`: copy-on-write or merge-on-read for a table, and when to compact it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use floe_engine::Table;
use floe_engine::catalog::{MUST_EXIST, open_catalog};
use floe_engine::expr::{FilePruner, Pred};
use floe_engine::scan::plan;
use floe_engine::sql::Session;
use floe_engine::sql::session::DEFAULT_NAME;
use iceberg::spec::FormatVersion;
use serde_json::json;

use super::pipe::show;
use crate::bench::advise::{Shape, Work, advise, text};
use crate::bench::costs::{Costs, fit};
use crate::bench::{self, Report};

/// Arguments of `floe advise`.
#[derive(Debug, Args)]
#[command(after_help = "\
The cost of a change and of the scans until the next one is predicted from the table's files and deletes, what is done with it, and a \
measured run of `floe bench --workload deletes`: floe's reviewed one, or yours (--costs). What a change is comes from the table's own \
snapshots unless it is given.

Examples:
  floe advise ns.t
  floe advise ns.t --change 1% --scans 10
  floe advise ns.t --change 50000 --clustered --engine spark35 --costs out-bench/bench.json")]
pub struct AdviseArgs {
    /// Table, e.g. ns.t
    table: String,
    /// Catalog: hadoop:DIR, sql:URL, rest:URI, hive:URI, or a name in floe.toml
    #[arg(long, value_name = "SPEC", default_value = "hadoop:./warehouse")]
    catalog: String,
    /// Rows that a change deletes or updates: a number, or per cent of the table as in 1%
    #[arg(long, value_parser = change, allow_negative_numbers = true)]
    change: Option<Change>,
    /// They are neighbours, not scattered
    #[arg(long)]
    clustered: bool,
    /// Scans of the whole table for each change
    #[arg(long, default_value = "1", value_parser = scans, allow_negative_numbers = true)]
    scans: f64,
    /// Engine whose measured costs are taken
    #[arg(long, default_value = "floe")]
    engine: String,
    /// `bench.json` of a run of the workload deletes, instead of the reviewed one
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Text for people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Rows(f64),
    Percent(f64),
}

/// Rows of a change when nothing says it: one per cent.
const USUAL: Change = Change::Percent(1.0);

fn number(s: &str, allowed: &str, ok: impl Fn(f64) -> bool) -> Result<f64, String> {
    s.trim().parse().ok().filter(|n: &f64| ok(*n)).ok_or_else(|| format!("{s:?}; allowed: {allowed}"))
}

fn change(s: &str) -> Result<Change, String> {
    const ALLOWED: &str = "a number of rows from 1 on, or more than 0% up to 100%";
    match s.strip_suffix('%') {
        Some(p) => number(p, ALLOWED, |n| n > 0.0 && n <= 100.0).map(Change::Percent),
        None => number(s, ALLOWED, |n| (1.0..=1e15).contains(&n) && n.fract() == 0.0).map(Change::Rows),
    }
}

fn scans(s: &str) -> Result<f64, String> {
    number(s, "a number from 0 to 1000000", |n| (0.0..=1e6).contains(&n))
}

/// Runs the command.
///
/// # Errors
/// The table cannot be read, has no rows, or there are no costs of the engine.
pub async fn run(args: &AdviseArgs) -> Result<i32, String> {
    let measured = measured(args)?;
    // an unknown engine is told before the table is looked for
    costs(args, &measured, false)?;
    // a catalog of floe.toml goes by its own name
    let name = if args.catalog.contains(':') { DEFAULT_NAME } else { args.catalog.as_str() };
    // what only reads makes no catalog
    let props = HashMap::from([(MUST_EXIST.to_string(), "true".to_string())]);
    let catalog = open_catalog(&args.catalog, name, props).await.map_err(|e| e.to_string())?;
    let session = Session::new(catalog, name);
    let path: Vec<String> = args.table.split('.').map(String::from).collect();
    let table = session.table(&path).await.map_err(|e| e.to_string())?;
    let shape = shape(&table).await.map_err(|e| e.to_string())?;
    if shape.rows == 0 {
        return Err(format!("{} has no rows: nothing can be said of it", args.table));
    }
    let costs = costs(args, &measured, shape.v2)?;
    let (change, from) = match (args.change, changes_so_far(&table)) {
        (Some(c), _) => (c, "given".to_string()),
        (None, Some((rows, n))) => (Change::Rows(rows), format!("median of its last {n} snapshots with deletes")),
        (None, None) => (USUAL, "assumed: no snapshot says how many rows it deleted; --change does".to_string()),
    };
    let live = shape.rows.saturating_sub(shape.dead);
    let changed = match change {
        Change::Rows(n) if args.change.is_some() && n > live as f64 => {
            return Err(format!("--change {n}: {} has {live} rows", args.table));
        }
        // snapshots of a time when there were more
        Change::Rows(n) => n.min(shape.rows as f64),
        Change::Percent(p) => (p / 100.0 * shape.rows as f64).max(1.0),
    };
    let work = Work { changed, clustered: args.clustered, scans: args.scans };
    let advice = advise(&shape, &work, &costs);
    match args.format {
        Format::Text => show(&text(&args.table, &shape, &work, &from, &costs, &advice))?,
        Format::Json => {
            let all = json!({"table": shape, "work": work, "from": from, "costs": costs, "advice": advice});
            show(&format!("{all}\n"))?;
        }
    }
    Ok(0)
}

/// The run that costs are taken from.
fn measured(args: &AdviseArgs) -> Result<Report, String> {
    let Some(file) = &args.costs else { return Ok(bench::reviewed()) };
    let place = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read the measured run: {e} [{place}]"))?;
    serde_json::from_str(&text).map_err(|e| format!("no measured run: {e} [{place}]"))
}

fn costs(args: &AdviseArgs, report: &Report, v2: bool) -> Result<Costs, String> {
    let place = args.costs.as_ref().map_or_else(|| "the reviewed run".into(), |f| f.display().to_string());
    let all = fit(report, if v2 { bench::POSITION_DELETES } else { "merge-on-read" });
    let known: Vec<&str> = all.iter().map(|c| c.engine.as_str()).collect();
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    all.iter().find(|c| c.engine == args.engine).cloned().ok_or_else(|| {
        format!(
            "no costs of engine {:?} in {place}: it needs DELETEs and scans of --workload deletes in both modes; there are those of {known}",
            args.engine
        )
    })
}

/// Counts only the deletes that apply to some live file: those that compactions left behind hide nothing.
async fn shape(table: &Table) -> floe_engine::Result<Shape> {
    let mut out = Shape { v2: table.metadata().format_version() < FormatVersion::V3, ..Shape::default() };
    let pruner = FilePruner::new(Pred::True, table.metadata());
    let planned = plan(table, table.metadata().current_snapshot_id(), &pruner).await?;
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let (mut positions, mut equality) = (HashMap::new(), HashSet::new());
    for t in &planned.tasks {
        out.files += 1;
        out.rows += count(t.entry.file.record_count);
        out.bytes += count(t.entry.file.file_size);
        for d in t.deletes.dv.iter().chain(&t.deletes.positions) {
            positions.insert(d.file.key(), count(d.file.record_count));
        }
        equality.extend(t.deletes.equality.iter().map(|d| d.file.key()));
    }
    out.dead = positions.into_values().sum::<u64>().min(out.rows);
    out.equality = equality.len() as u64;
    Ok(out)
}

/// Snapshots that are looked at for what a change is.
const LAST: usize = 20;

/// Median of the rows that the last row-level snapshots changed, where their summaries say it (SUMMARY-*), and how many did: those that
/// wrote deletes. A copy-on-write one says only how many rows it wrote anew.
fn changes_so_far(table: &Table) -> Option<(f64, usize)> {
    let mut changed: Vec<f64> = Vec::new();
    let mut at = table.metadata().current_snapshot_id();
    while let Some(s) = at.and_then(|id| table.metadata().snapshot_by_id(id)).filter(|_| changed.len() < LAST) {
        let summary = s.summary();
        let n = |key: &str| summary.additional_properties.get(key).and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0);
        // a vector is replaced by its union with what is new
        let rows = n("added-position-deletes") - n("removed-position-deletes") + n("added-equality-deletes");
        if summary.operation.as_str() != "replace" && rows > 0.0 {
            changed.push(rows);
        }
        at = s.parent_snapshot_id();
    }
    changed.sort_by(f64::total_cmp);
    changed.get(changed.len().checked_sub(1)? / 2).map(|m| (*m, changed.len()))
}
