//! Arrow batches as the protocol's rows.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use floe_engine::sql::functions::{is_variant, variant_json};
use serde_json::{Value, json};

use crate::value::{Column, Row, f32_text, f64_text};

/// Iceberg type text of an Arrow field.
fn type_name(f: &Field) -> String {
    let nested = |f: &Field| type_name(f);
    match f.data_type() {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => "int".into(),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "long".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(p, s) => format!("decimal({p},{s})"),
        DataType::Date32 => "date".into(),
        DataType::Time64(_) => "time".into(),
        DataType::Timestamp(unit, tz) => {
            let base = if tz.is_some() { "timestamptz" } else { "timestamp" };
            if *unit == TimeUnit::Nanosecond { format!("{base}_ns") } else { base.into() }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::FixedSizeBinary(16)
            if f.metadata().get("ARROW:extension:name").is_some_and(|n| n == "arrow.uuid") =>
        {
            "uuid".into()
        }
        DataType::FixedSizeBinary(n) => format!("fixed[{n}]"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::List(i) | DataType::LargeList(i) | DataType::ListView(i) => {
            format!("list<{}>", nested(i))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(kv) if kv.len() == 2 => {
                format!("map<{},{}>", nested(&kv[0]), nested(&kv[1]))
            }
            other => other.to_string(),
        },
        DataType::Struct(_) if is_variant(f.data_type()) => "variant".into(),
        DataType::Struct(fields) => {
            let all: Vec<String> = fields.iter().map(|f| format!("{}:{}", f.name(), nested(f))).collect();
            format!("struct<{}>", all.join(","))
        }
        DataType::Null => "unknown".into(),
        DataType::Dictionary(_, v) => type_name(&Field::new(f.name(), (**v).clone(), true)),
        other => other.to_string(),
    }
}

/// Columns and rows of batches that share a schema; the error names a type that has no form in the protocol.
pub(super) fn convert(
    fields: &[arrow::datatypes::FieldRef],
    batches: &[RecordBatch],
) -> Result<(Vec<Column>, Vec<Row>), String> {
    let columns: Vec<Column> = fields.iter().map(|f| Column(f.name().clone(), type_name(f))).collect();
    let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for b in batches {
        for i in 0..b.num_rows() {
            let cell = |(c, a): (&Column, &arrow::array::ArrayRef)| value(a.as_ref(), i, &c.1);
            rows.push(columns.iter().zip(b.columns()).map(cell).collect::<Result<Row, String>>()?);
        }
    }
    Ok((columns, rows))
}

fn value(a: &dyn Array, i: usize, ty: &str) -> Result<Value, String> {
    if a.is_null(i) || matches!(a.data_type(), DataType::Null) {
        return Ok(Value::Null);
    }
    Ok(match a.data_type() {
        DataType::Boolean => json!(a.as_boolean().value(i)),
        DataType::Int8 => json!(a.as_primitive::<Int8Type>().value(i)),
        DataType::Int16 => json!(a.as_primitive::<Int16Type>().value(i)),
        DataType::Int32 => json!(a.as_primitive::<Int32Type>().value(i)),
        DataType::Int64 => json!(a.as_primitive::<Int64Type>().value(i)),
        DataType::UInt8 => json!(a.as_primitive::<UInt8Type>().value(i)),
        DataType::UInt16 => json!(a.as_primitive::<UInt16Type>().value(i)),
        DataType::UInt32 => json!(a.as_primitive::<UInt32Type>().value(i)),
        DataType::UInt64 => json!(a.as_primitive::<UInt64Type>().value(i)),
        DataType::Float32 => json!(f32_text(a.as_primitive::<Float32Type>().value(i))),
        DataType::Float64 => json!(f64_text(a.as_primitive::<Float64Type>().value(i))),
        DataType::Decimal128(..) => json!(a.as_primitive::<Decimal128Type>().value_as_string(i)),
        DataType::Date32 => {
            let v = a.as_primitive::<Date32Type>();
            json!(
                v.value_as_date(i)
                    .map(|d| d.to_string())
                    .ok_or_else(|| format!("date {} is out of range", v.value(i)))?
            )
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let t = a.as_primitive::<Time64MicrosecondType>().value_as_time(i).ok_or("time is out of range")?;
            json!(t.format("%H:%M:%S%.6f").to_string())
        }
        DataType::Timestamp(TimeUnit::Microsecond, tz) => {
            let v = a.as_primitive::<TimestampMicrosecondType>();
            let t = v.value_as_datetime(i).ok_or_else(|| format!("timestamp {} is out of range", v.value(i)))?;
            json!(format!("{}{}", t.format("%Y-%m-%dT%H:%M:%S%.6f"), if tz.is_some() { "Z" } else { "" }))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, tz) => {
            let v = a.as_primitive::<TimestampNanosecondType>();
            let t = v.value_as_datetime(i).ok_or_else(|| format!("timestamp {} is out of range", v.value(i)))?;
            json!(format!("{}{}", t.format("%Y-%m-%dT%H:%M:%S%.9f"), if tz.is_some() { "Z" } else { "" }))
        }
        DataType::Utf8 => json!(a.as_string::<i32>().value(i)),
        DataType::LargeUtf8 => json!(a.as_string::<i64>().value(i)),
        DataType::Utf8View => json!(a.as_string_view().value(i)),
        DataType::Binary => bytes(a.as_binary::<i32>().value(i), ty),
        DataType::LargeBinary => bytes(a.as_binary::<i64>().value(i), ty),
        DataType::BinaryView => bytes(a.as_binary_view().value(i), ty),
        DataType::FixedSizeBinary(_) => bytes(a.as_fixed_size_binary().value(i), ty),
        DataType::List(f) => list(a.as_list::<i32>().value(i).as_ref(), &type_name(f))?,
        DataType::LargeList(f) => list(a.as_list::<i64>().value(i).as_ref(), &type_name(f))?,
        DataType::Struct(_) if ty == "variant" => {
            let text = variant_json(&a.slice(i, 1)).map_err(|e| e.to_string())?;
            let value: Value = serde_json::from_str(text.value(0)).map_err(|e| format!("variant: {e}"))?;
            // keys in order, as the drivers of the other engines write them
            json!(sorted(value).to_string())
        }
        DataType::Struct(fields) => {
            let s = a.as_struct();
            let each = fields.iter().zip(s.columns()).map(|(f, c)| value(c.as_ref(), i, &type_name(f)));
            Value::Array(each.collect::<Result<_, _>>()?)
        }
        DataType::Map(..) => {
            let entries = a.as_map().value(i);
            let (keys, values) = (entries.column(0), entries.column(1));
            let names: Vec<String> = entries.fields().iter().map(|f| type_name(f)).collect();
            let mut pairs = Vec::with_capacity(entries.len());
            for k in 0..entries.len() {
                pairs.push(json!([value(keys.as_ref(), k, &names[0])?, value(values.as_ref(), k, &names[1])?]));
            }
            pairs.sort_by_key(|p| p[0].to_string());
            Value::Array(pairs)
        }
        DataType::Dictionary(_, inner) => {
            let plain = arrow::compute::cast(&a.slice(i, 1), inner).map_err(|e| e.to_string())?;
            value(plain.as_ref(), 0, ty)?
        }
        other => return Err(format!("Arrow type {other} has no form in the protocol")),
    })
}

/// The value with the keys of its objects in order.
fn sorted(v: Value) -> Value {
    match v {
        Value::Object(o) => {
            let mut entries: Vec<_> = o.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(a) => Value::Array(a.into_iter().map(sorted).collect()),
        v => v,
    }
}

fn list(items: &dyn Array, ty: &str) -> Result<Value, String> {
    Ok(Value::Array((0..items.len()).map(|k| value(items, k, ty)).collect::<Result<_, _>>()?))
}

fn bytes(b: &[u8], ty: &str) -> Value {
    let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
    if ty == "uuid" && b.len() == 16 {
        return json!(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]));
    }
    json!(hex)
}
