//! Reading scenario files: strict, with file and line in every complaint.

use std::path::{Path, PathBuf};

use super::{Scenario, check};

/// A fault in a scenario file.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ScenarioError {
    /// Path as given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What was found and what is allowed.
    pub message: String,
}

/// The `scenarios` folder: below the working folder, a parent of it, or the checkout this was built from.
pub fn find_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut places: Vec<PathBuf> = here.ancestors().map(|p| p.join("scenarios")).collect();
    places.extend(Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|p| p.join("scenarios")));
    places.into_iter().find(|p| p.is_dir())
}

/// All scenarios below `root` whose id matches `glob` (`*` any text), in order of id. All faults in them are reported, not
/// only the first; other files are not read, for the model of a large one takes seconds.
pub fn load_all(root: &Path, glob: &str) -> Result<Vec<Scenario>, Vec<ScenarioError>> {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let (mut out, mut faults) = (Vec::new(), Vec::new());
    for f in files.iter().filter(|f| matches(glob, &id_of(root, f))) {
        match load_file(root, f) {
            Ok(s) => out.push(s),
            Err(e) => faults.push(e),
        }
    }
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| e == "toml") {
            out.push(path);
        }
    }
}

fn id_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).with_extension("").to_string_lossy().replace('\\', "/")
}

/// One file; its id is its path below `root` without the ending.
pub fn load_file(root: &Path, path: &Path) -> Result<Scenario, ScenarioError> {
    let id = id_of(root, path);
    let text = std::fs::read_to_string(path).map_err(|e| ScenarioError {
        file: path.display().to_string(),
        line: 1,
        message: e.to_string(),
    })?;
    parse(&id, &path.display().to_string(), &text)
}

/// Parses and checks the text of a scenario.
pub fn parse(id: &str, file: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let fault = |line, message| ScenarioError { file: file.into(), line, message };
    let mut s: Scenario = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        fault(text[..at.min(text.len())].matches('\n').count() + 1, e.message().to_string())
    })?;
    if !s.id.is_empty() {
        return Err(fault(1, "a scenario's id is its file's place; remove `id`".into()));
    }
    s.id = id.into();
    check::check(&s).map_err(|(step, message)| fault(line_of_step(text, step), message))?;
    Ok(s)
}

/// Line of the n-th `[[step]]` (from 1), or 1.
fn line_of_step(text: &str, step: Option<usize>) -> usize {
    let Some(n) = step else { return 1 };
    let mut lines = text.lines().enumerate().filter(|(_, l)| l.trim() == "[[step]]");
    lines.nth(n - 1).map_or(1, |(i, _)| i + 1)
}

/// `*` matches any text; a pattern without `*` matches anywhere in the id.
pub fn matches(glob: &str, id: &str) -> bool {
    if !glob.contains('*') {
        return glob.is_empty() || id.contains(glob);
    }
    let parts: Vec<&str> = glob.split('*').collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let Some(mut rest) = id.strip_prefix(first) else {
        return false;
    };
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part) {
            Some(i) => rest = &rest[i + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}
