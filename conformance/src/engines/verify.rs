//! Whether an installation is what it was: hashes of jars, and of Python packages by the lists that pip keeps of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::jar_files;

/// SHA-256 of a file, lower-case hex.
pub(super) fn sha256(path: &Path) -> std::io::Result<String> {
    Ok(digest(path)?.iter().map(|b| format!("{b:02x}")).collect())
}

fn digest(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// The `RECORD` of every package: pip's list of its files with hash and size.
fn records(dir: &Path) -> Vec<PathBuf> {
    let entries = |p: PathBuf| fs::read_dir(p).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries(dir.join("venv/lib"))
        .flat_map(|lib| entries(lib.path().join("site-packages")))
        .map(|package| package.path().join("RECORD"))
        .filter(|r| r.is_file())
        .collect();
    all.sort();
    all
}

/// Hashes of the jars and of the `RECORD`s, by path below `dir`.
pub(super) fn checksums(dir: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    for p in jar_files(dir).into_iter().chain(records(dir)) {
        let name = p.strip_prefix(dir).unwrap_or(&p).display().to_string();
        out.insert(name, sha256(&p)?);
    }
    Ok(out)
}

/// A file of one or more packages: what each lists for it, hash (`sha256=` and unpadded base64) and size in bytes.
type Listed = BTreeMap<PathBuf, Vec<(Option<String>, Option<u64>)>>;

fn listed(dir: &Path) -> Result<Listed, String> {
    let mut out = Listed::new();
    for record in records(dir) {
        let text = fs::read_to_string(&record).map_err(|e| format!("{}: {e}", record.display()))?;
        let site = record.parent().and_then(Path::parent).ok_or("a list outside a package")?;
        for line in text.lines() {
            // a name may hold commas, and is quoted then; hash and size never do
            let mut parts = line.rsplitn(3, ',');
            let (size, hash) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            let name = parts.next().unwrap_or("");
            let name = name.trim_matches('"').replace("\"\"", "\"");
            if name.is_empty() {
                continue;
            }
            let hash = hash.strip_prefix("sha256=").map(str::to_string);
            let entry = out.entry(site.join(name)).or_default();
            entry.push((hash, size.trim().parse().ok()));
        }
    }
    Ok(out)
}

/// Every listed file has a recorded size; the error names the first that has not.
pub(super) fn sizes(dir: &Path) -> Result<(), String> {
    for (path, of) in listed(dir)? {
        if of.iter().any(|(_, size)| size.is_none()) {
            continue;
        }
        let found = fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if !of.iter().any(|(_, size)| *size == Some(found.len())) {
            return Err(format!("{} has {} bytes, which its package does not list", path.display(), found.len()));
        }
    }
    Ok(())
}

/// Every listed file has a recorded hash (two packages may bring the same file, and the later one wins); the error names
/// the first that has not.
pub(super) fn contents(dir: &Path) -> Result<(), String> {
    for (path, of) in listed(dir)? {
        if of.iter().any(|(hash, _)| hash.is_none()) {
            continue;
        }
        let found = digest(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let found = URL_SAFE_NO_PAD.encode(found);
        if !of.iter().any(|(hash, _)| hash.as_deref() == Some(found.as_str())) {
            return Err(format!("{} is not what its package lists", path.display()));
        }
    }
    Ok(())
}
