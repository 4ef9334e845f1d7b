//! The type of a column that no table tells: `boolean`, `long`, `double`, `string`, lists and structs of them.

use std::sync::Arc;

use iceberg::spec::{ListType, NestedField, PrimitiveType, StructType, Type};

use super::json::{Cell, Json, Text, elements, members};
use super::values::Exact;
use crate::Result;

/// Values nested deeper than this are refused.
const DEEPEST: usize = 50;

/// The largest integer up to which `double` holds every one.
const EXACT_IN_DOUBLE: i128 = 1 << 53;

/// A column of the type of its values. Errors: values of two kinds, an integer that is no `long`, objects without a field.
pub(super) fn field(text: &Text<'_>, path: &str, cells: &[Cell<'_>]) -> Result<NestedField> {
    Ok(NestedField::optional(0, path, of(text, path, cells, 0)?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    fn of(json: &Json<'_>) -> Self {
        match json {
            Json::Key(_) => Self::String,
            Json::Raw(r) => match r.as_bytes().first() {
                Some(b'{') => Self::Object,
                Some(b'[') => Self::Array,
                Some(b'"') => Self::String,
                Some(b't' | b'f') => Self::Boolean,
                _ => Self::Number,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "booleans",
            Self::Number => "numbers",
            Self::String => "strings",
            Self::Array => "arrays",
            Self::Object => "objects",
        }
    }
}

fn of(text: &Text<'_>, path: &str, cells: &[Cell<'_>], depth: usize) -> Result<Type> {
    let mut given = cells.iter().filter_map(|c| Some((c, Kind::of(c.value.as_ref()?))));
    let Some((first, kind)) = given.next() else {
        // nothing is known of it
        return Ok(Type::Primitive(PrimitiveType::String));
    };
    if let Some((other, _)) = given.find(|(_, k)| *k != kind) {
        let message = format!(
            "column {path:?} holds {} in other rows, and cannot hold {}: its type is taken from the rows",
            kind.name(),
            other.shown()
        );
        return Err(text.error(other.at, &message));
    }
    if depth > DEEPEST {
        return Err(text.error(first.at, &format!("column {path:?} is nested deeper than {DEEPEST} levels")));
    }
    match kind {
        Kind::Boolean => Ok(Type::Primitive(PrimitiveType::Boolean)),
        Kind::String => Ok(Type::Primitive(PrimitiveType::String)),
        Kind::Number => number(text, path, cells),
        Kind::Array => {
            let mut items = Vec::new();
            for c in cells {
                items.extend(elements(text, c)?.unwrap_or_default());
            }
            let item = of(text, &format!("{path}.element"), &items, depth + 1)?;
            Ok(Type::List(ListType::new(Arc::new(NestedField::list_element(0, item, false)))))
        }
        Kind::Object => {
            let mut fields = Vec::new();
            for (name, cells) in members(text, &format!("{path}."), cells)? {
                let t = of(text, &format!("{path}.{name}"), &cells, depth + 1)?;
                fields.push(Arc::new(NestedField::optional(0, name, t)));
            }
            if fields.is_empty() {
                return Err(text.error(first.at, &format!("column {path:?} holds objects without a field")));
            }
            Ok(Type::Struct(StructType::new(fields)))
        }
    }
}

/// `long` when all are written as integers, else `double`.
fn number(text: &Text<'_>, path: &str, cells: &[Cell<'_>]) -> Result<Type> {
    let numbers = || cells.iter().filter_map(|c| Some((c, c.value.as_ref()?.number()?)));
    let integral = |n: &str| !n.contains(['.', 'e', 'E']);
    let fraction = numbers().any(|(_, n)| !integral(n));
    let fits = |n: &str| match Exact::parse(n).and_then(|e| e.scaled(0)) {
        Some(v) if fraction => v.abs() <= EXACT_IN_DOUBLE,
        Some(v) => i64::try_from(v).is_ok(),
        None => false,
    };
    match numbers().find(|(_, n)| integral(n) && !fits(n)) {
        Some((c, _)) => {
            let t = if fraction { "double" } else { "long" };
            let message = format!(
                "column {path:?} would be {t}, its type being taken from the rows, and cannot hold {}; create the table first, \
                 with a type that can",
                c.shown()
            );
            Err(text.error(c.at, &message))
        }
        None if fraction => Ok(Type::Primitive(PrimitiveType::Double)),
        None => Ok(Type::Primitive(PrimitiveType::Long)),
    }
}
