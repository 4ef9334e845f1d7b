//! Tables named by the rows that go to them: `ds.my_{col1}_{col2.nested}_table`.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::DataType;
use iceberg::spec::{Schema, Type};

use super::columns;
use super::config::{TableTemplate, TemplatePart};
use crate::{Error, Result};

impl TableTemplate {
    /// Checks that the columns of the template are plain columns of a schema.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        for part in &self.parts {
            let TemplatePart::Field(path) = part else { continue };
            match schema.field_by_name(path).map(|f| f.field_type.as_ref()) {
                Some(Type::Primitive(_)) => {}
                Some(_) => return Err(nested(path)),
                None => return Err(columns::unknown(path, schema).at("table")),
            }
        }
        Ok(())
    }

    /// The rows by the table they go to. `first` = number of the batch's first row, for messages.
    ///
    /// Errors: a missing or nested column, a value that is null or no part of a name.
    pub(super) fn split(&self, rows: &RecordBatch, first: usize) -> Result<Vec<(String, RecordBatch)>> {
        if let Some(name) = self.fixed() {
            return Ok(vec![(name.to_string(), rows.clone())]);
        }
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (i, name) in self.names(rows, first)?.into_iter().enumerate() {
            let i = u32::try_from(i).map_err(|_| Error::invalid("more rows than one batch takes"))?;
            groups.entry(name).or_default().push(i);
        }
        groups.into_iter().map(|(name, at)| Ok((name, take_record_batch(rows, &UInt32Array::from(at))?))).collect()
    }

    /// Name of the table of each row.
    pub(super) fn names(&self, rows: &RecordBatch, first: usize) -> Result<Vec<String>> {
        let mut out = vec![String::new(); rows.num_rows()];
        for part in &self.parts {
            match part {
                TemplatePart::Text(t) => out.iter_mut().for_each(|o| o.push_str(t)),
                TemplatePart::Field(path) => {
                    let texts = texts(rows, path)?;
                    for (i, o) in out.iter_mut().enumerate() {
                        if texts.is_null(i) || texts.value(i).is_empty() || texts.value(i).contains(['.', '/', '\\']) {
                            let found =
                                if texts.is_null(i) { "null".to_string() } else { format!("{:?}", texts.value(i)) };
                            return Err(Error::invalid(format!(
                                "row {}: column {path} is {found}; a table's name needs a text without dots and slashes",
                                first + i
                            ))
                            .at("table"));
                        }
                        o.push_str(texts.value(i));
                    }
                }
            }
        }
        Ok(out)
    }
}

fn texts(rows: &RecordBatch, path: &str) -> Result<StringArray> {
    let mut names = path.split('.');
    let mut column: Option<ArrayRef> = names.next().and_then(|n| rows.column_by_name(n).cloned());
    for n in names {
        let Some(c) = column else { break };
        column = match c.as_struct_opt() {
            Some(s) => match s.column_by_name(n) {
                // a field of a null struct is null, whatever is stored for it
                Some(f) if s.nulls().is_some() => Some(arrow::compute::nullif(f, &arrow::compute::is_null(s)?)?),
                f => f.cloned(),
            },
            None => None,
        };
    }
    let column = column.ok_or_else(|| no_column(rows, path, "table"))?;
    if column.data_type().is_nested() {
        return Err(nested(path));
    }
    Ok(cast(&column, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn nested(path: &str) -> Error {
    Error::invalid(format!("column {path} is nested; a plain value is needed for a table's name")).at("table")
}

/// The error for a column that rows lack; `key` = the key that names it.
pub(super) fn no_column(rows: &RecordBatch, name: &str, key: &'static str) -> Error {
    let names: Vec<_> = rows.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
    Error::invalid(format!("no column {name:?}; there are: {}", names.join(", "))).at(key)
}
