//! Folders and exclusive creation on the local file system, where `object_store` has no notion of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;

use super::{FileIo, at, split_location};
use crate::{Error, ErrorKind, Result};

/// Name of the empty file that stands for an empty folder on a store without folders.
pub const FOLDER_MARK: &str = ".floe-folder";

/// What lies directly in a folder; names only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    /// Names of folders, sorted.
    pub folders: Vec<String>,
    /// Names of files, sorted.
    pub files: Vec<String>,
}

impl FileIo {
    /// Path on this machine of a location that no registered store serves; `None` for every other store.
    pub fn local_path(&self, location: &str) -> Result<Option<PathBuf>> {
        self.check_fence(location)?;
        let (base, path) = split_location(location)?;
        if base != "file://" || self.is_registered(&base) {
            return Ok(None);
        }
        Ok(Some(PathBuf::from(path)))
    }

    /// Folders and files directly in a folder; empty when it is not there.
    pub async fn list_folder(&self, location: &str) -> Result<Folder> {
        if let Some(path) = self.local_path(location)? {
            return blocking("list the folder", location, move || list_local(&path)).await;
        }
        let (store, _, path) = self.resolve(location)?;
        let listed = store.list_with_delimiter(Some(&path)).await.map_err(|e| at(e, location))?;
        let mut folder = Folder {
            folders: listed.common_prefixes.iter().filter_map(|p| p.filename().map(Into::into)).collect(),
            files: listed.objects.iter().filter_map(|o| o.location.filename().map(Into::into)).collect(),
        };
        folder.folders.sort();
        folder.files.sort();
        Ok(folder)
    }

    /// Creates a file of a commit: [`ErrorKind::AlreadyExists`] if there is one, [`ErrorKind::NotFound`] if its folder
    /// is gone on a local file system. Readers see all of it or nothing, and it survives a crash (FS-2, FS-7).
    ///
    /// The bytes go to `<uuid>.metadata.json` beside the target first: readers of a Hadoop table never take that name for
    /// a version, so one left behind by a killed writer is harmless.
    pub async fn commit_new(&self, location: &str, bytes: bytes::Bytes) -> Result<()> {
        let Some(path) = self.local_path(location)? else {
            return self.put_commit(location, bytes).await;
        };
        blocking("make the file", location, move || {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let staged = folder.join(format!("{}.metadata.json", uuid::Uuid::new_v4()));
            let result = write_synced(&staged, &bytes).and_then(|()| fs::hard_link(&staged, &path));
            let _ = fs::remove_file(&staged);
            result?;
            sync_folder(folder);
            Ok(())
        })
        .await
    }

    /// The conditional put of a commit. A request without any answer may have worked: the file itself tells, since no two
    /// commits have the same bytes (CONC-43).
    async fn put_commit(&self, location: &str, bytes: bytes::Bytes) -> Result<()> {
        match self.write_new(location, bytes.clone()).await {
            Err(e) if e.kind() == ErrorKind::Io => match self.read(location).await {
                Ok(found) if found == bytes => Ok(()),
                Ok(_) => Err(Error::new(ErrorKind::AlreadyExists, "another writer made this version").at(location)),
                // It may still arrive.
                Err(_) => {
                    let why = format!("the store did not confirm the put: {}", e.message());
                    Err(Error::new(ErrorKind::CommitUnknown, why).at(location).clause("CONC-41").with_source(e))
                }
            },
            other => other,
        }
    }

    /// Removes a folder and everything below it; one that is not there is no error.
    pub async fn remove_tree(&self, location: &str) -> Result<()> {
        if let Some(path) = self.local_path(location)? {
            return blocking("remove the folder", location, move || match fs::remove_dir_all(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            })
            .await;
        }
        let (store, _, path) = self.resolve(location)?;
        let files: Vec<_> = store.list(Some(&path)).map_ok(|m| m.location).collect().await;
        let mut deleted = store.delete_stream(futures::stream::iter(files).boxed());
        while let Some(done) = deleted.next().await {
            match done {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(at(e, location)),
            }
        }
        Ok(())
    }

    /// Creates a folder and its parents on a local file system; other stores have none.
    pub async fn create_folder(&self, location: &str) -> Result<()> {
        match self.local_path(location)? {
            Some(path) => blocking("make the folder", location, move || fs::create_dir_all(&path)).await,
            None => Ok(()),
        }
    }

    /// Creates a folder that stays when nothing is in it: a store without folders gets the empty file [`FOLDER_MARK`].
    pub async fn create_lasting_folder(&self, location: &str) -> Result<()> {
        if self.local_path(location)?.is_some() {
            return self.create_folder(location).await;
        }
        self.overwrite(&format!("{}/{FOLDER_MARK}", location.trim_end_matches('/')), bytes::Bytes::new()).await
    }

    /// Removes a folder in which nothing is; [`ErrorKind::Conflict`] if something is.
    pub async fn remove_empty_folder(&self, location: &str) -> Result<()> {
        let Some(path) = self.local_path(location)? else {
            if self.holds_more_than_mark(location, true).await? {
                return Err(Error::conflict("the folder is not empty").at(location));
            }
            return self.delete(&format!("{}/{FOLDER_MARK}", location.trim_end_matches('/'))).await;
        };
        blocking("remove the folder", location, move || fs::remove_dir(&path)).await.map_err(|e| match e.kind() {
            ErrorKind::Io => Error::conflict("the folder is not empty").at(location).with_source(e),
            _ => e,
        })
    }

    /// Whether a folder is there; on a store without folders: whether something lies below it.
    pub async fn folder_exists(&self, location: &str) -> Result<bool> {
        if let Some(path) = self.local_path(location)? {
            return blocking("look at the folder", location, move || Ok(path.is_dir())).await;
        }
        self.holds_more_than_mark(location, false).await
    }

    /// Whether anything lies below a folder of a store without folders; with `more` something else than its own mark. Some
    /// stores list folders in which nothing is any more: only files count.
    async fn holds_more_than_mark(&self, location: &str, more: bool) -> Result<bool> {
        let (store, _, path) = self.resolve(location)?;
        let mark = path.clone().join(FOLDER_MARK);
        let mut files = store.list(Some(&path));
        while let Some(file) = files.next().await {
            let file = file.map_err(|e| at(e, location))?;
            if !more || file.location != mark {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Replaces a small file through a rename, and removes the checksum that Hadoop's local file system keeps beside it:
    /// a stale `.<name>.crc` makes Spark refuse the file.
    pub async fn replace_hint(&self, location: &str, bytes: bytes::Bytes) -> Result<()> {
        let Some(path) = self.local_path(location)? else {
            return self.overwrite(location, bytes).await;
        };
        blocking("write the file", location, move || {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let staged = folder.join(format!("{}-version-hint.temp", uuid::Uuid::new_v4()));
            fs::write(&staged, &bytes)?;
            let _ = fs::remove_file(folder.join(format!(".{name}.crc")));
            fs::rename(&staged, &path).inspect_err(|_| {
                let _ = fs::remove_file(&staged);
            })
        })
        .await
    }

    /// Whether a file is there.
    pub async fn exists(&self, location: &str) -> Result<bool> {
        let (store, _, path) = self.resolve(location)?;
        match store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(at(e, location)),
        }
    }
}

fn list_local(path: &Path) -> std::io::Result<Folder> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Folder::default()),
        Err(e) => return Err(e),
    };
    let mut folder = Folder::default();
    for entry in entries {
        let entry = entry?;
        // A name that is not UTF-8 cannot be part of a location string.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        match fs::metadata(entry.path()) {
            Ok(m) if m.is_dir() => folder.folders.push(name),
            Ok(_) => folder.files.push(name),
            // Removed since it was listed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    folder.folders.sort();
    folder.files.sort();
    Ok(folder)
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// Makes a new name in a folder durable; a file system that cannot is left to its own guarantees.
fn sync_folder(folder: &Path) {
    if let Ok(dir) = fs::File::open(folder) {
        let _ = dir.sync_all();
    }
}

/// Runs file-system work off the async threads. `what` = what it does, for the message when the system refuses it.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    location: &str,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::internal(format!("file-system task failed: {e}")))?
        .map_err(|e| Error::system(format!("cannot {what}"), e).at(location))
}
