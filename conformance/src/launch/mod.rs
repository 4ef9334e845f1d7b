//! Engines in containers, started by crate `testcontainers`: official images by default, each overridable by an environment
//! variable. A driver speaks the same protocol on the container's standard input and output as it does in a process.
//!
//! The warehouse, the engine's own folder and its installation are mounted at their paths of this machine, so that a table's
//! locations mean the same inside and outside; the network is this machine's, so that one catalog address serves all.

mod container;
mod rest;

use std::path::{Path, PathBuf};

pub use container::{Container, daemon, of_process, remove_mine, sweep};
pub use rest::{REST_IMAGE, Rest};

use crate::drivers::Launch;

/// Variable that names the image of every engine that has none of its own.
pub const ANY_IMAGE: &str = "FLOE_IMAGE";

/// Variable that names an engine's image: `FLOE_IMAGE_SPARK35`.
pub fn image_variable(engine: &str) -> String {
    let word: String = engine.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("{ANY_IMAGE}_{}", word.to_uppercase())
}

/// The image to use for an engine: its own variable, [`ANY_IMAGE`], or the declared one. The error says what to set.
pub fn image_of(engine: &str, declared: &str) -> Result<String, String> {
    pick(engine, declared, |name| std::env::var(name).ok())
}

fn pick(engine: &str, declared: &str, var: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let own = image_variable(engine);
    let set = |name: &str| var(name).filter(|v| !v.is_empty());
    let image = set(&own).or_else(|| set(ANY_IMAGE)).unwrap_or_else(|| declared.to_string());
    if image.is_empty() {
        return Err(format!(
            "{engine} has no official image; {own} or {ANY_IMAGE} may name one that has what it needs \
             (conformance/docker/image.sh makes one)"
        ));
    }
    if image.contains('@') {
        return Err(format!("{image}: an image is named by a tag here, not by a digest"));
    }
    Ok(image)
}

/// Name and tag of an image; the tag is `latest` when there is none.
fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        // a colon before a slash belongs to a registry's port
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// What a container is told: command, environment and folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inside {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Mounted paths, and whether they are read-only.
    pub mounts: Vec<(PathBuf, bool)>,
}

/// How a driver is started inside: by the image's `python3` with the installed packages on its path, since a virtual
/// environment's own Python is a link to this machine's.
pub fn inside(launch: &Launch) -> Inside {
    let mut out = Inside {
        command: launch.command.clone(),
        env: launch.env.clone(),
        mounts: vec![(launch.scratch.clone(), false)],
    };
    if !launch.warehouse.starts_with(&launch.scratch) {
        out.mounts.push((launch.warehouse.clone(), false));
    }
    let var = |name: &str| launch.env.iter().find(|(k, _)| k == name).map(|(_, v)| PathBuf::from(v));
    let dir = var("FLOE_ENGINE_DIR");
    out.mounts.extend(dir.iter().map(|d| (d.clone(), true)));
    // an engine that needs another Java than its image has brings this machine's
    let jdk = var("FLOE_JDK");
    out.mounts.extend(jdk.iter().map(|d| (d.clone(), true)));
    let Some(program) = out.command.first().map(PathBuf::from) else { return out };
    let mounted = |p: &Path| out.mounts.iter().any(|(m, _)| p.starts_with(m));
    let venv = dir.map(|d| d.join("venv"));
    if venv.as_ref().is_some_and(|v| program.starts_with(v)) {
        out.command[0] = "python3".into();
        let packages = venv.map(|v| site_packages(&v)).unwrap_or_default();
        let path: Vec<String> = packages.iter().map(|p| p.display().to_string()).collect();
        out.env.push(("PYTHONPATH".into(), path.join(":")));
    } else if program.is_absolute() && program.is_file() && !mounted(&program) {
        out.mounts.push((program, true));
    }
    out
}

fn site_packages(venv: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    versions.map(|v| v.path().join("site-packages")).filter(|p| p.is_dir()).collect()
}

#[cfg(test)]
mod tests;
