//! What the tests share: sessions, rows as text, the project's scenarios as scripts.

#![allow(dead_code)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use floe_cluster::{Cluster, Layout, Local};
use floe_engine::catalog::HadoopCatalog;
use floe_engine::sql::Session;
use tempfile::TempDir;

/// The program of the cluster's processes.
pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_floe-cluster"))
}

/// One scheduler and two executors for all tests of a binary; they end with it.
pub fn local() -> &'static Local {
    static LOCAL: LazyLock<Local> = LazyLock::new(|| {
        let layout = Layout { lost_after: 60, ..Layout::default() };
        Local::start(program(), &layout).expect("a local cluster")
    });
    &LOCAL
}

/// A connection of its own, so that its counts are a test's alone.
pub async fn cluster(min_bytes: u64) -> Arc<Cluster> {
    Arc::new(Cluster::connect(&local().url()).await.expect("a scheduler").min_bytes(min_bytes))
}

/// A session over a fresh warehouse.
pub struct Warehouse {
    pub session: Session,
    pub dir: TempDir,
}

pub fn warehouse(rule: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) -> Warehouse {
    let dir = tempfile::tempdir().expect("a folder");
    let catalog = HadoopCatalog::new("ice", &dir.path().display().to_string(), HashMap::new()).expect("a catalog");
    let mut session = Session::new(Arc::new(catalog), "ice");
    session.set_last_rule(rule);
    session.config_mut().options_mut().execution.target_partitions = 4;
    Warehouse { session, dir }
}

impl Warehouse {
    /// Runs a script that must succeed.
    pub async fn run(&mut self, script: &str) {
        if let Err(e) = self.session.execute(script).await {
            panic!("{e}");
        }
    }

    /// Rows of a query, sorted, or its error's kind.
    pub async fn rows(&mut self, query: &str) -> Result<Vec<String>, String> {
        let result = self.session.execute_one(query).await.map_err(|e| e.kind().as_str().to_string())?;
        let mut rows: Vec<String> = result.batches.iter().flat_map(texts).collect();
        rows.sort();
        Ok(rows)
    }
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("a formatter")).collect();
    (0..batch.num_rows())
        .map(|i| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>().join(" | "))
        .collect()
}

/// A statement of a scenario, and the queries after it.
pub struct Step {
    pub sql: String,
    pub queries: Vec<String>,
}

/// The scenarios whose steps are statements: those that damage files, sync tables or need another engine are left out.
pub fn scenarios() -> Vec<(String, Vec<Step>)> {
    const OTHER: [&str; 3] = ["sync", "damage", "unreadable"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files = Vec::new();
    for group in std::fs::read_dir(root).expect("scenarios").flatten() {
        for f in std::fs::read_dir(group.path()).into_iter().flatten().flatten() {
            files.push(f.path());
        }
    }
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut out = Vec::new();
    for f in files {
        let doc: toml::Table = std::fs::read_to_string(&f).expect("a file").parse().expect("TOML");
        let steps = doc["step"].as_array().expect("steps");
        if steps.iter().any(|s| OTHER.iter().any(|k| s.get(k).is_some())) {
            continue;
        }
        let fill = |text: &str| {
            let text = text.replace("{table}", "ns.t").replace("{name}", "t").replace("{namespace}", "ns");
            text.replace("{catalog}", "ice")
        };
        let text = |v: &toml::Value| v.get("sql").and_then(toml::Value::as_str).map(fill);
        let steps: Vec<Step> = steps
            .iter()
            .filter_map(|s| {
                let queries = s.get("query").and_then(toml::Value::as_array);
                let queries = queries.into_iter().flatten().filter_map(text).collect();
                Some(Step { sql: text(s)?, queries })
            })
            .collect();
        out.push((f.file_stem().unwrap_or_default().to_string_lossy().into_owned(), steps));
    }
    out
}

/// What the steps of a scenario give, and the table's rows: at the end, or after `every` step. A task reads one file, so that small tables have
/// partitions as large ones have.
pub async fn play(w: &mut Warehouse, steps: &[Step], every: bool) -> Vec<(String, Result<Vec<String>, String>)> {
    let mut out = Vec::new();
    let _ = w.session.execute_one("CREATE NAMESPACE IF NOT EXISTS ice.ns").await;
    for (n, step) in steps.iter().enumerate() {
        let mut rows = w.rows(&step.sql).await;
        if step.sql.to_uppercase().starts_with("CALL") {
            // a procedure tells the ids of snapshots, which are each table's own
            rows = rows.map(|_| Vec::new());
        }
        out.push((step.sql.clone(), rows));
        if step.sql.to_uppercase().starts_with("CREATE") {
            let split = "ALTER TABLE ns.t SET TBLPROPERTIES ('read.split.target-size' = '1')";
            let _ = w.session.execute_one(split).await;
        }
        // a new row's id follows from its place in a file, which a join's partitions decide
        let whole = [
            "SELECT *, _last_updated_sequence_number FROM ns.t",
            "SELECT count(*), count(_row_id), count(DISTINCT _row_id) FROM ns.t",
        ];
        let whole = whole.into_iter().filter(|_| every || n + 1 == steps.len());
        for q in whole.map(String::from).chain(step.queries.iter().cloned()) {
            let rows = w.rows(&q).await;
            out.push((q, rows));
        }
    }
    out
}
