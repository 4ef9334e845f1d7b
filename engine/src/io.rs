//! Files of a table by location string, over `object_store`.

mod local;
pub use local::Folder;
/// The stores that [`FileIo::register`] takes.
pub use object_store;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::{Error, ErrorKind, Result};

/// Reads and writes files named by location (`/abs/path`, `file:/…`, `memory:/…`, and what stores are registered for).
#[derive(Clone)]
pub struct FileIo(Arc<Shared>);

struct Shared {
    props: HashMap<String, String>,
    stores: Mutex<Stores>,
}

#[derive(Default)]
struct Stores {
    /// Every store in use, by base.
    by_base: HashMap<String, Arc<dyn ObjectStore>>,
    /// Bases that a caller registered: the short cuts of the local file system do not apply to them.
    registered: HashSet<String>,
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
    /// File access with the catalog's store properties (`s3.*`, `gcs.*`, …).
    pub fn new(props: HashMap<String, String>) -> Self {
        Self(Arc::new(Shared { props, stores: Mutex::default() }))
    }

    /// Properties it was made with.
    pub fn properties(&self) -> &HashMap<String, String> {
        &self.0.props
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
        let (base, path) = split_location(location)?;
        let path = StorePath::parse(path.trim_start_matches('/'))
            .map_err(|e| Error::invalid(format!("not a valid path: {e}")).at(location))?;
        let mut stores = self.0.stores.lock().expect("no panic while held");
        if let Some(store) = stores.by_base.get(&base) {
            return Ok((store.clone(), base, path));
        }
        let store: Arc<dyn ObjectStore> = match base.split(':').next() {
            Some("file") => Arc::new(LocalFileSystem::new()),
            Some("memory") => Arc::new(InMemory::new()),
            _ => {
                return Err(Error::unsupported(format!(
                    "no store for scheme of {base:?}; allowed: file, memory, or an absolute path"
                ))
                .at(location));
            }
        };
        stores.by_base.insert(base.clone(), store.clone());
        Ok((store, base, path))
    }

    /// Whole file.
    pub async fn read(&self, location: &str) -> Result<Bytes> {
        let (store, _, path) = self.resolve(location)?;
        Ok(store.get(&path).await.map_err(|e| at(e, location))?.bytes().await.map_err(|e| at(e, location))?)
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

    /// Creates a file; [`ErrorKind::AlreadyExists`] if there is one. Atomic: readers see all of it or nothing.
    pub async fn write_new(&self, location: &str, bytes: Bytes) -> Result<()> {
        let (store, _, path) = self.resolve(location)?;
        let opts = PutOptions { mode: PutMode::Create, ..Default::default() };
        store.put_opts(&path, PutPayload::from_bytes(bytes), opts).await.map_err(|e| at(e, location))?;
        Ok(())
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

/// Makes locations comparable: `file:/p`, `file:///p` and `/p` are the same file (LOC-*).
pub fn normalize(location: &str) -> String {
    match location.strip_prefix("file:") {
        Some(rest) => match rest.strip_prefix("//") {
            Some(r) => r[r.find('/').unwrap_or(r.len())..].to_string(),
            None => rest.to_string(),
        },
        None => location.to_string(),
    }
}
