//! Schemas, types, defaults and evolution (JSON, TYPE, DEFV, EVO, IDF, RID).

use serde_json::Value as Json;

use super::{Check, Family, error, warning};
use crate::finding::Sink;
use crate::model::Model;
use crate::types::{FieldInfo, Prim, Schema, Shape, json_value_fault};

pub const FAMILY: Family = Family { title: "Schemas, types and defaults", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("JSON-1", "a schema is a struct object"),
    error("JSON-2", "a field has id, name, required and type"),
    error("JSON-3", "type strings are those of the format"),
    warning("JSON-4", "writers emit the canonical form of parameterised types"),
    error("JSON-5", "lists and maps carry ids and types of their elements"),
    error("TYPE-1", "an unknown column is optional"),
    error("TYPE-3", "decimal precision is 1 to 38 and at least the scale"),
    error("TYPE-11", "field ids are unique in a schema"),
    error("TYPE-20", "types of v3 occur in v3 tables only"),
    error("RID-1", "column ids stay below the reserved range"),
    error(
        "IDF-2",
        "identifier fields are required primitives, neither floating nor inside lists, maps or optional structs",
    ),
    error("META-91", "initial defaults occur in v3 tables only"),
    error("DEFV-2", "an initial default never changes once set"),
    error("DEFV-4", "unknown, variant, geometry and geography default to null"),
    error("DEFV-6", "a struct's default is null or an empty object"),
    error("JSON-30", "a default is a JSON single value of its type"),
    error("EVO-8", "a field id keeps its shape over all schemas"),
    error("EVO-2", "types change by allowed promotions only"),
];

fn run(m: &Model, s: &mut Sink) {
    for sc in &m.schemas {
        one(m, sc, s);
    }
    evolution(m, s);
}

fn one(m: &Model, sc: &Schema, s: &mut Sink) {
    let f = m.file.as_str();
    for (clause, place, found, allowed) in &sc.faults {
        s.err(clause, f, place.clone(), found, allowed);
    }
    for (place, text) in &sc.spaced {
        s.warn("JSON-4", f, place.clone(), text, "no optional white space");
    }
    // Old schemas stay listed after an upgrade, never the other way round: v3 types below v3 are wrong in any of them.
    for x in sc.fields.values() {
        field(m, x, s);
    }
    for id in &sc.identifier_ids {
        let p = format!("{}/identifier-field-ids", sc.ptr);
        let fault = match sc.fields.get(id) {
            None => Some("not a field of the schema"),
            Some(x) if !matches!(x.shape, Shape::Prim(_)) => Some("not a primitive"),
            Some(x) if matches!(x.shape, Shape::Prim(Prim::Float | Prim::Double | Prim::Variant)) => {
                Some("floating point or variant")
            }
            Some(x) if !x.required => Some("optional"),
            Some(x) if x.in_collection => Some("inside a list or map"),
            Some(x) if !x.parents_required => Some("inside an optional struct"),
            Some(_) => None,
        };
        if let Some(why) = fault {
            s.err(
                "IDF-2",
                f,
                p,
                format!("field {id}: {why}"),
                "a required primitive, not floating, outside lists and maps",
            );
        }
    }
}

fn field(m: &Model, x: &FieldInfo, s: &mut Sink) {
    let f = m.file.as_str();
    if x.id > 2_147_483_447 || x.id < 0 {
        s.err("RID-1", f, format!("{}/id", x.ptr), x.id, "0 to 2147483447");
    }
    if x.initial_default.is_some() && m.version < 3 {
        s.err("META-91", f, format!("{}/initial-default", x.ptr), "present", "format version 3");
    }
    let defaults = [("initial-default", &x.initial_default), ("write-default", &x.write_default)];
    match &x.shape {
        Shape::Prim(p) => {
            if *p == Prim::Unknown && x.required {
                s.err("TYPE-1", f, x.ptr.clone(), "required unknown", "optional");
            }
            if let Prim::Decimal(pr, sc) = p
                && (*pr == 0 || *pr > 38 || sc > pr)
            {
                s.err(
                    "TYPE-3",
                    f,
                    format!("{}/type", x.ptr),
                    format!("decimal({pr},{sc})"),
                    "precision 1 to 38, scale at most the precision",
                );
            }
            if p.needs_v3() && (1..3).contains(&m.version) {
                s.err("TYPE-20", f, format!("{}/type", x.ptr), format!("{p:?} in v{}", m.version), "format version 3");
            }
            for (k, d) in defaults {
                let Some(d) = d else { continue };
                if matches!(p, Prim::Unknown | Prim::Variant | Prim::Geometry | Prim::Geography) {
                    s.err("DEFV-4", f, format!("{}/{k}", x.ptr), d, "null");
                } else if let Some(want) = json_value_fault(p, d) {
                    s.err("JSON-30", f, format!("{}/{k}", x.ptr), d, want);
                }
            }
        }
        Shape::Struct => {
            for (k, d) in defaults {
                if d.as_ref().is_some_and(|d| d.as_object().is_none_or(|o| !o.is_empty())) {
                    s.err("DEFV-6", f, format!("{}/{k}", x.ptr), d.clone().unwrap_or(Json::Null), "null or {}");
                }
            }
        }
        _ => {}
    }
}

/// Same field id in two schemas: shape kept, type promoted at most, initial default frozen.
fn evolution(m: &Model, s: &mut Sink) {
    let f = m.file.as_str();
    let mut order: Vec<&Schema> = m.schemas.iter().collect();
    order.sort_by_key(|x| x.id);
    for w in order.windows(2) {
        for (id, old) in &w[0].fields {
            let Some(new) = w[1].fields.get(id) else {
                continue;
            };
            match (&old.shape, &new.shape) {
                (Shape::Prim(a), Shape::Prim(b)) if !a.promotes_to(b) && !b.promotes_to(a) => {
                    s.err(
                        "EVO-2",
                        f,
                        format!("{}/type", new.ptr),
                        format!("{b:?} after {a:?}"),
                        "a promotion of EVO-1 to EVO-5",
                    );
                }
                (Shape::Bad(_), _) | (_, Shape::Bad(_)) => {}
                (a, b) if std::mem::discriminant(a) != std::mem::discriminant(b) => {
                    s.err("EVO-8", f, format!("{}/type", new.ptr), format!("{b:?} after {a:?}"), "the same shape");
                }
                _ => {}
            }
            if old.initial_default != new.initial_default {
                let show = |d: &Option<Json>| d.as_ref().map_or("null".to_string(), Json::to_string);
                s.err(
                    "DEFV-2",
                    f,
                    format!("{}/initial-default", new.ptr),
                    show(&new.initial_default),
                    show(&old.initial_default),
                );
            }
        }
    }
}
