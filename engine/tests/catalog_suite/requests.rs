//! Requests that statements make of an object store, counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use floe_engine::catalog::HadoopCatalog;
use floe_engine::io::FileIo;
use floe_engine::sql::Session;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

/// A store in memory that notes every request as `(kind, path)`.
#[derive(Debug, Default)]
struct Counting {
    inner: InMemory,
    log: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Counting {
    fn note(&self, kind: &'static str, path: impl ToString) {
        self.log.lock().unwrap().push((kind, path.to_string()));
    }
}

impl std::fmt::Display for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.note("put", location);
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, p: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.note("multipart", p);
        self.inner.put_multipart_opts(p, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = match (&options.range, options.head) {
            (_, true) => "head",
            (Some(_), false) => "get range",
            (None, false) => "get",
        };
        self.note(kind, location);
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let log = self.log.clone();
        let noted = locations.inspect(move |p| {
            if let Ok(p) = p {
                log.lock().unwrap().push(("delete", p.to_string()));
            }
        });
        self.inner.delete_stream(noted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.note("list", prefix.map(ToString::to_string).unwrap_or_default());
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.note("list", prefix.map(ToString::to_string).unwrap_or_default());
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.note("copy", from);
        self.inner.copy_opts(from, to, options).await
    }
}

struct World {
    store: Arc<Counting>,
    session: Session,
}

/// A table of 1,000 files with ten rows each, whose ids do not overlap.
async fn thousand_files() -> World {
    let (io, store) = (FileIo::default(), Arc::new(Counting::default()));
    io.register("s3://lake", store.clone());
    let catalog = HadoopCatalog::with_io("lake", "s3://lake/wh", HashMap::new(), io).unwrap();
    let mut session = Session::new(Arc::new(catalog), "lake");
    session
        .execute(
            "CREATE NAMESPACE n; USE n; CREATE TABLE t (id INT, p INT) USING iceberg PARTITIONED BY (p) \
             TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); \
             INSERT INTO t SELECT CAST(id AS INT), CAST(floor(id / 10) AS INT) FROM range(10000)",
        )
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    World { store, session }
}

impl World {
    /// Requests of a statement: how many of each kind and of what kind of file, and the rows it returned.
    async fn requests(&mut self, sql: &str) -> (BTreeMap<(&'static str, &'static str), usize>, usize) {
        self.store.log.lock().unwrap().clear();
        let result = self.session.execute_one(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let mut out = BTreeMap::new();
        for (kind, path) in self.store.log.lock().unwrap().drain(..) {
            let of = match path.rsplit('/').next().unwrap_or_default() {
                f if f.ends_with(".parquet") => "data",
                f if f.ends_with(".puffin") => "puffin",
                f if f.starts_with("snap-") => "manifest list",
                f if f.ends_with(".avro") => "manifest",
                f if f.ends_with("metadata.json") => "metadata",
                f if f.starts_with("version-hint") => "hint",
                _ => "other",
            };
            *out.entry((kind, of)).or_insert(0) += 1;
        }
        (out, result.num_rows())
    }
}

/// However many files a table has, a one-row DELETE that metrics pin to one file reads that file's footer and one column,
/// writes one vector, and otherwise touches metadata only: the table is looked up three times (by the statement, before the
/// commit, at the commit), each time with one read of the hint, four probes for versions and one read of the metadata.
#[tokio::test]
async fn a_one_row_delete_on_a_thousand_files_makes_a_bounded_number_of_requests() {
    let mut w = thousand_files().await;
    let (first, _) = w.requests("DELETE FROM t WHERE id = 5005").await;
    let total: usize = first.values().sum();
    assert!(total <= 30, "{total} requests: {first:#?}");
    assert!(first.get(&("get range", "data")).copied().unwrap_or(0) <= 2, "footer and column: {first:#?}");
    assert_eq!(first.get(&("get", "data")), None, "{first:#?}");
    assert_eq!(first.get(&("put", "puffin")), Some(&1), "{first:#?}");
    assert_eq!(first.keys().filter(|(k, f)| k.starts_with("get") && *f == "puffin").count(), 0, "{first:#?}");
    assert_eq!(first.keys().filter(|(k, _)| matches!(*k, "list" | "delete" | "copy")).count(), 0, "{first:#?}");

    // The second one merges with the vector of the first: the scan and the merge read it, each with one ranged request.
    let (second, _) = w.requests("DELETE FROM t WHERE id = 5006").await;
    assert_eq!(second.get(&("get range", "puffin")), Some(&2), "{second:#?}");
    assert_eq!(second.get(&("head", "puffin")), None, "{second:#?}");
    assert_eq!(second.get(&("get", "puffin")), None, "{second:#?}");
    let total: usize = second.values().sum();
    assert!(total <= 36, "{total} requests: {second:#?}");
}

/// A scan asks for a file's footer, for the columns of the filter and for the other columns with one request each, however
/// many columns, and for its vector with one.
#[tokio::test]
async fn a_scan_reads_neighbouring_columns_and_the_vector_with_one_request_each() {
    let mut w = thousand_files().await;
    w.session.execute_one("DELETE FROM t WHERE id = 5005").await.unwrap_or_else(|e| panic!("{e}"));
    let (scan, rows) = w.requests("SELECT * FROM t WHERE p = 500").await;
    assert_eq!(rows, 9);
    assert!(scan.get(&("get range", "data")).copied().unwrap_or(0) <= 3, "{scan:#?}");
    assert_eq!(scan.get(&("get range", "puffin")), Some(&1), "{scan:#?}");
    assert_eq!(scan.keys().filter(|(k, f)| *k == "head" && matches!(*f, "data" | "puffin")).count(), 0, "{scan:#?}");
    assert!(scan.values().sum::<usize>() <= 14, "{scan:#?}");
}
