//! Evaluation of a [`Pred`] on manifests and files.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    Datum, Literal, ManifestFile, PartitionSpec, PrimitiveLiteral, PrimitiveType, SchemaRef, TableMetadata, Type,
};

use super::project::{self, Projected};
use super::{Cmp, Leaf, Op, Pred, compare};
use crate::commit::FileFilter;
use crate::manifest::{ById, Content, DataFile};
use crate::types::source_type;

/// The schema that a filter is bound to: a snapshot's, or the table's current one.
pub type SnapshotSchema = SchemaRef;

/// Decides which manifests and files may hold, and which files hold only, rows that a filter selects.
#[derive(Debug)]
pub struct FilePruner {
    pred: Pred,
    specs: HashMap<i32, Spec>,
}

#[derive(Debug)]
struct Spec {
    spec: Arc<PartitionSpec>,
    /// Result types of the partition fields; `None` where the source column is gone.
    types: Vec<Option<PrimitiveType>>,
}

impl FilePruner {
    /// A pruner for `pred`, which is bound to field ids; partition filters use the spec that wrote the file (SCAN-12).
    pub fn new(pred: Pred, metadata: &TableMetadata) -> Self {
        let specs = metadata
            .partition_specs_iter()
            .map(|spec| (spec.spec_id(), Spec { types: field_types(spec, metadata), spec: spec.clone() }))
            .collect();
        Self { pred, specs }
    }

    /// The filter.
    pub fn pred(&self) -> &Pred {
        &self.pred
    }

    /// Whether some file of the manifest may hold a selected row (EXPR-70).
    pub fn may_match_manifest(&self, manifest: &ManifestFile) -> bool {
        may(&self.pred, &|leaf| self.manifest_leaf(leaf, manifest))
    }

    /// Whether the file may hold a selected row (EXPR-40..55).
    pub fn may_match(&self, file: &DataFile) -> bool {
        if file.record_count == 0 {
            return false;
        }
        may(&self.pred, &|leaf| self.partition_may(leaf, file) && metrics_may(leaf, file))
    }

    /// Like [`Self::may_match`], by the partition alone: for delete files, whose metrics speak of other columns (SCAN-10).
    pub fn may_match_partition(&self, file: &DataFile) -> bool {
        may(&self.pred, &|leaf| self.partition_may(leaf, file))
    }

    /// Whether every row of the file is selected (EXPR-60..67).
    pub fn must_match(&self, file: &DataFile) -> bool {
        must(&self.pred, &|leaf| self.partition_must(leaf, file) || metrics_must(leaf, file))
    }

    /// Whether every row that a delete file can reach is selected: by its partition alone.
    pub fn must_match_partition(&self, file: &DataFile) -> bool {
        must(&self.pred, &|leaf| self.partition_must(leaf, file))
    }

    fn partition_fields<'a>(&'a self, leaf: &Leaf, spec_id: i32) -> impl Iterator<Item = (usize, &'a Spec)> {
        let id = leaf.field_id;
        self.specs.get(&spec_id).into_iter().flat_map(move |s| {
            s.spec.fields().iter().enumerate().filter(move |(_, f)| f.source_id == id).map(move |(i, _)| (i, s))
        })
    }

    fn partition_may(&self, leaf: &Leaf, file: &DataFile) -> bool {
        self.partition_fields(leaf, file.spec_id).all(|(i, s)| {
            let Projected::Test(op) = project::inclusive(leaf, &s.spec.fields()[i].transform) else {
                return true;
            };
            match partition_value(file, i) {
                Some(v) => test_value(&op, v).unwrap_or(true),
                None => true,
            }
        })
    }

    fn partition_must(&self, leaf: &Leaf, file: &DataFile) -> bool {
        self.partition_fields(leaf, file.spec_id).any(|(i, s)| {
            let Projected::Test(op) = project::strict(leaf, &s.spec.fields()[i].transform) else {
                return false;
            };
            match partition_value(file, i) {
                Some(v) => test_value(&op, v).unwrap_or(false),
                None => false,
            }
        })
    }

    fn manifest_leaf(&self, leaf: &Leaf, manifest: &ManifestFile) -> bool {
        let Some(summaries) = &manifest.partitions else {
            return true;
        };
        self.partition_fields(leaf, manifest.partition_spec_id).all(|(i, s)| {
            let Projected::Test(op) = project::inclusive(leaf, &s.spec.fields()[i].transform) else {
                return true;
            };
            let (Some(sum), Some(Some(ty))) = (summaries.get(i), s.types.get(i)) else {
                return true;
            };
            let lower = sum.lower_bound.as_ref().and_then(|b| read_bound(b, ty));
            let upper = sum.upper_bound.as_ref().and_then(|b| read_bound(b, ty));
            match &op {
                Op::IsNull => sum.contains_null,
                // no bound at all: every value is null (or NaN, which is not null)
                Op::NotNull => sum.lower_bound.is_some() || sum.contains_nan != Some(false),
                _ if sum.lower_bound.is_none() => sum.contains_nan != Some(false),
                op => range_may(op, lower.as_ref(), upper.as_ref()),
            }
        })
    }
}

fn field_types(spec: &PartitionSpec, metadata: &TableMetadata) -> Vec<Option<PrimitiveType>> {
    spec.fields()
        .iter()
        .map(|f| {
            let source = source_type(metadata, f.source_id)?;
            match f.transform.result_type(&source).ok()? {
                Type::Primitive(p) => Some(p),
                _ => None,
            }
        })
        .collect()
}

fn may(pred: &Pred, leaf: &impl Fn(&Leaf) -> bool) -> bool {
    match pred {
        Pred::True | Pred::Unknown => true,
        Pred::False => false,
        Pred::And(ps) => ps.iter().all(|p| may(p, leaf)),
        Pred::Or(ps) => ps.iter().any(|p| may(p, leaf)),
        Pred::Leaf(l) => leaf(l),
    }
}

fn must(pred: &Pred, leaf: &impl Fn(&Leaf) -> bool) -> bool {
    match pred {
        Pred::True => true,
        Pred::False | Pred::Unknown => false,
        Pred::And(ps) => ps.iter().all(|p| must(p, leaf)),
        Pred::Or(ps) => ps.iter().any(|p| must(p, leaf)),
        Pred::Leaf(l) => leaf(l),
    }
}

/// A partition value: outer `None` = not there (malformed tuple), inner `None` = null.
fn partition_value(file: &DataFile, i: usize) -> Option<Option<&PrimitiveLiteral>> {
    match file.partition.fields().get(i)? {
        None => Some(None),
        Some(Literal::Primitive(p)) => Some(Some(p)),
        Some(_) => None,
    }
}

/// The test on one value under SQL's logic; `None` when the value can't be compared.
fn test_value(op: &Op, v: Option<&PrimitiveLiteral>) -> Option<bool> {
    let Some(v) = v else {
        return Some(matches!(op, Op::IsNull));
    };
    let eq = |l: &PrimitiveLiteral| compare(v, l).map(|o| o == Ordering::Equal);
    Some(match op {
        Op::IsNull => false,
        Op::NotNull => true,
        Op::Cmp(c, l) => {
            let o = compare(v, l)?;
            match c {
                Cmp::Lt => o.is_lt(),
                Cmp::LtEq => o.is_le(),
                Cmp::Gt => o.is_gt(),
                Cmp::GtEq => o.is_ge(),
                Cmp::Eq => o.is_eq(),
                Cmp::NotEq => o.is_ne(),
            }
        }
        Op::In(ls) => {
            for l in ls {
                if eq(l)? {
                    return Some(true);
                }
            }
            false
        }
        Op::NotIn(ls) => {
            for l in ls {
                if eq(l)? {
                    return Some(false);
                }
            }
            true
        }
        Op::StartsWith(p) => string(v)?.starts_with(p.as_str()),
        Op::NotStartsWith(p) => !string(v)?.starts_with(p.as_str()),
    })
}

fn string(v: &PrimitiveLiteral) -> Option<&str> {
    match v {
        PrimitiveLiteral::String(s) => Some(s),
        _ => None,
    }
}

fn is_nan(v: &PrimitiveLiteral) -> bool {
    match v {
        PrimitiveLiteral::Float(f) => f.0.is_nan(),
        PrimitiveLiteral::Double(f) => f.0.is_nan(),
        _ => false,
    }
}

/// Whether it is a floating-point zero of either sign.
fn is_zero(lit: &PrimitiveLiteral) -> bool {
    match lit {
        PrimitiveLiteral::Float(f) => f.0 == 0.0,
        PrimitiveLiteral::Double(f) => f.0 == 0.0,
        _ => false,
    }
}

/// A bound in binary form; of an older, narrower type after a promotion too. `None` when it can't be read or is NaN (EXPR-54).
fn read_bound(bytes: &[u8], ty: &PrimitiveType) -> Option<PrimitiveLiteral> {
    let fixed = match ty {
        PrimitiveType::Int | PrimitiveType::Date | PrimitiveType::Float => bytes.len() == 4,
        PrimitiveType::Long | PrimitiveType::Double => matches!(bytes.len(), 4 | 8),
        PrimitiveType::Time
        | PrimitiveType::Timestamp
        | PrimitiveType::Timestamptz
        | PrimitiveType::TimestampNs
        | PrimitiveType::TimestamptzNs => bytes.len() == 8,
        PrimitiveType::Uuid => bytes.len() == 16,
        PrimitiveType::Decimal { .. } => (1..=16).contains(&bytes.len()),
        PrimitiveType::Boolean => bytes.len() == 1,
        _ => true,
    };
    if !fixed {
        return None;
    }
    let lit = Datum::try_from_bytes(bytes, ty.clone()).ok()?.literal().clone();
    (!is_nan(&lit)).then_some(lit)
}

/// Whether a value in `[lower, upper]` may pass; a missing bound is open.
fn range_may(op: &Op, lower: Option<&PrimitiveLiteral>, upper: Option<&PrimitiveLiteral>) -> bool {
    let below = |l: &PrimitiveLiteral| lower.and_then(|lo| compare(l, lo)); // literal against lower
    let above = |l: &PrimitiveLiteral| upper.and_then(|up| compare(l, up)); // literal against upper
    let inside = |l: &PrimitiveLiteral| below(l).is_none_or(Ordering::is_ge) && above(l).is_none_or(Ordering::is_le);
    match op {
        Op::Cmp(Cmp::Lt, l) => below(l).is_none_or(Ordering::is_gt),
        Op::Cmp(Cmp::LtEq, l) => below(l).is_none_or(Ordering::is_ge),
        Op::Cmp(Cmp::Gt, l) => above(l).is_none_or(Ordering::is_lt),
        Op::Cmp(Cmp::GtEq, l) => above(l).is_none_or(Ordering::is_le),
        Op::Cmp(Cmp::Eq, l) => inside(l),
        Op::In(ls) => ls.len() > 200 || ls.iter().any(inside),
        Op::StartsWith(p) => {
            let cut = |s: &str| s.chars().take(p.chars().count()).collect::<String>();
            let low_ok = lower.and_then(string).is_none_or(|lo| cut(lo).as_bytes() <= p.as_bytes());
            let up_ok = upper.and_then(string).is_none_or(|up| cut(up).as_bytes() >= p.as_bytes());
            low_ok && up_ok
        }
        // bounds may be truncated, so equal bounds prove nothing (EXPR-55)
        Op::Cmp(Cmp::NotEq, _) | Op::NotIn(_) | Op::NotStartsWith(_) | Op::IsNull | Op::NotNull => true,
    }
}

fn count(map: &ById<i64>, id: i32) -> Option<i64> {
    map.get(&id).copied().filter(|c| *c >= 0)
}

fn metrics_may(leaf: &Leaf, file: &DataFile) -> bool {
    let Some(m) = &file.metrics else { return true };
    let id = leaf.field_id;
    let nulls = count(&m.null_value_counts, id);
    let all_null = matches!((count(&m.value_counts, id), nulls), (Some(v), Some(n)) if v == n && v > 0);
    match &leaf.op {
        Op::IsNull => nulls != Some(0),
        _ if all_null => false,
        Op::NotNull => true,
        // SQL orders NaN above every number, and bounds leave NaN out
        Op::Cmp(Cmp::Gt | Cmp::GtEq, _)
            if matches!(leaf.ty, PrimitiveType::Float | PrimitiveType::Double)
                && count(&m.nan_value_counts, id) != Some(0) =>
        {
            true
        }
        op => {
            let bound = |map: &ById<Vec<u8>>| map.get(&id).and_then(|b| read_bound(b, &leaf.ty));
            range_may(op, bound(&m.lower_bounds).as_ref(), bound(&m.upper_bounds).as_ref())
        }
    }
}

fn metrics_must(leaf: &Leaf, file: &DataFile) -> bool {
    let Some(m) = &file.metrics else { return false };
    let id = leaf.field_id;
    let nulls = count(&m.null_value_counts, id);
    let values = count(&m.value_counts, id);
    match &leaf.op {
        Op::IsNull => matches!((values, nulls), (Some(v), Some(n)) if v == n && v > 0),
        Op::NotNull => nulls == Some(0),
        op => {
            if nulls != Some(0) {
                return false;
            }
            if matches!(leaf.ty, PrimitiveType::Float | PrimitiveType::Double)
                && count(&m.nan_value_counts, id) != Some(0)
            {
                return false;
            }
            let bound = |map: &ById<Vec<u8>>| map.get(&id).and_then(|b| read_bound(b, &leaf.ty));
            let (Some(lower), Some(upper)) = (bound(&m.lower_bounds), bound(&m.upper_bounds)) else {
                return false;
            };
            range_must(op, &lower, &upper)
        }
    }
}

/// Whether every value in `[lower, upper]` passes; truncated bounds only widen the range, so this stays sound.
fn range_must(op: &Op, lower: &PrimitiveLiteral, upper: &PrimitiveLiteral) -> bool {
    // rows are compared in an order that tells -0.0 from 0.0: what a bound of either sign says is for the rows to settle
    if is_zero(lower) || is_zero(upper) {
        return false;
    }
    let lo = |l: &PrimitiveLiteral| compare(lower, l);
    let up = |l: &PrimitiveLiteral| compare(upper, l);
    let outside = |l: &PrimitiveLiteral| lo(l).is_some_and(Ordering::is_gt) || up(l).is_some_and(Ordering::is_lt);
    match op {
        Op::Cmp(Cmp::Lt, l) => up(l).is_some_and(Ordering::is_lt),
        Op::Cmp(Cmp::LtEq, l) => up(l).is_some_and(Ordering::is_le),
        Op::Cmp(Cmp::Gt, l) => lo(l).is_some_and(Ordering::is_gt),
        Op::Cmp(Cmp::GtEq, l) => lo(l).is_some_and(Ordering::is_ge),
        Op::Cmp(Cmp::Eq, l) => lo(l) == Some(Ordering::Equal) && up(l) == Some(Ordering::Equal),
        Op::In(ls) => {
            compare(lower, upper) == Some(Ordering::Equal) && ls.iter().any(|l| lo(l) == Some(Ordering::Equal))
        }
        Op::Cmp(Cmp::NotEq, l) => outside(l),
        Op::NotIn(ls) => ls.iter().all(outside),
        Op::StartsWith(p) => {
            string(lower).is_some_and(|s| s.starts_with(p.as_str()))
                && string(upper).is_some_and(|s| s.starts_with(p.as_str()))
        }
        Op::NotStartsWith(p) => {
            string(upper).is_some_and(|s| s < p.as_str())
                || string(lower).is_some_and(|s| s > p.as_str() && !s.starts_with(p.as_str()))
        }
        Op::IsNull | Op::NotNull => false,
    }
}

impl FileFilter for FilePruner {
    /// Metrics of delete files speak of other columns, so those go by their partition (SCAN-10).
    fn may_match(&self, file: &DataFile) -> bool {
        if file.content == Content::Data { FilePruner::may_match(self, file) } else { self.may_match_partition(file) }
    }

    fn must_match(&self, file: &DataFile) -> bool {
        if file.content == Content::Data { FilePruner::must_match(self, file) } else { self.must_match_partition(file) }
    }

    fn describe(&self) -> String {
        format!("{:?}", self.pred)
    }
}
