//! Partition and sort terms as text: `bucket(name, 16)`, `day(ts) desc nulls last`.

use iceberg::spec::{NullOrder, SortDirection, Transform};

use crate::{Error, Result};

/// A partition field: a transform of a column, by dotted name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTerm {
    /// Source column.
    pub column: String,
    /// Transform.
    pub transform: Transform,
}

/// Direction of a sort term.
pub type Direction = SortDirection;

/// A sort field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortTerm {
    /// What is sorted by.
    pub term: PartitionTerm,
    /// asc (default) or desc.
    pub direction: Direction,
    /// Nulls first by default when ascending, last when descending (SORT-*).
    pub nulls: NullOrder,
}

const ALLOWED: &str = "COLUMN, truncate(COLUMN, N), bucket(COLUMN, N), hour(COLUMN), day(COLUMN), month(COLUMN), \
                       year(COLUMN), void(COLUMN)";

impl PartitionTerm {
    /// Name of the partition field, as Java's builder names it.
    pub fn field_name(&self) -> String {
        let c = self.column.replace('.', "_");
        match self.transform {
            Transform::Bucket(_) => format!("{c}_bucket"),
            Transform::Truncate(_) => format!("{c}_trunc"),
            Transform::Hour => format!("{c}_hour"),
            Transform::Day => format!("{c}_day"),
            Transform::Month => format!("{c}_month"),
            Transform::Year => format!("{c}_year"),
            Transform::Void => format!("{c}_null"),
            _ => self.column.clone(),
        }
    }
}

/// Parses a partition term; `key` is what the error calls its key.
pub fn parse_partition_term(text: &str, key: &str) -> Result<PartitionTerm> {
    let bad = || Error::invalid(format!("key `{key}`: {text:?} is no transform; allowed: {ALLOWED}"));
    let text_trimmed = text.trim();
    let Some((name, rest)) = text_trimmed.split_once('(') else {
        return column(text_trimmed)
            .map(|column| PartitionTerm { column, transform: Transform::Identity })
            .ok_or_else(bad);
    };
    let args = rest.strip_suffix(')').ok_or_else(bad)?;
    let args: Vec<&str> = args.split(',').map(str::trim).collect();
    let name = name.trim().to_ascii_lowercase();
    let transform = match (name.as_str(), args.as_slice()) {
        ("bucket", [_, n]) => Transform::Bucket(width(n).ok_or_else(bad)?),
        ("truncate", [_, n]) => Transform::Truncate(width(n).ok_or_else(bad)?),
        ("hour", [_]) => Transform::Hour,
        ("day", [_]) => Transform::Day,
        ("month", [_]) => Transform::Month,
        ("year", [_]) => Transform::Year,
        ("void", [_]) => Transform::Void,
        _ => return Err(bad()),
    };
    Ok(PartitionTerm { column: column(args[0]).ok_or_else(bad)?, transform })
}

/// Parses `TERM [asc|desc] [nulls first|last]`.
pub fn parse_sort_term(text: &str, key: &str) -> Result<SortTerm> {
    let bad = || {
        Error::invalid(format!(
            "key `{key}`: {text:?} is no sort field; allowed: TERM [asc|desc] [nulls first|nulls last] with TERM one of {ALLOWED}"
        ))
    };
    // the term may hold blanks inside its parentheses
    let end = match text.find(')') {
        Some(i) => i + 1,
        None => text
            .trim_start()
            .find(char::is_whitespace)
            .map_or(text.len(), |i| i + (text.len() - text.trim_start().len())),
    };
    let (term, rest) = text.split_at(end);
    let term = parse_partition_term(term, key).map_err(|_| bad())?;
    let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
    let mut words: &[String] = &words;
    let direction = match words.first().map(String::as_str) {
        Some("asc") => Some(SortDirection::Ascending),
        Some("desc") => Some(SortDirection::Descending),
        _ => None,
    };
    if direction.is_some() {
        words = &words[1..];
    }
    let direction = direction.unwrap_or(SortDirection::Ascending);
    let nulls = match words {
        [] if direction == SortDirection::Ascending => NullOrder::First,
        [] => NullOrder::Last,
        [n, w] if n == "nulls" && w == "first" => NullOrder::First,
        [n, w] if n == "nulls" && w == "last" => NullOrder::Last,
        _ => return Err(bad()),
    };
    Ok(SortTerm { term, direction, nulls })
}

fn width(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| *n > 0 && *n <= i32::MAX as u32)
}

fn column(text: &str) -> Option<String> {
    let ok = !text.is_empty()
        && text
            .split('.')
            .all(|p| !p.is_empty() && p.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-' || c == '$'));
    ok.then(|| text.to_string())
}
