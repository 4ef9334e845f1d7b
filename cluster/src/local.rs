//! A whole cluster on this machine: processes that end with the one that started them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_engine::{Error, ErrorKind, Result};

/// Longest wait until a process listens.
const START: Duration = Duration::from_secs(60);

/// How a local cluster is laid out.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Executors, a process each.
    pub executors: usize,
    /// Tasks that an executor runs at a time.
    pub slots: usize,
    /// The scheduler's port; 0 = any free one.
    pub port: u16,
    /// Seconds without a sign of life after which an executor is given up.
    pub lost_after: u64,
    /// Store properties of the executors, secrets included; handed over in their environment.
    pub store: HashMap<String, String>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { executors: 2, slots: 1, port: 0, lost_after: 15, store: HashMap::new() }
    }
}

/// A running cluster. Its processes end when it is dropped, and when this process ends in whatever way.
#[derive(Debug)]
pub struct Local {
    scheduler: SocketAddr,
    processes: Arc<Mutex<Processes>>,
    work: tempfile::TempDir,
}

#[derive(Debug)]
struct Processes {
    scheduler: Child,
    executors: Vec<Child>,
}

impl Local {
    /// Starts the processes with `program`, the `floe-cluster` binary, and waits until all of them listen.
    pub fn start(program: &Path, layout: &Layout) -> Result<Self> {
        if layout.executors == 0 || layout.slots == 0 {
            return Err(Error::invalid("a cluster has at least one executor, and an executor one slot"));
        }
        let work = tempfile::tempdir()?;
        let port = if layout.port == 0 { free_port()? } else { layout.port };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let scheduler = spawn(
            Command::new(program)
                .args(["scheduler", "--with-parent", "--listen", &address.to_string()])
                .args(["--lost-after", &layout.lost_after.to_string()]),
        )?;
        let processes = Arc::new(Mutex::new(Processes { scheduler, executors: Vec::new() }));
        let local = Self { scheduler: address, processes, work };
        local.wait_for(address)?;
        let mut ports = Vec::new();
        for i in 0..layout.executors {
            let folder = local.work.path().join(format!("executor-{i}"));
            std::fs::create_dir_all(&folder)?;
            let own = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
            let child = spawn(
                Command::new(program)
                    .args([
                        "executor",
                        "--with-parent",
                        "--scheduler",
                        &address.to_string(),
                        "--listen",
                        &own.to_string(),
                    ])
                    .args(["--task-port", &free_port()?.to_string(), "--slots", &layout.slots.to_string()])
                    .arg("--work-dir")
                    .arg(&folder)
                    .envs(layout.store.iter().map(|(k, v)| (store_variable(k), v))),
            )?;
            local.processes.lock().map_err(|_| Error::internal("a thread panicked"))?.executors.push(child);
            ports.push(own);
        }
        // an executor serves rows only once the scheduler knows it
        ports.into_iter().try_for_each(|p| local.wait_for(p))?;
        Ok(local)
    }

    /// The scheduler's URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.scheduler)
    }

    /// Process ids of the executors.
    pub fn executors(&self) -> Vec<u32> {
        self.processes.lock().map(|p| p.executors.iter().map(Child::id).collect()).unwrap_or_default()
    }

    /// Kills an executor as a crash would; false when there is none of that number.
    pub fn kill(&self, executor: usize) -> bool {
        let Ok(mut p) = self.processes.lock() else { return false };
        p.executors.get_mut(executor).is_some_and(|c| c.kill().is_ok() && c.wait().is_ok())
    }

    /// Files of rows that an executor has written between two stages, and not yet cleaned up.
    pub fn rows_written(&self, executor: usize) -> usize {
        fn files(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|e| if e.path().is_dir() { files(&e.path()) } else { 1 }).sum()
        }
        files(&self.work.path().join(format!("executor-{executor}")))
    }

    /// Says whether the scheduler and at least one executor run.
    pub fn alive(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let processes = self.processes.clone();
        move || {
            let Ok(mut p) = processes.lock() else { return false };
            runs(&mut p.scheduler) && p.executors.iter_mut().any(runs)
        }
    }

    fn wait_for(&self, address: SocketAddr) -> Result<()> {
        let alive = self.alive();
        let end = Instant::now() + START;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            let starting = self.processes.lock().map(|p| p.executors.is_empty()).unwrap_or(false);
            if Instant::now() > end || !starting && !alive() {
                return Err(Error::new(ErrorKind::Io, "a process of the cluster did not start").at(address));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let Ok(mut p) = self.processes.lock() else { return };
        let Processes { scheduler, executors } = &mut *p;
        for child in executors.iter_mut().chain([scheduler]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn runs(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// A child that holds the other end of a pipe: when this process ends, the pipe closes, and the child ends.
fn spawn(command: &mut Command) -> Result<Child> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| Error::from(e).at(command.get_program().to_string_lossy()))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

const STORE: &str = "FLOE_CLUSTER_STORE_";

/// The variable of an executor's environment that holds a store property.
fn store_variable(key: &str) -> String {
    format!("{STORE}{key}")
}

/// Store properties that the environment holds.
pub fn store_of_environment() -> HashMap<String, String> {
    std::env::vars().filter_map(|(k, v)| Some((k.strip_prefix(STORE)?.to_string(), v))).collect()
}

/// Ends this process when whoever started it is gone.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}
