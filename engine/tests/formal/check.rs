//! Every pair of writers, and triples: nothing breaks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use floe_engine::commit::Rule;
use stateright::{Checker, Model};

use crate::figures::tell;
use crate::model::{Seed, Start, Writers, step};
use crate::ops::{Iso, Op};

use Iso::{Serial, Snapshot};

/// All operations of well-behaved writers.
fn operations() -> Vec<Op> {
    vec![
        Op::Append { k: 1 },
        Op::Append { k: 8 },
        Op::Delete { k: 1, cow: false, iso: Serial },
        Op::Delete { k: 1, cow: false, iso: Snapshot },
        Op::Delete { k: 3, cow: false, iso: Serial },
        Op::Delete { k: 1, cow: true, iso: Serial },
        Op::Delete { k: 3, cow: true, iso: Snapshot },
        Op::Delete { k: 2, cow: false, iso: Serial },
        Op::DropPartition { p: 1 },
        Op::Update { k: 1, cow: false, iso: Serial },
        Op::Update { k: 1, cow: false, iso: Snapshot },
        Op::Update { k: 3, cow: true, iso: Serial },
        Op::Update { k: 1, cow: true, iso: Snapshot },
        Op::Merge { k: 1, cow: false, iso: Serial },
        Op::Merge { k: 9, cow: false, iso: Serial },
        Op::Merge { k: 9, cow: true, iso: Snapshot },
        Op::OverwriteAll { k: 4 },
        Op::OverwritePartition { k: 11 },
        Op::OverwriteRead { k: 11 },
        Op::Fill { k: 8 },
        Op::Compact { keep_sequence: true },
        Op::Compact { keep_sequence: false },
        Op::RewritePositions,
        Op::RewriteManifests,
        Op::Upgrade,
        Op::Expire,
        Op::Rollback,
        Op::Sync,
    ]
}

/// Those that the normal run pairs with all.
fn core() -> Vec<Op> {
    vec![
        Op::Append { k: 1 },
        Op::Delete { k: 1, cow: false, iso: Serial },
        Op::Update { k: 3, cow: true, iso: Serial },
        Op::Merge { k: 9, cow: false, iso: Serial },
        Op::Compact { keep_sequence: true },
        Op::RewritePositions,
        Op::Expire,
        Op::Sync,
    ]
}

fn is_long() -> bool {
    std::env::var_os("FLOE_FORMAL").is_some_and(|v| v == "long")
}

/// What one exploration gave.
#[derive(Debug, Default)]
pub struct Found {
    pub states: usize,
    pub unique: usize,
    /// Shortest counter-example of each broken property.
    pub traces: BTreeMap<&'static str, Vec<String>>,
}

pub fn explore(seed: &Seed, ops: &[Op], without: &'static [Rule], faults: u8) -> Found {
    let checker = Writers::new(seed, ops, without, faults).checker().threads(1).spawn_bfs().join();
    let mut found = Found { states: checker.state_count(), unique: checker.unique_state_count(), ..Found::default() };
    for (name, path) in checker.discoveries() {
        let last = path.last_state().clone();
        let mut lines: Vec<String> = path.into_actions().iter().map(|a| step(&last.writers, a)).collect();
        lines.extend(last.broken.iter().map(|(a, text)| format!("=> {a:?}: {text}")));
        found.traces.insert(name, lines);
    }
    found
}

/// Runs jobs on the machine's cores.
fn in_parallel<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let out = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get().min(8));
    std::thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let r = work(job);
                    out.lock().expect("no panic while held").push(r);
                }
            });
        }
    });
    out.into_inner().expect("no panic while held")
}

/// Unordered choices of `n` operations, with repetition.
fn choices(ops: &[Op], n: usize) -> Vec<Vec<Op>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut out = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        for mut rest in choices(&ops[i..], n - 1) {
            rest.insert(0, *op);
            out.push(rest);
        }
    }
    out
}

/// Explores all jobs and fails with the traces of whatever is broken.
fn all_hold(what: &str, starts: &[Start], sets: &[Vec<Op>], faults: u8) {
    let began = Instant::now();
    let (mut models, mut states, mut unique) = (0, 0, 0);
    let mut broken = String::new();
    for start in starts {
        let seed = Seed::new(*start);
        let found = in_parallel(sets, |ops| explore(&seed, ops, &[], faults));
        for f in found {
            models += 1;
            states += f.states;
            unique += f.unique;
            for (property, trace) in f.traces {
                let _ = writeln!(broken, "{start:?}: {property}\n  {}", trace.join("\n  "));
            }
        }
    }
    assert!(broken.is_empty(), "{what}: broken\n{broken}");
    println!("{what}: {:.1?}", began.elapsed());
    tell(what, &format!("{models} models, {states} states generated, {unique} unique"));
}

#[test]
fn pairs_of_writers() {
    if is_long() {
        let starts = [Start::Vectors, Start::Numbered, Start::Upgraded, Start::Positions, Start::Empty];
        all_hold("pairs of writers, one fault", &starts, &choices(&operations(), 2), 1);
    } else {
        let mut pairs = choices(&operations(), 2);
        pairs.retain(|p| p.iter().any(|op| core().contains(op)));
        all_hold("pairs of writers", &[Start::Vectors], &pairs, 0);
    }
}

#[test]
fn pairs_with_lost_answers() {
    all_hold("pairs right after an upgrade", &[Start::Upgraded], &choices(&core(), 2), 0);
    let starts = [Start::Empty, Start::Numbered];
    all_hold("pairs with one fault", &starts, &choices(&core(), 2), 1);
}

#[test]
fn three_writers() {
    if is_long() {
        all_hold("three writers", &[Start::Vectors, Start::Numbered], &choices(&operations(), 3), 0);
    } else {
        let ops: Vec<Op> = core().into_iter().step_by(2).chain([Op::DropPartition { p: 1 }]).collect();
        all_hold("three writers", &[Start::Numbered], &choices(&ops, 3), 0);
    }
}
