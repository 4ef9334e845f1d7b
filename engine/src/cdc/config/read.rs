//! `source:` of a CDC pipeline, and a Managed I/O read.

use std::time::Duration;

use super::{CatalogConfig, Columns, Section, catalog, columns, names_once, table_name};
use crate::cdc::range::{End, Start};
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
    /// `starting_strategy: earliest`, the default of a batch: with the oldest snapshot.
    Earliest,
    /// `starting_strategy: latest`, the default of a stream: after the snapshot that is current when the read starts.
    Latest,
    /// `from_snapshot` (inclusive): id, or name of a branch or tag.
    Snapshot(String),
    /// `start_snapshot_id` (exclusive, as Spark's option): id, or name of a branch or tag.
    AfterSnapshot(String),
    /// `from_timestamp`: snapshots committed at or after these milliseconds since the epoch.
    Timestamp(i64),
}

/// Values of `starting_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Earliest,
    Latest,
    Snapshot,
    Timestamp,
}

impl Strategy {
    const NAMES: [(&str, Self); 4] = [
        ("earliest", Self::Earliest),
        ("latest", Self::Latest),
        ("snapshot", Self::Snapshot),
        ("timestamp", Self::Timestamp),
    ];

    /// The keys that say where it starts.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Earliest | Self::Latest => &[],
            Self::Snapshot => &["from_snapshot", "start_snapshot_id"],
            Self::Timestamp => &["from_timestamp"],
        }
    }
}

impl RangeStart {
    const KEYS: [&str; 3] = ["from_snapshot", "start_snapshot_id", "from_timestamp"];

    /// Takes the keys of a start; at most one of [`Self::KEYS`] is there.
    fn take(s: &mut Section, streaming: bool) -> Result<Self> {
        let given = Self::KEYS.into_iter().find(|k| s.has(k));
        let from = s.string("from_snapshot")?.map(Self::Snapshot);
        let after = s.string("start_snapshot_id")?.map(Self::AfterSnapshot);
        let time = s.integer("from_timestamp", 0)?.map(Self::Timestamp);
        let start = from.or(after).or(time);
        let Some(strategy) = s.choice("starting_strategy", &Strategy::NAMES)? else {
            return Ok(start.unwrap_or(if streaming { Self::Latest } else { Self::Earliest }));
        };
        let name = Strategy::NAMES.iter().find(|n| n.1 == strategy).map_or("", |n| n.0);
        let needs = || strategy.keys().iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
        match (start, given, strategy) {
            (None, _, Strategy::Earliest) => Ok(Self::Earliest),
            (None, _, Strategy::Latest) => Ok(Self::Latest),
            (Some(start), Some(key), _) if strategy.keys().contains(&key) => Ok(start),
            (Some(_), Some(key), Strategy::Earliest | Strategy::Latest) => Err(Error::invalid(format!(
                "keys `{key}` and `starting_strategy: {name}` exclude each other; at most one of them is allowed"
            ))
            .at(s.place())),
            (_, found, _) => Err(Error::invalid(format!(
                "`starting_strategy: {name}` needs a start, found {}; allowed: {}",
                found.map_or_else(|| "none".into(), |k| format!("`{k}`")),
                needs()
            ))
            .at(s.place())),
        }
    }

    /// The start in a table's history; none for [`Self::Latest`], which depends on when the read starts.
    pub(in crate::cdc) fn fixed(&self) -> Option<Start> {
        Some(match self {
            Self::Earliest => Start::Beginning,
            Self::Latest => return None,
            Self::Snapshot(s) => Start::At(s.clone()),
            Self::AfterSnapshot(s) => Start::After(s.clone()),
            Self::Timestamp(ms) => Start::AtTime(*ms),
        })
    }
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
        const ENDS: [&str; 3] = ["to_snapshot", "end_snapshot_id", "to_timestamp"];
        s.at_most_one(&RangeStart::KEYS)?;
        s.at_most_one(&ENDS)?;
        for snapshot in ["from_snapshot", "start_snapshot_id", "to_snapshot", "end_snapshot_id"] {
            for time in ["from_timestamp", "to_timestamp"] {
                if s.has(snapshot) {
                    s.at_most_one(&[snapshot, time])?;
                }
            }
        }
        let read = ReadConfig::take(&mut s)?;
        let branch = s.string("branch")?;
        let streaming = s.boolean("streaming")?.unwrap_or(false);
        let start = RangeStart::take(&mut s, streaming)?;
        let to_snapshot = s.string("to_snapshot")?.or(s.string("end_snapshot_id")?);
        let to_timestamp = s.integer("to_timestamp", 0)?;
        if let (RangeStart::Timestamp(f), Some(t)) = (&start, to_timestamp)
            && *f > t
        {
            return Err(Error::invalid(format!("`from_timestamp` {f} is after `to_timestamp` {t}")).at(s.place()));
        }
        let has_poll = s.has("poll_interval_seconds");
        let poll = s.integer("poll_interval_seconds", 1)?.unwrap_or(60);
        if has_poll && !streaming {
            return Err(Error::invalid("`poll_interval_seconds` needs `streaming: true`").at(s.place()));
        }
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
}
