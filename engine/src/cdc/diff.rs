//! What a snapshot changed, file by file: the difference of its live files and deletes to its parent's (CDC-20..23).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use iceberg::spec::{ManifestContentType, ManifestFile, Schema, Type};

use super::range::{Base, Step};
use crate::deletes::{DeleteIndex, Deletes, file_scope, read_position_deletes};
use crate::expr::FilePruner;
use crate::io::normalize;
use crate::manifest::{Content, DataFile, FileKey, ManifestEntry, Metrics, Status, load_manifest_list, load_manifests};
use crate::table::Metadata;
use crate::types::{compare, decode_bound};
use crate::{Error, Result, Table};

/// A data file as one snapshot sees it.
#[derive(Debug, Clone)]
pub struct Side {
    /// Its live entry, with that snapshot's row ids.
    pub entry: Arc<ManifestEntry>,
    /// The deletes that apply to it.
    pub deletes: Deletes,
}

/// A data file whose live rows may differ between two snapshots.
#[derive(Debug, Clone)]
pub struct FileDiff {
    /// In the parent; `None` = the file was added.
    pub before: Option<Side>,
    /// In the child; `None` = the file was removed.
    pub after: Option<Side>,
    /// Equality deletes that apply on one side only.
    pub equality: Vec<Arc<ManifestEntry>>,
}

impl FileDiff {
    /// The data file.
    pub fn file(&self) -> &DataFile {
        match (&self.after, &self.before) {
            (Some(s), _) | (None, Some(s)) => &s.entry.file,
            (None, None) => unreachable!("a diff has a side"),
        }
    }
}

/// Entries of manifests, read once while a range is walked; a manifest is known by path and assigned first row id, since the
/// latter belongs to the snapshot's list (LINEAGE-21).
#[derive(Debug, Default)]
struct Cache {
    entries: HashMap<(String, Option<u64>), Arc<Vec<Arc<ManifestEntry>>>>,
    rows: usize,
}

/// Manifest entries kept at a time; beyond it the cache starts anew.
const CACHE_ENTRIES: usize = 200_000;

/// Plans the changes of snapshots of one table.
#[derive(Debug)]
pub struct DiffPlanner {
    table: Table,
    pruner: Arc<FilePruner>,
    cache: Cache,
    list: Option<(i64, Arc<Vec<ManifestFile>>)>,
    index: Option<(i64, Arc<DeleteIndex>)>,
}

impl DiffPlanner {
    /// A planner; `pruner` leaves out files that hold no selected row.
    pub fn new(table: Table, pruner: Arc<FilePruner>) -> Self {
        Self { table, pruner, cache: Cache::default(), list: None, index: None }
    }

    /// The data files whose live rows the snapshot changed: removed and changed ones, then added ones, each in a stable order.
    pub async fn plan(&mut self, step: &Step) -> Result<Vec<FileDiff>> {
        let child = &step.snapshot;
        let before = match &step.base {
            Base::Parent(p) => self.manifests(p).await?,
            Base::Empty => Arc::new(Vec::new()),
            Base::Expired(parent) => return self.plan_without_parent(step, *parent).await,
        };
        let before_index = match &step.base {
            Base::Parent(p) => self.delete_index(p.snapshot_id(), &before).await?,
            _ => Arc::new(DeleteIndex::default()),
        };
        let after = self.manifests(child).await?;
        let after_index = self.delete_index(child.snapshot_id(), &after).await?;

        let known =
            |list: &[ManifestFile]| -> HashSet<String> { list.iter().map(|m| m.manifest_path.clone()).collect() };
        let (in_before, in_after) = (known(&before), known(&after));
        let only =
            |list: &[ManifestFile], other: &HashSet<String>, content: ManifestContentType| -> Vec<ManifestFile> {
                list.iter().filter(|m| m.content == content && !other.contains(&m.manifest_path)).cloned().collect()
            };
        use ManifestContentType::{Data, Deletes as DeleteManifests};
        let data_after = by_path(self.live(&only(&after, &in_before, Data)).await?);
        let data_before = by_path(self.live(&only(&before, &in_after, Data)).await?);
        let deletes_after = by_key(self.live(&only(&after, &in_before, DeleteManifests)).await?);
        let deletes_before = by_key(self.live(&only(&before, &in_after, DeleteManifests)).await?);

        let mut out = Vec::new();
        let side = |e: &Arc<ManifestEntry>, index: &DeleteIndex| -> Result<Side> {
            Ok(Side { entry: e.clone(), deletes: index.for_file(e)? })
        };
        for (path, e) in &data_before {
            if !data_after.contains_key(path) && self.pruner.may_match(&e.file) {
                out.push(FileDiff { before: Some(side(e, &before_index)?), after: None, equality: Vec::new() });
            }
        }
        for (path, e) in &data_after {
            if !data_before.contains_key(path) && self.pruner.may_match(&e.file) {
                out.push(FileDiff { before: None, after: Some(side(e, &after_index)?), equality: Vec::new() });
            }
        }

        let changed: Vec<Arc<ManifestEntry>> = deletes_after
            .iter()
            .filter(|(k, _)| !deletes_before.contains_key(*k))
            .chain(deletes_before.iter().filter(|(k, _)| !deletes_after.contains_key(*k)))
            .map(|(_, e)| e.clone())
            .collect();
        if !changed.is_empty() {
            let gone_or_new: HashSet<&String> = data_before
                .keys()
                .filter(|p| !data_after.contains_key(*p))
                .chain(data_after.keys().filter(|p| !data_before.contains_key(*p)))
                .collect();
            let mut touched: HashSet<String> = HashSet::new();
            let mut equality: Vec<Arc<ManifestEntry>> = Vec::new();
            for e in &changed {
                match e.file.content {
                    Content::EqualityDeletes => equality.push(e.clone()),
                    _ => match file_scope(&e.file) {
                        Some(p) => {
                            touched.insert(normalize(&p));
                        }
                        None => touched.extend(read_position_deletes(self.table.io(), &e.file).await?.into_keys()),
                    },
                }
            }
            touched.retain(|p| !gone_or_new.contains(p));
            let metadata = self.table.metadata().clone();
            let want = |e: &ManifestEntry| {
                touched.contains(&normalize(&e.file.path)) || equality.iter().any(|d| may_reach(d, e, &metadata))
            };
            let kept_after = self.find(&after, &want).await?;
            let kept_before = self.find(&before, &want).await?;
            let schema = self.table.metadata().current_schema().clone();
            for (path, a) in kept_after {
                let Some(b) = kept_before.get(&path) else {
                    continue;
                };
                if !self.pruner.may_match(&a.file) {
                    continue;
                }
                let (before, after) = (side(b, &before_index)?, side(&a, &after_index)?);
                let equality = symmetric(&before.deletes.equality, &after.deletes.equality);
                let equality: Vec<_> = equality.into_iter().filter(|d| may_hit(d, &a, &schema)).collect();
                if equality.is_empty() && same_positions(&before.deletes, &after.deletes) {
                    continue;
                }
                out.push(FileDiff { before: Some(before), after: Some(after), equality });
            }
        }
        out.sort_by(|a, b| {
            let rank = |d: &FileDiff| u8::from(d.before.is_none());
            (rank(a), sequence(a), &a.file().path).cmp(&(rank(b), sequence(b), &b.file().path))
        });
        Ok(out)
    }

    /// The parent was expired: an append tells its changes itself; anything else would need files that are gone (CDC-29).
    async fn plan_without_parent(&mut self, step: &Step, parent: i64) -> Result<Vec<FileDiff>> {
        let id = step.snapshot.snapshot_id();
        let refuse = || {
            Error::not_found(format!(
                "the changes of snapshot {id} can't be told: its parent {parent} was expired, and it is no plain append"
            ))
            .clause("CDC-29")
        };
        let list = self.manifests(&step.snapshot).await?;
        let own: Vec<ManifestFile> = list.iter().filter(|m| m.added_snapshot_id == id).cloned().collect();
        let index = self.delete_index(id, &list).await?;
        let loaded = load_manifests(self.table.io(), &own, self.table.metadata()).await?;
        let mut out = Vec::new();
        for (m, entries) in own.iter().zip(loaded) {
            for e in entries.into_iter().filter(|e| e.snapshot_id == Some(id) && e.status != Status::Existing) {
                if m.content != ManifestContentType::Data || e.status == Status::Deleted {
                    return Err(refuse());
                }
                let e = Arc::new(e);
                if self.pruner.may_match(&e.file) {
                    let after = Side { deletes: index.for_file(&e)?, entry: e };
                    out.push(FileDiff { before: None, after: Some(after), equality: Vec::new() });
                }
            }
        }
        Ok(out)
    }

    async fn manifests(&mut self, s: &iceberg::spec::Snapshot) -> Result<Arc<Vec<ManifestFile>>> {
        let id = s.snapshot_id();
        if let Some((known, list)) = &self.list
            && *known == id
        {
            return Ok(list.clone());
        }
        let list = load_manifest_list(self.table.io(), s).await.map_err(|e| missing_file(e, id))?;
        let list: Arc<Vec<_>> =
            Arc::new(list.into_iter().filter(|m| m.has_added_files() || m.has_existing_files()).collect());
        self.list = Some((id, list.clone()));
        Ok(list)
    }

    async fn delete_index(&mut self, id: i64, list: &[ManifestFile]) -> Result<Arc<DeleteIndex>> {
        if let Some((known, index)) = &self.index
            && *known == id
        {
            return Ok(index.clone());
        }
        let deletes: Vec<ManifestFile> =
            list.iter().filter(|m| m.content == ManifestContentType::Deletes).cloned().collect();
        let index = Arc::new(DeleteIndex::build(self.live(&deletes).await?, self.table.metadata())?);
        self.index = Some((id, index.clone()));
        Ok(index)
    }

    /// Live entries of manifests.
    async fn live(&mut self, manifests: &[ManifestFile]) -> Result<Vec<Arc<ManifestEntry>>> {
        let key = |m: &ManifestFile| (m.manifest_path.clone(), m.first_row_id);
        let missing: Vec<ManifestFile> =
            manifests.iter().filter(|m| !self.cache.entries.contains_key(&key(m))).cloned().collect();
        let loaded = load_manifests(self.table.io(), &missing, self.table.metadata()).await?;
        let mut fresh: HashMap<_, Arc<Vec<Arc<ManifestEntry>>>> = HashMap::new();
        for (m, entries) in missing.iter().zip(loaded) {
            let live: Vec<_> = entries.into_iter().filter(ManifestEntry::is_live).map(Arc::new).collect();
            fresh.insert(key(m), Arc::new(live));
        }
        let out = manifests
            .iter()
            .filter_map(|m| fresh.get(&key(m)).or_else(|| self.cache.entries.get(&key(m))))
            .flat_map(|v| v.iter().cloned())
            .collect();
        let rows: usize = fresh.values().map(|v| v.len()).sum();
        if self.cache.rows + rows > CACHE_ENTRIES {
            self.cache = Cache::default();
        }
        self.cache.rows += rows;
        self.cache.entries.extend(fresh);
        Ok(out)
    }

    /// Live data files of a list that are wanted, by path.
    async fn find(
        &mut self,
        list: &[ManifestFile],
        want: &impl Fn(&ManifestEntry) -> bool,
    ) -> Result<HashMap<String, Arc<ManifestEntry>>> {
        let mut out = HashMap::new();
        for m in list.iter().filter(|m| m.content == ManifestContentType::Data) {
            let entries = self.live(std::slice::from_ref(m)).await?;
            out.extend(entries.into_iter().filter(|e| want(e)).map(|e| (normalize(&e.file.path), e)));
        }
        Ok(out)
    }
}

/// A file of a kept snapshot that is gone is lost history, which the message should say.
fn missing_file(e: Error, snapshot: i64) -> Error {
    if e.kind() == crate::ErrorKind::NotFound {
        return Error::not_found(format!("a file of snapshot {snapshot} is gone: {}", e.message())).clause("CDC-29");
    }
    e
}

fn sequence(d: &FileDiff) -> i64 {
    d.after.as_ref().or(d.before.as_ref()).and_then(|s| s.entry.sequence_number).unwrap_or(0)
}

fn by_path(entries: Vec<Arc<ManifestEntry>>) -> HashMap<String, Arc<ManifestEntry>> {
    entries.into_iter().map(|e| (normalize(&e.file.path), e)).collect()
}

fn by_key(entries: Vec<Arc<ManifestEntry>>) -> HashMap<FileKey, Arc<ManifestEntry>> {
    entries.into_iter().map(|e| (e.file.key(), e)).collect()
}

fn symmetric(a: &[Arc<ManifestEntry>], b: &[Arc<ManifestEntry>]) -> Vec<Arc<ManifestEntry>> {
    let keys = |v: &[Arc<ManifestEntry>]| -> HashSet<FileKey> { v.iter().map(|e| e.file.key()).collect() };
    let (ka, kb) = (keys(a), keys(b));
    a.iter()
        .filter(|e| !kb.contains(&e.file.key()))
        .chain(b.iter().filter(|e| !ka.contains(&e.file.key())))
        .cloned()
        .collect()
}

fn same_positions(a: &Deletes, b: &Deletes) -> bool {
    let dv = |d: &Deletes| d.dv.as_ref().map(|e| e.file.key());
    dv(a) == dv(b) && symmetric(&a.positions, &b.positions).is_empty()
}

/// Whether an equality delete can apply to a data file at all (SCAN-3, SCAN-4).
fn may_reach(delete: &ManifestEntry, data: &ManifestEntry, metadata: &Metadata) -> bool {
    let older = data.sequence_number.unwrap_or(0) < delete.sequence_number.unwrap_or(0);
    let place = metadata.is_unpartitioned(delete.file.spec_id)
        || (delete.file.spec_id == data.file.spec_id && delete.file.partition == data.file.partition);
    older && place
}

/// Whether the counts and bounds of the equality columns let a delete file hit a data file (SCAN-9); what is unknown may.
fn may_hit(delete: &ManifestEntry, data: &ManifestEntry, schema: &Schema) -> bool {
    let (Some(d), Some(f)) = (&delete.file.metrics, &data.file.metrics) else {
        return true;
    };
    for id in delete.file.equality_ids.iter().flatten() {
        let nulls = |m: &Metrics| Some((*m.null_value_counts.get(id)?, *m.value_counts.get(id)?));
        let (Some((delete_nulls, delete_values)), Some((data_nulls, data_values))) = (nulls(d), nulls(f)) else {
            continue;
        };
        if delete_nulls > 0 && data_nulls > 0 {
            continue;
        }
        if data_nulls == data_values && delete_nulls == 0 || delete_nulls == delete_values && data_nulls == 0 {
            return false;
        }
        let Some(Type::Primitive(ty)) = schema.field_by_id(*id).map(|f| f.field_type.as_ref()) else {
            continue;
        };
        let bound = |b: Option<&Vec<u8>>| b.and_then(|b| decode_bound(b, ty));
        let above = |low: Option<&Vec<u8>>, high: Option<&Vec<u8>>| match (bound(low), bound(high)) {
            (Some(l), Some(h)) => compare(&l, &h) == Some(std::cmp::Ordering::Greater),
            _ => false,
        };
        if above(d.lower_bounds.get(id), f.upper_bounds.get(id))
            || above(f.lower_bounds.get(id), d.upper_bounds.get(id))
        {
            return false;
        }
    }
    true
}
