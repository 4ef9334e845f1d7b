//! Rounds: engines that are ready are paired while others are still being installed or started.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::result::{AUDIT, Cell, EngineRow, FACTS, Results};
use super::{Seat, Session, run_scenario};
use crate::drivers::Driver;
use crate::scenario::Scenario;
use crate::scenario::generated::History;

/// Told of each finished cell.
pub type Progress<'a> = &'a (dyn Fn(&Cell) + Sync);

/// How many parts of a failing history are run to find its core.
const TRIES: usize = 60;

/// The engines of a run that have joined so far, and the cells of the pairs among them.
#[derive(Default)]
pub struct Field {
    seats: Vec<Arc<Seat>>,
    /// Each row with its place in the order of reports; an engine that did not start has a row and no seat.
    rows: Vec<(usize, EngineRow)>,
    cells: Vec<Cell>,
    /// To how many of the engines each one has shown its table of each scenario; what is beyond the end, to none.
    shown: Vec<Vec<usize>>,
    rounds: usize,
}

impl Field {
    /// Takes an engine in at its place of the reports; without a driver its row says why.
    pub fn join(&mut self, place: usize, row: EngineRow, driver: Option<Box<dyn Driver>>) {
        self.rows.push((place, row));
        self.seats.extend(driver.map(|d| Arc::new(Seat::new(d))));
    }

    /// The engines that write, and to how many engines they have shown their table of each scenario.
    fn writers(&self, scenarios: usize) -> Vec<(usize, Vec<usize>)> {
        let writes = |w: &usize| self.seats[*w].hello().plays("write");
        let shown = |w: usize| {
            let mut of = self.shown.get(w).cloned().unwrap_or_default();
            of.resize(scenarios, 0);
            (w, of)
        };
        (0..self.seats.len()).filter(writes).map(shown).collect()
    }

    /// How many cells the next round makes, where every engine reads and no scenario has two writers.
    pub fn ahead(&self, scenarios: usize) -> u64 {
        let shown = self.writers(scenarios).into_iter().flat_map(|w| w.1);
        shown.map(|n| self.seats.len() - n + if n == 0 { 2 } else { 0 }).sum::<usize>() as u64
    }

    /// Runs every scenario by each pair with an engine that joined since the round before. Tables of earlier rounds are
    /// written anew for the readers that came later: a reader sees each state when it is the newest. Every writer goes
    /// through the scenarios at its own pace, and readers serve one table at a time; what is left when `enough` says so is
    /// the next round's.
    pub async fn round(
        &mut self,
        session: &Session,
        scenarios: &[Scenario],
        done: Progress<'_>,
        enough: impl Fn() -> bool + Clone + Send + 'static,
    ) {
        self.rounds += 1;
        let mine = Session { prefix: format!("{}{}", session.prefix, self.rounds), ..session.clone() };
        let shared: Arc<[Scenario]> = scenarios.into();
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut writers = JoinSet::new();
        for (w, mut shown) in self.writers(scenarios.len()) {
            let (seats, session, tell) = (self.seats.clone(), mine.clone(), tell.clone());
            let (scenarios, enough) = (shared.clone(), enough.clone());
            writers.spawn(async move {
                let seats: Vec<&Seat> = seats.iter().map(Arc::as_ref).collect();
                for (s, n) in scenarios.iter().zip(&mut shown) {
                    if enough() {
                        break;
                    }
                    let first = *n == 0;
                    let readers: Vec<usize> = (*n..seats.len()).filter(|r| seats[*r].hello().plays("read")).collect();
                    *n = seats.len();
                    if readers.is_empty() {
                        continue;
                    }
                    let mut cells = run_scenario(&session, &seats, s, w, &readers).await;
                    // a writer's facts and bytes were judged in its first round
                    cells.retain(|c| first || ![FACTS, AUDIT].contains(&c.reader.as_str()));
                    // nobody listens once the run is being stopped
                    let _ = tell.send(cells);
                }
                (w, shown)
            });
        }
        drop(tell);
        while let Some(cells) = told.recv().await {
            cells.iter().for_each(done);
            self.cells.extend(cells);
        }
        self.shown.resize(self.seats.len(), Vec::new());
        while let Some(ended) = writers.join_next().await {
            match ended {
                Ok((w, shown)) => self.shown[w] = shown,
                Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                Err(_) => {}
            }
        }
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
            let place = |name: &str| self.seats.iter().position(|d| d.name() == name);
            let Some(writer) = place(&cell.writer) else { continue };
            // facts and bytes need no reader
            let readers: Vec<usize> = place(&cell.reader).into_iter().collect();
            let seats: Vec<&Seat> = self.seats.iter().map(Arc::as_ref).collect();
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
                    let cells = run_scenario(&mine, &seats, &part.scenario(), writer, &readers).await;
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
        for s in &self.seats {
            s.stop().await;
        }
    }
}
