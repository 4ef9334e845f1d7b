//! A child's work is seen, and no more than its own.

#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::Meter;

/// A shell below another one, that does each line it is given, says so, and waits for the next one.
struct Shell {
    child: std::process::Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start() -> Self {
        let script = "sh -c 'while read line; do eval \"$line\"; echo done; done'; :";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, out }
    }

    fn work(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("its input"), "{line}").expect("a line");
        let mut said = String::new();
        self.out.read_line(&mut said).expect("an answer");
        assert_eq!(said, "done\n");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_childs_processor_time_and_bytes_are_seen() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("large");
    std::fs::write(&file, vec![7u8; 3 << 20]).expect("a file");
    let mut shell = Shell::start();
    let id = Some(shell.child.id());

    let meter = Meter::start(id);
    shell.work("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    let busy = meter.stop();
    assert!(busy.cpu_seconds.is_some_and(|s| s > 0.02), "{busy:?}");
    assert!(busy.read_bytes.is_some_and(|b| b < 1 << 20), "{busy:?}");
    assert!(busy.peak_mib.is_none_or(|m| m > 0.1 && m < 100.0), "{busy:?}");

    let meter = Meter::start(id);
    shell.work(&format!("cat {} > /dev/null", file.display()));
    let read = meter.stop();
    assert!(read.read_bytes.is_some_and(|b| b >= 3 << 20), "{read:?}");
    assert!(read.requests.is_some_and(|n| n > 1), "{read:?}");
    assert!(read.written_bytes.is_some_and(|b| b >= 3 << 20), "{read:?}");
}

#[test]
fn this_process_counts_itself_without_its_children() {
    let mut shell = Shell::start();
    let meter = Meter::start(Some(std::process::id()));
    let id = Meter::start(Some(shell.child.id()));
    shell.work("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    let (own, child) = (meter.stop(), id.stop());
    assert!(own.peak_mib.is_none_or(|m| m > 1.0), "{own:?}");
    assert!(child.cpu_seconds > Some(0.02), "{child:?}");
    assert!(own.cpu_seconds.is_some());
}

#[test]
fn what_is_not_there_has_no_numbers() {
    assert_eq!(Meter::start(None).stop(), super::Usage::default());
    assert_eq!(Meter::start(Some(u32::MAX)).stop(), super::Usage::default());
}
