//! Known deviations: faults of engines, reviewed, each with its public reference. They are run and must fail.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::result::{Cell, EngineRow, Outcome};
use crate::scenario::matches;

/// The reviewed file.
pub const FILE: &str = include_str!("../../known-deviations.toml");

/// One known fault of one engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Deviation {
    /// Engine at fault (`spark*`: each of them must show it).
    pub engine: String,
    /// Its version (`1.5.*`).
    pub version: String,
    /// In which role the fault shows.
    pub role: Role,
    /// Scenarios it shows in (`dv/*`).
    pub scenario: String,
    /// The other side of the cell: the writers it shows with, or the readers.
    #[serde(default = "any")]
    pub with: String,
    /// What comes out: `fail`, `refused` or `errored`.
    pub outcome: Outcome,
    /// Text that the reason holds.
    #[serde(default)]
    pub says: String,
    /// Clause it breaks.
    pub clause: String,
    /// What is wrong, in a sentence.
    pub cause: String,
    /// Public report, or the document that states it.
    pub reference: String,
}

fn any() -> String {
    "*".into()
}

/// Role of the engine at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It wrote.
    Write,
    /// It read.
    Read,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    #[serde(default)]
    deviation: Vec<Deviation>,
}

/// Parses the file; every entry must say its clause, cause and reference.
pub fn parse(text: &str) -> Result<Vec<Deviation>, String> {
    let book: Book = toml::from_str(text).map_err(|e| e.to_string())?;
    for d in &book.deviation {
        if d.clause.is_empty() || d.cause.is_empty() || d.reference.is_empty() {
            return Err(format!(
                "deviation of {} in {}: clause, cause and reference are required",
                d.engine, d.scenario
            ));
        }
        if matches!(d.outcome, Outcome::Pass | Outcome::Skipped) {
            return Err(format!("deviation of {} in {}: outcome is fail, refused or errored", d.engine, d.scenario));
        }
    }
    let key = |i: usize| {
        let d = &book.deviation[i];
        (d.role, d.outcome, &d.engine, &d.version, &d.scenario, &d.with, &d.says)
    };
    for (i, d) in book.deviation.iter().enumerate() {
        if (0..i).any(|j| key(i) == key(j)) {
            return Err(format!("deviation of {} in {} is there twice: {}", d.engine, d.scenario, d.cause));
        }
    }
    Ok(book.deviation)
}

impl Deviation {
    fn covers(&self, cell: &Cell, engines: &[EngineRow]) -> bool {
        let (own, other) = match self.role {
            Role::Write => (&cell.writer, &cell.reader),
            Role::Read => (&cell.reader, &cell.writer),
        };
        let version = engines.iter().find(|e| e.name == *own).map_or("", |e| e.version.as_str());
        glob(&self.engine, own)
            && glob(&self.version, version)
            && glob(&self.with, other)
            && glob(&self.scenario, &cell.scenario)
    }
}

/// Whole-text match with `*`.
fn glob(pattern: &str, text: &str) -> bool {
    if pattern.contains('*') { matches(pattern, text) } else { pattern == text }
}

/// Marks the cells that are known deviations as accepted, and returns those deviations that covered cells of an engine in
/// this run of which not one deviated: they are stale, and a run with a stale entry is red. Only a `whole` run, of every
/// scenario, can say so of an entry with a pattern.
pub fn apply(book: &[Deviation], cells: &mut [Cell], engines: &[EngineRow], whole: bool) -> Vec<String> {
    let mut stale = Vec::new();
    for d in book {
        // by engine: cells covered, and whether one deviated
        let mut of: BTreeMap<String, bool> = BTreeMap::new();
        for c in cells.iter_mut().filter(|c| c.outcome != Outcome::Skipped && d.covers(c, engines)) {
            let own = if d.role == Role::Write { &c.writer } else { &c.reader };
            let met = of.entry(own.clone()).or_default();
            if c.outcome == d.outcome && c.reason.contains(&d.says) {
                *met = true;
                c.accepted = true;
                c.known = format!("{} [{}] {}", d.cause, d.clause, d.reference);
            }
        }
        let judged = whole || !d.scenario.contains('*');
        for (engine, _) in of.iter().filter(|(_, met)| judged && !**met) {
            stale.push(format!("{engine} {} as {:?} in {}: {}", d.version, d.role, d.scenario, d.cause).to_lowercase());
        }
    }
    stale
}

#[cfg(test)]
mod tests;
