//! Rows of Avro and ORC files, with the field ids that their schemas carry, so that everything after the decoder is the same
//! as for Parquet. A file is held in memory while it is read.

mod avro;
mod orc;
mod orc_footer;
mod relabel;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};

use crate::io::FileIo;
use crate::manifest::{DataFile, FileFormat};
use crate::{Error, Result};

/// Batches of a file in row order.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// An open file that is not Parquet.
pub struct FileRows {
    /// Its columns, field ids in the metadata (PARQ-*'s key) at every level.
    pub schema: SchemaRef,
    kind: Kind,
    expected_rows: i64,
}

enum Kind {
    Avro(avro::AvroFile),
    Orc(orc::OrcFile),
}

impl FileRows {
    /// Opens a data or delete file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] for another format, an encrypted file, and what the decoders cannot read;
    /// [`crate::ErrorKind::Malformed`] for a file that is not what its entry says.
    pub async fn open(io: &FileIo, file: &DataFile) -> Result<Self> {
        Self::open_inner(io, file).await.map_err(|e| e.at(&file.path))
    }

    async fn open_inner(io: &FileIo, file: &DataFile) -> Result<Self> {
        if file.key_metadata.is_some() {
            return Err(Error::unsupported("encrypted files can't be read"));
        }
        let (schema, kind) = match file.format {
            FileFormat::Avro => {
                let (schema, f) = avro::AvroFile::open(io.read(&file.path).await?)?;
                (schema, Kind::Avro(f))
            }
            FileFormat::Orc => {
                let (schema, f) = orc::OrcFile::open(io.read(&file.path).await?)?;
                (schema, Kind::Orc(f))
            }
            other => {
                return Err(Error::unsupported(format!(
                    "{} files can't be read; allowed: PARQUET, AVRO, ORC",
                    other.as_str()
                )));
            }
        };
        Ok(Self { schema, kind, expected_rows: file.record_count })
    }

    /// The rows, with the given top-level columns (indices into [`Self::schema`]) in file order. A number of rows other than
    /// the manifest's is an error at the end: positions and row ids are computed from it (MAN-30).
    pub fn batches(self, roots: &[usize], batch_size: usize) -> Result<Batches> {
        let mut roots = roots.to_vec();
        roots.sort_unstable();
        roots.dedup();
        let fields: Vec<_> = roots.iter().map(|i| self.schema.fields()[*i].clone()).collect();
        let target: SchemaRef = Arc::new(ArrowSchema::new(fields));
        let inner = match self.kind {
            Kind::Avro(f) => f.batches(&roots, batch_size)?,
            Kind::Orc(f) => f.batches(&roots, batch_size)?,
        };
        let expected = self.expected_rows;
        let mut seen = 0i64;
        let mut ended = false;
        let mut inner = inner;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let next = match inner.next() {
                Some(batch) => batch.and_then(|b| relabel::batch(&b, &target)),
                None if seen == expected => return None,
                None => Err(Error::malformed(format!("file has {seen} rows but its manifest entry says {expected}"))
                    .clause("MAN-30")),
            };
            match &next {
                Ok(b) => seen += b.num_rows() as i64,
                Err(_) => ended = true,
            }
            Some(next)
        })))
    }
}
