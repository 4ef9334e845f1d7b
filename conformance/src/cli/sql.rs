//! `floe sql`: runs a script on a catalog.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use floe_engine::catalog::open_catalog;
use floe_engine::sql::session::DEFAULT_NAME;
use floe_engine::sql::split::split;
use floe_engine::sql::{Session, StatementResult, in_statement};
use floe_engine::{Error, Result};

use super::pipe;
use super::rows::{self, Format};

/// Arguments of `floe sql`.
#[derive(Debug, Args)]
#[command(after_help = "\
Statements are split by `;` and run in order. Results go to stdout, errors to stderr; the first statement that fails \
ends the run with exit 1, what the statements before it did stays.

Examples:
  floe sql -c \"CREATE NAMESPACE IF NOT EXISTS ns; SHOW NAMESPACES\"
  floe sql --catalog hadoop:/data/warehouse --format json -c \"SELECT count(*) AS c FROM ns.t\"
  floe sql --catalog sql:sqlite:catalog.db -f script.sql")]
pub struct SqlArgs {
    /// Catalog: hadoop:DIR, sql:URL, rest:URI, hive:URI, or a name in floe.toml
    #[arg(long, value_name = "SPEC", default_value = "hadoop:./warehouse")]
    catalog: String,
    /// Current namespace at the start
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Statements to run
    #[arg(short = 'c', long, value_name = "SQL", conflicts_with = "file")]
    command: Option<String>,
    /// File with the statements; without -c and -f they are read from stdin
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print no rows, only errors
    #[arg(long, short = 'q')]
    quiet: bool,
}

/// Runs the command.
pub async fn run(args: SqlArgs) -> ExitCode {
    match script(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed(e)) => {
            eprintln!("floe: {e}");
            ExitCode::FAILURE
        }
        // whoever read the rows has seen enough
        Err(Stop::Closed) => ExitCode::SUCCESS,
    }
}

enum Stop {
    Failed(Error),
    Closed,
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Failed(e.into()) }
    }
}

async fn script(args: &SqlArgs) -> std::result::Result<(), Stop> {
    let text = text(args)?;
    // a catalog of floe.toml goes by its own name
    let name = if args.catalog.contains(':') { DEFAULT_NAME } else { args.catalog.as_str() };
    let catalog = open_catalog(&args.catalog, name, HashMap::new()).await?;
    let mut session = Session::new(catalog, name);
    let namespace: Vec<String> = args.namespace.split('.').map(str::to_string).collect();
    session.set_namespace(session.namespace_ident(&namespace)?);
    for (n, piece) in split(&text).into_iter().enumerate() {
        let result =
            session.execute_one(piece.text).await.map_err(|e| in_statement(&e, n + 1, piece.line, piece.text))?;
        if !args.quiet {
            print(&result, args.format)?;
        }
    }
    Ok(())
}

fn text(args: &SqlArgs) -> Result<String> {
    match (&args.command, &args.file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(file)) if file.as_os_str() != "-" => pipe::read_text(file, "the statements (--file)"),
        _ => {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            read.map_err(|e| Error::system("cannot read the statements", e).at("stdin"))?;
            Ok(text)
        }
    }
}

/// Rows of one statement; a statement without rows prints nothing.
fn print(result: &StatementResult, format: Format) -> io::Result<()> {
    let Some(schema) = &result.schema else {
        return Ok(());
    };
    let columns: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    rows::write(&mut out, &result.batches, &columns, format)?;
    out.flush()
}
