//! Reading the rows of a data file that differ between two snapshots: only the row groups and pages that hold changed
//! positions are fetched and decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::{DataType, FieldRef, Int64Type, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};

use super::diff::{FileDiff, Side};
use crate::deletes::{DeleteLoader, Deletes, EqualityDeletes};
use crate::dv::DeletionVector;
use crate::io::FileIo;
use crate::manifest::{DataFile, FileFormat, ManifestEntry};
use crate::scan::{BatchAdapter, FileRows, LAST_UPDATED_FIELD_ID, ROW_ID_FIELD_ID};
use crate::table::Metadata;
use crate::types::field_id;
use crate::{Error, Result};

/// Rows a batch.
const BATCH_ROWS: usize = 8192;
/// Gaps of fewer rows between selected ones are read too where the deletes tell the rows apart: less than a page, they are decoded
/// either way, and a run costs more than its rows.
const SHORT_GAP: usize = 256;

/// A row goes or comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Live before, not after.
    Delete,
    /// Live after, not before.
    Insert,
}

/// Changed rows of one file, all of one kind, in file order.
#[derive(Debug)]
pub struct Changed {
    /// Kind.
    pub kind: Kind,
    /// Columns of the reader's schema.
    pub rows: RecordBatch,
    /// Positions in the file.
    pub positions: Vec<u64>,
    /// `_row_id`, null where there is none (LINEAGE-5).
    pub row_ids: Int64Array,
    /// `_last_updated_sequence_number`.
    pub last_updated: Int64Array,
}

/// Deletes of one side of a file, loaded.
#[derive(Debug, Default)]
struct Loaded {
    positions: Option<DeletionVector>,
    equality: Vec<EqualityDeletes>,
}

/// A file difference whose deletes are loaded and whose candidate rows are known.
#[derive(Debug)]
pub struct Prepared {
    before: Option<Arc<ManifestEntry>>,
    after: Option<Arc<ManifestEntry>>,
    before_deletes: Loaded,
    after_deletes: Loaded,
    /// Rows that may have changed.
    pub candidates: DeletionVector,
    /// Whether a row may have gone.
    pub may_delete: bool,
    /// Whether a row may have come.
    pub may_insert: bool,
}

impl Prepared {
    /// The data file.
    pub fn file(&self) -> Option<&DataFile> {
        self.after.as_ref().or(self.before.as_ref()).map(|e| &e.file)
    }

    /// Whether the whole file was added or removed.
    pub fn is_whole(&self) -> bool {
        self.before.is_none() || self.after.is_none()
    }

    /// Whether its rows have row ids (LINEAGE-5).
    pub fn has_lineage(&self) -> bool {
        [&self.before, &self.after].into_iter().flatten().all(|e| e.file.first_row_id.is_some())
    }
}

/// Says which row groups may hold rows of interest.
pub trait RowGroupFilter: Send + Sync {
    /// Whether the row group may.
    fn may_match(&self, group: &RowGroupMetaData) -> bool;
    /// The rows of a row group, counted from its start, in pages that may hold something; ascending. `None` = all.
    fn rows(&self, file: &ParquetMetaData, group: usize) -> Option<Vec<Range<u64>>>;
}

/// Reads changed rows with a schema and a filter.
#[derive(Clone)]
pub struct RowReader {
    io: FileIo,
    metadata: Arc<Metadata>,
    schema: Arc<Schema>,
    arrow: SchemaRef,
    filter: Option<Arc<dyn PhysicalExpr>>,
    groups: Option<Arc<dyn RowGroupFilter>>,
}

impl std::fmt::Debug for RowReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("columns", &self.arrow.fields().len()).finish_non_exhaustive()
    }
}

impl RowReader {
    /// A reader of `schema`, whose Arrow form is `arrow`; `filter` is over those columns.
    pub fn new(
        io: FileIo,
        metadata: Arc<Metadata>,
        schema: Arc<Schema>,
        arrow: SchemaRef,
        filter: Option<Arc<dyn PhysicalExpr>>,
    ) -> Self {
        Self { io, metadata, schema, arrow, filter, groups: None }
    }

    /// Leaves out row groups that hold nothing of interest.
    #[must_use]
    pub fn row_groups(mut self, filter: Arc<dyn RowGroupFilter>) -> Self {
        self.groups = Some(filter);
        self
    }

    /// Files, table metadata and the schema that is read.
    pub(super) fn parts(&self) -> (&FileIo, &Arc<Metadata>, &Arc<Schema>) {
        (&self.io, &self.metadata, &self.schema)
    }

    /// Columns that are read.
    pub(super) fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The filter over them.
    pub(super) fn filter(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.filter.as_ref()
    }

    /// A loader of the deletes of its files.
    pub(super) fn loader(&self) -> DeleteLoader {
        DeleteLoader::new(self.io.clone(), self.metadata.clone())
    }

    /// The same without columns and filter: positions and lineage only.
    pub fn lineage_only(&self) -> Result<Self> {
        Ok(Self {
            schema: Arc::new(Schema::builder().build()?),
            arrow: Arc::new(arrow::datatypes::Schema::empty()),
            filter: None,
            groups: None,
            ..self.clone()
        })
    }

    /// Loads the deletes of a difference and finds the rows that may have changed.
    pub async fn prepare(&self, diff: &FileDiff, loader: &DeleteLoader) -> Result<Prepared> {
        let load = async |side: &Option<Side>| -> Result<Loaded> {
            let Some(s) = side else {
                return Ok(Loaded::default());
            };
            let (positions, equality) =
                futures::try_join!(loader.positions(&s.entry.file, &s.deletes), loader.equality(&s.deletes))?;
            Ok(Loaded { positions, equality })
        };
        let (before_deletes, after_deletes) = futures::try_join!(load(&diff.before), load(&diff.after))?;
        let file = diff.file();
        let rows = u64::try_from(file.record_count).map_err(|_| {
            Error::malformed(format!("record_count is {}", file.record_count)).at(&file.path).clause("MAN-30")
        })?;
        let (mut may_delete, mut may_insert) = (diff.before.is_some(), diff.after.is_some());
        let candidates = if let (Some(before), Some(after)) = (&diff.before, &diff.after) {
            let none = DeletionVector::new();
            let b = before_deletes.positions.as_ref().unwrap_or(&none);
            let a = after_deletes.positions.as_ref().unwrap_or(&none);
            let (gone, back) = (a.difference(b), b.difference(a));
            if !back.is_empty() {
                // legal only as a rollback (CDC-21); the rows count as inserted
                tracing::warn!("{} rows of {} came back to life", back.len(), file.path);
            }
            may_delete = !gone.is_empty();
            may_insert = !back.is_empty();
            let mut all = gone;
            all.union_with(&back);
            if !diff.equality.is_empty() {
                let hit = self.hit_by(file, after, &diff.equality, loader).await?;
                let added =
                    diff.equality.iter().any(|d| after.deletes.equality.iter().any(|e| e.file.key() == d.file.key()));
                let removed =
                    diff.equality.iter().any(|d| before.deletes.equality.iter().any(|e| e.file.key() == d.file.key()));
                may_delete |= added && !hit.is_empty();
                may_insert |= removed && !hit.is_empty();
                all.union_with(&hit);
            }
            all
        } else {
            let dead = before_deletes.positions.as_ref().or(after_deletes.positions.as_ref());
            let mut all = DeletionVector::new();
            all.insert_range(0..rows)?;
            match dead {
                Some(d) => all.difference(d),
                None => all,
            }
        };
        Ok(Prepared {
            before: diff.before.as_ref().map(|s| s.entry.clone()),
            after: diff.after.as_ref().map(|s| s.entry.clone()),
            before_deletes,
            after_deletes,
            candidates,
            may_delete,
            may_insert,
        })
    }

    /// Positions of rows that some of the equality deletes match; reads the equality columns only.
    async fn hit_by(
        &self,
        file: &DataFile,
        side: &Side,
        deletes: &[Arc<ManifestEntry>],
        loader: &DeleteLoader,
    ) -> Result<DeletionVector> {
        let sets = loader.equality(&Deletes { equality: deletes.to_vec(), ..Default::default() }).await?;
        let mut hit = DeletionVector::new();
        let mut all = DeletionVector::new();
        all.insert_range(0..u64::try_from(file.record_count).unwrap_or(0))?;
        let narrow = self.lineage_only()?;
        let opened = narrow.open(&side.entry, &sets, &all, 0, false).await?;
        let (mut stream, mut at) = (opened.stream, 0u64);
        while let Some(batch) = stream.try_next().await.map_err(|e| e.at(&file.path))? {
            for set in &sets {
                let keep = set.keep(&batch)?;
                for i in (0..keep.len()).filter(|i| !keep.value(*i)) {
                    hit.try_insert(at + i as u64)?;
                }
            }
            at += batch.num_rows() as u64;
        }
        Ok(hit)
    }

    /// The changed rows of a prepared difference, among `only` (all candidates when `None`).
    pub async fn read(
        &self,
        p: Arc<Prepared>,
        only: Option<DeletionVector>,
    ) -> Result<BoxStream<'static, Result<Changed>>> {
        let Some(entry) = p.after.clone().or_else(|| p.before.clone()) else {
            return Err(Error::internal("a file difference without a file"));
        };
        let selected = only.as_ref().unwrap_or(&p.candidates);
        if selected.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let sets: Vec<&EqualityDeletes> = p.before_deletes.equality.iter().chain(&p.after_deletes.equality).collect();
        let place = entry.file.path.clone();
        // what is no candidate is alike on both sides, and `split` drops it
        let gap = if only.is_none() { SHORT_GAP } else { 0 };
        let opened = self.open(&entry, sets, selected, gap, true).await.map_err(|e| e.at(&place))?;
        let mut positions = Positions(opened.positions.into());
        let (adapter, filter) = (opened.adapter, self.filter.clone());
        Ok(opened
            .stream
            .map_err(move |e| e.at(&place))
            .map(move |batch| {
                let batch = batch?;
                let at = positions.next(batch.num_rows());
                split(&p, &batch, &adapter, at, filter.as_deref()).map_err(|e| e.at(&entry.file.path))
            })
            .map_ok(|parts| futures::stream::iter(parts.into_iter().map(Ok)))
            .try_flatten()
            .boxed())
    }

    /// The selected rows, and those in gaps of less than `gap` rows between them.
    async fn open<'a>(
        &self,
        entry: &ManifestEntry,
        sets: impl IntoIterator<Item = &'a EqualityDeletes>,
        selected: &DeletionVector,
        gap: usize,
        lineage: bool,
    ) -> Result<Opened> {
        let file = &entry.file;
        if file.key_metadata.is_some() {
            return Err(Error::unsupported("encrypted data files can't be read"));
        }
        if file.format != FileFormat::Parquet {
            return self.open_rows(entry, sets, selected, lineage).await;
        }
        let size = u64::try_from(file.file_size).map_err(|_| Error::malformed("negative file_size_in_bytes"))?;
        let mut reader = self.io.parquet_reader(&file.path, size)?;
        let whole = selected.len() == u64::try_from(file.record_count).unwrap_or(0);
        let wanted = |yes: bool| if yes { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_offset_index_policy(wanted(!whole || self.groups.is_some()))
            .with_column_index_policy(wanted(self.groups.is_some()));
        let metadata = ArrowReaderMetadata::load_async(&mut reader, options).await?;
        let rows = metadata.metadata().file_metadata().num_rows();
        if rows != file.record_count {
            return Err(Error::malformed(format!(
                "file has {rows} rows but its manifest entry says {}",
                file.record_count
            ))
            .clause("MAN-30"));
        }
        let file_schema = metadata.schema().clone();
        let adapter = BatchAdapter::try_new(&file_schema, &self.schema, &self.arrow, &self.metadata, entry)?;
        let mut roots = adapter.roots().to_vec();
        if lineage {
            roots.extend(root_of(&file_schema, ROW_ID_FIELD_ID));
            roots.extend(root_of(&file_schema, LAST_UPDATED_FIELD_ID));
        }
        for s in sets {
            roots.extend(s.bind(&file_schema, &self.metadata, entry)?);
        }
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        // whole row groups without a selected row are not touched
        let mut groups = Vec::new();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut positions: Vec<Range<u64>> = Vec::new();
        let (mut start, mut taken) = (0u64, 0usize);
        let mut runs = selected.ranges().peekable();
        let mut all_pages = true;
        for (i, g) in metadata.metadata().row_groups().iter().enumerate() {
            let end = start + u64::try_from(g.num_rows()).unwrap_or(0);
            let before = ranges.len();
            let wanted = self.groups.as_ref().is_none_or(|f| f.may_match(g));
            let pages = self.groups.as_ref().filter(|_| wanted).and_then(|f| f.rows(metadata.metadata(), i));
            all_pages &= pages.is_none();
            while let Some(r) = runs.peek() {
                if r.start >= end {
                    break;
                }
                let (from, to) = (r.start.max(start), r.end.min(end));
                if from < to && wanted {
                    for r in clip(from - start..to - start, pages.as_deref()) {
                        let (at, end) = (start + r.start, start + r.end);
                        let next = taken + r.start as usize..taken + r.end as usize;
                        let here = ranges.len() > before;
                        match (ranges.last_mut(), positions.last_mut()) {
                            (Some(r), Some(p)) if here && next.start - r.end < gap => (r.end, p.end) = (next.end, end),
                            _ => {
                                positions.push(at..end);
                                ranges.push(next);
                            }
                        }
                    }
                }
                if r.end > end {
                    break;
                }
                runs.next();
            }
            if ranges.len() > before {
                groups.push(i);
                taken += (end - start) as usize;
            }
            start = end;
        }
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata)
            .with_batch_size(BATCH_ROWS)
            .with_projection(mask)
            .with_row_groups(groups);
        if !whole || !all_pages {
            builder = builder.with_row_selection(RowSelection::from_consecutive_ranges(ranges.into_iter(), taken));
        }
        Ok(Opened { stream: builder.build()?.map_err(Error::from).boxed(), positions, adapter })
    }

    /// A file of a format that is decoded whole; rows that are not selected are dropped as they come.
    async fn open_rows<'a>(
        &self,
        entry: &ManifestEntry,
        sets: impl IntoIterator<Item = &'a EqualityDeletes>,
        selected: &DeletionVector,
        lineage: bool,
    ) -> Result<Opened> {
        let rows = FileRows::open(&self.io, &entry.file).await?;
        let adapter = BatchAdapter::try_new(&rows.schema, &self.schema, &self.arrow, &self.metadata, entry)?;
        let mut roots = adapter.roots().to_vec();
        if lineage {
            roots.extend(root_of(&rows.schema, ROW_ID_FIELD_ID));
            roots.extend(root_of(&rows.schema, LAST_UPDATED_FIELD_ID));
        }
        for s in sets {
            roots.extend(s.bind(&rows.schema, &self.metadata, entry)?);
        }
        let wanted = selected.clone();
        let mut at = 0u64;
        let stream = futures::stream::iter(rows.batches(&roots, BATCH_ROWS)?).map(move |batch| {
            let batch = batch?;
            let others = wanted.keep_mask(at, batch.num_rows());
            at += batch.num_rows() as u64;
            let mask = others.map_or_else(|| BooleanBuffer::new_unset(batch.num_rows()), |o| !&o);
            Ok(filter_record_batch(&batch, &BooleanArray::new(mask, None))?)
        });
        Ok(Opened { stream: stream.boxed(), positions: selected.ranges().collect(), adapter })
    }
}

/// The parts of a range that lie in pages; `None` = the range.
pub fn clip(range: Range<u64>, pages: Option<&[Range<u64>]>) -> Vec<Range<u64>> {
    let Some(pages) = pages else {
        return vec![range];
    };
    pages[pages.partition_point(|p| p.end <= range.start)..]
        .iter()
        .take_while(|p| p.start < range.end)
        .map(|p| p.start.max(range.start)..p.end.min(range.end))
        .collect()
}

struct Opened {
    stream: BoxStream<'static, Result<RecordBatch>>,
    positions: Vec<Range<u64>>,
    adapter: BatchAdapter,
}

struct Positions(std::collections::VecDeque<Range<u64>>);

impl Positions {
    fn next(&mut self, n: usize) -> Vec<u64> {
        let mut out = Vec::with_capacity(n);
        while out.len() < n {
            let Some(front) = self.0.front_mut() else {
                break;
            };
            let take = (n - out.len()).min((front.end - front.start) as usize) as u64;
            out.extend(front.start..front.start + take);
            front.start += take;
            if front.start == front.end {
                self.0.pop_front();
            }
        }
        out
    }
}

/// Index of the top-level column that is, or holds, a field id.
fn root_of(schema: &SchemaRef, id: i32) -> Option<usize> {
    fn holds(f: &FieldRef, id: i32) -> bool {
        field_id(f) == Some(id) || matches!(f.data_type(), DataType::Struct(fs) if fs.iter().any(|f| holds(f, id)))
    }
    schema.fields().iter().position(|f| holds(f, id))
}

/// Rows that are live on one side.
fn alive(deletes: &Loaded, exists: bool, batch: &RecordBatch, positions: &[u64]) -> Result<BooleanBuffer> {
    let n = positions.len();
    if !exists {
        return Ok(BooleanBuffer::new_unset(n));
    }
    let mut out = match (&deletes.positions, positions) {
        (None, _) => BooleanBuffer::new_set(n),
        (Some(dv), [first, .., last]) if last - first + 1 == n as u64 => {
            dv.keep_mask(*first, n).unwrap_or_else(|| BooleanBuffer::new_set(n))
        }
        (Some(dv), _) => BooleanBuffer::collect_bool(n, |i| !dv.contains(positions[i])),
    };
    for set in &deletes.equality {
        out = &out & set.keep(batch)?.values();
    }
    Ok(out)
}

/// A lineage column as the file stores it.
fn stored(batch: &RecordBatch, id: i32) -> Result<Option<Int64Array>> {
    let Some(i) = root_of(batch.schema_ref(), id) else {
        return Ok(None);
    };
    let c = batch.column(i).as_primitive_opt::<Int64Type>().ok_or_else(|| {
        Error::malformed(format!("lineage column has type {}; long is required", batch.column(i).data_type()))
            .clause("LINEAGE-18")
    })?;
    Ok(Some(c.clone()))
}

fn split(
    p: &Prepared,
    batch: &RecordBatch,
    adapter: &BatchAdapter,
    positions: Vec<u64>,
    predicate: Option<&dyn PhysicalExpr>,
) -> Result<Vec<Changed>> {
    let n = positions.len();
    if n != batch.num_rows() {
        return Err(Error::internal("the reader gave other rows than were selected"));
    }
    let before = alive(&p.before_deletes, p.before.is_some(), batch, &positions)?;
    let after = alive(&p.after_deletes, p.after.is_some(), batch, &positions)?;
    let table = adapter.adapt(batch)?;
    let passes = match predicate {
        Some(f) => {
            let v = f.evaluate(&table)?.into_array(n)?;
            let v = v
                .as_boolean_opt()
                .ok_or_else(|| Error::invalid(format!("the filter gives {}, not true or false", v.data_type())))?;
            // null passes no more than false does
            Some(v.nulls().map_or_else(|| v.values().clone(), |valid| v.values() & valid.inner()))
        }
        None => None,
    };
    let mut out = Vec::new();
    for (kind, live, other, entry) in
        [(Kind::Delete, &before, &after, &p.before), (Kind::Insert, &after, &before, &p.after)]
    {
        let Some(entry) = entry else { continue };
        let mut mask = live & &!other;
        if let Some(passes) = &passes {
            mask = &mask & passes;
        }
        let count = mask.count_set_bits();
        if count == 0 {
            continue;
        }
        let mask = BooleanArray::new(mask, None);
        // most batches of a file that is read whole need no filter
        let some = count < n;
        let pick = |c: Int64Array| -> Result<Int64Array> {
            Ok(if some { filter(&c, &mask)?.as_primitive::<Int64Type>().clone() } else { c })
        };
        let (ids, updated) = (stored(batch, ROW_ID_FIELD_ID)?, stored(batch, LAST_UPDATED_FIELD_ID)?);
        let (ids, updated) = (ids.map(pick).transpose()?, updated.map(pick).transpose()?);
        let positions: Vec<u64> =
            if some { mask.values().set_indices().map(|i| positions[i]).collect() } else { positions.clone() };
        // LINEAGE-4, LINEAGE-5
        let (first, sequence) = (entry.file.first_row_id, entry.sequence_number);
        let row_ids = match (first, ids) {
            (None, _) => Int64Array::new_null(count),
            (Some(_), Some(ids)) if ids.null_count() == 0 => ids,
            (Some(f), Some(ids)) => {
                ids.iter().zip(&positions).map(|(id, p)| Some(id.unwrap_or(f + *p as i64))).collect()
            }
            (Some(f), None) => Int64Array::from_iter_values(positions.iter().map(|p| f + *p as i64)),
        };
        let last_updated = match (first.and(sequence), updated) {
            (None, _) => Int64Array::new_null(count),
            (Some(_), Some(updated)) if updated.null_count() == 0 => updated,
            (Some(s), Some(updated)) => updated.iter().map(|u| Some(u.unwrap_or(s))).collect(),
            (Some(s), None) => Int64Array::from(vec![s; count]),
        };
        let rows = if some { filter_record_batch(&table, &mask)? } else { table.clone() };
        out.push(Changed { kind, rows, positions, row_ids, last_updated });
    }
    Ok(out)
}
