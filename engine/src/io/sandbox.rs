//! The fence of `--sandbox`: locations outside it are refused, whoever names them (metadata, configuration, a statement).

use std::path::{Component, Path, PathBuf};

use super::{normalize, split_location};
use crate::{Error, ErrorKind, Result};

/// Property that lists the allowed locations, separated by `;`. No server and no table can set it.
pub const SANDBOX: &str = "floe.sandbox";

/// Where files may lie.
#[derive(Debug, Clone)]
pub(super) struct Sandbox(Vec<Allowed>);

#[derive(Debug, Clone)]
enum Allowed {
    /// A folder of this machine, with links resolved.
    Folder(PathBuf),
    /// `scheme://authority/prefix`, without a trailing slash.
    Prefix(String),
}

impl Sandbox {
    /// From the value of [`SANDBOX`]: locations or local folders, relative ones from the current folder.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut allowed = Vec::new();
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let bare = normalize(part);
            let is_uri = bare.split_once(':').is_some_and(|(scheme, _)| scheme.len() > 1 && !scheme.contains('/'));
            allowed.push(if is_uri {
                Allowed::Prefix(bare.trim_end_matches('/').to_string())
            } else {
                Allowed::Folder(real_path(&std::path::absolute(&bare)?)?)
            });
        }
        if allowed.is_empty() {
            return Err(Error::invalid(format!("property {SANDBOX} names no location")));
        }
        Ok(Self(allowed))
    }

    /// [`ErrorKind::Denied`] for a location outside.
    pub(super) fn check(&self, location: &str) -> Result<()> {
        let bare = normalize(location);
        let inside = if bare.starts_with('/') {
            let path = real_path(Path::new(&bare))?;
            self.0.iter().any(|a| matches!(a, Allowed::Folder(f) if path.starts_with(f)))
        } else {
            let (base, path) = split_location(&bare)?;
            let upwards = path.split('/').any(|s| s == ".." || s.eq_ignore_ascii_case("%2e%2e"));
            let full = format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/'));
            let under = |p: &str| match split_location(p) {
                Ok((base, path)) => {
                    let p = format!("{}/{}", base.trim_end_matches('/'), path.trim_matches('/'));
                    full == p || full.starts_with(&format!("{}/", p.trim_end_matches('/')))
                }
                Err(_) => false,
            };
            !upwards && self.0.iter().any(|a| matches!(a, Allowed::Prefix(p) if under(p)))
        };
        if inside {
            return Ok(());
        }
        let shown: Vec<String> = self
            .0
            .iter()
            .map(|a| match a {
                Allowed::Folder(f) => f.display().to_string(),
                Allowed::Prefix(p) => p.clone(),
            })
            .collect();
        Err(Error::new(
            ErrorKind::Denied,
            format!("the location is outside the sandbox; allowed: {}", shown.join(", ")),
        )
        .at(location))
    }
}

/// A path with `.`, `..` and links resolved, as far as it exists: what does not exist yet is taken by its name.
fn real_path(path: &Path) -> Result<PathBuf> {
    if path.components().any(|c| matches!(c, Component::ParentDir)) {
        return Err(Error::new(ErrorKind::Denied, "a path with `..` is not allowed in a sandbox").at(path.display()));
    }
    let mut missing = Vec::new();
    let mut current = path;
    loop {
        match current.canonicalize() {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |p, name| p.join(name))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from(e).at(path.display())),
        }
        // A dangling link exists by itself: where it leads is not known, so it is refused.
        if current.is_symlink() {
            return Err(
                Error::new(ErrorKind::Denied, "a dangling link is not allowed in a sandbox").at(current.display())
            );
        }
        match (current.parent(), current.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_os_string());
                current = parent;
            }
            _ => return Ok(path.to_path_buf()),
        }
    }
}
