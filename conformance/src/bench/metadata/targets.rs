//! What the samples say of the targets: decode at least twice, planning at least three times as fast as Iceberg's Java library.

use floe_bench_tables::SHAPES;

use super::super::targets::{self, Target, median, ratio};
use super::super::{Report, VECTORS};
use super::{FEWEST, decode};

/// Engine that the targets are about.
const PEER: &str = "icebergjava";

/// A line a target: measured, bound, and whether it is met.
pub fn text(r: &Report) -> String {
    targets::text(&list(r))
}

fn list(r: &Report) -> Vec<Target> {
    let against = |what: &str, bound| Target {
        name: format!("{what}: {PEER} / floe"),
        value: ratio(median(r, what, PEER, VECTORS), median(r, what, "floe", VECTORS)),
        at_least: true,
        bound,
        unit: "x",
    };
    let mut out = Vec::new();
    let mut size = FEWEST;
    while size <= u64::from(r.plan.rows) * 10 {
        out.extend(SHAPES.iter().map(|(_, words)| against(&decode(size, words), 2.0)));
        size *= 10;
    }
    out.push(against("planning of all data files", 3.0));
    out
}
