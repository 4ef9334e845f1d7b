//! Change data capture: the row-level changes between snapshots, a stream of them, and a copy kept in step (CDC-*).

mod carry;
mod changelog;
mod columns;
pub mod config;
mod connect;
mod diff;
pub mod law;
pub mod managed;
mod range;
mod reader;
mod reading;
mod resolve;
mod rows;
mod run;
mod source;
pub mod sql;
pub mod sync;
mod template;
mod upsert;
mod wire;

pub use changelog::{ChangelogBuilder, ChangelogScan, DEFAULT_MEMORY, MetaColumns};
pub use connect::{connect, table_ident};
pub use diff::{DiffPlanner, FileDiff, Side};
pub use range::{Base, End, Lag, Start, Step, resolve as resolve_snapshot};
pub use reading::ChangesExec;
pub use resolve::ChangeType;
pub use source::CdcSource;
pub use upsert::{Upsert, Upserted, upsert};
pub use wire::ChangesWire;
