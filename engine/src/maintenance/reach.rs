//! Which files snapshots reach.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{ManifestFile, SnapshotRef};

use super::orphans::Location;
use crate::manifest::{Content, load_manifest_list, load_manifests};
use crate::{Result, Table};

/// Manifests whose entries are held in memory at a time.
const BATCH: usize = 64;

/// Files by how a comparison spells them ([`Location`]); values are the locations as the table has them. A Puffin file stands once,
/// however many of its vectors are live: it is reached while one is (B5).
#[derive(Debug, Clone, Default)]
pub struct Reachable {
    /// Manifest lists.
    pub manifest_lists: BTreeMap<Location, String>,
    /// Manifests.
    pub manifests: BTreeMap<Location, ManifestFile>,
    /// Live data and delete files.
    pub content: BTreeMap<Location, (String, Content)>,
}

/// What the live entries of some snapshots reach; every manifest is read once. Manifests for which `skip` is true are
/// neither listed nor read.
pub async fn reachable<'s>(
    table: &Table,
    snapshots: impl IntoIterator<Item = &'s SnapshotRef>,
    skip: impl Fn(&Location) -> bool,
) -> Result<Reachable> {
    let mut out = Reachable::default();
    let mut seen: BTreeSet<i64> = BTreeSet::new();
    let mut fresh: Vec<ManifestFile> = Vec::new();
    for s in snapshots {
        if !seen.insert(s.snapshot_id()) {
            continue;
        }
        for m in load_manifest_list(table.io(), s).await? {
            let key = Location::of(&m.manifest_path);
            if !skip(&key) && !out.manifests.contains_key(&key) {
                out.manifests.insert(key, m.clone());
                fresh.push(m);
            }
        }
        out.manifest_lists.insert(Location::of(s.manifest_list()), s.manifest_list().to_string());
    }
    for some in fresh.chunks(BATCH) {
        for entries in load_manifests(table.io(), some, table.metadata()).await? {
            for e in entries.into_iter().filter(|e| e.is_live()) {
                let key = Location::of(&e.file.path);
                out.content.entry(key).or_insert_with(|| (e.file.path.to_string(), e.file.content));
            }
        }
    }
    Ok(out)
}
