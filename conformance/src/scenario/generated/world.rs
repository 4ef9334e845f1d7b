//! What each step of a history says in SQL, and what it does to a plain map of rows.

use std::collections::{BTreeMap, BTreeSet};

use super::steps::{History, Step};
use super::table::{Column, Kind, Row, Table, Where};

/// The table as it must be. Statements are in Spark's text with `{table}`, `{namespace}`, `{name}` and `{catalog}`.
#[derive(Debug, Clone)]
pub struct World {
    /// Its columns and rows.
    pub table: Table,
    /// Its format version.
    pub version: u8,
    /// What engines need for what was said so far, by the names of capabilities.
    pub(super) used: BTreeSet<&'static str>,
    partition: u8,
    portable: bool,
    next_serial: u64,
    next_id: i64,
    next_key: u32,
}

impl World {
    /// The world of a history before its first step.
    pub fn new(h: &History) -> Self {
        let columns = h.columns.iter().enumerate().map(|(i, c)| Column {
            key: i as u32,
            name: format!("c{i}"),
            kind: Kind::ALL[usize::from(*c) % Kind::ALL.len()],
        });
        let table = Table { columns: columns.collect(), rows: BTreeMap::new() };
        Self {
            next_key: table.columns.len() as u32,
            table,
            version: h.version,
            used: BTreeSet::new(),
            partition: h.partition % 5,
            portable: h.portable,
            next_serial: 0,
            next_id: 0,
        }
    }

    /// CREATE TABLE with a mode for all row-level statements.
    pub fn create(&self, h: &History, mode: &str) -> String {
        let columns: Vec<String> = self.table.columns.iter().map(|c| format!("{} {}", c.name, c.kind.sql())).collect();
        let first = self.table.columns.first().map_or("id", |c| c.name.as_str());
        let partition = match self.partition {
            0 => String::new(),
            1 => format!("PARTITIONED BY ({first}) "),
            2 => "PARTITIONED BY (bucket(3, id)) ".into(),
            3 => "PARTITIONED BY (truncate(4, id)) ".into(),
            _ => format!("PARTITIONED BY (bucket(2, id), {first}) "),
        };
        format!(
            "CREATE TABLE {{table}} (id INT, {}) USING iceberg {partition}TBLPROPERTIES ('format-version'='{}', \
             'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}', \
             'write.delete.granularity'='{}', 'commit.manifest.min-count-to-merge'='{}')",
            columns.join(", "),
            h.version,
            if h.granularity { "file" } else { "partition" },
            if h.merge_manifests { 2 } else { 100 },
        )
    }

    /// Whether the first payload column is a partition's source.
    fn first_is_source(&self) -> bool {
        matches!(self.partition, 1 | 4)
    }

    fn new_rows(&mut self, n: u8, seed: u16) -> Vec<Row> {
        let mut out = Vec::new();
        for i in 0..i64::from(n) {
            let mut cells = BTreeMap::new();
            for c in &self.table.columns {
                // now and then a null
                let v = (i64::from(seed) * 7 + i * 13 + i64::from(c.key) * 5) % 11;
                if v != 3 {
                    cells.insert(c.key, v);
                }
            }
            out.push(Row { id: self.next_id, cells });
            self.next_id += 1;
        }
        out
    }

    fn put(&mut self, rows: Vec<Row>) {
        for r in rows {
            self.table.rows.insert(self.next_serial, r);
            self.next_serial += 1;
        }
    }

    /// A condition by two numbers.
    pub fn condition(&self, kind: u8, seed: u16) -> Where {
        let below = self.next_id.max(1);
        let id = i64::from(seed) % below;
        let c = || self.table.columns.get(usize::from(seed) % self.table.columns.len().max(1)).cloned();
        match kind % 8 {
            0 | 1 => Where::Id(id),
            2 => Where::Ids(vec![id, (id + 2) % below, (id * 3 + 1) % below]),
            3 => Where::Below(id),
            4 => Where::Mod(2 + i64::from(kind / 8) % 3, i64::from(seed) % 2),
            5 => c().map_or(Where::Id(id), Where::Null),
            6 => c().map_or(Where::Id(id), |c| Where::Is(c, i64::from(seed) % 11)),
            _ if kind > 200 => Where::All,
            _ => Where::Id(id),
        }
    }

    /// The statement of a step, carried out on the rows. Nothing when the table has no room for it, or when it takes more than
    /// a statement: a rollback or branch needs to know snapshots, and expiry takes them from under readers.
    pub fn statement(&mut self, step: &Step) -> Option<String> {
        let columns = self.table.columns.len();
        Some(match step {
            Step::Insert(n, seed) => {
                let rows = self.new_rows(*n, *seed);
                let sql = format!("INSERT INTO {{table}} VALUES {}", self.table.values(&rows));
                self.put(rows);
                sql
            }
            Step::Delete(kind, seed) => {
                let w = self.condition(*kind, *seed);
                self.table.rows.retain(|_, r| !w.holds(r));
                format!("DELETE FROM {{table}} WHERE {}", w.sql())
            }
            Step::Update(kind, seed, value) => {
                let w = self.condition(*kind, *seed);
                let c = self.table.columns.get(usize::from(*value) % columns.max(1))?.clone();
                let v = (value % 12 != 0).then(|| i64::from(value / 16) % 11);
                for r in self.table.rows.values_mut().filter(|r| w.holds(r)) {
                    match v {
                        Some(v) => r.cells.insert(c.key, v),
                        None => r.cells.remove(&c.key),
                    };
                }
                format!("UPDATE {{table}} SET {} = {} WHERE {}", c.name, c.kind.literal(v), w.sql())
            }
            Step::Merge(seed, kind) => self.merge(*seed, *kind),
            Step::Overwrite(n, seed) => {
                let rows = self.new_rows(*n, *seed);
                let sql = format!("INSERT OVERWRITE {{table}} VALUES {}", self.table.values(&rows));
                self.table.rows.clear();
                self.put(rows);
                sql
            }
            Step::Upgrade if self.version == 2 => {
                self.version = 3;
                self.used.insert("upgrade");
                "ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')".into()
            }
            Step::AddColumn(k) => {
                let kind = Kind::ALL[usize::from(*k) % Kind::ALL.len()];
                let c = Column { key: self.next_key, name: format!("c{}", self.next_key), kind };
                self.next_key += 1;
                self.evolves(format!("ADD COLUMN {} {}", c.name, kind.sql()), |t| t.columns.push(c))
            }
            Step::DropColumn(n) if columns > 1 => {
                // the partition's source stays
                let at = 1 + usize::from(*n) % (columns - 1);
                let c = self.table.columns[at].clone();
                self.evolves(format!("DROP COLUMN {}", c.name), |t| {
                    t.columns.remove(at);
                    for r in t.rows.values_mut() {
                        r.cells.remove(&c.key);
                    }
                })
            }
            Step::RenameColumn(n) => {
                // engines differ in what they call a partition whose source gets another name
                let first = usize::from(self.portable && self.first_is_source());
                let at = first + usize::from(*n) % columns.checked_sub(first).filter(|free| *free > 0)?;
                let old = self.table.columns[at].name.clone();
                let new = format!("{old}_r");
                self.evolves(format!("RENAME COLUMN {old} TO {new}"), |t| t.columns[at].name = new)
            }
            Step::Widen(n) => {
                let ints: Vec<usize> = (0..columns).filter(|i| self.table.columns[*i].kind == Kind::Int).collect();
                let at = *ints.get(usize::from(*n) % ints.len().max(1))?;
                let name = self.table.columns[at].name.clone();
                self.evolves(format!("ALTER COLUMN {name} TYPE BIGINT"), |t| t.columns[at].kind = Kind::Long)
            }
            Step::Compact => self.procedure("rewrite_data_files"),
            Step::RewritePositions => self.procedure("rewrite_position_delete_files"),
            Step::RewriteManifests => {
                self.used.insert("procedures");
                "CALL {catalog}.system.rewrite_manifests('{namespace}.{name}')".into()
            }
            Step::Upgrade | Step::DropColumn(_) | Step::Expire(_) | Step::Rollback(_) | Step::Branch(..) => {
                return None;
            }
        })
    }

    fn evolves(&mut self, change: String, on: impl FnOnce(&mut Table)) -> String {
        self.used.insert("schema-evolution");
        on(&mut self.table);
        format!("ALTER TABLE {{table}} {change}")
    }

    fn procedure(&mut self, name: &str) -> String {
        self.used.insert("procedures");
        format!(
            "CALL {{catalog}}.system.{name}(table => '{{namespace}}.{{name}}', options => map('rewrite-all','true'))"
        )
    }

    /// One row of the source that is there, when there is one, and one that is not.
    fn merge(&mut self, seed: u16, kind: u8) -> String {
        self.used.insert("merge");
        let old: Vec<i64> = self.table.rows.values().map(|r| r.id).collect();
        let mut rows = self.new_rows(2, seed);
        if let Some(id) = old.get(usize::from(seed) % old.len().max(1)) {
            rows[0].id = *id;
        }
        let names: Vec<String> = self.table.columns.iter().map(|c| c.name.clone()).collect();
        let columns = self.table.select();
        let source: Vec<String> = rows
            .iter()
            .map(|r| {
                let cells = self.table.columns.iter().map(|c| {
                    let v = r.cells.get(&c.key).copied();
                    format!("{} AS {}", c.kind.literal(v), c.name)
                });
                format!("SELECT CAST({} AS INT) AS id, {}", r.id, cells.collect::<Vec<_>>().join(", "))
            })
            .collect();
        let sets: Vec<String> = names.iter().map(|n| format!("{n} = s.{n}")).collect();
        let given: Vec<String> = std::iter::once("id".to_string()).chain(names).map(|n| format!("s.{n}")).collect();
        let deletes = kind.is_multiple_of(3);
        let matched = if deletes { "DELETE".to_string() } else { format!("UPDATE SET {}", sets.join(", ")) };
        let sql = format!(
            "MERGE INTO {{table}} AS t USING ({}) AS s ON t.id = s.id WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT \
             ({columns}) VALUES ({})",
            source.join(" UNION ALL "),
            given.join(", ")
        );
        for new in rows {
            let hits: Vec<u64> = self.table.rows.iter().filter(|(_, r)| r.id == new.id).map(|(n, _)| *n).collect();
            if hits.is_empty() {
                self.put(vec![new]);
                continue;
            }
            for n in hits {
                if deletes {
                    self.table.rows.remove(&n);
                } else if let Some(r) = self.table.rows.get_mut(&n) {
                    r.cells.clone_from(&new.cells);
                }
            }
        }
        sql
    }
}
