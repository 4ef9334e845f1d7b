//! A warehouse, a session on it, and a store that dies when told to.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, RecordBatch};
use async_trait::async_trait;
use bytes::Bytes;
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::cdc::{ChangelogBuilder, ChangelogScan};
use floe_engine::io::FileIo;
use floe_engine::sql::Session;
use floe_engine::sql::functions::spark_strings;
use floe_engine::{Error, ErrorKind, Result, Table};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions,
};

/// A warehouse with namespace `ns`.
pub struct World {
    pub session: Session,
    pub catalog: Arc<dyn Catalog>,
    pub dir: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let catalog: Arc<dyn Catalog> =
            Arc::new(HadoopCatalog::new("ice", &dir.path().display().to_string(), HashMap::new()).expect("catalog"));
        let mut world = Self { session: Session::new(catalog.clone(), "ice"), catalog, dir };
        world.run("CREATE NAMESPACE IF NOT EXISTS ns; USE ns").await;
        world
    }

    pub async fn run(&mut self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}\n{e}");
        }
    }

    /// Rows of a query as sorted text.
    pub async fn rows(&mut self, sql: &str) -> Vec<String> {
        match self.session.execute_one(sql).await {
            Ok(r) => texts(&r.batches),
            Err(e) => panic!("{sql}\n{e}"),
        }
    }

    pub async fn table(&self, name: &str) -> Table {
        self.session.table(&["ns".to_string(), name.to_string()]).await.expect("table")
    }

    /// Changes as sorted text.
    pub async fn changes(&self, name: &str, with: impl FnOnce(ChangelogBuilder) -> ChangelogBuilder) -> Vec<String> {
        texts(&self.try_changes(name, with).await.unwrap_or_else(|e| panic!("changes of {name}: {e}")))
    }

    pub async fn try_changes(
        &self,
        name: &str,
        with: impl FnOnce(ChangelogBuilder) -> ChangelogBuilder,
    ) -> Result<Vec<RecordBatch>> {
        with(ChangelogScan::builder(self.table(name).await)).build().await?.collect().await
    }

    /// Snapshot ids of `main`, oldest first.
    pub async fn snapshots(&self, name: &str) -> Vec<i64> {
        let t = self.table(name).await;
        let mut out = Vec::new();
        let mut at = t.metadata().current_snapshot().cloned();
        while let Some(s) = at {
            out.push(s.snapshot_id());
            at = s.parent_snapshot_id().and_then(|p| t.metadata().snapshot_by_id(p)).cloned();
        }
        out.reverse();
        out
    }
}

/// Rows as `a|b|c`, sorted.
pub fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let mut out = Vec::new();
    for b in batches {
        let columns: Vec<_> = b.columns().iter().map(|c| spark_strings(c.as_ref()).expect("text")).collect();
        for i in 0..b.num_rows() {
            let cells: Vec<&str> = columns.iter().map(|c| if c.is_null(i) { "NULL" } else { c.value(i) }).collect();
            out.push(cells.join("|"));
        }
    }
    out.sort();
    out
}

/// Rows with multiplicity.
pub fn bag(rows: &[String]) -> BTreeMap<String, i64> {
    let mut out = BTreeMap::new();
    for r in rows {
        *out.entry(r.clone()).or_insert(0) += 1;
    }
    out
}

/// Applies changes (`row…|_change_type` after `columns` cells) to a bag of rows; a row that is not there is a fault.
pub fn apply(rows: &mut BTreeMap<String, i64>, changes: &[RecordBatch], columns: usize) -> Result<()> {
    // order inside one snapshot does not matter to a bag: removals may come first
    for b in changes {
        let cells: Vec<_> = b.columns()[..=columns].iter().map(|c| spark_strings(c.as_ref()).expect("text")).collect();
        for i in 0..b.num_rows() {
            let text = |c: &arrow::array::StringArray| {
                if c.is_null(i) { "NULL".to_string() } else { c.value(i).to_string() }
            };
            let row: Vec<String> = cells[..columns].iter().map(text).collect();
            let n = rows.entry(row.join("|")).or_insert(0);
            match cells[columns].value(i) {
                "INSERT" | "UPDATE_AFTER" => *n += 1,
                "DELETE" | "UPDATE_BEFORE" => *n -= 1,
                other => return Err(Error::internal(format!("change type {other}"))),
            }
        }
    }
    rows.retain(|_, n| *n != 0);
    Ok(())
}

/// The folder with the project's shared reference files.
pub fn shared() -> PathBuf {
    if let Ok(p) = std::env::var("FLOE_SHARED") {
        return p.into();
    }
    let mut at = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    while at.pop() {
        let p = at.join("shared");
        if p.join("golden").is_dir() {
            return p;
        }
    }
    panic!("no folder shared/golden above {}; set FLOE_SHARED to it", env!("CARGO_MANIFEST_DIR"));
}

/// A local store whose operations fail from the n-th on, as when the process died: what was done before stays.
pub struct Mortal {
    inner: LocalFileSystem,
    left: AtomicI64,
    /// Bytes read.
    pub read: AtomicI64,
    /// What was read: file name and range.
    pub reads: Mutex<Vec<(String, Range<u64>)>>,
    /// Runs before a new version of a table's metadata is written: what others do at that moment.
    pub before_commit: Mutex<Option<Meanwhile>>,
}

/// Whether a run came to its end; one that did not must have met its store's death, and say so.
pub fn finished<T>(outcome: Result<T>) -> bool {
    let Err(e) = outcome else { return true };
    let text = e.to_string();
    assert!(text.contains("died") || matches!(e.kind(), ErrorKind::Io | ErrorKind::CommitUnknown), "{text}");
    false
}

/// Work of others.
pub type Meanwhile = Arc<dyn Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync>;

impl Mortal {
    /// A store that lives.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: LocalFileSystem::new(),
            left: AtomicI64::new(i64::MAX),
            read: AtomicI64::new(0),
            reads: Mutex::default(),
            before_commit: Mutex::default(),
        })
    }

    /// Dies after `n` more operations.
    pub fn die_after(&self, n: i64) {
        self.left.store(n, Ordering::SeqCst);
    }

    /// Lives again.
    pub fn revive(&self) {
        self.left.store(i64::MAX, Ordering::SeqCst);
    }

    fn note(&self, location: &Path, range: &Range<u64>) {
        self.read.fetch_add((range.end - range.start) as i64, Ordering::SeqCst);
        let name = location.filename().unwrap_or_default().to_string();
        self.reads.lock().expect("no panic").push((name, range.clone()));
    }

    fn step(&self) -> object_store::Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        self.left.store(0, Ordering::SeqCst);
        Err(object_store::Error::Generic { store: "mortal", source: "the process died".into() })
    }
}

impl std::fmt::Debug for Mortal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mortal")
    }
}

impl std::fmt::Display for Mortal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mortal")
    }
}

#[async_trait]
impl ObjectStore for Mortal {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.step()?;
        let meanwhile = self.before_commit.lock().expect("no panic").clone();
        if let (Some(work), true) = (meanwhile, location.as_ref().ends_with(".metadata.json")) {
            work().await;
        }
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.step()?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.step()?;
        let r = self.inner.get_opts(location, options).await?;
        self.note(location, &r.range);
        Ok(r)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        self.step()?;
        ranges.iter().for_each(|r| self.note(location, r));
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        match self.step() {
            Ok(()) => self.inner.delete_stream(locations),
            Err(e) => futures::stream::iter([Err(e)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        match self.step() {
            Ok(()) => self.inner.list(prefix),
            Err(e) => futures::stream::iter([Err(e)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.step()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.step()?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> object_store::Result<()> {
        self.step()?;
        self.inner.rename_opts(from, to, options).await
    }
}

/// A catalog over `folder` whose files go through `store`.
pub fn catalog_over(folder: &std::path::Path, store: Arc<Mortal>) -> Arc<dyn Catalog> {
    let io = FileIo::default();
    io.register("file://", store);
    Arc::new(HadoopCatalog::with_io("ice", &folder.display().to_string(), HashMap::new(), io).expect("catalog"))
}
