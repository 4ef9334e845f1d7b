//! The project's speed targets, measured in one run: `just targets [PART…]`. Each part runs in a process of its own, so that
//! its peak memory is its own. Tables go to a temporary folder, or stay in `FLOE_TARGETS_DIR` for the next run;
//! `FLOE_TARGETS_ROWS` is the number of rows (20 million).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use floe_benches::{Warehouse, cpu_seconds, large, median, peak_mib, positions};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;
use floe_engine::cdc::{ChangelogScan, End, Start};
use floe_engine::dv::DeletionVector;
use floe_engine::expr::{FilePruner, Pred};
use floe_engine::scan::plan;
use roaring::RoaringTreemap;

const PARTS: [(&str, fn(&Path)); 7] = [
    ("codec", codec),
    ("scan", scan),
    ("delete", delete),
    ("planning", planning),
    ("audit", audit),
    ("changelog", changelog),
    ("sync", sync),
];
/// Samples of each measurement.
const SAMPLES: usize = 7;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let Some(part) = std::env::var_os("FLOE_TARGETS_PART") {
        let folder = PathBuf::from(std::env::var_os("FLOE_TARGETS_DIR").unwrap_or_default());
        if let Ok(what) = std::env::var("FLOE_TARGETS_MAKE") {
            make(&folder, &what);
            return ExitCode::SUCCESS;
        }
        for (name, run) in PARTS {
            if part == *name {
                run(&folder);
                report(name, "peak memory", "MiB", &[peak_mib()]);
            }
        }
        return ExitCode::SUCCESS;
    }
    if let Some(wrong) = names.iter().find(|n| !PARTS.iter().any(|p| p.0 == n.as_str())) {
        let known: Vec<&str> = PARTS.iter().map(|p| p.0).collect();
        eprintln!("{wrong:?} is no part; the parts are {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = std::env::var_os("FLOE_TARGETS_DIR").map_or(temporary.path().to_path_buf(), PathBuf::from);
    let exe = std::env::current_exe().expect("this program");
    for (name, _) in PARTS {
        if names.is_empty() || names.iter().any(|n| n == name) {
            let child = Command::new(&exe).env("FLOE_TARGETS_PART", name).env("FLOE_TARGETS_DIR", &folder).status();
            if !child.is_ok_and(|s| s.success()) {
                eprintln!("{name} failed");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// A line of the result: the median, and every sample.
fn report(part: &str, what: &str, unit: &str, samples: &[f64]) -> f64 {
    let mid = median(&mut samples.to_vec());
    let all: Vec<String> = samples.iter().map(|s| format!("{s:.4}")).collect();
    println!("{part:10} {what:46} {mid:10.4} {unit:4} [{}]", all.join(" "));
    mid
}

fn rows() -> u64 {
    std::env::var("FLOE_TARGETS_ROWS").ok().and_then(|v| v.parse().ok()).unwrap_or(20_000_000)
}

/// Wall-clock seconds, and processor seconds: on a busy machine only the latter say something.
type Times = (Vec<f64>, Vec<f64>);

fn timed(times: &mut Times, run: impl FnOnce()) {
    let before = cpu_seconds();
    times.0.push(seconds(run));
    times.1.push(cpu_seconds() - before);
}

/// Two lines: wall clock and processor; the medians.
fn report_times(part: &str, what: &str, times: &Times) -> (f64, f64) {
    (report(part, what, "s", &times.0), report(part, &format!("{what}, processor"), "s", &times.1))
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// Decode beside plain roaring's checked deserialise of the same set, taken in turns.
fn codec(_: &Path) {
    for shape in ["sparse", "random", "dense", "runs"] {
        for n in [1_000u64, 10_000, 100_000, 1_000_000, 10_000_000] {
            let set = positions(shape, n);
            let blob =
                DeletionVector::try_from_positions(set.iter().copied()).and_then(|d| d.encode()).expect("a blob");
            let mut raw = RoaringTreemap::from_sorted_iter(set.iter().copied()).expect("sorted");
            raw.optimize();
            let mut bytes = Vec::new();
            raw.serialize_into(&mut bytes).expect("bytes");
            let repeat = (200_000 / blob.len()).clamp(1, 2_000);
            let each = 1e6 / repeat as f64;
            // the least of many short turns: whatever else runs on the machine only adds
            let (mut a, mut b) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..40 {
                a = a.min(each * seconds(|| (0..repeat).for_each(|_| drop(DeletionVector::decode(&blob)))));
                b = b.min(
                    each * seconds(|| (0..repeat).for_each(|_| drop(RoaringTreemap::deserialize_from(&bytes[..])))),
                );
            }
            println!(
                "codec      {shape:7} {n:9} {:9} bytes: decode {a:9.2} us, roaring {b:9.2} us, ratio {:.2}",
                blob.len(),
                a / b
            );
        }
    }
}

/// Makes a table in a process of its own, so that it does not count as this one's memory; nothing when it is there.
fn ensure(folder: &Path, name: &str, rows: u64, mode: &str) -> Warehouse {
    let w = Warehouse::at(folder);
    let path = ["ns".to_string(), name.to_string()];
    if w.runtime.block_on(w.session.table(&path)).is_err() {
        let exe = std::env::current_exe().expect("this program");
        let made = Command::new(exe).env("FLOE_TARGETS_MAKE", format!("{name} {rows} {mode}")).status();
        assert!(made.is_ok_and(|s| s.success()), "{name} was not made");
    }
    w
}

fn make(folder: &Path, what: &str) {
    let mut words = what.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (name, rows, mode) = (next(), next(), next());
    let mut w = Warehouse::at(folder);
    let took = seconds(|| match name {
        "large" => large::make(&mut w, name, 100_000),
        _ => w.cities(name, rows.parse().expect("a number of rows"), mode),
    });
    println!("{name}: made in {took:.1} s, peak memory {:.0} MiB", peak_mib());
}

fn query(w: &mut Warehouse, sql: &str, times: &mut Times) {
    timed(times, || drop(w.run(sql)));
}

/// Merge-on-read scan with 1 % of the rows deleted, scattered, beside the same scan of a table without deletes, in turns.
fn scan(folder: &Path) {
    let rows = rows();
    ensure(folder, "plain", rows, "merge-on-read");
    let mut w = ensure(folder, "deleted", rows, "merge-on-read");
    if w.table("deleted").metadata().snapshots().count() == 1 {
        w.run("DELETE FROM ns.deleted WHERE id % 100 = 7");
    }
    for (width, columns) in [("narrow", "sum(id), sum(n)"), ("wide", "sum(id), sum(n), max(city)")] {
        let sql = |t: &str| format!("SELECT {columns} FROM ns.{t}");
        w.run(&sql("plain"));
        w.run(&sql("deleted"));
        let (mut without, mut with) = (Times::default(), Times::default());
        for _ in 0..SAMPLES {
            query(&mut w, &sql("plain"), &mut without);
            query(&mut w, &sql("deleted"), &mut with);
        }
        let a = report_times("scan", &format!("{width}, no deletes"), &without);
        let b = report_times("scan", &format!("{width}, 1 % deleted"), &with);
        report("scan", &format!("{width}, price of the deletes"), "x", &[b.0 / a.0]);
        report("scan", &format!("{width}, price of the deletes, processor"), "x", &[b.1 / a.1]);
    }
}

/// A merge-on-read DELETE of one row; the table goes back between samples.
fn delete(folder: &Path) {
    let mut w = ensure(folder, "plain", rows(), "merge-on-read");
    let head = w.head("plain");
    for (what, sql) in [
        ("one row", format!("DELETE FROM ns.plain WHERE id = {}", rows() / 3)),
        ("one row, column without order", "DELETE FROM ns.plain WHERE n = 4711 AND id < 900000".to_string()),
        ("1 %", "DELETE FROM ns.plain WHERE id % 100 = 7".to_string()),
    ] {
        let mut times = Times::default();
        for _ in 0..=SAMPLES {
            query(&mut w, &sql, &mut times);
            w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.plain', {head})"));
        }
        report("delete", &format!("{what}, first"), "s", &times.0[..1]);
        report_times("delete", &format!("{what}, warm"), &(times.0.split_off(1), times.1.split_off(1)));
        report("delete", &format!("{what}, peak memory so far"), "MiB", &[peak_mib()]);
    }
}

/// Planning of 100,000 data files with 100,000 deletion vectors.
fn planning(folder: &Path) {
    let w = ensure(folder, "large", 0, "");
    let table = w.table("large");
    let pruner = FilePruner::new(Pred::True, table.metadata());
    let mut times = Times::default();
    for _ in 0..SAMPLES {
        timed(&mut times, || {
            let planned = w.runtime.block_on(plan(&table, Some(w.head("large")), &pruner)).expect("a plan");
            assert!(planned.tasks.iter().all(|t| t.deletes.dv.is_some()));
        });
    }
    report_times("planning", "100,000 data files, 100,000 vectors", &times);
}

/// Audit of the same table, Parquet footers and all.
fn audit(folder: &Path) {
    let w = ensure(folder, "large", 0, "");
    let place = PathBuf::from(w.table("large").metadata().location());
    let mut times = Times::default();
    timed(&mut times, || {
        let report = floe_audit::audit(&place, &floe_audit::Options::default()).expect("an audit");
        println!("audit      {} errors, {} warnings, {} notes", report.errors, report.warnings, report.notes);
    });
    report_times("audit", "100,000 data files, 100,000 vectors", &times);
}

/// An UPDATE of the source: every hundredth row and so on (scattered), or neighbours (clustered).
fn update(w: &mut Warehouse, table: &str, what: &str) -> (i64, i64) {
    let from = w.head(table);
    w.run(&format!("UPDATE ns.{table} SET n = n + 1 WHERE {what}"));
    (from, w.head(table))
}

fn changelog(folder: &Path) {
    for (name, mode) in [("mor", "merge-on-read"), ("cow", "copy-on-write")] {
        let mut w = ensure(folder, &format!("log_{name}"), rows(), mode);
        let (from, to) = update(&mut w, &format!("log_{name}"), "id % 100 = 7");
        let table = w.table(&format!("log_{name}"));
        let mut times = Times::default();
        let mut n = 0;
        for _ in 0..3 {
            timed(&mut times, || {
                let scan = ChangelogScan::builder(table.clone())
                    .range(Start::After(from.to_string()), End::At(to.to_string()))
                    .compute_updates(true)
                    .identifier_columns(vec!["id".into()]);
                let rows = w.runtime.block_on(async { scan.build().await?.collect().await }).expect("changes");
                n = rows.iter().map(|b| b.num_rows()).sum();
            });
        }
        let s = report_times("changelog", &format!("1 % updated, {mode}"), &times).0;
        report("changelog", &format!("1 % updated, {mode}, change rows"), "M/s", &[n as f64 / s / 1e6]);
        report("changelog", &format!("1 % updated, {mode}, peak so far"), "MiB", &[peak_mib()]);
    }
}

fn sync_once(w: &Warehouse, source: &str, target: &str, times: &mut Times) {
    let text = format!(
        "source: {{table: ns.{source}}}\ntarget: {{table: ns.{target}, mode: merge-on-read, equality_columns: [id]}}\nsync: {{}}"
    );
    let config = PipelineConfig::parse(&text, "targets").expect("a configuration");
    let (_keep, stop) = tokio::sync::watch::channel(false);
    let sync = Sync::with_catalogs(config, w.catalog.clone(), w.catalog.clone()).expect("a sync");
    timed(times, || drop(w.runtime.block_on(sync.run(stop, |_| {})).expect("a sync")));
}

/// Sync of one UPDATE to a target that is in step, by source mode, amount and table size; in a process each.
fn sync(folder: &Path) {
    let rows = rows();
    let one = format!("id BETWEEN {} AND {}", rows / 20, rows / 20 + rows / 1000 - 1);
    let cases = [
        ("mor", rows, "id % 100 = 7", "1 % scattered"),
        ("mor", rows, "id % 50 = 9", "2 % scattered"),
        ("cow", rows, "id % 100 = 7", "1 % scattered"),
        ("cow", rows, "id % 50 = 9", "2 % scattered"),
        ("mor", rows, one.as_str(), "0.1 % clustered"),
        ("mor", rows / 10, one.as_str(), "as many rows, a tenth of the table"),
    ];
    if let Some(i) = std::env::var("FLOE_TARGETS_CASE").ok().and_then(|c| c.parse::<usize>().ok()) {
        let (name, rows, _, what) = cases[i];
        let (source, target) = (format!("src_{name}_{rows}"), format!("dst_{name}_{rows}"));
        let mut w = Warehouse::at(folder);
        let before = w.head(&target);
        let mut times = Times::default();
        for n in 0..3 {
            if n > 0 {
                w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.{target}', {before})"));
            }
            sync_once(&w, &source, &target, &mut times);
        }
        let label = format!("{} rows, {name}, {what}", rows);
        report_times("sync", &label, &times);
        report("sync", &format!("{label}: peak memory"), "MiB", &[peak_mib()]);
        return;
    }
    let exe = std::env::current_exe().expect("this program");
    for (i, (name, rows, filter, _)) in cases.into_iter().enumerate() {
        let (source, target) = (format!("src_{name}_{rows}"), format!("dst_{name}_{rows}"));
        let mode = if name == "mor" { "merge-on-read" } else { "copy-on-write" };
        let mut w = ensure(folder, &source, rows, mode);
        sync_once(&w, &source, &target, &mut Times::default());
        update(&mut w, &source, filter);
        drop(w);
        let child =
            Command::new(&exe).env("FLOE_TARGETS_CASE", i.to_string()).env("FLOE_TARGETS_PART", "sync").status();
        assert!(child.is_ok_and(|s| s.success()), "the case failed");
    }
}
