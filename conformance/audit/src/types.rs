//! Iceberg types, schemas and single values, parsed from raw JSON.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value as Json;

/// A primitive (or variant) type.
#[derive(Clone, Debug, PartialEq)]
pub enum Prim {
    Unknown,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    TimestampNs,
    TimestamptzNs,
    String,
    Uuid,
    Binary,
    Variant,
    Fixed(u64),
    Decimal(u64, u64),
    Geometry,
    Geography,
}

/// Shape of a field's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Prim(Prim),
    Struct,
    List,
    Map,
    Bad(String),
}

/// One field of a schema, nested ones included.
#[derive(Clone, Debug)]
pub struct FieldInfo {
    pub id: i64,
    pub shape: Shape,
    pub required: bool,
    /// Lies somewhere under a list or a map.
    pub in_collection: bool,
    /// Direct column of the table.
    pub top: bool,
    /// Every enclosing struct is required.
    pub parents_required: bool,
    pub initial_default: Option<Json>,
    pub write_default: Option<Json>,
    pub ptr: String,
}

/// A schema: its fields by id, and the structural faults met while parsing it.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub id: Option<i64>,
    pub ptr: String,
    pub fields: BTreeMap<i64, FieldInfo>,
    pub identifier_ids: Vec<i64>,
    /// (clause, place, found, allowed)
    pub faults: Vec<(&'static str, String, String, String)>,
    /// Type strings with optional white space: (place, text)
    pub spaced: Vec<(String, String)>,
}

impl Prim {
    /// Parses a type string, white space tolerated.
    pub fn parse(s: &str) -> Option<Prim> {
        let t: String = s.chars().filter(|c| !c.is_whitespace()).collect();
        let l = t.to_ascii_lowercase();
        if l == "geometry" || l.starts_with("geometry(") {
            return Some(Prim::Geometry);
        }
        if l == "geography" || l.starts_with("geography(") {
            let args: Vec<&str> = l.trim_start_matches("geography").trim_matches(['(', ')']).split(',').collect();
            let ok = args.len() < 2 || ["spherical", "vincenty", "thomas", "andoyer", "karney"].contains(&args[1]);
            return ok.then_some(Prim::Geography);
        }
        Some(match t.as_str() {
            "unknown" => Prim::Unknown,
            "boolean" => Prim::Boolean,
            "int" => Prim::Int,
            "long" => Prim::Long,
            "float" => Prim::Float,
            "double" => Prim::Double,
            "date" => Prim::Date,
            "time" => Prim::Time,
            "timestamp" => Prim::Timestamp,
            "timestamptz" => Prim::Timestamptz,
            "timestamp_ns" => Prim::TimestampNs,
            "timestamptz_ns" => Prim::TimestamptzNs,
            "string" => Prim::String,
            "uuid" => Prim::Uuid,
            "binary" => Prim::Binary,
            "variant" => Prim::Variant,
            _ => {
                let (head, rest) = t.split_once(['[', '('])?;
                let args = rest.strip_suffix([']', ')'])?;
                match head {
                    "fixed" => Prim::Fixed(args.parse().ok()?),
                    "decimal" => {
                        let (p, s) = args.split_once(',')?;
                        Prim::Decimal(p.parse().ok()?, s.parse().ok()?)
                    }
                    _ => return None,
                }
            }
        })
    }

    /// Types that came with v3 (TYPE-20).
    pub fn needs_v3(&self) -> bool {
        use Prim::*;
        matches!(self, Unknown | Variant | Geometry | Geography | TimestampNs | TimestamptzNs)
    }

    /// Whether `self` may be promoted to `to` in some format version (EVO-1..5).
    pub fn promotes_to(&self, to: &Prim) -> bool {
        use Prim::*;
        match (self, to) {
            (a, b) if a == b => true,
            (Unknown, _) | (Int, Long) | (Float, Double) => true,
            (Date, Timestamp | TimestampNs) => true,
            (Decimal(p, s), Decimal(q, t)) => q >= p && s == t,
            _ => false,
        }
    }

    /// Whether a bound of `n` bytes can be a value of this type or of one that promotes to it (BIN-14).
    pub fn bound_len_ok(&self, b: &[u8]) -> bool {
        use Prim::*;
        let n = b.len();
        match self {
            Unknown => n == 0,
            Boolean => n == 1,
            Int | Float => n == 4,
            Date => n == 4,
            Long | Double => n == 4 || n == 8,
            Timestamp | TimestampNs => n == 4 || n == 8,
            Time | Timestamptz | TimestamptzNs => n == 8,
            String => std::str::from_utf8(b).is_ok(),
            Uuid => n == 16,
            Binary | Variant => true,
            Fixed(l) => n as u64 <= *l,
            Decimal(..) => (1..=16).contains(&n),
            Geometry | Geography => matches!(n, 16 | 24 | 32),
        }
    }

    /// Order of two bounds in single-value form; `None` when they have no order here (other length, NaN, no ordered type).
    pub fn bound_cmp(&self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        use Prim::*;
        match self {
            Boolean | String | Binary | Fixed(_) | Uuid => Some(a.cmp(b)),
            Int | Long | Date | Time | Timestamp | Timestamptz | TimestampNs | TimestamptzNs => {
                // A 4-byte bound on a timestamp is a date (BIN-15): not comparable with micros.
                let mixed = a.len() != b.len() && !matches!(self, Long);
                if mixed { None } else { Some(le_int(a)?.cmp(&le_int(b)?)) }
            }
            Float | Double => le_float(a)?.partial_cmp(&le_float(b)?),
            Decimal(..) => Some(be_int(a)?.cmp(&be_int(b)?)),
            _ => None,
        }
    }
}

/// Little-endian integer of 4 or 8 bytes.
pub fn le_int(b: &[u8]) -> Option<i64> {
    match b.len() {
        4 => Some(i64::from(i32::from_le_bytes(b.try_into().ok()?))),
        8 => Some(i64::from_le_bytes(b.try_into().ok()?)),
        _ => None,
    }
}

/// Little-endian float of 4 or 8 bytes.
pub fn le_float(b: &[u8]) -> Option<f64> {
    match b.len() {
        4 => Some(f64::from(f32::from_le_bytes(b.try_into().ok()?))),
        8 => Some(f64::from_le_bytes(b.try_into().ok()?)),
        _ => None,
    }
}

fn be_int(b: &[u8]) -> Option<i128> {
    if b.is_empty() || b.len() > 16 {
        return None;
    }
    let mut v: i128 = if b[0] & 0x80 != 0 { -1 } else { 0 };
    for x in b {
        v = (v << 8) | i128::from(*x);
    }
    Some(v)
}

impl Schema {
    /// Parses a schema object at JSON pointer `ptr`; faults are recorded, never fatal.
    pub fn parse(j: &Json, ptr: &str) -> Schema {
        let mut s = Schema { id: j.get("schema-id").and_then(Json::as_i64), ptr: ptr.to_string(), ..Schema::default() };
        if j.get("type").and_then(Json::as_str) != Some("struct") {
            s.fault("JSON-1", format!("{ptr}/type"), show(j.get("type")), "\"struct\"");
        }
        s.struct_fields(j, ptr, Ctx { in_collection: false, top: true, parents_required: true });
        if let Some(a) = j.get("identifier-field-ids").and_then(Json::as_array) {
            s.identifier_ids = a.iter().filter_map(Json::as_i64).collect();
        }
        s
    }

    fn fault(&mut self, clause: &'static str, place: String, found: impl ToString, allowed: impl ToString) {
        self.faults.push((clause, place, found.to_string(), allowed.to_string()));
    }

    fn struct_fields(&mut self, j: &Json, ptr: &str, ctx: Ctx) {
        let Some(fields) = j.get("fields").and_then(Json::as_array) else {
            self.fault("JSON-2", format!("{ptr}/fields"), show(j.get("fields")), "a list of fields");
            return;
        };
        for (i, f) in fields.iter().enumerate() {
            let p = format!("{ptr}/fields/{i}");
            let (id, name) = (f.get("id").and_then(Json::as_i64), f.get("name").and_then(Json::as_str));
            let (req, ty) = (f.get("required").and_then(Json::as_bool), f.get("type"));
            let (Some(id), Some(_), Some(required), Some(ty)) = (id, name, req, ty) else {
                self.fault("JSON-2", p, f, "id, name, required and type");
                continue;
            };
            let def = |k: &str| f.get(k).filter(|v| !v.is_null()).cloned();
            let info = FieldInfo {
                id,
                shape: Shape::Struct,
                required,
                in_collection: ctx.in_collection,
                top: ctx.top,
                parents_required: ctx.parents_required,
                initial_default: def("initial-default"),
                write_default: def("write-default"),
                ptr: p.clone(),
            };
            self.add(
                info,
                ty,
                &format!("{p}/type"),
                Ctx {
                    in_collection: ctx.in_collection,
                    top: false,
                    parents_required: ctx.parents_required && required,
                },
            );
        }
    }

    fn add(&mut self, mut info: FieldInfo, ty: &Json, ptr: &str, below: Ctx) {
        info.shape = match ty {
            Json::String(s) => match Prim::parse(s) {
                Some(p) => {
                    if s.chars().any(char::is_whitespace) && *s != canonical_spacing(s) {
                        self.spaced.push((ptr.to_string(), s.clone()));
                    }
                    Shape::Prim(p)
                }
                None => Shape::Bad(s.clone()),
            },
            Json::Object(o) => match o.get("type").and_then(Json::as_str) {
                Some("struct") => {
                    self.struct_fields(ty, ptr, below);
                    Shape::Struct
                }
                Some("list") => {
                    self.element(ty, ptr, "element", true);
                    Shape::List
                }
                Some("map") => {
                    self.element(ty, ptr, "key", false);
                    self.element(ty, ptr, "value", true);
                    Shape::Map
                }
                other => Shape::Bad(format!("{other:?}")),
            },
            other => Shape::Bad(other.to_string()),
        };
        if let Shape::Bad(t) = &info.shape {
            self.fault("JSON-3", ptr.to_string(), t.clone(), "a type of JSON-3 or a struct, list or map object");
        }
        if self.fields.contains_key(&info.id) {
            self.fault("TYPE-11", info.ptr.clone(), format!("field id {} twice", info.id), "ids unique in the schema");
        }
        self.fields.insert(info.id, info);
    }

    fn element(&mut self, ty: &Json, ptr: &str, what: &str, flag: bool) {
        let id = ty.get(format!("{what}-id")).and_then(Json::as_i64);
        let required = if flag { ty.get(format!("{what}-required")).and_then(Json::as_bool) } else { Some(true) };
        let (Some(id), Some(required), Some(t)) = (id, required, ty.get(what)) else {
            let want =
                format!("{what}-id, {what}{}", if flag { format!(" and {what}-required") } else { String::new() });
            self.fault("JSON-5", ptr.to_string(), ty, want);
            return;
        };
        let ctx = Ctx { in_collection: true, top: false, parents_required: false };
        let info = FieldInfo {
            id,
            shape: Shape::Struct,
            required,
            in_collection: true,
            top: false,
            parents_required: false,
            initial_default: None,
            write_default: None,
            ptr: ptr.to_string(),
        };
        self.add(info, t, &format!("{ptr}/{what}"), ctx);
    }
}

#[derive(Clone, Copy)]
struct Ctx {
    in_collection: bool,
    top: bool,
    parents_required: bool,
}

/// `decimal(9, 2)` and `decimal(9,2)` are both in use; one space after a comma counts as canonical.
fn canonical_spacing(s: &str) -> String {
    let t: String = s.chars().filter(|c| !c.is_whitespace()).collect();
    t.replace(',', ", ")
}

/// JSON text of an optional value, `absent` when missing.
pub fn show(j: Option<&Json>) -> String {
    j.map_or_else(|| "absent".to_string(), Json::to_string)
}

/// What is wrong with `j` as JSON single value of `p` (JSON-30..40); `None` when nothing is.
pub fn json_value_fault(p: &Prim, j: &Json) -> Option<&'static str> {
    use Prim::*;
    let s = j.as_str();
    let ok = |b: bool, what: &'static str| if b { None } else { Some(what) };
    match p {
        Boolean => ok(j.is_boolean(), "a JSON boolean"),
        Int => ok(j.as_i64().is_some_and(|v| i32::try_from(v).is_ok()), "a JSON integer of 32 bits"),
        Long => ok(j.is_i64(), "a JSON integer of 64 bits"),
        Float | Double => ok(j.is_number(), "a JSON number"),
        Decimal(..) => ok(s.is_some_and(|s| s.parse::<f64>().is_ok()), "a decimal as string"),
        Date => ok(s.is_some_and(is_date), "\"YYYY-MM-DD\""),
        Time => ok(s.is_some_and(is_time), "\"HH:MM:SS[.ffffff]\""),
        Timestamp | TimestampNs => ok(
            s.is_some_and(|s| s.split_once('T').is_some_and(|(d, t)| is_date(d) && is_time(t))),
            "an ISO local date-time without offset",
        ),
        Timestamptz | TimestamptzNs => ok(
            s.and_then(|s| s.strip_suffix("+00:00"))
                .is_some_and(|s| s.split_once('T').is_some_and(|(d, t)| is_date(d) && is_time(t))),
            "an ISO date-time with offset +00:00",
        ),
        String => ok(s.is_some(), "a JSON string"),
        Uuid => ok(s.is_some_and(is_uuid), "a 36-character uuid"),
        Fixed(l) => ok(s.is_some_and(|s| is_hex(s) && s.len() as u64 == 2 * l), "a hex string of the fixed length"),
        Binary => ok(s.is_some_and(is_hex), "a hex string"),
        Unknown | Variant | Geometry | Geography => None,
    }
}

fn is_hex(s: &str) -> bool {
    s.len().is_multiple_of(2) && s.bytes().all(|b| b.is_ascii_hexdigit())
}

fn digits(s: &str, n: usize) -> bool {
    s.len() == n && s.bytes().all(|b| b.is_ascii_digit())
}

fn is_date(s: &str) -> bool {
    let t = s.trim_start_matches(['-', '+']);
    let p: Vec<&str> = t.split('-').collect();
    p.len() == 3 && p[0].len() >= 4 && p[0].bytes().all(|b| b.is_ascii_digit()) && digits(p[1], 2) && digits(p[2], 2)
}

fn is_time(s: &str) -> bool {
    let (hms, frac) = s.split_once('.').unwrap_or((s, ""));
    let p: Vec<&str> = hms.split(':').collect();
    (p.len() == 3 || p.len() == 2)
        && p.iter().all(|x| digits(x, 2))
        && frac.len() <= 9
        && frac.bytes().all(|b| b.is_ascii_digit())
}

/// Whether `s` has the 8-4-4-4-12 hex form.
pub fn is_uuid(s: &str) -> bool {
    let p: Vec<&str> = s.split('-').collect();
    p.len() == 5
        && [8, 4, 4, 4, 12].iter().zip(&p).all(|(n, x)| x.len() == *n && x.bytes().all(|b| b.is_ascii_hexdigit()))
}
