//! The project's speed targets, measured in one run: `just targets [PART…]`. Each part runs in a process of its own, so that
//! its peak memory is its own. Tables go to a temporary folder, or stay in `FLOE_TARGETS_DIR` for the next run;
//! `FLOE_TARGETS_ROWS` is the number of rows (20 million).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use floe_benches::{Warehouse, large, median, peak_mib, positions};
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
            let repeat = (2_000_000 / blob.len()).clamp(1, 20_000);
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..15 {
                let each = 1e6 / repeat as f64;
                ours.push(each * seconds(|| (0..repeat).for_each(|_| drop(DeletionVector::decode(&blob)))));
                theirs.push(
                    each * seconds(|| (0..repeat).for_each(|_| drop(RoaringTreemap::deserialize_from(&bytes[..])))),
                );
            }
            let (a, b) = (median(&mut ours), median(&mut theirs));
            println!(
                "codec      {shape:7} {n:9} {:9} bytes: decode {a:9.2} us, roaring {b:9.2} us, ratio {:.2}",
                blob.len(),
                a / b
            );
        }
    }
}

/// A warehouse with a table of the walk-through's shape, made when it is not there yet.
fn warehouse(folder: &Path, name: &str, rows: u64, mode: &str) -> Warehouse {
    let mut w = Warehouse::at(folder);
    let path = ["ns".to_string(), name.to_string()];
    if w.runtime.block_on(w.session.table(&path)).is_err() {
        let took = seconds(|| w.cities(name, rows, mode));
        println!("{name}: {rows} rows written in {took:.1} s");
    }
    w
}

fn query(w: &mut Warehouse, sql: &str) -> f64 {
    seconds(|| {
        w.run(sql);
    })
}

/// Merge-on-read scan with 1 % of the rows deleted, scattered, beside the same scan of a table without deletes, in turns.
fn scan(folder: &Path) {
    let rows = rows();
    warehouse(folder, "plain", rows, "merge-on-read");
    let mut w = warehouse(folder, "deleted", rows, "merge-on-read");
    if w.table("deleted").metadata().snapshots().count() == 1 {
        w.run("DELETE FROM ns.deleted WHERE id % 100 = 7");
    }
    for (width, columns) in [("narrow", "sum(id), sum(n)"), ("wide", "sum(id), sum(n), max(city)")] {
        let sql = |t: &str| format!("SELECT {columns} FROM ns.{t}");
        w.run(&sql("plain"));
        w.run(&sql("deleted"));
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            without.push(query(&mut w, &sql("plain")));
            with.push(query(&mut w, &sql("deleted")));
        }
        let a = report("scan", &format!("{width}, no deletes"), "s", &without);
        let b = report("scan", &format!("{width}, 1 % deleted"), "s", &with);
        report("scan", &format!("{width}, price of the deletes"), "x", &[b / a]);
    }
}

/// A merge-on-read DELETE of one row; the table goes back between samples.
fn delete(folder: &Path) {
    let mut w = warehouse(folder, "plain", rows(), "merge-on-read");
    drop(w);
    w = Warehouse::at(folder);
    let head = w.head("plain");
    for (what, sql) in [
        ("one row", format!("DELETE FROM ns.plain WHERE id = {}", rows() / 3)),
        ("one row, column without order", "DELETE FROM ns.plain WHERE n = 4711 AND id < 900000".to_string()),
        ("1 %", "DELETE FROM ns.plain WHERE id % 100 = 7".to_string()),
    ] {
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            samples.push(query(&mut w, &sql));
            w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.plain', {head})"));
        }
        report("delete", &format!("{what}, first"), "s", &samples[..1]);
        report("delete", &format!("{what}, warm"), "s", &samples[1..]);
        report("delete", &format!("{what}, peak memory so far"), "MiB", &[peak_mib()]);
    }
}

fn large_table(folder: &Path) -> Warehouse {
    let mut w = Warehouse::at(folder);
    let path = ["ns".to_string(), "large".to_string()];
    if w.runtime.block_on(w.session.table(&path)).is_err() {
        println!("large: made in {:.1} s", seconds(|| large::make(&mut w, "large", 100_000)));
    }
    w
}

/// The parts that need the large table run in fresh processes: making it would count as their memory.
fn prepared(folder: &Path) -> Option<Warehouse> {
    if std::env::var_os("FLOE_TARGETS_MADE").is_some() {
        return Some(large_table(folder));
    }
    drop(large_table(folder));
    let exe = std::env::current_exe().expect("this program");
    let child = Command::new(exe).env("FLOE_TARGETS_MADE", "1").status();
    assert!(child.is_ok_and(|s| s.success()), "the part failed");
    std::process::exit(0);
}

/// Planning of 100,000 data files with 100,000 deletion vectors.
fn planning(folder: &Path) {
    let Some(w) = prepared(folder) else { return };
    let table = w.table("large");
    let pruner = FilePruner::new(Pred::True, table.metadata());
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        samples.push(seconds(|| {
            let planned = w.runtime.block_on(plan(&table, Some(w.head("large")), &pruner)).expect("a plan");
            assert!(planned.tasks.iter().all(|t| t.deletes.dv.is_some()));
        }));
    }
    report("planning", "100,000 data files, 100,000 vectors", "s", &samples);
}

/// Audit of the same table, Parquet footers and all.
fn audit(folder: &Path) {
    let Some(w) = prepared(folder) else { return };
    let place = PathBuf::from(w.table("large").metadata().location());
    let took = seconds(|| {
        let report = floe_audit::audit(&place, &floe_audit::Options::default()).expect("an audit");
        println!("audit      {} findings", report.findings.len());
    });
    report("audit", "100,000 data files, 100,000 vectors", "s", &[took]);
}

/// An UPDATE of the source: every hundredth row and so on (scattered), or neighbours (clustered).
fn update(w: &mut Warehouse, table: &str, what: &str) -> (i64, i64) {
    let from = w.head(table);
    w.run(&format!("UPDATE ns.{table} SET n = n + 1 WHERE {what}"));
    (from, w.head(table))
}

fn changelog(folder: &Path) {
    for (name, mode) in [("mor", "merge-on-read"), ("cow", "copy-on-write")] {
        let mut w = warehouse(folder, &format!("log_{name}"), rows(), mode);
        let (from, to) = update(&mut w, &format!("log_{name}"), "id % 100 = 7");
        let table = w.table(&format!("log_{name}"));
        let mut samples = Vec::new();
        let mut n = 0;
        for _ in 0..3 {
            samples.push(seconds(|| {
                let scan = ChangelogScan::builder(table.clone())
                    .range(Start::After(from.to_string()), End::At(to.to_string()))
                    .compute_updates(true)
                    .identifier_columns(vec!["id".into()]);
                let rows = w.runtime.block_on(async { scan.build().await?.collect().await }).expect("changes");
                n = rows.iter().map(|b| b.num_rows()).sum();
            }));
        }
        let s = report("changelog", &format!("1 % updated, {mode}"), "s", &samples);
        report("changelog", &format!("1 % updated, {mode}, change rows"), "M/s", &[n as f64 / s / 1e6]);
        report("changelog", &format!("1 % updated, {mode}, peak so far"), "MiB", &[peak_mib()]);
    }
}

fn sync_once(w: &Warehouse, source: &str, target: &str) -> f64 {
    let text = format!(
        "source: {{table: ns.{source}}}\ntarget: {{table: ns.{target}, mode: merge-on-read, equality_columns: [id]}}\nsync: {{}}"
    );
    let config = PipelineConfig::parse(&text, "targets").expect("a configuration");
    let (_keep, stop) = tokio::sync::watch::channel(false);
    let sync = Sync::with_catalogs(config, w.catalog.clone(), w.catalog.clone()).expect("a sync");
    seconds(|| {
        w.runtime.block_on(sync.run(stop, |_| {})).expect("a sync");
    })
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
        let mut samples = Vec::new();
        for n in 0..3 {
            if n > 0 {
                w.run(&format!("CALL ice.system.rollback_to_snapshot('ns.{target}', {before})"));
            }
            samples.push(sync_once(&w, &source, &target));
        }
        let label = format!("{} rows, {name}, {what}", rows);
        report("sync", &label, "s", &samples);
        report("sync", &format!("{label}: peak memory"), "MiB", &[peak_mib()]);
        return;
    }
    let exe = std::env::current_exe().expect("this program");
    for (i, (name, rows, filter, _)) in cases.into_iter().enumerate() {
        let (source, target) = (format!("src_{name}_{rows}"), format!("dst_{name}_{rows}"));
        let mode = if name == "mor" { "merge-on-read" } else { "copy-on-write" };
        let mut w = warehouse(folder, &source, rows, mode);
        sync_once(&w, &source, &target);
        update(&mut w, &source, filter);
        drop(w);
        let child =
            Command::new(&exe).env("FLOE_TARGETS_CASE", i.to_string()).env("FLOE_TARGETS_PART", "sync").status();
        assert!(child.is_ok_and(|s| s.success()), "the case failed");
    }
}
