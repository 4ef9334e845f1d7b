//! JSON single values (JSON-30..42).

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use iceberg::spec::{Literal, Map, PrimitiveLiteral, PrimitiveType, Struct, Type};
use serde_json::Value;

use crate::{Error, Result};

const EPOCH: NaiveDate = NaiveDate::from_ymd_opt(1970, 1, 1).expect("a date");

/// Decodes a JSON single value; JSON null is `None`.
///
/// # Errors
/// [`crate::ErrorKind::Malformed`] for a value that does not fit the type, e.g. a timestamptz with another offset than
/// `+00:00`, a fixed of the wrong length, a decimal of another scale (JSON-41).
pub fn literal_from_json(v: &Value, t: &Type) -> Result<Option<Literal>> {
    if v.is_null() {
        return Ok(None);
    }
    let bad = |clause| Error::malformed(format!("JSON value {v} does not fit type {t}")).clause(clause);
    Ok(Some(match t {
        Type::Primitive(p) => Literal::Primitive(primitive_from_json(v, p).ok_or_else(|| bad(json_clause(p)))?),
        Type::Struct(s) => {
            let o = v.as_object().ok_or_else(|| bad("JSON-38"))?;
            if let Some(k) = o.keys().find(|k| k.parse().ok().and_then(|id| s.field_by_id(id)).is_none()) {
                return Err(Error::malformed(format!("JSON struct value has unknown field id {k:?}")).clause("JSON-38"));
            }
            let values = s.fields().iter().map(|f| match o.get(&f.id.to_string()) {
                Some(v) => literal_from_json(v, &f.field_type),
                None => Ok(None),
            });
            Literal::Struct(values.collect::<Result<Vec<_>>>()?.into_iter().collect::<Struct>())
        }
        Type::List(l) => {
            let items = v.as_array().ok_or_else(|| bad("JSON-39"))?;
            Literal::List(
                items.iter().map(|i| literal_from_json(i, &l.element_field.field_type)).collect::<Result<_>>()?,
            )
        }
        Type::Map(m) => {
            let list = |k| v.get(k).and_then(Value::as_array).ok_or_else(|| bad("JSON-39"));
            let (keys, values) = (list("keys")?, list("values")?);
            if keys.len() != values.len() {
                return Err(Error::malformed(format!("map value has {} keys and {} values", keys.len(), values.len()))
                    .clause("JSON-39"));
            }
            let mut map = Map::new();
            for (k, v) in keys.iter().zip(values) {
                let k = literal_from_json(k, &m.key_field.field_type)?.ok_or_else(|| bad("JSON-39"))?;
                map.insert(k, literal_from_json(v, &m.value_field.field_type)?);
            }
            Literal::Map(map)
        }
    }))
}

fn json_clause(p: &PrimitiveType) -> &'static str {
    use PrimitiveType as P;
    match p {
        P::Boolean | P::Int | P::Long => "JSON-30",
        P::Float | P::Double => "JSON-31",
        P::Decimal { .. } => "JSON-32",
        P::Date | P::Time => "JSON-33",
        P::Timestamp | P::TimestampNs => "JSON-34",
        P::Timestamptz | P::TimestamptzNs => "JSON-35",
        P::Uuid => "JSON-36",
        P::Fixed(_) | P::Binary => "JSON-37",
        P::String => "JSON-3",
    }
}

fn primitive_from_json(v: &Value, p: &PrimitiveType) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    Some(match p {
        P::Boolean => L::Boolean(v.as_bool()?),
        P::Int => L::Int(v.as_i64()?.try_into().ok()?),
        P::Long => L::Long(v.as_i64()?),
        P::Float => L::Float((v.as_f64()? as f32).into()),
        P::Double => L::Double(v.as_f64()?.into()),
        P::Decimal { precision, scale } => L::Int128(parse_decimal(v.as_str()?, *precision, *scale)?),
        P::Date => L::Int(parse_date(v.as_str()?)?),
        P::Time => L::Long(parse_time(v.as_str()?)?),
        P::Timestamp => L::Long(parse_local(v.as_str()?)?.and_utc().timestamp_micros()),
        P::Timestamptz => L::Long(parse_local(strip_utc(v.as_str()?)?)?.and_utc().timestamp_micros()),
        P::TimestampNs => L::Long(parse_local(v.as_str()?)?.and_utc().timestamp_nanos_opt()?),
        P::TimestamptzNs => L::Long(parse_local(strip_utc(v.as_str()?)?)?.and_utc().timestamp_nanos_opt()?),
        P::String => L::String(v.as_str()?.to_string()),
        P::Uuid => {
            let s = v.as_str().filter(|s| s.len() == 36)?;
            L::UInt128(uuid::Uuid::parse_str(s).ok()?.as_u128())
        }
        P::Fixed(n) => L::Binary(from_hex(v.as_str()?).filter(|b| b.len() as u64 == *n)?),
        P::Binary => L::Binary(from_hex(v.as_str()?)?),
    })
}

fn strip_utc(s: &str) -> Option<&str> {
    s.strip_suffix("+00:00").or_else(|| s.strip_suffix('Z'))
}

pub(crate) fn parse_date(s: &str) -> Option<i32> {
    let d = NaiveDate::parse_from_str(s, "%Y-%m-%d").ok()?;
    i32::try_from(d.signed_duration_since(EPOCH).num_days()).ok()
}

pub(super) fn parse_time(s: &str) -> Option<i64> {
    let t = NaiveTime::parse_from_str(s, "%H:%M:%S%.f").or_else(|_| NaiveTime::parse_from_str(s, "%H:%M")).ok()?;
    Some(i64::from(t.num_seconds_from_midnight()) * 1_000_000 + i64::from(t.nanosecond() / 1000))
}

pub(super) fn parse_local(s: &str) -> Option<NaiveDateTime> {
    NaiveDateTime::parse_from_str(s, "%Y-%m-%dT%H:%M:%S%.f")
        .or_else(|_| NaiveDateTime::parse_from_str(s, "%Y-%m-%dT%H:%M"))
        .ok()
}

/// Unscaled value of a decimal text whose scale must be exactly `scale`; the scientific form of JSON-32 is read too.
pub(super) fn parse_decimal(s: &str, precision: u32, scale: u32) -> Option<i128> {
    let (mantissa, exp) = match s.find(['e', 'E']) {
        Some(i) => (&s[..i], s[i + 1..].parse::<i32>().ok()?),
        None => (s, 0),
    };
    let (neg, digits) = match mantissa.strip_prefix('-') {
        Some(d) => (true, d),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (int, frac) = digits.split_once('.').unwrap_or((digits, ""));
    if int.is_empty() && frac.is_empty() || !int.bytes().chain(frac.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    if frac.len() as i32 - exp != scale as i32 {
        return None;
    }
    let text: String = [int, frac].concat();
    let trimmed = text.trim_start_matches('0');
    if trimmed.len() > precision as usize {
        return None;
    }
    let v: i128 = if trimmed.is_empty() { 0 } else { trimmed.parse().ok()? };
    Some(if neg { -v } else { v })
}

/// Plain decimal text of an unscaled value.
pub(crate) fn format_decimal(v: i128, scale: u32) -> String {
    let digits = v.unsigned_abs().to_string();
    let scale = scale as usize;
    let sign = if v < 0 { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (int, frac) = padded.split_at(padded.len() - scale);
    format!("{sign}{int}.{frac}")
}

pub(crate) fn from_hex(s: &str) -> Option<Vec<u8>> {
    if !s.len().is_multiple_of(2) || !s.is_ascii() {
        return None;
    }
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).ok()).collect()
}

pub(super) fn to_hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02X}")).collect()
}

/// `2017-12-01`; `None` outside the calendar of this build.
pub(super) fn format_date(days: i32) -> Option<String> {
    let d = if days >= 0 {
        EPOCH.checked_add_days(Days::new(days as u64))
    } else {
        EPOCH.checked_sub_days(Days::new(u64::from(days.unsigned_abs())))
    };
    d.map(|d| d.format("%Y-%m-%d").to_string())
}

pub(super) fn format_time(us: i64) -> Option<String> {
    let secs = u32::try_from(us.div_euclid(1_000_000)).ok()?;
    let t = NaiveTime::from_num_seconds_from_midnight_opt(secs, us.rem_euclid(1_000_000) as u32 * 1000)?;
    Some(t.format("%H:%M:%S%.6f").to_string())
}

pub(super) fn format_micros(us: i64) -> Option<String> {
    let t = DateTime::from_timestamp(us.div_euclid(1_000_000), us.rem_euclid(1_000_000) as u32 * 1000)?;
    Some(t.format("%Y-%m-%dT%H:%M:%S%.6f").to_string())
}

pub(super) fn format_nanos(ns: i64) -> Option<String> {
    let t = DateTime::from_timestamp(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) as u32)?;
    Some(t.format("%Y-%m-%dT%H:%M:%S%.9f").to_string())
}

/// Encodes a literal as a JSON single value.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] when there is no such form: another type, NaN, a date outside the calendar.
pub fn literal_to_json(lit: &Literal, t: &Type) -> Result<Value> {
    let none = || Error::invalid(format!("literal {lit:?} has no JSON form as {t}")).clause("JSON-30");
    Ok(match (lit, t) {
        (Literal::Primitive(l), Type::Primitive(p)) => primitive_to_json(l, p).ok_or_else(none)?,
        (Literal::Struct(v), Type::Struct(s)) => {
            let mut o = serde_json::Map::new();
            for (f, v) in s.fields().iter().zip(v.iter()) {
                if let Some(v) = v {
                    o.insert(f.id.to_string(), literal_to_json(v, &f.field_type)?);
                }
            }
            Value::Object(o)
        }
        (Literal::List(items), Type::List(l)) => Value::Array(
            items
                .iter()
                .map(|i| i.as_ref().map_or(Ok(Value::Null), |i| literal_to_json(i, &l.element_field.field_type)))
                .collect::<Result<_>>()?,
        ),
        (Literal::Map(map), Type::Map(m)) => {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for (k, v) in map.clone() {
                keys.push(literal_to_json(&k, &m.key_field.field_type)?);
                values.push(v.map_or(Ok(Value::Null), |v| literal_to_json(&v, &m.value_field.field_type))?);
            }
            serde_json::json!({"keys": keys, "values": values})
        }
        _ => return Err(none()),
    })
}

fn primitive_to_json(lit: &PrimitiveLiteral, p: &PrimitiveType) -> Option<Value> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    Some(match (p, lit) {
        (P::Boolean, L::Boolean(v)) => Value::from(*v),
        (P::Int, L::Int(v)) => Value::from(*v),
        (P::Long, L::Long(v)) => Value::from(*v),
        (P::Float, L::Float(v)) => serde_json::Number::from_f64(f64::from(v.0))?.into(),
        (P::Double, L::Double(v)) => serde_json::Number::from_f64(v.0)?.into(),
        (P::Decimal { scale, .. }, L::Int128(v)) => format_decimal(*v, *scale).into(),
        (P::Date, L::Int(v)) => format_date(*v)?.into(),
        (P::Time, L::Long(v)) => format_time(*v)?.into(),
        (P::Timestamp, L::Long(v)) => format_micros(*v)?.into(),
        (P::Timestamptz, L::Long(v)) => format!("{}+00:00", format_micros(*v)?).into(),
        (P::TimestampNs, L::Long(v)) => format_nanos(*v)?.into(),
        (P::TimestamptzNs, L::Long(v)) => format!("{}+00:00", format_nanos(*v)?).into(),
        (P::String, L::String(v)) => v.clone().into(),
        (P::Uuid, L::UInt128(v)) => uuid::Uuid::from_u128(*v).to_string().into(),
        (P::Fixed(n), L::Binary(v)) if v.len() as u64 == *n => to_hex(v).into(),
        (P::Binary, L::Binary(v)) => to_hex(v).into(),
        _ => return None,
    })
}
