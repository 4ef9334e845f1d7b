//! Commits on metadata alone: fake files, a catalog in memory.

mod conflicts;
mod golden;
mod retry;
mod rows;
mod support;
