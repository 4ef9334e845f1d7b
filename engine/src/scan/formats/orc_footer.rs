//! Type attributes of an ORC footer (ORC-*). `orc-rust` decodes the types and drops their attributes, which hold the field
//! ids, so the footer is read here: a few fields of its protocol buffers.

use std::collections::HashMap;
use std::io::Read;

use crate::{Error, Result};

/// Largest footer that is inflated.
const MAX_FOOTER: u64 = 64 << 20;

/// Attributes of each type, by its index in the file.
pub(super) fn type_attributes(file: &[u8]) -> Result<Vec<HashMap<String, String>>> {
    let cut = || Error::malformed("ORC file is too short for its footer");
    let (&script_length, rest) = file.split_last().ok_or_else(cut)?;
    let at = rest.len().checked_sub(usize::from(script_length)).ok_or_else(cut)?;
    let (rest, script) = rest.split_at(at);
    let (mut footer_length, mut compression) = (0u64, 0u64);
    for field in Fields(script) {
        match field? {
            (1, Value::Number(n)) => footer_length = n,
            (2, Value::Number(n)) => compression = n,
            _ => {}
        }
    }
    let length = usize::try_from(footer_length).map_err(|_| cut())?;
    let footer = &rest[rest.len().checked_sub(length).ok_or_else(cut)?..];
    let footer = inflate(footer, compression)?;
    let mut out = Vec::new();
    for field in Fields(&footer) {
        // Footer.types
        if let (4, Value::Bytes(ty)) = field? {
            let mut attributes = HashMap::new();
            for field in Fields(ty) {
                // Type.attributes
                if let (7, Value::Bytes(pair)) = field? {
                    let (key, value) = pair_of(pair)?;
                    attributes.insert(key, value);
                }
            }
            out.push(attributes);
        }
    }
    Ok(out)
}

fn pair_of(bytes: &[u8]) -> Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(b)) => key = String::from_utf8_lossy(b).into_owned(),
            (2, Value::Bytes(b)) => value = String::from_utf8_lossy(b).into_owned(),
            _ => {}
        }
    }
    Ok((key, value))
}

/// A compressed stream: chunks with a header of three bytes, length doubled plus one for a chunk stored as it is.
fn inflate(mut data: &[u8], kind: u64) -> Result<Vec<u8>> {
    if kind == 0 {
        return Ok(data.to_vec());
    }
    let bad = |e: &dyn std::fmt::Display| Error::malformed(format!("ORC footer does not decompress: {e}"));
    let mut out = Vec::new();
    while !data.is_empty() {
        let (header, rest) = data.split_at_checked(3).ok_or_else(|| bad(&"cut chunk header"))?;
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let (chunk, rest) = rest.split_at_checked((header >> 1) as usize).ok_or_else(|| bad(&"cut chunk"))?;
        data = rest;
        if header & 1 == 1 {
            out.extend_from_slice(chunk);
            continue;
        }
        match kind {
            1 => {
                flate2::read::DeflateDecoder::new(chunk).take(MAX_FOOTER).read_to_end(&mut out).map_err(|e| bad(&e))?;
            }
            2 => out.extend(snap::raw::Decoder::new().decompress_vec(chunk).map_err(|e| bad(&e))?),
            5 => {
                let zstd = zstd::stream::read::Decoder::new(chunk).map_err(|e| bad(&e))?;
                zstd.take(MAX_FOOTER).read_to_end(&mut out).map_err(|e| bad(&e))?;
            }
            other => {
                return Err(Error::unsupported(format!(
                    "ORC compression {other}; allowed: 0 (none), 1 (zlib), 2 (snappy), 5 (zstd)"
                )));
            }
        }
        if out.len() as u64 > MAX_FOOTER {
            return Err(bad(&"it is too large"));
        }
    }
    Ok(out)
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a protocol-buffer message; an error ends it.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let (&b, rest) = self.0.split_first()?;
            self.0 = rest;
            v |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Some(v);
            }
        }
        None
    }

    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let n = self.varint()?;
                Value::Bytes(self.take(n)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.field();
        if found.is_none() {
            self.0 = &[];
        }
        Some(found.ok_or_else(|| Error::malformed("ORC footer is no valid protocol buffer")))
    }
}
