//! Reading of deletes, once per file and scan.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{ParquetObjectReader, ParquetRecordBatchStreamBuilder};
use tokio::sync::OnceCell;

use super::equality::EqualityDeletes;
use super::index::Deletes;
use crate::dv::{DeletionVector, DvOptions, read_dv};
use crate::io::{FileIo, normalize};
use crate::manifest::{DataFile, FileFormat, FileKey, ManifestEntry};
use crate::scan::FileRows;
use crate::table::Metadata;
use crate::{Error, Result};

/// Field id of `file_path` in a position-delete file (RID-7).
pub const FILE_PATH_ID: i32 = 2147483546;
/// Field id of `pos` in a position-delete file (RID-8).
pub const POS_ID: i32 = 2147483545;

type Positions = Arc<HashMap<String, DeletionVector>>;

/// Loads the deletes of data files; a file that many data files share is read once.
pub struct DeleteLoader {
    io: FileIo,
    metadata: Arc<Metadata>,
    positions: Mutex<HashMap<FileKey, Arc<OnceCell<Positions>>>>,
    equality: Mutex<HashMap<FileKey, Arc<OnceCell<Arc<Vec<RecordBatch>>>>>>,
}

impl std::fmt::Debug for DeleteLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeleteLoader").finish_non_exhaustive()
    }
}

impl DeleteLoader {
    /// A loader for one scan.
    pub fn new(io: FileIo, metadata: Arc<Metadata>) -> Self {
        Self { io, metadata, positions: Mutex::default(), equality: Mutex::default() }
    }

    /// All deleted positions of a data file: its deletion vector, or the union of its position-delete files (SCAN-2).
    /// `None` when there is neither. Positions at or past the file's row count are refused.
    pub async fn positions(&self, data: &DataFile, deletes: &Deletes) -> Result<Option<DeletionVector>> {
        if let Some(dv) = &deletes.dv {
            return Ok(Some(read_dv(&self.io, &dv.file, Some(data.record_count), &DvOptions::default()).await?));
        }
        if deletes.positions.is_empty() {
            return Ok(None);
        }
        let path = normalize(&data.path);
        let mut all = DeletionVector::new();
        for d in &deletes.positions {
            if let Some(p) = self.position_file(d).await?.get(&path) {
                all.union_with(p);
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    async fn position_file(&self, entry: &Arc<ManifestEntry>) -> Result<Positions> {
        let cell = self.positions.lock().expect("no panic while held").entry(entry.file.key()).or_default().clone();
        cell.get_or_try_init(|| async { read_position_deletes(&self.io, &entry.file).await.map(Arc::new) })
            .await
            .cloned()
    }

    /// The equality deletes of a data file, merged by their equality columns.
    pub async fn equality(&self, deletes: &Deletes) -> Result<Vec<EqualityDeletes>> {
        let mut by_ids: HashMap<Vec<i32>, EqualityDeletes> = HashMap::new();
        for d in &deletes.equality {
            let mut ids = d.file.equality_ids.clone().unwrap_or_default();
            if ids.is_empty() {
                return Err(Error::malformed("equality-delete file without equality_ids")
                    .at(&d.file.path)
                    .clause("EQDEL-1"));
            }
            ids.sort_unstable();
            ids.dedup();
            let cell = self.equality.lock().expect("no panic while held").entry(d.file.key()).or_default().clone();
            let batches =
                cell.get_or_try_init(|| async { read_batches(&self.io, &d.file).await.map(Arc::new) }).await?.clone();
            let set = match by_ids.entry(ids) {
                std::collections::hash_map::Entry::Occupied(o) => o.into_mut(),
                std::collections::hash_map::Entry::Vacant(v) => {
                    let set = EqualityDeletes::new(v.key(), &self.metadata)?;
                    v.insert(set)
                }
            };
            for b in batches.iter() {
                set.add(b, &d.file.path)?;
            }
        }
        let mut out: Vec<_> = by_ids.into_values().collect();
        out.sort_by(|a, b| a.ids().cmp(b.ids()));
        Ok(out)
    }
}

/// The only data file a position-delete file is about: `referenced_data_file`, or equal full `file_path` bounds (POSDEL-6).
pub fn file_scope(file: &DataFile) -> Option<String> {
    if let Some(p) = &file.referenced_data_file {
        return Some(p.to_string());
    }
    let m = file.metrics.as_ref()?;
    let (lo, hi) = (m.lower_bounds.get(&FILE_PATH_ID)?, m.upper_bounds.get(&FILE_PATH_ID)?);
    (lo == hi).then(|| String::from_utf8(lo.clone()).ok())?
}

/// Reads a whole position-delete file: positions by normalised data-file path (POSDEL-1).
pub async fn read_position_deletes(io: &FileIo, file: &DataFile) -> Result<HashMap<String, DeletionVector>> {
    let mut out: HashMap<String, DeletionVector> = HashMap::new();
    for batch in read_batches(io, file).await? {
        let column = |id: i32, name: &str| {
            column_by_id(&batch, id).or_else(|| batch.column_by_name(name).cloned()).ok_or_else(|| {
                Error::malformed(format!("position-delete file has no column {name} (field id {id})"))
                    .at(&file.path)
                    .clause("POSDEL-1")
            })
        };
        let wrong = |what: &str| {
            Error::malformed(format!("position-delete column {what} has a wrong type"))
                .at(&file.path)
                .clause("POSDEL-1")
        };
        let paths = arrow::compute::cast(&column(FILE_PATH_ID, "file_path")?, &arrow::datatypes::DataType::Utf8)?;
        let paths = paths.as_string_opt::<i32>().ok_or_else(|| wrong("file_path"))?.clone();
        let pos = column(POS_ID, "pos")?;
        let pos = pos.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong("pos"))?;
        if paths.null_count() + pos.null_count() > 0 {
            return Err(Error::malformed("null in a position-delete file").at(&file.path).clause("POSDEL-1"));
        }
        let mut i = 0;
        while i < batch.num_rows() {
            // rows are sorted by path, so runs of one path are long
            let path = paths.value(i);
            let dv = out.entry(normalize(path)).or_default();
            while i < batch.num_rows() && paths.value(i) == path {
                let p = pos.value(i);
                let p = u64::try_from(p).map_err(|_| {
                    Error::malformed(format!("negative position {p}")).at(&file.path).clause("POSDEL-1")
                })?;
                dv.try_insert(p).map_err(|e| e.at(&file.path))?;
                i += 1;
            }
        }
    }
    Ok(out)
}

fn column_by_id(batch: &RecordBatch, id: i32) -> Option<arrow::array::ArrayRef> {
    let id = id.to_string();
    let i = batch
        .schema_ref()
        .fields()
        .iter()
        .position(|f| f.metadata().get(PARQUET_FIELD_ID_META_KEY).is_some_and(|v| *v == id))?;
    Some(batch.column(i).clone())
}

/// All rows of a delete file, with Parquet field ids in the schema.
async fn read_batches(io: &FileIo, file: &DataFile) -> Result<Vec<RecordBatch>> {
    if file.key_metadata.is_some() {
        return Err(Error::unsupported("encrypted delete files can't be read").at(&file.path));
    }
    if file.format != FileFormat::Parquet {
        let rows = FileRows::open(io, file).await?;
        let all: Vec<usize> = (0..rows.schema.fields().len()).collect();
        let batches = rows.batches(&all, 8192)?;
        return batches.map(|b| b.map_err(|e| e.at(&file.path))).collect();
    }
    let (store, _, path) = io.resolve(&file.path)?;
    let reader = ParquetObjectReader::new(store, path).with_file_size(u64::try_from(file.file_size).unwrap_or(0));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchStreamBuilder::new_with_options(reader, options)
        .await
        .map_err(|e| Error::from(e).at(&file.path))?;
    builder.build()?.try_collect().await.map_err(|e| Error::from(e).at(&file.path))
}
