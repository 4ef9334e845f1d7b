//! Pruning against brute force: whatever a pruner drops must hold no selected row, whatever it proves must hold only selected rows.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    FormatVersion, Literal, NestedField, PrimitiveLiteral as L, PrimitiveType as P, Schema, SortOrder, Struct,
    TableMetadata, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use proptest::prelude::*;

use super::{Cmp, FilePruner, Leaf, Op, Pred};
use crate::manifest::{Content, DataFile, FileFormat, Metrics};

fn metadata(transform: Option<Transform>) -> TableMetadata {
    let schema = Schema::builder()
        .with_fields(vec![NestedField::optional(1, "a", Type::Primitive(P::Int)).into()])
        .build()
        .unwrap();
    let mut spec = UnboundPartitionSpec::builder();
    if let Some(t) = transform {
        spec = spec.add_partition_field(1, "p", t).unwrap();
    }
    TableMetadataBuilder::new(
        schema,
        spec.build(),
        SortOrder::unsorted_order(),
        "memory:/t".into(),
        FormatVersion::V3,
        HashMap::new(),
    )
    .unwrap()
    .build()
    .unwrap()
    .metadata
}

fn file(rows: &[Option<i32>], partition: Option<Option<i32>>, with_metrics: bool) -> DataFile {
    let metrics = with_metrics.then(|| {
        let mut m = Metrics::default();
        m.value_counts.insert(1, rows.len() as i64);
        m.null_value_counts.insert(1, rows.iter().filter(|r| r.is_none()).count() as i64);
        if let Some(v) = rows.iter().flatten().min() {
            m.lower_bounds.insert(1, v.to_le_bytes().to_vec());
        }
        if let Some(v) = rows.iter().flatten().max() {
            m.upper_bounds.insert(1, v.to_le_bytes().to_vec());
        }
        Box::new(m)
    });
    let tuple = match partition {
        None => Struct::empty(),
        Some(v) => Struct::from_iter([v.map(|v| Literal::Primitive(L::Int(v)))]),
    };
    DataFile {
        metrics,
        ..DataFile::new(Content::Data, FileFormat::Parquet, "memory:/t/f", 0, Arc::new(tuple), rows.len() as i64, 1)
    }
}

fn selects(p: &Pred, v: Option<i32>) -> bool {
    match p {
        Pred::True => true,
        Pred::False => false,
        Pred::Unknown => unreachable!("not generated"),
        Pred::And(ps) => ps.iter().all(|p| selects(p, v)),
        Pred::Or(ps) => ps.iter().any(|p| selects(p, v)),
        Pred::Leaf(l) => {
            let lit = |l: &L| match l {
                L::Int(v) => *v,
                _ => unreachable!(),
            };
            match (&l.op, v) {
                (Op::IsNull, v) => v.is_none(),
                (Op::NotNull, v) => v.is_some(),
                (_, None) => false,
                (Op::Cmp(c, l), Some(v)) => match c {
                    Cmp::Lt => v < lit(l),
                    Cmp::LtEq => v <= lit(l),
                    Cmp::Gt => v > lit(l),
                    Cmp::GtEq => v >= lit(l),
                    Cmp::Eq => v == lit(l),
                    Cmp::NotEq => v != lit(l),
                },
                (Op::In(ls), Some(v)) => ls.iter().any(|l| lit(l) == v),
                (Op::NotIn(ls), Some(v)) => ls.iter().all(|l| lit(l) != v),
                _ => unreachable!(),
            }
        }
    }
}

fn leaf(op: Op) -> Pred {
    Pred::Leaf(Leaf { field_id: 1, ty: P::Int, op })
}

fn small() -> impl Strategy<Value = i32> {
    prop_oneof![-12..12i32, Just(i32::MAX), Just(i32::MIN)]
}

fn pred() -> impl Strategy<Value = Pred> {
    let cmp =
        prop_oneof![Just(Cmp::Lt), Just(Cmp::LtEq), Just(Cmp::Gt), Just(Cmp::GtEq), Just(Cmp::Eq), Just(Cmp::NotEq)];
    let lits = || prop::collection::vec(small().prop_map(L::Int), 1..4);
    let leaves = prop_oneof![
        4 => (cmp, small()).prop_map(|(c, v)| leaf(Op::Cmp(c, L::Int(v)))),
        1 => lits().prop_map(|v| leaf(Op::In(v))),
        1 => lits().prop_map(|v| leaf(Op::NotIn(v))),
        1 => Just(leaf(Op::IsNull)),
        1 => Just(leaf(Op::NotNull)),
    ];
    leaves.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Pred::And(vec![a, b])),
            (inner.clone(), inner).prop_map(|(a, b)| Pred::Or(vec![a, b])),
        ]
    })
}

proptest! {
    /// Law: a dropped file holds no selected row; a proved file holds nothing else (EXPR-30, EXPR-40..67), by metrics alone.
    #[test]
    fn metrics_pruning_is_sound(p in pred(), rows in prop::collection::vec(prop::option::of(small()), 1..6)) {
        let md = metadata(None);
        let pruner = FilePruner::new(p.clone(), &md);
        let f = file(&rows, None, true);
        if !pruner.may_match(&f) {
            prop_assert!(rows.iter().all(|r| !selects(&p, *r)));
        }
        if pruner.must_match(&f) {
            prop_assert!(rows.iter().all(|r| selects(&p, *r)));
        }
    }

    /// Law: the same by partition values alone, under each transform.
    #[test]
    fn partition_pruning_is_sound(p in pred(), v in prop::option::of(-12..12i32), t in 0..3usize) {
        let t = [Transform::Identity, Transform::Bucket(4), Transform::Truncate(3)][t];
        let md = metadata(Some(t));
        let f = iceberg::transform::create_transform_function(&t).unwrap();
        let apply = |v: i32| match f.transform_literal(&iceberg::spec::Datum::int(v)).unwrap().unwrap().literal() {
            L::Int(v) => *v,
            other => panic!("{other:?}"),
        };
        // all small rows of the partition that holds v
        let rows: Vec<Option<i32>> = match v {
            None => vec![None],
            Some(v) => (-40..40).filter(|r| apply(*r) == apply(v)).map(Some).collect(),
        };
        let pruner = FilePruner::new(p.clone(), &md);
        let df = file(&rows, Some(v.map(apply)), false);
        if !pruner.may_match(&df) {
            prop_assert!(rows.iter().all(|r| !selects(&p, *r)));
        }
        if pruner.must_match(&df) {
            prop_assert!(rows.iter().all(|r| selects(&p, *r)));
        }
    }
}

#[test]
fn missing_metrics_are_unknown() {
    let md = metadata(None);
    let pruner = FilePruner::new(leaf(Op::NotNull), &md);
    let f = file(&[Some(1)], None, false);
    assert!(pruner.may_match(&f));
    assert!(!pruner.must_match(&f), "EXPR-67: no metrics, no proof");
}
