//! The matrix: every scenario by every writer, read by every reader, live after each step and again by snapshot.

pub mod catalogs;
mod damage;
pub mod deviations;
mod facts_check;
pub mod proof;
pub mod result;
mod rounds;
mod run;
mod sync;
mod walk;

pub use rounds::Field;
pub use run::{Progress, Session, run_scenario};
