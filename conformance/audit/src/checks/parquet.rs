//! Parquet footers of data and equality-delete files against their entries (PARQ, MAN-D05, MAN-21, EQDEL-1).

use std::collections::HashMap;

use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{ColumnDescriptor, Type};

use super::{Check, Family, error, note};
use crate::avro::hex;
use crate::finding::Sink;
use crate::model::{Entry, ManifestRef, Model};
use crate::rows::{self, LAST_SEQ, ROW_ID};
use crate::types::{Prim, Shape};

pub const FAMILY: Family = Family { title: "Parquet footers", checks: CHECKS, run };

const CHECKS: &[Check] = &[
    error("DEL-3", "data and delete files are readable in the format their entry names"),
    error("PARQ-1", "every column carries a field id, unless a name mapping is set"),
    error("PARQ-2", "physical and logical types are those of the column"),
    note("PARQ-17", "split offsets are row-group starts"),
    error("EQDEL-1", "an equality delete file holds its delete columns"),
    error("LINEAGE-18", "stored lineage columns are optional top-level longs"),
];

fn run(m: &Model, s: &mut Sink) {
    if !m.data {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    let mut work: Vec<(&ManifestRef, usize, &Entry)> = Vec::new();
    for (_, r) in m.manifests() {
        for (i, e) in r.manifest.entries.iter().enumerate() {
            if e.live() && !e.is_dv() && !e.encrypted && e.holes.is_empty() && seen.insert(e.path.clone()) {
                work.push((r, i, e));
            }
        }
    }
    let mapped = m.get("properties").is_some_and(|p| p.get("schema.name-mapping.default").is_some());
    crate::parallel_findings(m.threads, &work, s, |(r, i, e), s| file(m, mapped, r, *i, e, s));
}

fn file(m: &Model, mapped: bool, r: &ManifestRef, i: usize, e: &Entry, s: &mut Sink) {
    let path = m.locator.path(&e.path);
    if !path.is_file() {
        return;
    }
    let rows_at = r.manifest.at(i, "data_file.record_count");
    match e.format.to_ascii_lowercase().as_str() {
        "parquet" => {}
        "avro" => {
            match std::fs::read(&path).map_err(|e| e.to_string()).and_then(|b| crate::avro::read(&b)) {
                Ok(f) if f.records.len() as i64 != e.records => s.err(
                    "MAN-D05",
                    &r.path,
                    rows_at,
                    e.records,
                    format!("{}, the records of {}", f.records.len(), e.path),
                ),
                Ok(_) => {}
                Err(why) => s.err("DEL-3", &e.path, "file", why, "an Avro file"),
            }
            return;
        }
        // ORC files are not opened any further.
        "orc" => return begins(&path, b"ORC", e, s),
        _ => return,
    }
    let reader = match rows::open(&path) {
        Ok(x) => x,
        Err(why) => {
            if std::fs::read(&path).is_ok_and(|b| b.ends_with(b"PARE")) {
                s.note("META-74", &e.path, "file", "encrypted Parquet footer", "a plain footer");
            } else {
                s.err("DEL-3", &e.path, "footer", why, "a Parquet file");
            }
            return;
        }
    };
    // readers that go by the footer never look at them
    begins(&path, b"PAR1", e, s);
    use parquet::file::reader::FileReader;
    let md = reader.metadata();
    let n = md.file_metadata().num_rows();
    if n != e.records {
        s.err("MAN-D05", &r.path, rows_at, e.records, format!("{n}, the rows of {}", e.path));
    }
    if e.content == 1 {
        return;
    }
    columns(m, mapped, e, md, s);
    if e.content == 2 {
        let d = md.file_metadata().schema_descr();
        let have: Vec<i64> = (0..d.num_columns()).filter_map(|c| id_of(d.column(c).self_type())).collect();
        for id in e.equality_ids.iter().flatten().filter(|id| !have.contains(id)) {
            s.err(
                "EQDEL-1",
                &e.path,
                "schema",
                format!("no column {id}"),
                format!("the delete columns {:?}", e.equality_ids.as_deref().unwrap_or_default()),
            );
        }
        return;
    }
    statistics(m, r, i, e, md, s);
    if let Some(o) = &e.split_offsets {
        let starts: Vec<i64> =
            md.row_groups().iter().filter(|g| g.num_columns() > 0).map(|g| g.column(0).byte_range().0 as i64).collect();
        if o.iter().any(|x| !starts.contains(x)) {
            s.note(
                "PARQ-17",
                &r.path,
                r.manifest.at(i, "data_file.split_offsets"),
                format!("{o:?}"),
                format!("row-group starts {starts:?}"),
            );
        }
    }
}

/// The first bytes of a file are its format's.
fn begins(path: &std::path::Path, magic: &[u8], e: &Entry, s: &mut Sink) {
    let mut head = vec![0; magic.len()];
    let read = std::fs::File::open(path).and_then(|mut f| std::io::Read::read_exact(&mut f, &mut head));
    let found = match read {
        Ok(()) if head == magic => return,
        Ok(()) => hex(&head),
        Err(why) => why.to_string(),
    };
    let allowed = format!("{}, {}", hex(magic), String::from_utf8_lossy(magic));
    s.err("DEL-3", &e.path, "first bytes", found, allowed);
}

fn id_of(t: &Type) -> Option<i64> {
    let b = t.get_basic_info();
    b.has_id().then(|| i64::from(b.id()))
}

fn columns(m: &Model, mapped: bool, e: &Entry, md: &ParquetMetaData, s: &mut Sink) {
    let d = md.file_metadata().schema_descr();
    let any = (0..d.num_columns()).any(|c| id_of(d.column(c).self_type()).is_some());
    if !any && mapped {
        return;
    }
    let variants: Vec<String> =
        d.root_schema().get_fields().iter().filter(|t| variant(m, t)).map(|t| t.name().to_string()).collect();
    for c in 0..d.num_columns() {
        let col = d.column(c);
        let name = col.path().string();
        let Some(id) = id_of(col.self_type()) else {
            // Fields inside a variant are found by name (PARQ-11); nested variants are not tracked here.
            let inside = variants.contains(&col.path().parts()[0])
                || (col.path().parts().len() > 1 && matches!(col.name(), "metadata" | "value" | "typed_value"));
            if !inside {
                s.err("PARQ-1", &e.path, format!("column {name}"), "no field id", "a field id");
            }
            continue;
        };
        if id == i64::from(ROW_ID) || id == i64::from(LAST_SEQ) {
            if col.physical_type() != Physical::INT64 || col.max_def_level() != 1 || col.path().parts().len() != 1 {
                s.err(
                    "LINEAGE-18",
                    &e.path,
                    format!("column {name}"),
                    format!("{:?}, definition level {}", col.physical_type(), col.max_def_level()),
                    "an optional INT64 at the top",
                );
            }
            continue;
        }
        let Some(Shape::Prim(p)) = m.field(id).map(|f| &f.shape) else {
            continue;
        };
        if !fits(p, &col) {
            s.err(
                "PARQ-2",
                &e.path,
                format!("column {name}"),
                format!("{:?} {:?}", col.physical_type(), col.logical_type_ref()),
                format!("the form of {p:?}"),
            );
        }
    }
}

fn variant(m: &Model, t: &Type) -> bool {
    id_of(t).and_then(|id| m.field(id)).is_some_and(|f| f.shape == Shape::Prim(Prim::Variant))
}

/// Whether the column stores `p`, or a type that promotes to it (PARQ-2..12, EVO-2..5).
fn fits(p: &Prim, c: &ColumnDescriptor) -> bool {
    use Physical::*;
    let ph = c.physical_type();
    let lt = c.logical_type_ref();
    // Writers may use the older converted types; only a contradicting logical type counts.
    let ts = |micros: bool, utc: bool| match lt {
        Some(LogicalType::Timestamp { is_adjusted_to_u_t_c, unit }) => {
            *is_adjusted_to_u_t_c == utc && matches!(unit, TimeUnit::MICROS) == micros
        }
        _ => micros && lt.is_none(),
    };
    let date = ph == INT32 && matches!(lt, Some(LogicalType::Date));
    match p {
        Prim::Boolean => ph == BOOLEAN,
        Prim::Int => ph == INT32 && !matches!(lt, Some(LogicalType::Date)),
        Prim::Long => ph == INT64 || ph == INT32,
        Prim::Float => ph == FLOAT,
        Prim::Double => ph == DOUBLE || ph == FLOAT,
        Prim::Decimal(..) => matches!(ph, INT32 | INT64 | FIXED_LEN_BYTE_ARRAY | BYTE_ARRAY),
        Prim::Date => ph == INT32,
        Prim::Time => ph == INT64,
        Prim::Timestamp => (ph == INT64 && ts(true, false)) || date || ph == INT96,
        Prim::Timestamptz => (ph == INT64 && ts(true, true)) || ph == INT96,
        Prim::TimestampNs => (ph == INT64 && ts(false, false)) || date,
        Prim::TimestamptzNs => ph == INT64 && ts(false, true),
        Prim::String | Prim::Binary | Prim::Geometry | Prim::Geography => ph == BYTE_ARRAY,
        Prim::Uuid => ph == FIXED_LEN_BYTE_ARRAY && c.type_length() == 16,
        Prim::Fixed(l) => ph == FIXED_LEN_BYTE_ARRAY && c.type_length() as u64 == *l,
        Prim::Unknown | Prim::Variant => true,
    }
}

/// Manifest metrics against the footer, for types whose footer statistics are exact.
fn statistics(m: &Model, r: &ManifestRef, i: usize, e: &Entry, md: &ParquetMetaData, s: &mut Sink) {
    let d = md.file_metadata().schema_descr();
    let lower: HashMap<i64, &Vec<u8>> = e.metrics.lower.iter().flatten().map(|(k, v)| (*k, v)).collect();
    let upper: HashMap<i64, &Vec<u8>> = e.metrics.upper.iter().flatten().map(|(k, v)| (*k, v)).collect();
    let nulls: HashMap<i64, i64> = e.metrics.null_counts.iter().flatten().copied().collect();
    for c in 0..d.num_columns() {
        let col = d.column(c);
        let Some(id) = id_of(col.self_type()) else {
            continue;
        };
        let Some(Shape::Prim(p)) = m.field(id).map(|f| &f.shape) else {
            continue;
        };
        let stats: Vec<_> = md.row_groups().iter().map(|g| g.column(c).statistics()).collect();
        let total: Option<u64> = stats.iter().map(|x| x.and_then(|x| x.null_count_opt())).sum();
        if let (Some(have), Some(real)) = (nulls.get(&id), total)
            && col.max_rep_level() == 0
            && col.path().parts().len() == 1
            && *have != real as i64
        {
            s.err(
                "MAN-D12",
                &r.path,
                r.manifest.at(i, &format!("data_file.null_value_counts[{id}]")),
                have,
                format!("{real} as in the footer of {}", e.path),
            );
        }
        let exact = matches!(
            p,
            Prim::Int
                | Prim::Long
                | Prim::Date
                | Prim::Time
                | Prim::Timestamp
                | Prim::Timestamptz
                | Prim::TimestampNs
                | Prim::TimestamptzNs
        );
        if !exact {
            continue;
        }
        for x in stats.into_iter().flatten() {
            let over = |bound: Option<&&Vec<u8>>, stat: Option<&[u8]>, wrong| {
                bound.zip(stat).filter(|(b, v)| p.bound_cmp(b, v) == Some(wrong)).map(|(b, v)| (hex(b), hex(v)))
            };
            if let Some((b, v)) = over(lower.get(&id), x.min_bytes_opt(), std::cmp::Ordering::Greater) {
                s.err(
                    "MAN-21",
                    &r.path,
                    r.manifest.at(i, &format!("data_file.lower_bounds[{id}]")),
                    b,
                    format!("at most {v}, the minimum in the footer"),
                );
            }
            if let Some((b, v)) = over(upper.get(&id), x.max_bytes_opt(), std::cmp::Ordering::Less) {
                s.err(
                    "MAN-21",
                    &r.path,
                    r.manifest.at(i, &format!("data_file.upper_bounds[{id}]")),
                    b,
                    format!("at least {v}, the maximum in the footer"),
                );
            }
        }
    }
}
