//! Generated histories: random statements, and the rows that must follow from them, in the form of any other scenario. A seed
//! gives the same history everywhere, and any part of a history is a history, so that one that fails can be cut down.

pub mod steps;
pub mod table;
pub mod world;

use super::{Scenario, Step};

pub use steps::History;
use table::Table;
use world::World;

/// Area of the generated ids; no file lies in it, and their verdicts are not reviewed.
pub const AREA: &str = "generated";

impl History {
    /// Id of its scenario.
    pub fn id(&self) -> String {
        format!("{AREA}/{}", self.seed)
    }

    /// The history as a scenario, with all rows after each step.
    pub fn scenario(&self) -> Scenario {
        let mut world = World::new(self);
        let mode = if self.merge_on_read { "merge-on-read" } else { "copy-on-write" };
        let columns = columns(&world.table);
        let create = world.create(self, mode);
        let mut steps = vec![Step { sql: create, no_snapshot: true, rows: Some(Vec::new()), ..Step::default() }];
        for step in &self.steps {
            let Some(sql) = world.statement(step) else { continue };
            let (columns, rows) = (Some(self::columns(&world.table)), Some(rows(&world.table)));
            steps.push(Step { sql, columns, rows, ..Step::default() });
        }
        let mut features = vec!["row-level"];
        features.extend(world.used.iter().copied());
        for (version, name, deletes) in [(2, "v2", "position-deletes"), (3, "v3", "read-dv")] {
            if version == self.version || version == world.version {
                features.push(name);
                features.extend(self.merge_on_read.then_some(deletes));
            }
        }
        Scenario {
            id: self.id(),
            title: format!("The history of seed {}", self.seed),
            description: "Random statements; a plain list of rows says what must follow.".into(),
            clauses: vec!["DV-1".into(), "OP-2".into()],
            origin: String::new(),
            features: features.into_iter().map(String::from).collect(),
            columns,
            steps,
        }
    }
}

fn columns(table: &Table) -> Vec<String> {
    let payload = table.columns.iter().map(|c| format!("{} {}", c.name, c.kind.iceberg()));
    std::iter::once("id int".to_string()).chain(payload).collect()
}

fn rows(table: &Table) -> Vec<Vec<toml::Value>> {
    let row = |r: &table::Row| {
        let cells = table.columns.iter().map(|c| c.kind.stated(r.cells.get(&c.key).copied()));
        std::iter::once(toml::Value::Integer(r.id)).chain(cells).collect()
    };
    table.rows.values().map(row).collect()
}

#[cfg(test)]
mod tests;
