//! Deletion-vector codec and keep mask, beside plain `roaring` on the same positions.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use floe_engine::dv::DeletionVector;
use roaring::RoaringTreemap;

/// Positions by shape: every 1000th, 1 % at random, every second at random, runs of 1000.
fn positions(shape: &str, n: u64) -> Vec<u64> {
    let mut state = 88172645463325252u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut out: Vec<u64> = match shape {
        "sparse" => (0..n).map(|i| i * 1000).collect(),
        "random" => (0..n).map(|_| random(n * 100)).collect(),
        "dense" => (0..n).map(|_| random(n * 2)).collect(),
        _ => (0..n).map(|i| i + i / 1000 * 10).collect(),
    };
    out.sort_unstable();
    out.dedup();
    out
}

fn codec(c: &mut Criterion) {
    for shape in ["sparse", "random", "dense", "runs"] {
        let mut group = c.benchmark_group(format!("dv_codec/{shape}"));
        for n in [1_000u64, 100_000, 1_000_000, 10_000_000] {
            let set = positions(shape, n);
            let dv = DeletionVector::try_from_positions(set.iter().copied()).expect("positions below 2^63");
            let mut raw = RoaringTreemap::from_sorted_iter(set.iter().copied()).expect("sorted");
            let blob = dv.encode().expect("below 2 GiB");
            group.throughput(Throughput::Bytes(blob.len() as u64)).sample_size(10);
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

fn mask(c: &mut Criterion) {
    let mut group = c.benchmark_group("dv_mask");
    for shape in ["sparse", "random", "dense", "runs"] {
        let set = positions(shape, 1_000_000);
        let dv = DeletionVector::try_from_positions(set.iter().copied()).expect("positions below 2^63");
        let rows = dv.max().map_or(0, |m| m + 1).min(20_000_000);
        for batch in [8_192usize, 65_536] {
            group.throughput(Throughput::Elements(rows)).sample_size(10);
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

criterion_group!(benches, codec, mask);
criterion_main!(benches);
