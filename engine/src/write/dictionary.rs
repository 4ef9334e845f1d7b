//! Which columns are worth a dictionary: the first rows of a file tell, as the first page does in Java's writer.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::Result;

/// So many rows are looked at.
const LOOKED_AT: usize = 8192;
/// Fewer rows say nothing, and a file of them is small either way.
const TOO_FEW: usize = 1024;

/// The properties for a file that begins with `first`: numbers and times that hardly repeat are written plain. A dictionary of them fills
/// up, is read before the first row, and its first pages are as large as the values. Strings keep it: what repeats later is decoded once.
///
/// `asked` says whether the table's properties name a column (PROP-14); those win.
pub(super) fn fitted(
    props: &WriterProperties,
    first: &RecordBatch,
    asked: impl Fn(&ColumnPath) -> bool,
) -> Result<WriterProperties> {
    let mut plain = Vec::new();
    for (field, column) in first.schema_ref().fields().iter().zip(first.columns()) {
        let path = ColumnPath::from(field.name().as_str());
        if !asked(&path) && hardly_repeats(column)? {
            plain.push(path);
        }
    }
    if plain.is_empty() {
        return Ok(props.clone());
    }
    let builder = props.clone().into_builder();
    Ok(plain.into_iter().fold(builder, |b, path| b.set_column_dictionary_enabled(path, false)).build())
}

/// Whether more than three of four values differ from all others looked at.
fn hardly_repeats(column: &ArrayRef) -> Result<bool> {
    let n = column.len().min(LOOKED_AT);
    if n < TOO_FEW || !is_number(column.data_type()) {
        return Ok(false);
    }
    let head = column.slice(0, n);
    let distinct = match head.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let values = cast(&head, &DataType::Float64)?;
            let values = values.as_primitive::<arrow::datatypes::Float64Type>();
            values.iter().flatten().map(f64::to_bits).collect::<HashSet<_, ahash::RandomState>>().len()
        }
        DataType::Date32 => {
            let days = head.as_primitive::<arrow::datatypes::Date32Type>();
            days.iter().flatten().collect::<HashSet<_, ahash::RandomState>>().len()
        }
        DataType::Decimal128(..) => {
            let values = head.as_primitive::<arrow::datatypes::Decimal128Type>();
            values.iter().flatten().collect::<HashSet<_, ahash::RandomState>>().len()
        }
        _ => {
            let values = cast(&head, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            values.iter().flatten().collect::<HashSet<_, ahash::RandomState>>().len()
        }
    };
    Ok(distinct > n / 4 * 3)
}

fn is_number(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Decimal128(..)
    )
}

#[cfg(test)]
mod tests;
