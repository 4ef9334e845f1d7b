//! Changelog reads and sync of 1 % and 2 % changes on a table of 2 million rows in 4 files.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use floe_benches::{Warehouse, quick};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;
use floe_engine::cdc::{ChangelogScan, End, Start};

const ROWS: u64 = 2_000_000;

/// Ends of a range that holds one UPDATE of `percent` % of the rows, scattered.
fn updated(w: &mut Warehouse, table: &str, percent: u64) -> (i64, i64) {
    let from = w.head(table);
    w.run(&format!("UPDATE ns.{table} SET n = n + 1 WHERE id % 100 < {percent}"));
    (from, w.head(table))
}

fn changelog(c: &mut Criterion) {
    let mut group = c.benchmark_group("changelog");
    group.sampling_mode(SamplingMode::Flat);
    for mode in ["merge-on-read", "copy-on-write"] {
        let mut w = Warehouse::new();
        w.cities("t", ROWS, mode);
        for percent in [1, 2] {
            let (from, to) = updated(&mut w, "t", percent);
            let table = w.table("t");
            group.throughput(Throughput::Elements(2 * percent * ROWS / 100));
            group.bench_function(BenchmarkId::new(mode, format!("{percent}_percent")), |b| {
                b.iter(|| {
                    let scan = ChangelogScan::builder(table.clone())
                        .range(Start::After(from.to_string()), End::At(to.to_string()))
                        .compute_updates(true)
                        .identifier_columns(vec!["id".into()]);
                    let rows = w.runtime.block_on(async { scan.build().await?.collect().await }).expect("changes");
                    let n: usize = rows.iter().map(|b| b.num_rows()).sum();
                    assert_eq!(n as u64, 2 * percent * ROWS / 100);
                    n
                })
            });
        }
    }
    group.finish();
}

fn sync_once(w: &Warehouse, target: &str, mode: &str) -> u64 {
    let text = format!(
        "source: {{table: ns.t}}\ntarget: {{table: ns.{target}, mode: {mode}, equality_columns: [id]}}\nsync: {{}}"
    );
    let config = PipelineConfig::parse(&text, "bench").expect("a configuration");
    let (_keep, stop) = tokio::sync::watch::channel(false);
    let sync = Sync::with_catalogs(config, w.catalog.clone(), w.catalog.clone()).expect("a sync");
    w.runtime.block_on(sync.run(stop, |_| {})).expect("a sync").snapshots
}

/// The target is brought up to date, then one UPDATE of the source is applied to it; only the latter is timed.
fn sync(c: &mut Criterion) {
    let mut group = c.benchmark_group("sync");
    group.sampling_mode(SamplingMode::Flat);
    for mode in ["merge-on-read", "copy-on-write"] {
        let mut w = Warehouse::new();
        w.cities("t", ROWS, mode);
        let target = format!("copy_{}", mode.replace('-', "_"));
        sync_once(&w, &target, mode);
        for percent in [1, 2] {
            updated(&mut w, "t", percent);
            let before = w.head(&target);
            group.throughput(Throughput::Elements(percent * ROWS / 100));
            group.bench_function(BenchmarkId::new(mode, format!("{percent}_percent")), |b| {
                b.iter_custom(|n| {
                    let mut total = Duration::ZERO;
                    for _ in 0..n {
                        let start = Instant::now();
                        assert_eq!(sync_once(&w, &target, mode), 1);
                        total += start.elapsed();
                        w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.{target}', {before})"));
                    }
                    total
                })
            });
            sync_once(&w, &target, mode);
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = quick(); targets = changelog, sync);
criterion_main!(benches);
