//! Where the rows of changed keys lie in the target: a narrow scan of the key columns, over the files and row groups whose
//! bounds let a key in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{NestedFieldRef, Schema};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::cdc::diff::{FileDiff, Side};
use crate::cdc::reader::{RowGroupFilter, RowReader};
use crate::cdc::resolve::Encoder;
use crate::deletes::DeleteLoader;
use crate::dv::DeletionVector;
use crate::expr::{FilePruner, Pred};
use crate::scan::{Planned, plan};
use crate::types::{arrow_field, arrow_schema, column_at, decode_bound, field_path, prune_fields};
use crate::{Error, Result, Table};

/// Files scanned at a time.
const FILE_CONCURRENCY: usize = 2;

/// The keys that a batch of changes deletes or replaces in the target.
pub struct Keys {
    schema: Arc<Schema>,
    arrow: SchemaRef,
    leaves: Vec<Leaf>,
    encoder: Encoder,
    /// Encoded key → rows to remove; `u32::MAX` = all there are.
    counts: HashMap<Box<[u8]>, u32>,
    /// Values of the first column, for pruning; `None` when they can't be ordered by it.
    firsts: Option<Firsts>,
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

/// Values of the first key column in an order that file bounds share.
#[derive(Debug)]
enum Firsts {
    Int(Vec<i64>),
    Bytes(Vec<Box<[u8]>>),
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
        let firsts = match leaves.first().map(|l| l.ty.clone()) {
            Some(
                DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _),
            ) => Some(Firsts::Int(Vec::new())),
            Some(DataType::Utf8) => Some(Firsts::Bytes(Vec::new())),
            _ => None,
        };
        Ok(Self { schema, arrow, leaves, encoder, counts: HashMap::new(), firsts, upsert })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    fn columns(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
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
        self.encoder.encode(&self.columns(rows)?)
    }

    /// Adds the keys of rows. Null is a value like any other and equals null (SPARK-7, EQDEL-2).
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = self.columns(rows)?;
        let encoded = self.encoder.encode(&columns)?;
        for row in encoded.iter() {
            let n = self.counts.entry(row.as_ref().into()).or_insert(0);
            *n = if self.upsert { u32::MAX } else { n.saturating_add(1) };
        }
        let first = &columns[0];
        if first.null_count() > 0 {
            self.firsts = None;
        }
        match &mut self.firsts {
            Some(Firsts::Int(v)) => {
                let ints = cast(first, &DataType::Int64)?;
                v.extend(ints.as_primitive::<Int64Type>().values());
            }
            Some(Firsts::Bytes(v)) => {
                let texts = first.as_string::<i32>();
                v.extend((0..texts.len()).map(|i| texts.value(i).as_bytes().into()));
            }
            None => {}
        }
        Ok(())
    }

    /// Whether a key may lie in a closed interval of the first column, given as its bytes are stored.
    fn within(&self, low: &[u8], high: &[u8]) -> bool {
        match &self.firsts {
            Some(Firsts::Int(v)) => {
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
            Some(Firsts::Bytes(v)) => {
                v.get(v.partition_point(|k| &**k < low)).is_some_and(|k| &**k <= high || k.starts_with(high))
            }
            None => true,
        }
    }

    /// Ends the collecting: sorts what pruning searches.
    #[must_use]
    pub fn seal(mut self) -> Arc<Self> {
        match &mut self.firsts {
            Some(Firsts::Int(v)) => {
                v.sort_unstable();
                v.dedup();
            }
            Some(Firsts::Bytes(v)) => {
                v.sort_unstable();
                v.dedup();
            }
            None => {}
        }
        Arc::new(self)
    }

    fn first_id(&self) -> i32 {
        self.leaves[0].id
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
    let first = keys.first_id();
    let tasks: Vec<FileDiff> = planned
        .tasks
        .iter()
        .filter(|t| {
            let Some(m) = &t.entry.file.metrics else {
                return true;
            };
            let Some(iceberg::spec::Type::Primitive(ty)) =
                keys.schema.field_by_id(first).map(|f| f.field_type.as_ref())
            else {
                return true;
            };
            match (m.lower_bounds.get(&first), m.upper_bounds.get(&first)) {
                // bounds that do not decode are not believed
                (Some(l), Some(h)) if decode_bound(l, ty).is_some() && decode_bound(h, ty).is_some() => {
                    keys.within(l, h)
                }
                _ => true,
            }
        })
        .map(|t| FileDiff {
            before: None,
            after: Some(Side { entry: t.entry.clone(), deletes: t.deletes.clone() }),
            equality: Vec::new(),
        })
        .collect();
    let shared = Arc::new(Search { filter: prefilter(&keys), counts: Mutex::new(keys.counts.clone()), keys });
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
    let found: Vec<Option<(String, DeletionVector)>> = futures::stream::iter(tasks)
        .map(|diff| {
            let (reader, loader, shared, place) = (reader.clone(), loader.clone(), shared.clone(), place.clone());
            async move {
                // a task a file: decoding runs on all cores
                tokio::spawn(async move { search(&reader, &loader, &shared, diff).await.map_err(|e| e.at(place)) })
                    .await
                    .map_err(|e| Error::internal(format!("key search: {e}")))?
            }
        })
        .buffer_unordered(FILE_CONCURRENCY)
        .try_collect()
        .await?;
    let counts = shared.counts.lock().map_err(|_| Error::internal("a key search panicked"))?;
    let missing = counts.values().filter(|n| **n > 0 && **n != u32::MAX).count();
    Ok(Found { planned, positions: found.into_iter().flatten().collect(), missing })
}

struct Search {
    keys: Arc<Keys>,
    counts: Mutex<HashMap<Box<[u8]>, u32>>,
    filter: Vec<u64>,
}

impl RowGroupFilter for Search {
    fn may_match(&self, group: &RowGroupMetaData) -> bool {
        let id = self.keys.first_id();
        let column = group.columns().iter().find(|c| {
            let info = c.column_descr().self_type().get_basic_info();
            info.has_id() && info.id() == id
        });
        let Some(stats) = column.and_then(|c| c.statistics()) else {
            return true;
        };
        match stats {
            Statistics::Int32(_) | Statistics::Int64(_) | Statistics::ByteArray(_)
                if !stats.is_min_max_deprecated() =>
            {
                match (stats.min_bytes_opt(), stats.max_bytes_opt()) {
                    (Some(l), Some(h)) => self.keys.within(l, h),
                    _ => true,
                }
            }
            _ => true,
        }
    }
}

/// A bit a key, by hash: most rows of a large table are turned away without a look into the map.
fn prefilter(keys: &Keys) -> Vec<u64> {
    let words = (keys.counts.len() * 16).next_power_of_two().max(64) / 64;
    let mut bits = vec![0u64; words];
    for k in keys.counts.keys() {
        let h = quick_hash(k) as usize;
        bits[(h >> 6) & (words - 1)] |= 1 << (h & 63);
    }
    bits
}

fn quick_hash(bytes: &[u8]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^= h >> 29;
    }
    h
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
    let words = shared.filter.len();
    while let Some(c) = stream.try_next().await? {
        let rows = shared.keys.encode(&c.rows)?;
        for (i, row) in rows.iter().enumerate() {
            let h = quick_hash(row.as_ref()) as usize;
            if shared.filter[(h >> 6) & (words - 1)] & (1 << (h & 63)) == 0 {
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
