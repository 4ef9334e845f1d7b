//! A table as a plain map of rows, and the SQL text of what is done to it.

use std::collections::BTreeMap;

/// Type of a payload column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    /// Text.
    Text,
    /// True or false.
    Bool,
    /// Two digits after the point.
    Decimal,
    /// A day.
    Date,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [Kind::Int, Kind::Long, Kind::Text, Kind::Bool, Kind::Decimal, Kind::Date];

    /// Its name in Spark's SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::Long => "BIGINT",
            Self::Text => "STRING",
            Self::Bool => "BOOLEAN",
            Self::Decimal => "DECIMAL(9,2)",
            Self::Date => "DATE",
        }
    }

    /// Its Iceberg type.
    pub fn iceberg(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Long => "long",
            Self::Text => "string",
            Self::Bool => "boolean",
            Self::Decimal => "decimal(9,2)",
            Self::Date => "date",
        }
    }

    /// A value as a scenario file states it.
    pub(super) fn stated(self, v: Option<i64>) -> toml::Value {
        match (self, v) {
            (_, None) => toml::Value::Table([("null".to_string(), toml::Value::Boolean(true))].into_iter().collect()),
            (Self::Int | Self::Long, Some(v)) => toml::Value::Integer(v),
            (Self::Bool, Some(v)) => toml::Value::Boolean(v % 2 == 0),
            (_, some) => toml::Value::String(self.text(some)),
        }
    }

    /// A value as a literal.
    pub fn literal(self, v: Option<i64>) -> String {
        let Some(v) = v else { return format!("CAST(NULL AS {})", self.sql()) };
        match self {
            Self::Int | Self::Long => format!("CAST({v} AS {})", self.sql()),
            Self::Text => format!("'s{v}'"),
            Self::Bool => (v % 2 == 0).to_string(),
            Self::Decimal => format!("CAST({v}.50 AS DECIMAL(9,2))"),
            Self::Date => format!("DATE '2020-01-{:02}'", 1 + v % 28),
        }
    }

    /// A value as a query prints it.
    pub fn text(self, v: Option<i64>) -> String {
        let Some(v) = v else { return "NULL".into() };
        match self {
            Self::Int | Self::Long => v.to_string(),
            Self::Text => format!("s{v}"),
            Self::Bool => (v % 2 == 0).to_string(),
            Self::Decimal => format!("{v}.50"),
            Self::Date => format!("2020-01-{:02}", 1 + v % 28),
        }
    }
}

/// A payload column. `key` is its identity: names change, columns of one name are dropped and made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Identity.
    pub key: u32,
    /// Its name now.
    pub name: String,
    /// Its type now.
    pub kind: Kind,
}

/// A row: its `id`, and values by column identity (absent = null).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Value of the column `id`.
    pub id: i64,
    /// Values by column identity.
    pub cells: BTreeMap<u32, i64>,
}

/// The rows and columns of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Columns beside `id`.
    pub columns: Vec<Column>,
    /// By a serial number that a row keeps all its life.
    pub rows: BTreeMap<u64, Row>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// `id = i`
    Id(i64),
    /// `id IN (…)`
    Ids(Vec<i64>),
    /// `id < i`
    Below(i64),
    /// `id % m = r`
    Mod(i64, i64),
    /// A column is null.
    Null(Column),
    /// A column has a value.
    Is(Column, i64),
    /// Every row.
    All,
}

impl Where {
    /// As SQL.
    pub fn sql(&self) -> String {
        match self {
            Self::Id(i) => format!("id = {i}"),
            Self::Ids(v) => {
                let v: Vec<String> = v.iter().map(i64::to_string).collect();
                format!("id IN ({})", v.join(", "))
            }
            Self::Below(i) => format!("id < {i}"),
            Self::Mod(m, r) => format!("id % {m} = {r}"),
            Self::Null(c) => format!("{} IS NULL", c.name),
            Self::Is(c, v) => format!("{} = {}", c.name, c.kind.literal(Some(*v))),
            Self::All => "TRUE".into(),
        }
    }

    /// Whether a row meets it.
    pub fn holds(&self, r: &Row) -> bool {
        match self {
            Self::Id(i) => r.id == *i,
            Self::Ids(v) => v.contains(&r.id),
            Self::Below(i) => r.id < *i,
            Self::Mod(m, rest) => r.id % m == *rest,
            Self::Null(c) => !r.cells.contains_key(&c.key),
            // equal as the column's type has it: a boolean has two values
            Self::Is(c, v) => r.cells.get(&c.key).is_some_and(|x| c.kind.text(Some(*x)) == c.kind.text(Some(*v))),
            Self::All => true,
        }
    }
}

impl Table {
    /// `id` and the payload columns.
    pub fn select(&self) -> String {
        let names: Vec<&str> = std::iter::once("id").chain(self.columns.iter().map(|c| c.name.as_str())).collect();
        names.join(", ")
    }

    fn line(&self, r: &Row) -> String {
        let cells = self.columns.iter().map(|c| c.kind.text(r.cells.get(&c.key).copied()));
        std::iter::once(r.id.to_string()).chain(cells).collect::<Vec<_>>().join("|")
    }

    /// Rows as a query prints them, sorted.
    pub fn lines(&self) -> Vec<String> {
        let mut out: Vec<String> = self.rows.values().map(|r| self.line(r)).collect();
        out.sort();
        out
    }

    /// `(row as printed, serial number)`.
    pub fn serials(&self) -> Vec<(String, u64)> {
        self.rows.iter().map(|(n, r)| (self.line(r), *n)).collect()
    }

    /// `(…), (…)` for rows.
    pub fn values(&self, rows: &[Row]) -> String {
        let tuple = |r: &Row| {
            let cells = self.columns.iter().map(|c| c.kind.literal(r.cells.get(&c.key).copied()));
            let all: Vec<String> = std::iter::once(format!("CAST({} AS INT)", r.id)).chain(cells).collect();
            format!("({})", all.join(", "))
        };
        rows.iter().map(tuple).collect::<Vec<_>>().join(", ")
    }
}
