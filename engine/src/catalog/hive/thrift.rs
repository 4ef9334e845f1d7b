//! Thrift's binary protocol, as much as a metastore client needs: calls without framing on a connection of their own. Values
//! keep every field they came with, so that a table written back loses nothing that floe does not know.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const VERSION_1: u32 = 0x8001_0000;
const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;
/// Nesting and size of an answer are bounded: a peer that is no metastore must not exhaust memory.
const MAX_DEPTH: usize = 32;
const MAX_LENGTH: usize = 256 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

const BOOL: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 4;
const I16: u8 = 6;
const I32: u8 = 8;
const I64: u8 = 10;
const STRING: u8 = 11;
const STRUCT: u8 = 12;
const MAP: u8 = 13;
const SET: u8 = 14;
const LIST: u8 = 15;

/// A Thrift value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Byte(u8),
    Double(f64),
    I16(i16),
    I32(i32),
    I64(i64),
    /// Text or bytes.
    Text(Vec<u8>),
    Struct(Fields),
    /// Type of keys, type of values, entries.
    Map(u8, u8, Vec<(Value, Value)>),
    Set(u8, Vec<Value>),
    List(u8, Vec<Value>),
}

/// Fields of a struct by id.
pub(super) type Fields = BTreeMap<i16, Value>;

impl Value {
    pub(super) fn text(s: impl Into<String>) -> Self {
        Self::Text(s.into().into_bytes())
    }

    pub(super) fn texts<S: Into<String>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(STRING, items.into_iter().map(Self::text).collect())
    }

    pub(super) fn structs(items: Vec<Fields>) -> Self {
        Self::List(STRUCT, items.into_iter().map(Self::Struct).collect())
    }

    pub(super) fn text_map<'a>(items: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        Self::Map(STRING, STRING, items.into_iter().map(|(k, v)| (Self::text(k), Self::text(v))).collect())
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(b) => std::str::from_utf8(b).ok(),
            _ => None,
        }
    }

    pub(super) fn as_fields(&self) -> Option<&Fields> {
        match self {
            Self::Struct(f) => Some(f),
            _ => None,
        }
    }

    /// Elements of a list or set.
    pub(super) fn items(&self) -> &[Value] {
        match self {
            Self::List(_, v) | Self::Set(_, v) => v,
            _ => &[],
        }
    }

    /// Entries of a map of texts.
    pub(super) fn text_entries(&self) -> BTreeMap<String, String> {
        let Self::Map(_, _, entries) = self else {
            return BTreeMap::new();
        };
        entries.iter().filter_map(|(k, v)| Some((k.as_text()?.to_string(), v.as_text()?.to_string()))).collect()
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Bool(_) => BOOL,
            Self::Byte(_) => BYTE,
            Self::Double(_) => DOUBLE,
            Self::I16(_) => I16,
            Self::I32(_) => I32,
            Self::I64(_) => I64,
            Self::Text(_) => STRING,
            Self::Struct(_) => STRUCT,
            Self::Map(..) => MAP,
            Self::Set(..) => SET,
            Self::List(..) => LIST,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(b) => out.push(u8::from(*b)),
            Self::Byte(b) => out.push(*b),
            Self::Double(d) => out.extend(d.to_be_bytes()),
            Self::I16(n) => out.extend(n.to_be_bytes()),
            Self::I32(n) => out.extend(n.to_be_bytes()),
            Self::I64(n) => out.extend(n.to_be_bytes()),
            Self::Text(b) => {
                out.extend((b.len() as u32).to_be_bytes());
                out.extend(b);
            }
            Self::Struct(fields) => encode_fields(fields, out),
            Self::Map(k, v, entries) => {
                out.extend([*k, *v]);
                out.extend((entries.len() as u32).to_be_bytes());
                for (k, v) in entries {
                    k.encode(out);
                    v.encode(out);
                }
            }
            Self::Set(kind, items) | Self::List(kind, items) => {
                out.push(*kind);
                out.extend((items.len() as u32).to_be_bytes());
                items.iter().for_each(|i| i.encode(out));
            }
        }
    }
}

fn encode_fields(fields: &Fields, out: &mut Vec<u8>) {
    for (id, value) in fields {
        out.push(value.kind());
        out.extend(id.to_be_bytes());
        value.encode(out);
    }
    out.push(0);
}

/// Bytes of a call message.
pub(super) fn encode_call(method: &str, arguments: &Fields) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((VERSION_1 | u32::from(CALL)).to_be_bytes());
    Value::text(method).encode(&mut out);
    out.extend(1u32.to_be_bytes());
    encode_fields(arguments, &mut out);
    out
}

/// What came back.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// The result struct: field 0 is the value, others are declared exceptions.
    Result(Fields),
    /// The server could not make the call: its message and code (1: unknown method).
    Refused { message: String, code: i32 },
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was sent.
    Connect(String),
    /// The call may have been made.
    Lost(String),
    /// The peer does not speak the protocol.
    Broken(String),
}

/// Reads a reply to `method`.
pub(super) fn decode_reply(input: &mut impl Read, method: &str) -> Result<Reply, Failure> {
    let head = read_u32(input)?;
    if head & 0xffff_0000 != VERSION_1 {
        return Err(Failure::Broken(format!("the answer starts with {head:#010x}, which is no Thrift message")));
    }
    let name = read_text(input)?;
    let _sequence = read_u32(input)?;
    let fields = read_fields(input, 0)?;
    match (head & 0xff) as u8 {
        REPLY if name == method.as_bytes() => Ok(Reply::Result(fields)),
        EXCEPTION => Ok(Reply::Refused {
            message: fields.get(&1).and_then(Value::as_text).unwrap_or_default().to_string(),
            code: match fields.get(&2) {
                Some(Value::I32(n)) => *n,
                _ => 0,
            },
        }),
        kind => Err(Failure::Broken(format!("message of type {kind} for {:?}", String::from_utf8_lossy(&name)))),
    }
}

fn read_exact<const N: usize>(input: &mut impl Read) -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(lost)?;
    Ok(bytes)
}

fn read_u32(input: &mut impl Read) -> Result<u32, Failure> {
    read_exact::<4>(input).map(u32::from_be_bytes)
}

/// A length or count; its elements take at least a byte each.
fn read_length(input: &mut impl Read) -> Result<usize, Failure> {
    let n = read_u32(input)? as usize;
    if n > MAX_LENGTH { Err(Failure::Broken(format!("a length of {n}"))) } else { Ok(n) }
}

fn read_text(input: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let n = read_length(input)?;
    let mut out = Vec::new();
    // Grows with what arrives, not with what the length promises.
    input.take(n as u64).read_to_end(&mut out).map_err(lost)?;
    if out.len() == n { Ok(out) } else { Err(Failure::Lost("the connection ended within an answer".into())) }
}

fn read_fields(input: &mut impl Read, depth: usize) -> Result<Fields, Failure> {
    let mut fields = Fields::new();
    loop {
        let [kind] = read_exact::<1>(input)?;
        if kind == 0 {
            return Ok(fields);
        }
        let id = i16::from_be_bytes(read_exact::<2>(input)?);
        fields.insert(id, read_value(input, kind, depth + 1)?);
    }
}

fn read_value(input: &mut impl Read, kind: u8, depth: usize) -> Result<Value, Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::Broken("an answer nested too deeply".into()));
    }
    Ok(match kind {
        BOOL => Value::Bool(read_exact::<1>(input)? != [0]),
        BYTE => Value::Byte(read_exact::<1>(input)?[0]),
        DOUBLE => Value::Double(f64::from_be_bytes(read_exact(input)?)),
        I16 => Value::I16(i16::from_be_bytes(read_exact(input)?)),
        I32 => Value::I32(i32::from_be_bytes(read_exact(input)?)),
        I64 => Value::I64(i64::from_be_bytes(read_exact(input)?)),
        STRING => Value::Text(read_text(input)?),
        STRUCT => Value::Struct(read_fields(input, depth)?),
        MAP => {
            let [k, v] = read_exact::<2>(input)?;
            let n = read_length(input)?;
            let mut entries = Vec::new();
            for _ in 0..n {
                entries.push((read_value(input, k, depth + 1)?, read_value(input, v, depth + 1)?));
            }
            Value::Map(k, v, entries)
        }
        SET | LIST => {
            let [element] = read_exact::<1>(input)?;
            let n = read_length(input)?;
            let mut items = Vec::new();
            for _ in 0..n {
                items.push(read_value(input, element, depth + 1)?);
            }
            if kind == SET { Value::Set(element, items) } else { Value::List(element, items) }
        }
        other => return Err(Failure::Broken(format!("unknown Thrift type {other}"))),
    })
}

fn lost(e: std::io::Error) -> Failure {
    Failure::Lost(match e.kind() {
        std::io::ErrorKind::UnexpectedEof => "the server closed the connection".into(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "timed out".into(),
        _ => e.to_string(),
    })
}

/// Makes one call on a connection of its own, so that no call meets a connection that the server has given up. Blocks.
pub(super) fn call(address: &str, method: &str, arguments: &Fields) -> Result<Reply, Failure> {
    let mut last = format!("{address} names no machine");
    let addresses =
        address.to_socket_addrs().map_err(|e| Failure::Connect(format!("cannot look up {address}: {e}")))?;
    for a in addresses {
        match TcpStream::connect_timeout(&a, CONNECT_TIMEOUT) {
            Ok(mut stream) => {
                let _ = stream.set_nodelay(true);
                let ready = stream
                    .set_read_timeout(Some(ANSWER_TIMEOUT))
                    .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
                ready.map_err(|e| Failure::Connect(e.to_string()))?;
                stream.write_all(&encode_call(method, arguments)).map_err(lost)?;
                return decode_reply(&mut BufReader::new(stream), method);
            }
            Err(e) => last = format!("cannot connect to {a}: {e}"),
        }
    }
    Err(Failure::Connect(last))
}
