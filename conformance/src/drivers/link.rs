//! What carries the protocol's lines: a child process's standard input and output, or a container's.

use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::process::{Child, Command};

use super::Launch;
use crate::launch::{self, Container};

/// Process groups of running engines, for Ctrl-C.
static GROUPS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Kills every engine this process started as a child.
pub fn kill_all() {
    let groups = std::mem::take(&mut *GROUPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    groups.into_iter().for_each(kill);
}

/// Kills a group once: after that its number may belong to someone else.
fn end(group: i32) {
    let mut groups = GROUPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(i) = groups.iter().position(|g| *g == group) {
        groups.swap_remove(i);
        kill(group);
    }
}

fn kill(group: i32) {
    if let Some(pid) = Pid::from_raw(group) {
        // Already gone is as good as killed.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Where a driver runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A child process, in a process group of its own.
    Native,
    /// A container of this image.
    Container(String),
}

/// A running driver, whatever it runs in. It ends when this is dropped.
pub(super) struct Link {
    /// Requests; none once it was asked to stop.
    pub to: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Replies.
    pub from: BufReader<Pin<Box<dyn AsyncRead + Send>>>,
    host: Host,
}

enum Host {
    Child { child: Box<Child>, group: i32 },
    Container(Box<Container>),
}

impl Link {
    /// Starts a driver; what it prints on standard error goes to `log`.
    pub async fn open(launch: &Launch, place: &Place, log: &Path) -> Result<Self, String> {
        let sink = std::fs::File::create(log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        if let Place::Container(image) = place {
            let container = Container::start(image, &launch::inside(launch), &launch.scratch, log).await?;
            let (to, from) = container.attach().await?;
            let host = Host::Container(Box::new(container));
            return Ok(Self { to: Some(to), from: BufReader::new(from), host });
        }
        let (program, args) = launch.command.split_first().ok_or("empty engine command")?;
        let mut child = Command::new(program)
            .args(args)
            .envs(launch.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&launch.scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(sink)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("cannot start {program}: {e}"))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).ok_or("engine ended at once")?;
        GROUPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(group);
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("engine has no standard input and output".into());
        };
        let from: Pin<Box<dyn AsyncRead + Send>> = Box::pin(from);
        let host = Host::Child { child: Box::new(child), group };
        Ok(Self { to: Some(Box::pin(to)), from: BufReader::new(from), host })
    }

    /// Process id of a child; none for a container.
    pub fn process(&self) -> Option<u32> {
        match &self.host {
            Host::Child { child, .. } => child.id(),
            Host::Container(_) => None,
        }
    }

    /// Waits until the driver has ended by itself.
    pub async fn ended(&mut self) {
        match &mut self.host {
            Host::Child { child, .. } => _ = child.wait().await,
            Host::Container(c) => c.ended().await,
        }
    }

    /// Kills it, with all that it started.
    pub fn end(&mut self) {
        match &mut self.host {
            Host::Child { group, .. } => end(*group),
            Host::Container(c) => c.end(),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}
