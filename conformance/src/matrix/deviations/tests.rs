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
    assert!(apply(&book, &mut cells, &engines()).is_empty());
    assert_eq!(cells.iter().map(|c| c.accepted).collect::<Vec<_>>(), [true, false, false, false]);
    assert!(cells[0].known.contains("example/x#1"));
}

#[test]
fn a_deviation_that_no_longer_fails_is_stale() {
    let book = parse(BOOK).expect("book");
    let mut cells = vec![cell("dv/a", "x", Outcome::Pass, "")];
    assert_eq!(apply(&book, &mut cells, &engines()).len(), 1);
    let mut other = vec![cell("dv/a", "y", Outcome::Pass, "")];
    assert!(apply(&book, &mut other, &engines()).is_empty(), "an engine that did not run says nothing");
}

#[test]
fn an_entry_without_a_reference_is_refused() {
    let e = parse(&BOOK.replace("example/x#1", "")).expect_err("no reference");
    assert!(e.contains("required"), "{e}");
}
