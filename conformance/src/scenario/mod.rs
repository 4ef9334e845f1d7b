//! Scenarios: cases as data. A file says what is done in Spark's SQL text and what must then be true of the table, by
//! clause; which engine does it, and which engine reads it, is not its business.

mod check;
pub mod generated;
mod keys;
mod load;
mod model;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use keys::Keys;
pub use load::{ScenarioError, find_root, load_all, load_file, matches, parse};
pub use model::{Expected, expected_states};
pub(crate) use model::{encode_row, encode_untyped, parse_columns};

/// What an engine may or may not be able to do; scenarios name what they need, engines declare what they have.
pub const CAPABILITIES: &[(&str, &str)] = &[
    ("v2", "reads and writes format version 2"),
    ("v3", "reads and writes format version 3"),
    ("read-dv", "applies deletion vectors on read"),
    ("write-dv", "writes deletion vectors"),
    ("position-deletes", "applies position delete files"),
    ("equality-deletes", "applies equality delete files"),
    ("upsert", "writes equality deletes by CALL system.upsert"),
    ("row-level", "DELETE and UPDATE by row"),
    ("merge", "MERGE INTO"),
    ("upgrade", "upgrades a table from version 2 to 3"),
    ("lineage", "row ids and last-updated sequence numbers"),
    ("time-travel", "reads a table at a snapshot"),
    ("schema-evolution", "adds, drops, renames and widens columns"),
    ("partition-evolution", "changes a table's partition spec"),
    ("metadata-tables", "snapshots, files and the other metadata tables"),
    ("procedures", "system procedures for maintenance"),
    ("branches", "branches and tags"),
    ("changelog", "reads the changes between two snapshots"),
    ("defaults", "column default values"),
    ("nanoseconds", "timestamp_ns and timestamptz_ns"),
    ("variant", "the variant type"),
    ("geo", "geometry and geography"),
    ("unknown", "the unknown type"),
    ("avro", "Avro data files"),
    ("orc", "ORC data files"),
    (SPARK_FACTS, "makes the snapshots, files and counters that Spark makes"),
];

/// Of a writer that commits like Spark. The format leaves free how many snapshots and files a statement makes, so the facts
/// that scenarios state of them are held against such writers only; everyone's bytes are judged by the auditor.
pub const SPARK_FACTS: &str = "spark-facts";

/// The folders a scenario may lie in.
pub const AREAS: &[&str] = &[
    "dv",
    "row-level",
    "upgrade",
    "lineage",
    "equality",
    "partition",
    "types",
    "time-travel",
    "maintenance",
    "summaries",
    "concurrency",
    "cdc",
    "negative",
];

/// One case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// `area/slug`, from the file's place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What must hold, as a sentence.
    pub title: String,
    /// Why it matters, for a reader of the report.
    #[serde(default)]
    pub description: String,
    /// Clause ids this case is about.
    pub clauses: Vec<String>,
    /// Public bug report or document the case comes from.
    #[serde(default)]
    pub origin: String,
    /// What a writer and a reader need ([`CAPABILITIES`]).
    pub features: Vec<String>,
    /// Columns of the table: `name type` with an Iceberg type.
    pub columns: Vec<String>,
    /// Steps, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// One statement and what must be true after it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Step {
    /// What this step is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Statement in Spark's text; `{table}`, `{name}`, `{namespace}` and `{catalog}` stand for what the run chose.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sql: String,
    /// Bytes the harness changes instead of a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
    /// Who runs the statement: the writer, or the reader where it can write (a second engine on the same table).
    #[serde(skip_serializing_if = "is_writer")]
    pub by: By,
    /// What the statement does to the rows, in the terms of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<Op>,
    /// All rows after the step, instead of a model operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Vec<toml::Value>>>,
    /// Columns from this step on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// What the newest snapshot must say; the step must have made exactly one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotFacts>,
    /// The step must not have made a snapshot.
    #[serde(skip_serializing_if = "is_false")]
    pub no_snapshot: bool,
    /// New files under the table's folder by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FileFacts>,
    /// What the table metadata must say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableFacts>,
    /// The statement must be refused and the table left as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// Readers must refuse the table in this state; any rows are a wrong answer.
    #[serde(skip_serializing_if = "is_false")]
    pub unreadable: bool,
    /// Row changes that readers must find between two snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// floe brings a copy of the table up to date after the step; every reader reads the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncStep>,
    /// Questions for readers with SQL.
    #[serde(rename = "query", skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<Query>,
}

fn is_false(v: &bool) -> bool {
    !v
}

fn is_writer(v: &By) -> bool {
    *v == By::Writer
}

/// Who runs a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The engine that owns the table.
    #[default]
    Writer,
    /// The other engine of the pair.
    Reader,
}

/// One operation of the model; exactly one of its kinds is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Op {
    /// Rows to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insert: Option<Vec<Vec<toml::Value>>>,
    /// Keys to add rows for; `row` is their pattern, `"$"` the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<Keys>,
    /// Pattern of `fill`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<Vec<toml::Value>>,
    /// Keys (values of the first column) whose rows go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Keys>,
    /// Keys whose rows change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Keys>,
    /// New values of `update` by column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<BTreeMap<String, toml::Value>>,
    /// Every row goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear: Option<bool>,
    /// Columns that get another name: old to new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rename: Option<BTreeMap<String, String>>,
}

/// Facts of a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SnapshotFacts {
    /// `append`, `overwrite`, `delete` or `replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Summary keys and values. With `exact`, every change counter that is not listed must be absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub summary: BTreeMap<String, u64>,
    /// Whether `summary` is complete for the change counters; `false` leaves room for other file counts.
    #[serde(skip_serializing_if = "is_true")]
    pub exact: bool,
    /// The snapshot's `first-row-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_row_id: Option<u64>,
    /// The snapshot's `added-rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_rows: Option<u64>,
}

impl Default for SnapshotFacts {
    fn default() -> Self {
        Self { operation: None, summary: BTreeMap::new(), exact: true, first_row_id: None, added_rows: None }
    }
}

fn is_true(v: &bool) -> bool {
    *v
}

/// Files that appeared with a step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileFacts {
    /// New `.puffin` files below the data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub puffin: Option<u64>,
    /// New Parquet files below the data folder, data and deletes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parquet: Option<u64>,
}

/// Facts of the table metadata.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TableFacts {
    /// `format-version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_version: Option<u64>,
    /// `next-row-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_row_id: Option<u64>,
    /// Number of snapshots listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u64>,
}

/// An expected refusal.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Refusal {
    /// One of these must be in the message, whatever the case of letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
}

/// Changes from one state to the current one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// Step (from 1) whose snapshot comes before the first change; from the start of history when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// Each change: its type (`INSERT`, `DELETE`), then the table's columns.
    pub rows: Vec<Vec<toml::Value>>,
}

/// How floe keeps the copy `{name}_copy` in step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SyncStep {
    /// `merge-on-read` or `copy-on-write`.
    pub mode: String,
    /// Key columns.
    pub equality_columns: Vec<String>,
    /// Partition fields of the copy, as `target.partition_fields` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_fields: Vec<String>,
    /// Keys of `sync:`, such as `schema_evolution`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// A question and its answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Query {
    /// Text in Spark's SQL.
    pub sql: String,
    /// Expected columns: `name type`; types are not compared when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Expected rows.
    pub rows: Vec<Vec<toml::Value>>,
    /// Rows must come in this order.
    #[serde(skip_serializing_if = "is_false")]
    pub ordered: bool,
    /// Capabilities this question needs beyond the scenario's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// Damage done to one file of the table by the harness.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Damage {
    /// The newest file with this ending: `puffin`, `parquet`, `avro`.
    pub newest: String,
    /// Offset of the byte to change; negative from the end.
    #[serde(default)]
    pub at: i64,
    /// Value to combine with the byte by exclusive or.
    #[serde(default)]
    pub xor: u8,
    /// Cut the file to this many bytes instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u64>,
    /// Remove the file instead.
    #[serde(default, skip_serializing_if = "is_false")]
    pub remove: bool,
}

#[cfg(test)]
mod tests;
