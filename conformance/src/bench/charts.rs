//! Charts of a run of the workload `deletes`, as SVG without colours of a page: what is drawn in `currentColor` follows light and dark.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use minijinja::{Environment, context};
use plotters::prelude::*;
use serde::Serialize;

use super::costs::{deletes, median, scans};
use super::deletes::{BY_SIZE, CLUSTERED, Cut, DELETE, DELETE_BY_SIZE, SCAN, SCAN_BY_SIZE, SCATTERED, SMALL_DELETE};
use super::{EQUALITY_DELETES, POSITION_DELETES, Report, Sample, table};

const PAGE: &str = include_str!("charts.html.j2");
const STYLE: &str = include_str!("../report/page.css");
/// Small, for text that stays legible when a phone shrinks it.
const SIZE: (u32, u32) = (440, 330);
/// Drawn in this, and then renamed to what the page's text has.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_CODE: &str = "#010203";
/// Share of the height that a line of the legend takes; the curves lie below it.
const LEGEND: f64 = 0.07;
/// Told apart by people who do not tell red from green, and on light and dark.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 120, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(170, 140, 20),
    RGBColor(213, 94, 0),
    RGBColor(130, 130, 130),
];

/// A chart of the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// `<svg>…</svg>`.
    pub svg: String,
    /// The same in words, for who cannot see it.
    pub table: String,
}

/// A line of a chart; both axes are logarithmic, so what is not above zero is left out.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    /// Of each point, drawn as the size of its mark; empty when nothing is.
    bytes: Vec<f64>,
}

impl Curve {
    fn new(name: String, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut points: Vec<_> = points.into_iter().filter(|p| p.0 > 0.0 && p.1 > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { name, points, bytes: Vec::new() }
    }
}

/// Modes as a chart calls them, in the order of colours.
const MODES: [(&str, &str); 4] = [
    ("merge-on-read", "deletion vectors"),
    (POSITION_DELETES, "V2 position deletes"),
    ("copy-on-write", "copy-on-write"),
    (EQUALITY_DELETES, "equality deletes"),
];

/// All charts that the run has measurements for.
///
/// # Errors
/// The drawing library's, in words.
pub fn charts(r: &Report) -> Result<Vec<Chart>, String> {
    let mut out = Vec::new();
    // who writes one mode only is compared with the others, below
    let both = |e: &&super::Contender| {
        !deletes(r, &e.name, "copy-on-write").is_empty() && !deletes(r, &e.name, "merge-on-read").is_empty()
    };
    for e in r.engines.iter().filter(both) {
        for place in [SCATTERED, CLUSTERED] {
            let of = |points: Vec<(String, f64, super::costs::Point)>| {
                points.into_iter().filter(|p| p.0 == place).map(|p| (p.1, p.2.seconds)).collect::<Vec<_>>()
            };
            let writes = MODES.map(|(mode, name)| Curve::new(name.into(), of(deletes(r, &e.name, mode))));
            out.extend(chart(
                &format!("{}: what a DELETE costs, rows {place}", e.name),
                "Lower is better. Copy-on-write writes every touched file anew; the others write which rows are gone.",
                ["deleted rows, % of the table", "seconds, warm median"],
                &writes,
            )?);
            let mut reads: Vec<Curve> =
                MODES.iter().map(|(mode, name)| Curve::new((*name).into(), of(scans(r, &e.name, mode)))).collect();
            let whole = median(
                r.samples
                    .iter()
                    .filter(|s| s.engine == e.name && s.writer == e.name && s.what == SCAN && s.percent.is_none()),
            );
            if let (Some(w), Some(first)) = (whole, reads.first()) {
                let line = first.points.iter().map(|p| (p.0, w)).collect::<Vec<_>>();
                reads.push(Curve::new("nothing deleted".into(), line));
            }
            out.extend(chart(
                &format!("{}: a scan after it, rows {place}", e.name),
                "Lower is better. Dead rows are read and left out until a compaction; copy-on-write has none.",
                ["deleted rows, % of the table", "seconds, warm median"],
                &reads,
            )?);
        }
        out.extend(break_even(r, &e.name)?);
        out.extend(trade(r, &e.name)?);
    }
    for (mode, name) in MODES {
        out.extend(peers(r, mode, name)?);
    }
    out.extend(small(r)?);
    out.extend(by_size(r)?);
    Ok(out)
}

/// How many scans a DELETE must be followed by before having written copy-on-write costs less.
fn break_even(r: &Report, engine: &str) -> Result<Option<Chart>, String> {
    let curves: Vec<Curve> = [SCATTERED, CLUSTERED]
        .into_iter()
        .map(|place| {
            let by = |points: Vec<(String, f64, super::costs::Point)>| {
                points
                    .into_iter()
                    .filter(|p| p.0 == place)
                    .map(|p| (p.1.to_bits(), p.2.seconds))
                    .collect::<BTreeMap<_, _>>()
            };
            let (mw, cw) = (by(deletes(r, engine, "merge-on-read")), by(deletes(r, engine, "copy-on-write")));
            let (mr, cr) = (by(scans(r, engine, "merge-on-read")), by(scans(r, engine, "copy-on-write")));
            let points = mw.iter().filter_map(|(p, m)| {
                let saved = cw.get(p)? - m;
                let paid = mr.get(p)? - cr.get(p)?;
                // copy-on-write that is cheaper to write needs no scan; one that is not cheaper to read never pays
                (saved > 0.0 && paid > 0.0).then(|| (f64::from_bits(*p), saved / paid))
            });
            Curve::new(place.into(), points)
        })
        .collect();
    chart(
        &format!("{engine}: scans of one DELETE's table until copy-on-write has paid"),
        "Below the line deletion vectors cost less together with the scans, above it copy-on-write does. Where there is no point, deletion \
         vectors cost less with any number of scans, or noise is greater than the difference.",
        ["deleted rows, % of the table", "scans"],
        &curves,
    )
}

/// Write cost against read cost; a point a share, as large as the bytes that it added.
fn trade(r: &Report, engine: &str) -> Result<Option<Chart>, String> {
    let curves = MODES.map(|(mode, name)| {
        let reads: BTreeMap<(String, u64), f64> =
            scans(r, engine, mode).into_iter().map(|(place, p, point)| ((place, p.to_bits()), point.seconds)).collect();
        let mut points: Vec<_> = deletes(r, engine, mode)
            .into_iter()
            .filter(|(place, _, _)| place == SCATTERED)
            .filter_map(|(place, p, point)| {
                let of = |s: &&Sample| s.engine == engine && s.mode == mode && s.what == DELETE && s.place == place;
                let added = r.samples.iter().filter(of).find(|s| s.percent == Some(p) && s.bytes > 0)?.bytes;
                Some((point.seconds, *reads.get(&(place, p.to_bits()))?, added as f64))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bytes = points.iter().map(|p| p.2).collect();
        Curve { bytes, ..Curve::new(name.into(), points.into_iter().map(|p| (p.0, p.1))) }
    });
    chart(
        &format!("{engine}: cost of writing against cost of reading"),
        "A point a share of scattered rows, 0.001 to 50 %, ten times the bytes written a step larger. What lies further down and to the left \
         costs less of both.",
        ["seconds of the DELETE", "seconds of a scan after it"],
        &curves,
    )
}

/// DELETEs of every engine in its own tables of a mode, and scans of floe's table of it.
fn peers(r: &Report, mode: &str, called: &str) -> Result<Vec<Chart>, String> {
    let curves = |of: &dyn Fn(&str, &Sample) -> bool| {
        let one = |e: &super::Contender| {
            let mut shares: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
            for s in r.samples.iter().filter(|s| s.place == SCATTERED && s.mode == mode && of(&e.name, s)) {
                shares.entry(s.percent.unwrap_or_default().to_bits()).or_default().push(s);
            }
            let points = shares.into_iter().filter_map(|(p, s)| Some((f64::from_bits(p), median(s.into_iter())?)));
            Curve::new(e.name.clone(), points)
        };
        r.engines.iter().map(one).filter(|c| !c.points.is_empty()).collect::<Vec<_>>()
    };
    let axes = ["deleted rows, % of the table", "seconds, warm median"];
    let mut out = Vec::new();
    let writes = curves(&|e, s| s.what == DELETE && s.engine == e);
    let reads = curves(&|e, s| s.what == SCAN && s.engine == e && s.writer == "floe");
    if writes.len() > 1 {
        let note = "Lower is better. Each engine deletes scattered rows from a table of its own; all began with the same files.";
        out.extend(chart(&format!("All engines: a DELETE, {called}"), note, axes, &writes)?);
    }
    if reads.len() > 1 {
        let note = "Lower is better. All engines read the table in which floe deleted scattered rows.";
        out.extend(chart(&format!("All engines: a scan after it, {called}"), note, axes, &reads)?);
    }
    Ok(out)
}

/// Seconds by the number of rows, 1 % of them deleted: of the run's own size too.
fn by_size(r: &Report) -> Result<Vec<Chart>, String> {
    let percent = Cut { one_in: BY_SIZE, clustered: false }.percent();
    let mut out = Vec::new();
    for (sized, own, title, note) in [
        (
            DELETE_BY_SIZE,
            DELETE,
            "A DELETE of 1 % scattered rows, by size of the table",
            "Deletion vectors, each engine in a table of its own.",
        ),
        (
            SCAN_BY_SIZE,
            SCAN,
            "A scan after it, by size of the table",
            "All engines read the table in which floe deleted.",
        ),
    ] {
        let one = |e: &super::Contender| {
            let mut sizes: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
            for s in r.samples.iter().filter(|s| s.engine == e.name && s.mode == "merge-on-read") {
                let at_own =
                    s.what == own && s.place == SCATTERED && s.percent.is_some_and(|p| (p - percent).abs() < 1e-9);
                if (s.what == sized || at_own) && (own == DELETE || s.writer == "floe") {
                    sizes.entry(if at_own { r.plan.rows } else { s.table_rows }).or_default().push(s);
                }
            }
            let points = sizes.into_iter().filter_map(|(n, s)| Some((f64::from(n), median(s.into_iter())?)));
            Curve::new(e.name.clone(), points)
        };
        // a single size shows no growth
        let curves: Vec<Curve> = r.engines.iter().map(one).filter(|c| c.points.len() > 1).collect();
        out.extend(chart(
            title,
            &format!("Lower and flatter is better. {note}"),
            ["rows of the table", "seconds, warm median"],
            &curves,
        )?);
    }
    Ok(out)
}

/// Seconds of small deletes one after the other.
fn small(r: &Report) -> Result<Option<Chart>, String> {
    let mut curves: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for s in r.samples.iter().filter(|s| s.what == SMALL_DELETE) {
        let mode = MODES.iter().find(|m| m.0 == s.mode).map_or(s.mode.as_str(), |m| m.1);
        let points = curves.entry((s.engine.clone(), mode.to_string())).or_default();
        points.extend(s.seconds.map(|t| (f64::from(s.round), t)));
    }
    let curves: Vec<Curve> = curves.into_iter().map(|((e, m), p)| Curve::new(format!("{e}, {m}"), p)).collect();
    chart(
        "Many small deletes one after the other",
        "Each deletes 0.01 % of the rows, scattered. A line that rises says that what was deleted before is paid for again.",
        ["small delete number", "seconds"],
        &curves,
    )
}

/// Draws curves over logarithmic axes; `None` when there is nothing to draw.
fn chart(title: &str, note: &str, axes: [&str; 2], curves: &[Curve]) -> Result<Option<Chart>, String> {
    let drawn: Vec<&Curve> = curves.iter().filter(|c| !c.points.is_empty()).collect();
    let all = || drawn.iter().flat_map(|c| c.points.iter().copied());
    // `above` = room over the points, as a share of their span
    let span = |of: fn((f64, f64)) -> f64, above: f64| {
        let (low, high) = all().map(of).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        low / 1.3..high * 1.3 * (high / low).powf(above)
    };
    if drawn.is_empty() {
        return Ok(None);
    }
    let legend = LEGEND * (drawn.len() + 1) as f64;
    let mut svg = String::new();
    draw(&mut svg, span(|p| p.0, 0.0), span(|p| p.1, legend / (1.0 - legend).max(0.3)), axes, &drawn)
        .map_err(|e| format!("chart {title:?}: {e}"))?;
    let mut table = String::new();
    for c in &drawn {
        let bytes = |i: usize| c.bytes.get(i).map_or_else(String::new, |b| format!(" ({} MB added)", short(b / 1e6)));
        let points: Vec<String> =
            c.points.iter().enumerate().map(|(i, p)| format!("{}: {}{}", short(p.0), short(p.1), bytes(i))).collect();
        let _ = writeln!(table, "{} ({} → {}): {}", c.name, axes[0], axes[1], points.join(", "));
    }
    Ok(Some(Chart { title: title.into(), note: note.into(), svg: svg.replace(INK_CODE, "currentColor"), table }))
}

/// Three digits that count.
fn short(v: f64) -> String {
    let digits = (2 - v.abs().log10().floor() as i32).clamp(0, 6);
    let text = format!("{v:.*}", usize::try_from(digits).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Radius of a mark, a step for ten times the bytes from a kilobyte on.
fn mark(bytes: f64) -> i32 {
    (2.0 * (bytes / 100.0).max(1.0).log10()).round() as i32
}

fn draw(
    svg: &mut String,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    axes: [&str; 2],
    curves: &[&Curve],
) -> Result<(), Box<dyn std::error::Error>> {
    {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        chart
            .configure_mesh()
            .axis_style(INK.mix(0.6))
            .bold_line_style(INK.mix(0.15))
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 15, &INK))
            .axis_desc_style(("sans-serif", 16, &INK))
            .x_desc(axes[0])
            .y_desc(axes[1])
            .x_label_formatter(&|v| short(*v))
            .y_label_formatter(&|v| short(*v))
            .draw()?;
        for (i, c) in curves.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let size = if c.points.len() > 20 { 0 } else { 3 };
            let line = LineSeries::new(c.points.iter().copied(), colour.stroke_width(2)).point_size(size);
            let marks = c.points.iter().zip(&c.bytes).map(|(p, b)| Circle::new(*p, mark(*b), colour.filled()));
            chart.draw_series(marks)?;
            chart
                .draw_series(line)?
                .label(&c.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 15, &INK))
            .border_style(INK.mix(0.2))
            .draw()?;
        root.present()?;
    }
    Ok(())
}

/// A self-contained page of a run: its charts and its table.
///
/// # Errors
/// A fault of the template, or the drawing library's.
pub fn page(r: &Report) -> Result<String, String> {
    let charts = charts(r)?;
    let mut env = Environment::new();
    env.add_template("bench.html", PAGE).map_err(|e| e.to_string())?;
    env.get_template("bench.html")
        .and_then(|p| {
            p.render(context! { style => STYLE, charts, text => table::text(r), machine => r.machine, floe => r.floe })
        })
        .map_err(|e| e.to_string())
}
