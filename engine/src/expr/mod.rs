//! Row filters over Iceberg columns: conversion from DataFusion expressions, and pruning of manifests and files by
//! partition values and metrics (EXPR-*).
//!
//! SQL decides: a comparison with null selects nothing, so "must match" asks for the absence of nulls (stricter than
//! the two-valued logic of EXPR-1). Missing metrics are unknown, never a proof (EXPR-67).

mod convert;
mod eval;
mod project;
#[cfg(test)]
mod tests;

pub use convert::{from_df, from_df_all};
pub use eval::{FilePruner, SnapshotSchema};

use iceberg::spec::{PrimitiveLiteral, PrimitiveType};

/// A filter in negation normal form over columns by field id.
#[derive(Debug, Clone, PartialEq)]
pub enum Pred {
    /// Selects every row.
    True,
    /// Selects no row.
    False,
    /// Something this module can't judge: may match, and is never proved.
    Unknown,
    /// All of them.
    And(Vec<Pred>),
    /// Any of them.
    Or(Vec<Pred>),
    /// A test of one column.
    Leaf(Leaf),
}

/// A test of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Field id of the column.
    pub field_id: i32,
    /// Type of the column in the schema the filter was written against.
    pub ty: PrimitiveType,
    /// The test.
    pub op: Op,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cmp {
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
    /// `=`
    Eq,
    /// `<>`
    NotEq,
}

/// A test of one value; literals are neither null nor NaN (EXPR-3).
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Is null.
    IsNull,
    /// Is not null.
    NotNull,
    /// Compares with a literal.
    Cmp(Cmp, PrimitiveLiteral),
    /// Equals one of the literals.
    In(Vec<PrimitiveLiteral>),
    /// Differs from all literals.
    NotIn(Vec<PrimitiveLiteral>),
    /// Starts with the prefix.
    StartsWith(String),
    /// Does not start with the prefix.
    NotStartsWith(String),
}

impl Pred {
    /// Conjunction, simplified.
    pub fn and(preds: impl IntoIterator<Item = Pred>) -> Pred {
        let mut out = Vec::new();
        for p in preds {
            match p {
                Pred::True => {}
                Pred::False => return Pred::False,
                Pred::And(ps) => out.extend(ps),
                p => out.push(p),
            }
        }
        match out.len() {
            0 => Pred::True,
            1 => out.remove(0),
            _ => Pred::And(out),
        }
    }

    /// Disjunction, simplified.
    pub fn or(preds: impl IntoIterator<Item = Pred>) -> Pred {
        let mut out = Vec::new();
        for p in preds {
            match p {
                Pred::False => {}
                Pred::True => return Pred::True,
                Pred::Or(ps) => out.extend(ps),
                p => out.push(p),
            }
        }
        match out.len() {
            0 => Pred::False,
            1 => out.remove(0),
            _ => Pred::Or(out),
        }
    }

    /// Whether some part can't be judged.
    pub fn has_unknown(&self) -> bool {
        match self {
            Pred::Unknown => true,
            Pred::And(ps) | Pred::Or(ps) => ps.iter().any(Pred::has_unknown),
            _ => false,
        }
    }
}

/// Order of two literals of one type (EXPR-20); `None` when they are not comparable.
pub(crate) fn compare(a: &PrimitiveLiteral, b: &PrimitiveLiteral) -> Option<std::cmp::Ordering> {
    use PrimitiveLiteral as L;
    match (a, b) {
        (L::Int(a), L::Long(b)) => Some(i64::from(*a).cmp(b)),
        (L::Long(a), L::Int(b)) => Some(a.cmp(&i64::from(*b))),
        (L::Float(a), L::Float(b)) => a.0.partial_cmp(&b.0),
        (L::Double(a), L::Double(b)) => a.0.partial_cmp(&b.0),
        _ => crate::types::compare(a, b),
    }
}
