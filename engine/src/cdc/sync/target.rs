//! The target table: made when it is missing, compared with the source's schema when it is there.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{FormatVersion, NestedFieldRef, Schema, SortField, SortOrder, Type, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableIdent};

use crate::catalog::{Catalog, NewTable};
use crate::cdc::columns;
use crate::cdc::config::{PartitionTerm, WriteConfig, WriteMode};
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result, Table};

/// Loads the target, or makes it (and its namespace) for rows with `fields`. `equality` = the key columns; they become the
/// identifier fields where the format allows it (IDF-*).
pub async fn load_or_create(
    catalog: &Arc<dyn Catalog>,
    ident: &TableIdent,
    config: &WriteConfig,
    fields: &[NestedFieldRef],
    ext: &ExtTypes,
) -> Result<Table> {
    load_or_make(catalog, ident, || {
        if config.mode != WriteMode::Append && config.equality_columns.is_none() {
            return Err(Error::invalid(format!(
                "key `equality_columns` is required: the target {ident} does not exist and has no identifier fields to take"
            ))
            .at("target"));
        }
        describe(ident, config, fields, ext)
    })
    .await
}

/// Loads a table, or makes it and its namespace as `describe` says.
pub(super) async fn load_or_make(
    catalog: &Arc<dyn Catalog>,
    ident: &TableIdent,
    describe: impl FnOnce() -> Result<NewTable>,
) -> Result<Table> {
    match catalog.clone().load_table(ident).await {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        found => return found,
    }
    let table = describe()?;
    create_namespace(catalog, ident.namespace()).await?;
    match catalog.clone().create_table(table).await {
        // somebody else was faster; theirs is as good
        Err(e) if e.kind() == ErrorKind::AlreadyExists => catalog.clone().load_table(ident).await,
        done => done,
    }
}

/// Makes a namespace and its parents where they are missing.
async fn create_namespace(catalog: &Arc<dyn Catalog>, ns: &NamespaceIdent) -> Result<()> {
    for n in 1..=ns.len() {
        let part = NamespaceIdent::from_vec(ns.iter().take(n).cloned().collect())?;
        if catalog.namespace_exists(&part).await? {
            continue;
        }
        match catalog.create_namespace(&part, HashMap::new()).await {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    Ok(())
}

/// The table that a configuration describes.
fn describe(ident: &TableIdent, config: &WriteConfig, fields: &[NestedFieldRef], ext: &ExtTypes) -> Result<NewTable> {
    let plain = Schema::builder().with_fields(fields.to_vec()).build()?;
    let mut ids = Vec::new();
    for name in config.equality_columns.iter().flatten() {
        let f = fields
            .iter()
            .find(|f| f.name == *name)
            .ok_or_else(|| columns::unknown(name, &plain).at("equality_columns"))?;
        ids.push(f);
    }
    let allowed = |f: &&NestedFieldRef| {
        use iceberg::spec::PrimitiveType::{Double, Float};
        f.required
            && ext.of(f).is_none()
            && matches!(f.field_type.as_ref(), Type::Primitive(p) if !matches!(p, Float | Double))
    };
    let schema = if !ids.is_empty() && ids.iter().all(allowed) {
        Schema::builder().with_fields(fields.to_vec()).with_identifier_field_ids(ids.iter().map(|f| f.id)).build()?
    } else {
        plain
    };
    let source = |t: &PartitionTerm, key: &str| -> Result<i32> {
        schema.field_id_by_name(&t.column).ok_or_else(|| columns::unknown(&t.column, &schema).at(key.to_string()))
    };
    let partition_spec = if config.partition_fields.is_empty() {
        None
    } else {
        let mut spec = UnboundPartitionSpec::builder();
        for t in &config.partition_fields {
            spec = spec.add_partition_field(source(t, "partition_fields")?, t.field_name(), t.transform)?;
        }
        Some(spec.build())
    };
    let sort_order = if config.sort_fields.is_empty() {
        None
    } else {
        let mut order = SortOrder::builder();
        order.with_order_id(1);
        for t in &config.sort_fields {
            order.with_sort_field(
                SortField::builder()
                    .source_id(source(&t.term, "sort_fields")?)
                    .transform(t.term.transform)
                    .direction(t.direction)
                    .null_order(t.nulls)
                    .build(),
            );
        }
        Some(order.build(&schema)?)
    };
    let mut properties: HashMap<String, String> = config.table_properties.clone().into_iter().collect();
    let format_version = match properties.remove("format-version").as_deref() {
        None | Some("3") => FormatVersion::V3,
        Some("2") => FormatVersion::V2,
        Some(other) => {
            return Err(
                Error::invalid(format!("`table_properties.format-version` is {other:?}; allowed: 2, 3")).at("target")
            );
        }
    };
    let mode = match config.mode {
        WriteMode::Append => None,
        WriteMode::MergeOnRead => Some("merge-on-read"),
        WriteMode::CopyOnWrite => Some("copy-on-write"),
    };
    for command in ["delete", "update", "merge"] {
        if let Some(mode) = mode {
            properties.entry(format!("write.{command}.mode")).or_insert_with(|| mode.into());
        }
    }
    if let Some(d) = config.distribution {
        properties.entry("write.distribution-mode".into()).or_insert_with(|| d.as_str().into());
    }
    Ok(NewTable {
        ident: ident.clone(),
        schema,
        ext: ext.clone(),
        partition_spec,
        sort_order,
        location: None,
        properties,
        format_version,
    })
}

/// The key columns: configured, else the target's identifier fields.
pub fn key_columns(target: &Table, config: &WriteConfig) -> Result<Vec<String>> {
    if config.mode == WriteMode::Append {
        return Ok(Vec::new());
    }
    if let Some(names) = &config.equality_columns {
        return Ok(names.clone());
    }
    let schema = target.metadata().current_schema();
    let mut names: Vec<String> =
        schema.identifier_field_ids().filter_map(|id| schema.name_by_field_id(id)).map(str::to_string).collect();
    names.sort();
    if names.is_empty() {
        return Err(Error::invalid("key `equality_columns` is required: the target's schema has no identifier fields")
            .at(target.ident()));
    }
    Ok(names)
}
