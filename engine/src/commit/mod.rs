//! Commits: what a change of a table's files becomes — operation, summary, manifests, row ids — and how it is made
//! current under concurrency (OP-*, SUMMARY-*, CONC-*, COMMIT-*).
//!
//! Callers hand over finished [`DataFile`]s in a [`Change`]; [`commit`] does the rest, with Java's choices.

mod apply;
mod history;
mod merge;
mod metadata;
mod rules;
mod run;
mod summary;
pub mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use iceberg::spec::{FormatVersion, MAIN_BRANCH, Operation, Struct};

pub use metadata::{update_metadata, update_metadata_and_types, update_metadata_seeing};
#[doc(hidden)]
pub use rules::Rule;
pub use run::{Committed, commit};

use crate::manifest::{Content, DataFile};
use crate::{Error, Result};

/// The kind of snapshot producer; it decides operation, merging and checks (OP-1..7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Producer {
    /// Adds data files in one manifest in front; every old manifest is kept as it is (OP-20).
    FastAppend,
    /// Adds data files and merges small manifests.
    MergeAppend,
    /// Adds and removes data and delete files row by row.
    RowDelta,
    /// Replaces data files by data files.
    Overwrite,
    /// Replaces whole partitions.
    ReplacePartitions,
    /// Removes data files.
    DeleteFiles,
    /// Replaces files without changing content: compaction, folding deletes (OP-12).
    Rewrite,
    /// Rewrites the manifests, no file changes.
    RewriteManifests,
}

/// Says which files an expression can touch; implemented by the expression module.
pub trait FileFilter: Send + Sync {
    /// Whether the file may hold a row that matches.
    fn may_match(&self, file: &DataFile) -> bool;

    /// Whether every row of the file matches for sure.
    fn must_match(&self, _file: &DataFile) -> bool {
        false
    }

    /// The expression as messages show it.
    fn describe(&self) -> String {
        "the filter".to_string()
    }
}

/// Removal that is declared by what it covers, not file by file; evaluated anew on every attempt.
#[derive(Clone, Default)]
pub enum Drop {
    /// Only the files in [`Change::removed`].
    #[default]
    Nothing,
    /// Data and delete files of these partitions: spec id and tuple.
    Partitions(Vec<(i32, Arc<Struct>)>),
    /// Data files all of whose rows match (a partial match is an error, DEL-22), delete files that lie inside.
    Filter(Arc<dyn FileFilter>),
    /// Every file.
    Everything,
}

impl std::fmt::Debug for Drop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Partitions(p) => f.debug_tuple("Partitions").field(p).finish(),
            Self::Filter(x) => f.debug_tuple("Filter").field(&x.describe()).finish(),
            Self::Everything => f.write_str("Everything"),
        }
    }
}

/// What must not have happened since the operation read the table (CONC-10..25). All checks run on every attempt.
#[derive(Clone, Default)]
pub struct Validation {
    /// Snapshot that the operation read; `None` = the table was empty, so the whole history is looked at.
    pub from_snapshot: Option<i64>,
    /// Conflict filter; `None` = everything conflicts.
    pub filter: Option<Arc<dyn FileFilter>>,
    /// Locations of data files that must not have been removed (CONC-11).
    pub data_files_exist: Vec<Arc<str>>,
    /// Every file to be removed must still be there (CONC-12).
    pub removed_files_exist: bool,
    /// No data file that may match was added (CONC-13, CONC-21).
    pub no_conflicting_data: bool,
    /// No delete that may match, or that applies to a removed data file, was added (CONC-14, CONC-22).
    pub no_conflicting_deletes: bool,
    /// Fail if anything would be removed (ReplacePartitions append only, CONC-23).
    pub append_only: bool,
    /// Checks that are not made: for the model checker, which shows what goes wrong without them.
    #[doc(hidden)]
    pub without: &'static [Rule],
}

impl std::fmt::Debug for Validation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validation")
            .field("from_snapshot", &self.from_snapshot)
            .field("filter", &self.filter.as_ref().map(|x| x.describe()))
            .field("data_files_exist", &self.data_files_exist.len())
            .field("removed_files_exist", &self.removed_files_exist)
            .field("no_conflicting_data", &self.no_conflicting_data)
            .field("no_conflicting_deletes", &self.no_conflicting_deletes)
            .field("append_only", &self.append_only)
            .finish()
    }
}

/// Isolation level of a row-level operation (PROP-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Concurrent data that may match makes the operation fail.
    #[default]
    Serializable,
    /// Concurrent new data is fine.
    Snapshot,
}

impl Isolation {
    /// From a property's value.
    pub fn parse(value: &str) -> Result<Self> {
        match value.to_ascii_lowercase().as_str() {
            "serializable" => Ok(Self::Serializable),
            "snapshot" => Ok(Self::Snapshot),
            _ => {
                Err(Error::invalid(format!("isolation level {value:?}; allowed: serializable, snapshot"))
                    .clause("PROP-3"))
            }
        }
    }
}

impl Validation {
    /// Whether a check is made.
    pub(crate) fn makes(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// Checks of a merge-on-read operation (CONC-30). `rewrites_rows`: UPDATE or MERGE, as opposed to DELETE.
    pub fn merge_on_read(
        isolation: Isolation,
        rewrites_rows: bool,
        from_snapshot: Option<i64>,
        filter: Option<Arc<dyn FileFilter>>,
        referenced: Vec<Arc<str>>,
    ) -> Self {
        Self {
            from_snapshot,
            filter,
            data_files_exist: referenced,
            removed_files_exist: rewrites_rows,
            no_conflicting_data: isolation == Isolation::Serializable,
            no_conflicting_deletes: rewrites_rows,
            ..Self::default()
        }
    }

    /// Checks of a copy-on-write operation (CONC-31).
    pub fn copy_on_write(
        isolation: Isolation,
        from_snapshot: Option<i64>,
        filter: Option<Arc<dyn FileFilter>>,
    ) -> Self {
        Self {
            from_snapshot,
            filter,
            removed_files_exist: true,
            no_conflicting_data: isolation == Isolation::Serializable,
            no_conflicting_deletes: true,
            ..Self::default()
        }
    }
}

/// One change of a table's files, to be committed as one snapshot.
#[derive(Debug, Clone)]
pub struct Change {
    /// Kind of producer.
    pub producer: Producer,
    /// Branch to commit to; one that does not exist starts at the head of `main` (META-33).
    pub branch: String,
    /// New data and delete files; they get the commit's sequence number.
    pub added: Vec<DataFile>,
    /// New files whose content is older than the commit, with their data sequence number (SEQ-2).
    pub added_at: Vec<(DataFile, i64)>,
    /// Files to remove, by [`crate::manifest::FileKey`].
    pub removed: Vec<DataFile>,
    /// Removal by partition or filter.
    pub drop: Drop,
    /// A removal was declared though it may list no file (OP-10): a delete by filter that matched nothing.
    pub declared_removal: bool,
    /// Concurrency checks.
    pub validation: Validation,
    /// Further summary keys.
    pub summary: Vec<(String, String)>,
    /// Data sequence number of all added data files (compaction with `use-starting-sequence-number`, CONC-26).
    pub data_sequence_number: Option<i64>,
}

impl Change {
    /// An empty change of `main`.
    pub fn new(producer: Producer) -> Self {
        Self {
            producer,
            branch: MAIN_BRANCH.to_string(),
            added: Vec::new(),
            added_at: Vec::new(),
            removed: Vec::new(),
            drop: Drop::Nothing,
            declared_removal: false,
            validation: Validation::default(),
            summary: Vec::new(),
            data_sequence_number: None,
        }
    }

    /// All added files.
    pub fn all_added(&self) -> impl Iterator<Item = &DataFile> {
        self.added.iter().chain(self.added_at.iter().map(|(f, _)| f))
    }

    /// Data files among the removed ones.
    pub fn removed_data(&self) -> impl Iterator<Item = &DataFile> {
        self.removed.iter().filter(|f| f.content == Content::Data)
    }

    fn declares_removed_data(&self) -> bool {
        self.declared_removal || !matches!(self.drop, Drop::Nothing) || self.removed_data().next().is_some()
    }

    /// The snapshot's operation (OP-1..13): by what the change declares, not by what it hits.
    pub fn operation(&self) -> Operation {
        let adds_data = self.all_added().any(|f| f.content == Content::Data);
        let adds_deletes = self.all_added().any(|f| f.content != Content::Data);
        let removes_data = self.declares_removed_data();
        match self.producer {
            Producer::FastAppend | Producer::MergeAppend => Operation::Append,
            Producer::RowDelta if adds_data && !adds_deletes && !removes_data => Operation::Append,
            Producer::RowDelta if adds_deletes && !adds_data => Operation::Delete,
            Producer::RowDelta => Operation::Overwrite,
            Producer::Overwrite if removes_data && !adds_data => Operation::Delete,
            Producer::Overwrite if adds_data && !removes_data => Operation::Append,
            Producer::Overwrite | Producer::ReplacePartitions => Operation::Overwrite,
            Producer::DeleteFiles => Operation::Delete,
            Producer::Rewrite | Producer::RewriteManifests => Operation::Replace,
        }
    }

    /// Refuses a change that is wrong by itself, whatever the table holds.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |m: String, id| Err(Error::invalid(m).clause(id));
        let added = self.added.len() + self.added_at.len();
        let has_removal = !self.removed.is_empty() || !matches!(self.drop, Drop::Nothing) || self.declared_removal;
        match self.producer {
            Producer::FastAppend | Producer::MergeAppend => {
                if has_removal {
                    return refuse("an append removes no files".into(), "OP-1");
                }
                if self.all_added().any(|f| f.content != Content::Data) {
                    return refuse("an append adds data files only".into(), "OP-1");
                }
            }
            Producer::DeleteFiles if added > 0 => {
                return refuse("a delete of files adds none".into(), "OP-6");
            }
            Producer::Overwrite | Producer::ReplacePartitions
                if self.all_added().any(|f| f.content != Content::Data) =>
            {
                return refuse("an overwrite adds data files only".into(), "OP-3");
            }
            Producer::Rewrite => self.check_rewrite()?,
            Producer::RewriteManifests if added > 0 || has_removal => {
                return refuse("rewriting manifests changes no files".into(), "OP-4");
            }
            _ => {}
        }
        validate::check_own_deletes(self)
    }

    fn check_rewrite(&self) -> Result<()> {
        let refuse = |m: &str, id| Err(Error::invalid(m.to_string()).clause(id));
        if self.removed.is_empty() {
            return refuse("Files to delete cannot be empty", "OP-12");
        }
        let rows = |data: bool, files: &mut dyn Iterator<Item = &DataFile>| {
            files.filter(|f| (f.content == Content::Data) == data).map(|f| i128::from(f.record_count)).sum::<i128>()
        };
        let removes_data = self.removed_data().next().is_some();
        let removes_deletes = self.removed.iter().any(|f| f.content != Content::Data);
        if !removes_data && self.all_added().any(|f| f.content == Content::Data) {
            return refuse("Data files to add must be empty because there's no data file to be rewritten", "OP-12");
        }
        if !removes_deletes && self.all_added().any(|f| f.content != Content::Data) {
            return refuse("Delete files to add must be empty because there's no delete file to be rewritten", "OP-12");
        }
        let (new, old) = (rows(true, &mut self.all_added()), rows(true, &mut self.removed.iter()));
        if new > old {
            return Err(Error::invalid(format!(
                "Invalid REPLACE operation: {new} added records > {old} replaced records"
            ))
            .clause("OP-11"));
        }
        Ok(())
    }

    /// Refuses files that the table's format version does not allow (DEL-5); asked on every attempt, since the table
    /// may have been upgraded meanwhile.
    pub(crate) fn check_version(&self, version: FormatVersion) -> Result<()> {
        for f in self.all_added().filter(|f| f.content != Content::Data) {
            let refuse = |m: &str| Err(Error::invalid(m.to_string()).at(&f.path).clause("DEL-5"));
            match version {
                FormatVersion::V1 => return refuse("Deletes are supported in V2 and above"),
                FormatVersion::V2 if f.is_dv() => {
                    return refuse("Must not use DVs for position deletes in V2");
                }
                FormatVersion::V3 if f.content == Content::PositionDeletes && !f.is_dv() => {
                    return refuse("Must use DVs for position deletes in V3");
                }
                _ => {}
            }
        }
        Ok(())
    }
}
