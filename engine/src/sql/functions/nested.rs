//! Constructors of nested values, and the cast by position that writes use.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, MapArray, StructArray, UInt32Array, new_empty_array,
    new_null_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options, concat, take};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{DFSchema, exec_err, plan_err};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use super::Simple;

pub(super) fn all() -> Vec<ScalarUDF> {
    vec![
        Simple::udf("struct", &[], Simple::any(), struct_type, make_struct),
        Simple::udf("spark_map", &[], Simple::any(), map_type, make_map),
        Simple::udf("array", &[], Simple::any(), array_type, make_array),
    ]
}

fn struct_type(types: &[DataType]) -> DfResult<DataType> {
    if types.is_empty() {
        return plan_err!("struct takes at least one argument");
    }
    Ok(DataType::Struct(
        types.iter().enumerate().map(|(i, t)| Field::new(format!("col{}", i + 1), t.clone(), true)).collect(),
    ))
}

fn make_struct(args: &[ArrayRef], ty: &DataType, rows: usize) -> DfResult<ArrayRef> {
    let DataType::Struct(fields) = ty else {
        return exec_err!("struct: unexpected type {ty}");
    };
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), args.to_vec(), None, rows)?))
}

/// The type that all of these have in common; nulls take any.
fn common<'t>(what: &str, types: impl Iterator<Item = &'t DataType>) -> DfResult<DataType> {
    let mut out = DataType::Null;
    for t in types {
        if t.is_null() || *t == out {
            continue;
        }
        out = match &out {
            DataType::Null => t.clone(),
            have => match comparison_coercion(have, t) {
                Some(both) => both,
                None => return plan_err!("{what}: {have} and {t} have no type in common"),
            },
        };
    }
    Ok(out)
}

fn array_type(types: &[DataType]) -> DfResult<DataType> {
    Ok(DataType::List(Arc::new(Field::new_list_field(common("array", types.iter())?, true))))
}

fn make_array(args: &[ArrayRef], ty: &DataType, rows: usize) -> DfResult<ArrayRef> {
    let DataType::List(field) = ty else {
        return exec_err!("array: unexpected type {ty}");
    };
    let values = interleave(args, field.data_type(), rows)?;
    let offsets: Vec<i32> = (0..=rows).map(|r| (r * args.len()) as i32).collect();
    Ok(Arc::new(ListArray::try_new(field.clone(), OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None)?))
}

/// Row by row: the first value of each argument, then the second of each, …
fn interleave(args: &[ArrayRef], ty: &DataType, rows: usize) -> DfResult<ArrayRef> {
    if args.is_empty() {
        return Ok(new_empty_array(ty));
    }
    let columns = args.iter().map(|a| cast_by_position(a, ty)).collect::<DfResult<Vec<_>>>()?;
    let refs: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let all = concat(&refs)?;
    let order: UInt32Array = (0..rows).flat_map(|r| (0..columns.len()).map(move |c| (c * rows + r) as u32)).collect();
    Ok(take(&all, &order, None)?)
}

fn map_type(types: &[DataType]) -> DfResult<DataType> {
    if !types.len().is_multiple_of(2) {
        return plan_err!("map takes pairs of key and value, not {} arguments", types.len());
    }
    let mut key = common("keys of map", types.iter().step_by(2))?;
    if key.is_null() {
        key = DataType::Utf8;
    }
    let value = common("values of map", types.iter().skip(1).step_by(2))?;
    let entries = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    Ok(DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false))
}

fn make_map(args: &[ArrayRef], ty: &DataType, rows: usize) -> DfResult<ArrayRef> {
    let DataType::Map(entry, sorted) = ty else {
        return exec_err!("map: unexpected type {ty}");
    };
    let DataType::Struct(fields) = entry.data_type() else {
        return exec_err!("map: unexpected type {ty}");
    };
    let every = |from: usize| args.iter().skip(from).step_by(2).cloned().collect::<Vec<_>>();
    let keys = interleave(&every(0), fields[0].data_type(), rows)?;
    if keys.null_count() > 0 {
        return exec_err!("map: a key is null");
    }
    let values = interleave(&every(1), fields[1].data_type(), rows)?;
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let offsets: Vec<i32> = (0..=rows).map(|r| (r * (args.len() / 2)) as i32).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(MapArray::try_new(entry.clone(), offsets, entries, None, *sorted)?))
}

/// Casts an array; fields of structs go by position, as Spark's writes do. A value that does not fit is an error.
pub(crate) fn cast_by_position(array: &ArrayRef, to: &DataType) -> DfResult<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }
    match (from, to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (DataType::Struct(have), DataType::Struct(want)) => {
            if have.len() != want.len() {
                return exec_err!("a struct of {} fields is no struct of {}", have.len(), want.len());
            }
            let s = array.as_struct();
            let columns = s
                .columns()
                .iter()
                .zip(want)
                .map(|(c, f)| cast_by_position(c, f.data_type()))
                .collect::<DfResult<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(want.clone(), columns, s.nulls().cloned(), s.len())?))
        }
        (DataType::List(_), DataType::List(f)) => {
            let l = array.as_list::<i32>();
            let values = cast_by_position(l.values(), f.data_type())?;
            Ok(Arc::new(ListArray::try_new(f.clone(), l.offsets().clone(), values, l.nulls().cloned())?))
        }
        (DataType::Map(..), DataType::Map(entry, sorted)) => {
            let m = array.as_map();
            let DataType::Struct(fields) = entry.data_type() else {
                return exec_err!("unexpected map type {to}");
            };
            let keys = cast_by_position(m.keys(), fields[0].data_type())?;
            let values = cast_by_position(m.values(), fields[1].data_type())?;
            let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            Ok(Arc::new(MapArray::try_new(entry.clone(), m.offsets().clone(), entries, m.nulls().cloned(), *sorted)?))
        }
        (DataType::Utf8, DataType::FixedSizeBinary(16)) => {
            let parsed = array.as_string::<i32>().iter().map(|v| v.map(uuid::Uuid::parse_str).transpose());
            let bytes = parsed.collect::<Result<Vec<_>, _>>().or_else(|e| exec_err!("not a UUID: {e}"))?;
            let bytes = bytes.iter().map(|u| u.as_ref().map(|u| u.as_bytes().as_slice()));
            Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16)?))
        }
        _ => Ok(cast_with_options(array, to, &CastOptions { safe: false, ..Default::default() })?),
    }
}

/// An expression as a value of a column of type `to`, by Spark's rules for writes: numbers and times convert when they
/// fit, structs go by position; text to a number or a time, for instance, is refused at planning.
pub fn assign(expr: Expr, schema: &DFSchema, to: &DataType, column: &str) -> DfResult<Expr> {
    let from = expr.get_type(schema)?;
    if from == *to {
        return Ok(expr);
    }
    if !assignable(&from, to) {
        return refused(&from, to, column);
    }
    let by_position = to.is_nested() || matches!(to, DataType::FixedSizeBinary(_));
    if by_position && !from.is_null() {
        return Ok(assign_udf("cast_by_position", to, column).call(vec![expr]));
    }
    Ok(cast(expr, to.clone()))
}

fn refused<T>(from: &DataType, to: &DataType, column: &str) -> DfResult<T> {
    plan_err!("cannot safely write {from} to column {column:?} of {to}; an explicit CAST says how")
}

/// The cast of [`assign`] as a function: what text can't be assigned is refused when the call is planned.
pub fn assign_udf(name: &str, to: &DataType, column: &str) -> ScalarUDF {
    ScalarUDF::new_from_impl(CastByPosition {
        name: name.to_string(),
        column: column.to_string(),
        to: to.clone(),
        signature: Signature::any(1, Volatility::Immutable),
    })
}

/// Column type and column of a function that [`assign_udf`] made; `None` for any other function.
pub fn assign_parts(f: &ScalarUDF) -> Option<(&DataType, &str)> {
    f.inner().as_any().downcast_ref::<CastByPosition>().map(|c| (&c.to, c.column.as_str()))
}

/// Spark's ANSI store assignment.
fn assignable(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (T::Null, _) => true,
        (f, t) if f == t => true,
        (f, t) if f.is_numeric() && t.is_numeric() => true,
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::FixedSizeBinary(16)) => true,
        (f, T::Utf8) => !f.is_nested() && !f.is_binary(),
        (
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_),
            T::Binary | T::LargeBinary | T::FixedSizeBinary(_),
        ) => true,
        (T::Date32 | T::Timestamp(..), T::Date32 | T::Timestamp(..)) | (T::Time64(_), T::Time64(_)) => true,
        (T::Struct(f), T::Struct(t)) => {
            f.len() == t.len() && f.iter().zip(t).all(|(f, t)| assignable(f.data_type(), t.data_type()))
        }
        (T::List(f), T::List(t)) | (T::Map(f, _), T::Map(t, _)) => assignable(f.data_type(), t.data_type()),
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CastByPosition {
    name: String,
    column: String,
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for CastByPosition {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, from: &[DataType]) -> DfResult<DataType> {
        match from {
            [from] if !assignable(from, &self.to) => refused(from, &self.to, &self.column),
            _ => Ok(self.to.clone()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(a) => Ok(ColumnarValue::Array(cast_by_position(a, &self.to)?)),
            ColumnarValue::Scalar(s) => {
                let one = cast_by_position(&s.to_array()?, &self.to)?;
                Ok(ColumnarValue::Scalar(datafusion::scalar::ScalarValue::try_from_array(&one, 0)?))
            }
        }
    }
}
