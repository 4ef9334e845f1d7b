//! What a scenario file must obey beyond its shape.

use super::{AREAS, By, CAPABILITIES, Scenario, model};
use crate::facts::CHANGE_COUNTERS;

/// `Err((step from 1, message))` for the first fault.
pub(super) fn check(s: &Scenario) -> Result<(), (Option<usize>, String)> {
    let whole = |m: String| Err((None, m));
    let Some((area, slug)) = s.id.split_once('/') else {
        return whole(format!("a scenario lies in a folder of its area: {}", AREAS.join(", ")));
    };
    if !AREAS.contains(&area) {
        return whole(format!("unknown area {area:?}; allowed: {}", AREAS.join(", ")));
    }
    if slug.is_empty() || !slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return whole(format!("a file name is lower-case letters, digits and '-'; found {slug:?}"));
    }
    if s.title.trim().is_empty() || s.clauses.is_empty() || s.steps.is_empty() {
        return whole("title, clauses and at least one step are required".into());
    }
    for c in &s.clauses {
        let ok = c.split_once('-').is_some_and(|(family, n)| {
            !family.is_empty()
                && family.chars().all(|c| c.is_ascii_uppercase())
                && n.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-')
                && n.ends_with(|c: char| c.is_ascii_digit())
        });
        if !ok {
            return whole(format!("a clause id looks like DV-21 or META-F03; found {c:?}"));
        }
    }
    features(&s.features).map_err(|m| (None, m))?;
    for (i, step) in s.steps.iter().enumerate() {
        let fault = |m: String| Err((Some(i + 1), m));
        if step.sql.trim().is_empty() == step.damage.is_none() {
            return fault("a step has sql or damage, and not both".into());
        }
        if step.by == By::Reader && sets_session(&step.sql) {
            return fault(
                "the reader's session is also that of its own tables: no USE, SET or view by the reader".into(),
            );
        }
        if step.rows.is_some() && !step.model.is_empty() {
            return fault("rows replaces model: give one of them".into());
        }
        if step.snapshot.is_some() && (step.no_snapshot || step.refused.is_some()) {
            return fault("snapshot contradicts no-snapshot and refused".into());
        }
        if step.refused.is_some() && (step.rows.is_some() || !step.model.is_empty()) {
            return fault("a refused statement changes nothing: no rows or model".into());
        }
        if let Some(facts) = &step.snapshot {
            let known = |k: &String| {
                CHANGE_COUNTERS.contains(&k.as_str()) || k.starts_with("total-") || k.ends_with("-files-size")
            };
            if let Some(k) = facts.summary.keys().find(|k| !known(k)) {
                return fault(format!(
                    "unknown summary counter {k:?}; allowed: {}, total-*, *-files-size",
                    CHANGE_COUNTERS.join(", ")
                ));
            }
            if let Some(op) = &facts.operation
                && !["append", "overwrite", "delete", "replace"].contains(&op.as_str())
            {
                return fault(format!("operation {op:?} is none of append, overwrite, delete, replace"));
            }
        }
        if let Some(after) = step.changes.as_ref().and_then(|c| c.after)
            && (after == 0 || after > i)
        {
            return fault(format!("changes after step {after}: it must come before this one"));
        }
        if let Some(sync) = &step.sync {
            if !["merge-on-read", "copy-on-write"].contains(&sync.mode.as_str()) {
                return fault(format!("sync mode {:?} is none of merge-on-read, copy-on-write", sync.mode));
            }
            if step.damage.is_some() || step.unreadable || step.refused.is_some() {
                return fault("sync needs a table that is whole and was changed".into());
            }
        }
        for q in &step.queries {
            features(&q.features).map_err(|m| (Some(i + 1), m))?;
            if let Some(c) = &q.columns {
                let cols = model::parse_columns(c).map_err(|m| (Some(i + 1), m))?;
                for r in &q.rows {
                    model::encode_row(&cols, r, None).map_err(|m| (Some(i + 1), m))?;
                }
            }
        }
    }
    model::expected_states(s).map(|_| ()).map_err(|m| {
        let step = m.strip_prefix("step ").and_then(|r| r.split(':').next()).and_then(|n| n.parse().ok());
        (step, m)
    })
}

fn features(list: &[String]) -> Result<(), String> {
    match list.iter().find(|f| !CAPABILITIES.iter().any(|(c, _)| c == f)) {
        Some(f) => {
            let all: Vec<_> = CAPABILITIES.iter().map(|c| c.0).collect();
            Err(format!("unknown feature {f:?}; allowed: {}", all.join(", ")))
        }
        None => Ok(()),
    }
}

/// Whether a statement leaves something in the session it runs in.
fn sets_session(sql: &str) -> bool {
    let words: Vec<String> = sql.split_whitespace().take(5).map(str::to_ascii_uppercase).collect();
    let first = words.first().map_or("", String::as_str);
    let view = first == "CREATE" && words.iter().any(|w| w == "VIEW");
    view || matches!(first, "USE" | "SET" | "CACHE")
}
