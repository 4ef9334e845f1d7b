//! The rows that a table must have: a plain map, changed by what each committed operation means. Commits are in an order;
//! a serialisable operation means what it means on the rows right before its commit, one under snapshot isolation what it
//! meant on the rows that it read, provided that no one changed those since.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::partition;
use crate::ops::{BATCHES, Iso, Op};
use crate::view::{Anomaly, Broken, Seen};

/// A row, by an identity of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known {
    pub k: i32,
    pub v: i32,
    /// `_row_id` once a reader has seen it.
    pub id: Option<i64>,
}

pub type Rows = BTreeMap<u32, Known>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Oracle {
    pub rows: Rows,
    /// Rows and sync batches of each snapshot, by sequence number.
    pub past: BTreeMap<i64, (Rows, usize)>,
    /// Rows that are gone.
    dead: Rows,
    used_ids: BTreeSet<i64>,
    next: u32,
    /// Sync batches that are in.
    pub batches: usize,
}

impl Oracle {
    fn insert(&mut self, k: i32, v: i32) {
        self.rows.insert(self.next, Known { k, v, id: None });
        self.next += 1;
    }

    fn remove(&mut self, gone: impl Fn(u32, &Known) -> bool) {
        let ids: Vec<u32> = self.rows.iter().filter(|(u, r)| gone(**u, r)).map(|(u, _)| *u).collect();
        for u in ids {
            if let Some(r) = self.rows.remove(&u) {
                self.dead.insert(u, r);
            }
        }
    }

    /// A table that was made row by row: (key, value).
    pub fn seed(&mut self, rows: &[(i32, i32)]) {
        for (k, v) in rows {
            self.insert(*k, *v);
        }
    }

    /// The operation is committed; `read` are the rows that it read. Says what it broke by being committed at all.
    pub fn commit(&mut self, op: Op, read: &Rows) -> Broken {
        let mut broken = Broken::new();
        match op {
            Op::Append { k } | Op::Fill { k } => self.insert(k, op.value()),
            Op::Delete { k, iso, .. } => {
                let hit = self.targets(k, iso, read, false, &mut broken);
                self.remove(|u, _| hit.contains(&u));
            }
            Op::TwoVectors { k } | Op::DeleteInRemoved { k } | Op::Forgetful { k } => self.remove(|_, r| r.k == k),
            Op::DropPartition { p } => self.remove(|_, r| partition(r.k) == p),
            Op::Update { k, iso, .. } | Op::Merge { k, iso, .. } => {
                let hit = self.targets(k, iso, read, true, &mut broken);
                for u in &hit {
                    if let Some(r) = self.rows.get_mut(u) {
                        r.v = op.value();
                    }
                }
                if hit.is_empty() && matches!(op, Op::Merge { .. }) {
                    self.insert(k, op.value());
                }
            }
            Op::OverwriteAll { k } => {
                self.remove(|_, _| true);
                self.insert(k, op.value());
            }
            Op::OverwritePartition { k } | Op::OverwriteRead { k } => {
                if matches!(op, Op::OverwriteRead { .. }) {
                    let mine = |rows: &Rows| -> Vec<(u32, i32)> {
                        rows.iter().filter(|(_, r)| partition(r.k) == partition(k)).map(|(u, r)| (*u, r.v)).collect()
                    };
                    if mine(&self.rows) != mine(read) {
                        broken.insert(Anomaly::LostUpdate, "the partition changed since it was read".into());
                    }
                }
                self.remove(|_, r| partition(r.k) == partition(k));
                self.insert(k, op.value());
            }
            Op::Sync => {
                if let Some((_, gone, come)) = BATCHES.get(self.batches) {
                    self.remove(|_, r| gone.contains(&r.k));
                    come.iter().for_each(|k| self.insert(*k, op.value()));
                    self.batches += 1;
                }
            }
            Op::Rollback => {
                if let Some((rows, batches)) = self.past.values().next().cloned() {
                    let old = std::mem::replace(&mut self.rows, rows);
                    self.dead.extend(old);
                    let alive = &self.rows;
                    self.dead.retain(|u, _| !alive.contains_key(u));
                    self.batches = batches;
                }
            }
            Op::Compact { .. } | Op::RewritePositions | Op::RewriteManifests | Op::Upgrade | Op::Expire => {}
        }
        if let Op::Fill { k } = op
            && self.rows.values().filter(|r| partition(r.k) == partition(k)).count() > 1
        {
            broken.insert(Anomaly::LostUpdate, "the partition that had to be empty was not".into());
        }
        broken
    }

    /// Rows with the key that the operation changes.
    fn targets(&self, k: i32, iso: Iso, read: &Rows, rewrites: bool, broken: &mut Broken) -> BTreeSet<u32> {
        let with_key =
            |rows: &Rows| -> BTreeSet<u32> { rows.iter().filter(|(_, r)| r.k == k).map(|(u, _)| *u).collect() };
        if iso == Iso::Serial {
            return with_key(&self.rows);
        }
        let seen = with_key(read);
        for u in &seen {
            match self.rows.get(u) {
                Some(now) if now.v != read[u].v => {
                    broken.insert(Anomaly::LostUpdate, format!("the row k={k} was changed since it was read"));
                }
                None if rewrites => {
                    broken.insert(Anomaly::LostUpdate, format!("the row k={k} was deleted since it was read"));
                }
                _ => {}
            }
        }
        seen
    }

    /// Compares with what a reader sees, and learns the ids of new rows. `before` are the rows that were dead before the
    /// last commit.
    pub fn compare(&mut self, seen: &[Seen], before: &BTreeSet<u32>) -> Broken {
        let mut broken = Broken::new();
        let mut left: Vec<Seen> = seen.to_vec();
        left.sort();
        let mut missing: Vec<u32> = Vec::new();
        for (u, r) in &self.rows {
            let Some(id) = r.id else { continue };
            match left.iter().position(|s| s.id == Some(id) && (s.k, s.v) == (r.k, r.v)) {
                Some(at) => drop(left.remove(at)),
                None => missing.push(*u),
            }
        }
        let fresh: Vec<u32> = self.rows.iter().filter(|(_, r)| r.id.is_none()).map(|(u, _)| *u).collect();
        for u in fresh {
            let r = self.rows[&u];
            let Some(at) = left.iter().position(|s| (s.k, s.v) == (r.k, r.v)) else {
                missing.push(u);
                continue;
            };
            let s = left.remove(at);
            if let Some(id) = s.id {
                if !self.used_ids.insert(id) {
                    broken.insert(Anomaly::ReusedRowId, format!("the new row k={} has the old id {id}", r.k));
                }
                if let Some(r) = self.rows.get_mut(&u) {
                    r.id = Some(id);
                }
            }
        }
        for u in missing {
            let r = self.rows[&u];
            match left.iter().position(|s| (s.k, s.v) == (r.k, r.v)) {
                Some(at) => {
                    let s = left.remove(at);
                    broken.insert(Anomaly::LineageChanged, format!("k={} had id {:?} and has {:?}", r.k, r.id, s.id));
                }
                None => {
                    broken.insert(Anomaly::LostRow, format!("k={} v={} is gone", r.k, r.v));
                }
            }
        }
        for s in left {
            let dead = self.dead.iter().find(|(_, d)| match s.id {
                Some(id) if d.id.is_some() => d.id == Some(id),
                _ => (d.k, d.v) == (s.k, s.v),
            });
            let kind = match dead {
                Some((u, _)) if before.contains(u) => Anomaly::ResurrectedRow,
                Some(_) => Anomaly::LostDelete,
                None => Anomaly::PhantomInsert,
            };
            broken.insert(kind, format!("k={} v={} is there", s.k, s.v));
        }
        broken
    }

    pub fn dead(&self) -> BTreeSet<u32> {
        self.dead.keys().copied().collect()
    }
}
