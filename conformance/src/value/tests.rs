use super::*;
use serde_json::json;

#[test]
fn digest_ignores_order_but_not_multiplicity() {
    let a = vec![json!(1), json!("x")];
    let b = vec![json!(2), Value::Null];
    assert_eq!(digest(&[a.clone(), b.clone()]), digest(&[b.clone(), a.clone()]));
    assert_ne!(digest(&[a.clone(), a.clone()]), digest(&[a.clone()]));
    assert_ne!(digest(&[a.clone(), a.clone(), b.clone()]), digest(&[a, b.clone(), b]));
}

#[test]
fn digest_is_the_one_the_python_side_computes() {
    // sum over sha256('[1,"h\u{e9}llo"]') and sha256('[2,null]'), first eight bytes; computed with the driver library
    let rows = vec![vec![json!(1), json!("h\u{e9}llo")], vec![json!(2), Value::Null]];
    assert_eq!(digest(&rows), "ec4be15d59fc2b3a");
}

#[test]
fn all_nans_are_one_and_zeros_differ() {
    assert_eq!(f32_text(f32::from_bits(0x7fc0_0001)), "7fc00000");
    assert_ne!(f64_text(0.0), f64_text(-0.0));
}
