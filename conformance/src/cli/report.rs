//! `floe report`: pages from a result file, and what changed between two of them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::pipe::show;
use crate::report;

/// Arguments of `floe report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, 1 the runs differ (diff), or a result file cannot be read.

Examples:
  floe report show out
  floe report pages out --out site
  floe report diff before/results.json out")]
pub struct ReportArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the matrix of a run
    Show {
        /// `results.json` or its folder
        #[arg(default_value = "out")]
        run: PathBuf,
    },
    /// Make the pages of a run again from its result file
    Pages {
        /// `results.json` or its folder
        #[arg(default_value = "out")]
        run: PathBuf,
        /// Where to write them; beside the result file unless given
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Say what changed from run A to run B; exit 1 when something did
    Diff {
        /// `results.json` or its folder
        a: PathBuf,
        /// `results.json` or its folder
        b: PathBuf,
    },
}

/// Runs the subcommand.
pub fn run(args: &ReportArgs) -> Result<i32, String> {
    match &args.action {
        Action::Show { run } => {
            show(&report::terminal::text(&report::read(run)?))?;
            Ok(0)
        }
        Action::Pages { run, out } => {
            let results = report::read(run)?;
            let beside = if run.is_dir() { run.clone() } else { run.parent().map(PathBuf::from).unwrap_or_default() };
            let dir = out.clone().unwrap_or(beside);
            super::conformance::make_folder(&dir)?;
            report::write_pages(&results, &dir).map_err(|e| format!("cannot write into {}: {e}", dir.display()))?;
            show(&format!("{}\n", dir.join("report.html").display()))?;
            Ok(0)
        }
        Action::Diff { a, b } => {
            let text = report::diff::text(&report::read(a)?, &report::read(b)?);
            show(if text.is_empty() { "no difference\n" } else { &text })?;
            Ok(i32::from(!text.is_empty()))
        }
    }
}
