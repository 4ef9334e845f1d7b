//! The law of changelogs, on any table: rows(from) + changes = rows(to), for each two neighbouring snapshots and for the
//! whole history, net or not. Rows come by the scan, changes by the changelog: two ways that must meet (CDC-20, CDC-24).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::prelude::SessionContext;
use iceberg::spec::{FormatVersion, SchemaRef};

use super::{ChangelogScan, End, MetaColumns, Start};
use crate::scan::IcebergTableProvider;
use crate::sql::functions::spark_strings;
use crate::{Error, ErrorKind, Result, Table};

/// What was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ranges, each read in every variant.
    pub ranges: usize,
    /// Change rows that were applied.
    pub changes: usize,
}

/// Rows with their multiplicity, by a text of each row that tells different rows apart.
type Bag = HashMap<Box<[u8]>, i64>;

/// Rows that were read last: place in the history, schema they were read with. The next range mostly begins with them.
type Known = Option<(usize, i32, Bag)>;

/// Checks the law on the kept history of `main`. `Ok(None)`: floe does not read this table's files, so there is nothing to
/// compare. `Err`: what is broken, and in which range.
pub async fn check(table: &Table) -> std::result::Result<Option<Tally>, String> {
    let m = table.metadata();
    let mut chain = Vec::new();
    let mut at = m.current_snapshot().cloned();
    while let Some(s) = at {
        at = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p)).cloned();
        chain.push(s);
    }
    chain.reverse();
    let mut ranges: Vec<(Option<usize>, usize)> = (0..chain.len()).map(|i| (i.checked_sub(1), i)).collect();
    if chain.len() > 1 {
        ranges.push((None, chain.len() - 1));
        ranges.push((Some(0), chain.len() - 1));
    }
    let mut tally = Tally::default();
    let mut known: Known = None;
    for (from, to) in ranges {
        let schema = chain[to].schema(&m.inner).map_err(|e| e.to_string())?;
        let state = async |i: usize, known: &Known| -> std::result::Result<Option<Bag>, String> {
            if let Some((snapshot, schema_id, bag)) = known
                && (*snapshot, *schema_id) == (i, schema.schema_id())
            {
                return Ok(Some(bag.clone()));
            }
            match rows(table, chain[i].snapshot_id(), &schema).await {
                Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
                r => r.map(Some).map_err(|e| format!("rows of snapshot {}: {e}", chain[i].snapshot_id())),
            }
        };
        let before = match from {
            Some(i) => state(i, &known).await?,
            None => Some(Bag::new()),
        };
        let (Some(before), Some(after)) = (before, state(to, &known).await?) else {
            return Ok(None);
        };
        known = Some((to, schema.schema_id(), after.clone()));
        tally.ranges += 1;
        let start = from.map_or(Start::Beginning, |i| Start::After(chain[i].snapshot_id().to_string()));
        let end = End::At(chain[to].snapshot_id().to_string());
        for variant in [Variant::Plain, Variant::Net, Variant::Updates] {
            if variant == Variant::Updates && m.format_version() < FormatVersion::V3 {
                continue;
            }
            let place = || {
                let from = from.map_or("the beginning".into(), |i| chain[i].snapshot_id().to_string());
                format!("changes ({variant:?}) from {from} to {}", chain[to].snapshot_id())
            };
            let scan = ChangelogScan::builder(table.clone())
                .range(start.clone(), end.clone())
                .schema(schema.clone())
                .meta_columns(MetaColumns::Type)
                .net_changes(variant == Variant::Net)
                .compute_updates(variant == Variant::Updates);
            let changes = match scan.build().await {
                Ok(s) => s.collect().await,
                Err(e) => Err(e),
            };
            let changes = changes.map_err(|e| format!("{}: {e}", place()))?;
            let mut now = before.clone();
            for b in &changes {
                apply(&mut now, b).map_err(|e| format!("{}: {e}", place()))?;
            }
            tally.changes += changes.iter().map(RecordBatch::num_rows).sum::<usize>();
            now.retain(|_, n| *n != 0);
            if now != after {
                return Err(format!("{}: {}", place(), difference(&now, &after)));
            }
        }
    }
    Ok(Some(tally))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Plain,
    Net,
    Updates,
}

async fn rows(table: &Table, snapshot: i64, schema: &SchemaRef) -> Result<Bag> {
    let provider = IcebergTableProvider::with_schema(table.clone(), Some(snapshot), schema.clone(), false)?;
    let batches = SessionContext::new().read_table(Arc::new(provider))?.collect().await?;
    let mut out = Bag::new();
    for b in &batches {
        for key in keys(b.columns(), b.num_rows())? {
            *out.entry(key).or_insert(0) += 1;
        }
    }
    Ok(out)
}

fn apply(rows: &mut Bag, changes: &RecordBatch) -> Result<()> {
    let n = changes.num_columns() - 1;
    let types = changes.column(n).as_string::<i32>();
    for (i, key) in keys(&changes.columns()[..n], changes.num_rows())?.into_iter().enumerate() {
        let by = match types.value(i) {
            "INSERT" | "UPDATE_AFTER" => 1,
            "DELETE" | "UPDATE_BEFORE" => -1,
            other => return Err(Error::internal(format!("change type {other:?}"))),
        };
        *rows.entry(key).or_insert(0) += by;
    }
    Ok(())
}

/// A key a row; equal rows have equal keys. Nested values go by their text.
fn keys(columns: &[ArrayRef], len: usize) -> Result<Vec<Box<[u8]>>> {
    let plain = columns
        .iter()
        .map(|c| {
            Ok(match c.data_type() {
                DataType::Utf8View => cast(c, &DataType::Utf8)?,
                DataType::BinaryView => cast(c, &DataType::Binary)?,
                t if t.is_nested() => Arc::new(spark_strings(c.as_ref())?),
                _ => c.clone(),
            })
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    if plain.is_empty() {
        return Ok(vec![Box::default(); len]);
    }
    let converter = RowConverter::new(plain.iter().map(|c| SortField::new(c.data_type().clone())).collect())?;
    Ok(converter.convert_columns(&plain)?.iter().map(|r| r.as_ref().into()).collect())
}

fn difference(got: &Bag, want: &Bag) -> String {
    let surplus =
        |a: &Bag, b: &Bag| -> i64 { a.iter().map(|(k, n)| (n - b.get(k).copied().unwrap_or(0)).max(0)).sum() };
    let negative = got.values().filter(|n| **n < 0).count();
    format!(
        "{} rows too many, {} rows missing, {negative} rows deleted that were not there",
        surplus(got, want),
        surplus(want, got)
    )
}
