//! JUnit XML for other people's CI: a suite a writer, a case a reader and scenario.

use std::fmt::Write as _;

use super::axis;
use crate::matrix::result::{Outcome, Results};

/// The document.
pub fn text(r: &Results) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for w in axis(r, |c| &c.writer) {
        let cells: Vec<_> = r.cells.iter().filter(|c| c.writer == w).collect();
        let failures = cells.iter().filter(|c| !c.accepted && c.outcome != Outcome::Errored).count();
        let errors = cells.iter().filter(|c| !c.accepted && c.outcome == Outcome::Errored).count();
        let skipped = cells.iter().filter(|c| c.outcome == Outcome::Skipped).count();
        let _ = writeln!(
            out,
            "  <testsuite name=\"written by {}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">",
            escape(&w),
            cells.len()
        );
        for c in cells {
            let _ = write!(
                out,
                "    <testcase classname=\"{}\" name=\"{} read by {}\" time=\"{:.3}\"",
                escape(&c.scenario.replace('/', ".")),
                escape(&c.scenario),
                escape(&c.reader),
                c.ms as f64 / 1000.0
            );
            let element = match (c.outcome, c.accepted) {
                (Outcome::Pass, _) => None,
                (Outcome::Skipped, _) => Some("skipped"),
                (Outcome::Errored, false) => Some("error"),
                (_, false) => Some("failure"),
                (_, true) => Some("system-out"),
            };
            match element {
                None => out.push_str("/>\n"),
                Some("system-out") => {
                    let why = if c.known.is_empty() { &c.reason } else { &c.known };
                    let _ = writeln!(out, "><system-out>{}: {}</system-out></testcase>", c.outcome.word(), escape(why));
                }
                Some(e) => {
                    let _ = writeln!(out, "><{e} message=\"{}\"/></testcase>", escape(&c.reason));
                }
            }
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// XML text; control characters that XML cannot hold become spaces.
pub(crate) fn escape(s: &str) -> String {
    s.chars()
        .map(|c| match c {
            '&' => "&amp;".into(),
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '"' => "&quot;".into(),
            '\n' => "&#10;".into(),
            c if c < ' ' => " ".into(),
            c => c.to_string(),
        })
        .collect()
}
