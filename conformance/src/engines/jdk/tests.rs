use super::*;

fn jdk(dir: &Path, name: &str, version: &str) -> PathBuf {
    let home = dir.join(name);
    std::fs::create_dir_all(home.join("bin")).expect("folder");
    std::fs::write(home.join("bin/javac"), "").expect("file");
    std::fs::write(home.join("release"), format!("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"{version}\"\n")).expect("file");
    home
}

#[test]
fn the_oldest_release_that_will_do_is_taken_from_beside_the_default() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let default = jdk(tmp.path(), "default", "17.0.13");
    jdk(tmp.path(), "old", "1.8.0_402");
    let wanted = jdk(tmp.path(), "twenty-five", "25.0.1");
    jdk(tmp.path(), "later", "26-ea");
    std::fs::create_dir_all(tmp.path().join("99-runtime-only/bin")).expect("folder");
    assert_eq!(among(&[default.clone()], 25), Some(wanted));
    assert_eq!(among(&[default.clone()], 17), Some(default.clone()));
    assert_eq!(among(&[default], 27), None);
}
