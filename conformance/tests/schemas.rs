//! The JSON Schemas for authors of scenarios and engines describe what floe really reads and sends.

use std::path::{Path, PathBuf};

use floe_conformance::protocol::{PROTOCOL, Request, TableRef, Work};
use serde_json::{Value, json};

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn schema(name: &str) -> Value {
    let text = std::fs::read_to_string(here().join("schemas").join(name)).expect("schema");
    serde_json::from_str(&text).expect("schema is JSON")
}

/// Checks the part of JSON Schema that the two documents use; a keyword it does not know is a fault of this test.
fn check(root: &Value, s: &Value, v: &Value, at: &str) -> Result<(), String> {
    let rules = s.as_object().ok_or_else(|| format!("{at}: schema is no object"))?;
    for (key, rule) in rules {
        let fault = |why: String| Err(format!("{at}: {why}"));
        let number = || rule.as_f64().unwrap_or_default();
        match key.as_str() {
            // texts for people; patterns need an engine of their own, floe's loader checks the same in its words
            "$schema" | "title" | "description" | "$defs" | "pattern" => {}
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap_or("").trim_start_matches('#'));
                check(root, target.ok_or_else(|| format!("{at}: dangling {rule}"))?, v, at)?;
            }
            "type" => {
                let names: Vec<&str> = rule.as_array().map_or_else(
                    || rule.as_str().into_iter().collect(),
                    |a| a.iter().filter_map(Value::as_str).collect(),
                );
                let is = |n: &&str| match *n {
                    "object" => v.is_object(),
                    "array" => v.is_array(),
                    "string" => v.is_string(),
                    "integer" => v.is_i64() || v.is_u64(),
                    "boolean" => v.is_boolean(),
                    "null" => v.is_null(),
                    other => panic!("type {other}"),
                };
                if !names.iter().any(is) {
                    return fault(format!("{v} is not {rule}"));
                }
            }
            "const" if v != rule => return fault(format!("{v} is not {rule}")),
            "enum" if !rule.as_array().is_some_and(|a| a.contains(v)) => {
                return fault(format!("{v} is none of {rule}"));
            }
            "const" | "enum" => {}
            "properties" => {
                for (k, sub) in rule.as_object().into_iter().flatten() {
                    if let Some(x) = v.get(k) {
                        check(root, sub, x, &format!("{at}.{k}"))?;
                    }
                }
            }
            "required" => {
                for k in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if v.is_object() && v.get(k).is_none() {
                        return fault(format!("no {k}"));
                    }
                }
            }
            "additionalProperties" => {
                let named = s["properties"].as_object();
                for (k, x) in v.as_object().into_iter().flatten() {
                    if named.is_some_and(|n| n.contains_key(k)) {
                        continue;
                    }
                    if rule == &json!(false) {
                        return fault(format!("{k} is not allowed"));
                    }
                    check(root, rule, x, &format!("{at}.{k}"))?;
                }
            }
            "items" => {
                for (i, x) in v.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, x, &format!("{at}[{i}]"))?;
                }
            }
            "prefixItems" => {
                for (i, sub) in rule.as_array().into_iter().flatten().enumerate() {
                    check(root, sub, &v[i], &format!("{at}[{i}]"))?;
                }
            }
            "minItems" if v.as_array().is_some_and(|a| (a.len() as f64) < number()) => {
                return fault("too few items".into());
            }
            "maxItems" if v.as_array().is_some_and(|a| a.len() as f64 > number()) => {
                return fault("too many items".into());
            }
            "maxProperties" if v.as_object().is_some_and(|o| o.len() as f64 > number()) => {
                return fault("too many properties".into());
            }
            "minLength" if v.as_str().is_some_and(|t| (t.len() as f64) < number()) => {
                return fault("too short".into());
            }
            "minimum" if v.as_f64().is_some_and(|n| n < number()) => {
                return fault(format!("{v} is below {rule}"));
            }
            "maximum" if v.as_f64().is_some_and(|n| n > number()) => {
                return fault(format!("{v} is above {rule}"));
            }
            "minItems" | "maxItems" | "maxProperties" | "minLength" | "minimum" | "maximum" => {}
            "oneOf" | "anyOf" => {
                let each: Vec<_> = rule.as_array().into_iter().flatten().map(|sub| check(root, sub, v, at)).collect();
                let fits = each.iter().filter(|r| r.is_ok()).count();
                if fits == 0 || (key == "oneOf" && fits > 1) {
                    let why: Vec<String> = each.into_iter().filter_map(Result::err).collect();
                    return fault(format!("{fits} of {key} fit: {}", why.join("; ")));
                }
            }
            other => panic!("{at}: keyword {other} is not known to this test"),
        }
    }
    Ok(())
}

fn valid(root: &Value, v: &Value) -> Result<(), String> {
    check(root, root, v, "$")
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).expect("scenarios").flatten() {
        let p = e.path();
        if p.is_dir() {
            files(&p, out)
        } else if p.extension().is_some_and(|e| e == "toml") {
            out.push(p)
        }
    }
}

#[test]
fn every_scenario_fits_the_schema() {
    let root = schema("scenario.schema.json");
    let mut all = Vec::new();
    files(&here().join("../scenarios"), &mut all);
    assert!(!all.is_empty());
    for f in all {
        let text = std::fs::read_to_string(&f).expect("readable");
        let v: toml::Value = toml::from_str(&text).expect("TOML");
        let v = serde_json::to_value(v).expect("JSON");
        valid(&root, &v).unwrap_or_else(|e| panic!("{}: {e}", f.display()));
    }
}

#[test]
fn the_scenario_schema_refuses_what_floe_refuses() {
    let root = schema("scenario.schema.json");
    let good =
        json!({"title": "t", "clauses": ["DV-1"], "features": ["v3"], "columns": ["id int"], "step": [{"sql": "x"}]});
    valid(&root, &good).expect("good");
    for (pointer, bad) in [
        ("/features/0", json!("v9")),
        ("/step/0", json!({"sql": "x", "unknown": 1})),
        ("/step/0", json!({"note": "neither sql nor damage"})),
        ("/step/0", json!({"sql": "x", "model": [{"insert": [], "delete": 1}]})),
        ("/step/0", json!({"sql": "x", "snapshot": {"operation": "upsert"}})),
        ("/clauses", json!([])),
    ] {
        let mut v = good.clone();
        *v.pointer_mut(pointer).expect("there") = bad.clone();
        assert!(valid(&root, &v).is_err(), "{bad} must not fit");
    }
}

#[test]
fn every_request_floe_sends_fits_the_protocol_schema() {
    let root = schema("protocol.schema.json");
    let table = TableRef {
        namespace: "ns".into(),
        name: "t".into(),
        location: "/t".into(),
        metadata: "/t/v1.metadata.json".into(),
        snapshot: Some(7),
    };
    let text = || "x".to_string();
    for r in [
        Request::Hello { protocol: PROTOCOL, warehouse: text(), catalog: text(), scratch: text(), rest: None },
        Request::Apply { sql: text(), table: table.clone() },
        Request::Scan { table: table.clone(), limit: 5 },
        Request::Query { sql: text(), table: table.clone(), limit: 5 },
        Request::Changes { table: table.clone(), from: None, to: Some(3), limit: 5 },
        Request::Measure { work: Work::Decode { blob: text(), positions: 3 }, calls: 2 },
        Request::Measure { work: Work::Plan { table }, calls: 1 },
        Request::Stop {},
    ] {
        let mut v = serde_json::to_value(&r).expect("JSON");
        v["id"] = json!(1);
        valid(&root, &v).unwrap_or_else(|e| panic!("{r:?}: {e}"));
    }
}

#[test]
fn replies_have_exactly_one_outcome() {
    let root = schema("protocol.schema.json");
    let ok = json!({"columns": [["id", "int"]], "count": 0, "digest": "0000000000000000"});
    valid(&root, &json!({"id": 1, "ok": ok})).expect("a result");
    valid(&root, &json!({"id": 1, "skipped": {"reason": "no SQL"}})).expect("a skip");
    assert!(valid(&root, &json!({"id": 1, "ok": {}, "error": {"message": "x"}})).is_err());
    assert!(valid(&root, &json!({"id": 1})).is_err());
    assert!(valid(&root, &json!({"id": 1, "skipped": {"reason": ""}})).is_err(), "a reason is mandatory");
}

/// A line of recorded traffic: whether floe sent it, and the message.
fn traffic(log: &Path) -> Vec<(bool, Value)> {
    let text = std::fs::read_to_string(log).expect("recorded");
    let line = |l: &str| {
        let (mark, message) = l.split_at(2);
        (mark == "> ", serde_json::from_str(message).unwrap_or_else(|e| panic!("{e}: {l}")))
    };
    text.lines().map(line).collect()
}

/// Each message fits the definition of its direction, and each request has its reply.
fn judge(traffic: &[(bool, Value)]) {
    let root = schema("protocol.schema.json");
    for (sent, message) in traffic {
        let kind = if *sent { "request" } else { "reply" };
        let rule = &root["$defs"][kind];
        check(&root, rule, message, kind).unwrap_or_else(|e| panic!("{e} in {message}"));
    }
    let ids = |sent: bool| traffic.iter().filter(move |t| t.0 == sent).map(|t| t.1["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(true), ids(false));
}

fn python(script: &str, log: &Path, driver: &Path) -> Vec<String> {
    let record = here().join("tests/fixtures").join(script);
    let text = |p: &Path| p.display().to_string();
    vec!["python3".into(), text(&record), text(log), "python3".into(), text(driver)]
}

#[tokio::test]
async fn every_kind_of_reply_of_a_driver_fits_the_protocol_schema() {
    use floe_conformance::drivers::{Driver, Launch, Process};
    let tmp = tempfile::tempdir().expect("temporary folder");
    let log = tmp.path().join("traffic.log");
    let launch = Launch {
        name: "fake".into(),
        command: python("record.py", &log, &here().join("tests/fixtures/fake_driver.py")),
        env: vec![
            ("PYTHONPATH".into(), here().join("drivers").display().to_string()),
            ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
        ],
        scratch: tmp.path().join("scratch"),
        warehouse: tmp.path().join("warehouse"),
        catalog: "ice".into(),
        rest: None,
        start_timeout: std::time::Duration::from_secs(60),
        step_timeout: std::time::Duration::from_secs(60),
    };
    let mut p = Process::start(launch).await.expect("starts");
    let (namespace, name) = ("ns".to_string(), "t".to_string());
    let t = TableRef { namespace, name, location: "/t".into(), metadata: "/t/v1.metadata.json".into(), snapshot: None };
    for sql in ["ok", "refuse", "skip", "fail"] {
        p.apply(sql, &t).await;
    }
    p.scan(&t).await;
    p.query("2000", &t).await;
    p.changes(&t, None, Some(7)).await;
    p.stop().await;
    let seen = traffic(&log);
    assert_eq!(seen.len(), 18, "{seen:?}");
    for outcome in ["ok", "refused", "skipped", "error"] {
        assert!(seen.iter().any(|(sent, m)| !sent && m.get(outcome).is_some()), "no reply is {outcome}");
    }
    judge(&seen);
}

/// docs/add-an-engine.md, as it is written: the template is an engine, and what it and floe say to each other fits the schema.
#[test]
fn the_template_passes_the_smoke_scenario_through_the_command_line() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let driver = tmp.path().join("my_driver.py");
    let floe = |args: &[&str]| {
        let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_floe"));
        c.args(args).current_dir(here()).env("PYTHONDONTWRITEBYTECODE", "1").output().expect("runs")
    };
    let made = floe(&["engines", "template", &driver.display().to_string()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let lines = std::fs::read_to_string(&driver).expect("template").lines().count();
    assert!(lines < 100, "the template has {lines} lines");
    let (log, out) = (tmp.path().join("traffic.log"), tmp.path().join("out"));
    let command = python("record.py", &log, &driver).join(" ");
    let (out, smoke) = (out.display().to_string(), "dv/repeated-deletes");
    let ran = floe(&["conformance", "--engines", "floe", "--engine-cmd", &command, "--scenario", smoke, "--out", &out]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let results = floe_conformance::report::read(Path::new(&out)).expect("results");
    let cell = results.cells.iter().find(|c| c.reader == "custom").unwrap_or_else(|| panic!("it read nothing: {said}"));
    assert_eq!(cell.outcome.word(), "pass", "{}", cell.reason);
    assert!(cell.checks.len() > 10, "it read every state twice: {:?}", cell.checks);
    let seen = traffic(&log);
    assert!(seen.len() > 20, "{} messages", seen.len());
    judge(&seen);
}

/// docs/cases.md names scenarios and tests; each must be there.
#[test]
fn everything_named_in_the_cases_exists() {
    let root = here().parent().expect("the workspace").to_path_buf();
    let text = std::fs::read_to_string(root.join("docs/cases.md")).expect("docs/cases.md");
    let mut sources = Vec::new();
    for dir in ["engine/src", "engine/tests", "conformance/src", "conformance/tests", "conformance/audit"] {
        rust_files(&root.join(dir), &mut sources);
    }
    let code: String = sources.iter().map(|f| std::fs::read_to_string(f).expect("source")).collect();
    let mut named = 0;
    for line in text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| case")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{line}");
        assert!(!cells[3].is_empty(), "{line}: neither a test nor a reason");
        for name in cells[3].split('`').skip(1).step_by(2) {
            named += 1;
            let exists = match name.split_once('/') {
                Some(_) => root.join("scenarios").join(name).with_extension("toml").is_file(),
                None => code.contains(&format!("fn {name}(")),
            };
            assert!(exists, "{line}\n`{name}` is no scenario and no test");
        }
    }
    assert!(named > 100, "{named} names");
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for f in std::fs::read_dir(dir).expect("folder").flatten() {
        let path = f.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}
