//! The `deletion-vector-v1` blob: framing (DV-20..24) and the 64-bit portable Roaring vector in it (DV-25).

use roaring::RoaringBitmap;

use super::layout::{self, ContainerInfo, Fault, Runs, read_u32, read_u64};
use super::maps::Maps;
use super::vector::DeletionVector;
use crate::{Error, Result};

/// First bytes of the checksummed part (DV-21).
pub const MAGIC: [u8; 4] = [0xD1, 0xD3, 0x39, 0x64];

/// Blobs are smaller than 2 GiB, for readers and writers alike (DV-30, DV-32).
pub const MAX_BLOB_LEN: u64 = i32::MAX as u64;

/// Bytes around the vector: length, magic, checksum.
const FRAME: usize = 12;
/// Smallest blob: the frame and a bitmap count of 0.
pub(super) const MIN_BLOB_LEN: u64 = 20;
/// Smallest entry of a vector: a key and an empty bitmap (DV-31).
const MIN_ENTRY: usize = 12;
/// A bitmap without containers: cookie and count (DV-41).
const EMPTY_BITMAP: [u8; 8] = [0x3A, 0x30, 0, 0, 0, 0, 0, 0];
/// Largest key of a vector (DV-26).
const MAX_KEY: u32 = i32::MAX as u32;
/// Up to this many keys, gaps are filled with empty bitmaps as Java does (DV-31). Beyond it (positions from 2^48 on,
/// which no data file has) only the keys that are there are written: the gaps could take gigabytes.
const MAX_DENSE_KEYS: u64 = 1 << 16;

impl DeletionVector {
    /// The blob, as Iceberg Java writes it for positions that were added one by one: the smallest container wins, an
    /// array wins a tie with a run (DV-33), and gaps between keys hold empty bitmaps (DV-31). The same set gives the same bytes.
    /// An error if it would be larger than [`MAX_BLOB_LEN`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let maps = self.canonical();
        let vector_len = vector_len(&maps);
        check_blob_len(vector_len + FRAME as u64)?;
        let mut out = Vec::with_capacity(vector_len as usize + FRAME);
        out.extend_from_slice(&(vector_len as u32 + 4).to_be_bytes());
        out.extend_from_slice(&MAGIC);
        write_vector(&maps, &mut out)?;
        let crc = crc32fast::hash(&out[4..]);
        out.extend_from_slice(&crc.to_be_bytes());
        Ok(out)
    }

    /// The vector alone (DV-25), without length, magic and checksum.
    pub fn encode_vector(&self) -> Result<Vec<u8>> {
        let maps = self.canonical();
        let len = vector_len(&maps);
        check_blob_len(len + FRAME as u64)?;
        let mut out = Vec::with_capacity(len as usize);
        write_vector(&maps, &mut out)?;
        Ok(out)
    }

    /// Reads a whole blob. Length, magic and checksum are checked before anything else, then every container:
    /// what is accepted is exactly one set, and nothing is left over (DV-20..26, DV-40..45).
    pub fn decode(blob: &[u8]) -> Result<Self> {
        decode_blob(blob).map_err(|f| f.into_error(None))
    }

    /// [`DeletionVector::decode`] of a blob found in `file` at byte `offset`; errors say so.
    pub fn decode_in(blob: &[u8], file: &str, offset: u64) -> Result<Self> {
        decode_blob(blob).map_err(|f| f.into_error(Some((file, offset))))
    }

    /// Reads a bare vector (DV-25), which must end with its last bitmap.
    pub fn decode_vector(vector: &[u8]) -> Result<Self> {
        decode_vector(vector, 0).map_err(|f| f.into_error(None))
    }

    /// One canonical bitmap a key. Runs are undone first: whether a container was a run before must not matter.
    fn canonical(&self) -> Vec<(u32, RoaringBitmap)> {
        let canon = |(key, map): (u32, &RoaringBitmap)| {
            let mut map = map.clone();
            map.remove_run_compression();
            map.optimize();
            (key, map)
        };
        self.maps.iter().map(canon).collect()
    }
}

/// What a blob is made of, container by container; checks it as [`DeletionVector::decode`] does.
pub fn describe(blob: &[u8]) -> Result<Vec<ContainerInfo>> {
    let mut infos = Vec::new();
    unframe(blob)
        .and_then(|vector| walk(vector, 8, Runs::Ordered, |info| infos.push(info), |_, _, _| Ok(())))
        .map_err(|f| f.into_error(None))?;
    Ok(infos)
}

pub(super) fn check_blob_len(len: u64) -> Result<()> {
    if len > MAX_BLOB_LEN {
        return Err(Error::unsupported(format!(
            "a deletion vector of {len} bytes; a blob has at most {MAX_BLOB_LEN} bytes"
        ))
        .clause("DV-32"));
    }
    Ok(())
}

/// Keys that are written: all from 0 to the last one, or those present.
fn written_keys(maps: &[(u32, RoaringBitmap)]) -> u64 {
    match maps.last() {
        Some((key, _)) if u64::from(*key) < MAX_DENSE_KEYS => u64::from(*key) + 1,
        _ => maps.len() as u64,
    }
}

fn vector_len(maps: &[(u32, RoaringBitmap)]) -> u64 {
    let gaps = written_keys(maps) - maps.len() as u64;
    let bitmaps: u64 = maps.iter().map(|(_, m)| 4 + m.serialized_size() as u64).sum();
    8 + gaps * MIN_ENTRY as u64 + bitmaps
}

fn write_vector(maps: &[(u32, RoaringBitmap)], out: &mut Vec<u8>) -> Result<()> {
    let count = written_keys(maps);
    let dense = count != maps.len() as u64;
    out.extend_from_slice(&count.to_le_bytes());
    let mut next = 0;
    for (key, map) in maps {
        if dense {
            for gap in next..*key {
                out.extend_from_slice(&gap.to_le_bytes());
                out.extend_from_slice(&EMPTY_BITMAP);
            }
            next = key + 1;
        }
        out.extend_from_slice(&key.to_le_bytes());
        map.serialize_into(&mut *out)?;
    }
    Ok(())
}

/// Checks length, magic and checksum; the vector between them.
fn unframe(blob: &[u8]) -> Result<&[u8], Fault> {
    let len = blob.len();
    if (len as u64) < MIN_BLOB_LEN {
        return Err(Fault::new(0, "DV-24", format!("{len} bytes; a blob has at least {MIN_BLOB_LEN}")));
    }
    if len as u64 > MAX_BLOB_LEN {
        return Err(Fault::new(0, "DV-30", format!("{len} bytes; a blob has at most {MAX_BLOB_LEN}")));
    }
    let declared = u32::from_be_bytes([blob[0], blob[1], blob[2], blob[3]]);
    if u64::from(declared) + 8 != len as u64 {
        let what = if u64::from(declared) + 8 > len as u64 { "truncated" } else { "followed by other bytes" };
        return Err(Fault::new(
            0,
            "DV-20",
            format!(
                "declared length {declared} in a blob of {len} bytes, expected {}: the length is wrong, or the blob is {what}",
                len - 8
            ),
        ));
    }
    if blob[4..8] != MAGIC {
        return Err(Fault::new(4, "DV-21", format!("magic {:02x?}, expected {MAGIC:02x?}", &blob[4..8])));
    }
    let (checked, stored) = blob[4..].split_at(len - 8);
    let stored = u32::from_be_bytes([stored[0], stored[1], stored[2], stored[3]]);
    let computed = crc32fast::hash(checked);
    if stored != computed {
        return Err(Fault::new(len - 4, "DV-23", format!("CRC-32 {stored:#010x} stored, {computed:#010x} computed")));
    }
    Ok(&checked[4..])
}

fn decode_blob(blob: &[u8]) -> Result<DeletionVector, Fault> {
    decode_vector(unframe(blob)?, 8)
}

fn decode_vector(vector: &[u8], base: usize) -> Result<DeletionVector, Fault> {
    let mut maps = Maps::default();
    walk(
        vector,
        base,
        Runs::Counted,
        |_| (),
        |key, bytes, at| {
            // all but the order of runs was checked, and that is what it looks at itself
            let map = RoaringBitmap::deserialize_unchecked_from(bytes).map_err(|e| {
                let fault = layout::check(bytes, at, Runs::Ordered, |_, _, _| ()).err();
                fault.unwrap_or_else(|| Fault::new(at, "DV-45", e.to_string()))
            })?;
            maps.put(key, map);
            Ok(())
        },
    )?;
    Ok(DeletionVector { maps })
}

/// Walks a vector that starts at byte `base` of its blob, checks it, and hands on each container and each bitmap that is not empty
/// (with its byte in the blob).
fn walk(
    vector: &[u8],
    base: usize,
    look: Runs,
    mut container: impl FnMut(ContainerInfo),
    mut bitmap: impl FnMut(u32, &[u8], usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let count = read_u64(vector, 0)
        .ok_or_else(|| Fault::new(base, "DV-25", format!("{} bytes; a vector has at least 8", vector.len())))?;
    let left = vector.len() - 8;
    if count > (left / MIN_ENTRY) as u64 {
        return Err(Fault::new(
            base,
            "DV-25",
            format!("{count} bitmaps of at least {MIN_ENTRY} bytes in the {left} bytes that follow"),
        ));
    }
    let mut at = 8;
    let mut last = None;
    for _ in 0..count {
        let key = read_u32(vector, at)
            .ok_or_else(|| Fault::new(base + at, "DV-25", "truncated: the key of a bitmap is missing"))?;
        if key > MAX_KEY {
            return Err(Fault::new(
                base + at,
                "DV-26",
                format!("key {key:#010x}; bit 63 of a position is 0, so keys are at most {MAX_KEY:#x}"),
            ));
        }
        if let Some(last) = last.replace(key)
            && last >= key
        {
            return Err(Fault::new(
                base + at,
                "DV-25",
                format!("key {key} after key {last}; keys ascend and are not repeated"),
            ));
        }
        at += 4;
        let bytes = &vector[at..];
        let len = layout::check(bytes, base + at, look, |key16, kind, cardinality| {
            container(ContainerInfo { key: (u64::from(key) << 16) | u64::from(key16), kind, cardinality });
        })?;
        if len > layout::EMPTY_LEN {
            bitmap(key, &bytes[..len], base + at)?;
        }
        at += len;
    }
    if at != vector.len() {
        return Err(Fault::new(base + at, "DV-45", format!("{} bytes after the last bitmap", vector.len() - at)));
    }
    Ok(())
}
