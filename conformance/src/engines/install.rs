//! Installing engines through the user's own pip and Maven: built aside, checked, renamed into place. A run that is cut off
//! leaves a `.partial` folder whose finished stages the next run keeps; a lock file makes two runs at once wait for each other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::verify::{checksums, contents, sha256, sizes};
use super::{Engine, Home, jar_files, maven};

/// Record of a finished installation, `installed.json` in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Installed {
    /// Folder; not in the record itself.
    #[serde(skip)]
    pub dir: PathBuf,
    /// The recipe it was made by.
    pub recipe: String,
    /// What pip resolved, in the form of a requirements file: `name==version --hash=sha256:…`.
    pub packages: Vec<String>,
    /// SHA-256 of every jar and of every installed package's own list of file hashes, by path below the folder.
    pub sha256: BTreeMap<String, String>,
    /// Bytes of every jar of the jar sets, by path below the folder.
    #[serde(default)]
    pub sizes: BTreeMap<String, u64>,
}

/// The programs that fetch.
#[derive(Debug, Clone)]
pub struct Tools {
    /// A Python with `venv`.
    pub python: String,
    /// Maven.
    pub mvn: String,
}

impl Default for Tools {
    fn default() -> Self {
        Self { python: "python3".into(), mvn: "mvn".into() }
    }
}

/// The recipe as text, and the folder of its installation: another recipe is another folder.
fn place(engine: &Engine, home: &Home) -> (String, PathBuf) {
    let mut recipe = format!("pip {}\nmaven {}", engine.pip.join(" "), engine.maven.join(" "));
    engine.jars.iter().for_each(|s| recipe.push_str(&format!("\n{}", s.recipe())));
    engine.files.iter().for_each(|(p, t)| recipe.push_str(&format!("\nfile {p}: {t}")));
    let tag = format!("{:x}", Sha256::digest(recipe.as_bytes()));
    let name = if engine.shares.is_empty() { &engine.name } else { &engine.shares };
    (recipe, home.engines().join(format!("{name}-{}", &tag[..10])))
}

/// The installation, if it is there and still what was recorded: jars and the packages' lists of files by hash, the files
/// in those lists by size.
pub fn installed(engine: &Engine, home: &Home) -> Option<Installed> {
    let (recipe, dir) = place(engine, home);
    let text = fs::read_to_string(dir.join("installed.json")).ok()?;
    let mut found: Installed = serde_json::from_str(&text).ok()?;
    found.dir = dir;
    let same = found.recipe == recipe
        && maven::sizes(&engine.jars, &found.dir) == found.sizes
        && engine.files.iter().all(|(p, t)| fs::read_to_string(found.dir.join(p)).is_ok_and(|now| now == *t))
        && checksums(&found.dir).ok()? == found.sha256
        && sizes(&found.dir).is_ok();
    same.then_some(found)
}

/// Installs an engine unless it is there. `say` gets a line for each stage. The error is a reason for people, with the
/// tail of the failing tool's output.
pub fn install(engine: &Engine, home: &Home, say: &dyn Fn(&str)) -> Result<Installed, String> {
    install_with(&Tools::default(), engine, home, say)
}

/// [`install`] with other programs.
pub fn install_with(tools: &Tools, engine: &Engine, home: &Home, say: &dyn Fn(&str)) -> Result<Installed, String> {
    if let Some(why) = engine.missing() {
        return Err(why);
    }
    let (recipe, dir) = place(engine, home);
    fs::create_dir_all(home.engines()).map_err(io("cannot make the engines folder"))?;
    let lock_path = dir.with_extension("lock");
    let lock = File::create(&lock_path).map_err(io("cannot make the lock file"))?;
    lock.lock().map_err(io("cannot lock"))?;
    let compile = |dir: &Path| match &engine.java {
        Some(program) => program.compile(&lock, engine.jdk, dir, say),
        None => Ok(()),
    };
    if let Some(done) = installed(engine, home) {
        compile(&done.dir)?;
        return Ok(done);
    }
    let work = dir.with_extension("partial");
    fs::create_dir_all(work.join("jars")).map_err(io("cannot make the installation folder"))?;
    let packages = if engine.pip.is_empty() { Vec::new() } else { python(&lock, tools, engine, &work, say)? };
    for artifact in &engine.maven {
        jar(&lock, tools, engine, artifact, &work, say)?;
    }
    for set in &engine.jars {
        set.fetch(&lock, tools, &work, say)?;
    }
    for (path, text) in &engine.files {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&work)).map_err(io("cannot make a folder"))?;
        fs::write(&path, text).map_err(io("cannot write a file"))?;
    }
    let _ = fs::remove_dir_all(work.join("projects"));
    contents(&work)?;
    let sha256 = checksums(&work).map_err(io("cannot read back"))?;
    let record = Installed { dir: dir.clone(), recipe, packages, sha256, sizes: maven::sizes(&engine.jars, &work) };
    let text = serde_json::to_string_pretty(&record).map_err(|e| e.to_string())?;
    fs::write(work.join("installed.json"), text).map_err(io("cannot write the record"))?;
    if dir.exists() {
        // Its record did not match: it is spoilt.
        fs::remove_dir_all(&dir).map_err(io("cannot remove a spoilt installation"))?;
    }
    fs::rename(&work, &dir).map_err(io("cannot move the installation into place"))?;
    compile(&dir)?;
    Ok(record)
}

fn io(what: &str) -> impl FnOnce(std::io::Error) -> String {
    let what = what.to_string();
    move |e| format!("{what}: {e}")
}

/// The Python environment, and what pip put into it. pip takes a half-written package for an installed one, so an
/// environment without the mark of its end is made again (from pip's own cache).
fn python(lock: &File, tools: &Tools, engine: &Engine, work: &Path, say: &dyn Fn(&str)) -> Result<Vec<String>, String> {
    let (venv, mark) = (work.join("venv"), work.join("python.json"));
    let done = fs::read_to_string(&mark).ok().and_then(|t| serde_json::from_str(&t).ok());
    if let Some(packages) = done {
        return Ok(packages);
    }
    if venv.exists() {
        fs::remove_dir_all(&venv).map_err(io("cannot remove a half-made environment"))?;
    }
    say("making a Python environment");
    run(lock, Command::new(&tools.python).args(["-m", "venv"]).arg(&venv))?;
    say(&format!("installing {}", engine.pip.join(" ")));
    let report = work.join("pip-report.json");
    run(
        lock,
        Command::new(venv.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--no-input"])
            .args(["--disable-pip-version-check", "--report"])
            .arg(&report)
            .args(&engine.pip),
    )?;
    let packages = locked(&fs::read_to_string(&report).map_err(io("cannot read pip's report"))?)?;
    let text = serde_json::to_string(&packages).map_err(|e| e.to_string())?;
    // the mark appears whole or not at all
    let aside = work.join("python.json.new");
    fs::write(&aside, text).map_err(io("cannot write the mark"))?;
    fs::rename(&aside, &mark).map_err(io("cannot write the mark"))?;
    Ok(packages)
}

/// What pip fetched, by its report: a line of a requirements file with the hash of each archive.
fn locked(report: &str) -> Result<Vec<String>, String> {
    let v: serde_json::Value = serde_json::from_str(report).map_err(|e| format!("pip's report is no JSON: {e}"))?;
    let all = v["install"].as_array().ok_or("pip's report has no list")?;
    let mut lines: Vec<String> = all
        .iter()
        .map(|p| {
            let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_string();
            let (name, version) = (text(&p["metadata"]["name"]), text(&p["metadata"]["version"]));
            let hash = &p["download_info"]["archive_info"]["hashes"]["sha256"];
            match hash.as_str() {
                Some(h) => format!("{name}=={version} --hash=sha256:{h}"),
                None => format!("{name}=={version}"),
            }
        })
        .collect();
    lines.sort_by_key(|l| l.to_lowercase());
    Ok(lines)
}

/// One artifact into `jars/`, fetched aside: what is in `jars/` is whole, and of the pinned hash where there is one.
fn jar(
    lock: &File,
    tools: &Tools,
    engine: &Engine,
    artifact: &str,
    work: &Path,
    say: &dyn Fn(&str),
) -> Result<(), String> {
    let mut parts = artifact.split(':');
    let (id, version) = (parts.nth(1).unwrap_or_default(), parts.next().unwrap_or_default());
    let stem = format!("{id}-{version}");
    let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if jar_files(work).iter().any(|p| name(p).starts_with(&stem)) {
        return Ok(());
    }
    say(&format!("fetching {artifact}"));
    let aside = work.join("fetch");
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(io("cannot remove a half-fetched jar"))?;
    }
    run(
        lock,
        Command::new(&tools.mvn)
            .args(["-q", "-B", "-ntp", "--strict-checksums"])
            .args(["dependency:copy", "-Dmdep.useBaseVersion=true"])
            .arg(format!("-Dartifact={artifact}"))
            .arg(format!("-DoutputDirectory={}", aside.display())),
    )?;
    let fetched: Vec<PathBuf> =
        fs::read_dir(&aside).map_err(io("Maven fetched nothing"))?.flatten().map(|e| e.path()).collect();
    for path in fetched {
        let file = name(&path);
        let found = sha256(&path).map_err(io("cannot read the jar"))?;
        if let Some(pin) = engine.sha256.get(&file).filter(|p| **p != found) {
            return Err(format!("{file} has SHA-256 {found}; the registry pins {pin}"));
        }
        fs::rename(&path, work.join("jars").join(&file)).map_err(io("cannot keep the jar"))?;
    }
    fs::remove_dir_all(&aside).map_err(io("cannot tidy up"))
}

/// Runs a tool to its end and gives its output; the error ends with what it said last.
pub(super) fn run(lock: &File, command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    // the tool holds the (empty) lock file too: one that outlives a killed floe still keeps the next run waiting
    let input = lock.try_clone().map_err(io("cannot share the lock"))?;
    let out = command.stdin(Stdio::from(input)).output().map_err(|e| format!("cannot run {program}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(3)..].join(" | ");
    Err(format!("{program} failed: {}", tail.chars().take(600).collect::<String>()))
}
