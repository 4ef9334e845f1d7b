//! What the samples say of the target for many small deletes: the last ones take no longer, and no more memory, than the first.

use super::super::targets::{self, Target, ratio};
use super::super::{Report, Sample};
use super::SMALL_DELETE;

/// Small deletes below which nothing is said: a tenth of them must be enough for a median.
const FEWEST: usize = 50;

/// A line a target: measured, bound, and whether it is met. Only tables with deletion vectors have any.
pub fn text(r: &Report) -> String {
    let its = |s: &&Sample| s.engine == "floe" && s.mode == "merge-on-read" && s.what == SMALL_DELETE;
    let mut all: Vec<&Sample> = r.samples.iter().filter(its).collect();
    all.sort_by_key(|s| s.round);
    if all.len() < FEWEST || all.iter().any(|s| s.seconds.is_none()) {
        return String::new();
    }
    let (first, last) = (&all[..all.len() / 10], &all[all.len() - all.len() / 10..]);
    let grown = |of: fn(&Sample) -> Option<f64>| ratio(median(last, of), median(first, of));
    let target = |what: &str, value, bound| Target {
        name: format!("{} small deletes, {what} of the last tenth over the first", all.len()),
        value,
        at_least: false,
        bound,
        unit: "x",
    };
    targets::text(&[
        target("time", grown(|s| s.seconds), 1.5),
        // memory that an allocator keeps is no growth: a tenth more is the most that is taken for noise
        target("peak memory", grown(|s| s.usage.peak_mib), 1.1),
    ])
}

/// None when a sample does not have it.
fn median(samples: &[&Sample], of: fn(&Sample) -> Option<f64>) -> Option<f64> {
    let mut v = samples.iter().map(|s| of(s)).collect::<Option<Vec<f64>>>()?;
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied()
}
