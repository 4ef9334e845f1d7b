//! Checks of a step's metadata facts, made by the harness on the raw metadata of whoever wrote it.

use serde_json::Value;

use super::result::{Check, Outcome};
use crate::facts::{CHANGE_COUNTERS, TableState};
use crate::scenario::Step;

/// Checks all facts that `step` states; `before` is the state before it. Of a writer that does not commit as Spark does
/// (`exact` is false) only what the format fixes: that there is metadata, and the format version.
pub(super) fn check(
    n: usize,
    step: &Step,
    before: Option<&TableState>,
    after: Option<&TableState>,
    exact: bool,
) -> Vec<Check> {
    let mut out = Vec::new();
    let Some(after) = after else {
        if step.snapshot.is_some() || step.table.is_some() || step.files.is_some() {
            out.push(Check::new(n, "metadata", Outcome::Fail, "the table has no metadata"));
        }
        return out;
    };
    if !exact {
        if step.no_snapshot || step.snapshot.is_some() || step.files.is_some() {
            let why = "the writer does not say that it commits as Spark does";
            out.push(Check::new(n, "snapshot and files", Outcome::Skipped, why));
        }
        if let Some(v) = step.table.as_ref().and_then(|t| t.format_version) {
            let mut wrong = Wrong::default();
            wrong.compare("format-version", Some(v.to_string()), text(&after.json["format-version"]));
            out.push(wrong.check(n, "table metadata"));
        }
        return out;
    }
    let was = before.map_or(0, |b| b.snapshots().len());
    if step.no_snapshot && after.snapshot_id() != before.and_then(TableState::snapshot_id) {
        out.push(Check::new(n, "no snapshot", Outcome::Fail, "a snapshot was made and none was expected"));
    } else if step.no_snapshot {
        out.push(Check::pass(n, "no snapshot"));
    }
    if let Some(want) = &step.snapshot {
        match after.snapshot() {
            Some(_) if after.snapshot_id() == before.and_then(TableState::snapshot_id) => {
                out.push(Check::new(n, "snapshot", Outcome::Fail, "no snapshot was made"));
            }
            Some(_) if after.snapshots().len() > was + 1 => out.push(Check::new(
                n,
                "snapshot",
                Outcome::Fail,
                format!("{} snapshots were made, one was expected", after.snapshots().len() - was),
            )),
            None => out.push(Check::new(n, "snapshot", Outcome::Fail, "the table has no current snapshot")),
            Some(s) => {
                let mut wrong = Wrong::default();
                let summary = &s["summary"];
                if let Some(op) = &want.operation {
                    wrong.compare("operation", Some(op.clone()), text(&summary["operation"]));
                }
                for (k, v) in &want.summary {
                    wrong.compare(k, Some(v.to_string()), text(&summary[k]));
                }
                if want.exact && !want.summary.is_empty() {
                    for k in CHANGE_COUNTERS.iter().filter(|k| !want.summary.contains_key(**k)) {
                        // zero and absent say the same
                        wrong.compare(k, None, text(&summary[*k]).filter(|v| v != "0"));
                    }
                }
                if let Some(v) = want.first_row_id {
                    wrong.compare("first-row-id", Some(v.to_string()), text(&s["first-row-id"]));
                }
                if let Some(v) = want.added_rows {
                    wrong.compare("added-rows", Some(v.to_string()), text(&s["added-rows"]));
                }
                out.push(wrong.check(n, "summary"));
            }
        }
    }
    if let Some(want) = &step.table {
        let mut wrong = Wrong::default();
        let stated = [("format-version", want.format_version), ("next-row-id", want.next_row_id)];
        for (k, v) in stated.into_iter().filter_map(|(k, v)| v.map(|v| (k, v))) {
            wrong.compare(k, Some(v.to_string()), text(&after.json[k]));
        }
        if let Some(v) = want.snapshots {
            wrong.compare("snapshots", Some(v.to_string()), Some(after.snapshots().len().to_string()));
        }
        out.push(wrong.check(n, "table metadata"));
    }
    if let Some(want) = &step.files {
        let mut wrong = Wrong::default();
        for (end, v) in [(".puffin", want.puffin), (".parquet", want.parquet)] {
            if let Some(v) = v {
                wrong.compare(
                    &format!("new {end} files"),
                    Some(v.to_string()),
                    Some(after.new_files(before, end).to_string()),
                );
            }
        }
        out.push(wrong.check(n, "files"));
    }
    out
}

fn text(v: &Value) -> Option<String> {
    match v {
        Value::Null => None,
        Value::String(s) => Some(s.clone()),
        other => Some(other.to_string()),
    }
}

/// Facts that differ, gathered into one check.
#[derive(Default)]
struct Wrong {
    expected: Vec<String>,
    got: Vec<String>,
    reasons: Vec<String>,
}

impl Wrong {
    fn compare(&mut self, key: &str, want: Option<String>, got: Option<String>) {
        if want != got {
            let word = |v: Option<String>| v.unwrap_or_else(|| "absent".into());
            let (want, got) = (word(want), word(got));
            self.reasons.push(format!("{key} is {got}, expected {want}"));
            self.expected.push(format!("{key} = {want}"));
            self.got.push(format!("{key} = {got}"));
        }
    }

    fn check(self, n: usize, what: &str) -> Check {
        if self.reasons.is_empty() {
            return Check::pass(n, what);
        }
        let mut c = Check::new(n, what, Outcome::Fail, self.reasons.join("; "));
        c.expected = self.expected.join("\n");
        c.got = self.got.join("\n");
        c
    }
}
