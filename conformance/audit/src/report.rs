//! The outcome of an audit, as text and JSON, and the coverage page.

use std::fmt::Write;

use crate::finding::{Finding, Severity};
use crate::model::Model;

/// What was looked at.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Counts {
    pub snapshots: u64,
    pub manifests: u64,
    /// Distinct live data files over all snapshots.
    pub data_files: u64,
    /// Distinct live delete entries over all snapshots, DVs included.
    pub deletes: u64,
    pub dvs: u64,
}

/// Findings of one audit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    pub metadata_file: String,
    pub format_version: i64,
    pub errors: u64,
    pub warnings: u64,
    pub notes: u64,
    pub looked_at: Counts,
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(m: &Model, mut findings: Vec<Finding>) -> Report {
        findings.sort_by_key(|f| f.severity);
        let n = |s: Severity| findings.iter().filter(|f| f.severity == s).map(|f| 1 + f.more).sum();
        let mut c = Counts { snapshots: m.snapshots.len() as u64, ..Counts::default() };
        let mut seen = std::collections::HashSet::new();
        for (_, r) in m.manifests() {
            c.manifests += 1;
            for e in r.manifest.entries.iter().filter(|e| e.live()) {
                if seen.insert(e.key()) {
                    match e.content {
                        0 => c.data_files += 1,
                        _ => c.deletes += 1,
                    }
                    c.dvs += u64::from(e.content != 0 && e.is_dv());
                }
            }
        }
        Report {
            metadata_file: m.file.clone(),
            format_version: m.version,
            errors: n(Severity::Error),
            warnings: n(Severity::Warning),
            notes: n(Severity::Note),
            looked_at: c,
            findings,
        }
    }

    /// No violated MUST.
    pub fn clean(&self) -> bool {
        self.errors == 0
    }

    /// Text for a terminal: findings by severity, then a line of totals.
    pub fn text(&self) -> String {
        let mut o = String::new();
        for f in &self.findings {
            let _ = writeln!(o, "{} {}: {}", f.severity, f.clause, f.title);
            let _ = writeln!(o, "  {} at {}", f.file, f.place);
            let _ = writeln!(o, "  found {}, allowed {}", f.found, f.allowed);
            if f.more > 0 {
                let _ = writeln!(o, "  … and {} more", f.more);
            }
        }
        let c = &self.looked_at;
        let _ = writeln!(
            o,
            "{}: v{}, {} snapshots, {} manifests, {} data files, {} delete entries ({} DVs): {} errors, {} warnings, {} notes",
            self.metadata_file,
            self.format_version,
            c.snapshots,
            c.manifests,
            c.data_files,
            c.deletes,
            c.dvs,
            self.errors,
            self.warnings,
            self.notes
        );
        o
    }

    /// The report as one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// The coverage page, generated from the registered checks.
pub fn coverage_markdown() -> String {
    let mut o = String::from(
        "# What `floe audit` checks\n\nGenerated from the table of checks in `conformance/audit`; the test `coverage_page_is_current` compares it\n(`FLOE_BLESS=1 cargo test -p floe-audit` writes it anew). Clause ids are those of the project's digest of the format.\n\
         An **error** breaks a MUST or a definition, a **warning** a SHOULD, a **note** is a known divergence between text and\npractice that readers cope with. Every check has a negative case in `conformance/audit/tests`; the positive case is the\nunmutated table.\n",
    );
    let mut total = 0;
    for f in crate::checks::CHECKS {
        let _ = write!(o, "\n## {}\n\n| clause | severity | what is checked |\n|---|---|---|\n", f.title);
        for c in f.checks {
            total += 1;
            let _ = writeln!(o, "| {} | {} | {} |", c.clause, c.severity, c.title);
        }
    }
    let _ = write!(o, "\n{total} checks.\n");
    o
}
