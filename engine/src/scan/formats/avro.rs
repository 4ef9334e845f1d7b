//! Avro data and delete files (AVRO-*): decoding by `arrow-avro`; field ids, zones and maps from the schema in the header.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow_avro::reader::ReaderBuilder;
use bytes::Bytes;
use serde_json::Value;

use super::Batches;
use crate::types::FIELD_ID_KEY;
use crate::{Error, Result};

/// An Avro object container.
pub(super) struct AvroFile {
    bytes: Bytes,
}

impl AvroFile {
    pub(super) fn open(bytes: Bytes) -> Result<(SchemaRef, Self)> {
        let reader = ReaderBuilder::new().build(Cursor::new(bytes.clone())).map_err(bad)?;
        let text = reader
            .avro_header()
            .get("avro.schema")
            .ok_or_else(|| Error::malformed("Avro file without avro.schema in its header"))?;
        let json: Value =
            serde_json::from_slice(text).map_err(|e| Error::malformed(format!("avro.schema is no JSON: {e}")))?;
        let arrow = reader.schema();
        let mut names = Names::default();
        let labelled = match names.label(&json, &DataType::Struct(arrow.fields().clone()))? {
            DataType::Struct(fields) => Arc::new(ArrowSchema::new(fields)),
            _ => return Err(Error::malformed("the schema of an Avro data file is no record")),
        };
        Ok((labelled, Self { bytes }))
    }

    pub(super) fn batches(self, roots: &[usize], batch_size: usize) -> Result<Batches> {
        // a projection of nothing still has to count rows
        let projection = if roots.is_empty() { vec![0] } else { roots.to_vec() };
        let reader = ReaderBuilder::new()
            .with_batch_size(batch_size)
            .with_projection(projection)
            .build(Cursor::new(self.bytes))
            .map_err(bad)?;
        let none = roots.is_empty();
        Ok(Box::new(reader.map(move |b| {
            let b = b.map_err(bad)?;
            if none { Ok(b.project(&[])?) } else { Ok(b) }
        })))
    }
}

fn bad(e: arrow::error::ArrowError) -> Error {
    match e {
        arrow::error::ArrowError::NotYetImplemented(m) => Error::unsupported(format!("Avro file: {m}")),
        e => Error::malformed(format!("Avro file: {e}")),
    }
}

/// Named types of an Avro schema, as far as it was walked.
#[derive(Default)]
struct Names(HashMap<String, Value>);

impl Names {
    /// The Arrow type that the decoder gives for an Avro type, with field ids, and with zones and maps as Iceberg means them.
    fn label(&mut self, schema: &Value, arrow: &DataType) -> Result<DataType> {
        let schema = self.resolve(schema)?;
        let wrong = || Error::malformed(format!("Avro type {schema} was decoded as {arrow}"));
        let id = |key: &str| schema.get(key).and_then(Value::as_i64);
        match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "record" => {
                let DataType::Struct(fields) = arrow else { return Err(wrong()) };
                let declared = schema.get("fields").and_then(Value::as_array).filter(|d| d.len() == fields.len());
                let declared = declared.ok_or_else(wrong)?.clone();
                let fields = declared
                    .iter()
                    .zip(fields)
                    .map(|(d, f)| {
                        let ty = self.label(d.get("type").unwrap_or(&Value::Null), f.data_type())?;
                        Ok(with(f, ty, d.get("field-id").and_then(Value::as_i64)))
                    })
                    .collect::<Result<Vec<_>>>()?;
                Ok(DataType::Struct(fields.into()))
            }
            "array" => {
                let DataType::List(item) = arrow else { return Err(wrong()) };
                let inner = self.label(schema.get("items").unwrap_or(&Value::Null), item.data_type())?;
                if schema.get("logicalType").and_then(Value::as_str) == Some("map") {
                    let DataType::Struct(kv) = &inner else { return Err(wrong()) };
                    return entries(kv.first().zip(kv.get(1)).ok_or_else(wrong)?);
                }
                Ok(DataType::List(with(item, inner, id("element-id"))))
            }
            "map" => {
                let DataType::Map(e, _) = arrow else { return Err(wrong()) };
                let DataType::Struct(kv) = e.data_type() else { return Err(wrong()) };
                let (key, value) = kv.first().zip(kv.get(1)).ok_or_else(wrong)?;
                let ty = self.label(schema.get("values").unwrap_or(&Value::Null), value.data_type())?;
                let key = with(key, key.data_type().clone(), id("key-id"));
                entries((&key, &with(value, ty, id("value-id"))))
            }
            _ => Ok(match arrow {
                DataType::Timestamp(unit, _) => {
                    // the flag decides, not Avro's own logical type (AVRO-4)
                    let utc = schema.get("adjust-to-utc").and_then(Value::as_bool).unwrap_or(false);
                    DataType::Timestamp(*unit, utc.then(|| "+00:00".into()))
                }
                other => other.clone(),
            }),
        }
    }

    /// The type itself: unions with null are the other branch, names what they stand for, and plain names an object.
    fn resolve(&mut self, schema: &Value) -> Result<Value> {
        match schema {
            Value::Array(branches) => {
                let mut others = branches.iter().filter(|b| b.as_str() != Some("null"));
                match (others.next(), others.next()) {
                    (Some(one), None) => self.resolve(&one.clone()),
                    (None, _) => Ok(serde_json::json!({"type": "null"})),
                    _ => Err(Error::unsupported(format!("Avro union {schema}; allowed: null and one other type"))
                        .clause("AVRO-2")),
                }
            }
            Value::String(name) => Ok(match self.0.get(name) {
                Some(known) => known.clone(),
                None => serde_json::json!({"type": name}),
            }),
            Value::Object(o) => {
                if let (Some(name), Some("record" | "fixed" | "enum")) =
                    (o.get("name").and_then(Value::as_str), o.get("type").and_then(Value::as_str))
                {
                    self.0.insert(name.to_string(), schema.clone());
                }
                match o.get("type") {
                    // {"type": {"type": …}} nests freely
                    Some(inner @ (Value::Object(_) | Value::Array(_))) => self.resolve(&inner.clone()),
                    _ => Ok(schema.clone()),
                }
            }
            other => Err(Error::malformed(format!("{other} is no Avro type"))),
        }
    }
}

fn entries((key, value): (&FieldRef, &FieldRef)) -> Result<DataType> {
    let key: FieldRef = Arc::new(key.as_ref().clone().with_nullable(false));
    let kv = DataType::Struct(vec![key, value.clone()].into());
    Ok(DataType::Map(Arc::new(Field::new("key_value", kv, false)), false))
}

fn with(field: &FieldRef, ty: DataType, id: Option<i64>) -> FieldRef {
    let metadata = id.map(|id| (FIELD_ID_KEY.to_string(), id.to_string())).into_iter().collect();
    Arc::new(Field::new(field.name(), ty, field.is_nullable()).with_metadata(metadata))
}
