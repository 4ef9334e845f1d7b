//! One catalog trait over every place where a table's current metadata pointer can live.

mod config;
pub mod files;
mod hadoop;
mod hive;
mod pointer;
pub(crate) mod properties;
mod purge;
pub mod rest;
mod sql;

pub use config::{open_catalog, open_catalog_in};
pub use hadoop::HadoopCatalog;
pub use hive::HiveCatalog;
pub use rest::RestCatalog;
pub use sql::{MUST_EXIST, SqlCatalog};

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::spec::{FormatVersion, Schema, SortOrder, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};

use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result, Table};

/// What a new table is to be.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// Namespace and name.
    pub ident: TableIdent,
    /// Schema; field ids are assigned anew by the catalog's metadata builder.
    pub schema: Schema,
    /// True types of the schema's surrogate columns, by the ids in `schema`.
    pub ext: ExtTypes,
    /// Partition spec over `schema`; `None` = unpartitioned.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// Sort order; `None` = unsorted.
    pub sort_order: Option<SortOrder>,
    /// Base location; `None` = the catalog's choice.
    pub location: Option<String>,
    /// Table properties, without `format-version`.
    pub properties: HashMap<String, String>,
    /// Format version (2 when a statement does not say, PROP-1).
    pub format_version: FormatVersion,
}

/// A new version of a table, to be made current if `base` still is.
#[derive(Debug, Clone)]
pub struct TableCommit {
    /// The version this commit was computed from.
    pub base: Table,
    /// The whole new metadata; file-system and SQL catalogs write it.
    pub metadata: Metadata,
    /// The same as a list of changes; REST catalogs send it (REST-*).
    pub updates: Vec<TableUpdate>,
    /// What must still hold on the server.
    pub requirements: Vec<TableRequirement>,
}

/// A catalog. All methods are safe under concurrent callers, in this process and in others.
#[async_trait]
pub trait Catalog: Debug + Send + Sync {
    /// Name of the catalog, as statements and messages call it.
    fn name(&self) -> &str;

    /// Namespaces below `parent` (or at the top).
    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>>;
    /// Creates a namespace; [`crate::ErrorKind::AlreadyExists`] if it is there.
    async fn create_namespace(&self, ns: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()>;
    /// Whether the namespace exists.
    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool>;
    /// Properties of a namespace.
    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>>;
    /// Removes and sets properties of a namespace; a catalog without them refuses ([`crate::ErrorKind::Unsupported`]).
    async fn update_namespace_properties(
        &self,
        ns: &NamespaceIdent,
        removals: &[String],
        updates: &HashMap<String, String>,
    ) -> Result<()> {
        let _ = (removals, updates);
        Err(Error::unsupported(format!(
            "catalog {:?} has no namespace properties (asked for namespace {})",
            self.name(),
            ns.join(".")
        )))
    }
    /// Drops an empty namespace; a non-empty one is refused.
    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()>;

    /// Tables of a namespace.
    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>>;
    /// Whether the table exists.
    async fn table_exists(&self, ident: &TableIdent) -> Result<bool>;
    /// Creates a table without snapshots; [`crate::ErrorKind::AlreadyExists`] if it is there.
    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table>;
    /// Where a new table of this name goes when nobody says.
    async fn default_location(&self, ident: &TableIdent) -> Result<String> {
        Err(Error::unsupported(format!("catalog {:?} chooses locations only when it creates a table", self.name()))
            .at(ident))
    }
    /// Creates a table from whole metadata, snapshots and all, whose files exist already: the end of a staged creation.
    /// [`crate::ErrorKind::AlreadyExists`] if it is there.
    async fn create_from_metadata(self: Arc<Self>, ident: &TableIdent, metadata: Metadata) -> Result<Table> {
        let _ = metadata;
        Err(Error::unsupported(format!("catalog {:?} cannot create tables from metadata", self.name())).at(ident))
    }
    /// Loads the current version; [`crate::ErrorKind::NotFound`] names the table.
    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table>;
    /// Drops a table; `purge` also deletes its files.
    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()>;
    /// Renames a table where the catalog can.
    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()>;
    /// Registers existing metadata as a table.
    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table>;
    /// Makes a new version current if the base still is. [`crate::ErrorKind::CommitFailed`]: the pointer moved, nothing
    /// was changed, try again; [`crate::ErrorKind::CommitUnknown`]: it may or may not have happened (CONC-41).
    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table>;
}

fn no_such_table(ident: &TableIdent) -> Error {
    Error::not_found(format!("there is no table {ident}"))
}

fn no_such_namespace(ns: &NamespaceIdent) -> Error {
    Error::not_found(format!("there is no namespace {}", ns.join(".")))
}

fn namespace_already_exists(ns: &NamespaceIdent) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("namespace {} exists", ns.join(".")))
}

/// A commit whose base is no longer current (COMMIT-1).
fn moved(ident: &TableIdent, base: &str, current: &str) -> Error {
    Error::new(ErrorKind::CommitFailed, format!("the table has moved on from {base} to {current}"))
        .at(ident)
        .clause("COMMIT-1")
}

/// Whether what was asked for is there: [`ErrorKind::NotFound`] is an answer, other errors are none.
fn found<T>(asked: Result<T>) -> Result<bool> {
    match asked {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Refuses a property that is both set and removed (REST-6).
fn check_update(removals: &[String], updates: &HashMap<String, String>) -> Result<()> {
    match removals.iter().find(|k| updates.contains_key(*k)) {
        Some(both) => Err(Error::invalid(format!("property {both:?} is both set and removed")).clause("REST-6")),
        None => Ok(()),
    }
}

fn table_already_exists(ident: &TableIdent) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("table {ident} exists"))
}
