//! A table with very many files: real manifests, real Puffin files with many vectors each, and data files that are hard links
//! to a few small real ones, so that each of them opens and its footer says what its manifest entry says.

use std::path::Path;
use std::sync::Arc;

use floe_engine::commit::{Change, Producer, commit};
use floe_engine::dv::DeletionVector;
use floe_engine::manifest::{DataFile, live_entries};
use floe_engine::rowlevel::write_vectors;
use floe_engine::{Result, Table};

use crate::Warehouse;

/// Rows of each data file.
pub const ROWS_A_FILE: u64 = 100;
/// Small files that the others are links to: a file system allows some tens of thousands of links to one file.
const ORIGINALS: usize = 10;
/// Vectors of a Puffin file.
const VECTORS_A_PUFFIN: usize = 1000;
/// Data files that are committed at a time.
const FILES_A_COMMIT: usize = 10_000;

/// Makes `ns.<name>` with `files` data files, each with a deletion vector of its own (1 to 3 positions).
///
/// # Panics
/// When a step fails.
pub fn make(w: &mut Warehouse, name: &str, files: usize) {
    w.run(&format!(
        "CREATE TABLE ns.{name} (id BIGINT, city STRING, n BIGINT) USING iceberg \
         TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); \
         INSERT INTO ns.{name} SELECT id, concat('city ', CAST(id AS STRING)), id * 10 FROM range(0, {rows}, 1, {ORIGINALS})",
        rows = ROWS_A_FILE * ORIGINALS as u64
    ));
    let table = w.table(name);
    w.runtime.block_on(fill(table, files)).expect("a large table");
}

async fn fill(mut table: Table, files: usize) -> Result<()> {
    let snapshot = table.metadata().current_snapshot_id().expect("the insert's snapshot");
    let (originals, _) = live_entries(&table, snapshot).await?;
    let originals: Vec<DataFile> = originals.into_iter().map(|e| e.file).collect();
    let mut data: Vec<DataFile> = originals.clone();
    while data.len() < files {
        let upto = files.min(data.len() + FILES_A_COMMIT);
        let more: Vec<DataFile> = (data.len()..upto).map(|i| link(&originals[i % originals.len()], i)).collect();
        let mut change = Change::new(Producer::FastAppend);
        change.added = more.clone();
        table = commit(&table, change).await?.table;
        data.extend(more);
    }
    let mut change = Change::new(Producer::RowDelta);
    for (i, chunk) in data.chunks(VECTORS_A_PUFFIN).enumerate() {
        let mut vectors = Vec::with_capacity(chunk.len());
        for (j, file) in chunk.iter().enumerate() {
            let n = (i + j) as u64 % 3 + 1;
            let positions = (0..n).map(|k| (k * 31 + j as u64) % ROWS_A_FILE);
            vectors.push((file.clone(), DeletionVector::try_from_positions(positions)?));
        }
        change.added.extend(write_vectors(&table, &vectors).await?);
    }
    commit(&table, change).await?;
    Ok(())
}

/// A data file of its own name with the content of another.
fn link(original: &DataFile, number: usize) -> DataFile {
    let path = Path::new(&*original.path);
    let name = format!("linked-{number:07}.parquet");
    let to = path.with_file_name(name);
    std::fs::hard_link(path, &to).expect("a link");
    DataFile { path: Arc::from(to.display().to_string()), first_row_id: None, ..original.clone() }
}
