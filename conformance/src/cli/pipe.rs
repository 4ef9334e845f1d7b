//! What `floe cdc` and `floe io` share: a configuration file, a way to end, rows on stdout.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow::array::RecordBatch;
use clap::Args;
use floe_engine::cdc::config::CatalogConfig;
use floe_engine::cdc::{connect, table_ident};
use floe_engine::{Error, Result, Table};
use tokio::sync::watch;

use super::rows::{self, Format};
use super::signals::asked_to_end;

/// `--config FILE`.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

impl ConfigFile {
    /// Reads and checks it; messages call it by its path.
    pub fn parse<T>(&self, parse: impl FnOnce(&str, &str) -> Result<T>) -> Result<T> {
        let text = read_text(&self.config, "the configuration (--config)")?;
        parse(&text, &self.config.display().to_string())
    }
}

/// Text of a file. `role` = what it is to the user, for the message when it cannot be read.
pub fn read_text(file: &Path, role: &str) -> Result<String> {
    std::fs::read_to_string(file).map_err(|e| Error::system(format!("cannot read {role}"), e).at(file.display()))
}

/// Loads a configured table.
pub async fn open(catalog: &CatalogConfig, table: &str) -> Result<Table> {
    connect(catalog).await?.load_table(&table_ident(table)?).await
}

/// Says which keys were taken but change nothing.
pub fn name_ignored(keys: &[&str]) {
    if !keys.is_empty() {
        eprintln!("floe: keys without effect here: {}", keys.join(", "));
    }
}

/// An error goes to stderr.
pub fn exit(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("floe: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a text; a reader that went away is no failure.
///
/// # Errors
/// What the operating system said, as text.
pub fn show(text: &str) -> std::result::Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print the result: {e}")),
        _ => Ok(()),
    }
}

/// True once Ctrl-C was pressed, or the process was asked to end.
pub fn stop_signal() -> watch::Receiver<bool> {
    let (tx, rx) = watch::channel(false);
    tokio::spawn(async move {
        asked_to_end().await;
        let _ = tx.send(true);
        // the sender lives as long as somebody listens, so that waiting does not end by itself
        tx.closed().await;
    });
    rx
}

/// Prints batches: JSON as they come, other formats at the end, since their column widths or header need all rows.
pub struct Printer {
    format: Format,
    columns: Vec<String>,
    held: Vec<RecordBatch>,
}

impl Printer {
    /// A printer of rows with these columns.
    pub fn new(format: Format, schema: &arrow::datatypes::Schema) -> Self {
        Self { format, columns: schema.fields().iter().map(|f| f.name().clone()).collect(), held: Vec::new() }
    }

    /// Takes a batch; false when nobody reads the rows any more.
    pub fn take(&mut self, batch: RecordBatch) -> Result<bool> {
        if self.format == Format::Json {
            return self.print(&[batch]);
        }
        self.held.push(batch);
        Ok(true)
    }

    /// Prints what was held back.
    pub fn finish(mut self) -> Result<()> {
        if self.format != Format::Json {
            let held = std::mem::take(&mut self.held);
            self.print(&held)?;
        }
        Ok(())
    }

    fn print(&self, batches: &[RecordBatch]) -> Result<bool> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        match rows::write(&mut out, batches, &self.columns, self.format).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
