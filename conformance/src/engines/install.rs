//! Installing engines through the user's own pip and Maven: built aside, checked, renamed into place, safe for two runs at once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Engine, Home, jar_files, maven};

/// Record of a finished installation, `installed.json` in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Installed {
    /// Folder; not in the record itself.
    #[serde(skip)]
    pub dir: PathBuf,
    /// The recipe it was made by.
    pub recipe: String,
    /// What pip resolved: `name==version` lines.
    pub packages: Vec<String>,
    /// SHA-256 of every jar and of every installed package's own list of file hashes, by path below the folder.
    pub sha256: BTreeMap<String, String>,
    /// Bytes of every jar of the jar sets, by path below the folder.
    #[serde(default)]
    pub sizes: BTreeMap<String, u64>,
}

/// The recipe as text, and the folder of its installation: another recipe is another folder.
fn place(engine: &Engine, home: &Home) -> (String, PathBuf) {
    let mut recipe = format!("pip {}\nmaven {}", engine.pip.join(" "), engine.maven.join(" "));
    engine.jars.iter().for_each(|s| recipe.push_str(&format!("\n{}", s.recipe())));
    engine.files.iter().for_each(|(p, t)| recipe.push_str(&format!("\nfile {p}: {t}")));
    let tag = format!("{:x}", Sha256::digest(recipe.as_bytes()));
    (recipe, home.engines().join(format!("{}-{}", engine.name, &tag[..10])))
}

/// The installation, if it is there and what it recorded still matches its files.
pub fn installed(engine: &Engine, home: &Home) -> Option<Installed> {
    let (recipe, dir) = place(engine, home);
    let text = fs::read_to_string(dir.join("installed.json")).ok()?;
    let mut found: Installed = serde_json::from_str(&text).ok()?;
    found.dir = dir;
    let same = found.recipe == recipe
        && maven::sizes(&engine.jars, &found.dir) == found.sizes
        && engine.files.iter().all(|(p, t)| fs::read_to_string(found.dir.join(p)).is_ok_and(|now| now == *t))
        && checksums(&found.dir).ok()? == found.sha256;
    same.then_some(found)
}

/// Installs an engine unless it is there. `say` gets a line for each stage. The error is a reason for people, with the
/// tail of the failing tool's output. A run that is cut off leaves its partial folder, which the next run goes on with.
pub fn install(engine: &Engine, home: &Home, say: &dyn Fn(&str)) -> Result<Installed, String> {
    if let Some(why) = engine.missing() {
        return Err(why);
    }
    let io = |what: &str| {
        let what = what.to_string();
        move |e: std::io::Error| format!("{what}: {e}")
    };
    let (recipe, dir) = place(engine, home);
    fs::create_dir_all(home.engines()).map_err(io("cannot make the engines folder"))?;
    let lock_path = dir.with_extension("lock");
    let lock = File::create(&lock_path).map_err(io("cannot make the lock file"))?;
    lock.lock().map_err(io("cannot lock"))?;
    let compile = |dir: &Path| match &engine.java {
        Some(program) => program.compile(engine.jdk, dir, say),
        None => Ok(()),
    };
    if let Some(done) = installed(engine, home) {
        compile(&done.dir)?;
        return Ok(done);
    }
    let work = dir.with_extension("partial");
    fs::create_dir_all(work.join("jars")).map_err(io("cannot make the installation folder"))?;
    let mut packages = Vec::new();
    if !engine.pip.is_empty() {
        let python = work.join("venv/bin/python");
        if !python.exists() {
            say("making a Python environment");
            run(Command::new("python3").args(["-m", "venv"]).arg(work.join("venv")))?;
        }
        say(&format!("installing {}", engine.pip.join(" ")));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
            .args(&engine.pip))?;
        let frozen = run(Command::new(&python).args(["-m", "pip", "freeze", "--disable-pip-version-check"]))?;
        packages = frozen.lines().map(str::to_string).collect();
    }
    for artifact in &engine.maven {
        let mut parts = artifact.split(':');
        let (id, version) = (parts.nth(1).unwrap_or_default(), parts.next().unwrap_or_default());
        let there = jar_files(&work)
            .iter()
            .any(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{id}-{version}"))));
        if there {
            continue;
        }
        say(&format!("fetching {artifact}"));
        run(Command::new("mvn")
            .args(["-q", "-B", "-ntp", "dependency:copy", "-Dmdep.useBaseVersion=true"])
            .arg(format!("-Dartifact={artifact}"))
            .arg(format!("-DoutputDirectory={}", work.join("jars").display())))?;
    }
    for set in &engine.jars {
        set.fetch(&work, say)?;
    }
    for (path, text) in &engine.files {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&work)).map_err(io("cannot make a folder"))?;
        fs::write(&path, text).map_err(io("cannot write a file"))?;
    }
    let _ = fs::remove_dir_all(work.join("projects"));
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

/// Runs a tool to its end and gives its output; the error ends with what it said last.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {program}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(3)..].join(" | ");
    Err(format!("{program} failed: {}", tail.chars().take(600).collect::<String>()))
}

/// Hashes of the jars and of each package's `RECORD` (pip's list of file hashes).
fn checksums(dir: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut paths = jar_files(dir);
    for lib in fs::read_dir(dir.join("venv/lib")).into_iter().flatten().flatten() {
        for package in fs::read_dir(lib.path().join("site-packages")).into_iter().flatten().flatten() {
            let record = package.path().join("RECORD");
            if record.is_file() {
                paths.push(record);
            }
        }
    }
    let mut out = BTreeMap::new();
    for p in paths {
        let mut hash = Sha256::new();
        let mut file = File::open(&p)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => hash.update(&buffer[..n]),
            }
        }
        out.insert(p.strip_prefix(dir).unwrap_or(&p).display().to_string(), format!("{:x}", hash.finalize()));
    }
    Ok(out)
}
