//! `floe io`: Managed I/O reads and writes.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use floe_engine::cdc::config::{Columns, parse_managed_read, parse_managed_write};
use floe_engine::cdc::{connect, managed, table_ident};
use floe_engine::{Error, ErrorKind, Result};
use futures::StreamExt;

use super::pipe::{self, ConfigFile, Printer};
use super::rows::Format;

/// Arguments of `floe io`.
#[derive(Debug, Args)]
pub struct IoArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the rows of a table: filtered, and only the columns asked for
    #[command(after_help = "Example:\n  floe io read --config read.yaml --format table")]
    Read(ReadArgs),
    /// Write JSON rows, one object a line, to a table or to tables named by the rows
    #[command(after_help = "Example:\n  floe io write --config write.yaml --input rows.jsonl")]
    Write(WriteArgs),
}

/// Arguments of `floe io read`.
#[derive(Debug, Args)]
struct ReadArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

/// Arguments of `floe io write`.
#[derive(Debug, Args)]
struct WriteArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// File of rows; without it they are read from stdin
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: IoArgs) -> ExitCode {
    pipe::exit(match args.command {
        Command::Read(a) => read(&a).await,
        Command::Write(a) => write(&a).await,
    })
}

async fn read(args: &ReadArgs) -> Result<()> {
    let config = args.config.parse(parse_managed_read)?;
    let table = pipe::open(&config.catalog, &config.table).await?;
    let mut stream = managed::read(&config, &table).await?;
    let mut printer = Printer::new(args.format, &stream.schema());
    while let Some(batch) = stream.next().await {
        if !printer.take(batch?)? {
            return Ok(());
        }
    }
    printer.finish()
}

async fn write(args: &WriteArgs) -> Result<()> {
    let config = args.config.parse(parse_managed_write)?;
    pipe::name_ignored(&config.ignored);
    let (rows, from) = match &args.input {
        Some(f) => (pipe::read_text(f, "the file of rows (--input)")?, f.display().to_string()),
        None => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|e| Error::system("cannot read the rows", e).at("stdin"))?;
            (text, "stdin".to_string())
        }
    };
    let catalog = connect(&config.catalog).await?;
    // a table that is there says what its columns' types are
    let known = match config.table.fixed() {
        Some(t) => match catalog.clone().load_table(&table_ident(t)?).await {
            Ok(t) => Some(t),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        },
        None => None,
    };
    let only = match &config.columns {
        Columns::Only(column) => Some(column.as_str()),
        _ => None,
    };
    let rows = managed::rows_from_json(&rows, &from, known.as_ref(), only)?;
    for w in managed::write(&config, &catalog, &rows).await? {
        println!(
            "{}",
            serde_json::json!({"table": w.table, "snapshot": w.snapshot_id, "inserted": w.inserted, "deleted": w.deleted})
        );
    }
    Ok(())
}
