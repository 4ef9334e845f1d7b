//! The checks, by family. A family walks its part of the model once and reports against the clauses it registers.

mod commit;
mod deletes;
mod entries;
mod lineage;
mod list;
mod logs;
mod manifest;
mod meta;
mod parquet;
mod posdel;
mod puffin;
mod rowid;
mod scan;
mod schema;
mod snapshots;
mod spec;
mod summary;

use crate::finding::{Severity, Sink};
use crate::model::Model;
pub(crate) use puffin::positions as dv_positions;

/// One registered check.
#[derive(Debug)]
pub struct Check {
    /// Clause id of the format digest.
    pub clause: &'static str,
    pub severity: Severity,
    pub title: &'static str,
}

/// Checks that share one walk over the table.
pub struct Family {
    pub title: &'static str,
    pub checks: &'static [Check],
    pub(crate) run: fn(&Model, &mut Sink),
}

/// Every check there is.
pub const CHECKS: &[Family] = &[
    meta::FAMILY,
    schema::FAMILY,
    spec::FAMILY,
    snapshots::FAMILY,
    logs::FAMILY,
    list::FAMILY,
    manifest::FAMILY,
    entries::FAMILY,
    commit::FAMILY,
    rowid::FAMILY,
    deletes::FAMILY,
    scan::FAMILY,
    puffin::FAMILY,
    parquet::FAMILY,
    posdel::FAMILY,
    lineage::FAMILY,
    summary::FAMILY,
];

/// All checks, flat.
pub fn all() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().flat_map(|f| f.checks)
}

pub(crate) const fn error(clause: &'static str, title: &'static str) -> Check {
    Check { clause, severity: Severity::Error, title }
}
pub(crate) const fn warning(clause: &'static str, title: &'static str) -> Check {
    Check { clause, severity: Severity::Warning, title }
}
pub(crate) const fn note(clause: &'static str, title: &'static str) -> Check {
    Check { clause, severity: Severity::Note, title }
}
