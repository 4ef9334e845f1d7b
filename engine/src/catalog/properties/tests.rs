use std::collections::BTreeMap;

use super::*;
use crate::ErrorKind;

/// Good and bad values of every kind of property.
fn samples(allowed: Allowed) -> (Vec<String>, Vec<&'static str>) {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    match allowed {
        Words(words) => {
            let upper = words.iter().map(|w| w.to_uppercase());
            (texts(words).into_iter().chain(upper).collect(), vec!["", "merge", "csv", "foo", "none ", "true"])
        }
        Exactly(words) => (texts(words), vec!["", "V1", "v3", "1"]),
        Boolean => (texts(&["true", "false", "TRUE", "False"]), vec!["", "yes", "1", "tru", " true"]),
        Integer(least) => (
            vec![least.to_string(), "123456".into(), i64::MAX.to_string()],
            match least {
                i64::MIN => vec!["", "abc", "1.5", "1k", "99999999999999999999"],
                0 => vec!["", "abc", "-1", "1.5", "1 MB", "99999999999999999999"],
                _ => vec!["", "abc", "0", "-1", "1.5", "1 MB", "99999999999999999999"],
            },
        ),
        Fraction => (texts(&["0.01", "0.5"]), vec!["", "0", "1", "2", "-0.1", "NaN", "x"]),
        Metrics => (
            texts(&["none", "counts", "full", "truncate(16)", "FULL"]),
            vec!["", "some", "truncate", "truncate()", "truncate(0)", "truncate(-1)", "truncate(x)"],
        ),
    }
}

#[test]
fn every_known_property_takes_its_values_and_no_others() {
    for (name, clause, allowed) in KNOWN {
        let mut keys = vec![match name.strip_suffix('.') {
            Some(_) => format!("{name}a.b"),
            None => name.to_string(),
        }];
        if let Some(rest) = keys[0].strip_prefix("write.parquet.") {
            keys.push(format!("write.delete.parquet.{rest}"));
        }
        let (good, bad) = samples(*allowed);
        for key in &keys {
            for value in &good {
                check_property(key, value, key).unwrap_or_else(|e| panic!("{key}={value}: {e}"));
            }
            for value in &bad {
                let e = check_property(key, value, key).expect_err(&format!("{key}={value:?}"));
                assert_eq!((e.kind(), e.clause_id()), (ErrorKind::InvalidInput, Some(*clause)), "{e}");
                let text = e.to_string();
                assert!(text.contains(&format!("{key} is {value:?}")) && text.contains("allowed: "), "{text}");
            }
        }
    }
}

#[test]
fn properties_of_others_are_left_alone() {
    let others = [
        ("owner", "me"),
        ("write.delete.mode.of-mine", "x"),
        ("write.parquet.bloom-filter-enabled.column.", "x"),
        ("commit.retry", "x"),
        ("write.spark.fanout.enabled", "perhaps"),
        ("WRITE.DELETE.MODE", "x"),
        ("write.data.path", ""),
    ];
    for (key, value) in others {
        check_property(key, value, key).unwrap_or_else(|e| panic!("{key}: {e}"));
    }
}

#[test]
fn what_a_catalog_gives_to_new_tables_is_checked_by_its_own_name() {
    let of = |k: &str, v: &str| BTreeMap::from([(k.to_string(), v.to_string()), ("warehouse".into(), "w".into())]);
    for prefix in ["table-default.", "table-override."] {
        let key = format!("{prefix}write.delete.mode");
        assert!(check_catalog("", &of(&key, "merge-on-read")).is_ok());
        let e = check_catalog("", &of(&key, "merge")).expect_err("bad value").to_string();
        assert!(e.contains(&format!("{key} is \"merge\"")), "{e}");
    }
    assert!(check_catalog("", &of("write.delete.mode", "merge")).is_ok(), "no prefix: not for tables");
}
