//! Subcommands of `floe`.

pub mod dv;
