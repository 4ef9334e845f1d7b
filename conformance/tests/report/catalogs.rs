//! The rows of catalogs: those that need no server are run for real, the others say why not and how to.

use floe_conformance::matrix::catalogs;
use floe_conformance::matrix::result::{Outcome, Results};

use super::sample::run;

#[tokio::test(flavor = "multi_thread")]
async fn every_catalog_has_a_row() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    // No floe.toml here: the one that is asked for cannot be opened.
    let asked = ["glue".to_string()];
    let rows = catalogs::run(tmp.path(), &asked).await;
    let of = |o: Outcome| rows.iter().filter(|r| r.outcome == o).map(|r| r.name.as_str()).collect::<Vec<_>>();
    assert_eq!(of(Outcome::Pass), ["hadoop", "sqlite", "rest"], "{rows:?}");
    assert_eq!(of(Outcome::Skipped), ["postgres", "hive", "google", "polaris", "lakekeeper", "nessie", "s3tables"]);
    assert_eq!(of(Outcome::Fail), ["glue"]);
    for row in &rows {
        let words = row.checks.iter().map(|c| c.what.as_str()).collect::<Vec<_>>().join("; ");
        match row.outcome {
            Outcome::Pass => assert!(words.contains("conditional put") && words.contains("WHERE id = 5000"), "{words}"),
            Outcome::Skipped => assert!(
                row.reason.starts_with("needs ") || row.reason.contains("not served"),
                "{}: {}",
                row.name,
                row.reason
            ),
            _ => assert!(row.reason.contains("floe.toml"), "{}", row.reason),
        }
        let asked_for = row.outcome != Outcome::Pass;
        assert_eq!(row.command.ends_with(&format!("--catalogs {}", row.name)), asked_for, "{}", row.command);
    }
    let sample = Results { cells: vec![], catalogs: vec![], ..run().await };
    assert!(sample.green());
    assert!(!Results { catalogs: rows, ..sample }.green(), "a catalog that was asked for and fails makes the run red");
    assert!(catalogs::check_names(&["nowhere".into()]).is_err_and(|e| e.contains("there are: hadoop, sqlite")));
    // What they made is gone: no namespace of the walk is left.
    let left = std::fs::read_dir(tmp.path().join("hadoop")).expect("the warehouse").count();
    assert_eq!(left, 0, "the walk leaves nothing");
}
