//! Just enough Avro for manifests and manifest lists: the binary decoder, and schemas as a flat table of nodes. Every length and count is checked against the bytes that are left before anything is allocated.

use std::collections::HashMap;

use crate::{Error, Result};

/// Deepest nesting of values that is followed (a recursive schema must not blow the stack).
const MAX_DEPTH: u32 = 32;

/// Cursor over Avro binary data.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a> {
    buf: &'a [u8],
    pos: usize,
}

pub(crate) fn truncated(what: &str) -> Error {
    Error::malformed(format!("Avro data ends inside {what}"))
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(buf: &'a [u8]) -> Self {
        Self { buf, pos: 0 }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn remaining(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// Bytes between two positions that were passed already.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        &self.buf[from..to]
    }

    #[inline]
    pub(crate) fn long(&mut self) -> Result<i64> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let Some(&b) = self.buf.get(self.pos) else {
                return Err(truncated("a number"));
            };
            self.pos += 1;
            if shift == 63 && b > 1 {
                return Err(Error::malformed("Avro number is longer than 64 bits"));
            }
            value |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
            shift += 7;
        }
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Result<i32> {
        let v = self.long()?;
        i32::try_from(v).map_err(|_| Error::malformed(format!("Avro int out of range: {v}")))
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8]> {
        if n > self.remaining() {
            return Err(truncated(what));
        }
        let out = &self.buf[self.pos..self.pos + n];
        self.pos += n;
        Ok(out)
    }

    /// A length-prefixed run of bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.long()?;
        let n = usize::try_from(n).map_err(|_| Error::malformed(format!("negative Avro length: {n}")))?;
        self.take(n, "bytes or a string")
    }

    #[inline]
    pub(crate) fn str(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|e| Error::malformed(format!("Avro string is not UTF-8: {e}")))
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        match self.take(1, "a boolean")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            b => Err(Error::malformed(format!("Avro boolean must be 0 or 1, found {b}"))),
        }
    }

    /// Count of the next block of an array or map, 0 at its end. A negative count is followed by the block's bytes.
    pub(crate) fn block_count(&mut self) -> Result<(usize, Option<usize>)> {
        let n = self.long()?;
        let (n, bytes) = if n < 0 {
            let bytes = self.long()?;
            let bytes = usize::try_from(bytes).ok().filter(|b| *b <= self.remaining());
            let bytes = bytes.ok_or_else(|| Error::malformed("Avro block is longer than the data"))?;
            (n.unsigned_abs(), Some(bytes))
        } else {
            (n as u64, None)
        };
        // every item that we read or skip takes at least a byte
        match usize::try_from(n) {
            Ok(n) if n <= self.remaining() => Ok((n, bytes)),
            _ => Err(Error::malformed(format!("Avro block announces {n} items, {} bytes are left", self.remaining()))),
        }
    }
}

/// A node of a schema; children are indices into [`Schema::nodes`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum,
    Array(usize),
    Map(usize),
    Record(Vec<Field>),
    Union(Vec<usize>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) id: Option<i32>,
    pub(crate) node: usize,
}

/// A parsed writer schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    pub(crate) nodes: Vec<Node>,
    logical: HashMap<usize, String>,
    named: HashMap<String, usize>,
}

impl Schema {
    /// Parses schema JSON; the root is node 0.
    pub(crate) fn parse(json: &serde_json::Value) -> Result<Self> {
        let mut s = Self::default();
        s.add(json, "", 0)?;
        Ok(s)
    }

    /// Logical type of a node.
    pub(crate) fn logical(&self, node: usize) -> Option<&str> {
        self.logical.get(&node).map(String::as_str)
    }

    fn add(&mut self, json: &serde_json::Value, namespace: &str, depth: u32) -> Result<usize> {
        use serde_json::Value;
        if depth > MAX_DEPTH {
            return Err(Error::malformed("Avro schema is nested too deeply"));
        }
        let at = self.nodes.len();
        match json {
            Value::String(name) => {
                let node = match name.as_str() {
                    "null" => Node::Null,
                    "boolean" => Node::Boolean,
                    "int" => Node::Int,
                    "long" => Node::Long,
                    "float" => Node::Float,
                    "double" => Node::Double,
                    "bytes" => Node::Bytes,
                    "string" => Node::String,
                    other => {
                        let full = format!("{namespace}.{other}");
                        return self
                            .named
                            .get(other)
                            .or_else(|| self.named.get(&full))
                            .copied()
                            .ok_or_else(|| Error::malformed(format!("Avro schema names unknown type {other:?}")));
                    }
                };
                self.nodes.push(node);
            }
            Value::Array(branches) => {
                self.nodes.push(Node::Null);
                let branches =
                    branches.iter().map(|b| self.add(b, namespace, depth + 1)).collect::<Result<Vec<_>>>()?;
                self.nodes[at] = Node::Union(branches);
            }
            Value::Object(o) => {
                let kind = o.get("type").ok_or_else(|| Error::malformed("Avro schema object without type"))?;
                let Some(kind) = kind.as_str() else {
                    return self.add(kind, namespace, depth + 1);
                };
                let inner_ns = o.get("namespace").and_then(Value::as_str).unwrap_or(namespace).to_string();
                match kind {
                    "record" | "fixed" | "enum" => {
                        self.nodes.push(Node::Null);
                        let name = o.get("name").and_then(Value::as_str);
                        let name = name.ok_or_else(|| Error::malformed(format!("Avro {kind} without name")))?;
                        self.named.insert(name.to_string(), at);
                        self.named.insert(format!("{inner_ns}.{name}"), at);
                        self.nodes[at] = match kind {
                            "enum" => Node::Enum,
                            "fixed" => {
                                let size = o.get("size").and_then(Value::as_u64).filter(|n| *n <= 1 << 20);
                                Node::Fixed(size.ok_or_else(|| {
                                    Error::malformed(format!("Avro fixed {name:?} needs a size up to 1 MiB"))
                                })? as usize)
                            }
                            _ => {
                                let fields = o.get("fields").and_then(Value::as_array);
                                let fields = fields
                                    .ok_or_else(|| Error::malformed(format!("Avro record {name:?} without fields")))?;
                                let mut out = Vec::with_capacity(fields.len());
                                for f in fields {
                                    let fname = f.get("name").and_then(Value::as_str).unwrap_or_default();
                                    let ty = f.get("type").ok_or_else(|| {
                                        Error::malformed(format!("Avro field {fname:?} without type"))
                                    })?;
                                    let id = f.get("field-id").and_then(Value::as_i64);
                                    out.push(Field {
                                        name: fname.to_string(),
                                        id: id.and_then(|i| i32::try_from(i).ok()),
                                        node: self.add(ty, &inner_ns, depth + 1)?,
                                    });
                                }
                                Node::Record(out)
                            }
                        };
                    }
                    "array" | "map" => {
                        self.nodes.push(Node::Null);
                        let key = if kind == "array" { "items" } else { "values" };
                        let items = o.get(key);
                        let items = items.ok_or_else(|| Error::malformed(format!("Avro {kind} without {key}")))?;
                        let items = self.add(items, &inner_ns, depth + 1)?;
                        self.nodes[at] = if kind == "array" { Node::Array(items) } else { Node::Map(items) };
                    }
                    _ => {
                        self.add(&Value::String(kind.to_string()), namespace, depth + 1)?;
                    }
                }
                if let Some(l) = o.get("logicalType").and_then(Value::as_str) {
                    self.logical.insert(at, l.to_string());
                }
            }
            _ => return Err(Error::malformed(format!("not an Avro schema: {json}"))),
        }
        Ok(at)
    }

    /// Passes over a value.
    pub(crate) fn skip(&self, node: usize, d: &mut Decoder<'_>) -> Result<()> {
        self.skip_at(node, d, 0)
    }

    fn skip_at(&self, node: usize, d: &mut Decoder<'_>, depth: u32) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::malformed("Avro value is nested too deeply"));
        }
        match &self.nodes[node] {
            Node::Null => {}
            Node::Boolean => {
                d.take(1, "a boolean")?;
            }
            Node::Int | Node::Long | Node::Enum => {
                d.long()?;
            }
            Node::Float => {
                d.take(4, "a float")?;
            }
            Node::Double => {
                d.take(8, "a double")?;
            }
            Node::Bytes | Node::String => {
                d.bytes()?;
            }
            Node::Fixed(n) => {
                d.take(*n, "a fixed")?;
            }
            Node::Array(item) | Node::Map(item) => {
                let is_map = matches!(self.nodes[node], Node::Map(_));
                loop {
                    let (n, bytes) = d.block_count()?;
                    if n == 0 {
                        break;
                    }
                    if let Some(bytes) = bytes {
                        d.take(bytes, "a block")?;
                        continue;
                    }
                    for _ in 0..n {
                        if is_map {
                            d.bytes()?;
                        }
                        self.skip_at(*item, d, depth + 1)?;
                    }
                }
            }
            Node::Record(fields) => {
                for f in fields {
                    self.skip_at(f.node, d, depth + 1)?;
                }
            }
            Node::Union(branches) => {
                let b = self.branch(branches, d)?;
                self.skip_at(b, d, depth + 1)?;
            }
        }
        Ok(())
    }

    fn branch(&self, branches: &[usize], d: &mut Decoder<'_>) -> Result<usize> {
        let i = d.long()?;
        usize::try_from(i)
            .ok()
            .and_then(|i| branches.get(i).copied())
            .ok_or_else(|| Error::malformed(format!("Avro union has {} branches, found index {i}", branches.len())))
    }

    /// Steps into unions: the node of the value that follows.
    #[inline]
    pub(crate) fn resolve(&self, mut node: usize, d: &mut Decoder<'_>) -> Result<usize> {
        while let Node::Union(branches) = &self.nodes[node] {
            node = self.branch(branches, d)?;
        }
        Ok(node)
    }

    fn mismatch(&self, node: usize, want: &str) -> Error {
        Error::malformed(format!("expected {want}, the Avro schema has {:?}", kind_name(&self.nodes[node])))
    }

    /// An int or long, or null.
    #[inline]
    pub(crate) fn opt_long(&self, node: usize, d: &mut Decoder<'_>) -> Result<Option<i64>> {
        let node = self.resolve(node, d)?;
        match self.nodes[node] {
            Node::Null => Ok(None),
            Node::Int | Node::Long => d.long().map(Some),
            _ => Err(self.mismatch(node, "an int or long")),
        }
    }

    /// An int, or null.
    pub(crate) fn opt_int(&self, node: usize, d: &mut Decoder<'_>) -> Result<Option<i32>> {
        self.opt_long(node, d)?
            .map(|v| i32::try_from(v).map_err(|_| Error::malformed(format!("int out of range: {v}"))))
            .transpose()
    }

    /// A string, or null.
    #[inline]
    pub(crate) fn opt_str<'a>(&self, node: usize, d: &mut Decoder<'a>) -> Result<Option<&'a str>> {
        let node = self.resolve(node, d)?;
        match self.nodes[node] {
            Node::Null => Ok(None),
            Node::String => d.str().map(Some),
            _ => Err(self.mismatch(node, "a string")),
        }
    }

    /// Bytes or fixed, or null.
    pub(crate) fn opt_bytes<'a>(&self, node: usize, d: &mut Decoder<'a>) -> Result<Option<&'a [u8]>> {
        let node = self.resolve(node, d)?;
        match self.nodes[node] {
            Node::Null => Ok(None),
            Node::Bytes | Node::String => d.bytes().map(Some),
            Node::Fixed(n) => d.take(n, "a fixed").map(Some),
            _ => Err(self.mismatch(node, "bytes")),
        }
    }

    /// A boolean, or null.
    pub(crate) fn opt_bool(&self, node: usize, d: &mut Decoder<'_>) -> Result<Option<bool>> {
        let node = self.resolve(node, d)?;
        match self.nodes[node] {
            Node::Null => Ok(None),
            Node::Boolean => d.bool().map(Some),
            _ => Err(self.mismatch(node, "a boolean")),
        }
    }

    /// Calls `each` with the item node for each element of an array; `false` when the value is null.
    pub(crate) fn opt_array<'a>(
        &self,
        node: usize,
        d: &mut Decoder<'a>,
        mut each: impl FnMut(usize, &mut Decoder<'a>) -> Result<()>,
    ) -> Result<bool> {
        let node = self.resolve(node, d)?;
        match self.nodes[node] {
            Node::Null => Ok(false),
            Node::Array(item) => loop {
                let (n, _) = d.block_count()?;
                if n == 0 {
                    return Ok(true);
                }
                for _ in 0..n {
                    each(item, d)?;
                }
            },
            _ => Err(self.mismatch(node, "an array")),
        }
    }
}

fn kind_name(n: &Node) -> &'static str {
    match n {
        Node::Null => "null",
        Node::Boolean => "boolean",
        Node::Int => "int",
        Node::Long => "long",
        Node::Float => "float",
        Node::Double => "double",
        Node::Bytes => "bytes",
        Node::String => "string",
        Node::Fixed(_) => "fixed",
        Node::Enum => "enum",
        Node::Array(_) => "array",
        Node::Map(_) => "map",
        Node::Record(_) => "record",
        Node::Union(_) => "union",
    }
}
