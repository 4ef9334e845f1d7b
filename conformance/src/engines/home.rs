//! The user's cache folder of engines: `FLOE_HOME`, else `~/.cache/floe`.

use std::path::PathBuf;

/// The cache folder.
#[derive(Debug, Clone)]
pub struct Home(PathBuf);

impl Home {
    /// `FLOE_HOME`, else `$XDG_CACHE_HOME/floe`, else `~/.cache/floe`; the error says which variables were looked at.
    pub fn find() -> Result<Self, String> {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        var("FLOE_HOME")
            .or_else(|| var("XDG_CACHE_HOME").map(|p| p.join("floe")))
            .or_else(|| var("HOME").map(|p| p.join(".cache/floe")))
            .map(Self)
            .ok_or_else(|| "no place for engines: none of FLOE_HOME, XDG_CACHE_HOME and HOME is set".into())
    }

    /// A given folder.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Folder below which engines lie.
    pub fn engines(&self) -> PathBuf {
        self.0.join("engines")
    }
}
