//! Surrogates for the V3 types that the `iceberg` model lacks, put into and taken out of schema JSON (JSON-1..6).

use iceberg::spec::{Literal, NestedField, PrimitiveType, Schema, Type};
use serde_json::{Map, Value};

use super::{ExtType, ExtTypes, MAX_TABLE_FIELD_ID, literal_from_json, literal_to_json};
use crate::{Error, Result};

/// Parses a schema object (JSON-1); columns of extended types become surrogates and their true types are returned.
///
/// # Errors
/// [`crate::ErrorKind::Malformed`] naming the field and the clause.
pub fn schema_from_json(json: &[u8]) -> Result<(Schema, ExtTypes)> {
    let value: Value = serde_json::from_slice(json)
        .map_err(|e| Error::malformed(format!("schema is not JSON: {e}")).clause("JSON-1"))?;
    schema_from_value(value)
}

/// [`schema_from_json`] of a parsed value.
pub fn schema_from_value(mut value: Value) -> Result<(Schema, ExtTypes)> {
    let mut ext = ExtTypes::default();
    strip_schema(&mut value, &mut ext)?;
    let schema =
        serde_json::from_value(value).map_err(|e| Error::malformed(format!("schema: {e}")).clause("JSON-1"))?;
    Ok((schema, ext))
}

/// A schema as table metadata writes it, with true types and defaults in their canonical forms.
///
/// # Errors
/// [`crate::ErrorKind::Unsupported`] for a default that the `iceberg` model cannot write.
pub fn schema_to_json(schema: &Schema, ext: &ExtTypes) -> Result<Value> {
    check_defaults(schema)?;
    let mut value = serde_json::to_value(schema).map_err(|e| Error::internal(format!("schema to JSON: {e}")))?;
    restore_schema(&mut value, schema, ext)?;
    Ok(value)
}

/// Replaces extended types by surrogates in every schema of a JSON document, wherever it stands: table metadata,
/// `TableUpdate`s (`add-schema`), REST requests and responses. What was replaced is added to `ext`.
pub fn substitute(value: &mut Value, ext: &mut ExtTypes) -> Result<()> {
    match value {
        Value::Object(o) if is_schema(o) => strip_schema(value, ext),
        Value::Object(o) => {
            for (key, v) in o.iter_mut() {
                if may_hold_schemas(key, v) {
                    substitute(v, ext)?;
                }
            }
            Ok(())
        }
        Value::Array(a) => a.iter_mut().try_for_each(|v| substitute(v, ext)),
        _ => Ok(()),
    }
}

/// Free-form maps hold no schema, and a property must never be taken for one; `updates` is a list of changes in a
/// commit and a map of properties in `set-properties`.
fn may_hold_schemas(key: &str, value: &Value) -> bool {
    match key {
        "properties" | "summary" | "config" | "overrides" | "defaults" => false,
        "updates" => value.is_array(),
        _ => true,
    }
}

fn is_schema(o: &Map<String, Value>) -> bool {
    o.get("type").and_then(Value::as_str) == Some("struct") && o.contains_key("fields")
}

/// The opposite of [`substitute`]: puts true types back into every schema of a JSON document.
pub fn restore_types(value: &mut Value, ext: &ExtTypes) {
    match value {
        Value::Object(o) if is_schema(o) => restore_fields(o, ext),
        Value::Object(o) => {
            for (key, v) in o.iter_mut() {
                if may_hold_schemas(key, v) {
                    restore_types(v, ext);
                }
            }
        }
        Value::Array(a) => a.iter_mut().for_each(|v| restore_types(v, ext)),
        _ => {}
    }
}

/// Puts true types and canonical defaults into the JSON of one schema.
pub(super) fn restore_schema(value: &mut Value, schema: &Schema, ext: &ExtTypes) -> Result<()> {
    if let Some(o) = value.as_object_mut() {
        restore_fields(o, ext);
        if let Some(Value::Array(ids)) = o.get_mut("identifier-field-ids") {
            ids.sort_by_key(|v| v.as_i64());
        }
        rewrite_defaults(o, schema)?;
    }
    Ok(())
}

fn restore_fields(o: &mut Map<String, Value>, ext: &ExtTypes) {
    if let Some(Value::Array(fields)) = o.get_mut("fields") {
        for f in fields.iter_mut().filter_map(Value::as_object_mut) {
            restore_slot(f, "id", "type", ext);
        }
    }
}

fn restore_slot(o: &mut Map<String, Value>, id_key: &str, type_key: &str, ext: &ExtTypes) {
    let id = o.get(id_key).and_then(Value::as_i64).and_then(|v| i32::try_from(v).ok());
    let Some(slot) = o.get_mut(type_key) else {
        return;
    };
    match slot {
        Value::String(s) => {
            if let Some(e) = id.and_then(|id| ext.get(id))
                && *s == e.surrogate().to_string()
            {
                *s = e.as_str().to_string();
            }
        }
        Value::Object(inner) => match inner.get("type").and_then(Value::as_str) {
            Some("struct") => restore_fields(inner, ext),
            Some("list") => restore_slot(inner, "element-id", "element", ext),
            Some("map") => {
                restore_slot(inner, "key-id", "key", ext);
                restore_slot(inner, "value-id", "value", ext);
            }
            _ => {}
        },
        _ => {}
    }
}

/// Writes each default as JSON-30..40 say: the `iceberg` model writes absent struct members as nulls (DEFV-6 wants `{}`).
fn rewrite_defaults(o: &mut Map<String, Value>, schema: &Schema) -> Result<()> {
    if let Some(Value::Array(fields)) = o.get_mut("fields") {
        for f in fields.iter_mut().filter_map(Value::as_object_mut) {
            let field = f.get("id").and_then(Value::as_i64).and_then(|id| schema.field_by_id(id as i32)).cloned();
            if let Some(field) = field {
                for (key, lit) in [("initial-default", &field.initial_default), ("write-default", &field.write_default)]
                {
                    if let Some(lit) = lit {
                        f.insert(key.into(), literal_to_json(lit, &field.field_type)?);
                    }
                }
            }
            if let Some(t) = f.get_mut("type") {
                rewrite_type_defaults(t, schema)?;
            }
        }
    }
    Ok(())
}

fn rewrite_type_defaults(t: &mut Value, schema: &Schema) -> Result<()> {
    let Value::Object(inner) = t else {
        return Ok(());
    };
    rewrite_defaults(inner, schema)?;
    for key in ["element", "key", "value"] {
        if let Some(t) = inner.get_mut(key) {
            rewrite_type_defaults(t, schema)?;
        }
    }
    Ok(())
}

/// Refuses the defaults that make the `iceberg` model panic or drop them: it reads no nanosecond default, and writes
/// no default with zone before 1970 that has a fraction of a second.
pub(super) fn check_defaults(schema: &Schema) -> Result<()> {
    for field in schema.field_id_to_fields().values() {
        for lit in [&field.initial_default, &field.write_default].into_iter().flatten() {
            check_default(field, lit)?;
        }
    }
    Ok(())
}

fn check_default(field: &NestedField, lit: &Literal) -> Result<()> {
    // Our own encoder is strict: what it refuses would make the model panic.
    literal_to_json(lit, &field.field_type)
        .map_err(|e| Error::invalid(format!("default of column {:?}: {}", field.name, e.message())).clause("DEFV-1"))?;
    holdable(&field.field_type, lit).map_err(|why| {
        Error::unsupported(format!("default of column {:?} (id {}): {why}", field.name, field.id)).clause("DEFV-1")
    })
}

fn holdable(t: &Type, lit: &Literal) -> Result<(), &'static str> {
    match (t, lit) {
        (Type::Primitive(PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs), _) => {
            Err("a nanosecond timestamp default is not supported")
        }
        (Type::Primitive(PrimitiveType::Timestamptz), Literal::Primitive(iceberg::spec::PrimitiveLiteral::Long(v)))
            if *v < 0 && v % 1_000_000 != 0 =>
        {
            Err("a timestamptz default before 1970 with a fraction of a second is not supported")
        }
        (Type::List(l), Literal::List(items)) => {
            items.iter().flatten().try_for_each(|i| holdable(&l.element_field.field_type, i))
        }
        (Type::Map(m), Literal::Map(map)) => map.clone().into_iter().try_for_each(|(k, v)| {
            holdable(&m.key_field.field_type, &k)?;
            v.map_or(Ok(()), |v| holdable(&m.value_field.field_type, &v))
        }),
        (Type::Struct(s), Literal::Struct(v)) => {
            s.fields().iter().zip(v.iter()).try_for_each(|(f, v)| v.map_or(Ok(()), |v| holdable(&f.field_type, v)))
        }
        _ => Ok(()),
    }
}

/// Replaces extended types in one schema object, checks its defaults, and adds the true types to `ext`.
pub(super) fn strip_schema(value: &mut Value, ext: &mut ExtTypes) -> Result<()> {
    let Some(o) = value.as_object_mut() else {
        return Err(Error::malformed("schema is not an object").clause("JSON-1"));
    };
    if o.get("type").and_then(Value::as_str) != Some("struct") {
        return Err(Error::malformed("schema has no \"type\": \"struct\"").clause("JSON-6"));
    }
    strip_fields(o, ext, "", &mut std::collections::HashMap::new())
}

type Seen = std::collections::HashMap<i32, String>;

fn strip_fields(o: &mut Map<String, Value>, ext: &mut ExtTypes, path: &str, seen: &mut Seen) -> Result<()> {
    let Some(Value::Array(fields)) = o.get_mut("fields") else {
        return Err(Error::malformed(format!("struct {path:?} has no list \"fields\"")).clause("JSON-1"));
    };
    for f in fields {
        let Some(f) = f.as_object_mut() else {
            return Err(Error::malformed(format!("a field of struct {path:?} is not an object")).clause("JSON-2"));
        };
        let name = f
            .get("name")
            .and_then(Value::as_str)
            .ok_or_else(|| Error::malformed(format!("a field of struct {path:?} has no \"name\"")).clause("JSON-2"))?;
        let name = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        let required = f
            .get("required")
            .and_then(Value::as_bool)
            .ok_or_else(|| Error::malformed(format!("field {name:?} has no boolean \"required\"")).clause("JSON-2"))?;
        strip_slot(f, "id", "type", required, ext, &name, seen)?;
        strip_default(f, ext, &name)?;
    }
    Ok(())
}

fn strip_slot(
    o: &mut Map<String, Value>,
    id_key: &str,
    type_key: &str,
    required: bool,
    ext: &mut ExtTypes,
    name: &str,
    seen: &mut Seen,
) -> Result<()> {
    let id = o
        .get(id_key)
        .and_then(Value::as_i64)
        .and_then(|v| i32::try_from(v).ok())
        .ok_or_else(|| Error::malformed(format!("field {name:?} has no integer {id_key:?}")).clause("JSON-2"))?;
    if id > MAX_TABLE_FIELD_ID {
        return Err(Error::malformed(format!(
            "field {name:?} has id {id}, and a table may use none above {MAX_TABLE_FIELD_ID}"
        ))
        .clause("RID-1"));
    }
    if let Some(other) = seen.insert(id, name.to_string()) {
        return Err(Error::malformed(format!("fields {other:?} and {name:?} share id {id}")).clause("TYPE-11"));
    }
    let Some(slot) = o.get_mut(type_key) else {
        return Err(Error::malformed(format!("field {name:?} has no {type_key:?}")).clause("JSON-2"));
    };
    match slot {
        Value::String(s) => {
            let (canonical, e) = parse_type_string(s, name)?;
            match e {
                None => *s = canonical,
                Some(e) => {
                    if e == ExtType::Unknown && required {
                        return Err(
                            Error::malformed(format!("field {name:?} of type unknown is required")).clause("TYPE-1")
                        );
                    }
                    *s = e.surrogate().to_string();
                    if let Some(old) = ext.0.get(&id)
                        && *old != e
                    {
                        return Err(Error::unsupported(format!(
                            "field {name:?} (id {id}) is {} in one schema and {} in another",
                            old.as_str(),
                            e.as_str()
                        ))
                        .clause("EVO-1"));
                    }
                    ext.0.insert(id, e);
                }
            }
            Ok(())
        }
        Value::Object(inner) => match inner.get("type").and_then(Value::as_str) {
            Some("struct") => strip_fields(inner, ext, name, seen),
            Some("list") => {
                let required = need_bool(inner, "element-required", name)?;
                strip_slot(inner, "element-id", "element", required, ext, &format!("{name}.element"), seen)
            }
            Some("map") => {
                strip_slot(inner, "key-id", "key", true, ext, &format!("{name}.key"), seen)?;
                let required = need_bool(inner, "value-required", name)?;
                strip_slot(inner, "value-id", "value", required, ext, &format!("{name}.value"), seen)
            }
            other => {
                Err(Error::malformed(format!("field {name:?} has nested type {other:?}; allowed: struct, list, map"))
                    .clause("JSON-5"))
            }
        },
        other => Err(Error::malformed(format!("field {name:?} has type {other}")).clause("JSON-3")),
    }
}

fn need_bool(o: &Map<String, Value>, key: &str, name: &str) -> Result<bool> {
    o.get(key)
        .and_then(Value::as_bool)
        .ok_or_else(|| Error::malformed(format!("field {name:?} has no boolean {key:?}")).clause("JSON-5"))
}

/// Checks the defaults of a field and words them so that the `iceberg` model reads them: it drops a default that it
/// does not understand without a word, which would turn values into nulls.
fn strip_default(f: &mut Map<String, Value>, ext: &ExtTypes, name: &str) -> Result<()> {
    for key in ["initial-default", "write-default"] {
        let Some(v) = f.get(key) else { continue };
        if v.is_null() {
            f.shift_remove(key);
            continue;
        }
        let id = f.get("id").and_then(Value::as_i64).unwrap_or_default() as i32;
        if let Some(e) = ext.get(id) {
            return Err(Error::malformed(format!(
                "field {name:?} of type {} has {key} {v}; only null is allowed",
                e.as_str()
            ))
            .clause("DEFV-4"));
        }
        let t: Type = serde_json::from_value(f["type"].clone())
            .map_err(|e| Error::malformed(format!("type of field {name:?}: {e}")).clause("JSON-3"))?;
        let lit = literal_from_json(v, &t)
            .map_err(|e| Error::malformed(format!("{key} of field {name:?}: {}", e.message())).clause("DEFV-1"))?;
        let Some(lit) = lit else { continue };
        holdable(&t, &lit)
            .map_err(|why| Error::unsupported(format!("{key} of field {name:?}: {why}")).clause("DEFV-1"))?;
        let canonical = literal_to_json(&lit, &t)?;
        match Literal::try_from_json(canonical.clone(), &t) {
            Ok(Some(back)) if back == lit => f.insert(key.into(), canonical),
            _ => {
                return Err(Error::unsupported(format!("{key} {v} of field {name:?} of type {t}")).clause("DEFV-1"));
            }
        };
    }
    Ok(())
}

/// Canonical form of a primitive type string, and the extended type if it is one (JSON-3, JSON-4, JSON-6).
fn parse_type_string(s: &str, name: &str) -> Result<(String, Option<ExtType>)> {
    let bad = |why: &str| Error::malformed(format!("field {name:?} has type {s:?}: {why}")).clause("JSON-3");
    let t = s.trim();
    let (head, params) = match t.find(['(', '[']) {
        Some(i) => {
            let close = if t.as_bytes()[i] == b'(' { ')' } else { ']' };
            let inner = t[i + 1..].trim_end().strip_suffix(close).ok_or_else(|| bad("unbalanced bracket"))?;
            (t[..i].trim_end(), Some(inner.split(',').map(str::trim).collect::<Vec<_>>()))
        }
        None => (t, None),
    };
    let lower = head.to_ascii_lowercase();
    match (lower.as_str(), params.as_deref()) {
        ("geometry", None) => Ok((String::new(), Some(ExtType::Geometry("geometry(OGC:CRS84)".into())))),
        ("geometry", Some([crs])) if !crs.is_empty() => {
            check_crs(crs, name)?;
            Ok((String::new(), Some(ExtType::Geometry(format!("geometry({crs})")))))
        }
        ("geography", None) => Ok((String::new(), Some(ExtType::Geography("geography(OGC:CRS84, spherical)".into())))),
        ("geography", Some([crs])) if !crs.is_empty() => {
            check_crs(crs, name)?;
            Ok((String::new(), Some(ExtType::Geography(format!("geography({crs}, spherical)")))))
        }
        ("geography", Some([crs, algo])) if !crs.is_empty() => {
            check_crs(crs, name)?;
            let algo = algo.to_ascii_lowercase();
            if !["spherical", "vincenty", "thomas", "andoyer", "karney"].contains(&algo.as_str()) {
                return Err(Error::malformed(format!(
                    "field {name:?} has edge algorithm {algo:?}; allowed: spherical, vincenty, thomas, andoyer, karney"
                ))
                .clause("TYPE-14"));
            }
            Ok((String::new(), Some(ExtType::Geography(format!("geography({crs}, {algo})")))))
        }
        _ => match (head, params.as_deref()) {
            ("variant", None) => Ok((String::new(), Some(ExtType::Variant))),
            ("unknown", None) => Ok((String::new(), Some(ExtType::Unknown))),
            (
                "boolean" | "int" | "long" | "float" | "double" | "date" | "time" | "timestamp" | "timestamptz"
                | "timestamp_ns" | "timestamptz_ns" | "string" | "uuid" | "binary",
                None,
            ) => Ok((head.to_string(), None)),
            ("fixed", Some([len])) => {
                let len: u32 = len.parse().map_err(|_| bad("length is not an integer"))?;
                Ok((format!("fixed[{len}]"), None))
            }
            ("decimal", Some([p, scale])) => {
                let p: u32 = p.parse().map_err(|_| bad("precision is not an integer"))?;
                let sc: u32 = scale.parse().map_err(|_| bad("scale is not a non-negative integer"))?;
                if p == 0 || p > 38 || sc > p {
                    return Err(Error::malformed(format!(
                        "field {name:?} has type {s:?}: precision must be 1 to 38 and scale no more than it"
                    ))
                    .clause("TYPE-3"));
                }
                Ok((format!("decimal({p}, {sc})"), None))
            }
            _ => Err(bad("not a type of the format")),
        },
    }
}

fn check_crs(crs: &str, name: &str) -> Result<()> {
    if crs.contains('{') || crs.contains('"') {
        return Err(Error::malformed(format!(
            "field {name:?} has an inline CRS definition; only an identifier is allowed"
        ))
        .clause("TYPE-21"));
    }
    Ok(())
}

/// Parses a type string or nested type object; `id` is the field that has it (for extended types).
pub fn type_from_json(value: &Value, id: i32, ext: &mut ExtTypes) -> Result<Type> {
    let mut holder = Map::from_iter([("id".to_string(), Value::from(id)), ("type".to_string(), value.clone())]);
    strip_slot(&mut holder, "id", "type", false, ext, "?", &mut Seen::new())?;
    serde_json::from_value(holder["type"].clone())
        .map_err(|e| Error::malformed(format!("type {value}: {e}")).clause("JSON-3"))
}

/// True type of a field as table metadata words it; nested types are spelled `struct<…>`, `list<…>`, `map<…>`.
pub fn type_name(field: &NestedField, ext: &ExtTypes) -> String {
    if let Some(e) = ext.of(field) {
        return e.as_str().to_string();
    }
    match field.field_type.as_ref() {
        Type::Struct(s) => {
            let inner: Vec<_> = s.fields().iter().map(|f| format!("{}: {}", f.name, type_name(f, ext))).collect();
            format!("struct<{}>", inner.join(", "))
        }
        Type::List(l) => format!("list<{}>", type_name(&l.element_field, ext)),
        Type::Map(m) => format!("map<{}, {}>", type_name(&m.key_field, ext), type_name(&m.value_field, ext)),
        Type::Primitive(PrimitiveType::Fixed(n)) => format!("fixed[{n}]"),
        Type::Primitive(p) => p.to_string(),
    }
}
