//! Partition transforms (PART-20..28, HASH-*, TRUNC-*, TIME-*).
//!
//! Own code instead of `iceberg::transform`, which is wrong in two places: it reduces nanoseconds to microseconds by
//! division towards zero, so `bucket` of a negative `timestamp_ns` differs from Java's floor (HASH-4), and it panics or
//! wraps differently on integers near their minimum (TRUNC-4). It also takes no view arrays. A test shows the first.

use std::sync::Arc;

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, PrimitiveArray, StringArray, new_null_array};
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{Datelike, NaiveDate};
use iceberg::spec::{Literal, PartitionField, PrimitiveLiteral, PrimitiveType, Schema, Transform, Type};

use super::ExtTypes;
use super::arrow_schema::arrow_type;
use super::literal::decimal_bytes;
use super::literal_array::{bytes_at, str_at};
use crate::{Error, Result};

/// Murmur3 x86 32-bit with seed 0 (HASH-1).
pub fn hash_bytes(bytes: &[u8]) -> i32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let mix = |k: u32| k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let mut h = 0u32;
    let mut chunks = bytes.chunks_exact(4);
    for c in &mut chunks {
        h = (h ^ mix(u32::from_le_bytes([c[0], c[1], c[2], c[3]]))).rotate_left(13);
        h = h.wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        let k = tail.iter().rev().fold(0u32, |k, b| k << 8 | u32::from(*b));
        h ^= mix(k);
    }
    h ^= bytes.len() as u32;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    (h ^ h >> 16) as i32
}

fn hash_long(v: i64) -> i32 {
    hash_bytes(&v.to_le_bytes())
}

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;

/// Days from the epoch to calendar fields: (years since 1970, months since 1970-01), floored (TIME-1).
fn calendar(days: i64) -> Option<(i32, i32)> {
    let d = NaiveDate::from_ymd_opt(1970, 1, 1)?.checked_add_signed(chrono::TimeDelta::try_days(days)?)?;
    let year = d.year() - 1970;
    Some((year, year * 12 + d.month0() as i32))
}

fn unsupported(t: Transform, of: impl std::fmt::Display) -> Error {
    let clause = match t {
        Transform::Bucket(_) => "PART-21",
        Transform::Truncate(_) => "PART-22",
        Transform::Year | Transform::Month => "PART-23",
        Transform::Day => "PART-24",
        Transform::Hour => "PART-25",
        Transform::Unknown => "PART-5",
        _ => "PART-20",
    };
    Error::unsupported(format!("transform {t} of {of}")).clause(clause)
}

/// Time units of a source in microseconds, or days for dates.
#[derive(Clone, Copy)]
enum Source {
    Days,
    Micros,
    Nanos,
}

fn time(t: Transform, v: i64, source: Source) -> Option<i32> {
    let micros = match source {
        Source::Days => v.checked_mul(DAY_US)?,
        Source::Micros => v,
        Source::Nanos => v.div_euclid(1000),
    };
    let days = micros.div_euclid(DAY_US);
    match t {
        Transform::Year => calendar(days).map(|c| c.0),
        Transform::Month => calendar(days).map(|c| c.1),
        Transform::Day => i32::try_from(days).ok(),
        Transform::Hour => i32::try_from(micros.div_euclid(HOUR_US)).ok(),
        _ => None,
    }
}

fn bucket(n: u32, hash: i32) -> i32 {
    ((hash & i32::MAX) as u32 % n.max(1)) as i32
}

/// A bucket count or width that the arithmetic below can take.
fn check_parameter(t: Transform) -> Result<()> {
    match t {
        Transform::Bucket(n) | Transform::Truncate(n) if n == 0 || n > i32::MAX as u32 => {
            Err(Error::malformed(format!("transform {t}: the parameter must be 1 to {}", i32::MAX)).clause("JSON-12"))
        }
        _ => Ok(()),
    }
}

/// Type of the source column of a partition field, checked against the transform (PART-1, PART-20..26).
pub(crate) fn as_source(schema: &Schema, ext: &ExtTypes, field: &PartitionField) -> Result<PrimitiveType> {
    let source = schema.field_by_id(field.source_id).ok_or_else(|| {
        Error::malformed(format!(
            "partition field {:?} has source id {}, which the schema lacks",
            field.name, field.source_id
        ))
        .clause("PART-1")
    })?;
    let named = |e: Error| Error::unsupported(format!("partition field {:?}: {}", field.name, e.message()));
    check_parameter(field.transform)?;
    if let Some(e) = ext.of(source)
        && field.transform != Transform::Void
    {
        return Err(named(unsupported(field.transform, e.as_str())).clause("PART-20"));
    }
    let t = source.field_type.as_primitive_type().ok_or_else(|| {
        Error::invalid(format!("partition field {:?} has source column {:?} of a nested type", field.name, source.name))
            .clause("PART-1")
    })?;
    if field.transform == Transform::Unknown || field.transform.result_type(&source.field_type).is_err() {
        return Err(named(unsupported(field.transform, t)).clause("PART-20"));
    }
    Ok(t.clone())
}

/// Transform of one value; `None` for null (PART-27) and for `void`.
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] for a transform that the type does not allow, and for unknown transforms (PART-5).
pub fn transform_literal(
    t: Transform,
    value: Option<&PrimitiveLiteral>,
    source: &PrimitiveType,
) -> Result<Option<Literal>> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    let Some(v) = value else { return Ok(None) };
    check_parameter(t)?;
    let int = |v: i32| Some(Literal::Primitive(L::Int(v)));
    Ok(match t {
        Transform::Void => None,
        Transform::Identity => Some(Literal::Primitive(match v {
            L::Float(f) if f.is_nan() => L::Float(f32::NAN.into()),
            L::Double(f) if f.is_nan() => L::Double(f64::NAN.into()),
            v => v.clone(),
        })),
        Transform::Bucket(n) => int(bucket(
            n,
            match (source, v) {
                (P::Int | P::Date, L::Int(v)) => hash_long((*v).into()),
                (P::Long | P::Time | P::Timestamp | P::Timestamptz, L::Long(v)) => hash_long(*v),
                (P::TimestampNs | P::TimestamptzNs, L::Long(v)) => hash_long(v.div_euclid(1000)),
                (P::Decimal { .. }, L::Int128(v)) => hash_bytes(&decimal_bytes(*v)),
                (P::String, L::String(v)) => hash_bytes(v.as_bytes()),
                (P::Uuid, L::UInt128(v)) => hash_bytes(&v.to_be_bytes()),
                (P::Fixed(_) | P::Binary, L::Binary(v)) => hash_bytes(v),
                _ => return Err(unsupported(t, source)),
            },
        )),
        Transform::Truncate(w) => Some(Literal::Primitive(match (source, v) {
            (P::Int, L::Int(v)) => L::Int(v.wrapping_sub(v.rem_euclid(w as i32))),
            (P::Long, L::Long(v)) => L::Long(v.wrapping_sub(v.rem_euclid(w.into()))),
            (P::Decimal { .. }, L::Int128(v)) => L::Int128(v - v.rem_euclid(w.into())),
            (P::String, L::String(v)) => L::String(prefix_chars(v, w as usize).to_string()),
            (P::Binary, L::Binary(v)) => L::Binary(v[..v.len().min(w as usize)].to_vec()),
            _ => return Err(unsupported(t, source)),
        })),
        Transform::Year | Transform::Month | Transform::Day | Transform::Hour => {
            let r = match (source, v) {
                (P::Date, L::Int(v)) if t != Transform::Hour => time(t, (*v).into(), Source::Days),
                (P::Timestamp | P::Timestamptz, L::Long(v)) => time(t, *v, Source::Micros),
                (P::TimestampNs | P::TimestamptzNs, L::Long(v)) => time(t, *v, Source::Nanos),
                _ => return Err(unsupported(t, source)),
            };
            int(r.ok_or_else(|| Error::invalid(format!("value {v:?} is outside the calendar of transform {t}")))?)
        }
        Transform::Unknown => return Err(unsupported(t, source)),
    })
}

/// First `n` code points of a string (TRUNC-3).
pub(crate) fn prefix_chars(s: &str, n: usize) -> &str {
    s.char_indices().nth(n).map_or(s, |(i, _)| &s[..i])
}

/// Transform of an array, as [`transform_literal`] row by row; the result has the Arrow type of the transform's result.
///
/// # Errors
/// As [`transform_literal`].
pub fn transform_array(t: Transform, array: &ArrayRef, source: &PrimitiveType) -> Result<ArrayRef> {
    check_parameter(t)?;
    match t {
        Transform::Void => {
            let result = t.result_type(&Type::Primitive(source.clone()))?;
            let result = result.as_primitive_type().map_or(DataType::Int32, arrow_type);
            Ok(new_null_array(&result, array.len()))
        }
        Transform::Identity => Ok(match array.data_type() {
            // NaNs of all patterns are one partition (PART-6).
            DataType::Float32 => Arc::new(
                array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v }),
            ),
            DataType::Float64 => Arc::new(
                array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v }),
            ),
            _ => array.clone(),
        }),
        Transform::Bucket(n) => bucket_array(t, n, array),
        Transform::Truncate(w) => truncate_array(t, w, array),
        Transform::Year | Transform::Month | Transform::Day | Transform::Hour => time_array(t, array),
        Transform::Unknown => Err(unsupported(t, source)),
    }
}

fn rows<'a, T>(array: &'a dyn Array, get: impl Fn(usize) -> Option<T> + 'a) -> impl Iterator<Item = Option<T>> + 'a {
    (0..array.len()).map(move |i| if array.is_null(i) { None } else { get(i) })
}

fn bucket_array(t: Transform, n: u32, array: &ArrayRef) -> Result<ArrayRef> {
    fn ints<T: ArrowPrimitiveType>(array: &ArrayRef, n: u32, hash: impl Fn(T::Native) -> i32) -> Int32Array {
        array.as_primitive::<T>().unary(|v| bucket(n, hash(v)))
    }
    Ok(Arc::new(match array.data_type() {
        DataType::Int32 => ints::<Int32Type>(array, n, |v| hash_long(v.into())),
        DataType::Date32 => ints::<Date32Type>(array, n, |v| hash_long(v.into())),
        DataType::Int64 => ints::<Int64Type>(array, n, hash_long),
        DataType::Time64(TimeUnit::Microsecond) => ints::<Time64MicrosecondType>(array, n, hash_long),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ints::<TimestampMicrosecondType>(array, n, hash_long),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ints::<TimestampNanosecondType>(array, n, |v| hash_long(v.div_euclid(1000)))
        }
        DataType::Decimal128(..) => ints::<Decimal128Type>(array, n, |v| hash_bytes(&decimal_bytes(v))),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            rows(array, |i| str_at(array, i).map(|v| bucket(n, hash_bytes(v.as_bytes())))).collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            rows(array, |i| bytes_at(array, i).map(|v| bucket(n, hash_bytes(v)))).collect()
        }
        other => return Err(unsupported(t, other)),
    }))
}

fn truncate_array(t: Transform, w: u32, array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Int32 => Arc::new(
            array.as_primitive::<Int32Type>().unary::<_, Int32Type>(|v| v.wrapping_sub(v.rem_euclid(w as i32))),
        ),
        DataType::Int64 => Arc::new(
            array.as_primitive::<Int64Type>().unary::<_, Int64Type>(|v| v.wrapping_sub(v.rem_euclid(w.into()))),
        ),
        DataType::Decimal128(..) => {
            let out: PrimitiveArray<Decimal128Type> =
                array.as_primitive::<Decimal128Type>().unary(|v| v - v.rem_euclid(w.into()));
            Arc::new(out.with_data_type(array.data_type().clone()))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Arc::new(rows(array, |i| str_at(array, i).map(|v| prefix_chars(v, w as usize))).collect::<StringArray>())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Arc::new(
            rows(array, |i| bytes_at(array, i).map(|v| &v[..v.len().min(w as usize)])).collect::<BinaryArray>(),
        ),
        other => return Err(unsupported(t, other)),
    })
}

fn time_array(t: Transform, array: &ArrayRef) -> Result<ArrayRef> {
    fn ints<T: ArrowPrimitiveType>(t: Transform, array: &ArrayRef, source: Source) -> Result<Int32Array>
    where
        T::Native: Into<i64>,
    {
        array.as_primitive::<T>().try_unary(|v| {
            time(t, v.into(), source)
                .ok_or_else(|| Error::invalid(format!("value {v:?} is outside the calendar of transform {t}")))
        })
    }
    let out = match array.data_type() {
        DataType::Date32 if t != Transform::Hour => ints::<Date32Type>(t, array, Source::Days)?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => ints::<TimestampMicrosecondType>(t, array, Source::Micros)?,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ints::<TimestampNanosecondType>(t, array, Source::Nanos)?,
        other => return Err(unsupported(t, other)),
    };
    Ok(if t == Transform::Day { Arc::new(out.unary::<_, Date32Type>(|v| v)) } else { Arc::new(out) })
}
