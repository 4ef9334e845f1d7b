//! An engine that several tables' runs share: what it said of itself is at hand, and each call waits for its turn.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

use crate::drivers::Driver;
use crate::protocol::Hello;

/// An engine of the run.
pub struct Seat {
    name: String,
    hello: Hello,
    driver: Mutex<Box<dyn Driver>>,
}

impl Seat {
    /// A seat for a running engine.
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self { name: driver.name().to_string(), hello: driver.hello().clone(), driver: Mutex::new(driver) }
    }

    /// Registry name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the engine said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The engine, once it is free. One that died in another table's run is started again; of one that died in this run
    /// (`lost`) no more is asked in it, so that what kills an engine kills it once.
    pub(super) async fn turn<'a>(&'a self, lost: &'a AtomicBool, clock: &'a Clock) -> Result<Turn<'a>, String> {
        let mut driver = self.driver.lock().await;
        if lost.load(Ordering::Relaxed) {
            return Err("the engine ended earlier in this scenario".into());
        }
        if !driver.alive() {
            driver.revive().await;
        }
        Ok(Turn { driver, lost, clock, start: Instant::now() })
    }

    /// Whether the engine runs.
    pub async fn alive(&self) -> bool {
        self.driver.lock().await.alive()
    }

    /// Ends the engine.
    pub async fn stop(&self) {
        self.driver.lock().await.stop().await;
    }
}

/// Time spent in an engine, without the time spent waiting for it.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    pub(super) fn add(&self, spent: Duration) {
        self.0.fetch_add(u64::try_from(spent.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn spent(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// An engine while it is one run's; the clock stops when it is given back.
pub(super) struct Turn<'a> {
    driver: MutexGuard<'a, Box<dyn Driver>>,
    lost: &'a AtomicBool,
    clock: &'a Clock,
    start: Instant,
}

impl Deref for Turn<'_> {
    type Target = Box<dyn Driver>;

    fn deref(&self) -> &Self::Target {
        &self.driver
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.driver
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.clock.add(self.start.elapsed());
        if !self.driver.alive() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}
