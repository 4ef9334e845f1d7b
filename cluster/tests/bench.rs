//! The programs as a user calls them: the measurement of scaling, and statements on a cluster that was started beforehand.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use support::program;

fn text(out: &Output) -> (String, String) {
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn one_and_two_executors_give_the_same_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let bench = |min_bytes: &str| {
        let mut c = Command::new(program());
        c.args(["bench", "--rows", "40000", "--samples", "1", "--min-bytes", min_bytes, "--folder"]).arg(dir.path());
        c.output().expect("floe-cluster")
    };
    let out = bench("1");
    let (stdout, stderr) = text(&out);
    assert!(out.status.success(), "{stdout}{stderr}");
    for place in ["no cluster", "1 executor ", "2 executors"] {
        let measured = stdout.lines().filter(|l| l.contains(place) && !l.contains("foretold")).count();
        assert_eq!(measured, 3, "{place}: {stdout}");
    }
    assert_eq!(stdout.lines().filter(|l| l.contains("foretold")).count(), 3, "{stdout}");
    // the table is there; with the usual bound its plans stay, and that is no measurement of a cluster
    let (_, stderr) = text(&bench("67108864"));
    assert!(stderr.contains("did not travel"), "{stderr}");
}

#[test]
fn a_started_cluster_takes_statements_until_it_is_interrupted() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut start = Command::new(program());
    let mut start =
        start.args(["start", "--executors", "1"]).stdout(Stdio::piped()).spawn().expect("floe-cluster start");
    let mut url = String::new();
    BufReader::new(start.stdout.take().expect("its output")).read_line(&mut url).expect("a line");
    let script = dir.path().join("script.sql");
    let sql = "CREATE NAMESPACE ns; CREATE TABLE ns.t (id BIGINT); INSERT INTO ns.t SELECT id FROM range(1000); \
               DELETE FROM ns.t WHERE id < 10; SELECT count(*), sum(id) FROM ns.t";
    std::fs::write(&script, sql).expect("a script");
    let mut run = Command::new(program());
    run.args(["sql", "--catalog", &format!("hadoop:{}", dir.path().display()), "--scheduler", url.trim()]);
    let out = run.args(["--min-bytes", "1", "-f"]).arg(&script).output().expect("floe-cluster sql");
    let (stdout, stderr) = text(&out);
    assert!(out.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("990") && stdout.contains("499455"), "{stdout}");
    assert!(!stderr.starts_with("0 jobs"), "{stderr}");
    let pid = start.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    assert!(start.wait().expect("an end").success());
    let mut again = Command::new(program());
    again.args(["sql", "--catalog", &format!("hadoop:{}", dir.path().display()), "--scheduler", url.trim()]);
    let out = again.arg("-f").arg(&script).output().expect("floe-cluster sql");
    assert!(!out.status.success() && text(&out).1.contains("no scheduler"), "{:?}", text(&out));
}
