//! Write and read amplification, from the samples of the workload `deletes`: neither is stored.

use std::collections::HashMap;

use super::deletes::{DELETE, SCAN};
use super::{Report, Sample};

/// Live bytes of the tables of a run.
pub(super) struct Amplification<'a> {
    rows: u32,
    /// With nothing deleted, by writer and mode.
    whole: HashMap<(&'a str, &'a str), u64>,
    /// After a DELETE, by writer, mode, share and place.
    after: HashMap<(&'a str, &'a str, u64, &'a str), u64>,
}

impl<'a> Amplification<'a> {
    /// Of a run.
    pub fn new(r: &'a Report) -> Self {
        let mut me = Self { rows: r.plan.rows, whole: HashMap::new(), after: HashMap::new() };
        for s in &r.samples {
            match (s.what.as_str(), s.percent, s.live_bytes) {
                (SCAN, None, Some(b)) => _ = me.whole.insert((&s.writer, &s.mode), b),
                (DELETE, Some(p), Some(b)) => _ = me.after.insert((&s.writer, &s.mode, p.to_bits(), &s.place), b),
                _ => {}
            }
        }
        me
    }

    /// Of a DELETE: bytes that it added for each byte of its rows' share of the live bytes. Of a scan: bytes read for each live byte of the
    /// table. `None` for others, and where something of it is not known.
    pub fn of(&self, s: &Sample) -> Option<f64> {
        let (writer, mode) = (s.writer.as_str(), s.mode.as_str());
        let whole = self.whole.get(&(writer, mode)).copied();
        let ratio = |a: u64, b: f64| (b > 0.0).then(|| a as f64 / b);
        match (s.what.as_str(), s.percent) {
            (DELETE, Some(_)) => ratio(s.bytes, whole? as f64 * s.rows as f64 / f64::from(self.rows.max(1))),
            (SCAN, None) => ratio(s.usage.read_bytes?, whole? as f64),
            (SCAN, Some(p)) => {
                let live = self.after.get(&(writer, mode, p.to_bits(), s.place.as_str()))?;
                ratio(s.usage.read_bytes?, *live as f64)
            }
            _ => None,
        }
    }
}
