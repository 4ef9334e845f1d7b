//! What changed between two runs.

use std::fmt::Write as _;

use super::verdicts;
use crate::matrix::result::Results;

/// Differences of verdicts, of reasons where the verdict is the same, and of the engines that took part; empty when there are none.
pub fn text(a: &Results, b: &Results) -> String {
    let (old, new) = (verdicts::of(a), verdicts::of(b));
    let mut out = String::new();
    for e in &b.engines {
        let before = a.engines.iter().find(|o| o.name == e.name);
        match before {
            None => _ = writeln!(out, "engine {} is new", e.name),
            Some(o) if o.version != e.version && o.skipped.is_empty() && e.skipped.is_empty() => {
                _ = writeln!(out, "engine {}: version {} became {}", e.name, o.version, e.version);
            }
            Some(o) if o.skipped.is_empty() != e.skipped.is_empty() => {
                let state = |s: &str| {
                    if s.is_empty() { "ran".to_string() } else { format!("was skipped ({s})") }
                };
                _ = writeln!(out, "engine {}: {} and now {}", e.name, state(&o.skipped), state(&e.skipped));
            }
            Some(_) => {}
        }
    }
    for line in verdicts::changes(&old, &new) {
        let _ = writeln!(out, "{line}");
    }
    let name = |k: &verdicts::Key| format!("{} {} -> {}", k.0, k.1, k.2);
    for (k, v) in new.iter().filter(|(k, _)| !old.contains_key(*k)) {
        let _ = writeln!(out, "{}: new, {v}", name(k));
    }
    for (k, v) in old.iter().filter(|(k, _)| !new.contains_key(*k)) {
        let _ = writeln!(out, "{}: gone, was {v}", name(k));
    }
    out
}
