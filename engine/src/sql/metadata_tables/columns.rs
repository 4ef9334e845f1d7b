//! Columns of a file: partition, metrics, readable bounds.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType, FieldRef};
use iceberg::spec::{Datum, Literal, NestedFieldRef, PrimitiveLiteral, PrimitiveType, Transform, Type};
use serde_json::{Map, Value, json};

use super::{field, int, list, long, map, text};
use crate::manifest::{DataFile, partition_type};
use crate::sql::schema::arrow_of;
use crate::table::Metadata;
use crate::{Result, Table};

/// Partition fields of all specs, newest name first, as one struct type: a file of any spec fits in it.
pub(super) struct Partitions {
    /// Name and type by field id.
    fields: BTreeMap<i32, (String, PrimitiveType)>,
    /// Field ids and types of each spec, in its order.
    specs: HashMap<i32, Vec<(i32, PrimitiveType)>>,
}

impl Partitions {
    pub(super) fn of(table: &Table) -> Result<Self> {
        let m = table.metadata();
        let mut specs: Vec<_> = m.partition_specs_iter().collect();
        specs.sort_by_key(|s| std::cmp::Reverse(s.spec_id()));
        let mut out = Self { fields: BTreeMap::new(), specs: HashMap::new() };
        for spec in specs {
            let ty = partition_type(&m.inner, spec.spec_id())?;
            let mut own = Vec::new();
            for (f, t) in spec.fields().iter().zip(ty.fields()) {
                let Type::Primitive(p) = t.field_type.as_ref() else {
                    continue;
                };
                own.push((f.field_id, p.clone()));
                if f.transform != Transform::Void || !out.fields.contains_key(&f.field_id) {
                    out.fields.entry(f.field_id).or_insert_with(|| (f.name.clone(), p.clone()));
                }
            }
            out.specs.insert(spec.spec_id(), own);
        }
        Ok(out)
    }

    /// The `partition` column; `None` when no spec has a field.
    pub(super) fn column(&self) -> Option<FieldRef> {
        if self.fields.is_empty() {
            return None;
        }
        let fields: Vec<FieldRef> = self.fields.values().map(|(n, t)| field(n, arrow_of(t))).collect();
        Some(field("partition", DataType::Struct(fields.into())))
    }

    /// A file's partition as a JSON object.
    pub(super) fn value(&self, file: &DataFile) -> Value {
        let mut out = Map::new();
        if let Some(own) = self.specs.get(&file.spec_id) {
            for ((id, ty), value) in own.iter().zip(file.partition.iter()) {
                if let (Some((name, _)), Some(Literal::Primitive(p))) = (self.fields.get(id), value) {
                    out.insert(name.clone(), json_value(p, ty));
                }
            }
        }
        Value::Object(out)
    }
}

/// A primitive as the JSON that the decoder reads back as its Arrow type.
pub(in crate::sql) fn json_value(value: &PrimitiveLiteral, ty: &PrimitiveType) -> Value {
    use PrimitiveLiteral as L;
    match (value, ty) {
        (L::Boolean(b), _) => json!(b),
        (L::Int(days), PrimitiveType::Date) => {
            let mut out = String::new();
            crate::sql::functions::write_date(i64::from(*days), &mut out);
            json!(out)
        }
        (L::Int(n), _) => json!(n),
        (L::Long(n), _) => json!(n),
        (L::Float(f), _) => float(f64::from(f.0)),
        (L::Double(f), _) => float(f.0),
        (L::String(s), _) => json!(s),
        (L::Binary(b), _) => json!(hex(b)),
        (L::UInt128(u), _) => json!(hex(&u.to_be_bytes())),
        (L::Int128(n), PrimitiveType::Decimal { scale, .. }) => json!(plain_decimal(*n, *scale)),
        _ => Value::Null,
    }
}

/// JSON has no NaN: such a bound shows as null.
fn float(f: f64) -> Value {
    serde_json::Number::from_f64(f).map_or(Value::Null, Value::Number)
}

fn plain_decimal(unscaled: i128, scale: u32) -> String {
    let (sign, digits) = (if unscaled < 0 { "-" } else { "" }, unscaled.unsigned_abs().to_string());
    let scale = scale as usize;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Columns of `.files`, before `readable_metrics`.
pub(super) fn file_columns(partitions: &Partitions) -> Vec<FieldRef> {
    let counts = |name| map(name, DataType::Int32, DataType::Int64);
    let mut out = vec![int("content"), text("file_path"), text("file_format"), int("spec_id")];
    out.extend(partitions.column());
    out.extend([
        long("record_count"),
        long("file_size_in_bytes"),
        counts("column_sizes"),
        counts("value_counts"),
        counts("null_value_counts"),
        counts("nan_value_counts"),
        map("lower_bounds", DataType::Int32, DataType::Binary),
        map("upper_bounds", DataType::Int32, DataType::Binary),
        field("key_metadata", DataType::Binary),
        list("split_offsets", DataType::Int64),
        list("equality_ids", DataType::Int32),
        int("sort_order_id"),
        long("first_row_id"),
        text("referenced_data_file"),
        long("content_offset"),
        long("content_size_in_bytes"),
    ]);
    out
}

/// A file as a JSON object of [`file_columns`].
pub(super) fn file_value(file: &DataFile, partitions: &Partitions) -> Map<String, Value> {
    let metrics = file.metrics.as_deref();
    let counts = |get: fn(&crate::manifest::Metrics) -> &crate::manifest::ById<i64>| {
        metrics.map(get).filter(|m| !m.is_empty()).map_or(Value::Null, |m| keyed(m.iter().map(|(k, v)| (*k, json!(v)))))
    };
    let bounds = |get: fn(&crate::manifest::Metrics) -> &crate::manifest::ById<Vec<u8>>| {
        metrics
            .map(get)
            .filter(|m| !m.is_empty())
            .map_or(Value::Null, |m| keyed(m.iter().map(|(k, v)| (*k, json!(hex(v))))))
    };
    let value = json!({
        "content": file.content as i32,
        "file_path": &*file.path,
        "file_format": file.format.as_str(),
        "spec_id": file.spec_id,
        "partition": partitions.value(file),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size,
        "column_sizes": counts(|m| &m.column_sizes),
        "value_counts": counts(|m| &m.value_counts),
        "null_value_counts": counts(|m| &m.null_value_counts),
        "nan_value_counts": counts(|m| &m.nan_value_counts),
        "lower_bounds": bounds(|m| &m.lower_bounds),
        "upper_bounds": bounds(|m| &m.upper_bounds),
        "key_metadata": file.key_metadata.as_deref().map(hex),
        "split_offsets": file.split_offsets,
        "equality_ids": file.equality_ids,
        "sort_order_id": file.sort_order_id,
        "first_row_id": file.first_row_id,
        "referenced_data_file": file.referenced_data_file.as_deref(),
        "content_offset": file.content_offset,
        "content_size_in_bytes": file.content_size,
    });
    match value {
        Value::Object(m) => m,
        _ => Map::new(),
    }
}

fn keyed(entries: impl Iterator<Item = (i32, Value)>) -> Value {
    let sorted: BTreeMap<i32, Value> = entries.collect();
    Value::Object(sorted.into_iter().map(|(k, v)| (k.to_string(), v)).collect())
}

/// Primitive leaves of the current schema by full name, sorted: the columns of `readable_metrics`.
pub(super) struct Readable(Vec<(String, i32, PrimitiveType)>);

impl Readable {
    pub(super) fn of(m: &Metadata) -> Self {
        let schema = m.current_schema();
        let mut out = Vec::new();
        for f in schema.as_struct().fields() {
            leaves(f, &f.name, m, &mut out);
        }
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Self(out)
    }

    pub(super) fn column(&self) -> FieldRef {
        let columns: Vec<FieldRef> = self
            .0
            .iter()
            .map(|(name, _, ty)| {
                let parts = vec![
                    long("column_size"),
                    long("value_count"),
                    long("null_value_count"),
                    long("nan_value_count"),
                    field("lower_bound", arrow_of(ty)),
                    field("upper_bound", arrow_of(ty)),
                ];
                field(name, DataType::Struct(parts.into()))
            })
            .collect();
        field("readable_metrics", DataType::Struct(columns.into()))
    }

    pub(super) fn value(&self, file: &DataFile) -> Value {
        let Some(m) = file.metrics.as_deref() else {
            return Value::Object(Map::new());
        };
        let bound = |bytes: Option<&Vec<u8>>, ty: &PrimitiveType| {
            bytes
                .and_then(|b| Datum::try_from_bytes(b, ty.clone()).ok())
                .map_or(Value::Null, |d| json_value(d.literal(), ty))
        };
        let columns = self.0.iter().map(|(name, id, ty)| {
            let value = json!({
                "column_size": m.column_sizes.get(id),
                "value_count": m.value_counts.get(id),
                "null_value_count": m.null_value_counts.get(id),
                "nan_value_count": m.nan_value_counts.get(id),
                "lower_bound": bound(m.lower_bounds.get(id), ty),
                "upper_bound": bound(m.upper_bounds.get(id), ty),
            });
            (name.clone(), value)
        });
        Value::Object(columns.collect())
    }
}

fn leaves(f: &NestedFieldRef, name: &str, m: &Metadata, out: &mut Vec<(String, i32, PrimitiveType)>) {
    match f.field_type.as_ref() {
        // bounds of extended types have their own encodings
        Type::Primitive(_) if m.ext.get(f.id).is_some() => {}
        Type::Primitive(p) => out.push((name.to_string(), f.id, p.clone())),
        Type::Struct(s) => s.fields().iter().for_each(|c| leaves(c, &format!("{name}.{}", c.name), m, out)),
        Type::List(l) => leaves(&l.element_field, &format!("{name}.element"), m, out),
        Type::Map(kv) => {
            leaves(&kv.key_field, &format!("{name}.key"), m, out);
            leaves(&kv.value_field, &format!("{name}.value"), m, out);
        }
    }
}
