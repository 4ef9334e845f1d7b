//! How the source's columns differ from the target's, by name, and the statements that would mend it.

use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Type};

use super::drift::{Drift, Move};
use crate::types::{ExtTypes, type_name};
use crate::{Error, Result, Table};

/// Columns of the source that do not fit the target. Columns that only the target has are its own business.
#[derive(Debug, Default, PartialEq)]
pub struct Difference {
    /// Columns that the target lacks: dotted name, type.
    pub missing: Vec<(String, String)>,
    /// Columns whose type differs: dotted name, source type, target type.
    pub other_type: Vec<(String, String, String)>,
}

/// Whether values of the source's type fit the target's as they are, or widened (EVO-2, EVO-4, EVO-5).
pub fn widens(source: &PrimitiveType, target: &PrimitiveType) -> bool {
    use PrimitiveType as P;
    match (source, target) {
        (P::Int, P::Long) | (P::Float, P::Double) => true,
        (P::Decimal { precision: p, scale: a }, P::Decimal { precision: q, scale: b }) => a == b && q >= p,
        (a, b) => a == b,
    }
}

impl Difference {
    /// Compares fields of the source, whose extended types are `ext`, with the target's current schema.
    pub fn of(fields: &[NestedFieldRef], ext: &ExtTypes, target: &Table) -> Self {
        let m = target.metadata();
        let mut out = Self::default();
        out.structs("", fields, ext, m.current_schema().as_struct().fields(), &m.ext);
        out
    }

    fn structs(
        &mut self,
        prefix: &str,
        source: &[NestedFieldRef],
        ext: &ExtTypes,
        target: &[NestedFieldRef],
        target_ext: &ExtTypes,
    ) {
        for s in source {
            let path = format!("{prefix}{}", s.name);
            match target.iter().find(|t| t.name == s.name) {
                None => self.missing.push((path, type_name(s, ext))),
                Some(t) => self.field(&path, s, ext, t, target_ext),
            }
        }
    }

    fn field(&mut self, path: &str, s: &NestedField, ext: &ExtTypes, t: &NestedField, target_ext: &ExtTypes) {
        let (a, b) = (type_name(s, ext), type_name(t, target_ext));
        if a == b {
            return;
        }
        let plain = ext.of(s).is_none() && target_ext.of(t).is_none();
        match (s.field_type.as_ref(), t.field_type.as_ref()) {
            (Type::Primitive(x), Type::Primitive(y)) if plain && widens(x, y) => {}
            (Type::Struct(x), Type::Struct(y)) => {
                self.structs(&format!("{path}."), x.fields(), ext, y.fields(), target_ext);
            }
            (Type::List(x), Type::List(y)) => {
                self.field(&format!("{path}.element"), &x.element_field, ext, &y.element_field, target_ext);
            }
            (Type::Map(x), Type::Map(y)) => {
                self.field(&format!("{path}.key"), &x.key_field, ext, &y.key_field, target_ext);
                self.field(&format!("{path}.value"), &x.value_field, ext, &y.value_field, target_ext);
            }
            _ => self.other_type.push((path.to_string(), a, b)),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.other_type.is_empty()
    }
}

/// The error of a sync that must not change the target, or not like that: columns, and the statements that would mend it.
pub fn refuse(difference: &Difference, drift: &Drift, target: &Table) -> Error {
    let (mut parts, mut commands, mut needs) = (Vec::new(), Vec::new(), "add");
    let table = target.ident();
    let moved: Vec<(String, &Move)> = drift.harmful().collect();
    for (path, m) in &moved {
        needs = "full";
        match m {
            Move::Renamed(to) => {
                parts.push(format!("the source renamed column {path} to {to}"));
                commands.push(format!("ALTER TABLE {table} RENAME COLUMN {path} TO {to}"));
            }
            _ => {
                parts.push(format!("the source dropped column {path} and added another of that name"));
                commands.push(format!("ALTER TABLE {table} DROP COLUMN {path}"));
            }
        }
    }
    let renamed_to = |name: &String| {
        moved.iter().any(|(path, m)| match m {
            Move::Renamed(to) => {
                let parent = path.rsplit_once('.').map_or(String::new(), |(p, _)| format!("{p}."));
                *name == format!("{parent}{to}")
            }
            _ => false,
        })
    };
    for (name, ty) in difference.missing.iter().filter(|(n, _)| !renamed_to(n)) {
        parts.push(format!("column {name} {ty} is missing"));
        commands.push(format!("ALTER TABLE {table} ADD COLUMN {name} {}", sql_type(ty)));
    }
    for (name, from, to) in &difference.other_type {
        parts.push(format!("column {name} is {to}, the source has {from}"));
        commands.push(format!("ALTER TABLE {table} ALTER COLUMN {name} TYPE {}", sql_type(from)));
    }
    Error::invalid(format!(
        "the target's schema does not fit the source's: {}. Run: {}; or set `sync.schema_evolution: {needs}`",
        parts.join("; "),
        commands.join("; ")
    ))
    .at(table)
}

/// The target's type after a widening of the source's.
pub fn widen(path: &str, source: &PrimitiveType, target: &PrimitiveType) -> Result<Type> {
    if widens(source, target) {
        return Ok(Type::Primitive(target.clone()));
    }
    if widens(target, source) {
        return Ok(Type::Primitive(source.clone()));
    }
    Err(Error::invalid(format!(
        "column {path} is {target} in the target and {source} in the source; allowed widenings: int to long, float to double, \
         decimal to more digits"
    ))
    .clause("EVO-1"))
}

/// Iceberg's word for a type in SQL.
fn sql_type(t: &str) -> String {
    match t {
        "long" => "BIGINT".into(),
        "timestamptz" => "TIMESTAMP".into(),
        "timestamp" => "TIMESTAMP_NTZ".into(),
        other => other.replace("long", "bigint").to_uppercase(),
    }
}
