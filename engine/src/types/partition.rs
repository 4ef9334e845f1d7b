//! Partition tuples: their type, their values from rows, and their text (PART-*, LOC-4).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use chrono::{DateTime, NaiveDateTime, NaiveTime, Timelike};
use iceberg::spec::{
    Literal, NestedField, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct, StructType, TableMetadata,
    Transform, Type,
};

use super::literal_json::{format_date, format_decimal, parse_date, parse_decimal, parse_local, parse_time};
use super::{ExtTypes, as_source, field_id, transform_array};
use crate::{Error, Result};

/// Type of a spec's partition tuples. A source column that the current schema dropped is looked up in the older ones;
/// if none has it, a transform with a fixed result keeps that, others read as unknown (PART-9, surrogate `boolean`).
pub fn partition_type(spec: &PartitionSpec, metadata: &TableMetadata) -> Result<StructType> {
    let fields = spec.fields().iter().map(|f| {
        let result = match (source_type(metadata, f.source_id), f.transform) {
            (Some(source), t) => t.result_type(&source)?,
            (None, Transform::Day) => Type::Primitive(PrimitiveType::Date),
            (None, Transform::Bucket(_) | Transform::Year | Transform::Month | Transform::Hour) => {
                Type::Primitive(PrimitiveType::Int)
            }
            (None, _) => Type::Primitive(PrimitiveType::Boolean),
        };
        Ok(Arc::new(NestedField::optional(f.field_id, &f.name, result)))
    });
    Ok(StructType::new(fields.collect::<Result<_>>()?))
}

/// Type of a partition field's source column: from the current schema, else from the newest schema that had it (a dropped
/// source, PART-9).
pub fn source_type(metadata: &TableMetadata, id: i32) -> Option<Type> {
    let of = |s: &Schema| s.field_by_id(id).map(|f| f.field_type.as_ref().clone());
    of(metadata.current_schema()).or_else(|| {
        let mut older: Vec<_> = metadata.schemas_iter().collect();
        older.sort_by_key(|s| std::cmp::Reverse(s.schema_id()));
        older.into_iter().find_map(|s| of(s))
    })
}

/// Partition arrays of a batch, one a spec field; the batch's fields carry field ids (as [`super::arrow_schema`] gives).
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] for a transform that the column's type does not allow (PART-20..26) or an unknown
/// one (PART-5).
pub fn partition_values(
    spec: &PartitionSpec,
    schema: &Schema,
    ext: &ExtTypes,
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    spec.fields()
        .iter()
        .map(|f| {
            let source = as_source(schema, ext, f)?;
            let column = column_by_id(batch.schema_ref().fields(), batch.columns(), f.source_id).ok_or_else(|| {
                Error::internal(format!(
                    "rows have no column id {}, source of partition field {:?}",
                    f.source_id, f.name
                ))
            })?;
            transform_array(f.transform, &column, &source)
        })
        .collect()
}

/// The column of a field id, through struct parents; a null parent makes the child null.
pub(crate) fn column_by_id(fields: &Fields, columns: &[ArrayRef], id: i32) -> Option<ArrayRef> {
    for (f, c) in fields.iter().zip(columns) {
        if field_id(f) == Some(id) {
            return Some(c.clone());
        }
        if let (DataType::Struct(inner), Some(s)) = (f.data_type(), c.as_struct_opt())
            && let Some(child) = column_by_id(inner, s.columns(), id)
        {
            return match s.nulls() {
                Some(parent) => {
                    let nulls = NullBuffer::union(Some(parent), child.logical_nulls().as_ref());
                    let data = child.to_data().into_builder().nulls(nulls).build().ok()?;
                    Some(make_array(data))
                }
                None => Some(child),
            };
        }
    }
    None
}

/// Text of one partition value as it stands in paths: years, months, days and hours as calendar text, binary as base64,
/// null as `null` (LOC-4). `t` is the type of the transform's result.
pub fn human_value(transform: Transform, t: &Type, value: Option<&Literal>) -> String {
    let Some(Literal::Primitive(v)) = value else {
        return "null".into();
    };
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    let plain = |v: &L| match v {
        L::Int(v) => v.to_string(),
        L::Long(v) => v.to_string(),
        other => format!("{other:?}"),
    };
    let text = match (transform, v) {
        (Transform::Year, L::Int(v)) => Some(format!("{:04}", 1970 + i64::from(*v))),
        (Transform::Month, L::Int(v)) => Some(month(*v)),
        (Transform::Day, L::Int(v)) => format_date(*v),
        (Transform::Hour, L::Int(v)) => format_date(v.div_euclid(24)).map(|d| format!("{d}-{:02}", v.rem_euclid(24))),
        _ => match (t.as_primitive_type(), v) {
            (_, L::Boolean(v)) => Some(v.to_string()),
            (_, L::String(v)) => Some(v.clone()),
            (_, L::Binary(v)) => Some(BASE64.encode(v)),
            (_, L::UInt128(v)) => Some(uuid::Uuid::from_u128(*v).to_string()),
            (_, L::Float(v)) => Some(float_text(f64::from(v.0), format!("{:?}", v.0))),
            (_, L::Double(v)) => Some(float_text(v.0, format!("{:?}", v.0))),
            (Some(P::Decimal { scale, .. }), L::Int128(v)) => Some(format_decimal(*v, *scale)),
            (Some(P::Date), L::Int(v)) => format_date(*v),
            (Some(P::Time), L::Long(v)) => time_text(*v),
            (Some(P::Timestamp), L::Long(v)) => micros(*v).map(|t| local_text(&t)),
            (Some(P::Timestamptz), L::Long(v)) => micros(*v).map(|t| format!("{}Z", local_text(&t))),
            (Some(P::TimestampNs), L::Long(v)) => Some(local_text(&DateTime::from_timestamp_nanos(*v).naive_utc())),
            (Some(P::TimestamptzNs), L::Long(v)) => {
                Some(format!("{}Z", local_text(&DateTime::from_timestamp_nanos(*v).naive_utc())))
            }
            _ => None,
        },
    };
    text.unwrap_or_else(|| plain(v))
}

fn month(v: i32) -> String {
    format!("{:04}-{:02}", 1970 + i64::from(v.div_euclid(12)), v.rem_euclid(12) + 1)
}

fn float_text(v: f64, text: String) -> String {
    // The names that Java prints.
    if v.is_infinite() { if v > 0.0 { "Infinity".into() } else { "-Infinity".into() } } else { text }
}

fn micros(v: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(v).map(|t| t.naive_utc())
}

fn time_text(us: i64) -> Option<String> {
    let secs = u32::try_from(us.div_euclid(1_000_000)).ok()?;
    NaiveTime::from_num_seconds_from_midnight_opt(secs, us.rem_euclid(1_000_000) as u32 * 1000).map(|t| clock(&t))
}

/// Seconds and fraction only as far as they are not zero, fractions in groups of three digits: what Java prints.
fn clock(t: &NaiveTime) -> String {
    let ns = t.nanosecond();
    match (t.second(), ns) {
        (0, 0) => t.format("%H:%M").to_string(),
        (_, 0) => t.format("%H:%M:%S").to_string(),
        _ if ns.is_multiple_of(1_000_000) => t.format("%H:%M:%S%.3f").to_string(),
        _ if ns.is_multiple_of(1000) => t.format("%H:%M:%S%.6f").to_string(),
        _ => t.format("%H:%M:%S%.9f").to_string(),
    }
}

fn local_text(t: &NaiveDateTime) -> String {
    format!("{}T{}", t.format("%Y-%m-%d"), clock(&t.time()))
}

fn parts<'a>(
    spec: &'a PartitionSpec,
    t: &'a StructType,
    values: &'a Struct,
) -> impl Iterator<Item = (&'a str, String)> + 'a {
    spec.fields()
        .iter()
        .zip(t.fields())
        .zip(values.iter())
        .map(|((f, t), v)| (f.name.as_str(), human_value(f.transform, &t.field_type, v)))
}

/// Folder of a partition below the data location: `name=value` joined by `/`, each part URL-encoded (LOC-4); empty for
/// an unpartitioned spec.
pub fn partition_path(spec: &PartitionSpec, t: &StructType, values: &Struct) -> String {
    let parts: Vec<_> = parts(spec, t, values).map(|(n, v)| format!("{}={}", url_encode(n), url_encode(&v))).collect();
    parts.join("/")
}

/// The same for people: not encoded.
pub fn partition_to_string(spec: &PartitionSpec, t: &StructType, values: &Struct) -> String {
    let parts: Vec<_> = parts(spec, t, values).map(|(n, v)| format!("{n}={v}")).collect();
    parts.join("/")
}

fn url_encode(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for b in s.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(b as char),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn url_decode(s: &str) -> Option<String> {
    let mut out = Vec::with_capacity(s.len());
    let mut bytes = s.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let hex = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?
            }
            b => b,
        });
    }
    String::from_utf8(out).ok()
}

/// The tuple of a partition folder, the opposite of [`partition_path`].
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a path that does not follow the spec.
pub fn partition_from_path(spec: &PartitionSpec, t: &StructType, path: &str) -> Result<Struct> {
    let parts: Vec<_> = path.split('/').filter(|p| !p.is_empty()).collect();
    if parts.len() != spec.fields().len() {
        return Err(Error::invalid(format!(
            "partition path {path:?} has {} parts, and the spec has {} fields",
            parts.len(),
            spec.fields().len()
        ))
        .clause("LOC-4"));
    }
    let values = parts.iter().zip(spec.fields()).zip(t.fields()).map(|((part, f), t)| {
        let bad = || {
            Error::invalid(format!("partition part {part:?} is not {:?} of {}", f.name, t.field_type)).clause("LOC-4")
        };
        let (name, value) = part.split_once('=').ok_or_else(bad)?;
        let (name, value) = (url_decode(name).ok_or_else(bad)?, url_decode(value).ok_or_else(bad)?);
        if name != f.name {
            return Err(bad());
        }
        if value == "null" {
            return Ok(None);
        }
        parse_human(f.transform, &t.field_type, &value).map(|v| Some(Literal::Primitive(v))).ok_or_else(bad)
    });
    Ok(values.collect::<Result<Vec<_>>>()?.into_iter().collect())
}

fn parse_human(transform: Transform, t: &Type, s: &str) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    Some(match (transform, t.as_primitive_type()?) {
        (Transform::Year, _) => L::Int(s.parse::<i32>().ok()? - 1970),
        (Transform::Month, _) => {
            let (y, m) = s.rsplit_once('-')?;
            L::Int((y.parse::<i32>().ok()? - 1970) * 12 + m.parse::<i32>().ok().filter(|m| (1..=12).contains(m))? - 1)
        }
        (Transform::Hour, _) => {
            let (d, h) = s.rsplit_once('-')?;
            L::Int(parse_date(d)? * 24 + h.parse::<i32>().ok().filter(|h| (0..24).contains(h))?)
        }
        (_, P::Boolean) => L::Boolean(s.parse().ok()?),
        (_, P::Int) => L::Int(s.parse().ok()?),
        (_, P::Long) => L::Long(s.parse().ok()?),
        (_, P::Float) => L::Float(s.parse::<f32>().ok()?.into()),
        (_, P::Double) => L::Double(s.parse::<f64>().ok()?.into()),
        (_, P::Decimal { precision, scale }) => L::Int128(parse_decimal(s, *precision, *scale)?),
        (_, P::Date) => L::Int(parse_date(s)?),
        (_, P::Time) => L::Long(parse_time(s)?),
        (_, P::Timestamp) => L::Long(parse_local(s)?.and_utc().timestamp_micros()),
        (_, P::Timestamptz) => L::Long(parse_local(s.strip_suffix('Z')?)?.and_utc().timestamp_micros()),
        (_, P::TimestampNs) => L::Long(parse_local(s)?.and_utc().timestamp_nanos_opt()?),
        (_, P::TimestamptzNs) => L::Long(parse_local(s.strip_suffix('Z')?)?.and_utc().timestamp_nanos_opt()?),
        (_, P::String) => L::String(s.into()),
        (_, P::Uuid) => L::UInt128(uuid::Uuid::parse_str(s).ok()?.as_u128()),
        (_, P::Fixed(_) | P::Binary) => L::Binary(BASE64.decode(s).ok()?),
    })
}
