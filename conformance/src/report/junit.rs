//! JUnit XML for other people's CI: a suite a writer, a case a scenario and reader.

use std::fmt::Write as _;

use super::axis;
use crate::matrix::result::{CatalogResult, Cell, Outcome, Results};

/// Cells, failures, errors and skips of a suite or of all, and its seconds.
#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    ms: u64,
}

impl Counts {
    fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        cells.into_iter().fold(Self::default(), |mut n, c| {
            n.tests += 1;
            n.ms += c.ms;
            match (c.outcome, c.accepted) {
                (Outcome::Skipped, _) => n.skipped += 1,
                (Outcome::Errored, false) => n.errors += 1,
                (Outcome::Fail | Outcome::Refused, false) => n.failures += 1,
                _ => {}
            }
            n
        })
    }

    fn attributes(&self) -> String {
        format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
            self.tests,
            self.failures,
            self.errors,
            self.skipped,
            self.ms as f64 / 1000.0
        )
    }
}

/// The document.
pub fn text(r: &Results) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let catalogs: Vec<Cell> = r.catalogs.iter().map(as_cell).collect();
    let all = Counts::of(r.cells.iter().chain(&catalogs)).attributes();
    let _ = writeln!(out, "<testsuites name=\"floe conformance\" {all}>");
    for w in axis(r, |c| &c.writer) {
        let cells: Vec<_> = r.cells.iter().filter(|c| c.writer == w).collect();
        let counts = Counts::of(cells.iter().copied()).attributes();
        let _ = writeln!(out, "  <testsuite name=\"written by {}\" {counts}>", escape(&w));
        for c in cells {
            let _ = write!(
                out,
                "    <testcase classname=\"{}\" name=\"{} read by {}\" time=\"{:.3}\"",
                escape(&format!("{}.{}", c.writer, c.scenario.replace('/', "."))),
                escape(&c.scenario),
                escape(&c.reader),
                c.ms as f64 / 1000.0
            );
            out.push_str(&body(c));
        }
        out.push_str("  </testsuite>\n");
    }
    if !catalogs.is_empty() {
        let _ = writeln!(out, "  <testsuite name=\"catalogs\" {}>", Counts::of(&catalogs).attributes());
        for c in &catalogs {
            let (name, time) = (escape(&c.reader), c.ms as f64 / 1000.0);
            let _ = write!(out, "    <testcase classname=\"catalogs\" name=\"{name}\" time=\"{time:.3}\"");
            out.push_str(&body(c));
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// A catalog as a case: its name is the reader's.
fn as_cell(c: &CatalogResult) -> Cell {
    Cell::of("catalogs", "floe", &c.name, c.checks.clone(), (c.seconds * 1000.0) as u64).skipped_because(&c.reason)
}

/// The rest of a test case: nothing, why it was skipped or failed, or what was accepted.
fn body(c: &Cell) -> String {
    let reason = escape(&c.reason);
    match (c.outcome, c.accepted) {
        (Outcome::Pass, _) => "/>\n".into(),
        (Outcome::Skipped, _) => format!("><skipped message=\"{reason}\"/></testcase>\n"),
        (_, true) => {
            let why = if c.known.is_empty() { &c.reason } else { &c.known };
            format!("><system-out>accepted, {}: {}</system-out></testcase>\n", c.outcome.word(), escape(why))
        }
        (o, false) => {
            let element = if o == Outcome::Errored { "error" } else { "failure" };
            let mut text = String::new();
            for k in c.checks.iter().filter(|k| !matches!(k.outcome, Outcome::Pass | Outcome::Skipped)) {
                let _ = writeln!(text, "step {}, {}: {}", k.step, k.what, k.reason);
                for (side, said) in [("expected", &k.expected), ("got", &k.got)] {
                    if !said.is_empty() {
                        let _ = writeln!(text, "{side}:\n{said}");
                    }
                }
            }
            let text = escape(&text);
            format!("><{element} type=\"{}\" message=\"{reason}\">{text}</{element}></testcase>\n", o.word())
        }
    }
}

/// XML text; characters that XML cannot hold become spaces.
pub(crate) fn escape(s: &str) -> String {
    s.chars()
        .map(|c| match c {
            '&' => "&amp;".into(),
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '"' => "&quot;".into(),
            '\n' => "&#10;".into(),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => " ".into(),
            c => c.to_string(),
        })
        .collect()
}
