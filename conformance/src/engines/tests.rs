use super::*;

#[test]
fn registry_is_well_formed_and_its_drivers_are_embedded() {
    let all = registry();
    for e in &all {
        assert_eq!(all.iter().filter(|o| o.name == e.name).count(), 1, "{} is there twice", e.name);
        let script = e.driver == OWN || SCRIPTS.iter().any(|(n, _)| *n == e.driver);
        let java = e.driver.is_empty() && e.java.is_some();
        assert!(script || java || !e.unavailable.is_empty(), "{}: driver {:?} is not embedded", e.name, e.driver);
        for source in e.java.iter().flat_map(|j| &j.sources) {
            assert!(java::SOURCES.iter().any(|(n, _)| n == source), "{}: {source} is not embedded", e.name);
        }
        if !e.shares.is_empty() {
            let other = find(&e.shares).expect("the engine whose folder it shares");
            assert_eq!((&e.pip, &e.maven), (&other.pip, &other.maven), "{}: another recipe", e.name);
        }
        assert!(e.pip.iter().all(|p| p.contains("==")), "{}: pip packages must be pinned", e.name);
        assert!(e.maven.iter().all(|m| m.split(':').count() >= 3), "{}: artifacts need a version", e.name);
    }
}

#[test]
fn a_missing_program_and_an_old_one_are_reasons() {
    assert_eq!(lacks("floe-no-such-program"), Some("floe-no-such-program is not on the path".into()));
    let old = lacks("cargo>=999").expect("no cargo 999");
    assert!(old.contains("older than 999"), "{old}");
    assert_eq!(lacks("cargo>=1"), None);
}

#[test]
fn an_engine_without_downloads_installs_once_and_a_spoilt_one_again() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let home = Home::at(tmp.path());
    let engine: Engine = toml::from_str("name='x'\ntitle='x'\nversion='1'\ndriver='spark.py'").expect("engine");
    assert!(installed(&engine, &home).is_none());
    let done = install(&engine, &home, &|_| {}).expect("nothing to download");
    assert_eq!(installed(&engine, &home), Some(done.clone()));
    std::fs::write(done.dir.join("jars/extra.jar"), b"spoilt").expect("write");
    assert!(installed(&engine, &home).is_none(), "a changed jar must be noticed");
    install(&engine, &home, &|_| {}).expect("installs again");
    assert!(!done.dir.join("jars/extra.jar").exists());
}

/// Programs that stand for Python with pip and for Maven. `$0.log` gets a line a call; a file `$0.cut` makes them die in
/// the middle of their work, once.
fn fake_tools(dir: &std::path::Path) -> Tools {
    let python = r#"#!/bin/sh
here=$(dirname "$0")
log=TOOLS/python.log
cut=TOOLS/python.cut
case "$1 $2 $3" in
"-m venv "*) mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"; cp "$0" "$3/bin/python"; echo venv >> $log;;
"-m pip install")
  echo pip >> $log
  site=$here/../lib/python3.11/site-packages
  mkdir -p "$site/x" "$site/x-1.dist-info"
  printf hello > "$site/x/a.py"
  printf meta > "$site/x-1.dist-info/METADATA"
  if [ -f $cut ]; then rm $cut; printf hel > "$site/x/a.py"; echo "cut off" >&2; exit 1; fi
  printf 'x/a.py,sha256=LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ,5\nx-1.dist-info/RECORD,,\n' > "$site/x-1.dist-info/RECORD"
  while [ $# -gt 0 ]; do [ "$1" = --report ] && report=$2; shift; done
  echo '{"install":[{"metadata":{"name":"x","version":"1"},"download_info":{"archive_info":{"hashes":{"sha256":"00ff"}}}}]}' > "$report";;
esac
"#;
    let mvn = r#"#!/bin/sh
for a in "$@"; do case "$a" in -Dartifact=*) artifact=${a#*=};; -DoutputDirectory=*) out=${a#*=};; esac; done
echo "$artifact" >> TOOLS/mvn.log
file=$(echo "$artifact" | cut -d: -f2)-$(echo "$artifact" | cut -d: -f3).jar
mkdir -p "$out"
if [ -f TOOLS/mvn.cut ]; then rm TOOLS/mvn.cut; printf ha > "$out/$file"; echo "cut off" >&2; exit 1; fi
printf hello > "$out/$file"
"#;
    let write = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.join(name);
        std::fs::write(&path, text.replace("TOOLS", &dir.display().to_string())).expect("script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path.display().to_string()
    };
    Tools { python: write("python", python), mvn: write("mvn", mvn) }
}

fn fetched() -> Engine {
    toml::from_str("name='x'\ntitle='x'\nversion='1'\ndriver='spark.py'\npip=['x==1']\nmaven=['g:a:1','g:b:2']")
        .expect("engine")
}

fn calls(dir: &std::path::Path, log: &str) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join(log)).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// SHA-256 of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[test]
fn an_installation_cut_off_at_any_stage_is_absent_until_the_next_run_completes_it() {
    for cut in ["python.cut", "mvn.cut"] {
        let tmp = tempfile::tempdir().expect("temporary folder");
        let (tools, home, engine) = (fake_tools(tmp.path()), Home::at(tmp.path()), fetched());
        std::fs::write(tmp.path().join(cut), "").expect("write");
        let why = install_with(&tools, &engine, &home, &|_| {}).expect_err("cut off");
        assert!(why.contains("cut off"), "{why}");
        assert!(installed(&engine, &home).is_none());
        let done = install_with(&tools, &engine, &home, &|_| {}).expect("completes");
        assert_eq!(installed(&engine, &home), Some(done.clone()));
        for whole in ["jars/a-1.jar", "jars/b-2.jar", "venv/lib/python3.11/site-packages/x/a.py"] {
            assert_eq!(std::fs::read(done.dir.join(whole)).expect(whole), b"hello", "{cut}: {whole}");
        }
        assert_eq!(done.packages, ["x==1 --hash=sha256:00ff"]);
        assert_eq!(done.sha256["jars/a-1.jar"], HELLO);
        let twice = cut == "python.cut";
        let stages = ["venv", "pip", "venv", "pip"];
        assert_eq!(calls(tmp.path(), "python.log"), stages[..if twice { 4 } else { 2 }], "finished stages are kept");
        assert_eq!(calls(tmp.path(), "mvn.log").len(), if twice { 2 } else { 3 });
    }
}

#[test]
fn two_installations_at_once_wait_for_each_other_and_fetch_once() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let (tools, home, engine) = (fake_tools(tmp.path()), Home::at(tmp.path()), fetched());
    let dirs: Vec<_> = std::thread::scope(|s| {
        let one = || install_with(&tools, &engine, &home, &|_| {}).expect("installs").dir;
        let all: Vec<_> = (0..4).map(|_| s.spawn(one)).collect();
        all.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert!(dirs.iter().all(|d| *d == dirs[0]));
    assert_eq!(calls(tmp.path(), "python.log"), ["venv", "pip"]);
    assert_eq!(calls(tmp.path(), "mvn.log"), ["g:a:1", "g:b:2"]);
}

#[test]
fn what_is_not_as_recorded_is_noticed_and_made_again() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let (tools, home, engine) = (fake_tools(tmp.path()), Home::at(tmp.path()), fetched());
    let dir = install_with(&tools, &engine, &home, &|_| {}).expect("installs").dir;
    for spoil in [
        "jars/a-1.jar",
        "venv/lib/python3.11/site-packages/x/a.py",
        "venv/lib/python3.11/site-packages/x-1.dist-info/RECORD",
    ] {
        std::fs::write(dir.join(spoil), "spoilt").expect("write");
        assert!(installed(&engine, &home).is_none(), "{spoil}");
        install_with(&tools, &engine, &home, &|_| {}).expect("installs again");
        assert!(installed(&engine, &home).is_some(), "{spoil}");
    }
    std::fs::remove_file(dir.join("venv/lib/python3.11/site-packages/x/a.py")).expect("remove");
    assert!(installed(&engine, &home).is_none(), "a missing file");
}

#[test]
fn a_jar_of_another_hash_than_pinned_is_refused() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let (tools, home, mut engine) = (fake_tools(tmp.path()), Home::at(tmp.path()), fetched());
    engine.sha256.insert("b-2.jar".into(), "00".repeat(32));
    let why = install_with(&tools, &engine, &home, &|_| {}).expect_err("another hash");
    assert!(why.contains("b-2.jar") && why.contains(HELLO), "{why}");
    assert!(installed(&engine, &home).is_none());
    engine.sha256.insert("b-2.jar".into(), HELLO.into());
    install_with(&tools, &engine, &home, &|_| {}).expect("the pinned hash");
}
