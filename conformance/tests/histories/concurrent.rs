//! Clients that work on one table at once, in this process and as processes that are killed; what they did and saw is
//! judged offline.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use floe_conformance::dice::Dice;
use floe_conformance::history::record::Recorder;
use floe_conformance::history::{Event, Op, Outcome, Seen, SeenRow, judge};
use floe_engine::io::object_store::path::Path as StorePath;
use floe_engine::manifest::live_entries;
use floe_engine::{ErrorKind, Result};

use crate::lake::Lake;
use crate::store::{Call, Fate, Hook};

fn write(dice: &mut Dice, client: usize, n: i64) -> Op {
    let value = client as i64 * 1000 + n;
    let key = dice.roll(6) as i64;
    match dice.roll(4) {
        0 => Op::Insert { key: 100 + value, value },
        1 | 2 => Op::Update { key, value },
        _ => Op::Delete { key },
    }
}

fn sql(op: &Op) -> String {
    match op {
        Op::Insert { key, value } => format!("INSERT INTO ns.t VALUES ({key}, {value})"),
        Op::Update { key, value } => format!("UPDATE ns.t SET v = {value} WHERE id = {key}"),
        Op::Delete { key } => format!("DELETE FROM ns.t WHERE id = {key}"),
        Op::Read(_) => "SELECT id, v, _row_id FROM ns.t".into(),
    }
}

async fn read(lake: &mut Lake) -> Result<Seen> {
    let mut seen = Seen::default();
    for line in lake.try_rows("SELECT id, v, _row_id FROM ns.t").await? {
        let cells: Vec<Option<i64>> = line.split('|').map(|c| c.parse().ok()).collect();
        if let [Some(key), Some(value), row_id] = cells[..] {
            seen.rows.push(SeenRow { key, value, row_id });
        }
    }
    let table = lake.session.table(&["ns".to_string(), "t".to_string()]).await?;
    if let Some(head) = table.metadata().current_snapshot() {
        let (_, deletes) = live_entries(&table, head.snapshot_id()).await?;
        let of = deletes.iter().filter(|e| e.file.is_dv()).filter_map(|e| e.file.referenced_data_file.as_deref());
        seen.vectors = of.map(str::to_string).collect();
    }
    Ok(seen)
}

async fn prepare(folder: &Path, mode: &str, recorder: &Recorder) {
    let mut lake = Lake::open(folder).await;
    lake.run(&format!(
        "CREATE NAMESPACE IF NOT EXISTS ns; CREATE TABLE ns.t (id INT, v INT) USING iceberg TBLPROPERTIES \
         ('format-version'='3', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'commit.retry.num-retries'='8', \
         'commit.retry.min-wait-ms'='5', 'commit.retry.max-wait-ms'='50')"
    ))
    .await;
    let values: Vec<String> = (0..6).map(|k| format!("({k}, 0)")).collect();
    let start = recorder.now();
    lake.run(&format!("INSERT INTO ns.t VALUES {}", values.join(", "))).await;
    for key in 0..6 {
        recorder.add(0, start, Op::Insert { key, value: 0 }, Outcome::Ok);
    }
}

/// Loses a request or an answer of a commit now and then.
struct Flaky(AtomicUsize);

impl Hook for Flaky {
    fn fate(&self, call: Call, path: &StorePath) -> Fate {
        let name = path.filename().unwrap_or_default();
        if call != Call::Write || !name.starts_with('v') || !name.ends_with(".metadata.json") {
            return Fate::Go;
        }
        match self.0.fetch_add(1, Ordering::SeqCst) % 7 {
            2 => Fate::FailAfter,
            5 => Fate::Fail,
            _ => Fate::Go,
        }
    }
}

fn outcome(kind: Option<ErrorKind>) -> Outcome {
    match kind {
        None => Outcome::Ok,
        Some(ErrorKind::CommitUnknown) => Outcome::Unknown,
        Some(_) => Outcome::Fail,
    }
}

async fn client(folder: PathBuf, n: usize, seed: u64, ops: i64, recorder: Arc<Recorder>, flaky: Arc<Flaky>) {
    let mut lake = Lake::hooked(&folder, flaky).await;
    let mut dice = Dice(seed * 977 + n as u64);
    for i in 0..ops {
        let start = recorder.now();
        if dice.roll(4) == 0 {
            if let Ok(seen) = read(&mut lake).await {
                recorder.add(n, start, Op::Read(seen), Outcome::Ok);
            }
            continue;
        }
        let op = write(&mut dice, n, i);
        let done = lake.session.execute(&sql(&op)).await;
        recorder.add(n, start, op, outcome(done.err().map(|e| e.kind())));
    }
}

fn tell(what: &str, history: &[Event]) {
    let count = |o| history.iter().filter(|e| e.outcome == o).count();
    let (ok, failed, unknown) = (count(Outcome::Ok), count(Outcome::Fail), count(Outcome::Unknown));
    println!("{what}: {} events, {ok} ok, {failed} failed, {unknown} unknown", history.len());
    let verdicts = judge(history);
    for v in &verdicts {
        println!("{v}");
        for w in &v.witness {
            println!("  {:?}", history[*w]);
        }
    }
    assert!(verdicts.is_empty(), "{what}: {} anomalies", verdicts.len());
    assert!(ok > 6, "{what}: nothing went through");
}

async fn finish(folder: &Path, recorder: &Recorder) -> Vec<Event> {
    let mut lake = Lake::open(folder).await;
    let start = recorder.now();
    let seen = read(&mut lake).await.expect("the last read");
    recorder.add(0, start, Op::Read(seen), Outcome::Ok);
    lake.audit("t").unwrap_or_else(|e| panic!("{e}"));
    recorder.take()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_process_that_lose_answers() {
    let rounds = if std::env::var_os("FLOE_FORMAL").is_some_and(|v| v == "long") { 20 } else { 2 };
    for round in 0..rounds {
        let mode = ["merge-on-read", "copy-on-write"][round % 2];
        let dir = tempfile::tempdir().expect("a folder");
        let recorder = Arc::new(Recorder::default());
        prepare(dir.path(), mode, &recorder).await;
        let flaky = Arc::new(Flaky(AtomicUsize::new(0)));
        let clients: Vec<_> = (1..4)
            .map(|n| {
                let work = client(dir.path().to_path_buf(), n, round as u64, 10, recorder.clone(), flaky.clone());
                tokio::spawn(work)
            })
            .collect();
        for c in clients {
            c.await.expect("a client");
        }
        let history = finish(dir.path(), &recorder).await;
        tell(&format!("threads, {mode}"), &history);
    }
}

/// Processes, some of them killed at any moment: theirs is an unknown outcome.
fn process_client(folder: &Path, n: usize, recorder: &Recorder) {
    let mut dice = Dice(31 * n as u64 + 7);
    for i in 0..6 {
        let op = write(&mut dice, n, i);
        let start = recorder.now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_floe"))
            .args(["sql", "--catalog", &format!("hadoop:{}", folder.display()), "-c", &sql(&op)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("floe starts");
        if dice.roll(3) == 0 {
            std::thread::sleep(Duration::from_millis(20 + 40 * dice.roll(12)));
            let over = child.try_wait().expect("a child");
            let _ = child.kill();
            let status = over.unwrap_or_else(|| child.wait().expect("a child"));
            let done = if status.success() { Outcome::Ok } else { Outcome::Unknown };
            recorder.add(n, start, op, done);
            continue;
        }
        // the command says by its exit status whether it went through; a failure may be an unknown outcome
        let done = if child.wait().expect("a child").success() { Outcome::Ok } else { Outcome::Unknown };
        recorder.add(n, start, op, done);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_killed() {
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Arc::new(Recorder::default());
    prepare(dir.path(), "merge-on-read", &recorder).await;
    std::thread::scope(|s| {
        for n in 1..3 {
            let (folder, recorder) = (dir.path(), &recorder);
            s.spawn(move || process_client(folder, n, recorder));
        }
    });
    let history = finish(dir.path(), &recorder).await;
    let keys: BTreeSet<_> = history.iter().map(|e| e.client).collect();
    assert_eq!(keys.len(), 3, "both processes and the reader");
    tell("processes", &history);
    let lake = Lake::open(dir.path()).await;
    let orphans = lake.orphans("t", true).await;
    println!("processes: {} orphans removed", orphans.len());
    lake.audit("t").unwrap_or_else(|e| panic!("{e}"));
}
