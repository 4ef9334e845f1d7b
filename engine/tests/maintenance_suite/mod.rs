//! A warehouse in a folder, and a catalog that lets a rival statement through just before a commit.

mod cases;
mod equality;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use arrow::array::Array;
use async_trait::async_trait;
use floe_engine::catalog::{Catalog, HadoopCatalog, NewTable, TableCommit};
use floe_engine::manifest::{ManifestEntry, live_entries};
use floe_engine::sql::Session;
use floe_engine::sql::functions::spark_strings;
use floe_engine::{Error, Result, Table};
use iceberg::{NamespaceIdent, TableIdent};

pub struct World {
    pub session: Session,
    pub catalog: Arc<HadoopCatalog>,
    pub dir: tempfile::TempDir,
}

pub async fn world() -> World {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = HadoopCatalog::new("ice", &dir.path().display().to_string(), HashMap::new()).expect("catalog");
    let catalog = Arc::new(catalog);
    let mut session = Session::new(catalog.clone(), "ice");
    session.execute("CREATE NAMESPACE IF NOT EXISTS ns; USE ns").await.expect("namespace");
    World { session, catalog, dir }
}

impl World {
    pub async fn run(&mut self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}\n{e}");
        }
    }

    pub async fn rows(&mut self, sql: &str) -> Vec<String> {
        rows(&mut self.session, sql).await
    }

    pub async fn refused(&mut self, sql: &str, part: &str) {
        let before = self.files();
        let e = self.session.execute_one(sql).await.expect_err(sql).to_string();
        assert!(e.contains(part), "{sql}\n{e}");
        assert_eq!(before, self.files(), "a refused procedure changes nothing: {sql}");
    }

    pub async fn table(&self) -> Table {
        self.session.table(&["t".to_string()]).await.expect("t")
    }

    /// Everything a reader sees of `t`, lineage included.
    pub async fn seen(&mut self) -> Vec<String> {
        let mut rows = self.rows("SELECT *, _row_id, _last_updated_sequence_number FROM t").await;
        rows.sort();
        rows
    }

    /// Live data and delete entries of the current snapshot.
    pub async fn live(&self) -> (Vec<ManifestEntry>, Vec<ManifestEntry>) {
        let table = self.table().await;
        let id = table.metadata().current_snapshot_id().expect("a snapshot");
        live_entries(&table, id).await.expect("entries")
    }

    /// Files of `t` in its folder, relative, with their modification put aside.
    pub fn files(&self) -> BTreeSet<String> {
        fn walk(dir: &std::path::Path, root: &std::path::Path, out: &mut BTreeSet<String>) {
            for f in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                if f.path().is_dir() {
                    walk(&f.path(), root, out);
                } else {
                    out.insert(f.path().strip_prefix(root).expect("inside").display().to_string());
                }
            }
        }
        let root = self.dir.path().join("ns").join("t");
        let mut out = BTreeSet::new();
        walk(&root, &root, &mut out);
        out
    }

    pub fn count(&self, suffix: &str) -> usize {
        self.files().iter().filter(|f| f.ends_with(suffix)).count()
    }

    pub async fn call(&mut self, sql: &str) -> BTreeMap<String, String> {
        let result = self.session.execute_one(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        let batch = result.batches.first().expect("a row");
        batch
            .schema()
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(f, c)| (f.name().clone(), spark_strings(c.as_ref()).expect("prints").value(0).to_string()))
            .collect()
    }
}

pub async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let all = session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
    let mut out = Vec::new();
    for batch in &all.last().expect("a statement").batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| spark_strings(c.as_ref()).expect("prints")).collect();
        for r in 0..batch.num_rows() {
            let cells: Vec<&str> = columns.iter().map(|c| if c.is_null(r) { "NULL" } else { c.value(r) }).collect();
            out.push(cells.join("|"));
        }
    }
    out
}

/// A catalog whose first commit is preceded by a rival's statement on the same tables.
#[derive(Debug)]
pub struct Raced {
    inner: Arc<HadoopCatalog>,
    rival: Mutex<Option<String>>,
}

impl Raced {
    pub fn new(inner: Arc<HadoopCatalog>, rival: &str) -> Arc<Self> {
        Arc::new(Self { inner, rival: Mutex::new(Some(rival.to_string())) })
    }

    /// The table `ns.t` as this catalog gives it.
    pub async fn table(self: &Arc<Self>) -> Table {
        let ident = TableIdent::from_strs(["ns", "t"]).expect("name");
        self.clone().load_table(&ident).await.expect("t")
    }

    fn own(self: Arc<Self>, t: Table) -> Table {
        Table::new(t.ident().clone(), t.metadata_location(), t.metadata().clone(), t.io().clone(), self)
    }
}

#[async_trait]
impl Catalog for Raced {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        self.inner.list_namespaces(parent).await
    }

    async fn create_namespace(&self, ns: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()> {
        self.inner.create_namespace(ns, properties).await
    }

    async fn namespace_exists(&self, ns: &NamespaceIdent) -> Result<bool> {
        self.inner.namespace_exists(ns).await
    }

    async fn namespace_properties(&self, ns: &NamespaceIdent) -> Result<HashMap<String, String>> {
        self.inner.namespace_properties(ns).await
    }

    async fn drop_namespace(&self, ns: &NamespaceIdent) -> Result<()> {
        self.inner.drop_namespace(ns).await
    }

    async fn list_tables(&self, ns: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.inner.list_tables(ns).await
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        self.inner.table_exists(ident).await
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        let t = self.inner.clone().create_table(table).await?;
        Ok(self.own(t))
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let t = self.inner.clone().load_table(ident).await?;
        Ok(self.own(t))
    }

    async fn drop_table(&self, ident: &TableIdent, purge: bool) -> Result<()> {
        self.inner.drop_table(ident, purge).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.inner.rename_table(from, to).await
    }

    async fn register_table(self: Arc<Self>, ident: &TableIdent, metadata_location: &str) -> Result<Table> {
        let t = self.inner.clone().register_table(ident, metadata_location).await?;
        Ok(self.own(t))
    }

    async fn commit_table(self: Arc<Self>, mut commit: TableCommit) -> Result<Table> {
        let rival = self.rival.lock().expect("no panic").take();
        if let Some(sql) = rival {
            // a runtime of its own: the rival is another process as far as this commit can tell
            let inner = self.inner.clone();
            let rival = tokio::task::spawn_blocking(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
                let mut session = Session::new(inner, "ice");
                runtime.block_on(session.execute(&format!("USE ns; {sql}"))).map(|_| ())
            });
            rival.await.expect("the rival ends").map_err(|e| Error::internal(format!("rival: {e}")))?;
        }
        let b = &commit.base;
        commit.base = Table::new(
            b.ident().clone(),
            b.metadata_location(),
            b.metadata().clone(),
            b.io().clone(),
            self.inner.clone(),
        );
        let t = self.inner.clone().commit_table(commit).await?;
        Ok(self.own(t))
    }
}
