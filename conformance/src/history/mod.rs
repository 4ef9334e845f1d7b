//! Judges recorded concurrent histories of one table: what several clients did and saw, with outcomes that may be
//! unknown. Nothing is asked of the table itself, so a history of any engine, or of two together, is judged alike.
//!
//! Each write touches one key, so keys are judged one by one: there must be an order of the writes that fits their
//! times, in which each read sees what the order gives (linearisability of a register). A write that failed has no
//! effect; one whose outcome is unknown may take effect at any later time, or never.

mod judge;
pub mod record;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use judge::judge;

/// A write of one key, or a read of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Adds a row; each key is inserted once in a history.
    Insert {
        /// Key.
        key: i64,
        /// Value.
        value: i64,
    },
    /// Sets the value of the row with the key, if there is one.
    Update {
        /// Key.
        key: i64,
        /// Value.
        value: i64,
    },
    /// Removes the row with the key, if there is one.
    Delete {
        /// Key.
        key: i64,
    },
    /// Reads the whole table.
    Read(Seen),
}

/// What a read saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Rows.
    pub rows: Vec<SeenRow>,
    /// Data file of each live deletion vector, if the reader looked (DV-2).
    pub vectors: Vec<String>,
}

/// A row of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SeenRow {
    /// Key.
    pub key: i64,
    /// Value.
    pub value: i64,
    /// `_row_id`, where the reader gives it.
    pub row_id: Option<i64>,
}

/// How an operation ended, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done.
    Ok,
    /// Not done.
    Fail,
    /// Nobody told the client.
    Unknown,
}

/// One operation of one client. Times are of one clock, in any unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Who.
    pub client: usize,
    /// When it was asked for.
    pub start: u64,
    /// When the client had the answer; of an unknown outcome when it gave up.
    pub end: u64,
    /// What.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
}

/// What is wrong with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// A row that a read had seen gone is there again.
    ResurrectedRow,
    /// A row is there after its delete was done.
    LostDelete,
    /// An inserted row is not there, though nobody deleted it.
    LostInsert,
    /// A row that nobody inserted, that was refused, that is there twice, or with a value that nobody wrote.
    PhantomInsert,
    /// A value that an update had replaced, or writes that fit no order.
    LostUpdate,
    /// Two live deletion vectors of one data file (DV-2).
    DoubleVector,
    /// A `_row_id` that two keys have or have had.
    ReusedRowId,
    /// A key whose `_row_id` changed.
    ChangedRowId,
}

impl Anomaly {
    /// Name as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResurrectedRow => "resurrected row",
            Self::LostDelete => "lost delete",
            Self::LostInsert => "lost insert",
            Self::PhantomInsert => "phantom insert",
            Self::LostUpdate => "lost update",
            Self::DoubleVector => "double live deletion vector",
            Self::ReusedRowId => "reused row id",
            Self::ChangedRowId => "changed row id",
        }
    }
}

/// An anomaly and the events that show it: taking any of them away hides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong.
    pub anomaly: Anomaly,
    /// In one sentence.
    pub text: String,
    /// Positions in the history.
    pub witness: Vec<usize>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (events {:?})", self.anomaly.name(), self.text, self.witness)
    }
}
