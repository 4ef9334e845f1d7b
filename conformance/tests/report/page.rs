//! The page as people meet it: opened from disk in Chromium, by permalink, on a desktop and on a phone, light and dark.

use floe_conformance::matrix::result::{Cell, Check, EngineRow, Outcome, Results};
use floe_conformance::report;

use super::browser::Browser;
use super::sample::{FAILED, SCENARIOS, run};

/// Every page, as a permalink.
fn places() -> Vec<(&'static str, String)> {
    vec![
        ("overview", String::new()),
        ("scenarios", "#/scenarios?area=dv".into()),
        ("scenario", format!("#/scenario/{FAILED}?writer=floe&reader=other&step=3")),
        ("engines", "#/engines".into()),
        ("engine", "#/engine/other".into()),
        ("open", "#/open".into()),
        ("catalogs", "#/catalogs".into()),
        ("catalog", "#/catalog/broken".into()),
        ("cost", "#/cost".into()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_from_disk_in_a_browser() {
    let Some(b) = Browser::start().await else { return };
    let tmp = tempfile::tempdir().expect("temporary folder");
    let results = run().await;
    report::write_all(&results, tmp.path()).expect("reports");
    let page = format!("file://{}", tmp.path().join("report.html").display());
    let pictures = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-page");
    std::fs::create_dir_all(&pictures).expect("folder");

    for (device, width) in [("desktop", 1280), ("phone", 390)] {
        let mut grounds = Vec::new();
        for (scheme, dark) in [("light", false), ("dark", true)] {
            b.look(width, 900, dark).await;
            for (name, place) in places() {
                b.open(&format!("{page}{place}")).await;
                let at = format!("{name} on a {device}, {scheme}");
                assert_eq!(b.complaints().await, Vec::<String>::new(), "{at}");
                let wide = b.js("return document.documentElement.scrollWidth - innerWidth").await;
                assert_eq!(wide, 0, "{at} scrolls sideways");
                let small = b.js(SMALLEST).await;
                assert!(small.as_f64().is_some_and(|px| px >= 11.0), "{at}: text of {small} px");
                let faint = b.js(FAINTEST).await;
                assert!(faint[0].as_f64().is_some_and(|r| r >= 4.5), "{at}: contrast of {faint}");
                b.picture(&pictures.join(format!("{name}-{device}-{scheme}.png"))).await;
            }
            grounds.push(b.js("return getComputedStyle(document.body).backgroundColor").await);
        }
        assert_ne!(grounds[0], grounds[1], "the scheme of the system is followed");
    }
    b.look(1280, 900, false).await;
    overview(&b, &page).await;
    scenario(&b, &page).await;
    filters(&b, &page).await;
    engine_and_nowhere(&b, &page).await;
    catalogs(&b, &page).await;
    cost(&b, &page).await;
    assert_eq!(b.complaints().await, Vec::<String>::new());
    b.close().await;
}

/// Size of the smallest text, in CSS pixels.
const SMALLEST: &str = "return Math.min(...[...document.querySelectorAll('body *')].filter(e => e.offsetParent && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => parseFloat(getComputedStyle(e).fontSize)))";

/// The lowest contrast of text and ground by WCAG's formula, and the text.
const FAINTEST: &str = r#"
const parts = c => c.match(/[\d.]+/g).map(Number);
const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0.99) return c.slice(0, 3); } return [255, 255, 255]; };
let worst = [99, ""];
for (const e of document.querySelectorAll("body *")) {
  if (!e.offsetParent || ["OPTION", "SCRIPT"].includes(e.tagName) || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
  const back = ground(e), alpha = parseFloat(getComputedStyle(e).opacity), fore = parts(getComputedStyle(e).color).slice(0, 3).map((v, i) => v * alpha + back[i] * (1 - alpha));
  const [a, b] = [light(fore), light(back)].sort((x, y) => y - x), r = (a + 0.05) / (b + 0.05);
  if (r < worst[0]) worst = [r, e.textContent.trim().slice(0, 40)];
}
return worst;"#;

async fn overview(b: &Browser, page: &str) {
    b.open(page).await;
    assert_eq!(b.text("h1").await, "Who can share a table with whom");
    let cells = b
        .js("return [...document.querySelectorAll('.grid')][0].innerText.replace(/\\s+/g, ' ')")
        .await
        .as_str()
        .unwrap_or_default()
        .to_string();
    // a sign, the share and the counts: readable without colour
    assert!(cells.contains("floe ✓ 100 % 3/3 ✓ 100 % 3/3 ✓ 100 % 3/3 ✗ 0 % 0/2"), "{cells}");
    assert!(b.text("main").await.contains("java is not on the path"), "an absent engine says why");
    b.click(".grid td.bad a").await;
    assert_eq!(b.js("return location.hash").await, "#/scenarios?writer=floe&reader=other");
    assert_eq!(b.count("#found tbody tr").await, 3);
    // only scenarios that need a feature
    b.open(&format!("{page}#/?feature=merge")).await;
    assert!(b.text(".numbers a.pass").await.contains('3'), "one scenario, three that passed");
    b.open(&format!("{page}#/?rows=feature")).await;
    assert!(b.text("main").await.contains("Feature and reader"));
}

async fn scenario(b: &Browser, page: &str) {
    b.open(&format!("{page}#/scenario/{FAILED}?writer=floe&reader=other")).await;
    assert!(b.text(".box").await.contains("✗ fail"));
    assert!(b.text(".box").await.contains("1 row too many"));
    assert_eq!(b.text(".have mark").await.trim(), "(5, \"<b>5</b>\")", "what only one side has is marked, and is text");
    assert_eq!(b.count(".want mark").await, 0);
    let side = b.js("const [a, b] = ['.want', '.have'].map(c => document.querySelector(c).getBoundingClientRect()); return a.top === b.top && a.right <= b.left").await;
    assert_eq!(side, true, "expected and got are side by side");
    let text = b.text("main").await;
    assert!(text.contains("At most one DV per data file per snapshot"), "DV-2 in words");
    assert!(text.contains(&format!("cargo floe conformance --scenario {FAILED} --engines floe,other")), "one command");
    b.click("#step-3 > a").await;
    assert_eq!(b.count(".step.here").await, 1);
    let hash = b.js("return location.hash").await;
    assert!(hash.as_str().is_some_and(|h| h.ends_with("reader=other&step=3")), "a step has a permalink: {hash}");
    b.click(".turn a").await;
    assert_eq!(b.text(".box").await.split(' ').next(), Some("○"), "the next scenario keeps the cell");
}

async fn filters(b: &Browser, page: &str) {
    b.open(&format!("{page}#/scenarios?state=bad")).await;
    assert_eq!(b.count("#found tbody tr").await, 1);
    assert!(b.text("#found").await.contains(FAILED));
    b.open(&format!("{page}#/scenarios")).await;
    assert_eq!(b.count("#found tbody tr").await, SCENARIOS.len() as u64);
    b.type_into("input[type=search]", "floats").await;
    assert_eq!(b.count("#found tbody tr").await, 1);
    assert_eq!(b.js("return location.hash").await, "#/scenarios?text=floats", "what is typed is in the address");
    b.type_into("input[type=search]", "zzz").await;
    assert_eq!(b.count("#found tbody tr").await, 0);
    assert!(b.text("#found .empty").await.contains("No scenario fits"));
    b.js("const s = document.querySelector('select[data-key=area]'); s.value = 'dv'; s.dispatchEvent(new Event('change', {bubbles: true}))").await;
    assert_eq!(b.js("return location.hash").await, "#/scenarios?text=floatszzz&area=dv");
    b.open(&format!("{page}#/open")).await;
    let text = b.text("main").await;
    assert!(text.contains("1 row too many") && text.contains("it has none (other/other#1)"), "{text}");
    assert!(!text.contains("declares no merge"), "a skip is no failure");
}

async fn engine_and_nowhere(b: &Browser, page: &str) {
    b.open(&format!("{page}#/engine/other")).await;
    assert_eq!(b.text("h1").await, "Other 1.2.3");
    assert!(b.text("main").await.contains("It reads the tables of"));
    for nowhere in ["#/scenario/no/such", "#/engine/none", "#/elsewhere", "#/scenario/%E0%A4%A"] {
        b.open(&format!("{page}{nowhere}")).await;
        assert!(b.text("h1").await.starts_with("No such"), "{nowhere}");
        assert_eq!(b.count(".empty a").await, 1, "{nowhere} leads on");
    }
    b.open(page).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        b.click("#theme").await;
        seen.push(b.text("#theme").await);
    }
    assert_eq!(seen, ["Light", "Dark", "Auto"]);
}

async fn cost(b: &Browser, page: &str) {
    b.open(page).await;
    b.click("nav a[data-page=cost]").await;
    assert!(b.text("#main").await.contains("floe: what a DELETE costs, rows scattered"));
    // two of cost and two of scans, the break-even and the trade for floe; small deletes
    assert!(b.count("figure svg").await >= 7);
    assert!(b.count("figure svg polyline").await >= 14, "curves");
    let ink = b.js("return getComputedStyle(document.querySelector('figure svg text')).fill").await;
    assert_eq!(
        ink,
        b.js("return getComputedStyle(document.querySelector('#main')).color").await,
        "text follows light and dark"
    );
}

async fn catalogs(b: &Browser, page: &str) {
    b.open(page).await;
    assert!(
        b.text("main").await.contains("needs an account & its keys"),
        "the overview lists the skipped with the reason"
    );
    b.click("nav a[data-page=catalogs]").await;
    assert_eq!(b.text("h1").await, "Catalogs");
    let text = b.text("main table").await;
    for said in ["✓ pass", "2 checks in 0.5 s", "✗ fail", "○ skipped", "--catalogs elsewhere"] {
        assert!(text.contains(said), "{said} in {text}");
    }
    b.click("tbody tr:nth-child(2) a").await;
    assert_eq!(b.text("h1").await, "Catalog broken");
    assert_eq!(b.text(".have mark").await.trim(), "<b>7</b>");
    assert_eq!(b.js("return document.querySelector('nav a[aria-current]').dataset.page").await, "catalogs");
    b.open(&format!("{page}#/catalog/none")).await;
    assert_eq!(b.text("h1").await, "No such catalog");
    b.open(&format!("{page}#/open")).await;
    assert!(b.text("main").await.contains("catalog broken: step 2"), "a catalog that fails is among what did not pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_many_engines_and_one_of_nothing_are_legible() {
    let Some(b) = Browser::start().await else { return };
    let tmp = tempfile::tempdir().expect("temporary folder");
    let small = run().await;
    let mut many = Results { engines: vec![], scenarios: vec![], cells: vec![], ..small.clone() };
    for i in 0..16 {
        let name = format!("engine-{i:02}");
        many.engines.push(EngineRow { title: name.clone(), name, ..small.engines[0].clone() });
    }
    for i in 0..120 {
        let mut s = small.scenarios[0].clone();
        s.id = format!("dv/case-{i:03}");
        for w in &many.engines {
            for r in &many.engines {
                let bad = (i + w.name.len() + r.name.bytes().map(usize::from).sum::<usize>()) % 37 == 0;
                let o = if bad { Outcome::Fail } else { Outcome::Pass };
                many.cells.push(Cell::of(&s.id, &w.name, &r.name, vec![Check::new(2, "rows", o, "why")], 1));
            }
        }
        many.scenarios.push(s);
    }
    let nothing = Results { engines: vec![], scenarios: vec![], cells: vec![], ..small };
    for (name, results, widest) in [("many", &many, 1280), ("nothing", &nothing, 390)] {
        let dir = tmp.path().join(name);
        report::write_all(results, &dir).expect("reports");
        let page = format!("file://{}", dir.join("report.html").display());
        for width in [390, 1280] {
            b.look(width, 900, false).await;
            for place in ["", "#/scenarios", "#/engines", "#/open", "#/scenario/dv/case-001"] {
                b.open(&format!("{page}{place}")).await;
                assert_eq!(b.complaints().await, Vec::<String>::new(), "{name} {place}");
                let wide = b.js("return document.documentElement.scrollWidth - innerWidth").await;
                assert_eq!(wide, 0, "{name} {place} at {width} scrolls sideways");
            }
        }
        b.look(widest, 900, false).await;
        b.open(&page).await;
        b.picture(&std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.png"))).await;
        match name {
            "many" => {
                // 16 columns fit a laptop's window
                let hidden =
                    b.js("const s = document.querySelector('.scroll'); return s.scrollWidth - s.clientWidth").await;
                assert_eq!(hidden, 0);
                b.open(&format!("{page}#/open")).await;
                assert_eq!(b.count("main tbody tr").await, 200, "a long list is cut");
                b.click("main p a").await;
                assert!(b.count("main tbody tr").await > 200, "and shown whole when asked");
            }
            _ => assert_eq!(b.text(".empty").await, "No cell ran."),
        }
    }
    b.close().await;
}
