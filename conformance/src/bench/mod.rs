//! The cross-engine benchmark: one workload on every engine that is there, in one interleaved run. Rows are compared with a
//! model before any time counts; every sample is kept, and the table is made from the samples alone.

pub mod advise;
mod amplification;
pub mod cdc;
pub mod charts;
pub mod costs;
pub mod data;
pub mod deletes;
mod lineitem;
pub mod metadata;
mod model;
mod run;
mod statements;
mod table;
mod targets;
pub mod usage;
pub mod verdict;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use data::Data;
pub use run::run;
pub use statements::text as targets_of_statements;
pub use table::text;
pub use usage::Usage;

/// The reviewed run of the workload `deletes`: what `floe advise` predicts with, and the charts of every report.
const REVIEWED: &str = include_str!("../../../reports/bench-deletes.json");

/// The reviewed run of the workload `deletes`.
///
/// # Panics
/// Never: a test reads it.
pub fn reviewed() -> Report {
    serde_json::from_str(REVIEWED).expect("the reviewed run")
}

/// What is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// INSERT, DELETE, UPDATE, MERGE and scans
    #[default]
    Statements,
    /// Changelog and sync
    Cdc,
    /// DELETE, scan and compaction by share of the rows, place and mode
    Deletes,
    /// Decoding of deletion vectors, planning of a table of many data files
    Metadata,
}

/// The mode of a table whose deletes are V2 position delete files; its strategy is merge-on-read.
pub const POSITION_DELETES: &str = "position-deletes";
/// The mode of a V3 table whose deletes are equality delete files.
pub const EQUALITY_DELETES: &str = "equality-deletes";

/// The mode of what [`Workload::Metadata`] measures.
pub const VECTORS: &str = "vectors";

/// How large and how often.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is measured.
    #[serde(default)]
    pub workload: Workload,
    /// What the tables of [`Workload::Deletes`] hold.
    #[serde(default)]
    pub table: Data,
    /// Rows of each table, in 4 data files; for [`Workload::Metadata`] data files of the table.
    pub rows: u32,
    /// Rows of further tables, on which [`Workload::Deletes`] measures how cost grows with size.
    #[serde(default)]
    pub sizes: Vec<u32>,
    /// Warm samples of each measurement, after one cold one.
    pub samples: u32,
    /// Strategies of the tables, of the sources for [`Workload::Cdc`]: `merge-on-read`, `copy-on-write`; for
    /// [`Workload::Deletes`] [`POSITION_DELETES`] and [`EQUALITY_DELETES`] too.
    pub modes: Vec<String>,
    /// Further properties of each table that floe or a writer makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// How many small deletes [`Workload::Deletes`] makes one after the other.
    #[serde(default)]
    pub small_deletes: u32,
}

/// An engine of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Registry name.
    pub name: String,
    /// Version it reported.
    pub version: String,
    /// Iceberg library inside.
    pub iceberg: String,
}

/// One measured call, as it happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was measured: `insert`, `delete one row`, `scan narrow, 1 % deleted`, …
    pub what: String,
    /// Engine that ran it.
    pub engine: String,
    /// Engine that wrote the table.
    pub writer: String,
    /// Strategy of the table.
    pub mode: String,
    /// Round; 0 is cold.
    pub round: u32,
    /// Wall-clock seconds; none when the engine cannot do it or its rows were wrong.
    pub seconds: Option<f64>,
    /// Why there is no time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Bytes the statement added to the table's folder; 0 for a query.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Rows that it handled, where that is what its speed is measured by.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rows: u64,
    /// What the call took of the machine.
    #[serde(flatten)]
    pub usage: Usage,
    /// Data files of the table after the statement, or of the one that was read; none when its snapshot does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_files: Option<u64>,
    /// Delete files of it, a deletion vector counting as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_files: Option<u64>,
    /// Bytes of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Rows of the table, where its size is what varies.
    #[serde(default, skip_serializing_if = "is_zero_rows")]
    pub table_rows: u32,
    /// Share of the rows that were deleted, in per cent, where that is what varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Where they lie: `scattered` or `clustered`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

impl Sample {
    /// What was measured, with the share of rows and their place where those vary: `delete 1 % scattered`.
    pub fn name(&self) -> String {
        match self.percent {
            Some(p) => format!("{} {p} % {}", self.what, self.place),
            None if self.table_rows > 0 => format!("{}, {} rows", self.what, self.table_rows),
            // why a place was not measured at all
            None if !self.place.is_empty() => format!("{} {}", self.what, self.place),
            None => self.what.clone(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands over a reference
fn is_zero_rows(n: &u32) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands over a reference
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Everything of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// Version of floe.
    pub floe: String,
    /// Processor and cores.
    pub machine: String,
    /// What was asked for.
    pub plan: Plan,
    /// Who took part.
    pub engines: Vec<Contender>,
    /// Who could not, and why.
    pub absent: Vec<(String, String)>,
    /// Samples in the order in which they were taken.
    pub samples: Vec<Sample>,
}
