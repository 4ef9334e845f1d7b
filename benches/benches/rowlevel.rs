//! DELETE, UPDATE, MERGE and scans on a table of 2 million rows in 4 files, copy-on-write against merge-on-read.

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use floe_benches::{Warehouse, quick};

const ROWS: u64 = 2_000_000;

/// Statements that touch one row, and 1 % of the rows, scattered.
const CHANGES: [(&str, &str); 4] = [
    ("delete_one_row", "DELETE FROM ns.t WHERE id = 1234567"),
    ("delete_1_percent", "DELETE FROM ns.t WHERE id % 100 = 7"),
    ("update_1_percent", "UPDATE ns.t SET n = n + 1 WHERE id % 100 = 7"),
    (
        "merge_1_percent",
        "MERGE INTO ns.t USING (SELECT id * 100 + 7 AS id, id % 2 AS odd FROM range(20001)) s ON ns.t.id = s.id \
         WHEN MATCHED AND s.odd = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 0 \
         WHEN NOT MATCHED THEN INSERT (id, city, n) VALUES (s.id, 'new', 0)",
    ),
];

fn changes(c: &mut Criterion) {
    for mode in ["merge-on-read", "copy-on-write"] {
        let mut w = Warehouse::new();
        w.cities("t", ROWS, mode);
        for (name, sql) in CHANGES {
            let mut group = c.benchmark_group(format!("rowlevel/{name}"));
            group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(ROWS));
            group.bench_function(BenchmarkId::from_parameter(mode), |b| w.time_change(b, "t", sql));
            group.finish();
        }
    }
}

/// The same rows gone by deletion vectors, by rewriting, or not gone.
fn scans(c: &mut Criterion) {
    let mut w = Warehouse::new();
    for (name, mode) in [("none", "merge-on-read"), ("vectors", "merge-on-read"), ("rewritten", "copy-on-write")] {
        w.cities(name, ROWS, mode);
        if name != "none" {
            w.run(&format!("DELETE FROM ns.{name} WHERE n % 100 = 7"));
        }
    }
    for (width, columns) in [("narrow", "sum(id), sum(n)"), ("wide", "sum(id), sum(n), max(city)")] {
        let mut group = c.benchmark_group(format!("scan/{width}"));
        group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(ROWS));
        for name in ["none", "vectors", "rewritten"] {
            let sql = format!("SELECT {columns} FROM ns.{name}");
            group.bench_function(BenchmarkId::new("deletes", name), |b| w.time_query(b, &sql));
        }
        group.finish();
    }
}

criterion_group!(name = benches; config = quick(); targets = changes, scans);
criterion_main!(benches);
