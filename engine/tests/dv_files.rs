//! Puffin files with deletion vectors, read through manifest entries and through their footers; every refusal by clause.

use std::sync::Arc;

use floe_engine::dv::{
    BlobMetadata, DeletionVector, DvOptions, PuffinWriter, check_entry, check_reference, check_unique, read_dv,
    read_footer, read_footer_of,
};
use floe_engine::io::FileIo;
use floe_engine::manifest::{Content, DataFile, FileFormat};
use floe_engine::{Error, ErrorKind};
use iceberg::spec::Struct;

const STRICT: DvOptions = DvOptions { lenient_positions: false, check_footer: false };
const FOOTER: DvOptions = DvOptions { lenient_positions: false, check_footer: true };

fn set(positions: impl IntoIterator<Item = u64>) -> DeletionVector {
    DeletionVector::try_from_positions(positions).unwrap()
}

fn entry(path: &str, file_size: usize, data_file: &str, at: floe_engine::dv::BlobLocation) -> DataFile {
    DataFile {
        referenced_data_file: Some(data_file.into()),
        content_offset: Some(at.offset),
        content_size: Some(at.length),
        ..DataFile::new(
            Content::PositionDeletes,
            FileFormat::Puffin,
            path,
            0,
            Arc::new(Struct::empty()),
            at.cardinality,
            file_size as i64,
        )
    }
}

/// A file with three vectors, and their entries: {0,9} of a, {1,2} of b, a run of c.
async fn written(io: &FileIo, path: &str) -> Vec<DataFile> {
    let mut run = DeletionVector::new();
    run.insert_range(100..5000).unwrap();
    let dvs = [("data/a.parquet", set([0, 9])), ("data/b.parquet", set([1, 2])), ("data/c.parquet", run)];
    let mut w = PuffinWriter::new();
    assert!(w.is_empty());
    let places: Vec<_> = dvs.iter().map(|(f, dv)| (*f, w.add_dv(dv, f).unwrap())).collect();
    assert!(!w.is_empty());
    let bytes = w.finish().unwrap();
    io.write_new(path, bytes.clone()).await.unwrap();
    places.into_iter().map(|(f, at)| entry(path, bytes.len(), f, at)).collect()
}

/// Refused with this clause, naming the file.
fn refused(result: floe_engine::Result<DeletionVector>, clause: &str, path: &str) {
    let e = result.expect_err(clause);
    assert_eq!(e.clause_id(), Some(clause), "{e}");
    assert_eq!(e.kind(), ErrorKind::Malformed, "{e}");
    assert!(e.place().is_some_and(|p| p.contains(path)), "{e}");
}

#[tokio::test]
async fn many_blobs_read_directly() {
    let io = FileIo::default();
    let entries = written(&io, "memory:/dv.puffin").await;
    let expected: [Vec<u64>; 3] = [vec![0, 9], vec![1, 2], (100..5000).collect()];
    for (e, positions) in entries.iter().zip(expected) {
        for opts in [STRICT, FOOTER] {
            assert_eq!(read_dv(&io, e, Some(5000), &opts).await.unwrap(), set(positions.iter().copied()));
        }
        check_entry(e).unwrap();
        check_reference(e, e.referenced_data_file.as_deref().unwrap()).unwrap();
        assert_eq!(check_reference(e, "data/z.parquet").unwrap_err().clause_id(), Some("DV-6"));
    }
    check_unique(&entries).unwrap();
}

/// A2: the blob is read by its range alone; damage to the footer and to the file's magic is not even seen.
#[tokio::test]
async fn footer_is_not_needed() {
    let io = FileIo::default();
    let entries = written(&io, "memory:/whole.puffin").await;
    let mut bytes = io.read("memory:/whole.puffin").await.unwrap().to_vec();
    let blobs_end = (entries[2].content_offset.unwrap() + entries[2].content_size.unwrap()) as usize;
    bytes[..4].fill(0);
    bytes[blobs_end..].fill(0);
    io.write_new("memory:/torn.puffin", bytes.into()).await.unwrap();
    for mut e in entries {
        e.path = "memory:/torn.puffin".into();
        assert!(read_dv(&io, &e, None, &STRICT).await.is_ok());
        refused(read_dv(&io, &e, None, &FOOTER).await, "PUFFIN-1", "torn.puffin");
    }
}

#[tokio::test]
async fn entries_that_lie_are_refused() {
    let io = FileIo::default();
    let path = "memory:/dv.puffin";
    let good = written(&io, path).await.remove(0);
    let offset = good.content_offset.unwrap();
    type Change = fn(&mut DataFile);
    let cases: [(&str, Change); 14] = [
        ("DEL-6", |e| e.format = FileFormat::Parquet),
        ("DEL-6", |e| e.content = Content::Data),
        ("DV-7", |e| e.content = Content::EqualityDeletes),
        // B6, B9
        ("DV-6", |e| e.referenced_data_file = None),
        ("DV-6", |e| e.referenced_data_file = Some("".into())),
        ("DEL-6", |e| e.content_offset = None),
        ("DEL-6", |e| e.content_size = None),
        ("DV-7", |e| e.content_offset = Some(-4)),
        ("DV-30", |e| e.content_size = Some(i64::MAX)),
        ("DV-30", |e| e.content_size = Some(0)),
        ("DV-7", |e| e.content_offset = Some(i64::MAX)),
        // A7
        ("DV-7", |e| e.record_count = 3),
        ("DV-7", |e| e.record_count = -1),
        ("DV-20", |e| e.content_size = e.content_size.map(|s| s + 1)),
    ];
    for (clause, change) in cases {
        let mut e = good.clone();
        change(&mut e);
        refused(read_dv(&io, &e, None, &STRICT).await, clause, path);
    }
    // The place says where in the file.
    let mut e = good.clone();
    e.content_size = e.content_size.map(|s| s - 1);
    let error = read_dv(&io, &e, None, &STRICT).await.unwrap_err();
    assert_eq!(error.place(), Some(format!("{path} byte {offset} (blob at {offset})").as_str()));
}

#[tokio::test]
async fn truncated_and_damaged_files() {
    let io = FileIo::default();
    let entries = written(&io, "memory:/dv.puffin").await;
    let bytes = io.read("memory:/dv.puffin").await.unwrap();
    let e = &entries[1];
    let (from, to) =
        (e.content_offset.unwrap() as usize, (e.content_offset.unwrap() + e.content_size.unwrap()) as usize);
    for (name, end) in [("cut-in", to - 1), ("cut-at", from), ("cut-before", from - 10)] {
        let path = format!("memory:/{name}.puffin");
        io.write_new(&path, bytes.slice(..end)).await.unwrap();
        let moved = DataFile { path: path.as_str().into(), ..e.clone() };
        refused(read_dv(&io, &moved, None, &STRICT).await, "DV-7", &path);
    }
    // A8: a flipped bit of the bitmap is found by the checksum, before anything is decoded.
    for (at, clause) in [(from, "DV-20"), (from + 4, "DV-21"), (from + 30, "DV-23"), (to - 1, "DV-23")] {
        let path = format!("memory:/flip-{at}.puffin");
        let mut bad = bytes.to_vec();
        bad[at] ^= 0x10;
        io.write_new(&path, bad.into()).await.unwrap();
        let moved = DataFile { path: path.as_str().into(), ..e.clone() };
        refused(read_dv(&io, &moved, None, &STRICT).await, clause, &path);
    }
    let gone = DataFile { path: "memory:/gone.puffin".into(), ..e.clone() };
    assert_eq!(read_dv(&io, &gone, None, &STRICT).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// DV-1: a position is a row of the data file, unless the reader is lenient.
#[tokio::test]
async fn positions_beyond_the_data_file() {
    let io = FileIo::default();
    let e = written(&io, "memory:/dv.puffin").await.remove(0);
    assert!(read_dv(&io, &e, Some(10), &STRICT).await.is_ok());
    for rows in [9, 0] {
        refused(read_dv(&io, &e, Some(rows), &STRICT).await, "DV-1", "dv.puffin");
    }
    let lenient = DvOptions { lenient_positions: true, ..STRICT };
    assert_eq!(read_dv(&io, &e, Some(9), &lenient).await.unwrap(), set([0, 9]));
}

/// B7: two vectors of equal cardinality, offsets swapped in the manifest. Only the footer tells.
#[tokio::test]
async fn swapped_offsets_are_found_in_the_footer() {
    let io = FileIo::default();
    let mut entries = written(&io, "memory:/dv.puffin").await;
    let b = entries.remove(1);
    let mut a = entries.remove(0);
    (a.content_offset, a.content_size) = (b.content_offset, b.content_size);
    assert_eq!(read_dv(&io, &a, None, &STRICT).await.unwrap(), set([1, 2]));
    refused(read_dv(&io, &a, None, &FOOTER).await, "DV-6", "dv.puffin");
    let wrong_size = DataFile { file_size: b.file_size + 1, ..b };
    refused(read_dv(&io, &wrong_size, None, &FOOTER).await, "DV-7", "dv.puffin");
}

/// DV-2, DV-11, TRAP-8: the error names both; locations of one file in two styles are one file.
#[tokio::test]
async fn two_live_vectors_of_one_data_file() {
    let io = FileIo::default();
    let mut entries = written(&io, "memory:/dv.puffin").await;
    // B3: three vectors in one file are no conflict; a Parquet delete file of the same data file is none either.
    let mut parquet = entries[0].clone();
    parquet.format = FileFormat::Parquet;
    entries.push(parquet);
    check_unique(&entries).unwrap();
    let mut second = entries[0].clone();
    second.path = "memory:/other.puffin".into();
    entries[0].referenced_data_file = Some("file:///t/a.parquet".into());
    second.referenced_data_file = Some("/t/a.parquet".into());
    entries.push(second);
    let e = check_unique(&entries).unwrap_err();
    assert_eq!(e.clause_id(), Some("DV-2"));
    assert!(e.message().contains("dv.puffin") && e.message().contains("other.puffin"), "{e}");
}

#[test]
fn writer_refuses_what_may_not_be_written() {
    let mut w = PuffinWriter::new();
    let clause = |r: Result<_, Error>| r.map(|_: floe_engine::dv::BlobLocation| ()).unwrap_err().clause_id();
    assert_eq!(clause(w.add_dv(&DeletionVector::new(), "data/a.parquet")), Some("DV-16"));
    assert_eq!(clause(w.add_dv(&set([1]), "")), Some("DV-6"));
    // A10: nothing was added, so there is no file to write.
    assert!(w.is_empty());
    w.add_dv(&set([1]), "data/a.parquet").unwrap();
    assert_eq!(clause(w.add_dv(&set([2]), "data/a.parquet")), Some("DV-2"));
    let packed = BlobMetadata {
        blob_type: "deletion-vector-v1".into(),
        compression_codec: Some("zstd".into()),
        ..Default::default()
    };
    assert_eq!(w.add_blob(packed, b"x").unwrap_err().clause_id(), Some("DV-27"));
    assert_eq!(w.blobs().len(), 1);
}

/// The footer of a file whose blobs are `blobs` bytes and whose payload is `json`.
fn puffin(blobs: &[u8], json: &str, flags: u32) -> Vec<u8> {
    let mut out = [b"PFA1", blobs, b"PFA1", json.as_bytes()].concat();
    out.extend((json.len() as i32).to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.extend(b"PFA1");
    out
}

/// All of `puffin.invalid` in the vectors, and what else a footer can get wrong (A3, A4).
#[tokio::test]
async fn invalid_footers() {
    let dv = set([5]).encode().unwrap();
    let with = |blob: &str| puffin(&dv, &format!(r#"{{"blobs":[{blob}]}}"#), 0);
    let blob = |change: fn(&mut String)| {
        let mut json = r#"{"type":"deletion-vector-v1","fields":[2147483645],"snapshot-id":-1,"sequence-number":-1,"offset":4,"length":42,"properties":{"referenced-data-file":"a","cardinality":"1"}}"#.to_string();
        let before = json.clone();
        change(&mut json);
        assert!(json != before || json.contains("\"length\":42,\"p"));
        json
    };
    let good = with(&blob(|_| ()));
    assert_eq!(read_footer("f", &good).unwrap().blobs.len(), 1);
    let flip = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let sized = |size: i32| {
        let mut bytes = good.clone();
        let at = bytes.len() - 12;
        bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        bytes
    };
    let n = good.len();
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("file magic", "PUFFIN-1", flip(0)),
        ("footer magic", "PUFFIN-1", flip(4 + 42)),
        ("trailing magic", "PUFFIN-1", flip(n - 1)),
        ("reserved flag", "PUFFIN-3", puffin(&dv, "{\"blobs\":[]}", 2)),
        ("reserved flag byte", "PUFFIN-3", puffin(&dv, "{\"blobs\":[]}", 1 << 24)),
        ("compressed footer", "PUFFIN-9", puffin(&dv, "{\"blobs\":[]}", 1)),
        ("negative payload size", "PUFFIN-2", sized(-1)),
        ("smallest payload size", "PUFFIN-2", sized(i32::MIN)),
        ("payload larger than the file", "PUFFIN-2", sized(n as i32)),
        ("largest payload size", "PUFFIN-2", sized(i32::MAX)),
        ("payload one too small", "PUFFIN-1", sized((n - 4 - 42 - 16 - 1) as i32)),
        ("too short", "PUFFIN-1", good[..19].to_vec()),
        ("empty", "PUFFIN-1", Vec::new()),
        ("no blobs key", "PUFFIN-5", puffin(&dv, "{}", 0)),
        ("no JSON", "PUFFIN-5", puffin(&dv, "blobs", 0)),
        ("not UTF-8", "PUFFIN-5", flip_bit7(&good)),
        ("no type", "PUFFIN-5", with(&blob(|b| *b = b.replace("\"type\"", "\"tipe\"")))),
        ("fraction", "PUFFIN-5", with(&blob(|b| *b = b.replace(":42", ":42.5")))),
        ("offset in the magic", "PUFFIN-6", with(&blob(|b| *b = b.replace(":4,", ":3,")))),
        ("negative offset", "PUFFIN-6", with(&blob(|b| *b = b.replace(":4,", ":-4,")))),
        ("negative length", "PUFFIN-6", with(&blob(|b| *b = b.replace(":42", ":-42")))),
        ("into the footer", "PUFFIN-6", with(&blob(|b| *b = b.replace(":42", ":43")))),
        ("end overflows", "PUFFIN-6", with(&blob(|b| *b = b.replace(":4,", ":9223372036854775807,")))),
        (
            "compressed vector",
            "DV-27",
            with(&blob(|b| *b = b.replace(",\"prop", ",\"compression-codec\":\"zstd\",\"prop"))),
        ),
        ("no referenced file", "DV-27", with(&blob(|b| *b = b.replace("referenced-data-file", "referenced")))),
        ("no cardinality", "DV-27", with(&blob(|b| *b = b.replace("cardinality", "count")))),
        ("cardinality in words", "DV-27", with(&blob(|b| *b = b.replace("\"1\"", "\"one\"")))),
        ("snapshot of a vector", "DV-28", with(&blob(|b| *b = b.replace("\"snapshot-id\":-1", "\"snapshot-id\":7")))),
        ("vector too short", "DV-24", with(&blob(|b| *b = b.replace(":42", ":19")))),
        (
            "unknown codec",
            "PUFFIN-7",
            with(
                r#"{"type":"x","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,"length":1,"compression-codec":"gzip"}"#,
            ),
        ),
    ];
    let io = FileIo::default();
    for (name, clause, bytes) in cases {
        let path = format!("memory:/{}.puffin", name.replace(' ', "-"));
        let e = read_footer(&path, &bytes).expect_err(name);
        assert_eq!(e.clause_id(), Some(clause), "{name}: {e}");
        assert!(e.place().is_some_and(|p| p.starts_with(&path)), "{name}: {e}");
        if !bytes.is_empty() {
            io.write_new(&path, bytes.into()).await.unwrap();
            let through_io = read_footer_of(&io, &path).await.expect_err(name);
            assert_eq!(through_io.to_string(), e.to_string(), "{name}");
        }
    }
}

/// The file with a byte of its footer's JSON outside UTF-8.
fn flip_bit7(file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let at = bytes.len() - 30;
    bytes[at] |= 0x80;
    bytes
}

/// A footer larger than the first read of the tail.
#[tokio::test]
async fn large_footer() {
    let io = FileIo::default();
    let mut w = PuffinWriter::new();
    for i in 0..1500u64 {
        w.add_dv(&set([i, i + 2]), &format!("data/part-{i:05}.parquet")).unwrap();
    }
    let (blobs, bytes) = (w.blobs().to_vec(), w.finish().unwrap());
    io.write_new("memory:/large.puffin", bytes.clone()).await.unwrap();
    let puffin = read_footer_of(&io, "memory:/large.puffin").await.unwrap();
    assert!(puffin.file_size - puffin.footer_offset > 64 * 1024);
    assert_eq!(puffin.blobs, blobs);
    assert_eq!(puffin, read_footer("memory:/large.puffin", &bytes).unwrap());
    let last = puffin.blobs.last().unwrap();
    assert_eq!(puffin.decode_dv("large", &bytes, last).unwrap(), set([1499, 1501]));
}

/// DV-27: the cardinality property is checked against the vector.
#[test]
fn cardinality_property() {
    let blob = set([5]).encode().unwrap();
    let json = r#"{"blobs":[{"type":"deletion-vector-v1","fields":[],"snapshot-id":-1,"sequence-number":-1,"offset":4,"length":42,"properties":{"referenced-data-file":"a","cardinality":"2"}}]}"#;
    let file = bytes::Bytes::from(puffin(&blob, json, 0));
    let footer = read_footer("f", &file).unwrap();
    let e = footer.decode_dv("f", &file, &footer.blobs[0]).unwrap_err();
    assert_eq!(e.clause_id(), Some("DV-27"), "{e}");
}
