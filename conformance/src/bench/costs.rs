//! What work costs, fitted to a measured run of the workload `deletes`: seconds as a sum of few terms, by non-negative least squares of
//! the relative error. `floe advise` predicts with it.

use serde::{Deserialize, Serialize};

use super::deletes::{CLUSTERED, COMPACT, Cut, DELETE, SCAN, SCATTERED};
use super::{Report, Sample};

/// Files of a benchmark table.
pub(super) const FILES: u32 = 4;

/// Seconds = `call` + `row` × rows that are looked at + `more` × what the measure says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds of a call that does nothing.
    pub call: f64,
    /// Seconds a row of the files that are read.
    pub row: f64,
    /// Seconds a row that is deleted (merge-on-read), written anew (copy-on-write), or dead and skipped (scan).
    pub more: f64,
}

impl Line {
    /// Seconds.
    pub fn of(&self, rows: f64, more: f64) -> f64 {
        self.call + self.row * rows + self.more * more
    }
}

/// Costs of an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Registry name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// What it was measured on.
    pub machine: String,
    /// A scan; `more` counts dead rows that are skipped.
    pub scan: Line,
    /// DELETE with deletion vectors, or V2 position deletes; `more` counts deleted rows.
    pub merge_on_read: Line,
    /// DELETE by rewriting files; `more` counts rows written anew.
    pub copy_on_write: Line,
    /// Compaction, seconds a live row.
    pub compaction: f64,
}

/// One measurement with what explains it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Rows of the files that are read.
    pub rows: f64,
    /// The other term.
    pub more: f64,
    /// Median of the warm samples, in seconds.
    pub seconds: f64,
}

/// Median of the warm samples; `None` when there is none.
pub fn median<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let mut t: Vec<f64> = samples.filter(|s| s.round > 0).filter_map(|s| s.seconds).collect();
    t.sort_by(f64::total_cmp);
    t.get(t.len() / 2).copied()
}

/// Rows of the files that a DELETE has to look at, and of those how many it writes anew when it replaces them. A file whose rows all go is
/// dropped unread.
fn touched(cut: Cut, rows: u32) -> (f64, f64) {
    let (mut read, mut rewritten) = (0, 0);
    for f in 0..FILES {
        let (from, to) =
            (f64::from(rows) / f64::from(FILES) * f64::from(f), f64::from(rows) / f64::from(FILES) * f64::from(f + 1));
        let (from, to) = (from.round() as u32, to.round() as u32);
        let gone = cut.count(from..to, rows);
        if gone > 0 && gone < to - from {
            read += to - from;
            rewritten += to - from - gone;
        }
    }
    (f64::from(read), f64::from(rewritten))
}

/// The shares and places of a run, each once.
fn cuts(r: &Report) -> Vec<Cut> {
    let mut out: Vec<Cut> = Vec::new();
    for s in r.samples.iter().filter(|s| s.what == DELETE && (s.place == SCATTERED || s.place == CLUSTERED)) {
        if let Some(cut) =
            s.percent.map(|p| Cut { one_in: (100.0 / p).round() as u32, clustered: s.place == CLUSTERED })
            && !out.contains(&cut)
        {
            out.push(cut);
        }
    }
    out
}

fn at(s: &Sample, what: &str, cut: Cut) -> bool {
    s.what == what && s.place == cut.place() && s.percent.is_some_and(|p| (p - cut.percent()).abs() < 1e-9)
}

/// DELETEs of an engine in a mode, with what explains their time.
pub fn deletes(r: &Report, engine: &str, mode: &str) -> Vec<(String, f64, Point)> {
    let mut out = Vec::new();
    for cut in cuts(r) {
        let (read, rewritten) = touched(cut, r.plan.rows);
        let deleted = f64::from(cut.count(0..r.plan.rows, r.plan.rows));
        let more = if mode == "copy-on-write" { rewritten } else { deleted };
        let these = r.samples.iter().filter(|s| s.engine == engine && s.mode == mode && at(s, DELETE, cut));
        if let Some(seconds) = median(these) {
            out.push((cut.place().to_string(), cut.percent(), Point { rows: read, more, seconds }));
        }
    }
    out
}

/// Scans by an engine of its own tables of a mode after the deletes.
pub fn scans(r: &Report, engine: &str, mode: &str) -> Vec<(String, f64, Point)> {
    let rows = f64::from(r.plan.rows);
    let own = |s: &&Sample| s.engine == engine && s.writer == engine && s.mode == mode;
    let mut out = Vec::new();
    for cut in cuts(r) {
        let deleted = f64::from(cut.count(0..r.plan.rows, r.plan.rows));
        let (read, rewritten) = touched(cut, r.plan.rows);
        // files whose rows all go are dropped in every mode
        let dropped = deleted - (read - rewritten);
        let (there, dead) =
            if mode == "copy-on-write" { (rows - deleted, 0.0) } else { (rows - dropped, read - rewritten) };
        if let Some(seconds) = median(r.samples.iter().filter(own).filter(|s| at(s, SCAN, cut))) {
            out.push((cut.place().to_string(), cut.percent(), Point { rows: there, more: dead, seconds }));
        }
    }
    out
}

/// Costs of every engine that both wrote and read tables in the mode `deletes_in` (`merge-on-read` or [`super::POSITION_DELETES`]) and by
/// copy-on-write.
pub fn fit(r: &Report, deletes_in: &str) -> Vec<Costs> {
    let mut out = Vec::new();
    for e in &r.engines {
        let points = |of: Vec<(String, f64, Point)>| of.into_iter().map(|p| p.2).collect::<Vec<_>>();
        let vectors = points(deletes(r, &e.name, deletes_in));
        let whole = points(deletes(r, &e.name, "copy-on-write"));
        let mut read = points(scans(r, &e.name, deletes_in));
        read.extend(points(scans(r, &e.name, "copy-on-write")));
        if vectors.len() < 4 || whole.len() < 4 || read.len() < 4 {
            continue;
        }
        let compacted = |s: &&Sample| s.engine == e.name && s.what == COMPACT && s.mode == deletes_in;
        let compaction = median(r.samples.iter().filter(compacted)).unwrap_or(0.0) / f64::from(r.plan.rows.max(1));
        out.push(Costs {
            engine: e.name.clone(),
            version: e.version.clone(),
            machine: r.machine.clone(),
            scan: line(&read),
            merge_on_read: line(&vectors),
            copy_on_write: line(&whole),
            compaction,
        });
    }
    out
}

/// The line that is nearest to the points, by relative error; no term is negative.
pub fn line(points: &[Point]) -> Line {
    let best = (1u8..8)
        .filter_map(|used| solve(points, used))
        .filter(|l| l.call >= 0.0 && l.row >= 0.0 && l.more >= 0.0)
        .min_by(|a, b| error(points, a).total_cmp(&error(points, b)));
    best.unwrap_or_default()
}

fn error(points: &[Point], l: &Line) -> f64 {
    points.iter().map(|p| (l.of(p.rows, p.more) / p.seconds - 1.0).powi(2)).sum()
}

/// Least squares over the terms whose bit is set; `None` when they do not tell them apart.
fn solve(points: &[Point], used: u8) -> Option<Line> {
    let terms: Vec<usize> = (0..3).filter(|i| used & (1 << i) != 0).collect();
    let n = terms.len();
    let mut m = vec![vec![0.0; n + 1]; n];
    for p in points {
        let x = [1.0, p.rows, p.more].map(|v| v / p.seconds);
        for (i, a) in terms.iter().enumerate() {
            for (j, b) in terms.iter().enumerate() {
                m[i][j] += x[*a] * x[*b];
            }
            m[i][n] += x[*a];
        }
    }
    // elimination with the largest pivot
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        let head = m[i].clone();
        if head[i].abs() < 1e-12 {
            return None;
        }
        for row in m.iter_mut().skip(i + 1) {
            let f = row[i] / head[i];
            row.iter_mut().zip(&head).for_each(|(v, h)| *v -= f * h);
        }
    }
    let mut found = vec![0.0; n];
    for i in (0..n).rev() {
        let rest: f64 = (i + 1..n).map(|j| m[i][j] * found[j]).sum();
        found[i] = (m[i][n] - rest) / m[i][i];
    }
    let term = |t: usize| terms.iter().position(|x| *x == t).map_or(0.0, |i| found[i]);
    let out = Line { call: term(0), row: term(1), more: term(2) };
    (out.call.is_finite() && out.row.is_finite() && out.more.is_finite()).then_some(out)
}
