//! The deletion-vector and Puffin vectors of the specification digest (DV-35, DV-36), and Spark's files, both ways.
//! They lie in a folder `shared` beside the checkout, or where `FLOE_SHARED` says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use floe_engine::dv::{
    BlobMetadata, CARDINALITY, ContainerKind, DeletionVector, PuffinWriter, REFERENCED_DATA_FILE, describe, read_footer,
};
use floe_engine::io::FileIo;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn shared(file: &str) -> Value {
    let from_env = std::env::var_os("FLOE_SHARED").map(PathBuf::from);
    let beside = || {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        manifest.ancestors().map(|a| a.join("shared")).find(|s| s.join("spec").is_dir())
    };
    let folder = from_env
        .or_else(beside)
        .expect("the shared specification folder is needed: put it beside the checkout, or set FLOE_SHARED");
    let path = folder.join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn vectors(section: &str) -> Value {
    shared("spec/test-vectors.json")[section].take()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().unwrap_or_else(|| panic!("no list {key}"))
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_else(|| panic!("no text {key} in {of}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn set(positions: impl IntoIterator<Item = u64>) -> DeletionVector {
    DeletionVector::try_from_positions(positions).unwrap()
}

/// Positions of vectors that give a rule in place of a list.
fn by_rule(name: &str) -> Option<DeletionVector> {
    Some(match name {
        "run-0-100" | "run-0-100-as-array" => set(0..100),
        "four-containers-with-run" => set((0..10).chain([1 << 16, 2 << 16, 3 << 16])),
        "bitset-even-0-10000" => set((0..10_000).step_by(2)),
        "array-limit-4096" => set((0..4096).map(|i| 2 * i)),
        "bitset-4097" => set((0..4097).map(|i| 2 * i)),
        _ => return None,
    })
}

/// DV-33: these are valid, but not what single adds give; only the set must be the same.
const NOT_CANONICAL: [&str; 4] = ["tie-0-1-2-as-run", "run-0-100-as-array", "key-1-sparse", "key-0-and-2-sparse"];

#[test]
fn valid_blobs_both_ways() {
    let section = vectors("deletion_vectors");
    let valid = list(&section, "valid");
    assert!(valid.len() >= 18, "{} vectors", valid.len());
    for v in valid {
        let name = text(v, "name");
        let expected = match v["positions"].as_array() {
            Some(p) => set(p.iter().map(|p| p.as_u64().unwrap())),
            None => by_rule(name).unwrap_or_else(|| panic!("no rule for {name}")),
        };
        assert_eq!(v["cardinality"].as_u64(), Some(expected.len()), "{name}");
        if let Some(hex) = v["hex"].as_str() {
            let blob = bytes(hex);
            assert_eq!(DeletionVector::decode(&blob).unwrap_or_else(|e| panic!("{name}: {e}")), expected, "{name}");
        }
        let encoded = expected.encode().unwrap();
        assert_eq!(DeletionVector::decode(&encoded).unwrap(), expected, "{name}");
        if NOT_CANONICAL.contains(&name) {
            assert_ne!(sha256(&encoded), text(v, "sha256"), "{name}");
        } else {
            assert_eq!(encoded.len() as u64, v["content_size_in_bytes"].as_u64().unwrap(), "{name}");
            assert_eq!(sha256(&encoded), text(v, "sha256"), "{name}");
        }
    }
}

/// The one valid vector whose bytes are not listed: an array where a run is smaller.
#[test]
fn array_where_a_run_is_smaller() {
    let mut blob = vec![0, 0, 0, 0, 0xD1, 0xD3, 0x39, 0x64];
    blob.extend(1u64.to_le_bytes());
    for word in [0u32, 12346, 1, 99 << 16, 16] {
        blob.extend(word.to_le_bytes());
    }
    blob.extend((0u16..100).flat_map(u16::to_le_bytes));
    let length = (blob.len() - 4) as u32;
    blob[..4].copy_from_slice(&length.to_be_bytes());
    blob.extend(crc32fast::hash(&blob[4..]).to_be_bytes());
    let section = vectors("deletion_vectors");
    let v = list(&section, "valid").iter().find(|v| text(v, "name") == "run-0-100-as-array").unwrap();
    assert_eq!(sha256(&blob), text(v, "sha256"));
    assert_eq!(DeletionVector::decode(&blob).unwrap(), set(0..100));
}

#[test]
fn invalid_blobs_are_refused() {
    let section = vectors("deletion_vectors");
    let clauses = BTreeMap::from([
        ("bad-magic", "DV-21"),
        ("le-length", "DV-20"),
        ("length-includes-crc", "DV-20"),
        ("bad-crc", "DV-23"),
        ("crc-over-bitmap-only", "DV-23"),
        ("crc-little-endian", "DV-23"),
        ("descending-keys", "DV-25"),
        ("duplicate-keys", "DV-25"),
        ("key-top-bit", "DV-26"),
        ("truncated", "DV-20"),
    ]);
    let mut refused = 0;
    for v in list(&section, "invalid") {
        let (name, blob) = (text(v, "name"), bytes(text(v, "hex")));
        if v["java_only"].as_bool() == Some(true) {
            // The format allows it; a writer refuses it for Java's sake (DV-32).
            let dv = DeletionVector::decode(&blob).unwrap();
            let e = PuffinWriter::new().add_dv(&dv, "data.parquet").unwrap_err();
            assert_eq!(e.clause_id(), Some("DV-32"), "{name}: {e}");
        } else if let Some(count) = v["record_count"].as_u64() {
            // The blob is fine, the entry is not; `dv_files.rs` reads it through an entry (DV-7).
            assert_ne!(DeletionVector::decode(&blob).unwrap().len(), count, "{name}");
        } else {
            let e = DeletionVector::decode_in(&blob, "dv.puffin", 4).expect_err(name);
            assert_eq!(e.clause_id(), clauses.get(name).copied(), "{name}: {e}");
            assert!(e.place().is_some_and(|p| p.starts_with("dv.puffin byte ")), "{name}: {e}");
            refused += 1;
        }
    }
    assert_eq!(refused, clauses.len());
}

#[test]
fn upstream_golden_blobs() {
    let all_kinds = || {
        [0u64, 1].into_iter().flat_map(|key| {
            let at = move |container: u64| (key << 32) + (container << 16);
            let small: Vec<u64> = if key == 0 { vec![5, 7] } else { vec![10, 20] };
            let middle = if key == 0 { 1..1000 } else { 10..500 };
            small
                .into_iter()
                .map(move |v| at(0) + v)
                .chain(middle.map(move |v| at(1) + v))
                .chain((1..65535).map(move |v| at(2) + v))
        })
    };
    let section = vectors("deletion_vectors");
    for v in list(&section, "upstream_golden") {
        let path = text(v, "path");
        let dv = match path.rsplit('/').next().unwrap() {
            "empty-position-index.bin" => set([]),
            "small-alternating-values-position-index.bin" => set([1, 3, 5, 7, 9]),
            "small-and-large-values-position-index.bin" => set([100, 101, (1 << 31) + 99, (1 << 31) + 100]),
            "all-container-types-position-index.bin" => set(all_kinds()),
            other => panic!("no recipe for {other}"),
        };
        let blob = dv.encode().unwrap();
        assert_eq!(v["cardinality"].as_u64(), Some(dv.len()), "{path}");
        assert_eq!(v["size"].as_u64(), Some(blob.len() as u64), "{path}");
        assert_eq!(sha256(&blob), text(v, "sha256"), "{path}");
        assert_eq!(DeletionVector::decode(&blob).unwrap(), dv, "{path}");
    }
}

#[test]
fn bare_vectors() {
    let section = vectors("deletion_vectors");
    for v in list(&section, "roaring64_official") {
        let path = text(v, "path");
        let dv = match path.rsplit('/').next().unwrap() {
            "64mapempty.bin" => set([]),
            "64map32bitvals.bin" => set(0..10),
            "64mapspreadvals.bin" => set((0..10).flat_map(|key: u64| (0..10).map(move |v| (key << 32) + v))),
            "64maphighvals.bin" => {
                // Keys with the top bit set: a valid vector for Roaring, not for positions (DV-26).
                let mut vector = set(0..10).encode_vector().unwrap();
                vector[8..12].copy_from_slice(&0xFFFF_FFF0u32.to_le_bytes());
                assert_eq!(v["readable"].as_bool(), Some(false));
                let e = DeletionVector::decode_vector(&vector).unwrap_err();
                assert_eq!(e.clause_id(), Some("DV-26"), "{e}");
                continue;
            }
            other => panic!("no recipe for {other}"),
        };
        // Those files were written without run containers, where ours are smaller; then only the set is compared.
        let vector = dv.encode_vector().unwrap();
        assert_eq!(DeletionVector::decode_vector(&vector).unwrap(), dv, "{path}");
        let plain = unoptimised(&dv);
        assert_eq!(v["size"].as_u64(), Some(plain.len() as u64), "{path}");
        assert_eq!(sha256(&plain), text(v, "sha256"), "{path}");
        assert_eq!(DeletionVector::decode_vector(&plain).unwrap(), dv, "{path}");
    }
}

/// A vector of arrays only, present keys only; for sets with one container a key.
fn unoptimised(dv: &DeletionVector) -> Vec<u8> {
    let mut by_key: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
    dv.iter().for_each(|p| by_key.entry((p >> 32) as u32).or_default().push(p as u16));
    let mut out = (by_key.len() as u64).to_le_bytes().to_vec();
    for (key, values) in by_key {
        for word in [key, 12346, 1, (values.len() as u32 - 1) << 16, 16] {
            out.extend(word.to_le_bytes());
        }
        out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }
    out
}

/// The files of RoaringFormatSpec: ours are byte-equal where they are run-optimised, the others hold the same set.
#[test]
fn roaring_format_files() {
    for v in vectors("roaring_format_files").as_array().expect("a list of files") {
        let path = text(v, "path");
        let expected = text(v, "generated_sha256");
        let mut dv = DeletionVector::new();
        match path.rsplit('/').next().unwrap() {
            name @ ("bitmapwithoutruns.bin" | "bitmapwithruns.bin") => {
                let mut dv = set((0..100_000).step_by(1000).chain((100_000..200_000).map(|k| 3 * k)));
                dv.insert_range(700_000..800_000).unwrap();
                // A 32-bit file is a vector without count and key.
                let vector = dv.encode_vector().unwrap();
                if name == "bitmapwithruns.bin" {
                    assert_eq!(sha256(&vector[12..]), expected, "{path}");
                }
                assert_eq!(DeletionVector::decode_vector(&vector).unwrap(), dv, "{path}");
            }
            "bitmap64.bin" => {
                dv = set((0..1 << 16).step_by(2).chain([1 << 48]));
                dv.insert_range(1 << 32..(1 << 32) + 1_000_000).unwrap();
                let vector = dv.encode_vector().unwrap();
                assert_eq!(DeletionVector::decode_vector(&vector).unwrap(), dv, "{path}");
                // Key 2^16 is the first whose gaps are not filled: like the file, only present keys are written.
                assert_eq!(sha256(&vector), expected, "{path}");
            }
            "portable_bitmap64.bin" => {
                for key in [0u64, 1] {
                    let at = key << 32;
                    dv.insert_range(at..at + 0x9001).unwrap();
                    dv.insert_range(at + 0xA000..at + 0x10001).unwrap();
                    let scattered = [0x20000, 0x20005].into_iter().chain((0x80000..0x90000).step_by(2));
                    dv.union_with(&set(scattered.map(|p| at + p)));
                }
                let vector = dv.encode_vector().unwrap();
                assert_eq!(sha256(&vector), expected, "{path}");
                assert_eq!(DeletionVector::decode_vector(&vector).unwrap(), dv, "{path}");
            }
            other => panic!("no recipe for {other}"),
        }
    }
}

fn blob_of(kind: &str, field: i32) -> BlobMetadata {
    BlobMetadata {
        blob_type: kind.into(),
        fields: vec![field],
        snapshot_id: 2,
        sequence_number: 1,
        ..Default::default()
    }
}

#[test]
fn puffin_files_both_ways() {
    let section = vectors("puffin");
    for v in list(&section, "upstream") {
        let path = text(v, "path");
        let second = "some blob \u{0} binary data \u{1F92F} that is not very very very very very very long, is it?";
        let mut w;
        match path.rsplit('/').next().unwrap() {
            "empty-puffin-uncompressed.bin" => w = PuffinWriter::with_properties([]),
            "sample-metric-data-uncompressed.bin" => {
                w = PuffinWriter::with_properties([("created-by".into(), "Test 1234".into())]);
                w.add_blob(blob_of("some-blob", 1), b"abcdefghi").unwrap();
                assert_eq!(second.len(), 83);
                w.add_blob(blob_of("some-other-blob", 2), second.as_bytes()).unwrap();
            }
            // Compressed blobs belong to statistics, which this build does not read; a footer that names them is read below.
            "sample-metric-data-compressed-zstd.bin" => {
                let zstd =
                    |kind, field| BlobMetadata { compression_codec: Some("zstd".into()), ..blob_of(kind, field) };
                w = PuffinWriter::with_properties([("created-by".into(), "Test 1234".into())]);
                w.add_blob(zstd("some-blob", 1), &[0; 22]).unwrap();
                w.add_blob(zstd("some-other-blob", 2), &[0; 77]).unwrap();
                let file = w.finish().unwrap();
                assert_eq!(v["size"].as_u64(), Some(file.len() as u64), "{path}");
                let blobs = read_footer(path, &file).unwrap().blobs;
                assert_eq!((blobs[0].offset, blobs[0].length, blobs[1].offset), (4, 22, 26));
                assert_eq!(blobs[1].compression_codec.as_deref(), Some("zstd"));
                continue;
            }
            other => panic!("no recipe for {other}"),
        }
        let blobs = w.blobs().to_vec();
        let file = w.finish().unwrap();
        assert_eq!(v["size"].as_u64(), Some(file.len() as u64), "{path}");
        assert_eq!(sha256(&file), text(v, "sha256"), "{path}");
        assert_eq!(read_footer(path, &file).unwrap().blobs, blobs, "{path}");
    }
    for v in list(&section, "size_checks") {
        let mut w = PuffinWriter::with_properties([]);
        w.add_blob(blob_of("blob", 1), b"blob").unwrap();
        assert_eq!(v["plain_size"].as_u64(), Some(w.finish().unwrap().len() as u64));
    }
}

#[test]
fn own_puffin_file_byte_for_byte() {
    let section = vectors("puffin");
    let v = &section["own_dv_file"];
    let expected = bytes(text(v, "hex"));
    let mut w = PuffinWriter::with_properties([("created-by".into(), "example 0.1".into())]);
    let mut places = Vec::new();
    for (entry, dv) in list(v, "manifest_entries").iter().zip([set([1, 2]), set([0, 5, 9])]) {
        let place = w.add_dv(&dv, text(entry, "referenced_data_file")).unwrap();
        assert_eq!(entry["content_offset"].as_i64(), Some(place.offset));
        assert_eq!(entry["content_size_in_bytes"].as_i64(), Some(place.length));
        assert_eq!(entry["record_count"].as_i64(), Some(place.cardinality));
        places.push((place, dv));
    }
    let file = w.finish().unwrap();
    assert_eq!(file, expected);
    let puffin = read_footer("own", &file).unwrap();
    assert_eq!(puffin.file_size - puffin.footer_offset, v["footer_size"].as_u64().unwrap());
    assert_eq!(puffin.properties.get("created-by").map(String::as_str), Some("example 0.1"));
    for (place, dv) in places {
        let blob = puffin.blob_at(place.offset, place.length).unwrap();
        assert_eq!(puffin.decode_dv("own", &file, blob).unwrap(), dv);
    }
}

/// What Iceberg Java 1.12.0 wrote: its blobs are read, and written again byte for byte.
#[test]
fn java_blobs() {
    let expected = [
        ("00000026d1d339640100000000000000000000003a30000001000000000002001000000000000300050091c28e9c", vec![0, 3, 5]),
        ("0000001fd1d339640100000000000000000000003b3000000100000500010002000500071678bf", (2..8).collect()),
        ("00000022d1d339640100000000000000000000003a30000001000000000000001000000005008ad140f0", vec![5]),
        ("00000026d1d339640100000000000000000000003a300000010000000000020010000000010002000700d01458de", vec![1, 2, 7]),
        (
            "00000028d1d339640100000000000000000000003a3000000100000000000300100000000000040005000900c7e5828b",
            vec![0, 4, 5, 9],
        ),
    ];
    for (hex, positions) in expected {
        let blob = bytes(hex);
        let dv = set(positions);
        assert_eq!(DeletionVector::decode(&blob).unwrap(), dv, "{hex}");
        assert_eq!(dv.encode().unwrap(), blob, "{hex}");
    }
    assert_eq!(set([5]).encode().unwrap().len(), 42);
}

/// Spark's DELETEs of golden case `bitmaps_v3`: each summary's `added-files-size` is the size of our blob for the same rows.
#[test]
fn spark_blob_sizes() {
    let golden = shared("golden/bitmaps_v3.s35-i1120.json");
    let deletes: [Box<dyn Fn(u64) -> bool>; 6] = [
        Box::new(|id| (140_000..=190_000).contains(&id)),
        Box::new(|id| id < 65_536 && id % 2 == 0),
        Box::new(|id| (65_536..=131_071).contains(&id)),
        Box::new(|id| [200_000, 200_007, 262_144, 299_999].contains(&id)),
        Box::new(|id| id < 65_536 && id % 5 != 0),
        Box::new(|_| true),
    ];
    let steps = list(&golden, "steps").iter().filter(|s| text(s, "sql").starts_with("DELETE"));
    let mut dv = DeletionVector::new();
    let mut compared = 0;
    for (step, delete) in steps.zip(&deletes) {
        dv.union_with(&set((0..300_000).filter(|id| delete(*id))));
        let summary = &step["snapshots_new"][0]["summary"];
        let blob = dv.encode().unwrap();
        assert_eq!(text(summary, "added-position-deletes"), dv.len().to_string(), "{step}");
        assert_eq!(text(summary, "added-files-size"), blob.len().to_string(), "{step}");
        assert_eq!(DeletionVector::decode(&blob).unwrap(), dv);
        compared += 1;
    }
    assert_eq!(compared, deletes.len());
}

/// DV-44: all three kinds are told apart, with the positions they start at.
#[test]
fn containers_are_described() {
    let mut dv = set((0..10_000).step_by(2));
    dv.insert_range(1 << 16..(1 << 16) + 500).unwrap();
    dv.try_insert((1 << 32) + 3).unwrap();
    let found: Vec<_> =
        describe(&dv.encode().unwrap()).unwrap().iter().map(|c| (c.key, c.kind, c.cardinality)).collect();
    assert_eq!(
        found,
        [(0, ContainerKind::Bitset, 5000), (1, ContainerKind::Run, 500), (1 << 16, ContainerKind::Array, 1)]
    );
}

#[tokio::test]
async fn own_puffin_file_through_io() {
    let io = FileIo::default();
    let section = vectors("puffin");
    let file = bytes(text(&section["own_dv_file"], "hex"));
    io.write_new("memory:/own.puffin", file.clone().into()).await.unwrap();
    let puffin = floe_engine::dv::read_footer_of(&io, "memory:/own.puffin").await.unwrap();
    assert_eq!(puffin, read_footer("memory:/own.puffin", &file).unwrap());
    let listed = list(&section["own_dv_file"]["footer_payload"], "blobs");
    assert_eq!(puffin.blobs.len(), listed.len());
    for (blob, v) in puffin.blobs.iter().zip(listed) {
        assert_eq!(blob.referenced_data_file(), v["properties"][REFERENCED_DATA_FILE].as_str());
        assert_eq!(blob.cardinality().map(|c| c.to_string()).as_deref(), v["properties"][CARDINALITY].as_str());
        assert_eq!((Some(blob.offset), Some(blob.length)), (v["offset"].as_i64(), v["length"].as_i64()));
    }
}
