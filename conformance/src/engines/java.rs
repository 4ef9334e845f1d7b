//! Java of floe's own, compiled once on the user's machine against an engine's jars.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::install::run;
use super::jdk;

/// Java sources, embedded: name and text.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("BeamManaged.java", include_str!("../../drivers/java/BeamManaged.java")),
    ("Ddl.java", include_str!("../../drivers/java/Ddl.java")),
    ("FlinkSql.java", include_str!("../../drivers/java/FlinkSql.java")),
    ("IcebergJava.java", include_str!("../../drivers/java/IcebergJava.java")),
    ("Json.java", include_str!("../../drivers/java/Json.java")),
    ("SmallSql.java", include_str!("../../drivers/java/SmallSql.java")),
    ("Measuring.java", include_str!("../../drivers/java/Measuring.java")),
    ("TableWriter.java", include_str!("../../drivers/java/TableWriter.java")),
    ("TrinoMain.java", include_str!("../../drivers/java/TrinoMain.java")),
    ("VariantJson.java", include_str!("../../drivers/java/VariantJson.java")),
    ("Values.java", include_str!("../../drivers/java/Values.java")),
    ("Wire.java", include_str!("../../drivers/java/Wire.java")),
];

/// A program of floe's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JavaProgram {
    /// Its source files in `conformance/drivers/java/`.
    pub sources: Vec<String>,
    /// Folder of its jars below the installation.
    pub class_path: String,
    /// Class with the main method.
    pub main: String,
    /// Options of the virtual machine; `{scratch}` is the engine's own folder.
    #[serde(default)]
    pub options: Vec<String>,
}

impl JavaProgram {
    fn texts(&self) -> Vec<(&'static str, &'static str)> {
        SOURCES.iter().filter(|(n, _)| self.sources.iter().any(|s| s == n)).copied().collect()
    }

    /// Where its classes are: other sources, another folder.
    pub fn classes(&self, dir: &Path) -> PathBuf {
        let mut hash = Sha256::new();
        self.texts().iter().for_each(|(n, t)| hash.update(format!("{n}\n{t}\n")));
        dir.join(format!("classes-{}", &format!("{:x}", hash.finalize())[..10]))
    }

    /// Compiles it unless that was done, under the engine's installation lock.
    pub fn compile(&self, lock: &File, release: Option<u32>, dir: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
        let classes = self.classes(dir);
        if classes.is_dir() {
            return Ok(());
        }
        say(&format!("compiling {}", self.sources.join(" ")));
        let home = jdk::find(release.unwrap_or(17))?;
        let partial = classes.with_extension("partial");
        let io = |e: std::io::Error| format!("cannot compile into {}: {e}", partial.display());
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(io)?;
        }
        fs::create_dir_all(&partial).map_err(io)?;
        let mut command = Command::new(home.join("bin/javac"));
        command.args(["-proc:none", "-nowarn", "-encoding", "UTF-8", "-d"]).arg(&partial);
        command.arg("-cp").arg(dir.join(&self.class_path).join("*"));
        for (name, text) in self.texts() {
            let file = partial.join(name);
            fs::write(&file, text).map_err(io)?;
            command.arg(file);
        }
        run(lock, &mut command)?;
        fs::rename(&partial, &classes).map_err(io)
    }

    /// The command that runs it.
    pub fn command(&self, jdk: Option<&Path>, dir: &Path, scratch: &Path) -> Vec<String> {
        let java = jdk.map_or_else(|| PathBuf::from("java"), |h| h.join("bin/java"));
        let own = scratch.display().to_string();
        let mut out = vec![java.display().to_string()];
        out.extend(self.options.iter().map(|o| o.replace("{scratch}", &own)));
        let class_path = format!("{}:{}/*", self.classes(dir).display(), dir.join(&self.class_path).display());
        out.extend(["-cp".into(), class_path, self.main.clone()]);
        out
    }
}
