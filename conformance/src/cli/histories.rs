//! `floe histories`: several engines write one table at once; what each did and saw is judged offline.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::conformance::{CATALOG, Launcher, SHORT_WORK, bar, others, prepare, shared_catalog, start};
use super::signals::until_asked_to_end;
use crate::drivers::{Driver, Floe};
use crate::history::record::{Plan, record};
use crate::history::{Event, Op, Outcome, judge};
use crate::scenario;

/// Arguments of `floe histories`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each engine is one client of one V3 table in one REST catalog. There must be an order of all writes that fits their times and in \
which each read sees what it saw; what has none is named (lost delete, resurrected row, lost update, …) with the fewest events \
that show it. The auditor judges the table's bytes at the end. OUT/history-*.json holds every event.

Examples:
  floe histories --engines spark35,trino --seconds 60
  floe histories --engines floe,spark35 --modes copy-on-write --seed 7")]
pub struct HistoriesArgs {
    /// Engines that write together, by name; the first makes the table
    #[arg(long, value_delimiter = ',', default_value = "spark35,trino")]
    engines: Vec<String>,
    /// How long they write, in each mode
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of what they do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Strategies of DELETE and UPDATE, a table each
    #[arg(long, value_delimiter = ',', default_value = "merge-on-read,copy-on-write",
          value_parser = ["merge-on-read", "copy-on-write"])]
    modes: Vec<String>,
    /// Folder of the results
    #[arg(long, default_value = "out-histories")]
    out: PathBuf,
}

/// Runs the subcommand. `Ok(0)`: no anomaly and clean bytes; `Ok(1)`: not so, or an engine could not be had.
pub async fn run(args: &HistoriesArgs) -> Result<i32, String> {
    until_asked_to_end(histories(args)).await
}

async fn histories(args: &HistoriesArgs) -> Result<i32, String> {
    let engines = others(&args.engines)?;
    let out = prepare(&args.out)?;
    let warehouse = out.join("warehouse");
    let rest = shared_catalog(&out).await?;
    let bar = bar(false);
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    let mut absent = false;
    for name in &args.engines {
        let Some(engine) = engines.iter().find(|e| e.name == *name) else {
            drivers.push(Box::new(Floe::new(&warehouse, CATALOG).map_err(|e| e.to_string())?));
            continue;
        };
        bar.set_message(format!("starting {name}"));
        let mut engine = engine.clone();
        engine.rest = true;
        let (row, process) = start(engine, Launcher::Native, &out, rest.uri(), &[SHORT_WORK]).await;
        match process {
            Some(p) => drivers.push(Box::new(p)),
            None => {
                absent = true;
                println!("{} skipped: {}; to run it: {}", row.name, row.skipped, row.command);
            }
        }
    }
    if drivers.is_empty() {
        return Ok(1);
    }
    let mut wrong = 0;
    for mode in &args.modes {
        bar.set_message(format!("{mode} for {} s", args.seconds));
        let plan = Plan {
            catalog: CATALOG.into(),
            namespace: "histories".into(),
            table: mode.replace('-', "_"),
            mode: mode.clone(),
            keys: 8,
            time: Duration::from_secs(args.seconds),
            seed: args.seed,
        };
        let events = record(&plan, &warehouse, &mut drivers).await?;
        let names: Vec<String> = drivers.iter().map(|d| d.name().to_string()).collect();
        let anomalies = tell(mode, &names, &events);
        keep(&names, mode, events.len(), anomalies)?;
        wrong += anomalies;
        let file = out.join(format!("history-{mode}.json"));
        std::fs::write(&file, json!({ "clients": names, "events": events }).to_string())
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        let table = warehouse.join(&plan.namespace).join(&plan.table);
        let audited =
            tokio::task::spawn_blocking(move || floe_audit::audit(&table, &floe_audit::Options::default())).await;
        let report = audited.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        println!("{mode}: audit: {} errors, {} warnings, {} notes", report.errors, report.warnings, report.notes);
        for f in report.findings.iter().filter(|f| f.severity == floe_audit::Severity::Error) {
            println!("  {} {}: found {}, allowed {}", f.clause, f.file, f.found, f.allowed);
        }
        wrong += usize::try_from(report.errors).unwrap_or(usize::MAX);
    }
    for d in &mut drivers {
        d.stop().await;
    }
    Ok(i32::from(wrong > 0 || absent))
}

/// Keeps the figure for the report of `floe conformance`, where `FLOE_UPDATE_REPORTS` is set.
fn keep(names: &[String], mode: &str, events: usize, anomalies: usize) -> Result<(), String> {
    let (true, Some(root)) = (std::env::var_os("FLOE_UPDATE_REPORTS").is_some(), scenario::find_root()) else {
        return Ok(());
    };
    let folder = root.parent().unwrap_or(&root).join("reports/figures");
    let file = folder.join(format!("engines-{}-{mode}.txt", names.join("-")));
    let line = format!(
        "one table written by {} at once, {mode}: {events} events, {anomalies} anomalies{}\n",
        names.join(", "),
        today()
    );
    let io = |e: std::io::Error| format!("cannot write {}: {e}", file.display());
    std::fs::create_dir_all(&folder).map_err(io)?;
    std::fs::write(&file, line).map_err(io)
}

/// The day in UTC, as figures end with it.
fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let date = i32::try_from(seconds / 86_400).ok().and_then(arrow::temporal_conversions::date32_to_datetime);
    date.map_or_else(String::new, |d| format!(" ({})", d.date()))
}

/// Prints the counts of each client and what is wrong; the number of anomalies.
fn tell(mode: &str, names: &[String], events: &[Event]) -> usize {
    for (client, name) in names.iter().enumerate() {
        let of = |outcome, reads| {
            let mine = events.iter().filter(|e| e.client == client && e.outcome == outcome);
            mine.filter(|e| matches!(e.op, Op::Read(_)) == reads).count()
        };
        println!(
            "{mode}: {name}: {} writes done, {} refused, {} of unknown outcome, {} reads",
            of(Outcome::Ok, false),
            of(Outcome::Fail, false),
            of(Outcome::Unknown, false),
            of(Outcome::Ok, true)
        );
    }
    let verdicts = judge(events);
    println!("{mode}: {} events, {} anomalies", events.len(), verdicts.len());
    for v in &verdicts {
        println!("  {v}");
        for w in &v.witness {
            let e = &events[*w];
            println!("    {}: {:?} from {} to {}: {:?}", names[e.client], e.outcome, e.start, e.end, e.op);
        }
    }
    verdicts.len()
}
