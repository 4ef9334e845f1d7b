//! What the tables of the workload `deletes` hold, which rows a condition names, and what a scan must answer after them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::write::{WriteOptions, write_data_files};
use iceberg::TableIdent;
use serde::{Deserialize, Serialize};

use super::costs::FILES;
use super::deletes::Cut;
use super::lineitem;
use super::model::{self, Model, fresh};
use super::run::{CATALOG, NAMESPACE, failure, table};
use super::{EQUALITY_DELETES, POSITION_DELETES};
use crate::drivers::{Driver, Floe};

/// A table whose statements are copy-on-write, for writers without V3.
pub(super) const COPY_ON_WRITE_V2: &str = "copy-on-write of V2";

/// What a benchmark table holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// The walk-through's three columns: id, city, n
    #[default]
    Walkthrough,
    /// TPC-H's lineitem, 16 columns
    Lineitem,
}

/// A table's rows, as far as conditions and answers need them.
pub(super) struct Oracle {
    data: Data,
    rows: u32,
    /// Further properties of the table.
    properties: BTreeMap<String, String>,
    /// Of [`Data::Lineitem`], in the table's order.
    lines: Vec<Line>,
}

struct Line {
    order: u32,
    part: u32,
    /// `l_extendedprice` in hundredths.
    price: u32,
}

impl Oracle {
    /// A table of so many rows, with further properties.
    ///
    /// # Errors
    /// When the generator makes fewer, or keys beyond 32 bits.
    pub fn new(data: Data, rows: u32, properties: &BTreeMap<String, String>) -> Result<Self, String> {
        let small = |n: i64| u32::try_from(n).map_err(|_| format!("lineitem has {n}, which is more than 32 bits"));
        let mut lines = Vec::new();
        if data == Data::Lineitem {
            for l in lineitem::lines(rows) {
                let price = small(l.l_extendedprice.into_inner())?;
                lines.push(Line { order: small(l.l_orderkey)?, part: small(l.l_partkey)?, price });
            }
            if lines.len() != rows as usize {
                return Err(format!("the generator made {} rows of lineitem instead of {rows}", lines.len()));
            }
        }
        Ok(Self { data, rows, properties: properties.clone(), lines })
    }

    /// How many there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Makes the table, with floe, in [`FILES`] data files.
    ///
    /// # Errors
    /// What failed, in words.
    pub async fn make(&self, keeper: &mut Floe, warehouse: &Path, name: &str, mode: &str) -> Result<(), String> {
        let full = format!("{CATALOG}.{NAMESPACE}.{name}");
        let create = match self.data {
            Data::Walkthrough => Model::create(&full, mode, &self.properties),
            Data::Lineitem => format!(
                "CREATE TABLE {full} ({}) USING iceberg {}",
                lineitem::COLUMNS,
                properties(mode, &self.properties)
            ),
        };
        let mut statements = vec![format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}"), create];
        statements.extend((self.data == Data::Walkthrough).then(|| Model::insert(&full, self.rows)));
        for sql in statements {
            let t = table(warehouse, name);
            failure(keeper.apply(&sql, &t).await).map_or(Ok(()), Err)?;
        }
        match self.data {
            Data::Walkthrough => Ok(()),
            Data::Lineitem => self.load(warehouse, name).await.map_err(|e| e.to_string()),
        }
    }

    /// Writes lineitem, a file after the other, and commits them at once.
    async fn load(&self, warehouse: &Path, name: &str) -> floe_engine::Result<()> {
        let catalog: Arc<dyn Catalog> =
            Arc::new(HadoopCatalog::new(CATALOG, &warehouse.display().to_string(), HashMap::new())?);
        let ident = TableIdent::from_strs([NAMESPACE, name])?;
        let target = catalog.load_table(&ident).await?;
        let mut change = Change::new(Producer::FastAppend);
        let mut lines = lineitem::lines(self.rows);
        for f in 0..u64::from(FILES) {
            let bound = |f: u64| u64::from(self.rows) * f / u64::from(FILES);
            let batches = lineitem::batches(lines.by_ref().take((bound(f + 1) - bound(f)) as usize))?;
            let Some(schema) = batches.first().map(arrow::array::RecordBatch::schema) else { continue };
            let stream = RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches.into_iter().map(Ok)));
            change.added.extend(write_data_files(&target, vec![Box::pin(stream)], &WriteOptions::default()).await?);
        }
        commit(&target, change).await?;
        Ok(())
    }

    /// The condition that a row is in the cut, in SQL.
    pub fn condition(&self, cut: Cut) -> String {
        match self.data {
            Data::Walkthrough => cut.sql(self.rows),
            Data::Lineitem if cut.clustered => {
                let (from, to) = self.orders(cut);
                format!("l_orderkey >= {from} AND l_orderkey < {to}")
            }
            Data::Lineitem => self.residue(cut.one_in, cut.one_in / 2),
        }
    }

    /// The condition of one row in `one_in`, anywhere, in SQL. Lineitem's key of the part alone has too few values for a small share, its key
    /// of the order alone has gaps at a period.
    pub fn residue(&self, one_in: u32, k: u32) -> String {
        let key = match self.data {
            Data::Walkthrough => "id",
            Data::Lineitem => "(l_orderkey + l_partkey)",
        };
        format!("{key} % {one_in} = {k}")
    }

    /// The remainder of row `i` by which [`Self::residue`] chooses.
    pub fn residue_of(&self, i: u32, one_in: u32) -> u32 {
        match self.line(i) {
            Some(l) => ((u64::from(l.order) + u64::from(l.part)) % u64::from(one_in)) as u32,
            None => i % one_in,
        }
    }

    fn line(&self, i: u32) -> Option<&Line> {
        self.lines.get(i as usize)
    }

    /// Keys of the orders of a clustered cut; the last is not among them.
    fn orders(&self, cut: Cut) -> (u32, u32) {
        let r = cut.range(self.rows);
        let of = |i: u32| self.line(i).map_or(u32::MAX, |l| l.order);
        (of(r.start), of(r.end).max(of(r.start).saturating_add(1)))
    }

    /// Which rows are in the cut.
    pub fn chosen(&self, cut: Cut) -> impl Fn(u32) -> bool {
        let orders = if self.data == Data::Lineitem && cut.clustered { self.orders(cut) } else { (0, 0) };
        move |i| match self.data {
            Data::Walkthrough => cut.has(i, self.rows),
            Data::Lineitem if cut.clustered => self.line(i).is_some_and(|l| (orders.0..orders.1).contains(&l.order)),
            Data::Lineitem => self.residue_of(i, cut.one_in) == cut.one_in / 2,
        }
    }

    /// How many rows are chosen.
    pub fn count(&self, chosen: impl Fn(u32) -> bool) -> u64 {
        (0..self.rows).filter(|i| chosen(*i)).count() as u64
    }

    /// The scan: two columns aggregated.
    pub fn scan(&self) -> &'static str {
        match self.data {
            Data::Walkthrough => model::NARROW,
            Data::Lineitem => "SELECT count(*) AS c, sum(l_orderkey) AS a, sum(l_extendedprice) AS b FROM ",
        }
    }

    /// What [`Self::scan`] answers when the rows that `dead` says are gone, as texts.
    pub fn answer(&self, dead: impl Fn(u32) -> bool) -> Vec<String> {
        let (mut count, mut a, mut b) = (0u64, 0u64, 0u64);
        for i in (0..self.rows).filter(|i| !dead(*i)) {
            let (x, y) = match self.line(i) {
                Some(l) => (l.order, l.price),
                None => (i, fresh(i)),
            };
            count += 1;
            a += u64::from(x);
            b += u64::from(y);
        }
        if count == 0 {
            return ["0", "null", "null"].map(String::from).to_vec();
        }
        let b = match self.data {
            Data::Walkthrough => b.to_string(),
            Data::Lineitem => format!("{}.{:02}", b / 100, b % 100),
        };
        vec![count.to_string(), a.to_string(), b]
    }

    /// Statements that delete the rows of a condition by equality deletes: the view of their keys, which is not measured, and the call.
    pub fn by_equality(&self, name: &str, condition: &str) -> [String; 2] {
        let (key, columns) = match self.data {
            Data::Walkthrough => ("id", "array('id')"),
            Data::Lineitem => ("l_orderkey, l_linenumber", "array('l_orderkey', 'l_linenumber')"),
        };
        // the walk-through's keys are known, those of lineitem have to be looked up
        let from = match self.data {
            Data::Walkthrough => format!("range(0, {}, 1, 1)", self.rows),
            Data::Lineitem => format!("{CATALOG}.{NAMESPACE}.{name}"),
        };
        [
            format!(
                "CREATE OR REPLACE TEMPORARY VIEW gone AS SELECT {key}, 'DELETE' AS _change_type FROM {from} WHERE {condition}"
            ),
            format!(
                "CALL {CATALOG}.system.upsert(table => '{NAMESPACE}.{name}', source => 'gone', equality_columns => {columns}, \
                 delete_format => 'equality')"
            ),
        ]
    }
}

/// Spark's text of the properties of a table whose statements all use `mode`, and of further ones.
pub(super) fn properties(mode: &str, more: &BTreeMap<String, String>) -> String {
    let (version, mode) = match mode {
        POSITION_DELETES => (2, "merge-on-read"),
        EQUALITY_DELETES => (3, "merge-on-read"),
        COPY_ON_WRITE_V2 => (2, "copy-on-write"),
        other => (3, other),
    };
    let quoted = |s: &str| s.replace('\\', "\\\\").replace('\'', "\\'");
    let more: String = more.iter().map(|(k, v)| format!(", '{}'='{}'", quoted(k), quoted(v))).collect();
    format!(
        "TBLPROPERTIES('format-version'='{version}', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', \
         'write.merge.mode'='{mode}'{more})"
    )
}

#[cfg(test)]
mod tests;
