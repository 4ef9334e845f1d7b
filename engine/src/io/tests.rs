use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use super::{FileIo, SANDBOX, normalize};
use crate::ErrorKind;

/// How a put goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// It is done, and the answer is "exists already": the client's own second try.
    DoneThenExists,
    /// It is done, and the answer goes missing.
    DoneNoAnswer,
    /// It is not done, and there is no answer.
    NotDoneNoAnswer,
}

#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    fault: Fault,
    parts: AtomicU32,
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        let lost = StoreError::Generic { store: "faulty", source: "connection reset".into() };
        if self.fault == Fault::NotDoneNoAnswer {
            return Err(lost);
        }
        let done = self.inner.put_opts(location, payload, opts).await?;
        match self.fault {
            Fault::DoneThenExists => {
                Err(StoreError::AlreadyExists { path: location.to_string(), source: "412".into() })
            }
            Fault::DoneNoAnswer => Err(lost),
            Fault::NotDoneNoAnswer => Ok(done),
        }
    }

    async fn put_multipart_opts(&self, p: &Path, opts: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        self.parts.fetch_add(1, Ordering::Relaxed);
        self.inner.put_multipart_opts(p, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn faulty(fault: Fault) -> (FileIo, Arc<Faulty>) {
    let io = FileIo::default();
    let store = Arc::new(Faulty { inner: InMemory::new(), fault, parts: AtomicU32::new(0) });
    io.register("s3://b", store.clone());
    (io, store)
}

/// A commit that was made is not reported as lost, and one that may have been made is not reported as not made (CONC-43).
#[tokio::test]
async fn the_outcome_of_a_commit_is_found_out() {
    let file = "s3://b/t/metadata/v2.metadata.json";
    for fault in [Fault::DoneThenExists, Fault::DoneNoAnswer] {
        let (io, _) = faulty(fault);
        io.commit_new(file, "mine".into()).await.unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        let e = io.commit_new(file, "yours".into()).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{fault:?}");
        assert_eq!(io.read(file).await.unwrap(), "mine");
    }
    let (io, _) = faulty(Fault::NotDoneNoAnswer);
    let e = io.commit_new(file, "mine".into()).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::CommitUnknown, Some("CONC-41")), "{e}");
}

#[tokio::test]
async fn large_files_go_up_in_parts_and_never_replace_one() {
    let (io, store) = faulty(Fault::NotDoneNoAnswer);
    let large = Bytes::from((0..super::MULTIPART_FROM + 5).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    io.write_new("s3://b/large", large.clone()).await.unwrap();
    assert_eq!(store.parts.load(Ordering::Relaxed), 1);
    assert_eq!(io.read("s3://b/large").await.unwrap(), large);
    let e = io.write_new("s3://b/large", large).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn a_store_without_folders_behaves_as_if_it_had_some() {
    let io = FileIo::default();
    io.create_lasting_folder("memory:/w/a").await.unwrap();
    assert!(io.folder_exists("memory:/w/a").await.unwrap());
    io.write_new("memory:/w/a/b/c", "x".into()).await.unwrap();
    assert_eq!(io.remove_empty_folder("memory:/w/a").await.unwrap_err().kind(), ErrorKind::Conflict);
    io.remove_tree("memory:/w/a/b").await.unwrap();
    io.remove_tree("memory:/w/a/b").await.unwrap();
    io.remove_empty_folder("memory:/w/a").await.unwrap();
    assert!(!io.folder_exists("memory:/w/a").await.unwrap());
}

#[test]
fn spellings_of_one_location_are_equal() {
    for (a, b) in [("s3a://b/k", "s3://b/k"), ("s3n://b/k", "s3://b/k"), ("file:///k", "/k"), ("gs://b/k", "gs://b/k")]
    {
        assert_eq!(normalize(a), b);
    }
}

#[test]
fn unknown_schemes_are_named() {
    let io = FileIo::default();
    for location in ["hdfs://host/x", "ftp://h/x", "s4://b/k"] {
        let e = io.resolve(location).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("abfss") && e.message().contains(location.split(':').next().unwrap()), "{e}");
    }
    for location in ["s3:///k", "gs://", "abfss://@h/k", "relative/path"] {
        assert_eq!(io.resolve(location).unwrap_err().kind(), ErrorKind::InvalidInput, "{location}");
    }
}

fn fenced(allowed: &str) -> FileIo {
    FileIo::new(HashMap::from([(SANDBOX.to_string(), allowed.to_string())]))
}

#[tokio::test]
async fn nothing_outside_the_sandbox_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    std::fs::create_dir_all(dir.path().join("in/t")).unwrap();
    std::fs::create_dir_all(dir.path().join("inside-out")).unwrap();
    std::fs::write(dir.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("in/up")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("not-there"), dir.path().join("in/dangling")).unwrap();
    let io = fenced(&format!("{root}/in;s3://b/wh"));
    io.write_new(&format!("file://{root}/in/new/folder/f"), "x".into()).await.unwrap();
    for out in [
        format!("{root}/secret"),
        format!("file:{root}/secret"),
        format!("{root}/in/../secret"),
        format!("{root}/in/up/secret"),
        format!("{root}/in/dangling"),
        format!("{root}/inside-out/f"),
        "/etc/passwd".to_string(),
        "memory:/x".to_string(),
        "s3://b/other/k".to_string(),
        "s3://b/wh-2/k".to_string(),
        "s3://c/wh/k".to_string(),
        "s3://b/wh/../other/k".to_string(),
        "gs://b/wh/k".to_string(),
    ] {
        assert_eq!(io.read(&out).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
        assert_eq!(io.write_new(&out, "x".into()).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
        assert_eq!(io.list_folder(&out).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
        assert_eq!(io.remove_tree(&out).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
        assert_eq!(io.commit_new(&out, "x".into()).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
        assert_eq!(io.replace_hint(&out, "x".into()).await.unwrap_err().kind(), ErrorKind::Denied, "{out}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "s");
    assert!(io.resolve("s3a://b/wh/t/k").is_ok());
    // A fence that cannot be read allows nothing.
    assert_eq!(fenced(" ; ").read("/x").await.unwrap_err().kind(), ErrorKind::InvalidInput);
}
