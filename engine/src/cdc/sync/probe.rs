//! Whether a number may be among the keys: asked for every row of the target's files, so that only the rows that may have a
//! key are encoded and looked up.

/// Bits a key of a [`Probe::Hashed`].
const BITS_PER_KEY: usize = 16;
/// A span of keys that takes at most so many bits a key, or bits in all, is held bit by bit.
const EXACT_BITS_PER_KEY: u64 = 64;
const EXACT_BITS: u64 = 1 << 26;

/// A set of numbers that knows every one of its members, and few others.
#[derive(Debug)]
pub(super) enum Probe {
    /// A bit a number, from `first` on.
    Exact {
        /// The smallest member.
        first: i64,
        /// The bits.
        words: Vec<u64>,
    },
    /// A bit a hash; the number of words is a power of two.
    Hashed(Vec<u64>),
}

impl Probe {
    /// The set of numbers that are sorted and not repeated.
    pub(super) fn new(sorted: &[i64]) -> Self {
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            return Self::Exact { first: 0, words: Vec::new() };
        };
        let span = last.abs_diff(*first);
        if span < EXACT_BITS.max(sorted.len() as u64 * EXACT_BITS_PER_KEY) {
            let mut words = vec![0u64; (span / 64 + 1) as usize];
            for n in sorted {
                let bit = n.abs_diff(*first);
                words[(bit / 64) as usize] |= 1 << (bit % 64);
            }
            return Self::Exact { first: *first, words };
        }
        let mut words = vec![0u64; (sorted.len() * BITS_PER_KEY).next_power_of_two().max(64) / 64];
        for n in sorted {
            let h = hash(*n);
            let mask = words.len() - 1;
            words[(h >> 6) & mask] |= 1 << (h & 63);
        }
        Self::Hashed(words)
    }

    /// Whether a number may be a member; always true for members.
    pub(super) fn may_hold(&self, n: i64) -> bool {
        match self {
            Self::Exact { first, words } => {
                let bit = n.wrapping_sub(*first) as u64;
                words.get((bit / 64) as usize).is_some_and(|w| w & (1 << (bit % 64)) != 0)
            }
            Self::Hashed(words) => {
                let h = hash(n);
                words[(h >> 6) & (words.len() - 1)] & (1 << (h & 63)) != 0
            }
        }
    }
}

fn hash(n: i64) -> usize {
    let h = (n as u64 ^ 0xcbf2_9ce4_8422_2325).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 29)) as usize
}
