//! Rewriting of manifests (OP-4).

use std::collections::HashSet;

use crate::commit::{Change, Producer, commit};
use crate::manifest::load_manifest_list;
use crate::{Result, Table};

/// What [`rewrite_manifests`] did.
#[derive(Debug, Clone)]
pub struct ManifestRewrite {
    /// The table after it.
    pub table: Table,
    /// Manifests that are replaced.
    pub rewritten: i64,
    /// Manifests that replace them.
    pub added: i64,
}

/// Packs the live entries of small manifests, per spec and content, into manifests of
/// `commit.manifest.target-size-bytes`. Sequence numbers and row ids stay (SEQ-*, FRID-11). Nothing is committed when
/// nothing can be merged.
pub async fn rewrite_manifests(table: &Table) -> Result<ManifestRewrite> {
    let table = table.refresh().await?;
    let Some(before) = table.metadata().current_snapshot_id() else {
        return Ok(ManifestRewrite { table, rewritten: 0, added: 0 });
    };
    let done = commit(&table, Change::new(Producer::RewriteManifests)).await?;
    let (id, done) = (done.snapshot_id, done.table);
    // when nothing could be merged the commit gives back the head, which may be a concurrent writer's
    let head = done
        .metadata()
        .snapshot_by_id(id)
        .filter(|s| id != before && s.summary().additional_properties.contains_key("entries-processed"));
    let Some(head) = head else {
        return Ok(ManifestRewrite { table: done, rewritten: 0, added: 0 });
    };
    let parent = head.parent_snapshot_id().and_then(|id| done.metadata().snapshot_by_id(id));
    let paths = |list: Vec<iceberg::spec::ManifestFile>| -> HashSet<String> {
        list.into_iter().filter(|m| m.has_added_files() || m.has_existing_files()).map(|m| m.manifest_path).collect()
    };
    let old = match parent {
        Some(p) => paths(load_manifest_list(done.io(), p).await?),
        None => HashSet::new(),
    };
    let new = paths(load_manifest_list(done.io(), head).await?);
    Ok(ManifestRewrite {
        rewritten: old.difference(&new).count() as i64,
        added: new.difference(&old).count() as i64,
        table: done,
    })
}
