//! The whole engine under a model: random histories against a plain map of rows, and a fault at every call of the store.
//! Everything is judged by the auditor, which shares nothing with the engine. `docs/formal.md` says what each proves.

mod concurrent;
mod faults;
#[path = "../../../engine/tests/formal/figures.rs"]
mod figures;
mod lake;
mod random;
#[path = "../../../engine/tests/formal/store.rs"]
#[allow(dead_code)]
mod store;
