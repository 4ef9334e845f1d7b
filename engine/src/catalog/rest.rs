//! The REST catalog client (REST-*): configuration, prefix, authentication, paging, commits as requirements and updates,
//! and the question after a commit without an answer.

mod auth;
mod http;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use reqwest::Method;
use serde_json::{Value, json};

use self::http::{Does, Http, escape, string_map};
use super::files::check_commit;
use super::{Catalog, NewTable, TableCommit};
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result, Table};

/// How often the table is loaded to find out whether a commit happened, and the pause before each (CONC-43).
const STATUS_CHECKS: u32 = 3;
const STATUS_PAUSE: Duration = Duration::from_millis(300);

/// Credentials of the client: they have no place in the properties of a file store.
const CLIENT_ONLY: [&str; 6] = [
    "token",
    "credential",
    "rest.auth.basic.password",
    "rest.auth.basic.username",
    "rest.secret-access-key",
    "rest.session-token",
];

/// Configurations of tables whose file access is kept.
const TABLE_IOS: usize = 16;

/// A catalog behind an Iceberg REST server.
pub struct RestCatalog {
    name: String,
    http: Http,
    /// Properties after the server's defaults and overrides.
    props: HashMap<String, String>,
    io: FileIo,
    /// File access of tables with a configuration of their own, newest last: connections outlive one load.
    table_ios: Mutex<Vec<(HashMap<String, String>, FileIo)>>,
}

impl std::fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Properties may hold secrets.
        f.debug_struct("RestCatalog").field("name", &self.name).field("uri", &self.http.uri()).finish_non_exhaustive()
    }
}

impl RestCatalog {
    /// Connects to the server at `uri` and takes its configuration (REST-30). Properties: `warehouse`, `prefix`, `token`,
    /// `credential`, `oauth2-server-uri`, `scope`, `header.*`, `rest.auth.type`, `rest.signing-*` (sigv4), and those of the
    /// file stores.
    pub async fn open(name: &str, uri: &str, props: HashMap<String, String>) -> Result<Self> {
        let (http, props) = Http::connect(uri, props).await?;
        let io = FileIo::new(store_props(&props));
        Ok(Self { name: name.to_string(), http, props, io, table_ios: Mutex::default() })
    }

    fn tables_path(&self, ns: &NamespaceIdent) -> String {
        format!("namespaces/{}/tables", self.http.namespace(ns))
    }

    fn table_path(&self, ident: &TableIdent) -> String {
        format!("{}/{}", self.tables_path(ident.namespace()), escape(ident.name()))
    }

    /// All pages of a listing (REST-33).
    async fn pages(&self, path: &str, query: &[(&str, String)], key: &str) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        let mut token = String::new();
        loop {
            let mut query = query.to_vec();
            query.push(("pageToken", token.clone()));
            let body = self.http.call(Method::GET, path, &query, None, Does::Read).await?.body;
            let Some(Value::Array(items)) = body.get(key) else {
                return Err(Error::malformed(format!("the listing has no {key:?}")).at(path).clause("REST-33"));
            };
            out.extend(items.iter().cloned());
            match body.get("next-page-token").and_then(Value::as_str).filter(|t| !t.is_empty()) {
                Some(next) if next == token => {
                    return Err(Error::malformed("the server repeats a page token").at(path).clause("REST-33"));
                }
                Some(next) => token = next.to_string(),
                None => return Ok(out),
            }
        }
    }

    /// Whether an object is there: HEAD where the server has it, else GET.
    async fn probe(&self, path: &str, tail: &str) -> Result<bool> {
        let method = if self.http.has_head(tail) { Method::HEAD } else { Method::GET };
        super::found(self.http.call(method, path, &[], None, Does::Read).await)
    }

    /// A table from a load result (REST-40).
    fn table(self: Arc<Self>, ident: &TableIdent, body: &Value) -> Result<Table> {
        let loaded = wire::parse_load_result(body).map_err(|e| e.at(ident))?;
        let location = loaded.metadata_location.ok_or_else(|| {
            Error::malformed("the server's table has no metadata-location").at(ident).clause("REST-40")
        })?;
        let io = if loaded.config.is_empty() { self.io.clone() } else { self.table_io(&loaded.config) };
        Ok(Table::new(ident.clone(), location, Arc::new(loaded.metadata), io, self))
    }

    /// File access with a table's configuration over the catalog's; the fence stays what the user said.
    fn table_io(&self, config: &HashMap<String, String>) -> FileIo {
        let mut props = store_props(&self.props);
        props.extend(store_props(config).into_iter().filter(|(k, _)| !is_own(k)));
        let mut known = self.table_ios.lock().expect("no panic while held");
        if let Some((_, io)) = known.iter().find(|(p, _)| *p == props) {
            return io.clone();
        }
        let io = FileIo::new(props.clone());
        if known.len() == TABLE_IOS {
            known.remove(0);
        }
        known.push((props, io.clone()));
        io
    }

    async fn load(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let query = [("snapshots", "all".to_string())];
        let path = self.table_path(ident);
        let answer = self.http.call(Method::GET, &path, &query, None, Does::Read).await;
        let answer = answer.map_err(|e| match e.kind() {
            ErrorKind::NotFound => super::no_such_table(ident).with_source(e),
            _ => e,
        })?;
        self.table(ident, &answer.body)
    }

    async fn post_commit(self: Arc<Self>, ident: &TableIdent, commit: &Value) -> Result<Table> {
        let path = self.table_path(ident);
        let answer = self.http.call(Method::POST, &path, &[], Some(commit), Does::Commit).await?;
        self.table(ident, &answer.body)
    }

    /// After an unknown outcome: the table, if it holds every snapshot this commit added (REST-64).
    async fn find_commit(self: Arc<Self>, ident: &TableIdent, updates: &[TableUpdate]) -> Option<Table> {
        let added: Vec<i64> = updates
            .iter()
            .filter_map(|u| match u {
                TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
                _ => None,
            })
            .collect();
        if added.is_empty() {
            return None;
        }
        for _ in 0..STATUS_CHECKS {
            tokio::time::sleep(STATUS_PAUSE).await;
            if let Ok(table) = self.clone().load(ident).await
                && added.iter().all(|id| table.metadata().snapshot_by_id(*id).is_some())
            {
                return Some(table);
            }
        }
        None
    }
}

#[async_trait]
impl Catalog for RestCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        let query: Vec<_> = parent.map(|p| ("parent", self.http.namespace_query(p))).into_iter().collect();
        let items = self.pages("namespaces", &query, "namespaces").await?;
        let mut out = items.iter().map(wire::parse_namespace).collect::<Result<Vec<_>>>()?;
        out.sort();
        Ok(out)
    }

    async fn create_namespace(&self, ns: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()> {
        let body = json!({ "namespace": ns.as_ref() as &Vec<String>, "properties": properties });
        self.http.call(Method::POST, "namespaces", &[], Some(&body), Does::Create).await.map(|_| ())
    }

    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool> {
        self.probe(&format!("namespaces/{}", self.http.namespace(ns)), "").await
    }

    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>> {
        let path = format!("namespaces/{}", self.http.namespace(ns));
        let answer = self.http.call(Method::GET, &path, &[], None, Does::Read).await?;
        Ok(string_map(answer.body.get("properties")))
    }

    async fn update_namespace_properties(
        &self,
        ns: &NamespaceIdent,
        removals: &[String],
        updates: &HashMap<String, String>,
    ) -> Result<()> {
        let path = format!("namespaces/{}/properties", self.http.namespace(ns));
        let body = json!({ "removals": removals, "updates": updates });
        self.http.call(Method::POST, &path, &[], Some(&body), Does::Create).await.map(|_| ())
    }

    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        let path = format!("namespaces/{}", self.http.namespace(ns));
        self.http.call(Method::DELETE, &path, &[], None, Does::Delete).await.map(|_| ())
    }

    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        let items = self.pages(&self.tables_path(ns), &[], "identifiers").await?;
        let mut out = items.iter().map(wire::parse_ident).collect::<Result<Vec<_>>>()?;
        out.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(out)
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        self.probe(&self.table_path(ident), "/tables/{table}").await
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        super::files::refuse_reserved(&table.properties).map_err(|e| e.at(&table.ident))?;
        super::files::wants_gzip(&table.properties).map_err(|e| e.at(&table.ident))?;
        let body = wire::create_request(&table)?;
        let path = self.tables_path(table.ident.namespace());
        let answer = self.http.call(Method::POST, &path, &[], Some(&body), Does::Create).await?;
        let made = self.clone().table(&table.ident, &answer.body)?;
        // A server that does not know a format version may make the table in an older one and say nothing.
        let (found, asked) = (made.metadata().format_version(), table.format_version);
        if found < asked {
            self.drop_table(&table.ident, true).await?;
            let why = format!(
                "the server made the table in format version {found}, asked for was {asked}; it is dropped again"
            );
            return Err(Error::unsupported(why).at(&table.ident).clause("REST-8"));
        }
        Ok(made)
    }

    async fn create_from_metadata(self: Arc<Self>, ident: &TableIdent, metadata: Metadata) -> Result<Table> {
        let body = wire::creating_commit(ident, &metadata)?;
        self.post_commit(ident, &body).await.map_err(|e| match e.kind() {
            ErrorKind::CommitFailed => super::table_already_exists(ident).with_source(e),
            _ => e,
        })
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        self.load(ident).await
    }

    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()> {
        let query = [("purgeRequested", purge.to_string())];
        self.http.call(Method::DELETE, &self.table_path(ident), &query, None, Does::Delete).await.map(|_| ())
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        let body = json!({ "source": wire::ident_json(from), "destination": wire::ident_json(to) });
        self.http.call(Method::POST, "tables/rename", &[], Some(&body), Does::Create).await.map(|_| ())
    }

    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table> {
        let path = format!("namespaces/{}/register", self.http.namespace(ident.namespace()));
        let body = json!({ "name": ident.name(), "metadata-location": metadata_location });
        let answer = self.http.call(Method::POST, &path, &[], Some(&body), Does::Create).await?;
        self.table(ident, &answer.body)
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        check_commit(&commit)?;
        let ident = commit.base.ident();
        let body = wire::commit_request(ident, &commit.requirements, &commit.updates, &commit.metadata.ext)?;
        match self.clone().post_commit(ident, &body).await {
            Err(e) if e.kind() == ErrorKind::CommitUnknown => match self.find_commit(ident, &commit.updates).await {
                Some(table) => Ok(table),
                None => Err(e.at(ident).clause("CONC-41")),
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Err(super::no_such_table(ident).with_source(e)),
            other => other,
        }
    }
}

/// Properties that only the user sets, never a server.
fn is_own(key: &str) -> bool {
    key.starts_with("floe.")
}

/// Properties for file stores, without the client's own secrets.
fn store_props(props: &HashMap<String, String>) -> HashMap<String, String> {
    let own = |k: &str| CLIENT_ONLY.contains(&k) || k.starts_with("header.");
    props.iter().filter(|(k, _)| !own(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
