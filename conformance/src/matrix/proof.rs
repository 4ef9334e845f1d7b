//! Whether what engines declare is shown: a capability counts as proven when a scenario that needs it passed with the engine
//! in one of the two roles.

use std::collections::BTreeSet;

use super::result::{Outcome, Results};
use crate::scenario::Scenario;

/// What a scenario puts to the test: its features, those of its questions, and what follows from its steps.
fn needs(s: &Scenario) -> BTreeSet<&str> {
    let questions = s.steps.iter().flat_map(|step| &step.queries).flat_map(|q| &q.features);
    let mut all: BTreeSet<&str> = s.features.iter().chain(questions).map(String::as_str).collect();
    if s.steps.iter().any(|step| step.changes.is_some()) {
        all.insert("changelog");
    }
    if s.steps.iter().filter(|step| !step.sql.is_empty()).count() > 2 {
        all.insert("time-travel"); // every state is read again by its snapshot
    }
    all
}

/// Declared capabilities that this run put to the test and that no passing cell shows: a line an engine. A run without the
/// scenarios of a capability says nothing of it.
pub fn unproven(r: &Results) -> Vec<String> {
    let mut out = Vec::new();
    for e in r.engines.iter().filter(|e| e.skipped.is_empty()) {
        let (mut tried, mut shown) = (BTreeSet::new(), BTreeSet::new());
        for s in &r.scenarios {
            let mut cells = r.cells.iter().filter(|c| c.scenario == s.id && (c.reader == e.name || c.writer == e.name));
            tried.extend(needs(s));
            if cells.any(|c| c.outcome == Outcome::Pass) {
                shown.extend(needs(s));
            }
        }
        let open: Vec<&str> =
            e.capabilities.iter().map(String::as_str).filter(|c| tried.contains(c) && !shown.contains(c)).collect();
        if !open.is_empty() {
            out.push(format!("{} declares {} and no cell of this run shows it", e.name, open.join(", ")));
        }
    }
    out
}

#[cfg(test)]
mod tests;
