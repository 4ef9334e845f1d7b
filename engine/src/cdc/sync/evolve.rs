//! Schema changes of the source, made in the target too.

use std::collections::HashMap;

use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, Schema, StructType, TableMetadata, Type};

use super::difference::{Difference, widen};
use super::drift::{Drift, Move};
use crate::commit::update_metadata;
use crate::types::ExtTypes;
use crate::{Error, Result, Table};

/// Adds columns and widens types, at any depth, so that rows with `fields` fit; with `drift`, columns that the source renamed
/// or dropped are renamed or dropped. `mark` = a table property that is set in the same commit.
pub async fn evolve(
    target: &Table,
    fields: &[NestedFieldRef],
    ext: &ExtTypes,
    drift: &Drift,
    mark: (String, String),
) -> Result<Table> {
    if Difference::of(fields, ext, target).is_empty() && drift.is_empty() {
        return Ok(target.clone());
    }
    let place = target.ident().clone();
    update_metadata(
        target,
        |builder| {
            let m = builder.clone().build()?.metadata;
            let schema = merged(&m, fields, ext, drift).map_err(|e| e.at(&place))?;
            Ok(builder.set_properties(HashMap::from([mark.clone()]))?.add_current_schema(schema)?)
        },
        Vec::new(),
    )
    .await
}

struct Merge<'a> {
    drift: &'a Drift,
    ext: &'a ExtTypes,
    /// Fields that partitioning or identity rest on: they stay, and stay required.
    fixed: Vec<i32>,
    next: i32,
    path: Vec<String>,
}

fn merged(m: &TableMetadata, fields: &[NestedFieldRef], ext: &ExtTypes, drift: &Drift) -> Result<Schema> {
    let schema = m.current_schema();
    let mut fixed: Vec<i32> = schema.identifier_field_ids().collect();
    fixed.extend(m.default_partition_spec().fields().iter().map(|p| p.source_id));
    let mut merge = Merge { drift, ext, fixed, next: m.last_column_id(), path: Vec::new() };
    let out = merge.fields(schema.as_struct().fields(), fields)?;
    Ok(Schema::builder().with_fields(out).with_identifier_field_ids(schema.identifier_field_ids()).build()?)
}

impl Merge<'_> {
    fn fields(&mut self, target: &[NestedFieldRef], source: &[NestedFieldRef]) -> Result<Vec<NestedFieldRef>> {
        let mut out: Vec<NestedFieldRef> = Vec::new();
        for t in target {
            self.path.push(t.name.clone());
            let mut new: NestedField = t.as_ref().clone();
            match self.drift.get(&self.path) {
                Some(Move::Dropped | Move::Replaced) if self.fixed.contains(&t.id) => {
                    return Err(Error::invalid(format!(
                        "the source dropped column {}, which the target's partitioning or identifier fields use",
                        self.path.join(".")
                    )));
                }
                Some(Move::Dropped | Move::Replaced) => {
                    self.path.pop();
                    continue;
                }
                Some(Move::Renamed(to)) => new.name = to.clone(),
                None => {}
            }
            if let Some(s) = source.iter().find(|s| s.name == new.name) {
                new.field_type = Box::new(self.merge(t, s)?);
                // the source may hold nulls now
                new.required &= s.required || self.fixed.contains(&t.id);
            }
            if out.iter().any(|f| f.name == new.name) {
                return Err(Error::invalid(format!(
                    "the source renamed column {} to {}, and the target has both",
                    self.path.join("."),
                    new.name
                )));
            }
            self.path.pop();
            out.push(new.into());
        }
        for s in source {
            if out.iter().any(|f| f.name == s.name) {
                continue;
            }
            self.path.push(s.name.clone());
            let mut new = self.fresh(s)?;
            // rows that are there already have no value, so the column is optional; a default stands in for it
            new.required = false;
            self.path.pop();
            out.push(new.into());
        }
        Ok(out)
    }

    /// The target's type, wide enough for the source's.
    fn merge(&mut self, target: &NestedField, source: &NestedField) -> Result<Type> {
        let inner = |merge: &mut Self, part: &str, t: &NestedFieldRef, s: &NestedFieldRef| -> Result<NestedFieldRef> {
            merge.path.push(part.into());
            let mut new = t.as_ref().clone();
            new.field_type = Box::new(merge.merge(t, s)?);
            new.required &= s.required || part == "key";
            merge.path.pop();
            Ok(new.into())
        };
        Ok(match (target.field_type.as_ref(), source.field_type.as_ref()) {
            (Type::Primitive(t), Type::Primitive(s)) => widen(&self.path.join("."), s, t)?,
            (Type::Struct(t), Type::Struct(s)) => Type::Struct(StructType::new(self.fields(t.fields(), s.fields())?)),
            (Type::List(t), Type::List(s)) => {
                Type::List(ListType { element_field: inner(self, "element", &t.element_field, &s.element_field)? })
            }
            (Type::Map(t), Type::Map(s)) => Type::Map(MapType {
                key_field: inner(self, "key", &t.key_field, &s.key_field)?,
                value_field: inner(self, "value", &t.value_field, &s.value_field)?,
            }),
            (t, s) => {
                return Err(Error::invalid(format!(
                    "column {} is {t} in the target and {s} in the source; a column never changes between plain and nested",
                    self.path.join(".")
                ))
                .clause("EVO-8"));
            }
        })
    }

    /// A field that is new in the target, with ids of its own.
    fn fresh(&mut self, s: &NestedField) -> Result<NestedField> {
        if self.ext.of(s).is_some() {
            return Err(Error::unsupported(format!(
                "column {} has a type that a sync can't add by itself; add it by hand",
                self.path.join(".")
            )));
        }
        self.next += 1;
        let mut new = s.clone();
        new.id = self.next;
        let mut part = |f: &NestedFieldRef| -> Result<NestedFieldRef> {
            self.path.push(f.name.clone());
            let new = self.fresh(f)?;
            self.path.pop();
            Ok(new.into())
        };
        new.field_type = Box::new(match s.field_type.as_ref() {
            Type::Primitive(p) => Type::Primitive(p.clone()),
            Type::Struct(t) => {
                Type::Struct(StructType::new(t.fields().iter().map(&mut part).collect::<Result<Vec<_>>>()?))
            }
            Type::List(t) => Type::List(ListType { element_field: part(&t.element_field)? }),
            Type::Map(t) => Type::Map(MapType { key_field: part(&t.key_field)?, value_field: part(&t.value_field)? }),
        });
        Ok(new)
    }
}
