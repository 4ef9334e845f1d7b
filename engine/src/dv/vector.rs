//! The set of deleted positions.

use std::ops::Range;

use roaring::RoaringBitmap;

use super::maps::Maps;
use crate::{Error, Result};

/// Largest position that the format has (DV-26).
pub const MAX_POSITION: u64 = i64::MAX as u64;

/// Deleted positions of one data file: position P is in the set when the row at 0-based position P is deleted (DV-1).
///
/// Positions are at most [`MAX_POSITION`]. Equality is equality of the sets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeletionVector {
    /// By the high 32 bits of the position; no key has its top bit set.
    pub(super) maps: Maps,
}

/// High and low half of a position.
pub(super) fn split(position: u64) -> (u32, u32) {
    ((position >> 32) as u32, position as u32)
}

pub(super) fn join(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

fn check_position(position: u64) -> Result<()> {
    if position > MAX_POSITION {
        return Err(Error::invalid(format!("position {position} has bit 63 set; the largest is {MAX_POSITION}"))
            .clause("DV-26"));
    }
    Ok(())
}

impl DeletionVector {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of `positions`, in any order and repeated or not; an error for one beyond [`MAX_POSITION`] (DV-26).
    pub fn try_from_positions(positions: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut dv = Self::new();
        // The bitmap of the current high half stays out of the tree: neighbours nearly always share it.
        let mut key = 0;
        let mut map = RoaringBitmap::new();
        for position in positions {
            check_position(position)?;
            let (high, low) = split(position);
            if high != key {
                dv.maps.put(key, map);
                map = dv.maps.take(high);
                key = high;
            }
            if map.try_push(low).is_err() {
                map.insert(low);
            }
        }
        dv.maps.put(key, map);
        Ok(dv)
    }

    /// [`DeletionVector::try_from_positions`]. Not the trait's method: that one could not refuse a position.
    #[allow(clippy::should_implement_trait)]
    pub fn from_iter(positions: impl IntoIterator<Item = u64>) -> Result<Self> {
        Self::try_from_positions(positions)
    }

    /// Adds a position; whether it is new. An error beyond [`MAX_POSITION`] (DV-26).
    pub fn try_insert(&mut self, position: u64) -> Result<bool> {
        check_position(position)?;
        let (high, low) = split(position);
        Ok(self.maps.at(high).insert(low))
    }

    /// Adds `range.start <= position < range.end` (the end is exclusive); returns how many are new.
    /// An error, and no change, if a position is beyond [`MAX_POSITION`] (DV-26).
    pub fn insert_range(&mut self, range: Range<u64>) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let last = range.end - 1;
        check_position(last)?;
        let ((first_high, first_low), (last_high, last_low)) = (split(range.start), split(last));
        let mut added = 0;
        for high in first_high..=last_high {
            let low = if high == first_high { first_low } else { 0 };
            let up = if high == last_high { last_low } else { u32::MAX };
            added += self.maps.at(high).insert_range(low..=up);
        }
        Ok(added)
    }

    /// Whether a position is deleted.
    pub fn contains(&self, position: u64) -> bool {
        let (high, low) = split(position);
        self.maps.get(high).is_some_and(|m| m.contains(low))
    }

    /// Cardinality: the number of deleted positions (DV-7).
    pub fn len(&self) -> u64 {
        self.maps.iter().map(|(_, map)| map.len()).sum()
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }

    /// Positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.maps.iter().flat_map(|(high, map)| map.iter().map(move |low| join(high, low)))
    }

    /// Positions as maximal runs, ascending; a run is cut at multiples of 2^32.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.maps.iter().flat_map(|(high, map)| {
            let mut iter = map.iter();
            std::iter::from_fn(move || iter.next_range()).map(move |r| join(high, *r.start())..join(high, *r.end()) + 1)
        })
    }

    /// Largest position.
    pub fn max(&self) -> Option<u64> {
        let (high, map) = self.maps.last()?;
        Some(join(high, map.max()?))
    }

    /// Adds all positions of `other` (DV-2: new deletes are merged with the existing ones).
    pub fn union_with(&mut self, other: &Self) {
        for (high, map) in other.maps.iter() {
            *self.maps.at(high) |= map;
        }
    }

    /// The positions that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut maps = Maps::default();
        for (high, map) in self.maps.iter() {
            maps.put(high, other.maps.get(high).map_or_else(|| map.clone(), |theirs| map - theirs));
        }
        Self { maps }
    }

    /// How many positions are in both.
    pub fn intersection_len(&self, other: &Self) -> u64 {
        self.maps.iter().filter_map(|(high, map)| Some(map.intersection_len(other.maps.get(high)?))).sum()
    }
}
