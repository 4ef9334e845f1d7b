//! BIN-*, JSON-30..42 and arrays of literals.

use iceberg::spec::{Literal, PrimitiveLiteral as L, PrimitiveType as P, Type};
use serde_json::{Value, json};

use super::super::*;
use super::vectors;

fn parse_type(s: &str) -> Type {
    let t = s.split_whitespace().next().unwrap();
    type_from_json(&json!(t), 1, &mut ExtTypes::default()).unwrap_or_else(|e| panic!("{s}: {e}"))
}

fn hex(s: &str) -> Vec<u8> {
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn binary_single_values_match_the_vectors() {
    let mut n = 0;
    for v in vectors("single_value_binary").as_array().unwrap() {
        let Some(want) = v["hex"].as_str() else {
            continue;
        };
        let t = match v["type"].as_str().unwrap().split_whitespace().next().unwrap() {
            "fixed[2]" => P::Fixed(2),
            t => parse_type(t).as_primitive_type().unwrap().clone(),
        };
        let value = &v["value"];
        let lit = match &t {
            P::Date => L::Int(value.as_i64().unwrap() as i32),
            P::Time | P::Timestamp | P::TimestampNs => L::Long(value.as_i64().unwrap()),
            P::Fixed(_) | P::Binary => L::Binary(value.as_str().unwrap().as_bytes().to_vec()),
            t => match literal_from_json(value, &Type::Primitive(t.clone())).unwrap().unwrap() {
                Literal::Primitive(p) => p,
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(encode_bound(&lit, &t).unwrap(), hex(want), "{v}");
        assert_eq!(decode_bound(&hex(want), &t), Some(lit), "{v}");
        n += 1;
    }
    assert_eq!(n, 18);
}

#[test]
fn bounds_of_narrower_types_decode_by_length() {
    // BIN-14, BIN-15: the days of a promoted date become µs, not a raw number
    assert_eq!(decode_bound(&7i32.to_le_bytes(), &P::Long), Some(L::Long(7)));
    assert_eq!(decode_bound(&1.5f32.to_le_bytes(), &P::Double), Some(L::Double(1.5.into())));
    assert_eq!(decode_bound(&2i32.to_le_bytes(), &P::Timestamp), Some(L::Long(172_800_000_000)));
    assert_eq!(decode_bound(&1i32.to_le_bytes(), &P::TimestampNs), Some(L::Long(86_400_000_000_000)));
    assert_eq!(decode_bound(&[0xff], &P::Decimal { precision: 30, scale: 2 }), Some(L::Int128(-1)));
    // unusable bounds are no bounds
    assert_eq!(decode_bound(&[1, 2, 3], &P::Int), None);
    assert_eq!(decode_bound(&[0xff, 0xfe], &P::String), None);
    assert_eq!(decode_bound(&[], &P::Decimal { precision: 3, scale: 0 }), None);
}

#[test]
fn decimal_bytes_are_minimal_at_the_limits() {
    // the iceberg crate truncates 38-digit decimals to the width of the precision; full 16 bytes are needed here
    let t = P::Decimal { precision: 38, scale: 0 };
    for v in [10i128.pow(38) - 1, -(10i128.pow(38) - 1), 0, 127, 128, -128, -129, i64::MAX.into()] {
        let b = encode_bound(&L::Int128(v), &t).unwrap();
        assert_eq!(decode_bound(&b, &t), Some(L::Int128(v)));
        assert!(b.len() == 1 || !(b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80), "{v}: {b:?}");
    }
}

#[test]
fn json_single_values_match_the_vectors() {
    let v = vectors("single_value_json");
    let mut n = 0;
    for case in v["valid"].as_array().unwrap() {
        let (t, text) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        // nested ones are below; negative scales and WKT have no place in the model
        if t.contains('<') || t.contains("-20") || t == "geometry" {
            continue;
        }
        let t = parse_type(t);
        let value: Value = serde_json::from_str(text).unwrap();
        let lit = literal_from_json(&value, &t).unwrap().unwrap();
        let back = literal_to_json(&lit, &t).unwrap();
        match (&back, &value) {
            (Value::String(a), Value::String(b)) => assert!(a.eq_ignore_ascii_case(b), "{a} {b}"),
            (a, b) => assert_eq!(a, b),
        }
        n += 1;
    }
    assert_eq!(n, 18, "cases that ran");
    for case in v["invalid"].as_array().unwrap() {
        let t = case[0].as_str().unwrap();
        // a float without a point is refused by Java only (JSON-41); maps are below
        if t.contains('<') || t == "float" {
            continue;
        }
        let value: Value = serde_json::from_str(case[1].as_str().unwrap()).unwrap();
        assert!(literal_from_json(&value, &parse_type(t)).is_err(), "{case}");
    }
}

#[test]
fn nested_json_single_values() {
    let (schema, _) = schema_from_json(
        br#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"s","required":false,"type":{"type":"struct","fields":[
        {"id":2,"name":"a","required":false,"type":"int"},{"id":3,"name":"b","required":false,"type":"string"}]}},
        {"id":4,"name":"m","required":false,"type":{"type":"map","key-id":5,"key":"string","value-id":6,"value-required":false,"value":"int"}},
        {"id":7,"name":"l","required":false,"type":{"type":"list","element-id":8,"element-required":false,"element":"int"}}]}"#,
    )
    .unwrap();
    for (id, v) in [
        (1, json!({"2": 1, "3": "bar"})),
        (1, json!({})),
        (4, json!({"keys": ["a", "b"], "values": [1, null]})),
        (7, json!([1, null, 3])),
    ] {
        let t = &schema.field_by_id(id).unwrap().field_type;
        let lit = literal_from_json(&v, t).unwrap().unwrap();
        assert_eq!(literal_to_json(&lit, t).unwrap(), v);
        // and through an array of two rows
        let f = arrow_field(schema.field_by_id(id).unwrap(), &ExtTypes::default());
        let a = literal_to_array(Some(&lit), f.data_type(), 2).unwrap();
        assert_eq!(array_value(&a, 1, t).unwrap(), Some(lit));
    }
    let m = &schema.field_by_id(4).unwrap().field_type;
    assert_eq!(literal_from_json(&json!({"keys": ["a"], "values": []}), m).unwrap_err().clause_id(), Some("JSON-39"));
    let s = &schema.field_by_id(1).unwrap().field_type;
    assert!(literal_from_json(&json!({"99": 1}), s).is_err());
}

#[test]
fn every_primitive_goes_through_an_array() {
    let cases = [
        (P::Boolean, L::Boolean(true)),
        (P::Int, L::Int(-1)),
        (P::Long, L::Long(i64::MIN)),
        (P::Float, L::Float(1.5.into())),
        (P::Double, L::Double((-0.0).into())),
        (P::Decimal { precision: 38, scale: 10 }, L::Int128(-(10i128.pow(38) - 1))),
        (P::Date, L::Int(-1)),
        (P::Time, L::Long(86_399_999_999)),
        (P::Timestamp, L::Long(-1)),
        (P::Timestamptz, L::Long(-1)),
        (P::TimestampNs, L::Long(-1)),
        (P::TimestamptzNs, L::Long(i64::MAX)),
        (P::String, L::String("日本".into())),
        (P::Uuid, L::UInt128(u128::MAX - 3)),
        (P::Fixed(3), L::Binary(vec![0, 255, 1])),
        (P::Binary, L::Binary(vec![])),
    ];
    for (p, l) in cases {
        let t = Type::Primitive(p.clone());
        let lit = Literal::Primitive(l);
        for len in [1usize, 3] {
            let a = literal_to_array(Some(&lit), &arrow_type(&p), len).unwrap();
            assert_eq!(a.len(), len);
            assert_eq!(array_value(&a, len - 1, &t).unwrap().as_ref(), Some(&lit), "{p}");
        }
        let nulls = literal_to_array(None, &arrow_type(&p), 2).unwrap();
        assert_eq!(array_value(&nulls, 0, &t).unwrap(), None);
    }
}

#[test]
fn order_of_values() {
    use std::cmp::Ordering::*;
    // BIN-16, SORT-2
    assert_eq!(compare(&L::Double((-0.0).into()), &L::Double(0.0.into())), Some(Less));
    assert_eq!(compare(&L::Double(f64::NAN.into()), &L::Double(f64::INFINITY.into())), Some(Greater));
    // unsigned bytes: U+FFFF before U+10000, which UTF-16 code units would turn round
    assert_eq!(compare(&L::String("\u{ffff}".into()), &L::String("\u{10000}".into())), Some(Less));
    assert_eq!(compare(&L::UInt128(1 << 127), &L::UInt128(1)), Some(Greater));
    assert_eq!(compare(&L::Int(1), &L::Long(1)), None);
    // PART-6
    let nan = |bits| Literal::Primitive(L::Double(f64::from_bits(bits).into()));
    assert!(literals_equal(Some(&nan(0x7ff8_0000_0000_0001)), Some(&nan(0xfff8_0000_0000_0000))));
    let zero = |z: f64| Literal::Primitive(L::Double(z.into()));
    assert!(!literals_equal(Some(&zero(0.0)), Some(&zero(-0.0))));
}
