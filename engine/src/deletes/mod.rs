//! Which deletes apply to which data file (SCAN-*), and how they are read.

mod equality;
mod index;
mod load;

#[cfg(test)]
mod tests;

pub use equality::EqualityDeletes;
pub use index::{DeleteIndex, Deletes, Vectors};
pub use load::{DeleteLoader, file_scope, read_position_deletes};
