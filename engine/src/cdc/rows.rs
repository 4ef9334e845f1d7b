//! Rows of JSON text as Arrow columns. Nothing is lost on the way: a value that its column cannot hold exactly is refused,
//! with file, line, column, value and type. Only digits of a fraction may be rounded, in `float` and `double`, which hold no
//! other numbers than the nearest.

mod infer;
mod json;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, ListArray, MapArray, NullArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema};
use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, StructType, Type};

use self::json::{Cell, Text, elements, members};
use self::values::primitive;
use crate::types::{ExtType, ExtTypes, arrow_field, type_name};
use crate::{Error, Result, Table};

/// Rows of JSON text, one object a line. `name` = what messages call the text. `like` = the table to write to, when it is known
/// and there: its columns keep their types; others are inferred. `only` = the struct column whose fields are the table's row.
///
/// Values are taken as `floe io read` prints them: decimals as numbers or strings, dates, times and timestamps as ISO 8601
/// strings, binary as hex, `NaN` and infinities as strings.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] at the first value that is no JSON, comes twice in one object, or does not fit its column.
pub fn rows_from_json(text: &str, name: &str, like: Option<&Table>, only: Option<&str>) -> Result<Vec<RecordBatch>> {
    let schema = like.map(|t| t.metadata().current_schema().clone());
    let ext = like.map(|t| t.metadata().ext.clone()).unwrap_or_default();
    let fields = schema.as_ref().map(|s| s.as_struct().fields()).unwrap_or_default();
    rows_for(text, name, Known { fields, ext: &ext, only })
}

fn rows_for(text: &str, name: &str, known: Known<'_>) -> Result<Vec<RecordBatch>> {
    let text = Text::new(text, name);
    let rows = text.rows()?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let (fields, columns) = known.columns(&text, "", &rows)?;
    if fields.is_empty() {
        return Err(text.error(0, "the rows have no columns"));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(vec![RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)?])
}

/// What is known of the columns before the rows are looked at.
struct Known<'k> {
    fields: &'k [NestedFieldRef],
    ext: &'k ExtTypes,
    only: Option<&'k str>,
}

impl Known<'_> {
    /// The columns that the objects have, in the order in which they first come.
    fn columns(&self, text: &Text<'_>, prefix: &str, cells: &[Cell<'_>]) -> Result<(Fields, Vec<ArrayRef>)> {
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut columns = Vec::new();
        for (name, cells) in members(text, prefix, cells)? {
            let path = format!("{prefix}{name}");
            let (field, column) = if self.only == Some(name.as_str()) {
                let inner = Known { only: None, ..*self };
                let nulls = valid(&cells);
                let (fields, columns) = inner.columns(text, &format!("{path}."), &cells)?;
                let column = StructArray::try_new_with_length(fields.clone(), columns, nulls, cells.len())?;
                (Field::new(&name, DataType::Struct(fields), true), Arc::new(column) as ArrayRef)
            } else if let Some(f) = self.field(&name) {
                let field = arrow_field(f, self.ext).as_ref().clone().with_name(&name).with_nullable(true);
                (field, column(text, &path, f, self.ext, &cells)?)
            } else {
                let f = infer::field(text, &path, &cells)?;
                let field = arrow_field(&f, self.ext).as_ref().clone().with_name(&name).with_nullable(true);
                (field, column(text, &path, &f, &ExtTypes::default(), &cells)?)
            };
            fields.push(Arc::new(field));
            columns.push(column);
        }
        Ok((fields.into(), columns))
    }

    /// The table's column of a name, exact or else ignoring case.
    fn field(&self, name: &str) -> Option<&NestedField> {
        let exact = self.fields.iter().find(|f| f.name == name);
        exact.or_else(|| self.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name))).map(AsRef::as_ref)
    }
}

/// Values of one column, or of a part of one.
fn column(text: &Text<'_>, path: &str, field: &NestedField, ext: &ExtTypes, cells: &[Cell<'_>]) -> Result<ArrayRef> {
    let refused = |cell: &Cell<'_>, allowed: &str| {
        let (t, v) = (type_name(field, ext), cell.shown());
        text.error(cell.at, &format!("column {path:?} is {t} and cannot hold {v}; allowed: {allowed}"))
    };
    match ext.of(field) {
        Some(ExtType::Unknown) => {
            return match cells.iter().find(|c| c.value.is_some()) {
                Some(c) => Err(refused(c, "null")),
                None => Ok(Arc::new(NullArray::new(cells.len()))),
            };
        }
        Some(ExtType::Geometry(_) | ExtType::Geography(_)) => {
            return primitive(&iceberg::spec::PrimitiveType::Binary, cells, refused);
        }
        Some(ExtType::Variant) => return variant(text, path, cells, refused),
        None => {}
    }
    match field.field_type.as_ref() {
        Type::Primitive(p) => primitive(p, cells, refused),
        Type::Struct(s) => structure(text, path, field, s, ext, cells, refused),
        Type::List(l) => list(text, path, field, l, ext, cells, refused),
        Type::Map(m) => map(text, path, field, m, ext, cells, refused),
    }
}

/// Where there is a value; `None` = everywhere.
fn valid(cells: &[Cell<'_>]) -> Option<NullBuffer> {
    let nulls: NullBuffer = cells.iter().map(|c| c.value.is_some()).collect();
    (nulls.null_count() > 0).then_some(nulls)
}

fn structure(
    text: &Text<'_>,
    path: &str,
    field: &NestedField,
    s: &StructType,
    ext: &ExtTypes,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
) -> Result<ArrayRef> {
    objects(cells, "an object", &refused)?;
    let given = members(text, &format!("{path}."), cells)?;
    let allowed = || s.fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some((name, cells)) = given.iter().find(|(n, _)| !s.fields().iter().any(|f| f.name == *n)) {
        let at = cells.iter().find(|c| c.given).map_or(0, |c| c.at);
        return Err(text.error(at, &format!("column {path:?} has no field {name:?}; allowed: {}", allowed())));
    }
    let missing: Vec<Cell<'_>> = cells.iter().map(|c| c.without()).collect();
    let mut columns = Vec::new();
    for f in s.fields() {
        let parts = part(&given, &f.name, &missing);
        let path = format!("{path}.{}", f.name);
        if f.required {
            required(text, &path, f, ext, parts.iter().zip(cells).filter(|(_, s)| s.value.is_some()).map(|(p, _)| p))?;
        }
        columns.push(column(text, &path, f, ext, parts)?);
    }
    let DataType::Struct(fields) = arrow_field(field, ext).data_type().clone() else {
        return Err(Error::internal(format!("column {path} is no struct")));
    };
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, valid(cells), cells.len())?))
}

/// The member of a name; `missing` where no object has it.
fn part<'g, 't>(given: &'g [(String, Vec<Cell<'t>>)], name: &str, missing: &'g [Cell<'t>]) -> &'g [Cell<'t>] {
    given.iter().find(|(n, _)| n == name).map_or(missing, |(_, cells)| cells)
}

/// Refuses a null where a part of a value must be there (DEFV-5).
fn required<'c, 't: 'c>(
    text: &Text<'_>,
    path: &str,
    field: &NestedField,
    ext: &ExtTypes,
    mut cells: impl Iterator<Item = &'c Cell<'t>>,
) -> Result<()> {
    match cells.find(|c| c.value.is_none()) {
        Some(c) => {
            let message = format!("column {path:?} is {} NOT NULL and has no value", type_name(field, ext));
            Err(text.error(c.at, &message).clause("DEFV-5"))
        }
        None => Ok(()),
    }
}

/// Refuses values that are no objects.
fn objects(cells: &[Cell<'_>], allowed: &str, refused: impl Fn(&Cell<'_>, &str) -> Error) -> Result<()> {
    match cells.iter().find(|c| c.value.is_some() && !c.starts_with('{')) {
        Some(c) => Err(refused(c, allowed)),
        None => Ok(()),
    }
}

fn list(
    text: &Text<'_>,
    path: &str,
    field: &NestedField,
    l: &ListType,
    ext: &ExtTypes,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
) -> Result<ArrayRef> {
    let mut items = Vec::new();
    let mut lengths = Vec::with_capacity(cells.len());
    for c in cells {
        let before = items.len();
        if c.value.is_some() {
            items.extend(elements(text, c)?.ok_or_else(|| refused(c, "an array"))?);
        }
        lengths.push(items.len() - before);
    }
    let path = format!("{path}.element");
    if l.element_field.required {
        required(text, &path, &l.element_field, ext, items.iter())?;
    }
    let values = column(text, &path, &l.element_field, ext, &items)?;
    let DataType::List(element) = arrow_field(field, ext).data_type().clone() else {
        return Err(Error::internal(format!("column {path} is no list")));
    };
    Ok(Arc::new(ListArray::try_new(element, offsets(items.len(), lengths)?, values, valid(cells))?))
}

fn offsets(total: usize, lengths: Vec<usize>) -> Result<OffsetBuffer<i32>> {
    i32::try_from(total).map_err(|_| Error::invalid("more list elements or map entries than one write takes"))?;
    Ok(OffsetBuffer::from_lengths(lengths))
}

/// A map is an object; its keys are taken by their text, as they are printed.
fn map(
    text: &Text<'_>,
    path: &str,
    field: &NestedField,
    m: &MapType,
    ext: &ExtTypes,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
) -> Result<ArrayRef> {
    objects(cells, "an object", &refused)?;
    let (mut keys, mut items) = (Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(cells.len());
    for c in cells {
        let entries = json::object(text, path, c)?;
        lengths.push(entries.len());
        for (key, value) in entries {
            keys.push(Cell::key(c.at, key));
            items.push(value);
        }
    }
    let (key_path, value_path) = (format!("{path}.key"), format!("{path}.value"));
    let key_array = column(text, &key_path, &m.key_field, ext, &keys)?;
    distinct(text, &key_path, &key_array, &keys, &lengths)?;
    if m.value_field.required {
        required(text, &value_path, &m.value_field, ext, items.iter())?;
    }
    let values = column(text, &value_path, &m.value_field, ext, &items)?;
    let DataType::Map(entries, sorted) = arrow_field(field, ext).data_type().clone() else {
        return Err(Error::internal(format!("column {path} is no map")));
    };
    let DataType::Struct(parts) = entries.data_type() else {
        return Err(Error::internal(format!("column {path} has no entries")));
    };
    let pairs = StructArray::try_new(parts.clone(), vec![key_array, values], None)?;
    Ok(Arc::new(MapArray::try_new(entries, offsets(items.len(), lengths)?, pairs, valid(cells), sorted)?))
}

/// Keys that are written differently may be one value: `1` and `1.0`.
fn distinct(text: &Text<'_>, path: &str, keys: &ArrayRef, cells: &[Cell<'_>], lengths: &[usize]) -> Result<()> {
    let printed = arrow::util::display::ArrayFormatter::try_new(keys.as_ref(), &Default::default())?;
    let mut first = 0;
    for n in lengths {
        let mut seen = std::collections::HashSet::new();
        for (i, cell) in cells.iter().enumerate().skip(first).take(*n) {
            if !seen.insert(printed.value(i).to_string()) {
                return Err(text.error(cell.at, &format!("column {path:?} has the key {} twice", cell.shown())));
            }
        }
        first += n;
    }
    Ok(())
}

/// A variant as it is printed: `metadata` and `value` in hex.
fn variant(
    text: &Text<'_>,
    path: &str,
    cells: &[Cell<'_>],
    refused: impl Fn(&Cell<'_>, &str) -> Error,
) -> Result<ArrayRef> {
    const PARTS: [&str; 2] = ["metadata", "value"];
    let allowed = "an object with `metadata` and `value` in hex";
    objects(cells, allowed, &refused)?;
    let given = members(text, &format!("{path}."), cells)?;
    if given.iter().any(|(n, _)| !PARTS.contains(&n.as_str())) {
        return match cells.iter().find(|c| c.value.is_some()) {
            Some(c) => Err(refused(c, allowed)),
            None => Err(Error::internal("fields without an object")),
        };
    }
    let missing: Vec<Cell<'_>> = cells.iter().map(|c| c.without()).collect();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for name in PARTS {
        let parts = part(&given, name, &missing);
        if let Some((_, whole)) = parts.iter().zip(cells).find(|(p, c)| p.value.is_none() && c.value.is_some()) {
            return Err(refused(whole, allowed));
        }
        let part = primitive(&iceberg::spec::PrimitiveType::Binary, parts, |c, _| refused(c, allowed))?;
        // under a null variant a part is no value, but the column of parts has no nulls
        let bytes = part.as_binary::<i32>();
        columns.push(Arc::new(BinaryArray::from_iter_values(bytes.iter().map(|b| b.unwrap_or_default()))));
    }
    let fields: Fields = PARTS.iter().map(|n| Field::new(*n, DataType::Binary, false)).collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, valid(cells), cells.len())?))
}
