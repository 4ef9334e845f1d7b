//! Changelog and sync beside what other engines have for them: Spark's changelog view and MERGE on the same copy-on-write
//! history, and a diff of whole tables by DuckDB. All take turns within a round; an answer is compared with a model of the
//! changes, and every copy with a model of the rows, before a time counts.

mod model;
mod peers;
mod run;
mod targets;

#[cfg(test)]
mod tests;

pub use run::run;
pub use targets::text as targets;
