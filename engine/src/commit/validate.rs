//! Concurrency validation as a pure function over what concurrent snapshots did: no input or output happens here, so
//! a model checker can drive the very code that commits run (CONC-*).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use iceberg::spec::{FormatVersion, Operation};

use super::{Change, Drop, FileFilter, Producer, Rule};
use crate::manifest::{Content, DataFile, ManifestEntry, Status};
use crate::{Error, Result};

/// Field id of `file_path` in position delete files.
const DELETE_FILE_PATH: i32 = 2_147_483_546;

/// What one snapshot after the starting one did: the entries of the manifests that it wrote and that carry its id.
#[derive(Debug, Clone)]
pub struct Concurrent {
    /// Snapshot id.
    pub snapshot_id: i64,
    /// Its operation, which decides the checks that look at it (CONC-2..6).
    pub operation: Operation,
    /// Whether it gave row ids to its rows (LINEAGE-21).
    pub row_ids: bool,
    /// Its entries in data manifests.
    pub data: Vec<ManifestEntry>,
    /// Its entries in delete manifests.
    pub deletes: Vec<ManifestEntry>,
}

impl Concurrent {
    fn is(&self, operations: &[Operation]) -> bool {
        operations.contains(&self.operation)
    }
}

/// What [`validate`] needs to look at; loading is skipped for what no check reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Entries of data manifests.
    pub data: bool,
    /// Entries of delete manifests.
    pub deletes: bool,
}

/// Which history a change needs.
pub fn needs(change: &Change) -> Needs {
    let v = &change.validation;
    let rewrite = change.producer == Producer::Rewrite;
    Needs {
        data: v.no_conflicting_data
            || !v.data_files_exist.is_empty()
            || (v.no_conflicting_deletes && !matches!(change.drop, Drop::Nothing)),
        deletes: v.no_conflicting_deletes
            || (rewrite && change.removed_data().next().is_some())
            || change.all_added().any(DataFile::is_dv),
    }
}

/// Checks inside the change alone: two DVs for one data file (DV-2), a delete for a file that the same commit removes
/// (CONC-15), DVs without what a DV must have (DV-6, DV-7, DV-16).
pub fn check_own_deletes(change: &Change) -> Result<()> {
    let removed: HashSet<&str> = change.removed_data().map(|f| &*f.path).collect();
    let mut dvs: HashMap<&str, &str> = HashMap::new();
    for f in change.all_added().filter(|f| f.content != Content::Data) {
        let refuse = |m: String, id| Err(Error::invalid(m).at(&f.path).clause(id));
        if f.is_dv() {
            let Some(target) = f.referenced_data_file.as_deref() else {
                return refuse("deletion vector without referenced_data_file".into(), "DV-6");
            };
            if f.content_offset.is_none() || f.content_size.is_none() {
                return refuse("deletion vector without content offset and size".into(), "DEL-6");
            }
            if f.record_count <= 0 {
                return refuse(format!("deletion vector of cardinality {}", f.record_count), "DV-16");
            }
            if let Some(other) = dvs.insert(target, &f.path)
                && change.validation.makes(Rule::OneVectorPerCommit)
            {
                return refuse(
                    format!(
                        "two deletion vectors for data file {target} in one commit (the other is in {other}); merge them first"
                    ),
                    "DV-2",
                );
            }
        } else if f.content_offset.is_some() || f.content_size.is_some() {
            return refuse("only a deletion vector has a content offset and size".into(), "DEL-6");
        }
        if f.content == Content::EqualityDeletes && f.equality_ids.as_ref().is_none_or(Vec::is_empty) {
            return refuse("equality delete file without equality ids".into(), "MAN-D19");
        }
        if let Some(target) = f.referenced_data_file.as_deref().filter(|t| removed.contains(t))
            && change.validation.makes(Rule::NoDeleteOfRemoved)
        {
            return refuse(
                format!("Cannot delete data files [{target}] that are referenced by new delete files"),
                "CONC-15",
            );
        }
    }
    Ok(())
}

/// Runs the checks of a change against the snapshots between its starting snapshot (exclusive) and the branch head
/// (inclusive). `read_row_ids`: the rows that the operation read had ids. Errors are [`crate::ErrorKind::Conflict`] and
/// final (CONC-7).
pub fn validate(change: &Change, version: FormatVersion, read_row_ids: bool, history: &[Concurrent]) -> Result<()> {
    let v = &change.validation;
    if !v.data_files_exist.is_empty() && v.makes(Rule::DataFilesExist) {
        data_files_exist(change, history)?;
    }
    if v.no_conflicting_data && v.makes(Rule::NoAddedData) {
        no_added_data(change, history)?;
    }
    if version >= FormatVersion::V2 {
        match change.producer {
            Producer::Rewrite => {
                let only_positions = change.data_sequence_number.is_some();
                no_new_deletes_for(change, history, only_positions)?;
            }
            _ if v.no_conflicting_deletes => no_conflicting_deletes(change, history)?,
            _ => {}
        }
        no_concurrent_dv(change, history)?;
    }
    if version >= FormatVersion::V3 && !read_row_ids && v.makes(Rule::RowIdsAsRead) {
        no_new_row_ids(change, history)?;
    }
    Ok(())
}

/// The effective conflict test of a change: explicit filter, else what it drops by, else everything (CONC-21..23).
struct Scope<'c> {
    filter: Option<&'c Arc<dyn FileFilter>>,
    drop: &'c Drop,
}

impl<'c> Scope<'c> {
    fn of(change: &'c Change) -> Self {
        let by_file = !change.removed.is_empty();
        let whole = Self { filter: None, drop: &Drop::Nothing };
        match (&change.validation.filter, &change.drop) {
            (Some(f), _) => Self { filter: Some(f), drop: &Drop::Nothing },
            (None, Drop::Filter(_) | Drop::Partitions(_)) if !by_file => Self { filter: None, drop: &change.drop },
            _ => whole,
        }
    }

    fn conflicts(&self, f: &DataFile) -> bool {
        if let Some(filter) = self.filter {
            return filter.may_match(f);
        }
        match self.drop {
            Drop::Nothing | Drop::Everything => true,
            Drop::Filter(x) => x.may_match(f),
            Drop::Partitions(p) => in_partitions(p, f),
        }
    }

    fn describe(&self) -> String {
        match (self.filter, self.drop) {
            (Some(f), _) | (None, Drop::Filter(f)) => f.describe(),
            (None, Drop::Partitions(p)) => format!("partitions {p:?}"),
            _ => "true".to_string(),
        }
    }
}

/// Whether a file lies in one of the partitions; the spec id counts (SCAN-7).
pub(crate) fn in_partitions(partitions: &[(i32, Arc<iceberg::spec::Struct>)], f: &DataFile) -> bool {
    partitions.iter().any(|(spec, tuple)| *spec == f.spec_id && **tuple == *f.partition)
}

fn conflict(message: String, id: &'static str) -> Error {
    Error::conflict(message).clause(id)
}

fn data_files_exist(change: &Change, history: &[Concurrent]) -> Result<()> {
    use Operation::{Delete, Overwrite, Replace};
    let v = &change.validation;
    let required: HashSet<&str> = v.data_files_exist.iter().map(|p| &**p).collect();
    // a vector for a file that is gone would stay behind (DV-4); position deletes may
    let adds_vectors = change.all_added().any(DataFile::is_dv);
    let dropped = (v.removed_files_exist || adds_vectors) && v.makes(Rule::DataFilesNotDropped);
    let operations: &[Operation] = if dropped { &[Overwrite, Replace, Delete] } else { &[Overwrite, Replace] };
    let gone: Vec<&str> = history
        .iter()
        .filter(|s| s.is(operations))
        .flat_map(|s| &s.data)
        .filter(|e| e.status == Status::Deleted)
        .map(|e| &*e.file.path)
        .filter(|p| required.contains(p))
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    Err(conflict(format!("Cannot commit, missing data files: {}", gone.join(", ")), "CONC-11"))
}

fn no_added_data(change: &Change, history: &[Concurrent]) -> Result<()> {
    let scope = Scope::of(change);
    let found = history
        .iter()
        .filter(|s| s.is(&[Operation::Append, Operation::Overwrite]))
        .flat_map(|s| &s.data)
        .find(|e| e.status == Status::Added && scope.conflicts(&e.file));
    match found {
        None => Ok(()),
        Some(e) => Err(conflict(
            format!("Found conflicting files that can contain records matching {}: {}", scope.describe(), e.file.path),
            if change.producer == Producer::RowDelta { "CONC-13" } else { "CONC-21" },
        )),
    }
}

/// Deletes that concurrent snapshots added (CONC-5).
fn added_deletes(history: &[Concurrent]) -> impl Iterator<Item = &DataFile> {
    history
        .iter()
        .filter(|s| s.is(&[Operation::Overwrite, Operation::Delete]))
        .flat_map(|s| &s.deletes)
        .filter(|e| e.status == Status::Added)
        .map(|e| &e.file)
}

fn no_conflicting_deletes(change: &Change, history: &[Concurrent]) -> Result<()> {
    no_new_deletes_for(change, history, false)?;
    // an overwrite of listed files only cares for deletes of those files; a row delta and a drop for all in scope
    let by_filter = !matches!(change.drop, Drop::Nothing);
    if change.producer != Producer::RowDelta && !by_filter {
        return Ok(());
    }
    let scope = Scope::of(change);
    if change.validation.makes(Rule::NoDeletesInScope)
        && let Some(f) = added_deletes(history).find(|f| scope.conflicts(f))
    {
        return Err(conflict(
            format!(
                "Found new conflicting delete files that can apply to records matching {}: {}",
                scope.describe(),
                f.path
            ),
            if change.producer == Producer::RowDelta { "CONC-14" } else { "CONC-22" },
        ));
    }
    if by_filter && change.producer != Producer::RowDelta && change.validation.makes(Rule::NothingGoneInScope) {
        use Operation::{Delete, Overwrite, Replace};
        let gone = history
            .iter()
            .filter(|s| s.is(&[Overwrite, Replace, Delete]))
            .flat_map(|s| &s.data)
            .find(|e| e.status == Status::Deleted && scope.conflicts(&e.file));
        if let Some(e) = gone {
            return Err(conflict(
                format!(
                    "Found conflicting deleted files that can contain records matching {}: {}",
                    scope.describe(),
                    e.file.path
                ),
                "CONC-22",
            ));
        }
    }
    Ok(())
}

/// No concurrent delete applies to a data file that this change removes (CONC-14, CONC-22, CONC-25).
fn no_new_deletes_for(change: &Change, history: &[Concurrent], only_positions: bool) -> Result<()> {
    let removed: Vec<&DataFile> = change.removed_data().collect();
    if removed.is_empty() || !change.validation.makes(Rule::NoDeletesForReplaced) {
        return Ok(());
    }
    for delete in added_deletes(history) {
        if only_positions && delete.content == Content::EqualityDeletes {
            continue;
        }
        if let Some(f) = removed.iter().find(|f| may_apply(delete, f)) {
            let (kind, clause) = match change.producer {
                Producer::Rewrite if only_positions => ("position delete", "CONC-25"),
                Producer::Rewrite => ("delete", "CONC-25"),
                Producer::RowDelta => ("delete", "CONC-14"),
                _ => ("delete", "CONC-22"),
            };
            return Err(conflict(
                format!("Cannot commit, found new {kind} for replaced data file: {} ({})", f.path, delete.path),
                clause,
            ));
        }
    }
    Ok(())
}

/// Whether a delete file that is newer than the data file may apply to it (SCAN-1..4).
fn may_apply(delete: &DataFile, data: &DataFile) -> bool {
    if let Some(target) = &delete.referenced_data_file {
        return **target == *data.path;
    }
    let same_partition = delete.spec_id == data.spec_id && delete.partition == data.partition;
    match delete.content {
        // a tuple of nulls may be one of `void` fields only, which makes the delete global; without the spec at hand it counts
        Content::EqualityDeletes => same_partition || delete.partition.fields().iter().all(Option::is_none),
        _ => same_partition && path_in_bounds(delete, &data.path),
    }
}

/// Position deletes are for a file only if its path is within the bounds; unusable bounds exclude nothing (case B8).
fn path_in_bounds(delete: &DataFile, path: &str) -> bool {
    let Some(m) = &delete.metrics else {
        return true;
    };
    match (m.lower_bounds.get(&DELETE_FILE_PATH), m.upper_bounds.get(&DELETE_FILE_PATH)) {
        (Some(low), Some(high)) if low <= high => {
            low.as_slice() <= path.as_bytes() && path.as_bytes() <= high.as_slice()
        }
        _ => true,
    }
}

/// Rows that were read without ids, right after an upgrade, are not moved once a concurrent commit has given them ids: the
/// moved rows would get others (LINEAGE-11).
fn no_new_row_ids(change: &Change, history: &[Concurrent]) -> Result<()> {
    let adds = change.all_added().any(|f| f.content == Content::Data);
    let moves = change.removed_data().next().is_some() || change.all_added().any(|f| f.content != Content::Data);
    match history.iter().find(|s| s.row_ids) {
        Some(s) if adds && moves => Err(conflict(
            format!("Snapshot {} gave ids to rows that were read without; read them again", s.snapshot_id),
            "LINEAGE-11",
        )),
        _ => Ok(()),
    }
}

/// A concurrent DV for a data file that this change gives a DV (CONC-16), for every producer (CONC-17). The conflict
/// filter is not asked: one that is too narrow would leave two live DVs.
fn no_concurrent_dv(change: &Change, history: &[Concurrent]) -> Result<()> {
    let ours: HashSet<&str> =
        change.all_added().filter(|f| f.is_dv()).filter_map(|f| f.referenced_data_file.as_deref()).collect();
    if ours.is_empty() || !change.validation.makes(Rule::NoConcurrentVector) {
        return Ok(());
    }
    let theirs = history
        .iter()
        .filter(|s| s.is(&[Operation::Overwrite, Operation::Delete, Operation::Replace]))
        .flat_map(|s| &s.deletes)
        .filter(|e| e.status == Status::Added && e.file.is_dv())
        .find_map(|e| e.file.referenced_data_file.as_deref().filter(|t| ours.contains(t)));
    match theirs {
        None => Ok(()),
        Some(target) => Err(conflict(format!("Found concurrently added DV for {target}"), "CONC-16")),
    }
}
