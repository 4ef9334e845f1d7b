//! A gate against slower code that noise cannot move: instructions of the codec, the delete index and planning, counted by valgrind in
//! the profile of the tests, against the reviewed counts of `reports/instructions.txt`. More than 5 % above fails; so does far below,
//! for the next regression would hide in it. `FLOE_ACCEPT=instructions` takes the new counts (`just accept-instructions`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_instructions");
/// Share by which a count may change.
const THRESHOLD: f64 = 0.05;
/// Changes of fewer instructions are those of the allocator and of hash seeds.
const SLACK: u64 = 20_000;
const HEAD: &str = "# Instructions of one call in the profile of the tests, by valgrind; `just accept-instructions` takes new ones, for review.";

fn reviewed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/instructions.txt")
}

fn first_line(command: &str) -> Option<String> {
    let out = Command::new(command).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).lines().next()?.trim().to_string())
}

fn ok(out: std::io::Result<Output>, what: &str) -> String {
    let out = out.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// Instructions of each work: the first dump is the set-up's, every other one a work's.
fn counts(folder: &Path, works: usize) -> Vec<u64> {
    let out = folder.join("callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--dump-before=*work_begins*"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    ok(valgrind.args([PROGRAM, "run"]).arg(folder).output(), "valgrind");
    let total = |n: usize| {
        let file = folder.join(format!("callgrind.{n}"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let line = text.lines().find_map(|l| l.strip_prefix("totals:")).expect("a total");
        line.trim().parse::<u64>().expect("a number")
    };
    (0..works).map(|i| total(i + 2)).collect()
}

/// Counts by work, and what they were counted with.
fn parse(text: &str) -> (String, BTreeMap<&str, u64>) {
    let with = text.lines().find_map(|l| l.strip_prefix("with ")).unwrap_or_default().to_string();
    let counts = text.lines().filter_map(|l| l.rsplit_once(": ")).filter_map(|(w, n)| Some((w, n.parse().ok()?)));
    (with, counts.collect())
}

/// What changed too much, one line each.
fn changed(old: &BTreeMap<&str, u64>, new: &[(String, u64)]) -> Vec<String> {
    let mut out: Vec<String> =
        old.keys().filter(|w| !new.iter().any(|n| n.0 == **w)).map(|w| format!("{w}: is gone")).collect();
    for (work, n) in new {
        match old.get(work.as_str()) {
            None => out.push(format!("{work}: has no reviewed count; now {n}")),
            Some(o) => {
                let share = (*n as f64 - *o as f64) / *o as f64;
                if share.abs() > THRESHOLD && n.abs_diff(*o) > SLACK {
                    out.push(format!("{work}: {o} became {n} ({:+.1} %)", share * 100.0));
                }
            }
        }
    }
    out
}

#[test]
fn no_instruction_count_grew() {
    let (Some(valgrind), Some(rustc)) = (first_line("valgrind"), first_line("rustc")) else {
        eprintln!("skipped: valgrind cannot be run here (Debian: apt-get install valgrind)");
        return;
    };
    let with = format!("{}, {}, {valgrind}", rustc.split(" (").next().unwrap_or_default(), std::env::consts::ARCH);
    let folder = tempfile::tempdir().expect("a folder");
    ok(Command::new(PROGRAM).arg("make").arg(folder.path()).output(), "the table");
    let names = ok(Command::new(PROGRAM).arg("names").output(), "names");
    let names: Vec<&str> = names.lines().collect();
    let new: Vec<(String, u64)> =
        names.iter().map(ToString::to_string).zip(counts(folder.path(), names.len())).collect();

    let mut text = format!("{HEAD}\nwith {with}\n");
    for (work, n) in &new {
        let _ = writeln!(text, "{work}: {n}");
    }
    println!("{text}");
    if std::env::var("FLOE_ACCEPT").is_ok_and(|v| v == "instructions") {
        std::fs::write(reviewed(), text).expect("the reviewed counts");
        return;
    }
    let old = std::fs::read_to_string(reviewed()).expect("reports/instructions.txt");
    let (counted_with, old) = parse(&old);
    if counted_with != with {
        eprintln!(
            "skipped: the reviewed counts were made with {counted_with}, here is {with}: other code, other counts"
        );
        return;
    }
    let changed = changed(&old, &new);
    assert!(
        changed.is_empty(),
        "instructions changed by more than 5 %; `just accept-instructions` takes them:\n{}",
        changed.join("\n")
    );
}

#[test]
fn growth_beyond_the_threshold_is_told() {
    let old = parse("# head\nwith rustc\na: 1000000\nb: 1000000\nc: 100\ngone: 5\n").1;
    let new = [("a", 1_049_000), ("b", 1_051_000), ("c", 300), ("new", 7)].map(|(w, n)| (w.to_string(), n));
    let told = changed(&old, &new);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].starts_with("gone")
            && told[1].contains("b: 1000000 became 1051000 (+5.1 %)")
            && told[2].starts_with("new")
    );
    assert_eq!(changed(&old, &[("a".into(), 900_000)]).len(), 4, "far below is told too");
}
