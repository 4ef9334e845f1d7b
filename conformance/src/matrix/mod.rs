//! The matrix: every scenario by every writer, read by every reader, live after each step and again by snapshot.

pub mod catalogs;
mod damage;
pub mod deviations;
mod facts_check;
mod judge;
pub mod proof;
pub mod result;
mod rounds;
mod run;
mod seat;
mod sync;
mod walk;

pub use rounds::{Field, Progress};
pub use run::{Session, run_scenario};
pub use seat::Seat;
