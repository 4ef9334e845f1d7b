//! Partition specs and sort orders (JSON-10.., PART, SORT).

use std::collections::{BTreeMap, HashSet};

use serde_json::Value as Json;

use super::{Check, Family, error, note, warning};
use crate::finding::Sink;
use crate::model::{Model, SpecField};
use crate::types::{Prim, Shape, show};

pub const FAMILY: Family = Family { title: "Partition specs and sort orders", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("JSON-10", "a partition field has source, field id, name and transform"),
    error("JSON-11", "a field names either source-id or, with several sources, source-ids"),
    note("TRAP-14", "source-ids are v3; Java cannot parse them"),
    note("JSON-13", "unknown transforms are ignored by readers"),
    error("PART-1", "the default spec partitions by primitives outside lists and maps"),
    error("PART-3", "partition field ids are unique in a spec"),
    warning("PART-3", "a partition field id means the same in every spec"),
    error("PART-4", "no two specs are equivalent"),
    error("PART-5", "no data is written with a spec that has an unknown transform"),
    error("PART-20", "a transform fits its source type"),
    error("SORT-1", "a sort order has fields with transform, source, direction and null order; order 0 has none"),
];

/// Transform name and parameter; `None` when the format does not define it.
fn transform(t: &str) -> Option<&str> {
    let name = t.split('[').next().unwrap_or(t);
    let param = t.strip_prefix(name).and_then(|p| p.strip_prefix('[')?.strip_suffix(']'));
    match name {
        "identity" | "year" | "month" | "day" | "hour" | "void" => (t == name).then_some(name),
        "bucket" | "truncate" => param?.parse::<u32>().ok().filter(|n| *n > 0).map(|_| name),
        _ => None,
    }
}

/// Whether `name` accepts a source of type `p` (PART-20..26).
fn accepts(name: &str, p: &Prim) -> bool {
    use Prim::*;
    match name {
        "identity" => !matches!(p, Geometry | Geography | Variant),
        "bucket" => !matches!(p, Boolean | Float | Double | Unknown | Variant | Geometry | Geography),
        "truncate" => matches!(p, Int | Long | Decimal(..) | String | Binary),
        "year" | "month" | "day" => matches!(p, Date | Timestamp | Timestamptz | TimestampNs | TimestamptzNs),
        "hour" => matches!(p, Timestamp | Timestamptz | TimestampNs | TimestamptzNs),
        _ => true,
    }
}

/// Result type of a field's transform, for decoding partition bounds.
pub fn result_type(m: &Model, f: &SpecField) -> Option<Prim> {
    let src = match m.field(*f.sources.first()?)?.shape.clone() {
        Shape::Prim(p) => p,
        _ => return None,
    };
    Some(match transform(&f.transform)? {
        "bucket" | "year" | "month" | "hour" => Prim::Int,
        "day" => Prim::Date,
        _ => src,
    })
}

fn run(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    shapes(m, s);
    let default = m.int("default-spec-id");
    let mut meaning: BTreeMap<i64, (&SpecField, i64)> = BTreeMap::new();
    let mut seen: Vec<(Vec<_>, i64)> = Vec::new();
    for spec in &m.specs {
        let mut ids = HashSet::new();
        for (i, x) in spec.fields.iter().enumerate() {
            let p = format!("{}/fields/{i}", spec.ptr);
            let Some(id) = x.id else { continue };
            if !ids.insert(id) {
                s.err("PART-3", f, format!("{p}/field-id"), id, "unique in the spec");
            }
            if let Some((old, spec_id)) = meaning.get(&id) {
                let same = old.sources == x.sources
                    && (old.transform == x.transform || old.transform == "void" || x.transform == "void");
                if !same && *spec_id != spec.id {
                    s.warn(
                        "PART-3",
                        f,
                        format!("{p}/field-id"),
                        format!("{id}: {} of {:?}", x.transform, x.sources),
                        format!("{} of {:?} as in spec {spec_id}", old.transform, old.sources),
                    );
                }
            } else {
                meaning.insert(id, (x, spec.id));
            }
            source(m, x, &p, default == Some(spec.id), s);
        }
        let key: Vec<_> =
            spec.fields.iter().map(|x| (x.sources.clone(), x.transform.clone(), x.name.clone())).collect();
        if let Some((_, other)) = seen.iter().find(|(k, _)| *k == key) {
            s.err(
                "PART-4",
                f,
                spec.ptr.clone(),
                format!("spec {} equals spec {other}", spec.id),
                "one spec for one partitioning",
            );
        }
        seen.push((key, spec.id));
    }
    let unknown: HashSet<i64> =
        m.specs.iter().filter(|x| x.fields.iter().any(|f| transform(&f.transform).is_none())).map(|x| x.id).collect();
    for (_, r) in m.manifests() {
        if r.spec_id.is_some_and(|i| unknown.contains(&i)) && !r.manifest.entries.is_empty() {
            s.err("PART-5", &r.path, "partition_spec_id", r.spec_id.unwrap_or(-1), "a spec of known transforms");
        }
    }
    sort_orders(m, s);
}

fn source(m: &Model, x: &SpecField, p: &str, default: bool, s: &mut Sink) {
    let f = m.file.as_str();
    let Some(name) = transform(&x.transform) else {
        s.note(
            "JSON-13",
            f,
            format!("{p}/transform"),
            &x.transform,
            "identity, bucket[N], truncate[W], year, month, day, hour, void",
        );
        return;
    };
    let current = m.current_schema();
    for id in &x.sources {
        let field = if default { current.and_then(|c| c.fields.get(id)) } else { m.field(*id) };
        match field {
            // A dropped source column is legal for old specs (PART-9) and for void fields of v1 tables (PART-7).
            None if !default || name == "void" => {}
            None => {
                s.err("PART-1", f, p, format!("source {id} is not in the current schema"), "a column of the schema")
            }
            Some(c) if c.in_collection => {
                s.err("PART-1", f, p, format!("source {id} lies in a list or map"), "a column outside lists and maps")
            }
            Some(c) => match &c.shape {
                Shape::Prim(t) if accepts(name, t) => {}
                Shape::Prim(t) => s.err(
                    "PART-20",
                    f,
                    format!("{p}/transform"),
                    format!("{} of {t:?}", x.transform),
                    "a source type the transform takes",
                ),
                other => s.err("PART-1", f, p, format!("source {id} is a {other:?}"), "a primitive"),
            },
        }
    }
}

fn shapes(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    for (i, spec) in m.get("partition-specs").and_then(Json::as_array).into_iter().flatten().enumerate() {
        for (k, x) in spec.get("fields").and_then(Json::as_array).into_iter().flatten().enumerate() {
            let p = format!("/partition-specs/{i}/fields/{k}");
            let has = |k: &str| x.get(k).is_some_and(|v| !v.is_null());
            let needs_id = m.version >= 2;
            if !x.get("name").is_some_and(Json::is_string)
                || !x.get("transform").is_some_and(Json::is_string)
                || (needs_id && !x.get("field-id").is_some_and(Json::is_i64))
            {
                s.err("JSON-10", f, p.clone(), x, "field-id, name and transform");
            }
            if has("source-id") == has("source-ids") {
                s.err("JSON-11", f, p.clone(), x, "source-id or source-ids");
            } else if has("source-ids") {
                let many = x.get("source-ids").and_then(Json::as_array).is_some_and(|a| a.len() > 1);
                if !many || m.version < 3 {
                    s.err("JSON-11", f, format!("{p}/source-ids"), show(x.get("source-ids")), "two or more ids, in v3");
                } else {
                    s.note(
                        "TRAP-14",
                        f,
                        format!("{p}/source-ids"),
                        show(x.get("source-ids")),
                        "source-id for readers such as Java",
                    );
                }
            }
        }
    }
}

fn sort_orders(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    for (i, o) in m.get("sort-orders").and_then(Json::as_array).into_iter().flatten().enumerate() {
        let p = format!("/sort-orders/{i}");
        let fields = o.get("fields").and_then(Json::as_array);
        let unsorted = o.get("order-id").and_then(Json::as_i64) == Some(0);
        match fields {
            None => s.err("SORT-1", f, p.clone(), o, "fields"),
            Some(a) if a.is_empty() != unsorted => s.err(
                "SORT-1",
                f,
                p.clone(),
                format!("{} fields, order id {}", a.len(), show(o.get("order-id"))),
                "id 0 exactly when there are no fields",
            ),
            Some(_) => {}
        }
        for (k, x) in fields.into_iter().flatten().enumerate() {
            let word = |k: &str| x.get(k).and_then(Json::as_str).unwrap_or_default().to_ascii_lowercase();
            let ok = !word("transform").is_empty()
                && ["asc", "desc"].contains(&word("direction").as_str())
                && ["nulls-first", "nulls-last"].contains(&word("null-order").as_str())
                && (x.get("source-id").is_some() || x.get("source-ids").is_some());
            if !ok {
                s.err(
                    "SORT-1",
                    f,
                    format!("{p}/fields/{k}"),
                    x,
                    "transform, source-id, direction asc or desc, null-order nulls-first or nulls-last",
                );
            }
        }
    }
}
