//! The matrix for a terminal.

use std::fmt::Write as _;

use super::{Tally, axis, verdict};
use crate::matrix::result::{Outcome, Results};

/// The matrix, what is wrong, what is known and what was skipped.
pub fn text(r: &Results) -> String {
    let mut out = String::new();
    let (writers, readers) = (axis(r, |c| &c.writer), axis(r, |c| &c.reader));
    let corner = "writer \\ reader";
    let first = writers.iter().map(String::len).max().unwrap_or(0).max(corner.len());
    let width = readers.iter().map(String::len).max().unwrap_or(0).max(7);
    let _ = write!(out, "{corner:first$}");
    for n in &readers {
        let _ = write!(out, "  {n:>width$}");
    }
    out.push('\n');
    for w in &writers {
        let _ = write!(out, "{w:first$}");
        for n in &readers {
            let t = Tally::of(r.cells.iter().filter(|c| c.writer == *w && c.reader == *n));
            let mark = if t.bad > 0 {
                "!"
            } else if t.known > 0 {
                "~"
            } else {
                ""
            };
            let cell = if t.ran() == 0 { "-".into() } else { format!("{}/{}{mark}", t.pass, t.ran()) };
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "passed/ran; ! has failures, ~ has refusals as declared or known deviations, - nothing ran");
    let bad: Vec<_> = r.cells.iter().filter(|c| !c.accepted).collect();
    if !bad.is_empty() {
        let _ = writeln!(out, "\nnot accepted ({}):", bad.len());
        for c in &bad {
            let _ = writeln!(
                out,
                "  {} {} -> {}: {}: {}",
                c.scenario,
                c.writer,
                c.reader,
                c.outcome.word(),
                clip(&c.reason, 300)
            );
        }
    }
    let known: Vec<_> =
        r.cells.iter().filter(|c| c.accepted && !matches!(c.outcome, Outcome::Pass | Outcome::Skipped)).collect();
    if !known.is_empty() {
        let _ = writeln!(out, "\naccepted without passing ({}):", known.len());
        for c in &known {
            let why = if c.known.is_empty() { &c.reason } else { &c.known };
            let _ = writeln!(out, "  {} {} -> {}: {}: {}", c.scenario, c.writer, c.reader, verdict(c), clip(why, 200));
        }
    }
    let missing: Vec<_> = r.engines.iter().filter(|e| !e.skipped.is_empty()).collect();
    if !missing.is_empty() {
        out.push_str("\nskipped engines:\n");
        for e in missing {
            let _ = writeln!(out, "  {}: {}; to run it: {}", e.name, clip(&e.skipped, 300), e.command);
        }
    }
    if !r.catalogs.is_empty() {
        out.push_str("\ncatalogs:\n");
    }
    for c in &r.catalogs {
        let said = match c.outcome {
            Outcome::Pass => format!("pass, {} checks in {:.1} s", c.checks.len(), c.seconds),
            Outcome::Skipped => format!("skipped: {}; to run it: {}", clip(&c.reason, 300), c.command),
            o => format!("{}: {}", o.word(), clip(&c.reason, 300)),
        };
        let _ = writeln!(out, "  {}: {said}", c.name);
    }
    for d in &r.stale_deviations {
        let _ = writeln!(out, "\nknown deviation no longer seen, remove its entry: {d}");
    }
    let _ = writeln!(out, "\n{}", summary(r));
    out
}

/// How many scenarios and cells, what became of them, and the time, on one line.
pub fn summary(r: &Results) -> String {
    let t = Tally::of(r.cells.iter());
    format!(
        "{} scenarios, {} cells: {} passed, {} accepted, {} skipped, {} not accepted; {:.0} s",
        r.scenarios.len(),
        r.cells.len(),
        t.pass,
        t.known,
        t.skipped,
        t.bad,
        r.seconds
    )
}

/// At most `n` characters, on one line.
pub(crate) fn clip(s: &str, n: usize) -> String {
    let one: String = s.split_whitespace().collect::<Vec<_>>().join(" ");
    if one.chars().count() <= n { one } else { format!("{}…", one.chars().take(n).collect::<String>()) }
}
