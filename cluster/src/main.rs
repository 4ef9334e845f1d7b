//! `floe-cluster`: a cluster on this machine, and statements on it.

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use datafusion::arrow::util::pretty::pretty_format_batches;
use floe_cluster::{
    Bench, Cluster, Executor, Layout, Local, MIN_BYTES, Scheduler, bench, end_with_parent, run_executor, run_scheduler,
    store_of_environment,
};
use floe_engine::catalog::open_catalog;
use floe_engine::sql::split::split;
use floe_engine::sql::{Session, in_statement};
use floe_engine::{Error, Result};

#[derive(Parser)]
#[command(name = "floe-cluster", version, about = "Statements of floe on a Ballista cluster")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a scheduler and executors on this machine, prints the scheduler's URL, and runs until it is interrupted.
    Start(#[command(flatten)] LayoutArgs),
    /// Runs a script of SQL statements.
    Sql(SqlArgs),
    /// Measures how a table's scan, DELETE and changelog get faster with executors of one slot each, and compares their rows.
    Bench(BenchArgs),
    /// Runs a scheduler.
    Scheduler {
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
        /// Seconds without a sign of life after which an executor is given up.
        #[arg(long, default_value_t = 15)]
        lost_after: u64,
        /// Ends when its standard input does.
        #[arg(long, hide = true)]
        with_parent: bool,
    },
    /// Runs an executor. Store properties with secrets come from variables FLOE_CLUSTER_STORE_<property>.
    Executor {
        /// The scheduler's address.
        #[arg(long)]
        scheduler: SocketAddr,
        /// Address on which rows are fetched.
        #[arg(long)]
        listen: SocketAddr,
        /// Port on which tasks are taken.
        #[arg(long)]
        task_port: u16,
        /// Tasks at a time.
        #[arg(long, default_value_t = 1)]
        slots: usize,
        /// Folder for rows between two stages.
        #[arg(long)]
        work_dir: PathBuf,
        /// Ends when its standard input does.
        #[arg(long, hide = true)]
        with_parent: bool,
    },
}

#[derive(Args)]
struct LayoutArgs {
    /// Executors, a process each.
    #[arg(long, default_value_t = 2)]
    executors: usize,
    /// Tasks that an executor runs at a time.
    #[arg(long, default_value_t = 1)]
    slots: usize,
    /// The scheduler's port; 0 = any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Seconds without a sign of life after which an executor is given up.
    #[arg(long, default_value_t = 15)]
    lost_after: u64,
}

#[derive(Args)]
struct SqlArgs {
    #[command(flatten)]
    layout: LayoutArgs,
    /// URL of a running scheduler; without it a cluster is started for this script.
    #[arg(long)]
    scheduler: Option<String>,
    /// Catalog: hadoop:DIR, sql:URL, rest:URI, hive:URI, or a section of floe.toml.
    #[arg(long)]
    catalog: String,
    /// Properties of the catalog and its stores, KEY=VALUE.
    #[arg(short = 'p', long = "property")]
    properties: Vec<String>,
    /// Script; standard input without it.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Plans that read fewer bytes of data files stay in this process.
    #[arg(long, default_value_t = MIN_BYTES)]
    min_bytes: u64,
    /// Says on standard error how long each statement took.
    #[arg(long)]
    time: bool,
}

#[derive(Args)]
struct BenchArgs {
    /// Folder of the warehouse; its table is kept and used again [default: a temporary one]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Rows of the table.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Warm samples of each statement, after a cold one.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    samples: u32,
    /// Executors of the larger cluster, beside one executor.
    #[arg(long, default_value_t = 2)]
    executors: usize,
    /// Plans that read fewer bytes of data files stay in this process.
    #[arg(long, default_value_t = MIN_BYTES)]
    min_bytes: u64,
}

impl LayoutArgs {
    fn layout(&self, store: HashMap<String, String>) -> Layout {
        Layout { executors: self.executors, slots: self.slots, port: self.port, lost_after: self.lost_after, store }
    }
}

fn main() -> ExitCode {
    log_to_stderr();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build() {
        Ok(r) => r,
        Err(e) => {
            eprintln!("floe-cluster: {e}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(Cli::parse().command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("floe-cluster: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Start(args) => {
            let local = Local::start(&std::env::current_exe()?, &args.layout(HashMap::new()))?;
            println!("{}", local.url());
            tokio::signal::ctrl_c().await?;
            Ok(())
        }
        Command::Sql(args) => sql(args).await,
        Command::Bench(args) => measure(args).await,
        Command::Scheduler { listen, lost_after, with_parent } => {
            if with_parent {
                end_with_parent();
            }
            run_scheduler(Scheduler { address: listen, lost_after }).await
        }
        Command::Executor { scheduler, listen, task_port, slots, work_dir, with_parent } => {
            if with_parent {
                end_with_parent();
            }
            let work_dir = work_dir.into_os_string().into_string();
            let work_dir = work_dir.map_err(|_| Error::invalid("the work folder's name is not UTF-8"))?;
            let store = store_of_environment();
            run_executor(Executor { address: listen, task_port, scheduler, slots, work_dir, store }).await
        }
    }
}

async fn measure(args: BenchArgs) -> Result<()> {
    let own = tempfile::tempdir()?;
    let plan = Bench {
        folder: args.folder.unwrap_or_else(|| own.path().to_path_buf()),
        rows: args.rows,
        samples: args.samples as usize,
        executors: args.executors,
        min_bytes: args.min_bytes,
    };
    print!("{}", bench(&std::env::current_exe()?, &plan, &|what| eprintln!("{what}")).await?);
    Ok(())
}

async fn sql(args: SqlArgs) -> Result<()> {
    let mut props = HashMap::new();
    for p in &args.properties {
        let (k, v) = p.split_once('=').ok_or_else(|| Error::invalid(format!("{p:?}: a property is KEY=VALUE")))?;
        props.insert(k.to_string(), v.to_string());
    }
    let script = match &args.file {
        Some(f) => std::fs::read_to_string(f).map_err(|e| Error::from(e).at(f.display()))?,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let catalog = open_catalog(&args.catalog, "ice", props.clone()).await?;
    let local = match &args.scheduler {
        Some(_) => None,
        None => Some(Local::start(&std::env::current_exe()?, &args.layout.layout(props))?),
    };
    let url = args.scheduler.unwrap_or_else(|| local.as_ref().map(Local::url).unwrap_or_default());
    let mut cluster = Cluster::connect(&url).await?.min_bytes(args.min_bytes);
    if let Some(local) = &local {
        cluster = cluster.while_alive(local.alive());
    }
    let cluster = Arc::new(cluster);
    let mut session = Session::new(catalog, "ice");
    session.set_last_rule(Some(cluster.rule()));
    // twice the slots: a slow or lost task leaves less to wait for
    session.config_mut().options_mut().execution.target_partitions = args.layout.executors * args.layout.slots * 2;
    for (n, piece) in split(&script).into_iter().enumerate() {
        let start = Instant::now();
        let result = session.execute_one(piece.text).await;
        let result = result.map_err(|e| in_statement(&e, n + 1, piece.line, piece.text))?;
        if args.time {
            eprintln!("{:>7} ms  {}", start.elapsed().as_millis(), piece.text.lines().next().unwrap_or_default());
        }
        if result.schema.is_some() {
            println!("{}", pretty_format_batches(&result.batches)?);
        }
    }
    eprintln!("{} jobs on the cluster; {} plans stayed here", cluster.jobs(), cluster.kept());
    Ok(())
}

/// Lines of the libraries' logs, when FLOE_CLUSTER_LOG names a level.
fn log_to_stderr() {
    struct Stderr;
    impl log::Log for Stderr {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, r: &log::Record<'_>) {
            eprintln!("[{} {} {}] {}", std::process::id(), r.level(), r.target(), r.args());
        }
        fn flush(&self) {}
    }
    let level = std::env::var("FLOE_CLUSTER_LOG").ok().and_then(|l| l.parse().ok());
    if let Some(level) = level
        && log::set_logger(&Stderr).is_ok()
    {
        log::set_max_level(level);
    }
}
