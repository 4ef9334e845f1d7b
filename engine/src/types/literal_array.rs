//! Between Arrow arrays and literals, for every type.

use std::sync::Arc;

use arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    ListArray, MapArray, PrimitiveArray, StringArray, StringViewArray, StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{ArrowPrimitiveType, DataType, TimeUnit};
use iceberg::spec::{Literal, Map, PrimitiveLiteral, PrimitiveType, Type};

use crate::{Error, Result};

/// Value of one row as a literal of type `t`; `None` is null. Strings and binaries may be plain, large or views.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] when the array's type is not one of `t`.
pub fn array_value(array: &dyn Array, row: usize, t: &Type) -> Result<Option<Literal>> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok(None);
    }
    let mismatch = || Error::internal(format!("Arrow array of type {} holds no {t}", array.data_type()));
    Ok(Some(match t {
        Type::Primitive(p) => Literal::Primitive(primitive_value(array, row, p).ok_or_else(mismatch)?),
        Type::Struct(s) => {
            let a = array.as_struct_opt().ok_or_else(mismatch)?;
            if a.num_columns() != s.fields().len() {
                return Err(mismatch());
            }
            let values = s.fields().iter().zip(a.columns()).map(|(f, c)| array_value(c, row, &f.field_type));
            Literal::Struct(values.collect::<Result<Vec<_>>>()?.into_iter().collect())
        }
        Type::List(l) => {
            let items = array.as_list_opt::<i32>().ok_or_else(mismatch)?.value(row);
            let values = (0..items.len()).map(|i| array_value(&items, i, &l.element_field.field_type));
            Literal::List(values.collect::<Result<_>>()?)
        }
        Type::Map(m) => {
            let entries = array.as_map_opt().ok_or_else(mismatch)?.value(row);
            let mut map = Map::new();
            for i in 0..entries.len() {
                let key = array_value(entries.column(0), i, &m.key_field.field_type)?
                    .ok_or_else(|| Error::malformed("a map key is null").clause("TYPE-11"))?;
                map.insert(key, array_value(entries.column(1), i, &m.value_field.field_type)?);
            }
            Literal::Map(map)
        }
    }))
}

pub(super) fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => return None,
    })
}

pub(super) fn str_at(array: &dyn Array, row: usize) -> Option<&str> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        _ => return None,
    })
}

fn primitive_value(array: &dyn Array, row: usize, p: &PrimitiveType) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    Some(match (p, array.data_type()) {
        (P::Boolean, DataType::Boolean) => L::Boolean(array.as_boolean().value(row)),
        (P::Int, DataType::Int32) => L::Int(array.as_primitive::<Int32Type>().value(row)),
        (P::Long, DataType::Int64) => L::Long(array.as_primitive::<Int64Type>().value(row)),
        (P::Float, DataType::Float32) => L::Float(array.as_primitive::<Float32Type>().value(row).into()),
        (P::Double, DataType::Float64) => L::Double(array.as_primitive::<Float64Type>().value(row).into()),
        (P::Decimal { scale, .. }, DataType::Decimal128(_, s)) if *scale as i8 == *s => {
            L::Int128(array.as_primitive::<Decimal128Type>().value(row))
        }
        (P::Date, DataType::Date32) => L::Int(array.as_primitive::<Date32Type>().value(row)),
        (P::Time, DataType::Time64(TimeUnit::Microsecond)) => {
            L::Long(array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        (P::Timestamp | P::Timestamptz, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            L::Long(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        (P::TimestampNs | P::TimestamptzNs, DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            L::Long(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        (P::String, _) => L::String(str_at(array, row)?.to_string()),
        (P::Uuid, DataType::FixedSizeBinary(16)) => {
            L::UInt128(u128::from_be_bytes(bytes_at(array, row)?.try_into().ok()?))
        }
        (P::Fixed(_) | P::Binary, _) => L::Binary(bytes_at(array, row)?.to_vec()),
        _ => return None,
    })
}

/// An array of `len` times one literal, or of nulls, in the Arrow type `data_type`; for constants and defaults.
/// Struct members that the literal lacks are null (DEFV-6 is the caller's: it fills defaults of children).
///
/// # Errors
/// [`crate::ErrorKind::Internal`] when the literal does not fit the Arrow type.
pub fn literal_to_array(lit: Option<&Literal>, data_type: &DataType, len: usize) -> Result<ArrayRef> {
    let Some(lit) = lit else {
        return Ok(new_null_array(data_type, len));
    };
    let one = one(lit, data_type)?;
    if len == 1 {
        return Ok(one);
    }
    Ok(take(&one, &UInt32Array::from_value(0, len), None)?)
}

fn prim<T: ArrowPrimitiveType>(v: T::Native, t: &DataType) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(v, 1).with_data_type(t.clone()))
}

fn one(lit: &Literal, t: &DataType) -> Result<ArrayRef> {
    use PrimitiveLiteral as L;
    let mismatch = || Error::internal(format!("literal {lit:?} does not fit Arrow type {t}"));
    Ok(match (lit, t) {
        (Literal::Primitive(p), _) => match (p, t) {
            (L::Boolean(v), DataType::Boolean) => Arc::new(BooleanArray::from(vec![*v])),
            (L::Int(v), DataType::Int32) => prim::<Int32Type>(*v, t),
            (L::Int(v), DataType::Date32) => prim::<Date32Type>(*v, t),
            (L::Int(v), DataType::Int64) => prim::<Int64Type>((*v).into(), t),
            (L::Long(v), DataType::Int64) => prim::<Int64Type>(*v, t),
            (L::Long(v), DataType::Time64(TimeUnit::Microsecond)) => prim::<Time64MicrosecondType>(*v, t),
            (L::Long(v), DataType::Timestamp(TimeUnit::Microsecond, _)) => prim::<TimestampMicrosecondType>(*v, t),
            (L::Long(v), DataType::Timestamp(TimeUnit::Nanosecond, _)) => prim::<TimestampNanosecondType>(*v, t),
            (L::Float(v), DataType::Float32) => prim::<Float32Type>(v.0, t),
            (L::Float(v), DataType::Float64) => prim::<Float64Type>(v.0.into(), t),
            (L::Double(v), DataType::Float64) => prim::<Float64Type>(v.0, t),
            (L::String(v), DataType::Utf8) => Arc::new(StringArray::from(vec![v.as_str()])),
            (L::String(v), DataType::Utf8View) => Arc::new(StringViewArray::from(vec![v.as_str()])),
            (L::Binary(v), DataType::Binary) => Arc::new(BinaryArray::from(vec![v.as_slice()])),
            (L::Binary(v), DataType::BinaryView) => Arc::new(BinaryViewArray::from(vec![v.as_slice()])),
            (L::Binary(v), DataType::FixedSizeBinary(n)) if v.len() as i32 == *n => {
                Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(v))?)
            }
            (L::UInt128(v), DataType::FixedSizeBinary(16)) => {
                Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(v.to_be_bytes()))?)
            }
            (L::Int128(v), DataType::Decimal128(p, s)) => {
                Arc::new(Decimal128Array::from(vec![*v]).with_precision_and_scale(*p, *s)?)
            }
            _ => return Err(mismatch()),
        },
        (Literal::Struct(values), DataType::Struct(fields)) => {
            if values.fields().len() != fields.len() {
                return Err(mismatch());
            }
            let columns = fields.iter().zip(values.iter()).map(|(f, v)| literal_to_array(v, f.data_type(), 1));
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns.collect::<Result<_>>()?, None, 1)?)
        }
        (Literal::List(items), DataType::List(f)) => {
            let values = concat(items.iter().map(Option::as_ref), f.data_type())?;
            Arc::new(ListArray::try_new(f.clone(), OffsetBuffer::from_lengths([items.len()]), values, None)?)
        }
        (Literal::Map(map), DataType::Map(f, sorted)) => {
            let DataType::Struct(kv) = f.data_type() else {
                return Err(mismatch());
            };
            let pairs: Vec<_> = map.clone().into_iter().collect();
            let keys = concat(pairs.iter().map(|(k, _)| Some(k)), kv[0].data_type())?;
            let values = concat(pairs.iter().map(|(_, v)| v.as_ref()), kv[1].data_type())?;
            let entries = StructArray::try_new_with_length(kv.clone(), vec![keys, values], None, pairs.len())?;
            Arc::new(MapArray::try_new(f.clone(), OffsetBuffer::from_lengths([pairs.len()]), entries, None, *sorted)?)
        }
        _ => return Err(mismatch()),
    })
}

fn concat<'a>(items: impl Iterator<Item = Option<&'a Literal>>, t: &DataType) -> Result<ArrayRef> {
    let parts: Vec<ArrayRef> = items.map(|i| literal_to_array(i, t, 1)).collect::<Result<_>>()?;
    if parts.is_empty() {
        return Ok(new_null_array(t, 0));
    }
    Ok(arrow::compute::concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
}
