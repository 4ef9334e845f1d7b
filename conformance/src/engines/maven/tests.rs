use super::*;

fn set() -> JarSet {
    let words = |w: &[&str]| w.iter().map(ToString::to_string).collect();
    JarSet {
        into: "lib".into(),
        artifacts: words(&["g:a:1"]),
        boms: words(&["g:root:1"]),
        pins: words(&["p:q:2"]),
        exclude: words(&["x:y"]),
        drop: words(&["spi-"]),
    }
}

#[test]
fn a_project_pins_before_it_imports_and_leaves_out_what_it_must() {
    let text = set().project().expect("well-formed");
    let at = |s: &str| text.find(s).unwrap_or_else(|| panic!("{s} is missing in {text}"));
    assert!(at("<artifactId>q</artifactId>") < at("<artifactId>root</artifactId>"), "the first management wins");
    assert!(at("<scope>import</scope>") < at("<artifactId>a</artifactId>"));
    at("<exclusion><groupId>x</groupId><artifactId>y</artifactId></exclusion>");
    let bad = JarSet { artifacts: vec!["g:a".into()], ..set() };
    assert!(bad.project().is_err_and(|e| e.contains("group:artifact:version")));
}

#[test]
fn a_set_that_is_there_is_not_fetched_again() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    fs::create_dir_all(tmp.path().join("lib")).expect("folder");
    fs::write(tmp.path().join("lib/a-1.jar"), b"jar").expect("file");
    let lock = File::create(tmp.path().join("lock")).expect("file");
    set().fetch(&lock, &Tools::default(), tmp.path(), &|stage| panic!("nothing to do: {stage}")).expect("is there");
    assert_eq!(sizes(&[set()], tmp.path()), BTreeMap::from([("lib/a-1.jar".to_string(), 3)]));
}
