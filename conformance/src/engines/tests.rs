use super::*;

#[test]
fn registry_is_well_formed_and_its_drivers_are_embedded() {
    let all = registry();
    for e in &all {
        assert_eq!(all.iter().filter(|o| o.name == e.name).count(), 1, "{} is there twice", e.name);
        let script = SCRIPTS.iter().any(|(n, _)| *n == e.driver);
        let java = e.driver.is_empty() && e.java.is_some();
        assert!(script || java || !e.unavailable.is_empty(), "{}: driver {:?} is not embedded", e.name, e.driver);
        for source in e.java.iter().flat_map(|j| &j.sources) {
            assert!(java::SOURCES.iter().any(|(n, _)| n == source), "{}: {source} is not embedded", e.name);
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
