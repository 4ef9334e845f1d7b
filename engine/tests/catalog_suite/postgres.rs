//! A PostgreSQL of a test's own, from the system's binaries.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_engine::catalog::{Catalog, open_catalog};

/// A server in a folder of its own; it ends with the value.
pub struct Server {
    child: Child,
    pub port: u16,
    pub dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder of `initdb` and `postgres`: Debian's, newest version first, else the one on the path.
fn binaries() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|e| Some(e.ok()?.path().join("bin")))
        .filter(|b| b.join("initdb").is_file())
        .collect();
    found.sort();
    let on_path = std::env::var_os("PATH")
        .and_then(|p| std::env::split_paths(&p).find(|d| d.join("initdb").is_file() && d.join("postgres").is_file()));
    found.pop().or(on_path)
}

/// A command as a user who may run a server: root may not, so that becomes `nobody`.
fn unprivileged(program: PathBuf, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).env("LC_ALL", "C");
    if std::fs::metadata(dir).unwrap().uid() == NOBODY {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

const NOBODY: u32 = 65_534;

impl Server {
    /// `None`, with the reason printed, when there is no PostgreSQL.
    pub fn start() -> Option<Self> {
        let Some(bin) = binaries() else {
            eprintln!("skipped: no PostgreSQL here (initdb and postgres; on Debian: apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        // The test's own folder says who runs it.
        if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = dir.path().join("data");
        let init = unprivileged(bin.join("initdb"), dir.path())
            .args(["--auth=trust", "--no-sync", "--username=floe", "--encoding=UTF8", "-D"])
            .arg(&data)
            .status()
            .unwrap();
        assert!(init.success(), "initdb failed");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = unprivileged(bin.join("postgres"), dir.path())
            .args(["-h", "127.0.0.1", "-c", "fsync=off", "-p", &port.to_string(), "-k"])
            .arg(dir.path())
            .arg("-D")
            .arg(&data)
            .spawn()
            .unwrap();
        let server = Self { child, port, dir };
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    pub fn spec(&self) -> String {
        format!("sql:jdbc:postgresql://floe@127.0.0.1:{}/postgres", self.port)
    }

    pub async fn open(&self) -> Arc<dyn Catalog> {
        let props = HashMap::from([("warehouse".to_string(), format!("{}/wh", self.dir.path().display()))]);
        // The port answers a little before the server takes sessions.
        let start = Instant::now();
        loop {
            match open_catalog(&self.spec(), "pg", props.clone()).await {
                Ok(catalog) => return catalog,
                Err(e) => assert!(start.elapsed() < Duration::from_secs(30), "{e}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
