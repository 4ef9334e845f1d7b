//! Where the rows of changed keys lie in the target: a narrow scan of the key columns, over the files, row groups and pages
//! whose bounds let a key in.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};
use futures::TryStreamExt;
use iceberg::spec::{NestedFieldRef, PrimitiveType, Schema, Type};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;

use super::probe::{Hashed, Probe};
use crate::cdc::diff::{FileDiff, Side};
use crate::cdc::reader::{RowGroupFilter, RowReader, clip};
use crate::cdc::resolve::Encoder;
use crate::cdc::run::each;
use crate::deletes::DeleteLoader;
use crate::dv::DeletionVector;
use crate::expr::{FilePruner, Pred};
use crate::manifest::{DataFile, Metrics};
use crate::scan::{Planned, plan};
use crate::types::{arrow_field, arrow_schema, column_at, decode_bound, field_path, prune_fields};
use crate::{Error, Result, Table};

/// The keys that a batch of changes deletes or replaces in the target.
pub struct Keys {
    schema: Arc<Schema>,
    arrow: SchemaRef,
    leaves: Vec<Leaf>,
    encoder: Encoder,
    /// Encoded key → rows to remove; `u32::MAX` = all there are.
    counts: HashMap<Box<[u8]>, u32>,
    /// What each key column holds, for pruning.
    columns: Vec<KeyColumn>,
    upsert: bool,
}

/// A key column, at the top or inside structs.
struct Leaf {
    id: i32,
    path: Vec<String>,
    ty: DataType,
}

/// A key column of a table.
pub struct KeyField {
    /// Its field.
    pub field: NestedFieldRef,
    /// Names that lead to it.
    pub path: Vec<String>,
}

/// The columns of a table that names say, dots leading into structs.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a column that is not there, or lies in a list or map.
pub fn key_fields(target: &Table, names: &[String]) -> Result<Vec<KeyField>> {
    let schema = target.metadata().current_schema();
    names
        .iter()
        .map(|name| {
            let found = field_path(schema, name).and_then(|path| {
                let field = match &path[..] {
                    [one] => schema.as_struct().fields().iter().find(|f| f.name == *one),
                    many => schema.field_by_name(&many.join(".")),
                };
                Some(KeyField { field: field?.clone(), path })
            });
            found.ok_or_else(|| crate::cdc::columns::unknown(name, schema).at(target.ident()))
        })
        .collect()
}

/// The keys' values in one column.
#[derive(Debug)]
struct KeyColumn {
    id: i32,
    values: Values,
    /// Whether a key has null here.
    nulls: bool,
    /// Which values may be among them; made when the collecting ends.
    probe: Option<Probe>,
}

/// Values in an order that the bounds of files, row groups and pages share.
#[derive(Debug)]
enum Values {
    Int(Vec<i64>),
    Bytes(Vec<Box<[u8]>>),
    /// A type that bounds do not order like this.
    Other,
}

/// What is known of the values in a file, row group or page.
struct Bounds<'a> {
    /// Smallest and largest, as they are stored; `None` = unknown.
    range: Option<(&'a [u8], &'a [u8])>,
    /// Nulls; `None` = unknown.
    nulls: Option<u64>,
    /// Whether there is nothing but nulls.
    all_null: bool,
}

impl KeyColumn {
    fn add(&mut self, column: &ArrayRef) -> Result<()> {
        self.nulls |= column.null_count() > 0;
        match &mut self.values {
            Values::Int(v) => {
                let ints = cast(column, &DataType::Int64)?;
                v.extend(ints.as_primitive::<Int64Type>().iter().flatten());
            }
            Values::Bytes(v) => v.extend(column.as_string::<i32>().iter().flatten().map(|t| t.as_bytes().into())),
            Values::Other => {}
        }
        Ok(())
    }

    fn seal(&mut self) {
        match &mut self.values {
            Values::Int(v) => {
                v.sort_unstable();
                v.dedup();
                self.probe = Some(Probe::new(v));
            }
            Values::Bytes(v) => {
                v.sort_unstable();
                v.dedup();
            }
            Values::Other => {}
        }
    }

    /// Whether some key may be among values with these bounds.
    fn may_be_in(&self, b: &Bounds<'_>) -> bool {
        if self.nulls && b.nulls != Some(0) {
            return true;
        }
        !b.all_null && b.range.is_none_or(|(low, high)| self.within(low, high))
    }

    fn within(&self, low: &[u8], high: &[u8]) -> bool {
        match &self.values {
            Values::Int(v) => {
                let number = |b: &[u8]| match b.len() {
                    4 => b.try_into().ok().map(|b| i64::from(i32::from_le_bytes(b))),
                    8 => b.try_into().ok().map(i64::from_le_bytes),
                    _ => None,
                };
                let (Some(low), Some(high)) = (number(low), number(high)) else {
                    return true;
                };
                v.get(v.partition_point(|k| *k < low)).is_some_and(|k| *k <= high)
            }
            // an upper bound may be cut off: what starts with it is inside too
            Values::Bytes(v) => {
                v.get(v.partition_point(|k| &**k < low)).is_some_and(|k| &**k <= high || k.starts_with(high))
            }
            Values::Other => true,
        }
    }

    /// Whether the metrics of a data file let a key in.
    fn may_be_in_file(&self, m: &Metrics, ty: &PrimitiveType) -> bool {
        let nulls = m.null_value_counts.get(&self.id).copied();
        let all_null = nulls.is_some() && nulls == m.value_counts.get(&self.id).copied();
        let range = match (m.lower_bounds.get(&self.id), m.upper_bounds.get(&self.id)) {
            // bounds that do not decode are not believed
            (Some(l), Some(h)) if decode_bound(l, ty).is_some() && decode_bound(h, ty).is_some() => {
                Some((l.as_slice(), h.as_slice()))
            }
            _ => None,
        };
        self.may_be_in(&Bounds { range, nulls: nulls.and_then(|n| u64::try_from(n).ok()), all_null })
    }
}

impl Keys {
    /// An empty set over key columns of the target. With `upsert` a key stands for all its rows, else for as many as changes
    /// removed.
    pub fn new(target: &Table, columns: &[String], upsert: bool) -> Result<Self> {
        let metadata = target.metadata();
        let keys = key_fields(target, columns)?;
        let ids: Vec<i32> = keys.iter().map(|k| k.field.id).collect();
        let fields = prune_fields(metadata.current_schema().as_struct().fields(), &ids);
        let schema = Arc::new(Schema::builder().with_fields(fields).build()?);
        let arrow = arrow_schema(&schema, &metadata.ext);
        let leaves: Vec<Leaf> = keys
            .into_iter()
            .map(|k| {
                let ty = arrow_field(&k.field, &metadata.ext).data_type().clone();
                Leaf { id: k.field.id, path: k.path, ty }
            })
            .collect();
        let encoder = Encoder::new(leaves.iter().map(|l| &l.ty))?;
        let columns = leaves
            .iter()
            .map(|l| {
                let values = match l.ty {
                    DataType::Int32
                    | DataType::Int64
                    | DataType::Date32
                    | DataType::Timestamp(TimeUnit::Microsecond, _) => Values::Int(Vec::new()),
                    DataType::Utf8 => Values::Bytes(Vec::new()),
                    _ => Values::Other,
                };
                KeyColumn { id: l.id, values, nulls: false, probe: None }
            })
            .collect();
        Ok(Self { schema, arrow, leaves, encoder, counts: HashMap::new(), columns, upsert })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    fn of_rows(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.leaves
            .iter()
            .map(|l| {
                let c = column_at(rows, &l.path).ok_or_else(|| {
                    Error::invalid(format!("equality column {} is not among the rows' columns", l.path.join(".")))
                })?;
                Ok(cast(&c, &l.ty)?)
            })
            .collect()
    }

    /// Encoded keys of rows.
    pub fn encode(&self, rows: &RecordBatch) -> Result<arrow::row::Rows> {
        self.encoder.encode(&self.of_rows(rows)?)
    }

    /// Rows that may have a key, as far as columns of numbers tell; `None` = all.
    fn candidates(&self, rows: &RecordBatch) -> Result<Option<UInt32Array>> {
        let mut may: Option<BooleanBuffer> = None;
        for (leaf, known) in self.leaves.iter().zip(&self.columns) {
            let (Some(probe), Some(column)) = (&known.probe, column_at(rows, &leaf.path)) else { continue };
            let numbers = cast(&cast(&column, &leaf.ty)?, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            let values = numbers.values();
            let mut mine = BooleanBuffer::collect_bool(values.len(), |i| probe.may_hold(values[i]));
            if let Some(valid) = numbers.nulls() {
                mine = if known.nulls { &mine | &!valid.inner() } else { &mine & valid.inner() };
            }
            may = Some(may.map_or(mine.clone(), |m| &m & &mine));
        }
        Ok(may.map(|m| m.set_indices().map(|i| i as u32).collect()))
    }

    /// Adds the keys of rows. Null is a value like any other and equals null (SPARK-7, EQDEL-2).
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = self.of_rows(rows)?;
        let encoded = self.encoder.encode(&columns)?;
        for row in encoded.iter() {
            let n = self.counts.entry(row.as_ref().into()).or_insert(0);
            *n = if self.upsert { u32::MAX } else { n.saturating_add(1) };
        }
        for (known, column) in self.columns.iter_mut().zip(&columns) {
            known.add(column)?;
        }
        Ok(())
    }

    /// Ends the collecting: sorts what pruning searches.
    #[must_use]
    pub fn seal(mut self) -> Arc<Self> {
        self.columns.iter_mut().for_each(KeyColumn::seal);
        Arc::new(self)
    }

    /// Whether a data file may hold a row of some key.
    fn may_be_in(&self, file: &DataFile) -> bool {
        let Some(m) = &file.metrics else {
            return true;
        };
        self.columns.iter().all(|c| match self.schema.field_by_id(c.id).map(|f| f.field_type.as_ref()) {
            Some(Type::Primitive(ty)) => c.may_be_in_file(m, ty),
            _ => true,
        })
    }
}

/// Rows of the target that the keys name.
#[derive(Debug)]
pub struct Found {
    /// The target's files and deletes at the snapshot that was searched.
    pub planned: Planned,
    /// Positions, by data file path.
    pub positions: HashMap<String, DeletionVector>,
    /// Keys without a row.
    pub missing: usize,
}

/// Finds the live rows of the keys at the target's head. Memory: the keys, and bitmaps of the rows found.
///
/// Errors: a key that has more rows than the changes removed, since which of them is meant can't be told.
pub async fn find(target: &Table, keys: Arc<Keys>) -> Result<Found> {
    let snapshot = target.metadata().current_snapshot_id();
    let metadata = target.metadata().clone();
    let planned = plan(target, snapshot, &FilePruner::new(Pred::True, &metadata.inner)).await?;
    let tasks: Vec<FileDiff> = planned
        .tasks
        .iter()
        .filter(|t| keys.may_be_in(&t.entry.file))
        .map(|t| FileDiff {
            before: None,
            after: Some(Side { entry: t.entry.clone(), deletes: t.deletes.clone() }),
            equality: Vec::new(),
        })
        .collect();
    let shared = Arc::new(Search {
        filter: Hashed::new(keys.counts.len(), keys.counts.keys()),
        counts: Mutex::new(keys.counts.clone()),
        keys,
    });
    let reader = RowReader::new(
        target.io().clone(),
        metadata.clone(),
        shared.keys.schema.clone(),
        shared.keys.arrow.clone(),
        None,
    )
    .row_groups(shared.clone());
    let loader = Arc::new(DeleteLoader::new(target.io().clone(), metadata));
    let place = target.ident().to_string();
    let found = each(tasks, |diff| {
        let (reader, loader, shared, place) = (reader.clone(), loader.clone(), shared.clone(), place.clone());
        async move { search(&reader, &loader, &shared, diff).await.map_err(|e| e.at(place)) }
    })
    .await?;
    let counts = shared.counts.lock().map_err(|_| Error::internal("a key search panicked"))?;
    let missing = counts.values().filter(|n| **n > 0 && **n != u32::MAX).count();
    Ok(Found { planned, positions: found.into_iter().flatten().collect(), missing })
}

struct Search {
    keys: Arc<Keys>,
    counts: Mutex<HashMap<Box<[u8]>, u32>>,
    /// Most rows are turned away by it, without a look into the map.
    filter: Hashed,
}

/// Index of the leaf column with a field id at the top of the schema.
fn leaf(group: &RowGroupMetaData, id: i32) -> Option<usize> {
    group.columns().iter().position(|c| {
        let info = c.column_descr().self_type().get_basic_info();
        c.column_path().parts().len() == 1 && info.has_id() && info.id() == id
    })
}

impl RowGroupFilter for Search {
    fn may_match(&self, group: &RowGroupMetaData) -> bool {
        self.keys.columns.iter().all(|c| {
            let Some(stats) = leaf(group, c.id).and_then(|i| group.column(i).statistics()) else {
                return true;
            };
            let ordered = matches!(stats, Statistics::Int32(_) | Statistics::Int64(_) | Statistics::ByteArray(_));
            let range = stats.min_bytes_opt().zip(stats.max_bytes_opt());
            let range = range.filter(|_| ordered && !stats.is_min_max_deprecated());
            let nulls = stats.null_count_opt();
            let all_null = nulls.is_some_and(|n| i64::try_from(n) == Ok(group.num_rows()));
            c.may_be_in(&Bounds { range, nulls, all_null })
        })
    }

    fn rows(&self, file: &ParquetMetaData, group: usize) -> Option<Vec<Range<u64>>> {
        let (columns, offsets) = (file.column_index()?.get(group)?, file.offset_index()?.get(group)?);
        let g = file.row_group(group);
        let end = u64::try_from(g.num_rows()).ok()?;
        let mut all: Option<Vec<Range<u64>>> = None;
        for c in &self.keys.columns {
            let Some(i) = leaf(g, c.id) else { continue };
            let (Some(index), Some(pages)) = (columns.get(i), offsets.get(i)) else { continue };
            let pages = pages.page_locations();
            // a column of floats with NaN has no bounds, and `num_pages` of an index that isn't there panics
            let indexed = !matches!(index, ColumnIndexMetaData::NONE);
            if !indexed || usize::try_from(index.num_pages()) != Ok(pages.len()) {
                continue;
            }
            let mut mine: Vec<Range<u64>> = Vec::new();
            for (n, p) in pages.iter().enumerate() {
                if !page_may_match(c, index, n) {
                    continue;
                }
                let start = u64::try_from(p.first_row_index).ok()?;
                let stop = pages.get(n + 1).map_or(Some(end), |p| u64::try_from(p.first_row_index).ok())?;
                match mine.last_mut() {
                    Some(last) if last.end == start => last.end = stop,
                    _ => mine.push(start..stop),
                }
            }
            all = Some(match all {
                None => mine,
                Some(before) => before.into_iter().flat_map(|r| clip(r, Some(&mine))).collect(),
            });
        }
        // all pages are no restriction
        all.filter(|r| !matches!(r.as_slice(), [one] if *one == (0..end)))
    }
}

fn page_may_match(column: &KeyColumn, index: &ColumnIndexMetaData, page: usize) -> bool {
    let nulls = index.null_count(page).and_then(|n| u64::try_from(n).ok());
    let all_null = index.is_null_page(page);
    let may = |range: Option<(&[u8], &[u8])>| column.may_be_in(&Bounds { range, nulls, all_null });
    match index {
        ColumnIndexMetaData::INT32(c) => match c.min_value(page).zip(c.max_value(page)) {
            Some((l, h)) => may(Some((&l.to_le_bytes(), &h.to_le_bytes()))),
            None => may(None),
        },
        ColumnIndexMetaData::INT64(c) => match c.min_value(page).zip(c.max_value(page)) {
            Some((l, h)) => may(Some((&l.to_le_bytes(), &h.to_le_bytes()))),
            None => may(None),
        },
        ColumnIndexMetaData::BYTE_ARRAY(c) => may(c.min_value(page).zip(c.max_value(page))),
        ColumnIndexMetaData::NONE => true,
        _ => may(None),
    }
}

async fn search(
    reader: &RowReader,
    loader: &DeleteLoader,
    shared: &Search,
    diff: FileDiff,
) -> Result<Option<(String, DeletionVector)>> {
    let path = diff.file().path.to_string();
    let prepared = Arc::new(reader.prepare(&diff, loader).await?);
    let mut stream = reader.read(prepared, None).await?;
    let mut hit = DeletionVector::new();
    while let Some(c) = stream.try_next().await? {
        let picked = shared.keys.candidates(&c.rows)?;
        let rows = match &picked {
            Some(p) if p.is_empty() => continue,
            Some(p) => shared.keys.encode(&take_record_batch(&c.rows, p)?)?,
            None => shared.keys.encode(&c.rows)?,
        };
        for (n, row) in rows.iter().enumerate() {
            let i = picked.as_ref().map_or(n, |p| p.value(n) as usize);
            if !shared.filter.may_hold(row.as_ref()) {
                continue;
            }
            let mut counts = shared.counts.lock().map_err(|_| Error::internal("a key search panicked"))?;
            match counts.get_mut(row.as_ref()) {
                None => {}
                Some(0) => {
                    return Err(Error::invalid(format!(
                        "the equality columns do not identify rows: {} has one more row with a key than the changes remove \
                         (file {path}, position {})",
                        "the target", c.positions[i]
                    )));
                }
                Some(n) => {
                    if *n != u32::MAX {
                        *n -= 1;
                    }
                    hit.try_insert(c.positions[i])?;
                }
            }
        }
    }
    Ok((!hit.is_empty()).then_some((path, hit)))
}
