//! Parts of schemas and of rows: the columns that lead to given fields, through structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, RecordBatch, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, SchemaRef};
use iceberg::spec::{NestedField, NestedFieldRef, Schema, StructType, Type};

use crate::{Error, Result};

/// The fields that are, or through structs lead to, the given ids; structs keep nothing else. Table order.
pub fn prune_fields(fields: &[NestedFieldRef], ids: &[i32]) -> Vec<NestedFieldRef> {
    fields
        .iter()
        .filter_map(|f| {
            if ids.contains(&f.id) {
                return Some(f.clone());
            }
            let Type::Struct(s) = f.field_type.as_ref() else { return None };
            let inner = prune_fields(s.fields(), ids);
            (!inner.is_empty()).then(|| with_type(f, Type::Struct(StructType::new(inner))))
        })
        .collect()
}

/// The field with every level optional: what a reader of old files may rely on.
pub fn optional(f: &NestedFieldRef) -> NestedFieldRef {
    let mut new: NestedField = f.as_ref().clone();
    new.required = false;
    if let Type::Struct(s) = f.field_type.as_ref() {
        new.field_type = Box::new(Type::Struct(StructType::new(s.fields().iter().map(optional).collect())));
    }
    Arc::new(new)
}

fn with_type(f: &NestedFieldRef, t: Type) -> NestedFieldRef {
    let mut new: NestedField = f.as_ref().clone();
    new.field_type = Box::new(t);
    Arc::new(new)
}

/// Names that lead to the field `name`, dots going into structs; a column whose own name holds the dots comes first.
/// `None` for a field that is not there, or is part of a list or map.
pub fn field_path(schema: &Schema, name: &str) -> Option<Vec<String>> {
    fn walk(fields: &[NestedFieldRef], path: &[&str]) -> bool {
        let Some(f) = fields.iter().find(|f| f.name == path[0]) else { return false };
        match (path.len(), f.field_type.as_ref()) {
            (1, _) => true,
            (_, Type::Struct(s)) => walk(s.fields(), &path[1..]),
            _ => false,
        }
    }
    let fields = schema.as_struct().fields();
    if fields.iter().any(|f| f.name == name) {
        return Some(vec![name.to_string()]);
    }
    let path: Vec<&str> = name.split('.').collect();
    walk(fields, &path).then(|| path.into_iter().map(str::to_string).collect())
}

/// The column that names lead to, through structs; a null parent makes a null leaf (EQDEL-3).
pub fn column_at(rows: &RecordBatch, path: &[String]) -> Option<ArrayRef> {
    let (first, rest) = path.split_first()?;
    let mut at = rows.column_by_name(first)?.clone();
    for name in rest {
        let s: &StructArray = at.as_struct_opt()?;
        let child = s.column_by_name(name)?;
        at = match s.nulls() {
            Some(_) => arrow::compute::nullif(child, &arrow::compute::is_null(s).ok()?).ok()?,
            None => child.clone(),
        };
    }
    Some(at)
}

/// Rows brought to a schema by name: structs lose what it lacks, leaves are cast without loss.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a column that the rows lack, or whose values do not fit.
pub fn select_fields(rows: &RecordBatch, to: &SchemaRef) -> Result<RecordBatch> {
    let columns = to
        .fields()
        .iter()
        .map(|f| {
            let c = rows.column_by_name(f.name()).ok_or_else(|| missing(f))?;
            select(c, f)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(to.clone(), columns)?)
}

fn missing(f: &FieldRef) -> Error {
    Error::invalid(format!("the rows have no column {:?}", f.name()))
}

fn select(column: &ArrayRef, to: &FieldRef) -> Result<ArrayRef> {
    Ok(match (column.data_type(), to.data_type()) {
        (from, want) if from == want => column.clone(),
        (DataType::Null, want) => new_null_array(want, column.len()),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let s = column.as_struct();
            let columns = fields
                .iter()
                .map(|f| select(s.column_by_name(f.name()).ok_or_else(|| missing(f))?, f))
                .collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, s.nulls().cloned(), s.len())?)
        }
        (_, want) => {
            let options = CastOptions { safe: false, format_options: Default::default() };
            cast_with_options(column, want, &options)
                .map_err(|e| Error::invalid(format!("column {:?}: {e}", to.name())))?
        }
    })
}

/// One bit pattern for every NaN, as Java compares; -0.0 and 0.0 stay apart.
pub fn canonical_nans(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let a: Float32Array = array.as_primitive::<Float32Type>().unary(|v| if v.is_nan() { f32::NAN } else { v });
            Arc::new(a)
        }
        DataType::Float64 => {
            let a: Float64Array = array.as_primitive::<Float64Type>().unary(|v| if v.is_nan() { f64::NAN } else { v });
            Arc::new(a)
        }
        _ => array,
    }
}
