//! Functions of plain values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::ScalarUDF;

use super::Simple;

pub(super) fn all() -> Vec<ScalarUDF> {
    vec![
        Simple::udf("crc32", &[], Simple::any(), |t| arity("crc32", t, 1..=1, DataType::Int64), crc32),
        Simple::udf(
            "make_interval",
            &[],
            Simple::any(),
            |t| arity("make_interval", t, 0..=7, DataType::Interval(IntervalUnit::MonthDayNano)),
            make_interval,
        ),
        Simple::udf(
            "date_add",
            &["dateadd"],
            Simple::any(),
            |t| arity("date_add", t, 2..=2, DataType::Date32),
            |a, _, _| days(a, 1),
        ),
        Simple::udf(
            "date_sub",
            &[],
            Simple::any(),
            |t| arity("date_sub", t, 2..=2, DataType::Date32),
            |a, _, _| days(a, -1),
        ),
    ]
}

pub(super) fn arity(
    name: &str,
    types: &[DataType],
    allowed: std::ops::RangeInclusive<usize>,
    out: DataType,
) -> DfResult<DataType> {
    if allowed.contains(&types.len()) {
        return Ok(out);
    }
    plan_err!("{name} takes {} to {} arguments, not {}", allowed.start(), allowed.end(), types.len())
}

/// CRC-32 of a string's or binary's bytes, as a BIGINT.
fn crc32(args: &[ArrayRef], _: &DataType, _: usize) -> DfResult<ArrayRef> {
    let bytes = arrow::compute::cast(&args[0], &DataType::LargeBinary).or_else(|_| {
        let text = arrow::compute::cast(&args[0], &DataType::LargeUtf8)?;
        arrow::compute::cast(&text, &DataType::LargeBinary)
    })?;
    let out: Int64Array = bytes.as_binary::<i64>().iter().map(|v| v.map(|b| i64::from(crc32fast::hash(b)))).collect();
    Ok(Arc::new(out))
}

/// Years, months, weeks, days, hours, minutes, seconds (with fraction); missing ones are 0.
fn make_interval(args: &[ArrayRef], _: &DataType, rows: usize) -> DfResult<ArrayRef> {
    let whole =
        args.iter().take(6).map(|a| arrow::compute::cast(a, &DataType::Int64)).collect::<Result<Vec<_>, _>>()?;
    let seconds = args.get(6).map(|a| arrow::compute::cast(a, &DataType::Float64)).transpose()?;
    let overflow = || DataFusionError::Execution("make_interval: the interval is too long".into());
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        if args.iter().any(|a| a.is_null(row)) {
            out.push(None);
            continue;
        }
        let part = |i: usize| whole.get(i).map_or(0, |a| a.as_primitive::<Int64Type>().value(row));
        let fraction = seconds.as_ref().map_or(0.0, |a| a.as_primitive::<Float64Type>().value(row));
        let months = part(0).checked_mul(12).and_then(|m| m.checked_add(part(1))).and_then(|m| i32::try_from(m).ok());
        let days = part(2).checked_mul(7).and_then(|d| d.checked_add(part(3))).and_then(|d| i32::try_from(d).ok());
        let minutes = part(4).checked_mul(60).and_then(|m| m.checked_add(part(5)));
        let nanos = minutes
            .and_then(|m| m.checked_mul(60_000_000_000))
            .and_then(|n| n.checked_add((fraction * 1e6).round() as i64 * 1000));
        match (months, days, nanos) {
            (Some(m), Some(d), Some(n)) => out.push(Some(IntervalMonthDayNano::new(m, d, n))),
            _ => return Err(overflow()),
        }
    }
    Ok(Arc::new(IntervalMonthDayNanoArray::from(out)))
}

/// A date moved by a number of days.
fn days(args: &[ArrayRef], sign: i64) -> DfResult<ArrayRef> {
    let dates = arrow::compute::cast(&args[0], &DataType::Date32)?;
    let dates = arrow::compute::cast(&arrow::compute::cast(&dates, &DataType::Int32)?, &DataType::Int64)?;
    let by = arrow::compute::cast(&args[1], &DataType::Int64)?;
    let moved: Int64Array = dates
        .as_primitive::<Int64Type>()
        .iter()
        .zip(by.as_primitive::<Int64Type>())
        .map(|(d, n)| Some(d?.saturating_add(n?.saturating_mul(sign))))
        .collect();
    let days = arrow::compute::cast_with_options(
        &moved,
        &DataType::Int32,
        &arrow::compute::CastOptions { safe: false, ..Default::default() },
    )?;
    Ok(arrow::compute::cast(&days, &DataType::Date32)?)
}
