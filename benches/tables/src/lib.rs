//! What benches measure on, for criterion's and for `floe bench`: positions by shape, and a table with very many files.

mod large;

pub use large::{ROWS_A_FILE, fill};

/// Shapes of [`positions`], each with the words for it.
pub const SHAPES: [(&str, &str); 4] = [
    ("sparse", "every 1000th"),
    ("random", "1 % at random"),
    ("dense", "every second at random"),
    ("runs", "runs of 1000"),
];

/// Some `n` positions by shape: every 1000th, 1 % at random, every second at random, runs of 1000 with gaps of 10. Ascending, none
/// repeated, so that random ones are some fewer.
pub fn positions(shape: &str, n: u64) -> Vec<u64> {
    let mut random = random();
    let mut out: Vec<u64> = match shape {
        "sparse" => (0..n).map(|i| i * 1000).collect(),
        "random" => (0..n).map(|_| random(n * 100)).collect(),
        "dense" => (0..n).map(|_| random(n * 2)).collect(),
        _ => (0..n).map(|i| i + i / 1000 * 10).collect(),
    };
    out.sort_unstable();
    out.dedup();
    out
}

/// Numbers below a bound, the same ones on every run.
pub fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}
