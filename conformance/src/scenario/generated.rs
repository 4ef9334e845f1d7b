//! Generated histories: random statements, and the rows that must follow from them, in the form of any other scenario. A seed
//! gives the same history everywhere, and any part of a history is a history, so that one that fails can be cut down.

use std::collections::BTreeMap;

use super::{Scenario, Step};
use crate::dice::Dice;

/// Area of the generated ids; no file lies in it, and their verdicts are not reviewed.
pub const AREA: &str = "generated";

/// A random history.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    seed: u64,
    version: u8,
    mode: &'static str,
    partition: &'static str,
    moves: Vec<Move>,
}

/// One statement; its numbers choose among what the table has when it comes to it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Move {
    Insert(u64, u64),
    Delete(u64, u64),
    Update(u64, u64),
    Merge(u64, u64),
    Upgrade,
    AddColumn,
    RenameColumn(u64),
}

impl History {
    /// The history of a seed: an insert, then 4 to 9 statements.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0x9e37_79b9_7f4a_7c15);
        dice.roll(1);
        let version = one_of(&mut dice, &[2, 3, 3]);
        let mode = one_of(&mut dice, &["merge-on-read", "merge-on-read", "copy-on-write"]);
        let partition = one_of(
            &mut dice,
            &["", "", "PARTITIONED BY (s)", "PARTITIONED BY (bucket(3, id))", "PARTITIONED BY (truncate(4, id))"],
        );
        let mut moves = vec![Move::Insert(3 + dice.roll(6), dice.roll(1 << 16))];
        for _ in 0..4 + dice.roll(6) {
            let (a, b) = (dice.roll(1 << 16), dice.roll(1 << 16));
            moves.push(match dice.roll(20) {
                0..4 => Move::Insert(1 + a % 5, b),
                4..10 => Move::Delete(a, b),
                10..14 => Move::Update(a, b),
                14..17 => Move::Merge(a, b),
                17 => Move::Upgrade,
                18 => Move::AddColumn,
                _ => Move::RenameColumn(a),
            });
        }
        Self { seed, version, mode, partition, moves }
    }

    /// Number of statements after the table is made.
    pub fn statements(&self) -> usize {
        self.moves.len()
    }

    /// The history without its statement at `i`, from 0.
    #[must_use]
    pub fn without(&self, i: usize) -> Self {
        let mut less = self.clone();
        less.moves.remove(i);
        less
    }

    /// Id of its scenario.
    pub fn id(&self) -> String {
        format!("{AREA}/{}", self.seed)
    }

    /// The history as a scenario, with all rows after each step.
    pub fn scenario(&self) -> Scenario {
        let mut world = World::new(self);
        let mut steps = vec![world.create(self)];
        steps.extend(self.moves.iter().filter_map(|m| world.step(*m)));
        let mut features = vec!["row-level"];
        features.extend(world.used.iter().copied());
        for (version, name, deletes) in [(2, "v2", "position-deletes"), (3, "v3", "read-dv")] {
            if version == self.version || version == world.version {
                features.push(name);
                features.extend((self.mode == "merge-on-read").then_some(deletes));
            }
        }
        Scenario {
            id: self.id(),
            title: format!("The history of seed {}", self.seed),
            description: "Random statements; a plain list of rows says what must follow.".into(),
            clauses: vec!["DV-1".into(), "OP-2".into()],
            origin: String::new(),
            features: features.into_iter().map(String::from).collect(),
            columns: vec!["id int".into(), "n long".into(), "s string".into()],
            steps,
        }
    }
}

fn one_of<T: Copy>(dice: &mut Dice, all: &[T]) -> T {
    all[dice.roll(all.len() as u64) as usize]
}

/// A cell: every column but the first is filled from small numbers, now and then null.
type Cell = Option<u64>;

#[derive(Clone)]
struct Column {
    name: String,
    sql: &'static str,
    iceberg: &'static str,
}

impl Column {
    fn literal(&self, v: Cell) -> String {
        match v {
            None => format!("CAST(NULL AS {})", self.sql),
            Some(v) if self.sql == "STRING" => format!("'s{v}'"),
            Some(v) => v.to_string(),
        }
    }

    fn value(&self, v: Cell) -> toml::Value {
        match v {
            None => toml::Value::Table([("null".to_string(), toml::Value::Boolean(true))].into_iter().collect()),
            Some(v) if self.sql == "STRING" => toml::Value::String(format!("s{v}")),
            Some(v) => toml::Value::Integer(v as i64),
        }
    }
}

/// The table as it must be.
struct World {
    version: u8,
    columns: Vec<Column>,
    rows: BTreeMap<u64, Vec<Cell>>,
    next_id: u64,
    added: usize,
    partitioned_by_s: bool,
    used: Vec<&'static str>,
}

impl World {
    fn new(h: &History) -> Self {
        let column = |name: &str, sql, iceberg| Column { name: name.into(), sql, iceberg };
        Self {
            version: h.version,
            columns: vec![column("n", "BIGINT", "long"), column("s", "STRING", "string")],
            rows: BTreeMap::new(),
            next_id: 0,
            added: 0,
            partitioned_by_s: h.partition.contains("(s)"),
            used: Vec::new(),
        }
    }

    fn uses(&mut self, feature: &'static str) {
        if !self.used.contains(&feature) {
            self.used.push(feature);
        }
    }

    fn create(&self, h: &History) -> Step {
        let sql = format!(
            "CREATE TABLE {{table}} (id INT, n BIGINT, s STRING) USING iceberg {} TBLPROPERTIES('format-version'='{}', \
             'write.delete.mode'='{m}', 'write.update.mode'='{m}', 'write.merge.mode'='{m}')",
            h.partition,
            h.version,
            m = h.mode
        );
        Step { sql, no_snapshot: true, rows: Some(Vec::new()), ..Step::default() }
    }

    fn after(&self, sql: String) -> Step {
        let row = |(id, cells): (&u64, &Vec<Cell>)| {
            let cells = self.columns.iter().zip(cells).map(|(c, v)| c.value(*v));
            std::iter::once(toml::Value::Integer(*id as i64)).chain(cells).collect()
        };
        let columns = std::iter::once("id int".to_string())
            .chain(self.columns.iter().map(|c| format!("{} {}", c.name, c.iceberg)))
            .collect();
        Step { sql, columns: Some(columns), rows: Some(self.rows.iter().map(row).collect()), ..Step::default() }
    }

    /// Cells of a new row.
    fn cells(&self, seed: u64) -> Vec<Cell> {
        (0..self.columns.len() as u64).map(|i| (seed * 7 + i * 5) % 11).map(|v| (v != 3).then_some(v)).collect()
    }

    fn line(&self, id: u64, cells: &[Cell]) -> String {
        let cells = self.columns.iter().zip(cells).map(|(c, v)| c.literal(*v));
        std::iter::once(id.to_string()).chain(cells).collect::<Vec<_>>().join(", ")
    }

    /// A condition as text, and the ids it holds for.
    fn condition(&self, kind: u64, seed: u64) -> (String, Vec<u64>) {
        let id = seed % self.next_id.max(1);
        let at = (seed as usize / 16) % self.columns.len();
        let (c, v) = (&self.columns[at], seed % 11);
        let ids = |holds: &dyn Fn(u64, &[Cell]) -> bool| {
            self.rows.iter().filter(|(id, cells)| holds(**id, cells)).map(|r| *r.0).collect::<Vec<_>>()
        };
        match kind % 6 {
            0 => (format!("id = {id}"), ids(&|i, _| i == id)),
            1 => (format!("id IN ({id}, {})", id + 2), ids(&|i, _| i == id || i == id + 2)),
            2 => (format!("id < {id}"), ids(&|i, _| i < id)),
            3 => (format!("id % 3 = {}", seed % 3), ids(&|i, _| i % 3 == seed % 3)),
            4 => (format!("{} IS NULL", c.name), ids(&|_, cells| cells[at].is_none())),
            _ => (format!("{} = {}", c.name, c.literal(Some(v))), ids(&|_, cells| cells[at] == Some(v))),
        }
    }

    /// The statement of a move, carried out on the rows; nothing when the table has no room for it.
    fn step(&mut self, m: Move) -> Option<Step> {
        let sql = match m {
            Move::Insert(n, seed) => {
                let mut lines = Vec::new();
                for i in 0..n {
                    let cells = self.cells(seed + 13 * i);
                    lines.push(format!("({})", self.line(self.next_id, &cells)));
                    self.rows.insert(self.next_id, cells);
                    self.next_id += 1;
                }
                format!("INSERT INTO {{table}} VALUES {}", lines.join(", "))
            }
            Move::Delete(kind, seed) => {
                let (text, ids) = self.condition(kind, seed);
                ids.iter().for_each(|id| drop(self.rows.remove(id)));
                format!("DELETE FROM {{table}} WHERE {text}")
            }
            Move::Update(kind, seed) => {
                let (text, ids) = self.condition(kind, seed);
                let at = kind as usize / 8 % self.columns.len();
                let v = (seed % 7 != 0).then_some(seed / 32 % 11);
                for id in ids {
                    self.rows.get_mut(&id)?[at] = v;
                }
                let c = &self.columns[at];
                format!("UPDATE {{table}} SET {} = {} WHERE {text}", c.name, c.literal(v))
            }
            Move::Merge(kind, seed) => self.merge(kind, seed),
            Move::Upgrade if self.version == 2 => {
                self.version = 3;
                self.uses("upgrade");
                "ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')".into()
            }
            Move::AddColumn if self.added < 2 => {
                self.uses("schema-evolution");
                self.added += 1;
                let name = format!("a{}", self.added);
                self.columns.push(Column { name: name.clone(), sql: "INT", iceberg: "int" });
                self.rows.values_mut().for_each(|cells| cells.push(None));
                format!("ALTER TABLE {{table}} ADD COLUMN {name} INT")
            }
            Move::RenameColumn(n) => {
                self.uses("schema-evolution");
                // a partition's source keeps its name: engines differ in how they name the field then
                let free = self.columns.len() - usize::from(self.partitioned_by_s);
                let at = match n as usize % free.max(1) {
                    at if self.partitioned_by_s && at >= 1 => at + 1,
                    at => at,
                };
                let old = self.columns[at].name.clone();
                let new = format!("{old}r");
                self.columns[at].name.clone_from(&new);
                format!("ALTER TABLE {{table}} RENAME COLUMN {old} TO {new}")
            }
            Move::Upgrade | Move::AddColumn => return None,
        };
        Some(self.after(sql))
    }

    /// One row of the source that is there, when there is one, and one that is not.
    fn merge(&mut self, kind: u64, seed: u64) -> String {
        self.uses("merge");
        let there: Vec<u64> = self.rows.keys().copied().collect();
        let mut source = vec![(self.next_id, self.cells(seed))];
        self.next_id += 1;
        if let Some(id) = there.get(seed as usize % there.len().max(1)) {
            source.insert(0, (*id, self.cells(seed + 3)));
        }
        let select = |(id, cells): &(u64, Vec<Cell>)| {
            let cells = self.columns.iter().zip(cells).map(|(c, v)| format!("{} AS {}", c.literal(*v), c.name));
            format!("SELECT {}", std::iter::once(format!("{id} AS id")).chain(cells).collect::<Vec<_>>().join(", "))
        };
        let text: Vec<String> = source.iter().map(select).collect();
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let sets: Vec<String> = names.iter().map(|n| format!("{n} = s.{n}")).collect();
        let given: Vec<String> = names.iter().map(|n| format!("s.{n}")).collect();
        let deletes = kind % 3 == 0;
        let matched = if deletes { "DELETE".to_string() } else { format!("UPDATE SET {}", sets.join(", ")) };
        let sql = format!(
            "MERGE INTO {{table}} t USING ({}) s ON t.id = s.id WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT \
             (id, {}) VALUES (s.id, {})",
            text.join(" UNION ALL "),
            names.join(", "),
            given.join(", ")
        );
        for (id, cells) in source {
            match self.rows.contains_key(&id) {
                true if deletes => drop(self.rows.remove(&id)),
                _ => drop(self.rows.insert(id, cells)),
            }
        }
        sql
    }
}

#[cfg(test)]
mod tests;
