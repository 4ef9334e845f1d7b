//! What a reader sees of a table, and what must hold of every table. Nothing here is the engine's own way to apply
//! deletes: a shared bug could hide.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use floe_engine::Table;
use floe_engine::manifest::{Content, ManifestEntry, live_entries, load_manifest, load_manifest_list};

use crate::files::{self, Row};

/// A fault of a table or a history, by its field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// A committed delete whose row is still there.
    LostDelete,
    /// A row that was gone is there again.
    ResurrectedRow,
    /// A row that nobody inserted, or one inserted twice.
    PhantomInsert,
    /// A row that nobody deleted is gone.
    LostRow,
    /// A write went over a concurrent one that it had not seen.
    LostUpdate,
    /// Two live deletion vectors of one data file (DV-2).
    DoubleVector,
    /// A deletion vector of a data file that is not live.
    StrayVector,
    /// A row id that two rows have, or have had (LINEAGE).
    ReusedRowId,
    /// A row's id changed.
    LineageChanged,
    /// Sequence numbers that do not grow.
    SequenceOrder,
    /// A summary's totals are not those of the manifests.
    WrongTotals,
    /// A V2 position-delete file written into a V3 table (DEL-5).
    WrongDeleteKind,
    /// A file that a retained snapshot reaches was deleted.
    MissingFile,
    /// A table that its own reader refuses.
    Unreadable,
}

/// A row of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub id: Option<i64>,
    pub k: i32,
    pub v: i32,
}

pub type Broken = BTreeMap<Anomaly, String>;

/// Rows that the deletes of `deletes` leave of a data file, by position.
pub fn alive(d: &ManifestEntry, deletes: &[ManifestEntry]) -> Vec<(usize, Row)> {
    let seq = d.sequence_number;
    let newer = |e: &&ManifestEntry| e.sequence_number >= seq;
    let mine = |e: &&ManifestEntry| e.file.referenced_data_file.as_ref().is_none_or(|r| *r == d.file.path);
    let vector = deletes.iter().filter(newer).filter(|e| e.file.is_dv()).find(mine);
    let gone = match vector {
        Some(v) => files::mask(&v.file),
        None => deletes
            .iter()
            .filter(newer)
            .filter(|e| !e.file.is_dv() && e.file.partition == d.file.partition)
            .filter(mine)
            .fold(0, |m, e| m | files::positions_in(&e.file, &d.file)),
    };
    let row = |(i, mut r): (usize, Row)| {
        r.id = r.id.or(d.file.first_row_id.map(|f| f + i as i64));
        (i, r)
    };
    files::rows(&d.file).into_iter().enumerate().filter(|(i, _)| gone >> i & 1 == 0).map(row).collect()
}

/// Rows of the head, and what is wrong with the table.
pub async fn view(table: &Table, deleted: &[String]) -> (Vec<Seen>, Broken) {
    let mut broken = Broken::new();
    let Some(head) = table.metadata().current_snapshot() else {
        return (Vec::new(), broken);
    };
    let (data, deletes) = match live_entries(table, head.snapshot_id()).await {
        Ok(found) => found,
        Err(e) => {
            broken.insert(Anomaly::Unreadable, e.to_string());
            return (Vec::new(), broken);
        }
    };
    let mut rows = Vec::new();
    for d in &data {
        rows.extend(alive(d, &deletes).into_iter().map(|(_, r)| Seen { id: r.id, k: r.k, v: r.v }));
    }
    let mut targets: HashMap<&str, usize> = HashMap::new();
    for v in deletes.iter().filter(|e| e.file.is_dv()) {
        *targets.entry(v.file.referenced_data_file.as_deref().unwrap_or("")).or_default() += 1;
    }
    let live: BTreeSet<&str> = data.iter().map(|e| &*e.file.path).collect();
    for (target, n) in targets {
        if n > 1 {
            broken.insert(Anomaly::DoubleVector, format!("{n} live deletion vectors for {}", files::short(target)));
        }
        if !live.contains(target) {
            broken.insert(Anomaly::StrayVector, format!("a vector for {}, which is gone", files::short(target)));
        }
    }
    let mut ids = BTreeSet::new();
    for r in &rows {
        if let Some(id) = r.id
            && !ids.insert(id)
        {
            broken.insert(Anomaly::ReusedRowId, format!("two live rows have the id {id}"));
        }
    }
    totals(table, &data, &deletes, &mut broken);
    sequences(table, &data, &deletes, &mut broken);
    reachable(table, deleted, &mut broken).await;
    (rows, broken)
}

fn totals(table: &Table, data: &[ManifestEntry], deletes: &[ManifestEntry], broken: &mut Broken) {
    let Some(head) = table.metadata().current_snapshot() else { return };
    let summary = &head.summary().additional_properties;
    let count = |entries: &[ManifestEntry]| entries.iter().map(|e| e.file.record_count).sum::<i64>();
    let truth = [
        ("total-data-files", data.len() as i64),
        ("total-records", count(data)),
        ("total-delete-files", deletes.len() as i64),
        ("total-position-deletes", count(deletes)),
    ];
    for (key, want) in truth {
        if summary.get(key).is_some_and(|got| got.parse() != Ok(want)) {
            broken.insert(Anomaly::WrongTotals, format!("{key} is {} but the manifests have {want}", summary[key]));
        }
    }
}

fn sequences(table: &Table, data: &[ManifestEntry], deletes: &[ManifestEntry], broken: &mut Broken) {
    let m = &table.metadata().inner;
    let mut wrong = |text: String| {
        broken.insert(Anomaly::SequenceOrder, text);
    };
    for s in m.snapshots() {
        let parent = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p));
        if parent.is_some_and(|p| p.sequence_number() >= s.sequence_number()) {
            wrong(format!("snapshot {} is not newer than its parent", s.sequence_number()));
        }
        if s.sequence_number() > m.last_sequence_number() {
            wrong(format!("snapshot {} is past last-sequence-number", s.sequence_number()));
        }
    }
    let head = m.current_snapshot().map_or(0, |s| s.sequence_number());
    for e in data.iter().chain(deletes) {
        if e.sequence_number.is_none_or(|s| s > head) || e.sequence_number > e.file_sequence_number {
            wrong(format!("{} has sequence number {:?}", files::short(&e.file.path), e.sequence_number));
        }
    }
}

async fn reachable(table: &Table, deleted: &[String], broken: &mut Broken) {
    if deleted.is_empty() {
        return;
    }
    let mut check = |path: &str| {
        if deleted.iter().any(|d| d == path) {
            broken.insert(Anomaly::MissingFile, format!("{path} is deleted and still reached"));
        }
    };
    for s in table.metadata().snapshots() {
        check(s.manifest_list());
        for m in load_manifest_list(table.io(), s).await.unwrap_or_default() {
            check(&m.manifest_path);
            for e in load_manifest(table.io(), &m, table.metadata()).await.unwrap_or_default() {
                if e.is_live() {
                    check(&e.file.path);
                }
            }
        }
    }
}

/// Text that is equal for equal snapshots, whatever their random ids are.
pub async fn canon(table: &Table, id: i64) -> String {
    let m = &table.metadata().inner;
    let Some(s) = m.snapshot_by_id(id) else { return String::new() };
    let parent = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p)).map(|p| p.sequence_number());
    let mut out = format!("{parent:?} {:?} {:?}\n", s.summary().operation, s.row_range());
    for m in load_manifest_list(table.io(), s).await.unwrap_or_default() {
        let mut lines: Vec<String> = load_manifest(table.io(), &m, table.metadata())
            .await
            .unwrap_or_default()
            .iter()
            .map(|e| {
                let f = &e.file;
                let kind = if f.content == Content::Data { "d" } else { "x" };
                let at = f.content_offset.unwrap_or(0);
                let name = f.path.rsplit('/').next().unwrap_or("");
                let (seq, file_seq) = (e.sequence_number, e.file_sequence_number);
                let own = e.snapshot_id == Some(id);
                format!("{kind} {name} {at} {:?} {seq:?} {file_seq:?} {:?} {own}", e.status, f.first_row_id)
            })
            .collect();
        lines.sort();
        out += &lines.join("\n");
        out += &format!("\n{}\n", m.added_snapshot_id == id);
    }
    out
}
