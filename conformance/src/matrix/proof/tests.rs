use super::*;
use crate::matrix::result::{Cell, Check, EngineRow};
use crate::scenario::parse;

fn scenario(id: &str, features: &str) -> Scenario {
    let text = format!(
        "title = 't'\nclauses = ['DV-2']\nfeatures = [{features}]\ncolumns = ['id int']\n[[step]]\nsql = 'INSERT INTO {{table}} VALUES (1)'\nrows = [[1]]\n"
    );
    parse(id, "x.toml", &text).expect("a scenario")
}

#[test]
fn a_capability_is_open_until_a_scenario_that_needs_it_passes() {
    let row = |name: &str, capabilities: &[&str]| EngineRow {
        name: name.into(),
        capabilities: capabilities.iter().map(ToString::to_string).collect(),
        ..EngineRow::default()
    };
    let pass = |s: &str, w: &str, r: &str| Cell::of(s, w, r, vec![Check::pass(1, "rows")], 0);
    let fail =
        |s: &str, w: &str, r: &str| Cell::of(s, w, r, vec![Check::new(1, "rows", Outcome::Fail, "1 row missing")], 0);
    let mut r = Results {
        schema: 1,
        floe: String::new(),
        started: 0,
        seconds: 0.0,
        launcher: "native".into(),
        engines: vec![row("a", &["v3", "merge"]), row("b", &["v3", "merge", "geo"])],
        scenarios: vec![scenario("dv/plain", "'v3'"), scenario("dv/merge", "'v3', 'merge'")],
        cells: vec![pass("dv/plain", "a", "b"), fail("dv/merge", "a", "b"), pass("dv/merge", "a", "a")],
        stale_deviations: vec![],
        catalogs: vec![],
        figures: vec![],
    };
    assert_eq!(unproven(&r), ["b declares merge and no cell of this run shows it"], "geo has no scenario in this run");
    r.cells[1] = pass("dv/merge", "a", "b");
    assert!(unproven(&r).is_empty());
}
