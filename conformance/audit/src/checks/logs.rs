//! Logs and statistics registered in the metadata (META-40.., META-T*, META-55) and file names (FS).

use std::collections::HashSet;

use serde_json::Value as Json;

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::Model;
use crate::puffin;
use crate::types::show;

pub const FAMILY: Family = Family { title: "Logs, statistics and file names", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("META-40", "snapshot-log entries have timestamp-ms and snapshot-id"),
    warning("META-41", "the snapshot log names no expired snapshot"),
    error("META-45", "metadata-log entries have timestamp-ms and metadata-file"),
    error("META-T01", "a statistics entry is complete and names its snapshot"),
    error("META-T02", "a registered statistics file exists"),
    error("META-T03", "file-size-in-bytes is the size of the statistics file"),
    error("META-T04", "file-footer-size-in-bytes is the whole footer of the statistics file"),
    error("META-T06", "blob-metadata repeats the footer of the statistics file"),
    error("META-55", "partition statistics are complete and one per snapshot"),
    note("FS-2", "metadata files are named v<N> or <N>-<uuid>.metadata.json"),
    note("FS-4", "version-hint.text is not ahead of the newest metadata file"),
];

fn array<'a>(m: &'a Model, k: &str) -> impl Iterator<Item = (usize, &'a Json)> + use<'a> {
    m.get(k).and_then(Json::as_array).into_iter().flatten().enumerate()
}

fn run(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    for (i, e) in array(m, "snapshot-log") {
        let p = format!("/snapshot-log/{i}");
        match (e.get("timestamp-ms").and_then(Json::as_i64), e.get("snapshot-id").and_then(Json::as_i64)) {
            (Some(_), Some(id)) => {
                if m.snapshot(id).is_none() {
                    s.warn("META-41", f, p, id, "a snapshot still listed");
                }
            }
            _ => s.err("META-40", f, p, e, "timestamp-ms and snapshot-id"),
        }
    }
    for (i, e) in array(m, "metadata-log") {
        if e.get("timestamp-ms").and_then(Json::as_i64).is_none()
            || !e.get("metadata-file").is_some_and(Json::is_string)
        {
            s.err("META-45", f, format!("/metadata-log/{i}"), e, "timestamp-ms and metadata-file");
        }
    }
    for (i, e) in array(m, "statistics") {
        statistics(m, i, e, s);
    }
    let mut seen = HashSet::new();
    for (i, e) in array(m, "partition-statistics") {
        let id = e.get("snapshot-id").and_then(Json::as_i64);
        let whole = e.get("statistics-path").is_some_and(Json::is_string)
            && e.get("file-size-in-bytes").is_some_and(Json::is_i64);
        if !whole || id.is_none() || !seen.insert(id) {
            s.err(
                "META-55",
                f,
                format!("/partition-statistics/{i}"),
                e,
                "snapshot-id (once), statistics-path and file-size-in-bytes",
            );
        }
    }
    names(m, s);
}

fn statistics(m: &Model, i: usize, e: &Json, s: &mut Sink) {
    let f = m.file.as_str();
    let p = |k: &str| format!("/statistics/{i}/{k}");
    let int = |k: &str| e.get(k).and_then(Json::as_i64);
    let path = e.get("statistics-path").and_then(Json::as_str);
    let blobs = e.get("blob-metadata").and_then(Json::as_array);
    let (Some(_), Some(path), Some(size), Some(footer), Some(blobs)) =
        (int("snapshot-id"), path, int("file-size-in-bytes"), int("file-footer-size-in-bytes"), blobs)
    else {
        s.err(
            "META-T01",
            f,
            format!("/statistics/{i}"),
            e,
            "snapshot-id, statistics-path, file-size-in-bytes, file-footer-size-in-bytes, blob-metadata",
        );
        return;
    };
    let Ok(bytes) = m.read(path) else {
        s.err("META-T02", f, p("statistics-path"), path, "an existing file");
        return;
    };
    if bytes.len() as i64 != size {
        s.err("META-T03", f, p("file-size-in-bytes"), size, bytes.len());
    }
    let Ok(pf) = puffin::parse(&bytes) else {
        return;
    };
    if pf.footer_len as i64 != footer {
        s.err("META-T04", f, p("file-footer-size-in-bytes"), footer, pf.footer_len);
    }
    for (k, b) in blobs.iter().enumerate() {
        let same = |x: &puffin::Blob| {
            b.get("type").and_then(Json::as_str) == Some(&x.kind)
                && b.get("snapshot-id").and_then(Json::as_i64) == Some(x.snapshot_id)
                && b.get("sequence-number").and_then(Json::as_i64) == Some(x.sequence_number)
                && b.get("fields") == Some(&x.fields)
        };
        if !pf.blobs.iter().any(same) {
            s.err(
                "META-T06",
                f,
                p(&format!("blob-metadata/{k}")),
                show(Some(b)),
                "type, snapshot-id, sequence-number and fields of a blob in the file",
            );
        }
    }
}

fn names(m: &Model, s: &mut Sink) {
    let name = m.path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let hadoop = stem.strip_prefix('v').and_then(|v| v.parse::<u64>().ok());
    let metastore = stem.split_once('-').is_some_and(|(n, u)| n.parse::<u64>().is_ok() && crate::types::is_uuid(u));
    if hadoop.is_none() && !metastore {
        s.note("FS-2", &m.file, "file name", name, "v<N>.metadata.json or <N>-<uuid>.metadata.json");
    }
    let dir = m.path.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
    let hint = std::fs::read_to_string(dir.join("version-hint.text")).ok().and_then(|h| h.trim().parse::<u64>().ok());
    if let Some(h) = hint {
        let exists =
            [format!("v{h}.metadata.json"), format!("v{h}.gz.metadata.json"), format!("v{h}.metadata.json.gz")]
                .iter()
                .any(|n| dir.join(n).exists());
        if !exists && hadoop.is_some() {
            s.note("FS-4", &m.file, "version-hint.text", h, "a version whose metadata file exists");
        }
    }
}
