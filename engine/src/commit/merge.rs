//! Merging small manifests (OP-21, OP-22).

use std::collections::BTreeMap;

use iceberg::spec::ManifestFile;

use super::apply::{Draft, Manifest};
use crate::manifest::{ManifestEntry, Status};
use crate::{Error, Result};

/// Settings of `commit.manifest*` (PROP-27).
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeSettings {
    pub(crate) target_size: i64,
    pub(crate) min_count: usize,
    pub(crate) enabled: bool,
}

impl MergeSettings {
    pub(crate) fn of(properties: &std::collections::HashMap<String, String>) -> Result<Self> {
        let number = |key: &str, default: i64| match properties.get(key) {
            None => Ok(default),
            Some(v) => v
                .trim()
                .parse::<i64>()
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| Error::invalid(format!("{v:?} is not a positive number")).at(key).clause("PROP-27")),
        };
        let enabled = match properties.get("commit.manifest-merge.enabled").map(|v| v.to_ascii_lowercase()).as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(v) => {
                return Err(Error::invalid(format!("{v:?}; allowed: true, false"))
                    .at("commit.manifest-merge.enabled")
                    .clause("PROP-27"));
            }
        };
        Ok(Self {
            target_size: number("commit.manifest.target-size-bytes", 8 << 20)?,
            min_count: number("commit.manifest.min-count-to-merge", 100)? as usize,
            enabled,
        })
    }
}

/// What becomes of the manifests: kept ones one by one, or several merged into one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bin {
    Keep(usize),
    Merge(Vec<usize>),
}

/// Plans the merge of manifests given as (spec id, length), in list order: by spec, newest spec first, packed from
/// the end so that the under-filled bin is the newest; the bin of the very first manifest waits for `min_count`.
pub(crate) fn plan(manifests: &[(i32, i64)], settings: &MergeSettings) -> Vec<Bin> {
    if !settings.enabled {
        return (0..manifests.len()).map(Bin::Keep).collect();
    }
    let mut groups: BTreeMap<std::cmp::Reverse<i32>, Vec<usize>> = BTreeMap::new();
    for (i, m) in manifests.iter().enumerate() {
        groups.entry(std::cmp::Reverse(m.0)).or_default().push(i);
    }
    let mut out = Vec::new();
    for group in groups.into_values() {
        let mut bins: Vec<Vec<usize>> = Vec::new();
        let mut weight = 0;
        for i in group.into_iter().rev() {
            let len = manifests[i].1;
            match bins.last_mut() {
                Some(bin) if weight + len <= settings.target_size => {
                    bin.push(i);
                    weight += len;
                }
                _ => {
                    bins.push(vec![i]);
                    weight = len;
                }
            }
        }
        for mut bin in bins.into_iter().rev() {
            bin.reverse();
            let waits = bin.contains(&0) && bin.len() < settings.min_count;
            if bin.len() == 1 || waits {
                out.extend(bin.into_iter().map(Bin::Keep));
            } else {
                out.push(Bin::Merge(bin));
            }
        }
    }
    out
}

/// Entries of merged manifests: own DELETED and ADDED stay, older DELETED go, older ADDED become EXISTING (OP-22).
/// Row ids that were read or stored stay with their file (FRID-3, FRID-11).
pub(crate) fn merged_entries(
    parts: impl IntoIterator<Item = Vec<ManifestEntry>>,
    snapshot_id: i64,
) -> Vec<ManifestEntry> {
    let mut out = Vec::new();
    for mut e in parts.into_iter().flatten() {
        let own = e.snapshot_id == Some(snapshot_id);
        match e.status {
            Status::Deleted if !own => continue,
            Status::Added if !own => e.status = Status::Existing,
            _ => {}
        }
        out.push(e);
    }
    out
}

/// Length that packing goes by.
pub(crate) fn weight(m: &Manifest) -> (i32, i64) {
    match m {
        Manifest::Old(f) => spec_and_length(f),
        Manifest::New(Draft { file, .. }) => spec_and_length(file),
    }
}

fn spec_and_length(f: &ManifestFile) -> (i32, i64) {
    (f.partition_spec_id, f.manifest_length)
}
