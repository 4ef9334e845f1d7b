//! The search for an order, and the naming of what has none.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Anomaly, Event, Op, Outcome, Seen, Verdict};

/// Everything that is wrong with a history, each with a minimal witness. Empty: the history is right.
pub fn judge(history: &[Event]) -> Vec<Verdict> {
    let mut out = Vec::new();
    for key in keys(history) {
        let mine: Vec<usize> = (0..history.len()).filter(|i| concerns(&history[*i], key)).collect();
        if let Some(anomaly) = judge_key(history, &mine, key) {
            let witness = shrink(history, mine, key);
            // the witness alone may show a plainer name
            let anomaly = judge_key(history, &witness, key).unwrap_or(anomaly);
            out.push(Verdict { anomaly, text: format!("key {key}"), witness });
        }
    }
    out.extend(vectors(history));
    out.extend(row_ids(history));
    out
}

fn reads(history: &[Event]) -> impl Iterator<Item = (usize, &Seen)> {
    history.iter().enumerate().filter_map(|(i, e)| match &e.op {
        Op::Read(seen) if e.outcome == Outcome::Ok => Some((i, seen)),
        _ => None,
    })
}

fn key_of(op: &Op) -> Option<i64> {
    match op {
        Op::Insert { key, .. } | Op::Update { key, .. } | Op::Delete { key } => Some(*key),
        Op::Read(_) => None,
    }
}

fn keys(history: &[Event]) -> BTreeSet<i64> {
    let written = history.iter().filter_map(|e| key_of(&e.op));
    let seen = reads(history).flat_map(|(_, s)| s.rows.iter().map(|r| r.key));
    written.chain(seen).collect()
}

/// Whether an event says something about a key: its writes that may have an effect, and every read that ended.
fn concerns(e: &Event, key: i64) -> bool {
    match &e.op {
        Op::Read(_) => e.outcome == Outcome::Ok,
        op => key_of(op) == Some(key),
    }
}

fn values(seen: &Seen, key: i64) -> Vec<i64> {
    seen.rows.iter().filter(|r| r.key == key).map(|r| r.value).collect()
}

/// The anomaly of one key's events, if there is no order for them.
fn judge_key(history: &[Event], events: &[usize], key: i64) -> Option<Anomaly> {
    for i in events {
        if let Op::Read(seen) = &history[*i].op
            && values(seen, key).len() > 1
        {
            return Some(Anomaly::PhantomInsert);
        }
    }
    let effective: Vec<usize> = events.iter().copied().filter(|i| history[*i].outcome != Outcome::Fail).collect();
    let mut tried = HashSet::new();
    if ordered(history, &effective, key, &mut vec![false; effective.len()], None, &mut tried) {
        return None;
    }
    Some(name(history, events, key))
}

/// Whether the events that are left can be put in order after the state `now` (depth first, states remembered).
fn ordered(
    history: &[Event],
    events: &[usize],
    key: i64,
    done: &mut Vec<bool>,
    now: Option<i64>,
    tried: &mut HashSet<(Vec<bool>, Option<i64>)>,
) -> bool {
    let left = |done: &[bool]| -> Vec<usize> { (0..events.len()).filter(|i| !done[*i]).collect() };
    // what is left may all be unknown, and never have happened
    if left(done).iter().all(|i| history[events[*i]].outcome == Outcome::Unknown) {
        return true;
    }
    if !tried.insert((done.clone(), now)) {
        return false;
    }
    // no event may come before one that had ended when it started
    let bound = left(done)
        .iter()
        .map(|i| &history[events[*i]])
        .filter(|e| e.outcome == Outcome::Ok)
        .map(|e| e.end)
        .min()
        .unwrap_or(u64::MAX);
    for i in left(done) {
        let e = &history[events[i]];
        if e.start > bound {
            continue;
        }
        let next = match &e.op {
            Op::Insert { value, .. } => Some(*value),
            Op::Update { value, .. } => now.map(|_| *value),
            Op::Delete { .. } => None,
            Op::Read(seen) => {
                if values(seen, key).first().copied() != now {
                    continue;
                }
                now
            }
        };
        done[i] = true;
        if ordered(history, events, key, done, next, tried) {
            return true;
        }
        done[i] = false;
    }
    false
}

/// Names what has no order.
fn name(history: &[Event], events: &[usize], key: i64) -> Anomaly {
    let inserted =
        |o: Outcome| events.iter().any(|i| matches!(history[*i].op, Op::Insert { .. }) && history[*i].outcome == o);
    let mut seen_reads: Vec<(usize, Option<i64>)> = events
        .iter()
        .filter_map(|i| match &history[*i].op {
            Op::Read(s) => Some((*i, values(s, key).first().copied())),
            _ => None,
        })
        .collect();
    seen_reads.sort_by_key(|(i, _)| history[*i].end);
    let written = |v: i64| {
        events.iter().map(|i| &history[*i]).filter(|e| e.outcome != Outcome::Fail).any(|e| match e.op {
            Op::Insert { value, .. } | Op::Update { value, .. } => value == v,
            _ => false,
        })
    };
    let nobodys = seen_reads.iter().any(|(_, v)| v.is_some_and(|v| !written(v)));
    if nobodys || (!inserted(Outcome::Ok) && !inserted(Outcome::Unknown)) {
        return Anomaly::PhantomInsert;
    }
    let deletes: Vec<usize> = events.iter().copied().filter(|i| matches!(history[*i].op, Op::Delete { .. })).collect();
    let may_delete = |i: &&usize| history[**i].outcome != Outcome::Fail;
    for (at, value) in &seen_reads {
        let read = &history[*at];
        if value.is_none() && deletes.iter().filter(may_delete).all(|d| history[*d].start > read.end) {
            let insert = events.iter().find(|i| {
                matches!(history[**i].op, Op::Insert { .. })
                    && history[**i].outcome == Outcome::Ok
                    && history[**i].end < read.start
            });
            if insert.is_some() {
                return Anomaly::LostInsert;
            }
        }
        if value.is_some() {
            // an earlier read that ended before this one saw it gone, after it had been there
            let there = seen_reads.iter().filter(|(_, v)| v.is_some()).map(|(i, _)| history[*i].end).min();
            let gone = seen_reads.iter().any(|(i, v)| {
                v.is_none()
                    && history[*i].end < read.start
                    && (there.is_some_and(|t| t < history[*i].start) || after_insert(history, events, *i))
            });
            if gone {
                return Anomaly::ResurrectedRow;
            }
            if deletes.iter().any(|d| history[*d].outcome == Outcome::Ok && history[*d].end < read.start) {
                return Anomaly::LostDelete;
            }
        }
    }
    Anomaly::LostUpdate
}

/// Whether the key's insert was done before event `i` started.
fn after_insert(history: &[Event], events: &[usize], i: usize) -> bool {
    events.iter().any(|w| {
        let e = &history[*w];
        matches!(e.op, Op::Insert { .. }) && e.outcome == Outcome::Ok && e.end < history[i].start
    })
}

/// Takes away events as long as the rest is still wrong. Writes that others rest on stay by themselves: without its
/// insert a row would be a phantom, which is another fault.
fn shrink(history: &[Event], mut events: Vec<usize>, key: i64) -> Vec<usize> {
    let Some(anomaly) = judge_key(history, &events, key) else { return events };
    let mut at = 0;
    while at < events.len() {
        let mut fewer = events.clone();
        fewer.remove(at);
        if judge_key(history, &fewer, key) == Some(anomaly) {
            events = fewer;
        } else {
            at += 1;
        }
    }
    events
}

fn vectors(history: &[Event]) -> Vec<Verdict> {
    let mut out = Vec::new();
    for (i, seen) in reads(history) {
        let mut of: BTreeSet<&str> = BTreeSet::new();
        if let Some(twice) = seen.vectors.iter().find(|v| !of.insert(v)) {
            let text = format!("data file {twice} has two");
            out.push(Verdict { anomaly: Anomaly::DoubleVector, text, witness: vec![i] });
        }
    }
    out
}

fn row_ids(history: &[Event]) -> Vec<Verdict> {
    let mut by_id: BTreeMap<i64, (i64, usize)> = BTreeMap::new();
    let mut by_key: BTreeMap<i64, (i64, usize)> = BTreeMap::new();
    let mut found: BTreeMap<(Anomaly, i64), Verdict> = BTreeMap::new();
    for (i, seen) in reads(history) {
        for r in &seen.rows {
            let Some(id) = r.row_id else { continue };
            let (owner, first) = *by_id.entry(id).or_insert((r.key, i));
            let witness = |first| if first == i { vec![i] } else { vec![first, i] };
            if owner != r.key {
                let text = format!("{id} is of key {owner} and of key {}", r.key);
                let v = Verdict { anomaly: Anomaly::ReusedRowId, text, witness: witness(first) };
                found.entry((v.anomaly, id)).or_insert(v);
            }
            let (old, first) = *by_key.entry(r.key).or_insert((id, i));
            if old != id {
                let text = format!("key {} had {old} and has {id}", r.key);
                let v = Verdict { anomaly: Anomaly::ChangedRowId, text, witness: witness(first) };
                found.entry((v.anomaly, r.key)).or_insert(v);
            }
        }
    }
    found.into_values().collect()
}
