//! Faults that the harness puts into a table's files.

use std::path::Path;

use crate::facts::TableState;
use crate::scenario::Damage;

/// Changes bytes of the newest file with the given ending below the table's folder.
pub(super) fn damage(folder: &Path, d: &Damage) -> Result<(), String> {
    let state = TableState::read(folder).map_err(|e| e.to_string())?.ok_or("no table to damage")?;
    let ending = format!(".{}", d.newest);
    let newest = state
        .files
        .keys()
        .filter(|p| p.ends_with(&ending))
        .max_by_key(|p| std::fs::metadata(folder.join(p)).and_then(|m| m.modified()).ok())
        .ok_or_else(|| format!("the table has no {ending} file"))?;
    let path = folder.join(newest);
    let io = |e: std::io::Error| format!("{}: {e}", path.display());
    // a checksum file beside it (Hadoop's) would hide the damage behind an error of its own
    if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
        let _ = std::fs::remove_file(dir.join(format!(".{}.crc", name.to_string_lossy())));
    }
    if d.remove {
        return std::fs::remove_file(&path).map_err(io);
    }
    let mut bytes = std::fs::read(&path).map_err(io)?;
    if let Some(n) = d.truncate {
        bytes.truncate(n as usize);
    } else {
        let at = if d.at < 0 { bytes.len() as i64 + d.at } else { d.at };
        let byte = usize::try_from(at).ok().and_then(|i| bytes.get_mut(i));
        let byte =
            byte.ok_or_else(|| format!("offset {} is outside the {} bytes of {newest}", d.at, state.files[newest]))?;
        *byte ^= d.xor;
    }
    std::fs::write(&path, bytes).map_err(io)
}
