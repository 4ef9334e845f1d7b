//! The samples as text: median and spread, warm, with the cold time beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Report, Sample, Workload};

/// Samples of one line, in the order in which they were taken.
type Line<'a> = Vec<&'a Sample>;

/// One line a measurement and engine. Ratios are to floe's median of the same measurement; above 1 floe is faster.
pub fn text(r: &Report) -> String {
    let mut out = String::new();
    let of = if r.plan.workload == Workload::Metadata { "data files" } else { "rows" };
    let _ = writeln!(out, "{} {of}, {} warm samples after a cold one; {}", r.plan.rows, r.plan.samples, r.machine);
    for e in &r.engines {
        let _ = writeln!(out, "{} {} {}", e.name, e.version, e.iceberg);
    }
    for (name, why) in &r.absent {
        let _ = writeln!(out, "{name} takes no part: {why}");
    }
    let _ = writeln!(
        out,
        "\n{:44} {:16} {:10} {:10} {:>8} {:>8} {:>15} {:>9} {:>10} {:>10} {:>8}",
        "measurement",
        "mode",
        "engine",
        "writer",
        "cold s",
        "warm s",
        "min-max s",
        "to floe",
        "bytes",
        "rows/s",
        "peak MiB"
    );
    let mut order: Vec<(String, &str)> = Vec::new();
    let mut lines: BTreeMap<(String, &str, &str, &str), Line<'_>> = BTreeMap::new();
    for s in &r.samples {
        let what = s.name();
        if !order.iter().any(|o| o.0 == what && o.1 == s.mode) {
            order.push((what.clone(), &s.mode));
        }
        lines.entry((what, &s.mode, &s.writer, &s.engine)).or_default().push(s);
    }
    for (what, mode) in &order {
        let these = || lines.iter().filter(|(k, _)| k.0 == *what && k.1 == *mode);
        // statements run on tables of their own, queries on the same ones
        let floe = |writer: &str| {
            let same = these().find(|(k, _)| k.3 == "floe" && (k.2 == writer || writer.is_empty()));
            same.and_then(|(_, l)| warm(l)).map(|w| w.0)
        };
        for ((_, _, writer, engine), samples) in these() {
            let query = samples.iter().all(|s| s.what.starts_with("scan"));
            let base = floe(if query { writer } else { "" });
            let _ = writeln!(out, "{}", line(what, mode, engine, writer, samples, base));
        }
    }
    out
}

/// Milliseconds are the last digits of a statement's time; shorter work has three digits of its own.
fn seconds(s: f64) -> String {
    if s >= 0.01 { format!("{s:.3}") } else { format!("{s:.2e}") }
}

fn line(what: &str, mode: &str, engine: &str, writer: &str, samples: &Line<'_>, base: Option<f64>) -> String {
    let head = format!("{what:44} {mode:16} {engine:10} {writer:10}");
    if let Some(s) = samples.iter().find(|s| s.seconds.is_none()) {
        return format!(
            "{head} - ({})",
            s.reason.lines().next().unwrap_or_default().chars().take(90).collect::<String>()
        );
    }
    let cold = samples.first().and_then(|s| s.seconds).map_or_else(|| "-".into(), seconds);
    let bytes: u64 = samples.iter().map(|s| s.bytes).sum::<u64>() / samples.len().max(1) as u64;
    let rows = samples.iter().map(|s| s.rows).max().unwrap_or_default();
    let peak = samples.iter().filter_map(|s| s.peak_mib).max_by(f64::total_cmp);
    let peak = peak.map_or_else(|| "-".into(), |p| format!("{p:.0}"));
    match warm(samples) {
        None => format!("{head} {cold:>8} {:>8} {:>15} {:>9} {bytes:>10} {:>10} {peak:>8}", "-", "-", "-", "-"),
        Some((median, min, max)) => {
            let ratio = base.map_or_else(|| "-".into(), |b| format!("{:.2}", median / b));
            let (median_s, spread) = (seconds(median), format!("{}-{}", seconds(min), seconds(max)));
            let speed = if rows == 0 { "-".into() } else { format!("{:.0}", rows as f64 / median) };
            format!("{head} {cold:>8} {median_s:>8} {spread:>15} {ratio:>9} {bytes:>10} {speed:>10} {peak:>8}")
        }
    }
}

/// Median, least and greatest of the warm samples.
pub(super) fn warm(samples: &Line<'_>) -> Option<(f64, f64, f64)> {
    let mut t: Vec<f64> = samples.iter().filter(|s| s.round > 0).filter_map(|s| s.seconds).collect();
    t.sort_by(f64::total_cmp);
    Some((*t.get(t.len() / 2)?, *t.first()?, *t.last()?))
}
