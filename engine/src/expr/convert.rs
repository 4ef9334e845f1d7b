//! DataFusion expressions to [`Pred`].

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Schema, Type};

use super::{Cmp, Leaf, Op, Pred};
use crate::types::ExtTypes;

/// The conjunction of filters as a [`Pred`].
pub fn from_df_all<'a>(filters: impl IntoIterator<Item = &'a Expr>, schema: &Schema, ext: &ExtTypes) -> Pred {
    Pred::and(filters.into_iter().map(|e| from_df(e, schema, ext)))
}

/// One filter as a [`Pred`]; what has no counterpart becomes [`Pred::Unknown`].
pub fn from_df(expr: &Expr, schema: &Schema, ext: &ExtTypes) -> Pred {
    Cx { schema, ext }.pred(expr, false)
}

struct Cx<'a> {
    schema: &'a Schema,
    ext: &'a ExtTypes,
}

impl Cx<'_> {
    /// `neg`: the expression stands under a NOT; under SQL's logic NOT selects the rows where it is false.
    fn pred(&self, e: &Expr, neg: bool) -> Pred {
        match e {
            Expr::Alias(a) => self.pred(&a.expr, neg),
            Expr::Not(e) => self.pred(e, !neg),
            Expr::Literal(ScalarValue::Boolean(b), _) => match b {
                Some(b) if *b != neg => Pred::True,
                _ => Pred::False,
            },
            Expr::Literal(ScalarValue::Null, _) => Pred::False,
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                let parts = [self.pred(left, neg), self.pred(right, neg)];
                if neg { Pred::or(parts) } else { Pred::and(parts) }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let parts = [self.pred(left, neg), self.pred(right, neg)];
                if neg { Pred::and(parts) } else { Pred::or(parts) }
            }
            Expr::BinaryExpr(b) => self.comparison(b, neg).unwrap_or(Pred::Unknown),
            Expr::IsNull(e) => self.leaf(e, if neg { Op::NotNull } else { Op::IsNull }),
            Expr::IsNotNull(e) => self.leaf(e, if neg { Op::IsNull } else { Op::NotNull }),
            Expr::IsTrue(e) if !neg => self.pred(e, false),
            Expr::IsFalse(e) if !neg => self.pred(e, true),
            Expr::Between(b) => {
                let ge = self.cmp(&b.expr, Cmp::GtEq, &b.low);
                let le = self.cmp(&b.expr, Cmp::LtEq, &b.high);
                match (ge, le) {
                    (Some(ge), Some(le)) if b.negated == neg => Pred::and([ge, le]),
                    (Some(ge), Some(le)) => Pred::or([negate_cmp(ge), negate_cmp(le)]),
                    _ => Pred::Unknown,
                }
            }
            Expr::InList(l) => self.in_list(l, neg).unwrap_or(Pred::Unknown),
            Expr::Like(l) if !l.case_insensitive && l.escape_char.is_none() => {
                let Some(pattern) = string_literal(&l.pattern) else {
                    return Pred::Unknown;
                };
                let Some(prefix) = pattern.strip_suffix('%') else {
                    return Pred::Unknown;
                };
                if prefix.contains(['%', '_', '\\']) {
                    return Pred::Unknown;
                }
                let op =
                    if l.negated == neg { Op::StartsWith(prefix.into()) } else { Op::NotStartsWith(prefix.into()) };
                self.leaf(&l.expr, op)
            }
            Expr::ScalarFunction(f) if f.name() == "starts_with" && f.args.len() == 2 => {
                let Some(prefix) = string_literal(&f.args[1]) else {
                    return Pred::Unknown;
                };
                let op = if neg { Op::NotStartsWith(prefix) } else { Op::StartsWith(prefix) };
                self.leaf(&f.args[0], op)
            }
            Expr::Column(_) => match self.column(e) {
                Some((field_id, ty @ PrimitiveType::Boolean)) => {
                    Pred::Leaf(Leaf { field_id, ty, op: Op::Cmp(Cmp::Eq, PrimitiveLiteral::Boolean(!neg)) })
                }
                _ => Pred::Unknown,
            },
            _ => Pred::Unknown,
        }
    }

    fn comparison(&self, b: &BinaryExpr, neg: bool) -> Option<Pred> {
        let op = match b.op {
            Operator::Eq => Cmp::Eq,
            Operator::NotEq => Cmp::NotEq,
            Operator::Lt => Cmp::Lt,
            Operator::LtEq => Cmp::LtEq,
            Operator::Gt => Cmp::Gt,
            Operator::GtEq => Cmp::GtEq,
            _ => return None,
        };
        let p = match self.cmp(&b.left, op, &b.right) {
            Some(p) => p,
            None => self.cmp(&b.right, flip(op), &b.left)?,
        };
        Some(if neg { negate_cmp(p) } else { p })
    }

    fn cmp(&self, column: &Expr, op: Cmp, literal: &Expr) -> Option<Pred> {
        let (field_id, ty) = self.column(column)?;
        let Expr::Literal(value, _) = literal else {
            return None;
        };
        if value.is_null() {
            return Some(Pred::False);
        }
        let lit = scalar_literal(value, &ty)?;
        Some(Pred::Leaf(Leaf { field_id, ty, op: Op::Cmp(op, lit) }))
    }

    fn in_list(&self, l: &InList, neg: bool) -> Option<Pred> {
        let (field_id, ty) = self.column(&l.expr)?;
        let mut lits = Vec::with_capacity(l.list.len());
        let mut has_null = false;
        for e in &l.list {
            let Expr::Literal(v, _) = e else { return None };
            if v.is_null() {
                has_null = true;
                continue;
            }
            lits.push(scalar_literal(v, &ty)?);
        }
        if l.negated != neg {
            // x NOT IN (…, NULL) is never true
            if has_null {
                return Some(Pred::False);
            }
            return Some(Pred::Leaf(Leaf { field_id, ty, op: Op::NotIn(lits) }));
        }
        if lits.is_empty() {
            return Some(Pred::False);
        }
        Some(Pred::Leaf(Leaf { field_id, ty, op: Op::In(lits) }))
    }

    fn leaf(&self, column: &Expr, op: Op) -> Pred {
        match self.column(column) {
            Some((field_id, ty)) => Pred::Leaf(Leaf { field_id, ty, op }),
            None => Pred::Unknown,
        }
    }

    fn column(&self, e: &Expr) -> Option<(i32, PrimitiveType)> {
        let Expr::Column(c) = e else { return None };
        let field = self.schema.as_struct().field_by_name(&c.name)?;
        if self.ext.get(field.id).is_some() {
            return None;
        }
        match field.field_type.as_ref() {
            Type::Primitive(p) => Some((field.id, p.clone())),
            _ => None,
        }
    }
}

fn flip(op: Cmp) -> Cmp {
    match op {
        Cmp::Lt => Cmp::Gt,
        Cmp::LtEq => Cmp::GtEq,
        Cmp::Gt => Cmp::Lt,
        Cmp::GtEq => Cmp::LtEq,
        op => op,
    }
}

fn negate_cmp(p: Pred) -> Pred {
    let Pred::Leaf(Leaf { field_id, ty, op: Op::Cmp(op, lit) }) = p else {
        return p;
    };
    let op = match op {
        Cmp::Lt => Cmp::GtEq,
        Cmp::LtEq => Cmp::Gt,
        Cmp::Gt => Cmp::LtEq,
        Cmp::GtEq => Cmp::Lt,
        Cmp::Eq => Cmp::NotEq,
        Cmp::NotEq => Cmp::Eq,
    };
    // NaN makes a comparison false, so its negation selects NaN rows: bounds say nothing about those
    if matches!(ty, PrimitiveType::Float | PrimitiveType::Double) {
        return Pred::Unknown;
    }
    Pred::Leaf(Leaf { field_id, ty, op: Op::Cmp(op, lit) })
}

fn string_literal(e: &Expr) -> Option<String> {
    let Expr::Literal(v, _) = e else { return None };
    v.try_as_str().flatten().map(str::to_string)
}

/// A scalar as a literal of the column's type; `None` when it can't be represented exactly, or is NaN.
pub(crate) fn scalar_literal(v: &ScalarValue, ty: &PrimitiveType) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    use ScalarValue as S;
    let long = |v: &ScalarValue| -> Option<i64> {
        Some(match v {
            S::Int8(v) => i64::from((*v)?),
            S::Int16(v) => i64::from((*v)?),
            S::Int32(v) => i64::from((*v)?),
            S::Int64(v) => (*v)?,
            S::UInt8(v) => i64::from((*v)?),
            S::UInt16(v) => i64::from((*v)?),
            S::UInt32(v) => i64::from((*v)?),
            S::UInt64(v) => i64::try_from((*v)?).ok()?,
            _ => return None,
        })
    };
    Some(match ty {
        PrimitiveType::Boolean => match v {
            S::Boolean(b) => L::Boolean((*b)?),
            _ => return None,
        },
        PrimitiveType::Int => L::Int(i32::try_from(long(v)?).ok()?),
        PrimitiveType::Long => L::Long(long(v)?),
        PrimitiveType::Float => match v {
            S::Float32(f) if !(*f)?.is_nan() => L::Float((*f)?.into()),
            _ => return None,
        },
        PrimitiveType::Double => match v {
            S::Float64(f) if !(*f)?.is_nan() => L::Double((*f)?.into()),
            _ => return None,
        },
        PrimitiveType::Decimal { scale, .. } => match v {
            S::Decimal128(Some(d), _, s) if i64::from(*s) == i64::from(*scale) => L::Int128(*d),
            _ => return None,
        },
        PrimitiveType::Date => match v {
            S::Date32(Some(d)) => L::Int(*d),
            _ => return None,
        },
        PrimitiveType::Time => match v {
            S::Time64Microsecond(Some(t)) => L::Long(*t),
            _ => return None,
        },
        PrimitiveType::Timestamp | PrimitiveType::Timestamptz => match v {
            S::TimestampMicrosecond(Some(t), _) => L::Long(*t),
            _ => return None,
        },
        PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => match v {
            S::TimestampNanosecond(Some(t), _) => L::Long(*t),
            _ => return None,
        },
        PrimitiveType::String => L::String(v.try_as_str().flatten()?.to_string()),
        PrimitiveType::Binary | PrimitiveType::Fixed(_) => match v {
            S::Binary(Some(b)) | S::LargeBinary(Some(b)) | S::BinaryView(Some(b)) | S::FixedSizeBinary(_, Some(b)) => {
                L::Binary(b.clone())
            }
            _ => return None,
        },
        // EXPR-21: writers disagree on the order of uuids, so only equality could prune; not worth a rule
        PrimitiveType::Uuid => return None,
    })
}
