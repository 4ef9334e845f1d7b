//! Applying a change to a branch head: filter the old manifests, add the new ones, merge (OP-20..23, DEL-20, DEL-21).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use iceberg::spec::{ManifestContentType, ManifestFile, PrimitiveType, Struct};

use super::merge::{Bin, MergeSettings, merged_entries, plan, weight};
use super::summary::Summary;
use super::validate::in_partitions;
use super::{Change, Drop, Producer, Rule};
use crate::manifest::{
    Content, DataFile, FileKey, ManifestEntry, ManifestTarget, Status, UNASSIGNED_SEQUENCE, load_manifests, may_hold,
    partition_type, primitive_types, write_manifest,
};
use crate::{Error, Result, Table};

/// Entries of one new manifest at most, so that a huge change gives several.
const MAX_ENTRIES: usize = 100_000;

/// A manifest of this commit, encoded but not stored yet: it may still be merged away.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) file: ManifestFile,
    pub(crate) bytes: Bytes,
    pub(crate) entries: Vec<ManifestEntry>,
}

/// A manifest of the new snapshot.
#[derive(Debug, Clone)]
pub(crate) enum Manifest {
    Old(ManifestFile),
    New(Draft),
}

impl Manifest {
    fn file(&self) -> &ManifestFile {
        match self {
            Self::Old(f) => f,
            Self::New(d) => &d.file,
        }
    }
}

/// The outcome of applying a change.
pub(crate) struct Applied {
    /// Manifests of the snapshot, in list order.
    pub(crate) manifests: Vec<Manifest>,
    /// Summary keys, manifest counts included, totals not.
    pub(crate) summary: Vec<(String, String)>,
}

/// Per spec: the types of its fields, and tuples.
type Reach = HashMap<i32, (Vec<PrimitiveType>, Vec<Arc<Struct>>)>;

/// Tuples that are compared with a manifest's bounds at most; beyond that it is opened.
const MAX_TUPLES: usize = 1000;

fn reaches(reach: &Reach, m: &ManifestFile) -> bool {
    reach
        .get(&m.partition_spec_id)
        .is_some_and(|(types, tuples)| tuples.len() > MAX_TUPLES || tuples.iter().any(|t| may_hold(m, types, t)))
}

/// Everything that is fixed during one attempt.
pub(crate) struct Context<'a> {
    pub(crate) table: &'a Table,
    pub(crate) change: &'a Change,
    pub(crate) snapshot_id: i64,
    /// Manifests of the branch head.
    pub(crate) parent: Vec<ManifestFile>,
}

fn has_live(m: &ManifestFile) -> bool {
    m.has_added_files() || m.has_existing_files()
}

impl Context<'_> {
    fn draft(&self, content: ManifestContentType, spec_id: i32, entries: Vec<ManifestEntry>) -> Result<Draft> {
        let target = ManifestTarget::new(self.table.metadata(), spec_id, content)?;
        // the path is given when it is known that the draft is stored
        let (bytes, file) = write_manifest(&target, "", self.snapshot_id, &entries)?;
        Ok(Draft { file, bytes, entries })
    }

    /// Added files as entries, per spec ascending, in the order given; a file given twice counts once (SUMMARY-42).
    fn new_manifests(&self, content: ManifestContentType, summary: &mut Summary<'_>) -> Result<Vec<Manifest>> {
        let change = self.change;
        let mut seen: HashSet<FileKey> = HashSet::new();
        let mut by_spec: BTreeMap<i32, Vec<ManifestEntry>> = BTreeMap::new();
        let plain = change.added.iter().map(|f| (f, None));
        let dated = change.added_at.iter().map(|(f, s)| (f, Some(*s)));
        for (f, sequence) in plain.chain(dated) {
            let is_data = f.content == Content::Data;
            if is_data != (content == ManifestContentType::Data) || !seen.insert(f.key()) {
                continue;
            }
            summary.add(f);
            let mut file = f.clone();
            // ids are given at commit, never by the caller (FRID-1, FRID-10)
            file.first_row_id = None;
            by_spec.entry(f.spec_id).or_default().push(ManifestEntry {
                status: Status::Added,
                snapshot_id: Some(self.snapshot_id),
                sequence_number: sequence.or(if is_data { change.data_sequence_number } else { None }),
                file_sequence_number: None,
                file,
            });
        }
        let mut out = Vec::new();
        for (spec, mut entries) in by_spec {
            while !entries.is_empty() {
                let rest = entries.split_off(entries.len().min(MAX_ENTRIES));
                out.push(Manifest::New(self.draft(content, spec, std::mem::replace(&mut entries, rest))?));
            }
        }
        Ok(out)
    }

    fn base(&self, content: ManifestContentType) -> Vec<ManifestFile> {
        self.parent.iter().filter(|m| m.content == content).cloned().collect()
    }

    /// The partitions of some files, to tell which manifests may hold them.
    fn reach<'f>(&self, files: impl Iterator<Item = &'f DataFile>) -> Result<Reach> {
        let mut out: Reach = HashMap::new();
        for f in files {
            if let std::collections::hash_map::Entry::Vacant(e) = out.entry(f.spec_id) {
                let ty = partition_type(self.table.metadata(), f.spec_id)?;
                e.insert((primitive_types(&ty)?, Vec::new()));
            }
            if let Some((_, tuples)) = out.get_mut(&f.spec_id)
                && tuples.last().is_none_or(|t| **t != *f.partition)
            {
                tuples.push(f.partition.clone());
            }
        }
        Ok(out)
    }

    /// Rewrites the manifests that hold a file to remove; gives the others back as they are.
    ///
    /// `test` sees the live entries of one manifest and says which go.
    async fn filter(
        &self,
        manifests: Vec<ManifestFile>,
        can_contain: impl Fn(&ManifestFile) -> bool,
        mut test: impl FnMut(&[ManifestEntry]) -> Result<Vec<bool>>,
        summary: &mut Summary<'_>,
    ) -> Result<(Vec<Manifest>, usize)> {
        let open: Vec<ManifestFile> = manifests.iter().filter(|m| has_live(m) && can_contain(m)).cloned().collect();
        let mut loaded: HashMap<String, Vec<ManifestEntry>> = HashMap::with_capacity(open.len());
        for (m, entries) in open.iter().zip(load_manifests(self.table.io(), &open, self.table.metadata()).await?) {
            loaded.insert(m.manifest_path.clone(), entries);
        }
        let mut replaced = 0;
        let mut out = Vec::with_capacity(manifests.len());
        for m in manifests {
            let Some(mut entries) = loaded.remove(&m.manifest_path) else {
                out.push(Manifest::Old(m));
                continue;
            };
            entries.retain(ManifestEntry::is_live);
            let gone = test(&entries).map_err(|e| e.at(&m.manifest_path))?;
            if !gone.contains(&true) {
                out.push(Manifest::Old(m));
                continue;
            }
            if self.change.validation.append_only && self.change.validation.makes(Rule::AppendOnly) {
                return Err(Error::conflict("Operation would delete existing data")
                    .at(&m.manifest_path)
                    .clause("CONC-23"));
            }
            let mut seen: HashSet<FileKey> = HashSet::new();
            for (e, gone) in entries.iter_mut().zip(gone) {
                if gone {
                    e.status = Status::Deleted;
                    e.snapshot_id = Some(self.snapshot_id);
                    if seen.insert(e.file.key()) {
                        summary.remove(&e.file);
                    } else {
                        summary.duplicate();
                    }
                } else {
                    e.status = Status::Existing;
                }
            }
            replaced += 1;
            out.push(Manifest::New(self.draft(m.content, m.partition_spec_id, entries)?));
        }
        Ok((out, replaced))
    }

    /// Whether the change's declared drop takes this file (DEL-22).
    fn dropped(&self, f: &DataFile) -> Result<bool> {
        match &self.change.drop {
            Drop::Nothing => Ok(false),
            Drop::Everything => Ok(true),
            Drop::Partitions(p) => Ok(in_partitions(p, f)),
            Drop::Filter(x) => {
                if x.must_match(f) {
                    return Ok(true);
                }
                if f.content == Content::Data && x.may_match(f) {
                    return Err(Error::invalid(format!(
                        "Cannot delete file where some, but not all, rows match filter {}: {}",
                        x.describe(),
                        f.path
                    ))
                    .clause("DEL-22"));
                }
                Ok(false)
            }
        }
    }

    /// Fails when a file that the change removes by name is not there (CONC-12).
    fn require_found(&self, removed: &HashSet<FileKey>, found: &HashSet<FileKey>) -> Result<()> {
        let v = &self.change.validation;
        let strict = v.removed_files_exist
            || match self.change.producer {
                Producer::Rewrite => true,
                Producer::Overwrite => v.no_conflicting_data || v.no_conflicting_deletes,
                _ => false,
            };
        if !strict || !v.makes(Rule::RemovedFilesExist) {
            return Ok(());
        }
        let mut missing: Vec<&str> = removed.difference(found).map(|k| &*k.path).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        Err(Error::conflict(format!("Missing required files to delete: {}", missing.join(","))).clause("CONC-12"))
    }

    /// Manifests and summary of the new snapshot.
    pub(crate) async fn apply(&self) -> Result<Applied> {
        let mut summary = Summary::new(self.table.metadata());
        let (manifests, replaced) = match self.change.producer {
            Producer::FastAppend => {
                let mut manifests = self.new_manifests(ManifestContentType::Data, &mut summary)?;
                // every old manifest stays, also one that holds only DELETED entries (case C11)
                manifests.extend(self.parent.iter().cloned().map(Manifest::Old));
                (manifests, 0)
            }
            Producer::RewriteManifests => return self.rewrite_manifests().await,
            _ => self.merging(&mut summary).await?,
        };
        let mut properties = summary.properties()?;
        self.count_manifests(&manifests, replaced, &mut properties);
        Ok(Applied { manifests, summary: properties })
    }

    fn count_manifests(&self, manifests: &[Manifest], replaced: usize, to: &mut Vec<(String, String)>) {
        let created = manifests.iter().filter(|m| matches!(m, Manifest::New(_))).count();
        to.push(("manifests-created".into(), created.to_string()));
        to.push(("manifests-kept".into(), (manifests.len() - created).to_string()));
        to.push(("manifests-replaced".into(), replaced.to_string()));
    }

    async fn merging(&self, summary: &mut Summary<'_>) -> Result<(Vec<Manifest>, usize)> {
        let change = self.change;
        let removed: HashSet<FileKey> = change.removed.iter().map(DataFile::key).collect();
        let removed_data = self.reach(change.removed_data())?;
        let drops = !matches!(change.drop, Drop::Nothing);
        let mut found: HashSet<FileKey> = HashSet::new();

        let new_data = self.new_manifests(ManifestContentType::Data, summary)?;
        let mut gone_paths: HashSet<Arc<str>> = change.removed_data().map(|f| f.path.clone()).collect();
        let (data, replaced_data) = self
            .filter(
                self.base(ManifestContentType::Data),
                |m| drops || reaches(&removed_data, m),
                |entries| {
                    entries
                        .iter()
                        .map(|e| {
                            let key = e.file.key();
                            let hit = removed.contains(&key) || self.dropped(&e.file)?;
                            if hit {
                                gone_paths.insert(e.file.path.clone());
                                found.insert(key);
                            }
                            Ok(hit)
                        })
                        .collect()
                },
                summary,
            )
            .await?;

        let new_deletes = self.new_manifests(ManifestContentType::Deletes, summary)?;
        let min_sequence = data
            .iter()
            .map(|m| m.file().min_sequence_number)
            .filter(|s| *s != UNASSIGNED_SEQUENCE)
            .fold(self.table.metadata().last_sequence_number(), i64::min);
        // Java opens only the manifests of listed delete files when it knows them from a scan; only otherwise does a
        // removal of data files also sweep out delete files that are older than all data (DEL-21)
        let lists_deletes = change.removed.iter().any(|f| f.content != Content::Data);
        let sweeps = !gone_paths.is_empty() && (!lists_deletes || drops || change.declared_removal);
        let our_dvs: HashSet<&str> =
            change.all_added().filter(|f| f.is_dv()).filter_map(|f| f.referenced_data_file.as_deref()).collect();
        // DVs of removed data files and delete files that are named or replaced lie in their files' partitions
        let touched = change.removed.iter().chain(change.all_added().filter(|f| f.is_dv()));
        let touched = self.reach(touched)?;
        let opens_all = drops || sweeps;
        let (deletes, replaced_deletes) = self
            .filter(
                self.base(ManifestContentType::Deletes),
                |m| opens_all || reaches(&touched, m),
                |entries| {
                    let is_old = |e: &ManifestEntry| e.sequence_number.is_some_and(|s| 0 < s && s < min_sequence);
                    let mut hits = Vec::with_capacity(entries.len());
                    for e in entries {
                        let key = e.file.key();
                        let orphan = e.file.is_dv()
                            && change.validation.makes(Rule::VectorsGoWithFiles)
                            && e.file.referenced_data_file.as_ref().is_some_and(|p| gone_paths.contains(p));
                        let hit = removed.contains(&key) || orphan || self.dropped(&e.file)?;
                        if hit {
                            found.insert(key);
                        } else if e.file.is_dv()
                            && let Some(target) = e.file.referenced_data_file.as_deref()
                            && our_dvs.contains(target)
                            && change.validation.makes(Rule::OldVectorReplaced)
                        {
                            return Err(Error::conflict(format!(
                                "data file {target} has a deletion vector in {} that this commit does not replace",
                                e.file.path
                            ))
                            .clause("DV-2"));
                        }
                        hits.push(hit);
                    }
                    if hits.contains(&true) || sweeps {
                        for (hit, e) in hits.iter_mut().zip(entries) {
                            if is_old(e) {
                                *hit = true;
                                found.insert(e.file.key());
                            }
                        }
                    }
                    Ok(hits)
                },
                summary,
            )
            .await?;
        self.require_found(&removed, &found)?;

        // a manifest without live files stays only in the snapshot that wrote it (ML-33)
        let keep = |m: &Manifest| has_live(m.file()) || m.file().added_snapshot_id == self.snapshot_id;
        let data: Vec<_> = new_data.into_iter().chain(data).filter(keep).collect();
        let deletes: Vec<_> = new_deletes.into_iter().chain(deletes).filter(keep).collect();
        let settings = MergeSettings::of(self.table.metadata().properties())?;
        let (mut out, merged_data) = self.merge(ManifestContentType::Data, data, &settings).await?;
        let (deletes, merged_deletes) = self.merge(ManifestContentType::Deletes, deletes, &settings).await?;
        out.extend(deletes);
        Ok((out, replaced_data + replaced_deletes + merged_data + merged_deletes))
    }

    async fn merge(
        &self,
        content: ManifestContentType,
        manifests: Vec<Manifest>,
        settings: &MergeSettings,
    ) -> Result<(Vec<Manifest>, usize)> {
        let weights: Vec<_> = manifests.iter().map(weight).collect();
        let mut slots: Vec<Option<Manifest>> = manifests.into_iter().map(Some).collect();
        let mut out = Vec::with_capacity(slots.len());
        let mut replaced = 0;
        for bin in plan(&weights, settings) {
            match bin {
                Bin::Keep(i) => out.extend(slots[i].take()),
                Bin::Merge(bin) => {
                    replaced += bin.len();
                    let spec = weights[bin[0]].0;
                    let parts: Vec<Manifest> = bin.iter().filter_map(|i| slots[*i].take()).collect();
                    let entries = merged_entries(self.entries(parts).await?, self.snapshot_id);
                    out.push(Manifest::New(self.draft(content, spec, entries)?));
                }
            }
        }
        Ok((out, replaced))
    }

    async fn entries(&self, parts: Vec<Manifest>) -> Result<Vec<Vec<ManifestEntry>>> {
        let old: Vec<ManifestFile> =
            parts.iter().filter_map(|m| if let Manifest::Old(f) = m { Some(f.clone()) } else { None }).collect();
        let mut loaded = load_manifests(self.table.io(), &old, self.table.metadata()).await?.into_iter();
        Ok(parts
            .into_iter()
            .map(|m| match m {
                Manifest::Old(_) => loaded.next().unwrap_or_default(),
                Manifest::New(d) => d.entries,
            })
            .collect())
    }

    /// Packs the live entries of all manifests of each spec and content anew; a group of one manifest stays.
    async fn rewrite_manifests(&self) -> Result<Applied> {
        let settings =
            MergeSettings { min_count: 1, enabled: true, ..MergeSettings::of(self.table.metadata().properties())? };
        let mut manifests = Vec::new();
        let (mut replaced, mut processed) = (0, 0);
        for content in [ManifestContentType::Data, ManifestContentType::Deletes] {
            let base: Vec<_> = self.base(content).into_iter().filter(has_live).map(Manifest::Old).collect();
            let (out, n) = self.merge(content, base, &settings).await?;
            replaced += n;
            for m in &out {
                if let Manifest::New(d) = m {
                    processed += d.entries.len();
                }
            }
            manifests.extend(out);
        }
        let mut summary = vec![("entries-processed".to_string(), processed.to_string())];
        self.count_manifests(&manifests, replaced, &mut summary);
        Ok(Applied { manifests, summary })
    }
}
