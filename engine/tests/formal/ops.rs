//! The operations of the model: each reads a version of the table and plans a [`Change`] of the shape that the engine's own
//! statement gives it (rowlevel, maintenance, cdc::sync), with the engine's own validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use floe_engine::cdc::sync::position;
use floe_engine::commit::{Change, Drop, FileFilter, Isolation, Producer, Rule, Validation};
use floe_engine::deletes::{DeleteIndex, Deletes, file_scope};
use floe_engine::expr::{Cmp, FilePruner, Leaf, Op as Test, Pred};
use floe_engine::manifest::{Content, DataFile, ManifestEntry, live_entries};
use floe_engine::{Result, Table};
use iceberg::spec::{FormatVersion, Literal, PrimitiveLiteral, PrimitiveType, Struct};

use crate::files::{self, Row, partition};

/// What a writer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Append {
        k: i32,
    },
    Delete {
        k: i32,
        cow: bool,
        iso: Iso,
    },
    /// DELETE of a whole partition: metadata settles it.
    DropPartition {
        p: i32,
    },
    Update {
        k: i32,
        cow: bool,
        iso: Iso,
    },
    /// Upsert of one key.
    Merge {
        k: i32,
        cow: bool,
        iso: Iso,
    },
    OverwriteAll {
        k: i32,
    },
    OverwritePartition {
        k: i32,
    },
    /// Replaces a partition that it has read: the library's overwrite by filter, with both checks (CONC-21, CONC-22).
    OverwriteRead {
        k: i32,
    },
    /// Fills a partition that must be empty (CONC-23).
    Fill {
        k: i32,
    },
    Compact {
        keep_sequence: bool,
    },
    RewritePositions,
    RewriteManifests,
    Upgrade,
    Expire,
    /// Back to the first snapshot.
    Rollback,
    /// A run of the CDC sync: two batches, exactly once each.
    Sync,
    /// A writer that gives one data file two vectors, or deletes in a file that it removes: a faulty caller.
    TwoVectors {
        k: i32,
    },
    DeleteInRemoved {
        k: i32,
    },
    /// A writer that leaves the old vector beside its new one.
    Forgetful {
        k: i32,
    },
}

/// Isolation of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Iso {
    Serial,
    Snapshot,
}

impl Iso {
    fn engine(self) -> Isolation {
        match self {
            Self::Serial => Isolation::Serializable,
            Self::Snapshot => Isolation::Snapshot,
        }
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = |cow: &bool, iso: &Iso| {
            let cow = if *cow { "copy-on-write" } else { "merge-on-read" };
            format!("{cow}, {}", if *iso == Iso::Serial { "serializable" } else { "snapshot" })
        };
        match self {
            Self::Append { k } => write!(f, "INSERT k={k}"),
            Self::Delete { k, cow, iso } => write!(f, "DELETE k={k} ({})", how(cow, iso)),
            Self::DropPartition { p } => write!(f, "DELETE p={p} (whole files)"),
            Self::Update { k, cow, iso } => write!(f, "UPDATE k={k} ({})", how(cow, iso)),
            Self::Merge { k, cow, iso } => write!(f, "MERGE k={k} ({})", how(cow, iso)),
            Self::OverwriteAll { k } => write!(f, "INSERT OVERWRITE by k={k}"),
            Self::OverwritePartition { k } => write!(f, "INSERT OVERWRITE partition by k={k}"),
            Self::OverwriteRead { k } => write!(f, "overwrite of a partition as read by k={k}"),
            Self::Fill { k } => write!(f, "fill of an empty partition by k={k}"),
            Self::Compact { keep_sequence: true } => write!(f, "compaction"),
            Self::Compact { keep_sequence: false } => write!(f, "compaction with a new sequence number"),
            Self::RewritePositions => write!(f, "rewrite of position deletes"),
            Self::RewriteManifests => write!(f, "rewrite of manifests"),
            Self::Upgrade => write!(f, "upgrade to V3"),
            Self::Expire => write!(f, "expiry"),
            Self::Rollback => write!(f, "rollback to the first snapshot"),
            Self::Sync => write!(f, "CDC sync"),
            Self::TwoVectors { k } => write!(f, "delete of k={k} in two vectors"),
            Self::Forgetful { k } => write!(f, "delete of k={k} that forgets the old vector"),
            Self::DeleteInRemoved { k } => write!(f, "delete of k={k} in a file that it removes"),
        }
    }
}

impl Op {
    /// Value that the operation writes; tells its rows from others'.
    pub fn value(&self) -> i32 {
        match self {
            Self::Append { .. } => 10,
            Self::Update { .. } => 20,
            Self::Merge { .. } => 30,
            Self::Sync => 40,
            _ => 50,
        }
    }

    /// Whether a client may run it again when it does not know the outcome.
    pub fn may_repeat(&self) -> bool {
        matches!(
            self,
            Self::Delete { .. } | Self::Update { .. } | Self::Merge { .. } | Self::DropPartition { .. } | Self::Sync
        )
    }

    /// Changes of metadata alone.
    pub fn is_metadata(&self) -> bool {
        matches!(self, Self::Upgrade | Self::Expire | Self::Rollback)
    }
}

/// Batches of the sync's source: snapshot id, keys that go, keys that come.
pub const BATCHES: [(i64, &[i32], &[i32]); 2] = [(7, &[1], &[9]), (8, &[9], &[6])];

/// Id of the model's sync.
const SYNC: &str = "model";

/// The next batch that the target lacks.
pub fn next_batch(table: &Table) -> Result<Option<usize>> {
    let done = position::find(table, SYNC)?.map(|p| p.snapshot_id);
    Ok(match done {
        None => Some(0),
        Some(id) => BATCHES.iter().position(|b| b.0 == id).map(|i| i + 1).filter(|i| *i < BATCHES.len()),
    })
}

struct Base<'t> {
    table: &'t Table,
    data: Vec<ManifestEntry>,
    deletes: Vec<ManifestEntry>,
    index: DeleteIndex,
    /// Prefix of new files' names.
    name: String,
}

fn leaf(field_id: i32, value: i32) -> Pred {
    let op = Test::Cmp(Cmp::Eq, PrimitiveLiteral::Int(value));
    Pred::Leaf(Leaf { field_id, ty: PrimitiveType::Int, op })
}

fn key_filter(k: i32) -> Pred {
    Pred::and([leaf(1, k), leaf(3, partition(k))])
}

impl Base<'_> {
    fn rows(&self, d: &ManifestEntry) -> Vec<(usize, Row)> {
        crate::view::alive(d, &self.deletes)
    }

    fn v3(&self) -> bool {
        self.table.metadata().format_version() >= FormatVersion::V3
    }

    fn of(&self, d: &ManifestEntry) -> Result<Deletes> {
        self.index.for_file(d)
    }

    fn gone(&self, d: &ManifestEntry) -> u8 {
        let all = files::rows(&d.file).len();
        let alive = self.rows(d).iter().fold(0u8, |m, (i, _)| m | 1 << i);
        !alive & ((1u16 << all) - 1) as u8
    }

    fn start(&self) -> Option<i64> {
        self.table.metadata().current_snapshot_id()
    }

    fn pruner(&self, pred: Pred) -> Arc<FilePruner> {
        Arc::new(FilePruner::new(pred, &self.table.metadata().inner))
    }

    /// One data file a partition.
    fn write(&self, tag: &str, rows: Vec<Row>) -> Vec<DataFile> {
        let mut by_partition: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
        for mut r in rows {
            if !self.v3() {
                r.id = None;
            }
            by_partition.entry(partition(r.k)).or_default().push(r);
        }
        by_partition.iter().map(|(p, rows)| files::data(&format!("{}{tag}{p}", self.name), rows)).collect()
    }

    /// Deletes of positions, and what they replace: as merge-on-read writes them (DV-2, DV-14, POSDEL-7).
    fn deletes(&self, touched: &[(&ManifestEntry, u8)]) -> Result<(Vec<DataFile>, Vec<DataFile>)> {
        self.deletes_as(&self.name, touched)
    }

    fn deletes_as(&self, name: &str, touched: &[(&ManifestEntry, u8)]) -> Result<(Vec<DataFile>, Vec<DataFile>)> {
        let mut removed = Vec::new();
        let mut masks = Vec::new();
        for (d, new) in touched {
            let of = self.of(d)?;
            let scoped: Vec<_> = self
                .index
                .position_files_of(d)
                .into_iter()
                .filter(|p| file_scope(&p.file).is_some_and(|s| s == *d.file.path))
                .collect();
            let old = if self.v3() {
                removed.extend(of.dv.iter().map(|v| v.file.clone()));
                self.gone(d)
            } else {
                scoped.iter().fold(0, |m, p| m | files::positions_in(&p.file, &d.file))
            };
            removed.extend(scoped.iter().map(|p| p.file.clone()));
            masks.push((d.file.clone(), old | new));
        }
        let added = match self.v3() {
            _ if masks.is_empty() => Vec::new(),
            true => files::vectors(&format!("{name}v"), &masks),
            false => masks
                .iter()
                .enumerate()
                .map(|(i, m)| files::positions(&format!("{name}x{i}"), std::slice::from_ref(m), true))
                .collect(),
        };
        Ok((added, removed))
    }

    /// The end of a row-level statement, as the engine's.
    fn statement(
        &self,
        producer: Producer,
        rewrites: bool,
        iso: Iso,
        pred: Pred,
        added: Vec<DataFile>,
        removed: Vec<DataFile>,
    ) -> Change {
        let filter: Option<Arc<dyn FileFilter>> = Some(self.pruner(pred));
        let validation = if producer == Producer::RowDelta {
            let of = |f: &DataFile| f.referenced_data_file.clone().filter(|_| f.content == Content::PositionDeletes);
            let referenced = added.iter().filter_map(of).collect();
            Validation::merge_on_read(iso.engine(), rewrites, self.start(), filter, referenced)
        } else {
            Validation::copy_on_write(iso.engine(), self.start(), filter)
        };
        Change { added, removed, validation, ..Change::new(producer) }
    }

    fn drop(&self, producer: Producer, added: Vec<DataFile>, drop: Drop) -> Change {
        Change { added, drop, ..Change::new(producer) }
    }

    /// Live data files that may hold a row of the filter.
    fn planned(&self, pruner: &FilePruner) -> Vec<&ManifestEntry> {
        self.data.iter().filter(|d| pruner.may_match(&d.file)).collect()
    }

    fn delete(&self, pred: Pred, hit: impl Fn(&Row) -> bool, cow: bool, iso: Iso) -> Result<Change> {
        let pruner = self.pruner(pred.clone());
        let planned = self.planned(&pruner);
        if planned.iter().all(|d| pruner.must_match(&d.file)) {
            return Ok(self.drop(Producer::DeleteFiles, Vec::new(), Drop::Filter(pruner)));
        }
        let touched = self.touched(&planned, hit);
        if cow {
            return self.rewritten(&touched, iso, pred, |r| r, true);
        }
        let (added, removed) = self.deletes(&touched)?;
        Ok(self.statement(Producer::RowDelta, false, iso, pred, added, removed))
    }

    fn touched<'d>(&self, planned: &[&'d ManifestEntry], hit: impl Fn(&Row) -> bool) -> Vec<(&'d ManifestEntry, u8)> {
        let mask = |d: &&'d ManifestEntry| {
            let m = self.rows(d).iter().filter(|(_, r)| hit(r)).fold(0u8, |m, (i, _)| m | 1 << i);
            (*d, m)
        };
        planned.iter().map(mask).filter(|(_, m)| *m != 0).collect()
    }

    /// Copy-on-write: the touched files anew; touched rows go or change.
    fn rewritten(
        &self,
        touched: &[(&ManifestEntry, u8)],
        iso: Iso,
        pred: Pred,
        change: impl Fn(Row) -> Row,
        drops: bool,
    ) -> Result<Change> {
        let (mut rows, mut removed) = (Vec::new(), Vec::new());
        for (d, mask) in touched {
            for (i, r) in self.rows(d) {
                match mask >> i & 1 == 1 {
                    true if drops => {}
                    true => rows.push(change(r)),
                    false => rows.push(r),
                }
            }
            removed.push(d.file.clone());
        }
        for (d, _) in touched {
            removed.extend(self.of(d)?.dv.iter().map(|v| v.file.clone()));
        }
        Ok(self.statement(Producer::Overwrite, true, iso, pred, self.write("w", rows), removed))
    }

    fn update(&self, k: i32, v: i32, cow: bool, iso: Iso, pred: Pred, insert: bool) -> Result<Change> {
        let pruner = self.pruner(pred.clone());
        let touched = self.touched(&self.planned(&pruner), |r| r.k == k);
        if touched.is_empty() && insert {
            let added = self.write("n", vec![Row::new(k, v)]);
            return Ok(self.statement(Producer::RowDelta, true, iso, pred, added, Vec::new()));
        }
        if cow {
            return self.rewritten(&touched, iso, pred, |r| Row { v, ..r }, false);
        }
        let mut rows = Vec::new();
        for (d, mask) in &touched {
            rows.extend(self.rows(d).into_iter().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, r)| Row { v, ..r }));
        }
        let (deletes, removed) = self.deletes(&touched)?;
        let mut added = self.write("w", rows);
        added.extend(deletes);
        Ok(self.statement(Producer::RowDelta, true, iso, pred, added, removed))
    }

    fn compact(&self, keep_sequence: bool) -> Result<Option<Change>> {
        let Some(head) = self.table.metadata().current_snapshot() else { return Ok(None) };
        if self.data.is_empty() {
            return Ok(None);
        }
        let rows = self.data.iter().flat_map(|d| self.rows(d)).map(|(_, r)| r).collect();
        let mut removed: Vec<DataFile> = self.data.iter().map(|d| d.file.clone()).collect();
        for d in &self.data {
            removed.extend(self.of(d)?.dv.iter().map(|v| v.file.clone()));
        }
        Ok(Some(Change {
            added: self.write("c", rows),
            removed,
            validation: Validation { from_snapshot: self.start(), removed_files_exist: true, ..Validation::default() },
            data_sequence_number: keep_sequence.then_some(head.sequence_number()),
            ..Change::new(Producer::Rewrite)
        }))
    }

    /// Every live V2 position-delete file into vectors (V3) or one file a partition (V2).
    fn rewrite_positions(&self) -> Result<Option<Change>> {
        let chosen: Vec<&ManifestEntry> =
            self.deletes.iter().filter(|e| e.file.content == Content::PositionDeletes && !e.file.is_dv()).collect();
        if chosen.is_empty() {
            return Ok(None);
        }
        let newest = chosen.iter().filter_map(|e| e.sequence_number).max().unwrap_or(0);
        let mut masks: Vec<(DataFile, u8, i64)> = Vec::new();
        for d in &self.data {
            let of = self.of(d)?;
            if of.dv.is_some() || of.positions.is_empty() {
                continue;
            }
            let all = of.positions.iter().fold(0, |m, p| m | files::positions_in(&p.file, &d.file));
            if all != 0 {
                let seq = of.positions.iter().filter_map(|p| p.sequence_number).max().unwrap_or(0);
                masks.push((d.file.clone(), all, seq));
            }
        }
        let pairs: Vec<(DataFile, u8)> = masks.iter().map(|(d, m, _)| (d.clone(), *m)).collect();
        let added_at: Vec<(DataFile, i64)> = match self.v3() {
            _ if pairs.is_empty() => Vec::new(),
            true => {
                files::vectors(&format!("{}p", self.name), &pairs).into_iter().zip(masks.iter().map(|m| m.2)).collect()
            }
            false => vec![(files::positions(&format!("{}p", self.name), &pairs, false), newest)],
        };
        let vectors = added_at.iter().filter(|(f, _)| f.is_dv());
        let exist = vectors.filter_map(|(f, _)| f.referenced_data_file.clone()).collect();
        Ok(Some(Change {
            removed: chosen.iter().map(|e| e.file.clone()).collect(),
            added_at,
            validation: Validation {
                from_snapshot: self.start(),
                data_files_exist: exist,
                removed_files_exist: true,
                ..Validation::default()
            },
            ..Change::new(Producer::Rewrite)
        }))
    }

    /// A batch of the sync against the head, as `cdc::sync` builds it.
    fn sync(&self) -> Result<Option<Change>> {
        let Some(n) = next_batch(self.table)? else { return Ok(None) };
        let (id, gone, come) = BATCHES[n];
        let planned: Vec<&ManifestEntry> = self.data.iter().collect();
        let (deletes, removed) = self.deletes(&self.touched(&planned, |r| gone.contains(&r.k)))?;
        let mut added = self.write("s", come.iter().map(|k| Row::new(*k, Op::Sync.value())).collect());
        let exist = deletes.iter().filter_map(|f| f.referenced_data_file.clone()).collect();
        added.extend(deletes);
        let summary = [
            ("floe.cdc.sync-id", SYNC.to_string()),
            ("floe.cdc.source-uuid", "u".to_string()),
            ("floe.cdc.source-snapshot-id", id.to_string()),
            ("floe.cdc.source-sequence-number", id.to_string()),
        ];
        Ok(Some(Change {
            added,
            removed,
            validation: Validation {
                from_snapshot: self.start(),
                removed_files_exist: true,
                no_conflicting_data: true,
                no_conflicting_deletes: true,
                data_files_exist: exist,
                ..Validation::default()
            },
            summary: summary.map(|(k, v)| (k.to_string(), v)).to_vec(),
            ..Change::new(Producer::RowDelta)
        }))
    }
}

fn tuple(p: i32) -> (i32, Arc<Struct>) {
    (0, Arc::new(Struct::from_iter([Some(Literal::int(p))])))
}

/// Reads the head and plans; `None` = there is nothing to do. `name` starts the names of new files; `without` are the checks
/// that are left out.
pub async fn plan(op: Op, table: &Table, name: &str, without: &'static [Rule]) -> Result<Option<Change>> {
    let (data, deletes) = match table.metadata().current_snapshot_id() {
        Some(id) => live_entries(table, id).await?,
        None => Default::default(),
    };
    let index = DeleteIndex::build(deletes.iter().cloned().map(Arc::new), table.metadata())?;
    let base = Base { table, data, deletes, index, name: name.to_string() };
    let new = |k: i32| base.write("n", vec![Row::new(k, op.value())]);
    let change = match op {
        Op::Append { k } => Some(base.drop(Producer::MergeAppend, new(k), Drop::Nothing)),
        Op::Delete { k, cow, iso } => Some(base.delete(key_filter(k), |r| r.k == k, cow, iso)?),
        Op::DropPartition { p } => Some(base.delete(leaf(3, p), |r| partition(r.k) == p, false, Iso::Serial)?),
        Op::Update { k, cow, iso } => Some(base.update(k, op.value(), cow, iso, key_filter(k), false)?),
        // MERGE gives no filter: anything new conflicts
        Op::Merge { k, cow, iso } => Some(base.update(k, op.value(), cow, iso, Pred::True, true)?),
        Op::OverwriteAll { k } => Some(base.drop(Producer::Overwrite, new(k), Drop::Everything)),
        Op::OverwritePartition { k } => {
            Some(base.drop(Producer::ReplacePartitions, new(k), Drop::Partitions(vec![tuple(partition(k))])))
        }
        Op::OverwriteRead { k } => {
            let mut c = base.drop(Producer::Overwrite, new(k), Drop::Filter(base.pruner(leaf(3, partition(k)))));
            c.validation = Validation {
                from_snapshot: base.start(),
                no_conflicting_data: true,
                no_conflicting_deletes: true,
                ..Validation::default()
            };
            Some(c)
        }
        Op::Fill { k } => {
            let mut c = base.drop(Producer::ReplacePartitions, new(k), Drop::Partitions(vec![tuple(partition(k))]));
            c.validation.append_only = true;
            Some(c)
        }
        Op::Compact { keep_sequence } => base.compact(keep_sequence)?,
        Op::RewritePositions => base.rewrite_positions()?,
        Op::RewriteManifests => base.start().map(|_| Change::new(Producer::RewriteManifests)),
        Op::Sync => base.sync()?,
        Op::TwoVectors { k } => {
            let pruner = base.pruner(key_filter(k));
            let touched = base.touched(&base.planned(&pruner), |r| r.k == k);
            let (mut added, removed) = base.deletes(&touched)?;
            added.extend(base.deletes_as(&format!("{name}z"), &touched)?.0);
            Some(base.statement(Producer::RowDelta, false, Iso::Serial, key_filter(k), added, removed))
        }
        Op::Forgetful { k } => {
            let pruner = base.pruner(key_filter(k));
            let touched = base.touched(&base.planned(&pruner), |r| r.k == k);
            let (added, _) = base.deletes(&touched)?;
            Some(base.statement(Producer::RowDelta, false, Iso::Serial, key_filter(k), added, Vec::new()))
        }
        Op::DeleteInRemoved { k } => {
            let pruner = base.pruner(key_filter(k));
            let touched = base.touched(&base.planned(&pruner), |r| r.k == k);
            let (added, mut removed) = base.deletes(&touched)?;
            removed.extend(touched.iter().map(|(d, _)| d.file.clone()));
            let mut c = base.statement(Producer::RowDelta, true, Iso::Serial, key_filter(k), added, removed);
            c.validation.data_files_exist.clear();
            Some(c)
        }
        Op::Upgrade | Op::Expire | Op::Rollback => None,
    };
    Ok(change.map(|mut c| {
        c.validation.without = without;
        c
    }))
}
