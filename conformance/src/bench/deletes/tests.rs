//! The workload `deletes` by floe alone, the fit of costs, the advice, and the reviewed run.

use super::super::advise::{Shape, Work, advise, text};
use super::super::costs::{Costs, Line, Point, deletes, fit, line, scans};
use super::super::{Data, Plan, Report, Sample, Usage, Workload, charts, reviewed, table, verdict};
use super::{Cut, DELETE, SCATTERED, SMALL_DELETE, run, targets};
use crate::drivers::{Driver, Floe};

const MODES: [&str; 4] = ["merge-on-read", "copy-on-write", "position-deletes", "equality-deletes"];

async fn run_floe(data: Data, sizes: &[u32]) -> Report {
    let dir = tempfile::tempdir().expect("folder");
    let plan = Plan {
        workload: Workload::Deletes,
        table: data,
        rows: 400,
        sizes: sizes.to_vec(),
        samples: 1,
        modes: MODES.map(String::from).to_vec(),
        small_deletes: 5,
        ..Plan::default()
    };
    let floe = Floe::new(dir.path(), "ice").expect("floe");
    let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(floe)];
    let report = run(&plan, dir.path(), &mut drivers, vec![], &|_| ()).await.expect("a run");
    for s in &report.samples {
        assert!(s.seconds.is_some(), "{s:?}");
    }
    // shares of one in 100 and more, in two places, a cold and a warm one; a scan after each
    for mode in MODES {
        let of = |what: &str| report.samples.iter().filter(|s| s.mode == mode && s.what == what).count();
        assert_eq!((of("delete"), of("scan"), of(SMALL_DELETE), of("compaction")), (20, 22, 5, 1));
    }
    let again: Report = serde_json::from_str(&serde_json::to_string(&report).expect("json")).expect("report");
    assert_eq!(again, report);
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn floe_runs_the_workload_with_the_rows_of_the_model() {
    let report = run_floe(Data::Walkthrough, &[800]).await;
    let text = table::text(&report);
    assert!(text.contains("delete 50 % clustered"), "{text}");
    let sized = report.samples.iter().filter(|s| s.table_rows == 800 && s.mode == "merge-on-read");
    assert_eq!(sized.count(), 4);
    let half = |mode: &str| {
        let of = |s: &&Sample| s.mode == mode && s.what == DELETE && s.percent == Some(50.0) && s.place == SCATTERED;
        report.samples.iter().find(of).expect("a sample")
    };
    assert_eq!(half("merge-on-read").rows, 200);
    assert_eq!((half("merge-on-read").data_files, half("merge-on-read").delete_files), (Some(4), Some(4)));
    assert_eq!(half("copy-on-write").delete_files, Some(0));
    assert_eq!(half("equality-deletes").delete_files, Some(1));
    assert!(half("copy-on-write").live_bytes < half("merge-on-read").live_bytes);
    if cfg!(target_os = "linux") {
        assert!(report.samples.iter().any(|s| s.usage.read_bytes > Some(0) && s.usage.requests > Some(0)));
    }
    let page = charts::page(&report).expect("a page");
    assert!(page.contains("<svg") && page.contains("floe: what a DELETE costs, rows scattered"), "{page}");
    assert!(page.contains("by size of the table"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lineitem_loses_the_rows_of_the_model() {
    let report = run_floe(Data::Lineitem, &[]).await;
    assert!(report.samples.iter().any(|s| s.what == DELETE && s.rows > 0));
}

#[test]
fn a_cut_counts_the_rows_that_its_condition_has() {
    for rows in [1u32, 7, 400, 1003] {
        for one_in in [2, 4, 10, 100, 1000] {
            for clustered in [false, true] {
                let cut = Cut { one_in, clustered };
                for (from, to) in [(0, rows), (rows / 4, rows / 2), (rows / 2, rows)] {
                    let has = (from..to).filter(|id| cut.has(*id, rows)).count();
                    assert_eq!(cut.count(from..to, rows) as usize, has, "{cut:?} {rows} {from}..{to}");
                }
            }
        }
    }
}

#[test]
fn a_line_finds_the_terms_that_made_the_points() {
    let made = Line { call: 0.02, row: 3e-9, more: 5e-7 };
    let points: Vec<Point> = [(1e6, 10.0), (2e6, 1e3), (2e6, 1e5), (5e5, 1e4), (1e6, 5e5)]
        .into_iter()
        .map(|(rows, more)| Point { rows, more, seconds: made.of(rows, more) })
        .collect();
    let found = line(&points);
    for (f, m) in [(found.call, made.call), (found.row, made.row), (found.more, made.more)] {
        assert!((f / m - 1.0).abs() < 1e-6, "{found:?}");
    }
    // a term that would be negative is left out
    let falling: Vec<Point> = [1.0, 2.0, 3.0].iter().map(|r| Point { rows: *r, more: 0.0, seconds: 4.0 - r }).collect();
    let l = line(&falling);
    assert!(l.row == 0.0 && l.call > 0.0, "{l:?}");
    assert_eq!(line(&[]), Line::default());
}

fn costs() -> Costs {
    Costs {
        engine: "floe".into(),
        version: "1".into(),
        machine: "m".into(),
        scan: Line { call: 0.01, row: 1e-8, more: 1e-8 },
        merge_on_read: Line { call: 0.02, row: 1e-8, more: 1e-7 },
        copy_on_write: Line { call: 0.02, row: 1e-8, more: 2e-7 },
        compaction: 2e-7,
    }
}

#[test]
fn few_scans_want_vectors_and_many_want_files_written_anew() {
    let shape = Shape { files: 10, rows: 10_000_000, dead: 0, bytes: 1 << 28, ..Shape::default() };
    let work = |scans| Work { changed: 100_000.0, clustered: false, scans };
    let few = advise(&shape, &work(1.0), &costs());
    assert_eq!(few.mode, "merge-on-read");
    // compaction of 2 s against 2 ms more a scan with each change: sqrt(2 * 2 / 0.002)
    assert_eq!(few.compact_every, Some(45));
    let from = few.copy_on_write_from_scans.expect("some number of scans");
    assert_eq!(advise(&shape, &work(from * 1.01), &costs()).mode, "copy-on-write");
    assert_eq!(advise(&shape, &work(from * 0.99), &costs()).mode, "merge-on-read");
    // what is dead already counts
    let half = advise(&Shape { dead: 2_000_000, ..shape }, &work(1.0), &costs());
    assert_eq!((half.compact_every, half.compact_after), (Some(40), Some(20)));
    assert_eq!(advise(&Shape { dead: 6_000_000, ..shape }, &work(1.0), &costs()).compact_after, Some(0));
    // without scans half of the rows may be dead
    assert_eq!(advise(&shape, &work(0.0), &costs()).compact_every, Some(50));
    // a whole table that goes each time is not worth a vector
    let all = Work { changed: 10_000_000.0, clustered: false, scans: 1.0 };
    assert_eq!(advise(&shape, &all, &costs()).mode, "copy-on-write");
    let said = text("ns.t", &shape, &work(1.0), "given", &costs(), &few);
    for part in [
        "10000000 rows in 10 data files",
        "advice: merge-on-read",
        "then every 45",
        "'write.delete.mode'='merge-on-read'",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// What `floe advise` says of the tables of the reviewed run, against what was measured of them: the time of each DELETE and scan within a
/// factor, and the mode that costs less whenever the measured difference is clear.
#[test]
fn predictions_hold_of_the_reviewed_run() {
    let run = reviewed();
    let all = fit(&run, "merge-on-read");
    assert_eq!(fit(&run, "position-deletes").len(), all.len());
    assert!(all.iter().any(|c| c.engine == "floe"), "no costs of floe");
    for c in &all {
        let (mut right, mut clear, mut far) = (0, 0, Vec::new());
        let (m, w) = (deletes(&run, &c.engine, "merge-on-read"), deletes(&run, &c.engine, "copy-on-write"));
        let predicted = |l: &Line, p: &Point| l.of(p.rows, p.more);
        for (l, points) in [(&c.merge_on_read, &m), (&c.copy_on_write, &w)] {
            for (place, percent, p) in points {
                let off = predicted(l, p) / p.seconds;
                if !(0.5..=2.0).contains(&off) {
                    far.push(format!("{} DELETE of {percent} % {place}: {off:.2}", c.engine));
                }
            }
        }
        for mode in ["merge-on-read", "copy-on-write"] {
            for (place, percent, p) in scans(&run, &c.engine, mode) {
                let off = predicted(&c.scan, &p) / p.seconds;
                if !(0.5..=2.0).contains(&off) {
                    far.push(format!("{} scan {mode} after {percent} % {place}: {off:.2}", c.engine));
                }
            }
        }
        for (a, b) in m.iter().zip(&w) {
            let measured = b.2.seconds / a.2.seconds;
            if !(0.8..=1.25).contains(&measured) {
                clear += 1;
                right += usize::from(
                    (measured > 1.0) == (predicted(&c.copy_on_write, &b.2) > predicted(&c.merge_on_read, &a.2)),
                );
            }
        }
        let points = m.len() + w.len() + scans(&run, &c.engine, "merge-on-read").len() * 2;
        assert!(
            far.len() * 10 <= points,
            "more than a tenth of {points} predictions are off by more than a factor of two: {far:#?}"
        );
        assert!(clear > 0 && right * 10 >= clear * 9, "{}: {right} of {clear} clear differences foretold", c.engine);
    }
}

/// Ratios in coarse buckets: another run on another day gives the same text.
#[test]
fn the_reviewed_run_in_words() {
    insta::with_settings!({ snapshot_path => "../../../../reports/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("bench-deletes", verdict::text(&reviewed()));
    });
}

#[test]
fn many_small_deletes_are_judged_by_their_first_and_last_tenth() {
    let sample = |round: u32| Sample {
        what: SMALL_DELETE.into(),
        engine: "floe".into(),
        mode: "merge-on-read".into(),
        round,
        // the first of all is slow, the last ten take 1.6 times what the others take
        seconds: Some(if round == 1 {
            9.0
        } else if round > 90 {
            1.6
        } else {
            1.0
        }),
        usage: Usage { peak_mib: Some(if round > 95 { 109.0 } else { 100.0 }), ..Usage::default() },
        ..Sample::default()
    };
    let report = |n: u32| Report {
        schema: 1,
        floe: "0".into(),
        machine: "m".into(),
        plan: Plan::default(),
        engines: vec![],
        absent: vec![],
        samples: (1..=n).rev().map(sample).collect(),
    };
    let lines = targets(&report(100));
    assert!(
        lines.contains("100 small deletes, time of the last tenth over the first")
            && lines.contains("1.60 <= 1.5x missed"),
        "{lines}"
    );
    assert!(lines.contains("1.09 <= 1.1x met"), "{lines}");
    assert_eq!(targets(&report(49)), "", "too few");
}
