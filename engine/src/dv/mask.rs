//! Deleted positions as a mask over the rows of a batch: the scan's hot path.

use arrow::buffer::{BooleanBuffer, Buffer};
use roaring::RoaringBitmap;

use super::vector::{DeletionVector, join, split};

/// From this share of deleted rows on (one in this many), runs are cleared word by word instead of row by row.
const DENSE: u64 = 4;

impl DeletionVector {
    /// How many of the positions `start .. start + len` are deleted.
    pub fn deleted_in(&self, start: u64, len: u64) -> u64 {
        self.parts(start, len).map(|(_, map, low, up)| map.range_cardinality(low..=up)).sum()
    }

    /// Rows to keep among the positions `start .. start + len`: bit `i` is set when `start + i` is not deleted.
    /// `None` when none of them is deleted.
    pub fn keep_mask(&self, start: u64, len: usize) -> Option<BooleanBuffer> {
        let rows = len as u64;
        let mut keep: Option<Vec<u64>> = None;
        for (first, map, low, up) in self.parts(start, rows) {
            let deleted = map.range_cardinality(low..=up);
            if deleted == 0 {
                continue;
            }
            if deleted == rows {
                return Some(BooleanBuffer::new_unset(len));
            }
            let words = keep.get_or_insert_with(|| vec![u64::MAX; len.div_ceil(64)]);
            // Both are at most `len`.
            let bit = |l: u32| (join(first, l) - start) as usize;
            let mut iter = map.range(low..=up);
            if deleted < u64::from(up - low) / DENSE {
                for l in iter {
                    let i = bit(l);
                    words[i / 64] &= !(1u64 << (i % 64)).to_le();
                }
            } else {
                while let Some(run) = iter.next_range() {
                    clear(words, bit(*run.start()), bit(*run.end()));
                }
            }
        }
        Some(BooleanBuffer::new(Buffer::from_vec(keep?), 0, len))
    }

    /// The bitmaps that the positions `start .. start + len` touch: high half, bitmap, first and last low half.
    fn parts(&self, start: u64, len: u64) -> impl Iterator<Item = (u32, &RoaringBitmap, u32, u32)> {
        let end = start.saturating_add(len);
        let (first, last) = (split(start), split(end.saturating_sub(1).max(start)));
        self.maps.range(first.0..=last.0).filter(move |_| len > 0).map(move |(high, map)| {
            let low = if high == first.0 { first.1 } else { 0 };
            let up = if high == last.0 { last.1 } else { u32::MAX };
            (high, map, low, up)
        })
    }
}

/// Clears the bits `from ..= to`.
fn clear(words: &mut [u64], from: usize, to: usize) {
    let (first, last) = (from / 64, to / 64);
    let head = u64::MAX << (from % 64);
    let tail = u64::MAX >> (63 - to % 64);
    if first == last {
        words[first] &= !(head & tail).to_le();
    } else {
        words[first] &= !head.to_le();
        words[first + 1..last].fill(0);
        words[last] &= !tail.to_le();
    }
}
