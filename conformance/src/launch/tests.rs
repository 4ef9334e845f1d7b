use std::time::Duration;

use super::*;

#[test]
fn an_engine_s_variable_wins_over_the_common_one_and_that_over_the_declared_image() {
    let none = |_: &str| None;
    let any = |n: &str| (n == "FLOE_IMAGE").then(|| "any:1".to_string());
    let own = |n: &str| Some(if n == "FLOE_IMAGE_MY_ENGINE" { "own:1" } else { "any:1" }.to_string());
    assert_eq!(pick("my-engine", "declared:1", none), Ok("declared:1".into()));
    assert_eq!(pick("my-engine", "declared:1", any), Ok("any:1".into()));
    assert_eq!(pick("my-engine", "declared:1", own), Ok("own:1".into()));
    let why = pick("my-engine", "", none).expect_err("no image");
    assert!(why.contains("FLOE_IMAGE_MY_ENGINE"), "{why}");
    assert!(pick("x", "a@sha256:00", none).is_err());
}

#[test]
fn an_image_s_tag_is_told_from_a_port() {
    assert_eq!(name_and_tag("apache/spark:3.5.9"), ("apache/spark", "3.5.9"));
    assert_eq!(name_and_tag("trino"), ("trino", "latest"));
    assert_eq!(name_and_tag("host:5000/trino"), ("host:5000/trino", "latest"));
    assert_eq!(name_and_tag("host:5000/trino:1"), ("host:5000/trino", "1"));
}

#[test]
fn a_driver_gets_the_image_s_python_with_the_installed_packages_and_its_folders() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let dir = tmp.path().join("engine");
    let packages = dir.join("venv/lib/python3.11/site-packages");
    std::fs::create_dir_all(&packages).expect("folder");
    let launch = Launch {
        name: "x".into(),
        command: vec![dir.join("venv/bin/python").display().to_string(), "driver.py".into()],
        env: vec![("FLOE_ENGINE_DIR".into(), dir.display().to_string())],
        scratch: tmp.path().join("scratch"),
        warehouse: tmp.path().join("warehouse"),
        catalog: "ice".into(),
        rest: None,
        start_timeout: Duration::from_secs(1),
        step_timeout: Duration::from_secs(1),
    };
    let i = inside(&launch);
    assert_eq!(i.command, ["python3", "driver.py"]);
    assert!(i.env.contains(&("PYTHONPATH".into(), packages.display().to_string())));
    assert_eq!(
        i.mounts,
        [(tmp.path().join("scratch"), false), (tmp.path().join("warehouse"), false), (dir, true)],
        "an engine cannot change its installation"
    );
}

#[test]
fn a_java_of_this_machine_goes_along_once_and_a_program_by_itself() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let (jdk, own) = (tmp.path().join("jdk"), tmp.path().join("floe"));
    std::fs::create_dir_all(jdk.join("bin")).expect("folder");
    for program in [&jdk.join("bin/java"), &own] {
        std::fs::write(program, "").expect("file");
    }
    let launch = |program: &Path| Launch {
        name: "x".into(),
        command: vec![program.display().to_string()],
        env: vec![("FLOE_JDK".into(), jdk.display().to_string())],
        scratch: tmp.path().join("scratch"),
        warehouse: tmp.path().join("scratch/warehouse"),
        catalog: "ice".into(),
        rest: None,
        start_timeout: Duration::from_secs(1),
        step_timeout: Duration::from_secs(1),
    };
    let scratch = (tmp.path().join("scratch"), false);
    assert_eq!(inside(&launch(&jdk.join("bin/java"))).mounts, [scratch.clone(), (jdk.clone(), true)]);
    assert_eq!(inside(&launch(&own)).mounts, [scratch, (jdk.clone(), true), (own.clone(), true)]);
}

#[test]
fn declared_images_are_pinned() {
    for e in crate::engines::registry().iter().filter(|e| !e.image.is_empty()) {
        let (name, tag) = name_and_tag(&e.image);
        assert!(!name.is_empty() && tag != "latest", "{}: {} has no version", e.name, e.image);
    }
}
