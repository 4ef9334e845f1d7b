//! Work is proportional to what changed: untouched row groups and pages are neither fetched nor decoded, a slow reader
//! holds the work up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Mortal, World, catalog_over};
use crate::sync::{config, sync, sync_over};
use floe_engine::Table;
use floe_engine::cdc::{ChangelogScan, End, Start, table_ident};
use futures::StreamExt;
use parquet::file::reader::{FileReader, SerializedFileReader};

async fn make(world: &mut World, properties: &str) {
    world
        .run(&format!(
            "CREATE TABLE ns.t (id BIGINT, a STRING, b STRING) USING iceberg TBLPROPERTIES('format-version'='3', \
             'write.delete.mode'='merge-on-read'{properties}); \
             INSERT INTO ns.t SELECT id, CAST(id * 7919 AS STRING), CAST(id % 1000 AS STRING) FROM range(0, 100000, 1, 1)"
        ))
        .await;
}

/// The table as a store sees it that notes every read; the notes start empty.
async fn watched(world: &World) -> (Arc<Mortal>, Table) {
    let store = Mortal::new();
    let catalog = catalog_over(world.dir.path(), store.clone());
    let table = catalog.load_table(&table_ident("ns.t").expect("name")).await.expect("table");
    store.reads.lock().expect("no panic").clear();
    store.read.store(0, Ordering::SeqCst);
    (store, table)
}

/// Row groups of the only data file: first row, rows, byte range.
fn groups(world: &World) -> (String, u64, Vec<(i64, i64, Range<u64>)>) {
    let data = world.dir.path().join("ns/t/data");
    let mut files: Vec<_> = std::fs::read_dir(data).expect("data").map(|e| e.expect("entry").path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "parquet"));
    assert_eq!(files.len(), 1);
    let file = std::fs::File::open(&files[0]).expect("file");
    let size = file.metadata().expect("metadata").len();
    let reader = SerializedFileReader::new(file).expect("parquet");
    let mut first = 0;
    let groups = reader
        .metadata()
        .row_groups()
        .iter()
        .map(|g| {
            let ranges: Vec<_> = g.columns().iter().map(|c| c.byte_range()).collect();
            let from = ranges.iter().map(|r| r.0).min().expect("columns");
            let to = ranges.iter().map(|r| r.0 + r.1).max().expect("columns");
            let start = first;
            first += g.num_rows();
            (start, g.num_rows(), from..to)
        })
        .collect();
    (files[0].file_name().expect("name").to_string_lossy().into_owned(), size, groups)
}

async fn changed(table: Table) -> usize {
    let head = table.metadata().current_snapshot().expect("snapshot").clone();
    let start = Start::After(head.parent_snapshot_id().expect("parent").to_string());
    let scan = ChangelogScan::builder(table).range(start, End::Head).build().await.expect("scan");
    scan.collect().await.expect("changes").iter().map(|b| b.num_rows()).sum()
}

#[tokio::test]
async fn untouched_row_groups_are_not_read() {
    let mut world = World::new().await;
    make(&mut world, ", 'write.parquet.row-group-size-bytes'='65536'").await;
    let (name, _, groups) = groups(&world);
    assert!(groups.len() >= 10, "{} row groups", groups.len());
    // 1 % of the rows
    world.run("DELETE FROM ns.t WHERE id BETWEEN 50000 AND 50999").await;
    let (store, table) = watched(&world).await;
    assert_eq!(changed(table).await, 1000);
    let reads: Vec<Range<u64>> = {
        let reads = store.reads.lock().expect("no panic");
        reads.iter().filter(|(f, _)| *f == name).map(|(_, r)| r.clone()).collect()
    };
    let mut touched = 0;
    for (first, rows, bytes) in groups {
        let holds = first < 51000 && first + rows > 50000;
        let read = reads.iter().any(|r| r.start < bytes.end && r.end > bytes.start);
        assert_eq!(read, holds, "row group of rows {first}..{} at {bytes:?}", first + rows);
        touched += usize::from(read);
    }
    assert!((1..=3).contains(&touched), "{touched} row groups hold the deleted rows");
}

#[tokio::test]
async fn untouched_pages_are_not_read() {
    let mut world = World::new().await;
    make(&mut world, ", 'write.parquet.page-row-limit'='1000', 'write.parquet.dict-size-bytes'='1024'").await;
    let (name, size, groups) = groups(&world);
    assert_eq!(groups.len(), 1);
    world.run("DELETE FROM ns.t WHERE id BETWEEN 50000 AND 50999").await;
    let (store, table) = watched(&world).await;
    assert_eq!(changed(table).await, 1000);
    let inside: u64 = {
        let reads = store.reads.lock().expect("no panic");
        let data = &groups[0].2;
        reads.iter().filter(|(f, r)| *f == name && r.end <= data.end).map(|(_, r)| r.end - r.start).sum()
    };
    assert!(inside > 0 && inside * 20 < size, "{inside} of {size} bytes were read for 1 % of the rows");
}

#[tokio::test]
async fn a_slow_reader_holds_the_work_up() {
    let mut world = World::new().await;
    make(&mut world, ", 'write.parquet.row-group-size-bytes'='65536'").await;
    let (store, table) = watched(&world).await;
    let scan = ChangelogScan::builder(table).build().await.expect("scan");
    let mut stream = scan.stream();
    let first = stream.next().await.expect("a batch").expect("rows").num_rows();
    // it stops by itself, well before the end
    let mut then = store.read.load(Ordering::SeqCst);
    let mut still = 0;
    while still < 4 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = store.read.load(Ordering::SeqCst);
        still = if now == then { still + 1 } else { 0 };
        then = now;
    }
    let mut rows = first;
    while let Some(b) = stream.next().await {
        rows += b.expect("rows").num_rows();
    }
    assert_eq!(rows, 100_000);
    assert!(store.read.load(Ordering::SeqCst) > then * 2, "all was read before anybody took it");
}

/// A copy of 100,000 rows; `key` = its key columns. Gives the bytes of data files that a sync of a change to few rows reads
/// in the copy, and their size.
async fn sync_reads(key: &str, insert: &str, change: &str) -> (u64, u64) {
    let mut world = World::new().await;
    world
        .run(&format!(
            "CREATE TABLE ns.src (tenant STRING, id BIGINT, a STRING) USING iceberg TBLPROPERTIES('format-version'='3', \
             'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'); {insert}"
        ))
        .await;
    let target = format!(
        "mode: merge-on-read, equality_columns: [{key}], table_properties: {{write.parquet.page-row-limit: 500, \
         write.parquet.dict-size-bytes: 1024}}"
    );
    sync(&world, config("", &target, "")).await.expect("first load");
    world.run(change).await;
    let store = Mortal::new();
    let report = sync_over(&world, config("", &target, ""), catalog_over(world.dir.path(), store.clone())).await;
    assert!(report.expect("sync").deleted > 0);
    let data = world.dir.path().join("copy/dst/data");
    let sizes: std::collections::HashMap<String, u64> = std::fs::read_dir(data)
        .expect("data")
        .map(|e| e.expect("entry"))
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.metadata().expect("metadata").len()))
        .filter(|(n, _)| n.ends_with(".parquet"))
        .collect();
    let of_data = |(f, r): &(String, std::ops::Range<u64>)| if sizes.contains_key(f) { r.end - r.start } else { 0 };
    let read = store.reads.lock().expect("no panic").iter().map(of_data).sum();
    let want = world.rows("SELECT count(*), sum(id), max(a) FROM ns.src").await;
    assert_eq!(world.rows("SELECT count(*), sum(id), max(a) FROM copy.dst").await, want);
    (read, sizes.values().sum())
}

const SORTED: &str =
    "INSERT INTO ns.src SELECT CAST(id % 1 AS STRING), id, CAST(id * 7919 AS STRING) FROM range(0, 100000, 1, 1)";

#[tokio::test]
async fn few_keys_read_few_pages_of_the_target() {
    let change = "UPDATE ns.src SET a = 'z' WHERE id IN (5, 50000, 99000)";
    let (read, size) = sync_reads("id", SORTED, change).await;
    assert!(read * 8 < size, "{read} of {size} bytes were read for 3 keys");
    // the first column of the key tells nothing, the second does
    let (read, size) = sync_reads("tenant, id", SORTED, change).await;
    assert!(read * 8 < size, "{read} of {size} bytes were read for 3 keys of two columns");
}

#[tokio::test]
async fn a_null_key_reads_only_where_nulls_are() {
    let with_null = format!("{SORTED}; INSERT INTO ns.src VALUES ('0', NULL, 'null')");
    let (read, size) = sync_reads("id", &with_null, "UPDATE ns.src SET a = 'z' WHERE id IS NULL OR id = 77").await;
    assert!(read * 8 < size, "{read} of {size} bytes were read for a null key");
}

#[tokio::test]
async fn scattered_keys_read_the_key_column_only() {
    // ids that lie all over the file, whatever page is looked at
    let scattered = "INSERT INTO ns.src SELECT 't', (id * 7919) % 100000, CAST(id * 104729 AS STRING) || 'xxxxxxxxxxxxxxxxxxxxxxxx' \
                     FROM range(0, 100000, 1, 1)";
    let (read, size) = sync_reads("id", scattered, "UPDATE ns.src SET a = 'z' WHERE id IN (5, 50000, 99000)").await;
    assert!(read * 2 < size, "{read} of {size} bytes were read");
}
