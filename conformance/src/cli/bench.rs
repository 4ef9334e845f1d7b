//! `floe bench`: the cross-engine workload, measured in one interleaved run.

use std::path::PathBuf;

use clap::Args;

use super::conformance::{CATALOG, Launcher, bar, others, prepare, shared_catalog, start};
use super::signals::asked_to_end;
use crate::bench::{self, Plan};
use crate::drivers::{Driver, Floe, kill_all};

/// Arguments of `floe bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Engines that write make a table each (3 columns, 4 data files), change it, and every engine reads every table; within a round \
they take turns. An answer is compared with a model of the rows before its time counts. OUT/bench.json holds every sample, \
OUT/bench.txt the table that is printed. What floe does in one process it does in this one; the others are processes of their own.

Examples:
  floe bench --engines floe,duckdb --rows 1000000
  floe bench --engines floe,spark35,duckdb,polars,pyiceberg --rows 20000000 --modes merge-on-read")]
pub struct BenchArgs {
    /// Engines that take part, by name
    #[arg(long, value_delimiter = ',', default_value = "floe,spark35,duckdb,polars,pyiceberg")]
    engines: Vec<String>,
    /// Rows of each table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rows: u32,
    /// Warm samples of each measurement, after a cold one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    samples: u32,
    /// Strategies of DELETE, UPDATE and MERGE
    #[arg(long, value_delimiter = ',', default_value = "merge-on-read,copy-on-write",
          value_parser = ["merge-on-read", "copy-on-write"])]
    modes: Vec<String>,
    /// Folder of the results; tables of an earlier run in it are removed
    #[arg(long, default_value = "out-bench")]
    out: PathBuf,
    /// No progress, only the table
    #[arg(long)]
    quiet: bool,
}

/// Runs the subcommand. `Ok(0)` when every engine that took part gave right rows wherever it answered, else `Ok(1)`.
pub async fn run(args: &BenchArgs) -> Result<i32, String> {
    let outcome = tokio::select! {
        done = measure(args) => done,
        () = asked_to_end() => Ok(130),
    };
    kill_all();
    outcome
}

async fn measure(args: &BenchArgs) -> Result<i32, String> {
    let others = others(&args.engines)?;
    let out = prepare(&args.out)?;
    let bar = bar(args.quiet);
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    let mut absent = Vec::new();
    if others.len() < args.engines.len() {
        drivers.push(Box::new(Floe::new(&out.join("warehouse"), CATALOG).map_err(|e| e.to_string())?));
    }
    let rest = shared_catalog(&out).await?;
    for engine in others {
        bar.set_message(format!("starting {}", engine.name));
        let (row, process) = start(engine, Launcher::Native, &out, rest.uri(), &[]).await;
        match process {
            Some(p) => drivers.push(Box::new(p)),
            None => absent.push((row.name, row.skipped)),
        }
    }
    let plan = Plan { rows: args.rows, samples: args.samples, modes: args.modes.clone() };
    let report = bench::run(&plan, &out.join("warehouse"), &mut drivers, absent, &|what| {
        bar.set_message(what.to_string());
    })
    .await;
    for d in &mut drivers {
        d.stop().await;
    }
    bar.finish_and_clear();
    let text = bench::text(&report);
    let write = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        std::fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    write("bench.json", &serde_json::to_vec(&report).map_err(|e| e.to_string())?)?;
    write("bench.txt", text.as_bytes())?;
    print!("{text}");
    Ok(i32::from(report.samples.iter().any(|s| s.reason.starts_with("wrong rows"))))
}
