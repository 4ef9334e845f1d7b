//! The samples as text: median and spread, warm, with the cold time beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::amplification::Amplification;
use super::{Report, Sample, Workload};

/// Samples of one line, in the order in which they were taken.
type Line<'a> = Vec<&'a Sample>;

/// One line a measurement and engine. Ratios are to floe's median of the same measurement; above 1 floe is faster.
pub fn text(r: &Report) -> String {
    let mut out = String::new();
    let of = if r.plan.workload == Workload::Metadata { "data files" } else { "rows" };
    let _ = writeln!(out, "{} {of}, {} warm samples after a cold one; {}", r.plan.rows, r.plan.samples, r.machine);
    for (name, value) in &r.plan.properties {
        let _ = writeln!(out, "tables with {name} = {value}");
    }
    for e in &r.engines {
        let _ = writeln!(out, "{} {} {}", e.name, e.version, e.iceberg);
    }
    for (name, why) in &r.absent {
        let _ = writeln!(out, "{name} takes no part: {why}");
    }
    let _ = writeln!(
        out,
        "\nadded, read and amplif.: MB that a statement added to the table's folder, MB read by calls, and how many times the changed rows' \
         share of the table a DELETE added, or the table's live bytes a scan read; requests are read and write calls"
    );
    let _ = writeln!(
        out,
        "\n{:42} {:16} {:14} {:14} {:>8} {:>8} {:>15} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9} {:>10}",
        "measurement",
        "mode",
        "engine",
        "writer",
        "cold s",
        "warm s",
        "min-max s",
        "to floe",
        "CPU s",
        "peak MiB",
        "added MB",
        "read MB",
        "requests",
        "amplif.",
        "files",
        "rows/s"
    );
    let amplification = Amplification::new(r);
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
            let _ = writeln!(out, "{}", line([what, mode, engine, writer], samples, base, &amplification));
        }
    }
    out
}

/// Milliseconds are the last digits of a statement's time; shorter work has three digits of its own.
fn seconds(s: f64) -> String {
    if s >= 0.01 { format!("{s:.3}") } else { format!("{s:.2e}") }
}

fn line(names: [&str; 4], samples: &Line<'_>, base: Option<f64>, amplification: &Amplification<'_>) -> String {
    let [what, mode, engine, writer] = names;
    let head = format!("{what:42} {mode:16} {engine:14} {writer:14}");
    if let Some(s) = samples.iter().find(|s| s.seconds.is_none()) {
        let why: String = s.reason.lines().next().unwrap_or_default().chars().take(120).collect();
        return format!("{head} - ({why})");
    }
    let shown = |v: Option<f64>, digits: usize| v.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"));
    let time = |v: Option<f64>| v.map_or_else(|| "-".into(), seconds);
    let mid = |of: &dyn Fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(|s| Some((s.round, of(s)?))));
    let times = warm(samples);
    let rows = samples.iter().map(|s| s.rows).max().unwrap_or_default();
    let files = samples.iter().rev().find_map(|s| Some(format!("{}+{}", s.data_files?, s.delete_files?)));
    format!(
        "{head} {:>8} {:>8} {:>15} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9} {:>10}",
        time(samples.first().and_then(|s| s.seconds)),
        time(times.map(|t| t.0)),
        times.map_or_else(|| "-".into(), |t| format!("{}-{}", seconds(t.1), seconds(t.2))),
        shown(times.and_then(|t| Some(t.0 / base?)), 2),
        shown(mid(&|s| s.usage.cpu_seconds), 2),
        shown(samples.iter().filter_map(|s| s.usage.peak_mib).max_by(f64::total_cmp), 0),
        shown(mid(&|s| (s.bytes > 0).then_some(s.bytes as f64 / 1e6)), 3),
        shown(mid(&|s| Some(s.usage.read_bytes? as f64 / 1e6)), 2),
        shown(mid(&|s| Some(s.usage.requests? as f64)), 0),
        shown(mid(&|s| amplification.of(s)), 2),
        files.unwrap_or_else(|| "-".into()),
        shown(times.filter(|_| rows > 0).map(|t| rows as f64 / t.0), 0),
    )
    .trim_end()
    .to_string()
}

/// Median of the warm values, or of all when there is only a cold one.
fn median(values: impl Iterator<Item = (u32, f64)>) -> Option<f64> {
    let all: Vec<(u32, f64)> = values.collect();
    let any = all.iter().any(|v| v.0 > 0);
    let mut v: Vec<f64> = all.into_iter().filter(|v| v.0 > 0 || !any).map(|v| v.1).collect();
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied()
}

/// Median, least and greatest of the warm samples.
pub(super) fn warm(samples: &Line<'_>) -> Option<(f64, f64, f64)> {
    let mut t: Vec<f64> = samples.iter().filter(|s| s.round > 0).filter_map(|s| s.seconds).collect();
    t.sort_by(f64::total_cmp);
    Some((*t.get(t.len() / 2)?, *t.first()?, *t.last()?))
}
