//! Single values: binary form (BIN-*), comparison, and the way between `Literal` and `Datum`.

use std::cmp::Ordering;

use iceberg::spec::{Datum, Literal, PrimitiveLiteral, PrimitiveType};

use crate::{Error, Result};

/// Minimal big-endian two's complement of an unscaled decimal (BIN-5, HASH-3).
pub(crate) fn decimal_bytes(v: i128) -> Vec<u8> {
    let bytes = v.to_be_bytes();
    let sign = if v < 0 { 0xff } else { 0 };
    let start = bytes.windows(2).position(|w| w[0] != sign || (w[1] ^ sign) & 0x80 != 0).unwrap_or(15);
    bytes[start..].to_vec()
}

/// Binary single value (BIN-1..9).
///
/// # Errors
/// [`crate::ErrorKind::Internal`] when the literal is not of the type.
pub fn encode_bound(lit: &PrimitiveLiteral, t: &PrimitiveType) -> Result<Vec<u8>> {
    use PrimitiveLiteral as L;
    if !t.compatible(lit) {
        return Err(Error::internal(format!("literal {lit:?} is not of type {t}")));
    }
    Ok(match lit {
        L::Boolean(v) => vec![u8::from(*v)],
        L::Int(v) => v.to_le_bytes().to_vec(),
        L::Long(v) => v.to_le_bytes().to_vec(),
        L::Float(v) => v.0.to_le_bytes().to_vec(),
        L::Double(v) => v.0.to_le_bytes().to_vec(),
        L::String(v) => v.as_bytes().to_vec(),
        L::Binary(v) => v.clone(),
        L::UInt128(v) => v.to_be_bytes().to_vec(),
        L::Int128(v) => decimal_bytes(*v),
        L::AboveMax | L::BelowMin => {
            return Err(Error::internal("no binary form of an out-of-range literal"));
        }
    })
}

/// Decodes a bound written when the column may have had a narrower type (BIN-14); `None` when the bytes fit no form of
/// the type, and then the bound is unusable (never an error: a bad bound only loses pruning).
pub fn decode_bound(bytes: &[u8], t: &PrimitiveType) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    let i32_le = || bytes.try_into().ok().map(i32::from_le_bytes);
    let i64_le = || bytes.try_into().ok().map(i64::from_le_bytes);
    let f32_le = || bytes.try_into().ok().map(f32::from_le_bytes);
    let f64_le = || bytes.try_into().ok().map(f64::from_le_bytes);
    const DAY_US: i64 = 86_400_000_000;
    Some(match t {
        P::Boolean => L::Boolean(*bytes.first().filter(|_| bytes.len() == 1)? != 0),
        P::Int | P::Date => L::Int(i32_le()?),
        P::Long => L::Long(if bytes.len() == 4 { i32_le()?.into() } else { i64_le()? }),
        P::Time | P::Timestamptz | P::TimestamptzNs => L::Long(i64_le()?),
        // A 4-byte bound is a date from before the promotion (EVO-3); the raw number would be days, not µs (BIN-15).
        P::Timestamp if bytes.len() == 4 => L::Long(i64::from(i32_le()?).checked_mul(DAY_US)?),
        P::TimestampNs if bytes.len() == 4 => L::Long(i64::from(i32_le()?).checked_mul(DAY_US)?.checked_mul(1000)?),
        P::Timestamp | P::TimestampNs => L::Long(i64_le()?),
        P::Float => L::Float(f32_le()?.into()),
        P::Double => L::Double(if bytes.len() == 4 { f64::from(f32_le()?) } else { f64_le()? }.into()),
        P::Decimal { .. } => {
            if bytes.is_empty() || bytes.len() > 16 {
                return None;
            }
            let mut full = [if bytes[0] & 0x80 != 0 { 0xff } else { 0 }; 16];
            full[16 - bytes.len()..].copy_from_slice(bytes);
            L::Int128(i128::from_be_bytes(full))
        }
        P::String => L::String(std::str::from_utf8(bytes).ok()?.to_string()),
        P::Uuid => L::UInt128(u128::from_be_bytes(bytes.try_into().ok()?)),
        P::Fixed(n) => {
            // A truncated bound of a fixed column is shorter than the column; never longer.
            if bytes.len() as u64 > *n {
                return None;
            }
            L::Binary(bytes.to_vec())
        }
        P::Binary => L::Binary(bytes.to_vec()),
    })
}

/// Order of two values of one primitive type (EXPR-20): unsigned bytes for strings, binaries and UUIDs, IEEE total
/// order with -0.0 before +0.0 and NaN last for floats (SORT-2). `None` when the literals are of different kinds.
pub fn compare(a: &PrimitiveLiteral, b: &PrimitiveLiteral) -> Option<Ordering> {
    use PrimitiveLiteral as L;
    Some(match (a, b) {
        (L::Boolean(a), L::Boolean(b)) => a.cmp(b),
        (L::Int(a), L::Int(b)) => a.cmp(b),
        (L::Long(a), L::Long(b)) => a.cmp(b),
        (L::Float(a), L::Float(b)) => a.0.total_cmp(&b.0),
        (L::Double(a), L::Double(b)) => a.0.total_cmp(&b.0),
        (L::String(a), L::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (L::Binary(a), L::Binary(b)) => a.cmp(b),
        (L::Int128(a), L::Int128(b)) => a.cmp(b),
        (L::UInt128(a), L::UInt128(b)) => a.cmp(b),
        _ => return None,
    })
}

/// Whether two optional literals are the same partition value: null equals null, floats by bits with NaN canonical (PART-6).
pub fn literals_equal(a: Option<&Literal>, b: Option<&Literal>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(Literal::Primitive(a)), Some(Literal::Primitive(b))) => match (a, b) {
            (PrimitiveLiteral::Float(x), PrimitiveLiteral::Float(y)) if x.is_nan() && y.is_nan() => true,
            (PrimitiveLiteral::Double(x), PrimitiveLiteral::Double(y)) if x.is_nan() && y.is_nan() => true,
            _ => compare(a, b) == Some(Ordering::Equal),
        },
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The primitive inside a literal.
pub fn primitive(lit: &Literal) -> Option<&PrimitiveLiteral> {
    match lit {
        Literal::Primitive(p) => Some(p),
        _ => None,
    }
}

/// A `Datum` of a primitive literal, by way of its binary form: the `iceberg` crate keeps the constructor to itself.
pub fn datum(lit: &PrimitiveLiteral, t: &PrimitiveType) -> Result<Datum> {
    Ok(Datum::try_from_bytes(&encode_bound(lit, t)?, t.clone())?)
}
