//! Shared set-up of the benches: a warehouse in a temporary folder, tables of a known shape, and positions by shape.

pub mod large;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion};
pub use floe_bench_tables::{positions, random};
use floe_engine::Table;
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::sql::{Session, StatementResult};
use tokio::runtime::Runtime;

/// Few samples and short ones: a whole `just bench` stays within minutes.
pub fn quick() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

/// A warehouse with a Hadoop catalog `ice`, and a session on it in namespace `ns`.
pub struct Warehouse {
    /// Its session.
    pub session: Session,
    /// Its catalog.
    pub catalog: Arc<dyn Catalog>,
    /// What async work runs on.
    pub runtime: Runtime,
    folder: Option<tempfile::TempDir>,
}

impl Default for Warehouse {
    fn default() -> Self {
        Self::new()
    }
}

impl Warehouse {
    /// In a temporary folder, which goes with it.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut w = Self::at(folder.path());
        w.folder = Some(folder);
        w
    }

    /// In a folder that stays.
    ///
    /// # Panics
    /// When the catalog cannot be opened.
    pub fn at(folder: &Path) -> Self {
        let catalog: Arc<dyn Catalog> =
            Arc::new(HadoopCatalog::new("ice", &folder.display().to_string(), HashMap::new()).expect("a catalog"));
        let runtime = Runtime::new().expect("a runtime");
        let session = Session::new(catalog.clone(), "ice");
        let mut w = Self { session, catalog, runtime, folder: None };
        w.run("CREATE NAMESPACE IF NOT EXISTS ns; USE ns");
        w
    }

    /// Runs a script and gives the result of its last statement.
    ///
    /// # Panics
    /// When a statement fails.
    pub fn run(&mut self, sql: &str) -> StatementResult {
        let results = self.runtime.block_on(self.session.execute(sql));
        let mut results = results.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        results.pop().unwrap_or_else(StatementResult::none)
    }

    /// The newest version of `ns.<name>`.
    ///
    /// # Panics
    /// When there is none.
    pub fn table(&self, name: &str) -> Table {
        let path = ["ns".to_string(), name.to_string()];
        self.runtime.block_on(self.session.table(&path)).expect("the table")
    }

    /// Current snapshot of `ns.<name>`.
    ///
    /// # Panics
    /// When it has none.
    pub fn head(&self, name: &str) -> i64 {
        self.table(name).metadata().current_snapshot_id().expect("a snapshot")
    }

    /// Makes `ns.<name>` of `rows` rows in 4 files: `id` ascending, `city` a short text, `n` a number without order.
    pub fn cities(&mut self, name: &str, rows: u64, mode: &str) {
        self.run(&format!(
            "CREATE TABLE ns.{name} (id BIGINT, city STRING, n BIGINT) USING iceberg TBLPROPERTIES('format-version'='3', \
             'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}'); \
             INSERT INTO ns.{name} SELECT id, concat('city ', CAST(id % 100000 AS STRING)), (id * 7919) % 1000003 FROM range(0, {rows}, 1, 4)"
        ));
    }

    /// Times a statement that changes `ns.<name>`; between iterations the table goes back to the snapshot it had.
    pub fn time_change(&mut self, b: &mut Bencher<'_>, name: &str, sql: &str) {
        let head = self.head(name);
        b.iter_custom(|n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let start = Instant::now();
                self.run(sql);
                total += start.elapsed();
                self.run(&format!("CALL ice.system.rollback_to_snapshot('ns.{name}', {head})"));
            }
            total
        });
    }

    /// Times a query.
    pub fn time_query(&mut self, b: &mut Bencher<'_>, sql: &str) {
        b.iter(|| self.run(sql).num_rows());
    }
}

/// Peak memory of this process so far, in MiB (`VmHWM`); 0 where the system does not tell.
pub fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|v| v.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}

/// Seconds of processor time that this process has used so far, all threads, in steps of 10 ms; 0 where the system does not tell.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the name in parentheses may hold spaces
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |i: usize| rest.split_whitespace().nth(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Median of some samples.
pub fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
