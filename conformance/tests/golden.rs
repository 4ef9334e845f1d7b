//! Replays what Spark and Iceberg Java really did, statement by statement, and compares rows, operations and counts.
//!
//! The rules of what is comparable are those of the golden folder's README: not ids, times, file names or Parquet sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use floe_engine::catalog::open_catalog;
use floe_engine::sql::Session;
use serde_json::Value;

mod golden_steps;

/// Steps that are not replayed, with the reason: (case prefix, text in the SQL, reason).
const NOT_REPLAYED: &[(&str, &str, &str)] = &[
    ("", "compute_table_stats", "Theta sketches are outside the V3 delete path"),
    ("", "compute_partition_stats", "partition statistics files are optional and nobody here reads them"),
    ("format_avro", "", "Avro data files are read by no crate that fits; refused clearly (tested apart)"),
    ("format_orc", "", "ORC data files are read by no crate that fits; refused clearly (tested apart)"),
    ("rest_catalog", "", "a log of REST requests, not of statements"),
    ("types_rejected", "'format-version'='4'", "format version 4 is not finished; Iceberg 1.10.1 alone takes it"),
    ("types_rejected.s35-i1101", "truncate(2, v), id", "Spark refuses it only because the table was V4 by then"),
    (
        "types_all.s41",
        "",
        "its rows are made by Spark 4.1's parse_json; the 3.5 cases replay the same statements without it",
    ),
    ("variant_v3.s41", "", "its rows are made by Spark 4.1's variant functions, which floe's SQL does not have"),
];

/// Statements that floe accepts although Spark refuses them, with the reason.
const ACCEPTED: &[(&str, &str, &str)] = &[
    ("", "DEFAULT 5", "floe has column defaults in ALTER TABLE"),
    ("", "INSERT INTO ns.types_all (id", "missing columns take their default or null in floe"),
    ("", "INSERT INTO ns.defaults_v3 (id, s)", "missing columns take their default in floe"),
    ("types_all", "tsns", "floe reads nanosecond timestamps"),
    ("types_all", "SELECT id FROM ns.types_all", "floe reads tables with nanosecond timestamps"),
    ("changelog_v3_mor", "SELECT * FROM ch_", "floe reads the changes of merge-on-read tables"),
    ("changelog_v3_mor", ".changes", "floe reads the changes of merge-on-read tables"),
    ("types_rejected", "TIMESTAMP_NS", "a V3 type (TYPE-*) that Spark's parser lacks"),
    ("types_rejected", "VARIANT", "a V3 type (TYPE-*) that Spark 3.5 lacks"),
    ("variant_v3.s35", "VARIANT", "a V3 type (TYPE-*) that Spark 3.5 lacks"),
    ("types_rejected", "VOID", "the V3 type unknown"),
    ("types_rejected", "GEOMETRY", "a V3 type that Spark lacks"),
    ("types_rejected", "GEOGRAPHY", "a V3 type that Spark lacks"),
    ("types_rejected", "TIME)", "an Iceberg type that Spark lacks"),
    ("types_rejected", "UUID", "an Iceberg type that Spark's DDL lacks"),
    ("types_rejected", "FIXED(4)", "an Iceberg type that Spark's DDL lacks"),
    ("types_rejected", "DEFAULT 7", "column defaults are part of V3"),
];

/// Steps from which on rows lie in another order than in Spark's files, so their ids differ while all counts agree: (case
/// prefix, first step, reason).
const OTHER_LAYOUT: &[(&str, usize, &str)] = &[
    ("walk_v3_cow", 11, "a large copy-on-write MERGE is split by Spark's hash of the join key"),
    ("partitioned_v3", 1, "which partition's file comes first in a commit is the order of Spark's shuffle tasks"),
    ("lineage_v3_mor", 9, "INSERT OVERWRITE reads files in the order of Spark's tasks"),
    ("lineage_v3_cow", 9, "INSERT OVERWRITE reads files in the order of Spark's tasks"),
];

const VOLATILE: &[&str] = &[
    "spark.app.id",
    "app-id",
    "app-name",
    "engine-name",
    "engine-version",
    "iceberg-version",
    "manifests-created",
    "manifests-kept",
    "manifests-replaced",
    "total-files-size",
];

fn golden_folder() -> PathBuf {
    if let Ok(dir) = std::env::var("FLOE_SHARED") {
        return Path::new(&dir).join("golden");
    }
    let mut at = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    loop {
        let candidate = at.join("shared/golden");
        if candidate.is_dir() {
            return candidate;
        }
        assert!(at.pop(), "no folder shared/golden beside the checkout; set FLOE_SHARED to the folder that holds it");
    }
}

fn listed<'a>(list: &'a [(&str, &str, &str)], case: &str, sql: &str) -> Option<&'a str> {
    list.iter().find(|(c, text, _)| case.starts_with(c) && sql.contains(text)).map(|(.., reason)| *reason)
}

/// Summary of a snapshot as far as it is comparable. Sizes count only when no Parquet file is in them.
fn comparable(summary: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let has = |k: &str| summary.contains_key(k);
    let mut out: BTreeMap<_, _> = summary
        .iter()
        .filter(|(k, _)| !VOLATILE.contains(&k.as_str()) && !k.starts_with("spark."))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if has("added-data-files") || has("added-position-delete-files") || has("added-equality-delete-files") {
        out.remove("added-files-size");
    }
    if has("deleted-data-files") || has("removed-position-delete-files") || has("removed-equality-delete-files") {
        out.remove("removed-files-size");
    }
    out
}

fn cells(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("\u{0}");
    let mut out = Vec::new();
    for b in batches {
        let f: Vec<_> = b.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        for r in 0..b.num_rows() {
            out.push(f.iter().map(|f| f.value(r).to_string()).collect());
        }
    }
    out
}

struct Replay {
    case: String,
    session: Session,
    table: Option<String>,
    problems: Vec<String>,
    seen: Vec<i64>,
}

impl Replay {
    fn problem(&mut self, n: usize, sql: &str, what: String) {
        let sql: String = sql.chars().take(160).collect();
        self.problems.push(format!("{} step {n} `{sql}`\n    {what}", self.case));
    }

    async fn table(&self) -> Option<floe_engine::Table> {
        let name = self.table.as_ref()?;
        let parts: Vec<String> = name.split('.').map(str::to_string).collect();
        self.session.table(&parts).await.ok()
    }

    async fn step(&mut self, n: usize, step: &Value) {
        let sql = step["sql"].as_str().unwrap_or_default().to_string();
        // an INSERT that Spark refused would leave rows that the later steps do not have
        let refused_insert = step["ok"] == false && sql.starts_with("INSERT");
        if listed(NOT_REPLAYED, &self.case, &sql).is_some()
            || refused_insert && listed(ACCEPTED, &self.case, &sql).is_some()
        {
            return;
        }
        if self.table.is_none()
            && let Some(rest) = sql.strip_prefix("CREATE TABLE ")
        {
            self.table = rest.split([' ', '(']).next().map(str::to_string);
        }
        if self.case.starts_with("partitioned") {
            let dynamic = if sql.starts_with("INSERT OVERWRITE") { "dynamic" } else { "static" };
            let _ =
                self.session.execute_one(&format!("SET spark.sql.sources.partitionOverwriteMode = {dynamic}")).await;
        }
        let sql = golden_steps::fit(&sql, self.table().await.as_ref(), &self.seen);
        let result = if sql.starts_with("-- Iceberg API") {
            golden_steps::api(&sql, self.table().await).await
        } else {
            self.session.execute_one(&sql).await.map(|_| ())
        };
        match (&result, step["ok"].as_bool().unwrap_or(false)) {
            (Ok(()), true) => {}
            (Err(_), false) => return,
            (Ok(()), false) => {
                if listed(ACCEPTED, &self.case, &sql).is_none() {
                    self.problem(n, &sql, format!("accepted, but Spark refuses it: {}", step["error"]));
                }
                return;
            }
            (Err(e), true) => {
                let e = e.to_string();
                self.problem(n, &sql, format!("failed: {e}"));
                return;
            }
        }
        self.compare(n, &sql, step).await;
    }

    async fn compare(&mut self, n: usize, sql: &str, step: &Value) {
        let Some(table) = self.table().await else { return };
        let mut new: Vec<_> =
            table.metadata().snapshots().filter(|s| !self.seen.contains(&s.snapshot_id())).cloned().collect();
        new.sort_by_key(|s| s.sequence_number());
        self.seen.extend(new.iter().map(|s| s.snapshot_id()));
        let expected = step["snapshots_new"].as_array().cloned().unwrap_or_default();
        if new.len() != expected.len() {
            let ops: Vec<_> = new.iter().map(|s| s.summary().operation.as_str().to_string()).collect();
            self.problem(n, sql, format!("{} new snapshots {ops:?}, expected {}", new.len(), expected.len()));
        }
        for (got, want) in new.iter().zip(&expected) {
            let mut summary: BTreeMap<String, String> =
                got.summary().additional_properties.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            summary.insert("operation".into(), got.summary().operation.as_str().into());
            let want_summary: BTreeMap<String, String> = want["summary"]
                .as_object()
                .map(|m| m.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_string())).collect())
                .unwrap_or_default();
            let (a, b) = (comparable(&summary), comparable(&want_summary));
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).cloned().collect();
            let diff: Vec<String> = keys
                .into_iter()
                .filter(|k| a.get(k) != b.get(k))
                .map(|k| format!("{k}: got {:?}, want {:?}", a.get(&k), b.get(&k)))
                .collect();
            if !diff.is_empty() {
                self.problem(n, sql, format!("summary: {}", diff.join("; ")));
            }
            let want_first = want["first-row-id"].as_u64();
            let want_added = want["added-rows"].as_u64();
            if (got.first_row_id(), got.added_rows_count()) != (want_first, want_added) {
                self.problem(
                    n,
                    sql,
                    format!(
                        "first-row-id/added-rows: got {:?}/{:?}, want {want_first:?}/{want_added:?}",
                        got.first_row_id(),
                        got.added_rows_count()
                    ),
                );
            }
        }
        self.compare_rows(n, sql, &step["rows"]).await;
    }

    async fn compare_rows(&mut self, n: usize, sql: &str, rows: &Value) {
        let (Some(name), Some(count)) = (self.table.clone(), rows["count"].as_i64()) else { return };
        let checksum = rows["checksum_sql"].as_str().unwrap_or("NULL").replace("\\\\\\\\N", "\\\\N");
        let query = format!("SELECT count(*), {checksum} FROM {name}");
        match self.session.execute_one(&query).await {
            Err(e) => self.problem(n, sql, format!("`{query}` failed: {e}")),
            Ok(r) => {
                let got = cells(&r.batches).concat();
                let want = vec![count.to_string(), rows["checksum"].as_i64().map_or("\u{0}".into(), |c| c.to_string())];
                if got != want {
                    self.problem(n, sql, format!("rows: got {got:?}, want {want:?}"));
                }
            }
        }
        if OTHER_LAYOUT.iter().any(|(c, from, _)| self.case.starts_with(c) && n >= *from) {
            return;
        }
        if let Some(sums) = rows["lineage_sum"].as_array() {
            let query = format!("SELECT sum(_row_id), sum(_last_updated_sequence_number) FROM {name}");
            match self.session.execute_one(&query).await {
                Err(e) => self.problem(n, sql, format!("lineage failed: {e}")),
                Ok(r) => {
                    let got = cells(&r.batches).concat();
                    let want: Vec<_> =
                        sums.iter().map(|v| v.as_i64().map_or("\u{0}".to_string(), |v| v.to_string())).collect();
                    if got != want {
                        self.problem(n, sql, format!("lineage sums: got {got:?}, want {want:?}"));
                    }
                }
            }
        }
        let Some(list) = rows["rows"].as_array().filter(|l| !l.is_empty() && l[0].get("_row_id").is_some()) else {
            return;
        };
        let Some(key) = list[0].as_object().and_then(|o| o.keys().next().cloned()) else { return };
        let query = format!("SELECT {key}, _row_id, _last_updated_sequence_number FROM {name}");
        match self.session.execute_one(&query).await {
            Err(e) => self.problem(n, sql, format!("lineage of rows failed: {e}")),
            Ok(r) => {
                let text = |v: &Value| match v {
                    Value::Null => "\u{0}".to_string(),
                    Value::String(s) => s.clone(),
                    v => v.to_string(),
                };
                let mut got = cells(&r.batches);
                let mut want: Vec<Vec<String>> = list
                    .iter()
                    .map(|r| vec![text(&r[&key]), text(&r["_row_id"]), text(&r["_last_updated_sequence_number"])])
                    .collect();
                got.sort();
                want.sort();
                if got != want {
                    let extra: Vec<_> = got.iter().filter(|g| !want.contains(g)).take(5).collect();
                    let missing: Vec<_> = want.iter().filter(|w| !got.contains(w)).take(5).collect();
                    self.problem(n, sql, format!("lineage of rows: got but not wanted {extra:?}; missing {missing:?}"));
                }
            }
        }
    }
}

async fn replay(file: &Path) -> Vec<String> {
    let doc: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let spec = format!("hadoop:{}", dir.path().display());
    let catalog = open_catalog(&spec, "ice", Default::default()).await.unwrap();
    let mut session = Session::new(Arc::clone(&catalog), "ice");
    session.execute("CREATE NAMESPACE IF NOT EXISTS ns").await.unwrap();
    let mut r = Replay {
        case: file.file_stem().unwrap().to_string_lossy().into_owned(),
        session,
        table: None,
        problems: Vec::new(),
        seen: Vec::new(),
    };
    for (n, step) in doc["steps"].as_array().unwrap().iter().enumerate() {
        r.step(n, step).await;
    }
    // whatever the history: its changes lead from each snapshot's rows to the next one's
    if let Some(t) = r.table().await
        && let Err(m) = floe_engine::cdc::law::check(&t).await
    {
        r.problem(0, "the whole history", m);
    }
    r.problems
}

async fn replay_family(prefix: &str) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(golden_folder())
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|f| f.extension().is_some_and(|e| e == "json"))
        .filter(|f| f.file_name().unwrap().to_string_lossy().starts_with(prefix))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no golden case starts with {prefix}");
    let mut problems = Vec::new();
    for f in &files {
        problems.extend(replay(f).await);
    }
    assert!(problems.is_empty(), "{} differences:\n{}", problems.len(), problems.join("\n"));
}

macro_rules! families {
    ($($name:ident: $prefix:literal,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            replay_family($prefix).await;
        })*

        /// Every golden case belongs to a family, so none is forgotten.
        #[test]
        fn every_case_is_replayed() {
            let prefixes = [$($prefix),*];
            for f in std::fs::read_dir(golden_folder()).unwrap() {
                let name = f.unwrap().file_name().to_string_lossy().into_owned();
                if name.ends_with(".json") {
                    assert!(prefixes.iter().any(|p| name.starts_with(p)), "{name} is not replayed");
                }
            }
        }
    };
}

families! {
    bitmaps: "bitmaps_v3",
    changelog: "changelog_",
    defaults: "defaults_v3",
    equality_deletes: "eqdelete_v3",
    fold: "fold_v2_v3",
    formats: "format_",
    lineage: "lineage_v3",
    maintenance: "maintenance_v2",
    partitioned_v2: "partitioned_v2",
    partitioned_v3: "partitioned_v3",
    rest: "rest_catalog",
    types_all: "types_all",
    types_rejected: "types_rejected",
    upgrade: "upgrade_rewrite_only",
    variant: "variant_v3",
    walk_v2: "walk_v2",
    walk_v3: "walk_v3",
    whole_file: "whole_file",
}
