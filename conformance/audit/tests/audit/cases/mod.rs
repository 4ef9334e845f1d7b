//! Faults, one or more a check.

pub mod bytes;
pub mod manifests;
pub mod meta;

use floe_audit::Severity;

use crate::fixture::Table;

/// Clause and severity to be found, and the fault.
pub type Case = (&'static str, Severity, fn(&mut Table));
