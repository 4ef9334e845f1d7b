//! Whether a value may be among the keys: asked for every row of the target's files, so that only the rows that may have a key are
//! encoded, and only those that may be a key are looked up.

/// Bits a key of a [`Hashed`].
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
    /// A bit a hash.
    Hashed(Hashed),
}

/// A set of byte strings by their hashes, a bit each: it knows every one of its members, and few others.
#[derive(Debug)]
pub(super) struct Hashed {
    /// As many as a power of two.
    words: Vec<u64>,
}

impl Hashed {
    /// The set of `len` members.
    pub(super) fn new<B: AsRef<[u8]>>(len: usize, members: impl IntoIterator<Item = B>) -> Self {
        let mut words = vec![0u64; (len * BITS_PER_KEY).next_power_of_two().max(64) / 64];
        let mask = words.len() - 1;
        for m in members {
            let h = hash(m.as_ref());
            words[(h >> 6) & mask] |= 1 << (h & 63);
        }
        Self { words }
    }

    /// Whether a value may be a member; always true for members.
    pub(super) fn may_hold(&self, value: &[u8]) -> bool {
        let h = hash(value);
        self.words[(h >> 6) & (self.words.len() - 1)] & (1 << (h & 63)) != 0
    }
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
        Self::Hashed(Hashed::new(sorted.len(), sorted.iter().map(|n| n.to_le_bytes())))
    }

    /// Whether a number may be a member; always true for members.
    pub(super) fn may_hold(&self, n: i64) -> bool {
        match self {
            Self::Exact { first, words } => {
                let bit = n.wrapping_sub(*first) as u64;
                words.get((bit / 64) as usize).is_some_and(|w| w & (1 << (bit % 64)) != 0)
            }
            Self::Hashed(set) => set.may_hold(&n.to_le_bytes()),
        }
    }
}

fn hash(bytes: &[u8]) -> usize {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^= h >> 29;
    }
    h as usize
}
