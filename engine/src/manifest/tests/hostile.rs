//! Bytes that are not what they say: an error, never a panic or a huge allocation.

use iceberg::spec::{FormatVersion, ManifestContentType, ManifestFile};

use super::support::*;
use crate::ErrorKind;
use crate::manifest::avro::{Decoder, Schema};
use crate::manifest::container::{Codec, Writer, put_long, put_str};
use crate::manifest::{ListTarget, Status, read_manifest_list, write_manifest_list};

fn sample() -> (crate::table::Metadata, Vec<u8>, ManifestFile) {
    let m = metadata(FormatVersion::V3, &columns(), &[("write.manifest.compression-codec", "uncompressed")]);
    let entries: Vec<_> = (0..3).map(|i| entry(Status::Added, full_file(&format!("f{i}"), &columns()))).collect();
    let (bytes, file) = write(&m, ManifestContentType::Data, &entries, Some(0));
    (m, bytes, file)
}

#[test]
fn every_truncation_is_an_error_or_fewer_blocks() {
    let (m, bytes, file) = sample();
    let full = read(&m, &bytes, &file).unwrap().len();
    assert_eq!(full, 3);
    for n in 0..bytes.len() {
        match read(&m, &bytes[..n], &file) {
            Err(e) => assert_eq!(e.kind(), ErrorKind::Malformed, "{e}"),
            // cut exactly after the header: a file without blocks
            Ok(entries) => assert!(entries.is_empty(), "{n} of {} bytes gave {}", bytes.len(), entries.len()),
        }
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let (m, bytes, file) = sample();
    let start = bytes.len().saturating_sub(1200);
    for i in start..bytes.len() {
        for flip in [0x01, 0x40, 0x80, 0xff] {
            let mut b = bytes.clone();
            b[i] ^= flip;
            let _ = read(&m, &b, &file);
        }
    }
    let (listed, ..) = write_manifest_list(
        &ListTarget {
            version: FormatVersion::V2,
            snapshot_id: 77,
            parent_snapshot_id: None,
            sequence_number: 1,
            first_row_id: None,
        },
        &[file],
    )
    .unwrap();
    for i in 0..listed.len() {
        let mut b = listed.to_vec();
        b[i] ^= 0x41;
        let _ = read_manifest_list(&b, "list");
        let _ = read_manifest_list(&listed[..i], "list");
    }
}

fn parse(json: &str) -> Schema {
    Schema::parse(&serde_json::from_str(json).unwrap()).unwrap()
}

#[test]
fn counts_and_lengths_are_bounded() {
    let schema = parse(r#"{"type":"array","items":"long"}"#);
    let mut huge = Vec::new();
    put_long(&mut huge, i64::MAX);
    for bytes in [huge.clone(), vec![0xff; 10], [vec![1u8], huge].concat()] {
        let mut d = Decoder::new(&bytes);
        assert!(schema.skip(0, &mut d).is_err());
        let mut d = Decoder::new(&bytes);
        assert!(schema.opt_array(0, &mut d, |_, d| d.long().map(|_| ())).is_err());
    }
    let mut negative = Vec::new();
    put_long(&mut negative, -5);
    assert!(Decoder::new(&negative).bytes().is_err());
    assert!(Decoder::new(&[0xff; 11]).long().is_err(), "more than 64 bits");
}

/// A negative count is followed by the block's size in bytes; both reading and skipping take it.
#[test]
fn negative_block_counts() {
    let schema = parse(r#"{"type":"array","items":"long"}"#);
    let mut b = Vec::new();
    put_long(&mut b, -2);
    put_long(&mut b, 2);
    put_long(&mut b, 5);
    put_long(&mut b, -6);
    put_long(&mut b, 1);
    put_long(&mut b, 7);
    b.push(0);
    let mut got = Vec::new();
    let mut d = Decoder::new(&b);
    assert!(
        schema
            .opt_array(0, &mut d, |_, d| {
                got.push(d.long()?);
                Ok(())
            })
            .unwrap()
    );
    assert_eq!((got, d.remaining()), (vec![5, -6, 7], 0));
    let mut d = Decoder::new(&b);
    schema.skip(0, &mut d).unwrap();
    assert_eq!(d.remaining(), 0);
}

#[test]
fn deep_schemas_and_values_end() {
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(100), "}".repeat(100));
    assert!(Schema::parse(&serde_json::from_str(&deep).unwrap_or_default()).is_err());
    let list = parse(r#"{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}"#);
    let endless = vec![2u8; 1 << 16];
    assert!(list.skip(0, &mut Decoder::new(&endless)).is_err());
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let (m, bytes, file) = sample();
    let clause = |b: &[u8]| read(&m, b, &file).unwrap_err().clause_id();
    assert_eq!(clause(b"PAR1"), Some("MAN-1"));
    assert_eq!(clause(b""), Some("MAN-1"));
    // an Avro file of something else
    let schema = serde_json::json!({"type": "record", "name": "x", "fields": [{"name": "a", "type": "string"}]});
    let mut w = Writer::new(&schema, &[], Codec::Null);
    put_str(&mut w.buf, "hello");
    w.end_record().unwrap();
    let other = w.finish().unwrap();
    assert_eq!(clause(&other), Some("MAN-E1"));
    assert_eq!(read_manifest_list(&other, "list").unwrap_err().clause_id(), Some("ML-1"));
    // a flipped CRC of a snappy block
    let m2 = metadata(FormatVersion::V3, &[], &[("write.manifest.compression-codec", "snappy")]);
    let (mut snappy, file2) = write(&m2, ManifestContentType::Data, &[entry(Status::Added, bare("a", 1))], None);
    let crc = snappy.len() - 17;
    snappy[crc] ^= 1;
    assert!(read(&m2, &snappy, &file2).unwrap_err().message().contains("CRC"));
    // sync markers
    let mut unsynced = bytes;
    let last = unsynced.len() - 1;
    unsynced[last] ^= 1;
    assert!(read(&m, &unsynced, &file).unwrap_err().message().contains("sync marker"));
}
