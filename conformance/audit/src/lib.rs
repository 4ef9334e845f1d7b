//! The auditor: judges an Iceberg table by its raw bytes, clause by clause.
//!
//! It reads metadata JSON, Avro manifests and lists, Puffin bytes and Parquet footers of a table that anyone wrote, and
//! knows neither `floe-engine` nor the `iceberg` crate, so that a fault they share cannot hide. Every check is registered
//! in [`CHECKS`] with its clause, and `docs/audit-coverage.md` is generated from that table.

mod avro;
mod checks;
mod dv;
mod finding;
mod load;
mod model;
mod puffin;
mod report;
mod rows;
mod types;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use checks::{CHECKS, Check, Family};
pub use finding::{Finding, Severity};
pub use report::{Counts, Report, coverage_markdown};

/// What to audit and how deep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Open Parquet files: footers, position deletes, stored lineage. Files are sized in any case.
    pub data: bool,
    /// Location prefixes and what replaces them, for tables that were moved or live in another store.
    pub maps: Vec<(String, String)>,
    /// Worker threads; all cores when `None`.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { data: true, maps: Vec::new(), threads: None }
    }
}

/// Why nothing could be judged.
#[derive(Debug, thiserror::Error)]
#[error("unreadable table: {0}")]
pub struct Unreadable(pub String);

/// Audits a table folder or a metadata file.
///
/// # Errors
/// [`Unreadable`] when no metadata file is found or it is not a JSON object. Everything else is a finding.
pub fn audit(target: &Path, opts: &Options) -> Result<Report, Unreadable> {
    let model = load::load(target, opts).map_err(Unreadable)?;
    let mut sink = finding::Sink::default();
    for f in checks::CHECKS {
        (f.run)(&model, &mut sink);
    }
    Ok(Report::new(&model, sink.findings))
}

/// Title of the registered check; a finding without one is a programming fault.
pub(crate) fn title(clause: &str, severity: Severity) -> &'static str {
    let c = checks::all().find(|c| c.clause == clause && c.severity == severity);
    debug_assert!(c.is_some(), "no check registered for {clause} {severity}");
    c.map_or("unregistered check", |c| c.title)
}

/// Runs `f` over `items` on `threads` threads.
pub(crate) fn parallel<T: Sync>(threads: usize, items: &[T], f: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..threads.min(items.len()).max(1) {
            s.spawn(|| {
                while let Some(i) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    f(i);
                }
            });
        }
    });
}

/// Like [`parallel`], each item with a sink of its own; findings come back in the order of `items`.
pub(crate) fn parallel_findings<T: Sync>(
    threads: usize,
    items: &[T],
    sink: &mut finding::Sink,
    f: impl Fn(&T, &mut finding::Sink) + Sync,
) {
    let found: Mutex<Vec<(usize, finding::Sink)>> = Mutex::new(Vec::new());
    let numbered: Vec<(usize, &T)> = items.iter().enumerate().collect();
    parallel(threads, &numbered, |(i, t)| {
        let mut s = finding::Sink::default();
        f(t, &mut s);
        if !s.findings.is_empty() {
            found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((*i, s));
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(i, _)| *i);
    for (_, s) in found {
        sink.merge(s);
    }
}
