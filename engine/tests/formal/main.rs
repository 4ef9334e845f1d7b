//! Formal tests of the engine: exhaustive exploration of concurrent commits, faults of the store, laws of the codecs,
//! and hostile bytes. `docs/formal.md` says what each proves.

mod check;
mod codec;
mod figures;
mod files;
mod hostile;
mod model;
mod mutations;
mod ops;
mod oracle;
#[allow(dead_code)]
mod store;
mod targets;
mod view;
mod world;
