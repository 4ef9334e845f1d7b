//! Random histories through the SQL session, merge-on-read and copy-on-write side by side, against a plain map of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use floe_conformance::scenario::generated::steps::{History, Step, full, runner};
use floe_conformance::scenario::generated::table::Table;
use floe_conformance::scenario::generated::world::World;
use proptest::strategy::{Strategy, ValueTree};

use crate::figures::tell;
use crate::lake::Lake;

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
    world: World,
    /// Per table: snapshot id, and the version of the model it holds.
    snapshots: [Vec<(i64, Table)>; 2],
    /// Per table: `_row_id` by the row's serial number, and all ids ever seen.
    ids: [BTreeMap<u64, i64>; 2],
    used: [BTreeMap<i64, u64>; 2],
    said: Vec<String>,
    checks: usize,
}

impl Run {
    async fn start(h: &History, folder: &Path) -> Result<Self, String> {
        let mut lake = Lake::open(folder).await;
        let world = World::new(h);
        lake.run("CREATE NAMESPACE IF NOT EXISTS ns").await;
        let mut said = vec![format!("{h:?}")];
        for (name, mode) in NAMES.iter().zip(["merge-on-read", "copy-on-write"]) {
            said.push(world.create(h, mode).replace("{table}", name));
            lake.run(&said[said.len() - 1]).await;
        }
        Ok(Self {
            lake,
            world,
            snapshots: Default::default(),
            ids: Default::default(),
            used: Default::default(),
            said,
            checks: 0,
        })
    }

    /// Runs a statement on both tables, each in place of `{table}` or `{namespace}.{name}`.
    async fn both(&mut self, sql: &str) -> Outcome {
        self.said.push(sql.to_string());
        for name in NAMES {
            let sql = sql
                .replace("{table}", name)
                .replace("{namespace}.{name}", &format!("ns.{name}"))
                .replace("{catalog}", "ice");
            if let Err(e) = self.lake.session.execute(&sql).await {
                return Err(format!("{sql}\nfailed: {e}"));
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Expire(keep) => {
                self.both(&format!(
                    "CALL {{catalog}}.system.expire_snapshots(table => '{{namespace}}.{{name}}', older_than => TIMESTAMP \
                     '2999-01-01 00:00:00', retain_last => {keep})"
                ))
                .await
            }
            Step::Rollback(n) => self.rollback(*n).await,
            Step::Branch(kind, seed) => self.branch(*kind, *seed).await,
            step => match self.world.statement(step) {
                Some(sql) => self.both(&sql).await,
                None => Ok(()),
            },
        }
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
                a == b && a.columns == self.world.table.columns
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
        self.world.table = self.snapshots[0][a].1.clone();
        Ok(())
    }

    /// A branch takes a delete, main does not see it.
    async fn branch(&mut self, kind: u8, seed: u16) -> Outcome {
        if self.snapshots.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let w = self.world.condition(kind, seed);
        self.both("ALTER TABLE {table} CREATE BRANCH b").await?;
        self.both(&format!("DELETE FROM {{namespace}}.{{name}}.branch_b WHERE {}", w.sql())).await?;
        let mut there = self.world.table.clone();
        there.rows.retain(|_, r| !w.holds(r));
        for name in NAMES {
            let sql = format!("SELECT {} FROM {name} VERSION AS OF 'b'", self.world.table.select());
            self.said.push(sql.clone());
            let mut seen = self.lake.try_rows(&sql).await.map_err(|e| format!("{sql}\nfailed: {e}"))?;
            seen.sort();
            ensure!(seen == there.lines(), "{sql}\ngives {seen:#?}\nand not {:#?}", there.lines());
        }
        self.both("ALTER TABLE {table} DROP BRANCH b").await
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

    /// All laws, for both tables, and time travel to every live snapshot.
    async fn check(&mut self) -> Outcome {
        let lines = self.world.table.lines();
        let columns = self.world.table.select();
        for (i, name) in NAMES.iter().enumerate() {
            let lineage = if self.world.version >= 3 { ", _row_id" } else { "" };
            let seen = self.query(&format!("SELECT {columns}{lineage} FROM {name}")).await?;
            let seen = if self.world.version >= 3 { self.lineage(i, &seen)? } else { seen };
            ensure!(seen == lines, "{name} has\n{seen:#?}\nand not\n{lines:#?}");
            self.lake.audit(name).map_err(|e| format!("audit of {name}:\n{e}"))?;
            self.changes(i).await?;
            let count = self.query(&format!("SELECT count(*) FROM {name}")).await?;
            ensure!(count == [lines.len().to_string()], "count(*) of {name} is {count:?} of {}", lines.len());
            self.travel(i).await?;
            self.checks += 1;
        }
        Ok(())
    }

    /// Checks the ids at the ends of rows, and gives the rows without.
    fn lineage(&mut self, i: usize, seen: &[String]) -> Result<Vec<String>, String> {
        let name = NAMES[i];
        let mut by_line: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (line, serial) in self.world.table.serials() {
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
            && before.columns == self.world.table.columns
            && t.metadata().snapshot_by_id(parent).is_some()
        {
            let name = NAMES[i];
            let sql = format!(
                "CALL ice.system.create_changelog_view(table => 'ns.{name}', changelog_view => 'v_{name}', options => \
                 map('start-snapshot-id','{parent}','end-snapshot-id','{id}')); SELECT _change_type, {} FROM v_{name}",
                self.world.table.select()
            );
            let mut count: BTreeMap<String, i64> = BTreeMap::new();
            for l in before.lines() {
                *count.entry(l).or_default() += 1;
            }
            for l in self.query(&sql).await? {
                let (kind, row) = l.split_once('|').unwrap_or((&l, ""));
                *count.entry(row.to_string()).or_default() += if kind == "INSERT" { 1 } else { -1 };
            }
            for l in self.world.table.lines() {
                *count.entry(l).or_default() -= 1;
            }
            count.retain(|_, n| *n != 0);
            ensure!(count.is_empty(), "changes of {name} from {parent} to {id} are off by {count:#?}");
        }
        self.snapshots[i].push((id, self.world.table.clone()));
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
    let mut done = Ok(());
    for step in &h.steps {
        if done.is_err() {
            break;
        }
        done = run.step(step).await;
        if done.is_ok() {
            done = run.check().await;
        }
    }
    done.map(|()| run.checks).map_err(|e| format!("{}\n{e}", run.said.join(";\n")))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Seeds whose histories once failed.
const KEPT: &[u64] = &[];

fn by_seed(seed: u64, shrink: u32) -> Result<usize, String> {
    let mut tree = full().new_tree(&mut runner(seed, shrink)).map_err(|e| e.to_string())?;
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
