//! Reading of one data file: row groups, late filtering, deletes, schema projection, metadata columns.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema as ArrowSchema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::arrow_reader::{ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, RowFilter};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask, RowNumber};

use super::adapt::BatchAdapter;
use super::columns::{LAST_UPDATED_FIELD_ID, MetaColumn, ROW_ID_FIELD_ID};
use super::formats::FileRows;
use super::output::{Constants, Output, Rows};
use super::rowgroups;
use super::split::Split;
use crate::deletes::{DeleteLoader, EqualityDeletes};
use crate::dv::DeletionVector;
use crate::expr::FilePruner;
use crate::io::FileIo;
use crate::manifest::FileFormat;
use crate::table::Metadata;
use crate::{Error, Result};

/// Name of the virtual column that carries positions through late filtering.
const POSITION: &str = "__floe_position";

/// A filter that the reader evaluates: before the other columns are decoded when there are any, else before the output is made. What it
/// lets through is filtered again above.
#[derive(Debug, Clone)]
pub struct LateFilter {
    /// Columns of the filter, as an output without metadata columns.
    pub input: Output,
    /// The filter over `input`'s columns.
    pub expr: Arc<dyn PhysicalExpr>,
}

/// What all files of a scan share.
#[derive(Debug)]
pub struct ScanContext {
    /// File access.
    pub io: FileIo,
    /// Table metadata.
    pub metadata: Arc<Metadata>,
    /// Output columns.
    pub output: Output,
    /// Row-group pruning.
    pub pruner: Arc<FilePruner>,
    /// Late filters, one a conjunct.
    pub late: Option<LateFilter>,
    /// Deletes, read once.
    pub deletes: DeleteLoader,
    /// Rows a batch.
    pub batch_size: usize,
}

/// Opens a split and streams its live rows.
pub async fn read(cx: Arc<ScanContext>, split: Split) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let file = &split.task.entry.file;
    let place = file.path.clone();
    read_inner(cx, &split).await.map_err(|e| e.at(&place))
}

async fn read_inner(cx: Arc<ScanContext>, split: &Split) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let entry = &split.task.entry;
    let file = &entry.file;
    if file.key_metadata.is_some() {
        return Err(Error::unsupported("encrypted data files can't be read"));
    }
    let (positions, equality) =
        futures::try_join!(cx.deletes.positions(file, &split.task.deletes), cx.deletes.equality(&split.task.deletes))?;

    if file.format != FileFormat::Parquet {
        return read_rows(cx, split, positions, equality).await;
    }
    let size = u64::try_from(file.file_size).map_err(|_| Error::malformed("negative file_size_in_bytes"))?;
    let mut reader = cx.io.parquet_reader(&file.path, size)?;
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load_async(&mut reader, plain).await?;
    check_row_count(&metadata, file.record_count)?;
    let file_schema = with_views(metadata.schema());
    let adapter = BatchAdapter::try_new(&file_schema, &cx.output.schema, &cx.output.table_arrow, &cx.metadata, entry)?;

    // late filtering moves rows, so positions must come from the reader
    let filter = match &cx.late {
        Some(l) => Some(RowTest {
            expr: l.expr.clone(),
            adapter: BatchAdapter::try_new(&file_schema, &l.input.schema, &l.input.table_arrow, &cx.metadata, entry)?,
        }),
        None => None,
    };
    let late_filtered = cx.late.as_ref().is_some_and(|l| spares_columns(&cx.output, &l.input));
    let mut options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(file_schema.clone());
    if late_filtered {
        options = options.with_virtual_columns(vec![position_field()])?;
    }
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
    let parquet_schema = metadata.parquet_schema();

    let mut roots = adapter.roots().to_vec();
    let wants_row_id = cx.output.wants(MetaColumn::RowId);
    let wants_updated = cx.output.wants(MetaColumn::LastUpdatedSequenceNumber);
    if wants_row_id {
        roots.extend(root_of(&file_schema, ROW_ID_FIELD_ID));
    }
    if wants_updated {
        roots.extend(root_of(&file_schema, LAST_UPDATED_FIELD_ID));
    }
    for e in &equality {
        roots.extend(e.bind(&file_schema, &cx.metadata, entry)?);
    }
    let (late, early) = if late_filtered { (filter, None) } else { (None, filter) };
    if let Some(e) = &early {
        roots.extend(e.adapter.roots());
    }
    let mask = ProjectionMask::roots(parquet_schema, roots);

    let groups = rowgroups::select(metadata.metadata(), split.range, file, Some(&cx.pruner));
    let row_filter = late.map(|test| {
        let mask = ProjectionMask::roots(parquet_schema, test.adapter.roots().to_vec());
        RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, move |batch| {
            test.passes(&batch).map_err(|e| arrow::error::ArrowError::ExternalError(Box::new(e)))
        }))])
    });

    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata)
        .with_batch_size(cx.batch_size)
        .with_projection(mask)
        .with_row_groups(groups.indices);
    if let Some(f) = row_filter {
        builder = builder.with_row_filter(f);
    }
    let constants = Constants::new(entry, &cx.metadata)?;
    let mut file_reader = FileReader {
        cursor: (!late_filtered).then(|| Cursor(groups.rows.into())),
        early: early.map(Early::new),
        positions,
        equality,
        adapter,
        constants,
        cx: cx.clone(),
    };
    let place = file.path.clone();
    Ok(builder
        .build()?
        .map_err(Error::from)
        .map(move |batch| batch.and_then(|b| file_reader.process(b)).map_err(|e| e.at(&place)))
        .try_filter(|b| futures::future::ready(b.num_rows() > 0))
        .boxed())
}

/// A file of a format that is decoded whole, row by row: no row group is left out, and the scan's filter runs above.
async fn read_rows(
    cx: Arc<ScanContext>,
    split: &Split,
    positions: Option<DeletionVector>,
    equality: Vec<EqualityDeletes>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let entry = &split.task.entry;
    let rows = FileRows::open(&cx.io, &entry.file).await?;
    let adapter = BatchAdapter::try_new(&rows.schema, &cx.output.schema, &cx.output.table_arrow, &cx.metadata, entry)?;
    let mut roots = adapter.roots().to_vec();
    for (wanted, id) in
        [(MetaColumn::RowId, ROW_ID_FIELD_ID), (MetaColumn::LastUpdatedSequenceNumber, LAST_UPDATED_FIELD_ID)]
    {
        if cx.output.wants(wanted) {
            roots.extend(root_of(&rows.schema, id));
        }
    }
    for e in &equality {
        roots.extend(e.bind(&rows.schema, &cx.metadata, entry)?);
    }
    let count = u64::try_from(entry.file.record_count)
        .map_err(|_| Error::malformed(format!("record_count is {}", entry.file.record_count)).clause("MAN-30"))?;
    let batches = rows.batches(&roots, cx.batch_size)?;
    let mut file_reader = FileReader {
        cursor: Some(Cursor(std::iter::once(0..count).collect())),
        early: None,
        positions,
        equality,
        adapter,
        constants: Constants::new(entry, &cx.metadata)?,
        cx: cx.clone(),
    };
    let place = entry.file.path.clone();
    Ok(futures::stream::iter(batches)
        .map(move |batch| batch.and_then(|b| file_reader.process(b)).map_err(|e| e.at(&place)))
        .try_filter(|b| futures::future::ready(b.num_rows() > 0))
        .boxed())
}

/// The manifest's count is what positions and row ids are computed from; a file that differs is not the file it describes.
fn check_row_count(metadata: &ArrowReaderMetadata, record_count: i64) -> Result<()> {
    let rows = metadata.metadata().file_metadata().num_rows();
    if rows != record_count {
        return Err(Error::malformed(format!("file has {rows} rows but its manifest entry says {record_count}"))
            .clause("MAN-30"));
    }
    Ok(())
}

fn position_field() -> FieldRef {
    Arc::new(Field::new(POSITION, DataType::Int64, false).with_extension_type(RowNumber))
}

/// Strings and binaries as views: decoding then copies nothing.
fn with_views(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(view_field).collect();
    Arc::new(ArrowSchema::new_with_metadata(fields, schema.metadata().clone()))
}

fn view_field(f: &FieldRef) -> FieldRef {
    let ty = match f.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::Struct(fs) => DataType::Struct(fs.iter().map(view_field).collect()),
        DataType::List(e) => DataType::List(view_field(e)),
        // the expected keys are no views
        DataType::Map(e, sorted) => match e.data_type() {
            DataType::Struct(kv) if kv.len() == 2 => {
                let kv = DataType::Struct(vec![kv[0].clone(), view_field(&kv[1])].into());
                DataType::Map(Arc::new(e.as_ref().clone().with_data_type(kv)), *sorted)
            }
            _ => return f.clone(),
        },
        _ => return f.clone(),
    };
    Arc::new(f.as_ref().clone().with_data_type(ty))
}

/// Index of the top-level column that is, or holds, a field id.
fn root_of(schema: &SchemaRef, id: i32) -> Option<usize> {
    fn holds(f: &Field, id: &str) -> bool {
        if f.metadata().get(PARQUET_FIELD_ID_META_KEY).is_some_and(|v| v == id) {
            return true;
        }
        match f.data_type() {
            DataType::Struct(fs) => fs.iter().any(|f| holds(f, id)),
            _ => false,
        }
    }
    let id = id.to_string();
    schema.fields().iter().position(|f| holds(f, &id))
}

/// Positions of consecutive rows, over the selected row groups.
struct Cursor(VecDeque<Range<u64>>);

impl Cursor {
    /// Spans of the next `n` rows.
    fn next(&mut self, mut n: u64) -> Vec<Range<u64>> {
        let mut out = Vec::with_capacity(1);
        while n > 0 {
            let Some(front) = self.0.front_mut() else { break };
            let take = n.min(front.end - front.start);
            if take > 0 {
                out.push(front.start..front.start + take);
            }
            front.start += take;
            n -= take;
            if front.start == front.end {
                self.0.pop_front();
            }
        }
        out
    }
}

/// Whether the output has columns that the filter does not need.
fn spares_columns(output: &Output, filter: &Output) -> bool {
    let needed = filter.schema.as_struct();
    output.schema.as_struct().fields().iter().any(|f| needed.field_by_id(f.id).is_none())
}

/// The scan's filter over the rows of one file.
struct RowTest {
    expr: Arc<dyn PhysicalExpr>,
    adapter: BatchAdapter,
}

impl RowTest {
    /// The rows that may pass. Dead rows are among those that are asked: what fails for one of them must not fail the scan, so a filter
    /// that cannot be evaluated lets all rows through, to be filtered above.
    fn passes(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let input = self.adapter.adapt(batch)?;
        let n = input.num_rows();
        Ok(match self.expr.evaluate(&input).and_then(|v| v.into_array(n)) {
            Ok(found) => found.as_boolean().clone(),
            Err(_) => BooleanArray::new(BooleanBuffer::new_set(n), None),
        })
    }
}

/// A filter over columns that are decoded anyway; it ends when it lets most rows through.
struct Early {
    test: RowTest,
    asked: usize,
    passed: usize,
}

/// After so many rows it is known whether a filter is worth its time.
const TRIAL: usize = 1 << 17;

impl Early {
    fn new(test: RowTest) -> Self {
        Self { test, asked: 0, passed: 0 }
    }

    fn passes(&mut self, batch: &RecordBatch) -> Result<BooleanArray> {
        let found = self.test.passes(batch)?;
        let found = if found.null_count() > 0 { prep_null_mask_filter(&found) } else { found };
        self.asked += found.len();
        self.passed += found.true_count();
        Ok(found)
    }

    fn is_worth_it(&self) -> bool {
        self.asked < TRIAL || self.passed < self.asked / 2
    }
}

struct FileReader {
    cursor: Option<Cursor>,
    early: Option<Early>,
    positions: Option<DeletionVector>,
    equality: Vec<EqualityDeletes>,
    adapter: BatchAdapter,
    constants: Constants,
    cx: Arc<ScanContext>,
}

impl FileReader {
    fn process(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let n = batch.num_rows();
        let output = &self.cx.output;
        let mark_deleted = output.wants(MetaColumn::Deleted);
        let mut positions: Option<Int64Array> = None;
        let mut spans = Vec::new();
        let mut keep: Option<BooleanArray> = None;
        match &mut self.cursor {
            Some(cursor) => {
                spans = cursor.next(n as u64);
                if let Some(dv) = &self.positions {
                    keep = keep_spans(dv, &spans, n);
                }
            }
            None => {
                let column = batch
                    .column_by_name(POSITION)
                    .and_then(|c| c.as_primitive_opt::<Int64Type>())
                    .ok_or_else(|| Error::internal("the reader gave no positions"))?
                    .clone();
                if let Some(dv) = &self.positions {
                    let bits = BooleanBuffer::collect_bool(n, |i| !dv.contains(column.value(i) as u64));
                    if bits.count_set_bits() < n {
                        keep = Some(BooleanArray::new(bits, None));
                    }
                }
                positions = Some(column);
            }
        }
        for e in &self.equality {
            let k = e.keep(&batch)?;
            keep = Some(match keep {
                Some(old) => and(&old, &k)?,
                None => k,
            });
        }
        if let Some(early) = &mut self.early {
            let k = early.passes(&batch)?;
            if !early.is_worth_it() {
                self.early = None;
            }
            keep = Some(match keep {
                Some(old) => and(&old, &k)?,
                None => k,
            });
        }
        let live = keep.as_ref().filter(|_| !mark_deleted);
        if self.cursor.is_some() && output.wants_positions() {
            positions = Some(positions_of(&spans, live.map(BooleanArray::values)));
        } else if let (Some(p), Some(k)) = (&positions, live) {
            positions = Some(arrow::compute::filter(p, k)?.as_primitive::<Int64Type>().clone());
        }
        let mut deleted = None;
        let mut batch = batch;
        if let Some(k) = keep {
            if mark_deleted {
                deleted = Some(arrow::compute::not(&k)?);
            } else {
                batch = filter_record_batch(&batch, &k)?;
            }
        }
        let table = self.adapter.adapt(&batch)?;
        let stored = |wanted: MetaColumn, id: i32| -> Result<Option<Int64Array>> {
            if !output.wants(wanted) {
                return Ok(None);
            }
            let Some(i) = root_of(batch.schema_ref(), id) else { return Ok(None) };
            batch.column(i).as_primitive_opt::<Int64Type>().cloned().map(Some).ok_or_else(|| {
                Error::malformed(format!(
                    "column {} has type {}; long is required",
                    wanted.name(),
                    batch.column(i).data_type()
                ))
                .clause("LINEAGE-18")
            })
        };
        let row_id = stored(MetaColumn::RowId, ROW_ID_FIELD_ID)?;
        let last_updated = stored(MetaColumn::LastUpdatedSequenceNumber, LAST_UPDATED_FIELD_ID)?;
        let rows = Rows {
            positions: positions.as_ref(),
            deleted: deleted.as_ref(),
            row_id: row_id.as_ref(),
            last_updated: last_updated.as_ref(),
        };
        output.assemble(&table, &rows, &self.constants)
    }
}

/// Positions of the rows of consecutive spans, of all or of the live ones.
fn positions_of(spans: &[Range<u64>], live: Option<&BooleanBuffer>) -> Int64Array {
    let Some(live) = live else {
        return spans.iter().cloned().flatten().map(|p| p as i64).collect::<Vec<_>>().into();
    };
    let mut out: Vec<i64> = Vec::with_capacity(live.count_set_bits());
    let mut from = 0;
    for s in spans {
        let len = (s.end - s.start) as usize;
        out.extend(live.slice(from, len).set_indices().map(|i| s.start as i64 + i as i64));
        from += len;
    }
    out.into()
}

/// Keep bits of consecutive spans; `None` when nothing is deleted.
fn keep_spans(dv: &DeletionVector, spans: &[Range<u64>], n: usize) -> Option<BooleanArray> {
    if let [one] = spans {
        return dv.keep_mask(one.start, (one.end - one.start) as usize).map(|b| BooleanArray::new(b, None));
    }
    let mut bits = arrow::array::BooleanBufferBuilder::new(n);
    let mut any = false;
    for s in spans {
        let len = (s.end - s.start) as usize;
        match dv.keep_mask(s.start, len) {
            Some(b) => {
                any = true;
                bits.append_buffer(&b);
            }
            None => bits.append_n(len, true),
        }
    }
    any.then(|| BooleanArray::new(bits.finish(), None))
}
