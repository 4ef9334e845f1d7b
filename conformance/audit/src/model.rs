//! The table as raw facts: metadata JSON, manifest lists and manifests decoded field by field, nothing corrected.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::avro::{Node, V};
use crate::types::Schema;

/// Where files really are, given how the table names them.
#[derive(Clone, Debug, Default)]
pub struct Locator {
    /// `--map FROM=TO` prefixes, tried first.
    pub maps: Vec<(String, String)>,
    /// `location` of the metadata, without scheme.
    pub declared: String,
    /// Folder the table was found in.
    pub root: PathBuf,
}

/// Strips a `file:` scheme; other schemes stay.
pub fn strip_file(s: &str) -> &str {
    let Some(r) = s.strip_prefix("file:") else {
        return s;
    };
    match r.strip_prefix("//") {
        Some(h) if h.starts_with('/') => h,
        Some(h) => h.find('/').map_or(h, |i| &h[i..]),
        None => r,
    }
}

impl Locator {
    /// Local path of a location string: a `--map`, else the place relative to the table folder when the table was moved, else as written.
    pub fn path(&self, loc: &str) -> PathBuf {
        for (from, to) in &self.maps {
            if let Some(rest) = loc.strip_prefix(from.as_str()) {
                return PathBuf::from(format!("{to}{rest}"));
            }
        }
        let s = strip_file(loc);
        let rest = s.strip_prefix(self.declared.as_str()).filter(|r| r.starts_with('/'));
        if let Some(rest) = rest {
            let here = self.root.join(rest.trim_start_matches('/'));
            // Metadata may be kept apart from the table (LOC-2): then the location as written is right.
            if self.root == Path::new(&self.declared) || here.exists() || !Path::new(s).exists() {
                return here;
            }
        }
        PathBuf::from(s)
    }
}

/// Column metrics of a file entry, maps by field id; `None` when the map is absent.
#[derive(Debug, Default)]
pub struct Metrics {
    pub value_counts: Option<Vec<(i64, i64)>>,
    pub null_counts: Option<Vec<(i64, i64)>>,
    pub nan_counts: Option<Vec<(i64, i64)>>,
    pub lower: Option<Vec<(i64, Vec<u8>)>>,
    pub upper: Option<Vec<(i64, Vec<u8>)>>,
}

/// One manifest entry as stored, before inheritance.
#[derive(Debug, Default)]
pub struct Entry {
    pub status: i64,
    pub snapshot_id: Option<i64>,
    pub seq: Option<i64>,
    pub file_seq: Option<i64>,
    pub content: i64,
    pub path: Arc<str>,
    pub format: String,
    pub partition: V2,
    pub records: i64,
    pub size: i64,
    pub metrics: Metrics,
    pub has_distinct: bool,
    pub has_ordinal: bool,
    pub has_sort_columns: bool,
    pub encrypted: bool,
    pub split_offsets: Option<Vec<i64>>,
    pub equality_ids: Option<Vec<i64>>,
    pub sort_order: Option<i64>,
    pub first_row_id: Option<i64>,
    pub referenced: Option<Arc<str>>,
    pub offset: Option<i64>,
    pub length: Option<i64>,
    /// Rows of earlier live entries of this manifest whose `first_row_id` is null too (FRID-2, FRID-8); set on null entries of data files.
    pub row_id_offset: Option<i64>,
    /// Values that should be there but are missing or of another type.
    pub holes: Vec<&'static str>,
}

/// A partition tuple in the order of the manifest's partition struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct V2(pub Vec<V>);

impl V2 {
    pub fn key(&self) -> String {
        self.0.iter().map(V::show).collect::<Vec<_>>().join("|")
    }
}

impl Entry {
    pub fn live(&self) -> bool {
        self.status != 2
    }
    pub fn is_dv(&self) -> bool {
        self.format.eq_ignore_ascii_case("puffin")
    }
    /// Identity of a file entry: path, and for a DV its offset too (MAN-15, TRAP-27).
    pub fn key(&self) -> (Arc<str>, Option<i64>) {
        (self.path.clone(), if self.is_dv() { self.offset } else { None })
    }
    /// Bytes that count for sizes in a summary: the blob for a DV (SUMMARY-41).
    pub fn counted_size(&self) -> i64 {
        if self.is_dv() { self.length.unwrap_or(self.size) } else { self.size }
    }
}

/// A manifest file, decoded once however many lists name it.
#[derive(Debug, Default)]
pub struct Manifest {
    pub file_size: Option<u64>,
    pub meta: HashMap<String, String>,
    pub root: Option<Arc<Node>>,
    /// Partition field ids in tuple order.
    pub partition_ids: Vec<i64>,
    pub entries: Vec<Entry>,
    /// Why the file could not be decoded.
    pub broken: Option<String>,
    pub missing: bool,
    /// Encrypted with table keys: nothing inside can be judged.
    pub encrypted: bool,
    /// Total rows of live entries without a stored first row id.
    pub null_rows: i64,
}

impl Manifest {
    /// Format version of the writer; manifests without the key are v1.
    pub fn version(&self) -> i64 {
        self.meta.get("format-version").and_then(|s| s.parse().ok()).unwrap_or(1)
    }
    pub fn deletes(&self) -> bool {
        self.meta.get("content").is_some_and(|c| c == "deletes")
    }
    /// Place text of entry `i`.
    pub fn at(&self, i: usize, field: &str) -> String {
        format!("entry {i}: {field}")
    }
}

/// A partition field summary of a manifest list record.
#[derive(Debug, Default, Clone)]
pub struct FieldSummary {
    pub contains_null: Option<bool>,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
}

/// One record of a manifest list.
#[derive(Debug, Default)]
pub struct ManifestRef {
    pub path: String,
    pub length: Option<i64>,
    pub spec_id: Option<i64>,
    pub content: i64,
    pub seq: i64,
    pub min_seq: Option<i64>,
    pub added_snapshot: Option<i64>,
    /// added, existing, deleted
    pub files: [Option<i64>; 3],
    pub rows: [Option<i64>; 3],
    pub partitions: Option<Vec<FieldSummary>>,
    pub first_row_id: Option<i64>,
    pub encrypted: bool,
    pub manifest: Arc<Manifest>,
}

impl ManifestRef {
    /// Data sequence number after inheritance (SEQ-1, SEQ-3).
    pub fn seq_of(&self, e: &Entry) -> Option<i64> {
        e.seq.or(if self.manifest.version() < 2 {
            Some(0)
        } else if e.status == 1 {
            Some(self.seq)
        } else {
            None
        })
    }
    pub fn file_seq_of(&self, e: &Entry) -> Option<i64> {
        e.file_seq.or(if self.manifest.version() < 2 {
            Some(0)
        } else if e.status == 1 {
            Some(self.seq)
        } else {
            None
        })
    }
    /// Snapshot id after inheritance (SEQ-5).
    pub fn snapshot_of(&self, e: &Entry) -> Option<i64> {
        e.snapshot_id.or(self.added_snapshot)
    }
    /// `first_row_id` after inheritance (FRID-2, FRID-8).
    pub fn first_row_of(&self, e: &Entry) -> Option<i64> {
        let base = self.first_row_id?;
        if e.content != 0 {
            return None;
        }
        e.first_row_id.or_else(|| e.row_id_offset.and_then(|o| base.checked_add(o)))
    }
}

/// A manifest list, or the inline `manifests` of a v1 snapshot.
#[derive(Debug, Default)]
pub struct List {
    pub location: String,
    pub meta: HashMap<String, String>,
    pub root: Option<Arc<Node>>,
    pub refs: Vec<ManifestRef>,
    pub broken: Option<String>,
    pub missing: bool,
    pub inline: bool,
    pub encrypted: bool,
}

/// A snapshot of the metadata with its list.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub index: usize,
    pub id: i64,
    pub parent: Option<i64>,
    pub seq: i64,
    pub timestamp: Option<i64>,
    pub first_row_id: Option<i64>,
    pub added_rows: Option<i64>,
    pub summary: BTreeMap<String, String>,
    pub list: List,
}

impl Snapshot {
    /// JSON pointer of a member.
    pub fn ptr(&self, member: &str) -> String {
        format!("/snapshots/{}/{member}", self.index)
    }
    pub fn operation(&self) -> Option<&str> {
        self.summary.get("operation").map(String::as_str)
    }
    /// Live entries with the list record they come from.
    pub fn live(&self) -> impl Iterator<Item = (&ManifestRef, usize, &Entry)> {
        self.list
            .refs
            .iter()
            .flat_map(|m| m.manifest.entries.iter().enumerate().map(move |(i, e)| (m, i, e)))
            .filter(|(_, _, e)| e.live())
    }
    /// Whether every manifest of the snapshot could be decoded; cross-file arithmetic makes sense only then.
    pub fn complete(&self) -> bool {
        self.list.broken.is_none()
            && !self.list.missing
            && !self.list.encrypted
            && self
                .list
                .refs
                .iter()
                .all(|r| r.manifest.broken.is_none() && !r.manifest.missing && !r.manifest.encrypted)
    }
}

/// A partition field of a spec.
#[derive(Clone, Debug)]
pub struct SpecField {
    pub sources: Vec<i64>,
    pub id: Option<i64>,
    pub name: String,
    pub transform: String,
}

/// A partition spec.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub id: i64,
    pub fields: Vec<SpecField>,
    pub ptr: String,
}

/// Everything the checks look at.
#[derive(Default)]
pub struct Model {
    /// Metadata file as opened.
    pub file: String,
    pub path: PathBuf,
    pub meta: Json,
    pub version: i64,
    pub locator: Locator,
    pub schemas: Vec<Schema>,
    pub specs: Vec<Spec>,
    pub snapshots: Vec<Snapshot>,
    pub by_id: HashMap<i64, usize>,
    pub(crate) dv_positions: std::sync::OnceLock<HashMap<(Arc<str>, Option<i64>), crate::dv::Positions>>,
    pub(crate) posdels: std::sync::OnceLock<HashMap<Arc<str>, crate::rows::PosDel>>,
    /// Open Parquet files and look at rows.
    pub data: bool,
    pub threads: usize,
}

impl Model {
    /// Positions of every live DV that parses, by entry identity; read once.
    pub fn dv_positions(&self) -> &HashMap<(Arc<str>, Option<i64>), crate::dv::Positions> {
        self.dv_positions.get_or_init(|| crate::checks::dv_positions(self))
    }
    /// Rows of every live Parquet position delete file; read once.
    pub fn position_deletes(&self) -> &HashMap<Arc<str>, crate::rows::PosDel> {
        self.posdels.get_or_init(|| crate::rows::position_deletes(self))
    }
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.meta.get(key).filter(|v| !v.is_null())
    }
    pub fn int(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Json::as_i64)
    }
    pub fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.by_id.get(&id).map(|i| &self.snapshots[*i])
    }
    pub fn spec(&self, id: i64) -> Option<&Spec> {
        self.specs.iter().find(|s| s.id == id)
    }
    pub fn current_schema(&self) -> Option<&Schema> {
        let id = self.int("current-schema-id");
        self.schemas.iter().find(|s| s.id == id).or_else(|| self.schemas.last().filter(|_| id.is_none()))
    }
    /// A field of any schema, the current one first.
    pub fn field(&self, id: i64) -> Option<&crate::types::FieldInfo> {
        self.current_schema()
            .and_then(|s| s.fields.get(&id))
            .or_else(|| self.schemas.iter().rev().find_map(|s| s.fields.get(&id)))
    }
    /// Parent snapshot, when it is still listed.
    pub fn parent<'a>(&'a self, s: &Snapshot) -> Option<&'a Snapshot> {
        s.parent.and_then(|p| self.snapshot(p)).filter(|p| p.id != s.id)
    }
    /// Each manifest once, with one list record that names it.
    pub fn manifests(&self) -> Vec<(&Snapshot, &ManifestRef)> {
        let mut seen = std::collections::HashSet::new();
        let mut out = Vec::new();
        for s in &self.snapshots {
            for r in &s.list.refs {
                if seen.insert(r.path.as_str()) {
                    out.push((s, r));
                }
            }
        }
        out
    }
    /// Whether the snapshot was committed under v3 rules: it has a `first-row-id` (META-80, META-S09).
    pub fn is_v3_snapshot(&self, s: &Snapshot) -> bool {
        self.version >= 3 && s.first_row_id.is_some()
    }
    pub fn size(&self, loc: &str) -> Option<u64> {
        std::fs::metadata(self.locator.path(loc)).ok().filter(std::fs::Metadata::is_file).map(|m| m.len())
    }
    pub fn read(&self, loc: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.locator.path(loc))
    }
}

/// Table folder or metadata file to metadata file.
///
/// # Errors
/// Text saying what was looked for when no metadata file is there.
pub fn find_metadata(target: &Path) -> Result<PathBuf, String> {
    if target.is_file() {
        return Ok(target.to_path_buf());
    }
    let dir = if target.join("metadata").is_dir() { target.join("metadata") } else { target.to_path_buf() };
    let names: Vec<String> = std::fs::read_dir(&dir)
        .map_err(|e| format!("{}: no table folder or metadata file: {e}", dir.display()))?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".metadata.json") || n.ends_with(".metadata.json.gz"))
        .collect();
    let hadoop = |n: &str| n.strip_prefix('v').and_then(|r| r.split('.').next()?.parse::<u64>().ok());
    let hint = std::fs::read_to_string(dir.join("version-hint.text")).ok().and_then(|s| s.trim().parse::<u64>().ok());
    // A commit may have landed after the hint was written (FS-5): the highest version from the hint on wins.
    let best = names.iter().filter_map(|n| Some((hadoop(n)?, n))).filter(|(v, _)| hint.is_none_or(|h| *v >= h)).max();
    let best = best.or_else(|| names.iter().filter_map(|n| Some((hadoop(n)?, n))).max());
    if let Some((_, n)) = best {
        return Ok(dir.join(n));
    }
    let version = |n: &str| n.split_once('-').and_then(|(v, _)| v.parse::<u64>().ok());
    let mut all: Vec<_> =
        names.iter().map(|n| (version(n), std::fs::metadata(dir.join(n)).and_then(|m| m.modified()).ok(), n)).collect();
    all.sort();
    all.last().map(|(_, _, n)| dir.join(n)).ok_or_else(|| format!("no *.metadata.json in {}", dir.display()))
}
