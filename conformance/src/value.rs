//! Typed cell values as every driver states them, and the digest by which large results are compared.
//!
//! A value is JSON whose form is fixed by the column's Iceberg type: integers as JSON integers, floats as the hex of their
//! bits (all NaNs are one), decimals as text with their scale, dates and timestamps as ISO text with their precision and a
//! `Z` when zoned, binary as hex, lists as arrays, structs as arrays in field order, maps as arrays of pairs sorted by key.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A row in the protocol's form.
pub type Row = Vec<Value>;

/// A column's name and Iceberg type text (`int`, `decimal(9,2)`, `list<string>`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Column(pub String, pub String);

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// A result set: all rows when they are few, always their count and digest.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rows {
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub count: u64,
    /// [`digest`] of the rows: 16 hex digits, independent of their order.
    pub digest: String,
    /// The rows, unless there are more than the request's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Row>>,
}

impl Rows {
    /// A result of all `rows`, which are kept when there are at most `limit`.
    pub fn new(columns: Vec<Column>, rows: Vec<Row>, limit: usize) -> Self {
        let digest = digest(&rows);
        let count = rows.len() as u64;
        Self { columns, count, digest, rows: (rows.len() <= limit).then_some(rows) }
    }
}

/// Sum modulo 2^64 of the first eight bytes (big-endian) of each row's SHA-256, the row being compact JSON in UTF-8.
/// Multiplicity counts, order does not.
pub fn digest(rows: &[Row]) -> String {
    let total = rows.iter().fold(0u64, |sum, row| {
        let text = serde_json::to_string(row).unwrap_or_default();
        let hash = Sha256::digest(text.as_bytes());
        let mut head = [0u8; 8];
        head.copy_from_slice(&hash[..8]);
        sum.wrapping_add(u64::from_be_bytes(head))
    });
    format!("{total:016x}")
}

/// Float bits as the protocol writes them.
pub fn f32_text(v: f32) -> String {
    if v.is_nan() { "7fc00000".into() } else { format!("{:08x}", v.to_bits()) }
}

/// Double bits as the protocol writes them.
pub fn f64_text(v: f64) -> String {
    if v.is_nan() { "7ff8000000000000".into() } else { format!("{:016x}", v.to_bits()) }
}

/// A row for people: values by column, floats decoded.
pub fn display_row(columns: &[Column], row: &Row) -> String {
    let cells: Vec<String> =
        row.iter().enumerate().map(|(i, v)| display_value(columns.get(i).map_or("", |c| c.1.as_str()), v)).collect();
    format!("({})", cells.join(", "))
}

fn display_value(ty: &str, v: &Value) -> String {
    match (ty, v) {
        ("float", Value::String(s)) => u32::from_str_radix(s, 16).map_or(s.clone(), |b| f32::from_bits(b).to_string()),
        ("double", Value::String(s)) => u64::from_str_radix(s, 16).map_or(s.clone(), |b| f64::from_bits(b).to_string()),
        (_, Value::String(s)) if ty == "string" => format!("'{s}'"),
        (_, Value::String(s)) => s.clone(),
        (_, v) => v.to_string(),
    }
}

#[cfg(test)]
mod tests;
