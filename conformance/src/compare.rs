//! Typed and exact comparison of what a reader returned with what the model says.

use std::collections::HashMap;

use serde_json::Value;

use crate::scenario::{Changes, Expected, Query, encode_row, encode_untyped, parse_columns};
use crate::value::{Column, Row, Rows, digest, display_row};

/// What was expected and what was found, side by side, and the difference in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The difference in words.
    pub reason: String,
    /// Expected, for people.
    pub expected: String,
    /// Found, for people.
    pub got: String,
}

/// Rows shown on either side of a difference.
const SHOWN: usize = 8;

/// Compares a whole-table scan with the model's state; row order is ignored, multiplicity is not.
pub fn state(want: &Expected, got: &Rows) -> Option<Difference> {
    columns(&want.columns, &got.columns).or_else(|| unordered(&want.columns, &want.rows, &want.digest, got))
}

/// `rows` as if the writer had made no `extra` snapshots of its own, such as an empty one with the table: sequence numbers
/// count from the first snapshot that the scenario knows of (LINEAGE-4).
pub fn renumbered(rows: Rows, extra: i64) -> Rows {
    let numbers = |c: &Column| c.0 == "_last_updated_sequence_number";
    let at: Vec<bool> = rows.columns.iter().map(numbers).collect();
    match rows.rows {
        Some(kept) if extra != 0 && at.contains(&true) => {
            let earlier = |(v, number): (Value, &bool)| match v.as_i64().filter(|_| *number) {
                Some(n) => Value::from(n - extra),
                None => v,
            };
            let kept: Vec<Row> = kept.into_iter().map(|r| r.into_iter().zip(&at).map(earlier).collect()).collect();
            let limit = kept.len();
            Rows::new(rows.columns, kept, limit)
        }
        kept => Rows { rows: kept, ..rows },
    }
}

/// Compares a query's answer with the one written in the scenario.
pub fn query(want: &Query, got: &Rows) -> Option<Difference> {
    let typed = match &want.columns {
        Some(texts) => match parse_columns(texts) {
            Ok(cols) => Some(cols),
            Err(e) => {
                return Some(Difference { reason: e, expected: String::new(), got: String::new() });
            }
        },
        None => None,
    };
    if let Some(cols) = &typed
        && let Some(d) = columns(cols, &got.columns)
    {
        return Some(d);
    }
    let cols = typed.as_ref().unwrap_or(&got.columns);
    let rows: Result<Vec<Row>, String> = want
        .rows
        .iter()
        .map(|r| if typed.is_some() { encode_row(cols, r, None) } else { Ok(encode_untyped(r)) })
        .collect();
    let rows = match rows {
        Ok(r) => r,
        Err(e) => {
            return Some(Difference { reason: e, expected: String::new(), got: String::new() });
        }
    };
    match (&got.rows, want.ordered) {
        (Some(found), true) if *found != rows => Some(Difference {
            reason: if digest(found) == digest(&rows) {
                "right rows in the wrong order".into()
            } else {
                "rows differ".into()
            },
            expected: show(cols, &rows),
            got: show(cols, found),
        }),
        (Some(_), true) => None,
        _ => unordered(cols, &rows, &digest(&rows), got),
    }
}

/// Compares the changes a reader found with those written in the scenario: change type and the table's columns, by name.
pub fn changes(want: &Changes, table: &[Column], got: &Rows) -> Option<Difference> {
    let plain = |reason: String| Difference { reason, expected: String::new(), got: String::new() };
    let mut cols = vec![Column("_change_type".into(), "string".into())];
    cols.extend_from_slice(table);
    let rows: Result<Vec<Row>, String> = want.rows.iter().map(|r| encode_row(&cols, r, None)).collect();
    let rows = match rows {
        Ok(r) => r,
        Err(e) => return Some(plain(e)),
    };
    let Some(found) = &got.rows else {
        return Some(plain(format!("{} changes expected, {} found", rows.len(), got.count)));
    };
    let mut places = Vec::with_capacity(cols.len());
    for c in &cols {
        match got.columns.iter().position(|g| g == c) {
            Some(i) => places.push(i),
            None => return Some(plain(format!("the changes have no column {c}"))),
        }
    }
    let picked: Vec<Row> = found.iter().map(|r| places.iter().map(|i| r[*i].clone()).collect()).collect();
    let limit = picked.len();
    unordered(&cols, &rows, &digest(&rows), &Rows::new(cols.clone(), picked, limit))
}

fn columns(want: &[Column], got: &[Column]) -> Option<Difference> {
    if want == got {
        return None;
    }
    let text = |c: &[Column]| c.iter().map(Column::to_string).collect::<Vec<_>>().join(", ");
    let same_names = want.iter().map(|c| &c.0).eq(got.iter().map(|c| &c.0));
    let reason = if same_names {
        let wrong: Vec<String> = want
            .iter()
            .zip(got)
            .filter(|(w, g)| w != g)
            .map(|(w, g)| format!("{} is {} and was read as {}", w.0, w.1, g.1))
            .collect();
        format!("column types differ: {}", wrong.join(", "))
    } else {
        "columns differ".into()
    };
    Some(Difference { reason, expected: text(want), got: text(got) })
}

fn unordered(cols: &[Column], want: &[Row], want_digest: &str, got: &Rows) -> Option<Difference> {
    if got.count == want.len() as u64 && got.digest == want_digest {
        return None;
    }
    let Some(found) = &got.rows else {
        let reason = if got.count == want.len() as u64 {
            format!("{} rows as expected, but their contents differ", got.count)
        } else {
            format!("{} rows expected, {} found", want.len(), got.count)
        };
        let expected = format!("{} rows, digest {want_digest}", want.len());
        return Some(Difference { reason, expected, got: format!("{} rows, digest {}", got.count, got.digest) });
    };
    let (missing, extra) = multiset_difference(want, found);
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("{} missing, e.g. {}", rows_word(missing.len()), display_row(cols, &missing[0])));
    }
    if !extra.is_empty() {
        parts.push(format!("{} too many, e.g. {}", rows_word(extra.len()), display_row(cols, &extra[0])));
    }
    Some(Difference { reason: parts.join("; "), expected: show(cols, want), got: show(cols, found) })
}

fn rows_word(n: usize) -> String {
    if n == 1 { "1 row".into() } else { format!("{n} rows") }
}

/// Rows of `a` that `b` lacks and rows of `b` that `a` lacks, with multiplicity.
fn multiset_difference(a: &[Row], b: &[Row]) -> (Vec<Row>, Vec<Row>) {
    let mut balance: HashMap<String, i64> = HashMap::new();
    let key = |r: &Row| serde_json::to_string(r).unwrap_or_default();
    for r in b {
        *balance.entry(key(r)).or_default() += 1;
    }
    let mut missing = Vec::new();
    for r in a {
        let n = balance.entry(key(r)).or_default();
        *n -= 1;
        if *n < 0 {
            missing.push(r.clone());
        }
    }
    let mut extra = Vec::new();
    for r in b.iter().rev() {
        let n = balance.entry(key(r)).or_default();
        if *n > 0 {
            *n -= 1;
            extra.push(r.clone());
        }
    }
    (missing, extra)
}

/// The first rows in a stable order.
fn show(cols: &[Column], rows: &[Row]) -> String {
    let mut lines: Vec<(Option<i64>, String)> =
        rows.iter().map(|r| (r.first().and_then(serde_json::Value::as_i64), display_row(cols, r))).collect();
    lines.sort();
    let more = lines.len().saturating_sub(SHOWN);
    let mut out: Vec<String> = lines.into_iter().take(SHOWN).map(|l| l.1).collect();
    if more > 0 {
        out.push(format!("... and {more} more"));
    }
    if out.is_empty() { "no rows".into() } else { out.join("\n") }
}

#[cfg(test)]
mod tests;
