//! The workload `metadata`: what lies before the first row is read. Engines decode deletion vectors of several shapes and sizes, and plan
//! a scan of a table whose every data file has a vector. Each times its own calls; within a round they take turns, and what came out is
//! compared before a time counts.

mod targets;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use floe_bench_tables::{ROWS_A_FILE, SHAPES, fill, positions};
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::dv::DeletionVector;
use iceberg::TableIdent;

use super::run::{CATALOG, NAMESPACE, failure, report, table};
use super::{Plan, Report, Sample, Usage};
use crate::drivers::Driver;
use crate::protocol::{Answer, Measured, Work};

pub use targets::text as targets;

/// Name of the table that is planned.
const TABLE: &str = "files";
/// Small files that its others are links to.
const ORIGINALS: u64 = 40;
/// Positions of the smallest vectors; others have ten times as many, up to ten for each data file.
const FEWEST: u64 = 1000;
/// Bytes of blobs that one sample decodes, and the most calls of it: so that a sample of small ones is long enough to be timed.
const BYTES_A_SAMPLE: usize = 1 << 24;
const MOST_CALLS: usize = 20_000;
/// An engine is warm after so many seconds of a work, or so many samples of it: by then a virtual machine has compiled what is hot.
const WARM_SECONDS: f64 = 2.0;
const WARM_SAMPLES: u32 = 10;

/// A work, how often a sample does it, and what must come out.
struct Task {
    what: String,
    work: Work,
    calls: u32,
    count: u64,
    check: u64,
}

/// Runs the plan on started engines over `warehouse`; the first of `drivers` is floe, which makes the table of `rows` data files.
/// `tell` hears what is being measured. Errors: floe is missing, or the table cannot be made.
pub async fn run(
    plan: &Plan,
    warehouse: &Path,
    drivers: &mut [Box<dyn Driver>],
    absent: Vec<(String, String)>,
    tell: &dyn Fn(&str),
) -> Result<Report, String> {
    warmed_for(WARM_SECONDS, plan, warehouse, drivers, absent, tell).await
}

/// [`run`] with engines that are warm after `warm` seconds of a work.
async fn warmed_for(
    warm: f64,
    plan: &Plan,
    warehouse: &Path,
    drivers: &mut [Box<dyn Driver>],
    absent: Vec<(String, String)>,
    tell: &dyn Fn(&str),
) -> Result<Report, String> {
    if drivers.first().is_none_or(|d| d.name() != "floe") {
        return Err("the workload metadata needs the engine floe: it makes the table that the others plan".into());
    }
    let blobs = tempfile::tempdir().map_err(|e| format!("no folder for the vectors: {e}"))?;
    let mut samples = Vec::new();
    let mut size = FEWEST;
    while size <= u64::from(plan.rows) * 10 {
        for (shape, words) in SHAPES {
            let task = vector(blobs.path(), shape, words, size)?;
            take_turns(warm, plan, drivers, &task, &mut samples, tell).await;
        }
        size *= 10;
    }
    tell(&format!("making a table of {} data files with a vector each", plan.rows));
    make(plan, warehouse, drivers[0].as_mut()).await?;
    let files = u64::from(plan.rows);
    let what = "planning of all data files".into();
    let work = Work::Plan { table: table(warehouse, TABLE) };
    let task = Task { what, work, calls: 1, count: files, check: files };
    take_turns(warm, plan, drivers, &task, &mut samples, tell).await;
    Ok(report(plan, drivers, absent, samples))
}

/// What a decode of `size` positions is called.
fn decode(size: u64, words: &str) -> String {
    format!("decode of {size}, {words}")
}

/// A vector's blob in a file of its own.
fn vector(folder: &Path, shape: &str, words: &str, size: u64) -> Result<Task, String> {
    let set = positions(shape, size);
    let vector = DeletionVector::try_from_positions(set.iter().copied()).map_err(|e| e.to_string())?;
    let bytes = vector.encode().map_err(|e| e.to_string())?;
    let path = folder.join("blob");
    std::fs::write(&path, &bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(Task {
        what: decode(size, words),
        work: Work::Decode { blob: path.display().to_string(), positions: set.len() as u64 },
        calls: (BYTES_A_SAMPLE / bytes.len()).clamp(1, MOST_CALLS) as u32,
        count: set.len() as u64,
        check: set.iter().sum(),
    })
}

/// Makes the table: a few real files, the others links to them, a vector for each.
async fn make(plan: &Plan, warehouse: &Path, floe: &mut dyn Driver) -> Result<(), String> {
    let t = table(warehouse, TABLE);
    let originals = ORIGINALS.min(u64::from(plan.rows));
    let rows = originals * ROWS_A_FILE;
    for sql in [
        format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}"),
        format!(
            "CREATE TABLE {CATALOG}.{NAMESPACE}.{TABLE} (id BIGINT, city STRING, n BIGINT) USING iceberg \
             TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')"
        ),
        format!(
            "INSERT INTO {CATALOG}.{NAMESPACE}.{TABLE} SELECT id, concat('city ', CAST(id AS STRING)), id * 10 \
             FROM range(0, {rows}, 1, {originals})"
        ),
    ] {
        failure(floe.apply(&sql, &t).await).map_or(Ok(()), |why| Err(format!("{sql}: {why}")))?;
    }
    let filled = async {
        let catalog: Arc<dyn Catalog> =
            Arc::new(HadoopCatalog::new(CATALOG, &warehouse.display().to_string(), HashMap::new())?);
        let loaded = catalog.load_table(&TableIdent::from_strs([NAMESPACE, TABLE])?).await?;
        fill(loaded, plan.rows as usize).await
    };
    filled.await.map(|_| ()).map_err(|e: floe_engine::Error| format!("the table of many files: {e}"))
}

/// One cold sample of each engine, then as many unkept ones as make it warm, then a round of all engines for each warm sample. An engine
/// that cannot do the work, or does it wrong, has one sample that says so.
async fn take_turns(
    warm: f64,
    plan: &Plan,
    drivers: &mut [Box<dyn Driver>],
    task: &Task,
    samples: &mut Vec<Sample>,
    tell: &dyn Fn(&str),
) {
    let mut fit = Vec::new();
    for (i, d) in drivers.iter_mut().enumerate() {
        tell(&format!("{}: {} warms up", task.what, d.name()));
        let cold = one(d.as_mut(), task, 0).await;
        let mut spent = 0.0;
        let able = cold.seconds.is_some();
        samples.push(cold);
        if !able {
            continue;
        }
        fit.push(i);
        for n in 0..WARM_SAMPLES {
            if spent > warm && n >= 2 {
                break;
            }
            spent += one(d.as_mut(), task, 0).await.seconds.unwrap_or(warm) * f64::from(task.calls);
        }
    }
    for round in 1..=plan.samples {
        for i in &fit {
            tell(&format!("{}: {} round {round}", task.what, drivers[*i].name()));
            samples.push(one(drivers[*i].as_mut(), task, round).await);
        }
    }
}

/// One sample of an engine, in seconds a call.
async fn one(driver: &mut dyn Driver, task: &Task, round: u32) -> Sample {
    let answer = driver.measure(&task.work, task.calls).await;
    let (seconds, reason, peak_mib) = match answer {
        Answer::Ok(Measured { seconds, count, check, peak_mib }) if (count, check) == (task.count, task.check) => {
            (Some(seconds / f64::from(task.calls)), String::new(), peak_mib)
        }
        Answer::Ok(m) => {
            let why = format!("wrong rows: {} and {} instead of {} and {}", m.count, m.check, task.count, task.check);
            (None, why, None)
        }
        other => (None, failure(other).unwrap_or_default(), None),
    };
    Sample {
        what: task.what.clone(),
        engine: driver.name().into(),
        writer: "floe".into(),
        mode: super::VECTORS.into(),
        round,
        seconds,
        reason,
        rows: task.count,
        usage: Usage { peak_mib, ..Usage::default() },
        ..Sample::default()
    }
}
