//! Subcommands of `floe`.

pub mod advise;
pub mod audit;
pub mod bench;
pub mod cdc;
pub mod conformance;
pub mod doctor;
pub mod driver;
pub mod dv;
pub mod engines;
pub mod histories;
pub mod io;
pub mod maintenance;
mod pipe;
pub mod report;
pub mod rows;
pub mod serve;
mod signals;
pub mod sql;
