//! The text of JSON rows, taken apart without reading numbers: each value stays as it is written.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// Characters of a value that a message shows.
const SHOWN: usize = 80;

/// A text of rows, and what messages call it.
pub(super) struct Text<'t> {
    text: &'t str,
    name: &'t str,
}

/// A value of a row, as it is written.
#[derive(Debug, Clone)]
pub(super) struct Cell<'t> {
    /// First byte of the row.
    pub(super) at: usize,
    /// The value; `None` = null, or not there.
    pub(super) value: Option<Json<'t>>,
    /// Whether the object has its key.
    pub(super) given: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Json<'t> {
    /// JSON text.
    Raw(&'t str),
    /// Key of an object that is a map.
    Key(String),
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str, name: &'t str) -> Self {
        // a byte order mark says nothing in UTF-8
        Self { text: text.strip_prefix('\u{feff}').unwrap_or(text), name }
    }

    /// The rows, each an object.
    pub(super) fn rows(&self) -> Result<Vec<Cell<'t>>> {
        let mut out = Vec::new();
        for row in serde_json::Deserializer::from_str(self.text).into_iter::<&'t RawValue>() {
            let row = row.map_err(|e| {
                let message = format!("rows are JSON objects, one a line: {}", cause(&e));
                Error::invalid(message).at(format!("{} line {}", self.name, e.line()))
            })?;
            // a part of the text lies in it
            let at = row.get().as_ptr() as usize - self.text.as_ptr() as usize;
            let cell = Cell { at, value: Some(Json::Raw(row.get())), given: true };
            if !cell.starts_with('{') {
                return Err(self.error(at, &format!("rows are JSON objects, one a line; found {}", cell.shown())));
            }
            out.push(cell);
        }
        Ok(out)
    }

    /// An error in the row that begins at a byte.
    pub(super) fn error(&self, at: usize, message: &str) -> Error {
        let line = self.text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
        Error::invalid(message).at(format!("{} line {line}", self.name))
    }
}

/// What `serde_json` says, without a place: that of a part of the text would mislead.
fn cause(e: &serde_json::Error) -> String {
    let mut text = e.to_string();
    if let Some(place) = text.rfind(" at line ") {
        text.truncate(place);
    }
    text
}

impl<'t> Cell<'t> {
    fn new(at: usize, raw: &'t str) -> Self {
        Self { at, value: (raw != "null").then_some(Json::Raw(raw)), given: true }
    }

    pub(super) fn key(at: usize, key: String) -> Self {
        Self { at, value: Some(Json::Key(key)), given: true }
    }

    /// Nothing, in the same row.
    pub(super) fn without(&self) -> Self {
        Self { at: self.at, value: None, given: false }
    }

    pub(super) fn starts_with(&self, c: char) -> bool {
        matches!(&self.value, Some(Json::Raw(r)) if r.starts_with(c))
    }

    /// The value for a message.
    pub(super) fn shown(&self) -> String {
        let text = match &self.value {
            None => "null",
            Some(Json::Raw(r)) => r,
            Some(Json::Key(k)) => k,
        };
        let short: String = text.chars().take(SHOWN).collect();
        if short.len() < text.len() { format!("{short}…") } else { short }
    }
}

impl Json<'_> {
    /// Text of a JSON number, or a key, which the caller checks.
    pub(super) fn number(&self) -> Option<&str> {
        match self {
            Json::Raw(r) if r.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Some(r),
            Json::Raw(_) => None,
            Json::Key(k) => Some(k),
        }
    }

    /// A JSON string, unescaped, or a key.
    pub(super) fn string(&self) -> Option<Cow<'_, str>> {
        match self {
            Json::Raw(r) if r.starts_with('"') => serde_json::from_str::<String>(r).ok().map(Cow::Owned),
            Json::Raw(_) => None,
            Json::Key(k) => Some(Cow::Borrowed(k)),
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Option<bool> {
        match self {
            Json::Raw(r) => r.parse().ok(),
            Json::Key(k) => k.parse().ok(),
        }
    }
}

/// Members of an object in their order; a key that comes twice is an error.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let (mut out, mut seen) = (Vec::new(), HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("the key {key:?} comes twice in one object")));
                    }
                    out.push((key, value));
                }
                Ok(Members(out))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Members of one object; none of a null.
pub(super) fn object<'t>(text: &Text<'_>, path: &str, cell: &Cell<'t>) -> Result<Vec<(String, Cell<'t>)>> {
    let Some(Json::Raw(raw)) = &cell.value else {
        return Ok(Vec::new());
    };
    let Members(all) = serde_json::from_str(raw).map_err(|e| {
        let path = path.trim_end_matches('.');
        let place = if path.is_empty() { String::new() } else { format!("column {path:?}: ") };
        text.error(cell.at, &format!("{place}{}", cause(&e)))
    })?;
    Ok(all.into_iter().map(|(k, v)| (k, Cell::new(cell.at, v.get()))).collect())
}

/// Members of many objects by name, in the order in which they first come; each has a cell an object. `prefix` = what stands
/// before their names in messages.
pub(super) fn members<'t>(text: &Text<'_>, prefix: &str, cells: &[Cell<'t>]) -> Result<Vec<(String, Vec<Cell<'t>>)>> {
    let mut out: Vec<(String, Vec<Cell<'t>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (i, cell) in cells.iter().enumerate() {
        for (name, value) in object(text, prefix, cell)? {
            let place = *places.entry(name).or_insert_with_key(|name| {
                out.push((name.clone(), cells.iter().map(Cell::without).collect()));
                out.len() - 1
            });
            out[place].1[i] = value;
        }
    }
    Ok(out)
}

/// Elements of an array; `None` when the value is none.
pub(super) fn elements<'t>(text: &Text<'_>, cell: &Cell<'t>) -> Result<Option<Vec<Cell<'t>>>> {
    let Some(Json::Raw(raw)) = cell.value else {
        return Ok(None);
    };
    if !raw.starts_with('[') {
        return Ok(None);
    }
    let all: Vec<&'t RawValue> = serde_json::from_str(raw).map_err(|e| text.error(cell.at, &cause(&e)))?;
    Ok(Some(all.into_iter().map(|v| Cell::new(cell.at, v.get())).collect()))
}
