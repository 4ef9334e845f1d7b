//! Known advisories of what is built. Their database is no package of a registry, so its facts (which versions of which package are
//! affected) lie in `advisories.tsv`, taken from a checkout of it by [`take_advisories`].

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};

use super::built;

/// Advisories that are known and lived with, and why.
const ACCEPTED: &[(&str, &str)] = &[
    ("RUSTSEC-2024-0436", "paste is unmaintained: a macro at build time, brought by parquet and DataFusion"),
    (
        "RUSTSEC-2026-0194",
        "quick-xml reads the answers of the store that the user's configuration names, through object_store 0.13, the release that \
         DataFusion 53 takes; the cost is the user's own store slowing the user down",
    ),
    ("RUSTSEC-2026-0195", "as RUSTSEC-2026-0194"),
];

/// Which versions of a package an advisory is about.
struct Advisory<'a> {
    id: &'a str,
    package: &'a str,
    /// `vulnerability`, `unsound`, `unmaintained` or `notice`.
    kind: &'a str,
    patched: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
}

impl<'a> Advisory<'a> {
    fn parse(line: &'a str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, package, kind, patched, unaffected] = fields[..] else {
            return Err(format!("{line:?} has {} fields and not 5", fields.len()));
        };
        let ranges = |text: &str| {
            text.split(';')
                .filter(|r| !r.is_empty())
                .map(|r| VersionReq::parse(r).map_err(|e| format!("{id}: {r:?}: {e}")))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { id, package, kind, patched: ranges(patched)?, unaffected: ranges(unaffected)? })
    }

    /// Whether a version has the fault. A range says nothing of pre-releases that it does not name: those have it.
    fn affects(&self, version: &Version) -> bool {
        !self.patched.iter().chain(&self.unaffected).any(|r| r.matches(version))
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dependencies/advisories.tsv")
}

/// Advisories that speak of `name` at `version`.
fn speak_of<'a>(all: &'a [Advisory<'a>], name: &str, version: &Version) -> Vec<&'a Advisory<'a>> {
    all.iter().filter(|a| a.package == name && a.affects(version)).collect()
}

/// Names and versions of a workspace that is not built here, from its lock file.
fn locked(lock: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(lock);
    let lock: toml::Table = std::fs::read_to_string(&path).expect("a lock file").parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    let word = |p: &toml::Value, key: &str| p[key].as_str().expect("text").to_string();
    packages.iter().map(|p| format!("{} v{}", word(p, "name"), word(p, "version"))).collect()
}

#[test]
fn no_dependency_has_an_advisory_that_nobody_judged() {
    let text = std::fs::read_to_string(file()).expect("the facts");
    let all: Result<Vec<Advisory<'_>>, String> =
        text.lines().filter(|l| !l.starts_with('#')).map(Advisory::parse).collect();
    let all = all.expect("lines of five fields");
    assert!(all.len() > 800, "{} advisories", all.len());
    let (mut faults, mut met) = (Vec::new(), Vec::new());
    let mut lines = built(&["normal,build,dev", "--workspace"]);
    // what only the cluster has; a lock file also names what no feature builds, so what both have is judged by what is built here
    let here = locked("../Cargo.lock");
    lines.extend(locked("../cluster/Cargo.lock").into_iter().filter(|p| !here.contains(p)));
    for line in lines.iter().filter(|l| !l.is_empty()) {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let at = Version::parse(version.trim_start_matches('v')).expect("Cargo's versions are semantic ones");
        for a in speak_of(&all, name, &at) {
            if ACCEPTED.iter().any(|(id, _)| *id == a.id) {
                met.push(a.id);
            } else {
                faults.push(format!("{name} {version}: {} ({})", a.id, a.kind));
            }
        }
    }
    assert!(faults.is_empty(), "raise the version, or judge it in ACCEPTED:\n{}", faults.join("\n"));
    for (id, why) in ACCEPTED {
        assert!(met.contains(id), "{id} speaks of nothing that is built any more; take it out ({why})");
    }
}

#[test]
fn versions_are_judged_by_their_ranges() {
    let lines = "A\tx\tvulnerability\t>= 1.2.0, < 2.0.0;>= 2.1.0\t< 0.5.0\nB\tx\tunmaintained\t\t";
    let all: Vec<Advisory<'_>> = lines.lines().map(|l| Advisory::parse(l).unwrap()).collect();
    let ids =
        |v: &str| -> Vec<&str> { speak_of(&all, "x", &Version::parse(v).unwrap()).iter().map(|a| a.id).collect() };
    for (version, speak) in [
        ("0.4.9", &["B"][..]),
        ("0.5.0", &["A", "B"]),
        ("1.1.9", &["A", "B"]),
        ("1.2.0", &["B"]),
        ("2.0.5", &["A", "B"]),
        ("2.1.0", &["B"]),
    ] {
        assert_eq!(ids(version), speak, "{version}");
    }
    assert!(speak_of(&all, "y", &Version::new(1, 0, 0)).is_empty());
    assert!(Advisory::parse("A\tx\tvulnerability\tone\t").is_err());
}

/// Writes the facts anew from a checkout of the database in `FLOE_ADVISORY_DB` (`just advisories FOLDER`).
#[test]
#[ignore = "it writes the kept facts, from a checkout of the database"]
fn take_advisories() {
    let db = PathBuf::from(std::env::var_os("FLOE_ADVISORY_DB").expect("FLOE_ADVISORY_DB: a checkout of the database"));
    let mut lines = Vec::new();
    let mut newest = String::new();
    for package in std::fs::read_dir(db.join("crates")).expect("its folder `crates`") {
        for entry in std::fs::read_dir(package.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let head = text.strip_prefix("```toml").and_then(|t| t.split("```").next()).unwrap_or_default();
            let head: toml::Table = head.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let advisory = &head["advisory"];
            if advisory.get("withdrawn").is_some() {
                continue;
            }
            let word = |key: &str| advisory.get(key).and_then(|v| v.as_str()).map(str::to_string);
            let ranges = |key: &str| {
                let list = head.get("versions").and_then(|v| v.get(key)).and_then(|v| v.as_array());
                list.map(|l| l.iter().filter_map(|r| r.as_str()).collect::<Vec<_>>().join(";")).unwrap_or_default()
            };
            newest = newest.max(word("date").unwrap_or_default());
            lines.push(format!(
                "{}\t{}\t{}\t{}\t{}",
                word("id").unwrap(),
                word("package").unwrap(),
                word("informational").unwrap_or_else(|| "vulnerability".into()),
                ranges("patched"),
                ranges("unaffected")
            ));
        }
    }
    lines.sort();
    let mut out =
        format!("# id, package, kind, patched, unaffected; of the RustSec advisory database, newest of {newest}\n");
    lines.iter().for_each(|l| _ = writeln!(out, "{l}"));
    std::fs::write(file(), out).unwrap();
}
