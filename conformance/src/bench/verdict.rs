//! A run of the workload `deletes` as ratios in coarse buckets, so that another run on another day is the same text.

use std::fmt::Write as _;

use super::costs::{deletes, median, scans};
use super::deletes::{CLUSTERED, DELETE, SCAN, SCATTERED, SMALL_DELETE};
use super::{EQUALITY_DELETES, POSITION_DELETES, Report, Sample};

/// How often the first goes into the second, in words that noise seldom changes.
fn bucket(ratio: f64) -> &'static str {
    match ratio {
        r if r.is_nan() => "-",
        r if r < 0.1 => "below 1/10",
        r if r < 0.4 => "1/10 to 2/5",
        r if r < 0.75 => "2/5 to 3/4",
        r if r <= 1.33 => "the same",
        r if r <= 2.5 => "4/3 to 5/2",
        r if r <= 10.0 => "5/2 to 10",
        r if r <= 50.0 => "10 to 50",
        _ => "above 50",
    }
}

/// For each engine, place and share: copy-on-write's DELETE against that with vectors, and scans after it with vectors against copy-on-write
/// and against V2's position deletes; then the last of many small deletes against the first.
pub fn text(r: &Report) -> String {
    let mut out = format!("{} rows, {} warm samples\n", r.plan.rows, r.plan.samples);
    let _ = writeln!(
        out,
        "{:14} {:10} {:>8}  {:22} {:20} {:20} {:24}",
        "engine",
        "rows lie",
        "deleted",
        "DELETE: COW / vectors",
        "scan: vectors / COW",
        "scan: vectors / V2",
        "scan: equality / vectors"
    );
    for e in &r.engines {
        for place in [SCATTERED, CLUSTERED] {
            let vectors = deletes(r, &e.name, "merge-on-read");
            for (_, percent, _) in vectors.iter().filter(|v| v.0 == place) {
                let seconds = |points: Vec<(String, f64, super::costs::Point)>| {
                    let same = points.iter().find(|p| p.0 == place && (p.1 - percent).abs() < 1e-9);
                    same.map_or(f64::NAN, |p| p.2.seconds)
                };
                let scan = |mode| seconds(scans(r, &e.name, mode));
                let write = seconds(deletes(r, &e.name, "copy-on-write")) / seconds(vectors.clone());
                let read = scan("merge-on-read") / scan("copy-on-write");
                let old = scan("merge-on-read") / scan(POSITION_DELETES);
                let equality = scan(EQUALITY_DELETES) / scan("merge-on-read");
                let line = format!(
                    "{:14} {place:10} {:>8}  {:22} {:20} {:20} {:24}",
                    e.name,
                    format!("{percent} %"),
                    bucket(write),
                    bucket(read),
                    bucket(old),
                    bucket(equality)
                );
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
    }
    out += &peers(r);
    for e in &r.engines {
        for mode in &r.plan.modes {
            let of = |s: &&super::Sample| s.engine == e.name && s.mode == *mode && s.what == SMALL_DELETE;
            let times: Vec<f64> = r.samples.iter().filter(of).filter_map(|s| s.seconds).collect();
            let tenth = times.len() / 10;
            if tenth > 0 {
                let mid = |t: &[f64]| {
                    let mut t = t.to_vec();
                    t.sort_by(f64::total_cmp);
                    t[t.len() / 2]
                };
                let grown = mid(&times[times.len() - tenth..]) / mid(&times[1..=tenth]);
                let _ = writeln!(
                    out,
                    "{} {mode}: the last of {} small deletes against the first: {}",
                    e.name,
                    times.len(),
                    bucket(grown)
                );
            }
        }
    }
    out
}

/// Each other engine against floe at 1 % scattered rows, by mode: its DELETE in a table of its own, its scan of floe's table after it.
fn peers(r: &Report) -> String {
    let mut out = String::new();
    for e in r.engines.iter().filter(|e| e.name != "floe") {
        for mode in &r.plan.modes {
            let time = |engine: &str, what: &str| {
                let of = |s: &&Sample| {
                    let place = s.place == SCATTERED && s.percent.is_some_and(|p| (p - 1.0).abs() < 1e-9);
                    s.engine == engine
                        && s.mode == *mode
                        && s.what == what
                        && place
                        && (what == DELETE || s.writer == "floe")
                };
                median(r.samples.iter().filter(of)).unwrap_or(f64::NAN)
            };
            let ratio = |what| bucket(time(&e.name, what) / time("floe", what));
            let _ = writeln!(
                out,
                "{} / floe, 1 % scattered, {mode}: DELETE {}, scan of floe's table {}",
                e.name,
                ratio(DELETE),
                ratio(SCAN)
            );
        }
    }
    out
}
