//! Snapshots of the metadata: members, order, parents, row-id ranges (META-S*, META-2..24).

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::{Model, Snapshot};
use crate::types::show;

pub const FAMILY: Family = Family { title: "Snapshots", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("META-S01", "snapshot ids are present and unique"),
    warning("META-13", "snapshot ids are positive"),
    error("META-S02", "a snapshot's ancestry has no loop"),
    error("META-S03", "sequence numbers are present from v2 on, unique, and grow from parent to child"),
    error("META-S04", "timestamp-ms is present"),
    note("META-7", "a snapshot is not more than a minute older than its parent"),
    error("META-S05", "a manifest list is present from v2 on"),
    error("META-S06", "manifests is omitted when manifest-list is present"),
    error("META-S08", "schema-id names a listed schema"),
    error("META-S09", "first-row-id is present in snapshots committed under v3, and absent before"),
    error("META-S10", "added-rows is present with first-row-id and not negative"),
    error("META-S11", "key-id names an encryption key"),
    error("META-20", "operation is append, replace, overwrite or delete"),
    error("SUMMARY-1", "the summary has an operation"),
    error("META-2", "next-row-id lies above every assigned row id"),
    error("META-22", "row-id ranges of snapshots are disjoint and ascending"),
    note("META-6", "first-row-id equals the table's next-row-id at commit; a gap confuses Java's counter"),
];

fn run(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let raw: Vec<&Json> = m.get("snapshots").and_then(Json::as_array).into_iter().flatten().collect();
    let mut ids = HashSet::new();
    let mut seqs: HashMap<i64, i64> = HashMap::new();
    let schema_ids: HashSet<Option<i64>> = m.schemas.iter().map(|x| x.id).collect();
    let keys: HashSet<&str> = m
        .get("encryption-keys")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(|k| k.get("key-id").and_then(Json::as_str))
        .collect();
    for (x, j) in m.snapshots.iter().zip(&raw) {
        let get = |k: &str| j.get(k).filter(|v| !v.is_null());
        if get("snapshot-id").and_then(Json::as_i64).is_none() || !ids.insert(x.id) {
            s.err("META-S01", f, x.ptr("snapshot-id"), show(get("snapshot-id")), "a long used once");
        }
        if x.id < 0 {
            s.warn("META-13", f, x.ptr("snapshot-id"), x.id, "positive");
        }
        if x.timestamp.is_none() {
            s.err("META-S04", f, x.ptr("timestamp-ms"), show(get("timestamp-ms")), "milliseconds since 1970");
        }
        sequence(m, x, get("sequence-number").is_some(), &mut seqs, s);
        parents(m, x, s);
        if get("manifest-list").is_none() && (m.version >= 2 && x.seq > 0 || get("manifests").is_none()) {
            s.err("META-S05", f, x.ptr("manifest-list"), "absent", "a location");
        }
        if get("manifest-list").is_some() && get("manifests").is_some() {
            s.err("META-S06", f, x.ptr("manifests"), "present", "omitted beside manifest-list");
        }
        if let Some(id) = get("schema-id")
            && !schema_ids.contains(&id.as_i64())
        {
            s.err("META-S08", f, x.ptr("schema-id"), id, "a listed schema");
        }
        if let Some(k) = get("key-id")
            && !k.as_str().is_some_and(|k| keys.contains(k))
        {
            s.err("META-S11", f, x.ptr("key-id"), k, "a key of encryption-keys");
        }
        match x.operation() {
            None if x.seq > 0 || get("summary").is_some() => {
                s.err("SUMMARY-1", f, x.ptr("summary/operation"), "absent", "append, replace, overwrite or delete")
            }
            None => {}
            Some(o) if ["append", "replace", "overwrite", "delete"].contains(&o) => {}
            Some(o) => s.err("META-20", f, x.ptr("summary/operation"), o, "append, replace, overwrite or delete"),
        }
    }
    row_ranges(m, s);
}

/// Upgraded tables keep v1 snapshots without a number (META-24, META-81): only those may lack it.
fn sequence(m: &Model, x: &Snapshot, present: bool, seqs: &mut HashMap<i64, i64>, s: &mut Sink) {
    let f = m.file.as_str();
    let written_as = x.list.meta.get("format-version").and_then(|v| v.parse::<i64>().ok()).unwrap_or(1);
    if m.version >= 2 && !present && written_as >= 2 {
        s.err("META-S03", f, x.ptr("sequence-number"), "absent", "a number, since its manifest list is v2 or later");
    }
    if x.seq > 0
        && let Some(other) = seqs.insert(x.seq, x.id)
    {
        s.err(
            "META-S03",
            f,
            x.ptr("sequence-number"),
            format!("{} of snapshot {other} again", x.seq),
            "a number used once",
        );
    }
    if let Some(p) = m.parent(x) {
        if p.seq > 0 && x.seq <= p.seq {
            s.err("META-S03", f, x.ptr("sequence-number"), x.seq, format!("above the parent's {}", p.seq));
        }
        if let (Some(a), Some(b)) = (p.timestamp, x.timestamp)
            && b + 60_000 < a
        {
            s.note("META-7", f, x.ptr("timestamp-ms"), b, format!("not more than 60000 ms before the parent's {a}"));
        }
    }
}

fn parents(m: &Model, x: &Snapshot, s: &mut Sink) {
    let mut seen = HashSet::from([x.id]);
    let mut at = x;
    while let Some(p) = at.parent.and_then(|p| m.snapshot(p)) {
        if p.id == x.id {
            s.err("META-S02", &m.file, x.ptr("parent-snapshot-id"), x.parent.unwrap_or(-1), "an earlier snapshot");
        }
        if !seen.insert(p.id) {
            return;
        }
        at = p;
    }
}

fn row_ranges(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let next = m.int("next-row-id").unwrap_or(0);
    let mut order: Vec<&Snapshot> = m.snapshots.iter().collect();
    order.sort_by_key(|x| x.seq);
    // Snapshots from before an upgrade have no range (META-80); once one has, all later ones must.
    let first_v3 = order.iter().find(|x| x.first_row_id.is_some()).map(|x| x.seq);
    let mut prev: Option<(i64, i64, i64)> = None;
    for x in order {
        let Some(first) = x.first_row_id else {
            let v3_list = x.list.meta.get("format-version").is_some_and(|v| v == "3");
            let late = v3_list || first_v3.is_some_and(|v| x.seq > v);
            if m.version >= 3 && late {
                s.err("META-S09", f, x.ptr("first-row-id"), "absent", "the table's next-row-id at the commit");
            }
            continue;
        };
        if m.version < 3 || first < 0 {
            s.err(
                "META-S09",
                f,
                x.ptr("first-row-id"),
                first,
                if m.version < 3 { "absent below v3" } else { "0 or more" },
            );
            continue;
        }
        let Some(added) = x.added_rows.filter(|a| *a >= 0) else {
            s.err(
                "META-S10",
                f,
                x.ptr("added-rows"),
                show(m.meta["snapshots"][x.index].get("added-rows")),
                "0 or more",
            );
            continue;
        };
        let end = first.saturating_add(added);
        if end > next {
            s.err(
                "META-2",
                f,
                x.ptr("added-rows"),
                format!("range [{first}, {end})"),
                format!("at most next-row-id, {next}"),
            );
        }
        if let Some((pend, pseq, pid)) = prev {
            if first < pend {
                s.err(
                    "META-22",
                    f,
                    x.ptr("first-row-id"),
                    first,
                    format!("at least {pend}, the end of snapshot {pid}"),
                );
            } else if first > pend && x.seq == pseq + 1 {
                s.note("META-6", f, x.ptr("first-row-id"), first, pend);
            }
        }
        prev = Some((end.max(prev.map_or(0, |p| p.0)), x.seq, x.id));
    }
}
