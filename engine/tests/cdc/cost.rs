//! Work is proportional to what changed: untouched row groups and pages are neither fetched nor decoded, a slow reader
//! holds the work up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Mortal, World, catalog_over};
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
    tokio::time::sleep(Duration::from_millis(500)).await;
    let then = store.read.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(store.read.load(Ordering::SeqCst), then, "it reads on although nobody takes the rows");
    let mut rows = first;
    while let Some(b) = stream.next().await {
        rows += b.expect("rows").num_rows();
    }
    assert_eq!(rows, 100_000);
    assert!(store.read.load(Ordering::SeqCst) > then * 2, "all was read before anybody took it");
}
