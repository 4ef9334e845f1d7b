//! The SQL catalog: Iceberg's JDBC catalog tables, so that Java's `JdbcCatalog` and PyIceberg's `SqlCatalog` open the same
//! database (CAT-2, CAT-3). A commit writes a metadata file and compares-and-swaps its location (CAT-4, FS-10).

mod db;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};

use self::db::Db;
pub use self::db::MUST_EXIST;
use super::files::{check_commit, delete_expired_metadata, next_metastore_location, read_metadata, write_metadata};
use super::{
    Catalog, NewTable, TableCommit, check_update, moved, namespace_already_exists, no_such_namespace, no_such_table,
    pointer, purge, table_already_exists,
};
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result, Table};

/// Property key whose presence says that a namespace exists (CAT-3).
const EXISTS: &str = "exists";

/// A catalog in a SQL database. Several catalogs, told apart by name, share one database.
pub struct SqlCatalog {
    name: String,
    warehouse: Option<String>,
    props: HashMap<String, String>,
    io: FileIo,
    db: Db,
}

impl std::fmt::Debug for SqlCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Properties may hold secrets.
        f.debug_struct("SqlCatalog").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SqlCatalog {
    /// Opens `url` (`sqlite:PATH`, `sqlite::memory:`, `postgres://…`), creating the file and the catalog's tables when they
    /// are missing. Property `warehouse` says where new tables go; for SQLite the default is `warehouse/` beside the file.
    pub async fn open(name: &str, url: &str, props: HashMap<String, String>) -> Result<Self> {
        let io = FileIo::new(props.clone());
        Self::open_with_io(name, url, props, io).await
    }

    /// The same over a given file access.
    pub async fn open_with_io(name: &str, url: &str, props: HashMap<String, String>, io: FileIo) -> Result<Self> {
        let folder = db::folder_of(url)?;
        if let Some(folder) = &folder {
            // The database is a file that configuration names: the sandbox holds for it, too.
            io.local_path(folder)?;
        }
        let warehouse = match props.get("warehouse") {
            Some(w) => Some(w.trim_end_matches('/').to_string()),
            None => folder.map(|f| format!("{f}/warehouse")),
        };
        let db = Db::open(url, &props).await?;
        Ok(Self { name: name.to_string(), warehouse, props, io, db })
    }

    async fn pointer(&self, ident: &TableIdent) -> Result<Option<String>> {
        self.db.pointer(&self.name, &joined(ident.namespace())?, ident.name()).await
    }

    async fn all_namespaces(&self) -> Result<BTreeSet<Vec<String>>> {
        let mut out = BTreeSet::new();
        for ns in self.db.namespaces(&self.name).await? {
            let levels: Vec<String> = ns.split('.').map(str::to_string).collect();
            for n in 1..=levels.len() {
                out.insert(levels[..n].to_vec());
            }
        }
        Ok(out)
    }

    async fn require_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        if self.namespace_exists(ns).await? { Ok(()) } else { Err(no_such_namespace(ns)) }
    }

    fn table(self: Arc<Self>, ident: TableIdent, location: String, metadata: Metadata) -> Table {
        Table::new(ident, location, Arc::new(metadata), self.io.clone(), self)
    }

    async fn insert(&self, ident: &TableIdent, location: &str) -> Result<()> {
        if self.db.insert(&self.name, &joined(ident.namespace())?, ident.name(), location).await? {
            Ok(())
        } else {
            Err(table_already_exists(ident))
        }
    }
}

#[async_trait]
impl Catalog for SqlCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        let parent: Vec<String> = match parent {
            Some(ns) => {
                self.require_namespace(ns).await?;
                ns.clone().inner()
            }
            None => Vec::new(),
        };
        let all = self.all_namespaces().await?;
        let children = all.into_iter().filter(|n| n.len() == parent.len() + 1 && n.starts_with(&parent));
        children.map(|n| NamespaceIdent::from_vec(n).map_err(Error::from)).collect()
    }

    async fn create_namespace(&self, ns: &NamespaceIdent, mut properties: HashMap<String, String>) -> Result<()> {
        let key = joined(ns)?;
        if self.namespace_exists(ns).await? {
            return Err(namespace_already_exists(ns));
        }
        properties.insert(EXISTS.into(), "true".into());
        if self.db.create_namespace(&self.name, &key, &properties).await? {
            Ok(())
        } else {
            Err(namespace_already_exists(ns))
        }
    }

    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool> {
        joined(ns)?;
        Ok(self.all_namespaces().await?.contains(ns.as_ref()))
    }

    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>> {
        self.require_namespace(ns).await?;
        let mut props = self.db.namespace_properties(&self.name, &joined(ns)?).await?;
        props.remove(EXISTS);
        // As the JDBC catalog answers: engines place new tables by it.
        if let Some(warehouse) = &self.warehouse {
            props.entry("location".into()).or_insert_with(|| format!("{warehouse}/{}", ns.join("/")));
        }
        Ok(props)
    }

    async fn update_namespace_properties(
        &self,
        ns: &NamespaceIdent,
        removals: &[String],
        updates: &HashMap<String, String>,
    ) -> Result<()> {
        self.require_namespace(ns).await?;
        check_update(removals, updates)?;
        let removals: Vec<String> = removals.iter().filter(|k| *k != EXISTS).cloned().collect();
        self.db.update_namespace(&self.name, &joined(ns)?, &removals, updates).await
    }

    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        self.require_namespace(ns).await?;
        let has_child = self.all_namespaces().await?.iter().any(|n| n.len() > ns.len() && n.starts_with(ns.as_ref()));
        if has_child || !self.db.drop_namespace(&self.name, &joined(ns)?).await? {
            return Err(Error::conflict(format!("namespace {} is not empty", ns.join("."))));
        }
        Ok(())
    }

    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.require_namespace(ns).await?;
        let names = self.db.tables(&self.name, &joined(ns)?).await?;
        Ok(names.into_iter().map(|n| TableIdent::new(ns.clone(), n)).collect())
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        Ok(self.pointer(ident).await?.is_some())
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        let ident = table.ident.clone();
        self.require_namespace(ident.namespace()).await?;
        let metadata = pointer::new_metadata(self.as_ref(), &table, &self.props).await?;
        self.create_from_metadata(&ident, metadata).await
    }

    async fn default_location(&self, ident: &TableIdent) -> Result<String> {
        let ns = self.namespace_properties(ident.namespace()).await?;
        let folder = ns.get("location").ok_or_else(|| {
            Error::invalid(format!(
                "catalog {:?} has no warehouse: set property `warehouse`, or give the table a location",
                self.name
            ))
            .at(ident)
        })?;
        Ok(format!("{}/{}", folder.trim_end_matches('/'), ident.name()))
    }

    async fn create_from_metadata(self: Arc<Self>, ident: &TableIdent, metadata: Metadata) -> Result<Table> {
        self.require_namespace(ident.namespace()).await?;
        let file = next_metastore_location(&metadata, None)?;
        write_metadata(&self.io, &file, &metadata).await?;
        if let Err(e) = self.insert(ident, &file).await {
            // Only a refusal proves that nobody points to the file.
            if e.kind() == ErrorKind::AlreadyExists {
                pointer::discard(&self.io, &file).await;
            }
            return Err(e);
        }
        Ok(self.table(ident.clone(), file, metadata))
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let location = self.pointer(ident).await?.ok_or_else(|| no_such_table(ident))?;
        let metadata = pointer::current_metadata(&self.io, ident, &location).await?;
        Ok(self.table(ident.clone(), location, metadata))
    }

    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()> {
        let location = self.pointer(ident).await?.ok_or_else(|| no_such_table(ident))?;
        let files = purge::dropped_files(&self.io, ident, &location, purge).await?;
        if !self.db.drop_table(&self.name, &joined(ident.namespace())?, ident.name(), &location).await? {
            return Err(
                Error::new(ErrorKind::CommitFailed, "the table changed while it was dropped; try again").at(ident)
            );
        }
        purge::delete_files(&self.io, files).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.require_namespace(to.namespace()).await?;
        if self.table_exists(to).await? {
            return Err(table_already_exists(to));
        }
        let (from_ns, to_ns) = (joined(from.namespace())?, joined(to.namespace())?);
        match self.db.rename_table(&self.name, (&from_ns, from.name()), (&to_ns, to.name())).await? {
            None => Err(table_already_exists(to)),
            Some(false) => Err(no_such_table(from)),
            Some(true) => Ok(()),
        }
    }

    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table> {
        self.require_namespace(ident.namespace()).await?;
        let metadata = read_metadata(&self.io, metadata_location).await?;
        self.insert(ident, metadata_location).await?;
        Ok(self.table(ident.clone(), metadata_location.to_string(), metadata))
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        check_commit(&commit)?;
        let ident = commit.base.ident().clone();
        let base = commit.base.metadata_location();
        let file = next_metastore_location(&commit.metadata, Some(base))?;
        write_metadata(&self.io, &file, &commit.metadata).await?;
        let ns = joined(ident.namespace())?;
        match self.db.swap(&self.name, &ns, ident.name(), base, &file).await {
            Ok(true) => {}
            Ok(false) => {
                pointer::discard(&self.io, &file).await;
                return Err(match self.pointer(&ident).await? {
                    None => no_such_table(&ident),
                    Some(current) => moved(&ident, base, &current),
                });
            }
            // The database answered, with a refusal: nothing was changed.
            Err(e) if e.kind() != ErrorKind::CommitUnknown => {
                pointer::discard(&self.io, &file).await;
                return Err(e.at(&ident));
            }
            Err(e) => {
                if !pointer::was_committed(&self.io, &file, || self.pointer(&ident)).await {
                    return Err(e.at(&ident).clause("CONC-41"));
                }
            }
        }
        delete_expired_metadata(&self.io, &commit).await;
        Ok(self.table(ident, file, commit.metadata))
    }
}

/// A namespace as the catalog's tables spell it (CAT-3).
fn joined(ns: &NamespaceIdent) -> Result<String> {
    if let Some(level) = ns.iter().find(|l| l.is_empty() || l.contains('.')) {
        return Err(Error::invalid(format!(
            "namespace level {level:?}: in a SQL catalog a level is not empty and has no dot"
        ))
        .clause("CAT-3"));
    }
    Ok(ns.join("."))
}
