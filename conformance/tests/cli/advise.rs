//! `floe advise` on a table with a history, and its bad input.

use super::{floe, must, text};

#[test]
fn advice_follows_the_table_and_what_is_done_with_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(
        at,
        "hadoop:w",
        "CREATE NAMESPACE ns; CREATE TABLE ns.t (id BIGINT, s STRING) USING iceberg TBLPROPERTIES('format-version'='3', \
         'write.delete.mode'='merge-on-read'); INSERT INTO ns.t SELECT id, 'x' FROM range(0, 1000, 1, 4)",
    );
    let advise = |more: &[&str]| {
        let mut args = vec!["advise", "ns.t", "--catalog", "hadoop:w", "--format", "json"];
        args.extend(more);
        let out = floe(at, &args);
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice::<serde_json::Value>(&out.stdout).expect("one JSON object")
    };
    let fresh = advise(&[]);
    assert_eq!((fresh["work"]["changed"].as_f64(), fresh["table"]["dead"].as_u64()), (Some(10.0), Some(0)));
    assert!(fresh["from"].as_str().is_some_and(|f| f.starts_with("assumed")), "{fresh}");
    must(at, "hadoop:w", "DELETE FROM ns.t WHERE id % 50 = 1");
    must(at, "hadoop:w", "DELETE FROM ns.t WHERE id % 50 = 2");
    let changed = advise(&["--scans", "3"]);
    // twenty rows each time; the second vector holds those of the first too
    assert_eq!((changed["work"]["changed"].as_f64(), changed["table"]["dead"].as_u64()), (Some(20.0), Some(40)));
    assert_eq!(changed["from"], "median of its last 2 snapshots with deletes");
    assert_eq!(advise(&["--change", "5%"])["work"]["changed"], 50.0);
    let more = floe(at, &["advise", "ns.t", "--catalog", "hadoop:w", "--change", "1001"]);
    assert_eq!(
        (more.status.code(), text(&more.stderr).contains("--change 1001: ns.t has 960 rows")),
        (Some(1), true),
        "{}",
        text(&more.stderr)
    );
    assert_eq!(
        advise(&["--change", "7", "--clustered"])["work"],
        serde_json::json!({"changed": 7.0, "clustered": true, "scans": 1.0})
    );
    // what is said to be done is done, and then there is nothing to do
    let busy = text(&floe(at, &["advise", "ns.t", "--catalog", "hadoop:w", "--scans", "100000"]).stdout);
    let command = busy
        .lines()
        .find_map(|l| l.split_once("floe maintenance "))
        .filter(|_| busy.contains("merge-on-read\n"))
        .map(|c| c.1);
    if let Some(command) = command {
        let args: Vec<&str> =
            ["maintenance"].into_iter().chain(command.split(' ')).chain(["--catalog", "hadoop:w"]).collect();
        assert!(text(&floe(at, &args).stdout).contains("| 4 "), "four files are rewritten: {command}");
    }
    must(
        at,
        "hadoop:w",
        "CALL system.upsert(table => 'ns.t', source => 'ns.t', equality_columns => array('id'), delete_format => 'equality')",
    );
    assert!(advise(&[])["table"]["equality"].as_u64().is_some_and(|n| n > 0), "{}", advise(&[]));
    let said = floe(at, &["advise", "ns.t", "--catalog", "hadoop:w"]);
    for part in ["dead", "equality delete files apply", "advice: ", "costs of floe "] {
        assert!(text(&said.stdout).contains(part), "{part}: {}", text(&said.stdout));
    }
}

#[test]
fn bad_input_names_what_is_allowed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(at, "hadoop:w", "CREATE NAMESPACE ns; CREATE TABLE ns.t (id BIGINT) USING iceberg");
    std::fs::write(at.join("no.json"), "{}").expect("a file");
    for (args, code, message) in [
        (&["--change", "0"][..], 2, "a number of rows from 1 on, or more than 0% up to 100%"),
        (&["--change", "101%"], 2, "more than 0% up to 100%"),
        (&["--scans", "-1"], 2, "a number from 0 to 1000000"),
        (&["--engine", "nobody"], 1, "no costs of engine \"nobody\" in the reviewed run"),
        (&["--costs", "no.json"], 1, "no measured run"),
        (&["--costs", "gone.json"], 1, "cannot read the measured run"),
        (&[], 1, "ns.t has no rows"),
    ] {
        let out = floe(at, &[&["advise", "ns.t", "--catalog", "hadoop:w"][..], args].concat());
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(message), "{args:?}: {}", text(&out.stderr));
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    let out = floe(at, &["advise", "ns.gone", "--catalog", "hadoop:w"]);
    assert!(out.status.code() == Some(1) && text(&out.stderr).contains("gone"), "{}", text(&out.stderr));
}

/// A typing error in a catalog's name makes no catalog.
#[test]
fn commands_on_tables_make_no_database() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    for command in [&["advise", "ns.t"][..], &["maintenance", "expire-snapshots", "ns.t"]] {
        let out = floe(at, &[command, &["--catalog", "sql:sqlite:typo.db"]].concat());
        assert!(!out.status.success(), "{command:?}");
        assert!(text(&out.stderr).contains("there is no such catalog database"), "{command:?}: {}", text(&out.stderr));
        assert!(std::fs::read_dir(at).expect("folder").next().is_none(), "{command:?} left something behind");
    }
}
