//! `floe bench`: the cross-engine workload, measured in one interleaved run.

use std::path::PathBuf;

use clap::Args;

use super::conformance::{CATALOG, Launcher, bar, others, prepare, shared_catalog, start};
use super::pipe::show;
use super::signals::until_asked_to_end;
use crate::bench::{self, Data, Plan, Workload};
use crate::drivers::{Driver, Floe};

/// Arguments of `floe bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Engines that write make a table each (3 columns, 4 data files), change it, and every engine reads every table; within a round \
they take turns. An answer is compared with a model of the rows before its time counts. OUT/bench.json holds every sample, \
OUT/bench.txt the table that is printed; its last lines judge the targets. What floe does in one process it does in this one; the others are processes of their own.

The workload cdc updates 1 % and 2 % of a source and reads the changes: floe and Spark by create_changelog_view, DuckDB by a diff of \
the whole table before and after. floe brings a copy into step by its sync, Spark by MERGE of the view. The changes and every copy are \
compared with the model.

The workload deletes varies the share of rows that a DELETE deletes (0.001 to 50 %), scattered and clustered, in tables with deletion \
vectors (merge-on-read), V2 position deletes, equality deletes and copy-on-write; then makes many small deletes and a compaction. floe makes \
the tables, each engine deletes from those of its own that it can, and reads them and floe's. OUT/bench.html has the charts: cost by share, \
where one mode begins to win, cost of writing against cost of reading, cost by size.

The workload metadata decodes deletion vectors (1,000 positions up to ten for each of ROWS, four shapes) and plans a scan of a table of \
ROWS data files, each with a vector; floe and Iceberg's Java library, which time their own calls. Java gets 6 GiB of heap unless \
FLOE_JAVA_MEMORY says otherwise, and is warmed up.

Examples:
  floe bench --engines floe,duckdb --rows 1000000
  floe bench --engines floe,spark35,duckdb,polars,pyiceberg --rows 20000000 --modes merge-on-read
  floe bench --rows 20000000 --modes merge-on-read --property write.parquet.page-version=v2
  floe bench --workload cdc --rows 20000000 --samples 3
  floe bench --workload deletes --engines floe,spark35 --rows 2000000
  floe bench --workload deletes --rows 1000000,4000000,8000000 --table lineitem
  floe bench --workload metadata --rows 1000000")]
pub struct BenchArgs {
    /// What is measured
    #[arg(long, value_enum, default_value = "statements")]
    workload: Workload,
    /// Engines that take part, by name [default: floe,spark35,duckdb; for statements polars, sail and pyiceberg too; for deletes floe,
    /// spark35, trino, duckdb-rest, pyiceberg-rest, polars, sail, icebergjava; for metadata floe, icebergjava]
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Rows of each table; deletes takes several sizes, of which it measures the first in full, and 1 % scattered of the others; data files for metadata
    #[arg(long, value_delimiter = ',', default_value = "1000000", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rows: Vec<u32>,
    /// What the tables of the workload deletes hold
    #[arg(long, value_enum, default_value = "walkthrough")]
    table: Data,
    /// Warm samples of each measurement, after a cold one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    samples: u32,
    /// Strategies of DELETE, UPDATE and MERGE (of the source, for cdc); position-deletes, of V2, and equality-deletes for
    /// deletes [default: all that the workload has]
    #[arg(long, value_delimiter = ',', value_parser = ["merge-on-read", "copy-on-write", bench::POSITION_DELETES, bench::EQUALITY_DELETES])]
    modes: Vec<String>,
    /// Small deletes that the workload deletes makes one after the other [default: 50]
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=10_000))]
    small_deletes: Option<u32>,
    /// A further property of each table, as KEY=VALUE; may be given several times
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Folder of the results; tables of an earlier run in it are removed
    #[arg(long, default_value = "out-bench")]
    out: PathBuf,
    /// No progress, only the table
    #[arg(long)]
    quiet: bool,
}

/// Small deletes when their number is not given.
const SMALL_DELETES: u32 = 50;
/// A thousandth of the rows is what the workload cdc changes at least.
const LEAST_CDC_ROWS: u32 = 1000;
/// Seconds that a statement of the workloads cdc and metadata may take.
const STEP_SECONDS: u64 = 1800;
/// Memory of Spark's virtual machine, as its driver takes it.
const SPARK_MEMORY: &str = "FLOE_SPARK_MEMORY";

/// Memory of the heap of Iceberg's Java library in the workload metadata, as its virtual machine takes it.
const JAVA_MEMORY: &str = "FLOE_JAVA_MEMORY";

/// Runs the subcommand. `Ok(0)` when every engine that took part gave right rows wherever it answered, else `Ok(1)`.
pub async fn run(args: &BenchArgs) -> Result<i32, String> {
    until_asked_to_end(measure(args)).await
}

/// A property that no mode sets.
fn property(text: &str) -> Result<(String, String), String> {
    let (key, value) = super::maintenance::key_value(text)?;
    if key == "format-version" || key.ends_with(".mode") {
        return Err(format!("{key} is set by --modes"));
    }
    Ok((key, value))
}

/// The modes that were asked for, or all that the workload has.
fn modes(args: &BenchArgs) -> Result<Vec<String>, String> {
    let deletes = args.workload == Workload::Deletes;
    if !deletes && (args.rows.len() > 1 || args.table != Data::default()) {
        return Err("--table and several --rows are of --workload deletes".into());
    }
    if !deletes && args.small_deletes.is_some() {
        return Err("--small-deletes is of --workload deletes".into());
    }
    if args.workload == Workload::Cdc && args.rows.iter().any(|r| *r < LEAST_CDC_ROWS) {
        return Err(format!(
            "--workload cdc changes a thousandth of the rows: at least {LEAST_CDC_ROWS} are needed in --rows"
        ));
    }
    if args.workload == Workload::Metadata && !args.properties.is_empty() {
        return Err("--workload metadata has no --property".into());
    }
    if args.workload == Workload::Metadata {
        let none = args.modes.is_empty().then(|| vec![bench::VECTORS.to_string()]);
        return none.ok_or_else(|| "--workload metadata has no --modes".into());
    }
    let only = [bench::POSITION_DELETES, bench::EQUALITY_DELETES];
    if let Some(m) = args.modes.iter().find(|m| only.contains(&m.as_str()) && !deletes) {
        return Err(format!("--modes {m} is of --workload deletes"));
    }
    if !args.modes.is_empty() {
        return Ok(args.modes.clone());
    }
    let mut all = vec!["merge-on-read".to_string(), "copy-on-write".to_string()];
    all.extend(only.into_iter().filter(|_| deletes).map(String::from));
    Ok(all)
}

/// The engines that take part when none is named.
fn contenders(workload: Workload) -> &'static [&'static str] {
    match workload {
        Workload::Statements => &["floe", "spark35", "duckdb", "polars", "sail", "pyiceberg"],
        Workload::Cdc => &["floe", "spark35", "duckdb"],
        Workload::Deletes => {
            &["floe", "spark35", "trino", "duckdb-rest", "pyiceberg-rest", "polars", "sail", "icebergjava"]
        }
        Workload::Metadata => &["floe", "icebergjava"],
    }
}

async fn measure(args: &BenchArgs) -> Result<i32, String> {
    let (cdc, metadata) = (args.workload == Workload::Cdc, args.workload == Workload::Metadata);
    let modes = modes(args)?;
    let mut names = args.engines.clone();
    if names.is_empty() {
        names = contenders(args.workload).iter().map(ToString::to_string).collect();
    }
    let (rows, sizes) = args.rows.split_first().ok_or("--rows needs a number")?;
    let others = others(&names)?;
    let out = prepare(&args.out)?;
    let bar = bar(args.quiet);
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    let mut absent = Vec::new();
    if others.len() < names.len() {
        drivers.push(Box::new(Floe::new(&out.join("warehouse"), CATALOG).map_err(|e| e.to_string())?));
    }
    let rest = shared_catalog(&out).await?;
    for mut engine in others {
        if cdc {
            // whole tables are sorted and joined
            engine.step_timeout = engine.step_timeout.max(STEP_SECONDS);
            if engine.name.starts_with("spark") && std::env::var_os(SPARK_MEMORY).is_none() {
                engine.env.insert(SPARK_MEMORY.into(), "6g".into());
            }
        }
        if metadata {
            engine.step_timeout = engine.step_timeout.max(STEP_SECONDS);
            if let Some(program) = engine.java.as_mut() {
                let memory = std::env::var(JAVA_MEMORY).unwrap_or_else(|_| "6g".into());
                program.options.retain(|o| !o.starts_with("-Xmx") && !o.ends_with("GC"));
                program.options.extend([format!("-Xmx{memory}"), "-XX:+UseParallelGC".into()]);
            }
        }
        bar.set_message(format!("starting {}", engine.name));
        let (row, process) = start(engine, Launcher::Native, &out, rest.uri(), &[]).await;
        match process {
            Some(p) => drivers.push(Box::new(p)),
            None => absent.push((row.name, row.skipped)),
        }
    }
    let plan = Plan {
        workload: args.workload,
        table: args.table,
        rows: *rows,
        sizes: sizes.to_vec(),
        samples: args.samples,
        modes,
        properties: args.properties.iter().cloned().collect(),
        small_deletes: args.small_deletes.unwrap_or(SMALL_DELETES),
    };
    let warehouse = out.join("warehouse");
    let tell = |what: &str| {
        tracing::info!("{what}");
        bar.set_message(what.to_string());
    };
    let report = match plan.workload {
        Workload::Statements => bench::run(&plan, &warehouse, &mut drivers, absent, &tell).await,
        Workload::Cdc => bench::cdc::run(&plan, &warehouse, &mut drivers, absent, &tell).await?,
        Workload::Deletes => bench::deletes::run(&plan, &warehouse, &mut drivers, absent, &tell).await?,
        Workload::Metadata => bench::metadata::run(&plan, &warehouse, &mut drivers, absent, &tell).await?,
    };
    for d in &mut drivers {
        d.stop().await;
    }
    bar.finish_and_clear();
    let mut text = bench::text(&report);
    text += &match plan.workload {
        Workload::Statements => bench::targets_of_statements(&report),
        Workload::Cdc => bench::cdc::targets(&report),
        Workload::Metadata => bench::metadata::targets(&report),
        Workload::Deletes => bench::deletes::targets(&report),
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        std::fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    write("bench.json", &serde_json::to_vec(&report).map_err(|e| e.to_string())?)?;
    write("bench.txt", text.as_bytes())?;
    if args.workload == Workload::Deletes {
        write("bench.html", bench::charts::page(&report)?.as_bytes())?;
    }
    show(&text)?;
    Ok(i32::from(report.samples.iter().any(|s| s.reason.starts_with("wrong rows"))))
}
