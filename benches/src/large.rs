//! A table with very many files in a bench's warehouse.

use floe_bench_tables::{ROWS_A_FILE, fill};

use crate::Warehouse;

/// Small files that the others are links to.
const ORIGINALS: u64 = 10;

/// Makes `ns.<name>` with `files` data files, each with a deletion vector of its own (1 to 3 positions).
///
/// # Panics
/// When a step fails.
pub fn make(w: &mut Warehouse, name: &str, files: usize) {
    w.run(&format!(
        "CREATE TABLE ns.{name} (id BIGINT, city STRING, n BIGINT) USING iceberg \
         TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read'); \
         INSERT INTO ns.{name} SELECT id, concat('city ', CAST(id AS STRING)), id * 10 FROM range(0, {rows}, 1, {ORIGINALS})",
        rows = ROWS_A_FILE * ORIGINALS
    ));
    let table = w.table(name);
    w.runtime.block_on(fill(table, files)).expect("a large table");
}
