//! The forms of a run beside the page: each checked for what its readers rely on, and kept as a reviewed snapshot.

use std::path::Path;
use std::process::{Command, Output};

use floe_conformance::matrix::result::{Cell, Check, Outcome, Results};
use floe_conformance::report::{self, badge, diff, junit, markdown, terminal};

use super::sample::{FAILED, run};

/// The sample a day later: the failure is mended, a pass is lost, an engine joined and one left.
fn later(before: &Results) -> Results {
    let mut r = before.clone();
    for c in &mut r.cells {
        match (c.scenario.as_str(), c.reader.as_str()) {
            (FAILED, "other") => *c = Cell::of(FAILED, "floe", "other", vec![Check::pass(3, "rows")], 1),
            ("types/floats", "audit") => {
                let k = Check::new(2, "bytes", Outcome::Fail, "1 violations");
                *c = Cell::of("types/floats", "floe", "audit", vec![k], 1);
            }
            _ => {}
        }
    }
    r.cells.retain(|c| (c.scenario.as_str(), c.reader.as_str()) != ("row-level/merge-duplicate-source", "audit"));
    r.engines[1].version = "1.2.4".into();
    r.engines[2].name = "newcomer".into();
    r.catalogs[1].outcome = Outcome::Pass;
    r.stale_deviations = vec!["other 1.2.* reads types/*".into()];
    r
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_is_a_reviewed_snapshot() {
    let r = run().await;
    let changes = diff::text(&r, &later(&r));
    insta::with_settings!({ snapshot_path => "../../../reports/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("form-markdown", markdown::text(&r));
        insta::assert_snapshot!("form-junit", junit::text(&r));
        insta::assert_snapshot!("form-terminal", terminal::text(&r));
        insta::assert_snapshot!("form-badge", badge::svg(&r));
        insta::assert_snapshot!("form-diff", changes);
    });
}

/// An XML element: name, attributes, elements inside, text.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    inside: Vec<Element>,
    text: String,
}

impl Element {
    fn get(&self, name: &str) -> &str {
        self.attributes.iter().find(|a| a.0 == name).map_or_else(|| panic!("{} has no {name}", self.name), |a| &a.1)
    }

    fn number(&self, name: &str) -> usize {
        self.get(name).parse().unwrap_or_else(|_| panic!("{name} of {}", self.name))
    }
}

/// Text with its five entities and character references; a bare `&` or `<`, or a character XML has not, is a fault.
fn unescape(s: &str) -> String {
    assert!(s.chars().all(|c| c >= ' ' || matches!(c, '\n' | '\t' | '\r')), "{s:?} has a control character");
    assert!(!s.contains('<'), "{s:?}");
    let mut parts = s.split('&');
    let mut out = parts.next().unwrap_or_default().to_string();
    for p in parts {
        let (entity, rest) = p.split_once(';').unwrap_or_else(|| panic!("bare & in {s:?}"));
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#10" => '\n',
            other => panic!("entity {other}"),
        });
        out.push_str(rest);
    }
    out
}

/// Reads a document of elements, attributes in double quotes and text; anything else is a fault.
fn xml(document: &str) -> Element {
    let body = document.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap_or(document);
    let mut open = vec![Element::default()];
    let mut rest = body;
    while let Some(i) = rest.find('<') {
        let now = open.last_mut().expect("an element is open");
        now.text += &unescape(&rest[..i]);
        let (tag, after) = rest[i + 1..].split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let done = open.pop().expect("an element is open");
            assert_eq!(done.name, name, "elements nest");
            open.last_mut().expect("an outer element").inside.push(done);
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |t| (t, true));
        let (name, mut left) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut e = Element { name: name.into(), ..Element::default() };
        while !left.trim().is_empty() {
            let (key, after) = left.trim_start().split_once("=\"").expect("an attribute in double quotes");
            let (value, after) = after.split_once('"').expect("its end");
            assert!(!e.attributes.iter().any(|a| a.0 == key), "{key} is there twice");
            e.attributes.push((key.into(), unescape(value)));
            left = after;
        }
        match empty {
            true => open.last_mut().expect("an outer element").inside.push(e),
            false => open.push(e),
        }
    }
    assert!(rest.trim().is_empty() && open.len() == 1, "the document is whole");
    let mut all = open.remove(0).inside;
    assert_eq!(all.len(), 1, "one root");
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn junit_xml_has_the_structure_that_its_readers_expect() {
    let mut r = run().await;
    let dead = Check::new(1, "rows", Outcome::Errored, "no answer\u{1} & <none> \"in\" 2 s");
    r.cells.push(Cell::of("dv/repeated-deletes", "other", "floe", vec![dead], 2000));
    let root = xml(&junit::text(&r));
    assert_eq!(root.name, "testsuites");
    let mut totals = [0; 4];
    for suite in &root.inside {
        assert_eq!(suite.name, "testsuite");
        let name = suite.get("name");
        assert!(name.starts_with("written by ") || name == "catalogs", "{name}");
        let having = |e: &str| suite.inside.iter().filter(|c| c.inside.iter().any(|x| x.name == e)).count();
        let counts = [suite.inside.len(), having("failure"), having("error"), having("skipped")];
        for (i, name) in ["tests", "failures", "errors", "skipped"].iter().enumerate() {
            assert_eq!(suite.number(name), counts[i], "{name} of {}", suite.get("name"));
            totals[i] += counts[i];
        }
        for case in &suite.inside {
            assert_eq!(case.name, "testcase");
            assert!(case.get("time").parse::<f64>().is_ok_and(|t| t >= 0.0));
            assert!(!case.get("classname").is_empty() && !case.get("name").is_empty());
            assert!(case.inside.len() <= 1, "one outcome");
            for o in &case.inside {
                match o.name.as_str() {
                    "failure" | "error" => assert!(!o.get("type").is_empty() && !o.get("message").is_empty()),
                    "skipped" => assert!(!o.get("message").is_empty(), "a skip has a reason"),
                    "system-out" => assert!(o.text.starts_with("accepted, ")),
                    other => panic!("element {other}"),
                }
            }
        }
    }
    for (i, name) in ["tests", "failures", "errors", "skipped"].iter().enumerate() {
        assert_eq!(root.number(name), totals[i], "{name}");
    }
    assert_eq!(totals, [r.cells.len() + r.catalogs.len(), 2, 1, 2]);
    let names: Vec<_> =
        root.inside.iter().flat_map(|s| &s.inside).map(|c| (c.get("classname"), c.get("name"))).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "a case is known by its class and name");
    let failed = root.inside[0].inside.iter().flat_map(|c| &c.inside).find(|o| o.name == "failure").expect("failure");
    assert!(failed.text.contains("expected:\nid int") && failed.text.contains("(5, \"<b>5</b>\")"), "{}", failed.text);
    let errored = root.inside[1].inside[0].inside[0].get("message");
    assert_eq!(errored, "step 1, rows: no answer  & <none> \"in\" 2 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_markdown_have_a_cell_for_each_column_and_badges_are_pictures() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let mut r = run().await;
    r.engines[1].title = "O|ther & <co>".into();
    r.engines[2].command = "a | b".into();
    let text = markdown::text(&r);
    let columns = |l: &str| l.replace("\\|", "").matches('|').count();
    let mut head = None;
    let mut tables = 0;
    for l in text.lines() {
        if !l.starts_with('|') {
            head = None;
            continue;
        }
        tables += usize::from(head.is_none());
        assert_eq!(columns(l), *head.get_or_insert(columns(l)), "{l}");
        assert!(!l.contains("<b>") && !l.contains("<co>"), "{l}");
    }
    assert_eq!(tables, 5, "{text}");

    report::write_all(&r, tmp.path()).expect("reports");
    for (file, says) in [
        ("badge.svg", "floe conformance: 9/11 pass"),
        ("badges/floe.svg", "floe: 9/11 pass"),
        ("badges/other.svg", "other: 0/2 pass"),
    ] {
        let svg = xml(&std::fs::read_to_string(tmp.path().join(file)).expect("badge"));
        assert_eq!((svg.name.as_str(), svg.get("aria-label")), ("svg", says), "{file}");
        let shown: Vec<&str> = svg
            .inside
            .iter()
            .find(|e| e.name == "g")
            .into_iter()
            .flat_map(|g| &g.inside)
            .map(|t| t.text.as_str())
            .collect();
        assert_eq!(shown.join(": "), says, "{file} can be read without its label");
    }
    assert!(!tmp.path().join("badges/absent.svg").exists(), "an engine that took no part has none");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_s_columns_are_straight() {
    let text = terminal::text(&run().await);
    let matrix: Vec<&str> = text.lines().take_while(|l| !l.starts_with("passed/ran")).collect();
    assert!(matrix.len() > 1, "{text}");
    assert!(matrix.iter().all(|l| l.chars().count() == matrix[0].chars().count()), "{text}");
    assert!(text.contains("absent: java is not on the path; to run it: cargo floe conformance"), "{text}");
}

fn floe(folder: &Path, args: &[&str]) -> (i32, String) {
    let run: Output = Command::new(env!("CARGO_BIN_EXE_floe")).args(args).current_dir(folder).output().expect("runs");
    let text = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    (run.status.code().unwrap_or(-1), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn results_read_back_and_the_command_line_tells_two_runs_apart() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let first = run().await;
    let (a, b) = (tmp.path().join("a"), tmp.path().join("b"));
    report::write_all(&first, &a).expect("reports");
    report::write_all(&later(&first), &b).expect("reports");
    // NaN and infinities of a scenario have no form in JSON numbers
    let back = report::read(&a).expect("reads back");
    assert_eq!(back.cells.len(), first.cells.len());

    assert_eq!(floe(tmp.path(), &["report", "diff", "a", "a"]), (0, "no difference\n".into()));
    let (code, text) = floe(tmp.path(), &["report", "diff", "a", "b/results.json"]);
    assert_eq!(code, 1, "{text}");
    for line in [
        "engine other: version 1.2.3 became 1.2.4",
        "engine newcomer is new",
        "engine absent is gone",
        "catalog broken: fail became pass",
        "known deviation no longer seen: other 1.2.* reads types/*",
        "dv/repeated-deletes floe -> other: fail became pass",
        "types/floats floe -> audit: pass became fail",
        "row-level/merge-duplicate-source floe -> audit: gone, was pass",
        "2 verdicts changed (1 pass now, 1 passed before), 0 are new, 1 are gone",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
    let (code, text) = floe(tmp.path(), &["report", "pages", "a", "--out", "again"]);
    assert_eq!(code, 0, "{text}");
    for file in ["report.html", "report.md", "junit.xml", "badge.svg", "matrix.txt", "badges/floe.svg"] {
        let read = |d: &str| {
            std::fs::read_to_string(tmp.path().join(d).join(file)).unwrap_or_else(|e| panic!("{d}/{file}: {e}"))
        };
        assert_eq!(read("a"), read("again"), "{file} is made of the result file alone");
    }
    let (code, text) = floe(tmp.path(), &["report", "show", "a"]);
    assert!(code == 0 && text.contains("not accepted (1):"), "{text}");
    let (code, text) = floe(tmp.path(), &["report", "diff", "a", "nowhere"]);
    assert!(code == 1 && text.contains("cannot read nowhere"), "{text}");
}

/// A reviewed verdict that changes makes a run red until it is accepted.
#[test]
fn a_changed_verdict_fails_the_run_until_it_is_accepted() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(tmp.path().join("scenarios/dv")).expect("folder");
    std::fs::create_dir_all(tmp.path().join("reports")).expect("folder");
    let name = "dv/repeated-deletes.toml";
    std::fs::copy(here.join("../scenarios").join(name), tmp.path().join("scenarios").join(name)).expect("copies");
    let run = |more: &[&str]| {
        let all =
            [&["conformance", "--engines", "floe", "--scenario", "dv/repeated-deletes", "--out", "out"], more].concat();
        floe(tmp.path(), &all)
    };
    let (code, text) = run(&["--accept"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(run(&[]).0, 0, "nothing changed");
    let reviewed = tmp.path().join("reports/matrix.txt");
    let old = std::fs::read_to_string(&reviewed).expect("reviewed").replace("audit pass", "audit fail");
    std::fs::write(&reviewed, old).expect("writes");
    let (code, text) = run(&[]);
    assert_eq!(code, 1, "better than reviewed is a change too: {text}");
    assert!(text.contains("dv/repeated-deletes floe -> audit: fail became pass"), "{text}");
    // what is open in that run is run again, and nothing else
    let smoke = "dv/smoke.toml";
    std::fs::copy(here.join("../scenarios").join(smoke), tmp.path().join("scenarios").join(smoke)).expect("copies");
    let again = ["conformance", "--engines", "floe", "--again", "out", "--out", "again"];
    let (code, text) = floe(tmp.path(), &again);
    assert!(code == 1 && text.contains("dv/repeated-deletes") && !text.contains("dv/smoke"), "{code}: {text}");
    assert_eq!(run(&["--accept"]).0, 0);
    assert_eq!(run(&[]).0, 0, "accepted");
    let (code, text) = floe(tmp.path(), &again);
    assert!(code == 1 && text.contains("every cell was accepted"), "{code}: {text}");
}

#[test]
fn a_run_removes_nothing_that_no_run_made() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let smoke = tmp.path().join("scenarios/dv/smoke.toml");
    std::fs::create_dir_all(smoke.parent().expect("a folder")).expect("folder");
    std::fs::copy(here.join("../scenarios/dv/smoke.toml"), smoke).expect("copies");
    for name in ["warehouse", "engines", "catalogs"] {
        let out = tmp.path().join(format!("with-{name}"));
        std::fs::create_dir_all(out.join(name)).expect("folder");
        std::fs::write(out.join(name).join("mine"), "x").expect("writes");
        let out = out.display().to_string();
        for command in [
            vec!["conformance", "--engines", "floe", "--scenario", "dv/smoke", "--out", &out],
            vec!["bench", "--engines", "floe", "--rows", "10", "--samples", "1", "--out", &out],
        ] {
            let (code, text) = floe(tmp.path(), &command);
            assert!(code == 1 && !text.contains("passed"), "{code}: {text}");
            assert!(Path::new(&out).join(name).join("mine").is_file(), "{command:?}");
        }
    }
    // a run's own folder is made anew
    let args = ["conformance", "--engines", "floe", "--scenario", "dv/smoke", "--out", "out"];
    assert_eq!(floe(tmp.path(), &args).0, 0);
    std::fs::write(tmp.path().join("out/warehouse/left"), "x").expect("writes");
    assert_eq!(floe(tmp.path(), &args).0, 0);
    assert!(!tmp.path().join("out/warehouse/left").exists());
}
