//! Records a history of real engines: each is one client, and all write one table for a while.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::{Event, Op, Outcome, Seen, SeenRow};
use crate::dice::Dice;
use crate::drivers::Driver;
use crate::facts::newest;
use crate::protocol::Answer;
use crate::value::Rows;

/// What the clients work on, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the shared catalog in statements.
    pub catalog: String,
    /// Namespace, which is made when it is missing.
    pub namespace: String,
    /// Table, which must not exist.
    pub table: String,
    /// `merge-on-read` or `copy-on-write`.
    pub mode: String,
    /// Keys that are there at the start; all clients write these.
    pub keys: i64,
    /// How long they write.
    pub time: Duration,
    /// Seed of what they do.
    pub seed: u64,
}

/// Takes down what clients do, by a clock that only counts.
#[derive(Default)]
pub struct Recorder {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// The next moment.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Adds what a client asked for at `start` and has the answer of now.
    pub fn add(&self, client: usize, start: u64, op: Op, outcome: Outcome) {
        let end = self.now();
        self.events().push(Event { client, start, end, op, outcome });
    }

    /// The events so far; the recorder starts anew.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events())
    }

    fn events(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Lets every driver write the table at once, `drivers[0]` having made it, and returns what each did and saw; the last event is
/// a read by each of them after all writes. The client of an event is the driver's index. A failed statement counts as one
/// of unknown outcome, unless the engine refused it: an engine's words do not prove that nothing was committed.
///
/// # Errors
/// When the table cannot be made; the text is the engine's.
pub async fn record(plan: &Plan, warehouse: &Path, drivers: &mut [Box<dyn Driver>]) -> Result<Vec<Event>, String> {
    let recorder = Recorder::default();
    let full = format!("{}.{}.{}", plan.catalog, plan.namespace, plan.table);
    let m = &plan.mode;
    let values: Vec<String> = (0..plan.keys).map(|k| format!("({k}, 0)")).collect();
    let start = recorder.now();
    for sql in [
        format!("CREATE NAMESPACE IF NOT EXISTS {}.{}", plan.catalog, plan.namespace),
        format!(
            "CREATE TABLE {full} (id INT, v INT) USING iceberg TBLPROPERTIES('format-version'='3', 'write.delete.mode'='{m}', \
             'write.update.mode'='{m}', 'write.merge.mode'='{m}', 'commit.retry.num-retries'='8')"
        ),
        format!("INSERT INTO {full} VALUES {}", values.join(", ")),
    ] {
        match drivers[0].apply(&sql, &newest(warehouse, &plan.namespace, &plan.table)).await {
            Answer::Ok(()) => {}
            Answer::Refused(why) | Answer::Skipped(why) | Answer::Error(why) => {
                return Err(format!("{sql}: {why}"));
            }
        }
    }
    for key in 0..plan.keys {
        recorder.add(0, start, Op::Insert { key, value: 0 }, Outcome::Ok);
    }
    let until = Instant::now() + plan.time;
    let work = drivers.iter_mut().enumerate().map(|(client, d)| {
        let (recorder, full) = (&recorder, &full);
        async move {
            let mut dice = Dice(plan.seed.wrapping_mul(977).wrapping_add(client as u64 + 1));
            let writes = d.hello().plays("write");
            let mut n = 0;
            while Instant::now() < until && d.alive() {
                let table = newest(warehouse, &plan.namespace, &plan.table);
                let start = recorder.now();
                if !writes || dice.roll(4) == 0 {
                    if let Answer::Ok(rows) = d.scan(&table).await {
                        recorder.add(client, start, Op::Read(seen(&rows)), Outcome::Ok);
                    }
                    continue;
                }
                n += 1;
                let op = write(&mut dice, client, n, plan.keys);
                let outcome = match d.apply(&sql(full, &op), &table).await {
                    Answer::Ok(()) => Outcome::Ok,
                    Answer::Refused(_) | Answer::Skipped(_) => Outcome::Fail,
                    Answer::Error(_) => Outcome::Unknown,
                };
                recorder.add(client, start, op, outcome);
            }
        }
    });
    join_all(work).await;
    for (client, d) in drivers.iter_mut().enumerate() {
        let start = recorder.now();
        if let Answer::Ok(rows) = d.scan(&newest(warehouse, &plan.namespace, &plan.table)).await {
            recorder.add(client, start, Op::Read(seen(&rows)), Outcome::Ok);
        }
    }
    Ok(recorder.take())
}

fn sql(table: &str, op: &Op) -> String {
    match op {
        Op::Insert { key, value } => format!("INSERT INTO {table} VALUES ({key}, {value})"),
        Op::Update { key, value } => format!("UPDATE {table} SET v = {value} WHERE id = {key}"),
        Op::Delete { key } => format!("DELETE FROM {table} WHERE id = {key}"),
        Op::Read(_) => format!("SELECT id, v FROM {table}"),
    }
}

fn seen(rows: &Rows) -> Seen {
    let row = |r: &Vec<serde_json::Value>| {
        Some(SeenRow { key: r.first()?.as_i64()?, value: r.get(1)?.as_i64()?, row_id: None })
    };
    Seen { rows: rows.rows.iter().flatten().filter_map(row).collect(), vectors: Vec::new() }
}

/// A write of a key that all share, or the insert of a row with a key of its own. Values tell who wrote them.
fn write(dice: &mut Dice, client: usize, n: i64, keys: i64) -> Op {
    let value = (client as i64 + 1) * 100_000 + n;
    let key = dice.roll(keys.unsigned_abs()) as i64;
    match dice.roll(8) {
        0 => Op::Delete { key },
        1 | 2 => Op::Insert { key: 100 + value, value },
        _ => Op::Update { key, value },
    }
}
