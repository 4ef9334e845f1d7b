//! `target:` of a CDC pipeline, and a Managed I/O write.

use std::collections::BTreeMap;

use super::{
    CatalogConfig, Columns, PartitionTerm, Section, SortTerm, catalog, columns, missing, names_once,
    parse_partition_term, parse_sort_term,
};
use crate::catalog::properties::check_property;
use crate::cdc::resolve::ChangeType;
use crate::{Error, Result};

/// A table name that may depend on the row: `ds.my_{col1}_{col2.nested}_table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableTemplate {
    /// As written.
    pub text: String,
    /// Its parts.
    pub parts: Vec<TemplatePart>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text.
    Text(String),
    /// Value of a column, by dotted name.
    Field(String),
}

/// How rows reach the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Every row is appended; change rows other than inserts are refused.
    Append,
    /// Changes are applied; deletes become deletion vectors (or what `sync.delete_format` says).
    MergeOnRead,
    /// Changes are applied; files that hold a changed row are rewritten (floe's).
    CopyOnWrite,
}

/// How writers spread rows over files: recorded as `write.distribution-mode` of a table that is created. floe itself always
/// writes each partition's rows to files of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// As they come.
    None,
    /// By partition.
    Hash,
}

impl Distribution {
    /// Its word in table properties.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hash => "hash",
        }
    }
}

/// A write.
#[derive(Debug, Clone)]
pub struct WriteConfig {
    /// `table`, perhaps a template.
    pub table: TableTemplate,
    /// The catalog.
    pub catalog: CatalogConfig,
    /// `mode`.
    pub mode: WriteMode,
    /// `equality_columns`; by default the target's identifier fields.
    pub equality_columns: Option<Vec<String>>,
    /// `change_type_column`: column of the rows that holds the change type.
    pub change_type_column: Option<String>,
    /// `change_type_map`: words of the rows for the four change types.
    pub change_type_map: BTreeMap<String, String>,
    /// `sequence_number_column`: orders the changes of one key.
    pub sequence_number_column: Option<String>,
    /// `upsert`: an insert replaces the row with its key.
    pub upsert: bool,
    /// `keep`, `drop` or `only`.
    pub columns: Columns,
    /// `partition_fields` of a table that is created.
    pub partition_fields: Vec<PartitionTerm>,
    /// `sort_fields`, recorded as the sort order of a table that is created.
    pub sort_fields: Vec<SortTerm>,
    /// `table_properties` of a table that is created.
    pub table_properties: BTreeMap<String, String>,
    /// `snapshot_properties`: further keys of each snapshot's summary.
    pub snapshot_properties: BTreeMap<String, String>,
    /// `distribution_mode`.
    pub distribution: Option<Distribution>,
    /// Keys given that have no effect.
    pub ignored: Vec<&'static str>,
}

impl WriteConfig {
    /// Reads and checks a write.
    pub fn from_section(mut s: Section) -> Result<Self> {
        let text = s.string("table")?.ok_or_else(|| missing("table", s.place()))?;
        let table = TableTemplate::parse(&text).map_err(|allowed| s.bad("table", &text, allowed))?;
        let catalog = catalog(&mut s)?;
        let mode = s
            .choice(
                "mode",
                &[
                    ("append", WriteMode::Append),
                    ("merge-on-read", WriteMode::MergeOnRead),
                    ("copy-on-write", WriteMode::CopyOnWrite),
                ],
            )?
            .unwrap_or(WriteMode::Append);
        if mode == WriteMode::Append {
            // options of one mode are refused in the other (BEAM-10)
            for key in ["equality_columns", "change_type_column", "change_type_map", "sequence_number_column", "upsert"]
            {
                if s.has(key) {
                    return Err(Error::invalid(format!(
                        "key `{key}` has no meaning with mode append; it needs `mode: merge-on-read` or `mode: copy-on-write`"
                    ))
                    .at(s.place()));
                }
            }
        }
        let equality_columns = s.string_list("equality_columns")?;
        if let Some(names) = &equality_columns {
            names_once(&s, "equality_columns", names)?;
        }
        let change_type_column = s.string("change_type_column")?;
        let change_type_map = change_types(&mut s)?;
        let sequence_number_column = s.string("sequence_number_column")?;
        let upsert = s.boolean("upsert")?.unwrap_or(false);
        let columns = columns(&mut s, true)?;
        let partition_fields = s
            .string_list("partition_fields")?
            .unwrap_or_default()
            .iter()
            .map(|t| parse_partition_term(t, "partition_fields").map_err(|e| e.at(s.place())))
            .collect::<Result<Vec<_>>>()?;
        let sort_fields = s
            .string_list("sort_fields")?
            .unwrap_or_default()
            .iter()
            .map(|t| parse_sort_term(t, "sort_fields").map_err(|e| e.at(s.place())))
            .collect::<Result<Vec<_>>>()?;
        let table_properties = s.string_map("table_properties")?.unwrap_or_default();
        if let Some(v) = table_properties.get("format-version").filter(|v| !["2", "3"].contains(&v.as_str())) {
            return Err(s.bad("table_properties.format-version", v, "2, 3"));
        }
        for (k, v) in &table_properties {
            check_property(k, v, &format!("table_properties.{k}")).map_err(|e| e.at(s.place()))?;
        }
        let snapshot_properties = s.string_map("snapshot_properties")?.unwrap_or_default();
        if let Some(k) = snapshot_properties.keys().find(|k| k.starts_with("floe.cdc.") || k.starts_with("beam.cdc.")) {
            return Err(s.bad(
                "snapshot_properties",
                k,
                "keys that do not start with floe.cdc. or beam.cdc., which are reserved",
            ));
        }
        let distribution =
            s.choice("distribution_mode", &[("none", Distribution::None), ("hash", Distribution::Hash)])?;
        no_effect(&mut s)?;
        s.finish()?;
        Ok(Self {
            table,
            catalog,
            mode,
            equality_columns,
            change_type_column,
            change_type_map,
            sequence_number_column,
            upsert,
            columns,
            partition_fields,
            sort_fields,
            table_properties,
            snapshot_properties,
            distribution,
            ignored: s.ignored().to_vec(),
        })
    }
}

/// Keys of the service that say how it spreads work over workers or windows: one process with one commit a snapshot has
/// neither, so they are taken, checked, and change nothing.
fn no_effect(s: &mut Section) -> Result<()> {
    s.no_effect("triggering_frequency_seconds", |s, k| s.integer(k, 1))?;
    s.no_effect("direct_write_byte_limit", |s, k| s.integer(k, 0))?;
    s.no_effect("autosharding", Section::boolean)?;
    s.no_effect("num_shards", |s, k| s.integer(k, 1))?;
    s.no_effect("shards_per_partition", |s, k| s.integer(k, 1))?;
    s.no_effect("allowed_lateness_seconds", |s, k| s.integer(k, 0))?;
    s.no_effect("sorter_memory_mb", |s, k| s.integer(k, 1))?;
    s.no_effect("sink_id", Section::string)?;
    s.no_effect("token_heartbeat_seconds", |s, k| s.integer(k, 1))?;
    s.no_effect("write_properties", Section::string_map)?;
    s.no_effect("error_handling", Section::string_map)?;
    s.no_effect("use_side_input_table_cache", Section::boolean)?;
    s.no_effect("table_cache_refresh_interval_seconds", |s, k| s.integer(k, 1))?;
    s.no_effect("maximum_table_cache_size", |s, k| s.integer(k, 1))?;
    s.no_effect("table_cache_polling_buckets", |s, k| s.integer(k, 1))
}

fn change_types(s: &mut Section) -> Result<BTreeMap<String, String>> {
    let map = s.string_map("change_type_map")?.unwrap_or_default();
    let allowed = format!("values {}", ChangeType::WORDS.join(", "));
    map.into_iter()
        .map(|(k, v)| match ChangeType::WORDS.iter().find(|t| t.eq_ignore_ascii_case(&v)) {
            Some(t) => Ok((k, (*t).to_string())),
            None => Err(s.bad(&format!("change_type_map.{k}"), &v, &allowed)),
        })
        .collect()
}

impl TableTemplate {
    /// Parses a template; the error says what is allowed.
    pub fn parse(text: &str) -> std::result::Result<Self, &'static str> {
        const ALLOWED: &str = "NAMESPACE.TABLE, where {column} or {column.field} stands for a value of the row";
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(i) = rest.find(['{', '}']) {
            if rest.as_bytes()[i] == b'}' {
                return Err(ALLOWED);
            }
            if i > 0 {
                parts.push(TemplatePart::Text(rest[..i].to_string()));
            }
            let end = rest[i..].find('}').ok_or(ALLOWED)? + i;
            let field = &rest[i + 1..end];
            if field.is_empty() || field.split('.').any(|p| p.trim().is_empty()) || field.contains('{') {
                return Err(ALLOWED);
            }
            parts.push(TemplatePart::Field(field.to_string()));
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_string()));
        }
        // the dot between namespace and table must be text, or a value could choose the namespace unseen
        let plain: String =
            parts.iter().map(|p| if let TemplatePart::Text(t) = p { t.as_str() } else { "x" }).collect();
        if plain.split('.').count() < 2 || plain.split('.').any(|p| p.trim().is_empty()) {
            return Err(ALLOWED);
        }
        Ok(Self { text: text.to_string(), parts })
    }

    /// The namespace, when it depends on no row.
    pub fn fixed_namespace(&self) -> Option<String> {
        let mut text = String::new();
        for p in &self.parts {
            match p {
                TemplatePart::Text(t) => text.push_str(t),
                // dots inside the braces are no dots of the name
                TemplatePart::Field(_) => text.push('{'),
            }
        }
        text.rsplit_once('.').map(|(ns, _)| ns.to_string()).filter(|ns| !ns.contains('{'))
    }

    /// The name, when it depends on no row.
    pub fn fixed(&self) -> Option<&str> {
        self.parts.iter().all(|p| matches!(p, TemplatePart::Text(_))).then_some(self.text.as_str())
    }
}
