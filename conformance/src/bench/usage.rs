//! What a measured call takes of the machine: processor time, memory, bytes and calls of reading and writing, of an engine's whole tree of
//! processes, as Linux counts them under `/proc`. Elsewhere nothing is known.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Ticks of the processor times in `/proc/PID/stat`: `USER_HZ`, which is 100 on every architecture that Rust builds for.
const TICKS_A_SECOND: f64 = 100.0;

/// What a call took. Nothing is known of what the system does not tell.
///
/// floe runs in the harness's process: its numbers hold the harness's own memory and the shared REST catalog's work too. Bytes and requests
/// are those of read and write calls: pages of a mapped file are not seen, and a request to a local disk is a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor seconds, user and system, in steps of 0.01.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Peak memory during it in MiB: the sum of each process's own peak, so never less than what the tree had at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<f64>,
    /// Bytes that read calls gave, from files, sockets and pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that write calls took, to files, sockets and pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Read and write calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Counters of a process since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    /// Its own ticks and those of children that it waited for.
    ticks: u64,
    read: u64,
    written: u64,
    requests: u64,
}

/// Measures one call of an engine.
pub(super) struct Meter {
    root: Option<u32>,
    before: BTreeMap<u32, Counters>,
    /// Peaks could be reset.
    fresh: bool,
}

impl Meter {
    /// Starts to measure the tree of processes below `root`; `None` measures nothing.
    pub fn start(root: Option<u32>) -> Self {
        let before = root.map(tree).unwrap_or_default();
        let fresh = !before.is_empty() && before.keys().map(|pid| forget_peak(*pid)).fold(true, |all, one| all & one);
        Self { root, before, fresh }
    }

    /// What was taken since then. A process that started since counts whole, one that ended counts where its parent waited for it.
    pub fn stop(self) -> Usage {
        let after = self.root.map(tree).unwrap_or_default();
        if self.before.is_empty() || after.is_empty() {
            return Usage::default();
        }
        let sum = |of: fn(&Counters) -> u64| {
            after.iter().map(|(pid, c)| of(c).saturating_sub(self.before.get(pid).map_or(0, of))).sum::<u64>()
        };
        let peak: f64 = after.keys().filter_map(|pid| peak_kib(*pid)).sum();
        Usage {
            cpu_seconds: Some(sum(|c| c.ticks) as f64 / TICKS_A_SECOND),
            peak_mib: self.fresh.then_some(peak / 1024.0),
            read_bytes: Some(sum(|c| c.read)),
            written_bytes: Some(sum(|c| c.written)),
            requests: Some(sum(|c| c.requests)),
        }
    }
}

/// Counters of a process and of all below it, by process id; empty where the system tells nothing.
fn tree(root: u32) -> BTreeMap<u32, Counters> {
    let all: Vec<(u32, u32, u64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| stat(e.file_name().to_str()?.parse().ok()?))
        .collect();
    let (mut out, mut next) = (BTreeMap::new(), vec![root]);
    while let Some(pid) = next.pop() {
        if let Some((_, _, ticks)) = all.iter().find(|p| p.0 == pid)
            && !out.contains_key(&pid)
        {
            out.insert(pid, Counters { ticks: *ticks, ..io(pid) });
            // engines are children of the harness, and no part of what runs inside it
            if pid != std::process::id() {
                next.extend(all.iter().filter(|p| p.1 == pid).map(|p| p.0));
            }
        }
    }
    out
}

/// Process, parent and ticks.
fn stat(pid: u32) -> Option<(u32, u32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name is in brackets and may hold anything
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    let ticks = [11, 12, 13, 14].into_iter().map(number).sum::<Option<u64>>()?;
    Some((pid, u32::try_from(number(1)?).ok()?, ticks))
}

fn io(pid: u32) -> Counters {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("io")).unwrap_or_default();
    let number =
        |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or_default();
    Counters {
        ticks: 0,
        read: number("rchar:"),
        written: number("wchar:"),
        requests: number("syscr:") + number("syscw:"),
    }
}

/// Forgets the peak memory of a process so far; false where the system cannot.
pub(crate) fn forget_peak(pid: u32) -> bool {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

/// Peak memory of a process since then, in KiB.
pub(crate) fn peak_kib(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests;
