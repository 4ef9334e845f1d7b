//! Bitmaps by the high half of a position.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use roaring::RoaringBitmap;

/// One bitmap a high half. Nearly every data file has fewer than 2^32 rows, so the bitmap of high half 0 lies here and the others
/// in a tree: decoding a small vector then allocates nothing but its containers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Maps {
    low: RoaringBitmap,
    /// High halves from 1 on; none is empty.
    high: BTreeMap<u32, RoaringBitmap>,
}

impl Maps {
    /// The bitmap of `high`, if it is not empty.
    pub(super) fn get(&self, high: u32) -> Option<&RoaringBitmap> {
        if high == 0 { Some(&self.low).filter(|m| !m.is_empty()) } else { self.high.get(&high) }
    }

    /// The bitmap of `high` to add positions to; the caller adds at least one.
    pub(super) fn at(&mut self, high: u32) -> &mut RoaringBitmap {
        if high == 0 { &mut self.low } else { self.high.entry(high).or_default() }
    }

    /// Sets the bitmap of `high`; an empty one removes it.
    pub(super) fn put(&mut self, high: u32, map: RoaringBitmap) {
        if high == 0 {
            self.low = map;
        } else if map.is_empty() {
            self.high.remove(&high);
        } else {
            self.high.insert(high, map);
        }
    }

    /// Takes the bitmap of `high` out; an empty one if there is none.
    pub(super) fn take(&mut self, high: u32) -> RoaringBitmap {
        if high == 0 { std::mem::take(&mut self.low) } else { self.high.remove(&high).unwrap_or_default() }
    }

    /// Whether there is no position.
    pub(super) fn is_empty(&self) -> bool {
        self.low.is_empty() && self.high.is_empty()
    }

    /// Bitmaps that are not empty, by ascending high half.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &RoaringBitmap)> {
        self.range(0..=u32::MAX)
    }

    /// Those of [`Maps::iter`] whose high half lies in `highs`, which must not be an inverted range.
    pub(super) fn range(&self, highs: RangeInclusive<u32>) -> impl Iterator<Item = (u32, &RoaringBitmap)> {
        let low = self.get(0).filter(|_| *highs.start() == 0).map(|m| (0, m));
        low.into_iter().chain(self.high.range(highs).map(|(high, map)| (*high, map)))
    }

    /// The bitmap of the largest high half.
    pub(super) fn last(&self) -> Option<(u32, &RoaringBitmap)> {
        self.high.last_key_value().map(|(high, map)| (*high, map)).or_else(|| Some((0, self.get(0)?)))
    }
}
