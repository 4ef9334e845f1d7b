//! A small Avro container reader that keeps what the auditor must judge: file metadata, the schema as raw JSON with its
//! field ids, and every record as plain values. Written here, not borrowed, so that a reader's leniency cannot hide a fault.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value as Json;

/// A decoded Avro value. Integers of both widths are `Int`; decimals, uuids and fixed are `Bytes`.
#[derive(Clone, Debug, PartialEq)]
pub enum V {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Str(String),
    Arr(Vec<V>),
    Map(Vec<(String, V)>),
    Rec(Vec<V>),
}

impl V {
    pub fn int(&self) -> Option<i64> {
        if let V::Int(i) = self { Some(*i) } else { None }
    }
    pub fn str(&self) -> Option<&str> {
        if let V::Str(s) = self { Some(s) } else { None }
    }
    pub fn bytes(&self) -> Option<&[u8]> {
        if let V::Bytes(b) = self { Some(b) } else { None }
    }
    pub fn boolean(&self) -> Option<bool> {
        if let V::Bool(b) = self { Some(*b) } else { None }
    }
    pub fn is_null(&self) -> bool {
        matches!(self, V::Null)
    }
    /// Canonical text, used as a key for partition tuples and in findings.
    pub fn show(&self) -> String {
        match self {
            V::Null => "null".into(),
            V::Bool(b) => b.to_string(),
            V::Int(i) => i.to_string(),
            V::Float(f) => format!("{f:?}"),
            V::Bytes(b) => hex(b),
            V::Str(s) => format!("{s:?}"),
            V::Arr(a) | V::Rec(a) => {
                format!("[{}]", a.iter().map(V::show).collect::<Vec<_>>().join(", "))
            }
            V::Map(m) => format!("{{{} entries}}", m.len()),
        }
    }
}

/// Lower-case hex of `b`.
pub fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

/// A compiled schema node.
#[derive(Debug)]
pub enum Node {
    Null,
    Bool,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Str,
    Fixed(usize),
    Enum(Vec<String>),
    Arr(Arc<Node>),
    Map(Arc<Node>),
    Union(Vec<Arc<Node>>),
    Rec(Vec<Field>),
}

/// A record field with its Iceberg field id, when the schema gives one.
#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub id: Option<i64>,
    pub node: Arc<Node>,
}

impl Node {
    /// The node with an optional wrapper (union with null) removed, and whether it was optional.
    pub fn unwrap_optional(&self) -> (&Node, bool) {
        if let Node::Union(u) = self
            && let Some(n) = u.iter().find(|n| !matches!(***n, Node::Null))
        {
            return (n, u.iter().any(|n| matches!(**n, Node::Null)));
        }
        (self, false)
    }
    /// Short name of the node's Avro type.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool => "boolean",
            Node::Int => "int",
            Node::Long => "long",
            Node::Float => "float",
            Node::Double => "double",
            Node::Bytes => "bytes",
            Node::Str => "string",
            Node::Fixed(_) => "fixed",
            Node::Enum(_) => "enum",
            Node::Arr(_) => "array",
            Node::Map(_) => "map",
            Node::Union(_) => "union",
            Node::Rec(_) => "record",
        }
    }
}

/// Keys of file metadata that the table format defines, all of them text.
const ICEBERG_KEYS: [&str; 6] =
    ["schema", "schema-id", "partition-spec", "partition-spec-id", "format-version", "content"];

/// A whole Avro container file, decoded.
pub struct AvroFile {
    /// File metadata as text; lossy UTF-8 under keys that neither Avro nor the table format defines.
    pub meta: HashMap<String, String>,
    pub root: Arc<Node>,
    /// One value per record, in file order.
    pub records: Vec<V>,
}

struct Cur<'a> {
    b: &'a [u8],
    p: usize,
}

type R<T> = Result<T, String>;

impl<'a> Cur<'a> {
    fn take(&mut self, n: usize) -> R<&'a [u8]> {
        let end = self.p.checked_add(n).filter(|e| *e <= self.b.len());
        let end = end.ok_or_else(|| format!("{n} bytes wanted at offset {}, file or block ends", self.p))?;
        let s = &self.b[self.p..end];
        self.p = end;
        Ok(s)
    }
    fn long(&mut self) -> R<i64> {
        let mut v = 0u64;
        for shift in (0..70).step_by(7) {
            let x = self.take(1)?[0];
            v |= u64::from(x & 0x7f).checked_shl(shift).unwrap_or(0);
            if x & 0x80 == 0 {
                return Ok((v >> 1) as i64 ^ -((v & 1) as i64));
            }
        }
        Err(format!("varint longer than 10 bytes at offset {}", self.p))
    }
    fn len(&mut self) -> R<usize> {
        usize::try_from(self.long()?).map_err(|_| "negative length".to_string())
    }
    fn blob(&mut self) -> R<&'a [u8]> {
        let n = self.len()?;
        self.take(n)
    }
}

fn field_id(f: &Json, key: &str) -> Option<i64> {
    f.get(key).and_then(Json::as_i64)
}

fn compile(j: &Json, names: &mut HashMap<String, Arc<Node>>) -> R<Arc<Node>> {
    let node = match j {
        Json::Array(u) => Node::Union(u.iter().map(|x| compile(x, names)).collect::<R<_>>()?),
        Json::String(s) => return primitive(s, names),
        Json::Object(o) => {
            let t = o.get("type").ok_or("schema object without a type")?;
            let Json::String(ts) = t else {
                return compile(t, names);
            };
            match ts.as_str() {
                "record" => {
                    let fields = o.get("fields").and_then(Json::as_array).ok_or("record without fields")?;
                    let mut out = Vec::with_capacity(fields.len());
                    for f in fields {
                        let name = f.get("name").and_then(Json::as_str).unwrap_or_default().to_string();
                        let ty = f.get("type").ok_or_else(|| format!("field {name} without a type"))?;
                        out.push(Field { id: field_id(f, "field-id"), node: compile(ty, names)?, name });
                    }
                    Node::Rec(out)
                }
                "array" => {
                    let items = o.get("items").ok_or("array without items")?;
                    Node::Arr(compile(items, names)?)
                }
                "map" => Node::Map(compile(o.get("values").ok_or("map without values")?, names)?),
                "fixed" => {
                    let n = o.get("size").and_then(Json::as_u64).ok_or("fixed without size")?;
                    Node::Fixed(usize::try_from(n).map_err(|e| e.to_string())?)
                }
                "enum" => {
                    let s = o.get("symbols").and_then(Json::as_array).ok_or("enum without symbols")?;
                    Node::Enum(s.iter().map(|x| x.as_str().unwrap_or_default().to_string()).collect())
                }
                other => return primitive(other, names),
            }
        }
        _ => return Err(format!("not a schema: {j}")),
    };
    let node = Arc::new(node);
    if let Some(n) = j.get("name").and_then(Json::as_str) {
        names.insert(n.to_string(), node.clone());
    }
    Ok(node)
}

fn primitive(s: &str, names: &HashMap<String, Arc<Node>>) -> R<Arc<Node>> {
    Ok(Arc::new(match s {
        "null" => Node::Null,
        "boolean" => Node::Bool,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::Str,
        other => {
            return names.get(other).cloned().ok_or_else(|| format!("unknown Avro type {other}"));
        }
    }))
}

fn text(b: &[u8]) -> R<String> {
    std::str::from_utf8(b).map(str::to_string).map_err(|e| format!("string is not UTF-8: {e}"))
}

fn decode(n: &Node, c: &mut Cur) -> R<V> {
    Ok(match n {
        Node::Null => V::Null,
        Node::Bool => match c.take(1)?[0] {
            0 => V::Bool(false),
            1 => V::Bool(true),
            x => return Err(format!("boolean byte {x}")),
        },
        Node::Int => {
            let i = c.long()?;
            i32::try_from(i).map_err(|_| format!("int out of range: {i}"))?;
            V::Int(i)
        }
        Node::Long => V::Int(c.long()?),
        Node::Float => {
            let mut a = [0; 4];
            a.copy_from_slice(c.take(4)?);
            V::Float(f64::from(f32::from_le_bytes(a)))
        }
        Node::Double => {
            let mut a = [0; 8];
            a.copy_from_slice(c.take(8)?);
            V::Float(f64::from_le_bytes(a))
        }
        Node::Bytes => V::Bytes(c.blob()?.to_vec()),
        Node::Str => V::Str(text(c.blob()?)?),
        Node::Fixed(k) => V::Bytes(c.take(*k)?.to_vec()),
        Node::Enum(s) => {
            let i = c.len()?;
            V::Str(s.get(i).cloned().ok_or_else(|| format!("enum index {i} of {}", s.len()))?)
        }
        Node::Arr(el) => {
            let mut out = Vec::new();
            blocks(c, |c| {
                out.push(decode(el, c)?);
                Ok(())
            })?;
            V::Arr(out)
        }
        Node::Map(el) => {
            let mut out = Vec::new();
            blocks(c, |c| {
                let k = text(c.blob()?)?;
                out.push((k, decode(el, c)?));
                Ok(())
            })?;
            V::Map(out)
        }
        Node::Union(u) => {
            let i = c.len()?;
            decode(u.get(i).ok_or_else(|| format!("union branch {i} of {}", u.len()))?, c)?
        }
        Node::Rec(fs) => V::Rec(fs.iter().map(|f| decode(&f.node, c)).collect::<R<_>>()?),
    })
}

fn blocks(c: &mut Cur, mut item: impl FnMut(&mut Cur) -> R<()>) -> R<()> {
    loop {
        let mut n = c.long()?;
        if n == 0 {
            return Ok(());
        }
        if n < 0 {
            c.long()?;
            n = n.checked_neg().ok_or("block count out of range")?;
        }
        for _ in 0..n {
            item(c)?;
        }
    }
}

/// Decodes a whole container file.
///
/// # Errors
/// Text naming what is malformed: magic, header, schema, codec, sync marker or a value.
pub fn read(bytes: &[u8]) -> R<AvroFile> {
    let mut c = Cur { b: bytes, p: 0 };
    if c.take(4)? != b"Obj\x01" {
        return Err(format!("magic {}, expected 4f626a01", hex(&bytes[..4])));
    }
    let mut meta = HashMap::new();
    blocks(&mut c, |c| {
        let k = text(c.blob()?)?;
        let value = c.blob()?;
        // what the format says of a file is text; keys of anybody else may hold any bytes
        let known = k.starts_with("avro.") || ICEBERG_KEYS.contains(&k.as_str());
        let value =
            if known { text(value).map_err(|e| format!("{k}: {e}"))? } else { String::from_utf8_lossy(value).into() };
        meta.insert(k, value);
        Ok(())
    })?;
    let sync = c.take(16)?;
    let schema = meta.get("avro.schema").ok_or("no avro.schema in the file metadata")?;
    let schema: Json = serde_json::from_str(schema).map_err(|e| format!("avro.schema is not JSON: {e}"))?;
    let root = compile(&schema, &mut HashMap::new())?;
    let codec = meta.get("avro.codec").map_or("null", String::as_str).to_string();
    let codec = apache_avro::Codec::from_str(&codec).map_err(|_| format!("unknown codec {codec}"))?;
    let mut records = Vec::new();
    while c.p < bytes.len() {
        let n = c.len()?;
        let mut block = c.blob()?.to_vec();
        if block.len() < 4 && matches!(codec, apache_avro::Codec::Snappy) {
            return Err("snappy block shorter than its checksum".into());
        }
        codec.decompress(&mut block).map_err(|e| format!("block does not decompress: {e}"))?;
        let mut b = Cur { b: &block, p: 0 };
        for _ in 0..n {
            records.push(decode(&root, &mut b)?);
        }
        if b.p != block.len() {
            return Err(format!("{} bytes left in a block after {n} records", block.len() - b.p));
        }
        if c.take(16)? != sync {
            return Err(format!("wrong sync marker before offset {}", c.p));
        }
    }
    Ok(AvroFile { meta, root, records })
}
