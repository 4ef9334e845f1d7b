//! A table with very many files: real manifests, real Puffin files with many vectors each, and data files that are hard links
//! to a few small real ones, so that each of them opens and its footer says what its manifest entry says.

use std::path::Path;
use std::sync::Arc;

use floe_engine::commit::{Change, Producer, commit};
use floe_engine::dv::DeletionVector;
use floe_engine::manifest::{DataFile, live_entries};
use floe_engine::rowlevel::write_vectors;
use floe_engine::{Error, Result, Table};

/// Rows of each data file of a table that is to be filled.
pub const ROWS_A_FILE: u64 = 100;
/// Vectors of a Puffin file.
const VECTORS_A_PUFFIN: usize = 1000;
/// Data files that are committed at a time.
const FILES_A_COMMIT: usize = 10_000;

/// Fills a table of a few files of [`ROWS_A_FILE`] rows up to `files` data files, the others hard links to those, and gives each a
/// deletion vector of its own (1 to 3 positions); answers with the number of positions. A file system allows some tens of thousands
/// of links to one file. Errors: a table without files or not on a local disk, a commit that fails.
pub async fn fill(mut table: Table, files: usize) -> Result<u64> {
    let snapshot = table.metadata().current_snapshot_id();
    let snapshot =
        snapshot.ok_or_else(|| Error::invalid("a table without files cannot be filled with links to them"))?;
    let (originals, _) = live_entries(&table, snapshot).await?;
    let originals: Vec<DataFile> = originals.into_iter().map(|e| e.file).collect();
    let mut data: Vec<DataFile> = originals.clone();
    while data.len() < files {
        let upto = files.min(data.len() + FILES_A_COMMIT);
        let more = (data.len()..upto).map(|i| link(&originals[i % originals.len()], i)).collect::<Result<Vec<_>>>()?;
        let mut change = Change::new(Producer::FastAppend);
        change.added = more.clone();
        table = commit(&table, change).await?.table;
        data.extend(more);
    }
    let mut positions = 0;
    let mut change = Change::new(Producer::RowDelta);
    for (i, chunk) in data.chunks(VECTORS_A_PUFFIN).enumerate() {
        let mut vectors = Vec::with_capacity(chunk.len());
        for (j, file) in chunk.iter().enumerate() {
            let n = (i + j) as u64 % 3 + 1;
            positions += n;
            let deleted = (0..n).map(|k| (k * 31 + j as u64) % ROWS_A_FILE);
            vectors.push((file.clone(), DeletionVector::try_from_positions(deleted)?));
        }
        change.added.extend(write_vectors(&table, &vectors).await?);
    }
    commit(&table, change).await?;
    Ok(positions)
}

/// A data file of its own name with the content of another.
fn link(original: &DataFile, number: usize) -> Result<DataFile> {
    let path = Path::new(&*original.path);
    let to = path.with_file_name(format!("linked-{number:07}.parquet"));
    std::fs::hard_link(path, &to).map_err(|e| Error::invalid(format!("cannot link {}: {e}", to.display())))?;
    Ok(DataFile { path: Arc::from(to.display().to_string()), first_row_id: None, ..original.clone() })
}
