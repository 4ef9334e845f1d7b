//! What a random history is made of, as a `proptest` strategy: one generator for floe's own histories and for every engine's.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One step; the numbers choose among what the table has when it comes to it, so that any part of a history is a history.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// INSERT of so many rows.
    Insert(u8, u16),
    /// DELETE by a condition.
    Delete(u8, u16),
    /// UPDATE of a column by a condition.
    Update(u8, u16, u16),
    /// MERGE of a row that is there and one that is not.
    Merge(u16, u8),
    /// INSERT OVERWRITE of so many rows.
    Overwrite(u8, u16),
    /// To format version 3.
    Upgrade,
    /// ALTER TABLE … ADD COLUMN.
    AddColumn(u8),
    /// ALTER TABLE … DROP COLUMN.
    DropColumn(u8),
    /// ALTER TABLE … RENAME COLUMN.
    RenameColumn(u8),
    /// A column of INT becomes BIGINT.
    Widen(u8),
    /// Data files are rewritten.
    Compact,
    /// All but so many snapshots expire.
    Expire(u8),
    /// Manifests are rewritten.
    RewriteManifests,
    /// Position deletes are rewritten.
    RewritePositions,
    /// Back to an ancestor.
    Rollback(u8),
    /// A branch takes a DELETE and is dropped.
    Branch(u8, u16),
}

/// A random history: a table, and what is done to it.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub(super) seed: u64,
    /// Format version at the start.
    pub version: u8,
    pub(super) partition: u8,
    pub(super) columns: Vec<u8>,
    /// Whether a delete file is for one data file.
    pub granularity: bool,
    /// Whether manifests are merged early.
    pub merge_manifests: bool,
    /// Where one table is made and not one of each: its mode.
    pub(super) merge_on_read: bool,
    /// Whether every engine that writes by rows has words for all of it.
    pub(super) portable: bool,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// Steps that every engine which writes by rows has words for.
fn portable() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..6, any::<u16>()).prop_map(|(n, s)| Step::Insert(n, s)),
        6 => (any::<u8>(), any::<u16>()).prop_map(|(k, s)| Step::Delete(k, s)),
        5 => (any::<u8>(), any::<u16>(), any::<u16>()).prop_map(|(k, s, v)| Step::Update(k, s, v)),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(s, k)| Step::Merge(s, k)),
        2 => Just(Step::Upgrade),
        1 => any::<u8>().prop_map(Step::AddColumn),
        1 => any::<u8>().prop_map(Step::DropColumn),
        1 => any::<u8>().prop_map(Step::RenameColumn),
        1 => any::<u8>().prop_map(Step::Widen),
    ]
}

/// All steps.
fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        26 => portable(),
        1 => (1u8..4, any::<u16>()).prop_map(|(n, s)| Step::Overwrite(n, s)),
        2 => Just(Step::Compact),
        1 => (1u8..4).prop_map(Step::Expire),
        1 => Just(Step::RewriteManifests),
        2 => Just(Step::RewritePositions),
        1 => any::<u8>().prop_map(Step::Rollback),
        1 => (any::<u8>(), any::<u16>()).prop_map(|(k, s)| Step::Branch(k, s)),
    ]
}

fn of_steps(portable: bool, step: BoxedStrategy<Step>) -> impl Strategy<Value = History> {
    (
        2u8..4,
        any::<u8>(),
        proptest::collection::vec(any::<u8>(), 1..4),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        proptest::collection::vec(step, 3..12),
    )
        .prop_map(move |(version, partition, columns, (granularity, merge_manifests, merge_on_read), rest)| {
            let mut steps = vec![Step::Insert(5, 1)];
            steps.extend(rest);
            History {
                seed: 0,
                version,
                partition,
                columns,
                granularity,
                merge_manifests,
                merge_on_read,
                portable,
                steps,
            }
        })
}

/// Histories of all steps.
pub fn full() -> BoxedStrategy<History> {
    of_steps(false, any_step().boxed()).boxed()
}

/// A runner that draws what the seed says, everywhere the same, and simplifies a failure in at most `shrink` tries.
pub fn runner(seed: u64, shrink: u32) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { max_shrink_iters: shrink, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

impl History {
    /// The history of a seed, for engines: three of four have only steps that all of them have words for.
    pub fn of(seed: u64) -> Self {
        let histories = prop_oneof![3 => of_steps(true, portable().boxed()), 1 => full()];
        let tree = histories.new_tree(&mut runner(seed, 0)).expect("a strategy without filters always has a value");
        Self { seed, ..tree.current() }
    }

    /// Number of statements after the table is made.
    pub fn statements(&self) -> usize {
        self.steps.len()
    }

    /// The history without its statement at `i`, from 0.
    #[must_use]
    pub fn without(&self, i: usize) -> Self {
        let mut less = self.clone();
        less.steps.remove(i);
        less
    }
}
