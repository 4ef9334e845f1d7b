//! A badge: the share of cells that pass.

use super::Tally;
use crate::matrix::result::Results;

/// An SVG of two fields, `floe conformance` and the share.
pub fn svg(r: &Results) -> String {
    let t = Tally::of(r.cells.iter());
    let share = if t.ran() == 0 { "not run".to_string() } else { format!("{}/{} pass", t.pass, t.ran()) };
    let colour = if t.ran() == 0 {
        "#6b7280"
    } else if r.green() {
        "#15803d"
    } else {
        "#b91c1c"
    };
    let (left, right) = (118, 14 + 7 * share.len());
    let width = left + right;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"floe conformance: {share}\">\
         <rect width=\"{width}\" height=\"20\" rx=\"3\" fill=\"#374151\"/>\
         <path d=\"M{left} 0h{}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{}z\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\">\
         <text x=\"{}\" y=\"14\">floe conformance</text><text x=\"{}\" y=\"14\">{share}</text></g></svg>\n",
        right - 3,
        right - 3,
        left / 2,
        left + right / 2
    )
}
