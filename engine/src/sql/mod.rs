//! Spark-flavoured SQL over DataFusion: parser, session, DDL, functions, metadata tables, procedures.

mod alter;
pub mod ast;
pub mod bind;
mod commit;
mod ddl;
pub mod dialect;
mod dml;
mod evolve;
mod floats;
pub mod functions;
pub mod metadata_tables;
pub mod parser;
pub mod planner;
pub(crate) mod procedures;
mod range;
mod rewrite;
mod schema;
pub mod session;
mod show;
pub mod split;
mod values;

#[cfg(test)]
mod tests;

pub use ast::Statement;
pub use session::{Session, StatementResult, Version, View, in_statement};
