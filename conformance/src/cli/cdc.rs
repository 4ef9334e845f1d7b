//! `floe cdc`: reads the changes of a table, or keeps a copy in step.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::{Event, Sync};
use floe_engine::cdc::{CdcSource, connect, table_ident};
use floe_engine::{Error, Result};
use futures::StreamExt;
use tokio::sync::watch;

use super::rows::{self, Format};

/// Arguments of `floe cdc`.
#[derive(Debug, Args)]
pub struct CdcArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the row-level changes that `source:` of a configuration selects
    #[command(after_help = "Example:\n  floe cdc read --config pipeline.yaml --format table")]
    Read(ReadArgs),
    /// Apply the changes of `source:` to `target:`, exactly once; a stream runs until Ctrl-C
    #[command(after_help = "Example:\n  floe cdc sync --config pipeline.yaml")]
    Sync(SyncArgs),
}

/// Arguments of `floe cdc read`.
#[derive(Debug, Args)]
struct ReadArgs {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How rows are printed; a stream is always JSON lines
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

/// Arguments of `floe cdc sync`.
#[derive(Debug, Args)]
struct SyncArgs {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print nothing but errors
    #[arg(long, short = 'q')]
    quiet: bool,
}

/// Runs the command.
pub async fn run(args: CdcArgs) -> ExitCode {
    let done = match args.command {
        Command::Read(a) => read(&a).await,
        Command::Sync(a) => sync(&a).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("floe: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Text and name of a configuration file.
pub(super) fn load(file: &std::path::Path) -> Result<(String, String)> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::from(e).at(file.display()))?;
    Ok((text, file.display().to_string()))
}

/// Says which keys were taken but change nothing.
pub(super) fn name_ignored(keys: &[&str]) {
    if !keys.is_empty() {
        eprintln!("floe: keys without effect here: {}", keys.join(", "));
    }
}

/// True once Ctrl-C was pressed.
fn on_ctrl_c() -> watch::Receiver<bool> {
    let (tx, rx) = watch::channel(false);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = tx.send(true);
        }
        // the sender lives as long as somebody listens, so that waiting does not end by itself
        tx.closed().await;
    });
    rx
}

async fn read(args: &ReadArgs) -> Result<()> {
    let (text, name) = load(&args.config)?;
    let config = PipelineConfig::parse(&text, &name)?;
    let catalog = connect(&config.source.read.catalog).await?;
    let table = catalog.load_table(&table_ident(&config.source.read.table)?).await?;
    let (streaming, poll) = (config.source.streaming, config.source.poll_interval);
    let mut stop = on_ctrl_c();
    let mut source = CdcSource::new(config.source, table)?;
    loop {
        let Some(scan) = source.next().await? else {
            if !streaming || *stop.borrow() {
                return Ok(());
            }
            tokio::select! {
                _ = stop.changed() => return Ok(()),
                () = tokio::time::sleep(poll) => continue,
            }
        };
        let columns: Vec<String> = scan.schema().fields().iter().map(|f| f.name().clone()).collect();
        let mut stream = scan.stream();
        let mut all = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if streaming || args.format == Format::Json {
                if !print(&[batch], &columns, Format::Json)? {
                    return Ok(());
                }
            } else {
                all.push(batch);
            }
        }
        if !streaming && args.format != Format::Json {
            print(&all, &columns, args.format)?;
        }
        if *stop.borrow() {
            return Ok(());
        }
    }
}

/// Prints rows; false when nobody reads them any more.
pub(super) fn print(batches: &[arrow::array::RecordBatch], columns: &[String], format: Format) -> Result<bool> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match rows::write(&mut out, batches, columns, format).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e.into()),
    }
}

async fn sync(args: &SyncArgs) -> Result<()> {
    let (text, name) = load(&args.config)?;
    let config = PipelineConfig::parse(&text, &name)?;
    let streaming = config.source.streaming;
    if let Some(t) = &config.target {
        name_ignored(&t.ignored);
    }
    let report = Sync::open(config)
        .await?
        .run(on_ctrl_c(), |event| {
            if args.quiet {
                return;
            }
            match event {
                Event::Applied { source_snapshot, target_snapshot, inserted, deleted, lag, .. } => eprintln!(
                    "source snapshot {source_snapshot} -> target snapshot {target_snapshot}: {inserted} rows written, {deleted} \
                     removed; behind: {} snapshots, {} s",
                    lag.snapshots, lag.seconds
                ),
                Event::Heartbeat { lag } if streaming => {
                    eprintln!("waiting; behind: {} snapshots, {} s", lag.snapshots, lag.seconds);
                }
                Event::Heartbeat { .. } => {}
            }
        })
        .await?;
    if !args.quiet {
        println!(
            "{}",
            serde_json::json!({
                "snapshots": report.snapshots,
                "commits": report.commits,
                "inserted": report.inserted,
                "deleted": report.deleted,
                "position": report.position,
            })
        );
    }
    Ok(())
}
