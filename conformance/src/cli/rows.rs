//! Rows on stdout: a table, JSON lines or CSV.

mod json;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use arrow::array::{Array, RecordBatch};
use clap::ValueEnum;
use floe_engine::sql::functions::spark_strings;

pub use json::json_row;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A drawn table, values as Spark prints them
    #[default]
    Table,
    /// One compact JSON object a row; decimals are strings, binary is hex, times are ISO-8601, NaN and infinities are strings
    Json,
    /// RFC 4180 with a header line; null is empty
    Csv,
}

/// Writes all rows; a table has its frame even without rows.
pub fn write(out: &mut dyn Write, batches: &[RecordBatch], columns: &[String], format: Format) -> io::Result<()> {
    match format {
        Format::Json => {
            for batch in batches {
                for row in 0..batch.num_rows() {
                    writeln!(out, "{}", json_row(batch, row))?;
                }
            }
            Ok(())
        }
        Format::Csv => {
            write_csv_line(out, columns.iter().map(|c| Some(c.as_str())))?;
            for cells in texts(batches)? {
                write_csv_line(out, cells.iter().map(Option::as_deref))?;
            }
            Ok(())
        }
        Format::Table => write_table(out, columns, &texts(batches)?),
    }
}

/// Every value as Spark prints it.
fn texts(batches: &[RecordBatch]) -> io::Result<Vec<Vec<Option<String>>>> {
    let mut out = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|c| spark_strings(c.as_ref()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::other)?;
        for row in 0..batch.num_rows() {
            out.push(columns.iter().map(|c| (!c.is_null(row)).then(|| c.value(row).to_string())).collect());
        }
    }
    Ok(out)
}

fn write_csv_line<'a>(out: &mut dyn Write, cells: impl Iterator<Item = Option<&'a str>>) -> io::Result<()> {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        match cell {
            None => {}
            // an empty string is quoted: it is not null
            Some(s) if s.is_empty() || s.contains(['"', ',', '\n', '\r']) => {
                write!(out, "\"{}\"", s.replace('"', "\"\""))?;
            }
            Some(s) => out.write_all(s.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// One line that a terminal prints as it is: line ends become spaces, other control characters `\xNN`.
fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\r' => out.push(' '),
            c if c.is_control() => out += &format!("\\x{:02x}", u32::from(c)),
            c => out.push(c),
        }
        out
    })
}

fn write_table(out: &mut dyn Write, columns: &[String], rows: &[Vec<Option<String>>]) -> io::Result<()> {
    let width = |s: &str| s.chars().count();
    let shown = |cell: &Option<String>| plain(cell.as_deref().unwrap_or("NULL"));
    let mut widths: Vec<usize> = columns.iter().map(|c| width(c)).collect();
    for row in rows {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(width(&shown(cell)));
        }
    }
    let rule: String = widths.iter().map(|w| format!("+{}", "-".repeat(w + 2))).collect::<String>() + "+";
    let line = |cells: Vec<String>| -> String {
        let body: String =
            cells.iter().zip(&widths).map(|(c, w)| format!("| {c}{} ", " ".repeat(w - width(c).min(*w)))).collect();
        body + "|"
    };
    writeln!(out, "{rule}\n{}\n{rule}", line(columns.to_vec()))?;
    for row in rows {
        writeln!(out, "{}", line(row.iter().map(shown).collect()))?;
    }
    writeln!(out, "{rule}")
}
