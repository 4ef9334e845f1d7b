//! `CREATE`, `DROP`, `ALTER` through the catalog.

use std::collections::HashMap;

use iceberg::spec::{FormatVersion, Schema};

use super::alter;
use super::ast::{CreateTable, Statement};
use super::bind::Binder;
use super::dml;
use super::schema::{Ids, columns_of, new_fields, partition_spec};
use super::session::{Session, StatementResult};
use crate::catalog::NewTable;
use crate::catalog::properties::check_properties;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result};

pub(super) async fn run(session: &mut Session, statement: Statement) -> Result<StatementResult> {
    match statement {
        Statement::CreateNamespace { name, if_not_exists, properties } => {
            let ns = session.namespace_ident(&name)?;
            match session.catalog().create_namespace(&ns, properties.into_iter().collect()).await {
                Err(e) if e.kind() == ErrorKind::AlreadyExists && if_not_exists => {}
                done => done?,
            }
        }
        Statement::DropNamespace { name, if_exists, cascade } => {
            let ns = session.namespace_ident(&name)?;
            if !session.catalog().namespace_exists(&ns).await? {
                if if_exists {
                    return Ok(StatementResult::none());
                }
                return Err(Error::not_found("namespace does not exist").at(ns.join(".")));
            }
            if cascade {
                for table in session.catalog().list_tables(&ns).await? {
                    session.catalog().drop_table(&table, false).await?;
                }
            }
            session.catalog().drop_namespace(&ns).await?;
        }
        Statement::CreateTable(create) => create_table(session, *create).await?,
        Statement::DropTable { table, if_exists, purge } => {
            let ident = session.table_ident(&table)?;
            match session.catalog().drop_table(&ident, purge).await {
                Err(e) if e.kind() == ErrorKind::NotFound && if_exists => {}
                done => done?,
            }
        }
        Statement::AlterTable { table, action } => alter::run(session, &table, action).await?,
        other => return Err(Error::internal(format!("not a DDL statement: {other:?}"))),
    }
    Ok(StatementResult::none())
}

async fn create_table(session: &mut Session, create: CreateTable) -> Result<()> {
    if let Some(using) = create.using.as_deref()
        && !using.eq_ignore_ascii_case("iceberg")
    {
        return Err(Error::unsupported(format!("USING {using}: allowed is iceberg")));
    }
    let ident = session.table_ident(&create.table)?;
    let exists = session.catalog().table_exists(&ident).await?;
    if exists && create.if_not_exists {
        return Ok(());
    }
    if exists && !create.replace {
        return Err(Error::new(ErrorKind::AlreadyExists, "table already exists").at(&ident));
    }
    if !exists && !create.create {
        return Err(
            Error::not_found("REPLACE TABLE: table does not exist; CREATE OR REPLACE TABLE makes it").at(&ident)
        );
    }
    check_properties(&create.properties).map_err(|e| e.at(&ident))?;
    let mut properties: HashMap<String, String> = create.properties.iter().cloned().collect();
    if let Some(comment) = &create.comment {
        properties.insert("comment".into(), comment.clone());
    }
    let version = match properties.remove("format-version") {
        Some(v) => format_version(&v)?,
        None => FormatVersion::V2,
    };
    let mut binder = Binder::new(session);
    let mut columns = create.columns.clone();
    if let Some(query) = &create.query {
        // the columns of CREATE TABLE … AS are the query's
        if !columns.is_empty() {
            return Err(Error::invalid(
                "CREATE TABLE … AS takes its columns from the query; leave the column list out",
            )
            .at(&ident));
        }
        let mut query = query.clone();
        binder.bind_output(&mut query).await?;
        let plan = binder.planner().plan_query(*query)?;
        columns = columns_of(plan.schema().as_arrow())?;
    }
    if exists {
        let table = session.table(&create.table).await?;
        let version = if create.properties.iter().any(|(k, _)| k == "format-version") {
            version
        } else {
            table.metadata().format_version()
        };
        let replacement = alter::Replacement {
            columns,
            partitioned_by: create.partitioned_by,
            properties,
            version,
            location: create.location,
            query: create.query,
        };
        return alter::replace(session, &create.table, &table, replacement).await;
    }
    let mut ids = Ids { last: 0, ext: ExtTypes::default(), old: None };
    let fields = new_fields(&columns, version as u8, binder.planner(), &mut ids)?;
    drop(binder);
    let ext = ids.ext;
    let schema = Schema::builder().with_fields(fields).build()?;
    let spec = partition_spec(&schema, &ext, &create.partitioned_by)?;
    let new = NewTable {
        ident: ident.clone(),
        schema,
        ext,
        partition_spec: (!create.partitioned_by.is_empty()).then_some(spec),
        sort_order: None,
        location: create.location.clone(),
        properties,
        format_version: version,
    };
    session.catalog().clone().create_table(new).await?;
    if let Some(query) = create.query {
        let filled = dml::append_query(session, &create.table, query).await;
        if let Err(e) = filled {
            // a failed statement leaves no table behind
            session.catalog().drop_table(&ident, true).await?;
            return Err(e);
        }
    }
    Ok(())
}

/// A `format-version` of floe.
pub(super) fn format_version(text: &str) -> Result<FormatVersion> {
    match text.trim() {
        "1" => Ok(FormatVersion::V1),
        "2" => Ok(FormatVersion::V2),
        "3" => Ok(FormatVersion::V3),
        other => Err(Error::unsupported(format!("Unsupported format version: v{other} (supported: v1, v2, v3)"))
            .clause("META-8")),
    }
}
