//! `SHOW`, `DESCRIBE`, `EXPLAIN`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::Query;
use iceberg::spec::Transform;

use super::ast::Statement;
use super::bind::Binder;
use super::schema::type_text;
use super::session::{Session, StatementResult};
use crate::{Error, Result, Table};

/// Rows of nullable strings.
pub(super) fn strings<const N: usize>(names: [&str; N], rows: Vec<[Option<String>; N]>) -> Result<StatementResult> {
    let schema = Arc::new(Schema::new(names.map(|n| Field::new(n, DataType::Utf8, true)).to_vec()));
    let columns =
        (0..N).map(|i| Arc::new(rows.iter().map(|r| r[i].clone()).collect::<StringArray>()) as ArrayRef).collect();
    Ok(StatementResult::batch(RecordBatch::try_new(schema, columns)?))
}

/// Rows of two strings.
pub(super) fn pairs(names: (&str, &str), rows: impl IntoIterator<Item = (String, String)>) -> Result<StatementResult> {
    strings([names.0, names.1], rows.into_iter().map(|(k, v)| [Some(k), Some(v)]).collect())
}

pub(super) async fn explain(session: &Session, mut query: Query) -> Result<StatementResult> {
    let mut binder = Binder::new(session);
    binder.bind_output(&mut query).await?;
    let plan = binder.planner().plan_query(query)?;
    let frame = binder.planner().context().execute_logical_plan(plan).await?;
    let logical = frame.clone().into_optimized_plan()?.display_indent().to_string();
    let physical = frame.create_physical_plan().await?;
    let physical = datafusion::physical_plan::displayable(physical.as_ref()).indent(false).to_string();
    pairs(("plan_type", "plan"), [("logical".to_string(), logical), ("physical".to_string(), physical)])
}

pub(super) async fn show(session: &Session, statement: Statement) -> Result<StatementResult> {
    match statement {
        Statement::ShowNamespaces { parent } => {
            let parent = parent.map(|p| session.namespace_ident(&p)).transpose()?;
            let mut names: Vec<String> =
                session.catalog().list_namespaces(parent.as_ref()).await?.iter().map(|n| n.join(".")).collect();
            names.sort();
            strings(["namespace"], names.into_iter().map(|n| [Some(n)]).collect())
        }
        Statement::ShowTables { namespace } => {
            let ns = match namespace {
                Some(n) => session.namespace_ident(&n)?,
                None => session.namespace().clone(),
            };
            let mut tables = session.catalog().list_tables(&ns).await?;
            tables.sort_by(|a, b| a.name().cmp(b.name()));
            let views = session.view_names();
            let schema = Arc::new(Schema::new(vec![
                Field::new("namespace", DataType::Utf8, false),
                Field::new("tableName", DataType::Utf8, false),
                Field::new("isTemporary", DataType::Boolean, false),
            ]));
            let all: Vec<(String, String, bool)> = tables
                .iter()
                .map(|t| (t.namespace().join("."), t.name().to_string(), false))
                .chain(views.into_iter().map(|v| (String::new(), v, true)))
                .collect();
            let text = |f: fn(&(String, String, bool)) -> &str| {
                Arc::new(StringArray::from_iter_values(all.iter().map(f))) as ArrayRef
            };
            let columns = vec![
                text(|r| &r.0),
                text(|r| &r.1),
                Arc::new(BooleanArray::from(all.iter().map(|r| r.2).collect::<Vec<_>>())) as ArrayRef,
            ];
            Ok(StatementResult::batch(RecordBatch::try_new(schema, columns)?))
        }
        Statement::ShowProperties { table, key } => {
            let table = session.table(&table).await?;
            let properties = properties(&table);
            match key {
                None => pairs(("key", "value"), properties),
                Some(k) => {
                    let value = properties.into_iter().find(|(have, _)| *have == k).map(|(_, v)| v);
                    let missing = format!("Table {} does not have property: {k}", table.ident());
                    pairs(("key", "value"), [(k, value.unwrap_or(missing))])
                }
            }
        }
        Statement::ShowCreate { table } => {
            let table = session.table(&table).await?;
            strings(["createtab_stmt"], vec![[Some(create_text(session, &table)?)]])
        }
        Statement::DescribeNamespace { name } => {
            let ns = session.namespace_ident(&name)?;
            let mut rows: Vec<(String, String)> =
                session.catalog().namespace_properties(&ns).await?.into_iter().collect();
            rows.sort();
            rows.insert(0, ("Namespace Name".into(), ns.join(".")));
            pairs(("info_name", "info_value"), rows)
        }
        Statement::Describe { table, extended } => describe(session, &table, extended).await,
        other => Err(Error::internal(format!("not a SHOW statement: {other:?}"))),
    }
}

/// A table's properties and what Spark shows among them, sorted by key.
fn properties(table: &Table) -> Vec<(String, String)> {
    let m = table.metadata();
    let mut out: Vec<(String, String)> = m.properties().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let snapshot = m.current_snapshot_id().map_or("none".to_string(), |id| id.to_string());
    out.push(("current-snapshot-id".into(), snapshot));
    out.push(("format".into(), format!("iceberg/{}", table.property("write.format.default", "parquet"))));
    out.push(("format-version".into(), (m.format_version() as u8).to_string()));
    out.sort();
    out.dedup_by(|a, b| a.0 == b.0);
    out
}

async fn describe(session: &Session, name: &[String], extended: bool) -> Result<StatementResult> {
    let mut rows: Vec<[Option<String>; 3]> = Vec::new();
    let row = |a: &str, b: String, c: Option<String>| [Some(a.to_string()), Some(b), c];
    let is_view = matches!(name, [one] if session.view(one).is_some());
    let located = if is_view { None } else { Some(session.locate(name).await?) };
    match located {
        Some(super::session::Located { table, suffix: None }) => {
            let m = table.metadata();
            let schema = m.current_schema();
            for f in schema.as_struct().fields() {
                rows.push(row(&f.name, type_text(&f.field_type, f.id, &m.ext), f.doc.clone()));
            }
            let spec = m.default_partition_spec();
            if !spec.is_unpartitioned() {
                rows.push(row("# Partitioning", String::new(), Some(String::new())));
                for (i, f) in spec.fields().iter().enumerate() {
                    let source = schema.name_by_field_id(f.source_id).unwrap_or("?");
                    rows.push(row(&format!("Part {i}"), term_text(f.transform, source), Some(String::new())));
                }
            }
            if extended {
                rows.push(row("# Detailed Table Information", String::new(), Some(String::new())));
                rows.push(row("Name", format!("{}.{}", session.catalog_name(), table.ident()), Some(String::new())));
                rows.push(row("Type", "MANAGED".into(), Some(String::new())));
                rows.push(row("Location", m.location().to_string(), Some(String::new())));
                rows.push(row("Provider", "iceberg".into(), Some(String::new())));
                let all: Vec<String> = properties(&table).into_iter().map(|(k, v)| format!("{k}={v}")).collect();
                rows.push(row("Table Properties", format!("[{}]", all.join(",")), Some(String::new())));
            }
        }
        _ => {
            // a view, or a metadata table: what a query on it gives
            let text = name.iter().map(|p| format!("`{}`", p.replace('`', "``"))).collect::<Vec<_>>().join(".");
            let Statement::Query(mut query) = super::parser::parse(&format!("SELECT * FROM {text}"))? else {
                return Err(Error::internal("not a query"));
            };
            let mut binder = Binder::new(session);
            binder.bind_output(&mut query).await?;
            let plan = binder.planner().plan_query(*query)?;
            for f in plan.schema().fields() {
                rows.push(row(f.name(), arrow_type_text(f.data_type()), None));
            }
        }
    }
    strings(["col_name", "data_type", "comment"], rows)
}

/// Spark's name of an Arrow type.
pub(super) fn arrow_type_text(ty: &DataType) -> String {
    use DataType as T;
    match ty {
        T::Null => "void".into(),
        T::Boolean => "boolean".into(),
        T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 => "int".into(),
        T::Int64 | T::UInt32 | T::UInt64 => "bigint".into(),
        T::Float16 | T::Float32 => "float".into(),
        T::Float64 => "double".into(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "string".into(),
        T::Date32 | T::Date64 => "date".into(),
        T::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None) => "timestamp_ns".into(),
        T::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some(_)) => "timestamptz_ns".into(),
        T::Timestamp(_, None) => "timestamp_ntz".into(),
        T::Timestamp(_, Some(_)) => "timestamp".into(),
        T::Decimal128(p, s) => format!("decimal({p},{s})"),
        T::Binary | T::LargeBinary | T::BinaryView => "binary".into(),
        T::FixedSizeBinary(n) => format!("fixed({n})"),
        T::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{}:{}", f.name(), arrow_type_text(f.data_type()))).collect();
            format!("struct<{}>", fields.join(","))
        }
        T::List(f) | T::LargeList(f) => format!("array<{}>", arrow_type_text(f.data_type())),
        T::Map(f, _) => match f.data_type() {
            T::Struct(kv) if kv.len() == 2 => {
                format!("map<{},{}>", arrow_type_text(kv[0].data_type()), arrow_type_text(kv[1].data_type()))
            }
            _ => "map".into(),
        },
        other => other.to_string().to_lowercase(),
    }
}

/// A partition term as statements word it.
pub(super) fn term_text(transform: Transform, source: &str) -> String {
    match transform {
        Transform::Identity => source.to_string(),
        Transform::Bucket(n) => format!("bucket({n}, {source})"),
        Transform::Truncate(n) => format!("truncate({n}, {source})"),
        Transform::Year => format!("years({source})"),
        Transform::Month => format!("months({source})"),
        Transform::Day => format!("days({source})"),
        Transform::Hour => format!("hours({source})"),
        other => format!("{other}({source})"),
    }
}

fn create_text(session: &Session, table: &Table) -> Result<String> {
    let m = table.metadata();
    let schema = m.current_schema();
    let columns: Vec<String> = schema
        .as_struct()
        .fields()
        .iter()
        .map(|f| {
            let mut line = format!("  {} {}", f.name, type_text(&f.field_type, f.id, &m.ext).to_uppercase());
            if f.required {
                line += " NOT NULL";
            }
            if let Some(doc) = &f.doc {
                line += &format!(" COMMENT '{}'", doc.replace('\'', "\\'"));
            }
            line
        })
        .collect();
    let mut out = format!(
        "CREATE TABLE {}.{} (\n{})\nUSING iceberg\n",
        session.catalog_name(),
        table.ident(),
        columns.join(",\n")
    );
    let spec = m.default_partition_spec();
    if !spec.is_unpartitioned() {
        let terms: Vec<String> = spec
            .fields()
            .iter()
            .map(|f| term_text(f.transform, schema.name_by_field_id(f.source_id).unwrap_or("?")))
            .collect();
        out += &format!("PARTITIONED BY ({})\n", terms.join(", "));
    }
    out += &format!("LOCATION '{}'\n", m.location());
    let all: Vec<String> = properties(table).into_iter().map(|(k, v)| format!("  '{k}' = '{v}'")).collect();
    out += &format!("TBLPROPERTIES (\n{})\n", all.join(",\n"));
    Ok(out)
}
