//! The driver protocol: one JSON object a line, a reply for each request, in order. `conformance/schemas/protocol.schema.json`
//! describes it for engine authors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::Rows;

/// Version of this protocol; a driver with another one is refused.
pub const PROTOCOL: u32 = 1;

/// A table as readers are told of it: table engines use the names, path engines the metadata file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRef {
    /// Namespace in the shared catalog.
    pub namespace: String,
    /// Name in the namespace.
    pub name: String,
    /// Folder of the table.
    pub location: String,
    /// Metadata file of the state to read.
    pub metadata: String,
    /// Snapshot to read; none for the newest state.
    #[serde(default)]
    pub snapshot: Option<i64>,
}

/// A request without its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
pub enum Request {
    /// First message: start the engine on this warehouse.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Warehouse folder of the shared Hadoop-layout catalog.
        warehouse: String,
        /// Name under which statements know that catalog.
        catalog: String,
        /// Folder for the engine's own files.
        scratch: String,
        /// URI of a REST catalog to use instead of the warehouse folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest: Option<String>,
    },
    /// Run a statement.
    Apply {
        /// Spark's text.
        sql: String,
        /// The table it is about.
        table: TableRef,
    },
    /// Read a whole table.
    Scan {
        /// Table and state.
        table: TableRef,
        /// Rows are sent back when there are at most this many.
        limit: usize,
    },
    /// Ask a question in SQL.
    Query {
        /// Spark's text.
        sql: String,
        /// The table it is about.
        table: TableRef,
        /// Rows are sent back when there are at most this many.
        limit: usize,
    },
    /// Read the changes after `from` (exclusive) up to `to`.
    Changes {
        /// The table.
        table: TableRef,
        /// Snapshot before the first change; none for the start of history.
        from: Option<i64>,
        /// Last snapshot.
        to: Option<i64>,
        /// Rows are sent back when there are at most this many.
        limit: usize,
    },
    /// Do a piece of work some times and say how long it took. A driver need not know it.
    Measure {
        /// What is done.
        #[serde(flatten)]
        work: Work,
        /// How often, one after the other.
        calls: u32,
    },
    /// End.
    Stop {},
}

/// Work that an engine times by itself, around its own calls, so that the way of the messages is no part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum Work {
    /// Decode a `deletion-vector-v1` blob that lies in memory.
    Decode {
        /// File that holds the blob and nothing else.
        blob: String,
        /// How many positions the blob has, as metadata would say.
        positions: u64,
    },
    /// Plan a scan of all rows of a loaded table's newest state, to its last data file.
    Plan {
        /// The table.
        table: TableRef,
    },
}

/// What came of a [`Request::Measure`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds of all calls together.
    pub seconds: f64,
    /// Positions of the vector, or data files of the plan.
    pub count: u64,
    /// Sum of the positions, or deletion vectors in the plan.
    pub check: u64,
    /// Peak memory of the engine's process in the calls, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<f64>,
}

/// What an engine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Product name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// Version of the Iceberg library inside, if it is one.
    #[serde(default)]
    pub iceberg: String,
    /// `write`, `read`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Catalogs it can use: `hadoop`, `rest`, `path` (a metadata file).
    #[serde(default)]
    pub catalogs: Vec<String>,
    /// Of [`crate::scenario::CAPABILITIES`].
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Whether `query` takes SQL.
    #[serde(default)]
    pub sql: bool,
}

impl Hello {
    /// Whether the engine takes a role: `write`, `read`.
    pub fn plays(&self, role: &str) -> bool {
        self.roles.iter().any(|r| r == role)
    }

    /// Whether it declares a capability.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|c| c == capability)
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T> {
    /// Done.
    Ok(T),
    /// The engine said no.
    Refused(String),
    /// The driver has no way to ask.
    Skipped(String),
    /// It failed, died or hung; the text holds the tail of its log where that helps.
    Error(String),
}

impl<T> Answer<T> {
    /// Changes what was answered; a change that fails makes an error.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Result<U, String>) -> Answer<U> {
        match self {
            Self::Ok(v) => f(v).map_or_else(Answer::Error, Answer::Ok),
            Self::Refused(m) => Answer::Refused(m),
            Self::Skipped(m) => Answer::Skipped(m),
            Self::Error(m) => Answer::Error(m),
        }
    }
}

/// A reply line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The request's number.
    pub id: u64,
    ok: Option<Value>,
    refused: Option<Message>,
    skipped: Option<Reason>,
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Message {
    message: String,
}

#[derive(Debug, Deserialize)]
struct Reason {
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Failure {
    message: String,
    #[serde(default)]
    class: String,
}

impl Reply {
    /// The outcome; a reply with none or several of ok, refused, skipped and error breaks the protocol.
    pub fn answer(self) -> Answer<Value> {
        match (self.ok, self.refused, self.skipped, self.error) {
            (Some(v), None, None, None) => Answer::Ok(v),
            (None, Some(m), None, None) => Answer::Refused(m.message),
            (None, None, Some(r), None) => Answer::Skipped(r.reason),
            (None, None, None, Some(f)) if f.class.is_empty() => Answer::Error(f.message),
            (None, None, None, Some(f)) => Answer::Error(format!("{}: {}", f.class, f.message)),
            _ => Answer::Error(
                "driver broke the protocol: a reply has exactly one of ok, refused, skipped, error".into(),
            ),
        }
    }
}

/// Rows out of a reply; their digest is checked against the rows when those came along, so a driver cannot fool itself.
pub fn rows(v: Value) -> Result<Rows, String> {
    let r: Rows = serde_json::from_value(v).map_err(|e| format!("driver broke the protocol: {e}"))?;
    if let Some(rows) = &r.rows {
        let own = crate::value::digest(rows);
        if rows.len() as u64 != r.count || own != r.digest {
            return Err(format!(
                "driver broke the protocol: {} rows of digest {own} came with count {} and digest {}",
                rows.len(),
                r.count,
                r.digest
            ));
        }
    }
    Ok(r)
}
