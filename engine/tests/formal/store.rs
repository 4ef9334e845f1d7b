//! An object store that asks before each call what is to happen to it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use floe_engine::io::object_store;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// A call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Read,
    Write,
    List,
    Delete,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// It is done.
    Go,
    /// It fails and nothing happens.
    Fail,
    /// It is done, and fails all the same: the answer is lost.
    FailAfter,
    /// It is done, late.
    Delay,
    /// A write stores, or a read gives, half of the bytes, then fails.
    Cut,
    /// It is done twice, as a network that sends a request again does; the second answer counts.
    Twice,
    /// No byte more can be written: reads and deletes go on.
    Full,
    /// Not allowed.
    Denied,
    /// Said to be done, but nothing happens (a delete that is only recorded).
    Skip,
}

/// Decides.
pub trait Hook: Send + Sync {
    fn fate(&self, call: Call, path: &Path) -> Fate;
}

/// The store.
#[derive(Clone)]
pub struct Tap {
    inner: Arc<dyn ObjectStore>,
    hook: Arc<dyn Hook>,
}

impl Tap {
    pub fn new(inner: Arc<dyn ObjectStore>, hook: Arc<dyn Hook>) -> Self {
        Self { inner, hook }
    }

    async fn delete_one(&self, path: Path) -> Result<Path> {
        let fate = self.hook.fate(Call::Delete, &path);
        match fate {
            Fate::Fail | Fate::Cut => return Err(injected("delete", &path)),
            Fate::Denied => return Err(denied(&path)),
            Fate::Skip => return Ok(path),
            Fate::Delay => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
            _ => {}
        }
        self.inner.delete(&path).await?;
        match fate {
            Fate::FailAfter => Err(injected("delete", &path)),
            Fate::Twice => self.inner.delete(&path).await.map(|()| path),
            _ => Ok(path),
        }
    }
}

/// The error of an injected fault.
pub fn injected(what: &str, path: &Path) -> Error {
    Error::Generic { store: "tap", source: format!("injected: {what} {path}").into() }
}

/// ENOSPC.
fn full() -> Error {
    Error::Generic { store: "tap", source: Box::new(std::io::Error::from_raw_os_error(28)) }
}

/// EACCES.
fn denied(path: &Path) -> Error {
    Error::PermissionDenied { path: path.to_string(), source: "injected: read-only".into() }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

impl fmt::Display for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

#[async_trait]
impl ObjectStore for Tap {
    async fn put_opts(&self, path: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let fate = self.hook.fate(Call::Write, path);
        match fate {
            Fate::Fail => return Err(injected("write", path)),
            Fate::Full => return Err(full()),
            Fate::Denied => return Err(denied(path)),
            Fate::Delay => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
            // a version of a table is put at once or not at all: no store without that can hold tables (FS-2)
            Fate::Cut if path.as_ref().ends_with(".metadata.json") => return Err(injected("write", path)),
            Fate::Cut => {
                // what a file system without atomic puts leaves behind
                let all: bytes::Bytes = payload.into();
                self.inner.put_opts(path, all.slice(..all.len() / 2).into(), opts).await?;
                return Err(injected("write cut", path));
            }
            _ => {}
        }
        let done = self.inner.put_opts(path, payload.clone(), opts.clone()).await;
        match fate {
            Fate::FailAfter => done.and(Err(injected("write done, answer lost", path))),
            Fate::Twice => {
                done?;
                self.inner.put_opts(path, payload, opts).await
            }
            _ => done,
        }
    }

    async fn put_multipart_opts(&self, path: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        match self.hook.fate(Call::Write, path) {
            Fate::Go | Fate::Twice | Fate::Delay | Fate::Skip => self.inner.put_multipart_opts(path, opts).await,
            Fate::Full => Err(full()),
            Fate::Denied => Err(denied(path)),
            _ => Err(injected("multipart write", path)),
        }
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let fate = self.hook.fate(Call::Read, path);
        match fate {
            Fate::Fail | Fate::FailAfter => return Err(injected("read", path)),
            Fate::Cut => {
                let got = self.inner.get_opts(path, options).await?;
                let (meta, range, attributes) = (got.meta.clone(), got.range.clone(), got.attributes.clone());
                let all = got.bytes().await?;
                let half = all.slice(..all.len() / 2);
                let cut = injected("read cut", path);
                let payload = futures::stream::iter([Ok(half), Err(cut)]).boxed();
                return Ok(GetResult {
                    payload: object_store::GetResultPayload::Stream(payload),
                    meta,
                    range,
                    attributes,
                });
            }
            Fate::Delay => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
            Fate::Twice => {
                self.inner.get_opts(path, options.clone()).await?;
            }
            _ => {}
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let tap = self.clone();
        locations
            .then(move |p| {
                let tap = tap.clone();
                async move { tap.delete_one(p?).await }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let at = prefix.cloned().unwrap_or_default();
        match self.hook.fate(Call::List, &at) {
            Fate::Fail | Fate::FailAfter => futures::stream::iter([Err(injected("list", &at))]).boxed(),
            Fate::Cut => {
                let cut = injected("list cut", &at);
                let all = self.inner.list(prefix).collect::<Vec<_>>();
                all.map(move |mut v| {
                    v.truncate(v.len() / 2);
                    v.push(Err(cut));
                    futures::stream::iter(v)
                })
                .flatten_stream()
                .boxed()
            }
            _ => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let at = prefix.cloned().unwrap_or_default();
        match self.hook.fate(Call::List, &at) {
            Fate::Fail | Fate::FailAfter | Fate::Cut => Err(injected("list", &at)),
            _ => self.inner.list_with_delimiter(prefix).await,
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match self.hook.fate(Call::Write, to) {
            Fate::Fail | Fate::Cut => Err(injected("copy", to)),
            Fate::Full => Err(full()),
            Fate::Denied => Err(denied(to)),
            _ => self.inner.copy_opts(from, to, options).await,
        }
    }
}
