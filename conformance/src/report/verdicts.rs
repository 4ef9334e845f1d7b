//! The text snapshot of verdicts that is reviewed: stable between machines and runs, so a change in it is a change of verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::verdict;
use crate::matrix::result::{AUDIT, FACTS, Results};
use crate::scenario::generated;

/// Key of a verdict: scenario, writer, reader.
pub type Key = (String, String, String);

/// All verdicts as text: a paragraph a scenario, a line a writer.
pub fn text(r: &Results) -> String {
    render(&of(r))
}

/// Verdicts of a run, those of generated histories apart: each run has its own.
pub fn of(r: &Results) -> BTreeMap<Key, String> {
    let lasting = r.cells.iter().filter(|c| !c.scenario.starts_with(generated::AREA));
    lasting.map(|c| ((c.scenario.clone(), c.writer.clone(), c.reader.clone()), verdict(c))).collect()
}

/// Verdicts in the file's form. Facts, bytes and floe come first, then engines by name: whichever run they came with.
fn render(all: &BTreeMap<Key, String>) -> String {
    let first = [FACTS, AUDIT, "floe"];
    let place = |n: &str| first.iter().position(|o| *o == n).unwrap_or(first.len());
    let mut lines: BTreeMap<&str, BTreeMap<&str, Vec<(&str, &str)>>> = BTreeMap::new();
    for ((s, w, reader), v) in all {
        lines.entry(s).or_default().entry(w).or_default().push((reader, v));
    }
    let mut out = String::from(
        "# Verdicts of `cargo floe conformance`, reviewed; `cargo floe conformance --accept` rewrites them.\n",
    );
    for (s, by_writer) in lines {
        let _ = writeln!(out, "\n{s}");
        for (w, mut readers) in by_writer {
            readers.sort_by_key(|(n, _)| (place(n), *n));
            let cells: Vec<String> = readers.iter().map(|(n, v)| format!("{n} {v}")).collect();
            let _ = writeln!(out, "  {w}: {}", cells.join(" · "));
        }
    }
    out
}

/// Reads the file's form; lines that are not of it are faults.
pub fn parse(text: &str) -> Result<BTreeMap<Key, String>, String> {
    let (mut out, mut scenario) = (BTreeMap::new(), String::new());
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(rest) = line.strip_prefix("  ") else {
            scenario = line.trim().to_string();
            continue;
        };
        let (writer, cells) =
            rest.split_once(": ").ok_or_else(|| format!("line {}: no \"writer: \" in {line:?}", i + 1))?;
        for cell in cells.split(" · ") {
            let (reader, v) = cell.split_once(' ').ok_or_else(|| format!("line {}: no verdict in {cell:?}", i + 1))?;
            out.insert((scenario.clone(), writer.to_string(), reader.to_string()), v.to_string());
        }
    }
    Ok(out)
}

/// What changed from reviewed verdicts to this run's, one line a cell; cells in only one of the two are not changes.
pub fn changes(reviewed: &BTreeMap<Key, String>, now: &BTreeMap<Key, String>) -> Vec<String> {
    let differ = |(k, old): (&Key, &String)| {
        let new = now.get(k)?;
        (new != old).then(|| format!("{} {} -> {}: {old} became {new}", k.0, k.1, k.2))
    };
    reviewed.iter().filter_map(differ).collect()
}

/// The reviewed file with this run's verdicts put in; verdicts of engines and scenarios that did not run stay.
pub fn accept(reviewed: &BTreeMap<Key, String>, r: &Results) -> String {
    let mut all = reviewed.clone();
    all.extend(of(r));
    render(&all)
}
