//! One map of the configuration: typed access that remembers which keys are known, so that the rest can be refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// A map of the configuration. Keys are taken out one by one; [`Section::finish`] refuses what is left.
#[derive(Debug, Clone)]
pub struct Section {
    place: String,
    values: Map<String, Value>,
    known: Vec<String>,
    ignored: Vec<&'static str>,
}

/// Events that the aliases of a document may repeat: anchors that multiply would keep the parser busy for many seconds.
const REPLAYED: usize = 10_000;

impl Section {
    /// Parses YAML; JSON is YAML. Errors: bad syntax (with line), a key that comes twice, a document that is no map.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        // YAML 1.2: a column may be called `n` or `on`
        let options = serde_saphyr::options! {
            strict_booleans: true,
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED },
        };
        let value: Value = serde_saphyr::from_str_with_options(text, options)
            .map_err(|e| Error::invalid(format!("no valid YAML or JSON: {e}")).at(name))?;
        match value {
            Value::Object(values) => Ok(Self::new(name, values)),
            Value::Null => Ok(Self::empty(name)),
            other => Err(Error::invalid(format!("found {}; a map of keys is required", kind(&other))).at(name)),
        }
    }

    /// An empty map.
    pub fn empty(place: &str) -> Self {
        Self::new(place, Map::new())
    }

    fn new(place: &str, values: Map<String, Value>) -> Self {
        Self { place: place.into(), values, known: Vec::new(), ignored: Vec::new() }
    }

    /// What messages call it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether a key was given (and not yet taken).
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Makes a key known that may be left untaken.
    pub fn know(&mut self, key: &str) {
        self.known.push(key.to_string());
    }

    /// Keys that were given but have no effect in floe.
    pub fn ignored(&self) -> &[&'static str] {
        &self.ignored
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.known.push(key.to_string());
        self.values.remove(key).filter(|v| !v.is_null())
    }

    /// The error for a bad value: names key, value and what is allowed.
    pub fn bad(&self, key: &str, found: &str, allowed: &str) -> Error {
        Error::invalid(format!("key `{key}` is {found:?}; allowed: {allowed}")).at(&self.place)
    }

    fn wrong_type(&self, key: &str, found: &Value, allowed: &str) -> Error {
        Error::invalid(format!("key `{key}` is {}; allowed: {allowed}", kind(found))).at(&self.place)
    }

    /// Refuses two keys that exclude each other.
    pub fn at_most_one(&self, keys: &[&str]) -> Result<()> {
        let given: Vec<_> = keys.iter().filter(|k| self.values.get(**k).is_some_and(|v| !v.is_null())).collect();
        match given[..] {
            [a, b, ..] => Err(Error::invalid(format!(
                "keys `{a}` and `{b}` exclude each other; at most one of {} is allowed",
                keys.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ")
            ))
            .at(&self.place)),
            _ => Ok(()),
        }
    }

    /// A text; numbers and booleans are taken as written.
    pub fn string(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => match scalar(&v) {
                Some(s) if !s.trim().is_empty() => Ok(Some(s)),
                Some(s) => Err(self.bad(key, &s, "a text that is not empty")),
                None => Err(self.wrong_type(key, &v, "a text")),
            },
        }
    }

    /// One of a few words; case does not matter.
    pub fn choice<T: Copy>(&mut self, key: &str, options: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.string(key)? else {
            return Ok(None);
        };
        match options.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text)) {
            Some((_, v)) => Ok(Some(*v)),
            None => {
                let names: Vec<_> = options.iter().map(|(n, _)| *n).collect();
                Err(self.bad(key, &text, &names.join(", ")))
            }
        }
    }

    /// true or false.
    pub fn boolean(&mut self, key: &str) -> Result<Option<bool>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(b)),
            Some(Value::String(s)) if s.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(s)) if s.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(v) => Err(self.bad(key, &shown(&v), "true, false")),
        }
    }

    /// An integer of at least `min`; a text of digits is one too.
    pub fn integer(&mut self, key: &str, min: i64) -> Result<Option<i64>> {
        let Some(v) = self.take(key) else {
            return Ok(None);
        };
        let allowed = if min == i64::MIN { "an integer".to_string() } else { format!("an integer of at least {min}") };
        let n = match &v {
            Value::Number(n) => n.as_i64(),
            Value::String(s) => s.trim().parse().ok(),
            _ => None,
        };
        match n {
            Some(n) if n >= min => Ok(Some(n)),
            _ => Err(self.bad(key, &shown(&v), &allowed)),
        }
    }

    /// A list of texts; one text alone is refused, so that a forgotten bracket is not a column of that name.
    pub fn string_list(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let mut out = Vec::with_capacity(items.len());
                for v in items {
                    match v {
                        Value::String(s) if !s.trim().is_empty() => out.push(s),
                        other => return Err(self.bad(key, &shown(&other), "a list of texts")),
                    }
                }
                Ok(Some(out))
            }
            Some(v) => Err(self.wrong_type(key, &v, "a list of texts")),
        }
    }

    /// A map of texts.
    pub fn string_map(&mut self, key: &str) -> Result<Option<BTreeMap<String, String>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(m)) => {
                let mut out = BTreeMap::new();
                for (k, v) in m {
                    let Some(s) = scalar(&v) else {
                        return Err(self.wrong_type(&format!("{key}.{k}"), &v, "a text, number or boolean"));
                    };
                    out.insert(k, s);
                }
                Ok(Some(out))
            }
            Some(v) => Err(self.wrong_type(key, &v, "a map of texts")),
        }
    }

    /// A map of keys.
    pub fn map(&mut self, key: &str) -> Result<Option<Section>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(m)) => Ok(Some(Section::new(key, m))),
            Some(v) => Err(self.wrong_type(key, &v, "a map of keys")),
        }
    }

    /// A key that floe takes and that has no effect; the value's form is still checked by `check`.
    pub fn no_effect<T>(
        &mut self,
        key: &'static str,
        check: impl FnOnce(&mut Self, &str) -> Result<Option<T>>,
    ) -> Result<()> {
        if check(self, key)?.is_some() {
            self.ignored.push(key);
        }
        Ok(())
    }

    /// Refuses keys that nobody took.
    pub fn finish(&self) -> Result<()> {
        let Some(key) = self.values.keys().find(|k| !self.known.contains(k)) else {
            return Ok(());
        };
        let mut known: Vec<_> = self.known.iter().map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        Err(Error::invalid(format!("unknown key `{key}`; allowed: {}", known.join(", "))).at(&self.place))
    }
}

fn scalar(v: &Value) -> Option<String> {
    match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

fn shown(v: &Value) -> String {
    scalar(v).unwrap_or_else(|| v.to_string())
}

fn kind(v: &Value) -> &'static str {
    match v {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
