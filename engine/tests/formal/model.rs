//! The state space: a real table, and writers that read, commit, lose answers, and start again.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use floe_engine::commit::{Change, Rule, commit, update_metadata};
use floe_engine::maintenance::{ExpireOptions, expire_snapshots};
use floe_engine::manifest::{Content, Status, load_manifest, load_manifest_list};
use floe_engine::{Error, ErrorKind, Result, Table};
use iceberg::spec::{FormatVersion, MAIN_BRANCH, SnapshotReference, SnapshotRetention};
use object_store::memory::InMemory;
use stateright::{Model, Property};

use crate::ops::{self, Op};
use crate::oracle::{Oracle, Rows};
use crate::view::{Anomaly, Broken, canon, view};
use crate::world::{Net, One, Version, files, ident};

/// Where a writer is.
#[derive(Clone)]
pub enum Phase {
    Idle,
    /// It has read, and planned.
    Ready(Ready),
    Done,
    /// Refused for good; the text is not part of the state.
    Refused,
    /// It does not know whether its commit happened, and cannot ask.
    Unknown,
}

#[derive(Clone)]
pub struct Ready {
    /// `None` for changes of metadata.
    change: Option<Arc<Change>>,
    read: Rows,
    /// The version that was read.
    base: Version,
    /// What tells two plans apart.
    key: String,
}

#[derive(Clone)]
pub struct Writer {
    pub op: Op,
    pub phase: Phase,
    /// Times it has read.
    pub tries: u8,
}

#[derive(Clone)]
pub struct State {
    pub version: Version,
    /// Canonical text of each retained snapshot, by sequence number.
    snapshots: BTreeMap<i64, Arc<str>>,
    pub writers: Vec<Writer>,
    pub oracle: Oracle,
    faults: u8,
    pub broken: Broken,
}

impl State {
    fn key(&self) -> impl Hash + PartialEq + '_ {
        let m = &self.version.1.inner;
        let writers: Vec<_> = self
            .writers
            .iter()
            .map(|w| {
                let (phase, read, key) = match &w.phase {
                    Phase::Idle => (0, None, ""),
                    Phase::Ready(r) => (1, Some(&r.read), r.key.as_str()),
                    Phase::Done => (2, None, ""),
                    Phase::Refused => (3, None, ""),
                    Phase::Unknown => (4, None, ""),
                };
                (w.op, phase, read, key, w.tries)
            })
            .collect();
        let head = m.current_snapshot().map(|s| s.sequence_number());
        let table = (m.format_version() as u8, head, m.next_row_id(), m.last_sequence_number(), &self.snapshots);
        (table, writers, &self.oracle, self.faults, &self.broken)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.key().hash(h);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let hash = |s: &Self| {
            let mut h = std::collections::hash_map::DefaultHasher::new();
            s.hash(&mut h);
            h.finish()
        };
        hash(self) == hash(other)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("rows", &self.oracle.rows).field("broken", &self.broken).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Read(usize),
    Commit(usize, Net),
    /// The process dies before it commits, and starts again.
    Crash(usize),
}

/// How a step reads in a trace.
pub fn step(state: &[Writer], a: &Action) -> String {
    match a {
        Action::Read(w) => format!("W{} reads for {}", w + 1, state[*w].op),
        Action::Commit(w, Net::Clean) => format!("W{} commits", w + 1),
        Action::Commit(w, Net::AnswerLost) => format!("W{} commits, the answer is lost", w + 1),
        Action::Commit(w, Net::RequestLost) => format!("W{} commits, the request is lost", w + 1),
        Action::Crash(w) => format!("W{} dies and starts again", w + 1),
    }
}

/// How a table looks at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Start {
    /// V3 without a snapshot.
    Empty,
    /// V3: file `a` with 1, 3 and 5, the last deleted by a vector; file `b` with 2.
    Vectors,
    /// V2: files `a` (1, 3, 5), `c` (7) and `b` (2); one position-delete file takes 5 and nothing of `c`.
    Positions,
    /// The same, upgraded to V3: rows have no ids yet.
    Upgraded,
    /// And after a commit that gave them ids.
    Numbered,
}

pub struct Writers {
    pub ops: Vec<Op>,
    pub without: &'static [Rule],
    pub faults: u8,
    seed: Seed,
}

/// A table to start from; its files may be shared, for no step removes or changes one.
#[derive(Clone)]
pub struct Seed {
    store: Arc<InMemory>,
    first: (Version, Oracle),
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
}

pub fn block_on<T>(f: impl Future<Output = T>) -> T {
    RUNTIME.with(|r| r.block_on(f))
}

impl Seed {
    pub fn new(start: Start) -> Self {
        let store = Arc::new(InMemory::new());
        let first = block_on(seed(start, &store));
        Self { store, first }
    }
}

impl Writers {
    pub fn new(seed: &Seed, ops: &[Op], without: &'static [Rule], faults: u8) -> Self {
        Self { ops: ops.to_vec(), without, faults, seed: seed.clone() }
    }

    async fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Crash(w) => {
                next.faults -= 1;
                next.writers[w].phase = Phase::Idle;
            }
            Action::Read(w) => {
                let writer = &mut next.writers[w];
                writer.tries += 1;
                let one = One::new(state.version.clone(), files(&self.seed.store).0, Net::Clean);
                let name = format!("w{}{}", w + 1, ["", "b", "c", "d", "e"][usize::from(writer.tries) - 1]);
                writer.phase = match self.read(writer.op, &one.table(), &name).await {
                    Ok(Some((change, key))) => {
                        let read = state.oracle.rows.clone();
                        let base = state.version.clone();
                        Phase::Ready(Ready { change: change.map(Arc::new), read, base, key })
                    }
                    Ok(None) => Phase::Done,
                    Err(_) => Phase::Refused,
                };
            }
            Action::Commit(w, net) => {
                if net != Net::Clean {
                    next.faults -= 1;
                }
                self.commit(&mut next, w, net).await;
            }
        }
        Some(next)
    }

    async fn read(&self, op: Op, table: &Table, name: &str) -> Result<Option<(Option<Change>, String)>> {
        let head = table.metadata().current_snapshot().map(|s| s.sequence_number());
        if op.is_metadata() {
            return Ok(Some((None, String::new())));
        }
        let Some(change) = ops::plan(op, table, name, self.without).await? else { return Ok(None) };
        let names = |files: &[floe_engine::manifest::DataFile]| -> Vec<String> {
            let mut v: Vec<String> = files.iter().map(|f| format!("{}@{:?}", f.path, f.content_offset)).collect();
            v.sort();
            v
        };
        let version = table.metadata().format_version();
        let key =
            format!("{head:?} {version} {:?} {:?} {:?}", names(&change.added), names(&change.removed), change.producer);
        Ok(Some((Some(change), key)))
    }

    async fn commit(&self, next: &mut State, w: usize, net: Net) {
        let Phase::Ready(ready) = next.writers[w].phase.clone() else { return };
        let op = next.writers[w].op;
        let (io, deleted) = files(&self.seed.store);
        let one = One::new(next.version.clone(), io, net);
        let before = next.version.0.clone();
        // the table as the writer has it; the catalog has the newest
        let (location, metadata) = ready.base.clone();
        let stale = Table::new(ident(), location.as_str(), metadata, one.table().io().clone(), one.clone());
        let done = match &ready.change {
            Some(change) => commit(&stale, (**change).clone()).await.map(|c| c.table),
            None => metadata_only(op, &stale).await,
        };
        next.version = one.version();
        let applied = next.version.0 != before;
        let dead = next.oracle.dead();
        if applied {
            next.broken.append(&mut next.oracle.commit(op, &ready.read));
            let table = one.table();
            self.remember(next, &table).await;
            let deleted = deleted.0.lock().expect("no panic while held").clone();
            let (seen, broken) = view(&table, &deleted).await;
            next.broken.extend(broken);
            next.broken.append(&mut next.oracle.compare(&seen, &dead));
            next.broken.append(&mut kinds(&table).await);
            if let Some(s) = table.metadata().current_snapshot() {
                let rows = next.oracle.rows.clone();
                let batches = next.oracle.batches;
                next.oracle.past.entry(s.sequence_number()).or_insert((rows, batches));
            }
        }
        if let (Err(e), true) = (&done, std::env::var_os("FLOE_FORMAL_TRACE").is_some()) {
            println!("{op} is refused: {e}");
        }
        let sync = op == Op::Sync;
        let writer = &mut next.writers[w];
        writer.phase = match done {
            Ok(_) if sync => Phase::Idle,
            Ok(_) => Phase::Done,
            Err(e) => match e.kind() {
                ErrorKind::CommitUnknown if op.may_repeat() && writer.tries < 2 => Phase::Idle,
                ErrorKind::CommitUnknown => Phase::Unknown,
                ErrorKind::Conflict if sync && writer.tries < 4 => Phase::Idle,
                ErrorKind::Conflict | ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::CommitFailed => {
                    Phase::Refused
                }
                _ => {
                    next.broken.insert(Anomaly::Unreadable, format!("{op}: {e}"));
                    Phase::Refused
                }
            },
        };
    }

    async fn remember(&self, next: &mut State, table: &Table) {
        let m = table.metadata();
        let seqs: BTreeMap<i64, i64> = m.snapshots().map(|s| (s.sequence_number(), s.snapshot_id())).collect();
        next.snapshots.retain(|s, _| seqs.contains_key(s));
        next.oracle.past.retain(|s, _| seqs.contains_key(s));
        for (seq, id) in seqs {
            if let std::collections::btree_map::Entry::Vacant(e) = next.snapshots.entry(seq) {
                e.insert(canon(table, id).await.into());
            }
        }
    }
}

/// Delete files of the head's own commit that its format version does not have (DEL-5).
async fn kinds(table: &Table) -> Broken {
    let mut broken = Broken::new();
    let Some(head) = table.metadata().current_snapshot() else { return broken };
    for m in load_manifest_list(table.io(), head).await.unwrap_or_default() {
        if m.added_snapshot_id != head.snapshot_id() {
            continue;
        }
        for e in load_manifest(table.io(), &m, table.metadata()).await.unwrap_or_default() {
            let v2 = e.file.content == Content::PositionDeletes && !e.file.is_dv();
            let v3 = table.metadata().format_version() >= FormatVersion::V3;
            // a V2 snapshot that an upgrade left at the head has none of its own row range
            if e.status == Status::Added && v2 && v3 && head.row_range().is_some() {
                broken.insert(Anomaly::WrongDeleteKind, format!("{} in a V3 table", crate::files::short(&e.file.path)));
            }
        }
    }
    broken
}

async fn metadata_only(op: Op, table: &Table) -> Result<Table> {
    match op {
        Op::Upgrade => update_metadata(table, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await,
        Op::Expire => {
            let options =
                ExpireOptions { older_than_ms: Some(i64::MAX), retain_last: Some(1), snapshot_ids: Vec::new() };
            expire_snapshots(table, &options).await.map(|e| e.table)
        }
        Op::Rollback => {
            let table = table.refresh().await?;
            let first = table.metadata().snapshots().min_by_key(|s| s.sequence_number()).map(|s| s.snapshot_id());
            let first = first.ok_or_else(|| Error::invalid("no snapshot to go back to"))?;
            let retention = SnapshotRetention::Branch {
                min_snapshots_to_keep: None,
                max_snapshot_age_ms: None,
                max_ref_age_ms: None,
            };
            let back = SnapshotReference::new(first, retention);
            update_metadata(&table, |b| Ok(b.set_ref(MAIN_BRANCH, back.clone())?), vec![]).await
        }
        _ => Err(Error::internal("not a change of metadata")),
    }
}

async fn seed(start: Start, store: &Arc<InMemory>) -> (Version, Oracle) {
    use crate::files::{Row, data, positions, vectors};
    use floe_engine::commit::Producer;

    let old = matches!(start, Start::Positions | Start::Upgraded | Start::Numbered);
    let version = if old { FormatVersion::V2 } else { FormatVersion::V3 };
    let properties: &[_] = if start == Start::Vectors { &[("commit.manifest.min-count-to-merge", "2")] } else { &[] };
    let one = One::new(crate::world::empty(version, properties), files(store).0, Net::Clean);
    let mut oracle = Oracle::default();
    if start == Start::Empty {
        return (one.version(), oracle);
    }
    let go = async |producer, added: Vec<floe_engine::manifest::DataFile>| {
        let change = Change { added, ..Change::new(producer) };
        commit(&one.table(), change).await.unwrap_or_else(|e| panic!("seed: {e}"));
    };
    let a = data("a", &[Row::new(1, 0), Row::new(3, 0), Row::new(5, 0)]);
    let b = data("b", &[Row::new(2, 0)]);
    let mut rows = vec![(1, 0), (3, 0), (2, 0)];
    if version == FormatVersion::V3 {
        go(Producer::MergeAppend, vec![a.clone(), b]).await;
        go(Producer::RowDelta, vectors("old", &[(a, 4)])).await;
    } else {
        let c = data("c", &[Row::new(7, 0)]);
        rows.push((7, 0));
        go(Producer::MergeAppend, vec![a.clone(), b, c.clone()]).await;
        go(Producer::RowDelta, vec![positions("old", &[(a, 4), (c, 0)], false)]).await;
    }
    if matches!(start, Start::Upgraded | Start::Numbered) {
        metadata_only(Op::Upgrade, &one.table()).await.unwrap_or_else(|e| panic!("seed: {e}"));
    }
    if start == Start::Numbered {
        go(Producer::FastAppend, Vec::new()).await;
    }
    oracle.seed(&rows);
    let (seen, broken) = view(&one.table(), &[]).await;
    assert!(broken.is_empty(), "seed: {broken:?}");
    let broken = oracle.compare(&seen, &oracle.dead());
    assert!(broken.is_empty(), "seed: {broken:?}");
    let m = one.version().1;
    let head = m.current_snapshot().map_or(0, |s| s.sequence_number());
    // the first snapshot has 5 as well: rollbacks go to the head as it was seeded
    let older: Vec<i64> = m.snapshots().filter(|s| s.sequence_number() < head).map(|s| s.snapshot_id()).collect();
    update_metadata(&one.table(), |b| Ok(b.remove_snapshots(&older)), vec![]).await.unwrap_or_else(|e| panic!("{e}"));
    oracle.past.insert(head, (oracle.rows.clone(), 0));
    (one.version(), oracle)
}

impl Model for Writers {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let writers = self.ops.iter().map(|op| Writer { op: *op, phase: Phase::Idle, tries: 0 }).collect();
        let mut state = State {
            version: self.seed.first.0.clone(),
            snapshots: BTreeMap::new(),
            writers,
            oracle: self.seed.first.1.clone(),
            faults: self.faults,
            broken: Broken::new(),
        };
        let one = One::new(state.version.clone(), files(&self.seed.store).0, Net::Clean);
        block_on(self.remember(&mut state, &one.table()));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.broken.is_empty() {
            // what is broken is reported where it broke, not again in all that follows
            return;
        }
        for (w, writer) in state.writers.iter().enumerate() {
            match &writer.phase {
                Phase::Idle if writer.tries < 5 => actions.push(Action::Read(w)),
                Phase::Ready(_) => {
                    actions.push(Action::Commit(w, Net::Clean));
                    if state.faults > 0 {
                        actions.push(Action::Commit(w, Net::AnswerLost));
                        actions.push(Action::Commit(w, Net::RequestLost));
                        if writer.op == Op::Sync && writer.tries < 4 {
                            actions.push(Action::Crash(w));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        block_on(self.step(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn has(s: &State, a: Anomaly) -> bool {
            !s.broken.contains_key(&a)
        }
        vec![
            Property::always("no lost delete", |_, s| has(s, Anomaly::LostDelete)),
            Property::always("no resurrected row", |_, s| has(s, Anomaly::ResurrectedRow)),
            Property::always("no phantom insert", |_, s| has(s, Anomaly::PhantomInsert)),
            Property::always("no lost row", |_, s| has(s, Anomaly::LostRow)),
            Property::always("isolation as the table says", |_, s| has(s, Anomaly::LostUpdate)),
            Property::always("at most one live vector a data file", |_, s| has(s, Anomaly::DoubleVector)),
            Property::always("no vector without its data file", |_, s| has(s, Anomaly::StrayVector)),
            Property::always("row ids are unique", |_, s| has(s, Anomaly::ReusedRowId)),
            Property::always("row ids are stable", |_, s| has(s, Anomaly::LineageChanged)),
            Property::always("sequence numbers grow", |_, s| has(s, Anomaly::SequenceOrder)),
            Property::always("totals are those of the manifests", |_, s| has(s, Anomaly::WrongTotals)),
            Property::always("delete files fit the format version", |_, s| has(s, Anomaly::WrongDeleteKind)),
            Property::always("what is reached is there", |_, s| has(s, Anomaly::MissingFile)),
            Property::always("the table can be read", |_, s| has(s, Anomaly::Unreadable)),
        ]
    }
}
