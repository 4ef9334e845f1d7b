//! Reports, all made from the one result file.

pub mod badge;
pub mod diff;
pub mod html;
pub mod junit;
pub mod markdown;
pub mod terminal;
pub mod verdicts;

use std::path::Path;

use crate::matrix::result::{Cell, Outcome, Results};

/// What the section of figures says first: they are none of the run's.
pub const FIGURES: &str = "Recorded when each test was last kept (the day is at the end), not counted in this run; docs/formal.md says how to \
    count them again.";

/// Writes every report of a run into `dir`, beside `results.json`.
pub fn write_all(results: &Results, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let results = storable(results);
    std::fs::write(dir.join("results.json"), serde_json::to_string(&results)?)?;
    write_pages(&results, dir)
}

/// The run with the values of its scenarios that JSON has no form for (NaN, infinities, TOML's dates) as text.
fn storable(results: &Results) -> Results {
    let mut out = results.clone();
    for step in out.scenarios.iter_mut().flat_map(|s| &mut s.steps) {
        let rows = step.rows.iter_mut().flatten().chain(step.queries.iter_mut().flat_map(|q| &mut q.rows));
        let rows = rows.chain(step.changes.iter_mut().flat_map(|c| &mut c.rows));
        rows.flatten().for_each(as_text);
        for op in &mut step.model {
            op.insert.iter_mut().flatten().flatten().for_each(as_text);
            op.row.iter_mut().flatten().for_each(as_text);
            op.set.iter_mut().flat_map(|m| m.values_mut()).for_each(as_text);
        }
    }
    out
}

fn as_text(v: &mut toml::Value) {
    match v {
        toml::Value::Float(f) if !f.is_finite() => *v = toml::Value::String(f.to_string()),
        toml::Value::Datetime(d) => *v = toml::Value::String(d.to_string()),
        toml::Value::Array(items) => items.iter_mut().for_each(as_text),
        toml::Value::Table(fields) => fields.iter_mut().for_each(|(_, x)| as_text(x)),
        _ => {}
    }
}

/// Writes the pages that are made from `results.json`.
pub fn write_pages(results: &Results, dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join("matrix.txt"), verdicts::text(results))?;
    let page = html::page(results).map_err(std::io::Error::other)?;
    std::fs::write(dir.join("report.html"), page)?;
    std::fs::write(dir.join("report.md"), markdown::text(results))?;
    std::fs::write(dir.join("junit.xml"), junit::text(results))?;
    std::fs::write(dir.join("badge.svg"), badge::svg(results))?;
    std::fs::create_dir_all(dir.join("badges"))?;
    for e in results.engines.iter().filter(|e| e.skipped.is_empty()) {
        std::fs::write(dir.join("badges").join(format!("{}.svg", e.name)), badge::of_engine(results, &e.name))?;
    }
    Ok(())
}

/// Reads a result file.
pub fn read(path: &Path) -> Result<Results, String> {
    let path = if path.is_dir() { path.join("results.json") } else { path.to_path_buf() };
    let text = std::fs::read(&path)
        .map_err(|e| format!("cannot read {}, the result file that floe conformance writes: {e}", path.display()))?;
    let r: Results = serde_json::from_slice(&text).map_err(|e| format!("{} is no result file: {e}", path.display()))?;
    Ok(r)
}

/// The verdict of a cell as one or two words.
pub fn verdict(c: &Cell) -> String {
    match (c.outcome, c.known.is_empty()) {
        (Outcome::Refused, true) if c.accepted => "refused (undeclared)".into(),
        (o, true) => o.word().into(),
        (o, false) => format!("{} (known)", o.word()),
    }
}

/// Writers or readers in the order of the engine list; the metadata reader comes first.
pub(crate) fn axis(results: &Results, pick: impl Fn(&Cell) -> &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for c in &results.cells {
        if !names.iter().any(|n| n == pick(c)) {
            names.push(pick(c).to_string());
        }
    }
    let place = |n: &String| results.engines.iter().position(|e| e.name == *n).map_or(0, |i| i + 1);
    names.sort_by_key(place);
    names
}

/// Counts of a set of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub pass: usize,
    /// Accepted without passing, and not skipped.
    pub known: usize,
    /// Skipped.
    pub skipped: usize,
    /// Not accepted.
    pub bad: usize,
}

impl Tally {
    /// Counts cells.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        cells.fold(Self::default(), |mut t, c| {
            match (c.outcome, c.accepted) {
                (Outcome::Pass, _) => t.pass += 1,
                (Outcome::Skipped, _) => t.skipped += 1,
                (_, true) => t.known += 1,
                (_, false) => t.bad += 1,
            }
            t
        })
    }

    /// Cells that ran.
    pub fn ran(self) -> usize {
        self.pass + self.known + self.bad
    }
}

#[cfg(test)]
mod tests;
