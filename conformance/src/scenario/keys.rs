//! Sets of integer keys, written short: `5`, `[1, 2]`, `"0..100"`, `"20..=29"`, `"1..50000 step 2"`, `["0..3", 7]`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Keys in the order written.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    text: toml::Value,
    spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: i64,
    /// Exclusive.
    to: i64,
    step: i64,
}

impl Keys {
    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.spans.iter().flat_map(|s| (s.from..s.to).step_by(s.step as usize))
    }

    /// Whether `key` is one of them.
    pub fn contains(&self, key: i64) -> bool {
        self.spans.iter().any(|s| key >= s.from && key < s.to && (key - s.from) % s.step == 0)
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = toml::Value::deserialize(d)?;
        let spans = match &text {
            toml::Value::Array(items) => items.iter().map(span).collect::<Result<_, _>>(),
            one => span(one).map(|s| vec![s]),
        }
        .map_err(D::Error::custom)?;
        Ok(Self { text, spans })
    }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(s)
    }
}

fn span(v: &toml::Value) -> Result<Span, String> {
    match v {
        toml::Value::Integer(i) => Ok(Span { from: *i, to: i + 1, step: 1 }),
        toml::Value::String(s) => {
            let bad = || format!("keys are an integer, \"a..b\", \"a..=b\", or either with \" step n\"; found {s:?}");
            let (range, step) =
                s.split_once(" step ").map_or((s.as_str(), Some(1)), |(r, n)| (r, n.trim().parse().ok()));
            let (from, to) = range.split_once("..").ok_or_else(bad)?;
            let (to, last) = to.strip_prefix('=').map_or((to, 0), |t| (t, 1));
            match (from.trim().parse::<i64>(), to.trim().parse::<i64>(), step) {
                (Ok(from), Ok(to), Some(step)) if step > 0 => Ok(Span { from, to: to + last, step }),
                _ => Err(bad()),
            }
        }
        other => Err(format!("keys are integers or ranges, found {other}")),
    }
}
