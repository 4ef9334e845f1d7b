//! A row as a JSON object, without loss: what JSON has no form for is a string.

use std::fmt::Write;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit, UInt64Type};
use floe_engine::sql::functions::spark_strings;
use serde_json::{Map, Number, Value};

/// One row.
pub fn json_row(batch: &RecordBatch, row: usize) -> Value {
    let schema = batch.schema();
    let cells = schema.fields().iter().zip(batch.columns());
    Value::Object(cells.map(|(f, c)| (f.name().clone(), json_value(c.as_ref(), row))).collect())
}

fn json_value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => match cast(array, row, &DataType::Int64) {
            Some(a) => Value::from(a.as_primitive::<Int64Type>().value(0)),
            None => text(array, row),
        },
        DataType::UInt64 => Value::from(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            // the shortest digits of the float, not those of the double nearest to it
            float(f64::from(v), v.to_string().parse().ok())
        }
        DataType::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            float(v, Some(v))
        }
        DataType::Decimal128(_, scale) => {
            Value::String(decimal(array.as_primitive::<Decimal128Type>().value(row), *scale))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            match cast(array, row, &DataType::LargeBinary) {
                Some(a) => Value::String(a.as_binary::<i64>().value(0).iter().fold(String::new(), |mut out, b| {
                    let _ = write!(out, "{b:02x}");
                    out
                })),
                None => text(array, row),
            }
        }
        DataType::Timestamp(_, zone) => match text(array, row) {
            Value::String(s) => Value::String(s.replacen(' ', "T", 1) + if zone.is_some() { "Z" } else { "" }),
            other => other,
        },
        DataType::Time64(unit) => time(array, row, *unit),
        DataType::Struct(fields) => {
            let s = array.as_struct();
            let cells = fields.iter().zip(s.columns());
            Value::Object(cells.map(|(f, c)| (f.name().clone(), json_value(c.as_ref(), row))).collect())
        }
        DataType::List(_) => items(array.as_list::<i32>().value(row).as_ref()),
        DataType::LargeList(_) => items(array.as_list::<i64>().value(row).as_ref()),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let mut out = Map::new();
            for i in 0..entries.len() {
                let key = match json_value(keys.as_ref(), i) {
                    Value::String(s) => s,
                    other => other.to_string(),
                };
                out.insert(key, json_value(values.as_ref(), i));
            }
            Value::Object(out)
        }
        _ => text(array, row),
    }
}

fn items(values: &dyn Array) -> Value {
    Value::Array((0..values.len()).map(|i| json_value(values, i)).collect())
}

fn cast(array: &dyn Array, row: usize, to: &DataType) -> Option<arrow::array::ArrayRef> {
    arrow::compute::cast(&array.slice(row, 1), to).ok()
}

/// As Spark prints it.
fn text(array: &dyn Array, row: usize) -> Value {
    match spark_strings(&array.slice(row, 1)) {
        Ok(s) if !s.is_null(0) => Value::String(s.value(0).to_string()),
        _ => Value::Null,
    }
}

fn float(value: f64, shown: Option<f64>) -> Value {
    match shown.and_then(Number::from_f64) {
        Some(n) => Value::Number(n),
        None if value.is_nan() => Value::from("NaN"),
        None if value > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}

fn decimal(unscaled: i128, scale: i8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let sign = if unscaled < 0 { "-" } else { "" };
    let Ok(scale) = usize::try_from(scale) else {
        return format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs())));
    };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// `HH:mm:ss[.fraction]`.
fn time(array: &dyn Array, row: usize, unit: TimeUnit) -> Value {
    let Some(raw) = cast(array, row, &DataType::Int64) else {
        return Value::Null;
    };
    let raw = raw.as_primitive::<Int64Type>().value(0);
    let (per_second, width) = if unit == TimeUnit::Nanosecond { (1_000_000_000, 9) } else { (1_000_000, 6) };
    let (seconds, fraction) = (raw.div_euclid(per_second), raw.rem_euclid(per_second));
    let mut out = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction > 0 {
        let _ = write!(out, ".{}", format!("{fraction:0width$}").trim_end_matches('0'));
    }
    Value::String(out)
}
