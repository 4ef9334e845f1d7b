//! Change data capture through SQL, over real tables: one binary, since each links the whole engine.

mod changelog;
mod docs;
mod golden;
mod support;
mod sync;
