//! Random histories through the SQL session, merge-on-read and copy-on-write side by side, against a plain map of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::figures::tell;
use crate::lake::Lake;
use crate::model::{Column, Kind, Row, Table, Where};

/// One step; the numbers choose among what the table has when it comes to it, so that any part of a history is a history.
#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u16),
    Delete(u8, u16),
    Update(u8, u16, u16),
    Merge(u16, u8),
    Overwrite(u8, u16),
    Upgrade,
    AddColumn(u8),
    DropColumn(u8),
    RenameColumn(u8),
    Widen(u8),
    Compact,
    Expire(u8),
    RewriteManifests,
    RewritePositions,
    Rollback(u8),
    Branch(u8, u16),
}

#[derive(Debug, Clone)]
struct History {
    version: u8,
    partition: u8,
    columns: Vec<u8>,
    granularity: bool,
    merge_manifests: bool,
    steps: Vec<Step>,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..6, any::<u16>()).prop_map(|(n, s)| Step::Insert(n, s)),
        6 => (any::<u8>(), any::<u16>()).prop_map(|(k, s)| Step::Delete(k, s)),
        5 => (any::<u8>(), any::<u16>(), any::<u16>()).prop_map(|(k, s, v)| Step::Update(k, s, v)),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(s, k)| Step::Merge(s, k)),
        1 => (1u8..4, any::<u16>()).prop_map(|(n, s)| Step::Overwrite(n, s)),
        2 => Just(Step::Upgrade),
        1 => any::<u8>().prop_map(Step::AddColumn),
        1 => any::<u8>().prop_map(Step::DropColumn),
        1 => any::<u8>().prop_map(Step::RenameColumn),
        1 => any::<u8>().prop_map(Step::Widen),
        2 => Just(Step::Compact),
        1 => (1u8..4).prop_map(Step::Expire),
        1 => Just(Step::RewriteManifests),
        2 => Just(Step::RewritePositions),
        1 => any::<u8>().prop_map(Step::Rollback),
        1 => (any::<u8>(), any::<u16>()).prop_map(|(k, s)| Step::Branch(k, s)),
    ]
}

fn history() -> impl Strategy<Value = History> {
    (
        2u8..4,
        any::<u8>(),
        proptest::collection::vec(any::<u8>(), 1..4),
        any::<bool>(),
        any::<bool>(),
        proptest::collection::vec(step(), 3..12),
    )
        .prop_map(|(version, partition, columns, granularity, merge_manifests, steps)| History {
            version,
            partition,
            columns,
            granularity,
            merge_manifests,
            steps,
        })
}

/// What is wrong, and after which statements.
type Outcome = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

const NAMES: [&str; 2] = ["mor", "cow"];

struct Run {
    lake: Lake,
    table: Table,
    version: u8,
    partition: u8,
    /// Per table: snapshot id, and the version of the model it holds.
    snapshots: [Vec<(i64, Table)>; 2],
    /// Per table: `_row_id` by the row's serial number, and all ids ever seen.
    ids: [BTreeMap<u64, i64>; 2],
    used: [BTreeMap<i64, u64>; 2],
    serial: u64,
    next_id: i64,
    next_key: u32,
    said: Vec<String>,
    checks: usize,
}

impl Run {
    async fn start(h: &History, folder: &Path) -> Result<Self, String> {
        let mut lake = Lake::open(folder).await;
        let mut table = Table::default();
        for (i, c) in h.columns.iter().enumerate() {
            let kind = Kind::ALL[usize::from(*c) % Kind::ALL.len()];
            table.columns.push(Column { key: i as u32, name: format!("c{i}"), kind });
        }
        let first = &table.columns[0];
        let partition = match h.partition % 5 {
            0 => String::new(),
            1 => format!("PARTITIONED BY ({})", first.name),
            2 => "PARTITIONED BY (bucket(3, id))".into(),
            3 => "PARTITIONED BY (truncate(4, id))".into(),
            _ => format!("PARTITIONED BY (bucket(2, id), {})", first.name),
        };
        let columns: Vec<String> = table.columns.iter().map(|c| format!("{} {}", c.name, c.kind.sql())).collect();
        lake.run("CREATE NAMESPACE IF NOT EXISTS ns").await;
        for (name, mode) in NAMES.iter().zip(["merge-on-read", "copy-on-write"]) {
            lake.run(&format!(
                "CREATE TABLE {name} (id INT, {}) USING iceberg {partition} TBLPROPERTIES ('format-version'='{}', \
                 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}', \
                 'write.delete.granularity'='{}', 'commit.manifest.min-count-to-merge'='{}')",
                columns.join(", "),
                h.version,
                if h.granularity { "file" } else { "partition" },
                if h.merge_manifests { 2 } else { 100 },
            ))
            .await;
        }
        let said = vec![format!("{h:?}"), format!("{partition} {}", columns.join(", "))];
        let next_key = table.columns.len() as u32;
        Ok(Self {
            lake,
            table,
            version: h.version,
            partition: h.partition % 5,
            snapshots: Default::default(),
            ids: Default::default(),
            used: Default::default(),
            serial: 0,
            next_id: 0,
            next_key,
            said,
            checks: 0,
        })
    }

    fn new_rows(&mut self, n: u8, seed: u16) -> Vec<Row> {
        let mut out = Vec::new();
        for i in 0..i64::from(n) {
            let mut cells = BTreeMap::new();
            for c in &self.table.columns {
                // now and then a null
                let v = (i64::from(seed) * 7 + i * 13 + i64::from(c.key) * 5) % 11;
                if v != 3 {
                    cells.insert(c.key, v);
                }
            }
            out.push(Row { id: self.next_id, cells, row_id: None });
            self.next_id += 1;
        }
        out
    }

    fn put(&mut self, rows: Vec<Row>) {
        for r in rows {
            self.table.rows.insert(self.serial, r);
            self.serial += 1;
        }
    }

    fn condition(&self, kind: u8, seed: u16) -> Where {
        let below = self.next_id.max(1);
        let id = i64::from(seed) % below;
        let c = || self.table.columns.get(usize::from(seed) % self.table.columns.len().max(1)).cloned();
        match kind % 8 {
            0 | 1 => Where::Id(id),
            2 => Where::Ids(vec![id, (id + 2) % below, (id * 3 + 1) % below]),
            3 => Where::Below(id),
            4 => Where::Mod(2 + i64::from(kind / 8) % 3, i64::from(seed) % 2),
            5 => c().map_or(Where::Id(id), Where::Null),
            6 => c().map_or(Where::Id(id), |c| Where::Is(c, i64::from(seed) % 11)),
            _ if kind > 200 => Where::All,
            _ => Where::Id(id),
        }
    }

    /// Runs a statement on both tables; `{t}` is the table.
    async fn both(&mut self, sql: &str) -> Outcome {
        self.said.push(sql.to_string());
        for name in NAMES {
            let sql = sql.replace("{t}", name);
            if let Err(e) = self.lake.session.execute(&sql).await {
                return Err(format!("{sql}\nfailed: {e}"));
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Insert(n, seed) => {
                let rows = self.new_rows(*n, *seed);
                self.both(&format!("INSERT INTO {{t}} VALUES {}", self.table.values(&rows))).await?;
                self.put(rows);
            }
            Step::Delete(kind, seed) => {
                let w = self.condition(*kind, *seed);
                self.both(&format!("DELETE FROM {{t}} WHERE {}", w.sql())).await?;
                self.table.rows.retain(|_, r| !w.holds(r));
            }
            Step::Update(kind, seed, value) => {
                let w = self.condition(*kind, *seed);
                let Some(c) = self.table.columns.get(usize::from(*value) % self.table.columns.len().max(1)).cloned()
                else {
                    return Ok(());
                };
                let v = (value % 12 != 0).then(|| i64::from(value / 16) % 11);
                self.both(&format!("UPDATE {{t}} SET {} = {} WHERE {}", c.name, c.kind.literal(v), w.sql())).await?;
                for r in self.table.rows.values_mut().filter(|r| w.holds(r)) {
                    match v {
                        Some(v) => r.cells.insert(c.key, v),
                        None => r.cells.remove(&c.key),
                    };
                }
            }
            Step::Merge(seed, kind) => self.merge(*seed, *kind).await?,
            Step::Overwrite(n, seed) => {
                let rows = self.new_rows(*n, *seed);
                self.both(&format!("INSERT OVERWRITE {{t}} VALUES {}", self.table.values(&rows))).await?;
                self.table.rows.clear();
                self.put(rows);
            }
            Step::Upgrade if self.version == 2 => {
                self.both("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')").await?;
                self.version = 3;
            }
            Step::AddColumn(k) => {
                let kind = Kind::ALL[usize::from(*k) % Kind::ALL.len()];
                let c = Column { key: self.next_key, name: format!("c{}", self.next_key), kind };
                self.next_key += 1;
                self.both(&format!("ALTER TABLE {{t}} ADD COLUMN {} {}", c.name, kind.sql())).await?;
                self.table.columns.push(c);
            }
            Step::DropColumn(n) if self.table.columns.len() > 1 => {
                // the partition's source stays
                let at = 1 + usize::from(*n) % (self.table.columns.len() - 1);
                let c = self.table.columns[at].clone();
                self.both(&format!("ALTER TABLE {{t}} DROP COLUMN {}", c.name)).await?;
                self.table.columns.remove(at);
                for r in self.table.rows.values_mut() {
                    r.cells.remove(&c.key);
                }
            }
            Step::RenameColumn(n) => {
                let at = usize::from(*n) % self.table.columns.len();
                let old = self.table.columns[at].name.clone();
                let new = format!("{old}_r");
                self.both(&format!("ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")).await?;
                self.table.columns[at].name = new;
            }
            Step::Widen(n) => {
                let ints: Vec<usize> =
                    (0..self.table.columns.len()).filter(|i| self.table.columns[*i].kind == Kind::Int).collect();
                if let Some(at) = ints.get(usize::from(*n) % ints.len().max(1)) {
                    let name = self.table.columns[*at].name.clone();
                    self.both(&format!("ALTER TABLE {{t}} ALTER COLUMN {name} TYPE BIGINT")).await?;
                    self.table.columns[*at].kind = Kind::Long;
                }
            }
            Step::Compact => {
                self.both(
                    "CALL ice.system.rewrite_data_files(table => 'ns.{t}', options => map('rewrite-all','true'))",
                )
                .await?;
            }
            Step::RewriteManifests => self.both("CALL ice.system.rewrite_manifests('ns.{t}')").await?,
            Step::RewritePositions => {
                self.both(
                    "CALL ice.system.rewrite_position_delete_files(table => 'ns.{t}', options => map('rewrite-all','true'))",
                )
                .await?;
            }
            Step::Expire(keep) => {
                self.both(&format!(
                    "CALL ice.system.expire_snapshots(table => 'ns.{{t}}', older_than => TIMESTAMP '2999-01-01 00:00:00', \
                     retain_last => {keep})"
                ))
                .await?;
            }
            Step::Rollback(n) => self.rollback(*n).await?,
            Step::Branch(kind, seed) => self.branch(*kind, *seed).await?,
            Step::Upgrade | Step::DropColumn(_) => return Ok(()),
        }
        Ok(())
    }

    async fn merge(&mut self, seed: u16, kind: u8) -> Outcome {
        let old: Vec<i64> = self.table.rows.values().map(|r| r.id).collect();
        let mut rows = self.new_rows(2, seed);
        if let Some(id) = old.get(usize::from(seed) % old.len().max(1)) {
            rows[0].id = *id;
        }
        let names: Vec<String> = self.table.columns.iter().map(|c| c.name.clone()).collect();
        let columns = self.table.select();
        let source: Vec<String> = rows
            .iter()
            .map(|r| {
                let cells = self.table.columns.iter().map(|c| {
                    let v = r.cells.get(&c.key).copied();
                    format!("{} AS {}", c.kind.literal(v), c.name)
                });
                format!("SELECT CAST({} AS INT) AS id, {}", r.id, cells.collect::<Vec<_>>().join(", "))
            })
            .collect();
        let sets: Vec<String> = names.iter().map(|n| format!("{n} = s.{n}")).collect();
        let given: Vec<String> = std::iter::once("id".to_string()).chain(names).map(|n| format!("s.{n}")).collect();
        let deletes = kind % 3 == 0;
        let matched = if deletes { "DELETE".to_string() } else { format!("UPDATE SET {}", sets.join(", ")) };
        self.both(&format!(
            "MERGE INTO {{t}} AS t USING ({}) AS s ON t.id = s.id WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT \
             ({columns}) VALUES ({})",
            source.join(" UNION ALL "),
            given.join(", ")
        ))
        .await?;
        for new in rows {
            let hits: Vec<u64> = self.table.rows.iter().filter(|(_, r)| r.id == new.id).map(|(n, _)| *n).collect();
            if hits.is_empty() {
                self.put(vec![new]);
                continue;
            }
            for n in hits {
                if deletes {
                    self.table.rows.remove(&n);
                } else if let Some(r) = self.table.rows.get_mut(&n) {
                    r.cells.clone_from(&new.cells);
                }
            }
        }
        Ok(())
    }

    /// Both tables go back to an ancestor of equal content.
    async fn rollback(&mut self, n: u8) -> Outcome {
        let mut ids = Vec::new();
        for (i, name) in NAMES.iter().enumerate() {
            let live = self.ancestors(name).await;
            let known: Vec<usize> =
                (0..self.snapshots[i].len()).filter(|s| live.contains(&self.snapshots[i][*s].0)).collect();
            ids.push(known);
        }
        // a version that both still have
        let versions: Vec<(usize, usize)> = ids[0]
            .iter()
            .flat_map(|a| ids[1].iter().map(move |b| (*a, *b)))
            .filter(|(a, b)| {
                let (a, b) = (&self.snapshots[0][*a].1, &self.snapshots[1][*b].1);
                a == b && a.columns == self.table.columns
            })
            .collect();
        let Some((a, b)) = versions.get(usize::from(n) % versions.len().max(1)).copied() else { return Ok(()) };
        for (i, at) in [a, b].into_iter().enumerate() {
            let id = self.snapshots[i][at].0;
            let sql = format!("CALL ice.system.rollback_to_snapshot('ns.{}', {id})", NAMES[i]);
            self.said.push(sql.clone());
            self.lake.session.execute(&sql).await.map_err(|e| format!("{sql}\nfailed: {e}"))?;
            // a version from before the upgrade has no ids; they are given anew
            self.ids[i].clear();
        }
        self.table = self.snapshots[0][a].1.clone();
        Ok(())
    }

    /// A branch takes a delete, main does not see it.
    async fn branch(&mut self, kind: u8, seed: u16) -> Outcome {
        if self.snapshots.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let w = self.condition(kind, seed);
        self.both("ALTER TABLE {t} CREATE BRANCH b").await?;
        self.both(&format!("DELETE FROM ns.{{t}}.branch_b WHERE {}", w.sql())).await?;
        let mut there = self.table.clone();
        there.rows.retain(|_, r| !w.holds(r));
        for name in NAMES {
            let sql = format!("SELECT {} FROM {name} VERSION AS OF 'b'", self.table.select());
            self.said.push(sql.clone());
            let mut seen = self.lake.try_rows(&sql).await.map_err(|e| format!("{sql}\nfailed: {e}"))?;
            seen.sort();
            ensure!(seen == there.lines(), "{sql}\ngives {seen:#?}\nand not {:#?}", there.lines());
        }
        self.both("ALTER TABLE {t} DROP BRANCH b").await
    }

    async fn ancestors(&self, name: &str) -> BTreeSet<i64> {
        let t = self.lake.table(name).await;
        let m = t.metadata();
        let mut out = BTreeSet::new();
        let mut at = m.current_snapshot().cloned();
        while let Some(s) = at {
            out.insert(s.snapshot_id());
            at = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p)).cloned();
        }
        out
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let mut seen = self.lake.try_rows(sql).await.map_err(|e| format!("{sql}\nfailed: {e}"))?;
        seen.sort();
        Ok(seen)
    }

    /// All laws, for both tables. `deep`: count and time travel to every live snapshot, too.
    async fn check(&mut self, deep: bool) -> Outcome {
        let lines = self.table.lines();
        let columns = self.table.select();
        for (i, name) in NAMES.iter().enumerate() {
            let lineage = if self.version >= 3 { ", _row_id" } else { "" };
            let seen = self.query(&format!("SELECT {columns}{lineage} FROM {name}")).await?;
            let seen = if self.version >= 3 { self.lineage(i, &seen)? } else { seen };
            ensure!(seen == lines, "{name} has\n{seen:#?}\nand not\n{lines:#?}");
            self.lake.audit(name).map_err(|e| format!("audit of {name}:\n{e}"))?;
            self.changes(i).await?;
            if deep {
                let count = self.query(&format!("SELECT count(*) FROM {name}")).await?;
                ensure!(count == [lines.len().to_string()], "count(*) of {name} is {count:?} of {}", lines.len());
                self.travel(i).await?;
            }
            self.checks += 1;
        }
        Ok(())
    }

    /// Checks the ids at the ends of rows, and gives the rows without.
    fn lineage(&mut self, i: usize, seen: &[String]) -> Result<Vec<String>, String> {
        let name = NAMES[i];
        let mut by_line: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (line, serial) in self.table.serials() {
            by_line.entry(line).or_default().push(serial);
        }
        let (mut now, mut rows) = (BTreeSet::new(), Vec::new());
        for line in seen {
            let Some((row, id)) = line.rsplit_once('|') else { continue };
            rows.push(row.to_string());
            if id == "NULL" {
                continue;
            }
            let id: i64 = id.parse().map_err(|_| format!("_row_id {id:?} of {name}"))?;
            ensure!(now.insert(id), "two rows of {name} have _row_id {id}");
            // rows are made with different ids, so equal rows are one row
            let Some(serial) = by_line.get_mut(row).and_then(Vec::pop) else { continue };
            if let Some(old) = self.ids[i].get(&serial) {
                ensure!(*old == id, "_row_id of {row} in {name} was {old} and is {id}");
            }
            let owner = *self.used[i].entry(id).or_insert(serial);
            ensure!(owner == serial, "_row_id {id} of {row} in {name} belonged to another row");
            self.ids[i].insert(serial, id);
        }
        rows.sort();
        Ok(rows)
    }

    /// The rows before, plus the changes, are the rows after: for the last two versions (CDC-*).
    async fn changes(&mut self, i: usize) -> Outcome {
        let t = self.lake.table(NAMES[i]).await;
        let Some(head) = t.metadata().current_snapshot() else { return Ok(()) };
        let id = head.snapshot_id();
        if self.snapshots[i].last().is_some_and(|(last, _)| *last == id) {
            return Ok(());
        }
        let parent = head.parent_snapshot_id();
        let before = parent.and_then(|p| self.snapshots[i].iter().find(|(s, _)| *s == p)).map(|(_, t)| t.clone());
        if let (Some(parent), Some(before)) = (parent, before)
            && before.columns == self.table.columns
            && t.metadata().snapshot_by_id(parent).is_some()
        {
            let name = NAMES[i];
            let sql = format!(
                "CALL ice.system.create_changelog_view(table => 'ns.{name}', changelog_view => 'v_{name}', options => \
                 map('start-snapshot-id','{parent}','end-snapshot-id','{id}')); SELECT _change_type, {} FROM v_{name}",
                self.table.select()
            );
            let mut count: BTreeMap<String, i64> = BTreeMap::new();
            for l in before.lines() {
                *count.entry(l).or_default() += 1;
            }
            for l in self.query(&sql).await? {
                let (kind, row) = l.split_once('|').unwrap_or((&l, ""));
                *count.entry(row.to_string()).or_default() += if kind == "INSERT" { 1 } else { -1 };
            }
            for l in self.table.lines() {
                *count.entry(l).or_default() -= 1;
            }
            count.retain(|_, n| *n != 0);
            ensure!(count.is_empty(), "changes of {name} from {parent} to {id} are off by {count:#?}");
        }
        self.snapshots[i].push((id, self.table.clone()));
        Ok(())
    }

    async fn travel(&mut self, i: usize) -> Outcome {
        let t = self.lake.table(NAMES[i]).await;
        let live: BTreeSet<i64> = t.metadata().snapshots().map(|s| s.snapshot_id()).collect();
        self.snapshots[i].retain(|(s, _)| live.contains(s));
        for (id, then) in self.snapshots[i].clone() {
            // a snapshot is read with the schema it was written with
            let of = t.metadata().snapshot_by_id(id).and_then(|s| s.schema_id());
            let names = of.and_then(|s| t.metadata().schema_by_id(s).cloned());
            let Some(schema) = names else { continue };
            if schema.as_struct().fields().len() != then.columns.len() + 1 {
                continue;
            }
            let seen = self.query(&format!("SELECT * FROM {} VERSION AS OF {id}", NAMES[i])).await?;
            ensure!(seen == then.lines(), "{} at {id} has\n{seen:#?}\nand not\n{:#?}", NAMES[i], then.lines());
        }
        Ok(())
    }
}

async fn play(h: &History) -> Result<usize, String> {
    let dir = tempfile::tempdir().expect("a folder");
    let mut run = Run::start(h, dir.path()).await?;
    let first = run.step(&Step::Insert(5, 1)).await;
    let mut done = first;
    if done.is_ok() {
        done = run.check(false).await;
    }
    for (i, step) in h.steps.iter().enumerate() {
        if done.is_err() {
            break;
        }
        done = run.step(step).await;
        if done.is_ok() {
            done = run.check(i + 1 == h.steps.len()).await;
        }
    }
    let partition = run.partition;
    done.map(|()| run.checks).map_err(|e| format!("{}\n(partition {partition})\n{e}", run.said.join(";\n")))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Seeds whose histories once failed.
const KEPT: &[u64] = &[];

fn by_seed(seed: u64, shrink: u32) -> Result<usize, String> {
    let config = Config { max_shrink_iters: shrink, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng(seed));
    let mut tree = history().new_tree(&mut runner).map_err(|e| e.to_string())?;
    let runtime = runtime();
    let first = runtime.block_on(play(&tree.current()));
    let Err(mut worst) = first else { return first };
    let mut left = shrink;
    let mut simpler = tree.simplify();
    while simpler && left > 0 {
        left -= 1;
        simpler = match runtime.block_on(play(&tree.current())) {
            Err(e) => {
                worst = e;
                tree.simplify()
            }
            Ok(_) => tree.complicate(),
        };
    }
    Err(format!("seed {seed}:\n{worst}"))
}

fn seconds() -> u64 {
    std::env::var("FLOE_HISTORIES_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(30)
}

#[test]
fn random_histories() {
    let start: u64 = std::env::var("FLOE_HISTORIES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds()));
    let (mut histories, mut checks) = (0, 0);
    let mut failures = Vec::new();
    for seed in KEPT.iter().copied().chain(start..) {
        // a few always run, however slow the machine is
        if histories >= KEPT.len() + 3 && began.elapsed() > limit {
            break;
        }
        match by_seed(seed, if seconds() > 60 { 60 } else { 20 }) {
            Ok(n) => checks += n,
            Err(e) => failures.push(e),
        }
        histories += 1;
        if failures.len() >= 5 {
            break;
        }
    }
    tell("random histories", &format!("{histories} run from seed {start}, {checks} versions checked"));
    assert!(failures.is_empty(), "{} histories failed\n{}", failures.len(), failures.join("\n\n"));
}
