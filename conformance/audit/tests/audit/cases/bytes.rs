//! Faults inside Puffin, Parquet and their rows.

use floe_audit::Severity::{Error, Note};
use serde_json::{Value as Json, json};

use super::Case;
use crate::fixture::{Col, Table, frame, vector};

const DV: &str = "dv2.puffin";

fn footer(t: &mut Table, f: impl Fn(&mut Json)) {
    f(&mut t.puffin(DV).footer[0]);
}

fn patch(t: &mut Table, file: &str, f: fn(&mut Vec<u8>)) {
    t.patches.push((file.into(), f));
}

fn longs(t: &mut Table, file: &str, column: usize, v: &[i64]) {
    t.parquet(file).cols[column].1 = Col::Long(v.iter().map(|x| Some(*x)).collect());
}

/// A vector of one run container with the given runs.
fn runs(card: u16, runs: &[(u16, u16)]) -> Vec<u8> {
    let mut v = 1u64.to_le_bytes().to_vec();
    v.extend(0u32.to_le_bytes());
    v.extend(12347u32.to_le_bytes());
    v.push(1);
    v.extend(0u16.to_le_bytes());
    v.extend((card - 1).to_le_bytes());
    v.extend((runs.len() as u16).to_le_bytes());
    for (a, l) in runs {
        v.extend(a.to_le_bytes());
        v.extend((l - 1).to_le_bytes());
    }
    v
}

pub const CASES: &[Case] = &[
    ("PUFFIN-1", Error, |t| patch(t, DV, |b| b[0] = b'X')),
    ("PUFFIN-2", Error, |t| patch(t, DV, |b| *b.last_mut().expect("bytes") = b'X')),
    ("PUFFIN-2", Error, |t| {
        patch(t, DV, |b| {
            let n = b.len();
            b[n - 12..n - 8].copy_from_slice(&(-1i32).to_le_bytes());
        })
    }),
    ("PUFFIN-2", Error, |t| {
        patch(t, DV, |b| {
            let n = b.len();
            b[n - 12..n - 8].copy_from_slice(&1_000_000i32.to_le_bytes());
        })
    }),
    ("PUFFIN-3", Error, |t| t.puffin(DV).flags = [2, 0, 0, 0]),
    ("PUFFIN-4", Error, |t| t.puffin(DV).payload = Some("{".into())),
    ("PUFFIN-5", Error, |t| t.puffin(DV).payload = Some("{}".into())),
    ("PUFFIN-6", Error, |t| footer(t, |f| f["length"] = json!(100_000))),
    ("PUFFIN-6", Error, |t| {
        footer(t, |f| {
            f.as_object_mut().expect("object").remove("fields");
        })
    }),
    ("PUFFIN-7", Error, |t| footer(t, |f| f["compression-codec"] = json!("gzip"))),
    ("TRAP-20", Note, |t| t.puffin(DV).flags = [1, 0, 0, 0]),
    ("PUFFIN-10", Note, |t| {
        let f = t.puffin(DV).footer[0].clone();
        let mut g = f;
        g["offset"] = json!(6);
        g["length"] = json!(8);
        t.puffin(DV).footer.push(g);
    }),
    ("LOC-3", Note, |t| {
        let p = t.puffins.remove(DV).expect("puffin");
        t.puffins.insert("dv2.parquet".into(), p);
        for (m, i) in [("m5", 0), ("m8", 0)] {
            let path = format!("{}/data/dv2.parquet", t.root);
            t.file(m, i)["file_path"] = json!(path);
        }
    }),
    ("MAN-24", Error, |t| {
        t.file("m5", 0)["content_offset"] = json!(5);
        t.file("m5", 0)["content_size_in_bytes"] = json!(44);
    }),
    ("MAN-24", Error, |t| {
        t.file("m5", 0)["content_offset"] = json!(4);
        t.file("m5", 0)["content_size_in_bytes"] = json!(30);
    }),
    ("DV-6", Error, |t| footer(t, |f| f["properties"]["referenced-data-file"] = json!("file:/other.parquet"))),
    // Two DVs of one file swapped in the manifest.
    ("DV-6", Error, |t| {
        let b = t.file("m3", 1)["referenced_data_file"].clone();
        t.file("m3", 0)["referenced_data_file"] = b;
    }),
    ("DV-27", Error, |t| footer(t, |f| f["properties"]["cardinality"] = json!("3"))),
    ("DV-27", Error, |t| footer(t, |f| f["properties"] = json!({}))),
    ("DV-27", Error, |t| footer(t, |f| f["compression-codec"] = json!("zstd"))),
    ("DV-28", Error, |t| footer(t, |f| f["snapshot-id"] = json!(104))),
    ("TRAP-21", Note, |t| footer(t, |f| f["fields"] = json!([]))),
    ("DV-20", Error, |t| t.puffin(DV).blobs[0][3] ^= 1),
    ("DV-21", Error, |t| t.puffin(DV).blobs[0][4] = 0),
    ("DV-23", Error, |t| t.puffin(DV).blobs[0][40] ^= 1),
    ("DV-24", Error, |t| t.puffin(DV).blobs[0].truncate(9)),
    // A count of 2^60 bitmaps in a few bytes.
    ("DV-25", Error, |t| t.blob(DV, |v| v[7] = 0x10)),
    ("DV-25", Error, |t| {
        t.blob(DV, |v| {
            v[0] = 2;
            let second = v[8..].to_vec();
            v.extend(second);
        })
    }),
    ("DV-26", Error, |t| t.blob(DV, |v| v[11] = 0x80)),
    ("DV-30", Error, |t| t.puffin(DV).blobs[0] = frame(&vector(&[1, 2, 3]))),
    ("DV-1", Error, |t| t.puffin(DV).blobs[0] = frame(&vector(&[1, 4]))),
    ("DV-41", Error, |t| t.blob(DV, |v| v[12] = 0)),
    ("DV-42", Error, |t| t.blob(DV, |v| v.truncate(22))),
    ("DV-43", Error, |t| t.blob(DV, |v| v[24] = 20)),
    ("DV-44", Error, |t| t.blob(DV, |v| v.truncate(30))),
    ("DV-45", Error, |t| t.puffin(DV).blobs[0] = frame(&vector(&[3, 1]))),
    ("DV-45", Error, |t| t.blob(DV, |v| v.push(0))),
    ("DV-45", Error, |t| t.puffin(DV).blobs[0] = frame(&runs(4, &[(1, 2), (2, 2)]))),
    ("DV-45", Error, |t| t.puffin(DV).blobs[0] = frame(&runs(3, &[(1, 1), (3, 1)]))),
    // A DV that forgets a position its predecessor had, and one that forgets a folded position delete.
    ("DV-3", Error, |t| t.puffin(DV).blobs[0] = frame(&vector(&[2, 3]))),
    ("DV-3", Error, |t| {
        t.entry("m3", 2)["status"] = json!(0);
        longs(t, "p.parquet", 1, &[1]);
    }),
    // Parquet
    ("DEL-3", Error, |t| patch(t, "a.parquet", |b| b.truncate(b.len() - 3))),
    // A reader that goes by the footer finds all the rows: data, equality and position deletes.
    ("DEL-3", Error, |t| patch(t, "a.parquet", |b| b[0] = b'X')),
    ("DEL-3", Error, |t| patch(t, "e.parquet", |b| b[..4].copy_from_slice(b"PARE"))),
    ("DEL-3", Error, |t| patch(t, "p.parquet", |b| b[3] = b'2')),
    ("DEL-3", Error, |t| t.file("m1", 0)["file_format"] = json!("ORC")),
    ("PARQ-1", Error, |t| t.parquet("a.parquet").cols[2].0 = "optional double amount".into()),
    ("PARQ-2", Error, |t| {
        t.parquet("c.parquet").cols[0] =
            ("required int64 id (TIMESTAMP(MICROS,true)) = 4".into(), Col::Long(vec![Some(4)]))
    }),
    ("PARQ-17", Note, |t| t.file("m1", 0)["split_offsets"] = json!([5])),
    ("EQDEL-1", Error, |t| t.parquet("e.parquet").cols[0].0 = "required int64 id = 9".into()),
    ("LINEAGE-18", Error, |t| {
        t.parquet("c.parquet").cols[3] = ("optional int32 _row_id = 2147483540".into(), Col::Int(vec![Some(3)]))
    }),
    ("POSDEL-1", Error, |t| t.parquet("p.parquet").cols[1].0 = "required int64 pos = 5".into()),
    ("POSDEL-2", Error, |t| {
        let b = format!("{}/data/b.parquet", t.root);
        t.parquet("p.parquet").cols[0].1 = Col::Text(vec![Some(b.clone()), Some(b)]);
        longs(t, "p.parquet", 1, &[2, 0]);
    }),
    ("POSDEL-3", Note, |t| t.parquet("p.parquet").cols[0].1 = Col::Text(vec![Some("file:/nowhere.parquet".into())])),
    ("POSDEL-5", Error, |t| {
        let a = format!("{}/data/a.parquet", t.root);
        t.parquet("p.parquet").cols[0].1 = Col::Text(vec![Some(a)]);
    }),
    // Lineage: an id of a live row of another file, an id twice, one above the table's, a number from the future.
    ("LINEAGE-40", Error, |t| longs(t, "c.parquet", 3, &[2])),
    ("LINEAGE-40", Error, |t| longs(t, "b2.parquet", 3, &[3])),
    ("LINEAGE-41", Error, |t| longs(t, "c.parquet", 3, &[99])),
    ("LINEAGE-43", Error, |t| longs(t, "b2.parquet", 4, &[6])),
];
