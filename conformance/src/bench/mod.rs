//! The cross-engine benchmark: one workload on every engine that is there, in one interleaved run. Rows are compared with a
//! model before any time counts; every sample is kept, and the table is made from the samples alone.

pub mod cdc;
mod model;
mod run;
mod table;

#[cfg(test)]
mod tests;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use run::run;
pub use table::text;

/// What is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// INSERT, DELETE, UPDATE, MERGE and scans
    #[default]
    Statements,
    /// Changelog and sync
    Cdc,
}

/// How large and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is measured.
    #[serde(default)]
    pub workload: Workload,
    /// Rows of each table, in 4 data files.
    pub rows: u32,
    /// Warm samples of each measurement, after one cold one.
    pub samples: u32,
    /// Strategies of the tables, of the sources for [`Workload::Cdc`]: `merge-on-read`, `copy-on-write`.
    pub modes: Vec<String>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub bytes: u64,
    /// Rows that it handled, where that is what its speed is measured by.
    #[serde(default)]
    pub rows: u64,
    /// Peak memory of floe's process during it, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<f64>,
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
