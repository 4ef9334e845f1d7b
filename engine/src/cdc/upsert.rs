//! Upsert: rows that take the place of those with the same key.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use super::config::{DeleteFormat, WriteMode};
use super::resolve::ChangeType;
use super::sync::{Keys, Outcome, Plan, apply};
use crate::{Error, Result, Table};

/// Name of the column that may say what a row is.
const CHANGE_TYPE: &str = "_change_type";

/// How rows are upserted.
#[derive(Debug, Clone)]
pub struct Upsert {
    /// The key: columns of the table, dots leading into structs. Null equals null (EQDEL-2).
    pub equality_columns: Vec<String>,
    /// [`DeleteFormat::Equality`] writes equality deletes without reading the table; [`DeleteFormat::Positions`] looks the
    /// keys up and writes deletion vectors (V3) or position deletes (V2).
    pub deletes: DeleteFormat,
    /// Further summary keys of the snapshot.
    pub summary: Vec<(String, String)>,
}

/// What an upsert did.
#[derive(Debug, Clone)]
pub struct Upserted {
    /// The table after it.
    pub table: Table,
    /// The new snapshot; `None` when there was nothing to do.
    pub snapshot_id: Option<i64>,
    /// Rows written.
    pub inserted: u64,
    /// Rows deleted; with equality deletes the number of keys, for the table is not read.
    pub deleted: u64,
}

/// Writes rows to `main` in one snapshot, in place of all older rows with their keys; of several rows with one key the last
/// counts. A column `_change_type` (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE) makes rows with the two words of removal
/// delete their key only.
///
/// Equality deletes reach rows with a lower sequence number than their own, so never those of the same snapshot, and always
/// those that concurrent writers added before (SCAN-5). Rows are held in memory.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a key column that is not there or can't be one (EQDEL-3), for rows that do not fit
/// the table, and for equality deletes that could not reach every row; [`crate::ErrorKind::Conflict`] when others keep
/// changing the table. After an error the table is as it was.
pub async fn upsert(table: &Table, rows: &[RecordBatch], how: &Upsert) -> Result<Upserted> {
    if how.equality_columns.is_empty() {
        return Err(Error::invalid("an upsert needs at least one equality column").at(table.ident()).clause("EQDEL-1"));
    }
    let Some(first) = rows.first() else {
        return Ok(Upserted { table: table.clone(), snapshot_id: None, inserted: 0, deleted: 0 });
    };
    let rows = last_of_each_key(table, &how.equality_columns, &concat_batches(&first.schema(), rows)?)?;
    if rows.num_rows() == 0 {
        return Ok(Upserted { table: table.clone(), snapshot_id: None, inserted: 0, deleted: 0 });
    }
    let (mut fields, mut columns): (Vec<Arc<Field>>, Vec<ArrayRef>) = rows
        .schema_ref()
        .fields()
        .iter()
        .cloned()
        .zip(rows.columns().iter().cloned())
        .filter(|(f, _)| f.name() != CHANGE_TYPE)
        .unzip();
    let written = Arc::new(ArrowSchema::new(fields.clone()));
    fields.push(Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, false)));
    columns.push(Arc::new(change_types(&rows)?));
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)?;
    let plan = Plan {
        mode: WriteMode::MergeOnRead,
        keys: how.equality_columns.clone(),
        upsert: true,
        deletes: how.deletes,
        sync_id: String::new(),
        columns: written,
        only: None,
    };
    let stream = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::iter([Ok(batch)]));
    match apply(table, &plan, Box::pin(stream), how.summary.clone()).await? {
        Outcome::Done(d) => {
            Ok(Upserted { table: d.table, snapshot_id: Some(d.snapshot_id), inserted: d.inserted, deleted: d.deleted })
        }
        Outcome::Superseded(_) => Err(Error::internal("a write without a position was superseded")),
    }
}

/// Of several rows with one key the last counts (case H5), whether it writes or deletes.
fn last_of_each_key(table: &Table, keys: &[String], rows: &RecordBatch) -> Result<RecordBatch> {
    let encoded = Keys::new(table, keys, true)?.encode(rows)?;
    let mut last: HashMap<&[u8], u32> = HashMap::with_capacity(rows.num_rows());
    let encoded: Vec<_> = encoded.iter().collect();
    for (i, key) in (0u32..).zip(&encoded) {
        last.insert(key.data(), i);
    }
    let mut at: Vec<u32> = last.into_values().collect();
    at.sort_unstable();
    Ok(take_record_batch(rows, &UInt32Array::from(at))?)
}

fn change_types(rows: &RecordBatch) -> Result<StringArray> {
    let Some(column) = rows.column_by_name(CHANGE_TYPE) else {
        return Ok(StringArray::from_iter_values(std::iter::repeat_n(ChangeType::Insert.as_str(), rows.num_rows())));
    };
    let texts = cast(column, &DataType::Utf8)?;
    let known = ChangeType::WORDS;
    texts
        .as_string::<i32>()
        .iter()
        .enumerate()
        .map(|(i, word)| {
            let word = word.unwrap_or("NULL");
            known.into_iter().find(|k| *k == word).map(Some).ok_or_else(|| {
                Error::invalid(format!("row {i}: {CHANGE_TYPE} is {word:?}; allowed: {}", known.join(", ")))
            })
        })
        .collect()
}
