//! What the samples say of the targets.

use super::super::targets::{self, Target, median, ratio};
use super::super::{Report, Sample};

/// A line a target: measured, bound, and whether it is met.
pub fn text(r: &Report) -> String {
    targets::text(&list(r))
}

fn list(r: &Report) -> Vec<Target> {
    let (rows, each) = (r.plan.rows, r.plan.rows / 1000);
    let floe = |what: &str, mode: &str| median(r, what, "floe", mode);
    let at_most = |name: String, value, bound, unit| Target { name, value, at_least: false, bound, unit };
    let mut out = Vec::new();
    for e in r.engines.iter().filter(|e| e.name.starts_with("spark")) {
        out.push(Target {
            name: format!("sync of 1 % updates, copy-on-write history: {} / floe", e.name),
            value: ratio(
                median(r, "sync, 1 % updated", &e.name, "copy-on-write"),
                floe("sync, 1 % updated", "copy-on-write"),
            ),
            at_least: true,
            bound: 5.0,
            unit: "x",
        });
    }
    for mode in &r.plan.modes {
        for kind in ["changelog", "sync"] {
            let value = ratio(floe(&format!("{kind}, 2 % updated"), mode), floe(&format!("{kind}, 1 % updated"), mode));
            out.push(at_most(format!("{kind}, {mode}: twice the changes"), value, 2.3, "x"));
        }
    }
    for shape in ["neighbours", "scattered"] {
        let of = |size: u32, kind: &str| format!("{kind}, {each} {shape} updated of {size}");
        for kind in ["changelog", "sync"] {
            let value = ratio(floe(&of(rows, kind), "merge-on-read"), floe(&of(rows / 10, kind), "merge-on-read"));
            out.push(at_most(format!("{kind} of {each} {shape}: ten times the table"), value, 1.5, "x"));
        }
        let peak = |size: u32| peak(r, |s| s.what == of(size, "sync"));
        let value = ratio(peak(rows), peak(rows / 10));
        out.push(at_most(format!("peak memory of a sync of {each} {shape}: ten times the table"), value, 1.5, "x"));
    }
    out.push(at_most("peak memory of this process in any sync".into(), peak(r, |_| true), 1024.0, " MiB"));
    out
}

fn peak(r: &Report, of: impl Fn(&Sample) -> bool) -> Option<f64> {
    r.samples.iter().filter(|s| of(s)).filter_map(|s| s.usage.peak_mib).max_by(f64::total_cmp)
}
