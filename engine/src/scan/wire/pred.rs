//! A filter over columns as data.

use iceberg::spec::{PrimitiveLiteral, PrimitiveType};
use serde::{Deserialize, Serialize};

use super::files::{from_hex, to_hex};
use crate::expr::{Cmp, Leaf, Op, Pred};
use crate::types::{decode_bound, encode_bound};
use crate::{Error, Result};

/// A [`Pred`]; literals are in single-value binary form (BIN-*), in hex.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredWire {
    True,
    False,
    Unknown,
    And(Vec<PredWire>),
    Or(Vec<PredWire>),
    Leaf { field: i32, ty: PrimitiveType, op: OpWire },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpWire {
    IsNull,
    NotNull,
    Lt(String),
    LtEq(String),
    Gt(String),
    GtEq(String),
    Eq(String),
    NotEq(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    StartsWith(String),
    NotStartsWith(String),
}

impl PredWire {
    /// A test whose literal has no binary form may match anything: the filter runs again above the scan.
    pub fn of(pred: &Pred) -> Self {
        match pred {
            Pred::True => Self::True,
            Pred::False => Self::False,
            Pred::Unknown => Self::Unknown,
            Pred::And(ps) => Self::And(ps.iter().map(Self::of).collect()),
            Pred::Or(ps) => Self::Or(ps.iter().map(Self::of).collect()),
            Pred::Leaf(l) => match op_of(&l.op, &l.ty) {
                Some(op) => Self::Leaf { field: l.field_id, ty: l.ty.clone(), op },
                None => Self::Unknown,
            },
        }
    }

    pub fn build(self) -> Result<Pred> {
        let all = |ps: Vec<Self>| ps.into_iter().map(Self::build).collect::<Result<Vec<_>>>();
        Ok(match self {
            Self::True => Pred::True,
            Self::False => Pred::False,
            Self::Unknown => Pred::Unknown,
            Self::And(ps) => Pred::And(all(ps)?),
            Self::Or(ps) => Pred::Or(all(ps)?),
            Self::Leaf { field, ty, op } => Pred::Leaf(Leaf { field_id: field, op: op.build(&ty)?, ty }),
        })
    }
}

fn op_of(op: &Op, ty: &PrimitiveType) -> Option<OpWire> {
    let one = |l: &PrimitiveLiteral| encode_bound(l, ty).ok().map(|b| to_hex(&b));
    let many = |ls: &[PrimitiveLiteral]| ls.iter().map(one).collect::<Option<Vec<_>>>();
    Some(match op {
        Op::IsNull => OpWire::IsNull,
        Op::NotNull => OpWire::NotNull,
        Op::Cmp(c, l) => {
            let l = one(l)?;
            match c {
                Cmp::Lt => OpWire::Lt(l),
                Cmp::LtEq => OpWire::LtEq(l),
                Cmp::Gt => OpWire::Gt(l),
                Cmp::GtEq => OpWire::GtEq(l),
                Cmp::Eq => OpWire::Eq(l),
                Cmp::NotEq => OpWire::NotEq(l),
            }
        }
        Op::In(ls) => OpWire::In(many(ls)?),
        Op::NotIn(ls) => OpWire::NotIn(many(ls)?),
        Op::StartsWith(p) => OpWire::StartsWith(p.clone()),
        Op::NotStartsWith(p) => OpWire::NotStartsWith(p.clone()),
    })
}

impl OpWire {
    fn build(self, ty: &PrimitiveType) -> Result<Op> {
        let one = |hex: String| {
            from_hex(&hex)
                .and_then(|b| decode_bound(&b, ty))
                .ok_or_else(|| Error::malformed(format!("{hex:?} is no literal of type {ty}")))
        };
        let many = |all: Vec<String>| all.into_iter().map(one).collect::<Result<Vec<_>>>();
        let cmp = |c: Cmp, l: String| Ok::<_, Error>(Op::Cmp(c, one(l)?));
        Ok(match self {
            Self::IsNull => Op::IsNull,
            Self::NotNull => Op::NotNull,
            Self::Lt(l) => cmp(Cmp::Lt, l)?,
            Self::LtEq(l) => cmp(Cmp::LtEq, l)?,
            Self::Gt(l) => cmp(Cmp::Gt, l)?,
            Self::GtEq(l) => cmp(Cmp::GtEq, l)?,
            Self::Eq(l) => cmp(Cmp::Eq, l)?,
            Self::NotEq(l) => cmp(Cmp::NotEq, l)?,
            Self::In(ls) => Op::In(many(ls)?),
            Self::NotIn(ls) => Op::NotIn(many(ls)?),
            Self::StartsWith(p) => Op::StartsWith(p),
            Self::NotStartsWith(p) => Op::NotStartsWith(p),
        })
    }
}
