//! Splits of data files, and their grouping into partitions of a plan.

use std::sync::Arc;

use super::plan::{FileTask, work};
use crate::Table;
use crate::io::normal;
use crate::manifest::FileFormat;

/// A data file, or the row groups of it that start in a byte range. Only Parquet files are split.
#[derive(Debug, Clone)]
pub struct Split {
    /// The file.
    pub task: Arc<FileTask>,
    /// Row groups starting in `[start, end)`; `None` = all.
    pub range: Option<(i64, i64)>,
    /// Bytes, for balancing.
    pub weight: i64,
}

impl Split {
    /// What reading it takes: the file's rows lie in it as its bytes do.
    fn work(&self) -> i64 {
        let file = &self.task.entry.file;
        let share = self.weight as f64 / file.file_size.max(1) as f64;
        work(self.weight, (file.record_count as f64 * share) as i64)
    }
}

/// Least bytes a split is planned for when the target adapts to the parallelism.
const MIN_ADAPTIVE: i64 = 16 << 20;

/// The most that opening a local file counts for, in bytes read: what it costs a core. `read.split.open-file-cost` stands for the latency
/// of a store, against which more groups help.
const OPENING: i64 = 256 << 10;

/// Groups files into partitions as Iceberg plans tasks: `read.split.target-size`, `read.split.open-file-cost` (PROP-*). A scan that
/// fits into `parallelism` such groups is shared out among so many, as evenly as its files allow. Order is kept.
pub fn group(tasks: Vec<FileTask>, table: &Table, parallelism: usize) -> Vec<Vec<Split>> {
    let property = |key: &str, default: i64| table.property(key, "").parse().ok().filter(|v| *v > 0).unwrap_or(default);
    let max_target: i64 = property("read.split.target-size", 128 << 20);
    let open_cost: i64 = property("read.split.open-file-cost", 4 << 20);
    let local = tasks.iter().all(|t| normal(&t.entry.file.path).starts_with('/'));
    let opening = if local { OPENING.min(open_cost) } else { open_cost };
    // one task's bytes are the user's to set; how many cores share what is less is a matter of the work
    let total: i64 = tasks.iter().map(|t| t.entry.file.file_size.saturating_add(opening)).fold(0, i64::saturating_add);
    let per_core = total.div_euclid(parallelism.max(1) as i64) + 1;
    let least = MIN_ADAPTIVE.min(max_target);
    let target = per_core.clamp(least, max_target);
    let splits: Vec<Split> = tasks.into_iter().flat_map(|t| splits(Arc::new(t), target)).collect();
    let (costs, target) = if target < max_target {
        share(splits.iter().map(Split::work), opening, least, parallelism)
    } else {
        (splits.iter().map(|s| s.weight.max(open_cost)).collect(), target)
    };
    let mut groups: Vec<Vec<Split>> = Vec::new();
    let mut room = 0;
    for (split, cost) in splits.into_iter().zip(costs) {
        match groups.last_mut() {
            Some(last) if cost <= room => {
                room -= cost;
                last.push(split);
            }
            _ => {
                room = target - cost;
                groups.push(vec![split]);
            }
        }
    }
    groups
}

/// What each split costs a core, and the size of a group, from `least` on, with which every core has as much to do.
fn share(work: impl Iterator<Item = i64>, opening: i64, least: i64, cores: usize) -> (Vec<i64>, i64) {
    let costs: Vec<i64> = work.map(|w| w.saturating_add(opening)).collect();
    let target = even(&costs, least, cores.max(1));
    (costs, target)
}

/// The least size of a group, from `least` on, with which costs in their order fit into `groups` groups: a little less would leave
/// one group more, which runs when the others have ended.
fn even(costs: &[i64], least: i64, groups: usize) -> i64 {
    let needed = |target: i64| {
        let (mut count, mut room) = (0, 0);
        for cost in costs {
            if *cost <= room {
                room -= cost;
            } else {
                count += 1;
                room = target - cost;
            }
        }
        count
    };
    let (mut low, mut high) = (least, costs.iter().copied().fold(0, i64::saturating_add).max(least));
    while low < high {
        let middle = low + (high - low) / 2;
        if needed(middle) <= groups { high = middle } else { low = middle + 1 }
    }
    low
}

fn splits(task: Arc<FileTask>, target: i64) -> Vec<Split> {
    let size = task.entry.file.file_size;
    let parquet = task.entry.file.format == FileFormat::Parquet;
    let offsets = match &task.entry.file.split_offsets {
        Some(o) if parquet && size > target && o.len() > 1 && o.windows(2).all(|w| w[0] < w[1]) => o.clone(),
        _ => return vec![Split { task, range: None, weight: size }],
    };
    let mut out = Vec::new();
    let mut start = 0;
    for next in offsets.into_iter().skip(1).chain([i64::MAX]) {
        let end = if next == i64::MAX { size } else { next };
        if end - start >= target || next == i64::MAX {
            out.push(Split { task: task.clone(), range: Some((start, next)), weight: end - start });
            start = next;
        }
    }
    out
}

#[cfg(test)]
mod tests;
