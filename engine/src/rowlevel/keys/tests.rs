//! The filter says of every value whether it is a key, however the keys lie.

use arrow::array::{Float64Array, Int64Array, StringViewArray};
use proptest::prelude::*;

use super::*;

fn found(keys: &Keys, values: ArrayRef) -> Vec<bool> {
    keys.contain(&values).expect("an answer").iter().map(|b| b.expect("no null")).collect()
}

proptest! {
    /// Integers, near each other (a bitmap) and far apart (a set), nulls on both sides; and after a journey as bytes.
    #[test]
    fn an_integer_is_found_iff_it_is_a_key(
        near in any::<bool>(),
        keys in proptest::collection::vec(proptest::option::of(any::<i64>()), 0..50),
        asked in proptest::collection::vec(proptest::option::of(any::<i64>()), 0..50),
    ) {
        let fit = |v: i64| if near { v % 100 } else { v };
        let keys: Vec<Option<i64>> = keys.into_iter().map(|v| v.map(fit)).collect();
        // values that are no keys, and all keys
        let asked: Vec<Option<i64>> = asked.into_iter().map(|v| v.map(fit)).chain(keys.iter().copied()).collect();
        let built = Keys::of(&[Arc::new(Int64Array::from(keys.clone()))]).expect("keys").expect("of a type that has them");
        let want: Vec<bool> = asked.iter().map(|v| v.is_some() && keys.contains(v)).collect();
        prop_assert_eq!(&found(&built, Arc::new(Int64Array::from(asked.clone()))), &want);
        let there = keys_parts(&udf(built.clone())).expect("parts");
        let again = keys_udf(&there).expect("a filter");
        let again = again.inner().as_any().downcast_ref::<InKeys>().expect("of keys").keys.as_ref().clone();
        prop_assert_eq!(again, built);
    }

    /// The same of texts.
    #[test]
    fn a_text_is_found_iff_it_is_a_key(
        keys in proptest::collection::vec(proptest::option::of("[ab]{0,3}"), 0..20),
        asked in proptest::collection::vec(proptest::option::of("[ab]{0,3}"), 0..40),
    ) {
        let built = Keys::of(&[Arc::new(StringViewArray::from(keys.clone()))]).expect("keys").expect("of a type that has them");
        let want: Vec<bool> = asked.iter().map(|v| v.is_some() && keys.contains(v)).collect();
        prop_assert_eq!(&found(&built, Arc::new(StringViewArray::from(asked))), &want);
        let again = keys_udf(&keys_parts(&udf(built.clone())).expect("parts")).expect("a filter");
        let again = again.inner().as_any().downcast_ref::<InKeys>().expect("of keys").keys.as_ref().clone();
        prop_assert_eq!(again, built);
    }
}

#[test]
fn bytes_of_something_else_are_refused() {
    for bytes in [&[][..], &[7], &[INTS, 1, 2, 3], &[TEXTS, 1], &[TEXTS, 9, 0, 0, 0, 0, 0, 0, 0, b'a']] {
        assert!(keys_udf(bytes).is_err(), "{bytes:?}");
    }
}

/// -0.0 = 0.0 and NaN are the join's affair.
#[test]
fn floats_are_no_keys() {
    assert_eq!(Keys::of(&[Arc::new(Float64Array::from(vec![1.0]))]).expect("no error"), None);
}

#[test]
fn bounds_are_the_least_and_the_greatest_key() {
    let ints = Keys::of(&[Arc::new(Int64Array::from(vec![5, i64::MIN, 7, i64::MAX]))]).expect("keys").expect("ints");
    let (low, high) = ints.bounds(&DataType::Int64).expect("bounds").expect("some");
    assert_eq!((low, high), (ScalarValue::from(i64::MIN), ScalarValue::from(i64::MAX)));
    let none = Keys::of(&[Arc::new(Int64Array::from(vec![None::<i64>]))]).expect("keys").expect("ints");
    assert_eq!(none.bounds(&DataType::Int64).expect("bounds"), None);
}
