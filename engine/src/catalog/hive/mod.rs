//! The Hive metastore: a database is a namespace, the pointer is the parameter `metadata_location` of an external table
//! (CAT-5). A commit writes a metadata file, takes the table's lock, looks at the pointer and replaces it; a table or catalog
//! with `engine.hive.lock-enabled=false` (PROP-36) relies on the metastore's own compare-and-swap instead, which must have HIVE-26882.

mod client;
mod convert;
#[cfg(test)]
mod tests;
mod thrift;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};

use self::client::Client;
use self::convert::{METADATA_LOCATION, is_iceberg, parameters, point_to};
use self::thrift::{Fields, Value};
use super::files::{check_commit, delete_expired_metadata, next_metastore_location, read_metadata, write_metadata};
use super::{
    Catalog, NewTable, TableCommit, check_update, found, moved, namespace_already_exists, no_such_namespace,
    no_such_table, pointer, purge, table_already_exists,
};
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result, Table};

/// The property of a table, or of a catalog as Java's configuration names it or without its prefix.
const LOCK_ENABLED: [&str; 2] = ["engine.hive.lock-enabled", "iceberg.engine.hive.lock-enabled"];

/// A catalog in a Hive metastore.
pub struct HiveCatalog {
    name: String,
    props: HashMap<String, String>,
    io: FileIo,
    client: Client,
    owner: String,
}

impl std::fmt::Debug for HiveCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Properties may hold secrets.
        f.debug_struct("HiveCatalog")
            .field("name", &self.name)
            .field("uri", &self.client.shown())
            .finish_non_exhaustive()
    }
}

impl HiveCatalog {
    /// Connects to the metastore at `thrift://HOST:PORT` (several, separated by commas, are tried in turn) and asks it for
    /// its databases. Properties: `warehouse` (where new databases go, else the metastore's choice),
    /// `iceberg.hive.lock-timeout-ms` (180,000), `iceberg.engine.hive.lock-enabled` (true; PROP-36), and those of the file
    /// stores.
    pub async fn open(name: &str, uri: &str, props: HashMap<String, String>) -> Result<Self> {
        if props.get("hive.metastore.sasl.enabled").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
            return Err(Error::unsupported(
                "a metastore with SASL (Kerberos) cannot be spoken to; allowed: plain Thrift",
            ));
        }
        let timeout = match props.get("iceberg.hive.lock-timeout-ms") {
            None => 180_000,
            Some(v) => v.parse().map_err(|_| {
                Error::invalid(format!("iceberg.hive.lock-timeout-ms is {v:?}; a number of milliseconds is allowed"))
            })?,
        };
        lock_enabled(&props, &LOCK_ENABLED)?;
        let io = FileIo::new(props.clone());
        let client = Client::new(uri, Duration::from_millis(timeout))?;
        client.databases().await?;
        let owner = std::env::var("USER").ok().filter(|u| !u.is_empty()).unwrap_or_else(|| "floe".into());
        Ok(Self { name: name.to_string(), props, io, client, owner })
    }

    /// The table's description; [`ErrorKind::NotFound`] when there is none, or when it is not Iceberg's.
    async fn find(&self, ident: &TableIdent) -> Result<(Fields, String)> {
        let missing = || no_such_table(ident);
        let Ok(database) = database_name(ident.namespace()) else {
            return Err(missing());
        };
        let table = self.client.table(database, ident.name()).await.map_err(|e| match e.kind() {
            ErrorKind::NotFound => missing().with_source(e),
            _ => e,
        })?;
        let mut parameters = parameters(&table);
        if !is_iceberg(&parameters) {
            return Err(Error::not_found(format!("{ident} is no Iceberg table: its table_type is not ICEBERG")));
        }
        let location = parameters
            .remove(METADATA_LOCATION)
            .ok_or_else(|| Error::malformed(format!("table {ident} has no {METADATA_LOCATION}")).clause("CAT-5"))?;
        Ok((table, location))
    }

    async fn require_namespace(&self, ns: &NamespaceIdent) -> Result<Fields> {
        let name = database_name(ns).map_err(|_| no_such_namespace(ns))?;
        self.client.database(name).await.map_err(|e| match e.kind() {
            ErrorKind::NotFound => no_such_namespace(ns).with_source(e),
            _ => e,
        })
    }

    fn table(self: Arc<Self>, ident: TableIdent, location: String, metadata: Metadata) -> Table {
        Table::new(ident, location, Arc::new(metadata), self.io.clone(), self)
    }

    async fn insert(&self, ident: &TableIdent, metadata: &Metadata, location: &str) -> Result<()> {
        let table = convert::new_table(ident, &self.owner, metadata, location);
        self.client.create_table(table).await.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => table_already_exists(ident).with_source(e),
            ErrorKind::NotFound => no_such_namespace(ident.namespace()).with_source(e),
            // Nobody else waits for this name's outcome.
            ErrorKind::CommitUnknown => e.at(ident),
            _ => e,
        })
    }

    /// Replaces the pointer, if it still is the base's.
    async fn swap(&self, commit: &TableCommit, file: &str, locked: bool) -> Result<()> {
        let ident = commit.base.ident();
        let base = commit.base.metadata_location();
        let (mut table, current) = self.find(ident).await?;
        if current != base {
            return Err(moved(ident, base, &current));
        }
        point_to(&mut table, &commit.metadata, file, Some(commit.base.metadata()));
        let mut context = vec![("DO_NOT_UPDATE_STATS".to_string(), "true".to_string())];
        if !locked {
            context.push(("expected_parameter_key".into(), METADATA_LOCATION.into()));
            context.push(("expected_parameter_value".into(), base.into()));
        }
        let database = database_name(ident.namespace())?;
        self.client.alter_table(database, ident.name(), table, &context).await
    }
}

#[async_trait]
impl Catalog for HiveCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        if let Some(parent) = parent {
            self.require_namespace(parent).await?;
            return Ok(Vec::new());
        }
        let mut names = self.client.databases().await?;
        names.sort();
        Ok(names.into_iter().map(NamespaceIdent::new).collect())
    }

    async fn create_namespace(&self, ns: &NamespaceIdent, mut properties: HashMap<String, String>) -> Result<()> {
        let name = database_name(ns)?;
        if let Some(warehouse) = self.props.get("warehouse") {
            let location = format!("{}/{name}.db", warehouse.trim_end_matches('/'));
            properties.entry("location".into()).or_insert(location);
        }
        let mut database = Fields::from([(1, Value::text(name)), (6, Value::text(&self.owner)), (7, Value::I32(USER))]);
        convert::set_namespace_properties(&mut database, &properties);
        self.client.create_database(database).await.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => namespace_already_exists(ns).with_source(e),
            _ => e,
        })
    }

    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool> {
        found(self.require_namespace(ns).await)
    }

    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>> {
        Ok(convert::namespace_properties(&self.require_namespace(ns).await?))
    }

    async fn update_namespace_properties(
        &self,
        ns: &NamespaceIdent,
        removals: &[String],
        updates: &HashMap<String, String>,
    ) -> Result<()> {
        let mut database = self.require_namespace(ns).await?;
        check_update(removals, updates)?;
        let mut properties = convert::namespace_properties(&database);
        properties.retain(|k, _| !removals.contains(k));
        properties.extend(updates.clone());
        convert::set_namespace_properties(&mut database, &properties);
        self.client.alter_database(database_name(ns)?, database).await
    }

    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        self.require_namespace(ns).await?;
        self.client.drop_database(database_name(ns)?).await.map_err(|e| match e.kind() {
            ErrorKind::Conflict => Error::conflict(format!("namespace {} is not empty", ns.join("."))).with_source(e),
            _ => e,
        })
    }

    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.require_namespace(ns).await?;
        let tables = self.client.tables(database_name(ns)?).await?;
        let ours = tables.iter().filter(|t| is_iceberg(&parameters(t)));
        let mut out: Vec<_> =
            ours.filter_map(|t| convert::name_of(t).map(|n| TableIdent::new(ns.clone(), n.to_string()))).collect();
        out.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(out)
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        found(self.find(ident).await)
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        let ident = table.ident.clone();
        self.require_namespace(ident.namespace()).await?;
        let metadata = pointer::new_metadata(self.as_ref(), &table, &self.props).await?;
        self.create_from_metadata(&ident, metadata).await
    }

    async fn default_location(&self, ident: &TableIdent) -> Result<String> {
        let ns = self.namespace_properties(ident.namespace()).await?;
        let folder = ns
            .get("location")
            .ok_or_else(|| Error::invalid("the database has no location: give the table one").at(ident))?;
        Ok(format!("{}/{}", folder.trim_end_matches('/'), ident.name()))
    }

    async fn create_from_metadata(self: Arc<Self>, ident: &TableIdent, metadata: Metadata) -> Result<Table> {
        self.require_namespace(ident.namespace()).await?;
        refuse_upper_case(ident)?;
        let file = next_metastore_location(&metadata, None)?;
        write_metadata(&self.io, &file, &metadata).await?;
        if let Err(e) = self.insert(ident, &metadata, &file).await {
            // Only a refusal proves that nobody points to the file.
            if e.kind() != ErrorKind::CommitUnknown {
                pointer::discard(&self.io, &file).await;
            }
            return Err(e);
        }
        Ok(self.table(ident.clone(), file, metadata))
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let (_, location) = self.find(ident).await?;
        let metadata = pointer::current_metadata(&self.io, ident, &location).await?;
        Ok(self.table(ident.clone(), location, metadata))
    }

    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()> {
        let (_, location) = self.find(ident).await?;
        let files = purge::dropped_files(&self.io, ident, &location, purge).await?;
        self.client.drop_table(database_name(ident.namespace())?, ident.name()).await.map_err(|e| match e.kind() {
            ErrorKind::NotFound => no_such_table(ident).with_source(e),
            _ => e,
        })?;
        purge::delete_files(&self.io, files).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.require_namespace(to.namespace()).await?;
        refuse_upper_case(to)?;
        let (mut table, _) = self.find(from).await?;
        if self.table_exists(to).await? {
            return Err(table_already_exists(to));
        }
        convert::rename(&mut table, to);
        self.client.alter_table(database_name(from.namespace())?, from.name(), table, &[]).await.map_err(|e| {
            match e.kind() {
                ErrorKind::Conflict if e.message().contains("already exists") => {
                    table_already_exists(to).with_source(e)
                }
                ErrorKind::NotFound => no_such_table(from).with_source(e),
                _ => e,
            }
        })
    }

    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table> {
        self.require_namespace(ident.namespace()).await?;
        refuse_upper_case(ident)?;
        let metadata = read_metadata(&self.io, metadata_location).await?;
        self.insert(ident, &metadata, metadata_location).await?;
        Ok(self.table(ident.clone(), metadata_location.to_string(), metadata))
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        check_commit(&commit)?;
        let ident = commit.base.ident().clone();
        // The table's word counts before the catalog's, and that of the state the commit starts from (PROP-36).
        let locked = match lock_enabled(commit.base.metadata().properties(), &LOCK_ENABLED[..1])? {
            Some(locked) => locked,
            None => lock_enabled(&self.props, &LOCK_ENABLED)?.unwrap_or(true),
        };
        let database = database_name(ident.namespace())?;
        // Looked at before anything is written: most lost races end here.
        let (_, current) = self.find(&ident).await?;
        if current != commit.base.metadata_location() {
            return Err(moved(&ident, commit.base.metadata_location(), &current));
        }
        let file = next_metastore_location(&commit.metadata, Some(commit.base.metadata_location()))?;
        write_metadata(&self.io, &file, &commit.metadata).await?;
        let lock = match locked {
            false => None,
            true => match self.client.lock(database, ident.name()).await {
                Ok(id) => Some(id),
                Err(e) => {
                    pointer::discard(&self.io, &file).await;
                    return Err(e.at(&ident));
                }
            },
        };
        let swapped = self.swap(&commit, &file, locked).await;
        let outcome = match swapped {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::CommitUnknown => {
                let look = async || self.find(&ident).await.map(|(_, current)| Some(current));
                match pointer::was_committed(&self.io, &file, look).await {
                    true => Ok(()),
                    false => Err(e.at(&ident).clause("CONC-41")),
                }
            }
            Err(e) => {
                pointer::discard(&self.io, &file).await;
                Err(e.at(&ident))
            }
        };
        if let Some(id) = lock
            && let Err(e) = self.client.unlock(id).await
        {
            tracing::warn!("the metastore's lock {id} was not given back, it expires by itself: {e}");
        }
        outcome?;
        delete_expired_metadata(&self.io, &commit).await;
        Ok(self.table(ident, file, commit.metadata))
    }
}

/// Kind of a database's owner: a user.
const USER: i32 = 1;

/// A namespace as a database's name: one level, in lower case, as the metastore keeps it.
fn database_name(ns: &NamespaceIdent) -> Result<&str> {
    match ns.as_ref().as_slice() {
        [one]
            if !one.is_empty() && !one.chars().any(char::is_uppercase) && !one.contains(['.', '/', '@', '#', '!']) =>
        {
            Ok(one)
        }
        [one] => Err(Error::invalid(format!(
            "{one:?} cannot be a database of a Hive metastore: lower case, without . / @ # !"
        ))
        .clause("CAT-5")),
        _ => Err(Error::invalid(format!("a namespace of a Hive metastore has one level; found {}", ns.join(".")))
            .clause("CAT-5")),
    }
}

/// The metastore would fold the name, and the table could not be found under the one that was asked for.
fn refuse_upper_case(ident: &TableIdent) -> Result<()> {
    if ident.name().chars().any(char::is_uppercase) {
        return Err(Error::invalid("a table's name in a Hive metastore is in lower case").at(ident).clause("CAT-5"));
    }
    Ok(())
}

/// The first of `keys` that is set.
fn lock_enabled(props: &HashMap<String, String>, keys: &[&str]) -> Result<Option<bool>> {
    let set = keys.iter().find_map(|k| props.get(*k).map(|v| (*k, v)));
    set.map(|(key, v)| {
        v.to_ascii_lowercase()
            .parse()
            .map_err(|_| Error::invalid(format!("{key} is {v:?}; allowed: true, false")).clause("PROP-36"))
    })
    .transpose()
}
