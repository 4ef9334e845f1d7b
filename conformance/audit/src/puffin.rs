//! Puffin containers, read strictly from the whole file (PUFFIN-1..8).

use serde_json::Value as Json;

/// A blob as its footer describes it.
#[derive(Debug, Clone)]
pub struct Blob {
    pub kind: String,
    pub fields: Json,
    pub snapshot_id: i64,
    pub sequence_number: i64,
    pub offset: i64,
    pub length: i64,
    pub codec: Option<String>,
    pub properties: serde_json::Map<String, Json>,
}

/// A parsed file.
#[derive(Debug)]
pub struct Puffin {
    pub blobs: Vec<Blob>,
    /// Whole footer, from its first magic to the last byte.
    pub footer_len: usize,
    /// The payload is an LZ4 frame, which this auditor does not open (TRAP-20).
    pub compressed: bool,
}

/// A fault: clause, found, allowed.
pub type Fault = (&'static str, String, String);

const MAGIC: &[u8] = b"PFA1";

fn fault<T>(clause: &'static str, found: impl ToString, allowed: impl ToString) -> Result<T, Fault> {
    Err((clause, found.to_string(), allowed.to_string()))
}

/// Parses magic, footer and blob metadata.
///
/// # Errors
/// The first fault, with its clause.
pub fn parse(b: &[u8]) -> Result<Puffin, Fault> {
    let n = b.len();
    if n < 20 || &b[..4] != MAGIC {
        return fault(
            "PUFFIN-1",
            format!("{n} bytes starting {}", crate::avro::hex(&b[..n.min(4)])),
            "PFA1 and a footer",
        );
    }
    if &b[n - 4..] != MAGIC {
        return fault("PUFFIN-2", crate::avro::hex(&b[n - 4..]), "PFA1 at the end");
    }
    let flags = &b[n - 8..n - 4];
    let size = i32::from_le_bytes([b[n - 12], b[n - 11], b[n - 10], b[n - 9]]);
    // The payload, its two magics and 8 bytes of size and flags must fit behind the leading magic.
    let Some(start) = usize::try_from(size).ok().and_then(|s| (n - 12).checked_sub(s)).filter(|s| *s >= 8) else {
        return fault("PUFFIN-2", format!("payload size {size} in {n} bytes"), format!("0 to {}", n - 20));
    };
    if &b[start - 4..start] != MAGIC {
        return fault("PUFFIN-2", crate::avro::hex(&b[start - 4..start]), "PFA1 before the payload");
    }
    if flags[0] & !1 != 0 || flags[1..] != [0, 0, 0] {
        return fault("PUFFIN-3", crate::avro::hex(flags), "bit 0 of byte 0 only");
    }
    let footer_len = n - start + 4;
    if flags[0] & 1 == 1 {
        return Ok(Puffin { blobs: Vec::new(), footer_len, compressed: true });
    }
    let payload: Json = match serde_json::from_slice(&b[start..n - 12]) {
        Ok(j) => j,
        Err(e) => return fault("PUFFIN-4", format!("not JSON: {e}"), "one JSON object"),
    };
    let Some(list) = payload.get("blobs").and_then(Json::as_array) else {
        return fault("PUFFIN-5", "no blobs", "a list of blobs");
    };
    let mut blobs = Vec::with_capacity(list.len());
    for j in list {
        let int = |k: &str| j.get(k).and_then(Json::as_i64);
        let (Some(kind), Some(fields)) =
            (j.get("type").and_then(Json::as_str), j.get("fields").filter(|f| f.is_array()))
        else {
            return fault("PUFFIN-6", j, "type and fields");
        };
        let (Some(snapshot_id), Some(sequence_number), Some(offset), Some(length)) =
            (int("snapshot-id"), int("sequence-number"), int("offset"), int("length"))
        else {
            return fault("PUFFIN-6", j, "snapshot-id, sequence-number, offset and length");
        };
        if offset < 4 || length < 0 || offset.checked_add(length).is_none_or(|e| e > (start - 4) as i64) {
            return fault("PUFFIN-6", format!("blob [{offset}, +{length})"), format!("inside [4, {})", start - 4));
        }
        let codec = j.get("compression-codec").and_then(Json::as_str).map(str::to_string);
        if codec.as_deref().is_some_and(|c| c != "lz4" && c != "zstd") {
            return fault("PUFFIN-7", codec.unwrap_or_default(), "lz4 or zstd");
        }
        let properties = j.get("properties").and_then(Json::as_object).cloned().unwrap_or_default();
        blobs.push(Blob {
            kind: kind.to_string(),
            fields: fields.clone(),
            snapshot_id,
            sequence_number,
            offset,
            length,
            codec,
            properties,
        });
    }
    Ok(Puffin { blobs, footer_len, compressed: false })
}
