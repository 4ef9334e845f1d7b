//! The conformance workbench.

pub mod cli;
