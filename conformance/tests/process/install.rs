//! `floe engines install` killed in the middle leaves nothing half-good, and the next run completes; two at once are safe.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A `python3` of no Python: makes an environment and "installs" one package, slowly while `slow` exists.
const PYTHON: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$1 $2 $3" in
"-m venv "*) mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"; cp "$0" "$3/bin/python"; echo venv >> TOOLS/log;;
"-m pip install")
  echo pip >> TOOLS/log
  site=$here/../lib/python3.11/site-packages
  mkdir -p "$site/x" "$site/x-1.dist-info"
  printf hel > "$site/x/a.py"
  if [ -f TOOLS/slow ]; then touch TOOLS/halfway; while [ -f TOOLS/slow ]; do sleep 0.1; done; exit 1; fi
  printf lo >> "$site/x/a.py"
  printf 'x/a.py,sha256=LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ,5\n' > "$site/x-1.dist-info/RECORD"
  while [ $# -gt 0 ]; do [ "$1" = --report ] && report=$2; shift; done
  echo '{"install":[{"metadata":{"name":"x","version":"1"}}]}' > "$report";;
esac
"#;

fn tools(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join("python3");
    std::fs::write(&path, PYTHON.replace("TOOLS", &dir.display().to_string())).expect("script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn install(dir: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut c = Command::new(env!("CARGO_BIN_EXE_floe"));
    c.args(["engines", "install", "pyiceberg"])
        .env("PATH", format!("{}:{path}", dir.display()))
        .env("FLOE_HOME", dir.join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    c
}

fn listed(dir: &Path) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_floe"))
        .arg("engines")
        .env("FLOE_HOME", dir.join("home"))
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().find(|l| l.starts_with("pyiceberg ")).unwrap_or_default().to_string()
}

#[test]
fn a_killed_installation_is_absent_and_the_next_one_completes_it() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    tools(tmp.path());
    std::fs::write(tmp.path().join("slow"), "").expect("write");
    let mut first = install(tmp.path()).spawn().expect("starts");
    let begin = Instant::now();
    while !tmp.path().join("halfway").exists() {
        assert!(begin.elapsed() < Duration::from_secs(300), "pip was never called");
        std::thread::sleep(Duration::from_millis(20));
    }
    first.kill().expect("kill");
    first.wait().expect("ends");
    assert!(listed(tmp.path()).contains("not installed"), "{}", listed(tmp.path()));
    let next = install(tmp.path()).spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(300));
    let log = std::fs::read_to_string(tmp.path().join("log")).expect("log");
    assert_eq!(log.lines().count(), 2, "the orphan's pip still writes: the next run waits for it");
    std::fs::remove_file(tmp.path().join("slow")).expect("remove");
    let out = next.wait_with_output().expect("ends");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(listed(tmp.path()).contains("present in"), "{}", listed(tmp.path()));
    let log = std::fs::read_to_string(tmp.path().join("log")).expect("log");
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        ["venv", "pip", "venv", "pip"],
        "a half-made environment is made again"
    );
}

#[test]
fn two_processes_that_install_at_once_fetch_once() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    tools(tmp.path());
    let both: Vec<_> = (0..2).map(|_| install(tmp.path()).spawn().expect("starts")).collect();
    for one in both {
        let out = one.wait_with_output().expect("ends");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let log = std::fs::read_to_string(tmp.path().join("log")).expect("log");
    assert_eq!(log.lines().collect::<Vec<_>>(), ["venv", "pip"]);
}

#[test]
fn an_unknown_engine_is_refused_by_the_names_there_are() {
    let out = Command::new(env!("CARGO_BIN_EXE_floe")).args(["engines", "install", "sparc"]).output().expect("runs");
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("sparc") && said.contains("spark35") && said.contains("pyiceberg"), "{said}");
}
