//! What the rows of a benchmark table must be: the same statements on a plain vector.

use std::collections::BTreeMap;

use super::data::properties;

/// The rows of a table: how many it had, and what was done to it since. Nothing is kept a row, for the harness's memory is floe's.
#[derive(Debug, Clone)]
pub struct Model {
    rows: u32,
    changes: Vec<Change>,
}

/// A statement of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Deletes the row with this id.
    DeleteOne(u32),
    /// Deletes the rows whose id is this modulo 100.
    Delete(u32),
    /// Adds one to `n` of the rows whose id is this modulo 100.
    Update(u32),
    /// Deletes rows whose id is this modulo 200, and sets `n` to 0 where it is 100 more.
    Merge(u32),
}

impl Change {
    /// What it is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::DeleteOne(_) => "delete one row",
            Self::Delete(_) => "delete 1 %",
            Self::Update(_) => "update 1 %",
            Self::Merge(_) => "merge 1 %",
        }
    }

    /// Spark's text of it for a table of `rows` rows.
    pub fn sql(self, table: &str, rows: u32) -> String {
        match self {
            Self::DeleteOne(id) => format!("DELETE FROM {table} WHERE id = {id}"),
            Self::Delete(k) => format!("DELETE FROM {table} WHERE id % 100 = {k}"),
            Self::Update(k) => format!("UPDATE {table} SET n = n + 1 WHERE id % 100 = {k}"),
            Self::Merge(k) => format!(
                "MERGE INTO {table} t USING (SELECT id * 100 + {k} AS id, id % 2 AS odd FROM range(0, {})) s ON t.id = s.id \
                 WHEN MATCHED AND s.odd = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 0",
                rows.div_ceil(100)
            ),
        }
    }
}

impl Model {
    /// A fresh table.
    pub fn new(rows: u32) -> Self {
        Self { rows, changes: Vec::new() }
    }

    /// Spark's text that makes an empty table whose statements all use `mode`, with further properties.
    pub fn create(table: &str, mode: &str, more: &BTreeMap<String, String>) -> String {
        format!("CREATE TABLE {table} (id BIGINT, city STRING, n BIGINT) USING iceberg {}", properties(mode, more))
    }

    /// Spark's text that fills a fresh table.
    pub fn insert(table: &str, rows: u32) -> String {
        format!(
            "INSERT INTO {table} SELECT id, concat('city ', CAST(id % 100000 AS STRING)), (id * 7919) % 1000003 \
             FROM range(0, {rows}, 1, 4)"
        )
    }

    /// Applies a statement.
    pub fn apply(&mut self, c: Change) {
        self.changes.push(c);
    }

    /// `n` of a row; none when the row is deleted. `city` never changes.
    fn value(&self, id: u32) -> Option<u32> {
        self.changes.iter().try_fold(fresh(id), |n, c| match *c {
            Change::DeleteOne(k) if id == k => None,
            Change::Delete(k) if id % 100 == k => None,
            Change::Update(k) if id % 100 == k => Some(n + 1),
            Change::Merge(k) if id % 200 == k => None,
            Change::Merge(k) if id % 200 == k + 100 => Some(0),
            _ => Some(n),
        })
    }

    /// The answer to [`NARROW`] or [`WIDE`], as texts.
    pub fn answer(&self, wide: bool) -> Vec<String> {
        let live = || (0..self.rows).filter_map(|id| Some((u64::from(id), u64::from(self.value(id)?))));
        let (rows, ids, ns) = live().fold((0u64, 0, 0), |(c, a, b), (id, n)| (c + 1, a + id, b + n));
        if rows == 0 {
            // sums and the greatest of nothing
            return std::iter::once("0")
                .chain(std::iter::repeat_n("null", 2 + usize::from(wide)))
                .map(String::from)
                .collect();
        }
        let mut out = vec![rows.to_string(), ids.to_string(), ns.to_string()];
        if wide {
            let mut there = vec![false; 100_000];
            live().for_each(|(id, _)| there[(id % 100_000) as usize] = true);
            let cities = there.iter().enumerate().filter(|(_, t)| **t).map(|(i, _)| format!("city {i}"));
            out.push(cities.max().unwrap_or_default());
        }
        out
    }
}

/// `n` of a row that nothing has changed.
pub(super) fn fresh(id: u32) -> u32 {
    (u64::from(id) * 7919 % 1_000_003) as u32
}

/// Two columns aggregated.
pub const NARROW: &str = "SELECT count(*) AS c, sum(id) AS a, sum(n) AS b FROM ";
/// All three columns aggregated.
pub const WIDE: &str = "SELECT count(*) AS c, sum(id) AS a, sum(n) AS b, max(city) AS m FROM ";
