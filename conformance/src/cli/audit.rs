//! `floe audit`: judges a table that anyone wrote by its raw bytes, clause by clause.

use std::path::PathBuf;
use std::process::ExitCode;

use super::pipe::show;

/// Arguments of `floe audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 no MUST is violated, 1 one is, 2 the table cannot be read.

Examples:
  floe audit warehouse/ns/t
  floe audit warehouse/ns/t --no-notes --format json
  floe audit moved/t/metadata/v3.metadata.json --map s3://bucket/t=moved/t")]
pub struct AuditArgs {
    /// Table folder (its newest metadata file is taken) or a metadata file
    target: PathBuf,
    /// Text for people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Do not open Parquet files: no footers, position deletes or stored row ids
    #[arg(long)]
    no_data: bool,
    /// Replace a location prefix, for tables that were moved or lie in another store; repeatable
    #[arg(long, value_name = "FROM=TO", value_parser = mapping)]
    map: Vec<(String, String)>,
    /// Leave out notes: known divergences between text and practice
    #[arg(long)]
    no_notes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

fn mapping(s: &str) -> Result<(String, String), String> {
    let (from, to) = s.split_once('=').ok_or_else(|| format!("{s:?} is not FROM=TO"))?;
    Ok((from.to_string(), to.to_string()))
}

/// Prints the findings; exit code 0 when no MUST is violated, 1 on violations, 2 when the table cannot be read.
pub async fn run(args: AuditArgs) -> ExitCode {
    let opts = floe_audit::Options { data: !args.no_data, maps: args.map, threads: None };
    let target = args.target;
    // The auditor blocks on files and runs threads of its own.
    let done = tokio::task::spawn_blocking(move || floe_audit::audit(&target, &opts)).await;
    let mut report = match done {
        Ok(Ok(r)) => r,
        Ok(Err(e)) => {
            eprintln!("floe audit: {e}");
            return ExitCode::from(2);
        }
        Err(e) => {
            eprintln!("floe audit: stopped early: {e}");
            return ExitCode::from(2);
        }
    };
    if args.no_notes {
        report.findings.retain(|f| f.severity != floe_audit::Severity::Note);
    }
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => format!("{}\n", report.json()),
    };
    if let Err(e) = show(&text) {
        eprintln!("floe audit: {e}");
        return ExitCode::from(2);
    }
    if report.clean() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
