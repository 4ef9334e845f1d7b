//! Changes of metadata alone: properties, schemas, specs, refs, upgrades.

use iceberg::TableRequirement;
use iceberg::spec::TableMetadataBuilder;

use super::run::{Retry, submit};
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result, Table};

/// Applies `change` to the newest metadata and commits it, again after a lost race.
///
/// `requirements` must hold on every version the change is applied to, else the commit ends with
/// [`ErrorKind::Conflict`]; that the table is still the same one is always required. A change that changes nothing
/// commits nothing. Errors of `change` come back as they are; a downgrade is refused as Java words it.
pub async fn update_metadata(
    table: &Table,
    mut change: impl FnMut(TableMetadataBuilder) -> Result<TableMetadataBuilder>,
    requirements: Vec<TableRequirement>,
) -> Result<Table> {
    update_metadata_and_types(table, |builder, _| change(builder), requirements).await
}

/// Like [`update_metadata`], for changes that also add or drop columns of extended types.
pub async fn update_metadata_and_types(
    table: &Table,
    mut change: impl FnMut(TableMetadataBuilder, &mut ExtTypes) -> Result<TableMetadataBuilder>,
    requirements: Vec<TableRequirement>,
) -> Result<Table> {
    update_metadata_seeing(table, |_, builder, ext| change(builder, ext), requirements).await
}

/// Like [`update_metadata_and_types`], for changes that depend on the version they are applied to.
pub async fn update_metadata_seeing(
    table: &Table,
    mut change: impl FnMut(&Metadata, TableMetadataBuilder, &mut ExtTypes) -> Result<TableMetadataBuilder>,
    requirements: Vec<TableRequirement>,
) -> Result<Table> {
    let mut retry = Retry::of(table)?;
    loop {
        let base = table.refresh().await?;
        let old = base.metadata();
        for r in &requirements {
            r.check(Some(&old.inner))
                .map_err(|e| Error::conflict(e.message().to_string()).at(base.ident()).clause("REST-50"))?;
        }
        let mut ext = old.ext.clone();
        let builder = old.inner.clone().into_builder(Some(base.metadata_location().to_string()));
        let built = change(old, builder, &mut ext).map_err(downgrade)?.build()?;
        if built.changes.is_empty() && ext == old.ext {
            return Ok(base);
        }
        let mut all = vec![TableRequirement::UuidMatch { uuid: old.uuid() }];
        all.extend(requirements.iter().cloned());
        match submit(&base, Metadata { inner: built.metadata, ext }, built.changes, all).await {
            Err(e) if e.kind() == ErrorKind::CommitFailed && retry.again().await => {}
            done => return done,
        }
    }
}

/// The model's words for a downgrade, in Java's.
fn downgrade(e: Error) -> Error {
    let versions = e.message().strip_prefix("Cannot downgrade FormatVersion from ").and_then(|m| m.split_once(" to "));
    match versions {
        Some((from, to)) => {
            Error::invalid(format!("Cannot downgrade {from} table to {to}")).at("format-version").clause("META-8")
        }
        None => e,
    }
}
