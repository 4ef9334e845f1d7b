//! Values of the table properties that the format's implementations know (PROP-*), checked where a user sets them. Unknown
//! properties are anyone's. A table that already has a bad value stays readable; it is refused where it is used.

use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// What a property takes.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    /// One of these words, in any case.
    Words(&'static [&'static str]),
    /// One of these words as it stands.
    Exactly(&'static [&'static str]),
    /// `true` or `false`, in any case.
    Boolean,
    /// A whole number of at least this.
    Integer(i64),
    /// A number between 0 and 1.
    Fraction,
    /// `none`, `counts`, `truncate(n)`, `full`.
    Metrics,
}

use Allowed::{Boolean, Exactly, Fraction, Integer, Metrics, Words};

const MODES: Allowed = Words(&["copy-on-write", "merge-on-read"]);
const ISOLATION: Allowed = Words(&["serializable", "snapshot"]);
const DISTRIBUTION: Allowed = Words(&["none", "hash", "range"]);
const FORMATS: Allowed = Words(&["parquet", "avro", "orc"]);
const PARQUET_CODECS: Allowed = Words(&["zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "lzo", "uncompressed"]);
const AVRO_CODECS: Allowed = Words(&["gzip", "zstd", "snappy", "uncompressed"]);
const ORC_CODECS: Allowed = Words(&["zlib", "zstd", "snappy", "lzo", "lz4", "brotli", "none"]);
const ORC_STRATEGIES: Allowed = Words(&["speed", "compression"]);
const PAGE_VERSIONS: Allowed = Exactly(&["v1", "v2"]);
const PLANNING: Allowed = Words(&["auto", "local", "distributed"]);
const POSITIVE: Allowed = Integer(1);
const COUNT: Allowed = Integer(0);

/// Properties by name, with their clause. A name that ends with a dot stands for each column's.
const KNOWN: &[(&str, &str, Allowed)] = &[
    ("write.delete.mode", "PROP-2", MODES),
    ("write.update.mode", "PROP-2", MODES),
    ("write.merge.mode", "PROP-2", MODES),
    ("write.delete.isolation-level", "PROP-3", ISOLATION),
    ("write.update.isolation-level", "PROP-3", ISOLATION),
    ("write.merge.isolation-level", "PROP-3", ISOLATION),
    ("write.delete.granularity", "PROP-4", Words(&["file", "partition"])),
    ("write.format.default", "PROP-5", FORMATS),
    ("write.delete.format.default", "PROP-5", FORMATS),
    ("write.target-file-size-bytes", "PROP-6", POSITIVE),
    ("write.delete.target-file-size-bytes", "PROP-6", POSITIVE),
    ("write.distribution-mode", "PROP-7", DISTRIBUTION),
    ("write.delete.distribution-mode", "PROP-7", DISTRIBUTION),
    ("write.update.distribution-mode", "PROP-7", DISTRIBUTION),
    ("write.merge.distribution-mode", "PROP-7", DISTRIBUTION),
    ("write.parquet.row-group-size-bytes", "PROP-8", POSITIVE),
    ("write.parquet.page-size-bytes", "PROP-9", POSITIVE),
    ("write.parquet.page-row-limit", "PROP-9", POSITIVE),
    ("write.parquet.dict-size-bytes", "PROP-9", POSITIVE),
    ("write.parquet.page-version", "PROP-9", PAGE_VERSIONS),
    ("write.parquet.compression-codec", "PROP-10", PARQUET_CODECS),
    ("write.parquet.compression-level", "PROP-10", Integer(i64::MIN)),
    ("write.parquet.row-group-check-min-record-count", "PROP-11", POSITIVE),
    ("write.parquet.row-group-check-max-record-count", "PROP-11", POSITIVE),
    ("write.parquet.shred-variants", "PROP-12", Boolean),
    ("write.parquet.variant-inference-buffer-size", "PROP-12", POSITIVE),
    ("write.parquet.bloom-filter-enabled.column.", "PROP-13", Boolean),
    ("write.parquet.bloom-filter-fpp.column.", "PROP-13", Fraction),
    ("write.parquet.bloom-filter-ndv.column.", "PROP-13", POSITIVE),
    ("write.parquet.bloom-filter-max-bytes", "PROP-13", POSITIVE),
    ("write.parquet.bloom-filter-adaptive-enabled", "PROP-13", Boolean),
    ("write.parquet.stats-enabled.column.", "PROP-14", Boolean),
    ("write.parquet.dict-encoding-enabled.column.", "PROP-14", Boolean),
    ("write.avro.compression-codec", "PROP-15", AVRO_CODECS),
    ("write.avro.compression-level", "PROP-15", Integer(i64::MIN)),
    ("write.orc.stripe-size-bytes", "PROP-16", POSITIVE),
    ("write.orc.block-size-bytes", "PROP-16", POSITIVE),
    ("write.orc.compression-codec", "PROP-16", ORC_CODECS),
    ("write.orc.compression-strategy", "PROP-16", ORC_STRATEGIES),
    ("write.manifest.compression-codec", "PROP-17", AVRO_CODECS),
    ("write.metadata.compression-codec", "PROP-18", Words(&["none", "gzip"])),
    ("write.metadata.previous-versions-max", "PROP-19", COUNT),
    ("write.metadata.delete-after-commit.enabled", "PROP-19", Boolean),
    ("write.metadata.metrics.default", "PROP-20", Metrics),
    ("write.metadata.metrics.column.", "PROP-20", Metrics),
    ("write.metadata.metrics.max-inferred-column-defaults", "PROP-20", COUNT),
    ("write.object-storage.enabled", "PROP-21", Boolean),
    ("write.object-storage.partitioned-paths", "PROP-21", Boolean),
    ("write.summary.partition-limit", "PROP-22", COUNT),
    ("write.wap.enabled", "PROP-23", Boolean),
    ("write.upsert.enabled", "PROP-24", Boolean),
    ("commit.retry.num-retries", "PROP-25", COUNT),
    ("commit.retry.min-wait-ms", "PROP-25", COUNT),
    ("commit.retry.max-wait-ms", "PROP-25", COUNT),
    ("commit.retry.total-timeout-ms", "PROP-25", COUNT),
    ("commit.status-check.num-retries", "PROP-26", COUNT),
    ("commit.status-check.min-wait-ms", "PROP-26", COUNT),
    ("commit.status-check.max-wait-ms", "PROP-26", COUNT),
    ("commit.status-check.total-timeout-ms", "PROP-26", COUNT),
    ("commit.manifest.target-size-bytes", "PROP-27", POSITIVE),
    ("commit.manifest.min-count-to-merge", "PROP-27", POSITIVE),
    ("commit.manifest-merge.enabled", "PROP-27", Boolean),
    ("history.expire.max-snapshot-age-ms", "PROP-28", POSITIVE),
    ("history.expire.min-snapshots-to-keep", "PROP-28", POSITIVE),
    ("history.expire.max-ref-age-ms", "PROP-28", POSITIVE),
    ("gc.enabled", "PROP-29", Boolean),
    ("read.split.target-size", "PROP-30", POSITIVE),
    ("read.split.metadata-target-size", "PROP-30", POSITIVE),
    ("read.split.planning-lookback", "PROP-30", POSITIVE),
    ("read.split.open-file-cost", "PROP-30", COUNT),
    ("read.split.adaptive-size.enabled", "PROP-30", Boolean),
    ("read.data-planning-mode", "PROP-31", PLANNING),
    ("read.delete-planning-mode", "PROP-31", PLANNING),
    ("read.parquet.vectorization.enabled", "PROP-32", Boolean),
    ("read.parquet.vectorization.batch-size", "PROP-32", POSITIVE),
    ("compatibility.snapshot-id-inheritance.enabled", "PROP-35", Boolean),
    ("engine.hive.enabled", "PROP-36", Boolean),
    ("engine.hive.lock-enabled", "PROP-36", Boolean),
];

impl Allowed {
    fn takes(self, value: &str) -> bool {
        match self {
            Words(words) => words.iter().any(|w| w.eq_ignore_ascii_case(value)),
            Exactly(words) => words.contains(&value),
            Boolean => ["true", "false"].iter().any(|w| w.eq_ignore_ascii_case(value)),
            Integer(least) => value.parse::<i64>().is_ok_and(|n| n >= least),
            Fraction => value.parse::<f64>().is_ok_and(|f| f > 0.0 && f < 1.0),
            Metrics => crate::write::Mode::parse(value, "").is_ok(),
        }
    }

    fn words(self) -> String {
        match self {
            Words(words) | Exactly(words) => words.join(", "),
            Boolean => "true, false".into(),
            Integer(i64::MIN) => "a whole number".into(),
            Integer(0) => "a whole number of zero or more".into(),
            Integer(least) => format!("a whole number of at least {least}"),
            Fraction => "a number between 0 and 1".into(),
            Metrics => "none, counts, truncate(n) with n ≥ 1, full".into(),
        }
    }
}

/// What is wrong with a property's value: what is allowed, and the clause. `None`: nothing, or it is a property of others.
fn fault(key: &str, value: &str) -> Option<(String, &'static str)> {
    // `write.delete.parquet.*` are the same for delete files (PROP-8)
    let plain = key.strip_prefix("write.delete.parquet.").map(|rest| format!("write.parquet.{rest}"));
    let plain = plain.as_deref().unwrap_or(key);
    let (_, clause, allowed) = KNOWN.iter().find(|(name, ..)| match name.strip_suffix('.') {
        Some(_) => plain.strip_prefix(name).is_some_and(|column| !column.is_empty()),
        None => *name == plain,
    })?;
    (!allowed.takes(value)).then(|| (allowed.words(), *clause))
}

/// Refuses a value that a known property cannot have. `called` = what messages call the property.
pub(crate) fn check_property(key: &str, value: &str, called: &str) -> Result<()> {
    match fault(key, value) {
        Some((allowed, clause)) => {
            Err(Error::invalid(format!("property {called} is {value:?}; allowed: {allowed}")).clause(clause))
        }
        None => Ok(()),
    }
}

/// [`check_property`] for properties that a statement sets.
pub(crate) fn check_properties<'p>(properties: impl IntoIterator<Item = &'p (String, String)>) -> Result<()> {
    properties.into_iter().try_for_each(|(k, v)| check_property(k, v, k))
}

/// Checks the properties that a catalog gives to new tables: `table-default.*` and `table-override.*` (CAT-7). `section` = what
/// messages say before their names.
pub(super) fn check_catalog<'p>(
    section: &str,
    properties: impl IntoIterator<Item = (&'p String, &'p String)>,
) -> Result<()> {
    let mut found: Vec<_> = properties
        .into_iter()
        .filter_map(|(k, v)| {
            let key = k.strip_prefix("table-default.").or_else(|| k.strip_prefix("table-override."))?;
            Some((k, key, v))
        })
        .collect();
    // one order, one message
    found.sort_unstable();
    found.into_iter().try_for_each(|(called, key, v)| check_property(key, v, &format!("{section}{called}")))
}
