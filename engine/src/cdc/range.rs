//! Which snapshots a changelog covers: a chain of parents from an end back to a start (CDC-5).

use std::time::{SystemTime, UNIX_EPOCH};

use iceberg::spec::{MAIN_BRANCH, Operation, SnapshotRef, TableMetadata};

use crate::{Error, Result, Table};

/// Where a range starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// At the beginning of the history. When old snapshots were expired, the oldest kept one counts with its whole content.
    #[default]
    Beginning,
    /// After a snapshot: id, branch or tag.
    After(String),
    /// At a snapshot, whose own changes count: id, branch or tag.
    At(String),
    /// Snapshots committed after these milliseconds since the epoch (Spark's `start-timestamp`).
    AfterTime(i64),
    /// Snapshots committed at or after these milliseconds (`from_timestamp`).
    AtTime(i64),
}

/// Where a range ends; the end counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum End {
    /// At the head of the branch.
    #[default]
    Head,
    /// At a snapshot: id, branch or tag.
    At(String),
    /// At the newest snapshot committed at or before these milliseconds.
    AtTime(i64),
}

/// A snapshot of the range with what it is compared with.
#[derive(Debug, Clone)]
pub struct Step {
    /// The snapshot.
    pub snapshot: SnapshotRef,
    /// What its changes are relative to.
    pub base: Base,
}

/// What a snapshot's changes are relative to.
#[derive(Debug, Clone)]
pub enum Base {
    /// The parent.
    Parent(SnapshotRef),
    /// Nothing: the first snapshot of the table, or the oldest that is kept when the whole history is asked for.
    Empty,
    /// A parent that was expired: only the snapshot's own manifests can tell.
    Expired(i64),
}

impl Step {
    /// Whether it can change rows: a `replace` can't, unless it is all that is kept of the history before it (CDC-6).
    pub fn changes_rows(&self) -> bool {
        self.snapshot.summary().operation != Operation::Replace || matches!(self.base, Base::Empty)
    }
}

impl End {
    /// Whether a reader that found nothing new up to it has reached it. A time is reached once the clock has passed it: a
    /// snapshot that is committed later is newer.
    pub(super) fn is_reached_when_idle(&self) -> bool {
        match self {
            Self::Head => false,
            Self::At(_) => true,
            Self::AtTime(ms) => now_ms() > *ms,
        }
    }
}

/// How far a reader is behind a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Snapshots that were not read yet, `replace` ones not counted.
    pub snapshots: usize,
    /// Age of the oldest of them, in seconds; 0 when there is none.
    pub seconds: u64,
}

impl Lag {
    /// The lag of a reader that has these steps before it.
    pub(super) fn of(rest: &[Step]) -> Self {
        let mut waiting = rest.iter().filter(|s| s.changes_rows());
        let oldest = waiting.next().map(|s| s.snapshot.timestamp_ms());
        let age = oldest.map_or(0, |t| now_ms().saturating_sub(t).max(0).unsigned_abs() / 1000);
        Self { snapshots: usize::from(oldest.is_some()) + waiting.count(), seconds: age }
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// A snapshot by id, branch or tag.
pub fn resolve(metadata: &TableMetadata, text: &str) -> Result<SnapshotRef> {
    if let Some(s) = metadata.snapshot_for_ref(text) {
        return Ok(s.clone());
    }
    let missing = |m: String| Err(Error::not_found(m).clause("CDC-5"));
    match text.parse::<i64>() {
        Ok(id) => match metadata.snapshot_by_id(id) {
            Some(s) => Ok(s.clone()),
            None => missing(format!("snapshot {id} is not in the table's metadata: it was expired or never there")),
        },
        Err(_) => missing(format!("{text:?} is no snapshot id and no branch or tag of the table")),
    }
}

/// The snapshots of a range, oldest first. An empty range is no error: nothing after the start, no snapshot in the window of
/// time, a table without snapshots (case G4).
pub fn steps(table: &Table, branch: Option<&str>, start: &Start, end: &End) -> Result<Vec<Step>> {
    steps_inner(&table.metadata().inner, branch, start, end).map_err(|e| e.at(table.ident()))
}

fn steps_inner(m: &TableMetadata, branch: Option<&str>, start: &Start, end: &End) -> Result<Vec<Step>> {
    let branch = branch.unwrap_or(MAIN_BRANCH);
    let head = m.snapshot_for_ref(branch).cloned();
    if head.is_none() && branch != MAIN_BRANCH {
        return Err(Error::not_found(format!("the table has no branch {branch}")));
    }
    let last = match end {
        End::Head => head,
        End::At(text) => Some(resolve(m, text)?),
        End::AtTime(ms) => {
            let mut at = head;
            while let Some(s) = &at
                && s.timestamp_ms() > *ms
            {
                at = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p)).cloned();
            }
            at
        }
    };
    // the start must exist even when there is nothing to read
    let stop = match start {
        Start::After(text) => Some(match (resolve(m, text), text.parse::<i64>()) {
            (Ok(s), _) => (s.snapshot_id(), Some(s)),
            // an expired start is fine if it is the parent of the oldest kept snapshot (CDC-5)
            (Err(_), Ok(id)) if m.snapshots().any(|s| s.parent_snapshot_id() == Some(id)) => (id, None),
            (Err(e), _) => return Err(e),
        }),
        Start::At(text) => {
            let s = resolve(m, text)?;
            Some((s.snapshot_id(), Some(s)))
        }
        _ => None,
    };
    let Some(last) = last else {
        return Ok(Vec::new());
    };
    let inclusive = matches!(start, Start::At(_));
    let mut out: Vec<Step> = Vec::new();
    let mut at = Some(last.clone());
    let mut found = stop.is_none();
    while let Some(s) = at {
        let id = s.snapshot_id();
        if let Some((stop, _)) = &stop
            && *stop == id
            && !inclusive
        {
            found = true;
            break;
        }
        match start {
            Start::AfterTime(ms) if s.timestamp_ms() <= *ms => break,
            Start::AtTime(ms) if s.timestamp_ms() < *ms => break,
            _ => {}
        }
        let parent = s.parent_snapshot_id();
        let kept = parent.and_then(|p| m.snapshot_by_id(p)).cloned();
        let base = match (parent, &kept) {
            (None, _) => Base::Empty,
            (_, Some(p)) => Base::Parent(p.clone()),
            (Some(_), None) if matches!(start, Start::Beginning) => Base::Empty,
            (Some(p), None) => Base::Expired(p),
        };
        out.push(Step { snapshot: s, base });
        if out.len() > m.snapshots().len() {
            return Err(Error::malformed("snapshot parents form a cycle").clause("META-S02"));
        }
        if let Some((stop, _)) = &stop
            && ((inclusive && *stop == id) || (!inclusive && parent == Some(*stop) && kept.is_none()))
        {
            found = true;
            break;
        }
        at = kept;
    }
    if !found {
        let (id, _) = stop.unwrap_or_default();
        return Err(Error::invalid(format!(
            "start snapshot {id} is not an ancestor of end snapshot {}",
            last.snapshot_id()
        ))
        .clause("CDC-5"));
    }
    out.reverse();
    Ok(out)
}
