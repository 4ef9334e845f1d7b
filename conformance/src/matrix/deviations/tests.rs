use super::super::result::Check;
use super::*;

const BOOK: &str = r#"
[[deviation]]
engine = "x"
version = "1.*"
role = "read"
scenario = "dv/*"
outcome = "fail"
says = "too many"
clause = "DV-1"
cause = "does not apply deletion vectors"
reference = "example/x#1"
"#;

fn engines() -> Vec<EngineRow> {
    vec![EngineRow { name: "x".into(), version: "1.2".into(), ..EngineRow::default() }]
}

fn cell(scenario: &str, reader: &str, outcome: Outcome, reason: &str) -> Cell {
    Cell::of(scenario, "floe", reader, vec![Check::new(2, "rows", outcome, reason)], 0)
}

#[test]
fn the_reviewed_file_parses() {
    parse(FILE).expect("known-deviations.toml");
}

#[test]
fn a_known_deviation_is_accepted_and_a_new_one_is_not() {
    let book = parse(BOOK).expect("book");
    let mut cells = vec![
        cell("dv/a", "x", Outcome::Fail, "1 row too many"),
        cell("dv/b", "x", Outcome::Fail, "1 row missing"),
        cell("dv/c", "y", Outcome::Fail, "1 row too many"),
        cell("lineage/a", "x", Outcome::Fail, "1 row too many"),
    ];
    assert!(apply(&book, &mut cells, &engines(), true).is_empty());
    assert_eq!(cells.iter().map(|c| c.accepted).collect::<Vec<_>>(), [true, false, false, false]);
    assert!(cells[0].known.contains("example/x#1"));
}

#[test]
fn a_deviation_that_no_longer_fails_is_stale() {
    let book = parse(BOOK).expect("book");
    let mut cells = vec![cell("dv/a", "x", Outcome::Pass, "")];
    assert_eq!(apply(&book, &mut cells, &engines(), true).len(), 1);
    let mut other = vec![cell("dv/a", "y", Outcome::Pass, "")];
    assert!(apply(&book, &mut other, &engines(), true).is_empty(), "an engine that did not run says nothing");
}

#[test]
fn an_entry_without_a_reference_is_refused() {
    let e = parse(&BOOK.replace("example/x#1", "")).expect_err("no reference");
    assert!(e.contains("required"), "{e}");
}

#[test]
fn an_entry_that_is_there_twice_is_refused() {
    let e = parse(&format!("{BOOK}{BOOK}")).expect_err("twice");
    assert!(e.contains("there twice"), "{e}");
    let other = BOOK.replace("too many", "missing");
    assert_eq!(parse(&format!("{BOOK}{other}")).expect("two faults of one engine").len(), 2);
}

#[test]
fn a_pattern_is_stale_only_in_a_whole_run_and_for_each_engine_by_itself() {
    let one = |scenario: &str| vec![cell(scenario, "x", Outcome::Pass, "")];
    let book = parse(BOOK).expect("book");
    assert!(apply(&book, &mut one("dv/a"), &engines(), false).is_empty(), "the other scenarios did not run");
    let book = parse(&BOOK.replace("dv/*", "dv/a")).expect("book");
    assert_eq!(apply(&book, &mut one("dv/a"), &engines(), false).len(), 1);
    let book = parse(&BOOK.replace("\"x\"", "\"x*\"")).expect("book");
    let rows = ["x", "x2", "y"].map(|n| EngineRow { name: n.into(), version: "1.2".into(), ..EngineRow::default() });
    let mut cells = vec![
        cell("dv/a", "x", Outcome::Fail, "1 row too many"),
        cell("dv/a", "x2", Outcome::Pass, ""),
        cell("dv/a", "y", Outcome::Fail, "1 row too many"),
    ];
    let stale = apply(&book, &mut cells, &rows, true);
    assert!(stale.len() == 1 && stale[0].starts_with("x2 "), "{stale:?}");
    assert_eq!(cells.iter().map(|c| c.accepted).collect::<Vec<_>>(), [true, true, false]);
}
