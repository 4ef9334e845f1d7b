//! Schema changes of the source, made in the target too.

use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, Type};

use super::target::Difference;
use crate::commit::update_metadata;
use crate::types::ExtTypes;
use crate::{Error, Result, Table};

/// Adds columns and widens types so that rows with `fields` fit. With `old`, the fields of the schema that the target was
/// last brought to, columns that the source renamed or dropped since are renamed or dropped, in that order.
pub async fn evolve(
    target: &Table,
    fields: &[NestedFieldRef],
    ext: &ExtTypes,
    old: Option<&[NestedFieldRef]>,
) -> Result<Table> {
    let mut renames: Vec<(String, String)> = Vec::new();
    let mut drops: Vec<String> = Vec::new();
    for o in old.unwrap_or_default() {
        match fields.iter().find(|f| f.id == o.id) {
            Some(f) if f.name != o.name => renames.push((o.name.clone(), f.name.clone())),
            Some(_) => {}
            // a name that another column has taken over is that column's
            None if fields.iter().any(|f| f.name == o.name) => {}
            None => drops.push(o.name.clone()),
        }
    }
    let has = |name: &str| target.metadata().current_schema().as_struct().fields().iter().any(|f| f.name == name);
    renames.retain(|(from, _)| has(from));
    drops.retain(|d| has(d));
    let difference = Difference::of(fields, ext, target);
    if difference.is_empty() && renames.is_empty() && drops.is_empty() {
        return Ok(target.clone());
    }
    let fields = fields.to_vec();
    let ext = ext.clone();
    let place = target.ident().clone();
    update_metadata(
        target,
        move |builder| {
            let m = builder.clone().build()?.metadata;
            let schema = merged(&m, &fields, &ext, &renames, &drops).map_err(|e| e.at(&place))?;
            Ok(builder.add_current_schema(schema)?)
        },
        Vec::new(),
    )
    .await
}

fn merged(
    m: &iceberg::spec::TableMetadata,
    fields: &[NestedFieldRef],
    ext: &ExtTypes,
    renames: &[(String, String)],
    drops: &[String],
) -> Result<Schema> {
    let schema = m.current_schema();
    let mut next = m.last_column_id();
    let mut out: Vec<NestedFieldRef> = Vec::new();
    for f in schema.as_struct().fields() {
        if drops.contains(&f.name) {
            let in_spec = m.default_partition_spec().fields().iter().any(|p| p.source_id == f.id);
            if in_spec || schema.identifier_field_ids().any(|id| id == f.id) {
                return Err(Error::invalid(format!(
                    "the source dropped column {}, which the target's partitioning or identifier fields use",
                    f.name
                )));
            }
            continue;
        }
        let mut new: NestedField = f.as_ref().clone();
        if let Some((_, to)) = renames.iter().find(|(from, _)| *from == f.name) {
            new.name = to.clone();
        }
        if let Some(s) = fields.iter().find(|s| s.name == new.name) {
            new.field_type = Box::new(widen(&new, s)?);
        }
        out.push(new.into());
    }
    for s in fields {
        if out.iter().any(|f| f.name == s.name) {
            continue;
        }
        if ext.of(s).is_some() {
            return Err(Error::unsupported(format!(
                "column {} has a type that a sync can't add by itself; add it by hand",
                s.name
            )));
        }
        next += 1;
        // rows that are there already have no value, so the column is optional unless the source fills them in
        let id = next;
        let ty = renumber(&s.field_type, &mut next);
        let mut new = NestedField::optional(id, &s.name, ty);
        new.doc = s.doc.clone();
        new.initial_default = s.initial_default.clone();
        new.write_default = s.write_default.clone();
        out.push(new.into());
    }
    Ok(Schema::builder().with_fields(out).with_identifier_field_ids(schema.identifier_field_ids()).build()?)
}

/// Fresh ids for a type that is new in the target.
fn renumber(t: &Type, next: &mut i32) -> Type {
    use iceberg::spec::{ListType, MapType, StructType};
    let field = |f: &NestedField, next: &mut i32| -> NestedFieldRef {
        *next += 1;
        let mut new = f.clone();
        new.id = *next;
        new.field_type = Box::new(renumber(&f.field_type, next));
        new.into()
    };
    match t {
        Type::Primitive(_) => t.clone(),
        Type::Struct(s) => Type::Struct(StructType::new(s.fields().iter().map(|f| field(f, next)).collect())),
        Type::List(l) => Type::List(ListType { element_field: field(&l.element_field, next) }),
        Type::Map(m) => {
            Type::Map(MapType { key_field: field(&m.key_field, next), value_field: field(&m.value_field, next) })
        }
    }
}

/// The target's type after a widening of the source's (EVO-*).
fn widen(target: &NestedField, source: &NestedField) -> Result<Type> {
    use PrimitiveType as P;
    let (Type::Primitive(t), Type::Primitive(s)) = (target.field_type.as_ref(), source.field_type.as_ref()) else {
        return Ok(target.field_type.as_ref().clone());
    };
    match (t, s) {
        (a, b) if a == b => Ok(Type::Primitive(a.clone())),
        (P::Int, P::Long) | (P::Float, P::Double) => Ok(Type::Primitive(s.clone())),
        // the target is wider already
        (P::Long, P::Int) | (P::Double, P::Float) => Ok(Type::Primitive(t.clone())),
        (P::Decimal { precision: p, scale: a }, P::Decimal { precision: q, scale: b }) if a == b => {
            Ok(Type::Primitive(if q > p { s.clone() } else { t.clone() }))
        }
        _ => Err(Error::invalid(format!(
            "column {} is {t} in the target and {s} in the source; allowed widenings: int to long, float to double, decimal \
             to more digits",
            target.name
        ))
        .clause("EVO-1")),
    }
}
