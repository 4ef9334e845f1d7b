//! Projection of a column test to a partition field (EXPR-30..38).

use iceberg::spec::{Literal, PrimitiveLiteral, PrimitiveType, Transform};

use super::{Cmp, Leaf, Op, compare};
use crate::types::transform_literal;

/// What a projection says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Projected {
    /// The partition value must pass this test.
    Test(Op),
    /// Nothing can be said.
    None,
}

/// Inclusive: if a row passes `leaf`, its partition value passes the result.
pub(super) fn inclusive(leaf: &Leaf, transform: &Transform) -> Projected {
    project(leaf, transform, true)
}

/// Strict: if the partition value passes the result, every row passes `leaf`.
pub(super) fn strict(leaf: &Leaf, transform: &Transform) -> Projected {
    project(leaf, transform, false)
}

fn project(leaf: &Leaf, transform: &Transform, inclusive: bool) -> Projected {
    use Projected::{None as Nothing, Test};
    match transform {
        Transform::Void | Transform::Unknown => return Nothing,
        Transform::Identity => return Test(leaf.op.clone()),
        _ => {}
    }
    // a transform gives null exactly for null
    if matches!(leaf.op, Op::IsNull | Op::NotNull) {
        return Test(leaf.op.clone());
    }
    let apply = |lit: &PrimitiveLiteral| apply(transform, &leaf.ty, lit);
    match transform {
        Transform::Bucket(_) => match &leaf.op {
            Op::Cmp(Cmp::Eq, v) if inclusive => apply(v).map_or(Nothing, |v| Test(Op::Cmp(Cmp::Eq, v))),
            Op::In(vs) if inclusive => collect(vs, apply).map_or(Nothing, |vs| Test(Op::In(vs))),
            Op::Cmp(Cmp::NotEq, v) if !inclusive => apply(v).map_or(Nothing, |v| Test(Op::Cmp(Cmp::NotEq, v))),
            Op::NotIn(vs) if !inclusive => collect(vs, apply).map_or(Nothing, |vs| Test(Op::NotIn(vs))),
            _ => Nothing,
        },
        Transform::Truncate(width) => match leaf.ty {
            PrimitiveType::String | PrimitiveType::Binary | PrimitiveType::Fixed(_) => {
                truncate_bytes(leaf, *width, inclusive, apply)
            }
            _ => ordered(leaf, inclusive, false, apply),
        },
        _ => ordered(leaf, inclusive, true, apply),
    }
}

/// Numbers under truncate, and time transforms (EXPR-34); `widen` applies TIME-2 to negative results.
fn ordered(
    leaf: &Leaf,
    inclusive: bool,
    widen: bool,
    apply: impl Fn(&PrimitiveLiteral) -> Option<PrimitiveLiteral>,
) -> Projected {
    use Projected::{None as Nothing, Test};
    let test = |c: Cmp, v: Option<PrimitiveLiteral>| v.map_or(Nothing, |v| Test(Op::Cmp(c, v)));
    let negative = |v: &PrimitiveLiteral| widen && matches!(v, PrimitiveLiteral::Int(i) if *i < 0);
    // an old writer stored negative results one too high
    let up = |v: Option<PrimitiveLiteral>| v.map(|v| if negative(&v) { step(&v, 1).unwrap_or(v) } else { v });
    let Op::Cmp(op, lit) = &leaf.op else {
        return match &leaf.op {
            Op::In(vs) if inclusive => {
                let Some(mut out) = collect(vs, &apply) else {
                    return Nothing;
                };
                let more: Vec<_> = out.iter().filter(|v| negative(v)).filter_map(|v| step(v, 1)).collect();
                out.extend(more);
                Test(Op::In(out))
            }
            Op::NotIn(vs) if !inclusive => {
                let Some(mut out) = collect(vs, &apply) else {
                    return Nothing;
                };
                let more: Vec<_> = out.iter().filter(|v| negative(v)).filter_map(|v| step(v, 1)).collect();
                out.extend(more);
                Test(Op::NotIn(out))
            }
            _ => Nothing,
        };
    };
    if inclusive {
        match op {
            Cmp::Lt => test(Cmp::LtEq, up(step(lit, -1).and_then(|l| apply(&l)))),
            Cmp::LtEq => test(Cmp::LtEq, up(apply(lit))),
            Cmp::Gt => test(Cmp::GtEq, step(lit, 1).and_then(|l| apply(&l))),
            Cmp::GtEq => test(Cmp::GtEq, apply(lit)),
            Cmp::Eq => match apply(lit) {
                Some(v) if negative(&v) => Test(Op::In([Some(v.clone()), step(&v, 1)].into_iter().flatten().collect())),
                v => test(Cmp::Eq, v),
            },
            Cmp::NotEq => Nothing,
        }
    } else {
        match op {
            Cmp::Lt => test(Cmp::Lt, apply(lit)),
            Cmp::LtEq => test(Cmp::Lt, step(lit, 1).and_then(|l| apply(&l))),
            Cmp::Gt => test(Cmp::Gt, up(apply(lit))),
            Cmp::GtEq => test(Cmp::Gt, up(step(lit, -1).and_then(|l| apply(&l)))),
            Cmp::NotEq => match apply(lit) {
                Some(v) if negative(&v) => {
                    Test(Op::NotIn([Some(v.clone()), step(&v, 1)].into_iter().flatten().collect()))
                }
                v => test(Cmp::NotEq, v),
            },
            Cmp::Eq => Nothing,
        }
    }
}

/// Strings and bytes under truncate (EXPR-35).
fn truncate_bytes(
    leaf: &Leaf,
    width: u32,
    inclusive: bool,
    apply: impl Fn(&PrimitiveLiteral) -> Option<PrimitiveLiteral>,
) -> Projected {
    use Projected::{None as Nothing, Test};
    let test = |c: Cmp, v: Option<PrimitiveLiteral>| v.map_or(Nothing, |v| Test(Op::Cmp(c, v)));
    match (&leaf.op, inclusive) {
        (Op::Cmp(Cmp::Lt | Cmp::LtEq, v), true) => test(Cmp::LtEq, apply(v)),
        (Op::Cmp(Cmp::Gt | Cmp::GtEq, v), true) => test(Cmp::GtEq, apply(v)),
        (Op::Cmp(Cmp::Eq, v), true) => test(Cmp::Eq, apply(v)),
        (Op::In(vs), true) => collect(vs, apply).map_or(Nothing, |vs| Test(Op::In(vs))),
        (Op::Cmp(Cmp::Lt | Cmp::LtEq, v), false) => test(Cmp::Lt, apply(v)),
        (Op::Cmp(Cmp::Gt | Cmp::GtEq, v), false) => test(Cmp::Gt, apply(v)),
        (Op::Cmp(Cmp::NotEq, v), false) => test(Cmp::NotEq, apply(v)),
        (Op::NotIn(vs), false) => collect(vs, apply).map_or(Nothing, |vs| Test(Op::NotIn(vs))),
        (Op::StartsWith(p), _) => {
            let len = p.chars().count();
            let width = width as usize;
            if len < width {
                Test(Op::StartsWith(p.clone()))
            } else if len == width {
                Test(Op::Cmp(Cmp::Eq, PrimitiveLiteral::String(p.clone())))
            } else if inclusive {
                Test(Op::StartsWith(p.chars().take(width).collect()))
            } else {
                Nothing
            }
        }
        (Op::NotStartsWith(p), _) => {
            let len = p.chars().count();
            let width = width as usize;
            if len < width {
                Test(Op::NotStartsWith(p.clone()))
            } else if len == width {
                Test(Op::Cmp(Cmp::NotEq, PrimitiveLiteral::String(p.clone())))
            } else if inclusive {
                Nothing
            } else {
                Test(Op::NotStartsWith(p.chars().take(width).collect()))
            }
        }
        _ => Nothing,
    }
}

fn collect(
    vs: &[PrimitiveLiteral],
    apply: impl Fn(&PrimitiveLiteral) -> Option<PrimitiveLiteral>,
) -> Option<Vec<PrimitiveLiteral>> {
    vs.iter().map(apply).collect()
}

fn apply(transform: &Transform, ty: &PrimitiveType, lit: &PrimitiveLiteral) -> Option<PrimitiveLiteral> {
    match transform_literal(*transform, Some(lit), ty).ok()?? {
        // below the lowest multiple of the width truncation wraps round, and order is lost
        Literal::Primitive(p) if matches!(transform, Transform::Truncate(_)) && compare(&p, lit)?.is_gt() => None,
        Literal::Primitive(p) => Some(p),
        _ => None,
    }
}

/// The next value up or down; `None` at the end of the range.
fn step(lit: &PrimitiveLiteral, by: i64) -> Option<PrimitiveLiteral> {
    use PrimitiveLiteral as L;
    Some(match lit {
        L::Int(v) => L::Int(v.checked_add(i32::try_from(by).ok()?)?),
        L::Long(v) => L::Long(v.checked_add(by)?),
        L::Int128(v) => L::Int128(v.checked_add(i128::from(by))?),
        _ => return None,
    })
}
