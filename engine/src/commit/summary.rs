//! Snapshot summaries with Java's keys and values (SUMMARY-10..53).

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{Literal, Struct};

use crate::manifest::{Content, DataFile, partition_type};
use crate::table::Metadata;
use crate::types::partition_path;
use crate::{Error, Result};

/// Counts of one direction, added or removed.
#[derive(Debug, Default)]
struct Side {
    data_files: i64,
    records: i64,
    size: i64,
    delete_files: i64,
    eq_files: i64,
    pos_files: i64,
    dvs: i64,
    pos_rows: i64,
    eq_rows: i64,
}

impl Side {
    fn count(&mut self, f: &DataFile) {
        self.size += f.summary_size();
        match f.content {
            Content::Data => {
                self.data_files += 1;
                self.records += f.record_count;
                return;
            }
            Content::PositionDeletes => {
                if f.is_dv() {
                    self.dvs += 1;
                } else {
                    self.pos_files += 1;
                }
                self.pos_rows += f.record_count;
            }
            Content::EqualityDeletes => {
                self.eq_files += 1;
                self.eq_rows += f.record_count;
            }
        }
        self.delete_files += 1;
    }
}

/// Identity of a partition across specs: names and values, as a partition path would have them.
type PartitionKey = Vec<(String, Option<Literal>)>;

/// Collects what a snapshot adds and removes.
pub(crate) struct Summary<'m> {
    metadata: &'m Metadata,
    added: Side,
    removed: Side,
    duplicates: i64,
    partitions: HashMap<PartitionKey, Touched>,
}

/// What happened in one partition.
#[derive(Debug)]
struct Touched {
    spec_id: i32,
    tuple: Arc<Struct>,
    added: Side,
    removed: Side,
}

impl<'m> Summary<'m> {
    pub(crate) fn new(metadata: &'m Metadata) -> Self {
        Self { metadata, added: Side::default(), removed: Side::default(), duplicates: 0, partitions: HashMap::new() }
    }

    pub(crate) fn add(&mut self, f: &DataFile) {
        self.added.count(f);
        self.touch(f).added.count(f);
    }

    pub(crate) fn remove(&mut self, f: &DataFile) {
        self.removed.count(f);
        self.touch(f).removed.count(f);
    }

    pub(crate) fn duplicate(&mut self) {
        self.duplicates += 1;
    }

    fn touch(&mut self, f: &DataFile) -> &mut Touched {
        let spec = self.metadata.partition_spec_by_id(f.spec_id);
        let names = spec.map(|s| s.fields()).unwrap_or_default();
        let key = names.iter().zip(f.partition.fields()).map(|(n, v)| (n.name.clone(), v.clone())).collect();
        self.partitions.entry(key).or_insert_with(|| Touched {
            spec_id: f.spec_id,
            tuple: f.partition.clone(),
            added: Side::default(),
            removed: Side::default(),
        })
    }

    /// `partitions.<path>` = `k=v,k=v` for each changed partition, when there are at most
    /// `write.summary.partition-limit` (SUMMARY-33).
    fn partition_properties(&self) -> Result<Vec<(String, String)>> {
        const LIMIT: &str = "write.summary.partition-limit";
        let limit = match self.metadata.properties().get(LIMIT) {
            None => 0,
            Some(v) => v
                .trim()
                .parse::<i64>()
                .map_err(|_| Error::invalid(format!("{v:?} is not a whole number")).at(LIMIT).clause("PROP-22"))?,
        };
        if self.partitions.is_empty() || self.partitions.len() as i64 > limit {
            return Ok(Vec::new());
        }
        let mut out = vec![("partition-summaries-included".to_string(), "true".to_string())];
        for p in self.partitions.values() {
            let ty = partition_type(self.metadata, p.spec_id)?;
            let Some(spec) = self.metadata.partition_spec_by_id(p.spec_id) else {
                continue;
            };
            let counts: Vec<String> = counts(&p.added, &p.removed).map(|(k, n)| format!("{k}={n}")).collect();
            out.push((format!("partitions.{}", partition_path(spec, &ty, &p.tuple)), counts.join(",")));
        }
        Ok(out)
    }

    /// The keys that the changes give; removal and addition keys only when non-zero.
    pub(crate) fn properties(&self) -> Result<Vec<(String, String)>> {
        let mut out: Vec<(String, String)> =
            counts(&self.added, &self.removed).map(|(k, n)| (k.to_string(), n.to_string())).collect();
        if self.duplicates > 0 {
            out.push(("deleted-duplicate-files".into(), self.duplicates.to_string()));
        }
        out.push(("changed-partition-count".into(), self.partitions.len().to_string()));
        out.extend(self.partition_properties()?);
        Ok(out)
    }
}

/// Keys of what was added and removed, the non-zero ones.
fn counts(a: &Side, r: &Side) -> impl Iterator<Item = (&'static str, i64)> {
    [
        ("added-data-files", a.data_files),
        ("deleted-data-files", r.data_files),
        ("added-equality-delete-files", a.eq_files),
        ("removed-equality-delete-files", r.eq_files),
        ("added-position-delete-files", a.pos_files),
        ("removed-position-delete-files", r.pos_files),
        ("added-delete-files", a.delete_files),
        ("removed-delete-files", r.delete_files),
        ("added-dvs", a.dvs),
        ("removed-dvs", r.dvs),
        ("added-records", a.records),
        ("deleted-records", r.records),
        ("added-files-size", a.size),
        ("removed-files-size", r.size),
        ("added-position-deletes", a.pos_rows),
        ("removed-position-deletes", r.pos_rows),
        ("added-equality-deletes", a.eq_rows),
        ("removed-equality-deletes", r.eq_rows),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0)
}

/// Total, added and removed key of each running total.
const TOTALS: [(&str, &str, &str); 6] = [
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
];

/// Adds the running totals: from the branch head's summary, or zero when the branch has no head. A total that is
/// missing, unreadable or would fall below zero is left out (SUMMARY-50, SUMMARY-51).
pub(crate) fn add_totals(previous: Option<&HashMap<String, String>>, summary: &mut HashMap<String, String>) {
    for (total, added, removed) in TOTALS {
        let before = match previous {
            None => Some(0),
            Some(p) => p.get(total).and_then(|v| v.parse::<i64>().ok()).filter(|v| *v >= 0),
        };
        let change = |key: &str| summary.get(key).map_or(Some(0), |v| v.parse::<i64>().ok());
        let after = before
            .zip(change(added))
            .and_then(|(b, a)| b.checked_add(a))
            .zip(change(removed))
            .map(|(n, r)| n - r)
            .filter(|n| *n >= 0);
        if let Some(n) = after {
            summary.insert(total.to_string(), n.to_string());
        }
    }
}
