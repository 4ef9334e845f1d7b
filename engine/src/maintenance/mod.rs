//! Maintenance: operations that change how a table is stored and never what a reader sees (OP-4, OP-12), and the removal
//! of what nothing refers to.
//!
//! Each takes a [`crate::Table`], reads its current version, and either commits or fails without a trace. A commit that
//! meets a concurrent change of the same rows ends with [`crate::ErrorKind::Conflict`] (CONC-25).

mod dangling;
mod data;
mod equality;
mod expire;
mod manifests;
mod options;
mod orphans;
mod positions;
mod reach;
mod select;

pub use data::{DataRewrite, DataRewriteOptions, rewrite_data_files};
pub use equality::{EqualityConversion, convert_equality_deletes};
pub use expire::{ExpireOptions, Expired, expire_snapshots};
pub use manifests::{ManifestRewrite, rewrite_manifests};
pub use options::SizeOptions;
pub use orphans::{Location, OrphanOptions, remove_orphan_files, require_interval};
pub use positions::{PositionRewrite, PositionRewriteOptions, rewrite_position_delete_files};
pub use reach::{Reachable, reachable};

use std::collections::BTreeSet;

use futures::StreamExt;

use crate::manifest::DataFile;
use crate::{Error, Result, Table};

/// Files deleted at the same time.
const PARALLEL_DELETES: usize = 16;

/// Refuses to delete files of a table whose `gc.enabled` is false: others may use them (PROP-29).
fn require_gc(table: &Table, what: &str) -> Result<()> {
    match table.property("gc.enabled", "true").to_ascii_lowercase().as_str() {
        "true" => Ok(()),
        "false" => {
            Err(Error::invalid(format!("Cannot {what}: GC is disabled (deleting files may corrupt other tables)"))
                .at(table.ident())
                .clause("PROP-29"))
        }
        other => Err(Error::invalid(format!("gc.enabled is {other:?}; allowed: true, false"))
            .at(table.ident())
            .clause("PROP-29")),
    }
}

/// Deletes files, a few at a time; gives back those that are gone. What cannot be deleted is an orphan, not an error.
async fn delete_files(table: &Table, files: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    futures::stream::iter(files)
        .map(|f| async move {
            match table.io().delete(&f).await {
                Ok(()) => Some(f),
                Err(e) => {
                    tracing::warn!("could not delete {f}, which nothing refers to: {e}");
                    None
                }
            }
        })
        .buffer_unordered(PARALLEL_DELETES)
        .filter_map(|f| async move { f })
        .collect()
        .await
}

/// Deletes the files of an operation that failed before its commit.
async fn discard(table: &Table, files: &[DataFile]) {
    let paths: BTreeSet<String> = files.iter().map(|f| f.path.to_string()).collect();
    delete_files(table, paths).await;
}
