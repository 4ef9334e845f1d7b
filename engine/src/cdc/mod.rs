//! Change data capture: the row-level changes between snapshots, a stream of them, and a copy kept in step (CDC-*).

pub mod config;
