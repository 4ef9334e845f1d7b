//! `ALTER TABLE` and `REPLACE TABLE`: changes of metadata alone (EVO-*, META-*).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Query;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, Schema, SnapshotReference, SnapshotRetention, TableMetadataBuilder,
    UnboundPartitionField, UnboundPartitionSpec,
};

use super::ast::{AlterAction, ColumnDef, Name, SetRef, Term};
use super::ddl::format_version;
use super::evolve;
use super::planner::Planner;
use super::schema::{Ids, bind_term, new_fields, partition_name, partition_spec, sort_order};
use super::session::Session;
use super::{commit, dml};
use crate::catalog::properties::check_properties;
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result, Table};

pub(super) async fn run(session: &Session, name: &Name, action: AlterAction) -> Result<()> {
    let table = session.table(name).await?;
    if let AlterAction::RenameTable(to) = &action {
        let to = session.table_ident(to)?;
        return session.catalog().rename_table(table.ident(), &to).await;
    }
    let planner = Planner::new(session.context());
    let at = table.ident().clone();
    commit::update(&table, move |m, builder, ext| apply(m, builder, ext, &action, &planner).map_err(|e| e.at(&at)))
        .await?;
    Ok(())
}

fn apply(
    m: &Metadata,
    builder: TableMetadataBuilder,
    ext: &mut ExtTypes,
    action: &AlterAction,
    planner: &Planner,
) -> Result<TableMetadataBuilder> {
    let schema = m.current_schema();
    Ok(match action {
        AlterAction::SetProperties(list) => {
            check_properties(list)?;
            let mut properties: HashMap<String, String> = list.iter().cloned().collect();
            let mut builder = builder;
            if let Some(version) = properties.remove("format-version") {
                builder = upgrade(m, builder, format_version(&version)?)?;
            }
            if properties.is_empty() { builder } else { builder.set_properties(properties)? }
        }
        AlterAction::UnsetProperties { keys, if_exists } => {
            if let Some(missing) = keys.iter().find(|k| !m.properties().contains_key(*k) && !if_exists) {
                return Err(Error::not_found(format!(
                    "table has no property {missing:?}; UNSET TBLPROPERTIES IF EXISTS ignores that"
                )));
            }
            builder.remove_properties(keys)?
        }
        AlterAction::SetLocation(location) => builder.set_location(location.clone()),
        AlterAction::AddColumns { columns, if_not_exists } => {
            let mut ids = Ids { last: m.last_column_id(), ext: ext.clone(), old: None };
            let schema = evolve::add(m, columns, *if_not_exists, planner, &mut ids)?;
            *ext = ids.ext;
            builder.add_current_schema(schema)?
        }
        AlterAction::DropColumns { paths, if_exists } => {
            builder.add_current_schema(evolve::drop(m, paths, *if_exists)?)?
        }
        AlterAction::RenameColumn { path, to } => builder.add_current_schema(evolve::rename(m, path, to)?)?,
        AlterAction::AlterColumn { path, change } => {
            let schema = evolve::change(m, ext, path, change, planner)?;
            builder.add_current_schema(schema)?
        }
        AlterAction::AddPartitionField { term, name } => {
            let mut fields = current_spec(m);
            add_field(&mut fields, schema, ext, term, name.as_deref())?;
            set_spec(builder, fields)?
        }
        AlterAction::DropPartitionField(term) => {
            let mut fields = current_spec(m);
            drop_field(m, &mut fields, schema, term)?;
            set_spec(builder, fields)?
        }
        AlterAction::ReplacePartitionField { from, to, name } => {
            let mut fields = current_spec(m);
            drop_field(m, &mut fields, schema, from)?;
            add_field(&mut fields, schema, ext, to, name.as_deref())?;
            set_spec(builder, fields)?
        }
        AlterAction::WriteOrder { terms, distribution } => {
            let order = sort_order(schema, ext, terms)?;
            let mut builder = builder.add_sort_order(order)?.set_default_sort_order(-1)?;
            if let Some(mode) = distribution {
                builder = builder
                    .set_properties(HashMap::from([("write.distribution-mode".to_string(), mode.to_string())]))?;
            }
            builder
        }
        AlterAction::SetIdentifierFields(paths) => builder.add_current_schema(evolve::identifiers(m, paths)?)?,
        AlterAction::DropIdentifierFields(paths) => builder.add_current_schema(evolve::drop_identifiers(m, paths)?)?,
        AlterAction::SetRef(r) => set_ref(m, builder, r)?,
        AlterAction::DropRef { branch, name, if_exists } => drop_ref(m, builder, *branch, name, *if_exists)?,
        AlterAction::RenameTable(_) => {
            return Err(Error::internal("a rename is no change of metadata"));
        }
    })
}

fn upgrade(m: &Metadata, builder: TableMetadataBuilder, to: FormatVersion) -> Result<TableMetadataBuilder> {
    let from = m.format_version();
    if to < from {
        return Err(Error::invalid(format!("Cannot downgrade {from} table to {to}")).clause("META-8"));
    }
    Ok(builder.upgrade_format_version(to)?)
}

fn current_spec(m: &Metadata) -> Vec<UnboundPartitionField> {
    m.default_partition_spec().fields().iter().map(|f| f.clone().into_unbound()).collect()
}

fn set_spec(builder: TableMetadataBuilder, fields: Vec<UnboundPartitionField>) -> Result<TableMetadataBuilder> {
    let spec = UnboundPartitionSpec::builder().add_partition_fields(fields)?.build();
    Ok(builder.add_default_partition_spec(spec)?)
}

fn add_field(
    fields: &mut Vec<UnboundPartitionField>,
    schema: &Schema,
    ext: &ExtTypes,
    term: &Term,
    name: Option<&str>,
) -> Result<()> {
    let source = bind_term(schema, ext, term)?;
    let column = schema.name_by_field_id(source.id).unwrap_or(&source.name);
    let name = name.map_or_else(|| partition_name(term.transform, column), str::to_string);
    if let Some(same) = fields.iter().find(|f| f.source_id == source.id && f.transform == term.transform) {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("partition field {} has the same source and transform", same.name),
        ));
    }
    if fields.iter().any(|f| f.name == name) {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("the table has a partition field {name:?}; AS gives another name"),
        ));
    }
    fields.push(UnboundPartitionField { source_id: source.id, field_id: None, name, transform: term.transform });
    Ok(())
}

/// By the field's name, else by source and transform. Version 1 keeps the place with the void transform.
fn drop_field(m: &Metadata, fields: &mut Vec<UnboundPartitionField>, schema: &Schema, term: &Term) -> Result<()> {
    let named = (term.column.len() == 1 && term.transform == iceberg::spec::Transform::Identity)
        .then(|| fields.iter().position(|f| f.name.eq_ignore_ascii_case(&term.column[0])))
        .flatten();
    let at = match named {
        Some(i) => Some(i),
        None => {
            let source = super::schema::resolve(schema, &term.column)?;
            fields.iter().position(|f| f.source_id == source.id && f.transform == term.transform)
        }
    };
    let Some(at) = at else {
        let names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
        return Err(Error::not_found(format!("the table has no such partition field; it has: {}", names.join(", "))));
    };
    if m.format_version() == FormatVersion::V1 {
        fields[at].transform = iceberg::spec::Transform::Void;
    } else {
        fields.remove(at);
    }
    Ok(())
}

fn kind(branch: bool) -> &'static str {
    if branch { "branch" } else { "tag" }
}

fn set_ref(m: &Metadata, builder: TableMetadataBuilder, r: &SetRef) -> Result<TableMetadataBuilder> {
    let refs = m.refs()?;
    let existing = refs.get(&r.name);
    match existing {
        Some(old) if old.is_branch() != r.branch => {
            return Err(Error::invalid(format!(
                "{:?} is a {}, not a {}",
                r.name,
                kind(old.is_branch()),
                kind(r.branch)
            )));
        }
        Some(_) if r.if_not_exists => return Ok(builder),
        Some(_) if !r.replace => {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("{} {:?} exists", kind(r.branch), r.name)));
        }
        None if !r.create => {
            return Err(Error::not_found(format!("table has no {} {:?}", kind(r.branch), r.name)));
        }
        _ => {}
    }
    let snapshot_id = match r.snapshot_id.or(m.current_snapshot_id()) {
        Some(id) if m.snapshot_by_id(id).is_some() => id,
        Some(id) => return Err(Error::not_found(format!("table has no snapshot {id}"))),
        None => {
            return Err(Error::invalid(format!("a {} needs a snapshot, and the table has none yet", kind(r.branch))));
        }
    };
    let positive = |n: Option<i64>, what: &str| match n {
        Some(n) if n <= 0 => Err(Error::invalid(format!("{what} must be positive"))),
        n => Ok(n),
    };
    let max_ref_age_ms = positive(r.max_ref_age_ms, "RETAIN")?;
    let retention = if r.branch {
        positive(r.min_snapshots_to_keep.map(i64::from), "the number of snapshots")?;
        SnapshotRetention::Branch {
            min_snapshots_to_keep: r.min_snapshots_to_keep,
            max_snapshot_age_ms: positive(r.max_snapshot_age_ms, "SNAPSHOT RETENTION")?,
            max_ref_age_ms,
        }
    } else {
        SnapshotRetention::Tag { max_ref_age_ms }
    };
    Ok(builder.set_ref(&r.name, SnapshotReference::new(snapshot_id, retention))?)
}

fn drop_ref(
    m: &Metadata,
    builder: TableMetadataBuilder,
    branch: bool,
    name: &str,
    if_exists: bool,
) -> Result<TableMetadataBuilder> {
    match m.refs()?.get(name) {
        None if if_exists => Ok(builder),
        None => Err(Error::not_found(format!("table has no {} {name:?}", kind(branch)))),
        Some(_) if name == MAIN_BRANCH => Err(Error::invalid("the main branch can't be dropped")),
        Some(r) if r.is_branch() != branch => {
            Err(Error::invalid(format!("{name:?} is a {}, not a {}", kind(r.is_branch()), kind(branch))))
        }
        Some(_) => Ok(builder.remove_ref(name)),
    }
}

/// What a table becomes by `CREATE OR REPLACE`.
pub(super) struct Replacement {
    pub columns: Vec<ColumnDef>,
    pub partitioned_by: Vec<Term>,
    pub properties: HashMap<String, String>,
    pub version: FormatVersion,
    pub location: Option<String>,
    pub query: Option<Box<Query>>,
}

/// Gives an existing table a new schema, spec and properties; history stays, the main branch starts empty. Columns of the
/// same name keep their ids. When the query fails, the table is set back to what it was.
pub(super) async fn replace(session: &Session, name: &Name, table: &Table, new: Replacement) -> Result<()> {
    let planner = Planner::new(session.context());
    let at = table.ident().clone();
    let Replacement { columns, partitioned_by, properties, version, location, query } = new;
    let change =
        move |m: &Metadata, builder: TableMetadataBuilder, ext: &mut ExtTypes| -> Result<TableMetadataBuilder> {
            let mut builder = upgrade(m, builder, version)?;
            let mut ids = Ids { last: m.last_column_id(), ext: ext.clone(), old: Some(m.current_schema()) };
            let fields = new_fields(&columns, version as u8, &planner, &mut ids)?;
            *ext = ids.ext;
            let schema = Schema::builder().with_fields(fields).build()?;
            let spec = partition_spec(&schema, ext, &partitioned_by)?;
            builder = builder.add_current_schema(schema)?.add_default_partition_spec(spec)?;
            builder = builder.add_sort_order(iceberg::spec::SortOrder::unsorted_order())?.set_default_sort_order(-1)?;
            if m.refs()?.contains_key(MAIN_BRANCH) {
                builder = builder.remove_ref(MAIN_BRANCH);
            }
            if let Some(location) = &location {
                builder = builder.set_location(location.clone());
            }
            if properties.is_empty() { Ok(builder) } else { Ok(builder.set_properties(properties.clone())?) }
        };
    let replaced = commit::update(table, move |m, b, e| change(m, b, e).map_err(|e| e.at(&at))).await?;
    let Some(query) = query else { return Ok(()) };
    if let Err(e) = dml::append_query(session, name, query).await {
        restore(table, &replaced).await?;
        return Err(e);
    }
    Ok(())
}

async fn restore(before: &Table, now: &Table) -> Result<()> {
    let old: Arc<Metadata> = before.metadata().clone();
    commit::update(now, move |_, builder, ext| {
        *ext = old.ext.clone();
        let mut builder = builder.set_current_schema(old.current_schema_id())?;
        builder = builder.set_default_partition_spec(old.default_partition_spec_id())?;
        builder = builder.set_default_sort_order(old.default_sort_order_id())?;
        if let Some(main) = old.refs()?.get(MAIN_BRANCH) {
            builder = builder.set_ref(MAIN_BRANCH, main.clone())?;
        }
        Ok(builder.set_properties(old.properties().clone())?)
    })
    .await?;
    Ok(())
}
