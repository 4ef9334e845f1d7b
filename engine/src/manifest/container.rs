//! The Avro object container: header, codecs, blocks, sync markers (MAN-1).

use std::collections::HashMap;
use std::io::Read;

use super::avro::{Decoder, Schema, truncated};
use crate::{Error, Result};

/// Largest block that is inflated; a manifest block is tens of kilobytes in practice.
const MAX_BLOCK_BYTES: u64 = 256 << 20;
/// Compression of the blocks of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstd,
}

impl Codec {
    /// By the name in an Avro header.
    pub(crate) fn from_avro(name: &str) -> Result<Self> {
        match name {
            "null" => Ok(Self::Null),
            "deflate" => Ok(Self::Deflate),
            "snappy" => Ok(Self::Snappy),
            "zstandard" => Ok(Self::Zstd),
            other => {
                Err(Error::unsupported(format!("Avro codec {other:?}; allowed: null, deflate, snappy, zstandard")))
            }
        }
    }

    /// By the value of `write.manifest.compression-codec` (PROP-17).
    pub(crate) fn from_property(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "uncompressed" | "none" => Ok(Self::Null),
            "gzip" => Ok(Self::Deflate),
            "snappy" => Ok(Self::Snappy),
            "zstd" => Ok(Self::Zstd),
            _ => {
                Err(Error::invalid(format!("manifest compression {name:?}; allowed: gzip, zstd, snappy, uncompressed"))
                    .at("write.manifest.compression-codec")
                    .clause("PROP-17"))
            }
        }
    }

    fn avro_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
            Self::Zstd => "zstandard",
        }
    }

    fn decompress(self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let bad = |e: std::io::Error| Error::malformed(format!("Avro block does not decompress: {e}"));
        match self {
            Self::Null => out.extend_from_slice(data),
            Self::Deflate => {
                flate2::read::DeflateDecoder::new(data).take(MAX_BLOCK_BYTES + 1).read_to_end(out).map_err(bad)?;
            }
            Self::Zstd => {
                zstd::stream::read::Decoder::new(data)
                    .map_err(bad)?
                    .take(MAX_BLOCK_BYTES + 1)
                    .read_to_end(out)
                    .map_err(bad)?;
            }
            Self::Snappy => {
                let Some((body, crc)) = data.len().checked_sub(4).map(|n| data.split_at(n)) else {
                    return Err(truncated("a snappy block"));
                };
                let snappy = |e: snap::Error| Error::malformed(format!("Avro block is not snappy: {e}"));
                let n = snap::raw::decompress_len(body).map_err(snappy)?;
                if n as u64 <= MAX_BLOCK_BYTES {
                    out.resize(n, 0);
                    snap::raw::Decoder::new().decompress(body, out).map_err(snappy)?;
                    let want = u32::from_be_bytes([crc[0], crc[1], crc[2], crc[3]]);
                    let got = crc32fast::hash(out);
                    if want != got {
                        return Err(Error::malformed(format!(
                            "CRC of a snappy block is {got:#010x}, the file says {want:#010x}"
                        )));
                    }
                } else {
                    return Err(too_large());
                }
            }
        }
        if out.len() as u64 > MAX_BLOCK_BYTES {
            return Err(too_large());
        }
        Ok(())
    }

    fn compress(self, data: &[u8]) -> Result<Vec<u8>> {
        let fail = |e: std::io::Error| Error::internal(format!("compression failed: {e}"));
        match self {
            Self::Null => Ok(data.to_vec()),
            Self::Deflate => {
                let mut out = Vec::with_capacity(data.len() / 3);
                flate2::read::DeflateEncoder::new(data, flate2::Compression::new(6))
                    .read_to_end(&mut out)
                    .map_err(fail)?;
                Ok(out)
            }
            Self::Zstd => zstd::stream::encode_all(data, 3).map_err(fail),
            Self::Snappy => {
                let mut out = snap::raw::Encoder::new()
                    .compress_vec(data)
                    .map_err(|e| Error::internal(format!("compression failed: {e}")))?;
                out.extend_from_slice(&crc32fast::hash(data).to_be_bytes());
                Ok(out)
            }
        }
    }
}

fn too_large() -> Error {
    Error::malformed(format!("Avro block inflates to more than {MAX_BLOCK_BYTES} bytes"))
}

/// An opened object container.
pub(crate) struct Container<'a> {
    /// Header metadata, `avro.*` included.
    pub(crate) meta: HashMap<String, &'a [u8]>,
    /// Writer schema.
    pub(crate) schema: Schema,
    codec: Codec,
    sync: &'a [u8],
    rest: Decoder<'a>,
}

impl<'a> Container<'a> {
    /// Reads the header.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes);
        if d.take(4, "the magic").ok() != Some(b"Obj\x01") {
            return Err(Error::malformed("not an Avro file: the first four bytes must be Obj\\x01").clause("MAN-1"));
        }
        let mut meta = HashMap::new();
        loop {
            let (n, _) = d.block_count()?;
            if n == 0 {
                break;
            }
            for _ in 0..n {
                let key = d.str()?.to_string();
                meta.insert(key, d.bytes()?);
            }
        }
        let sync = d.take(16, "the sync marker")?;
        let codec = match meta.get("avro.codec") {
            Some(c) => Codec::from_avro(&String::from_utf8_lossy(c))?,
            None => Codec::Null,
        };
        let schema = meta
            .get("avro.schema")
            .ok_or_else(|| Error::malformed("Avro header without avro.schema").clause("MAN-1"))?;
        let json = serde_json::from_slice(schema)
            .map_err(|e| Error::malformed(format!("avro.schema is not JSON: {e}")).clause("MAN-1"))?;
        let schema = Schema::parse(&json)?;
        Ok(Self { meta, schema, codec, sync, rest: d })
    }

    /// A header value as text.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.meta.get(key).and_then(|v| std::str::from_utf8(v).ok())
    }

    /// Calls `each` once a record.
    pub(crate) fn for_each(&mut self, mut each: impl FnMut(&Schema, &mut Decoder<'_>) -> Result<()>) -> Result<()> {
        let mut inflated = Vec::new();
        while self.rest.remaining() > 0 {
            let count = self.rest.long()?;
            let data = self.rest.bytes()?;
            if self.rest.take(16, "a sync marker")? != self.sync {
                return Err(Error::malformed(format!("sync marker missing at byte {}", self.rest.pos() - 16)));
            }
            let block = if self.codec == Codec::Null {
                data
            } else {
                self.codec.decompress(data, &mut inflated)?;
                &inflated
            };
            let mut d = Decoder::new(block);
            if !usize::try_from(count).is_ok_and(|c| c <= block.len()) {
                return Err(Error::malformed(format!("Avro block announces {count} records in {} bytes", block.len())));
            }
            for _ in 0..count {
                each(&self.schema, &mut d)?;
            }
            if d.remaining() != 0 {
                return Err(Error::malformed(format!("{} bytes are left over after a block's records", d.remaining())));
            }
        }
        Ok(())
    }
}

/// Writes an object container; the caller appends records to [`Writer::buf`] and calls [`Writer::end_record`].
pub(crate) struct Writer {
    out: Vec<u8>,
    codec: Codec,
    sync: [u8; 16],
    /// Binary data of the current block.
    pub(crate) buf: Vec<u8>,
    count: i64,
}

/// Uncompressed bytes at which a block is closed.
const BLOCK_BYTES: usize = 64 << 10;

impl Writer {
    /// Starts a file with a schema and header metadata.
    pub(crate) fn new(schema: &serde_json::Value, meta: &[(&str, String)], codec: Codec) -> Self {
        let sync = *uuid::Uuid::new_v4().as_bytes();
        let mut out = b"Obj\x01".to_vec();
        put_long(&mut out, meta.len() as i64 + 2);
        put_str(&mut out, "avro.schema");
        put_str(&mut out, &schema.to_string());
        put_str(&mut out, "avro.codec");
        put_str(&mut out, codec.avro_name());
        for (k, v) in meta {
            put_str(&mut out, k);
            put_str(&mut out, v);
        }
        out.push(0);
        out.extend_from_slice(&sync);
        Self { out, codec, sync, buf: Vec::with_capacity(BLOCK_BYTES * 2), count: 0 }
    }

    /// Marks the end of a record.
    pub(crate) fn end_record(&mut self) -> Result<()> {
        self.count += 1;
        if self.buf.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.count > 0 {
            let data = self.codec.compress(&self.buf)?;
            put_long(&mut self.out, self.count);
            put_bytes(&mut self.out, &data);
            self.out.extend_from_slice(&self.sync);
            self.buf.clear();
            self.count = 0;
        }
        Ok(())
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.flush()?;
        Ok(self.out)
    }
}

/// Appends an int or long.
#[inline]
pub(crate) fn put_long(out: &mut Vec<u8>, v: i64) {
    let mut z = ((v << 1) ^ (v >> 63)) as u64;
    while z >= 0x80 {
        out.push(z as u8 | 0x80);
        z >>= 7;
    }
    out.push(z as u8);
}

/// Appends length and bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, v: &[u8]) {
    put_long(out, v.len() as i64);
    out.extend_from_slice(v);
}

/// Appends a string.
pub(crate) fn put_str(out: &mut Vec<u8>, v: &str) {
    put_bytes(out, v.as_bytes());
}

/// Appends a `["null", T]` value: the branch, then what `put` writes.
#[inline]
pub(crate) fn put_opt<T>(out: &mut Vec<u8>, v: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match v {
        None => out.push(0),
        Some(v) => {
            out.push(2);
            put(out, v);
        }
    }
}
