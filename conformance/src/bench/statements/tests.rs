//! Which samples a target is made of.

use super::super::{Contender, Plan, Report, Sample, Usage};
use super::text;

fn report(modes: &[&str], samples: Vec<Sample>) -> Report {
    let engine = |name: &str| Contender { name: name.into(), version: String::new(), iceberg: String::new() };
    Report {
        schema: 1,
        floe: "0".into(),
        machine: "m".into(),
        plan: Plan { rows: 100, samples: 1, modes: modes.iter().map(ToString::to_string).collect(), ..Plan::default() },
        engines: ["floe", "spark35", "duckdb", "polars"].map(engine).to_vec(),
        absent: vec![],
        samples,
    }
}

/// Cold and warm samples of a call of `engine` on the table of `writer`.
fn samples(what: &str, engine: &str, writer: &str, seconds: Option<f64>, peak: f64) -> [Sample; 2] {
    [0, 1].map(|round| Sample {
        what: what.into(),
        engine: engine.into(),
        writer: writer.into(),
        mode: "merge-on-read".into(),
        round,
        seconds: seconds.map(|s| if round == 0 { s * 9.0 } else { s }),
        usage: Usage { peak_mib: Some(peak), ..Usage::default() },
        ..Sample::default()
    })
}

#[test]
fn targets_are_of_warm_medians_on_the_table_that_floe_wrote() {
    let all = [
        samples("insert", "floe", "floe", Some(1.0), 9999.0),
        samples("scan narrow, no deletes", "floe", "floe", Some(1.0), 50.0),
        samples("scan narrow, no deletes", "floe", "spark35", Some(0.1), 50.0),
        samples("scan narrow, 2 % deleted", "floe", "floe", Some(1.2), 60.0),
        samples("scan narrow, no deletes", "spark35", "floe", Some(6.0), 400.0),
        samples("scan narrow, no deletes", "duckdb", "floe", Some(2.0), 1.0),
        samples("scan narrow, no deletes", "polars", "floe", Some(0.5), 1.0),
        samples("scan narrow, 2 % deleted", "polars", "floe", None, 1.0),
        samples("scan narrow, 2 % deleted", "duckdb", "floe", Some(2.4), 1.0),
        samples("delete 1 %", "floe", "floe", Some(1.0), 100.0),
        samples("delete 1 %", "spark35", "spark35", Some(4.9), 500.0),
        samples("merge 1 %", "floe", "floe", Some(1.0), 100.0),
        samples("merge 1 %", "spark35", "spark35", Some(3.5), 500.0),
    ];
    let lines = text(&report(&["merge-on-read"], all.concat()));
    for (name, end) in [
        ("scan narrow, 2 % deleted: time over", "1.20 <= 1.1x missed"),
        ("scan wide, 2 % deleted: time over", "- <= 1.1x not measured"),
        ("scan narrow, no deletes: polars, the fastest other / floe", "0.50 >= 1x missed"),
        ("scan narrow, no deletes: spark35 / floe", "6.00 >= 5x met"),
        ("scan narrow, 2 % deleted: duckdb, the fastest other / floe", "2.00 >= 1x met"),
        ("scan narrow, 2 % deleted: spark35 / floe", "- >= 5x not measured"),
        ("delete 1 %: spark35 / floe", "4.90 >= 5x missed"),
        ("update 1 %: spark35 / floe", "- >= 5x not measured"),
        ("merge 1 %: spark35 / floe", "3.50 >= 3x met"),
        ("peak memory in any call after the load: floe / spark35", "0.20 <= 0.25x met"),
    ] {
        let line = lines.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        assert!(line.ends_with(end), "{name}: {line:?}\n{lines}");
    }
    assert!(!lines.contains("scan wide, no deletes: duckdb"), "what nobody else did is no target: {lines}");
}

#[test]
fn other_modes_have_no_targets() {
    assert_eq!(text(&report(&["copy-on-write"], vec![])), "");
}
