//! Which columns a changelog gives: `keep`, `drop`, nested fields by dotted name.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, FieldRef};
use iceberg::spec::{NestedField, NestedFieldRef, Schema, StructType, Type};

use super::config::Columns;
use crate::{Error, Result};

/// The fields that `columns` leaves of a schema; field order is the table's.
pub fn project(schema: &Schema, columns: &Columns) -> Result<Vec<NestedFieldRef>> {
    let fields = schema.as_struct().fields();
    let paths = |names: &[String]| -> Result<Vec<Vec<String>>> {
        names
            .iter()
            .map(|n| {
                let path: Vec<String> = n.split('.').map(str::to_string).collect();
                // a column's own name may hold a dot
                if fields.iter().any(|f| f.name == *n) {
                    return Ok(vec![n.clone()]);
                }
                if schema.field_by_name(n).is_none() || !through_structs(fields, &path) {
                    return Err(unknown(n, schema));
                }
                Ok(path)
            })
            .collect()
    };
    let out = match columns {
        Columns::All => fields.to_vec(),
        Columns::Keep(names) => {
            let paths = paths(names)?;
            fields.iter().filter_map(|f| keep(f, &paths.iter().map(Vec::as_slice).collect::<Vec<_>>())).collect()
        }
        Columns::Drop(names) => {
            let paths = paths(names)?;
            fields.iter().filter_map(|f| drop_from(f, &paths.iter().map(Vec::as_slice).collect::<Vec<_>>())).collect()
        }
        Columns::Only(name) => {
            let f = fields.iter().find(|f| f.name == *name).ok_or_else(|| unknown(name, schema))?;
            match f.field_type.as_ref() {
                Type::Struct(s) => s.fields().to_vec(),
                _ => {
                    return Err(Error::invalid(format!(
                        "key `only`: column {name} is no struct; a struct column is required"
                    )));
                }
            }
        }
    };
    if out.is_empty() {
        return Err(Error::invalid("`drop` leaves no column; at least one must stay"));
    }
    Ok(out)
}

/// The error for a column that is not there.
pub fn unknown(name: &str, schema: &Schema) -> Error {
    let names: Vec<_> = schema.as_struct().fields().iter().map(|f| f.name.as_str()).collect();
    Error::invalid(format!("no column {name:?}; there are: {}", names.join(", ")))
}

/// Elements of lists and maps can't be kept or dropped alone.
fn through_structs(fields: &[NestedFieldRef], path: &[String]) -> bool {
    let Some(f) = fields.iter().find(|f| f.name == path[0]) else {
        return false;
    };
    match (path.len(), f.field_type.as_ref()) {
        (1, _) => true,
        (_, Type::Struct(s)) => through_structs(s.fields(), &path[1..]),
        _ => false,
    }
}

fn with_struct(f: &NestedFieldRef, fields: Vec<NestedFieldRef>) -> NestedFieldRef {
    let mut new: NestedField = f.as_ref().clone();
    new.field_type = Box::new(Type::Struct(StructType::new(fields)));
    Arc::new(new)
}

fn keep(f: &NestedFieldRef, paths: &[&[String]]) -> Option<NestedFieldRef> {
    let mine: Vec<&[String]> = paths.iter().filter(|p| p[0] == f.name).map(|p| &p[1..]).collect();
    if mine.is_empty() {
        return None;
    }
    match f.field_type.as_ref() {
        Type::Struct(s) if mine.iter().all(|p| !p.is_empty()) => {
            Some(with_struct(f, s.fields().iter().filter_map(|f| keep(f, &mine)).collect()))
        }
        _ => Some(f.clone()),
    }
}

fn drop_from(f: &NestedFieldRef, paths: &[&[String]]) -> Option<NestedFieldRef> {
    let mine: Vec<&[String]> = paths.iter().filter(|p| p[0] == f.name).map(|p| &p[1..]).collect();
    if mine.iter().any(|p| p.is_empty()) {
        return None;
    }
    match f.field_type.as_ref() {
        Type::Struct(s) if !mine.is_empty() => {
            let left: Vec<_> = s.fields().iter().filter_map(|f| drop_from(f, &mine)).collect();
            (!left.is_empty()).then(|| with_struct(f, left))
        }
        _ => Some(f.clone()),
    }
}

/// The part of a column that a pruned field asks for.
pub fn prune(column: &ArrayRef, to: &FieldRef) -> Result<ArrayRef> {
    match (column.data_type(), to.data_type()) {
        (from, want) if from == want => Ok(column.clone()),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let s = column.as_struct();
            let columns = fields
                .iter()
                .map(|f| {
                    let c =
                        s.column_by_name(f.name()).ok_or_else(|| Error::internal(format!("no field {}", f.name())))?;
                    prune(c, f)
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, s.nulls().cloned(), s.len())?))
        }
        (DataType::List(_), DataType::List(element)) => {
            let l = column.as_list::<i32>();
            let values = prune(l.values(), element)?;
            Ok(Arc::new(ListArray::try_new(element.clone(), l.offsets().clone(), values, l.nulls().cloned())?))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let m = column.as_map();
            let DataType::Struct(kv) = entries.data_type() else {
                return Err(Error::internal("a map without entries"));
            };
            let parts = vec![prune(m.keys(), &kv[0])?, prune(m.values(), &kv[1])?];
            let pairs = StructArray::try_new_with_length(kv.clone(), parts, None, m.entries().len())?;
            Ok(Arc::new(MapArray::try_new(entries.clone(), m.offsets().clone(), pairs, m.nulls().cloned(), *sorted)?))
        }
        (from, want) => Err(Error::internal(format!("a column of type {from} was read where {want} is expected"))),
    }
}
