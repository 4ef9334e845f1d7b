//! TPC-H's table `lineitem` as rows of Arrow, made by the generator that follows the benchmark's specification.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Builder, Decimal128Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tpchgen::generators::{LineItem, LineItemGenerator};

/// Rows of the table at scale factor 1, as good as.
const ROWS_AT_ONE: f64 = 6_000_000.0;
/// Rows of a batch.
const BATCH: usize = 8192;
/// Digits of prices, discounts, taxes and quantities, and those after the point.
const DECIMAL: (u8, i8) = (15, 2);

/// Spark's text of the columns.
pub(super) const COLUMNS: &str = "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), \
     l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, \
     l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING";

/// The first `rows` rows of the table at the scale factor that has as many. Orders have 1 to 7 lines each, so a little more is generated.
pub(super) fn lines(rows: u32) -> impl Iterator<Item = LineItem<'static>> {
    let scale = f64::from(rows) / ROWS_AT_ONE * 1.01 + 0.0005;
    LineItemGenerator::new(scale, 1, 1).into_iter().take(rows as usize)
}

/// Arrow's schema of [`COLUMNS`].
fn schema() -> SchemaRef {
    let decimal = DataType::Decimal128(DECIMAL.0, DECIMAL.1);
    let (long, text, date) = (DataType::Int64, DataType::Utf8, DataType::Date32);
    let columns = [
        ("l_orderkey", &long),
        ("l_partkey", &long),
        ("l_suppkey", &long),
        ("l_linenumber", &DataType::Int32),
        ("l_quantity", &decimal),
        ("l_extendedprice", &decimal),
        ("l_discount", &decimal),
        ("l_tax", &decimal),
        ("l_returnflag", &text),
        ("l_linestatus", &text),
        ("l_shipdate", &date),
        ("l_commitdate", &date),
        ("l_receiptdate", &date),
        ("l_shipinstruct", &text),
        ("l_shipmode", &text),
        ("l_comment", &text),
    ];
    Arc::new(Schema::new(columns.map(|(name, ty)| Field::new(name, ty.clone(), true)).to_vec()))
}

/// Lines as batches of the table's columns.
///
/// # Errors
/// Arrow's, when a value does not fit its column.
pub(super) fn batches(lines: impl Iterator<Item = LineItem<'static>>) -> Result<Vec<RecordBatch>, ArrowError> {
    let (schema, mut lines, mut out) = (schema(), lines.peekable(), Vec::new());
    while lines.peek().is_some() {
        out.push(batch(&schema, lines.by_ref().take(BATCH))?);
    }
    Ok(out)
}

fn batch(schema: &SchemaRef, lines: impl Iterator<Item = LineItem<'static>>) -> Result<RecordBatch, ArrowError> {
    let mut keys: [Int64Builder; 3] = std::array::from_fn(|_| Int64Builder::new());
    let mut number = Int32Builder::new();
    let typed = || Decimal128Builder::new().with_precision_and_scale(DECIMAL.0, DECIMAL.1);
    let mut decimals = [typed()?, typed()?, typed()?, typed()?];
    let mut dates: [Date32Builder; 3] = std::array::from_fn(|_| Date32Builder::new());
    let mut texts: [StringBuilder; 5] = std::array::from_fn(|_| StringBuilder::new());
    for l in lines {
        keys.iter_mut().zip([l.l_orderkey, l.l_partkey, l.l_suppkey]).for_each(|(b, v)| b.append_value(v));
        number.append_value(l.l_linenumber);
        // the quantity is whole, the others are hundredths already
        let hundredths =
            [l.l_quantity * 100, l.l_extendedprice.into_inner(), l.l_discount.into_inner(), l.l_tax.into_inner()];
        decimals.iter_mut().zip(hundredths).for_each(|(b, v)| b.append_value(v.into()));
        let days = [l.l_shipdate, l.l_commitdate, l.l_receiptdate].map(|d| d.to_unix_epoch());
        dates.iter_mut().zip(days).for_each(|(b, v)| b.append_value(v));
        let words = [l.l_returnflag, l.l_linestatus, l.l_shipinstruct, l.l_shipmode, l.l_comment];
        texts.iter_mut().zip(words).for_each(|(b, v)| b.append_value(v));
    }
    let mut columns: Vec<ArrayRef> = keys.iter_mut().map(|b| Arc::new(b.finish()) as ArrayRef).collect();
    columns.push(Arc::new(number.finish()));
    columns.extend(decimals.iter_mut().map(|b| Arc::new(b.finish()) as ArrayRef));
    let [flag, status, instruct, mode, comment] = texts.map(|mut b| Arc::new(b.finish()) as ArrayRef);
    columns.extend([flag, status]);
    columns.extend(dates.iter_mut().map(|b| Arc::new(b.finish()) as ArrayRef));
    columns.extend([instruct, mode, comment]);
    RecordBatch::try_new(schema.clone(), columns)
}
