//! Options of the rewriting procedures, as Spark names them.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// Which files are worth rewriting by size, and how large the new ones get. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeOptions {
    /// Rewrite every file.
    pub rewrite_all: bool,
    /// Size of new files.
    pub target: u64,
    /// Smaller files are rewritten.
    pub min: u64,
    /// Larger files are rewritten.
    pub max: u64,
    /// A group of this many files is rewritten whatever its content.
    pub min_input_files: u64,
    /// A group holds at most this much.
    pub max_group: u64,
}

/// The options every rewriting procedure has.
pub(super) const SIZE_OPTIONS: [&str; 6] = [
    "max-file-group-size-bytes",
    "max-file-size-bytes",
    "min-file-size-bytes",
    "min-input-files",
    "rewrite-all",
    "target-file-size-bytes",
];

/// Options as given, with the procedure's name for messages.
pub(super) struct Given<'a> {
    procedure: &'static str,
    values: &'a BTreeMap<String, String>,
}

impl<'a> Given<'a> {
    /// Refuses an option that the procedure does not have.
    pub(super) fn new(procedure: &'static str, values: &'a BTreeMap<String, String>, own: &[&str]) -> Result<Self> {
        let allowed = || SIZE_OPTIONS.iter().chain(own);
        if let Some(unknown) = values.keys().find(|k| !allowed().any(|a| a == k)) {
            let mut names: Vec<&str> = allowed().copied().collect();
            names.sort_unstable();
            return Err(Error::invalid(format!("{procedure} has no option {unknown}; it has: {}", names.join(", "))));
        }
        Ok(Self { procedure, values })
    }

    fn wrong(&self, key: &str, want: &str) -> Error {
        let found = self.values.get(key).map_or("", String::as_str);
        Error::invalid(format!("{}: '{key}' is set to {found:?} but must be {want}", self.procedure))
    }

    /// A whole number from `least` on.
    pub(super) fn number(&self, key: &str, least: u64, default: u64) -> Result<u64> {
        match self.values.get(key) {
            None => Ok(default),
            Some(v) => v
                .trim()
                .parse()
                .ok()
                .filter(|n| *n >= least)
                .ok_or_else(|| self.wrong(key, &format!("a whole number >= {least}"))),
        }
    }

    /// A fraction from zero on.
    pub(super) fn ratio(&self, key: &str, default: f64) -> Result<f64> {
        match self.values.get(key) {
            None => Ok(default),
            Some(v) => v
                .trim()
                .parse()
                .ok()
                .filter(|n: &f64| (0.0..=1.0).contains(n))
                .ok_or_else(|| self.wrong(key, "a number from 0 to 1")),
        }
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.values.get(key).map(|v| v.trim().to_ascii_lowercase()) {
            None => Ok(default),
            Some(v) if v == "true" => Ok(true),
            Some(v) if v == "false" => Ok(false),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// The options of sizes; `target` is the table's own target size.
    pub(super) fn sizes(&self, target: u64) -> Result<SizeOptions> {
        let target = self.number("target-file-size-bytes", 1, target)?;
        let part = |share: u64| ((u128::from(target) * u128::from(share)) / 100) as u64;
        let out = SizeOptions {
            rewrite_all: self.flag("rewrite-all", false)?,
            target,
            min: self.number("min-file-size-bytes", 0, part(75))?,
            max: self.number("max-file-size-bytes", 1, part(180).max(target.saturating_add(1)))?,
            min_input_files: self.number("min-input-files", 1, 5)?,
            max_group: self.number("max-file-group-size-bytes", 1, 100 << 30)?,
        };
        if out.min >= target {
            return Err(Error::invalid(format!(
                "{}: 'target-file-size-bytes' ({target}) must be > 'min-file-size-bytes' ({}), all new files will be \
                 smaller than the min threshold",
                self.procedure, out.min
            )));
        }
        if out.max <= target {
            return Err(Error::invalid(format!(
                "{}: 'target-file-size-bytes' ({target}) must be < 'max-file-size-bytes' ({}), all new files will be \
                 larger than the max threshold",
                self.procedure, out.max
            )));
        }
        Ok(out)
    }
}

impl SizeOptions {
    /// Whether a file is outside the wanted range.
    pub(super) fn misfits(&self, size: u64) -> bool {
        size < self.min || size > self.max
    }

    /// Whether a group of files is worth rewriting for its size alone.
    pub(super) fn worth_it(&self, files: u64, bytes: u64) -> bool {
        (files > 1 && (files >= self.min_input_files || bytes > self.target)) || bytes > self.max
    }

    /// At what size new files are closed: over the target, so that a remainder does not become a tiny file.
    pub(super) fn roll_at(&self) -> u64 {
        self.target + (self.max - self.target) / 2
    }
}
