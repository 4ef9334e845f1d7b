//! Properties of the set, the codec and the mask, against plain models.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Model = BTreeSet<u64>;

fn dv(model: &Model) -> DeletionVector {
    DeletionVector::try_from_positions(model.iter().copied()).unwrap()
}

fn model(dv: &DeletionVector) -> Model {
    dv.iter().collect()
}

/// Java's bytes for positions added one by one, written from the clauses alone (DV-20..25, DV-31, DV-33, DV-40..44).
fn model_blob(model: &Model) -> Vec<u8> {
    let mut vector = Vec::new();
    let keys = model.last().map_or(0, |p| (p >> 32) + 1);
    vector.extend(keys.to_le_bytes());
    for key in 0..keys {
        vector.extend((key as u32).to_le_bytes());
        let lows: Vec<u32> = model.range(key << 32..(key + 1) << 32).map(|p| *p as u32).collect();
        let containers: Vec<&[u32]> = lows.chunk_by(|a, b| a >> 16 == b >> 16).collect();
        let mut bodies = Vec::new();
        for values in &containers {
            let runs: Vec<&[u32]> = values.chunk_by(|a, b| a + 1 == *b).collect();
            let mut body = Vec::new();
            let run = 2 + 4 * runs.len() < if values.len() <= 4096 { 2 * values.len() } else { 8192 };
            if run {
                body.extend((runs.len() as u16).to_le_bytes());
                for r in runs {
                    body.extend((r[0] as u16).to_le_bytes());
                    body.extend(((r.len() - 1) as u16).to_le_bytes());
                }
            } else if values.len() <= 4096 {
                body.extend(values.iter().flat_map(|v| (*v as u16).to_le_bytes()));
            } else {
                body.resize(8192, 0);
                for v in *values {
                    let low = (v & 0xFFFF) as usize;
                    body[low / 8] |= 1 << (low % 8);
                }
            }
            bodies.push((run, body));
        }
        let start = vector.len();
        let any_run = bodies.iter().any(|b| b.0);
        if any_run {
            vector.extend((12347 | ((bodies.len() as u32 - 1) << 16)).to_le_bytes());
            let mut flags = vec![0u8; bodies.len().div_ceil(8)];
            for (i, b) in bodies.iter().enumerate() {
                flags[i / 8] |= u8::from(b.0) << (i % 8);
            }
            vector.extend(flags);
        } else {
            vector.extend(12346u32.to_le_bytes());
            vector.extend((bodies.len() as u32).to_le_bytes());
        }
        for values in &containers {
            vector.extend(((values[0] >> 16) as u16).to_le_bytes());
            vector.extend((values.len() as u16).wrapping_sub(1).to_le_bytes());
        }
        if !any_run || bodies.len() >= 4 {
            let mut at = (vector.len() - start + 4 * bodies.len()) as u32;
            for b in &bodies {
                vector.extend(at.to_le_bytes());
                at += b.1.len() as u32;
            }
        }
        bodies.iter().for_each(|b| vector.extend(&b.1));
    }
    frame(&vector)
}

/// A blob around a vector, with the right length and checksum (DV-20..23).
fn frame(vector: &[u8]) -> Vec<u8> {
    let mut blob = (vector.len() as u32 + 4).to_be_bytes().to_vec();
    blob.extend(MAGIC);
    blob.extend(vector);
    let crc = crc32fast::hash(&blob[4..]);
    blob.extend(crc.to_be_bytes());
    blob
}

/// Positions in a few containers and keys: runs, evens, scattered ones.
fn positions() -> impl Strategy<Value = Model> {
    let base = prop_oneof![
        4 => Just(0u64),
        3 => (0u64..6).prop_map(|c| c << 16),
        2 => (0u64..4).prop_map(|k| (k << 32) + 65500),
        1 => Just((1u64 << 32) - 40),
    ];
    let part = prop_oneof![
        (base.clone(), 0u64..300, 1u64..400).prop_map(|(b, s, n)| (b + s..b + s + n).collect::<Vec<_>>()),
        (base.clone(), 0u64..6000).prop_map(|(b, n)| (0..n).map(|i| b + 2 * i).collect()),
        (base.clone(), 65_530u64..65_540).prop_map(|(b, n)| (b..b + n).collect()),
        (base, prop::collection::vec(0u64..70000, 0..200)).prop_map(|(b, v)| v.into_iter().map(|p| b + p).collect()),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// DV-25, DV-31, DV-33: the bytes are Java's, and reading gives the set back.
    #[test]
    fn round_trip(set in positions()) {
        let dv = dv(&set);
        prop_assert_eq!(dv.len(), set.len() as u64);
        prop_assert_eq!(dv.max(), set.last().copied());
        let blob = dv.encode().unwrap();
        prop_assert!(blob == model_blob(&set), "bytes differ from the model's");
        let back = DeletionVector::decode(&blob).unwrap();
        prop_assert!(back == dv && model(&back) == set);
        prop_assert!(back.encode().unwrap() == blob, "bytes depend on history");
        let found: u64 = describe(&blob).unwrap().iter().map(|c| u64::from(c.cardinality)).sum();
        prop_assert_eq!(found, dv.len());
    }

    /// The order of insertion, and ranges, make no difference to the set or its bytes.
    #[test]
    fn history_does_not_matter(set in positions(), seed in 0usize..1000) {
        let mut shuffled: Vec<u64> = set.iter().copied().collect();
        if !shuffled.is_empty() {
            let n = shuffled.len();
            shuffled.rotate_left(seed % n);
            shuffled.extend_from_within(..n / 2);
        }
        let a = DeletionVector::from_iter(shuffled).unwrap();
        let mut b = DeletionVector::new();
        for range in a.ranges() {
            b.insert_range(range).unwrap();
        }
        prop_assert!(a == dv(&set) && b == a);
        prop_assert!(b.encode().unwrap() == a.encode().unwrap());
    }

    #[test]
    fn algebra(a in positions(), b in positions()) {
        let (x, y) = (dv(&a), dv(&b));
        let mut union = x.clone();
        union.union_with(&y);
        prop_assert!(model(&union) == &a | &b);
        let difference = x.difference(&y);
        prop_assert!(model(&difference) == &a - &b);
        prop_assert_eq!(difference.is_empty(), a.is_subset(&b));
        prop_assert_eq!(x.intersection_len(&y), (&a & &b).len() as u64);
        let mut one_by_one = x;
        for p in &b {
            prop_assert_eq!(one_by_one.try_insert(*p).unwrap(), !a.contains(p));
        }
        prop_assert!(one_by_one == union && union.encode().unwrap() == model_blob(&(&a | &b)));
    }

    #[test]
    fn mask_agrees_with_contains(set in positions(), start in 0u64..140_000, high in 0u64..3, len in 0usize..70_000) {
        let dv = dv(&set);
        for start in [start, (high << 32).saturating_sub(start % 70_000)] {
            let end = start + len as u64;
            let deleted = set.range(start..end).count();
            prop_assert_eq!(dv.deleted_in(start, len as u64), deleted as u64);
            match dv.keep_mask(start, len) {
                None => prop_assert_eq!(deleted, 0),
                Some(mask) => {
                    prop_assert_eq!(mask.len(), len);
                    prop_assert_eq!(mask.count_set_bits(), len - deleted);
                    prop_assert!(set.range(start..end).all(|p| !mask.value((p - start) as usize)));
                }
            }
        }
    }

    /// DV-40..45: random bytes in a well-framed blob never panic, and what is accepted is one set that encodes again.
    #[test]
    fn hostile_vectors(set in positions(), at in 0usize..4000, value: u32, width in 1usize..5) {
        let small: Model = set.into_iter().take(600).collect();
        let blob = model_blob(&small);
        let mut vector = blob[8..blob.len() - 4].to_vec();
        for i in 0..width {
            let n = vector.len();
            vector[(at + i) % n] = value.to_le_bytes()[i];
        }
        if let Ok(dv) = DeletionVector::decode(&frame(&vector)) {
            let set = model(&dv);
            prop_assert_eq!(dv.len(), set.len() as u64);
            prop_assert!(DeletionVector::decode(&dv.encode().unwrap()).unwrap() == dv);
        }
    }
}

fn small_blobs() -> Vec<DeletionVector> {
    let mut all = vec![DeletionVector::new()];
    for set in [vec![0], vec![1, 3, 5, 7, 9], vec![65535, 65536, 1 << 32, (3 << 32) + 7]] {
        all.push(DeletionVector::try_from_positions(set).unwrap());
    }
    let mut runs = DeletionVector::new();
    runs.insert_range(10..200).unwrap();
    runs.insert_range(65530..131080).unwrap();
    all.push(runs);
    all
}

/// DV-20, DV-21, DV-23, DV-24: every flipped bit, every truncation and every trailing byte is refused.
#[test]
fn damage_is_refused() {
    for dv in small_blobs() {
        let blob = dv.encode().unwrap();
        for bit in 0..blob.len() * 8 {
            let mut bad = blob.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let e = DeletionVector::decode(&bad).expect_err("a flipped bit was accepted");
            assert!(e.clause_id().is_some_and(|c| c.starts_with("DV-2")), "{e}");
        }
        for len in 0..blob.len() {
            let e = DeletionVector::decode(&blob[..len]).expect_err("a truncated blob was accepted");
            assert!(matches!(e.clause_id(), Some("DV-20" | "DV-24")), "{e}");
        }
        let mut long = blob.clone();
        long.push(0);
        assert_eq!(DeletionVector::decode(&long).unwrap_err().clause_id(), Some("DV-20"));
        let mut vector = blob[8..blob.len() - 4].to_vec();
        vector.push(0);
        assert_eq!(DeletionVector::decode(&frame(&vector)).unwrap_err().clause_id(), Some("DV-45"));
    }
}

/// DV-45 with a right checksum: faults inside the vector are found, each with its clause and place.
#[test]
fn malformed_containers() {
    let cookie = |c: u32| c.to_le_bytes().to_vec();
    let head = |key: u32| [1u64.to_le_bytes().to_vec(), key.to_le_bytes().to_vec()].concat();
    let array = |card: u16, values: &[u16]| {
        let mut v = [head(0), cookie(12346), cookie(1)].concat();
        v.extend([0u16, card - 1].iter().flat_map(|x| x.to_le_bytes()));
        v.extend(16u32.to_le_bytes());
        v.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        v
    };
    let runs = |card: u32, runs: &[(u16, u16)]| {
        let mut v = [head(0), cookie(12347), vec![1]].concat();
        v.extend([0, (card - 1) as u16, runs.len() as u16].iter().flat_map(|x| x.to_le_bytes()));
        v.extend(runs.iter().flat_map(|r| [r.0, r.1]).flat_map(u16::to_le_bytes));
        v
    };
    let bitset = |card: u32, bits: u8| {
        let mut v = [head(0), cookie(12346), cookie(1)].concat();
        v.extend([0, (card - 1) as u16].iter().flat_map(|x| x.to_le_bytes()));
        v.extend(16u32.to_le_bytes());
        v.extend([bits; 8192]);
        v
    };
    assert!(DeletionVector::decode_vector(&array(3, &[1, 2, 4])).is_ok());
    assert!(DeletionVector::decode_vector(&runs(4, &[(1, 1), (4, 1)])).is_ok());
    assert!(DeletionVector::decode_vector(&bitset(32768, 0x55)).is_ok());

    let mut wrong_offset = array(1, &[1]);
    wrong_offset[24] = 17;
    let two_keys = |a: u16, b: u16| {
        let mut v = [head(0), cookie(12346), cookie(2)].concat();
        v.extend([a, 0, b, 0].iter().flat_map(|x| x.to_le_bytes()));
        v.extend([24u32, 26].iter().flat_map(|x| x.to_le_bytes()));
        v.extend([5u16, 6].iter().flat_map(|x| x.to_le_bytes()));
        v
    };
    assert!(DeletionVector::decode_vector(&two_keys(0, 1)).is_ok());
    let mut huge_count = 8u64.to_le_bytes().to_vec();
    huge_count[7] = 0x10;
    huge_count.extend([0; 24]);
    let cases: Vec<(&str, &str, Vec<u8>, usize)> = vec![
        ("array not sorted", "DV-44", array(3, &[1, 4, 2]), 32),
        ("array with a repeat", "DV-44", array(3, &[1, 1, 2]), 30),
        ("array cut short", "DV-45", array(3, &[1, 2]), 28),
        ("runs overlap", "DV-44", runs(8, &[(1, 4), (3, 2)]), 27),
        ("runs touch", "DV-44", runs(4, &[(1, 1), (3, 1)]), 27),
        ("run beyond the container", "DV-44", runs(3, &[(65534, 2)]), 23),
        ("runs disagree with the cardinality", "DV-44", runs(5, &[(1, 1)]), 23),
        ("no runs", "DV-44", runs(1, &[]), 23),
        ("bitset cardinality", "DV-45", bitset(32767, 0x55), 28),
        ("container offset", "DV-43", wrong_offset, 24),
        ("container keys descend", "DV-40", two_keys(1, 0), 24),
        ("container keys repeat", "DV-40", two_keys(1, 1), 24),
        ("unknown cookie", "DV-41", [head(0), cookie(12345), cookie(0)].concat(), 12),
        ("too many containers", "DV-41", [head(0), cookie(12346), cookie(65537)].concat(), 16),
        ("containers that are not there", "DV-45", [head(0), cookie(12346), cookie(65536)].concat(), 20),
        ("count beyond the bytes", "DV-25", huge_count, 0),
        ("no count", "DV-25", vec![0; 7], 0),
        ("key with its top bit", "DV-26", [head(1 << 31), cookie(12346), cookie(0)].concat(), 8),
    ];
    for (name, clause, vector, at) in cases {
        let e = DeletionVector::decode_vector(&vector).expect_err(name);
        assert_eq!(e.clause_id(), Some(clause), "{name}: {e}");
        assert_eq!(e.place(), Some(format!("byte {at} of the blob").as_str()), "{name}: {e}");
        // In a file the place counts from the file's start, and the vector from byte 8 of the blob.
        if vector.len() >= 8 {
            let e = DeletionVector::decode_in(&frame(&vector), "dv.puffin", 100).expect_err(name);
            assert_eq!(e.place(), Some(format!("dv.puffin byte {} (blob at 100)", 108 + at).as_str()), "{name}");
        }
    }
}

/// DV-26: a position with bit 63 is refused wherever it comes from; nothing is changed.
#[test]
fn position_limit() {
    let mut dv = DeletionVector::new();
    for e in [
        dv.try_insert(MAX_POSITION + 1).unwrap_err(),
        dv.insert_range(MAX_POSITION..MAX_POSITION + 2).unwrap_err(),
        DeletionVector::try_from_positions([0, u64::MAX]).unwrap_err(),
    ] {
        assert_eq!(e.clause_id(), Some("DV-26"), "{e}");
    }
    assert!(dv.is_empty());
    assert!(dv.try_insert(MAX_POSITION).unwrap());
    assert!(dv.contains(MAX_POSITION) && !dv.contains(0));
    // Key 2^31−1 is legal on the wire; its gaps are not written (DV-31 asks readers to take both).
    let blob = dv.encode().unwrap();
    assert_eq!(blob.len(), 42);
    assert_eq!(DeletionVector::decode(&blob).unwrap(), dv);
    // Java cannot read it, so no file gets it (DV-32).
    assert_eq!(PuffinWriter::new().add_dv(&dv, "f").unwrap_err().clause_id(), Some("DV-32"));
    assert!(dv.keep_mask(MAX_POSITION - 9, 10).is_some_and(|m| m.count_set_bits() == 9));
    assert_eq!(dv.deleted_in(u64::MAX - 5, 100), 0);
}

/// J8: the end of a range is exclusive.
#[test]
fn ranges_are_half_open() {
    let mut dv = DeletionVector::new();
    assert_eq!(dv.insert_range(3..3).unwrap(), 0);
    assert!(dv.is_empty());
    assert_eq!(dv.insert_range(0..5).unwrap(), 5);
    assert_eq!(dv.insert_range(4..7).unwrap(), 2);
    assert_eq!(dv.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let across = (1u64 << 32) - 2..(1u64 << 32) + 3;
    assert_eq!(dv.insert_range(across.clone()).unwrap(), 5);
    assert!(across.clone().all(|p| dv.contains(p)) && !dv.contains(across.end));
    assert_eq!(dv.ranges().collect::<Vec<_>>(), [0..7, across.start..1 << 32, 1 << 32..across.end]);
}

/// Blobs over 2 GiB are neither written nor read (DV-30, DV-32).
#[test]
fn blob_limit() {
    assert!(codec::check_blob_len(MAX_BLOB_LEN).is_ok());
    assert_eq!(codec::check_blob_len(MAX_BLOB_LEN + 1).unwrap_err().clause_id(), Some("DV-32"));
}
