//! A map by field id beside the standard library's.

use std::collections::BTreeMap;

use crate::manifest::ById;

#[test]
fn it_is_a_sorted_map() {
    let pairs = [(5, 'a'), (1, 'b'), (9, 'c'), (5, 'd'), (i32::MAX, 'e'), (-3, 'f'), (1, 'g')];
    let (mut own, mut std) = (ById::default(), BTreeMap::new());
    for (id, v) in pairs {
        assert_eq!(own.insert(id, v), std.insert(id, v), "{id}");
    }
    assert_eq!(own.iter().collect::<Vec<_>>(), std.iter().collect::<Vec<_>>());
    assert_eq!(own.keys().collect::<Vec<_>>(), std.keys().collect::<Vec<_>>());
    assert_eq!((own.len(), own.is_empty()), (5, false));
    for id in -4..12 {
        assert_eq!((own.get(&id), own.contains_key(&id)), (std.get(&id), std.contains_key(&id)), "{id}");
    }
    assert_eq!(own[&5], 'd');
    // in one go, in any order: the same
    assert_eq!(own, ById::from(pairs));
    assert_eq!(own, ById::from([(1, 'g'), (i32::MAX, 'e'), (-3, 'f'), (9, 'c'), (5, 'd')]));
}

#[test]
fn a_count_starts_with_nothing() {
    let mut counts = ById::with_capacity(2);
    for id in [7, 2, 7] {
        *counts.get_or_default(id) += 10;
    }
    assert_eq!(counts, ById::from([(2, 10), (7, 20)]));
}
