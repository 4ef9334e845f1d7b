//! floe on each catalog it knows: `floe doctor`'s steps, then the walk-through of a table with deletion vectors. The kinds that
//! need no server run always; the others when they are asked for by name, from their sections of `floe.toml`.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use floe_engine::catalog::open_catalog;
use floe_engine::{Error, ErrorKind};

use super::result::{CatalogResult, Check, Outcome, fold};
use super::walk::walk;
use crate::doctor::{advice, examine};
use crate::engines::{CatalogRow, catalogs};
use crate::serve::Local;

/// The longest that one catalog may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Fails when a name is of no catalog that floe knows; the error lists the names there are.
pub fn check_names(asked: &[String]) -> Result<(), String> {
    let known: Vec<String> = catalogs().into_iter().map(|c| c.name).collect();
    match asked.iter().find(|a| !known.contains(a)) {
        Some(a) => Err(format!("no catalog {a:?}; there are: {}", known.join(", "))),
        None => Ok(()),
    }
}

/// A row for each catalog, in the order of lists. `folder` is for the tables of those that need no server.
pub async fn run(folder: &Path, asked: &[String]) -> Vec<CatalogResult> {
    let mut out = Vec::new();
    for known in catalogs() {
        let begin = Instant::now();
        let checks = match own(&known.name, folder).await {
            Some(Ok((spec, props, server))) => {
                let checks = put_on(&spec, props).await;
                drop(server);
                checks
            }
            Some(Err(why)) => vec![Check::new(1, "start", Outcome::Errored, why)],
            None if asked.contains(&known.name) => put_on(&known.name, HashMap::new()).await,
            None => vec![Check::new(1, "start", Outcome::Skipped, skipped(&known))],
        };
        out.push(row(&known, checks, begin.elapsed().as_secs_f64()));
    }
    out
}

fn row(known: &CatalogRow, checks: Vec<Check>, seconds: f64) -> CatalogResult {
    let (outcome, reason) = fold(&checks);
    let command = match known.skipped.is_empty() {
        true => "cargo floe conformance --engines floe".into(),
        false => format!("cargo floe conformance --engines floe --catalogs {}", known.name),
    };
    let checks = if outcome == Outcome::Skipped { Vec::new() } else { checks };
    CatalogResult { name: known.name.clone(), title: known.title.clone(), outcome, reason, command, checks, seconds }
}

fn skipped(known: &CatalogRow) -> String {
    match known.tested.is_empty() {
        true => known.skipped.clone(),
        false => format!("{}; run for real by {}", known.skipped, known.tested),
    }
}

type Opened = (String, HashMap<String, String>, Option<Local>);

/// Specification, properties and server of a catalog that needs nothing from elsewhere.
async fn own(name: &str, folder: &Path) -> Option<Result<Opened, String>> {
    let place = folder.join(name);
    let sqlite = format!("sql:sqlite:{}/catalog.db", place.display());
    let warehouse = HashMap::from([("warehouse".to_string(), place.join("warehouse").display().to_string())]);
    if let Err(e) = std::fs::create_dir_all(&place) {
        return Some(Err(format!("cannot make {}: {e}", place.display())));
    }
    match name {
        "hadoop" => Some(Ok((format!("hadoop:{}", place.display()), HashMap::new(), None))),
        "sqlite" => Some(Ok((sqlite, warehouse, None))),
        "rest" => Some(match open_catalog(&sqlite, "served", warehouse).await {
            Ok(catalog) => Local::start(catalog).await.map(|s| (format!("rest:{}", s.uri()), HashMap::new(), Some(s))),
            Err(e) => Err(e.to_string()),
        }),
        _ => None,
    }
}

/// Everything that a catalog must do, as checks; what it made it removes.
pub async fn put_on(spec: &str, props: HashMap<String, String>) -> Vec<Check> {
    match tokio::time::timeout(PATIENCE, all(spec, props)).await {
        Ok(checks) => checks,
        Err(_) => {
            let why = format!("no end within {} s", PATIENCE.as_secs());
            vec![Check::new(1, "answer", Outcome::Errored, why)]
        }
    }
}

async fn all(spec: &str, props: HashMap<String, String>) -> Vec<Check> {
    let mut checks = Vec::new();
    for (i, step) in examine(spec, props.clone(), false).await.into_iter().enumerate() {
        checks.push(match step.outcome {
            Ok(_) => Check::pass(i + 1, step.name),
            Err(e) => failed(i + 1, step.name, &e, advice(step.name, &e)),
        });
    }
    if checks.iter().all(|c| c.outcome == Outcome::Pass) {
        match open_catalog(spec, "lake", props).await {
            Ok(catalog) => walk(catalog, &mut checks).await,
            Err(e) => checks.push(failed(checks.len() + 1, "open", &e, "")),
        }
    }
    checks
}

/// The check of a step that failed, by the kind of its error.
pub(super) fn failed(step: usize, what: &str, e: &Error, advice: &str) -> Check {
    let outcome = match e.kind() {
        ErrorKind::Unsupported | ErrorKind::Denied => Outcome::Refused,
        ErrorKind::Io | ErrorKind::Internal | ErrorKind::CommitUnknown => Outcome::Errored,
        _ => Outcome::Fail,
    };
    let reason = if advice.is_empty() { e.to_string() } else { format!("{e}; {advice}") };
    Check::new(step, what, outcome, reason)
}
