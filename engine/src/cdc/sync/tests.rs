//! How schemas of source and target are compared, without tables.

use std::sync::Arc;

use iceberg::spec::{ListType, NestedField, NestedFieldRef, PrimitiveType, StructType, Type};

use proptest::prelude::*;

use super::drift::{Drift, Move};
use super::probe::Probe;

fn field(id: i32, name: &str) -> NestedFieldRef {
    NestedField::optional(id, name, Type::Primitive(PrimitiveType::Int)).into()
}

fn group(id: i32, name: &str, fields: Vec<NestedFieldRef>) -> NestedFieldRef {
    NestedField::optional(id, name, Type::Struct(StructType::new(fields))).into()
}

fn list(id: i32, name: &str, fields: Vec<NestedFieldRef>) -> NestedFieldRef {
    let element = NestedField::list_element(id + 100, Type::Struct(StructType::new(fields)), false);
    NestedField::optional(id, name, Type::List(ListType { element_field: Arc::new(element) })).into()
}

fn path(p: &str) -> Vec<String> {
    p.split('.').map(str::to_string).collect()
}

#[test]
fn moves_are_told_by_field_id_at_any_depth() {
    let old = [
        field(1, "id"),
        field(2, "a"),
        field(3, "b"),
        field(4, "gone"),
        group(5, "s", vec![field(6, "x"), field(7, "y")]),
        list(8, "l", vec![field(9, "p")]),
    ];
    let new = [
        field(1, "id"),
        // swapped
        field(2, "b"),
        field(3, "a"),
        group(5, "s", vec![field(6, "z"), field(20, "y")]),
        list(8, "l", vec![field(9, "q")]),
        field(21, "fresh"),
    ];
    let d = Drift::of(&old, &new, &old);
    assert_eq!(d.get(&path("a")), Some(&Move::Renamed("b".into())));
    assert_eq!(d.get(&path("b")), Some(&Move::Renamed("a".into())));
    assert_eq!(d.get(&path("gone")), Some(&Move::Dropped));
    assert_eq!(d.get(&path("s.x")), Some(&Move::Renamed("z".into())));
    assert_eq!(d.get(&path("s.y")), Some(&Move::Replaced));
    assert_eq!(d.get(&path("l.element.p")), Some(&Move::Renamed("q".into())));
    assert_eq!(d.get(&path("id")), None);
    assert_eq!(d.harmful().count(), 5, "a dropped column harms nothing");
}

#[test]
fn what_the_target_has_done_already_is_no_drift() {
    let (old, new) = ([field(1, "id"), field(2, "a")], [field(1, "id"), field(2, "b")]);
    assert!(!Drift::of(&old, &new, &old).is_empty());
    assert!(Drift::of(&old, &new, &new).is_empty());
    assert!(Drift::of(&old, &old, &old).is_empty());
}

proptest! {
    /// Law: a probe holds every member, wherever the members lie; one that holds them bit by bit has no other.
    #[test]
    fn a_probe_misses_no_member(
        near in prop::collection::btree_set(-5_000i64..5_000, 0..200),
        far in prop::collection::btree_set(any::<i64>(), 0..20),
        edges in prop::collection::btree_set(prop::sample::select(vec![i64::MIN, i64::MIN + 1, 0, i64::MAX - 1, i64::MAX]), 0..3),
        others in prop::collection::vec(any::<i64>(), 0..50),
    ) {
        let near: Vec<i64> = near.into_iter().collect();
        let exact = Probe::new(&near);
        let bitwise = matches!(exact, Probe::Exact { .. });
        prop_assert!(bitwise);
        for n in (-6_000..6_000).chain(others) {
            prop_assert_eq!(exact.may_hold(n), near.binary_search(&n).is_ok(), "{}", n);
        }
        let all: std::collections::BTreeSet<i64> = near.into_iter().chain(far).chain(edges).collect();
        let all: Vec<i64> = all.into_iter().collect();
        let any = Probe::new(&all);
        prop_assert!(all.iter().all(|n| any.may_hold(*n)));
    }
}
