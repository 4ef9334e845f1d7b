//! The delete index: built once a scan, asked once a data file.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use iceberg::spec::Struct;

use super::load::file_scope;
use crate::io::{normal, shared};
use crate::manifest::{Content, ManifestEntry};
use crate::table::Metadata;
use crate::{Error, Result};

/// The deletes that apply to one data file.
#[derive(Debug, Clone, Default)]
pub struct Deletes {
    /// Its deletion vector (SCAN-1); then no position-delete file counts (SCAN-2).
    pub dv: Option<Arc<ManifestEntry>>,
    /// Position-delete files that may name it (SCAN-2).
    pub positions: Vec<Arc<ManifestEntry>>,
    /// Equality-delete files (SCAN-3), on top of either (SCAN-6).
    pub equality: Vec<Arc<ManifestEntry>>,
}

impl Deletes {
    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.dv.is_none() && self.positions.is_empty() && self.equality.is_empty()
    }
}

/// Deletion vectors by the normalised path of their data file.
pub type Vectors = HashMap<Arc<str>, Arc<ManifestEntry>, RandomState>;

type PartitionKey = (i32, Arc<Struct>);

/// All live deletes of a snapshot, arranged for look-up by data file.
#[derive(Debug, Default)]
pub struct DeleteIndex {
    dvs: Vectors,
    positions_by_path: HashMap<Arc<str>, Vec<Arc<ManifestEntry>>>,
    positions: HashMap<PartitionKey, Vec<Arc<ManifestEntry>>>,
    equality: HashMap<PartitionKey, Vec<Arc<ManifestEntry>>>,
    equality_global: Vec<Arc<ManifestEntry>>,
}

impl DeleteIndex {
    /// Indexes the live entries of the delete manifests. Two live deletion vectors of one data file are refused (DV-2),
    /// and one that names no data file (DV-6).
    pub fn build(entries: impl IntoIterator<Item = Arc<ManifestEntry>>, metadata: &Metadata) -> Result<Self> {
        let mut index = Self::default();
        let entries = entries.into_iter();
        // where there are many deletes they are vectors
        index.dvs.reserve(entries.size_hint().0);
        for e in entries {
            if !e.is_live() {
                continue;
            }
            index.add(e, metadata)?;
        }
        Ok(index)
    }

    fn add(&mut self, e: Arc<ManifestEntry>, metadata: &Metadata) -> Result<()> {
        let f = &e.file;
        let partition = || (f.spec_id, f.partition.clone());
        match f.content {
            Content::Data => Err(Error::malformed("data file listed in a delete manifest").at(&f.path).clause("MAN-3")),
            Content::PositionDeletes if f.is_dv() => {
                let Some(path) = &f.referenced_data_file else {
                    return Err(Error::malformed(
                        "deletion vector without referenced_data_file; the field is required",
                    )
                    .at(&f.path)
                    .clause("DV-6"));
                };
                let key = shared(path);
                if let Some(old) = self.dvs.insert(key.clone(), e.clone()) {
                    return Err(Error::malformed(format!(
                        "two live deletion vectors for data file {key}: {}@{} and {}@{}; at most one is allowed",
                        old.file.path,
                        old.file.content_offset.unwrap_or(-1),
                        e.file.path,
                        e.file.content_offset.unwrap_or(-1)
                    ))
                    .at(&e.file.path)
                    .clause("DV-2"));
                }
                Ok(())
            }
            Content::PositionDeletes => {
                match &f.referenced_data_file {
                    Some(path) => {
                        self.positions_by_path.entry(shared(path)).or_default().push(e.clone());
                    }
                    None => self.positions.entry(partition()).or_default().push(e.clone()),
                }
                Ok(())
            }
            Content::EqualityDeletes => {
                // an unpartitioned delete is global, whatever id its spec has (SCAN-4)
                if f.partition.fields().is_empty() || metadata.is_unpartitioned(f.spec_id) {
                    self.equality_global.push(e);
                } else {
                    self.equality.entry(partition()).or_default().push(e);
                }
                Ok(())
            }
        }
    }

    /// Whether the snapshot has no delete at all.
    pub fn is_empty(&self) -> bool {
        self.dvs.is_empty()
            && self.positions_by_path.is_empty()
            && self.positions.is_empty()
            && self.equality.is_empty()
            && self.equality_global.is_empty()
    }

    /// All live delete entries.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        self.dvs
            .values()
            .chain(self.positions_by_path.values().flatten())
            .chain(self.positions.values().flatten())
            .chain(self.equality.values().flatten())
            .chain(&self.equality_global)
    }

    /// The deletion vectors, by normalised path of their data file.
    pub fn dvs(&self) -> &Vectors {
        &self.dvs
    }

    /// The deletes of a data file. Metadata that contradicts itself is refused (SCAN-8).
    pub fn for_file(&self, data: &ManifestEntry) -> Result<Deletes> {
        if self.is_empty() {
            return Ok(Deletes::default());
        }
        let path = normal(&data.file.path);
        let seq = data.sequence_number.unwrap_or(0);
        let same_partition =
            |d: &ManifestEntry| d.file.spec_id == data.file.spec_id && d.file.partition == data.file.partition;
        let mismatch = |d: &ManifestEntry| {
            Error::malformed(format!(
                "{} has spec {} and partition {:?}, but its data file {path} has spec {} and partition {:?}",
                d.file.path,
                d.file.spec_id,
                d.file.partition.fields(),
                data.file.spec_id,
                data.file.partition.fields()
            ))
            .at(&d.file.path)
            .clause("SCAN-8")
        };
        let mut out = Deletes::default();
        if let Some(dv) = self.dvs.get(&*path) {
            if dv.sequence_number.unwrap_or(0) < seq {
                return Err(Error::malformed(format!(
                    "deletion vector with sequence number {} is older than its data file {path} with {seq}",
                    dv.sequence_number.unwrap_or(0)
                ))
                .at(&dv.file.path)
                .clause("SCAN-8"));
            }
            if !same_partition(dv) {
                return Err(mismatch(dv));
            }
            out.dv = Some(dv.clone());
        } else {
            for d in self.positions_by_path.get(&*path).into_iter().flatten() {
                if d.sequence_number.unwrap_or(0) >= seq {
                    if !same_partition(d) {
                        return Err(mismatch(d));
                    }
                    out.positions.push(d.clone());
                }
            }
            let key = (data.file.spec_id, data.file.partition.clone());
            for d in self.positions.get(&key).into_iter().flatten() {
                if d.sequence_number.unwrap_or(0) >= seq && may_name(d, &path) {
                    out.positions.push(d.clone());
                }
            }
        }
        let key = (data.file.spec_id, data.file.partition.clone());
        for d in self.equality.get(&key).into_iter().flatten().chain(&self.equality_global) {
            // strictly newer only (SCAN-5)
            if d.sequence_number.unwrap_or(0) > seq {
                out.equality.push(d.clone());
            }
        }
        Ok(out)
    }

    /// Live V2 position-delete files that may name the data file, whether or not a deletion vector hides them; a writer
    /// folds these into the first deletion vector (DV-2) and removes those whose scope is this file alone (DV-14).
    pub fn position_files_of(&self, data: &ManifestEntry) -> Vec<Arc<ManifestEntry>> {
        let path = normal(&data.file.path);
        let key = (data.file.spec_id, data.file.partition.clone());
        let by_path = self.positions_by_path.get(&*path).into_iter().flatten();
        let by_partition = self.positions.get(&key).into_iter().flatten().filter(|d| may_name(d, &path));
        by_path
            .chain(by_partition)
            .filter(|d| d.sequence_number.unwrap_or(0) >= data.sequence_number.unwrap_or(0))
            .cloned()
            .collect()
    }
}

/// Whether a partition-scoped position-delete file may name the data file, by its `file_path` bounds. Bounds that can't be
/// right (lower above upper) are ignored rather than believed.
fn may_name(d: &ManifestEntry, path: &str) -> bool {
    if let Some(scope) = file_scope(&d.file)
        && normal(&scope) == path
    {
        return true;
    }
    let Some(m) = &d.file.metrics else { return true };
    let id = super::load::FILE_PATH_ID;
    let (Some(lo), Some(hi)) = (m.lower_bounds.get(&id), m.upper_bounds.get(&id)) else { return true };
    // bounds are of the path as written, which may carry a scheme that this one lacks
    let (Ok(lo), Ok(hi)) = (std::str::from_utf8(lo), std::str::from_utf8(hi)) else { return true };
    if lo > hi || lo.starts_with("file:") != hi.starts_with("file:") {
        return true;
    }
    // a truncated bound may cut inside the scheme: only whole prefixes can be normalised
    let (lo, hi) = (normal(lo), normal(hi));
    if !lo.starts_with('/') && path.starts_with('/') {
        return true;
    }
    &*lo <= path && path <= &*hi || path.starts_with(&*hi)
}
