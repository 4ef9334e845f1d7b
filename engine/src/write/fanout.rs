//! Rows by partition: one open file a partition, with a bound on open files and on buffered rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::row::{RowConverter, SortField};
use iceberg::spec::{PartitionSpecRef, SchemaRef, Struct, StructType};

use super::file::{FileWriter, Finished, Layout};
use super::{Job, data_file};
use crate::manifest::{Content, DataFile};
use crate::types::{array_value, partition_path, partition_values};
use crate::{Error, Result};

/// Open Parquet writers at most: each holds a row group.
const MAX_OPEN: usize = 128;
/// Buffered rows of all partitions at most, in bytes; more are encoded.
const MAX_BUFFERED: usize = 64 << 20;
/// Buffered rows of one partition at most; small runs are gathered so that a Parquet writer is not fed row by row.
const FLUSH_AT: usize = 1 << 20;

struct Part {
    values: Arc<Struct>,
    path: String,
    /// Bytes waiting in `State::pending`.
    buffered: AtomicUsize,
    /// Whether `State::open` is some.
    is_open: AtomicBool,
    /// Time of last use, in ticks.
    used: AtomicU64,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Vec<RecordBatch>,
    open: Option<FileWriter>,
    done: Vec<Finished>,
}

/// Distributes rows of all streams over partitions.
pub(super) struct Fanout {
    job: Arc<Job>,
    layout: Arc<Layout>,
    spec: PartitionSpecRef,
    partition_type: Arc<StructType>,
    schema: SchemaRef,
    target: usize,
    parts: Mutex<HashMap<Box<[u8]>, Arc<Part>>>,
    buffered: AtomicUsize,
    open: AtomicUsize,
    tick: AtomicU64,
}

impl Fanout {
    pub(super) fn new(
        job: Arc<Job>,
        layout: Arc<Layout>,
        spec: PartitionSpecRef,
        partition_type: Arc<StructType>,
        schema: SchemaRef,
        target: usize,
    ) -> Self {
        Self {
            job,
            layout,
            spec,
            partition_type,
            schema,
            target,
            parts: Mutex::default(),
            buffered: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            tick: AtomicU64::new(0),
        }
    }

    /// Adds rows in the stored layout.
    pub(super) async fn write(&self, batch: &RecordBatch) -> Result<()> {
        for (part, rows) in self.split(batch)? {
            let bytes = rows.get_array_memory_size();
            let mut state = part.state.lock().await;
            state.pending.push(rows);
            part.used.store(self.tick.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            let mine = part.buffered.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.buffered.fetch_add(bytes, Ordering::Relaxed);
            if mine >= FLUSH_AT {
                self.flush(&part, &mut state).await?;
            }
            drop(state);
            self.shrink().await?;
        }
        Ok(())
    }

    /// Rows of a batch by partition, in the order of first appearance.
    fn split(&self, batch: &RecordBatch) -> Result<Vec<(Arc<Part>, RecordBatch)>> {
        let values = partition_values(&self.spec, &self.schema, &self.layout.ext, batch)?;
        let converter = RowConverter::new(values.iter().map(|v| SortField::new(v.data_type().clone())).collect())?;
        let keys = converter.convert_columns(&values)?;
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut index: HashMap<&[u8], usize> = HashMap::new();
        let rows: Vec<_> = keys.iter().collect();
        for (i, row) in rows.iter().enumerate() {
            let g = *index.entry(row.data()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[g].push(i as u32);
        }
        let whole = groups.len() == 1;
        let mut out = Vec::with_capacity(groups.len());
        for g in groups {
            let first = g[0] as usize;
            let part = self.part(rows[first].data(), || {
                let tuple = values.iter().zip(self.partition_type.fields());
                let tuple = tuple.map(|(a, f)| array_value(a.as_ref() as &dyn Array, first, &f.field_type));
                Ok(tuple.collect::<Result<Vec<_>>>()?.into_iter().collect())
            })?;
            let rows = if whole { batch.clone() } else { take_record_batch(batch, &UInt32Array::from(g))? };
            out.push((part, rows));
        }
        Ok(out)
    }

    fn part(&self, key: &[u8], tuple: impl FnOnce() -> Result<Struct>) -> Result<Arc<Part>> {
        let mut parts = self.parts.lock().map_err(|_| Error::internal("a writer panicked"))?;
        if let Some(p) = parts.get(key) {
            return Ok(p.clone());
        }
        let values = tuple()?;
        let part = Arc::new(Part {
            path: partition_path(&self.spec, &self.partition_type, &values),
            values: Arc::new(values),
            buffered: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            used: AtomicU64::new(0),
            state: tokio::sync::Mutex::default(),
        });
        parts.insert(key.into(), part.clone());
        Ok(part)
    }

    async fn flush(&self, part: &Part, state: &mut State) -> Result<()> {
        if state.pending.is_empty() {
            return Ok(());
        }
        let batches = std::mem::take(&mut state.pending);
        self.buffered.fetch_sub(part.buffered.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        let rows = arrow::compute::concat_batches(&self.layout.arrow, &batches)?;
        drop(batches);
        let mut writer = match state.open.take() {
            Some(w) => w,
            None => {
                self.open.fetch_add(1, Ordering::Relaxed);
                part.is_open.store(true, Ordering::Relaxed);
                self.job.open(0, &part.path, "", &self.layout, Some(&rows))?
            }
        };
        writer.write(&rows).await?;
        let full = writer.bytes() >= self.target;
        state.open = Some(writer);
        if full {
            self.close(part, state).await?;
        }
        Ok(())
    }

    async fn close(&self, part: &Part, state: &mut State) -> Result<()> {
        if let Some(w) = state.open.take() {
            self.open.fetch_sub(1, Ordering::Relaxed);
            part.is_open.store(false, Ordering::Relaxed);
            state.done.push(w.finish().await?);
        }
        Ok(())
    }

    /// Gets below the bounds: encodes the largest buffers, closes the files not used for longest.
    async fn shrink(&self) -> Result<()> {
        while self.buffered.load(Ordering::Relaxed) > MAX_BUFFERED {
            let largest =
                self.pick(|p| p.buffered.load(Ordering::Relaxed) as u64, |p| p.buffered.load(Ordering::Relaxed) > 0)?;
            let Some(part) = largest else { break };
            let mut state = part.state.lock().await;
            self.flush(&part, &mut state).await?;
        }
        while self.open.load(Ordering::Relaxed) > MAX_OPEN {
            let oldest =
                self.pick(|p| u64::MAX - p.used.load(Ordering::Relaxed), |p| p.is_open.load(Ordering::Relaxed))?;
            let Some(part) = oldest else { break };
            let mut state = part.state.lock().await;
            self.close(&part, &mut state).await?;
        }
        Ok(())
    }

    fn pick(&self, by: impl Fn(&Part) -> u64, of: impl Fn(&Part) -> bool) -> Result<Option<Arc<Part>>> {
        let parts = self.parts.lock().map_err(|_| Error::internal("a writer panicked"))?;
        Ok(parts.values().filter(|p| of(p)).max_by_key(|p| by(p)).cloned())
    }

    /// Encodes what is left and closes all files, partitions in the order of their paths.
    pub(super) async fn finish(&self) -> Result<Vec<DataFile>> {
        let mut parts: Vec<_> =
            self.parts.lock().map_err(|_| Error::internal("a writer panicked"))?.values().cloned().collect();
        parts.sort_by(|a, b| a.path.cmp(&b.path));
        let mut files = Vec::new();
        for part in parts {
            let mut state = part.state.lock().await;
            self.flush(&part, &mut state).await?;
            self.close(&part, &mut state).await?;
            let done = std::mem::take(&mut state.done);
            files.extend(
                done.into_iter().map(|d| data_file(d, Content::Data, self.spec.spec_id(), part.values.clone())),
            );
        }
        Ok(files)
    }
}
