//! What changed between two runs.

use std::fmt::Write as _;

use super::verdicts;
use crate::matrix::result::Results;

/// Differences of verdicts and of the engines that took part, with a count at the end; empty when there are none.
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
    for e in a.engines.iter().filter(|o| !b.engines.iter().any(|e| e.name == o.name)) {
        let _ = writeln!(out, "engine {} is gone", e.name);
    }
    for c in &b.catalogs {
        match a.catalogs.iter().find(|o| o.name == c.name) {
            Some(o) if o.outcome != c.outcome => {
                let _ = writeln!(out, "catalog {}: {} became {}", c.name, o.outcome.word(), c.outcome.word());
            }
            _ => {}
        }
    }
    for (text, now) in [("no longer seen", &b.stale_deviations), ("seen again", &a.stale_deviations)] {
        let other = if text == "seen again" { &b.stale_deviations } else { &a.stale_deviations };
        for d in now.iter().filter(|d| !other.contains(d)) {
            let _ = writeln!(out, "known deviation {text}: {d}");
        }
    }
    let changes = verdicts::changes(&old, &new);
    for line in &changes {
        let _ = writeln!(out, "{line}");
    }
    let name = |k: &verdicts::Key| format!("{} {} -> {}", k.0, k.1, k.2);
    for (k, v) in new.iter().filter(|(k, _)| !old.contains_key(*k)) {
        let _ = writeln!(out, "{}: new, {v}", name(k));
    }
    for (k, v) in old.iter().filter(|(k, _)| !new.contains_key(*k)) {
        let _ = writeln!(out, "{}: gone, was {v}", name(k));
    }
    if !out.is_empty() {
        let ends = |end: &str| changes.iter().filter(|c| c.ends_with(end)).count();
        let better = ends(" became pass");
        let worse = changes.iter().filter(|c| c.contains(": pass became ")).count();
        let (added, gone) = (
            new.keys().filter(|k| !old.contains_key(*k)).count(),
            old.keys().filter(|k| !new.contains_key(*k)).count(),
        );
        let _ = writeln!(
            out,
            "{} verdicts changed ({better} pass now, {worse} passed before), {added} are new, {gone} are gone",
            changes.len()
        );
    }
    out
}
