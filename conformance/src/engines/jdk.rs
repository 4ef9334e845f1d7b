//! Finding a JDK of a wanted release among those that the machine has.

use std::path::{Path, PathBuf};

/// Home of a JDK of release `least` or newer, the oldest that will do. Looked at, in this order: `JAVA<least>_HOME`,
/// `JAVA_HOME`, the home of the `java` on the path, and the folders beside these. The error says what to install.
pub fn find(least: u32) -> Result<PathBuf, String> {
    let var = |n: &str| std::env::var_os(n).filter(|v| !v.is_empty()).map(PathBuf::from);
    let stated = var(&format!("JAVA{least}_HOME"));
    if let Some(home) = &stated {
        return match release(home) {
            Some(found) if found >= least => Ok(home.clone()),
            Some(found) => Err(format!("JAVA{least}_HOME names a JDK {found}, {least} is needed")),
            None => Err(format!("JAVA{least}_HOME is no JDK: it has no bin/javac or no release file")),
        };
    }
    let homes: Vec<PathBuf> = var("JAVA_HOME").into_iter().chain(on_path()).collect();
    among(&homes, least).ok_or_else(|| {
        format!("no JDK {least} or newer: set JAVA{least}_HOME, or install one (openjdk-{least}-jdk-headless) beside the default JVM")
    })
}

/// The oldest of `homes` and the folders beside them that is at least `least`.
fn among(homes: &[PathBuf], least: u32) -> Option<PathBuf> {
    let beside = homes.iter().filter_map(|h| h.parent()).flat_map(|dir| {
        let mut found: Vec<PathBuf> =
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
        found.sort();
        found
    });
    homes
        .iter()
        .cloned()
        .chain(beside)
        .filter_map(|h| release(&h).map(|r| (r, h)))
        .filter(|(r, _)| *r >= least)
        .min_by_key(|(r, _)| *r)
        .map(|(_, h)| h)
}

/// Home of the `java` on the path, links followed.
fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let java = std::env::split_paths(&path).map(|d| d.join("java")).find(|p| p.is_file())?;
    Some(java.canonicalize().ok()?.parent()?.parent()?.to_path_buf())
}

/// Major release of a JDK by its `release` file; `None` for anything that cannot compile.
fn release(home: &Path) -> Option<u32> {
    if !home.join("bin/javac").is_file() {
        return None;
    }
    let text = std::fs::read_to_string(home.join("release")).ok()?;
    let version = text.lines().find_map(|l| l.strip_prefix("JAVA_VERSION="))?.trim().trim_matches('"');
    let numbers = version.strip_prefix("1.").unwrap_or(version);
    numbers.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests;
