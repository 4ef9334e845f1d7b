//! `floe engines`: what is here, in which version, and how to get what is missing.

use clap::{Args, Subcommand};
use std::fmt::Write as _;

use super::pipe::show;
use crate::engines::{Home, catalogs, find, install, installed, registry, write_template};

/// Arguments of `floe engines`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, 1 an installation that was asked for by name failed.

Examples:
  floe engines
  floe engines install spark35 duckdb
  floe engines template my_driver.py    # then: floe conformance --engine-cmd 'python3 my_driver.py'")]
pub struct EnginesArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a line an engine: present or not, version, how to get it (the default)
    List,
    /// Install an engine, or all of them, into the user's cache folder
    Install {
        /// Names as `floe engines` prints them; all when none is given
        names: Vec<String>,
    },
    /// Write a driver to start from, and the protocol library beside it
    Template {
        /// Python file to write
        file: std::path::PathBuf,
    },
}

/// Runs the subcommand; the exit code is 0 unless an installation that was asked for by name failed.
pub fn run(args: &EnginesArgs) -> Result<i32, String> {
    let home = Home::find()?;
    match &args.action {
        None | Some(Action::List) => {
            let mut out =
                format!("{:10} {:44} present, part of floe\n", "floe", format!("floe {}", env!("CARGO_PKG_VERSION")));
            for e in registry() {
                let state = match (installed(&e, &home), e.missing()) {
                    (Some(i), None) => format!("present in {}", i.dir.display()),
                    (_, Some(why)) => format!("cannot be had: {why}; to run it: {}", e.command()),
                    (None, None) => format!("not installed; cargo floe engines install {}", e.name),
                };
                let _ = writeln!(out, "{:10} {:44} {state}", e.name, e.title);
            }
            out += "\ncatalogs\n";
            for c in catalogs() {
                let _ = writeln!(out, "{:10} {:44} {}", c.name, c.title, c.state());
            }
            show(&out)?;
            Ok(0)
        }
        Some(Action::Template { file }) => {
            write_template(file).map_err(|e| format!("cannot write the driver {}: {e}", file.display()))?;
            println!("{}", file.display());
            Ok(0)
        }
        Some(Action::Install { names }) => {
            let all = names.is_empty();
            let chosen = if all { registry() } else { names.iter().map(|n| find(n)).collect::<Result<_, _>>()? };
            let mut failed = false;
            for e in chosen {
                match install(&e, &home, &|stage| eprintln!("{}: {stage}", e.name)) {
                    Ok(i) => println!("{:10} present in {}", e.name, i.dir.display()),
                    Err(why) => {
                        println!("{:10} skipped: {why}", e.name);
                        failed |= !all;
                    }
                }
            }
            Ok(i32::from(failed))
        }
    }
}
