//! Facts of a table read by the harness itself from its metadata JSON and its folder: the same eyes for every writer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::protocol::TableRef;

/// Summary counters that say what a commit changed (SUMMARY-*); comparable between engines, unlike sizes, ids and names.
pub const CHANGE_COUNTERS: &[&str] = &[
    "added-data-files",
    "deleted-data-files",
    "added-records",
    "deleted-records",
    "added-delete-files",
    "removed-delete-files",
    "added-dvs",
    "removed-dvs",
    "added-position-delete-files",
    "removed-position-delete-files",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-delete-files",
    "removed-equality-delete-files",
    "added-equality-deletes",
    "removed-equality-deletes",
    "changed-partition-count",
];

/// What the metadata says now.
#[derive(Debug, Clone, Default)]
pub struct TableState {
    /// Path of the metadata file.
    pub metadata: PathBuf,
    /// Parsed metadata.
    pub json: Value,
    /// All files below the table's folder with their sizes, by path relative to it.
    pub files: BTreeMap<String, u64>,
}

/// A table of a Hadoop-layout warehouse in its newest state, as engines are told of it.
pub fn newest(warehouse: &Path, namespace: &str, name: &str) -> TableRef {
    let folder = warehouse.join(namespace).join(name);
    let state = TableState::read(&folder).ok().flatten();
    TableRef {
        namespace: namespace.into(),
        name: name.into(),
        location: folder.display().to_string(),
        metadata: state.map_or_else(String::new, |s| s.metadata.display().to_string()),
        snapshot: None,
    }
}

impl TableState {
    /// Reads the newest version of a Hadoop-layout table; `None` when there is no metadata yet. The hint may be stale, so
    /// later versions are looked for from it on (FS-*).
    pub fn read(folder: &Path) -> std::io::Result<Option<Self>> {
        let meta = folder.join("metadata");
        let hint =
            std::fs::read_to_string(meta.join("version-hint.text")).ok().and_then(|t| t.trim().parse::<u64>().ok());
        let newest = std::fs::read_dir(&meta)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| version_of(&e.file_name().to_string_lossy()))
            .max();
        let Some(version) = newest.max(hint) else {
            return Ok(None);
        };
        let path = ["metadata.json", "gz.metadata.json"]
            .iter()
            .map(|end| meta.join(format!("v{version}.{end}")))
            .find(|p| p.is_file());
        let Some(path) = path else { return Ok(None) };
        Self::read_metadata(folder, &path).map(Some)
    }

    /// Reads a given metadata file.
    pub fn read_metadata(folder: &Path, path: &Path) -> std::io::Result<Self> {
        let json = serde_json::from_slice(&std::fs::read(path)?)?;
        let mut files = BTreeMap::new();
        walk(folder, folder, &mut files);
        Ok(Self { metadata: path.to_path_buf(), json, files })
    }

    /// `current-snapshot-id`, with the old `-1` as none.
    pub fn snapshot_id(&self) -> Option<i64> {
        self.json["current-snapshot-id"].as_i64().filter(|id| *id != -1)
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Option<&Value> {
        let id = self.snapshot_id()?;
        self.snapshots().iter().find(|s| s["snapshot-id"].as_i64() == Some(id))
    }

    /// All snapshots.
    pub fn snapshots(&self) -> &[Value] {
        self.json["snapshots"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Files below the data folder that are here and were not in `before`, with this ending.
    pub fn new_files(&self, before: Option<&Self>, ending: &str) -> u64 {
        let old = |p: &str| before.is_some_and(|b| b.files.contains_key(p));
        self.files.keys().filter(|p| p.ends_with(ending) && !p.starts_with("metadata/") && !old(p)).count() as u64
    }
}

fn version_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix('v')?;
    let (n, end) = rest.split_once('.')?;
    (end == "metadata.json" || end == "gz.metadata.json").then(|| n.parse().ok()).flatten()
}

fn walk(root: &Path, dir: &Path, out: &mut BTreeMap<String, u64>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = e.path();
        if path.is_dir() {
            walk(root, &path, out);
        } else if let (Ok(rel), Ok(m)) = (path.strip_prefix(root), e.metadata()) {
            out.insert(rel.to_string_lossy().into_owned(), m.len());
        }
    }
}
