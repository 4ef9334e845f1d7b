//! Change data capture in the matrix: the copy of a scenario's table that floe keeps, and the law of changelogs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::law;
use floe_engine::cdc::sync::Sync;
use iceberg::{NamespaceIdent, TableIdent};
use serde_json::json;

use crate::scenario::SyncStep;

/// Folder of the copy of a table.
pub(super) fn copy_of(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_os_string();
    name.push("_copy");
    folder.with_file_name(name)
}

/// Brings the copy of the table in a folder of the shared warehouse up to date. Every configuration goes through the parser,
/// as a user's does.
pub(super) async fn run(folder: &Path, catalog: &str, step: &SyncStep) -> Result<(), String> {
    let (store, ident) = open(folder, catalog)?;
    let table = |name: &str| format!("{}.{name}", ident.namespace().join("."));
    let mut target = json!({
        "table": table(&format!("{}_copy", ident.name())),
        "mode": step.mode,
        "equality_columns": step.equality_columns,
    });
    if !step.partition_fields.is_empty() {
        target["partition_fields"] = json!(step.partition_fields);
    }
    let config = json!({"source": {"table": table(ident.name())}, "target": target, "sync": step.options});
    let config = PipelineConfig::parse(&config.to_string(), "sync").map_err(|e| e.to_string())?;
    let (_going, stop) = tokio::sync::watch::channel(false);
    let sync = Sync::with_catalogs(config, store.clone(), store).map_err(|e| e.to_string())?;
    sync.run(stop, |_| {}).await.map(|_| ()).map_err(|e| e.to_string())
}

/// The law of changelogs on the table in a folder of the shared warehouse.
pub(super) async fn changes_law(folder: &Path, catalog: &str) -> Result<(), String> {
    let (store, ident) = open(folder, catalog)?;
    match store.load_table(&ident).await {
        // a table that floe cannot open shows in the reader's own checks
        Err(_) => Ok(()),
        Ok(t) => law::check(&t).await.map(|_| ()),
    }
}

fn open(folder: &Path, catalog: &str) -> Result<(Arc<dyn Catalog>, TableIdent), String> {
    let part = |p: Option<&Path>| p.and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let (Some(name), Some(ns)) = (part(Some(folder)), part(folder.parent())) else {
        return Err(format!("{} is no table of a warehouse", folder.display()));
    };
    let warehouse = folder.parent().and_then(Path::parent).unwrap_or(folder).display().to_string();
    let store = HadoopCatalog::new(catalog, &warehouse, Default::default()).map_err(|e| e.to_string())?;
    Ok((Arc::new(store), TableIdent::new(NamespaceIdent::new(ns), name)))
}
