use super::*;
use crate::matrix::result::{Check, EngineRow};

/// A run of two engines in which one cell fails.
fn run() -> Results {
    let check = |o, r: &str| vec![Check::new(2, "rows", o, r)];
    let cells = vec![
        Cell::of("dv/a", "floe", "metadata", check(Outcome::Pass, ""), 1),
        Cell::of("dv/a", "floe", "floe", check(Outcome::Pass, ""), 1),
        Cell::of("dv/a", "floe", "x", check(Outcome::Fail, "1 row too many, e.g. (5, 'a<b')"), 1),
        Cell::of("dv/b", "floe", "x", check(Outcome::Skipped, "no way"), 1),
    ];
    let engine =
        |name: &str| EngineRow { name: name.into(), title: name.into(), version: "1".into(), ..EngineRow::default() };
    Results {
        schema: 1,
        floe: "0".into(),
        started: 0,
        seconds: 1.0,
        launcher: "native".into(),
        engines: vec![engine("floe"), engine("x")],
        scenarios: vec![],
        cells,
        stale_deviations: vec![],
        catalogs: vec![],
        figures: vec![],
    }
}

#[test]
fn verdicts_read_back_and_a_changed_one_is_named() {
    let r = run();
    let reviewed = verdicts::parse(&verdicts::text(&r)).expect("own form");
    assert_eq!(reviewed, verdicts::of(&r));
    let mut better = r.clone();
    better.cells[2] = Cell::of("dv/a", "floe", "x", vec![Check::pass(2, "rows")], 1);
    assert_eq!(verdicts::changes(&reviewed, &verdicts::of(&better)), ["dv/a floe -> x: fail became pass"]);
    assert_eq!(
        diff::text(&r, &better),
        "dv/a floe -> x: fail became pass\n\
         1 verdicts changed (1 pass now, 0 passed before), 0 are new, 0 are gone\n"
    );
    assert_eq!(diff::text(&r, &r), "");
}

#[test]
fn accepting_keeps_the_verdicts_of_what_did_not_run() {
    let mut reviewed = verdicts::of(&run());
    reviewed.insert(("dv/z".into(), "trino".into(), "floe".into()), "pass".into());
    let text = verdicts::accept(&reviewed, &run());
    assert!(text.contains("dv/z\n  trino: floe pass"), "{text}");
}

#[test]
fn the_reviewed_file_has_one_order_whichever_runs_filled_it() {
    let of = |readers: &[&str]| {
        let mut r = run();
        let cell = |reader: &&str| Cell::of("dv/a", "floe", reader, vec![Check::pass(2, "rows")], 1);
        r.cells = readers.iter().map(cell).collect();
        r
    };
    let all = ["metadata", "audit", "floe", "a", "m", "z"];
    let whole = verdicts::text(&of(&all));
    assert!(whole.contains("metadata pass · audit pass · floe pass · a pass · m pass · z pass"), "{whole}");
    let runs: [[&[&str]; 2]; 2] =
        [[&["z", "floe"], &["m", "a", "audit", "metadata"]], [&["floe", "a", "z"], &["metadata", "audit", "m"]]];
    for parts in runs {
        let first = verdicts::of(&of(parts[0]));
        assert_eq!(verdicts::accept(&first, &of(parts[1])), whole);
    }
}

#[test]
fn the_worst_check_decides_and_its_step_is_named() {
    let c = Cell::of(
        "dv/a",
        "w",
        "r",
        vec![
            Check::pass(1, "rows"),
            Check::new(4, "rows", Outcome::Fail, "late"),
            Check::new(2, "rows", Outcome::Fail, "early"),
        ],
        0,
    );
    assert_eq!((c.outcome, c.reason.as_str(), c.accepted), (Outcome::Fail, "step 2, rows: early", false));
}

#[test]
fn junit_escapes_and_counts() {
    let x = junit::text(&run());
    assert!(x.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{x}");
    assert!(x.contains("a&lt;b"), "{x}");
}

#[test]
fn a_run_with_a_failure_is_red_and_its_matrix_says_so() {
    let r = run();
    assert!(!r.green());
    let t = terminal::text(&r);
    assert!(t.contains("0/1!") && t.contains("not accepted (1)"), "{t}");
}
