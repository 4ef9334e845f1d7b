//! Subcommands of `floe`.

pub mod audit;
pub mod dv;
