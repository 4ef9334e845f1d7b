//! One container: started, spoken to, removed.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt as _;
use testcontainers::bollard::Docker;
use testcontainers::bollard::container::LogOutput;
use testcontainers::bollard::models::ContainerSummary;
use testcontainers::bollard::query_parameters::{
    AttachContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::{AccessMode, Mount};
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::{Inside, name_and_tag};

/// Label with the process that started a container.
const LABEL_PID: &str = "floe.pid";
/// Label with the machine of that process.
const LABEL_HOST: &str = "floe.host";
/// Time for the daemon to start a container, its image being there.
const START: Duration = Duration::from_secs(60);

/// The container engine on this machine (or at `DOCKER_HOST`); the error is a reason to skip.
pub async fn daemon() -> Result<Docker, String> {
    let no = |e: testcontainers::bollard::errors::Error| format!("no Docker daemon answers: {e}");
    let docker = Docker::connect_with_defaults().map_err(no)?;
    match tokio::time::timeout(Duration::from_secs(10), docker.ping()).await {
        Ok(pong) => pong.map(|_| docker).map_err(no),
        Err(_) => Err("no Docker daemon answers within 10 s".into()),
    }
}

/// A running container. It is removed when this is dropped.
pub struct Container {
    inner: Option<ContainerAsync<GenericImage>>,
    docker: Docker,
}

/// Where a container's protocol goes in and comes out.
pub type Streams = (Pin<Box<dyn AsyncWrite + Send>>, Pin<Box<dyn AsyncRead + Send>>);

impl Container {
    /// Starts `image` with the given command in folder `work`; what it prints on standard error goes into the file `log`.
    /// Without a command the image's own runs, and its output stays with the daemon ([`Self::said`]). The container has this machine's network and runs as this process's user, so that what it writes can be removed.
    pub async fn start(image: &str, what: &Inside, work: &Path, log: &Path) -> Result<Self, String> {
        let docker = daemon().await?;
        let (name, tag) = name_and_tag(image);
        let user = format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let own = what.command.is_empty();
        let mut command = Vec::new();
        if !own {
            // the shell's redirection keeps the last words of an engine after its container is gone
            command.extend(["sh".to_string(), "-c".into(), "exec 2>>\"$0\"; exec \"$@\"".into()]);
            command.push(log.display().to_string());
            command.extend(what.command.iter().cloned());
        }
        let mut request = GenericImage::new(name, tag)
            .with_cmd(command)
            .with_open_stdin(!own)
            .with_network("host")
            .with_user(user)
            .with_working_dir(work.display().to_string())
            .with_startup_timeout(START)
            .with_label(LABEL_PID, std::process::id().to_string())
            .with_label(LABEL_HOST, host_name())
            .with_env_var("HOME", work.display().to_string())
            .with_host_config_modifier(move |h| {
                h.auto_remove = Some(!own);
                h.publish_all_ports = Some(false);
            });
        for (k, v) in &what.env {
            request = request.with_env_var(k, v);
        }
        for (path, read_only) in &what.mounts {
            request = request.with_mount(mount(path, *read_only));
        }
        match request.start().await {
            Ok(c) => Ok(Self { inner: Some(c), docker }),
            Err(e) => Err(format!("image {image} cannot be started: {}", reason(&e))),
        }
    }

    /// Attaches to standard input and output.
    pub async fn attach(&self) -> Result<Streams, String> {
        let id = self.inner.as_ref().map(|c| c.id().to_string()).ok_or("the container was removed")?;
        let options = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stream(true).logs(true).build();
        let attached = self.docker.attach_container(&id, Some(options)).await;
        let attached = attached.map_err(|e| format!("cannot attach to the container: {e}"))?;
        let (mut sink, from) = tokio::io::duplex(1 << 16);
        let mut output = attached.output;
        tokio::spawn(async move {
            while let Some(Ok(piece)) = output.next().await {
                let bytes = match piece {
                    LogOutput::StdOut { message } | LogOutput::Console { message } => message,
                    LogOutput::StdErr { .. } | LogOutput::StdIn { .. } => continue,
                };
                if sink.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        });
        Ok((attached.input, Box::pin(from)))
    }

    /// What an image's own command printed, on one line.
    pub async fn said(&self) -> String {
        let Some(c) = &self.inner else { return String::new() };
        let mut all = c.stdout_to_vec().await.unwrap_or_default();
        all.extend(c.stderr_to_vec().await.unwrap_or_default());
        String::from_utf8_lossy(&all).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&self) {
        while let Some(c) = &self.inner {
            // a container that cannot be asked was removed when it ended
            if !c.is_running().await.unwrap_or(false) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills and removes it; nothing when that was done.
    pub fn end(&mut self) {
        let Some(c) = self.inner.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(c);
        } else {
            // no way to reach the daemon from here: `sweep` of the next run removes it
            std::mem::forget(c);
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.end();
    }
}

fn mount(path: &Path, read_only: bool) -> Mount {
    let text = path.display().to_string();
    let mode = if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
    Mount::bind_mount(text.clone(), text).with_access_mode(mode)
}

/// An error with its causes, on one line.
fn reason(e: &dyn std::error::Error) -> String {
    let (mut out, mut next) = (e.to_string(), e.source());
    while let Some(cause) = next {
        let text = cause.to_string();
        if !out.contains(&text) {
            out = format!("{out}: {text}");
        }
        next = cause.source();
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map(|t| t.trim().to_string()).unwrap_or_default()
}

/// Removes every container that this process started and that is still there, also one whose start was cut off.
pub async fn remove_mine() {
    // a request that was on its way when it was cut off may still make a container
    for pause in [0, 500] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        remove(&of_process(|pid| pid == std::process::id()).await).await;
    }
}

/// Removes containers of floe processes of this machine that are no more (killed before they could clean up).
pub async fn sweep() {
    remove(&of_process(|pid| !Path::new(&format!("/proc/{pid}")).exists()).await).await;
}

/// Ids of the containers that floe processes of this machine started, of those processes that fit; none without a daemon.
pub async fn of_process(fits: impl Fn(u32) -> bool) -> Vec<String> {
    let host = host_name();
    let Ok(docker) = daemon().await else { return Vec::new() };
    let filters = HashMap::from([("label".to_string(), vec![format!("{LABEL_HOST}={host}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let all = docker.list_containers(Some(options)).await.unwrap_or_default();
    let pid = |c: &ContainerSummary| c.labels.as_ref().and_then(|l| l.get(LABEL_PID)).and_then(|p| p.parse().ok());
    // without a name for this machine nothing says that a process here is meant
    let fits = |c: &ContainerSummary| !host.is_empty() && pid(c).is_some_and(&fits);
    all.into_iter().filter(fits).filter_map(|c| c.id).collect()
}

async fn remove(ids: &[String]) {
    let Ok(docker) = daemon().await else { return };
    for id in ids {
        let force = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        // a container that is gone already is as good as removed
        let _ = docker.remove_container(id, Some(force)).await;
    }
}
