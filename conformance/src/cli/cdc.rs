//! `floe cdc`: reads the changes of a table, or keeps a copy in step.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::{Event, Sync};
use floe_engine::cdc::{CdcSource, Lag};
use floe_engine::{Error, Result};
use futures::StreamExt;

use super::pipe::{self, ConfigFile, Printer};
use super::rows::Format;

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
    #[command(flatten)]
    config: ConfigFile,
    /// How rows are printed; a stream is always JSON lines
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Remember the last printed snapshot in this file, and go on after it the next time
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Print nothing but rows and errors
    #[arg(long, short = 'q')]
    quiet: bool,
}

/// Arguments of `floe cdc sync`.
#[derive(Debug, Args)]
struct SyncArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Print nothing but errors
    #[arg(long, short = 'q')]
    quiet: bool,
}

/// Runs the command.
pub async fn run(args: CdcArgs) -> ExitCode {
    pipe::exit(match args.command {
        Command::Read(a) => read(&a).await,
        Command::Sync(a) => sync(&a).await,
    })
}

async fn read(args: &ReadArgs) -> Result<()> {
    let config = args.config.parse(PipelineConfig::parse)?;
    let resume = args.state.as_deref().map(load_state).transpose()?.flatten();
    if let Some(file) = &args.state {
        try_state(file)?;
    }
    let table = pipe::open(&config.source.read.catalog, &config.source.read.table).await?;
    let (streaming, poll) = (config.source.streaming, config.source.poll_interval);
    let format = if streaming { Format::Json } else { args.format };
    let mut stop = pipe::stop_signal();
    let mut source = CdcSource::new(config.source, table)?.bounded(&config.sync);
    if let Some(id) = resume {
        source = source.resume_after(id);
    }
    while !*stop.borrow() {
        let Some(scan) = source.next().await? else {
            if source.is_over() {
                break;
            }
            if !args.quiet {
                eprintln!("waiting; {}", behind(source.lag()));
            }
            tokio::select! {
                _ = stop.changed() => break,
                () = tokio::time::sleep(poll) => continue,
            }
        };
        let mut printer = Printer::new(format, &scan.schema());
        let mut stream = scan.stream();
        while let Some(batch) = stream.next().await {
            if !printer.take(batch?)? {
                return Ok(());
            }
        }
        printer.finish()?;
        if let (Some(file), Some(id)) = (&args.state, source.position()) {
            save_state(file, id)?;
        }
        if streaming && !args.quiet {
            eprintln!("source snapshot {}; {}", source.position().unwrap_or(-1), behind(source.lag()));
        }
    }
    Ok(())
}

fn behind(lag: Lag) -> String {
    format!("behind: {} snapshots, {} s", lag.snapshots, lag.seconds)
}

/// The snapshot in a state file; `None` when the file is not there yet.
fn load_state(file: &Path) -> Result<Option<i64>> {
    match std::fs::read_to_string(file) {
        Ok(text) => text.trim().parse().map(Some).map_err(|_| {
            Error::malformed(format!("state is {:?}; a snapshot id is required", text.trim())).at(file.display())
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::system("cannot read the state (--state)", e).at(file.display())),
    }
}

/// The file beside a state file that replaces it.
fn aside(file: &Path) -> PathBuf {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

fn unwritable(file: &Path, e: std::io::Error) -> Error {
    Error::system("cannot write the state (--state)", e).at(file.display())
}

/// Finds out whether the state can be written, before rows are printed that it could not remember.
fn try_state(file: &Path) -> Result<()> {
    let new = aside(file);
    std::fs::File::create(&new).and_then(|_| std::fs::remove_file(&new)).map_err(|e| unwritable(file, e))
}

/// Replaces a state file in one step: a crash leaves the old one or the new one.
fn save_state(file: &Path, id: i64) -> Result<()> {
    let new = aside(file);
    std::fs::write(&new, format!("{id}\n")).and_then(|()| std::fs::rename(&new, file)).map_err(|e| unwritable(file, e))
}

async fn sync(args: &SyncArgs) -> Result<()> {
    let config = args.config.parse(PipelineConfig::parse)?;
    let streaming = config.source.streaming;
    if let Some(t) = &config.target {
        pipe::name_ignored(&t.ignored);
    }
    let report = Sync::open(config)
        .await?
        .run(pipe::stop_signal(), |event| {
            if args.quiet {
                return;
            }
            match event {
                Event::Applied { source_snapshot, target_snapshot, inserted, deleted, lag, .. } => eprintln!(
                    "source snapshot {source_snapshot} -> target snapshot {target_snapshot}: {inserted} rows written, {deleted} \
                     removed; {}",
                    behind(*lag)
                ),
                Event::Heartbeat { lag } if streaming => eprintln!("waiting; {}", behind(*lag)),
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
