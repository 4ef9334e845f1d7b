//! Files below a table's location that nothing in the table refers to.

use std::collections::{BTreeMap, BTreeSet};

use super::reach::reachable;
use super::{delete_files, require_gc};
use crate::{Error, Result, Table};

const DAY_MS: i64 = 86_400_000;
/// How old an orphan is by default.
const DEFAULT_AGE_MS: i64 = 3 * DAY_MS;

/// A location taken apart so that two spellings of one file compare equal: `file:/p`, `file:///p` and `/p`; `s3a`, `s3n` and `s3`;
/// repeated slashes (LOC-*). Ordered by path first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    path: String,
    scheme: String,
    authority: String,
}

impl Location {
    /// Takes a location apart.
    pub fn of(location: &str) -> Self {
        let (scheme, rest) = match location.split_once(':') {
            Some((s, rest)) if !location.starts_with('/') && !s.is_empty() && !s.contains('/') => (s, rest),
            _ => ("file", location),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(r) => r.split_at(r.find('/').unwrap_or(r.len())),
            None => ("", rest),
        };
        let mut collapsed = String::with_capacity(path.len());
        for c in path.chars() {
            if c != '/' || !collapsed.ends_with('/') {
                collapsed.push(c);
            }
        }
        let scheme = match scheme {
            "s3a" | "s3n" => "s3",
            s => s,
        };
        let local = scheme == "file" || scheme == "memory";
        Self {
            path: collapsed,
            scheme: scheme.to_string(),
            authority: if local { String::new() } else { authority.to_string() },
        }
    }
}

/// Options of [`remove_orphan_files`].
#[derive(Debug, Clone, Default)]
pub struct OrphanOptions {
    /// Only files modified before this go, milliseconds since the epoch; by default three days ago. A file of a commit that is
    /// under way is an orphan until it ends, so this must leave running writers their time ([`require_interval`]).
    pub older_than_ms: Option<i64>,
    /// Folder to look through instead of the table's location.
    pub location: Option<String>,
    /// List the orphans and delete nothing.
    pub dry_run: bool,
}

/// Refuses an `older_than` within the last day: files of running writers would go.
pub fn require_interval(older_than_ms: i64) -> Result<()> {
    if chrono::Utc::now().timestamp_millis().saturating_sub(older_than_ms) >= DAY_MS {
        return Ok(());
    }
    Err(Error::invalid(
        "Cannot remove orphan files with an interval less than 24 hours. Executing this procedure with a short interval may \
         corrupt the table if other operations are happening at the same time. If you are absolutely confident that no \
         concurrent operations will be affected by removing orphan files with such a short interval, you can use the Action \
         API to remove orphan files with an arbitrary interval.",
    ))
}

/// Finds, and unless it is a dry run deletes, files below the table's location that no snapshot, manifest, statistics entry
/// or metadata log names. Files and folders whose name starts with `_` or `.` are left alone, partition folders excepted.
/// Gives the locations found (dry run) or deleted, sorted.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a table whose `gc.enabled` is false, when the folder holds another table's metadata, and when a listed file and a known one have the
/// same path in different stores: which of them is meant can't be told, so nothing is deleted.
pub async fn remove_orphan_files(table: &Table, options: &OrphanOptions) -> Result<Vec<String>> {
    require_gc(table, "delete orphan files")?;
    let older_than = options.older_than_ms.unwrap_or_else(|| chrono::Utc::now().timestamp_millis() - DEFAULT_AGE_MS);
    let root = options.location.clone().unwrap_or_else(|| table.metadata().location().to_string());
    // listed before the metadata is read: a file that a commit takes in meanwhile is then known
    let listed = table.io().list(&root).await?;
    let table = table.refresh().await?;
    refuse_another_table(&table, &root, listed.iter().map(|f| f.location.as_str()))?;
    let visible = Visible::of(&table, &root);
    let candidates: BTreeMap<Location, String> = listed
        .into_iter()
        .filter(|f| f.modified_ms < older_than && visible.shows(&f.location))
        .map(|f| (Location::of(&f.location), f.location))
        .collect();
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let known = known(&table).await?;
    let by_path: BTreeMap<&str, &Location> = known.iter().map(|l| (l.path.as_str(), l)).collect();
    let mut orphans = Vec::new();
    for (key, location) in candidates {
        if known.contains(&key) {
            continue;
        }
        if let Some(twin) = by_path.get(key.path.as_str()) {
            return Err(Error::invalid(format!(
                "Unable to determine whether {location} is an orphan: the table has a file of that path in another store, \
                 {}://{}",
                twin.scheme, twin.authority
            ))
            .at(table.ident()));
        }
        orphans.push(location);
    }
    if options.dry_run {
        return Ok(orphans);
    }
    Ok(delete_files(&table, orphans).await.into_iter().collect())
}

/// A folder with the metadata of another table is none of this table's: its files would all seem to be orphans.
fn refuse_another_table<'a>(table: &Table, root: &str, listed: impl Iterator<Item = &'a str>) -> Result<()> {
    let own = format!("{}/metadata/", Location::of(table.metadata().location()).path.trim_end_matches('/'));
    for location in listed.filter(|l| l.ends_with(".metadata.json")) {
        let path = Location::of(location).path;
        if path.contains("/metadata/") && !path.starts_with(&own) {
            return Err(Error::invalid(format!(
                "{root} holds another table, whose metadata is {location}: its files are no orphans of this one; name a folder \
                 that is this table's alone"
            ))
            .at(table.ident()));
        }
    }
    Ok(())
}

/// Everything the table refers to.
async fn known(table: &Table) -> Result<BTreeSet<Location>> {
    let m = table.metadata();
    let reached = reachable(table, m.snapshots(), |_| false).await?;
    let mut out: BTreeSet<Location> = BTreeSet::new();
    out.extend(reached.manifest_lists.into_keys());
    out.extend(reached.manifests.into_keys());
    out.extend(reached.content.into_keys());
    let mut add = |l: &str| out.insert(Location::of(l));
    add(table.metadata_location());
    m.metadata_log().iter().for_each(|l| {
        add(&l.metadata_file);
    });
    m.statistics_iter().for_each(|s| {
        add(&s.statistics_path);
    });
    m.partition_statistics_iter().for_each(|s| {
        add(&s.statistics_path);
    });
    add(&format!("{}/version-hint.text", table.metadata_folder()));
    add(&format!("{}/metadata/version-hint.text", m.location()));
    Ok(out)
}

/// Which files a listing shows.
struct Visible {
    root: String,
    partition_fields: Vec<String>,
}

impl Visible {
    fn of(table: &Table, root: &str) -> Self {
        let specs = table.metadata().partition_specs_iter();
        let partition_fields = specs.flat_map(|s| s.fields()).map(|f| format!("{}=", f.name)).collect();
        Self { root: Location::of(root).path.trim_end_matches('/').to_string(), partition_fields }
    }

    fn shows(&self, location: &str) -> bool {
        let path = Location::of(location).path;
        let inside = path.strip_prefix(&self.root).unwrap_or(&path);
        inside.split('/').all(|part| {
            !part.starts_with(['_', '.']) || self.partition_fields.iter().any(|p| part.starts_with(p.as_str()))
        })
    }
}
