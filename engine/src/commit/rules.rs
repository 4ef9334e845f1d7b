//! The concurrency checks by name, so that the model checker can switch one off and show what it is good for.

/// A check that a commit makes. Tests alone name these; commits make all of them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// One deletion vector for a data file in one commit (DV-2).
    OneVectorPerCommit,
    /// No delete for a data file that the same commit removes (CONC-15).
    NoDeleteOfRemoved,
    /// The format version allows the delete files on every attempt (DEL-5).
    VersionOnAttempt,
    /// The walk back to the starting snapshot must meet it (CONC-7, CONC-10).
    KnownHistory,
    /// Referenced data files were not removed (CONC-11).
    DataFilesExist,
    /// Nor dropped by a `delete` snapshot, for an operation that rewrites rows or writes vectors (CONC-11, DV-4).
    DataFilesNotDropped,
    /// No data file that may match was added (CONC-13, CONC-21).
    NoAddedData,
    /// No delete for a data file that is replaced was added (CONC-14, CONC-22, CONC-25).
    NoDeletesForReplaced,
    /// No delete that may match was added (CONC-14, CONC-22).
    NoDeletesInScope,
    /// No data file in scope was removed (CONC-22).
    NothingGoneInScope,
    /// No deletion vector was added for a data file that gets one (CONC-16).
    NoConcurrentVector,
    /// A data file's old deletion vector is replaced, never doubled (DV-2).
    OldVectorReplaced,
    /// A removed data file's deletion vector goes with it (DV-4).
    VectorsGoWithFiles,
    /// Files to remove are there (CONC-12).
    RemovedFilesExist,
    /// Rows that were read without ids were not given any (LINEAGE-11).
    RowIdsAsRead,
    /// A partition overwrite that only appends removes nothing (CONC-23).
    AppendOnly,
}

impl Rule {
    /// Every rule.
    #[doc(hidden)]
    pub const ALL: [Rule; 16] = [
        Rule::OneVectorPerCommit,
        Rule::NoDeleteOfRemoved,
        Rule::VersionOnAttempt,
        Rule::KnownHistory,
        Rule::DataFilesExist,
        Rule::DataFilesNotDropped,
        Rule::NoAddedData,
        Rule::NoDeletesForReplaced,
        Rule::NoDeletesInScope,
        Rule::NothingGoneInScope,
        Rule::NoConcurrentVector,
        Rule::OldVectorReplaced,
        Rule::VectorsGoWithFiles,
        Rule::RemovedFilesExist,
        Rule::RowIdsAsRead,
        Rule::AppendOnly,
    ];
}
