//! `floe maintenance`: the procedures that maintain a table, one a call.

use std::collections::HashMap;
use std::io::Write;

use clap::{Args, Subcommand};
use floe_engine::catalog::{MUST_EXIST, open_catalog};
use floe_engine::sql::Session;
use floe_engine::sql::session::DEFAULT_NAME;

use super::rows::{self, Format};

/// Arguments of `floe maintenance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each subcommand is the procedure of the same name, as in Spark. An operation that meets a concurrent change of the same rows ends \
with an error and changes nothing; run it again.

Examples:
  floe maintenance rewrite-data-files ns.t --option rewrite-all=true --where \"day >= '2025-01-01'\"
  floe maintenance expire-snapshots ns.t --older-than '2025-01-01 00:00:00' --retain-last 5
  floe maintenance remove-orphan-files ns.t            # lists them
  floe maintenance remove-orphan-files ns.t --execute  # removes them")]
pub struct MaintenanceArgs {
    /// Catalog: hadoop:DIR, sql:URL, rest:URI, hive:URI, or a name in floe.toml
    #[arg(long, value_name = "SPEC", default_value = "hadoop:./warehouse", global = true)]
    catalog: String,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
    #[command(subcommand)]
    procedure: Procedure,
}

#[derive(Debug, Subcommand)]
enum Procedure {
    /// Bin-pack data files, with their deletes applied
    RewriteDataFiles(Rewrite),
    /// Merge V2 position-delete files; in a V3 table turn them into deletion vectors
    RewritePositionDeleteFiles(Rewrite),
    /// Turn equality deletes into deletion vectors (V3) or position deletes (V2)
    ConvertEqualityDeletes(Table),
    /// Pack manifests
    RewriteManifests(Table),
    /// Remove old snapshots, then the files that only they reach
    ExpireSnapshots(Expire),
    /// List, or with --execute remove, files that nothing refers to
    RemoveOrphanFiles(Orphans),
    /// Make an ancestor of the current snapshot current
    RollbackToSnapshot(Rollback),
}

#[derive(Debug, Args)]
struct Table {
    /// Table, e.g. ns.t
    table: String,
}

#[derive(Debug, Args)]
struct Rewrite {
    /// Table, e.g. ns.t
    table: String,
    /// Option of the procedure, e.g. rewrite-all=true; may be repeated
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// Only files that may hold rows of this filter
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,
}

#[derive(Debug, Args)]
struct Expire {
    /// Table, e.g. ns.t
    table: String,
    /// Snapshots before this time go (UTC)
    #[arg(long, value_name = "TIMESTAMP")]
    older_than: Option<String>,
    /// Snapshots that each branch keeps
    #[arg(long, value_name = "N")]
    retain_last: Option<i64>,
    /// Snapshot to remove whatever its age; may be repeated
    #[arg(long = "snapshot-id", value_name = "ID")]
    snapshot_ids: Vec<i64>,
}

#[derive(Debug, Args)]
struct Orphans {
    /// Table, e.g. ns.t
    table: String,
    /// Files modified before this time (UTC); three days ago by default
    #[arg(long, value_name = "TIMESTAMP")]
    older_than: Option<String>,
    /// Folder to look through instead of the table's
    #[arg(long, value_name = "LOCATION")]
    location: Option<String>,
    /// Remove what is found
    #[arg(long)]
    execute: bool,
}

#[derive(Debug, Args)]
struct Rollback {
    /// Table, e.g. ns.t
    table: String,
    /// Snapshot
    snapshot_id: i64,
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((k, v)) if !k.is_empty() => Ok((k.to_string(), v.to_string())),
        _ => Err(format!("{text:?}; expected KEY=VALUE")),
    }
}

/// Runs the command.
///
/// # Errors
/// The procedure's error as text.
pub async fn run(args: &MaintenanceArgs) -> Result<i32, String> {
    // a catalog of floe.toml goes by its own name
    let name = if args.catalog.contains(':') { DEFAULT_NAME } else { args.catalog.as_str() };
    // what keeps tables makes no catalog
    let props = HashMap::from([(MUST_EXIST.to_string(), "true".to_string())]);
    let catalog = open_catalog(&args.catalog, name, props).await.map_err(|e| e.to_string())?;
    let mut session = Session::new(catalog, name);
    let result = session.execute_one(&args.procedure.call()).await.map_err(|e| e.to_string())?;
    if let Some(schema) = &result.schema {
        let columns: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let mut out = std::io::stdout().lock();
        rows::write(&mut out, &result.batches, &columns, args.format)
            .and_then(|()| out.flush())
            .map_err(|e| e.to_string())?;
    }
    Ok(0)
}

/// A text as a Spark string literal.
fn text(s: &str) -> String {
    format!("'{}'", s.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl Procedure {
    /// The procedure as a statement.
    fn call(&self) -> String {
        let (name, table, mut arguments) = match self {
            Self::RewriteDataFiles(r) => ("rewrite_data_files", &r.table, r.arguments()),
            Self::RewritePositionDeleteFiles(r) => ("rewrite_position_delete_files", &r.table, r.arguments()),
            Self::ConvertEqualityDeletes(t) => ("convert_equality_deletes", &t.table, Vec::new()),
            Self::RewriteManifests(t) => ("rewrite_manifests", &t.table, Vec::new()),
            Self::ExpireSnapshots(e) => ("expire_snapshots", &e.table, e.arguments()),
            Self::RemoveOrphanFiles(o) => ("remove_orphan_files", &o.table, o.arguments()),
            Self::RollbackToSnapshot(r) => {
                ("rollback_to_snapshot", &r.table, vec![("snapshot_id", r.snapshot_id.to_string())])
            }
        };
        arguments.insert(0, ("table", text(table)));
        let list: Vec<String> = arguments.into_iter().map(|(k, v)| format!("{k} => {v}")).collect();
        format!("CALL system.{name}({})", list.join(", "))
    }
}

type Arguments = Vec<(&'static str, String)>;

impl Rewrite {
    fn arguments(&self) -> Arguments {
        let mut out = Vec::new();
        if !self.options.is_empty() {
            let pairs: Vec<String> = self.options.iter().map(|(k, v)| format!("{}, {}", text(k), text(v))).collect();
            out.push(("options", format!("map({})", pairs.join(", "))));
        }
        out.extend(self.filter.as_ref().map(|f| ("where", text(f))));
        out
    }
}

impl Expire {
    fn arguments(&self) -> Arguments {
        let mut out = Vec::new();
        out.extend(self.older_than.as_ref().map(|t| ("older_than", format!("TIMESTAMP {}", text(t)))));
        out.extend(self.retain_last.map(|n| ("retain_last", n.to_string())));
        if !self.snapshot_ids.is_empty() {
            let ids: Vec<String> = self.snapshot_ids.iter().map(i64::to_string).collect();
            out.push(("snapshot_ids", format!("array({})", ids.join(", "))));
        }
        out
    }
}

impl Orphans {
    fn arguments(&self) -> Arguments {
        let mut out = Vec::new();
        out.extend(self.older_than.as_ref().map(|t| ("older_than", format!("TIMESTAMP {}", text(t)))));
        out.extend(self.location.as_ref().map(|l| ("location", text(l))));
        out.push(("dry_run", (!self.execute).to_string()));
        out
    }
}

#[cfg(test)]
mod tests;
