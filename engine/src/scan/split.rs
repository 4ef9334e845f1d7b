//! Splits of data files, and their grouping into partitions of a plan.

use std::sync::Arc;

use super::plan::FileTask;
use crate::Table;
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

/// Least bytes a split is planned for when the target adapts to the parallelism.
const MIN_ADAPTIVE: i64 = 16 << 20;

/// Groups files into at most about `parallelism` partitions, as Iceberg plans tasks: `read.split.target-size`,
/// `read.split.open-file-cost`, adapted to the scan's size (PROP-*). Order is kept.
pub fn group(tasks: Vec<FileTask>, table: &Table, parallelism: usize) -> Vec<Vec<Split>> {
    let property = |key: &str, default: i64| table.property(key, "").parse().ok().filter(|v| *v > 0).unwrap_or(default);
    let max_target: i64 = property("read.split.target-size", 128 << 20);
    let open_cost: i64 = property("read.split.open-file-cost", 4 << 20);
    let total: i64 = tasks.iter().map(|t| t.entry.file.file_size.max(open_cost)).sum();
    let per_core = total.div_euclid(parallelism.max(1) as i64) + 1;
    let target = per_core.clamp(MIN_ADAPTIVE.min(max_target), max_target);
    let mut groups: Vec<Vec<Split>> = Vec::new();
    let mut room = 0;
    for split in tasks.into_iter().flat_map(|t| splits(Arc::new(t), target)) {
        let cost = split.weight.max(open_cost);
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
