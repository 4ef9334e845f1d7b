//! Bounds that a run is held to, and what its samples say of them.

use std::fmt::Write as _;

use super::table::warm;
use super::{Report, Sample};

/// A quantity that has a bound.
pub(super) struct Target {
    pub name: String,
    /// None when it was not measured.
    pub value: Option<f64>,
    /// Whether the bound is one from below.
    pub at_least: bool,
    pub bound: f64,
    pub unit: &'static str,
}

/// A line a target: measured, bound, and whether it is met; nothing when there are none.
pub(super) fn text(targets: &[Target]) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let mut out = String::from("\ntargets (warm medians)\n");
    for t in targets {
        let sign = if t.at_least { ">=" } else { "<=" };
        let Some(value) = t.value else {
            let _ = writeln!(out, "{:78} {:>9} {sign} {}{} not measured", t.name, "-", t.bound, t.unit);
            continue;
        };
        let met = if t.at_least { value >= t.bound } else { value <= t.bound };
        let word = if met { "met" } else { "missed" };
        let _ = writeln!(out, "{:78} {value:>9.2} {sign} {}{} {word}", t.name, t.bound, t.unit);
    }
    out
}

/// The first over the second.
pub(super) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

/// Warm median of a measurement; none when a call of it gave no time.
pub(super) fn median(r: &Report, what: &str, engine: &str, mode: &str) -> Option<f64> {
    let line: Vec<&Sample> =
        r.samples.iter().filter(|s| s.what == what && s.engine == engine && s.mode == mode).collect();
    if line.iter().any(|s| s.seconds.is_none()) {
        return None;
    }
    warm(&line).map(|w| w.0)
}
