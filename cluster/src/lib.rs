//! floe past one machine: scans, row-level statements and changelogs of large tables run on a Ballista cluster. Plans travel
//! in floe's codec; commits are made by the coordinator alone, in the way they are made without a cluster.

mod bench;
mod carry;
mod client;
mod codec;
mod compact;
mod exec;
mod fit;
mod local;
mod node;
mod place;

pub use bench::{Bench, bench};
pub use carry::{pack, unpack};
pub use client::{Cluster, MIN_BYTES};
pub use codec::FloeCodec;
pub use exec::ClusterExec;
pub use fit::{Size, fit, size};
pub use local::{Layout, Local, end_with_parent, store_of_environment};
pub use node::{Executor, Scheduler, functions, run_executor, run_scheduler, task_context};
