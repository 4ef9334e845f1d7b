//! The report as Markdown.

use std::fmt::Write as _;

use super::terminal::clip;
use super::{FIGURES, Tally, axis, verdict};
use crate::matrix::result::{Outcome, Results};

/// Overview, engines, what is not accepted, and a table of scenarios.
pub fn text(r: &Results) -> String {
    let mut out = String::from("# floe conformance\n\n");
    let t = Tally::of(r.cells.iter());
    let _ = writeln!(
        out,
        "{} scenarios, {} engines, {} cells: {} passed, {} accepted without passing, {} skipped, {} not accepted.\n",
        r.scenarios.len(),
        r.engines.iter().filter(|e| e.skipped.is_empty()).count(),
        r.cells.len(),
        t.pass,
        t.known,
        t.skipped,
        t.bad
    );
    let (writers, readers) = (axis(r, |c| &c.writer), axis(r, |c| &c.reader));
    let _ = writeln!(out, "## Who reads whom (passed / ran)\n\n| writer \\ reader | {} |", readers.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(readers.len()));
    for w in &writers {
        let cells: Vec<String> = readers
            .iter()
            .map(|n| {
                let t = Tally::of(r.cells.iter().filter(|c| c.writer == *w && c.reader == *n));
                if t.ran() == 0 { "–".into() } else { format!("{}/{}", t.pass, t.ran()) }
            })
            .collect();
        let _ = writeln!(out, "| {w} | {} |", cells.join(" | "));
    }
    out.push_str("\n## Engines\n\n| engine | version | Iceberg | state |\n|---|---|---|---|\n");
    for e in &r.engines {
        let state = if e.skipped.is_empty() {
            format!("ran, started in {:.1} s", e.start_seconds)
        } else {
            format!("skipped: {}; `{}`", cell(&e.skipped), e.command.replace('|', "\\|"))
        };
        let _ = writeln!(out, "| {} | {} | {} | {state} |", cell(&e.title), cell(&e.version), cell(&e.iceberg));
    }
    if !r.catalogs.is_empty() {
        out.push_str("\n## Catalogs\n\n| catalog | state |\n|---|---|\n");
    }
    for c in &r.catalogs {
        let state = match c.outcome {
            Outcome::Pass => format!("passed, {} checks in {:.1} s", c.checks.len(), c.seconds),
            Outcome::Skipped => format!("skipped: {}; `{}`", cell(&c.reason), c.command.replace('|', "\\|")),
            o => format!("{}: {}", o.word(), cell(&c.reason)),
        };
        let _ = writeln!(out, "| {} | {state} |", cell(&c.title));
    }
    if !r.figures.is_empty() {
        let _ = writeln!(out, "\n## Formally tested\n\n{FIGURES}\n");
        for f in &r.figures {
            let _ = writeln!(out, "- {}", cell(f));
        }
    }
    let open: Vec<_> = r.cells.iter().filter(|c| !matches!(c.outcome, Outcome::Pass | Outcome::Skipped)).collect();
    if !open.is_empty() {
        out.push_str(
            "\n## What did not pass\n\n| scenario | writer | reader | verdict | why |\n|---|---|---|---|---|\n",
        );
        for c in open {
            let why = if c.known.is_empty() { &c.reason } else { &c.known };
            let _ = writeln!(out, "| {} | {} | {} | {} | {} |", c.scenario, c.writer, c.reader, verdict(c), cell(why));
        }
    }
    out.push_str("\n## Scenarios\n\n| scenario | what must hold | clauses | passed / ran |\n|---|---|---|---|\n");
    for s in &r.scenarios {
        let t = Tally::of(r.cells.iter().filter(|c| c.scenario == s.id));
        let _ = writeln!(out, "| {} | {} | {} | {}/{} |", s.id, cell(&s.title), s.clauses.join(", "), t.pass, t.ran());
    }
    out
}

/// Text that fits into a table cell.
fn cell(s: &str) -> String {
    clip(s, 240).replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}
