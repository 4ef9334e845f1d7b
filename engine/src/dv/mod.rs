//! Deletion vectors: the set of positions, its blob (`deletion-vector-v1`), and the Puffin files that hold many of them
//! (DV-*, PUFFIN-*). Where a vector lives stays behind [`read_dv`].

mod codec;
mod footer;
mod layout;
mod maps;
mod mask;
mod puffin;
mod read;
mod vector;

#[cfg(test)]
mod tests;

pub use codec::{MAGIC, MAX_BLOB_LEN, describe};
pub use footer::{PuffinFile, read_footer, read_footer_of};
pub use layout::{ContainerInfo, ContainerKind};
pub use puffin::{
    BlobLocation, BlobMetadata, CARDINALITY, DV_BLOB_TYPE, POS_FIELD_ID, PUFFIN_MAGIC, PuffinWriter,
    REFERENCED_DATA_FILE,
};
pub use read::{DvOptions, check_entry, check_reference, check_unique, read_dv};
pub use vector::{DeletionVector, MAX_POSITION};
