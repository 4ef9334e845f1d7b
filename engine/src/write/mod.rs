//! Writing files of a table: data files with metrics, position-delete files (V2) and equality-delete files.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use iceberg::spec::{NestedField, PrimitiveType, Struct, Type};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::io::FileIo;
use crate::manifest::{Content, DataFile, FileFormat};
use crate::table::Table;
use crate::types::{LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, partition_type};
use crate::{Error, Result};

mod cast;
mod deletes;
mod dictionary;
mod fanout;
mod file;
mod metrics;
mod parquet_schema;

pub use cast::InputMapping;
pub use deletes::{Granularity, PositionDeletes, equality_field, write_equality_deletes, write_position_deletes};
pub use metrics::{MetricsConfig, Mode, truncate_lower, truncate_upper};
pub use parquet_schema::parquet_schema;

use cast::Conform;
use fanout::Fanout;
use file::{FileWriter, Finished, Layout, table_metrics};

/// How data files are written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Partition spec; the table's default when `None`.
    pub spec_id: Option<i32>,
    /// The input ends with two more columns, `_row_id` and `_last_updated_sequence_number`, to be stored (LINEAGE-18);
    /// nulls in them mean: inherited.
    pub lineage: bool,
    /// How input columns find their table columns.
    pub mapping: InputMapping,
    /// Operation id in file names (LOC-3); random by default.
    pub operation_id: Uuid,
    /// Rolls files at this many bytes instead of `write.target-file-size-bytes`.
    pub target_file_size: Option<u64>,
    /// Whether the input is sorted by the table's default order, so that files may say so (SORT-4).
    pub sorted: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            spec_id: None,
            lineage: false,
            mapping: InputMapping::ByPosition,
            operation_id: Uuid::new_v4(),
            target_file_size: None,
            sorted: false,
        }
    }
}

/// The two lineage columns as optional fields (LINEAGE-18).
pub fn lineage_fields() -> [Arc<NestedField>; 2] {
    let long = || Type::Primitive(PrimitiveType::Long);
    [
        Arc::new(NestedField::optional(ROW_ID, "_row_id", long())),
        Arc::new(NestedField::optional(LAST_UPDATED_SEQUENCE_NUMBER, "_last_updated_sequence_number", long())),
    ]
}

/// What the tasks of one write share: names and the list of files begun, which an error deletes.
struct Job {
    io: FileIo,
    folder: String,
    operation: Uuid,
    counter: AtomicU32,
    begun: Mutex<Vec<String>>,
}

impl Job {
    fn new(table: &Table, operation: Uuid) -> Arc<Self> {
        Arc::new(Self {
            io: table.io().clone(),
            folder: table.data_location(),
            operation,
            counter: AtomicU32::new(0),
            begun: Mutex::new(Vec::new()),
        })
    }

    /// Opens the next file (LOC-3), in a partition folder when `partition` is not empty; `first` as [`FileWriter::open`] has it.
    fn open(
        &self,
        task: usize,
        partition: &str,
        suffix: &str,
        layout: &Layout,
        first: Option<&RecordBatch>,
    ) -> Result<FileWriter> {
        let n = self.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{task:05}-{task}-{}-{n:05}{suffix}.parquet", self.operation);
        let location = match partition {
            "" => format!("{}/{name}", self.folder),
            p => format!("{}/{p}/{name}", self.folder),
        };
        self.begun.lock().map_err(|_| Error::internal("a writer panicked"))?.push(location.clone());
        FileWriter::open(&self.io, location, layout, first)
    }

    /// Deletes every file begun: nothing of a failed write stays behind.
    async fn clean(&self) {
        let begun = self.begun.lock().map(|mut b| std::mem::take(&mut *b)).unwrap_or_default();
        for location in begun {
            if let Err(e) = self.io.delete(&location).await {
                tracing::warn!("could not delete {location} of a failed write: {e}");
            }
        }
    }
}

/// Deletes the files of a write whose future was dropped before its end.
struct Guard(Option<Arc<Job>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let (Some(job), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { job.clean().await });
        }
    }
}

async fn guarded<T>(job: &Arc<Job>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut guard = Guard(Some(job.clone()));
    let result = work.await;
    guard.0 = None;
    if result.is_err() {
        job.clean().await;
    }
    result
}

/// Content file of a finished file.
fn data_file(done: Finished, content: Content, spec_id: i32, partition: Arc<Struct>) -> DataFile {
    DataFile {
        metrics: Some(Box::new(done.metrics)),
        split_offsets: Some(done.split_offsets),
        ..DataFile::new(content, FileFormat::Parquet, done.location, spec_id, partition, done.rows, done.size)
    }
}

/// Writes the rows of the streams, which run concurrently, as data files.
///
/// Unpartitioned: one file a stream (none for a stream without rows), rolled at `write.target-file-size-bytes`.
/// Partitioned: the rows of all streams are brought together by partition, one file a partition unless it rolls or more
/// than 128 partitions are written at once; memory stays bounded. Every column of the current schema is stored
/// (DEFV-5), unknown ones excepted (TYPE-1).
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a wrong number of columns, a value that a column's type cannot hold, a null in
/// a NOT NULL column or a wrong property. After any error no file of this write is left.
pub async fn write_data_files(
    table: &Table,
    streams: Vec<SendableRecordBatchStream>,
    options: &WriteOptions,
) -> Result<Vec<DataFile>> {
    let metadata = table.metadata();
    let schema = metadata.current_schema().clone();
    let spec = match options.spec_id {
        None => metadata.default_partition_spec().clone(),
        Some(id) => metadata
            .partition_spec_by_id(id)
            .ok_or_else(|| {
                Error::invalid(format!("no partition spec has id {id}")).at(table.ident()).clause("META-F11")
            })?
            .clone(),
    };
    let lineage = lineage_fields();
    let extra: &[_] = if options.lineage { &lineage } else { &[] };
    let order = metadata.default_sort_order();
    let properties = metadata.properties();
    let layout = Arc::new(Layout::new(
        &schema,
        extra,
        &metadata.ext,
        properties,
        false,
        table_metrics(&schema, order, properties)?,
        Vec::new(),
    )?);
    let target = target_size(table, options)?;
    // Only what is refused by the type of a partition source is left to find; nothing is written yet.
    for f in spec.fields() {
        crate::types::as_source(&schema, &metadata.ext, f)?;
    }
    let partition_type = Arc::new(partition_type(&spec, &metadata.inner)?);
    let conforms = streams
        .iter()
        .map(|s| {
            Conform::plan(&s.schema(), layout.fields.clone(), layout.ext.clone(), layout.arrow.clone(), options.mapping)
        })
        .collect::<Result<Vec<_>>>()?;
    let sort_order_id = if options.sorted { order.order_id as i32 } else { 0 };

    let job = Job::new(table, options.operation_id);
    let mut files = guarded(&job, async {
        let mut tasks = JoinSet::new();
        let fanout = (!spec.is_unpartitioned())
            .then(|| Arc::new(Fanout::new(job.clone(), layout.clone(), spec.clone(), partition_type, schema, target)));
        for (i, (stream, conform)) in streams.into_iter().zip(conforms).enumerate() {
            match &fanout {
                Some(fanout) => {
                    let fanout = fanout.clone();
                    tasks.spawn(
                        async move { drain_partitioned(stream, conform, &fanout).await.map(|()| (i, Vec::new())) },
                    );
                }
                None => {
                    let (job, layout, spec_id) = (job.clone(), layout.clone(), spec.spec_id());
                    tasks.spawn(async move {
                        let done = drain(stream, conform, i, &job, &layout, target).await?;
                        let none = Arc::new(Struct::empty());
                        let files = done.into_iter().map(|d| data_file(d, Content::Data, spec_id, none.clone()));
                        Ok((i, files.collect::<Vec<_>>()))
                    });
                }
            }
        }
        let mut parts = Vec::new();
        while let Some(done) = tasks.join_next().await {
            parts.push(done.map_err(|e| Error::internal(format!("a writer task failed: {e}")))??);
        }
        parts.sort_by_key(|(i, _)| *i);
        let mut files: Vec<_> = parts.into_iter().flat_map(|(_, f)| f).collect();
        if let Some(fanout) = fanout {
            files.extend(fanout.finish().await?);
        }
        Ok(files)
    })
    .await?;
    for f in &mut files {
        f.sort_order_id = Some(sort_order_id);
    }
    Ok(files)
}

fn target_size(table: &Table, options: &WriteOptions) -> Result<usize> {
    const KEY: &str = "write.target-file-size-bytes";
    let size = match options.target_file_size {
        Some(n) => n,
        None => {
            let text = table.property(KEY, "536870912");
            text.parse().map_err(|_| {
                Error::invalid(format!("property {KEY} is {text:?}; a positive integer is allowed")).clause("PROP-6")
            })?
        }
    };
    usize::try_from(size).ok().filter(|n| *n > 0).ok_or_else(|| {
        Error::invalid(format!("target file size is {size}; a positive integer is allowed")).clause("PROP-6")
    })
}

async fn drain(
    mut stream: SendableRecordBatchStream,
    conform: Conform,
    task: usize,
    job: &Job,
    layout: &Layout,
    target: usize,
) -> Result<Vec<Finished>> {
    let mut done = Vec::new();
    let mut open: Option<FileWriter> = None;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        let batch = conform.apply(&batch)?;
        let mut writer = match open.take() {
            Some(w) => w,
            None => job.open(task, "", "", layout, Some(&batch))?,
        };
        writer.write(&batch).await?;
        if writer.bytes() >= target {
            done.push(writer.finish().await?);
        } else {
            open = Some(writer);
        }
    }
    if let Some(w) = open {
        done.push(w.finish().await?);
    }
    Ok(done)
}

async fn drain_partitioned(mut stream: SendableRecordBatchStream, conform: Conform, fanout: &Fanout) -> Result<()> {
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            fanout.write(&conform.apply(&batch)?).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
