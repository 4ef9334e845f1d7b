//! Delete files that apply to no live data file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use iceberg::spec::Struct;

use crate::commit::{Change, Producer, Validation, commit};
use crate::deletes::file_scope;
use crate::io::normalize;
use crate::manifest::{Content, DataFile, ManifestEntry, live_entries};
use crate::table::Metadata;
use crate::{Result, Table};

/// Removes delete files that apply to nothing in one `replace` snapshot; the number removed, which may be none.
///
/// Safe against concurrent commits: whatever they add is newer than every delete judged here, or takes the place of a
/// live file whose sequence number was looked at.
pub(super) async fn remove(table: &Table) -> Result<(Table, i64)> {
    let Some(start) = table.metadata().current_snapshot_id() else {
        return Ok((table.clone(), 0));
    };
    let (data, deletes) = live_entries(table, start).await?;
    let removed = find(&data, deletes, table.metadata());
    if removed.is_empty() {
        return Ok((table.clone(), 0));
    }
    let count = removed.len() as i64;
    let change = Change {
        removed,
        validation: Validation { from_snapshot: Some(start), removed_files_exist: true, ..Validation::default() },
        ..Change::new(Producer::Rewrite)
    };
    Ok((commit(table, change).await?.table, count))
}

/// The delete files among `deletes` that apply to none of `data` (SCAN-1..5).
fn find(data: &[ManifestEntry], deletes: Vec<ManifestEntry>, metadata: &Metadata) -> Vec<DataFile> {
    let paths: HashSet<String> = data.iter().map(|e| normalize(&e.file.path)).collect();
    let mut oldest: HashMap<(i32, Arc<Struct>), i64> = HashMap::new();
    for e in data {
        let s = e.sequence_number.unwrap_or(0);
        let at = oldest.entry((e.file.spec_id, e.file.partition.clone())).or_insert(s);
        *at = s.min(*at);
    }
    let oldest_of_all = oldest.values().min().copied();
    let applies = |e: &ManifestEntry| {
        let s = e.sequence_number.unwrap_or(0);
        let in_partition = oldest.get(&(e.file.spec_id, e.file.partition.clone())).copied();
        match e.file.content {
            // an unpartitioned equality delete is global (SCAN-4)
            Content::EqualityDeletes if metadata.is_unpartitioned(e.file.spec_id) => {
                oldest_of_all.is_some_and(|d| d < s)
            }
            Content::EqualityDeletes => in_partition.is_some_and(|d| d < s),
            _ if file_scope(&e.file).is_some_and(|p| !paths.contains(&normalize(&p))) => false,
            _ => in_partition.is_some_and(|d| d <= s),
        }
    };
    deletes.into_iter().filter(|e| !applies(e)).map(|e| e.file).collect()
}
