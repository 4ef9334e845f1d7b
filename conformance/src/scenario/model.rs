//! The oracle: a plain list of rows that each step changes by key, and the value every reader must see after it.

use serde_json::{Map, Value, json};

use super::{Op, Scenario, Step};
use crate::value::{Column, Row, digest, f32_text, f64_text};

/// The rows a table must hold after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Rows in no order.
    pub rows: Vec<Row>,
    /// [`digest`] of the rows.
    pub digest: String,
}

/// Expected state after each step; the error names the step (from 1) and what is wrong with its expectation.
pub fn expected_states(s: &Scenario) -> Result<Vec<Expected>, String> {
    let mut now = Expected { columns: parse_columns(&s.columns)?, rows: Vec::new(), digest: String::new() };
    let mut out: Vec<Expected> = Vec::with_capacity(s.steps.len());
    for (i, step) in s.steps.iter().enumerate() {
        now = advance(now, step).map_err(|e| format!("step {}: {e}", i + 1))?;
        let same = out.last().filter(|e| e.rows == now.rows);
        now.digest = same.map_or_else(|| digest(&now.rows), |e| e.digest.clone());
        out.push(now.clone());
    }
    Ok(out)
}

/// `name type` texts as columns.
pub(crate) fn parse_columns(texts: &[String]) -> Result<Vec<Column>, String> {
    texts
        .iter()
        .map(|t| {
            let (name, ty) =
                t.trim().split_once(' ').ok_or_else(|| format!("a column is \"name type\", found {t:?}"))?;
            let ty: String = ty.split_whitespace().collect();
            Ok(Column(name.into(), ty))
        })
        .collect()
}

fn advance(mut now: Expected, step: &Step) -> Result<Expected, String> {
    for op in &step.model {
        apply(&mut now, op)?;
    }
    if let Some(texts) = &step.columns {
        let columns = parse_columns(texts)?;
        let from: Vec<Option<usize>> = columns.iter().map(|c| now.columns.iter().position(|o| o.0 == c.0)).collect();
        now.rows = now
            .rows
            .into_iter()
            .map(|r| from.iter().map(|i| i.map_or(Value::Null, |i| r[i].clone())).collect())
            .collect();
        now.columns = columns;
    }
    if let Some(rows) = &step.rows {
        now.rows = rows.iter().map(|r| encode_row(&now.columns, r, None)).collect::<Result<_, _>>()?;
    }
    Ok(now)
}

fn apply(now: &mut Expected, op: &Op) -> Result<(), String> {
    if let Some(rows) = &op.insert {
        for r in rows {
            now.rows.push(encode_row(&now.columns, r, None)?);
        }
    } else if let Some(keys) = &op.fill {
        let pattern = op.row.as_ref().ok_or("fill needs row = [...]")?;
        for k in keys.iter() {
            now.rows.push(encode_row(&now.columns, pattern, Some(k))?);
        }
    } else if let Some(keys) = &op.delete {
        now.rows.retain(|r| !key_of(r).is_some_and(|k| keys.contains(k)));
    } else if let Some(keys) = &op.update {
        let set = op.set.as_ref().ok_or("update needs set = {...}")?;
        for r in now.rows.iter_mut().filter(|r| key_of(r).is_some_and(|k| keys.contains(k))) {
            for (name, v) in set {
                let i = now.columns.iter().position(|c| c.0 == *name).ok_or_else(|| format!("no column {name}"))?;
                r[i] = encode(&now.columns[i].1, v)?;
            }
        }
    } else if op.clear == Some(true) {
        now.rows.clear();
    } else if let Some(names) = &op.rename {
        for (old, new) in names {
            let c = now.columns.iter_mut().find(|c| c.0 == *old).ok_or_else(|| format!("no column {old}"))?;
            c.0 = new.clone();
        }
    } else {
        return Err(
            "a model operation is one of insert, fill with row, delete, update with set, clear = true, rename".into()
        );
    }
    Ok(())
}

fn key_of(r: &Row) -> Option<i64> {
    r.first().and_then(Value::as_i64)
}

/// A row as written in a scenario, in the protocol's form; `"$"` stands for `key`.
pub(crate) fn encode_row(columns: &[Column], row: &[toml::Value], key: Option<i64>) -> Result<Row, String> {
    if row.len() != columns.len() {
        return Err(format!("a row has {} values, the table has {} columns", row.len(), columns.len()));
    }
    row.iter()
        .zip(columns)
        .map(|(v, c)| match (v, key) {
            (toml::Value::String(s), Some(k)) if s == "$" => {
                Ok(if c.1 == "string" { json!(k.to_string()) } else { json!(k) })
            }
            _ => encode(&c.1, v).map_err(|e| format!("column {}: {e}", c.0)),
        })
        .collect()
}

/// A TOML value in the protocol's form for an Iceberg type. `"null"` as `{ null = true }`; strings are taken as they are.
fn encode(ty: &str, v: &toml::Value) -> Result<Value, String> {
    use toml::Value as T;
    if let T::Table(t) = v
        && t.len() == 1
        && t.contains_key("null")
    {
        return Ok(Value::Null);
    }
    let wrong = || format!("{v} is not a value of {ty}");
    Ok(match (ty, v) {
        ("boolean", T::Boolean(b)) => json!(b),
        ("int" | "long", T::Integer(i)) => json!(i),
        ("float", T::Float(f)) => json!(f32_text(*f as f32)),
        ("float", T::Integer(i)) => json!(f32_text(*i as f32)),
        ("double", T::Float(f)) => json!(f64_text(*f)),
        ("double", T::Integer(i)) => json!(f64_text(*i as f64)),
        (_, T::String(s)) if !is_nested(ty) && !matches!(ty, "boolean" | "int" | "long" | "float" | "double") => {
            json!(s)
        }
        (_, T::Array(items)) if ty.starts_with("list<") => {
            let item = &ty[5..ty.len() - 1];
            Value::Array(items.iter().map(|i| encode(item, i)).collect::<Result<_, _>>()?)
        }
        (_, T::Array(pairs)) if ty.starts_with("map<") => {
            let kv = split_types(&ty[4..ty.len() - 1]);
            let mut out = Vec::with_capacity(pairs.len());
            for p in pairs {
                let T::Array(p) = p else { return Err(wrong()) };
                let [k, v] = p.as_slice() else {
                    return Err(wrong());
                };
                out.push(json!([encode(kv[0], k)?, encode(kv[1], v)?]));
            }
            out.sort_by_key(|p| p[0].to_string());
            Value::Array(out)
        }
        (_, T::Array(items)) if ty.starts_with("struct<") => {
            let fields = split_types(&ty[7..ty.len() - 1]);
            if fields.len() != items.len() {
                return Err(wrong());
            }
            let typed = fields.iter().zip(items).map(|(f, i)| encode(f.split_once(':').map_or(f, |x| x.1), i));
            Value::Array(typed.collect::<Result<_, _>>()?)
        }
        _ => return Err(wrong()),
    })
}

fn is_nested(ty: &str) -> bool {
    ["list<", "map<", "struct<"].iter().any(|p| ty.starts_with(p))
}

/// Splits `a,b<c,d>` at its outer commas.
fn split_types(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (i, ch) in text.char_indices() {
        match ch {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(text[start..].trim());
    out
}

/// A query's expected rows without known types: integers, text and booleans as they are, floats as double bits.
pub(crate) fn encode_untyped(row: &[toml::Value]) -> Row {
    row.iter().map(untyped).collect()
}

fn untyped(v: &toml::Value) -> Value {
    use toml::Value as T;
    match v {
        T::Integer(i) => json!(i),
        T::Boolean(b) => json!(b),
        T::Float(f) => json!(f64_text(*f)),
        T::Table(t) if t.len() == 1 && t.contains_key("null") => Value::Null,
        T::Array(a) => Value::Array(a.iter().map(untyped).collect()),
        T::Table(t) => Value::Object(t.iter().map(|(k, v)| (k.clone(), untyped(v))).collect::<Map<_, _>>()),
        T::String(s) => json!(s),
        T::Datetime(d) => json!(d.to_string()),
    }
}
