//! The conformance workbench: scenarios as data, engines as processes, and the matrix of who can share a table with whom.

pub mod bench;
pub mod cli;
pub mod compare;
pub mod dice;
pub mod doctor;
pub mod drivers;
pub mod engines;
pub mod facts;
pub mod history;
pub mod launch;
pub mod matrix;
pub mod protocol;
pub mod report;
pub mod scenario;
pub mod serve;
pub mod value;
