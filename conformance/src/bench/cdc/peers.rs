//! How each engine reads the changes of a table and brings a copy into step.

use super::super::run::{CATALOG, NAMESPACE};

/// What an engine has for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A changelog view, and floe's own sync.
    Floe,
    /// A changelog view of copy-on-write tables, and MERGE of it.
    View,
    /// A join of the whole table before and after; it keeps no copy.
    Diff,
}

impl Way {
    /// The way of an engine, by registry name.
    pub fn of(engine: &str) -> Option<Self> {
        match engine {
            "floe" => Some(Self::Floe),
            "duckdb" => Some(Self::Diff),
            e if e.starts_with("spark") => Some(Self::View),
            _ => None,
        }
    }

    /// Whether it can read the changes of a table of this mode: Spark's view stops at delete files (CDC-6).
    pub fn reads(self, mode: &str) -> bool {
        self != Self::View || mode == "copy-on-write"
    }

    /// Settings for large tables, before anything is timed.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            // the driver's 2 partitions are for small tables: sorts would spill
            Self::View => &["SET spark.sql.shuffle.partitions = 16"],
            Self::Floe | Self::Diff => &[],
        }
    }
}

/// The statement that makes the view `changed` of the changes between two snapshots.
pub fn view(table: &str, from: i64, to: i64) -> String {
    format!(
        "CALL {CATALOG}.system.create_changelog_view(table => '{NAMESPACE}.{table}', changelog_view => 'changed', \
         options => map('start-snapshot-id', '{from}', 'end-snapshot-id', '{to}'), identifier_columns => array('id'))"
    )
}

/// Spark's way to apply the view's rows to a copy.
pub fn merge(target: &str) -> String {
    format!(
        "MERGE INTO {CATALOG}.{NAMESPACE}.{target} t USING (SELECT id, city, n, _change_type FROM changed \
         WHERE _change_type <> 'UPDATE_BEFORE') s ON t.id = s.id \
         WHEN MATCHED AND s._change_type = 'DELETE' THEN DELETE \
         WHEN MATCHED THEN UPDATE SET t.city = s.city, t.n = s.n \
         WHEN NOT MATCHED AND s._change_type <> 'DELETE' THEN INSERT (id, city, n) VALUES (s.id, s.city, s.n)"
    )
}

/// DuckDB's question to two states of a table, by metadata file.
pub fn diff(before: &str, after: &str) -> String {
    let quoted = |p: &str| p.replace('\'', "''");
    format!(
        "SELECT count(*) AS c, sum(coalesce(a.id, b.id)) AS i, sum(b.n) AS x, sum(a.n) AS y \
         FROM iceberg_scan('{}') b FULL JOIN iceberg_scan('{}') a ON a.id = b.id \
         WHERE a.id IS NULL OR b.id IS NULL OR a.n IS DISTINCT FROM b.n OR a.city IS DISTINCT FROM b.city",
        quoted(before),
        quoted(after)
    )
}
