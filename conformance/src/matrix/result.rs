//! The result file: one JSON document from which every report is made.

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// Pseudo reader that compares snapshot summaries and table metadata with the scenario.
pub const FACTS: &str = "metadata";

/// Pseudo reader that judges the table's raw bytes by clause, without any engine's code.
pub const AUDIT: &str = "audit";

/// Outcome of a check or a cell. They are never mixed, and all but `pass` have a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As expected.
    Pass,
    /// Not run, for the stated reason.
    Skipped,
    /// The engine said no.
    Refused,
    /// The engine failed, died or hung.
    Errored,
    /// A wrong answer.
    Fail,
}

impl Outcome {
    /// All, in the order in which reports list them.
    pub const ALL: [Self; 5] = [Self::Pass, Self::Fail, Self::Refused, Self::Errored, Self::Skipped];

    /// Lower-case word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
            Self::Errored => "errored",
            Self::Fail => "fail",
        }
    }
}

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// Version of this document's shape.
    pub schema: u32,
    /// Version of floe.
    pub floe: String,
    /// Seconds since the epoch at the start.
    pub started: u64,
    /// How long it took.
    pub seconds: f64,
    /// `native` or `container`.
    pub launcher: String,
    /// Engines, in order.
    pub engines: Vec<EngineRow>,
    /// Scenarios, in order of id.
    pub scenarios: Vec<Scenario>,
    /// Cells: one a writer, reader and scenario.
    pub cells: Vec<Cell>,
    /// Known deviations that this run could have met but did not: each makes the run red.
    #[serde(default)]
    pub stale_deviations: Vec<String>,
    /// Catalogs that floe was put on; none in a run of chosen scenarios.
    #[serde(default)]
    pub catalogs: Vec<CatalogResult>,
    /// What the formal tests counted when their figures were last kept, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<String>,
}

/// A catalog in a run: each step of `floe doctor`, then the walk-through of a table with deletion vectors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CatalogResult {
    /// Name, also of its section in `floe.toml`.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// The worst of its checks.
    pub outcome: Outcome,
    /// Why, unless it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The one command that runs it.
    pub command: String,
    /// Checks made, in order.
    pub checks: Vec<Check>,
    /// How long it took.
    pub seconds: f64,
}

/// An engine in a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EngineRow {
    /// Registry name.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// What it said of itself.
    pub version: String,
    /// Version of the Iceberg library inside.
    pub iceberg: String,
    /// `write`, `read`.
    pub roles: Vec<String>,
    /// Declared capabilities.
    pub capabilities: Vec<String>,
    /// Why it took no part; empty when it did.
    pub skipped: String,
    /// The one command that would run it.
    pub command: String,
    /// Seconds from launch to its hello.
    pub start_seconds: f64,
}

/// One writer, one reader, one scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    /// Scenario id.
    pub scenario: String,
    /// Engine that wrote.
    pub writer: String,
    /// Engine that read, or [`FACTS`].
    pub reader: String,
    /// The worst of its checks.
    pub outcome: Outcome,
    /// Why, unless it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether a run with this cell can be green: passed, skipped with a reason, refused as declared, or a known deviation.
    pub accepted: bool,
    /// Cause and reference of the known deviation that this is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub known: String,
    /// Checks made; passing ones carry no texts.
    pub checks: Vec<Check>,
    /// Time spent in the reader (or, for facts, in the writer's statements), in milliseconds.
    pub ms: u64,
}

/// One comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// Step, from 1.
    pub step: usize,
    /// What was checked: `statement`, `rows`, `rows at snapshot`, `query`, `summary`, ….
    pub what: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Why, unless it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Expected, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected: String,
    /// Found, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub got: String,
}

impl Check {
    /// A check that passed.
    pub fn pass(step: usize, what: impl Into<String>) -> Self {
        Self::new(step, what, Outcome::Pass, "")
    }

    /// A check with a reason.
    pub fn new(step: usize, what: impl Into<String>, outcome: Outcome, reason: impl Into<String>) -> Self {
        let (what, reason) = (what.into(), reason.into());
        Self { step, what, outcome, reason, expected: String::new(), got: String::new() }
    }
}

impl Cell {
    /// Folds checks into a cell: the worst decides, and names the reason; nothing checked is a skip.
    pub fn of(scenario: &str, writer: &str, reader: &str, checks: Vec<Check>, ms: u64) -> Self {
        let (outcome, reason) = fold(&checks);
        let accepted = matches!(outcome, Outcome::Pass | Outcome::Skipped);
        let (scenario, writer, reader) = (scenario.into(), writer.into(), reader.into());
        Self { scenario, writer, reader, outcome, reason, accepted, known: String::new(), checks, ms }
    }

    /// The cell with another reason, if it was skipped.
    pub(crate) fn skipped_because(mut self, reason: &str) -> Self {
        if self.outcome == Outcome::Skipped {
            self.reason = reason.into();
        }
        self
    }
}

/// The worst outcome of checks, and its reason; nothing checked is a skip.
pub(super) fn fold(checks: &[Check]) -> (Outcome, String) {
    let ran: Vec<&Check> = checks.iter().filter(|c| c.outcome != Outcome::Skipped).collect();
    let worst = ran.iter().max_by(|a, b| a.outcome.cmp(&b.outcome).then(b.step.cmp(&a.step)));
    match worst {
        Some(c) if c.outcome == Outcome::Pass => (Outcome::Pass, String::new()),
        Some(c) => (c.outcome, format!("step {}, {}: {}", c.step, c.what, c.reason)),
        None => {
            let why = checks.first().map_or("nothing to check", |c| c.reason.as_str());
            (Outcome::Skipped, why.to_string())
        }
    }
}

impl Results {
    /// Whether the run is green: every cell accepted, no deviation stale, every catalog that was run passed.
    pub fn green(&self) -> bool {
        let fine = |c: &CatalogResult| matches!(c.outcome, Outcome::Pass | Outcome::Skipped);
        self.stale_deviations.is_empty() && self.cells.iter().all(|c| c.accepted) && self.catalogs.iter().all(fine)
    }
}
