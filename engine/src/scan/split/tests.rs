//! How files are shared out.

use proptest::prelude::*;

use super::{MIN_ADAPTIVE, OPENING, even, share, work};

/// Sizes of the groups that [`super::group`] makes of costs.
fn sums(costs: &[i64], target: i64) -> Vec<i64> {
    let mut out: Vec<i64> = Vec::new();
    for c in costs {
        match out.last_mut() {
            Some(last) if *last + c <= target => *last += c,
            _ => out.push(*c),
        }
    }
    out
}

/// Four files of nearly one size on two cores: the third and fourth are a few bytes too large for half of the sum.
#[test]
fn nearly_equal_files_make_no_group_too_many() {
    let costs = [30_654_747, 30_655_145, 30_656_902, 30_657_508];
    let target = even(&costs, costs.iter().sum::<i64>() / 2 + 1, 2);
    assert_eq!(sums(&costs, target), [61_309_892, 61_314_410]);
}

/// Many small files beside a few large ones: what statements leave behind. Small ones are no work that a core must have for itself.
#[test]
fn small_files_do_not_fill_a_core() {
    let weights = std::iter::repeat_n(400_000, 22).chain([25_700_000; 4]);
    let (costs, target) = share(weights, OPENING, MIN_ADAPTIVE, 2);
    let sums = sums(&costs, target);
    assert_eq!(sums.len(), 2, "{sums:?}");
    let (least, most) = (sums[0].min(sums[1]), sums[0].max(sums[1]));
    assert!(most < least * 4 / 3, "{sums:?}");
}

/// Four files of half a megabyte with five million rows each are work for every core; hostile counts do not overflow.
#[test]
fn rows_that_compress_well_are_shared_out() {
    let (costs, target) = share([work(500_000, 5_000_000); 4].into_iter(), OPENING, MIN_ADAPTIVE, 2);
    assert_eq!(sums(&costs, target).len(), 2);
    let (costs, target) = share([work(1, i64::MAX); 4].into_iter(), OPENING, MIN_ADAPTIVE, 2);
    assert_eq!((costs[0], target), (i64::MAX, i64::MAX));
}

/// A scan of a few small files is one task.
#[test]
fn little_is_not_shared_out() {
    let (costs, target) = share([400_000; 20].into_iter(), OPENING, MIN_ADAPTIVE, 8);
    assert_eq!(sums(&costs, target).len(), 1);
}

proptest! {
    /// No more groups than asked for, and no smaller greatest group of neighbours would do.
    #[test]
    fn groups_are_as_even_as_their_order_allows(
        costs in proptest::collection::vec(1i64..1000, 1..40),
        groups in 1usize..6,
    ) {
        let least = costs.iter().sum::<i64>() / groups as i64 + 1;
        let target = even(&costs, least, groups);
        prop_assert!(sums(&costs, target).len() <= groups);
        prop_assert!(target == least || sums(&costs, target - 1).len() > groups);
    }
}
