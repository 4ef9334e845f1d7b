//! Folders of jars with all that they depend on, resolved by the user's own Maven from a project file made here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::install::{Tools, run};

/// A folder of jars: `artifacts` and their run-time dependencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JarSet {
    /// Folder below the installation.
    pub into: String,
    /// Maven artifacts `group:artifact:version`, in the order of their weight.
    pub artifacts: Vec<String>,
    /// Projects whose version management holds, `group:artifact:version`.
    #[serde(default)]
    pub boms: Vec<String>,
    /// Versions that hold against those of the dependencies and the `boms`, `group:artifact:version`.
    #[serde(default)]
    pub pins: Vec<String>,
    /// Dependencies that are left out with all that only they need, `group:artifact`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Starts of the names of jars that are removed afterwards.
    #[serde(default)]
    pub drop: Vec<String>,
}

impl JarSet {
    /// The set as a line of an installation's recipe.
    pub fn recipe(&self) -> String {
        let words = |w: &[String]| w.join(" ");
        format!(
            "jars {}: {} boms {} pins {} without {} drop {}",
            self.into,
            words(&self.artifacts),
            words(&self.boms),
            words(&self.pins),
            words(&self.exclude),
            words(&self.drop)
        )
    }

    /// Fills the folder below `work` unless it is there; a run that is cut off leaves nothing under its final name.
    pub fn fetch(&self, lock: &File, tools: &Tools, work: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
        let target = work.join(&self.into);
        if target.is_dir() && !jars(&target).is_empty() {
            return Ok(());
        }
        say(&format!("fetching {} and what it needs", self.artifacts.join(" ")));
        let io = |e: std::io::Error| format!("cannot make {}: {e}", target.display());
        let name = self.into.replace('/', "-");
        let (project, partial) =
            (work.join("projects").join(&name), work.join("projects").join(format!("{name}.jars")));
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(io)?;
        }
        fs::create_dir_all(&project).map_err(io)?;
        fs::write(project.join("pom.xml"), self.project()?).map_err(io)?;
        run(
            lock,
            Command::new(&tools.mvn)
                .args([
                    "-q",
                    "-B",
                    "-ntp",
                    "--strict-checksums",
                    "dependency:copy-dependencies",
                    "-DincludeScope=runtime",
                    "-f",
                ])
                .arg(project.join("pom.xml"))
                .arg(format!("-DoutputDirectory={}", partial.display())),
        )?;
        for jar in jars(&partial) {
            let file = jar.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if self.drop.iter().any(|d| file.starts_with(d.as_str())) {
                fs::remove_file(&jar).map_err(io)?;
            }
        }
        if jars(&partial).is_empty() {
            return Err(format!("{} gave no jars", self.artifacts.join(" ")));
        }
        if target.is_dir() {
            return Err(format!("{} holds the folder of an earlier set: list the outer one first", self.into));
        }
        fs::create_dir_all(target.parent().unwrap_or(work)).map_err(io)?;
        fs::rename(&partial, &target).map_err(io)
    }

    /// A Maven project whose dependencies are the set.
    fn project(&self) -> Result<String, String> {
        let mut managed = String::new();
        for p in &self.pins {
            managed.push_str(&dependency(p, "")?);
        }
        for b in &self.boms {
            managed.push_str(&dependency(b, "<type>pom</type><scope>import</scope>")?);
        }
        let mut without = String::new();
        for e in &self.exclude {
            let (group, id) = e.split_once(':').ok_or_else(|| format!("{e:?} is no group:artifact"))?;
            without
                .push_str(&format!("<exclusion><groupId>{group}</groupId><artifactId>{id}</artifactId></exclusion>"));
        }
        let without = if without.is_empty() { without } else { format!("<exclusions>{without}</exclusions>") };
        let mut needed = String::new();
        for a in &self.artifacts {
            needed.push_str(&dependency(a, &without)?);
        }
        Ok(format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion><groupId>floe</groupId>\
             <artifactId>engine</artifactId><version>1</version><packaging>pom</packaging><dependencyManagement><dependencies>\
             {managed}</dependencies></dependencyManagement><dependencies>{needed}</dependencies></project>"
        ))
    }
}

fn dependency(artifact: &str, more: &str) -> Result<String, String> {
    match artifact.split(':').collect::<Vec<_>>()[..] {
        [group, id, version] => Ok(format!(
            "<dependency><groupId>{group}</groupId><artifactId>{id}</artifactId><version>{version}</version>{more}</dependency>"
        )),
        _ => Err(format!("{artifact:?} is no group:artifact:version")),
    }
}

/// Jars directly in a folder, in order of name.
pub fn jars(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let mut out: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "jar")).collect();
    out.sort();
    out
}

/// Sizes in bytes of all jars of the sets, by path below `dir`: what a start can afford to check of hundreds of megabytes.
pub fn sizes(sets: &[JarSet], dir: &Path) -> BTreeMap<String, u64> {
    let all = sets.iter().flat_map(|s| jars(&dir.join(&s.into)));
    all.map(|p| {
        let size = fs::metadata(&p).map_or(0, |m| m.len());
        (p.strip_prefix(dir).unwrap_or(&p).display().to_string(), size)
    })
    .collect()
}

#[cfg(test)]
mod tests;
