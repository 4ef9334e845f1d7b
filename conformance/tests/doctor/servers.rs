//! Programs that tests install and start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floe_conformance::engines::Home;

/// A server that ends with the value.
pub struct Running {
    child: Child,
    pub dir: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a program can be run.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// `count` ports nobody uses now.
pub fn free_ports(count: usize) -> Vec<u16> {
    let all: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    all.iter().map(|l| l.local_addr().unwrap().port()).collect()
}

/// Folder of an installation; `make` fills it once, whoever comes first.
pub fn installed(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let root = Home::find().unwrap().engines().join("servers");
    fs::create_dir_all(&root).unwrap();
    let lock = File::create(root.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let dir = root.join(name);
    if !dir.join(".done").exists() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        make(&dir);
        fs::write(dir.join(".done"), "").unwrap();
    }
    dir
}

/// Fetches an artifact `group:artifact:version[:type[:classifier]]` with Maven into a folder.
pub fn copy(artifact: &str, to: &Path) {
    must(
        Command::new("mvn")
            .args(["-B", "-q", "--strict-checksums", "dependency:copy"])
            .args([format!("-Dartifact={artifact}"), format!("-DoutputDirectory={}", to.display())]),
    );
}

/// Runs a tool to its end; what it said is the panic's message.
pub fn must(command: &mut Command) {
    let out = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?} failed:\n{}{text}", String::from_utf8_lossy(&out.stdout));
}

/// Starts a server whose folder is `dir`, and waits until its port answers.
pub fn start(mut command: Command, dir: tempfile::TempDir, port: u16, patience: Duration) -> Running {
    let log = dir.path().join("server.log");
    let out = File::create(&log).unwrap();
    let child = command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
    let mut server = Running { child, dir };
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = server.child.try_wait().unwrap();
        assert!(
            ended.is_none() && began.elapsed() < patience,
            "{command:?} does not answer at port {port} ({ended:?}):\n{}",
            fs::read_to_string(&log).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    server
}
