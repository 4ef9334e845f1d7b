//! Laws of the deletion-vector codec, against a B-tree set and against CRoaring.

use crate::figures::tell;
use std::collections::BTreeSet;

use croaring::{Portable, Treemap};
use floe_engine::dv::{DeletionVector, MAX_POSITION, PuffinWriter, read_footer};
use proptest::prelude::*;

/// Positions of every texture: sparse, dense, runs, several keys.
fn positions() -> impl Strategy<Value = BTreeSet<u64>> {
    let base = prop_oneof![4 => Just(0u64), 1 => Just(65_530), 1 => Just((1 << 32) - 3), 1 => Just(5 << 32)];
    let piece = prop_oneof![
        proptest::collection::vec(0u64..200_000, 0..40),
        (0u64..70_000, 1u64..6_000, 1u64..4).prop_map(|(from, n, by)| (0..n).map(|i| from + i * by).collect()),
        (0u64..300_000, 1u64..9_000).prop_map(|(from, n)| (from..from + n).collect()),
    ];
    proptest::collection::vec((base, piece), 0..4)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(b, p)| p.into_iter().map(move |i| b + i)).collect())
}

fn dv(set: &BTreeSet<u64>) -> DeletionVector {
    DeletionVector::try_from_positions(set.iter().copied()).expect("positions")
}

fn set(dv: &DeletionVector) -> BTreeSet<u64> {
    dv.iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The same set for both, whoever wrote it (DV-25, DV-31, DV-40..44).
    #[test]
    fn croaring_agrees(positions in positions()) {
        let ours = dv(&positions);
        let theirs = Treemap::try_deserialize::<Portable>(&ours.encode_vector().unwrap());
        let theirs = theirs.expect("CRoaring reads what floe writes");
        // not by its iterator, which in debug builds does not take the empty bitmaps between keys (DV-31)
        prop_assert_eq!(theirs.cardinality(), positions.len() as u64);
        prop_assert!(positions.iter().all(|p| theirs.contains(*p)));
        for optimised in [false, true] {
            let mut t: Treemap = positions.iter().copied().collect();
            if optimised {
                t.run_optimize();
            }
            let read = DeletionVector::decode_vector(&t.serialize::<Portable>());
            prop_assert_eq!(read.expect("floe reads what CRoaring writes"), ours.clone());
        }
    }

    /// Union, difference, cardinality as sets have them (DV-1..3).
    #[test]
    fn algebra(a in positions(), b in positions()) {
        let (x, y) = (dv(&a), dv(&b));
        let mut union = x.clone();
        union.union_with(&y);
        prop_assert_eq!(set(&union), a.union(&b).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(set(&x.difference(&y)), a.difference(&b).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(x.intersection_len(&y), a.intersection(&b).count() as u64);
        prop_assert_eq!(x.len() + y.len(), union.len() + x.intersection_len(&y));
        prop_assert_eq!(x.max(), a.last().copied());
        let mut again = union.clone();
        again.union_with(&x);
        prop_assert_eq!(&again, &union);
        let ranges: BTreeSet<u64> = x.ranges().flatten().collect();
        prop_assert_eq!(ranges, a);
    }

    /// One set, one blob, whatever the way to it; many blobs in one file stay apart (DV-5, DV-33).
    #[test]
    fn one_file_many_vectors(sets in proptest::collection::vec(positions().prop_filter("DV-16", |s| !s.is_empty()), 1..4)) {
        let mut puffin = PuffinWriter::new();
        for (i, s) in sets.iter().enumerate() {
            puffin.add_dv(&dv(s), &format!("f{i}")).unwrap();
        }
        let bytes = puffin.finish().unwrap();
        let file = read_footer("x.puffin", &bytes).unwrap();
        prop_assert_eq!(file.blobs.len(), sets.len());
        for (i, s) in sets.iter().enumerate() {
            let blob = &file.blobs[i];
            let name = format!("f{i}");
            prop_assert_eq!(blob.referenced_data_file(), Some(name.as_str()));
            prop_assert_eq!(blob.cardinality(), Some(s.len() as u64));
            prop_assert_eq!(set(&file.decode_dv("x.puffin", &bytes, blob).unwrap()), s.clone());
        }
    }
}

/// Every flipped bit and every truncation of a Puffin file: refused, or the same sets (PUFFIN-*, DV-20..24).
#[test]
fn damaged_puffin_files() {
    let sets: Vec<DeletionVector> = [vec![3u64], vec![1, 65_536, 1 << 32]]
        .into_iter()
        .map(|p| DeletionVector::try_from_positions(p).unwrap())
        .collect();
    let mut puffin = PuffinWriter::new();
    for (i, s) in sets.iter().enumerate() {
        puffin.add_dv(s, &format!("f{i}")).unwrap();
    }
    let whole = puffin.finish().unwrap().to_vec();
    let read = |bytes: &[u8]| -> Option<Vec<(Option<String>, DeletionVector)>> {
        let file = read_footer("x.puffin", bytes).ok()?;
        let all = bytes::Bytes::copy_from_slice(bytes);
        let vectors = file.blobs.iter().map(|b| {
            let of = b.referenced_data_file().map(str::to_string);
            file.decode_dv("x.puffin", &all, b).ok().map(|d| (of, d))
        });
        vectors.collect()
    };
    let right = read(&whole).expect("readable");
    assert_eq!(right.iter().map(|r| r.1.clone()).collect::<Vec<_>>(), sets);
    let (mut refused, mut same) = (0, 0);
    for bit in 0..whole.len() * 8 {
        let mut bad = whole.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        match read(&bad) {
            None => refused += 1,
            // names in the footer have no checksum: the bits of a vector have
            Some(got) => {
                assert!(got.iter().map(|g| &g.1).eq(sets.iter()), "bit {bit} gives other sets: {got:?}");
                same += 1;
            }
        }
    }
    for len in 0..whole.len() {
        assert!(read(&whole[..len]).is_none(), "cut to {len} bytes and still read");
    }
    tell(
        "bits of a Puffin file",
        &format!("{refused} flips refused, {same} harmless, {} truncations refused", whole.len()),
    );
    assert!(refused > same);
}

/// Keys that are out of order, twice there, or too large are refused (DV-25, DV-26, DV-37).
#[test]
fn keys_of_a_vector() {
    let one = |key: u32, low: u16| {
        let mut v = key.to_le_bytes().to_vec();
        v.extend([12346u32, 1].iter().flat_map(|x| x.to_le_bytes()));
        v.extend([0u16, 0].iter().flat_map(|x| x.to_le_bytes()));
        v.extend(16u32.to_le_bytes());
        v.extend(low.to_le_bytes());
        v
    };
    let vector = |keys: &[u32]| {
        let mut v = (keys.len() as u64).to_le_bytes().to_vec();
        v.extend(keys.iter().flat_map(|k| one(*k, 7)));
        v
    };
    let largest = i32::MAX as u32;
    for good in [&[0u32][..], &[0, 1], &[3, 9, largest]] {
        let set = DeletionVector::decode_vector(&vector(good)).unwrap_or_else(|e| panic!("{good:?}: {e}"));
        assert_eq!(set.len(), good.len() as u64);
        assert!(set.max().is_some_and(|m| m <= MAX_POSITION));
    }
    for bad in [&[1u32, 0][..], &[0, 0], &[5, 5, 6], &[0, largest + 1], &[u32::MAX]] {
        let e = DeletionVector::decode_vector(&vector(bad)).expect_err(&format!("{bad:?}"));
        assert!(matches!(e.clause_id(), Some("DV-25" | "DV-26")), "{bad:?}: {e}");
    }
    // a count that claims more than is there, or less
    let mut v = vector(&[0, 1]);
    v[0] = 3;
    assert!(DeletionVector::decode_vector(&v).is_err());
    v[0] = 1;
    assert!(DeletionVector::decode_vector(&v).is_err());
}
