//! The engines floe knows: how each is installed, started and what its driver is. An engine is an entry of
//! `conformance/drivers/engines.toml` and a driver script beside it.

mod catalogs;
mod home;
mod install;
mod java;
mod jdk;
mod maven;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drivers::Launch;

pub use catalogs::{CatalogRow, catalogs};
pub use home::Home;
pub use install::{Installed, Tools, install, install_with, installed};
pub use java::JavaProgram;
pub use jdk::find as find_jdk;
pub use maven::JarSet;

/// Driver scripts, embedded: name and text.
const SCRIPTS: &[(&str, &str)] = &[
    ("floe_driver.py", include_str!("../../drivers/floe_driver.py")),
    ("spark.py", include_str!("../../drivers/spark.py")),
    ("path_readers.py", include_str!("../../drivers/path_readers.py")),
    ("sail.py", include_str!("../../drivers/sail.py")),
    ("rest_writers.py", include_str!("../../drivers/rest_writers.py")),
    ("google_readers.py", include_str!("../../drivers/google_readers.py")),
    ("published.py", include_str!("../../drivers/published.py")),
    ("trino.py", include_str!("../../drivers/trino.py")),
    ("trino_text.py", include_str!("../../drivers/trino_text.py")),
];

/// Driver of an engine that is a Rust library: floe itself, by its hidden subcommand `driver`.
pub const OWN: &str = "floe";

/// A driver to start from, for engines floe does not know.
const TEMPLATE: &str = include_str!("../../drivers/template.py");

const REGISTRY: &str = include_str!("../../drivers/engines.toml");

/// How one engine is had and run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Engine {
    /// Name on the command line and in results.
    pub name: String,
    /// Name for people, with versions.
    pub title: String,
    /// Its own version.
    pub version: String,
    /// Version of the Iceberg library inside, if it is one.
    #[serde(default)]
    pub iceberg: String,
    /// Programs that must be on the path: `python3`, `mvn`, `java>=17`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Environment variables that must be set (credentials).
    #[serde(default)]
    pub needs_env: Vec<String>,
    /// Python packages with pinned versions, for a venv of its own.
    #[serde(default)]
    pub pip: Vec<String>,
    /// Maven artifacts `group:artifact:version[:type[:classifier]]`, copied into `jars/`.
    #[serde(default)]
    pub maven: Vec<String>,
    /// Pinned SHA-256 of fetched jars, by file name; another hash is refused.
    #[serde(default)]
    pub sha256: BTreeMap<String, String>,
    /// Folders of jars with their dependencies.
    #[serde(default)]
    pub jars: Vec<JarSet>,
    /// Text files of the installation, by path below its folder.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Release of Java that it runs on, or a newer one.
    #[serde(default)]
    pub jdk: Option<u32>,
    /// Java of floe's own that is compiled for it: the driver when there is no script.
    #[serde(default)]
    pub java: Option<JavaProgram>,
    /// Driver script, run by the venv's Python (or the system's when there is no venv), or [`OWN`].
    #[serde(default)]
    pub driver: String,
    /// Engine of the same recipe whose folder it uses; a folder of its own unless given.
    #[serde(default)]
    pub shares: String,
    /// Arguments of the driver.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment of the driver; `{dir}` is the installed folder.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it uses the run's REST catalog in place of the warehouse folder; both show the same tables.
    #[serde(default)]
    pub rest: bool,
    /// Official container image for `--launcher container`; `FLOE_IMAGE_<NAME>` or `FLOE_IMAGE` name another.
    #[serde(default)]
    pub image: String,
    /// Part of the default run.
    #[serde(default = "yes")]
    pub default: bool,
    /// Why it can never be had here; such an engine keeps its row, skipped with this reason.
    #[serde(default)]
    pub unavailable: String,
    /// Seconds for the start.
    #[serde(default = "three_minutes")]
    pub start_timeout: u64,
    /// Seconds for a statement or scan.
    #[serde(default = "two_minutes")]
    pub step_timeout: u64,
}

fn yes() -> bool {
    true
}

fn three_minutes() -> u64 {
    180
}

fn two_minutes() -> u64 {
    120
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    engine: Vec<Engine>,
}

/// Every engine in the registry, in the order in which the report shows them.
pub fn registry() -> Vec<Engine> {
    let r: Registry = toml::from_str(REGISTRY).expect("the registry is part of the build and tested");
    r.engine
}

/// The engine of this name; the error lists the names there are.
pub fn find(name: &str) -> Result<Engine, String> {
    let all = registry();
    let names: Vec<String> = all.iter().map(|e| e.name.clone()).collect();
    all.into_iter()
        .find(|e| e.name == name)
        .ok_or_else(|| format!("no engine {name:?}; there are: floe, {}", names.join(", ")))
}

/// Writes the template driver to `file` and the protocol library beside it; a file that is there is not replaced.
pub fn write_template(file: &Path) -> std::io::Result<()> {
    let library = file.with_file_name("floe_driver.py");
    for (path, text) in [(file, TEMPLATE), (library.as_path(), SCRIPTS[0].1)] {
        let mut out = std::fs::File::create_new(path)?;
        std::io::Write::write_all(&mut out, text.as_bytes())?;
    }
    Ok(())
}

impl Engine {
    /// The first thing this machine lacks for it, as a reason, or nothing.
    pub fn missing(&self) -> Option<String> {
        if !self.unavailable.is_empty() {
            return Some(self.unavailable.clone());
        }
        let unset: Vec<&str> =
            self.needs_env.iter().map(String::as_str).filter(|v| std::env::var_os(v).is_none()).collect();
        match unset[..] {
            [] => self.needs.iter().find_map(|n| lacks(n)).or_else(|| self.jdk.and_then(|j| jdk::find(j).err())),
            [one] => Some(format!("{one} is not set")),
            _ => Some(format!("{} are not set", unset.join(", "))),
        }
    }

    /// The one command that gets it.
    pub fn command(&self) -> String {
        let env: String = self.needs_env.iter().map(|v| format!("{v}=... ")).collect();
        format!("{env}cargo floe conformance --engines floe,{}", self.name)
    }

    /// How to start its driver once it is installed in `dir`; `rest` is the URI of the run's REST catalog.
    pub fn launch(
        &self,
        dir: &Path,
        scratch: &Path,
        warehouse: &Path,
        catalog: &str,
        rest: &str,
    ) -> Result<Launch, String> {
        let scripts = scratch.join("driver");
        std::fs::create_dir_all(&scripts).map_err(|e| format!("cannot make {}: {e}", scripts.display()))?;
        for (name, text) in SCRIPTS {
            std::fs::write(scripts.join(name), text).map_err(|e| format!("cannot write {name}: {e}"))?;
        }
        let place = dir.display().to_string();
        let mut env: Vec<(String, String)> =
            self.env.iter().map(|(k, v)| (k.clone(), v.replace("{dir}", &place))).collect();
        let jdk = self.jdk.map(jdk::find).transpose()?;
        if let Some(home) = &jdk {
            env.push(("FLOE_JDK".into(), home.display().to_string()));
        }
        if let Some(program) = &self.java {
            env.push(("FLOE_CLASSES".into(), program.classes(dir).display().to_string()));
        }
        let mut command = match &self.java {
            Some(program) if self.driver.is_empty() => program.command(jdk.as_deref(), dir, scratch),
            _ if self.driver == OWN => {
                let own = std::env::current_exe().map_err(|e| format!("cannot find floe: {e}"))?;
                vec![own.display().to_string(), "driver".into()]
            }
            _ => {
                let python = if self.pip.is_empty() { PathBuf::from("python3") } else { dir.join("venv/bin/python") };
                vec![python.display().to_string(), scripts.join(&self.driver).display().to_string()]
            }
        };
        command.extend(self.args.iter().cloned());
        let jars: Vec<String> = jar_files(dir).into_iter().map(|p| p.display().to_string()).collect();
        env.push(("FLOE_JARS".into(), jars.join(",")));
        env.push(("FLOE_ENGINE_DIR".into(), place));
        env.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        env.push(("TZ".into(), "UTC".into()));
        Ok(Launch {
            name: self.name.clone(),
            command,
            env,
            scratch: scratch.to_path_buf(),
            warehouse: warehouse.to_path_buf(),
            catalog: catalog.into(),
            rest: self.rest.then(|| rest.to_string()),
            start_timeout: Duration::from_secs(self.start_timeout),
            step_timeout: Duration::from_secs(self.step_timeout),
        })
    }
}

/// Jars of an installed engine, in order of name.
fn jar_files(dir: &Path) -> Vec<PathBuf> {
    maven::jars(&dir.join("jars"))
}

/// Why a need (`mvn`, `java>=17`) is not met.
fn lacks(need: &str) -> Option<String> {
    let (program, least) = need.split_once(">=").map_or((need, None), |(p, v)| (p, v.parse::<u32>().ok()));
    let Ok(out) =
        std::process::Command::new(program).arg(if program == "java" { "-version" } else { "--version" }).output()
    else {
        return Some(format!("{program} is not on the path"));
    };
    let least = least?;
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let digits = |s: &str| s.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    match text.find(|c: char| c.is_ascii_digit()).and_then(|i| digits(&text[i..])) {
        Some(found) if found < least => Some(format!("{program} {found} is older than {least}")),
        Some(_) => None,
        None => Some(format!("{program} does not say its version")),
    }
}

#[cfg(test)]
mod tests;
