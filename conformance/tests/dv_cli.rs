//! `floe dv` on files that the engine wrote, whole and damaged.

use floe_conformance::cli::dv::inspect;
use floe_engine::dv::{DeletionVector, PuffinWriter};
use floe_engine::io::FileIo;

async fn put(io: &FileIo, name: &str, bytes: &[u8]) -> String {
    let location = format!("memory:/{name}");
    io.write_new(&location, bytes.to_vec().into()).await.unwrap();
    location
}

fn file() -> Vec<u8> {
    let mut w = PuffinWriter::new();
    let mut runs = DeletionVector::new();
    runs.insert_range(65_536..66_536).unwrap();
    w.add_dv(&DeletionVector::try_from_positions([5]).unwrap(), "data/a.parquet").unwrap();
    w.add_dv(&runs, "data/b.parquet").unwrap();
    w.finish().unwrap().to_vec()
}

#[tokio::test]
async fn dump_shows_blobs_and_containers() {
    let io = FileIo::default();
    let location = put(&io, "a.puffin", &file()).await;
    let found = inspect(&io, &location, None).await;
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    assert_eq!(found.exit_code(), 0);
    for line in [
        "blob 0: deletion-vector-v1, offset 4, length 42, fields [2147483645], snapshot-id -1, sequence-number -1, codec none",
        "  referenced-data-file = data/b.parquet",
        "  positions 1: 5",
        "  container from 0: array, 1",
        "  container from 65536: run, 1000",
    ] {
        assert!(found.text.lines().any(|l| l == line), "{line}\n{}", found.text);
    }
    // One blob, without the footer.
    let one = inspect(&io, &location, Some((4, 42))).await;
    assert_eq!((one.exit_code(), one.text.as_str()), (0, "  positions 1: 5\n  container from 0: array, 1\n"));
}

#[tokio::test]
async fn check_names_file_offset_and_clause() {
    let io = FileIo::default();
    let whole = file();
    let damage = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let cases = [
        ("magic", damage(0), None, 1, "PUFFIN-1", "byte 0"),
        ("end", damage(whole.len() - 1), None, 1, "PUFFIN-1", "byte"),
        ("blob-magic", damage(8), None, 1, "DV-21", "byte 8 (blob at 4)"),
        ("bitmap", damage(30), None, 1, "DV-23", "byte 42 (blob at 4)"),
        ("short", whole[..10].to_vec(), None, 1, "PUFFIN-1", "byte 0"),
        ("range", whole.clone(), Some((4, 43)), 1, "DV-20", "byte 4 (blob at 4)"),
        ("beyond", whole.clone(), Some((4, 1 << 40)), 1, "DV-24", "byte 4"),
        ("overflow", whole.clone(), Some((u64::MAX, 20)), 1, "DV-24", "byte"),
    ];
    for (name, bytes, blob, code, clause, place) in cases {
        let location = put(&io, name, &bytes).await;
        let found = inspect(&io, &location, blob).await;
        assert_eq!(found.exit_code(), code, "{name}");
        let message = found.faults[0].to_string();
        let all = message.contains(&format!("[{clause}]")) && message.contains(&location) && message.contains(place);
        assert!(all, "{name}: {message}");
    }
    let missing = inspect(&io, "memory:/none.puffin", None).await;
    assert_eq!(missing.exit_code(), 2);
}

/// A fault in one blob does not hide the others.
#[tokio::test]
async fn every_bad_blob_is_reported() {
    let io = FileIo::default();
    let mut bytes = file();
    bytes[30] ^= 1;
    bytes[46 + 12] ^= 1;
    let location = put(&io, "two.puffin", &bytes).await;
    let found = inspect(&io, &location, None).await;
    let clauses: Vec<_> = found.faults.iter().map(|e| e.clause_id()).collect();
    assert_eq!(clauses, [Some("DV-23"), Some("DV-23")]);
}
