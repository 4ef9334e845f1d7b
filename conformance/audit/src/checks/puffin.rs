//! Puffin files of deletion vectors, byte by byte, against the entries that name them (PUFFIN, DV-7, DV-20.., MAN-24).

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use serde_json::Value as Json;

use super::{Check, Family, error, note};
use crate::dv;
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model};
use crate::puffin;
use crate::types::show;

pub const FAMILY: Family = Family { title: "Puffin files and deletion-vector blobs", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("PUFFIN-1", "a Puffin file starts with PFA1"),
    error("PUFFIN-2", "the footer has its magics and a payload size that fits"),
    error("PUFFIN-3", "reserved footer flags are 0"),
    error("PUFFIN-4", "the footer payload is JSON"),
    error("PUFFIN-5", "the footer lists its blobs"),
    error("PUFFIN-6", "blob metadata is complete and the blob lies in the file"),
    error("PUFFIN-7", "a compression codec is lz4 or zstd"),
    note("TRAP-20", "compressed footers are legal, but Java cannot read LZ4"),
    note("PUFFIN-10", "blobs of one file do not overlap"),
    note("LOC-3", "a Puffin file is named .puffin"),
    error("MAN-24", "a DV entry's offset and size are those of a deletion-vector-v1 blob in the footer"),
    error("DV-6", "referenced_data_file is that of the blob's properties"),
    error("DV-27", "the blob has properties referenced-data-file and cardinality and is not compressed"),
    error("DV-28", "the blob's snapshot-id and sequence-number are -1"),
    note("TRAP-21", "the blob's fields are [2147483645] in practice"),
    error("DV-20", "the length prefix is the blob length less 8"),
    error("DV-21", "the blob magic is D1 D3 39 64"),
    error("DV-23", "the CRC-32 covers magic and vector"),
    error("DV-24", "the blob is long enough for its framing"),
    error("DV-25", "the vector counts its bitmaps and orders their keys"),
    error("DV-26", "bit 63 of a position is 0"),
    error("DV-30", "the blob's cardinality is the entry's record_count"),
    error("DV-1", "every position is a row of the data file"),
    error("DV-41", "a bitmap starts with a Roaring cookie and a possible container count"),
    error("DV-42", "container headers lie in the vector"),
    error("DV-43", "container offsets are right"),
    error("DV-44", "container bodies lie in the vector"),
    error("DV-45", "containers are sorted, distinct, as many as declared, and end at the CRC"),
];

/// A DV entry with the row count of its data file, when that is known.
pub type Job<'a> = (&'a ManifestRef, usize, &'a Entry, Option<i64>);

/// Distinct live DV entries of all snapshots by Puffin path, each with the rows of its data file.
pub fn jobs(m: &Model) -> BTreeMap<&str, Vec<Job<'_>>> {
    let mut rows = HashMap::new();
    for (_, r) in m.manifests() {
        for e in r.manifest.entries.iter().filter(|e| e.content == 0) {
            rows.insert(&*e.path, e.records);
        }
    }
    let mut seen = std::collections::HashSet::new();
    let mut out: BTreeMap<&str, Vec<Job>> = BTreeMap::new();
    for (_, r) in m.manifests() {
        for (i, e) in r.manifest.entries.iter().enumerate() {
            if e.live() && e.content == 1 && e.is_dv() && seen.insert((e.key(), e.length, e.referenced.clone())) {
                let n = e.referenced.as_deref().and_then(|d| rows.get(d).copied());
                out.entry(&e.path).or_default().push((r, i, e, n));
            }
        }
    }
    out
}

fn run(m: &Model, s: &mut Sink) {
    let work: Vec<_> = jobs(m).into_iter().collect();
    crate::parallel_findings(m.threads, &work, s, |(path, entries), s| file(m, path, entries, s));
}

fn file(m: &Model, path: &str, entries: &[Job], s: &mut Sink) {
    // A missing file is META-F16's finding.
    let Ok(bytes) = m.read(path) else { return };
    if bytes.starts_with(b"AGS1") || entries.iter().all(|(_, _, e, _)| e.encrypted) {
        return;
    }
    if !path.ends_with(".puffin") {
        s.note("LOC-3", path, "file name", path.rsplit('/').next().unwrap_or(path), "a name ending .puffin");
    }
    match puffin::parse(&bytes) {
        Err((clause, found, allowed)) => {
            s.err(clause, path, "footer", found, allowed);
            for job in entries {
                blob(&bytes, job, s);
            }
        }
        Ok(p) => {
            if p.compressed {
                s.note("TRAP-20", path, "footer flags", "compressed", "an uncompressed footer");
            }
            overlaps(path, &p, s);
            let dvs: Dvs =
                p.blobs.iter().filter(|b| b.kind == "deletion-vector-v1").map(|b| ((b.offset, b.length), b)).collect();
            for job in entries {
                if !p.compressed {
                    footer(path, &p, &dvs, job, s);
                }
                blob(&bytes, job, s);
            }
        }
    }
}

fn overlaps(path: &str, p: &puffin::Puffin, s: &mut Sink) {
    let mut spans: Vec<(i64, i64)> = p.blobs.iter().map(|b| (b.offset, b.length)).collect();
    spans.sort_unstable();
    for w in spans.windows(2) {
        if w[0].0 + w[0].1 > w[1].0 {
            s.note("PUFFIN-10", path, format!("blob at {}", w[1].0), w[1].0, format!("at least {}", w[0].0 + w[0].1));
        }
    }
}

/// Deletion-vector blobs by offset and length: one file may hold a hundred thousand.
type Dvs<'a> = HashMap<(i64, i64), &'a puffin::Blob>;

fn footer(path: &str, p: &puffin::Puffin, dvs: &Dvs, (r, i, e, _): &Job, s: &mut Sink) {
    let (Some(offset), Some(length)) = (e.offset, e.length) else {
        return;
    };
    let Some(b) = dvs.get(&(offset, length)) else {
        let have: Vec<String> =
            p.blobs.iter().take(8).map(|b| format!("{} [{}, +{}]", b.kind, b.offset, b.length)).collect();
        s.err(
            "MAN-24",
            &r.path,
            r.manifest.at(*i, "data_file.content_offset, content_size_in_bytes"),
            format!("{offset}, {length}"),
            format!("a blob of {path}: {}", have.join("; ")),
        );
        return;
    };
    let place = format!("blob at {offset}");
    let text = |k: &str| b.properties.get(k).and_then(Json::as_str);
    match (text("referenced-data-file"), e.referenced.as_deref()) {
        (None, _) => s.err("DV-27", path, &place, "no referenced-data-file", "the data file's location"),
        (Some(have), Some(want)) if have != want => s.err(
            "DV-6",
            path,
            &place,
            format!("referenced-data-file {have}"),
            format!("{want} as in the manifest entry"),
        ),
        _ => {}
    }
    if text("cardinality").and_then(|c| c.parse::<i64>().ok()) != Some(e.records) {
        s.err(
            "DV-27",
            path,
            &place,
            format!("cardinality {}", show(b.properties.get("cardinality"))),
            format!("\"{}\"", e.records),
        );
    }
    if let Some(c) = &b.codec {
        s.err("DV-27", path, &place, format!("compression-codec {c}"), "none");
    }
    if b.snapshot_id != -1 || b.sequence_number != -1 {
        s.err(
            "DV-28",
            path,
            &place,
            format!("snapshot-id {}, sequence-number {}", b.snapshot_id, b.sequence_number),
            "-1 and -1",
        );
    }
    if b.fields != serde_json::json!([2_147_483_645]) {
        s.note("TRAP-21", path, &place, format!("fields {}", b.fields), "[2147483645]");
    }
}

fn blob(bytes: &[u8], (_, _, e, rows): &Job, s: &mut Sink) {
    let (Some(offset), Some(length)) = (e.offset, e.length) else {
        return;
    };
    let place = format!("blob at {offset}");
    let slice = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(length).ok())
        .and_then(|(o, l)| bytes.get(o..o.checked_add(l)?));
    let Some(slice) = slice else {
        s.err(
            "MAN-24",
            &e.path,
            place,
            format!("[{offset}, +{length})"),
            format!("inside the file of {} bytes", bytes.len()),
        );
        return;
    };
    match dv::parse(slice) {
        Err(dv::Fault(clause, found, allowed)) => s.err(clause, &e.path, place, found, allowed),
        Ok(p) => {
            if p.cardinality != e.records.max(0) as u64 {
                s.err(
                    "DV-30",
                    &e.path,
                    &place,
                    format!("{} positions", p.cardinality),
                    format!("record_count {}", e.records),
                );
            }
            if let (Some(max), Some(n)) = (p.max(), rows)
                && max >= (*n).max(0) as u64
            {
                s.err(
                    "DV-1",
                    &e.path,
                    &place,
                    format!("position {max}"),
                    format!("below the {n} rows of {}", e.referenced.as_deref().unwrap_or_default()),
                );
            }
        }
    }
}

/// Positions of every live DV, by (path, offset); those that do not parse are left out.
pub fn positions(m: &Model) -> HashMap<(std::sync::Arc<str>, Option<i64>), dv::Positions> {
    let work: Vec<_> = jobs(m).into_iter().collect();
    let out = Mutex::new(HashMap::new());
    crate::parallel(m.threads, &work, |(path, entries)| {
        let Ok(bytes) = m.read(path) else { return };
        for (_, _, e, _) in entries {
            let slice = e
                .offset
                .zip(e.length)
                .and_then(|(o, l)| bytes.get(usize::try_from(o).ok()?..usize::try_from(o.checked_add(l)?).ok()?));
            if let Some(p) = slice.and_then(|b| dv::parse(b).ok()) {
                out.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(e.key(), p);
            }
        }
    });
    out.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
