//! What the rows of a source and its changes must be: the updates it had, counted out for every row.

use super::super::model::fresh;

/// An UPDATE of the source that adds one to `n` of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Rows whose id is `at` modulo `step`.
    Scattered {
        /// One row in so many.
        step: u32,
        /// Remainder.
        at: u32,
    },
    /// Rows `from..to`, which are neighbours.
    Neighbours {
        /// First id.
        from: u32,
        /// Id after the last one.
        to: u32,
    },
}

impl Update {
    fn hits(self, id: u32) -> bool {
        match self {
            Self::Scattered { step, at } => id % step == at,
            Self::Neighbours { from, to } => (from..to).contains(&id),
        }
    }

    /// Spark's text of it.
    pub fn sql(self, table: &str) -> String {
        let filter = match self {
            Self::Scattered { step, at } => format!("id % {step} = {at}"),
            Self::Neighbours { from, to } => format!("id >= {from} AND id < {to}"),
        };
        format!("UPDATE {table} SET n = n + 1 WHERE {filter}")
    }
}

/// A source table: its size and its updates, oldest first.
#[derive(Debug, Clone)]
pub struct History {
    rows: u32,
    updates: Vec<Update>,
}

/// The rows that the last update changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// How many.
    pub rows: u64,
    /// Sum of their ids.
    pub ids: u64,
    /// Sum of `n` before.
    pub before: u64,
}

/// Aggregates of a whole table that an exchange of values between rows does not leave alone.
pub const TABLE: &str = "SELECT count(*) AS c, sum(id) AS a, sum((id % 1013) * (id % 1009)) AS d, sum(n) AS b, sum(n * (id % 1009)) AS w, \
                         sum(length(city)) AS l FROM ";
/// Aggregates of the rows of a changelog view, by kind of change.
pub const VIEW: &str = "SELECT _change_type, count(*) AS c, sum(id) AS a, sum(n) AS b FROM changed GROUP BY _change_type \
                        ORDER BY _change_type";

impl History {
    /// A fresh table.
    pub fn new(rows: u32) -> Self {
        Self { rows, updates: Vec::new() }
    }

    /// Applies an update.
    pub fn apply(&mut self, u: Update) {
        self.updates.push(u);
    }

    fn n(&self, id: u32, updates: &[Update]) -> u64 {
        u64::from(fresh(id)) + updates.iter().filter(|u| u.hits(id)).count() as u64
    }

    /// The answer to [`TABLE`], as texts.
    pub fn table(&self) -> Vec<Vec<String>> {
        let (mut ids, mut products, mut n, mut weighed, mut letters) = (0u64, 0u64, 0u64, 0u64, 0u64);
        for id in 0..self.rows {
            let value = self.n(id, &self.updates);
            ids += u64::from(id);
            products += u64::from((id % 1013) * (id % 1009));
            n += value;
            weighed += value * u64::from(id % 1009);
            letters += 6 + u64::from((id % 100_000).checked_ilog10().unwrap_or(0));
        }
        vec![[u64::from(self.rows), ids, products, n, weighed, letters].map(|v| v.to_string()).to_vec()]
    }

    /// The rows of the last update.
    pub fn last(&self) -> Changed {
        let Some((last, earlier)) = self.updates.split_last() else {
            return Changed::default();
        };
        (0..self.rows).filter(|id| last.hits(*id)).fold(Changed::default(), |c, id| Changed {
            rows: c.rows + 1,
            ids: c.ids + u64::from(id),
            before: c.before + self.n(id, earlier),
        })
    }
}

impl Changed {
    /// The answer to [`VIEW`], as texts.
    pub fn view(self) -> Vec<Vec<String>> {
        [("UPDATE_AFTER", self.before + self.rows), ("UPDATE_BEFORE", self.before)]
            .map(|(kind, n)| vec![kind.to_string(), self.rows.to_string(), self.ids.to_string(), n.to_string()])
            .to_vec()
    }

    /// The answer to a diff of the states before and after: rows, sum of ids, sums of `n` before and after.
    pub fn diff(self) -> Vec<Vec<String>> {
        vec![[self.rows, self.ids, self.before, self.before + self.rows].map(|v| v.to_string()).to_vec()]
    }
}
