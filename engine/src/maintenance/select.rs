//! Choice of files and their grouping (bin-pack).

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::Struct;

use super::options::SizeOptions;
use crate::manifest::{DataFile, ManifestEntry};

/// Files of one partition that are rewritten together.
#[derive(Debug)]
pub(super) struct Group<T> {
    /// The files, in manifest order.
    pub(super) files: Vec<T>,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// Bytes of a file as planning counts them.
pub(super) fn size(f: &DataFile) -> u64 {
    u64::try_from(f.summary_size()).unwrap_or(0)
}

/// Groups candidates by partition, in order of first appearance, and packs each partition into groups of at most
/// `max_group` bytes. Files of another spec than `spec` form one group: their partitions do not exist any more.
pub(super) fn pack<T>(
    candidates: impl IntoIterator<Item = T>,
    sizes: &SizeOptions,
    spec: Option<i32>,
    entry: impl Fn(&T) -> &ManifestEntry,
) -> Vec<Group<T>> {
    let mut order: HashMap<(i32, Option<Arc<Struct>>), usize> = HashMap::new();
    let mut partitions: Vec<Vec<Group<T>>> = Vec::new();
    for c in candidates {
        let f = &entry(&c).file;
        let key = match spec {
            Some(s) if s != f.spec_id => (s, None),
            _ => (f.spec_id, Some(f.partition.clone())),
        };
        let at = *order.entry(key).or_insert_with(|| {
            partitions.push(Vec::new());
            partitions.len() - 1
        });
        let bytes = size(f);
        let groups = &mut partitions[at];
        match groups.last_mut() {
            Some(g) if g.bytes.saturating_add(bytes) <= sizes.max_group => {
                g.bytes += bytes;
                g.files.push(c);
            }
            _ => groups.push(Group { files: vec![c], bytes }),
        }
    }
    partitions.into_iter().flatten().collect()
}
