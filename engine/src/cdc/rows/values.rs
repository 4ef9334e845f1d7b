//! Values of primitive types out of JSON, exactly or not at all.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use iceberg::spec::PrimitiveType;

use super::json::{Cell, Json};
use crate::types::{from_hex, parse_date};
use crate::{Error, Result};

/// Zone of timestamps with zone (TYPE-6).
const UTC: &str = "+00:00";

/// A column of a primitive type. `refused` makes the error for a value that does not fit.
pub(super) fn primitive(
    p: &PrimitiveType,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
) -> Result<ArrayRef> {
    use PrimitiveType as P;
    Ok(match p {
        P::Boolean => Arc::new(BooleanArray::from(each(p, cells, refused, |v| v.boolean())?)),
        P::Int => Arc::new(Int32Array::from(each(p, cells, refused, |v| integer(v)?.try_into().ok())?)),
        P::Long => Arc::new(Int64Array::from(each(p, cells, refused, |v| integer(v)?.try_into().ok())?)),
        P::Float => Arc::new(Float32Array::from(each(p, cells, refused, float::<f32>)?)),
        P::Double => Arc::new(Float64Array::from(each(p, cells, refused, float::<f64>)?)),
        P::Decimal { precision, scale } => {
            let values = each(p, cells, refused, |v| decimal(v, *precision, *scale))?;
            let (precision, scale) = (
                u8::try_from(*precision).map_err(|_| Error::internal("precision"))?,
                i8::try_from(*scale).map_err(|_| Error::internal("scale"))?,
            );
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale)?)
        }
        P::Date => Arc::new(Date32Array::from(each(p, cells, refused, date)?)),
        P::Time => Arc::new(Time64MicrosecondArray::from(each(p, cells, refused, time)?)),
        P::Timestamp => Arc::new(TimestampMicrosecondArray::from(each(p, cells, refused, |v| micros(local(v)?))?)),
        P::Timestamptz => {
            let values = each(p, cells, refused, |v| micros(instant(v)?))?;
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone(UTC))
        }
        P::TimestampNs => Arc::new(TimestampNanosecondArray::from(each(p, cells, refused, |v| nanos(local(v)?))?)),
        P::TimestamptzNs => {
            let values = each(p, cells, refused, |v| nanos(instant(v)?))?;
            Arc::new(TimestampNanosecondArray::from(values).with_timezone(UTC))
        }
        P::String => {
            let values = each(p, cells, refused, |v| v.string().map(std::borrow::Cow::into_owned))?;
            Arc::new(StringArray::from(values))
        }
        P::Uuid => fixed(
            each(p, cells, refused, |v| Some(uuid::Uuid::parse_str(&v.string()?).ok()?.into_bytes().to_vec()))?,
            16,
        )?,
        P::Fixed(n) => {
            let width = i32::try_from(*n).map_err(|_| Error::internal("length of fixed"))?;
            fixed(each(p, cells, refused, |v| hex(v).filter(|b| b.len() as u64 == *n))?, width)?
        }
        P::Binary => {
            let values = each(p, cells, refused, hex)?;
            Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
    })
}

/// Reads every value that is there.
fn each<T>(
    p: &PrimitiveType,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
    read: impl Fn(&Json<'_>) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    cells
        .iter()
        .map(|c| match &c.value {
            None => Ok(None),
            Some(v) => read(v).map(Some).ok_or_else(|| refused(c, &allowed(p))),
        })
        .collect()
}

/// What a column of a type takes.
fn allowed(p: &PrimitiveType) -> String {
    use PrimitiveType as P;
    match p {
        P::Boolean => "true, false".into(),
        P::Int => format!("a whole number from {} to {}", i32::MIN, i32::MAX),
        P::Long => format!("a whole number from {} to {}", i64::MIN, i64::MAX),
        P::Float | P::Double => "a number in its range, \"NaN\", \"Infinity\", \"-Infinity\"".into(),
        P::Decimal { precision, scale } => format!(
            "a number, or a string of one, with at most {} digits before the point and {scale} after it",
            precision.saturating_sub(*scale)
        ),
        P::Date => "a string YYYY-MM-DD".into(),
        P::Time => "a string HH:MM:SS with at most 6 digits of a fraction".into(),
        P::Timestamp => "a string YYYY-MM-DDTHH:MM:SS with at most 6 digits of a fraction and no zone".into(),
        P::Timestamptz => "a string YYYY-MM-DDTHH:MM:SS with at most 6 digits of a fraction, and Z or an offset".into(),
        P::TimestampNs => {
            "a string YYYY-MM-DDTHH:MM:SS with at most 9 digits of a fraction and no zone, from 1677 to 2262".into()
        }
        P::TimestamptzNs => {
            "a string YYYY-MM-DDTHH:MM:SS with at most 9 digits of a fraction, and Z or an offset, from 1677 to 2262"
                .into()
        }
        P::String => "a string".into(),
        P::Uuid => "a string of a UUID".into(),
        P::Fixed(n) => format!("a string of {} hex digits", n.saturating_mul(2)),
        P::Binary => "a string of hex digits, two a byte".into(),
    }
}

fn fixed(values: Vec<Option<Vec<u8>>>, width: i32) -> Result<ArrayRef> {
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), width)?))
}

/// A decimal number as it is written: `digits` times ten to the `exponent`. The digits neither begin nor end with a zero.
pub(super) struct Exact {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Exact {
    /// A number in JSON's grammar; `None` for anything else, and for an exponent beyond 64 bits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((m, e)) => {
                let digits = e.strip_prefix(['+', '-']).unwrap_or(e);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                (m, e.parse::<i64>().ok()?)
            }
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let exponent = exponent.checked_add(i64::try_from(all.len() - digits.len()).ok()?)?;
        Some(Self { negative, digits: digits.trim_start_matches('0').to_string(), exponent })
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number times ten to the `scale`, when that is an integer of 128 bits.
    pub(super) fn scaled(&self, scale: u32) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let shift = u32::try_from(self.exponent.checked_add(i64::from(scale))?).ok()?;
        let value = self.digits.parse::<i128>().ok()?.checked_mul(10i128.checked_pow(shift)?)?;
        Some(if self.negative { -value } else { value })
    }
}

fn integer(v: &Json<'_>) -> Option<i128> {
    Exact::parse(v.number()?)?.scaled(0)
}

fn decimal(v: &Json<'_>, precision: u32, scale: u32) -> Option<i128> {
    let exact = match v.number() {
        Some(n) => Exact::parse(n),
        None => Exact::parse(&v.string()?),
    };
    exact?.scaled(scale).filter(|n| 10i128.checked_pow(precision).is_none_or(|limit| n.abs() < limit))
}

/// The nearest float; a number that is none, being too large or too small, is refused.
fn float<T: std::str::FromStr + Into<f64> + Copy>(v: &Json<'_>) -> Option<T> {
    if let Some(word @ ("NaN" | "Infinity" | "-Infinity")) = v.string().as_deref() {
        return word.parse().ok();
    }
    let number = v.number()?;
    let zero = Exact::parse(number)?.is_zero();
    let nearest: T = number.parse().ok()?;
    let wide: f64 = nearest.into();
    (wide.is_finite() && (wide != 0.0 || zero)).then_some(nearest)
}

fn hex(v: &Json<'_>) -> Option<Vec<u8>> {
    let text = v.string()?;
    // a digit of a number may have a sign
    text.bytes().all(|b| b.is_ascii_hexdigit()).then(|| from_hex(&text))?
}

/// Days since the epoch.
fn date(v: &Json<'_>) -> Option<i32> {
    parse_date(&v.string()?)
}

/// Microseconds since midnight.
fn time(v: &Json<'_>) -> Option<i64> {
    let text = v.string()?;
    whole_nanos(&text)?;
    let t = ["%H:%M:%S%.f", "%H:%M"].iter().find_map(|f| NaiveTime::parse_from_str(&text, f).ok())?;
    let nanos = i64::from(t.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(t.nanosecond());
    // a leap second has more nanoseconds than a second
    (t.nanosecond() < 1_000_000_000 && nanos % 1000 == 0).then_some(nanos / 1000)
}

/// Refuses more digits of a fraction than nanoseconds have, unless they are zeros: they would be cut off.
fn whole_nanos(text: &str) -> Option<()> {
    let fraction = text.split_once('.').map_or("", |(_, f)| f);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(9).all(|b| b == b'0').then_some(())
}

/// Date and time of a text, and its offset from UTC in seconds.
fn date_time(text: &str) -> Option<(NaiveDateTime, Option<FixedOffset>)> {
    const FORMS: [&str; 4] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
    whole_nanos(text)?;
    let naive = |text: &str| {
        let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|d| d.and_time(NaiveTime::MIN));
        FORMS.iter().find_map(|f| NaiveDateTime::parse_from_str(text, f).ok()).or_else(day)
    };
    let parsed = match naive(text) {
        Some(t) => (t, None),
        None => {
            let (time, offset) = match text.strip_suffix(['Z', 'z']) {
                Some(time) => (time, "+00:00"),
                // a year may have a sign too
                None => text.split_at_checked(text.rfind(['+', '-']).filter(|i| *i > 0)?)?,
            };
            // the offset of a day without a time would be read from the day
            let offset = time.contains(':').then(|| offset.parse::<FixedOffset>().ok())??;
            (naive(time)?, Some(offset))
        }
    };
    (parsed.0.nanosecond() < 1_000_000_000).then_some(parsed)
}

/// A timestamp without zone. One that names a zone is an instant, and no such time.
fn local(v: &Json<'_>) -> Option<NaiveDateTime> {
    match date_time(&v.string()?)? {
        (t, None) => Some(t),
        (_, Some(_)) => None,
    }
}

/// A timestamp with zone, in UTC; so is one that names none.
fn instant(v: &Json<'_>) -> Option<NaiveDateTime> {
    let (t, offset) = date_time(&v.string()?)?;
    match offset {
        None => Some(t),
        Some(o) => t.checked_sub_offset(o),
    }
}

fn micros(t: NaiveDateTime) -> Option<i64> {
    t.nanosecond().is_multiple_of(1000).then(|| t.and_utc().timestamp_micros())
}

fn nanos(t: NaiveDateTime) -> Option<i64> {
    DateTime::timestamp_nanos_opt(&t.and_utc())
}
