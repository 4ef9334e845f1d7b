//! Table metadata: required members and their consistency (META-F*).

use serde_json::Value as Json;

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::Model;
use crate::types::{is_uuid, show};

pub const FAMILY: Family = Family { title: "Table metadata", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("META-F01", "format-version is an integer from 1 to 3"),
    error("META-F02", "table-uuid is present from v2 on and is a UUID"),
    error("META-F03", "location is a string"),
    error("META-F04", "last-sequence-number is present from v2 on and covers every snapshot"),
    error("META-F05", "last-updated-ms is present"),
    warning("META-F05", "last-updated-ms is refreshed by each commit"),
    error("META-F06", "last-column-id is present and covers every column id"),
    error("META-F08", "schemas are present from v2 on, with distinct schema ids"),
    error("META-F09", "current-schema-id names a listed schema"),
    error("META-F11", "partition-specs are present from v2 on, with distinct spec ids"),
    error("META-F12", "default-spec-id names a listed spec"),
    error("META-F13", "last-partition-id is present from v2 on and covers every partition field id"),
    error("META-F14", "properties map strings to strings"),
    error("META-F15", "current-snapshot-id is a listed snapshot and equals ref main"),
    error("META-F19", "sort-orders are present from v2 on, with distinct order ids"),
    error("META-F20", "default-sort-order-id is present from v2 on and names a listed order"),
    error("META-F21", "refs point at listed snapshots"),
    error("META-F24", "next-row-id is present in v3 and not negative"),
    error("META-R02", "a ref is a branch or a tag"),
    error("META-R03", "min-snapshots-to-keep is positive and on a branch"),
    error("META-R04", "max-snapshot-age-ms is positive and on a branch"),
    error("META-R05", "max-ref-age-ms is positive"),
    error("META-70", "encryption keys carry key-id and encrypted-key-metadata"),
    warning("META-83", "v2 and later metadata omits schema and partition-spec"),
    note("META-10", "reserved property names are not persisted"),
    note("TRAP-3", "no current snapshot is written by omission; -1 is what older Java wrote"),
    note("TRAP-13", "a key's metadata is called encrypted-key-metadata; key-metadata is the example's spelling"),
    note("LOC-1", "persisted paths carry a URI scheme; Hadoop tables on a local disk do not"),
];

const RESERVED: &[&str] = &[
    "format-version",
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

fn run(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let v = m.version;
    let at = |k: &str| show(m.meta.get(k));
    if !(1..=3).contains(&v) {
        s.err("META-F01", f, "/format-version", at("format-version"), "1, 2 or 3");
    }
    match m.get("table-uuid").map(|j| j.as_str().is_some_and(is_uuid)) {
        Some(true) => {}
        None if v < 2 => {}
        _ => s.err("META-F02", f, "/table-uuid", at("table-uuid"), "a UUID"),
    }
    match m.get("location").and_then(Json::as_str) {
        Some(l) if !l.is_empty() => {
            if !l.contains(':') {
                s.note("LOC-1", f, "/location", l, "a full path with a scheme");
            }
        }
        _ => s.err("META-F03", f, "/location", at("location"), "a non-empty string"),
    }
    let max_seq = m.snapshots.iter().map(|x| x.seq).max().unwrap_or(0);
    match m.int("last-sequence-number") {
        Some(n) if n >= max_seq && n >= 0 => {}
        None if v < 2 => {}
        _ => s.err("META-F04", f, "/last-sequence-number", at("last-sequence-number"), format!("at least {max_seq}")),
    }
    let newest = m.snapshots.iter().filter_map(|x| x.timestamp).max();
    match (m.int("last-updated-ms"), newest) {
        (None, _) => s.err("META-F05", f, "/last-updated-ms", at("last-updated-ms"), "milliseconds since 1970"),
        // Java tolerates clocks a minute apart (META-7).
        (Some(t), Some(n)) if t + 60_000 < n => {
            s.warn("META-F05", f, "/last-updated-ms", t, format!("not before the newest snapshot, {n}"))
        }
        _ => {}
    }
    let max_col = m.schemas.iter().filter_map(|x| x.fields.keys().max()).max().copied().unwrap_or(0);
    if m.int("last-column-id").is_none_or(|n| n < max_col) {
        s.err("META-F06", f, "/last-column-id", at("last-column-id"), format!("at least {max_col}"));
    }
    lists(m, s);
    properties(m, s);
    refs(m, s);
    if v >= 3 && m.int("next-row-id").is_none_or(|n| n < 0) {
        s.err("META-F24", f, "/next-row-id", at("next-row-id"), "an integer, 0 or more");
    }
    if v >= 2 {
        for k in ["schema", "partition-spec"] {
            if m.get(k).is_some() {
                s.warn("META-83", f, format!("/{k}"), "present", "omitted from v2 on");
            }
        }
    }
    for (i, k) in m.get("encryption-keys").and_then(Json::as_array).into_iter().flatten().enumerate() {
        let p = format!("/encryption-keys/{i}");
        let old = k.get("key-metadata").is_some();
        if old {
            s.note("TRAP-13", f, p.clone(), "key-metadata", "encrypted-key-metadata");
        }
        if !k.get("key-id").is_some_and(Json::is_string)
            || !(old || k.get("encrypted-key-metadata").is_some_and(Json::is_string))
        {
            s.err("META-70", f, p, k, "key-id and encrypted-key-metadata");
        }
    }
}

fn lists(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let at = |k: &str| show(m.meta.get(k));
    let old = m.version < 2;
    let ids = |k: &str, id: &str| -> Option<Vec<Option<i64>>> {
        Some(m.get(k)?.as_array()?.iter().map(|x| x.get(id).and_then(Json::as_i64)).collect())
    };
    let distinct = |v: &[Option<i64>]| {
        let mut seen = std::collections::HashSet::new();
        v.iter().all(|x| x.is_some_and(|x| seen.insert(x)))
    };
    for (list, id, clause, current, cur_clause) in [
        ("schemas", "schema-id", "META-F08", "current-schema-id", "META-F09"),
        ("partition-specs", "spec-id", "META-F11", "default-spec-id", "META-F12"),
        ("sort-orders", "order-id", "META-F19", "default-sort-order-id", "META-F20"),
    ] {
        let found = ids(list, id);
        match &found {
            None if old => continue,
            None => s.err(clause, f, format!("/{list}"), at(list), "a list"),
            Some(v) if !distinct(v) => {
                let shown: Vec<_> = v.iter().map(|x| x.map_or("absent".into(), |x| x.to_string())).collect();
                s.err(clause, f, format!("/{list}"), format!("{id}s {}", shown.join(", ")), "each present once");
            }
            Some(_) => {}
        }
        let cur = m.int(current);
        let listed =
            found.is_some_and(|v| v.contains(&cur) && cur.is_some()) || (list == "sort-orders" && cur == Some(0));
        if !listed && (!old || cur.is_some()) {
            s.err(cur_clause, f, format!("/{current}"), at(current), format!("an id listed in {list}"));
        }
    }
    let max = m.specs.iter().flat_map(|x| &x.fields).filter_map(|x| x.id).max();
    let last = m.int("last-partition-id");
    if !(old && last.is_none()) && last.is_none_or(|l| max.is_some_and(|x| l < x)) {
        s.err("META-F13", f, "/last-partition-id", at("last-partition-id"), format!("at least {}", max.unwrap_or(999)));
    }
}

fn properties(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let Some(p) = m.get("properties") else { return };
    let Some(map) = p.as_object() else {
        s.err("META-F14", f, "/properties", p, "an object");
        return;
    };
    for (k, v) in map {
        if !v.is_string() {
            s.err("META-F14", f, format!("/properties/{k}"), v, "a string");
        }
        if RESERVED.contains(&k.as_str()) {
            s.note("META-10", f, format!("/properties/{k}"), k, "a name that steers creation is not stored");
        }
    }
}

fn refs(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let current = m.int("current-snapshot-id");
    let main = m.get("refs").and_then(|r| r.get("main")).and_then(|r| r.get("snapshot-id")).and_then(Json::as_i64);
    match current {
        Some(-1) => {
            s.note("TRAP-3", f, "/current-snapshot-id", -1, "omitted, or null");
            if let Some(main) = main {
                s.err("META-F15", f, "/current-snapshot-id", -1, format!("ref main, {main}"));
            }
        }
        Some(id) => {
            if m.snapshot(id).is_none() {
                s.err("META-F15", f, "/current-snapshot-id", id, "a snapshot of the metadata");
            }
            if main.is_some_and(|x| x != id) {
                s.err(
                    "META-F15",
                    f,
                    "/refs/main/snapshot-id",
                    main.unwrap_or(-1),
                    format!("current-snapshot-id, {id}"),
                );
            }
        }
        None => {
            if let Some(main) = main {
                s.err("META-F15", f, "/current-snapshot-id", "absent", format!("ref main, {main}"));
            }
        }
    }
    for (name, r) in m.get("refs").and_then(Json::as_object).into_iter().flatten() {
        let p = |k: &str| format!("/refs/{name}/{k}");
        let int = |k: &str| r.get(k).filter(|v| !v.is_null());
        let id = r.get("snapshot-id").and_then(Json::as_i64);
        if id.is_none_or(|id| m.snapshot(id).is_none()) {
            s.err("META-F21", f, p("snapshot-id"), show(r.get("snapshot-id")), "a snapshot of the metadata");
        }
        let kind = r.get("type").and_then(Json::as_str).unwrap_or_default().to_ascii_lowercase();
        if kind != "branch" && kind != "tag" {
            s.err("META-R02", f, p("type"), show(r.get("type")), "branch or tag");
        }
        for (clause, k, branch_only) in [
            ("META-R03", "min-snapshots-to-keep", true),
            ("META-R04", "max-snapshot-age-ms", true),
            ("META-R05", "max-ref-age-ms", false),
        ] {
            if let Some(v) = int(k)
                && (v.as_i64().is_none_or(|n| n <= 0) || (branch_only && kind == "tag"))
            {
                s.err(
                    clause,
                    f,
                    p(k),
                    v,
                    if branch_only { "a positive integer, on a branch" } else { "a positive integer" },
                );
            }
        }
    }
}
