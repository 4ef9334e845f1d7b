//! Commits of metadata alone, whose change looks at the version it is applied to.

use std::time::Duration;

use iceberg::TableRequirement;
use iceberg::spec::TableMetadataBuilder;

use crate::catalog::TableCommit;
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{ErrorKind, Result, Table};

/// Attempts after a lost race.
const RETRIES: u32 = 4;

/// Applies `change` to the newest version of a table and commits it, again after a lost race. A change that changes
/// nothing commits nothing.
pub(super) async fn update(
    table: &Table,
    mut change: impl FnMut(&Metadata, TableMetadataBuilder, &mut ExtTypes) -> Result<TableMetadataBuilder>,
) -> Result<Table> {
    let mut attempt = 0;
    loop {
        let base = table.refresh().await?;
        let old = base.metadata().clone();
        let mut ext = old.ext.clone();
        let builder = old.inner.clone().into_builder(Some(base.metadata_location().to_string()));
        let built = change(&old, builder, &mut ext)?.build()?;
        if built.changes.is_empty() && ext == old.ext {
            return Ok(base);
        }
        let commit = TableCommit {
            metadata: Metadata { inner: built.metadata, ext },
            updates: built.changes,
            requirements: vec![TableRequirement::UuidMatch { uuid: old.uuid() }],
            base: base.clone(),
        };
        match base.catalog().clone().commit_table(commit).await {
            Err(e) if e.kind() == ErrorKind::CommitFailed && attempt < RETRIES => {
                tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
                attempt += 1;
            }
            done => return done,
        }
    }
}
