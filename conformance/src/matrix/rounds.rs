//! Rounds: engines that are ready are paired while others are still being installed or started.

use super::result::{AUDIT, Cell, EngineRow, FACTS, Results};
use super::{Progress, Session, run_scenario};
use crate::drivers::Driver;
use crate::scenario::Scenario;
use crate::scenario::generated::History;

/// How many parts of a failing history are run to find its core.
const TRIES: usize = 60;

/// The engines of a run that have joined so far, and the cells of the pairs among them.
#[derive(Default)]
pub struct Field {
    drivers: Vec<Box<dyn Driver>>,
    /// Each row with its place in the order of reports; an engine that did not start has a row and no driver.
    rows: Vec<(usize, EngineRow)>,
    cells: Vec<Cell>,
    /// How many of the drivers have been paired with each other.
    paired: usize,
    rounds: usize,
}

impl Field {
    /// Takes an engine in at its place of the reports; without a driver its row says why.
    pub fn join(&mut self, place: usize, row: EngineRow, driver: Option<Box<dyn Driver>>) {
        self.rows.push((place, row));
        self.drivers.extend(driver);
    }

    /// How many cells the next round makes, where no scenario has two writers.
    pub fn ahead(&self, scenarios: usize) -> u64 {
        let (all, old) = (self.drivers.len() as u64, self.paired as u64);
        (all * all - old * old + 2 * (all - old)) * scenarios as u64
    }

    /// Runs every scenario by each pair with an engine that joined since the round before. Tables of earlier rounds are
    /// written anew for the readers that came later: a reader sees each state when it is the newest.
    pub async fn round(&mut self, session: &Session, scenarios: &[Scenario], done: Progress<'_>) {
        self.rounds += 1;
        let mine = Session { prefix: format!("{}{}", session.prefix, self.rounds), ..session.clone() };
        for s in scenarios {
            for w in 0..self.drivers.len() {
                if !self.drivers[w].hello().plays("write") {
                    continue;
                }
                let new_writer = w >= self.paired;
                let readers: Vec<usize> = (0..self.drivers.len())
                    .filter(|r| new_writer || *r >= self.paired)
                    .filter(|r| self.drivers[*r].hello().plays("read"))
                    .collect();
                if readers.is_empty() {
                    continue;
                }
                let cells = run_scenario(&mine, &mut self.drivers, s, w, &readers, done).await;
                // a writer's facts and bytes were judged in its first round
                let again = |c: &Cell| !new_writer && [FACTS, AUDIT].contains(&c.reader.as_str());
                self.cells.extend(cells.into_iter().filter(|c| !again(c)));
            }
        }
        self.paired = self.drivers.len();
    }

    /// Rows and cells so far, in the order of reports: by scenario, writer and reader.
    pub fn so_far(&self, scenarios: &[Scenario]) -> (Vec<EngineRow>, Vec<Cell>) {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|r| r.0);
        let rows: Vec<EngineRow> = rows.into_iter().map(|r| r.1).collect();
        let place = |name: &str| rows.iter().position(|r| r.name == name);
        // facts come first, then the audit: `None` sorts before any place
        let reader = |name: &str| (place(name), name == AUDIT);
        let mut cells = self.cells.clone();
        cells.sort_by_key(|c| (scenarios.iter().position(|s| s.id == c.scenario), place(&c.writer), reader(&c.reader)));
        (rows, cells)
    }

    /// Cuts generated histories with cells that are not accepted down to the statements that it takes: one a writer and
    /// reader, with their names.
    pub async fn cut_down(
        &mut self,
        session: &Session,
        histories: &[History],
        results: &Results,
    ) -> Vec<(String, String, Scenario)> {
        let mut out: Vec<(String, String, Scenario)> = Vec::new();
        for cell in results.cells.iter().filter(|c| !c.accepted) {
            let Some(history) = histories.iter().find(|h| h.id() == cell.scenario) else { continue };
            if out.iter().any(|(w, r, _)| *w == cell.writer && *r == cell.reader) {
                continue;
            }
            let place = |name: &str| self.drivers.iter().position(|d| d.name() == name);
            let Some(writer) = place(&cell.writer) else { continue };
            // facts and bytes need no reader
            let readers: Vec<usize> = place(&cell.reader).into_iter().collect();
            let mut least = history.clone();
            let (mut tries, mut smaller) = (0, true);
            // later statements seldom matter, so the last goes first; again and again, until each one is needed
            while std::mem::take(&mut smaller) {
                for i in (0..least.statements()).rev() {
                    tries += 1;
                    if tries > TRIES {
                        break;
                    }
                    let part = least.without(i);
                    let mine = Session { prefix: format!("cut{}_{tries}", out.len()), ..session.clone() };
                    let cells =
                        run_scenario(&mine, &mut self.drivers, &part.scenario(), writer, &readers, &|_| {}).await;
                    if cells.iter().any(|c| !c.accepted && c.reader == cell.reader && c.outcome == cell.outcome) {
                        (least, smaller) = (part, true);
                    }
                }
            }
            out.push((cell.writer.clone(), cell.reader.clone(), least.scenario()));
        }
        out
    }

    /// Ends every engine.
    pub async fn stop(&mut self) {
        for d in &mut self.drivers {
            d.stop().await;
        }
    }
}
