//! Commits of metadata alone.

use iceberg::TableRequirement;
use iceberg::spec::TableMetadataBuilder;

use crate::catalog::TableCommit;
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Result, Table};

/// Applies `change` to the newest version of a table and commits it. A change that changes nothing commits nothing.
pub(super) async fn update(
    table: &Table,
    change: impl FnOnce(&Metadata, TableMetadataBuilder, &mut ExtTypes) -> Result<TableMetadataBuilder>,
) -> Result<Table> {
    let base = table.refresh().await?;
    let old = base.metadata().clone();
    let mut ext = old.ext.clone();
    let builder = old
        .inner
        .clone()
        .into_builder(Some(base.metadata_location().to_string()));
    let built = change(&old, builder, &mut ext)?.build()?;
    if built.changes.is_empty() && ext == old.ext {
        return Ok(base);
    }
    let commit = TableCommit {
        metadata: Metadata {
            inner: built.metadata,
            ext,
        },
        updates: built.changes,
        requirements: vec![TableRequirement::UuidMatch { uuid: old.uuid() }],
        base: base.clone(),
    };
    base.catalog().clone().commit_table(commit).await
}
