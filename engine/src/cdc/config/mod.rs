//! Configuration of the CDC pipeline and of Managed I/O, from YAML or JSON: the service's keys under `source:` and
//! `target:`, floe's own under `sync:`. Everything is checked before any work: an unknown key, two keys that exclude each
//! other, or a bad value is an error that names the key and what is allowed (BEAM-1..4, BEAM-10).

mod read;
mod section;
mod sync;
mod terms;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

pub use read::{CdcReadConfig, RangeStart, ReadConfig};
pub use section::Section;
pub use sync::{DeleteFormat, SchemaEvolution, SyncConfig};
pub use terms::{Direction, PartitionTerm, SortTerm, parse_partition_term, parse_sort_term};
pub use write::{Distribution, TableTemplate, TemplatePart, WriteConfig, WriteMode};

use crate::{Error, Result};

/// Where a table is: how to reach the catalog, and the table's name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogConfig {
    /// `catalog_name`; messages call the catalog by it.
    pub name: String,
    /// `catalog_properties`: `type`, `warehouse`, `uri`, and what the catalog's kind and store understand.
    pub properties: BTreeMap<String, String>,
    /// `config_properties`: Hadoop configuration. Kept for the store (`fs.*`); floe's own stores do not read it.
    pub config_properties: BTreeMap<String, String>,
}

/// Which columns a row keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Columns {
    /// All.
    #[default]
    All,
    /// These, by dotted name.
    Keep(Vec<String>),
    /// All but these, by dotted name.
    Drop(Vec<String>),
    /// Only the fields of this struct column (Managed I/O writes).
    Only(String),
}

/// A whole CDC pipeline.
#[derive(Debug, Clone)]
pub struct PipelineConfig {
    /// `source:`.
    pub source: CdcReadConfig,
    /// `target:`; absent in a configuration that only reads.
    pub target: Option<WriteConfig>,
    /// `sync:`.
    pub sync: SyncConfig,
}

impl PipelineConfig {
    /// Reads and checks a configuration with the maps `source`, `target` and `sync`. `name` is what messages call it.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let mut root = Section::parse(text, name)?;
        let source = root.map("source")?.ok_or_else(|| missing("source", name))?;
        let target = root.map("target")?;
        let sync = root.map("sync")?;
        root.finish()?;
        let source = CdcReadConfig::from_section(source)?;
        let target = target.map(WriteConfig::from_section).transpose()?;
        let mut sync = SyncConfig::from_section(sync.unwrap_or_else(|| Section::empty("sync")))?;
        if let Some(t) = &target {
            together(&source, t, &mut sync)?;
        }
        Ok(Self { source, target, sync })
    }
}

/// What keys of different sections say together.
fn together(source: &CdcReadConfig, target: &WriteConfig, sync: &mut SyncConfig) -> Result<()> {
    let bad = |m: String| Err(Error::invalid(m).at("sync"));
    if sync.stop_at_snapshot.is_some() && (source.to_snapshot.is_some() || source.to_timestamp.is_some()) {
        return bad(
            "key `stop_at_snapshot` and an end of `source` exclude each other; at most one of `stop_at_snapshot`, \
                    `to_snapshot`, `end_snapshot_id`, `to_timestamp` is allowed"
                .into(),
        );
    }
    if sync.delete_format == DeleteFormat::Equality && target.mode != WriteMode::MergeOnRead {
        return bad("key `delete_format` is \"equality\", which needs `target.mode: merge-on-read`".into());
    }
    if sync.delete_format == DeleteFormat::Equality && !target.partition_fields.is_empty() {
        return bad(
            "key `delete_format` is \"equality\", which `partition_fields` excludes: equality deletes reach one \
                    partition each; allowed: positions"
                .into(),
        );
    }
    match target.table.fixed() {
        Some(_) if sync.ledger.is_some() => {
            bad("key `ledger` has no meaning with one target table; it needs a template in `target.table`".into())
        }
        Some(_) => Ok(()),
        None => {
            sync.ledger = match (sync.ledger.take(), target.table.fixed_namespace()) {
                (Some(l), _) => Some(l),
                (None, Some(ns)) => Some(format!("{ns}.floe_sync")),
                (None, None) => {
                    return bad(
                        "key `ledger` is required when the namespace of `target.table` depends on the row; allowed: \
                                NAMESPACE.TABLE"
                            .into(),
                    );
                }
            };
            Ok(())
        }
    }
}

/// Reads and checks the configuration of `floe io read`: the keys of a Managed read at the top, or under `source`.
pub fn parse_managed_read(text: &str, name: &str) -> Result<ReadConfig> {
    ReadConfig::from_section(unwrap_single(Section::parse(text, name)?, "source")?)
}

/// Reads and checks the configuration of `floe io write`: the keys of a Managed write at the top, or under `target`.
pub fn parse_managed_write(text: &str, name: &str) -> Result<WriteConfig> {
    WriteConfig::from_section(unwrap_single(Section::parse(text, name)?, "target")?)
}

fn unwrap_single(mut root: Section, key: &str) -> Result<Section> {
    if root.has("table") || !root.has(key) {
        return Ok(root);
    }
    let inner = root.map(key)?;
    root.finish()?;
    inner.ok_or_else(|| missing(key, root.place()))
}

fn missing(key: &str, place: &str) -> Error {
    Error::invalid(format!("key `{key}` is required")).at(place)
}

/// The catalog keys of a section.
fn catalog(s: &mut Section) -> Result<CatalogConfig> {
    let name = s.string("catalog_name")?.unwrap_or_else(|| "default".into());
    let properties = s.string_map("catalog_properties")?.unwrap_or_default();
    check_catalog(s, &properties)?;
    let config_properties = s.string_map("config_properties")?.unwrap_or_default();
    Ok(CatalogConfig { name, properties, config_properties })
}

/// Kinds of catalog, and the property that says where each is.
const CATALOGS: [(&str, &str); 5] =
    [("hadoop", "warehouse"), ("hive", "uri"), ("rest", "uri"), ("sql", "uri"), ("jdbc", "uri")];

/// `type` and the property that goes with it; without properties `catalog_name` is a catalog of `floe.toml`.
fn check_catalog(s: &Section, properties: &BTreeMap<String, String>) -> Result<()> {
    if properties.is_empty() {
        return Ok(());
    }
    let allowed = CATALOGS.map(|(t, k)| format!("{t} (with `{k}`)")).join(", ");
    let Some(kind) = properties.get("type") else {
        return Err(
            Error::invalid(format!("key `catalog_properties.type` is required; allowed: {allowed}")).at(s.place())
        );
    };
    let Some((_, key)) = CATALOGS.iter().find(|(t, _)| t.eq_ignore_ascii_case(kind)) else {
        return Err(s.bad("catalog_properties.type", kind, &allowed));
    };
    if properties.get(*key).is_none_or(|v| v.trim().is_empty()) {
        return Err(Error::invalid(format!("key `catalog_properties.{key}` is required for a catalog of type {kind}"))
            .at(s.place()));
    }
    Ok(())
}

/// A table's name: `namespace.table`, at least two parts.
fn table_name(s: &mut Section, key: &str) -> Result<String> {
    let name = s.string(key)?.ok_or_else(|| missing(key, s.place()))?;
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() < 2 || parts.iter().any(|p| p.trim().is_empty()) {
        return Err(s.bad(key, &name, "NAMESPACE.TABLE"));
    }
    Ok(name)
}

/// A list of columns names at least one, and each once.
fn names_once(s: &Section, key: &str, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Err(s.bad(key, "[]", "a list of at least one column name"));
    }
    let mut seen = std::collections::HashSet::new();
    match names.iter().find(|n| !seen.insert(n.as_str())) {
        Some(twice) => Err(s.bad(key, twice, "each column name once")),
        None => Ok(()),
    }
}

/// `keep`, `drop` and where allowed `only`: at most one of them.
fn columns(s: &mut Section, with_only: bool) -> Result<Columns> {
    let names: &[&str] = if with_only { &["keep", "drop", "only"] } else { &["keep", "drop"] };
    s.at_most_one(names)?;
    let list = |key: &str, s: &mut Section| -> Result<Option<Vec<String>>> {
        let Some(names) = s.string_list(key)? else {
            return Ok(None);
        };
        names_once(s, key, &names)?;
        Ok(Some(names))
    };
    if let Some(k) = list("keep", s)? {
        return Ok(Columns::Keep(k));
    }
    if let Some(d) = list("drop", s)? {
        return Ok(Columns::Drop(d));
    }
    if with_only && let Some(o) = s.string("only")? {
        return Ok(Columns::Only(o));
    }
    Ok(Columns::All)
}
