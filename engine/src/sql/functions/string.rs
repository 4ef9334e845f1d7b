//! Values as strings, as Spark's `CAST(x AS STRING)` prints them.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, TimeUnit};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::ScalarUDF;

use super::Simple;
use super::scalar::arity;

pub(super) fn all() -> Vec<ScalarUDF> {
    vec![Simple::udf(
        "spark_string",
        &[],
        Simple::any(),
        |t| arity("spark_string", t, 1..=1, DataType::Utf8),
        |a, _, _| Ok(Arc::new(spark_strings(&a[0])?)),
    )]
}

/// Every value as Spark prints it (Spark 3.5: scientific decimals below 1E-6); null stays null.
pub fn spark_strings(array: &dyn Array) -> DfResult<StringArray> {
    let plain =
        || -> DfResult<StringArray> { Ok(arrow::compute::cast(array, &DataType::Utf8)?.as_string::<i32>().clone()) };
    match array.data_type() {
        DataType::Null => Ok(StringArray::new_null(array.len())),
        DataType::Dictionary(_, value) => spark_strings(&arrow::compute::cast(array, value)?),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = arrow::compute::cast(array, &DataType::Binary)?;
            Ok(bytes.as_binary::<i32>().iter().map(|b| b.map(|b| String::from_utf8_lossy(b).into_owned())).collect())
        }
        DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Struct(_)
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::Map(..) => (0..array.len())
            .map(|row| {
                if array.is_null(row) {
                    return Ok(None);
                }
                let mut out = String::new();
                print(array, row, &mut out)?;
                Ok(Some(out))
            })
            .collect(),
        _ => plain(),
    }
}

/// Writes one value; null is `null`, as inside of nested values.
fn print(array: &dyn Array, row: usize, out: &mut String) -> DfResult<()> {
    // a NullArray says of no row that it is null
    if array.is_null(row) || array.data_type().is_null() {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            java_float(&format!("{v:e}"), f64::from(v), out);
        }
        DataType::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            java_float(&format!("{v:e}"), v, out);
        }
        DataType::Decimal128(_, scale) => decimal(array.as_primitive::<Decimal128Type>().value(row), *scale, out),
        DataType::Date32 => write_date(i64::from(array.as_primitive::<Date32Type>().value(row)), out),
        DataType::Timestamp(unit, _) => timestamp(array, row, *unit, out)?,
        DataType::Struct(_) => {
            let s = array.as_struct();
            out.push('{');
            for (i, column) in s.columns().iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(column, row, out)?;
            }
            out.push('}');
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row), out)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), out)?,
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            out.push('{');
            for i in 0..entries.len() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(entries.column(0), i, out)?;
                out.push_str(" -> ");
                print(entries.column(1), i, out)?;
            }
            out.push('}');
        }
        _ => {
            let one = spark_strings(&array.slice(row, 1))?;
            out.push_str(one.value(0));
        }
    }
    Ok(())
}

fn list(values: &ArrayRef, out: &mut String) -> DfResult<()> {
    out.push('[');
    for i in 0..values.len() {
        if i > 0 {
            out.push_str(", ");
        }
        print(values, i, out)?;
    }
    out.push(']');
    Ok(())
}

/// Java's form of a double or float, from the shortest digits in scientific form: `d.ddE±x`.
fn java_float(scientific: &str, value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.push_str(sign);
    if value == 0.0 {
        out.push_str("0.0");
    } else if (-3..7).contains(&exponent) {
        if exponent < 0 {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            out.push_str(&digits);
        } else {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.push_str(&digits);
                out.extend(std::iter::repeat_n('0', whole - digits.len()));
                out.push_str(".0");
            } else {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
    } else {
        let rest = if digits.len() > 1 { &digits[1..] } else { "0" };
        let _ = write!(out, "{}.{rest}E{exponent}", &digits[..1]);
    }
}

/// Java's `BigDecimal.toString`: scientific when the value is smaller than 1E-6.
fn decimal(unscaled: i128, scale: i8, out: &mut String) {
    let digits = unscaled.unsigned_abs().to_string();
    if unscaled < 0 {
        out.push('-');
    }
    let scale = i32::from(scale);
    let adjusted = digits.len() as i32 - 1 - scale;
    if scale <= 0 {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', if unscaled == 0 { 0 } else { (-scale) as usize }));
    } else if adjusted < -6 {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        let _ = write!(out, "E{adjusted}");
    } else {
        let scale = scale as usize;
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        let _ = write!(out, "{whole}.{fraction}");
    }
}

/// `yyyy-MM-dd`; years beyond 9999 carry a sign.
pub(crate) fn write_date(days: i64, out: &mut String) {
    let (year, month, day) = civil(days);
    if year > 9999 {
        out.push('+');
    }
    if year < 0 {
        let _ = write!(out, "-{:04}-{month:02}-{day:02}", -year);
    } else {
        let _ = write!(out, "{year:04}-{month:02}-{day:02}");
    }
}

/// Proleptic Gregorian date of a day number.
fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = (if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 }) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `yyyy-MM-dd HH:mm:ss[.fraction]` in UTC, without trailing zeros.
fn timestamp(array: &dyn Array, row: usize, unit: TimeUnit, out: &mut String) -> DfResult<()> {
    let raw = arrow::compute::cast(&array.slice(row, 1), &DataType::Int64)?;
    let raw = raw.as_primitive::<arrow::datatypes::Int64Type>().value(0);
    let per_second: i64 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let (seconds, fraction) = (raw.div_euclid(per_second), raw.rem_euclid(per_second));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    write_date(days, out);
    let _ = write!(out, " {:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    if fraction > 0 {
        let width = per_second.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    Ok::<(), DataFusionError>(())
}
