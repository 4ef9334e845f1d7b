//! Schema evolution (EVO-*, DEFV-*): each function gives the new current schema of a table.

use std::collections::HashSet;
use std::sync::Arc;

use iceberg::spec::{
    FormatVersion, ListType, Literal, MapType, NestedField, NestedFieldRef, PrimitiveLiteral, PrimitiveType, Schema,
    StructType, Transform, Type,
};

use super::ast::{ColumnChange, ColumnDef, Name, Position, SqlType};
use super::planner::Planner;
use super::schema::{Ids, check_column, default_value, resolve, type_text};
use crate::table::Metadata;
use crate::types::{ExtType, ExtTypes};
use crate::{Error, ErrorKind, Result};

fn build(m: &Metadata, fields: Vec<NestedFieldRef>) -> Result<Schema> {
    build_with(m, fields, m.current_schema().identifier_field_ids().collect())
}

fn build_with(_m: &Metadata, fields: Vec<NestedFieldRef>, identifiers: HashSet<i32>) -> Result<Schema> {
    Schema::builder()
        .with_fields(fields)
        .with_identifier_field_ids(identifiers)
        .build()
        .map_err(|e| Error::invalid(e.message().to_string()))
}

fn top(m: &Metadata) -> Vec<NestedFieldRef> {
    m.current_schema().as_struct().fields().to_vec()
}

/// Changes the list of siblings that the struct at `id` holds; `None` = the table's columns.
fn edit_siblings(
    fields: &[NestedFieldRef],
    id: Option<i32>,
    edit: &mut dyn FnMut(Vec<NestedFieldRef>) -> Result<Vec<NestedFieldRef>>,
) -> Result<Vec<NestedFieldRef>> {
    let Some(id) = id else {
        return edit(fields.to_vec());
    };
    edit_field(fields, id, &mut |f| {
        let Type::Struct(s) = f.field_type.as_ref() else {
            return Err(Error::invalid(format!("column {} is no struct", f.name)));
        };
        let ty = Type::Struct(StructType::new(edit(s.fields().to_vec())?));
        Ok(NestedField { field_type: Box::new(ty), ..f })
    })
}

/// Changes the field with this id, wherever it is nested.
fn edit_field(
    fields: &[NestedFieldRef],
    id: i32,
    edit: &mut dyn FnMut(NestedField) -> Result<NestedField>,
) -> Result<Vec<NestedFieldRef>> {
    fields.iter().map(|f| edit_in(f, id, edit)).collect()
}

fn edit_in(
    field: &NestedFieldRef,
    id: i32,
    edit: &mut dyn FnMut(NestedField) -> Result<NestedField>,
) -> Result<NestedFieldRef> {
    if field.id == id {
        return Ok(Arc::new(edit(field.as_ref().clone())?));
    }
    let ty = match field.field_type.as_ref() {
        Type::Primitive(_) => return Ok(field.clone()),
        Type::Struct(s) => Type::Struct(StructType::new(edit_field(s.fields(), id, edit)?)),
        Type::List(l) => Type::List(ListType::new(edit_in(&l.element_field, id, edit)?)),
        Type::Map(map) => {
            let key = edit_in(&map.key_field, id, edit)?;
            if key != map.key_field {
                return Err(Error::invalid("keys of a map can't be changed").at(&field.name));
            }
            Type::Map(MapType::new(key, edit_in(&map.value_field, id, edit)?))
        }
    };
    Ok(Arc::new(NestedField { field_type: Box::new(ty), ..field.as_ref().clone() }))
}

/// The struct that holds a new or moved column: the id of its field, or `None` at the top. A list stands for its element
/// and a map for its value, as in Spark.
fn parent(schema: &Schema, path: &[String]) -> Result<Option<i32>> {
    if path.is_empty() {
        return Ok(None);
    }
    let mut field = resolve(schema, path)?;
    loop {
        match field.field_type.as_ref() {
            Type::Struct(_) => return Ok(Some(field.id)),
            Type::List(l) => field = &l.element_field,
            Type::Map(m) => field = &m.value_field,
            Type::Primitive(_) => {
                return Err(Error::invalid(format!(
                    "column {} is no struct, it can't hold other columns",
                    path.join(".")
                )));
            }
        }
    }
}

fn insert(siblings: &mut Vec<NestedFieldRef>, field: NestedFieldRef, position: Option<&Position>) -> Result<()> {
    match position {
        None => siblings.push(field),
        Some(Position::First) => siblings.insert(0, field),
        Some(Position::After(name)) => match siblings.iter().position(|s| s.name.eq_ignore_ascii_case(name)) {
            Some(i) => siblings.insert(i + 1, field),
            None => {
                return Err(Error::not_found(format!("AFTER {name}: there is no such column beside it")));
            }
        },
    }
    Ok(())
}

/// `ADD COLUMNS`: ids count on from the table's last (EVO-*); a required column needs a default.
pub(super) fn add(
    m: &Metadata,
    columns: &[ColumnDef],
    if_not_exists: bool,
    planner: &Planner,
    ids: &mut Ids<'_>,
) -> Result<Schema> {
    let version = m.format_version() as u8;
    let mut schema = m.current_schema().as_ref().clone();
    for c in columns {
        check_column(c, version)?;
        let Some((name, above)) = c.path.split_last() else {
            return Err(Error::internal("a column without a name"));
        };
        let full = c.path.join(".");
        if schema.field_by_name_case_insensitive(&full).is_some() {
            if if_not_exists {
                continue;
            }
            return Err(Error::new(ErrorKind::AlreadyExists, format!("column {full} already exists")));
        }
        let parent = parent(&schema, above)?;
        let id = ids.next(&full, &c.ty);
        let mut field = NestedField::new(id, name, ids.of(&c.ty, id, &full), c.required);
        field.doc.clone_from(&c.comment);
        if let Some(default) = &c.default {
            let value = default_value(planner, default.clone(), &field.field_type, &full)?;
            field.initial_default.clone_from(&value);
            field.write_default = value;
        }
        if c.required && field.initial_default.is_none() {
            return Err(Error::invalid(format!(
                "Incompatible change: cannot add required column without a default value: {full}"
            ))
            .clause("DEFV-3"));
        }
        let field = Arc::new(field);
        let fields = edit_siblings(schema.as_struct().fields(), parent, &mut |mut siblings| {
            insert(&mut siblings, field.clone(), c.position.as_ref())?;
            Ok(siblings)
        })?;
        schema = build(m, fields)?;
    }
    Ok(schema)
}

/// `DROP COLUMNS`. Identifier columns and sources of the current partition spec and sort order stay.
pub(super) fn drop(m: &Metadata, paths: &[Name], if_exists: bool) -> Result<Schema> {
    let schema = m.current_schema();
    let mut fields = top(m);
    for path in paths {
        let field = match resolve(schema, path) {
            Ok(f) => f,
            Err(_) if if_exists => continue,
            Err(e) => return Err(e),
        };
        let gone = nested_ids(field);
        let name = path.join(".");
        if schema.identifier_field_ids().any(|id| gone.contains(&id)) {
            return Err(Error::invalid(format!(
                "Cannot delete identifier field {name}. To force deletion, drop the identifier fields first"
            )));
        }
        let spec = m.default_partition_spec();
        if let Some(f) = spec.fields().iter().find(|f| gone.contains(&f.source_id) && f.transform != Transform::Void) {
            return Err(Error::invalid(format!(
                "column {name} is the source of partition field {}: drop that first",
                f.name
            )));
        }
        if m.default_sort_order().fields.iter().any(|f| gone.contains(&f.source_id)) {
            return Err(Error::invalid(format!("column {name} is in the sort order: WRITE UNORDERED first")));
        }
        let above = path.len().checked_sub(1).map_or(&[][..], |n| &path[..n]);
        let removed = edit_siblings(&fields, parent(schema, above)?, &mut |mut siblings| {
            siblings.retain(|s| s.id != field.id);
            if siblings.is_empty() {
                return Err(Error::invalid(format!("column {name} is the last of its struct")));
            }
            Ok(siblings)
        })?;
        if removed == fields {
            return Err(Error::invalid(format!("{name} is part of a list or map, it can't be dropped alone")));
        }
        fields = removed;
    }
    build(m, fields)
}

fn nested_ids(field: &NestedFieldRef) -> HashSet<i32> {
    let mut out = HashSet::from([field.id]);
    match field.field_type.as_ref() {
        Type::Primitive(_) => {}
        Type::Struct(s) => s.fields().iter().for_each(|f| out.extend(nested_ids(f))),
        Type::List(l) => out.extend(nested_ids(&l.element_field)),
        Type::Map(m) => {
            out.extend(nested_ids(&m.key_field));
            out.extend(nested_ids(&m.value_field));
        }
    }
    out
}

/// `RENAME COLUMN`.
pub(super) fn rename(m: &Metadata, path: &Name, to: &str) -> Result<Schema> {
    let schema = m.current_schema();
    let field = resolve(schema, path)?;
    let Some((_, above)) = path.split_last() else {
        return Err(Error::internal("a column without a name"));
    };
    let sibling = above.iter().map(String::as_str).chain([to]).collect::<Vec<_>>().join(".");
    if schema.field_by_name_case_insensitive(&sibling).is_some_and(|f| f.id != field.id) {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("column {sibling} already exists")));
    }
    if to.is_empty() {
        return Err(Error::invalid("the new name is empty"));
    }
    let siblings = parent(schema, above)?;
    let mut found = false;
    let fields = edit_siblings(&top(m), siblings, &mut |list| {
        Ok(list
            .into_iter()
            .map(|f| {
                if f.id != field.id {
                    return f;
                }
                found = true;
                Arc::new(NestedField { name: to.to_string(), ..f.as_ref().clone() })
            })
            .collect())
    })?;
    if !found {
        return Err(Error::invalid("parts of lists and maps have fixed names"));
    }
    build(m, fields)
}

/// `ALTER COLUMN`.
pub(super) fn change(
    m: &Metadata,
    ext: &ExtTypes,
    path: &Name,
    change: &ColumnChange,
    planner: &Planner,
) -> Result<Schema> {
    let schema = m.current_schema();
    let field = resolve(schema, path)?.clone();
    let name = path.join(".");
    let v3 = m.format_version() >= FormatVersion::V3;
    if let ColumnChange::Position(position) = change {
        let above = path.len().checked_sub(1).map_or(&[][..], |n| &path[..n]);
        let fields = edit_siblings(&top(m), parent(schema, above)?, &mut |mut siblings| {
            let Some(at) = siblings.iter().position(|s| s.id == field.id) else {
                return Err(Error::invalid(format!("{name} is part of a list or map, it can't be moved")));
            };
            let moved = siblings.remove(at);
            insert(&mut siblings, moved, Some(position))?;
            Ok(siblings)
        })?;
        return build(m, fields);
    }
    let mut new = field.as_ref().clone();
    match change {
        ColumnChange::Type(to) => {
            let ty = promote(m, &field, to, &name)?;
            new.initial_default = promoted_default(field.initial_default.as_ref(), &ty);
            new.write_default = promoted_default(field.write_default.as_ref(), &ty);
            *new.field_type = ty;
        }
        ColumnChange::Comment(text) => new.doc = Some(text.clone()),
        ColumnChange::DropNotNull => {
            if schema.identifier_field_ids().any(|id| id == field.id) {
                return Err(Error::invalid(format!("column {name} is an identifier field, it must stay NOT NULL")));
            }
            new.required = false;
        }
        ColumnChange::SetNotNull if field.required => {}
        ColumnChange::SetNotNull => {
            return Err(Error::invalid(format!("Cannot change nullable column to non-nullable: {name}")));
        }
        ColumnChange::SetDefault(e) => {
            if !v3 {
                return Err(Error::invalid("default values need format-version 3").at(name));
            }
            if ext.of(&field).is_some() {
                return Err(Error::invalid("a column of this type has no default but null").at(name));
            }
            // only the write default may change: the initial default speaks for old rows (DEFV-*)
            new.write_default = default_value(planner, e.clone(), &field.field_type, &name)?;
        }
        ColumnChange::DropDefault => new.write_default = None,
        ColumnChange::Position(_) => {}
    }
    build(m, edit_field(&top(m), field.id, &mut |_| Ok(new.clone()))?)
}

/// The promotions that the format allows (EVO-*).
fn promote(m: &Metadata, field: &NestedFieldRef, to: &SqlType, name: &str) -> Result<Type> {
    use PrimitiveType as P;
    let v3 = m.format_version() >= FormatVersion::V3;
    let mut ids = Ids { last: m.last_column_id(), ext: ExtTypes::default(), old: None };
    let new = ids.of(to, field.id, name);
    let refuse = || {
        let from = type_text(&field.field_type, field.id, &m.ext);
        let to = type_text(&new, field.id, &ids.ext);
        Err(Error::invalid(format!(
            "Cannot change column type: {name}: {from} -> {to}; allowed: int to bigint, float to double, a decimal to more \
             digits, and in version 3 date to timestamp_ntz or timestamp_ns, unknown to any type"
        ))
        .clause("EVO-8"))
    };
    if m.ext.of(field) == Some(&ExtType::Unknown) {
        // older schemas keep the type unknown, whose entry goes by the surrogate type boolean
        if !v3 || !new.is_primitive() || (new == *field.field_type && ids.ext.get(field.id) != Some(&ExtType::Unknown))
        {
            return refuse();
        }
        if ids.ext.0.values().any(|e| *e != ExtType::Unknown) {
            return Err(Error::unsupported("unknown can become a primitive type, not an extended one").at(name));
        }
        return Ok(new);
    }
    if m.ext.of(field).is_some() || !ids.ext.0.is_empty() {
        return if m.ext.of(field) == ids.ext.get(field.id) { Ok(new) } else { refuse() };
    }
    let (Type::Primitive(a), Type::Primitive(b)) = (field.field_type.as_ref(), &new) else {
        return if *field.field_type == new { Ok(new) } else { refuse() };
    };
    let allowed = match (a, b) {
        (a, b) if a == b => true,
        (P::Int, P::Long) | (P::Float, P::Double) => true,
        (P::Decimal { precision: p, scale: s }, P::Decimal { precision: q, scale: t }) => s == t && q >= p,
        (P::Date, P::Timestamp | P::TimestampNs) => {
            // the partition values of a date and a timestamp differ, unless the transform hides that
            let partitioned = m.partition_specs_iter().any(|s| s.fields().iter().any(|f| f.source_id == field.id));
            v3 && !partitioned
        }
        _ => false,
    };
    if allowed { Ok(new) } else { refuse() }
}

/// A default as a value of the column's new type (DEFV-1).
fn promoted_default(value: Option<&Literal>, to: &Type) -> Option<Literal> {
    use PrimitiveLiteral as L;
    let day_micros = 86_400_000_000i64;
    let promoted = match (value?, to) {
        (Literal::Primitive(L::Int(n)), Type::Primitive(PrimitiveType::Long)) => L::Long(i64::from(*n)),
        (Literal::Primitive(L::Float(f)), Type::Primitive(PrimitiveType::Double)) => L::Double(f64::from(f.0).into()),
        (Literal::Primitive(L::Int(days)), Type::Primitive(PrimitiveType::Timestamp)) => {
            L::Long(i64::from(*days) * day_micros)
        }
        (Literal::Primitive(L::Int(days)), Type::Primitive(PrimitiveType::TimestampNs)) => {
            L::Long(i64::from(*days).checked_mul(day_micros * 1000)?)
        }
        (other, _) => return Some(other.clone()),
    };
    Some(Literal::Primitive(promoted))
}

/// `SET IDENTIFIER FIELDS`.
pub(super) fn identifiers(m: &Metadata, paths: &[Name]) -> Result<Schema> {
    let schema = m.current_schema();
    let mut ids = HashSet::new();
    for path in paths {
        let field = resolve(schema, path)?;
        let name = path.join(".");
        if m.ext.of(field).is_some() || !field.field_type.is_primitive() {
            return Err(Error::invalid(format!("{name} can't be an identifier field: it is no primitive column")));
        }
        if !field.required {
            return Err(Error::invalid(format!("{name} can't be an identifier field: it is not NOT NULL")));
        }
        ids.insert(field.id);
    }
    build_with(m, top(m), ids)
}

/// `DROP IDENTIFIER FIELDS`.
pub(super) fn drop_identifiers(m: &Metadata, paths: &[Name]) -> Result<Schema> {
    let schema = m.current_schema();
    let mut ids: HashSet<i32> = schema.identifier_field_ids().collect();
    for path in paths {
        let field = resolve(schema, path)?;
        if !ids.remove(&field.id) {
            return Err(Error::not_found(format!("{} is no identifier field", path.join("."))));
        }
    }
    build_with(m, top(m), ids)
}
