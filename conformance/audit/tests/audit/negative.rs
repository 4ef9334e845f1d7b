//! One mutated table per check: each seeded fault is found, under its clause and severity.

use std::collections::BTreeSet;

use crate::cases::{self, Case};
use crate::fixture;
use floe_audit::{CHECKS, Options, Severity, audit};

fn all() -> impl Iterator<Item = &'static Case> {
    [cases::meta::CASES, cases::manifests::CASES, cases::bytes::CASES].into_iter().flatten()
}

/// Runs a case; its report when the fault was not found.
fn not_found((i, (clause, severity, mutate)): &(usize, &Case)) -> Option<String> {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut t = fixture::table(dir.path());
    mutate(&mut t);
    let opts = Options { threads: Some(1), ..Options::default() };
    let r = audit(&t.write(), &opts).expect("readable");
    assert_eq!(r.clean(), r.findings.iter().all(|f| f.severity != Severity::Error));
    let found = r.findings.iter().any(|f| f.clause == *clause && f.severity == *severity);
    (!found).then(|| format!("case {i}, {clause} {severity}:\n{}", r.text()))
}

#[test]
fn every_seeded_fault_is_found() {
    let cases: Vec<(usize, &Case)> = all().enumerate().collect();
    let lost: Vec<String> = std::thread::scope(|s| {
        let workers: Vec<_> = cases
            .chunks(cases.len().div_ceil(4))
            .map(|c| s.spawn(|| c.iter().filter_map(not_found).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|w| w.join().expect("worker")).collect()
    });
    assert!(lost.is_empty(), "{} faults not found:\n{}", lost.len(), lost.join("\n"));
}

#[test]
fn every_check_has_a_case() {
    let have: BTreeSet<(&str, Severity)> = all().map(|(c, s, _)| (*c, *s)).collect();
    let want: BTreeSet<(&str, Severity)> =
        CHECKS.iter().flat_map(|f| f.checks).map(|c| (c.clause, c.severity)).collect();
    let missing: Vec<_> = want.difference(&have).collect();
    let unknown: Vec<_> = have.difference(&want).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "without a case: {missing:?}; not registered: {unknown:?}");
}

#[test]
fn a_check_is_registered_once() {
    let mut seen = BTreeSet::new();
    for c in CHECKS.iter().flat_map(|f| f.checks) {
        assert!(seen.insert((c.clause, c.severity)), "{} {} twice", c.clause, c.severity);
    }
}

#[test]
fn findings_carry_their_evidence() {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut t = fixture::table(dir.path());
    t.meta["snapshots"][3]["summary"]["added-dvs"] = serde_json::json!("9");
    let r = audit(&t.write(), &Options::default()).expect("readable");
    let j = r.json();
    assert_eq!(j["errors"], 1, "{}", r.text());
    let f = &j["findings"][0];
    assert_eq!((f["clause"].as_str(), f["severity"].as_str()), (Some("SUMMARY-18"), Some("error")));
    assert_eq!(
        (f["place"].as_str(), f["found"].as_str(), f["allowed"].as_str()),
        (Some("/snapshots/3/summary/added-dvs"), Some("9"), Some("1"))
    );
    assert!(r.text().starts_with("error SUMMARY-18: "), "{}", r.text());
}
