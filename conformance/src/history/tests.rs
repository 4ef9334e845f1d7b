//! Each anomaly is named, its witness is minimal, and what is right is let through.

use super::{Anomaly, Event, Op, Outcome, Seen, SeenRow, judge};

/// Events one after the other unless told otherwise.
fn at(client: usize, start: u64, end: u64, op: Op, outcome: Outcome) -> Event {
    Event { client, start, end, op, outcome }
}

fn row(key: i64, value: i64) -> SeenRow {
    SeenRow { key, value, row_id: None }
}

fn read(rows: &[SeenRow]) -> Op {
    Op::Read(Seen { rows: rows.to_vec(), vectors: Vec::new() })
}

fn serial(ops: Vec<(Op, Outcome)>) -> Vec<Event> {
    let event = |(i, (op, outcome)): (usize, (Op, Outcome))| at(0, 10 * i as u64, 10 * i as u64 + 5, op, outcome);
    ops.into_iter().enumerate().map(event).collect()
}

fn ok(op: Op) -> (Op, Outcome) {
    (op, Outcome::Ok)
}

fn insert(key: i64) -> Op {
    Op::Insert { key, value: 0 }
}

#[track_caller]
fn found(history: &[Event], anomaly: Anomaly, witness: &[usize]) {
    let verdicts = judge(history);
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    assert_eq!(verdicts[0].anomaly, anomaly, "{}", verdicts[0]);
    assert_eq!(verdicts[0].witness, witness, "{}", verdicts[0]);
    // no smaller part shows the same
    for gone in witness {
        let less: Vec<Event> = witness.iter().filter(|w| *w != gone).map(|w| history[*w].clone()).collect();
        assert!(judge(&less).iter().all(|v| v.anomaly != anomaly), "event {gone} is not needed");
    }
}

#[test]
fn a_right_history() {
    let h = serial(vec![
        ok(insert(1)),
        ok(read(&[row(1, 0)])),
        ok(Op::Update { key: 1, value: 5 }),
        ok(read(&[row(1, 5)])),
        ok(Op::Delete { key: 1 }),
        ok(read(&[])),
        (insert(2), Outcome::Fail),
        ok(read(&[])),
    ]);
    assert!(judge(&h).is_empty(), "{:?}", judge(&h));
}

#[test]
fn an_unknown_outcome_may_come_true_late_or_never() {
    let unknown = |last: &[SeenRow]| {
        serial(vec![ok(insert(1)), (Op::Delete { key: 1 }, Outcome::Unknown), ok(read(&[row(1, 0)])), ok(read(last))])
    };
    assert!(judge(&unknown(&[])).is_empty());
    assert!(judge(&unknown(&[row(1, 0)])).is_empty());
}

#[test]
fn concurrent_writes_have_either_order() {
    for value in [5, 6] {
        let h = vec![
            at(0, 0, 1, insert(1), Outcome::Ok),
            at(0, 10, 20, Op::Update { key: 1, value: 5 }, Outcome::Ok),
            at(1, 11, 21, Op::Update { key: 1, value: 6 }, Outcome::Ok),
            at(0, 30, 31, read(&[row(1, value)]), Outcome::Ok),
        ];
        assert!(judge(&h).is_empty(), "{:?}", judge(&h));
    }
}

#[test]
fn lost_delete() {
    let h = serial(vec![ok(insert(1)), ok(insert(2)), ok(Op::Delete { key: 1 }), ok(read(&[row(1, 0), row(2, 0)]))]);
    found(&h, Anomaly::LostDelete, &[0, 2, 3]);
}

#[test]
fn resurrected_row() {
    let h =
        serial(vec![ok(insert(1)), ok(Op::Delete { key: 1 }), ok(read(&[])), ok(read(&[])), ok(read(&[row(1, 0)]))]);
    found(&h, Anomaly::ResurrectedRow, &[0, 1, 3, 4]);
}

#[test]
fn lost_insert() {
    let h = serial(vec![ok(insert(1)), ok(read(&[])), ok(Op::Delete { key: 1 })]);
    found(&h, Anomaly::LostInsert, &[0, 1]);
}

#[test]
fn phantom_inserts() {
    found(&serial(vec![ok(read(&[row(9, 0)]))]), Anomaly::PhantomInsert, &[0]);
    let refused = serial(vec![(insert(1), Outcome::Fail), ok(read(&[row(1, 0)]))]);
    found(&refused, Anomaly::PhantomInsert, &[1]);
    let twice = serial(vec![ok(insert(1)), ok(read(&[row(1, 0), row(1, 0)]))]);
    found(&twice, Anomaly::PhantomInsert, &[1]);
}

#[test]
fn lost_update() {
    let h = serial(vec![
        ok(insert(1)),
        ok(Op::Update { key: 1, value: 5 }),
        ok(Op::Update { key: 1, value: 6 }),
        ok(read(&[row(1, 5)])),
    ]);
    found(&h, Anomaly::LostUpdate, &[0, 1, 2, 3]);
}

#[test]
fn double_vector() {
    let seen = Seen { rows: Vec::new(), vectors: vec!["a".into(), "b".into(), "a".into()] };
    found(&serial(vec![ok(Op::Read(seen))]), Anomaly::DoubleVector, &[0]);
}

#[test]
fn row_ids_are_of_one_key_for_good() {
    let with = |key, id| SeenRow { key, value: 0, row_id: Some(id) };
    let reused = serial(vec![
        ok(insert(1)),
        ok(read(&[with(1, 7)])),
        ok(Op::Delete { key: 1 }),
        ok(insert(2)),
        ok(read(&[with(2, 7)])),
    ]);
    found(&reused, Anomaly::ReusedRowId, &[1, 4]);
    let changed = serial(vec![ok(insert(1)), ok(read(&[with(1, 7)])), ok(read(&[with(1, 8)]))]);
    found(&changed, Anomaly::ChangedRowId, &[1, 2]);
}
