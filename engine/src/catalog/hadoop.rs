//! The Hadoop layout: `<warehouse>/<namespace…>/<table>/metadata/vN.metadata.json`, as Spark's `type=hadoop` catalog reads
//! and writes it (FS-*, CAT-1). Namespaces are folders; tables cannot be renamed or moved.
//!
//! A commit creates `v(N+1)` exclusively: of two writers one wins. On a local file system that is a hard link, which
//! Hadoop's own rename is not (FS-1), so floe never loses a commit to floe, nor overwrites one of Spark's.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};

use super::files::{check_commit, delete_expired_metadata, encode_metadata, first_metadata, read_metadata, wants_gzip};
use super::{
    Catalog, NewTable, TableCommit, moved, namespace_already_exists, no_such_namespace, no_such_table, purge,
    table_already_exists,
};
use crate::io::{FileIo, normalize};
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result, Table};

const HINT: &str = "version-hint.text";

/// Names of one version's metadata file, in the order of preference (FS-3; the last is an old spelling).
const EXTENSIONS: [&str; 3] = [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"];

/// A catalog of tables in folders.
pub struct HadoopCatalog {
    name: String,
    warehouse: String,
    props: HashMap<String, String>,
    io: FileIo,
}

impl std::fmt::Debug for HadoopCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Properties may hold secrets.
        f.debug_struct("HadoopCatalog")
            .field("name", &self.name)
            .field("warehouse", &self.warehouse)
            .finish_non_exhaustive()
    }
}

impl HadoopCatalog {
    /// A catalog whose tables lie below `warehouse`, an absolute path or a URI. Nothing is created.
    pub fn new(name: &str, warehouse: &str, props: HashMap<String, String>) -> Result<Self> {
        let io = FileIo::new(props.clone());
        Self::with_io(name, warehouse, props, io)
    }

    /// The same over a given file access.
    pub fn with_io(name: &str, warehouse: &str, props: HashMap<String, String>, io: FileIo) -> Result<Self> {
        let warehouse = warehouse.trim_end_matches('/').to_string();
        io.resolve(&format!("{warehouse}/x")).map_err(|e| e.at(format!("warehouse {warehouse:?}")))?;
        Ok(Self { name: name.to_string(), warehouse, props, io })
    }

    fn namespace_folder(&self, ns: &NamespaceIdent) -> Result<String> {
        let mut path = self.warehouse.clone();
        for level in ns.iter() {
            path.push('/');
            path.push_str(folder_name(level)?);
        }
        Ok(path)
    }

    fn table_folder(&self, ident: &TableIdent) -> Result<String> {
        Ok(format!("{}/{}", self.namespace_folder(ident.namespace())?, folder_name(ident.name())?))
    }

    /// A folder is a table if its `metadata/` holds a metadata file (CAT-1).
    async fn is_table(&self, folder: &str) -> Result<bool> {
        let inside = self.io.list_folder(&format!("{folder}/metadata")).await?;
        Ok(inside.files.iter().any(|f| version_of(f).is_some()))
    }

    /// Location and number of the current version (FS-5): from the hint, or from the folder when the hint is missing,
    /// unreadable or behind what is kept, then forward while there is a next version. `None`: no table.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when the hint names a version and there are only older ones: commits were made that are lost, and
    /// an older version would be a wrong answer.
    async fn current_version(&self, folder: &str) -> Result<Option<(u64, String)>> {
        let metadata = format!("{folder}/metadata");
        let mut found = None;
        let hint = self.read_hint(&metadata).await?;
        if let Some(hint) = hint {
            found = self.version_file(&metadata, hint).await?.map(|l| (hint, l));
        }
        if found.is_none() {
            let newest = self.io.list_folder(&metadata).await?.files.iter().filter_map(|f| version_of(f)).max();
            if let Some(newest) = newest {
                // a table that was dropped and made again meanwhile has another hint by now
                if let Some(hint) = hint.filter(|h| *h > newest)
                    && self.read_hint(&metadata).await? == Some(hint)
                {
                    return Err(lost_version(&metadata, hint, newest));
                }
                found = self.version_file(&metadata, newest).await?.map(|l| (newest, l));
            }
        }
        let Some((mut version, mut location)) = found else {
            return Ok(None);
        };
        while let Some(next) = self.next_version_file(&metadata, version + 1).await? {
            version += 1;
            location = next;
        }
        Ok(Some((version, location)))
    }

    /// The hint says from where to look, never which version is current (FS-4): one that is no number means that there is none.
    async fn read_hint(&self, metadata: &str) -> Result<Option<u64>> {
        match self.io.read(&format!("{metadata}/{HINT}")).await {
            Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(|s| s.trim().parse().ok())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => {
                tracing::warn!("version hint is not readable, listing instead: {e}");
                Ok(None)
            }
        }
    }

    async fn version_file(&self, metadata: &str, version: u64) -> Result<Option<String>> {
        for extension in EXTENSIONS {
            let location = format!("{metadata}/v{version}{extension}");
            if self.io.exists(&location).await? {
                return Ok(Some(location));
            }
        }
        Ok(None)
    }

    /// [`Self::version_file`] for a version that most likely is not there: all names at once.
    async fn next_version_file(&self, metadata: &str, version: u64) -> Result<Option<String>> {
        let names = EXTENSIONS.map(|extension| format!("{metadata}/v{version}{extension}"));
        let found = futures::future::try_join_all(names.iter().map(|n| self.io.exists(n))).await?;
        Ok(names.into_iter().zip(found).find_map(|(name, there)| there.then_some(name)))
    }

    /// Creates version `version` exclusively, then moves the hint, best effort.
    async fn put_version(&self, folder: &str, version: u64, metadata: &Metadata, gzip: bool) -> Result<String> {
        let extension = if gzip { EXTENSIONS[1] } else { EXTENSIONS[0] };
        let location = format!("{folder}/metadata/v{version}{extension}");
        let bytes = encode_metadata(metadata, gzip)?;
        if let Err(e) = self.io.commit_new(&location, bytes.clone()).await {
            // a request that the network or a store's client sent twice finds its own file, and has won (CONC-41)
            let own = e.kind() == ErrorKind::AlreadyExists && self.io.read(&location).await.is_ok_and(|b| b == bytes);
            if !own {
                return Err(e);
            }
        }
        let hint = format!("{folder}/metadata/{HINT}");
        if let Err(e) = self.io.replace_hint(&hint, version.to_string().into()).await {
            tracing::warn!("version hint not written, readers walk forward: {e}");
        }
        Ok(location)
    }

    /// Publishes the first version of a table that must not exist.
    async fn put_first(&self, ident: &TableIdent, metadata: &Metadata) -> Result<String> {
        let folder = self.table_folder(ident)?;
        if self.current_version(&folder).await?.is_some() {
            return Err(table_already_exists(ident));
        }
        self.io.create_folder(&format!("{folder}/metadata")).await?;
        // Never packed, so that all creators race for one name.
        self.put_version(&folder, 1, metadata, false).await.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => table_already_exists(ident),
            _ => e,
        })
    }

    fn check_location(&self, ident: &TableIdent, asked: Option<&str>) -> Result<()> {
        let folder = self.table_folder(ident)?;
        match asked.filter(|l| normalize(l.trim_end_matches('/')) != normalize(&folder)) {
            None => Ok(()),
            Some(l) => {
                Err(Error::invalid(format!("a table of a Hadoop catalog lies at {folder}; {l} is not possible"))
                    .at(ident)
                    .clause("CAT-1"))
            }
        }
    }

    async fn require_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        if self.namespace_exists(ns).await? { Ok(()) } else { Err(no_such_namespace(ns)) }
    }

    async fn load(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let folder = self.table_folder(ident)?;
        let Some((_, location)) = self.current_version(&folder).await? else {
            return Err(no_such_table(ident));
        };
        let metadata = read_metadata(&self.io, &location).await?;
        Ok(Table::new(ident.clone(), location, Arc::new(metadata), self.io.clone(), self))
    }
}

#[async_trait]
impl Catalog for HadoopCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        let folder = match parent {
            None => self.warehouse.clone(),
            Some(ns) => {
                self.require_namespace(ns).await?;
                self.namespace_folder(ns)?
            }
        };
        let mut out = Vec::new();
        for child in self.io.list_folder(&folder).await?.folders {
            let inside = format!("{folder}/{child}");
            // Some stores list a folder for a while after its last file is gone.
            if !self.is_table(&inside).await? && self.io.folder_exists(&inside).await? {
                let mut levels = parent.map(|p| p.clone().inner()).unwrap_or_default();
                levels.push(child);
                out.push(NamespaceIdent::from_vec(levels)?);
            }
        }
        Ok(out)
    }

    async fn create_namespace(&self, ns: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()> {
        if !properties.is_empty() {
            return Err(Error::unsupported("a namespace of a Hadoop catalog is a folder and has no properties")
                .at(ns.to_url_string())
                .clause("CAT-1"));
        }
        let folder = self.namespace_folder(ns)?;
        if self.io.folder_exists(&folder).await? {
            return Err(namespace_already_exists(ns));
        }
        self.io.create_lasting_folder(&folder).await
    }

    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool> {
        let folder = self.namespace_folder(ns)?;
        Ok(self.io.folder_exists(&folder).await? && !self.is_table(&folder).await?)
    }

    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>> {
        self.require_namespace(ns).await?;
        Ok(HashMap::from([("location".to_string(), self.namespace_folder(ns)?)]))
    }

    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        self.require_namespace(ns).await?;
        let folder = self.namespace_folder(ns)?;
        self.io.remove_empty_folder(&folder).await.map_err(|e| match e.kind() {
            ErrorKind::Conflict => Error::conflict(format!("namespace {} is not empty", ns.join("."))),
            _ => e,
        })
    }

    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.require_namespace(ns).await?;
        let folder = self.namespace_folder(ns)?;
        let mut out = Vec::new();
        for child in self.io.list_folder(&folder).await?.folders {
            if self.is_table(&format!("{folder}/{child}")).await? {
                out.push(TableIdent::new(ns.clone(), child));
            }
        }
        Ok(out)
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        Ok(self.current_version(&self.table_folder(ident)?).await?.is_some())
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        let ident = table.ident.clone();
        let folder = self.table_folder(&ident)?;
        self.check_location(&ident, table.location.as_deref())?;
        refuse_metadata_path(&table.properties).map_err(|e| e.at(&ident))?;
        let metadata = first_metadata(&table, &folder, &self.props)?;
        self.require_namespace(ident.namespace()).await?;
        let location = self.put_first(&ident, &metadata).await?;
        Ok(Table::new(ident, location, Arc::new(metadata), self.io.clone(), self))
    }

    async fn default_location(&self, ident: &TableIdent) -> Result<String> {
        self.table_folder(ident)
    }

    async fn create_from_metadata(self: Arc<Self>, ident: &TableIdent, metadata: Metadata) -> Result<Table> {
        self.check_location(ident, Some(metadata.location()))?;
        refuse_metadata_path(metadata.properties()).map_err(|e| e.at(ident))?;
        self.require_namespace(ident.namespace()).await?;
        let location = self.put_first(ident, &metadata).await?;
        Ok(Table::new(ident.clone(), location, Arc::new(metadata), self.io.clone(), self))
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        self.load(ident).await
    }

    /// Removes the table's folder, with or without `purge`, as Hadoop catalogs do; `purge` also deletes files that lie
    /// elsewhere.
    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()> {
        let folder = self.table_folder(ident)?;
        let Some((_, location)) = self.current_version(&folder).await? else {
            return Err(no_such_table(ident));
        };
        let files = purge::dropped_files(&self.io, ident, &location, purge).await?;
        self.io.remove_tree(&folder).await?;
        purge::delete_files(&self.io, files).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        Err(Error::unsupported(format!("a Hadoop catalog cannot rename tables (asked: {from} to {to})"))
            .clause("CAT-1"))
    }

    /// Copies the metadata as version 1 of a new table; its files stay where they are.
    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table> {
        self.require_namespace(ident.namespace()).await?;
        let metadata = read_metadata(&self.io, metadata_location).await?;
        let location = self.put_first(ident, &metadata).await?;
        Ok(Table::new(ident.clone(), location, Arc::new(metadata), self.io.clone(), self))
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        check_commit(&commit)?;
        let ident = commit.base.ident().clone();
        let base = commit.base.metadata();
        if commit.metadata.location() != base.location() {
            return Err(Error::invalid(format!(
                "a table of a Hadoop catalog cannot be moved from {} to {}",
                base.location(),
                commit.metadata.location()
            ))
            .at(&ident)
            .clause("FS-6"));
        }
        refuse_metadata_path(commit.metadata.properties()).map_err(|e| e.at(&ident))?;

        let folder = self.table_folder(&ident)?;
        let Some((version, location)) = self.current_version(&folder).await? else {
            return Err(no_such_table(&ident));
        };
        if normalize(&location) != normalize(commit.base.metadata_location()) {
            return Err(moved(&ident, commit.base.metadata_location(), &location));
        }
        // A table dropped and made again has a file of the same name: only its UUID tells.
        let current = read_metadata(&self.io, &location).await?;
        if current.uuid() != base.uuid() {
            return Err(Error::conflict(format!(
                "table was replaced: its UUID was {} and is now {}",
                base.uuid(),
                current.uuid()
            ))
            .at(&ident)
            .clause("META-F02"));
        }
        // The name of the next version follows from the base alone, so that all its writers race for one name even when
        // one of them changes the codec.
        let gzip = wants_gzip(base.properties())?;
        let new = self.put_version(&folder, version + 1, &commit.metadata, gzip).await.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => moved(&ident, &location, &format!("v{}", version + 1)),
            ErrorKind::NotFound => no_such_table(&ident),
            _ => e,
        })?;
        delete_expired_metadata(&self.io, &commit).await;
        Ok(Table::new(ident, new, Arc::new(commit.metadata), self.io.clone(), self))
    }
}

/// A table whose newest metadata file is gone. Java refuses it in the same words.
fn lost_version(metadata: &str, hint: u64, newest: u64) -> Error {
    Error::malformed(format!(
        "Metadata file for version {hint} is missing: {HINT} names it, and the newest file there is v{newest}. Bring \
         {metadata}/v{hint}{} back; or, to go on from v{newest} without the later commits, delete {HINT}",
        EXTENSIONS[0]
    ))
    .at(format!("{metadata}/{HINT}"))
    .clause("FS-5")
}

/// Version of a metadata file by its name.
fn version_of(file: &str) -> Option<u64> {
    let rest = file.strip_prefix('v')?;
    // `7.gz.metadata.json` ends as a plain name does, and `7.gz` is no number
    EXTENSIONS.iter().find_map(|e| rest.strip_suffix(e)?.parse().ok())
}

/// A namespace level or table name that can be a folder.
fn folder_name(name: &str) -> Result<&str> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
        return Err(Error::invalid(format!(
            "{name:?} cannot name a folder; a name is not empty, not . or .., and has no slash"
        ))
        .clause("CAT-1"));
    }
    Ok(name)
}

fn refuse_metadata_path(properties: &HashMap<String, String>) -> Result<()> {
    if properties.contains_key("write.metadata.path") {
        return Err(Error::invalid("write.metadata.path cannot be set on a table of a Hadoop catalog").clause("FS-6"));
    }
    Ok(())
}
