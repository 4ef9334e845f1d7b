//! The keys of a MERGE's source as a filter of the target's rows: files, row groups and rows that no source row can match are left
//! out before their other columns are decoded.

use std::any::Any;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use crate::{Error, Result};

/// Keys lie in a bitmap when it has at most so many bits a key, or so many in all.
const BITS_A_KEY: u64 = 128;
const FEW_BITS: u64 = 1 << 25;

/// Distinct keys; null is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Keys {
    /// Integers, dates, timestamps.
    Ints(Ints),
    /// Strings.
    Texts(HashSet<Box<str>, ahash::RandomState>),
}

/// A set of integers that is asked millions of times.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ints {
    sorted: Vec<i64>,
    /// Bit `v - sorted[0]` for each `v`, when the values are near enough to each other.
    bits: Vec<u64>,
    /// Else the values.
    set: HashSet<i64, ahash::RandomState>,
}

impl Ints {
    fn new(mut values: Vec<i64>) -> Self {
        values.sort_unstable();
        values.dedup();
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Self::default() };
        let span = last.abs_diff(*first);
        if span >= (values.len() as u64).saturating_mul(BITS_A_KEY).max(FEW_BITS) {
            return Self { set: values.iter().copied().collect(), bits: Vec::new(), sorted: values };
        }
        let mut bits = vec![0u64; (span / 64 + 1) as usize];
        for v in &values {
            let at = v.abs_diff(*first);
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
        Self { sorted: values, bits, set: HashSet::default() }
    }

    fn contains(&self, v: i64) -> bool {
        if self.bits.is_empty() {
            return self.set.contains(&v);
        }
        // what lies below the first key wraps beyond the last
        let at = v.wrapping_sub(self.sorted[0]) as u64;
        self.bits.get((at / 64) as usize).is_some_and(|w| w >> (at % 64) & 1 == 1)
    }
}

impl Keys {
    /// The keys in columns of one type; `None` for a type whose equality is not that of integers or texts.
    pub(super) fn of(columns: &[ArrayRef]) -> Result<Option<Self>> {
        let Some(ty) = columns.first().map(|c| c.data_type()) else { return Ok(None) };
        if is_int(ty) {
            let mut values = Vec::new();
            for c in columns {
                values.extend(cast(c, &DataType::Int64)?.as_primitive::<Int64Type>().iter().flatten());
            }
            return Ok(Some(Self::Ints(Ints::new(values))));
        }
        if is_text(ty) {
            let mut values = HashSet::default();
            for c in columns {
                let texts = cast(c, &DataType::Utf8View)?;
                values.extend(texts.as_string_view().iter().flatten().map(Box::from));
            }
            return Ok(Some(Self::Texts(values)));
        }
        Ok(None)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(k) => k.sorted.len(),
            Self::Texts(k) => k.len(),
        }
    }

    /// The least and the greatest as values of a type; `None` when there are no keys.
    pub(super) fn bounds(&self, ty: &DataType) -> Result<Option<(ScalarValue, ScalarValue)>> {
        let (low, high) = match self {
            Self::Ints(k) => match (k.sorted.first(), k.sorted.last()) {
                (Some(a), Some(b)) => (ScalarValue::from(*a), ScalarValue::from(*b)),
                _ => return Ok(None),
            },
            Self::Texts(k) => match (k.iter().min(), k.iter().max()) {
                (Some(a), Some(b)) => (ScalarValue::from(a.as_ref()), ScalarValue::from(b.as_ref())),
                _ => return Ok(None),
            },
        };
        Ok(Some((low.cast_to(ty)?, high.cast_to(ty)?)))
    }

    /// Which values are keys.
    fn contain(&self, values: &ArrayRef) -> Result<BooleanArray> {
        let n = values.len();
        let bits = match self {
            Self::Ints(k) => {
                let values = cast(values, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>();
                let raw = values.values();
                let found = BooleanBuffer::collect_bool(n, |i| k.contains(raw[i]));
                values.nulls().map_or(found.clone(), |valid| &found & valid.inner())
            }
            Self::Texts(k) => {
                let values = cast(values, &DataType::Utf8View)?;
                let values = values.as_string_view();
                BooleanBuffer::collect_bool(n, |i| values.is_valid(i) && k.contains(values.value(i)))
            }
        };
        Ok(BooleanArray::new(bits, None))
    }
}

fn is_int(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(..)
    )
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A function of one value: whether it is a key.
pub(super) fn udf(keys: Keys) -> ScalarUDF {
    ScalarUDF::new_from_impl(InKeys { keys: Arc::new(keys), signature: Signature::any(1, Volatility::Immutable) })
}

/// The keys of the filter of a MERGE as bytes, so that another process can build it; `None` for any other function.
pub fn keys_parts(f: &ScalarUDF) -> Option<Vec<u8>> {
    let keys = &f.inner().as_any().downcast_ref::<InKeys>()?.keys;
    let mut out = Vec::new();
    match keys.as_ref() {
        Keys::Ints(k) => {
            out.push(INTS);
            k.sorted.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        }
        Keys::Texts(k) => {
            out.push(TEXTS);
            for text in k {
                out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    Some(out)
}

const INTS: u8 = 0;
const TEXTS: u8 = 1;

/// The filter whose keys [`keys_parts`] took apart.
///
/// Errors: bytes that it did not write.
pub fn keys_udf(bytes: &[u8]) -> Result<ScalarUDF> {
    let bad = || Error::malformed("not the keys of a MERGE's filter");
    let (kind, mut rest) = bytes.split_first().ok_or_else(bad)?;
    let keys = match *kind {
        INTS => {
            let (whole, []) = rest.as_chunks::<8>() else { return Err(bad()) };
            Keys::Ints(Ints::new(whole.iter().map(|b| i64::from_le_bytes(*b)).collect()))
        }
        TEXTS => {
            let mut texts = HashSet::default();
            while !rest.is_empty() {
                let (len, after) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
                let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| bad())?;
                let (text, after) = after.split_at_checked(len).ok_or_else(bad)?;
                texts.insert(Box::from(std::str::from_utf8(text).map_err(|_| bad())?));
                rest = after;
            }
            Keys::Texts(texts)
        }
        _ => return Err(bad()),
    };
    Ok(udf(keys))
}

#[derive(Debug)]
struct InKeys {
    keys: Arc<Keys>,
    signature: Signature,
}

// two filters are the same when they share their keys: comparing them would take longer than a plan
impl PartialEq for InKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for InKeys {}

impl Hash for InKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.keys).hash(state);
    }
}

impl ScalarUDFImpl for InKeys {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "is_source_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [values] = arrays.as_slice() else {
            return Err(DataFusionError::Internal("is_source_key takes one value".into()));
        };
        Ok(ColumnarValue::Array(Arc::new(self.keys.contain(values)?)))
    }
}

#[cfg(test)]
mod tests;
