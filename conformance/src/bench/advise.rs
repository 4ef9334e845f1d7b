//! Copy-on-write or merge-on-read, and when to compact: the cost of one change with the scans that follow it, predicted from what the table
//! is, what is done with it, and measured costs.

use std::fmt::Write as _;

use serde::Serialize;

use super::costs::Costs;

/// What a table is made of now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shape {
    /// Data files.
    pub files: u64,
    /// Rows in them, dead ones too.
    pub rows: u64,
    /// Rows that deletion vectors and position deletes delete.
    pub dead: u64,
    /// Bytes of the data files.
    pub bytes: u64,
    /// Equality delete files that apply to some of them; what they cost is not predicted.
    pub equality: u64,
    /// Its deletes are V2 position deletes, not vectors.
    pub v2: bool,
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Rows that a change deletes or updates.
    pub changed: f64,
    /// They are neighbours.
    pub clustered: bool,
    /// Scans of the whole table for each change.
    pub scans: f64,
}

/// The expected cost of one change, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// The change itself.
    pub change: f64,
    /// The scans until the next one, with what dead rows add on average.
    pub scans: f64,
    /// Its share of the compactions.
    pub compaction: f64,
}

impl Cost {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.change + self.scans + self.compaction
    }
}

/// The advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// `merge-on-read` or `copy-on-write`.
    pub mode: &'static str,
    /// Cost with deletion vectors.
    pub merge_on_read: Cost,
    /// Cost with files written anew.
    pub copy_on_write: Cost,
    /// Changes from one compaction to the next at which a change costs least; `None` = no scan ever pays for one.
    pub compact_every: Option<u64>,
    /// Changes from now until then, by the rows that are dead already.
    pub compact_after: Option<u64>,
    /// From so many scans a change on copy-on-write costs less; `None` = with no number of them.
    pub copy_on_write_from_scans: Option<f64>,
}

/// Most scans a change that are looked at for the break-even.
const MOST_SCANS: f64 = 1e6;
/// A table is compacted when half of its rows are dead, whatever scans cost: so far the costs were measured.
const MOST_DEAD: f64 = 0.5;

/// Rows of the files that a change touches: those of its neighbours' files, or of all files that some row falls into.
fn touched(shape: &Shape, work: &Work) -> f64 {
    let (files, rows) = (shape.files.max(1) as f64, shape.rows as f64);
    let share = if work.clustered {
        // the ends lie within a file
        ((work.changed / rows.max(1.0) * files).floor() + 1.0).min(files) / files
    } else {
        1.0 - (1.0 - 1.0 / files).powf(work.changed)
    };
    rows * share
}

/// Changes from one compaction to the next at which a change costs least: what dead rows add to the scans grows with each change, and a
/// compaction's share falls. Both are equal at the root.
fn every(shape: &Shape, work: &Work, costs: &Costs) -> Option<f64> {
    let rows = shape.rows.saturating_sub(shape.dead) as f64;
    let dear = work.scans * work.changed * (costs.scan.row + costs.scan.more);
    let best = if dear > 0.0 { (2.0 * costs.compaction * rows / dear).sqrt() } else { f64::INFINITY };
    let most = MOST_DEAD * rows / work.changed.max(f64::MIN_POSITIVE);
    let k = best.min(most);
    (k.is_finite() && k > 0.0).then(|| k.max(1.0))
}

fn merge_on_read(shape: &Shape, work: &Work, costs: &Costs) -> Cost {
    let rows = shape.rows.saturating_sub(shape.dead) as f64;
    let k = every(shape, work, costs);
    let dead = k.map_or(0.0, |k| work.changed * (k + 1.0) / 2.0);
    Cost {
        change: costs.merge_on_read.of(touched(shape, work), work.changed),
        // a compaction keeps the number of live rows
        scans: work.scans * costs.scan.of(rows, dead),
        compaction: k.map_or(0.0, |k| costs.compaction * rows / k),
    }
}

fn copy_on_write(shape: &Shape, work: &Work, costs: &Costs) -> Cost {
    let rows = shape.rows.saturating_sub(shape.dead) as f64;
    let read = touched(shape, work);
    Cost {
        change: costs.copy_on_write.of(read, (read - work.changed).max(0.0)),
        scans: work.scans * costs.scan.of(rows, 0.0),
        compaction: 0.0,
    }
}

/// The advice for a table and what is done with it.
pub fn advise(shape: &Shape, work: &Work, costs: &Costs) -> Advice {
    let cheaper = |scans: f64| {
        let w = Work { scans, ..*work };
        copy_on_write(shape, &w, costs).total() < merge_on_read(shape, &w, costs).total()
    };
    let (m, c) = (merge_on_read(shape, work, costs), copy_on_write(shape, work, costs));
    let from = if cheaper(0.0) {
        Some(0.0)
    } else if !cheaper(MOST_SCANS) {
        None
    } else {
        let (mut low, mut high) = (0.0, MOST_SCANS);
        for _ in 0..80 {
            let mid = f64::midpoint(low, high);
            if cheaper(mid) { high = mid } else { low = mid }
        }
        Some(high)
    };
    let k = every(shape, work, costs);
    let before = shape.dead as f64 / work.changed.max(1.0);
    Advice {
        mode: if c.total() < m.total() { "copy-on-write" } else { "merge-on-read" },
        merge_on_read: m,
        copy_on_write: c,
        compact_every: k.map(|k| k.round() as u64),
        compact_after: k.map(|k| (k - before).round().max(0.0) as u64),
        copy_on_write_from_scans: from,
    }
}

/// The advice in words.
pub fn text(name: &str, shape: &Shape, work: &Work, from: &str, costs: &Costs, a: &Advice) -> String {
    let mut out = String::new();
    let percent = |n: f64| format!("{:.3} %", 100.0 * n / (shape.rows.max(1) as f64));
    let _ = writeln!(
        out,
        "{name}: {} rows in {} data files ({:.1} MiB), {} of them dead ({})",
        shape.rows,
        shape.files,
        shape.bytes as f64 / f64::from(1 << 20),
        shape.dead,
        percent(shape.dead as f64)
    );
    let place = if work.clustered { "neighbours" } else { "scattered" };
    if shape.equality > 0 {
        let _ = writeln!(
            out,
            "{} equality delete files apply to it; what they hide is not counted: floe maintenance convert-equality-deletes {name}",
            shape.equality
        );
    }
    let _ = writeln!(
        out,
        "a change: {:.0} rows ({}), {place}, {} scans of the table for each ({from})",
        work.changed,
        percent(work.changed),
        work.scans
    );
    let _ = writeln!(out, "\n{:30} {:>14} {:>14}", "seconds a change", "merge-on-read", "copy-on-write");
    let (m, c) = (&a.merge_on_read, &a.copy_on_write);
    for (what, m, c) in [
        ("the change", m.change, c.change),
        ("its scans", m.scans, c.scans),
        ("its share of compactions", m.compaction, c.compaction),
        ("together", m.total(), c.total()),
    ] {
        let _ = writeln!(out, "{what:30} {m:>14.3} {c:>14.3}");
    }
    let _ = writeln!(out, "\nadvice: {}", a.mode);
    match (a.mode, a.compact_every, a.compact_after) {
        ("merge-on-read", Some(k), Some(0)) => {
            let _ = writeln!(
                out,
                "  compact now, then every {k} changes: floe maintenance rewrite-data-files {name} --option rewrite-all=true"
            );
        }
        ("merge-on-read", Some(k), Some(n)) => {
            let _ = writeln!(
                out,
                "  compact after {n} more changes, then every {k}: floe maintenance rewrite-data-files {name} --option rewrite-all=true"
            );
        }
        _ => {}
    }
    let _ = match a.copy_on_write_from_scans {
        Some(0.0) => writeln!(out, "  copy-on-write costs less with any number of scans"),
        Some(n) => writeln!(out, "  copy-on-write costs less from {} scans a change on", shown(n)),
        None => writeln!(out, "  copy-on-write does not cost less with any number of scans"),
    };
    let _ = writeln!(
        out,
        "  ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='{0}', 'write.update.mode'='{0}', 'write.merge.mode'='{0}')",
        a.mode
    );
    let _ = writeln!(
        out,
        "\ncosts of {} {} on {}: times differ elsewhere, ratios less. Measure yours: floe bench --workload deletes",
        costs.engine, costs.version, costs.machine
    );
    out
}

/// Two digits that count.
fn shown(n: f64) -> String {
    if n < 10.0 { format!("{n:.1}") } else { format!("{n:.0}") }
}
