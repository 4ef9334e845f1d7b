//! floe and, where it is installed, Iceberg's Java library through the whole workload; wrong and missing answers; the targets.

use async_trait::async_trait;

use super::super::{Contender, Plan, Report, Sample, VECTORS, Workload, text};
use super::{run, targets, warmed_for};
use crate::drivers::{Driver, Floe, Process};
use crate::engines::{Home, find, installed};
use crate::protocol::{Answer, Hello, Measured, TableRef, Work};
use crate::value::Rows;

fn plan(rows: u32) -> Plan {
    Plan { workload: Workload::Metadata, rows, samples: 1, modes: vec![VECTORS.into()], ..Plan::default() }
}

fn floe(dir: &std::path::Path) -> Box<dyn Driver> {
    Box::new(Floe::new(dir, "ice").expect("floe"))
}

#[tokio::test(flavor = "multi_thread")]
async fn floe_and_iceberg_java_decode_and_plan_the_same() {
    let dir = tempfile::tempdir().expect("folder");
    let warehouse = dir.path().join("warehouse");
    std::fs::create_dir_all(&warehouse).expect("a folder");
    let mut drivers = vec![floe(&warehouse)];
    let engine = find("icebergjava").expect("the engine");
    let home = Home::find().expect("a home");
    match installed(&engine, &home).filter(|_| engine.missing().is_none()) {
        None => eprintln!("floe alone: icebergjava is not installed (cargo floe engines install icebergjava)"),
        Some(_) => {
            // compiles the driver's sources where those are new
            let place = crate::engines::install(&engine, &home, &|_| ()).expect("installed");
            let launch = engine.launch(&place.dir, &dir.path().join("java"), &warehouse, "ice", "").expect("a launch");
            drivers.push(Box::new(Process::start(launch).await.expect("a start")));
        }
    }
    let report = warmed_for(0.05, &plan(150), &warehouse, &mut drivers, vec![], &|_| ()).await.expect("a report");
    for s in &report.samples {
        assert!(s.seconds.is_some_and(|t| t > 0.0), "{s:?}");
    }
    // four shapes of one size and a plan, cold and warm
    assert_eq!(report.samples.len(), drivers.len() * (4 + 1) * 2);
    let planned: Vec<&Sample> = report.samples.iter().filter(|s| s.what.starts_with("planning")).collect();
    assert!(planned.iter().all(|s| s.rows == 150 && s.usage.peak_mib.is_some_and(|p| p > 1.0)), "{planned:?}");
    if drivers.len() == 2 {
        let lines = targets(&report);
        assert_eq!(lines.lines().filter(|l| l.contains("not measured")).count(), 0, "{lines}");
        assert_eq!(lines.lines().filter(|l| l.contains(">= 2x")).count(), 4, "{lines}");
    }
    for d in &mut drivers {
        d.stop().await;
    }
}

/// An engine that counts one too many, or that measures nothing.
struct Odd {
    hello: Hello,
    counts: bool,
}

#[async_trait]
impl Driver for Odd {
    fn name(&self) -> &str {
        if self.counts { "wrong" } else { "silent" }
    }

    fn hello(&self) -> &Hello {
        &self.hello
    }

    async fn apply(&mut self, _: &str, _: &TableRef) -> Answer<()> {
        Answer::Ok(())
    }

    async fn scan(&mut self, _: &TableRef) -> Answer<Rows> {
        Answer::Skipped("no".into())
    }

    async fn query(&mut self, _: &str, _: &TableRef) -> Answer<Rows> {
        Answer::Skipped("no".into())
    }

    async fn changes(&mut self, _: &TableRef, _: Option<i64>, _: Option<i64>) -> Answer<Rows> {
        Answer::Skipped("no".into())
    }

    async fn measure(&mut self, work: &Work, _: u32) -> Answer<Measured> {
        match work {
            Work::Decode { positions, .. } if self.counts => {
                Answer::Ok(Measured { seconds: 1e-9, count: positions + 1, check: 0, peak_mib: None })
            }
            _ => Answer::Skipped("this driver measures nothing".into()),
        }
    }

    async fn revive(&mut self) {}

    fn alive(&self) -> bool {
        true
    }

    async fn stop(&mut self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_has_no_time() {
    let dir = tempfile::tempdir().expect("folder");
    let odd = |counts| Box::new(Odd { hello: Hello::default(), counts });
    let mut drivers: Vec<Box<dyn Driver>> = vec![floe(dir.path()), odd(true), odd(false)];
    let report = warmed_for(0.05, &plan(100), dir.path(), &mut drivers, vec![], &|_| ()).await.expect("a report");
    let of = |engine: &str| report.samples.iter().filter(move |s| s.engine == engine).collect::<Vec<_>>();
    assert!(of("floe").iter().all(|s| s.seconds.is_some()));
    let wrong = of("wrong");
    assert!(wrong.iter().all(|s| s.seconds.is_none()) && wrong[0].reason.starts_with("wrong rows: "), "{wrong:?}");
    assert!(of("silent").iter().all(|s| s.reason == "this driver measures nothing"));
    let e = run(&plan(100), dir.path(), &mut drivers[1..], vec![], &|_| ()).await.expect_err("no table");
    assert!(e.contains("needs the engine floe"), "{e}");
}

#[test]
fn targets_are_judged_from_warm_medians() {
    let sample = |what: &str, engine: &str, round, seconds| Sample {
        what: what.into(),
        engine: engine.into(),
        writer: "floe".into(),
        mode: VECTORS.into(),
        round,
        seconds: Some(seconds),
        ..Sample::default()
    };
    let plans = "planning of all data files";
    let runs = "decode of 1000, runs of 1000";
    let report = Report {
        schema: 1,
        floe: "0".into(),
        machine: "m".into(),
        plan: plan(100),
        engines: vec![Contender { name: "floe".into(), version: String::new(), iceberg: String::new() }],
        absent: vec![],
        samples: vec![
            sample(plans, "floe", 0, 9.0),
            sample(plans, "floe", 1, 1.0),
            sample(plans, "icebergjava", 0, 9.0),
            sample(plans, "icebergjava", 1, 2.9),
            sample(runs, "floe", 1, 1.1e-7),
            sample(runs, "icebergjava", 1, 3.3e-7),
        ],
    };
    let lines = targets(&report);
    let line = |part: &str| lines.lines().find(|l| l.contains(part)).unwrap_or_default().to_string();
    assert!(line(plans).ends_with("2.90 >= 3x missed"), "{lines}");
    assert!(line(runs).ends_with("3.00 >= 2x met"), "{lines}");
    assert!(line("every 1000th").ends_with("not measured"), "{lines}");
    let table = text(&report);
    assert!(table.contains("1.10e-7") && table.contains("3.30e-7"), "{table}");
}
