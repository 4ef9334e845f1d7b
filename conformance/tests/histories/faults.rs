//! A fault at each call of the store, for every operation: the table is as it was or as it was to become, the auditor finds
//! nothing, and what is left over is listed and removed as orphans.
//!
//! Metadata hold absolute locations, so each run works in the one folder that the template was made in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use floe_engine::ErrorKind;
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;
use floe_engine::io::object_store::path::Path as StorePath;

use crate::figures::tell;
use crate::lake::{Lake, copy};
use crate::store::{Call, Fate, Hook};

/// Does something to the `at`-th call, or to all writes from there on.
struct Fault {
    at: usize,
    fate: Fate,
    /// Goes on to the end, for writes only: a disk stays full.
    stays: bool,
    calls: AtomicUsize,
    /// Injections that took place.
    hit: AtomicUsize,
}

impl Fault {
    fn new(at: usize, fate: Fate) -> Arc<Self> {
        let stays = fate == Fate::Full || fate == Fate::Denied;
        Arc::new(Self { at, fate, stays, calls: AtomicUsize::new(0), hit: AtomicUsize::new(0) })
    }
}

impl Hook for Fault {
    fn fate(&self, call: Call, _: &StorePath) -> Fate {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        let now = if self.stays {
            n >= self.at && (call == Call::Write || (call == Call::Delete && self.fate == Fate::Denied))
        } else {
            n == self.at
        };
        if !now {
            return Fate::Go;
        }
        self.hit.fetch_add(1, Ordering::SeqCst);
        self.fate
    }
}

#[derive(Clone, Copy)]
enum Work {
    Sql(&'static str),
    /// The CDC sync of `src` into `t`.
    Sync,
}

struct Case {
    name: &'static str,
    version: u8,
    mode: &'static str,
    work: Work,
}

const MOR: &str = "merge-on-read";
const COW: &str = "copy-on-write";

const CASES: &[Case] = &[
    Case {
        name: "INSERT",
        version: 3,
        mode: MOR,
        work: Work::Sql("INSERT INTO ns.t VALUES (50, 0, 'n'), (51, 1, 'n')"),
    },
    Case {
        name: "INSERT OVERWRITE",
        version: 3,
        mode: MOR,
        work: Work::Sql("INSERT OVERWRITE ns.t VALUES (50, 0, 'n'), (51, 1, 'n')"),
    },
    Case { name: "DELETE", version: 3, mode: MOR, work: Work::Sql("DELETE FROM ns.t WHERE id IN (1, 2, 6)") },
    Case { name: "DELETE, V2", version: 2, mode: MOR, work: Work::Sql("DELETE FROM ns.t WHERE id IN (1, 2, 6)") },
    Case { name: "DELETE, copy", version: 3, mode: COW, work: Work::Sql("DELETE FROM ns.t WHERE id IN (1, 2, 6)") },
    Case { name: "UPDATE", version: 3, mode: MOR, work: Work::Sql("UPDATE ns.t SET s = 'u' WHERE id IN (1, 6)") },
    Case { name: "UPDATE, copy", version: 3, mode: COW, work: Work::Sql("UPDATE ns.t SET s = 'u' WHERE id IN (1, 6)") },
    Case {
        name: "MERGE",
        version: 3,
        mode: MOR,
        work: Work::Sql(
            "MERGE INTO ns.t USING (SELECT 1 AS id UNION ALL SELECT 60) m ON ns.t.id = m.id WHEN MATCHED THEN UPDATE SET \
             s = 'm' WHEN NOT MATCHED THEN INSERT (id, p, s) VALUES (m.id, 0, 'm')",
        ),
    },
    Case {
        name: "compaction",
        version: 3,
        mode: MOR,
        work: Work::Sql("CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true'))"),
    },
    Case {
        name: "rewrite of position deletes",
        version: 2,
        mode: MOR,
        work: Work::Sql(
            "CALL ice.system.rewrite_position_delete_files(table => 'ns.t', options => map('rewrite-all','true'))",
        ),
    },
    Case {
        name: "rewrite of manifests",
        version: 3,
        mode: MOR,
        work: Work::Sql("CALL ice.system.rewrite_manifests('ns.t')"),
    },
    Case {
        name: "expiry",
        version: 3,
        mode: MOR,
        work: Work::Sql(
            "CALL ice.system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
        ),
    },
    Case {
        name: "upgrade",
        version: 2,
        mode: MOR,
        work: Work::Sql("ALTER TABLE ns.t SET TBLPROPERTIES ('format-version'='3')"),
    },
    Case { name: "CDC sync", version: 3, mode: MOR, work: Work::Sync },
];

async fn template(case: &Case, folder: &Path) {
    let mut lake = Lake::open(folder).await;
    let (version, mode) = (case.version, case.mode);
    let properties = format!(
        "'format-version'='{version}','write.delete.mode'='{mode}','write.update.mode'='{mode}','write.merge.mode'='{mode}',\
         'commit.retry.num-retries'='2','commit.retry.min-wait-ms'='1','commit.manifest.min-count-to-merge'='3'"
    );
    lake.run(&format!(
        "CREATE NAMESPACE IF NOT EXISTS ns; CREATE TABLE ns.t (id INT, p INT, s STRING) USING iceberg PARTITIONED BY (p) \
         TBLPROPERTIES ({properties}); INSERT INTO ns.t VALUES (1, 0, 'a'), (2, 1, 'b'), (3, 0, 'c'), (4, 1, 'd'); \
         INSERT INTO ns.t VALUES (5, 0, 'e'), (6, 1, 'f'), (7, 0, 'g'); DELETE FROM ns.t WHERE id = 3"
    ))
    .await;
    if matches!(case.work, Work::Sync) {
        lake.run(&format!(
            "CREATE TABLE ns.src (id INT, p INT, s STRING) USING iceberg TBLPROPERTIES ({properties}); \
             INSERT INTO ns.src VALUES (1, 0, 'x'), (70, 0, 'y'), (71, 1, 'z'); DELETE FROM ns.src WHERE id = 71"
        ))
        .await;
    }
}

async fn work(lake: &mut Lake, work: Work) -> floe_engine::Result<()> {
    match work {
        Work::Sql(sql) => lake.session.execute(sql).await.map(|_| ()),
        Work::Sync => {
            let text = "source: {table: ns.src}\ntarget: {table: ns.t, mode: merge-on-read, upsert: true, \
                        equality_columns: [id]}\nsync: {snapshots_per_commit: 1}";
            let config = PipelineConfig::parse(text, "test")?;
            let (_keep, stop) = tokio::sync::watch::channel(false);
            Sync::with_catalogs(config, lake.catalog.clone(), lake.catalog.clone())?.run(stop, |_| {}).await.map(|_| ())
        }
    }
}

/// Rows of all that a fault may leave: before, after, and for a sync after each of its commits.
async fn seen(folder: &Path, version: u8) -> Vec<String> {
    let lineage = if version == 3 { ", _row_id" } else { "" };
    Lake::open(folder).await.rows(&format!("SELECT *{lineage} FROM ns.t")).await
}

/// Rows without ids: an upgraded table has none yet, and ids of rows inserted by another attempt may differ.
fn plain(rows: &[String], version: u8) -> Vec<String> {
    if version != 3 {
        return rows.to_vec();
    }
    rows.iter().map(|r| r.rsplit_once('|').map_or(r.clone(), |(r, _)| r.to_string())).collect()
}

#[derive(Default)]
struct Figures {
    runs: usize,
    injected: usize,
    before: usize,
    after: usize,
    orphans: usize,
}

struct Bench {
    root: PathBuf,
    kept: PathBuf,
}

impl Bench {
    async fn new(case: &Case, dir: &Path) -> Self {
        let root = dir.join("w");
        template(case, &root).await;
        let kept = dir.join("kept");
        copy(&root, &kept);
        Self { root, kept }
    }

    fn reset(&self) {
        std::fs::remove_dir_all(&self.root).expect("the folder goes");
        copy(&self.kept, &self.root);
    }
}

fn is_long() -> bool {
    std::env::var_os("FLOE_FORMAL").is_some_and(|v| v == "long")
}

async fn one_case(case: &Case, figures: &mut Figures) {
    let dir = tempfile::tempdir().expect("a folder");
    let bench = Bench::new(case, dir.path()).await;
    let before = seen(&bench.root, case.version).await;
    // counted without a fault
    let counter = Fault::new(usize::MAX, Fate::Go);
    let mut lake = Lake::hooked(&bench.root, counter.clone()).await;
    work(&mut lake, case.work).await.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let calls = counter.calls.load(Ordering::SeqCst);
    let after = seen(&bench.root, case.version).await;
    let fates = [Fate::Fail, Fate::FailAfter, Fate::Cut, Fate::Full, Fate::Twice, Fate::Denied, Fate::Delay];
    let salt = case.name.len();
    for at in 0..calls {
        for (i, fate) in fates.iter().enumerate() {
            // the normal run: every fourth call, the faults in turn, other ones for each operation
            if !is_long() && (!(at + salt).is_multiple_of(4) || i != (at / 4 + salt) % fates.len()) {
                continue;
            }
            bench.reset();
            one_fault(case, &bench, Fault::new(at, *fate), &before, &after, figures).await;
        }
    }
}

async fn one_fault(
    case: &Case,
    bench: &Bench,
    fault: Arc<Fault>,
    before: &[String],
    after: &[String],
    figures: &mut Figures,
) {
    let what = format!("{}: {:?} at call {}", case.name, fault.fate, fault.at);
    let mut lake = Lake::hooked(&bench.root, fault.clone()).await;
    let done = work(&mut lake, case.work).await;
    drop(lake);
    figures.runs += 1;
    figures.injected += fault.hit.load(Ordering::SeqCst);

    let now = seen(&bench.root, case.version).await;
    let same = |a: &[String], b: &[String]| a == b || plain(a, case.version) == plain(b, case.version);
    let (was, is) = (same(&now, before), same(&now, after));
    let steps = matches!(case.work, Work::Sync);
    match &done {
        Ok(()) => assert!(is, "{what}: said to be done, but the rows are\n{now:#?}\nand not\n{after:#?}"),
        Err(_) if steps => {}
        Err(e) if e.kind() == ErrorKind::CommitUnknown => assert!(was || is, "{what}: {e}\n{now:#?}"),
        Err(e) => assert!(was, "{what}: said to have failed, but the rows changed: {e}\n{now:#?}"),
    }
    figures.before += usize::from(was && !is);
    figures.after += usize::from(is);
    let mut lake = Lake::open(&bench.root).await;
    lake.audit("t").unwrap_or_else(|e| panic!("{what}: {e}"));
    if steps {
        // whatever happened, the next run ends it, once
        work(&mut lake, case.work).await.unwrap_or_else(|e| panic!("{what}, then again: {e}"));
        let now = seen(&bench.root, case.version).await;
        assert!(same(&now, after), "{what}, then again: {now:#?}\nand not\n{after:#?}");
    }
    let listed = lake.orphans("t", false).await;
    figures.orphans += listed.len();
    assert_eq!(lake.orphans("t", true).await, listed, "{what}");
    assert!(lake.orphans("t", false).await.is_empty(), "{what}: orphans are left");
    lake.audit("t").unwrap_or_else(|e| panic!("{what}, orphans removed: {e}"));
    let now = seen(&bench.root, case.version).await;
    assert!(same(&now, before) || same(&now, after), "{what}, orphans removed: {now:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_call_of_every_operation() {
    let mut total = Figures::default();
    for case in CASES {
        let mut f = Figures::default();
        one_case(case, &mut f).await;
        println!("{}: {} runs, {} before, {} after, {} orphans", case.name, f.runs, f.before, f.after, f.orphans);
        total.runs += f.runs;
        total.injected += f.injected;
        total.orphans += f.orphans;
    }
    tell(
        "faults of the store",
        &format!("{} runs, {} injected, {} orphans listed and removed", total.runs, total.injected, total.orphans),
    );
    assert!(total.injected > 50, "the faults were not injected");
}

/// The machine's clock is a day behind what the table says: commits go on, and no time in the metadata goes back (META-7). A
/// change of metadata alone is refused beyond a minute, as Java refuses it, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_went_backwards() {
    let dir = tempfile::tempdir().expect("a folder");
    let case = &CASES[2];
    let root = dir.path().join("w");
    template(case, &root).await;
    let metadata = root.join("ns/t/metadata");
    let newest = std::fs::read_dir(&metadata)
        .expect("metadata")
        .flatten()
        .map(|f| f.path())
        .filter(|p| p.to_string_lossy().ends_with(".metadata.json"))
        .max_by_key(|p| std::fs::metadata(p).and_then(|m| m.modified()).expect("a time"))
        .expect("a version");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&newest).expect("read")).expect("JSON");
    const DAY: i64 = 86_400_000;
    let later = |v: &mut serde_json::Value, key: &str| {
        let at = v[key].as_i64().expect("a time");
        v[key] = (at + DAY).into();
    };
    later(&mut json, "last-updated-ms");
    for list in ["snapshots", "snapshot-log", "metadata-log"] {
        for entry in json[list].as_array_mut().into_iter().flatten() {
            later(entry, "timestamp-ms");
        }
    }
    std::fs::write(&newest, serde_json::to_vec(&json).expect("JSON")).expect("written");
    let mut lake = Lake::open(&root).await;
    for sql in [
        "DELETE FROM ns.t WHERE id = 1",
        "INSERT INTO ns.t VALUES (90, 0, 'z')",
        "CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all','true'))",
    ] {
        lake.run(sql).await;
        lake.audit("t").unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    let before = lake.table("t").await.metadata_location().to_string();
    let e = lake.session.execute("ALTER TABLE ns.t ADD COLUMN extra INT").await.expect_err("a day behind");
    assert!(e.to_string().contains("Invalid update timestamp"), "{e}");
    assert_eq!(lake.table("t").await.metadata_location(), before);
    let m = lake.table("t").await.metadata().clone();
    let times: Vec<i64> = m.history().iter().map(|l| l.timestamp_ms).collect();
    assert!(times.is_sorted(), "{times:?}");
}
