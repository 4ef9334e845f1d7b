//! Deletion-vector codec and keep mask, beside plain `roaring` on the same positions.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use floe_benches::{positions, quick};
use floe_engine::dv::DeletionVector;
use roaring::RoaringTreemap;

const SHAPES: [&str; 4] = ["sparse", "random", "dense", "runs"];

fn codec(c: &mut Criterion) {
    for shape in SHAPES {
        let mut group = c.benchmark_group(format!("dv_codec/{shape}"));
        for n in [1_000u64, 10_000, 100_000, 1_000_000, 10_000_000] {
            let set = positions(shape, n);
            let dv = DeletionVector::try_from_positions(set.iter().copied()).expect("positions below 2^63");
            let mut raw = RoaringTreemap::from_sorted_iter(set.iter().copied()).expect("sorted");
            let blob = dv.encode().expect("below 2 GiB");
            group.throughput(Throughput::Bytes(blob.len() as u64));
            group.bench_with_input(BenchmarkId::new("encode", n), &dv, |b, dv| b.iter(|| dv.encode()));
            group.bench_with_input(BenchmarkId::new("decode", n), &blob, |b, blob| {
                b.iter(|| DeletionVector::decode(black_box(blob)))
            });
            // Encoding picks the containers anew, so plain roaring does too.
            group.bench_with_input(BenchmarkId::new("roaring_optimize_serialize", n), &raw, |b, raw| {
                b.iter(|| {
                    let mut raw = raw.clone();
                    raw.optimize();
                    let mut out = Vec::with_capacity(raw.serialized_size());
                    raw.serialize_into(&mut out).map(|()| out)
                })
            });
            raw.optimize();
            let mut bytes = Vec::new();
            raw.serialize_into(&mut bytes).expect("a vector takes all bytes");
            group.bench_with_input(BenchmarkId::new("roaring_deserialize", n), &bytes, |b, bytes| {
                b.iter(|| RoaringTreemap::deserialize_from(black_box(&bytes[..])))
            });
        }
        group.finish();
    }
}

/// Masks of all batches of a file of at most 20 million rows.
fn mask(c: &mut Criterion) {
    let mut group = c.benchmark_group("dv_mask");
    for shape in SHAPES {
        let set = positions(shape, 1_000_000);
        let dv = DeletionVector::try_from_positions(set.iter().copied()).expect("positions below 2^63");
        let rows = dv.max().map_or(0, |m| m + 1).min(20_000_000);
        for batch in [8_192usize, 65_536] {
            group.throughput(Throughput::Elements(rows));
            group.bench_with_input(BenchmarkId::new(shape, batch), &dv, |b, dv| {
                b.iter(|| {
                    (0..rows)
                        .step_by(batch)
                        .filter_map(|start| dv.keep_mask(start, batch))
                        .map(|m| m.len())
                        .sum::<usize>()
                })
            });
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = quick(); targets = codec, mask);
criterion_main!(benches);
