//! A loaded table: its identity, one version of its metadata, and how to reach its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::TableIdent;
use iceberg::spec::{SnapshotRef, SnapshotReference, TableMetadata};

use crate::catalog::Catalog;
use crate::io::FileIo;
use crate::types::ExtTypes;
use crate::{Error, Result};

/// Table metadata as floe holds it: the `iceberg` model plus the types that model has no place for.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The model of the `iceberg` crate; columns of extended types stand in it as surrogates (see [`crate::types`]).
    pub inner: TableMetadata,
    /// True types of the surrogate columns, by field id.
    pub ext: ExtTypes,
}

impl Metadata {
    /// Branches and tags by name. The `iceberg` model keeps them private, so they are read from its JSON.
    pub fn refs(&self) -> Result<BTreeMap<String, SnapshotReference>> {
        let json = serde_json::to_value(&self.inner).map_err(|e| Error::internal(format!("metadata as JSON: {e}")))?;
        match json.get("refs") {
            Some(refs) => serde_json::from_value(refs.clone()).map_err(|e| Error::internal(format!("refs: {e}"))),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Whether rows of a spec are in no partition: it has no field, or only `void` ones. An equality delete of such a spec
    /// is global (SCAN-4).
    pub fn is_unpartitioned(&self, spec_id: i32) -> bool {
        self.inner.partition_spec_by_id(spec_id).is_some_and(|s| s.is_unpartitioned())
    }

    /// Parses table metadata, gzip or plain; see [`crate::types::metadata_from_json`].
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        crate::types::metadata_from_json(bytes)
    }

    /// Writes table metadata as plain JSON; see [`crate::types::metadata_to_json`].
    pub fn to_json(&self) -> Result<Vec<u8>> {
        crate::types::metadata_to_json(self)
    }
}

impl std::ops::Deref for Metadata {
    type Target = TableMetadata;

    fn deref(&self) -> &TableMetadata {
        &self.inner
    }
}

/// One version of a table. Cheap to clone; never changes: a commit gives a new `Table`.
#[derive(Debug, Clone)]
pub struct Table {
    ident: TableIdent,
    metadata_location: Arc<str>,
    metadata: Arc<Metadata>,
    io: FileIo,
    catalog: Arc<dyn Catalog>,
}

impl Table {
    /// Assembles a table; catalogs do this.
    pub fn new(
        ident: TableIdent,
        metadata_location: impl Into<Arc<str>>,
        metadata: Arc<Metadata>,
        io: FileIo,
        catalog: Arc<dyn Catalog>,
    ) -> Self {
        Self { ident, metadata_location: metadata_location.into(), metadata, io, catalog }
    }

    /// Namespace and name.
    pub fn ident(&self) -> &TableIdent {
        &self.ident
    }

    /// Where this version's metadata JSON lies.
    pub fn metadata_location(&self) -> &str {
        &self.metadata_location
    }

    /// This version's metadata.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// Reads and writes this table's files.
    pub fn io(&self) -> &FileIo {
        &self.io
    }

    /// The catalog it came from.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.catalog
    }

    /// The newest version, from the catalog.
    pub async fn refresh(&self) -> Result<Table> {
        let fresh = self.catalog.clone().load_table(&self.ident).await?;
        if fresh.metadata.uuid() != self.metadata.uuid() {
            return Err(Error::conflict(format!(
                "table was replaced: its UUID was {} and is now {}",
                self.metadata.uuid(),
                fresh.metadata.uuid()
            ))
            .at(&self.ident)
            .clause("META-F02"));
        }
        Ok(fresh)
    }

    /// Head snapshot of a branch or the snapshot of a tag; `None` when the ref does not exist or `main` is empty.
    pub fn snapshot_of_ref(&self, name: &str) -> Option<&SnapshotRef> {
        self.metadata.inner.snapshot_for_ref(name)
    }

    /// A table property, with the given default (PROP-*).
    pub fn property<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.metadata.properties().get(key).map_or(default, String::as_str)
    }

    /// Folder of new data files: `write.data.path`, else `data/` below the location (LOC-*).
    pub fn data_location(&self) -> String {
        match self.metadata.properties().get("write.data.path") {
            Some(p) => p.trim_end_matches('/').to_string(),
            None => format!("{}/data", self.metadata.location().trim_end_matches('/')),
        }
    }

    /// Folder of new metadata files: `write.metadata.path`, else `metadata/` below the location.
    pub fn metadata_folder(&self) -> String {
        match self.metadata.properties().get("write.metadata.path") {
            Some(p) => p.trim_end_matches('/').to_string(),
            None => format!("{}/metadata", self.metadata.location().trim_end_matches('/')),
        }
    }
}
