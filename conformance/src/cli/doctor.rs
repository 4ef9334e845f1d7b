//! `floe doctor`: tries a catalog and its store step by step, and says what is likely wrong where it stops.

use std::collections::HashMap;

use clap::Args;

use crate::doctor::{advice, examine};

/// Arguments of `floe doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 every step is ok, 1 one failed.

Examples:
  floe doctor --catalog hadoop:warehouse
  floe doctor --catalog rest:http://127.0.0.1:8181 --prop warehouse=wh --read-only")]
pub struct DoctorArgs {
    /// The catalog: `hadoop:DIR`, `sql:URL`, `rest:URI`, `hive:URI`, or a name in floe.toml
    #[arg(long, default_value = "hadoop:warehouse")]
    catalog: String,
    /// A property, `key=value`; may be given several times
    #[arg(long = "prop", value_name = "KEY=VALUE")]
    props: Vec<String>,
    /// Change nothing: no scratch namespace, table and file
    #[arg(long)]
    read_only: bool,
}

/// Prints a line a step; the exit code is 1 when one failed.
pub async fn run(args: &DoctorArgs) -> Result<i32, String> {
    let mut props = HashMap::new();
    for p in &args.props {
        let (k, v) = p.split_once('=').ok_or_else(|| format!("--prop {p}: expected KEY=VALUE"))?;
        props.insert(k.to_string(), v.to_string());
    }
    let steps = examine(&args.catalog, props, args.read_only).await;
    let mut failed = false;
    for step in &steps {
        match &step.outcome {
            Ok(remark) => println!("ok    {:18} {remark}", step.name),
            Err(e) => {
                failed = true;
                println!("FAIL  {:18} {e}", step.name);
                println!("      {:18} {}", "", advice(step.name, e));
            }
        }
    }
    Ok(i32::from(failed))
}
