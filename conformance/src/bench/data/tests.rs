//! Conditions, counts and answers agree, of both tables.

use std::collections::BTreeMap;

use super::{Data, Oracle, properties};
use crate::bench::deletes::Cut;
use crate::bench::lineitem;

#[test]
fn a_share_of_lineitem_is_about_what_it_says() {
    let o = Oracle::new(Data::Lineitem, 20_000, &BTreeMap::new()).expect("rows");
    for one_in in [2, 10, 100] {
        for clustered in [false, true] {
            let cut = Cut { one_in, clustered };
            let share = o.count(o.chosen(cut)) as f64 / 20_000.0 * f64::from(one_in);
            assert!((0.8..1.2).contains(&share), "{cut:?}: {share}");
        }
    }
}

#[test]
fn a_clustered_cut_of_lineitem_takes_whole_orders() {
    let o = Oracle::new(Data::Lineitem, 1000, &BTreeMap::new()).expect("rows");
    let cut = Cut { one_in: 10, clustered: true };
    let chosen = o.chosen(cut);
    let orders = |gone: bool| {
        let of = |(i, l): (u32, tpchgen::generators::LineItem<'_>)| (chosen(i) == gone).then_some(l.l_orderkey);
        (0u32..).zip(lineitem::lines(1000)).filter_map(of).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!orders(true).is_empty() && orders(true).is_disjoint(&orders(false)));
    let condition = o.condition(cut);
    let bounds: Vec<i64> = condition.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    assert!(orders(true).iter().all(|k| (bounds[0]..bounds[1]).contains(k)), "{condition}");
}

#[test]
fn the_answer_is_the_sum_of_what_is_left() {
    let o = Oracle::new(Data::Lineitem, 500, &BTreeMap::new()).expect("rows");
    let batches = lineitem::batches(lineitem::lines(500)).expect("batches");
    assert_eq!(batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), 500);
    let cents: i64 = lineitem::lines(500).map(|l| l.l_extendedprice.into_inner()).sum();
    let keys: i64 = lineitem::lines(500).map(|l| l.l_orderkey).sum();
    assert_eq!(
        o.answer(|_| false),
        ["500".to_string(), keys.to_string(), format!("{}.{:02}", cents / 100, cents % 100)]
    );
    assert_eq!(o.answer(|i| i != 0)[0], "1");
    assert_eq!(o.answer(|_| true), ["0", "null", "null"]);
    let w = Oracle::new(Data::Walkthrough, 400, &BTreeMap::new()).expect("rows");
    assert_eq!(w.answer(|i| i > 1), ["2", "1", "7919"]);
}

#[test]
fn further_properties_are_quoted() {
    let more = BTreeMap::from([("a.b".to_string(), "it's\\".to_string())]);
    let text = properties("merge-on-read", &more);
    assert!(text.ends_with("'write.merge.mode'='merge-on-read', 'a.b'='it\\'s\\\\')"), "{text}");
}
