//! Column metrics of written rows (METR-*, MAN-D10..16), taken from the Arrow arrays: Parquet's footer statistics are
//! truncated, know no NaNs, and order floats by another rule.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowPrimitiveType;
use iceberg::spec::{NestedField, PrimitiveLiteral, PrimitiveType, Schema, SortOrder, Transform, Type};
use parquet::file::metadata::ParquetMetaData;

use crate::manifest::Metrics;
use crate::types::{ExtTypes, compare, encode_bound};
use crate::{Error, Result};

/// How much is kept of a column (METR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    None,
    /// Counts, no bounds.
    Counts,
    /// Counts, and bounds of at most this many code points or bytes.
    Truncate(usize),
    /// Counts and whole bounds.
    Full,
}

impl Mode {
    /// Parses `none`, `counts`, `truncate(n)` or `full`, in any case.
    pub fn parse(s: &str, key: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!("property {key} is {s:?}; allowed: none, counts, truncate(n) with n ≥ 1, full"))
                .clause("PROP-20")
        };
        match s.trim().to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "counts" => Ok(Self::Counts),
            "full" => Ok(Self::Full),
            t => {
                let n = t.strip_prefix("truncate(").and_then(|t| t.strip_suffix(')')).ok_or_else(bad)?;
                n.trim().parse().ok().filter(|n| *n > 0).map(Self::Truncate).ok_or_else(bad)
            }
        }
    }
}

/// The modes of a table's columns.
#[derive(Debug, Clone)]
pub struct MetricsConfig {
    default: Mode,
    columns: HashMap<i32, Mode>,
}

impl MetricsConfig {
    /// One mode for all columns.
    pub fn all(mode: Mode) -> Self {
        Self { default: mode, columns: HashMap::new() }
    }

    /// From `write.metadata.metrics.*` (METR-1, PROP-20).
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming the property.
    pub fn of(schema: &Schema, order: &SortOrder, props: &HashMap<String, String>) -> Result<Self> {
        const DEFAULT: &str = "write.metadata.metrics.default";
        const MAX: &str = "write.metadata.metrics.max-inferred-column-defaults";
        const COLUMN: &str = "write.metadata.metrics.column.";
        let mut out = match props.get(DEFAULT) {
            Some(s) => Self::all(Mode::parse(s, DEFAULT)?),
            None => {
                let max: usize = match props.get(MAX) {
                    Some(s) => s.parse().map_err(|_| {
                        Error::invalid(format!("property {MAX} is {s:?}; an integer is allowed")).clause("PROP-20")
                    })?,
                    None => 100,
                };
                let mut out = Self::all(Mode::Truncate(16));
                let ids = by_level(schema);
                if ids.len() > max {
                    out.default = Mode::None;
                    out.columns = ids.into_iter().take(max).map(|id| (id, Mode::Truncate(16))).collect();
                }
                out
            }
        };
        for f in &order.fields {
            let keeps_order = !matches!(f.transform, Transform::Bucket(_) | Transform::Void | Transform::Unknown);
            if keeps_order && matches!(out.mode(f.source_id), Mode::None | Mode::Counts) {
                out.columns.insert(f.source_id, Mode::Truncate(16));
            }
        }
        for (key, value) in props {
            if let Some(name) = key.strip_prefix(COLUMN)
                && let Some(id) = schema.field_id_by_name(name)
            {
                out.columns.insert(id, Mode::parse(value, key)?);
            }
        }
        Ok(out)
    }

    fn mode(&self, id: i32) -> Mode {
        self.columns.get(&id).copied().unwrap_or(self.default)
    }
}

/// All field ids level by level, top level first.
fn by_level(schema: &Schema) -> Vec<i32> {
    let mut out = Vec::new();
    let mut level: Vec<Arc<NestedField>> = schema.as_struct().fields().to_vec();
    while !level.is_empty() {
        out.extend(level.iter().map(|f| f.id));
        level = level
            .iter()
            .flat_map(|f| match f.field_type.as_ref() {
                Type::Struct(s) => s.fields().to_vec(),
                Type::List(l) => vec![l.element_field.clone()],
                Type::Map(m) => vec![m.key_field.clone(), m.value_field.clone()],
                Type::Primitive(_) => Vec::new(),
            })
            .collect();
    }
    out
}

/// Collects metrics over the batches of one file.
#[derive(Debug)]
pub struct Collector {
    fields: Vec<Arc<NestedField>>,
    ext: ExtTypes,
    config: MetricsConfig,
    columns: HashMap<i32, Column>,
}

#[derive(Debug, Default)]
struct Column {
    values: i64,
    nulls: i64,
    nans: Option<i64>,
    range: Option<(PrimitiveLiteral, PrimitiveLiteral)>,
}

impl Collector {
    /// A collector for rows of these stored fields.
    pub fn new(fields: Vec<Arc<NestedField>>, ext: ExtTypes, config: MetricsConfig) -> Self {
        Self { fields, ext, config, columns: HashMap::new() }
    }

    /// Adds a batch in the order of the fields.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let fields = std::mem::take(&mut self.fields);
        let stored: Vec<_> = fields.iter().filter(|f| !self.ext.is_unknown(f)).collect();
        for (f, c) in stored.into_iter().zip(batch.columns()) {
            self.add_column(f, c, None)?;
        }
        self.fields = fields;
        Ok(())
    }

    fn add_column(&mut self, field: &NestedField, array: &ArrayRef, parent: Option<&NullBuffer>) -> Result<()> {
        let nulls = NullBuffer::union(parent, array.logical_nulls().as_ref());
        let ext = self.ext.of(field).is_some();
        match field.field_type.as_ref() {
            Type::Struct(s) => {
                let a = array.as_struct();
                let stored: Vec<_> = s.fields().iter().filter(|f| !self.ext.is_unknown(f)).cloned().collect();
                for (f, c) in stored.iter().zip(a.columns()) {
                    self.add_column(f, c, nulls.as_ref())?;
                }
                Ok(())
            }
            // METR-3: nothing below lists and maps.
            Type::List(_) | Type::Map(_) => Ok(()),
            Type::Primitive(p) => {
                let mode = self.config.mode(field.id);
                if mode == Mode::None {
                    return Ok(());
                }
                let column = self.columns.entry(field.id).or_default();
                column.values += array.len() as i64;
                column.nulls += nulls.as_ref().map_or(0, |n| n.null_count() as i64);
                if ext {
                    return Ok(());
                }
                let bounds = mode != Mode::Counts;
                column.add(p, array, nulls.as_ref(), bounds)
            }
        }
    }

    /// Metrics of the file; column sizes come from its footer.
    pub fn finish(self, footer: &ParquetMetaData) -> Result<Metrics> {
        let mut out = Metrics::default();
        for group in footer.row_groups() {
            for c in group.columns() {
                let info = c.column_descr().self_type().get_basic_info();
                if info.has_id() && self.config.mode(info.id()) != Mode::None {
                    *out.column_sizes.get_or_default(info.id()) += c.compressed_size();
                }
            }
        }
        let types: HashMap<i32, PrimitiveType> = leaves(&self.fields);
        for (id, c) in self.columns {
            out.value_counts.insert(id, c.values);
            out.null_value_counts.insert(id, c.nulls);
            if let Some(n) = c.nans {
                out.nan_value_counts.insert(id, n);
            }
            if let (Some((min, max)), Some(t)) = (c.range, types.get(&id)) {
                let limit = match self.config.mode(id) {
                    Mode::Truncate(n) => Some(n),
                    _ => None,
                };
                out.lower_bounds.insert(id, encode_bound(&truncate_lower(min, limit), &loose(t))?);
                if let Some(max) = truncate_upper(max, limit) {
                    out.upper_bounds.insert(id, encode_bound(&max, &loose(t))?);
                }
            }
        }
        Ok(out)
    }
}

/// A truncated bound of a fixed column is no longer of the column's length.
fn loose(t: &PrimitiveType) -> PrimitiveType {
    match t {
        PrimitiveType::Fixed(_) => PrimitiveType::Binary,
        t => t.clone(),
    }
}

fn leaves(fields: &[Arc<NestedField>]) -> HashMap<i32, PrimitiveType> {
    let mut out = HashMap::new();
    let mut todo: Vec<_> = fields.to_vec();
    while let Some(f) = todo.pop() {
        match f.field_type.as_ref() {
            Type::Primitive(p) => drop(out.insert(f.id, p.clone())),
            Type::Struct(s) => todo.extend(s.fields().iter().cloned()),
            Type::List(_) | Type::Map(_) => {}
        }
    }
    out
}

impl Column {
    fn widen(&mut self, v: PrimitiveLiteral) {
        use std::cmp::Ordering::{Greater, Less};
        match &mut self.range {
            None => self.range = Some((v.clone(), v)),
            Some((min, max)) => {
                if compare(&v, min) == Some(Less) {
                    *min = v;
                } else if compare(&v, max) == Some(Greater) {
                    *max = v;
                }
            }
        }
    }

    fn add(&mut self, p: &PrimitiveType, array: &ArrayRef, nulls: Option<&NullBuffer>, bounds: bool) -> Result<()> {
        use PrimitiveLiteral as L;
        use PrimitiveType as P;
        let valid = |i: usize| nulls.is_none_or(|n| n.is_valid(i));
        match p {
            P::Float => {
                let a = array.as_primitive::<Float32Type>();
                let nans = self.nans.get_or_insert(0);
                let mut range: Option<(f32, f32)> = None;
                for (_, v) in a.values().iter().enumerate().filter(|(i, _)| valid(*i)) {
                    if v.is_nan() {
                        *nans += 1;
                    } else {
                        range = Some(range.map_or((*v, *v), |(lo, hi)| {
                            (
                                if v.total_cmp(&lo).is_lt() { *v } else { lo },
                                if v.total_cmp(&hi).is_gt() { *v } else { hi },
                            )
                        }));
                    }
                }
                if let (Some((lo, hi)), true) = (range, bounds) {
                    self.widen(L::Float(lo.into()));
                    self.widen(L::Float(hi.into()));
                }
            }
            P::Double => {
                let a = array.as_primitive::<Float64Type>();
                let nans = self.nans.get_or_insert(0);
                let mut range: Option<(f64, f64)> = None;
                for (_, v) in a.values().iter().enumerate().filter(|(i, _)| valid(*i)) {
                    if v.is_nan() {
                        *nans += 1;
                    } else {
                        range = Some(range.map_or((*v, *v), |(lo, hi)| {
                            (
                                if v.total_cmp(&lo).is_lt() { *v } else { lo },
                                if v.total_cmp(&hi).is_gt() { *v } else { hi },
                            )
                        }));
                    }
                }
                if let (Some((lo, hi)), true) = (range, bounds) {
                    self.widen(L::Double(lo.into()));
                    self.widen(L::Double(hi.into()));
                }
            }
            _ if !bounds => {}
            P::Boolean => {
                let a = array.as_boolean();
                for i in (0..a.len()).filter(|i| valid(*i)) {
                    self.widen(L::Boolean(a.value(i)));
                }
            }
            P::Int => self.ordered::<Int32Type>(array, valid, L::Int),
            P::Date => self.ordered::<Date32Type>(array, valid, L::Int),
            P::Long => self.ordered::<Int64Type>(array, valid, L::Long),
            P::Time => self.ordered::<Time64MicrosecondType>(array, valid, L::Long),
            P::Timestamp | P::Timestamptz => self.ordered::<TimestampMicrosecondType>(array, valid, L::Long),
            P::TimestampNs | P::TimestamptzNs => self.ordered::<TimestampNanosecondType>(array, valid, L::Long),
            P::Decimal { .. } => self.ordered::<Decimal128Type>(array, valid, L::Int128),
            P::String => {
                let a = array.as_string::<i32>();
                let values = (0..a.len()).filter(|i| valid(*i)).map(|i| a.value(i));
                if let Some((lo, hi)) = extremes(values) {
                    self.widen(L::String(lo.into()));
                    self.widen(L::String(hi.into()));
                }
            }
            P::Binary => {
                let a = array.as_binary::<i32>();
                let values = (0..a.len()).filter(|i| valid(*i)).map(|i| a.value(i));
                if let Some((lo, hi)) = extremes(values) {
                    self.widen(L::Binary(lo.into()));
                    self.widen(L::Binary(hi.into()));
                }
            }
            P::Uuid | P::Fixed(_) => {
                let a = array.as_fixed_size_binary();
                let values = (0..a.len()).filter(|i| valid(*i)).map(|i| a.value(i));
                if let Some((lo, hi)) = extremes(values) {
                    for v in [lo, hi] {
                        self.widen(match p {
                            P::Uuid => L::UInt128(u128::from_be_bytes(
                                v.try_into().map_err(|_| Error::internal("a UUID is not 16 bytes"))?,
                            )),
                            _ => L::Binary(v.into()),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn ordered<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        valid: impl Fn(usize) -> bool,
        lit: impl Fn(T::Native) -> PrimitiveLiteral,
    ) where
        T::Native: Ord,
    {
        let values = array.as_primitive::<T>().values();
        if let Some((lo, hi)) = extremes((0..values.len()).filter(|i| valid(*i)).map(|i| values[i])) {
            self.widen(lit(lo));
            self.widen(lit(hi));
        }
    }
}

fn extremes<T: Ord + Copy>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(lo, hi), v| (lo.min(v), hi.max(v))))
}

/// Lower bound of at most `n` code points or bytes (METR-2): a prefix is never greater.
pub fn truncate_lower(v: PrimitiveLiteral, n: Option<usize>) -> PrimitiveLiteral {
    use PrimitiveLiteral as L;
    match (v, n) {
        (L::String(s), Some(n)) => L::String(s.chars().take(n).collect()),
        (L::Binary(mut b), Some(n)) => {
            b.truncate(n);
            L::Binary(b)
        }
        (v, _) => v,
    }
}

/// Upper bound of at most `n` code points or bytes, the last one that can be incremented incremented (METR-2); `None`
/// when there is no such bound.
pub fn truncate_upper(v: PrimitiveLiteral, n: Option<usize>) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    match (v, n) {
        (L::String(s), Some(n)) => {
            let Some((cut, _)) = s.char_indices().nth(n) else {
                return Some(L::String(s));
            };
            let mut chars: Vec<char> = s[..cut].chars().collect();
            while let Some(c) = chars.pop() {
                let next = match c {
                    '\u{d7ff}' => Some('\u{e000}'),
                    c => char::from_u32(c as u32 + 1),
                };
                if let Some(next) = next {
                    chars.push(next);
                    return Some(L::String(chars.into_iter().collect()));
                }
            }
            None
        }
        (L::Binary(b), Some(n)) => {
            if b.len() <= n {
                return Some(L::Binary(b));
            }
            let mut b = b[..n].to_vec();
            while let Some(last) = b.pop() {
                if last < 0xff {
                    b.push(last + 1);
                    return Some(L::Binary(b));
                }
            }
            None
        }
        (v, _) => Some(v),
    }
}
