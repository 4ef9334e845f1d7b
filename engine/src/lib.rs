//! floe-engine: the half of Apache Iceberg V3 that the `iceberg` crate lacks — deletion vectors, row-level
//! operations with two strategies, row lineage, row-delta commits, changelog reads and CDC sync — on its types.
//!
//! Format rules are cited by clause id (`DV-21`, `FRID-7`); the clauses are listed in the project's specification digest.

pub mod catalog;
pub mod cdc;
pub mod commit;
pub mod deletes;
pub mod dv;
pub mod error;
pub mod expr;
pub mod io;
pub mod maintenance;
pub mod manifest;
pub mod rowlevel;
pub mod scan;
pub mod sql;
pub mod table;
pub mod types;
pub mod write;

pub use error::{Error, ErrorKind, Result};
pub use table::Table;
