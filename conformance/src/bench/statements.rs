//! What the samples of the workload `statements` say of the targets: scans with deletes beside scans without, floe beside the fastest other
//! reader of its table, and floe beside Spark.

use super::Report;
use super::table::warm;
use super::targets::{self, Target, ratio};

/// Least speed of Spark over floe's.
const AGAINST_SPARK: [(&str, f64); 4] =
    [("delete one row", 10.0), ("delete 1 %", 5.0), ("update 1 %", 5.0), ("merge 1 %", 3.0)];

/// A line a target: measured, bound, and whether it is met. Only tables with deletion vectors have any.
pub fn text(r: &Report) -> String {
    targets::text(&list(r))
}

fn list(r: &Report) -> Vec<Target> {
    let mode = "merge-on-read";
    let mut out = Vec::new();
    if !r.plan.modes.iter().any(|m| m == mode) {
        return out;
    }
    let median = |what: &str, engine: &str, writer: &str| {
        let line: Vec<_> = r
            .samples
            .iter()
            .filter(|s| s.what == what && s.engine == engine && s.writer == writer && s.mode == mode)
            .collect();
        line.iter().all(|s| s.seconds.is_some()).then(|| warm(&line).map(|w| w.0)).flatten()
    };
    let sparks = || r.engines.iter().map(|e| e.name.as_str()).filter(|n| n.starts_with("spark"));
    let states = ["no deletes".to_string(), format!("{} % deleted", r.plan.samples + 1)];
    for width in ["narrow", "wide"] {
        let [without, with] = states.each_ref().map(|s| median(&format!("scan {width}, {s}"), "floe", "floe"));
        let name = format!("scan {width}, {}: time over that with no deletes", states[1]);
        out.push(Target { name, value: ratio(with, without), at_least: false, bound: 1.1, unit: "x" });
    }
    for what in states.iter().flat_map(|s| ["narrow", "wide"].map(|width| format!("scan {width}, {s}"))) {
        let floe = median(&what, "floe", "floe");
        let others = r.engines.iter().map(|e| e.name.as_str()).filter(|n| *n != "floe" && !n.starts_with("spark"));
        let fastest = others.filter_map(|e| Some((e, median(&what, e, "floe")?))).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((engine, t)) = fastest {
            let name = format!("{what}: {engine}, the fastest other / floe");
            out.push(Target { name, value: ratio(Some(t), floe), at_least: true, bound: 1.0, unit: "x" });
        }
        for spark in sparks() {
            let name = format!("{what}: {spark} / floe");
            let value = ratio(median(&what, spark, "floe"), floe);
            out.push(Target { name, value, at_least: true, bound: 5.0, unit: "x" });
        }
    }
    for spark in sparks() {
        for (what, bound) in AGAINST_SPARK {
            let value = ratio(median(what, spark, spark), median(what, "floe", "floe"));
            out.push(Target { name: format!("{what}: {spark} / floe"), value, at_least: true, bound, unit: "x" });
        }
        let value = ratio(peak(r, "floe", mode), peak(r, spark, mode));
        let name = format!("peak memory in any call after the load: floe / {spark}");
        out.push(Target { name, value, at_least: false, bound: 0.25, unit: "x" });
    }
    out
}

/// Greatest peak memory of an engine in a scan or a statement that changes rows, in MiB.
fn peak(r: &Report, engine: &str, mode: &str) -> Option<f64> {
    let its = r.samples.iter().filter(|s| s.engine == engine && s.mode == mode && s.what != "insert");
    its.filter_map(|s| s.usage.peak_mib).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests;
