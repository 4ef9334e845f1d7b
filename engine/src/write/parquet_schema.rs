//! Parquet schema of a table's files (PARQ-1..14), built from the Iceberg schema because the Arrow one says less: UUID,
//! VARIANT, GEOMETRY and GEOGRAPHY annotations have no Arrow type.

use std::sync::Arc;

use iceberg::spec::{NestedField, PrimitiveType, Type};
use parquet::basic::{EdgeInterpolationAlgorithm, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{SchemaDescriptor, Type as ParquetType, TypePtr};

use crate::types::{ExtType, ExtTypes};
use crate::{Error, Result};

/// Parquet schema of the given top-level fields, without unknown columns (PARQ-13).
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] for a struct without stored fields, which Parquet cannot express.
pub fn parquet_schema(fields: &[Arc<NestedField>], ext: &ExtTypes) -> Result<SchemaDescriptor> {
    let columns = group(fields, ext)?;
    let root = ParquetType::group_type_builder("table").with_fields(columns).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn group(fields: &[Arc<NestedField>], ext: &ExtTypes) -> Result<Vec<TypePtr>> {
    let out: Vec<_> = fields
        .iter()
        .filter(|f| !ext.is_unknown(f))
        .map(|f| column(f, &f.name, ext).map(Arc::new))
        .collect::<Result<_>>()?;
    if out.is_empty() {
        return Err(Error::unsupported("a struct without stored fields cannot be written to Parquet").clause("PARQ-1"));
    }
    Ok(out)
}

fn column(field: &NestedField, name: &str, ext: &ExtTypes) -> Result<ParquetType> {
    let repetition = if field.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    let id = Some(field.id);
    let bytes = |logical: Option<LogicalType>| {
        ParquetType::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_id(id)
            .build()
    };
    match ext.of(field) {
        Some(ExtType::Variant) => {
            let part = |name| {
                ParquetType::primitive_type_builder(name, Physical::BYTE_ARRAY)
                    .with_repetition(Repetition::REQUIRED)
                    .build()
                    .map(Arc::new)
            };
            return Ok(ParquetType::group_type_builder(name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::Variant { specification_version: Some(1) }))
                .with_fields(vec![part("metadata")?, part("value")?])
                .with_id(id)
                .build()?);
        }
        Some(ExtType::Geometry(s)) => {
            return Ok(bytes(Some(LogicalType::Geometry { crs: crs(s) }))?);
        }
        Some(ExtType::Geography(s)) => {
            return Ok(bytes(Some(LogicalType::Geography { crs: crs(s), algorithm: Some(algorithm(s)) }))?);
        }
        Some(ExtType::Unknown) | None => {}
    }
    Ok(match field.field_type.as_ref() {
        Type::Primitive(p) => primitive(p, name, repetition, id)?,
        Type::Struct(s) => ParquetType::group_type_builder(name)
            .with_repetition(repetition)
            .with_fields(group(s.fields(), ext)?)
            .with_id(id)
            .build()?,
        Type::List(l) => {
            let element = column(&l.element_field, "element", ext)?;
            let list = ParquetType::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            ParquetType::group_type_builder(name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .with_id(id)
                .build()?
        }
        Type::Map(m) => {
            let entries = ParquetType::group_type_builder("key_value")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![
                    Arc::new(column(&m.key_field, "key", ext)?),
                    Arc::new(column(&m.value_field, "value", ext)?),
                ])
                .build()?;
            ParquetType::group_type_builder(name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::Map))
                .with_fields(vec![Arc::new(entries)])
                .with_id(id)
                .build()?
        }
    })
}

/// CRS parameter of a type string; the default is left out, as Parquet's own default is the same (PARQ-15).
fn crs(type_string: &str) -> Option<String> {
    let inner = type_string.split_once('(')?.1.trim_end_matches(')');
    let crs = inner.split(',').next()?.trim();
    (!crs.eq_ignore_ascii_case("OGC:CRS84")).then(|| crs.to_string())
}

fn algorithm(type_string: &str) -> EdgeInterpolationAlgorithm {
    use EdgeInterpolationAlgorithm as A;
    match type_string.trim_end_matches(')').rsplit(',').next().map(str::trim) {
        Some("vincenty") => A::VINCENTY,
        Some("thomas") => A::THOMAS,
        Some("andoyer") => A::ANDOYER,
        Some("karney") => A::KARNEY,
        _ => A::SPHERICAL,
    }
}

fn primitive(p: &PrimitiveType, name: &str, repetition: Repetition, id: Option<i32>) -> Result<ParquetType> {
    use PrimitiveType as P;
    let timestamp = |unit, utc| LogicalType::Timestamp { is_adjusted_to_u_t_c: utc, unit };
    let (physical, logical, length) = match p {
        P::Boolean => (Physical::BOOLEAN, None, None),
        P::Int => (Physical::INT32, None, None),
        P::Long => (Physical::INT64, None, None),
        P::Float => (Physical::FLOAT, None, None),
        P::Double => (Physical::DOUBLE, None, None),
        P::Decimal { precision, scale } => {
            let logical = LogicalType::Decimal { precision: *precision as i32, scale: *scale as i32 };
            let b = match precision {
                0..=9 => ParquetType::primitive_type_builder(name, Physical::INT32),
                10..=18 => ParquetType::primitive_type_builder(name, Physical::INT64),
                _ => ParquetType::primitive_type_builder(name, Physical::FIXED_LEN_BYTE_ARRAY)
                    .with_length(Type::decimal_required_bytes(*precision)? as i32),
            };
            return Ok(b
                .with_repetition(repetition)
                .with_precision(*precision as i32)
                .with_scale(*scale as i32)
                .with_logical_type(Some(logical))
                .with_id(id)
                .build()?);
        }
        P::Date => (Physical::INT32, Some(LogicalType::Date), None),
        P::Time => {
            (Physical::INT64, Some(LogicalType::Time { is_adjusted_to_u_t_c: false, unit: TimeUnit::MICROS }), None)
        }
        P::Timestamp => (Physical::INT64, Some(timestamp(TimeUnit::MICROS, false)), None),
        P::Timestamptz => (Physical::INT64, Some(timestamp(TimeUnit::MICROS, true)), None),
        P::TimestampNs => (Physical::INT64, Some(timestamp(TimeUnit::NANOS, false)), None),
        P::TimestamptzNs => (Physical::INT64, Some(timestamp(TimeUnit::NANOS, true)), None),
        P::String => (Physical::BYTE_ARRAY, Some(LogicalType::String), None),
        P::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), Some(16)),
        P::Fixed(n) => (Physical::FIXED_LEN_BYTE_ARRAY, None, Some(*n as i32)),
        P::Binary => (Physical::BYTE_ARRAY, None, None),
    };
    let mut b = ParquetType::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_id(id);
    if let Some(n) = length {
        b = b.with_length(n);
    }
    Ok(b.build()?)
}
