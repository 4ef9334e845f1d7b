//! Partition values: their Avro form in an entry, their order, and their binary form in a field summary (BIN-*).

use std::cmp::Ordering;
use std::collections::HashSet;

use iceberg::spec::{
    ByteBuf, FieldSummary, Literal, ManifestFile, NestedField, PartitionSpec, PrimitiveLiteral as P,
    PrimitiveType as T, Struct, StructType, TableMetadata, Transform, Type,
};
use serde_json::{Value, json};

use super::avro::{Decoder, Node, Schema};
use super::container::{put_bytes, put_long, put_str};
use crate::types::decode_bound;
use crate::{Error, Result};

/// Struct type of a spec's partition tuples.
///
/// A field whose source column is gone from the current schema is typed by the newest schema that still has it, and
/// if none has by what its transform says (PART-9).
pub fn partition_type(metadata: &TableMetadata, spec_id: i32) -> Result<StructType> {
    let spec = metadata.partition_spec_by_id(spec_id).ok_or_else(|| {
        Error::malformed(format!("partition spec {spec_id} is not in the table metadata")).clause("META-F11")
    })?;
    partition_type_of(metadata, spec)
}

fn partition_type_of(metadata: &TableMetadata, spec: &PartitionSpec) -> Result<StructType> {
    let mut schemas: Vec<_> = metadata.schemas_iter().collect();
    schemas.sort_by_key(|s| std::cmp::Reverse((s.schema_id() == metadata.current_schema_id(), s.schema_id())));
    let mut fields = Vec::with_capacity(spec.fields().len());
    for f in spec.fields() {
        let source = schemas.iter().find_map(|s| s.field_by_id(f.source_id));
        let by_source = source.and_then(|s| f.transform.result_type(&s.field_type).ok());
        let ty = by_source.unwrap_or(Type::Primitive(match f.transform {
            Transform::Day => T::Date,
            Transform::Identity | Transform::Truncate(_) => T::Binary,
            _ => T::Int,
        }));
        fields.push(NestedField::optional(f.field_id, &f.name, ty).into());
    }
    Ok(StructType::new(fields))
}

/// Primitive types of a partition struct, in order.
pub(crate) fn primitive_types(ty: &StructType) -> Result<Vec<T>> {
    ty.fields()
        .iter()
        .map(|f| match f.field_type.as_ref() {
            Type::Primitive(p) => Ok(p.clone()),
            other => Err(Error::malformed(format!("partition field {:?} has type {other}", f.name)).clause("PART-1")),
        })
        .collect()
}

/// Bytes of a decimal of this precision as Avro fixed and Parquet store it.
fn decimal_bytes(precision: u32) -> usize {
    // smallest n with 2^(8n-1) > 10^precision
    let limit = 10u128.pow(precision.min(38));
    (1..=16).find(|n| (1u128 << (8 * n - 1)) > limit).unwrap_or(16)
}

/// Avro type of a partition value; a named type is defined once a file and referred to afterwards.
pub(crate) fn avro_type(ty: &T, seen: &mut HashSet<String>) -> Value {
    let mut named = |name: String, body: Value| {
        if seen.insert(name.clone()) { body } else { Value::String(name) }
    };
    match ty {
        T::Boolean => json!("boolean"),
        T::Int => json!("int"),
        T::Long => json!("long"),
        T::Float => json!("float"),
        T::Double => json!("double"),
        T::String => json!("string"),
        T::Binary => json!("bytes"),
        T::Date => json!({"type": "int", "logicalType": "date"}),
        T::Time => json!({"type": "long", "logicalType": "time-micros"}),
        T::Timestamp => {
            json!({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": false})
        }
        T::Timestamptz => {
            json!({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": true})
        }
        T::TimestampNs => {
            json!({"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": false})
        }
        T::TimestamptzNs => {
            json!({"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": true})
        }
        T::Uuid => {
            let name = "uuid_fixed".to_string();
            named(name, json!({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}))
        }
        T::Fixed(n) => {
            let name = format!("fixed_{n}");
            named(name.clone(), json!({"type": "fixed", "name": name, "size": n}))
        }
        T::Decimal { precision, scale } => {
            let name = format!("decimal_{precision}_{scale}");
            let size = decimal_bytes(*precision);
            let body = json!({"type": "fixed", "name": name, "size": size, "logicalType": "decimal",
                "precision": precision, "scale": scale});
            named(name.clone(), body)
        }
    }
}

fn mismatch(ty: &T, value: &P) -> Error {
    Error::invalid(format!("partition value {value:?} is not of type {ty}")).clause("MAN-D04")
}

/// Appends a partition value in Avro binary.
pub(crate) fn put_value(out: &mut Vec<u8>, ty: &T, value: &P) -> Result<()> {
    match (ty, value) {
        (T::Boolean, P::Boolean(b)) => out.push(u8::from(*b)),
        (T::Int | T::Date, P::Int(v)) => put_long(out, i64::from(*v)),
        (T::Long | T::Time | T::Timestamp | T::Timestamptz | T::TimestampNs | T::TimestamptzNs, P::Long(v)) => {
            put_long(out, *v)
        }
        (T::Long, P::Int(v)) => put_long(out, i64::from(*v)),
        (T::Float, P::Float(v)) => out.extend_from_slice(&v.0.to_le_bytes()),
        (T::Double, P::Double(v)) => out.extend_from_slice(&v.0.to_le_bytes()),
        (T::Double, P::Float(v)) => out.extend_from_slice(&f64::from(v.0).to_le_bytes()),
        (T::String, P::String(s)) => put_str(out, s),
        (T::Binary, P::Binary(b)) => put_bytes(out, b),
        (T::Fixed(n), P::Binary(b)) if b.len() as u64 == *n => out.extend_from_slice(b),
        (T::Uuid, P::UInt128(v)) => out.extend_from_slice(&v.to_be_bytes()),
        (T::Decimal { precision, .. }, P::Int128(v)) => {
            let n = decimal_bytes(*precision);
            let bytes = v.to_be_bytes();
            let (head, tail) = bytes.split_at(16 - n);
            let sign = if *v < 0 { 0xff } else { 0 };
            if head.iter().any(|b| *b != sign) || (tail[0] ^ sign) & 0x80 != 0 {
                return Err(mismatch(ty, value));
            }
            out.extend_from_slice(tail);
        }
        _ => return Err(mismatch(ty, value)),
    }
    Ok(())
}

/// Two's complement, big endian, any length up to 16 bytes.
fn decimal_from_be(b: &[u8]) -> Result<i128> {
    if b.is_empty() || b.len() > 16 {
        return Err(Error::malformed(format!("decimal of {} bytes; allowed: 1 to 16", b.len())).clause("BIN-5"));
    }
    let mut full = [if b[0] & 0x80 != 0 { 0xff } else { 0 }; 16];
    full[16 - b.len()..].copy_from_slice(b);
    Ok(i128::from_be_bytes(full))
}

/// Reads a partition value as the writer stored it and brings it to the expected type (promotions, PART-28).
pub(crate) fn read_value(schema: &Schema, node: usize, want: Option<&T>, d: &mut Decoder<'_>) -> Result<Option<P>> {
    let node = schema.resolve(node, d)?;
    let raw = match &schema.nodes[node] {
        Node::Null => return Ok(None),
        Node::Boolean => P::Boolean(d.bool()?),
        Node::Int => P::Int(d.int()?),
        Node::Long => P::Long(d.long()?),
        Node::Float => {
            let b = d.take(4, "a float")?;
            P::Float(f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into())
        }
        Node::Double => {
            let b = d.take(8, "a double")?;
            P::Double(f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]).into())
        }
        Node::String => P::String(d.str()?.to_string()),
        Node::Bytes | Node::Fixed(_) => {
            let b = match schema.nodes[node] {
                Node::Fixed(n) => d.take(n, "a fixed")?,
                _ => d.bytes()?,
            };
            let is_decimal = schema.logical(node) == Some("decimal") || matches!(want, Some(T::Decimal { .. }));
            if is_decimal {
                P::Int128(decimal_from_be(b)?)
            } else if schema.logical(node) == Some("uuid") || matches!(want, Some(T::Uuid)) {
                let b: [u8; 16] = b.try_into().map_err(|_| {
                    Error::malformed(format!("uuid of {} bytes; 16 are needed", b.len())).clause("BIN-7")
                })?;
                P::UInt128(u128::from_be_bytes(b))
            } else {
                P::Binary(b.to_vec())
            }
        }
        other => {
            return Err(Error::malformed(format!("partition value of Avro type {other:?}")).clause("MAN-D04"));
        }
    };
    Ok(Some(match (want, raw) {
        (Some(T::Long | T::Time | T::Timestamp | T::Timestamptz | T::TimestampNs | T::TimestamptzNs), P::Int(v)) => {
            P::Long(i64::from(v))
        }
        (Some(T::Int | T::Date), P::Long(v)) => P::Int(
            i32::try_from(v)
                .map_err(|_| Error::malformed(format!("partition value {v} does not fit an int")).clause("MAN-D04"))?,
        ),
        (Some(T::Double), P::Float(v)) => P::Double(f64::from(v.0).into()),
        (Some(T::Uuid), P::String(s)) => P::UInt128(
            uuid::Uuid::parse_str(&s)
                .map_err(|e| Error::malformed(format!("partition value is no uuid: {e}")).clause("BIN-7"))?
                .as_u128(),
        ),
        (_, raw) => raw,
    }))
}

/// Binary single value (BIN-*).
pub(crate) fn to_bytes(value: &P) -> Vec<u8> {
    match value {
        P::Boolean(b) => vec![u8::from(*b)],
        P::Int(v) => v.to_le_bytes().to_vec(),
        P::Long(v) => v.to_le_bytes().to_vec(),
        P::Float(v) => v.0.to_le_bytes().to_vec(),
        P::Double(v) => v.0.to_le_bytes().to_vec(),
        P::String(s) => s.as_bytes().to_vec(),
        P::Binary(b) => b.clone(),
        P::UInt128(v) => v.to_be_bytes().to_vec(),
        P::Int128(v) => {
            let bytes = v.to_be_bytes();
            let sign: u8 = if *v < 0 { 0xff } else { 0 };
            let redundant = bytes.windows(2).take_while(|w| w[0] == sign && (w[1] ^ sign) & 0x80 == 0).count();
            bytes[redundant..].to_vec()
        }
        P::AboveMax | P::BelowMin => Vec::new(),
    }
}

/// Order of two values of one type; floats by IEEE total order, so -0.0 is below +0.0 (BIN-16).
fn compare(a: &P, b: &P) -> Ordering {
    match (a, b) {
        (P::Boolean(a), P::Boolean(b)) => a.cmp(b),
        (P::Int(a), P::Int(b)) => a.cmp(b),
        (P::Long(a), P::Long(b)) => a.cmp(b),
        (P::Float(a), P::Float(b)) => a.0.total_cmp(&b.0),
        (P::Double(a), P::Double(b)) => a.0.total_cmp(&b.0),
        (P::String(a), P::String(b)) => a.cmp(b),
        (P::Binary(a), P::Binary(b)) => a.cmp(b),
        (P::Int128(a), P::Int128(b)) => a.cmp(b),
        (P::UInt128(a), P::UInt128(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// Collects the field summary of one partition field (ML-20..23).
#[derive(Debug, Clone)]
pub(crate) struct Summariser {
    float: bool,
    null: bool,
    nan: bool,
    bounds: Option<(P, P)>,
}

impl Summariser {
    pub(crate) fn new(ty: &T) -> Self {
        Self { float: matches!(ty, T::Float | T::Double), null: false, nan: false, bounds: None }
    }

    pub(crate) fn update(&mut self, value: Option<&P>) {
        match value {
            None => self.null = true,
            Some(v) if v.is_nan() => self.nan = true,
            Some(v) => match &mut self.bounds {
                None => self.bounds = Some((v.clone(), v.clone())),
                Some((low, high)) => {
                    if compare(v, low).is_lt() {
                        *low = v.clone();
                    } else if compare(v, high).is_gt() {
                        *high = v.clone();
                    }
                }
            },
        }
    }

    pub(crate) fn finish(self) -> FieldSummary {
        let (low, high) = self.bounds.unzip();
        FieldSummary {
            contains_null: self.null,
            // Java writes the flag for every type, false where NaN cannot occur
            contains_nan: Some(self.float && self.nan),
            lower_bound: low.map(|v| ByteBuf::from(to_bytes(&v))),
            upper_bound: high.map(|v| ByteBuf::from(to_bytes(&v))),
        }
    }
}

/// Whether a manifest may hold a file of this partition tuple, by its field summaries; unknown means yes.
pub(crate) fn may_hold(file: &ManifestFile, types: &[T], partition: &Struct) -> bool {
    let Some(summaries) = file.partitions.as_ref().filter(|s| s.len() == types.len()) else {
        return true;
    };
    summaries.iter().zip(types).enumerate().all(|(i, (s, ty))| {
        let Some(value) = field(partition, i) else {
            return s.contains_null;
        };
        if value.is_nan() {
            return s.contains_nan != Some(false);
        }
        let bound = |b: &Option<ByteBuf>| b.as_ref().and_then(|b| decode_bound(b, ty));
        let (Some(low), Some(high)) = (bound(&s.lower_bound), bound(&s.upper_bound)) else {
            return true;
        };
        // writers differ about the order of zeros (BIN-16): floats are not worth a wrong answer
        if matches!(ty, T::Float | T::Double) {
            return true;
        }
        !compare(value, &low).is_lt() && !compare(value, &high).is_gt()
    })
}

/// Primitive of a partition tuple's field, `None` for null.
pub(crate) fn field(partition: &Struct, at: usize) -> Option<&P> {
    match partition.fields().get(at) {
        Some(Some(Literal::Primitive(p))) => Some(p),
        _ => None,
    }
}
