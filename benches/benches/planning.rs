//! Planning, the delete index and a small commit on a table of 100,000 data files with a deletion vector each.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use floe_benches::{Warehouse, large, quick};
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::deletes::DeleteIndex;
use floe_engine::dv::DeletionVector;
use floe_engine::expr::{FilePruner, Pred};
use floe_engine::manifest::{ManifestEntry, live_entries};
use floe_engine::rowlevel::write_vectors;
use floe_engine::scan::plan;

const FILES: usize = 100_000;

fn planning(c: &mut Criterion) {
    let mut w = Warehouse::new();
    large::make(&mut w, "t", FILES);
    let table = w.table("t");
    let head = w.head("t");
    let pruner = FilePruner::new(Pred::True, table.metadata());

    let mut group = c.benchmark_group("planning/100k_files_100k_vectors");
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(FILES as u64));
    group.bench_function("plan", |b| {
        b.iter(|| w.runtime.block_on(plan(&table, Some(head), &pruner)).expect("a plan").tasks.len())
    });
    let (data, deletes) = w.runtime.block_on(live_entries(&table, head)).expect("entries");
    let deletes: Vec<Arc<ManifestEntry>> = deletes.into_iter().map(Arc::new).collect();
    group.bench_function("delete_index_build", |b| {
        b.iter(|| DeleteIndex::build(deletes.iter().cloned(), table.metadata()))
    });
    let index = DeleteIndex::build(deletes.iter().cloned(), table.metadata()).expect("an index");
    group.bench_function("delete_index_look_up", |b| {
        b.iter(|| data.iter().filter(|e| index.for_file(e).is_ok_and(|d| d.dv.is_some())).count())
    });
    // one vector is replaced: the manifest that names it is written anew, the others stay
    let victim = &data[0].file;
    let old = index.for_file(&data[0]).expect("its deletes").dv.expect("its vector").file.clone();
    group.bench_function("commit_one_vector", |b| {
        b.iter_custom(|n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let dv = DeletionVector::try_from_positions(0..9).expect("positions");
                let mut change = Change::new(Producer::RowDelta);
                change.added = w.runtime.block_on(write_vectors(&table, &[(victim.clone(), dv)])).expect("a vector");
                change.removed = vec![old.clone()];
                let start = Instant::now();
                w.runtime.block_on(commit(&table, change)).expect("a commit");
                total += start.elapsed();
                w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.t', {head})"));
            }
            total
        })
    });
    group.finish();
    let distinct: HashSet<_> = deletes.iter().map(|d| &d.file.path).collect();
    println!("{} data files, {} vectors in {} Puffin files", data.len(), deletes.len(), distinct.len());
}

criterion_group!(name = benches; config = quick(); targets = planning);
criterion_main!(benches);
