//! `floe conformance --engine-cmd`: the template driver, as a user gets it, passes the smoke scenario as writer and as reader.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_template_driver_passes_the_smoke_scenario() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let floe = env!("CARGO_BIN_EXE_floe");
    let driver = tmp.path().join("my_driver.py");
    let made = Command::new(floe).args(["engines", "template"]).arg(&driver).output().expect("runs");
    assert!(made.status.success());
    let lines = std::fs::read_to_string(&driver).expect("template");
    assert!(lines.lines().count() < 100, "{}", lines.lines().count());
    let out = tmp.path().join("out");
    let run = Command::new(floe)
        .args(["conformance", "--engines", "floe", "--scenario", "dv/smoke", "--quiet"])
        .arg("--engine-cmd")
        .arg(format!("python3 {}", driver.display()))
        .arg("--out")
        .arg(&out)
        .env("FLOE_EXE", floe)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{said}");
    let text = std::fs::read_to_string(out.join("results.json")).expect("results");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let verdict = |writer: &str, reader: &str| {
        let cells = results["cells"].as_array().expect("cells");
        let found = cells.iter().find(|c| c["writer"] == writer && c["reader"] == reader);
        found.map(|c| c["outcome"].as_str().unwrap_or_default().to_string())
    };
    for pair in [("floe", "custom"), ("custom", "floe"), ("custom", "custom")] {
        assert_eq!(verdict(pair.0, pair.1).as_deref(), Some("pass"), "{pair:?}\n{said}");
    }
}

/// The one engine that the user asked for did not run: floe's own cells are there, the reason is told, and the run fails.
#[test]
fn a_command_that_is_no_driver_fails_the_run_with_its_reason() {
    for (command, reason) in [
        ("sh -c 'echo oh dear >&2; exit 7'", "oh dear"),
        ("no-such-driver --with \"an argument\"", "no-such-driver"),
        ("echo no protocol", ""),
    ] {
        let tmp = tempfile::tempdir().expect("temporary folder");
        let run = Command::new(env!("CARGO_BIN_EXE_floe"))
            .args(["conformance", "--engines", "floe", "--scenario", "dv/smoke", "--quiet"])
            .args(["--engine-cmd", command, "--out"])
            .arg(tmp.path())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains("the engine of --engine-cmd did not run"), "{said}");
        let text = std::fs::read_to_string(tmp.path().join("results.json")).expect("results");
        let results: Value = serde_json::from_str(&text).expect("JSON");
        let row = &results["engines"][1];
        let why = row["skipped"].as_str().unwrap_or_default();
        assert!(!why.is_empty() && why.contains(reason), "{command}: {why}");
        // the hint is what the user typed, as a shell takes it
        let hint = row["command"].as_str().unwrap_or_default();
        let typed = Command::new("sh")
            .args(["-c", &hint.replace("cargo floe conformance", "printf %s")])
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&typed.stdout), format!("--engine-cmd{command}"), "{hint}");
        assert!(!said.contains("FLOE_CWD"), "the wrapped command is floe's own affair: {said}");
        assert!(results["cells"].as_array().is_some_and(|c| !c.is_empty()));
    }
}

/// Without any engine nothing is judged, which is no success.
#[test]
fn a_run_without_an_engine_fails() {
    let tmp = tempfile::tempdir().expect("temporary folder");
    let run = Command::new(env!("CARGO_BIN_EXE_floe"))
        .args(["conformance", "--engines", "bigquery", "--scenario", "dv/smoke", "--quiet", "--out"])
        .arg(tmp.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", tmp.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("bigquery skipped: ") && said.contains("no engine ran"), "{said}");
}
