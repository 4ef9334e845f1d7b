//! Engines as the matrix sees them: something that says who it is, runs statements and reads tables.

mod arrow_rows;
mod floe;
pub mod iceberg_rust;
mod link;
pub mod measure;
mod process;

use async_trait::async_trait;

use crate::protocol::{Answer, Hello, Measured, TableRef, Work};
use crate::value::Rows;

pub use floe::Floe;
pub use link::{Place, kill_all};
pub use process::{Launch, Process};

/// Rows are carried whole up to this many; beyond it count and digest stand for them.
pub const ROW_LIMIT: usize = 1000;

/// A running engine. Calls never panic and never hang: every fault is an [`Answer`].
#[async_trait]
pub trait Driver: Send {
    /// Registry name (`spark35`), stable over runs.
    fn name(&self) -> &str;
    /// What it said of itself.
    fn hello(&self) -> &Hello;
    /// Process whose tree does its work: this one for an engine inside it, none where it cannot be seen (a container).
    fn process(&self) -> Option<u32> {
        Some(std::process::id())
    }
    /// Runs one statement.
    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()>;
    /// Reads a whole table in the state that `table` names.
    async fn scan(&mut self, table: &TableRef) -> Answer<Rows>;
    /// Asks a question; rows come in the engine's order.
    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows>;
    /// Rows changed after snapshot `from` up to `to`.
    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows>;
    /// Does a piece of work `calls` times and says how long it took.
    async fn measure(&mut self, _work: &Work, _calls: u32) -> Answer<Measured> {
        Answer::Skipped("this driver measures nothing".into())
    }
    /// Starts a dead engine again, a few times in a run: the next scenario gets a fresh one.
    async fn revive(&mut self);
    /// Whether it still answers; a dead engine gives errors at once.
    fn alive(&self) -> bool;
    /// Ends it.
    async fn stop(&mut self);
}
