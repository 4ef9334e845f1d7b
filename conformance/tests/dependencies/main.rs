//! What the project is built of: licences, sources and known advisories of every dependency that is built.

mod advisories;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Licences under which a dependency may be part of the program; `WITH` exceptions only widen them.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met with [`ALLOWED`]. `/` is the older spelling of OR.
fn allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> bool {
    let mut met = all(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at);
    }
    met
}

fn all(words: &[&str], at: &mut usize) -> bool {
    let mut met = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at);
    }
    met
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    let mut name = (*word).to_string();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

#[test]
fn expressions_are_judged_as_spdx_means_them() {
    for yes in
        ["MIT", "MIT OR GPL-3.0", "GPL-2.0/Apache-2.0", "(MIT OR GPL-3.0) AND ISC", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(allowed(yes), "{yes}");
    }
    for no in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT Apache-2.0", "AGPL-3.0 OR (MIT AND LGPL-3.0)"] {
        assert!(!allowed(no), "{no}");
    }
}

/// Packages of the lock file that this platform builds.
fn packages() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc").stdout;
    let host = String::from_utf8_lossy(&host).lines().find_map(|l| l.strip_prefix("host: ").map(str::to_string));
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host.expect("a host")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    // a platform's packages are those of the resolved graph
    let nodes = all["resolve"]["nodes"].as_array().expect("a graph");
    let built: BTreeSet<&str> = nodes.iter().filter_map(|n| n["id"].as_str()).collect();
    let list = all["packages"].as_array().expect("packages");
    list.iter().filter(|p| p["id"].as_str().is_some_and(|id| built.contains(id))).cloned().collect()
}

#[test]
fn every_dependency_is_licensed_for_use_and_comes_from_the_registry() {
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let mut faults = Vec::new();
    for p in packages.iter().filter(|p| !p["source"].is_null()) {
        let what = format!("{} {}", p["name"].as_str().unwrap_or_default(), p["version"].as_str().unwrap_or_default());
        let licence = p["license"].as_str().unwrap_or_default();
        if !allowed(licence) {
            faults.push(format!("{what}: licence {licence:?}"));
        }
        if !p["source"].as_str().unwrap_or_default().starts_with("registry+") {
            faults.push(format!("{what}: source {}", p["source"]));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `package features` of what a command builds.
fn built(of: &[&str]) -> BTreeSet<String> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges"])
        .args(of)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).lines().map(|l| l.trim_end_matches(" (*)").to_string()).collect()
}

/// What `cargo test --workspace` compiled serves `cargo floe`: no dependency is built with other features.
#[test]
fn the_program_and_the_tests_share_every_dependency() {
    let tests = built(&["normal,build,dev", "--workspace"]);
    let program = built(&["normal,build", "--package", "floe-conformance"]);
    let twice: Vec<_> = program.difference(&tests).collect();
    assert!(program.len() > 100 && twice.is_empty(), "compiled twice: {twice:#?}");
}
