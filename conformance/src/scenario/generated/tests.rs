use std::collections::BTreeSet;

use super::*;
use crate::scenario::{expected_states, parse};

#[test]
fn a_seed_gives_one_history_and_seeds_differ() {
    assert_eq!(History::of(7), History::of(7));
    let all: BTreeSet<String> = (0..50).map(|s| format!("{:?}", History::of(s).steps)).collect();
    assert_eq!(all.len(), 50);
}

#[test]
fn histories_reach_every_kind_of_statement() {
    let text: String = (0..100).flat_map(|s| History::of(s).scenario().steps).map(|s| s.sql + "\n").collect();
    for word in [
        "INSERT INTO",
        "INSERT OVERWRITE",
        "DELETE",
        "UPDATE",
        "MERGE",
        "'format-version'='3')\n",
        "ADD COLUMN",
        "DROP COLUMN",
        "RENAME",
        "TYPE BIGINT",
        "rewrite_data_files",
        "rewrite_manifests",
        "rewrite_position_delete_files",
        "bucket",
        "IS NULL",
    ] {
        assert!(text.contains(word), "{word}");
    }
}

#[test]
fn a_history_and_each_part_of_it_is_a_valid_scenario_file() {
    for history in (0..30)
        .map(History::of)
        .flat_map(|h| (0..h.statements()).map(|i| h.without(i)).chain([h.clone()]).collect::<Vec<_>>())
    {
        let mut scenario = history.scenario();
        let states = expected_states(&scenario).expect("states");
        assert_eq!(states.len(), scenario.steps.len());
        scenario.id.clear();
        let text = toml::to_string_pretty(&scenario).expect("a file");
        let read = parse("row-level/found", "found.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(expected_states(&read).expect("states"), states);
    }
}
