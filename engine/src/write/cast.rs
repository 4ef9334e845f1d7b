//! Brings input batches into the layout of a file: columns by position or name, casts that keep every value, defaults
//! for absent columns, NOT NULL (DEFV-5).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    make_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options, kernels::cmp};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Fields, Schema as ArrowSchema, SchemaRef, TimeUnit};
use iceberg::spec::{NestedField, Type};

use crate::types::{ExtTypes, literal_to_array, type_name};
use crate::{Error, Result};

/// How input columns find their table columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InputMapping {
    /// The n-th input column is the n-th column of the table, whatever it is called; their number must be equal.
    #[default]
    ByPosition,
    /// By name, exact or else ignoring case; absent columns take their `write-default`.
    ByName,
}

/// A plan to turn batches of one input schema into rows of a file.
#[derive(Debug)]
pub(super) struct Conform {
    fields: Vec<Arc<NestedField>>,
    ext: ExtTypes,
    target: SchemaRef,
    sources: Vec<Option<usize>>,
}

impl Conform {
    /// Plans for the given columns (unknown ones included) and the stored layout `target` (unknown ones left out).
    pub(super) fn plan(
        input: &ArrowSchema,
        fields: Vec<Arc<NestedField>>,
        ext: ExtTypes,
        target: SchemaRef,
        mapping: InputMapping,
    ) -> Result<Self> {
        let names = || fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        let sources = match mapping {
            InputMapping::ByPosition => {
                if input.fields().len() != fields.len() {
                    return Err(Error::invalid(format!(
                        "rows have {} columns, and {} are needed: {}",
                        input.fields().len(),
                        fields.len(),
                        names()
                    ))
                    .clause("DEFV-5"));
                }
                (0..fields.len()).map(Some).collect()
            }
            InputMapping::ByName => {
                let by_name = name_map(input.fields(), fields.iter().map(|f| f.name.as_str()))
                    .map_err(|n| Error::invalid(format!("rows have a column {n:?}; allowed: {}", names())))?;
                let sources: Vec<_> = fields.iter().map(|f| by_name.get(f.name.as_str()).copied()).collect();
                for (f, s) in fields.iter().zip(&sources) {
                    if s.is_none() && f.required && f.write_default.is_none() {
                        return Err(Error::invalid(format!(
                            "column {:?} is NOT NULL, has no default, and the rows lack it",
                            f.name
                        ))
                        .clause("DEFV-5"));
                    }
                }
                sources
            }
        };
        Ok(Self { fields, ext, target, sources })
    }

    /// One batch in the stored layout.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let len = batch.num_rows();
        let mut targets = self.target.fields().iter();
        let mut columns = Vec::with_capacity(self.target.fields().len());
        for (f, source) in self.fields.iter().zip(&self.sources) {
            let input = source.map(|i| batch.column(i));
            if self.ext.is_unknown(f) {
                if let Some(a) = input
                    && a.logical_null_count() != len
                {
                    return Err(
                        Error::invalid(format!("column {:?} of type unknown has a value", f.name)).clause("TYPE-1")
                    );
                }
                continue;
            }
            let target = targets.next().ok_or_else(|| Error::internal("fewer stored columns than table columns"))?;
            let column = match input {
                Some(a) => convert(a, target, f, &self.ext, &f.name)?,
                None => default_column(f, target, &self.ext, len)?,
            };
            check_not_null(&column, f.required, None, &f.name)?;
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        Ok(RecordBatch::try_new_with_options(self.target.clone(), columns, &options)?)
    }
}

/// Indices of input fields by wanted name; the name of an input field that nobody wants as the error.
fn name_map<'a>(
    input: &Fields,
    wanted: impl Iterator<Item = &'a str> + Clone,
) -> Result<HashMap<&'a str, usize>, String> {
    let mut out = HashMap::new();
    for (i, f) in input.iter().enumerate() {
        let found = wanted
            .clone()
            .find(|n| n == f.name())
            .or_else(|| wanted.clone().find(|n| n.eq_ignore_ascii_case(f.name())));
        match found {
            Some(n) if out.insert(n, i).is_none() => {}
            _ => return Err(f.name().clone()),
        }
    }
    Ok(out)
}

/// Rows of a column that the input lacks: its `write-default`; a struct default is only `{}`, and then the members take
/// theirs (DEFV-6).
fn default_column(field: &NestedField, target: &Field, ext: &ExtTypes, len: usize) -> Result<ArrayRef> {
    match (&field.write_default, field.field_type.as_ref(), target.data_type()) {
        (Some(_), Type::Struct(s), DataType::Struct(targets)) => {
            let stored = s.fields().iter().filter(|f| !ext.is_unknown(f));
            let columns = stored.zip(targets).map(|(f, t)| {
                let path = format!("{}.{}", field.name, f.name);
                let column = default_column(f, t, ext, len)?;
                check_not_null(&column, f.required, None, &path)?;
                Ok(column)
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(targets.clone(), columns, None, len)?))
        }
        (default, _, t) => literal_to_array(default.as_ref(), t, len),
    }
}

fn check_not_null(array: &ArrayRef, required: bool, parent: Option<&NullBuffer>, path: &str) -> Result<()> {
    if !required {
        return Ok(());
    }
    let Some(nulls) = array.logical_nulls().filter(|n| n.null_count() > 0) else {
        return Ok(());
    };
    let at = (0..array.len()).find(|i| nulls.is_null(*i) && parent.is_none_or(|p| p.is_valid(*i)));
    match at {
        Some(row) => {
            Err(Error::invalid(format!("column {path:?} is NOT NULL, and row {row} of a batch is null"))
                .clause("DEFV-5"))
        }
        None => Ok(()),
    }
}

fn mismatch(array: &ArrayRef, field: &NestedField, ext: &ExtTypes, path: &str) -> Error {
    Error::invalid(format!("column {path:?} is {}, and rows hold {}", type_name(field, ext), words(array.data_type())))
}

/// An Arrow type in Iceberg's words.
fn words(t: &DataType) -> String {
    use DataType as D;
    match t {
        D::Null => "unknown".into(),
        D::Boolean => "boolean".into(),
        D::Int8 | D::Int16 | D::Int32 | D::UInt8 | D::UInt16 => "int".into(),
        D::Int64 | D::UInt32 | D::UInt64 => "long".into(),
        D::Float16 | D::Float32 => "float".into(),
        D::Float64 => "double".into(),
        D::Decimal32(p, s) | D::Decimal64(p, s) | D::Decimal128(p, s) | D::Decimal256(p, s) => {
            format!("decimal({p},{s})")
        }
        D::Date32 | D::Date64 => "date".into(),
        D::Time32(_) | D::Time64(_) => "time".into(),
        D::Timestamp(unit, zone) => {
            let zone = if zone.is_some() { "tz" } else { "" };
            let unit = if *unit == TimeUnit::Nanosecond { "_ns" } else { "" };
            format!("timestamp{zone}{unit}")
        }
        D::Utf8 | D::LargeUtf8 | D::Utf8View => "string".into(),
        D::Binary | D::LargeBinary | D::BinaryView => "binary".into(),
        D::FixedSizeBinary(n) => format!("fixed[{n}]"),
        D::List(f) | D::LargeList(f) | D::FixedSizeList(f, _) | D::ListView(f) | D::LargeListView(f) => {
            format!("list<{}>", words(f.data_type()))
        }
        D::Struct(fields) => {
            let parts: Vec<String> = fields.iter().map(|f| format!("{}: {}", f.name(), words(f.data_type()))).collect();
            format!("struct<{}>", parts.join(", "))
        }
        D::Map(entries, _) => match entries.data_type() {
            D::Struct(kv) if kv.len() == 2 => {
                format!("map<{}, {}>", words(kv[0].data_type()), words(kv[1].data_type()))
            }
            other => words(other),
        },
        D::Dictionary(_, v) => words(v),
        D::RunEndEncoded(_, v) => words(v.data_type()),
        other => other.to_string(),
    }
}

fn convert(array: &ArrayRef, target: &Field, field: &NestedField, ext: &ExtTypes, path: &str) -> Result<ArrayRef> {
    let t = target.data_type();
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(t, array.len()));
    }
    if let Some(value) = dictionary_value(array.data_type()) {
        let flat = cast_with_options(array, value, &STRICT)?;
        return convert(&flat, target, field, ext, path);
    }
    match (t, field.field_type.as_ref()) {
        (DataType::Struct(fields), Type::Struct(s)) => {
            let a = array.as_struct_opt().ok_or_else(|| mismatch(array, field, ext, path))?;
            let stored: Vec<_> = s.fields().iter().filter(|f| !ext.is_unknown(f)).collect();
            let all = s.fields();
            let by_name = name_map(a.fields(), all.iter().map(|f| f.name.as_str()));
            let index = |f: &NestedField| match &by_name {
                Ok(m) => Ok(m.get(f.name.as_str()).copied()),
                // Struct constructors of SQL name their parts c0, c1, …: then the position counts.
                Err(_) if a.num_columns() == all.len() => Ok(all.iter().position(|o| o.id == f.id)),
                Err(n) => Err(Error::invalid(format!("column {path:?} has no part {n:?}, which the rows hold"))),
            };
            let mut columns = Vec::with_capacity(fields.len());
            for (target, f) in fields.iter().zip(stored) {
                let path = format!("{path}.{}", f.name);
                let c = match index(f)? {
                    Some(i) => convert(a.column(i), target, f, ext, &path)?,
                    None => default_column(f, target, ext, a.len())?,
                };
                check_not_null(&c, f.required, a.nulls(), &path)?;
                columns.push(c);
            }
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, a.nulls().cloned(), a.len())?))
        }
        // A variant: its two parts by name (PARQ-11).
        (DataType::Struct(fields), Type::Primitive(_)) => {
            let a = array.as_struct_opt().ok_or_else(|| mismatch(array, field, ext, path))?;
            let mut columns = Vec::new();
            for f in fields {
                let c = a.column_by_name(f.name()).ok_or_else(|| mismatch(array, field, ext, path))?;
                let c = cast_with_options(c, f.data_type(), &STRICT)?;
                check_not_null(&c, true, a.nulls(), &format!("{path}.{}", f.name()))?;
                columns.push(c);
            }
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, a.nulls().cloned())?))
        }
        (DataType::List(item), Type::List(l)) => {
            let plain;
            let a = match array.data_type() {
                DataType::List(_) => array.as_list::<i32>(),
                DataType::LargeList(f)
                | DataType::FixedSizeList(f, _)
                | DataType::ListView(f)
                | DataType::LargeListView(f) => {
                    plain = cast_with_options(array, &DataType::List(f.clone()), &STRICT)?;
                    plain.as_list::<i32>()
                }
                _ => return Err(mismatch(array, field, ext, path)),
            };
            let path = format!("{path}.element");
            let values = convert(a.values(), item, &l.element_field, ext, &path)?;
            // Values under a null list are no elements; the check is for what the offsets reach.
            if l.element_field.required {
                let reached = (0..a.len())
                    .filter(|i| a.is_valid(*i))
                    .map(|i| a.value_offsets()[i] as usize..a.value_offsets()[i + 1] as usize);
                for r in reached {
                    check_not_null(&values.slice(r.start, r.len()), true, None, &path)?;
                }
            }
            Ok(Arc::new(ListArray::try_new(item.clone(), a.offsets().clone(), values, a.nulls().cloned())?))
        }
        (DataType::Map(entries, sorted), Type::Map(m)) => {
            let a = array.as_map_opt().ok_or_else(|| mismatch(array, field, ext, path))?;
            let DataType::Struct(kv) = entries.data_type() else {
                return Err(mismatch(array, field, ext, path));
            };
            let keys = convert(a.keys(), &kv[0], &m.key_field, ext, &format!("{path}.key"))?;
            check_not_null(&keys, true, None, &format!("{path}.key"))?;
            let values = convert(a.values(), &kv[1], &m.value_field, ext, &format!("{path}.value"))?;
            check_not_null(&values, m.value_field.required, None, &format!("{path}.value"))?;
            let pairs = StructArray::try_new(kv.clone(), vec![keys, values], None)?;
            Ok(Arc::new(MapArray::try_new(entries.clone(), a.offsets().clone(), pairs, a.nulls().cloned(), *sorted)?))
        }
        _ => primitive(array, t, field, ext, path),
    }
}

fn dictionary_value(t: &DataType) -> Option<&DataType> {
    match t {
        DataType::Dictionary(_, v) => Some(v),
        DataType::RunEndEncoded(_, v) => Some(v.data_type()),
        _ => None,
    }
}

const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// Whether a cast between these types is one that SQL assignment makes; that each value survives is checked apart.
fn assignable(from: &DataType, to: &DataType) -> bool {
    let number = |t: &DataType| t.is_numeric();
    let text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |t: &DataType| {
        matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
    };
    let date = |t: &DataType| matches!(t, DataType::Date32 | DataType::Date64);
    let time = |t: &DataType| matches!(t, DataType::Time32(_) | DataType::Time64(_));
    let stamp = |t: &DataType| matches!(t, DataType::Timestamp(..));
    number(from) && number(to)
        || text(to) && (text(from) || number(from) || date(from) || stamp(from) || from == &DataType::Boolean)
        || bytes(from) && bytes(to)
        || date(from) && (date(to) || stamp(to))
        || time(from) && time(to)
        || stamp(from) && (stamp(to) || date(to))
}

fn primitive(array: &ArrayRef, t: &DataType, field: &NestedField, ext: &ExtTypes, path: &str) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == t {
        return Ok(array.clone());
    }
    if matches!((from, t), (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::FixedSizeBinary(16)))
        && *field.field_type == Type::Primitive(iceberg::spec::PrimitiveType::Uuid)
    {
        return uuids(array, path);
    }
    if !assignable(from, t) {
        return Err(mismatch(array, field, ext, path));
    }
    let lossy =
        |e: &dyn std::fmt::Display| Error::invalid(format!("column {path:?} is {}: {e}", type_name(field, ext)));
    let unfit = |row: usize| {
        let text = arrow::util::display::array_value_to_string(array, row).unwrap_or_default();
        lossy(&format!("the value {text} does not fit without loss"))
    };
    if let (DataType::Timestamp(..), DataType::Timestamp(unit, zone)) = (from, t) {
        return timestamps(array, *unit, zone.clone()).map_err(|e| lossy(&e.message()));
    }
    let out = match cast_with_options(array, t, &STRICT) {
        Ok(out) => out,
        // which value it is, in no words of Arrow's
        Err(e) => {
            let nulls = cast_with_options(array, t, &CastOptions { safe: true, ..STRICT }).map_err(|e| lossy(&e))?;
            let row = (0..nulls.len()).find(|i| nulls.is_null(*i) && array.is_valid(*i));
            return Err(row.map_or_else(|| lossy(&e), unfit));
        }
    };
    // Text is a rendering; a double may lose digits on its way to float, as SQL assignment allows, but not its magnitude.
    if matches!(t, DataType::Utf8) || from.is_integer() && t.is_integer() {
        return Ok(out);
    }
    if matches!((from, t), (DataType::Float64, DataType::Float32)) {
        let (wide, narrow) = (
            array.as_primitive::<arrow::array::types::Float64Type>(),
            out.as_primitive::<arrow::array::types::Float32Type>(),
        );
        if (0..out.len()).any(|i| out.is_valid(i) && narrow.value(i).is_infinite() && wide.value(i).is_finite()) {
            return Err(lossy(&"a value is out of range"));
        }
        return Ok(out);
    }
    let back = cast_with_options(&out, from, &STRICT).map_err(|e| lossy(&e))?;
    let differs = cmp::distinct(&back, array)?;
    match (0..differs.len()).find(|i| differs.value(*i)) {
        Some(row) => Err(unfit(row)),
        None => Ok(out),
    }
}

fn uuids(array: &ArrayRef, path: &str) -> Result<ArrayRef> {
    let text = cast_with_options(array, &DataType::Utf8, &STRICT)?;
    let values = text.as_string::<i32>().iter().map(|v| {
        v.map(|v| {
            uuid::Uuid::parse_str(v).map_err(|_| Error::invalid(format!("column {path:?} is uuid, and {v:?} is none")))
        })
        .transpose()
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        values.iter().map(|v| v.map(|u| *u.as_bytes())),
        16,
    )?))
}

/// Changes unit and zone of timestamps: a zone is only a label, since instants are UTC (TYPE-6). Coarser units round
/// down, as the format's files hold no finer ones.
fn timestamps(array: &ArrayRef, unit: TimeUnit, zone: Option<Arc<str>>) -> Result<ArrayRef> {
    fn values<T: ArrowPrimitiveType<Native = i64>>(a: &ArrayRef) -> &arrow::array::PrimitiveArray<T> {
        a.as_primitive::<T>()
    }
    let per_second = |u: TimeUnit| match u {
        TimeUnit::Second => 1i64,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let DataType::Timestamp(from, _) = array.data_type() else {
        return Err(Error::internal("not a timestamp"));
    };
    let (a, b) = (per_second(*from), per_second(unit));
    let convert = |v: i64| -> Result<i64> {
        if b >= a {
            v.checked_mul(b / a)
                .ok_or_else(|| Error::invalid(format!("timestamp {v} is out of range in the finer unit")))
        } else {
            Ok(v.div_euclid(a / b))
        }
    };
    macro_rules! to {
        ($source:ty) => {
            match unit {
                TimeUnit::Nanosecond => {
                    let out = values::<$source>(array).try_unary::<_, TimestampNanosecondType, Error>(convert)?;
                    Arc::new(out.with_timezone_opt(zone)) as ArrayRef
                }
                _ => {
                    let out = values::<$source>(array).try_unary::<_, TimestampMicrosecondType, Error>(convert)?;
                    Arc::new(out.with_timezone_opt(zone)) as ArrayRef
                }
            }
        };
    }
    if *from == unit {
        let data = array.to_data().into_builder().data_type(DataType::Timestamp(unit, zone)).build()?;
        return Ok(make_array(data));
    }
    Ok(match from {
        TimeUnit::Second => to!(TimestampSecondType),
        TimeUnit::Millisecond => to!(TimestampMillisecondType),
        TimeUnit::Microsecond => to!(TimestampMicrosecondType),
        TimeUnit::Nanosecond => to!(TimestampNanosecondType),
    })
}
