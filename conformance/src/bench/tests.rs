//! floe alone through the whole workload, and the model beside what SQL says.

use super::model::{Change, Model};
use super::{Contender, Plan, Report, Sample, Workload, run, text};
use crate::drivers::{Driver, Floe};

#[tokio::test(flavor = "multi_thread")]
async fn floe_runs_the_workload_with_the_rows_of_the_model() {
    let dir = tempfile::tempdir().expect("folder");
    let plan = Plan {
        workload: Workload::Statements,
        rows: 3000,
        samples: 2,
        modes: vec!["merge-on-read".into(), "copy-on-write".into()],
        ..Plan::default()
    };
    let floe = Floe::new(dir.path(), "ice").expect("floe");
    let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(floe)];
    let report = run(&plan, dir.path(), &mut drivers, vec![("x".into(), "not here".into())], &|_| ()).await;
    for s in &report.samples {
        assert!(s.seconds.is_some(), "{s:?}");
    }
    // a load, four statements, three states read narrow and wide; three rounds of each but the load; two modes
    assert_eq!(report.samples.len(), 2 * (1 + 3 * (4 + 6)));
    assert!(report.samples.iter().filter(|s| !s.what.starts_with("scan")).all(|s| s.bytes > 0));
    let text = text(&report);
    assert!(text.contains("x takes no part: not here"), "{text}");
    assert_eq!(text.lines().filter(|l| l.contains("merge-on-read")).count(), 11, "{text}");
    let again: Report = serde_json::from_str(&serde_json::to_string(&report).expect("json")).expect("report");
    assert_eq!(again, report);
}

#[test]
fn the_model_follows_its_statements() {
    let mut m = Model::new(400);
    assert_eq!(m.answer(false)[..2], ["400".to_string(), (399 * 400 / 2).to_string()]);
    m.apply(Change::DeleteOne(399));
    m.apply(Change::Delete(7));
    assert_eq!(m.answer(false)[0], "395");
    let before: u64 = m.answer(false)[2].parse().expect("a number");
    m.apply(Change::Update(3));
    assert_eq!(m.answer(false)[2], (before + 4).to_string());
    m.apply(Change::Merge(60));
    assert_eq!(m.answer(false)[0], "393");
    assert_eq!(m.answer(true)[3], "city 99");
}

#[test]
fn a_wrong_or_missing_answer_has_no_time_and_says_why() {
    let sample = |engine: &str, round, seconds: Option<f64>, reason: &str| Sample {
        what: "scan narrow, no deletes".into(),
        engine: engine.into(),
        writer: "floe".into(),
        mode: "merge-on-read".into(),
        round,
        seconds,
        reason: reason.into(),
        bytes: 0,
        rows: 0,
        ..Sample::default()
    };
    let report = Report {
        schema: 1,
        floe: "0".into(),
        machine: "m".into(),
        plan: Plan { workload: Workload::Statements, rows: 1, samples: 1, ..Plan::default() },
        engines: vec![Contender { name: "floe".into(), version: "0".into(), iceberg: String::new() }],
        absent: vec![],
        samples: vec![
            sample("floe", 0, Some(4.0), ""),
            sample("floe", 1, Some(2.0), ""),
            sample("slow", 0, Some(9.0), ""),
            sample("slow", 1, Some(3.0), ""),
            sample("wrong", 0, Some(1.0), ""),
            sample("wrong", 1, None, "wrong rows: 1 instead of 2"),
        ],
    };
    let text = text(&report);
    let line = |name: &str| text.lines().find(|l| l.contains(&format!(" {name} "))).unwrap_or_default().to_string();
    assert!(line("slow").contains("9.000") && line("slow").contains("1.50"), "{text}");
    assert!(line("wrong").contains("- (wrong rows: 1 instead of 2)"), "{text}");
}
