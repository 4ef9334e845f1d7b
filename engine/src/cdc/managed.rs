//! Managed I/O: read a table's rows, write rows to a table or to tables named by the rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{NestedFieldRef, Schema};

use super::columns;
use super::config::{Columns, DeleteFormat, ReadConfig, WriteConfig};
use super::connect::table_ident;
use super::resolve::{ChangeType, Encoder};
pub use super::rows::rows_from_json;
use super::sync::{Outcome, Plan, apply, key_columns, load_or_create};
use super::template::no_column;
use crate::catalog::Catalog;
use crate::scan::IcebergTableProvider;
use crate::types::{ExtTypes, arrow_schema, column_at};
use crate::{Error, Result, Table};

/// Streams the rows of a table at its current snapshot: filtered, and only the columns asked for.
pub async fn read(config: &ReadConfig, table: &Table) -> Result<SendableRecordBatchStream> {
    let metadata = table.metadata();
    let schema = metadata.current_schema();
    let fields = columns::project(schema, &config.columns).map_err(|e| e.at(table.ident()))?;
    let cx = SessionContext::new();
    let mut df = cx.read_table(IcebergTableProvider::try_new(table.clone(), None, false)?)?;
    if let Some(sql) = &config.filter {
        let (expr, ..) = super::changelog::parse_filter(sql, schema, &metadata.ext)?;
        df = df.filter(expr)?;
    }
    let names: Vec<_> = fields
        .iter()
        .map(|f| datafusion::prelude::Expr::Column(datafusion::common::Column::new_unqualified(&f.name)))
        .collect();
    let stream = df.select(names)?.execute_stream().await?;
    let pruned = Schema::builder().with_fields(fields).build()?;
    let out = arrow_schema(&pruned, &metadata.ext);
    let to = out.clone();
    let stream = stream.map(move |b| {
        let b = b?;
        let columns = b
            .columns()
            .iter()
            .zip(to.fields())
            .map(|(c, f)| {
                // the scan gives views; only their form differs
                let c = if c.data_type().is_nested() { c.clone() } else { cast(c, f.data_type())? };
                columns::prune(&c, f)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(to.clone(), columns)?)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(out, stream)))
}

/// What a write did to one table.
#[derive(Debug, Clone)]
pub struct Written {
    /// `namespace.table`.
    pub table: String,
    /// Its new snapshot.
    pub snapshot_id: i64,
    /// Rows written.
    pub inserted: u64,
    /// Rows removed or replaced.
    pub deleted: u64,
}

/// Writes rows to the table, or the tables, of a configuration; one commit a table. Missing tables are made from the rows'
/// columns. Rows are held in memory.
///
/// Errors come before anything is written, as far as the rows can tell: an unknown column, a null or missing value in a
/// table's name, an unknown change type.
pub async fn write(config: &WriteConfig, catalog: &Arc<dyn Catalog>, rows: &[RecordBatch]) -> Result<Vec<Written>> {
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let rows = concat_batches(&first.schema(), rows)?;
    let kinds = change_types(config, &rows)?;
    let order = order(config, &rows)?;
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let names = config.table.names(&rows, 0)?;
    for i in order {
        groups.entry(names[i as usize].clone()).or_default().push(i);
    }
    let control: Vec<&String> =
        [&config.change_type_column, &config.sequence_number_column].into_iter().flatten().collect();
    let fields = written_fields(config, &rows, &control)?;
    let mut jobs = Vec::new();
    for (name, picked) in groups {
        let ident = table_ident(&name)?;
        jobs.push((name, ident, picked));
    }
    let mut out = Vec::new();
    for (name, ident, picked) in jobs {
        let table = load_or_create(catalog, &ident, config, &fields, &ExtTypes::default()).await?;
        let keys = key_columns(&table, config)?;
        let part = take_record_batch(&rows, &UInt32Array::from(picked.clone()))?;
        let part_kinds: Vec<&'static str> = picked.iter().map(|i| kinds[*i as usize]).collect();
        let stream = changes(&part, &part_kinds, &keys)?;
        let written = Schema::builder().with_fields(fields.clone()).build()?;
        let plan = Plan {
            mode: config.mode,
            keys,
            upsert: config.upsert,
            deletes: DeleteFormat::Positions,
            sync_id: String::new(),
            columns: arrow_schema(&written, &ExtTypes::default()),
            only: match &config.columns {
                Columns::Only(c) => Some(c.clone()),
                _ => None,
            },
        };
        let summary = config.snapshot_properties.clone().into_iter().collect();
        match apply(&table, &plan, stream, summary).await? {
            Outcome::Done(d) => {
                out.push(Written { table: name, snapshot_id: d.snapshot_id, inserted: d.inserted, deleted: d.deleted });
            }
            Outcome::Superseded(_) => {
                return Err(Error::internal("a write without a position was superseded"));
            }
        }
    }
    Ok(out)
}

/// The columns that are written, as fields with fresh ids. Control columns stay only when `keep` names them (BEAM-10).
fn written_fields(config: &WriteConfig, rows: &RecordBatch, control: &[&String]) -> Result<Vec<NestedFieldRef>> {
    let schema = iceberg::arrow::arrow_schema_to_schema_auto_assign_ids(&plain(rows.schema_ref()))?;
    let fields = columns::project(&schema, &config.columns)?;
    let kept = matches!(config.columns, Columns::Keep(_));
    Ok(fields.into_iter().filter(|f| kept || !control.contains(&&f.name)).collect())
}

/// JSON has no 32-bit numbers and no required columns; an all-null column has no type to make a column of.
fn plain(schema: &ArrowSchema) -> ArrowSchema {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|f| {
            let t = if *f.data_type() == DataType::Null { DataType::Utf8 } else { f.data_type().clone() };
            Field::new(f.name(), t, true)
        })
        .collect();
    ArrowSchema::new(fields)
}

/// Change type of each row.
fn change_types(config: &WriteConfig, rows: &RecordBatch) -> Result<Vec<&'static str>> {
    let Some(column) = &config.change_type_column else {
        return Ok(vec!["INSERT"; rows.num_rows()]);
    };
    let values = rows.column_by_name(column).ok_or_else(|| no_column(rows, column, "change_type_column"))?;
    let values = cast(values, &DataType::Utf8)?;
    let values = values.as_string::<i32>();
    let known = ChangeType::WORDS;
    (0..values.len())
        .map(|i| {
            let word = if values.is_null(i) { "NULL" } else { values.value(i) };
            let word = config.change_type_map.get(word).map_or(word, String::as_str);
            known.into_iter().find(|k| k.eq_ignore_ascii_case(word)).ok_or_else(|| {
                let mapped: Vec<_> = config.change_type_map.keys().cloned().collect();
                Error::invalid(format!(
                    "row {i}: column {column} is {word:?}; allowed: {}{}{}",
                    known.join(", "),
                    if mapped.is_empty() { "" } else { ", and by `change_type_map`: " },
                    mapped.join(", ")
                ))
            })
        })
        .collect()
}

/// Rows in the order in which they happened.
fn order(config: &WriteConfig, rows: &RecordBatch) -> Result<Vec<u32>> {
    let n = u32::try_from(rows.num_rows()).map_err(|_| Error::invalid("more rows than one write takes"))?;
    let mut out: Vec<u32> = (0..n).collect();
    if let Some(column) = &config.sequence_number_column {
        let values = rows.column_by_name(column).ok_or_else(|| no_column(rows, column, "sequence_number_column"))?;
        if !values.data_type().is_integer() {
            return Err(Error::invalid(format!("column {column} orders the changes and must hold whole numbers"))
                .at("sequence_number_column"));
        }
        let values = cast(values, &DataType::Int64)?;
        if values.null_count() > 0 {
            return Err(Error::invalid(format!("column {column} orders the changes and must not be null"))
                .at("sequence_number_column"));
        }
        let values = values.as_primitive::<Int64Type>();
        out.sort_by_key(|i| values.value(*i as usize));
    }
    Ok(out)
}

/// The rows as a stream with `_change_type`. With keys, the changes of one key collapse to at most one delete and one insert
/// (BEAM-16); a row whose first change is an insert has nothing to delete.
fn changes(rows: &RecordBatch, kinds: &[&'static str], keys: &[String]) -> Result<SendableRecordBatchStream> {
    let (mut at, mut types): (Vec<u32>, Vec<&'static str>) = (Vec::new(), Vec::new());
    let index = |i: usize| u32::try_from(i).map_err(|_| Error::invalid("more rows than one write takes"));
    if keys.is_empty() {
        for (i, k) in kinds.iter().enumerate() {
            at.push(index(i)?);
            types.push(k);
        }
    } else {
        let columns = keys
            .iter()
            .map(|k| {
                let path: Vec<String> = match rows.column_by_name(k) {
                    Some(_) => vec![k.clone()],
                    None => k.split('.').map(str::to_string).collect(),
                };
                column_at(rows, &path).ok_or_else(|| no_column(rows, k, "equality_columns"))
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let encoded = Encoder::new(columns.iter().map(|c| c.data_type()))?.encode(&columns)?;
        let mut by_key: HashMap<&[u8], (usize, usize)> = HashMap::new();
        let all: Vec<_> = encoded.iter().collect();
        for (i, row) in all.iter().enumerate() {
            by_key.entry(row.as_ref()).and_modify(|(_, last)| *last = i).or_insert((i, i));
        }
        let mut ends: Vec<(usize, usize)> = by_key.into_values().collect();
        ends.sort_unstable();
        for (first, last) in ends {
            if kinds[first] != "INSERT" {
                at.push(index(first)?);
                types.push("DELETE");
            }
            if matches!(kinds[last], "INSERT" | "UPDATE_AFTER") {
                at.push(index(last)?);
                types.push("INSERT");
            }
        }
    }
    let batch = take_record_batch(rows, &UInt32Array::from(at))?;
    let plain = plain(batch.schema_ref());
    let mut fields: Vec<Arc<Field>> = plain.fields().iter().cloned().collect();
    let mut columns = batch
        .columns()
        .iter()
        .zip(plain.fields())
        .map(|(c, f)| Ok(cast(c, f.data_type())?))
        .collect::<Result<Vec<ArrayRef>>>()?;
    fields.push(Arc::new(Field::new("_change_type", DataType::Utf8, false)));
    columns.push(Arc::new(StringArray::from(types)));
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)?;
    let schema = batch.schema();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)]).map_err(|e: Error| e.into()))))
}
