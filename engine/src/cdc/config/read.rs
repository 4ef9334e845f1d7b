//! `source:` of a CDC pipeline, and a Managed I/O read.

use std::time::Duration;

use super::{CatalogConfig, Columns, Section, catalog, columns, names_once, table_name};
use crate::cdc::range::End;
use crate::{Error, Result};

/// A Managed I/O read: one table at its current snapshot.
#[derive(Debug, Clone)]
pub struct ReadConfig {
    /// `table`: `namespace.table`.
    pub table: String,
    /// The catalog.
    pub catalog: CatalogConfig,
    /// `filter`: SQL predicate over the table's columns.
    pub filter: Option<String>,
    /// `keep` or `drop`.
    pub columns: Columns,
    /// Keys given that have no effect.
    pub ignored: Vec<&'static str>,
}

/// Where a range of changes starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeStart {
    /// `from_snapshot` (inclusive): id, or name of a branch or tag.
    Snapshot(String),
    /// `start_snapshot_id` (exclusive, as Spark's option): id, or name of a branch or tag.
    AfterSnapshot(String),
    /// `from_timestamp`: snapshots committed at or after these milliseconds since the epoch.
    Timestamp(i64),
    /// Not given: the starting strategy decides.
    Unset,
}

/// Where to start when no start is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// From the oldest snapshot; default of a batch.
    Earliest,
    /// After the current snapshot; default of a stream.
    Latest,
}

/// A CDC read.
#[derive(Debug, Clone)]
pub struct CdcReadConfig {
    /// Table, catalog, filter and columns.
    pub read: ReadConfig,
    /// Branch whose history is read; `main` when not given.
    pub branch: Option<String>,
    /// Start of the range.
    pub start: RangeStart,
    /// `to_snapshot` or `end_snapshot_id` (inclusive): id, or name of a branch or tag.
    pub to_snapshot: Option<String>,
    /// `to_timestamp` (inclusive), milliseconds since the epoch.
    pub to_timestamp: Option<i64>,
    /// `streaming`.
    pub streaming: bool,
    /// `poll_interval_seconds`, at least 1, 60 by default.
    pub poll_interval: Duration,
    /// `starting_strategy`, if given.
    pub strategy: Option<Strategy>,
    /// `include_metadata_columns`.
    pub include_metadata_columns: bool,
    /// `identifier_columns` (floe's): with them, or with row lineage, a delete and an insert of one key become an update.
    pub identifier_columns: Option<Vec<String>>,
    /// `net_changes` (floe's).
    pub net_changes: bool,
}

impl ReadConfig {
    /// Reads and checks a Managed read.
    pub fn from_section(mut s: Section) -> Result<Self> {
        let read = Self::take(&mut s)?;
        s.finish()?;
        Ok(Self { ignored: s.ignored().to_vec(), ..read })
    }

    fn take(s: &mut Section) -> Result<Self> {
        let table = table_name(s, "table")?;
        let catalog = catalog(s)?;
        let filter = s.string("filter")?;
        let columns = columns(s, false)?;
        Ok(Self { table, catalog, filter, columns, ignored: Vec::new() })
    }
}

impl CdcReadConfig {
    /// Reads and checks a CDC read.
    pub fn from_section(mut s: Section) -> Result<Self> {
        const STARTS: [&str; 3] = ["from_snapshot", "start_snapshot_id", "from_timestamp"];
        const ENDS: [&str; 3] = ["to_snapshot", "end_snapshot_id", "to_timestamp"];
        s.at_most_one(&STARTS)?;
        s.at_most_one(&ENDS)?;
        for snapshot in ["from_snapshot", "start_snapshot_id", "to_snapshot", "end_snapshot_id"] {
            for time in ["from_timestamp", "to_timestamp"] {
                if s.has(snapshot) {
                    s.at_most_one(&[snapshot, time])?;
                }
            }
        }
        if STARTS.iter().any(|k| s.has(k)) {
            for k in STARTS.iter().filter(|k| s.has(k)) {
                s.at_most_one(&[k, "starting_strategy"])?;
            }
        }
        let read = ReadConfig::take(&mut s)?;
        let branch = s.string("branch")?;
        let from = s.string("from_snapshot")?;
        let after = s.string("start_snapshot_id")?;
        let from_timestamp = s.integer("from_timestamp", 0)?;
        let start = match (from, after, from_timestamp) {
            (Some(f), ..) => RangeStart::Snapshot(f),
            (_, Some(a), _) => RangeStart::AfterSnapshot(a),
            (.., Some(t)) => RangeStart::Timestamp(t),
            _ => RangeStart::Unset,
        };
        let to_snapshot = s.string("to_snapshot")?.or(s.string("end_snapshot_id")?);
        let to_timestamp = s.integer("to_timestamp", 0)?;
        if let (RangeStart::Timestamp(f), Some(t)) = (&start, to_timestamp)
            && *f > t
        {
            return Err(Error::invalid(format!("`from_timestamp` {f} is after `to_timestamp` {t}")).at(s.place()));
        }
        let streaming = s.boolean("streaming")?.unwrap_or(false);
        let has_poll = s.has("poll_interval_seconds");
        let poll = s.integer("poll_interval_seconds", 1)?.unwrap_or(60);
        if has_poll && !streaming {
            return Err(Error::invalid("`poll_interval_seconds` needs `streaming: true`").at(s.place()));
        }
        let strategy =
            s.choice("starting_strategy", &[("earliest", Strategy::Earliest), ("latest", Strategy::Latest)])?;
        let include_metadata_columns = s.boolean("include_metadata_columns")?.unwrap_or(false);
        let identifier_columns = s.string_list("identifier_columns")?;
        if let Some(names) = &identifier_columns {
            names_once(&s, "identifier_columns", names)?;
        }
        let net_changes = s.boolean("net_changes")?.unwrap_or(false);
        s.finish()?;
        Ok(Self {
            read: ReadConfig { ignored: s.ignored().to_vec(), ..read },
            branch,
            start,
            to_snapshot,
            to_timestamp,
            streaming,
            poll_interval: Duration::from_secs(poll.unsigned_abs()),
            strategy,
            include_metadata_columns,
            identifier_columns,
            net_changes,
        })
    }

    /// End of the range; the branch's head when none is given.
    pub fn end(&self) -> End {
        match (&self.to_snapshot, self.to_timestamp) {
            (Some(s), _) => End::At(s.clone()),
            (None, Some(ms)) => End::AtTime(ms),
            (None, None) => End::Head,
        }
    }

    /// The strategy in force: given, else earliest for a batch and latest for a stream.
    pub fn effective_strategy(&self) -> Strategy {
        self.strategy.unwrap_or(if self.streaming { Strategy::Latest } else { Strategy::Earliest })
    }
}
