//! Files of a table by location string, over `object_store`.

pub(crate) mod cloud;
mod local;
mod sandbox;
#[cfg(test)]
mod tests;
pub use local::Folder;
/// The stores that [`FileIo::register`] takes.
pub use object_store;
pub use sandbox::SANDBOX;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use parquet::arrow::async_reader::ParquetObjectReader;

use self::sandbox::Sandbox;

use crate::{Error, ErrorKind, Result};

/// From this size on, a new file is uploaded in parts on an object store, in bytes.
const MULTIPART_FROM: usize = 64 << 20;
/// Size of one part, in bytes.
const PART: usize = 16 << 20;
/// Parts in flight for one file.
const PARALLEL_PARTS: usize = 4;
/// A Parquet file's last bytes that are read at once on an object store: most footers fit, so that they take one request.
const FOOTER_BYTES: usize = 64 << 10;

/// Reads and writes files named by location: `/abs/path`, `file:/…`, `memory:/…`, `s3://…` (also `s3a`, `s3n`), `gs://…`,
/// `abfss://…` (also `abfs`, `wasbs`, `wasb`), and what stores are registered for. Object stores are opened on first use.
#[derive(Clone)]
pub struct FileIo(Arc<Shared>);

struct Shared {
    props: HashMap<String, String>,
    /// The fence, or what is wrong with the property: then nothing is allowed.
    sandbox: Option<Result<Sandbox, String>>,
    stores: Mutex<Stores>,
}

#[derive(Default)]
struct Stores {
    /// Every store in use, by base.
    by_base: HashMap<String, Arc<dyn ObjectStore>>,
    /// Bases that a caller registered: the short cuts of the local file system do not apply to them.
    registered: HashSet<String>,
}

/// The fence of the whole process, which no property widens.
static PROCESS_SANDBOX: OnceLock<Sandbox> = OnceLock::new();

/// Fences every [`FileIo`] that this process makes from now on; `allowed` as in property [`SANDBOX`]. Once a process.
pub fn sandbox_process(allowed: &str) -> Result<()> {
    PROCESS_SANDBOX.set(Sandbox::parse(allowed)?).map_err(|_| Error::invalid("the process has a sandbox already"))
}

impl std::fmt::Debug for FileIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Properties may hold secrets: only their names are shown.
        let mut keys: Vec<_> = self.0.props.keys().collect();
        keys.sort();
        f.debug_struct("FileIo").field("properties", &keys).finish()
    }
}

/// A file as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMeta {
    /// Location, in the style of the prefix that was listed.
    pub location: String,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

impl Default for FileIo {
    fn default() -> Self {
        Self::new(HashMap::new())
    }
}

impl FileIo {
    /// File access with the catalog's store properties (`s3.*`, `client.region`, `gcs.*`, `adls.*`, [`SANDBOX`]).
    pub fn new(props: HashMap<String, String>) -> Self {
        let property = || props.get(SANDBOX).map(|text| Sandbox::parse(text).map_err(|e| e.message().to_string()));
        let sandbox = PROCESS_SANDBOX.get().cloned().map(Ok).or_else(property);
        Self(Arc::new(Shared { props, sandbox, stores: Mutex::default() }))
    }

    /// [`ErrorKind::Denied`] when there is a sandbox and the location is outside.
    fn check_fence(&self, location: &str) -> Result<()> {
        match &self.0.sandbox {
            None => Ok(()),
            Some(Ok(sandbox)) => sandbox.check(location),
            Some(Err(why)) => Err(Error::invalid(why.clone()).at(location)),
        }
    }

    /// Properties it was made with.
    pub fn properties(&self) -> &HashMap<String, String> {
        &self.0.props
    }

    /// Whether another process finds a location: not in memory, nor in a store that a caller registered.
    pub(crate) fn is_shared(&self, location: &str) -> bool {
        split_location(location).is_ok_and(|(base, _)| base != "memory://" && !self.is_registered(&base))
    }

    /// Properties of stores that may travel to another process: no secrets, nor what is of use only together with one.
    pub fn shareable_properties(&self) -> BTreeMap<String, String> {
        const STORES: [&str; 6] = ["s3.", "client.", "gcs.", "gcp.", "adls.", "io."];
        const WITH_SECRET: [&str; 3] = ["access-key-id", "client-id", "tenant-id"];
        let travels = |k: &str| {
            k == SANDBOX
                || STORES.iter().any(|s| k.starts_with(s))
                    && !cloud::is_secret(k)
                    && !WITH_SECRET.iter().any(|w| k.ends_with(w))
        };
        self.0.props.iter().filter(|(k, _)| travels(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Uses `store` for every location that starts with `base` (`scheme://authority`); tests put faulty stores here.
    pub fn register(&self, base: &str, store: Arc<dyn ObjectStore>) {
        let mut stores = self.0.stores.lock().expect("no panic while held");
        stores.registered.insert(base.to_string());
        stores.by_base.insert(base.to_string(), store);
    }

    fn is_registered(&self, base: &str) -> bool {
        self.0.stores.lock().expect("no panic while held").registered.contains(base)
    }

    /// The store of a location, the base under which it is registered, and the path in it.
    pub fn resolve(&self, location: &str) -> Result<(Arc<dyn ObjectStore>, String, StorePath)> {
        self.check_fence(location)?;
        let (base, path) = split_location(location)?;
        let path = StorePath::parse(path.trim_start_matches('/'))
            .map_err(|e| Error::invalid(format!("not a valid path: {e}")).at(location))?;
        let mut stores = self.0.stores.lock().expect("no panic while held");
        if let Some(store) = stores.by_base.get(&base) {
            return Ok((store.clone(), base, path));
        }
        let (scheme, authority) = base.split_once("://").unwrap_or((&base, ""));
        let store: Arc<dyn ObjectStore> = match scheme {
            "file" => Arc::new(LocalFileSystem::new()),
            "memory" => Arc::new(InMemory::new()),
            _ => match cloud::open(scheme, authority, &self.0.props).map_err(|e| e.at(location))? {
                Some(store) => store,
                None => {
                    return Err(Error::unsupported(format!(
                        "no store for scheme {scheme:?}; allowed: file, memory, {}, or an absolute path",
                        cloud::SCHEMES
                    ))
                    .at(location));
                }
            },
        };
        stores.by_base.insert(base.clone(), store.clone());
        Ok((store, base, path))
    }

    /// Whole file.
    pub async fn read(&self, location: &str) -> Result<Bytes> {
        let (store, _, path) = self.resolve(location)?;
        store.get(&path).await.map_err(|e| at(e, location))?.bytes().await.map_err(|e| at(e, location))
    }

    /// Bytes `range` of a file, in one request.
    pub async fn read_range(&self, location: &str, range: Range<u64>) -> Result<Bytes> {
        let (store, _, path) = self.resolve(location)?;
        let want = range.end - range.start;
        let got = store.get_range(&path, range.clone()).await.map_err(|e| at(e, location))?;
        if got.len() as u64 != want {
            return Err(Error::malformed(format!(
                "file ends before byte {}: {} of {want} bytes at offset {}",
                range.end,
                got.len(),
                range.start
            ))
            .at(location));
        }
        Ok(got)
    }

    /// Creates a file; [`ErrorKind::AlreadyExists`] if there is another one. Atomic: readers see all of it or nothing.
    pub async fn write_new(&self, location: &str, bytes: Bytes) -> Result<()> {
        let (store, base, path) = self.resolve(location)?;
        if bytes.len() >= MULTIPART_FROM && base != "file://" && base != "memory://" {
            // Not every store can finish an upload in parts conditionally; such large files have names of their own.
            if self.exists(location).await? {
                return Err(Error::new(ErrorKind::AlreadyExists, "the file exists").at(location));
            }
            return put_parts(store.as_ref(), &path, bytes).await.map_err(|e| at(e, location));
        }
        let opts = PutOptions { mode: PutMode::Create, ..Default::default() };
        match store.put_opts(&path, PutPayload::from_bytes(bytes.clone()), opts).await {
            Ok(_) => Ok(()),
            // A put that is sent again after its answer went missing meets its own file.
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. })
                if base != "file://" && base != "memory://" && self.read(location).await.is_ok_and(|f| f == bytes) =>
            {
                Ok(())
            }
            Err(e) => Err(at(e, location)),
        }
    }

    /// A reader of a Parquet file of `size` bytes: neighbouring ranges are read together, and on an object store the footer
    /// comes with the first request.
    pub fn parquet_reader(&self, location: &str, size: u64) -> Result<ParquetObjectReader> {
        let (store, base, path) = self.resolve(location)?;
        let reader = ParquetObjectReader::new(store, path).with_file_size(size);
        Ok(if base == "file://" { reader } else { reader.with_footer_size_hint(FOOTER_BYTES) })
    }

    /// Creates or replaces a file, atomically. Only for hints; table files are never rewritten (FS-*).
    pub async fn overwrite(&self, location: &str, bytes: Bytes) -> Result<()> {
        let (store, _, path) = self.resolve(location)?;
        store.put(&path, PutPayload::from_bytes(bytes)).await.map_err(|e| at(e, location))?;
        Ok(())
    }

    /// Deletes a file; one that is not there is no error.
    pub async fn delete(&self, location: &str) -> Result<()> {
        let (store, _, path) = self.resolve(location)?;
        match store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(at(e, location)),
        }
    }

    /// Size in bytes, `None` when there is no such file.
    pub async fn size(&self, location: &str) -> Result<Option<u64>> {
        let (store, _, path) = self.resolve(location)?;
        match store.head(&path).await {
            Ok(m) => Ok(Some(m.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(at(e, location)),
        }
    }

    /// All files below a folder, recursively.
    pub async fn list(&self, prefix: &str) -> Result<Vec<FileMeta>> {
        let (store, base, path) = self.resolve(prefix)?;
        let prefix_trimmed = prefix.trim_end_matches('/');
        let strip = format!("{}/", path.as_ref());
        let items: Vec<_> = store.list(Some(&path)).try_collect().await.map_err(|e| at(e, prefix))?;
        Ok(items
            .into_iter()
            .map(|m| {
                let full = m.location.as_ref();
                let location = match full.strip_prefix(&strip) {
                    Some(rest) => format!("{prefix_trimmed}/{rest}"),
                    None => format!("{base}/{full}"),
                };
                FileMeta { location, size: m.size, modified_ms: m.last_modified.timestamp_millis() }
            })
            .collect())
    }
}

/// Uploads in parts; what a failed upload sent is given up.
async fn put_parts(store: &dyn ObjectStore, path: &StorePath, bytes: Bytes) -> object_store::Result<()> {
    let mut upload = store.put_multipart(path).await?;
    let mut parts = Vec::new();
    for start in (0..bytes.len()).step_by(PART) {
        let part = bytes.slice(start..bytes.len().min(start + PART));
        parts.push(upload.put_part(PutPayload::from_bytes(part)));
    }
    let sent: object_store::Result<()> =
        futures::stream::iter(parts).buffer_unordered(PARALLEL_PARTS).try_collect().await;
    let done = match sent {
        Ok(()) => upload.complete().await.map(drop),
        Err(e) => Err(e),
    };
    if done.is_err()
        && let Err(e) = upload.abort().await
    {
        tracing::warn!("parts of a failed upload stay behind: {e}");
    }
    done
}

fn at(e: object_store::Error, location: &str) -> Error {
    Error::from(e).at(location)
}

/// Splits a location into the base of its store (`file://`, `s3://bucket`) and the path.
fn split_location(location: &str) -> Result<(String, String)> {
    if location.starts_with('/') {
        return Ok(("file://".into(), location.into()));
    }
    let Some((scheme, rest)) = location.split_once(':') else {
        return Err(Error::invalid(
            "a location is an absolute path or a URI with a scheme (file:, memory:, s3:, gs:, …)",
        )
        .at(location));
    };
    match scheme {
        "file" | "memory" => {
            // file:/p, file:///p and file://localhost/p name the same path
            let path = rest.strip_prefix("//").map_or(rest, |r| &r[r.find('/').unwrap_or(r.len())..]);
            if path.is_empty() {
                return Err(Error::new(ErrorKind::InvalidInput, "location has no path").at(location));
            }
            Ok((format!("{scheme}://"), path.into()))
        }
        _ => {
            let rest = rest
                .strip_prefix("//")
                .ok_or_else(|| Error::invalid("expected scheme://authority/path").at(location))?;
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            Ok((format!("{scheme}://{authority}"), path.into()))
        }
    }
}

/// Makes locations comparable: `file:/p`, `file:///p` and `/p` are the same file, and so are `s3:`, `s3a:` and `s3n:` (LOC-*).
pub fn normalize(location: &str) -> String {
    normal(location).into_owned()
}

/// [`normalize`] without a copy of a location that is as it should be.
pub(crate) fn normal(location: &str) -> Cow<'_, str> {
    if let Some(rest) = location.strip_prefix("s3a:").or_else(|| location.strip_prefix("s3n:")) {
        return Cow::Owned(format!("s3:{rest}"));
    }
    Cow::Borrowed(match location.strip_prefix("file:") {
        Some(rest) => match rest.strip_prefix("//") {
            Some(r) => &r[r.find('/').unwrap_or(r.len())..],
            None => rest,
        },
        None => location,
    })
}

/// [`normalize`] of a location that is shared: itself when it is as it should be.
pub(crate) fn shared(location: &Arc<str>) -> Arc<str> {
    match normal(location) {
        Cow::Borrowed(b) if b.len() == location.len() => location.clone(),
        other => other.into(),
    }
}
