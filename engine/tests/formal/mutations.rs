//! What goes wrong without each check of a commit: the rule is switched off, and the shortest history that breaks the
//! table is kept in `reports/formal-mutations.txt`.

use std::fmt::Write;
use std::path::PathBuf;

use floe_engine::commit::Rule;

use crate::check::explore;
use crate::figures::tell;
use crate::model::{Seed, Start};
use crate::ops::{Iso, Op};

use Iso::{Serial, Snapshot};

struct Mutation {
    rule: Rule,
    clause: &'static str,
    /// All that is switched off: with one rule alone another may still stand in its way.
    without: &'static [Rule],
    start: Start,
    ops: &'static [Op],
}

const fn delete(k: i32, iso: Iso) -> Op {
    Op::Delete { k, cow: false, iso }
}

const COMPACT: Op = Op::Compact { keep_sequence: true };

const TABLE: &[Mutation] = &[
    Mutation {
        rule: Rule::OneVectorPerCommit,
        clause: "DV-2",
        without: &[Rule::OneVectorPerCommit],
        start: Start::Upgraded,
        ops: &[Op::TwoVectors { k: 1 }],
    },
    Mutation {
        rule: Rule::NoDeleteOfRemoved,
        clause: "CONC-15",
        without: &[Rule::NoDeleteOfRemoved],
        start: Start::Upgraded,
        ops: &[Op::DeleteInRemoved { k: 1 }],
    },
    Mutation {
        rule: Rule::VersionOnAttempt,
        clause: "DEL-5",
        without: &[Rule::VersionOnAttempt],
        start: Start::Positions,
        ops: &[delete(1, Serial), Op::Upgrade],
    },
    Mutation {
        rule: Rule::KnownHistory,
        clause: "CONC-7, CONC-10",
        without: &[Rule::KnownHistory],
        start: Start::Vectors,
        // two commits, so that the walk back ends before the start
        ops: &[Op::Merge { k: 6, cow: false, iso: Serial }, Op::Append { k: 6 }, Op::Append { k: 8 }, Op::Expire],
    },
    Mutation {
        rule: Rule::DataFilesExist,
        clause: "CONC-11",
        without: &[Rule::DataFilesExist],
        start: Start::Vectors,
        ops: &[delete(1, Snapshot), COMPACT],
    },
    Mutation {
        rule: Rule::DataFilesNotDropped,
        clause: "CONC-11",
        without: &[Rule::DataFilesNotDropped],
        start: Start::Vectors,
        ops: &[Op::Update { k: 2, cow: false, iso: Serial }, delete(2, Serial)],
    },
    Mutation {
        rule: Rule::NoAddedData,
        clause: "CONC-13, CONC-21",
        without: &[Rule::NoAddedData],
        start: Start::Vectors,
        ops: &[delete(1, Serial), Op::Append { k: 1 }],
    },
    Mutation {
        rule: Rule::NoDeletesForReplaced,
        clause: "CONC-14, CONC-22, CONC-25",
        without: &[Rule::NoDeletesForReplaced],
        start: Start::Numbered,
        ops: &[COMPACT, delete(3, Serial)],
    },
    Mutation {
        rule: Rule::NoDeletesInScope,
        clause: "CONC-14, CONC-22",
        without: &[Rule::NoDeletesInScope],
        start: Start::Positions,
        ops: &[Op::Update { k: 1, cow: false, iso: Serial }, delete(1, Serial)],
    },
    Mutation {
        rule: Rule::NothingGoneInScope,
        clause: "CONC-22",
        without: &[Rule::NothingGoneInScope],
        start: Start::Vectors,
        ops: &[Op::OverwriteRead { k: 11 }, Op::DropPartition { p: 1 }],
    },
    // the check against the head's vectors stops what this one lets through: the two are one behind the other
    Mutation {
        rule: Rule::NoConcurrentVector,
        clause: "CONC-16, CONC-17",
        without: &[Rule::NoConcurrentVector, Rule::OldVectorReplaced],
        start: Start::Numbered,
        ops: &[delete(1, Snapshot), delete(3, Snapshot)],
    },
    Mutation {
        rule: Rule::OldVectorReplaced,
        clause: "DV-2",
        without: &[Rule::OldVectorReplaced],
        start: Start::Vectors,
        ops: &[Op::Forgetful { k: 1 }],
    },
    Mutation {
        rule: Rule::VectorsGoWithFiles,
        clause: "DV-4",
        without: &[Rule::VectorsGoWithFiles],
        start: Start::Numbered,
        ops: &[Op::Delete { k: 1, cow: true, iso: Serial }, Op::RewritePositions],
    },
    Mutation {
        rule: Rule::RemovedFilesExist,
        clause: "CONC-12",
        without: &[Rule::RemovedFilesExist],
        start: Start::Vectors,
        ops: &[COMPACT, COMPACT],
    },
    Mutation {
        rule: Rule::RowIdsAsRead,
        clause: "LINEAGE-11",
        without: &[Rule::RowIdsAsRead],
        start: Start::Upgraded,
        ops: &[COMPACT, Op::Append { k: 8 }],
    },
    Mutation {
        rule: Rule::AppendOnly,
        clause: "CONC-23",
        without: &[Rule::AppendOnly],
        start: Start::Vectors,
        ops: &[Op::Fill { k: 8 }],
    },
];

fn words(start: Start) -> &'static str {
    match start {
        Start::Empty => "an empty V3 table",
        Start::Vectors => "a V3 table: a = {1, 3, 5} with a vector for 5, b = {2}",
        Start::Positions => "a V2 table: a = {1, 3, 5}, c = {7}, b = {2}, a position-delete file for 5 in a",
        Start::Upgraded => "that table right after an upgrade, when rows have no ids",
        Start::Numbered => "that table after an upgrade and a commit that gave ids to its rows",
    }
}

#[test]
fn each_rule_is_needed() {
    let mut text = String::from(
        "Without one check of a commit: the shortest history that breaks the table.\n\
         Found by exhaustive exploration (engine/tests/formal); nothing breaks when every check is made.\n",
    );
    let mut survived = Vec::new();
    let mut killed = 0;
    for m in TABLE {
        let seed = Seed::new(m.start);
        let sound = explore(&seed, m.ops, &[], 0);
        assert!(sound.traces.is_empty(), "{:?}: broken with every check made: {:?}", m.rule, sound.traces);
        let found = explore(&seed, m.ops, m.without, 0);
        let _ = write!(text, "\n{:?} ({}), on {}\n", m.rule, m.clause, words(m.start));
        if m.without.len() > 1 {
            let _ = writeln!(text, "  (with {:?} off as well, which else stands in)", &m.without[1..]);
        }
        // of all broken properties the one with the shortest history; then the first by name
        match found.traces.iter().min_by_key(|(name, t)| (t.len(), **name)) {
            None => survived.push(m.rule),
            Some((property, trace)) => {
                killed += 1;
                let _ = writeln!(text, "  breaks: {property}");
                for (i, line) in trace.iter().filter(|l| !l.starts_with("=>")).enumerate() {
                    let _ = writeln!(text, "  {}. {line}", i + 1);
                }
                for line in trace.iter().filter(|l| l.starts_with("=>")) {
                    let _ = writeln!(text, "  {line}");
                }
            }
        }
    }
    tell("mutations", &format!("{killed} of {} killed", TABLE.len()));
    assert!(survived.is_empty(), "no counter-example without {survived:?}\n{text}");
    for rule in Rule::ALL {
        assert!(TABLE.iter().any(|m| m.rule == rule), "{rule:?} has no mutation");
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../reports/formal-mutations.txt");
    if std::env::var_os("FLOE_UPDATE_REPORTS").is_some() {
        std::fs::write(&path, &text).expect("the report is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is not what was found; look at it, then set FLOE_UPDATE_REPORTS=1\n{text}",
        path.display()
    );
}

/// The second line of defence: without the check against concurrent vectors, the head's own vectors stop the commit.
#[test]
fn two_rules_guard_against_a_second_vector() {
    let seed = Seed::new(Start::Numbered);
    let found = explore(&seed, &[delete(1, Snapshot), delete(3, Snapshot)], &[Rule::NoConcurrentVector], 0);
    assert!(found.traces.is_empty(), "{:?}", found.traces);
}
