//! Files of the small world that the model checker explores. No file but manifests exists: a file's name says all it
//! holds, so a table is read from its manifests alone.

use std::sync::Arc;

use floe_engine::manifest::{ById, Content, DataFile, FileFormat, Metrics};
use iceberg::spec::{Literal, Struct};

/// A row as a data file stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub k: i32,
    pub v: i32,
    /// Stored `_row_id`; `None` is inherited (LINEAGE-11).
    pub id: Option<i64>,
}

impl Row {
    pub fn new(k: i32, v: i32) -> Self {
        Self { k, v, id: None }
    }
}

/// Partition of a key.
pub fn partition(k: i32) -> i32 {
    k % 2
}

const FOLDER: &str = "memory:/t/data/";

fn file(content: Content, format: FileFormat, name: String, p: i32, count: i64) -> DataFile {
    DataFile::new(
        content,
        format,
        format!("{FOLDER}{name}"),
        0,
        Arc::new(Struct::from_iter([Some(Literal::int(p))])),
        count,
        100,
    )
}

/// A data file `name` of one partition.
pub fn data(name: &str, rows: &[Row]) -> DataFile {
    let cell = |r: &Row| format!("{}.{}.{}", r.k, r.v, r.id.map_or("n".to_string(), |i| i.to_string()));
    let text: Vec<String> = rows.iter().map(cell).collect();
    let p = partition(rows[0].k);
    let mut f =
        file(Content::Data, FileFormat::Parquet, format!("{name}~{}.parquet", text.join("+")), p, rows.len() as i64);
    let ks = || rows.iter().map(|r| r.k);
    let bound = |k: Option<i32>| ById::from([(1, k.unwrap_or(0).to_le_bytes().to_vec())]);
    f.metrics = Some(Box::new(Metrics {
        value_counts: ById::from([(1, rows.len() as i64)]),
        null_value_counts: ById::from([(1, 0)]),
        lower_bounds: bound(ks().min()),
        upper_bounds: bound(ks().max()),
        ..Metrics::default()
    }));
    f
}

/// What follows the name in a path.
fn body(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rest = name.split_once('~').map_or("", |(_, r)| r);
    rest.rsplit_once('.').map_or(rest, |(b, _)| b)
}

/// The short name of a file.
pub fn short(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('~').map_or(name, |(n, _)| n)
}

/// Rows of a data file.
pub fn rows(f: &DataFile) -> Vec<Row> {
    let number = |s: &str| s.parse().expect("a number in a name");
    body(&f.path)
        .split('+')
        .map(|cell| {
            let mut parts = cell.split('.');
            let (k, v) = (parts.next().expect("k"), parts.next().expect("v"));
            let id = parts.next().filter(|i| *i != "n").map(|i| i.parse().expect("an id in a name"));
            Row { k: number(k), v: number(v), id }
        })
        .collect()
}

/// Deletion vectors of data files in one Puffin file `name`; masks are bits of positions.
pub fn vectors(name: &str, of: &[(DataFile, u8)]) -> Vec<DataFile> {
    let text: Vec<String> = of.iter().map(|(_, m)| m.to_string()).collect();
    let name = format!("{name}~{}.puffin", text.join("+"));
    of.iter()
        .enumerate()
        .map(|(i, (d, mask))| {
            let p = partition(rows(d)[0].k);
            let count = i64::from(mask.count_ones());
            let mut f = file(Content::PositionDeletes, FileFormat::Puffin, name.clone(), p, count);
            f.referenced_data_file = Some(d.path.clone());
            f.content_offset = Some(4 + 50 * i as i64);
            f.content_size = Some(50);
            f
        })
        .collect()
}

/// Positions that a deletion vector holds.
pub fn mask(dv: &DataFile) -> u8 {
    let at = (dv.content_offset.unwrap_or(4) - 4) / 50;
    body(&dv.path).split('+').nth(at as usize).and_then(|m| m.parse().ok()).expect("a mask in a name")
}

/// A V2 position-delete file; scoped to a file when it names one and `scoped` is set (DV-14), else to the partition.
pub fn positions(name: &str, of: &[(DataFile, u8)], scoped: bool) -> DataFile {
    let text: Vec<String> = of.iter().map(|(d, m)| format!("{}.{m}", short(&d.path))).collect();
    let p = partition(rows(&of[0].0)[0].k);
    let count = of.iter().map(|(_, m)| i64::from(m.count_ones())).sum();
    let name = format!("{name}~{}.parquet", text.join("+"));
    let mut f = file(Content::PositionDeletes, FileFormat::Parquet, name, p, count);
    if scoped && of.len() == 1 {
        f.referenced_data_file = Some(of[0].0.path.clone());
    }
    f
}

/// Positions that a V2 file deletes in a data file.
pub fn positions_in(delete: &DataFile, data: &DataFile) -> u8 {
    let of = short(&data.path);
    body(&delete.path)
        .split('+')
        .filter_map(|cell| cell.rsplit_once('.'))
        .filter(|(name, _)| *name == of)
        .filter_map(|(_, m)| m.parse::<u8>().ok())
        .fold(0, |a, m| a | m)
}
