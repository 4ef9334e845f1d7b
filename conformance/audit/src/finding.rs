//! Findings, and the sink that collects them.

use std::collections::HashMap;

/// How bad a finding is: `Error` breaks a MUST or a definition, `Warning` a SHOULD, `Note` is a known divergence between
/// text and practice (TRAP-*, IMPL) that a reader copes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// One observation with its evidence.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    pub clause: &'static str,
    pub severity: Severity,
    /// Title of the violated check.
    pub title: &'static str,
    /// File as named in the table (or the metadata file opened).
    pub file: String,
    /// JSON pointer, Avro record and field, blob or column.
    pub place: String,
    pub found: String,
    pub allowed: String,
    /// Further findings of the same clause and severity that were counted but not listed.
    pub more: u64,
}

/// Most findings listed per clause and severity; the rest are counted.
const LISTED: u64 = 10;

/// Collects findings; lists at most a handful per clause and counts the rest.
#[derive(Default)]
pub struct Sink {
    pub findings: Vec<Finding>,
    counts: HashMap<(&'static str, Severity), (u64, usize)>,
}

impl Sink {
    /// Adds a finding. `clause` and `severity` must be registered in [`crate::CHECKS`].
    pub fn add(
        &mut self,
        severity: Severity,
        clause: &'static str,
        file: &str,
        place: impl Into<String>,
        found: impl ToString,
        allowed: impl ToString,
    ) {
        let limit = if severity == Severity::Note { 1 } else { LISTED };
        let at = self.findings.len();
        let c = self.counts.entry((clause, severity)).or_insert((0, at));
        c.0 += 1;
        if c.0 > limit {
            self.findings[c.1].more += 1;
            return;
        }
        let title = crate::title(clause, severity);
        let f = Finding {
            clause,
            severity,
            title,
            file: file.to_string(),
            place: place.into(),
            found: found.to_string(),
            allowed: allowed.to_string(),
            more: 0,
        };
        self.findings.push(f);
    }
    pub fn err(
        &mut self,
        clause: &'static str,
        file: &str,
        place: impl Into<String>,
        found: impl ToString,
        allowed: impl ToString,
    ) {
        self.add(Severity::Error, clause, file, place, found, allowed);
    }
    pub fn warn(
        &mut self,
        clause: &'static str,
        file: &str,
        place: impl Into<String>,
        found: impl ToString,
        allowed: impl ToString,
    ) {
        self.add(Severity::Warning, clause, file, place, found, allowed);
    }
    pub fn note(
        &mut self,
        clause: &'static str,
        file: &str,
        place: impl Into<String>,
        found: impl ToString,
        allowed: impl ToString,
    ) {
        self.add(Severity::Note, clause, file, place, found, allowed);
    }
    /// Appends another sink's findings, keeping the per-clause limit.
    pub fn merge(&mut self, other: Sink) {
        for f in other.findings {
            let more = f.more;
            self.add(f.severity, f.clause, &f.file, f.place, f.found, f.allowed);
            if more > 0 {
                let c = self.counts.get_mut(&(f.clause, f.severity)).expect("just added");
                c.0 += more;
                self.findings[c.1].more += more;
            }
        }
    }
}
