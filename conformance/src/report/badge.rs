//! Badges: the share of cells that pass, of a run and of each engine in it.

use super::Tally;
use super::junit::escape;
use crate::matrix::result::{Cell, Results};

/// Badge of the whole run.
pub fn svg(r: &Results) -> String {
    draw("floe conformance", r.cells.iter(), r.green())
}

/// Badge of an engine: the cells it wrote or read.
pub fn of_engine(r: &Results, engine: &str) -> String {
    let own = || r.cells.iter().filter(|c| c.writer == engine || c.reader == engine);
    draw(engine, own(), own().all(|c| c.accepted))
}

/// Two fields, a name and the share; the colour says what the text says.
fn draw<'a>(name: &str, cells: impl Iterator<Item = &'a Cell>, green: bool) -> String {
    let t = Tally::of(cells);
    let share = if t.ran() == 0 { "not run".to_string() } else { format!("{}/{} pass", t.pass, t.ran()) };
    let colour = if t.ran() == 0 {
        "#6b7280"
    } else if green {
        "#15803d"
    } else {
        "#b91c1c"
    };
    // about 7 units a letter at this size
    let (left, right) = (14 + 7 * name.chars().count(), 14 + 7 * share.len());
    let width = left + right;
    let name = escape(name);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"{name}: {share}\">\
         <rect width=\"{width}\" height=\"20\" rx=\"3\" fill=\"#374151\"/>\
         <path d=\"M{left} 0h{}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{}z\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\">\
         <text x=\"{}\" y=\"14\">{name}</text><text x=\"{}\" y=\"14\">{share}</text></g></svg>\n",
        right - 3,
        right - 3,
        left / 2,
        left + right / 2
    )
}
