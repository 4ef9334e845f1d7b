//! floe alone through the whole workload, the model beside what SQL says, and the judgement of targets.

use async_trait::async_trait;

use super::super::{Contender, Plan, Report, Sample, Usage, Workload, text};
use super::model::{Changed, History, Update};
use super::peers::Way;
use super::{run, targets};
use crate::drivers::{Driver, Floe};
use crate::protocol::{Answer, Hello, TableRef};
use crate::value::Rows;

fn plan(rows: u32) -> Plan {
    let modes = vec!["merge-on-read".into(), "copy-on-write".into()];
    Plan { workload: Workload::Cdc, rows, samples: 1, modes, ..Plan::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn floe_runs_the_workload_with_the_rows_of_the_model() {
    let dir = tempfile::tempdir().expect("folder");
    let floe = Floe::new(dir.path(), "ice").expect("floe");
    let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(floe)];
    let absent = vec![("x".into(), "not here".into())];
    let report = run(&plan(20_000), dir.path(), &mut drivers, absent, &|_| ()).await.expect("a report");
    for s in &report.samples {
        assert!(s.seconds.is_some() && s.rows > 0, "{s:?}");
        assert_eq!(s.bytes > 0, s.what.starts_with("sync"), "{s:?}");
    }
    // two rounds of two amounts in two modes, and of two shapes in two sizes; changelog and sync of each
    assert_eq!(report.samples.len(), 2 * 2 * 2 * 2 * 2);
    let rows = |what: &str| report.samples.iter().find(|s| s.what == what).map(|s| s.rows);
    assert_eq!(rows("sync, 1 % updated"), Some(200));
    assert_eq!(rows("changelog, 2 % updated"), Some(800));
    assert_eq!(rows("sync, 20 neighbours updated of 2000"), Some(20));
    assert_eq!(rows("sync, 20 scattered updated of 20000"), Some(20));
    assert!(text(&report).contains("x takes no part: not here"));
    let lines = targets(&report);
    assert_eq!(lines.lines().filter(|l| l.contains("not measured")).count(), 0, "{lines}");
    let left = std::fs::read_dir(dir.path().join("bench")).into_iter().flatten().count();
    assert_eq!(left, 0, "tables that nothing needs any more are dropped");
}

#[tokio::test]
async fn floe_must_take_part() {
    let dir = tempfile::tempdir().expect("folder");
    let e = run(&plan(1000), dir.path(), &mut [], vec![], &|_| ()).await.expect_err("no history");
    assert!(e.contains("needs the engine floe"), "{e}");
}

#[test]
fn the_model_follows_its_updates() {
    let mut h = History::new(300);
    assert_eq!(h.last(), Changed::default());
    let fresh: Vec<u64> = (0..300u64).map(|id| id * 7919 % 1_000_003).collect();
    h.apply(Update::Scattered { step: 100, at: 7 });
    h.apply(Update::Neighbours { from: 205, to: 210 });
    // 207 was hit before
    let before: u64 = fresh[205..210].iter().sum::<u64>() + 1;
    assert_eq!(h.last(), Changed { rows: 5, ids: 205 + 206 + 207 + 208 + 209, before });
    let n: u64 = fresh.iter().sum::<u64>() + 3 + 5;
    let letters: u64 = (0..300u64).map(|id| format!("city {id}").len() as u64).sum();
    let answer = h.table().remove(0);
    assert_eq!(answer[0], "300");
    assert_eq!(answer[3], n.to_string());
    assert_eq!(answer[5], letters.to_string());
    assert_eq!(h.last().view()[0], ["UPDATE_AFTER".to_string(), "5".into(), "1035".into(), (before + 5).to_string()]);
    assert_eq!(h.last().diff()[0], ["5".to_string(), "1035".into(), before.to_string(), (before + 5).to_string()]);
}

#[test]
fn an_engine_reads_what_it_can() {
    assert_eq!(Way::of("spark41"), Some(Way::View));
    assert_eq!(Way::of("polars"), None);
    assert!(!Way::View.reads("merge-on-read") && Way::View.reads("copy-on-write"));
    assert!(Way::Diff.reads("merge-on-read") && Way::Floe.reads("copy-on-write"));
}

#[test]
fn targets_are_met_missed_or_not_measured() {
    let sample = |what: &str, engine: &str, seconds: Option<f64>, peak_mib: Option<f64>| Sample {
        what: what.into(),
        engine: engine.into(),
        writer: "floe".into(),
        mode: "copy-on-write".into(),
        round: 1,
        seconds,
        reason: String::new(),
        bytes: 0,
        rows: 1,
        usage: Usage { peak_mib, ..Usage::default() },
        ..Sample::default()
    };
    let engine = |name: &str| Contender { name: name.into(), version: String::new(), iceberg: String::new() };
    let report = Report {
        schema: 1,
        floe: "0".into(),
        machine: "m".into(),
        plan: plan(1000),
        engines: vec![engine("floe"), engine("spark35"), engine("spark41")],
        absent: vec![],
        samples: vec![
            sample("sync, 1 % updated", "floe", Some(2.0), Some(2000.0)),
            sample("sync, 2 % updated", "floe", Some(4.0), Some(100.0)),
            sample("sync, 1 % updated", "spark35", Some(12.0), None),
            // a wrong round takes the others with it
            sample("sync, 1 % updated", "spark41", Some(12.0), None),
            sample("sync, 1 % updated", "spark41", None, None),
        ],
    };
    let text = targets(&report);
    let line = |part: &str| text.lines().find(|l| l.contains(part)).unwrap_or_default().to_string();
    assert!(line("spark35 / floe").ends_with("6.00 >= 5x met"), "{text}");
    assert!(line("spark41 / floe").ends_with("not measured"), "{text}");
    assert!(line("sync, copy-on-write: twice").ends_with("2.00 <= 2.3x met"), "{text}");
    assert!(line("in any sync").ends_with("2000.00 <= 1024 MiB missed"), "{text}");
}

/// floe under another engine's name, which goes that engine's way; a lazy one leaves MERGE out.
struct Named {
    floe: Floe,
    name: &'static str,
    lazy: bool,
}

#[async_trait]
impl Driver for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn hello(&self) -> &Hello {
        self.floe.hello()
    }

    async fn apply(&mut self, sql: &str, table: &TableRef) -> Answer<()> {
        // a setting of the engine whose name it has
        if sql.starts_with("SET ") || self.lazy && sql.starts_with("MERGE ") {
            return Answer::Ok(());
        }
        self.floe.apply(sql, table).await
    }

    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        self.floe.scan(table).await
    }

    async fn query(&mut self, sql: &str, table: &TableRef) -> Answer<Rows> {
        self.floe.query(sql, table).await
    }

    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        self.floe.changes(table, from, to).await
    }

    async fn revive(&mut self) {}

    fn alive(&self) -> bool {
        true
    }

    async fn stop(&mut self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_wrong_rows_has_no_times() {
    let dir = tempfile::tempdir().expect("folder");
    let named = |name, lazy| Named { floe: Floe::new(dir.path(), "ice").expect("floe"), name, lazy };
    let floe = Floe::new(dir.path(), "ice").expect("floe");
    let mut drivers: Vec<Box<dyn Driver>> =
        vec![Box::new(floe), Box::new(named("spark-right", false)), Box::new(named("spark-lazy", true))];
    let report = run(&plan(3000), dir.path(), &mut drivers, vec![], &|_| ()).await.expect("a report");
    let of = |engine: &str, kind: &str| -> Vec<&Sample> {
        report.samples.iter().filter(|s| s.engine == engine && s.what.starts_with(kind)).collect()
    };
    // the view reads copy-on-write tables only: two amounts, two rounds
    assert_eq!(of("spark-right", "sync").len(), 4);
    assert!(of("spark-right", "").iter().all(|s| s.seconds.is_some()), "{:?}", of("spark-right", ""));
    assert!(of("spark-lazy", "changelog").iter().all(|s| s.seconds.is_some()));
    assert_eq!(of("spark-lazy", "sync").len(), 4);
    for s in of("spark-lazy", "sync") {
        assert!(s.seconds.is_none() && s.reason.starts_with("wrong rows"), "{s:?}");
    }
}
