//! One self-contained HTML page with its data inside: usable from disk, nothing loaded from elsewhere.

use std::collections::BTreeMap;

use minijinja::{Environment, context};
use serde_json::json;

use super::{FIGURES, Tally, axis};
use crate::bench::{charts, reviewed};
use crate::matrix::result::Results;
use crate::scenario::CAPABILITIES;

const PAGE: &str = include_str!("page.html.j2");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const CLAUSES: &str = include_str!("../../clauses.tsv");

/// What a clause says, by id.
pub fn clauses() -> BTreeMap<&'static str, &'static str> {
    CLAUSES.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('\t')).collect()
}

/// The page; the error is a fault of the template.
pub fn page(r: &Results) -> Result<String, String> {
    let (writers, readers) = (axis(r, |c| &c.writer), axis(r, |c| &c.reader));
    let words = clauses();
    let used: BTreeMap<&str, &str> = r
        .scenarios
        .iter()
        .flat_map(|s| &s.clauses)
        .filter_map(|c| words.get_key_value(c.as_str()).map(|(k, v)| (*k, *v)))
        .collect();
    let mut data = serde_json::to_value(r).map_err(|e| e.to_string())?;
    data["clauses"] = json!(used);
    data["capabilities"] = json!(CAPABILITIES.iter().map(|c| c.0).collect::<Vec<_>>());
    data["figures_note"] = json!(FIGURES);
    let measured = reviewed();
    data["cost"] = json!({
        "machine": measured.machine,
        "rows": measured.plan.rows,
        "engines": measured.engines.iter().map(|e| format!("{} {}", e.name, e.version)).collect::<Vec<_>>(),
        "charts": charts::charts(&measured)?,
    });
    // `</script>` inside the data would end it
    let text = data.to_string().replace('<', "\\u003c");
    let grid: Vec<_> = writers
        .iter()
        .map(|w| {
            let cells: Vec<String> = readers
                .iter()
                .map(|n| {
                    let t = Tally::of(r.cells.iter().filter(|c| c.writer == *w && c.reader == *n));
                    format!("{}/{}", t.pass, t.ran())
                })
                .collect();
            context! { writer => w, cells => cells }
        })
        .collect();
    let t = Tally::of(r.cells.iter());
    let mut env = Environment::new();
    env.add_template("page.html", PAGE).map_err(|e| e.to_string())?;
    env.get_template("page.html")
        .and_then(|p| {
            p.render(context! { data => text, style => STYLE, script => SCRIPT, readers, grid, passed => t.pass, ran => t.ran() })
        })
        .map_err(|e| e.to_string())
}
