//! Numbers that look random and are the same on every machine.

/// A linear congruential generator with its state.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `below`; 0 when that is 0.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}
