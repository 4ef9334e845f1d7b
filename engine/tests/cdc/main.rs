//! Change data capture through SQL, over real tables: one binary, since each links the whole engine.

mod changelog;
mod cost;
mod docs;
mod exactly_once;
mod golden;
mod many;
mod schema;
mod support;
mod sync;
