//! How a cluster scales: the same statements in this process and on clusters of one and of several executors of one slot each, in turns.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::util::pretty::pretty_format_batches;
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::sql::Session;
use floe_engine::{Error, Result};

use crate::{Cluster, Layout, Local};

/// What is measured, and on how much.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Warehouse folder; its table is kept and used again when it is there.
    pub folder: PathBuf,
    /// Rows of the table.
    pub rows: u64,
    /// Warm samples of each statement, after a cold one.
    pub samples: usize,
    /// Executors of the larger cluster; the smaller one has one.
    pub executors: usize,
    /// Plans that read fewer bytes of data files stay in this process.
    pub min_bytes: u64,
}

/// Where statements run.
struct Place {
    name: String,
    executors: usize,
    session: Session,
    cluster: Option<(Local, Arc<Cluster>)>,
}

/// Wall-clock seconds of a statement, and processor seconds of the executors in it where the system tells.
#[derive(Debug, Clone, Copy)]
struct Sample {
    wall: f64,
    executors: f64,
}

const NAMES: [&str; 3] = ["scan, totals of 3 columns", "DELETE of 1 %, merge-on-read", "changelog of 1 % updated"];

/// Runs it with `program`, the `floe-cluster` binary, for the processes; `tell` hears what is going on. The text has a line a statement and
/// place, with every sample, and what the model `alone + work / executors` foretells from one executor.
///
/// Errors: a statement fails, a plan that should travel stays here, or two places give different rows.
pub async fn bench(program: &Path, b: &Bench, tell: &dyn Fn(&str)) -> Result<String> {
    std::fs::create_dir_all(&b.folder)?;
    let catalog: Arc<dyn Catalog> =
        Arc::new(HadoopCatalog::new("ice", &b.folder.display().to_string(), HashMap::new())?);
    let mut places = vec![Place { name: "no cluster".into(), executors: 0, session: session(&catalog), cluster: None }];
    let table = format!("ns.t{}", b.rows);
    tell(&format!("making {table}"));
    let (first, last) = make(&mut places[0].session, &table, b.rows).await?;
    for executors in [1, b.executors] {
        let local = Local::start(program, &Layout { executors, ..Layout::default() })?;
        let cluster = Cluster::connect(&local.url()).await?.min_bytes(b.min_bytes).while_alive(local.alive());
        let cluster = Arc::new(cluster);
        let mut session = session(&catalog);
        session.set_last_rule(Some(cluster.rule()));
        session.config_mut().options_mut().execution.target_partitions = executors * 2;
        let name = format!("{executors} executor{}", if executors == 1 { "" } else { "s" });
        places.push(Place { name, executors, session, cluster: Some((local, cluster)) });
    }
    let statements = [
        format!("SELECT count(*), sum(id), sum(n), max(city) FROM {table}"),
        format!("DELETE FROM {table} WHERE id % 100 = 7"),
        format!(
            "SELECT _change_type, count(*), sum(id), sum(n) FROM table_changes('{table}', {first}, {last}) \
             GROUP BY _change_type ORDER BY _change_type"
        ),
    ];
    let mut out = format!(
        "{} rows, {} warm samples after a cold one\n{:30} {:12} {:>8} {:>15} {:>9} {:>12}  samples s\n",
        b.rows, b.samples, "statement", "place", "warm s", "min-max s", "to one", "executors' s"
    );
    for (what, sql) in NAMES.iter().zip(&statements) {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); places.len()];
        let mut answer: Option<String> = None;
        for round in 0..=b.samples {
            for (p, taken) in places.iter_mut().zip(&mut samples) {
                tell(&format!("{what}, {}, round {round}", p.name));
                let (sample, got) = p.sample(sql, &table, last).await?;
                if answer.as_ref().is_some_and(|a| *a != got) {
                    return Err(Error::invalid(format!("{what}: {} gives other rows:\n{got}", p.name)));
                }
                answer = Some(got);
                taken.push(sample);
            }
        }
        lines(&mut out, what, &places, &samples);
    }
    Ok(out)
}

fn session(catalog: &Arc<dyn Catalog>) -> Session {
    Session::new(catalog.clone(), "ice")
}

/// The table, and an UPDATE of 1 % of it: the snapshots before and after. A table of an earlier run stays as it is.
async fn make(session: &mut Session, table: &str, rows: u64) -> Result<(i64, i64)> {
    session
        .execute(&format!(
            "CREATE NAMESPACE IF NOT EXISTS ice.ns; \
             CREATE TABLE IF NOT EXISTS {table} (id BIGINT, city STRING, n BIGINT) TBLPROPERTIES ('format-version' = '3', \
             'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
        ))
        .await?;
    let name: Vec<String> = table.split('.').map(str::to_string).collect();
    if session.table(&name).await?.metadata().current_snapshot_id().is_none() {
        session
            .execute(&format!(
                "INSERT INTO {table} SELECT id, concat('city ', CAST(id % 100000 AS STRING)), (id * 7919) % 1000003 \
                 FROM range(0, {rows}, 1, 4); UPDATE {table} SET n = n + 1 WHERE id % 100 = 3"
            ))
            .await?;
    }
    let loaded = session.table(&name).await?;
    let last = loaded.metadata().current_snapshot();
    last.and_then(|s| Some((s.parent_snapshot_id()?, s.snapshot_id())))
        .ok_or_else(|| Error::invalid(format!("{table} is not the bench's")))
}

impl Place {
    /// Times a statement; its rows, or those of the table after it, as text. A change is taken back.
    async fn sample(&mut self, sql: &str, table: &str, head: i64) -> Result<(Sample, String)> {
        let jobs = self.jobs();
        let (before, start) = (self.processor_seconds(), Instant::now());
        let result = self.session.execute_one(sql).await?;
        let wall = start.elapsed().as_secs_f64();
        let sample = Sample { wall, executors: self.processor_seconds() - before };
        if self.cluster.is_some() && self.jobs() == jobs {
            return Err(Error::invalid(format!("{sql} did not travel: the table is too small for --min-bytes")));
        }
        let batches = if result.schema.is_some() && !sql.starts_with("DELETE") {
            result.batches
        } else {
            let after = format!("SELECT count(*), sum(id), sum(n), max(city) FROM {table}");
            let rows = self.session.execute_one(&after).await?.batches;
            let back = format!("CALL ice.system.rollback_to_snapshot('{table}', {head})");
            self.session.execute_one(&back).await?;
            rows
        };
        Ok((sample, pretty_format_batches(&batches)?.to_string()))
    }

    fn jobs(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |c| c.1.jobs())
    }

    /// Processor time of the executors so far; 0 where the system does not tell.
    fn processor_seconds(&self) -> f64 {
        let pids = self.cluster.as_ref().map(|c| c.0.executors()).unwrap_or_default();
        pids.into_iter().map(of_process).sum()
    }
}

/// Processor seconds of a process, all threads, in steps of 10 ms.
fn of_process(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the name in parentheses may hold spaces
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |i: usize| rest.split_whitespace().nth(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Median, least and greatest of the warm samples.
fn warm(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> (f64, f64, f64) {
    let mut t: Vec<f64> = samples.iter().skip(1).map(of).collect();
    t.sort_by(f64::total_cmp);
    let at = |i: usize| t.get(i).copied().unwrap_or(f64::NAN);
    (at(t.len() / 2), at(0), at(t.len().saturating_sub(1)))
}

/// A line a place, and the model's: what one executor is not busy with stays as it is, the rest is shared out.
fn lines(out: &mut String, what: &str, places: &[Place], samples: &[Vec<Sample>]) {
    let one = places.iter().zip(samples).find(|(p, _)| p.executors == 1).map(|(_, s)| s.as_slice()).unwrap_or_default();
    let (one_wall, work) = (warm(one, |s| s.wall).0, warm(one, |s| s.executors).0);
    for (p, taken) in places.iter().zip(samples) {
        let (median, min, max) = warm(taken, |s| s.wall);
        let busy = warm(taken, |s| s.executors).0;
        let all: Vec<String> = taken.iter().map(|s| format!("{:.2}", s.wall)).collect();
        let spread = format!("{min:.2}-{max:.2}");
        let speed = format!("{:.2}x", one_wall / median);
        let _ = writeln!(
            out,
            "{what:30} {:12} {median:>8.2} {spread:>15} {speed:>9} {busy:>12.2}  {}",
            p.name,
            all.join(" ")
        );
    }
    // executors that are busy on more than one core, or clocks of 10 ms, can make it negative
    let alone = (one_wall - work).max(0.0);
    for p in places.iter().filter(|p| p.executors > 1) {
        let foretold = alone + (one_wall - alone) / p.executors as f64;
        let limit = if alone > 0.0 { format!("{:.1}x at most", one_wall / alone) } else { "no limit".into() };
        let _ = writeln!(
            out,
            "{what:30} {:12} {foretold:>8.2}  foretold: {alone:.2} s alone, {:.2} s shared out; {limit}",
            p.name,
            one_wall - alone
        );
    }
}
