//! The `floe` command.

mod memory;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use floe_conformance::cli;

/// Workbench and reference engine for Apache Iceberg V3 deletion vectors and change data capture.
#[derive(Debug, Parser)]
#[command(name = "floe", version, propagate_version = true)]
#[command(after_help = "\
Exit codes:
  0    done; nothing wrong was found
  1    failed, or found: a statement that fails, a verdict that is not accepted (conformance), wrong rows (bench), an anomaly \
(histories), a violation (audit, dv check), a step that fails (doctor), a difference (report diff)
  2    the command line is wrong; audit, dv: what they look at cannot be read
  130  stopped by Ctrl-C (conformance, bench, histories); streams and the server end with 0

`floe COMMAND --help` has examples.")]
struct Cli {
    /// Only these locations may be read or written, whatever metadata and configuration name: folders or URIs, separated by `;`
    #[arg(long, global = true, value_name = "LOCATIONS")]
    sandbox: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Spark-flavoured SQL on a catalog
    Sql(cli::sql::SqlArgs),
    /// Judge a table's raw bytes, clause by clause
    Audit(cli::audit::AuditArgs),
    /// Say whether a table should be copy-on-write or merge-on-read, and when to compact it
    Advise(cli::advise::AdviseArgs),
    /// Read the changes of a table, or keep a copy in step
    Cdc(cli::cdc::CdcArgs),
    /// Look into a Puffin file, or check its deletion vectors
    Dv(cli::dv::DvArgs),
    /// Run every scenario on every engine present, print the matrix, write the report
    Conformance(cli::conformance::ConformanceArgs),
    /// Measure the same workload on every engine, with rows compared first
    Bench(cli::bench::BenchArgs),
    /// Let engines write one table at once, and judge what they saw
    Histories(cli::histories::HistoriesArgs),
    /// Rewrite files, expire snapshots, remove orphans, roll back
    Maintenance(cli::maintenance::MaintenanceArgs),
    /// Managed I/O: read or write rows as a configuration says
    Io(cli::io::IoArgs),
    /// List or install engines
    Engines(cli::engines::EnginesArgs),
    /// Serve a catalog to other engines over the Iceberg REST protocol
    Serve(cli::serve::ServeArgs),
    /// Try a catalog and its store step by step
    Doctor(cli::doctor::DoctorArgs),
    /// A driver of an engine that is a Rust library; the harness starts it
    #[command(hide = true)]
    Driver(cli::driver::DriverArgs),
    /// Pages from a result file, and the difference of two
    Report(cli::report::ReportArgs),
}

/// Stack of the thread that parses and plans: statements nest, and unoptimised frames are large.
const STACK: usize = 64 << 20;

fn main() -> ExitCode {
    memory::set_up();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK / 4).build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("floe: cannot start: {e}");
            return ExitCode::FAILURE;
        }
    };
    let main = std::thread::Builder::new().stack_size(STACK).spawn(move || runtime.block_on(run()));
    match main.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // the panic has said why
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("floe: cannot start: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> ExitCode {
    // RUST_LOG holds one level (`info`); warnings and errors unless it is set
    let level = std::env::var("RUST_LOG").ok().and_then(|l| l.parse().ok()).unwrap_or(tracing::Level::WARN);
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let cli = Cli::parse();
    if let Some(allowed) = &cli.sandbox {
        // These open files by ways of their own.
        let unfenced = match &cli.command {
            Command::Audit(_) => Some("audit"),
            Command::Conformance(_) => Some("conformance"),
            Command::Engines(_) => Some("engines"),
            Command::Histories(_) => Some("histories"),
            Command::Report(_) => Some("report"),
            _ => None,
        };
        let fenced = match unfenced {
            Some(name) => Err(format!("--sandbox: floe {name} has no sandbox")),
            None => floe_engine::io::sandbox_process(allowed).map_err(|e| format!("--sandbox: {e}")),
        };
        if let Err(message) = fenced {
            eprintln!("floe: {message}");
            return ExitCode::FAILURE;
        }
    }
    let outcome = match cli.command {
        Command::Sql(a) => return cli::sql::run(a).await,
        Command::Cdc(a) => return cli::cdc::run(a).await,
        Command::Io(a) => return cli::io::run(a).await,
        Command::Audit(a) => return cli::audit::run(a).await,
        Command::Advise(a) => cli::advise::run(&a).await,
        Command::Bench(a) => cli::bench::run(&a).await,
        Command::Histories(a) => cli::histories::run(&a).await,
        Command::Maintenance(a) => cli::maintenance::run(&a).await,
        Command::Dv(a) => cli::dv::run(&a).await,
        Command::Conformance(a) => cli::conformance::run(&a).await,
        Command::Engines(a) => cli::engines::run(&a),
        Command::Serve(a) => cli::serve::run(&a).await,
        Command::Doctor(a) => cli::doctor::run(&a).await,
        Command::Driver(a) => cli::driver::run(&a).await,
        Command::Report(a) => cli::report::run(&a),
    };
    match outcome {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(message) => {
            eprintln!("floe: {message}");
            ExitCode::FAILURE
        }
    }
}
