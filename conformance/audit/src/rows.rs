//! Row access the auditor needs from Parquet: position deletes and stored lineage columns, read column by column.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::model::Model;

pub const FILE_PATH: i32 = 2_147_483_546;
pub const POS: i32 = 2_147_483_545;
pub const ROW_ID: i32 = 2_147_483_540;
pub const LAST_SEQ: i32 = 2_147_483_539;

/// A position delete file: its targets, and what is wrong with its order.
#[derive(Debug, Default)]
pub struct PosDel {
    /// Positions by data file path, sorted and distinct.
    pub by_path: HashMap<Arc<str>, Vec<i64>>,
    /// First row that is out of order (POSDEL-2).
    pub unsorted: Option<String>,
    /// Why the rows could not be read.
    pub broken: Option<String>,
}

/// Index of the top-level leaf column with field id `id`.
pub fn leaf(r: &SerializedFileReader<File>, id: i32) -> Option<usize> {
    let d = r.metadata().file_metadata().schema_descr();
    (0..d.num_columns()).find(|i| {
        let c = d.column(*i);
        let b = c.self_type().get_basic_info();
        b.has_id() && b.id() == id && c.path().parts().len() == 1
    })
}

/// A long column, null where absent.
///
/// # Errors
/// Text of the Parquet error, or that the column is not INT64.
pub fn longs(r: &SerializedFileReader<File>, col: usize) -> Result<Vec<Option<i64>>, String> {
    let mut out = Vec::new();
    let optional = r.metadata().file_metadata().schema_descr().column(col).max_def_level() > 0;
    for g in 0..r.num_row_groups() {
        let group = r.get_row_group(g).map_err(|e| e.to_string())?;
        let n = usize::try_from(group.metadata().num_rows()).map_err(|e| e.to_string())?;
        let ColumnReader::Int64ColumnReader(mut c) = group.get_column_reader(col).map_err(|e| e.to_string())? else {
            return Err("not an INT64 column".into());
        };
        let (mut def, mut vals) = (Vec::new(), Vec::new());
        c.read_records(n, optional.then_some(&mut def), None, &mut vals).map_err(|e| e.to_string())?;
        if optional {
            let mut it = vals.into_iter();
            out.extend(def.iter().map(|d| if *d > 0 { it.next() } else { None }));
        } else {
            out.extend(vals.into_iter().map(Some));
        }
    }
    Ok(out)
}

fn texts(r: &SerializedFileReader<File>, col: usize) -> Result<Vec<ByteArray>, String> {
    let mut out = Vec::new();
    let optional = r.metadata().file_metadata().schema_descr().column(col).max_def_level() > 0;
    for g in 0..r.num_row_groups() {
        let group = r.get_row_group(g).map_err(|e| e.to_string())?;
        let n = usize::try_from(group.metadata().num_rows()).map_err(|e| e.to_string())?;
        let ColumnReader::ByteArrayColumnReader(mut c) = group.get_column_reader(col).map_err(|e| e.to_string())?
        else {
            return Err("file_path is not BINARY".into());
        };
        let mut def = Vec::new();
        c.read_records(n, optional.then_some(&mut def), None, &mut out).map_err(|e| e.to_string())?;
    }
    Ok(out)
}

/// Opens a Parquet file.
///
/// # Errors
/// Text of the error.
pub fn open(path: &Path) -> Result<SerializedFileReader<File>, String> {
    SerializedFileReader::new(File::open(path).map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

fn read_posdel(path: &Path) -> Result<PosDel, String> {
    let r = open(path)?;
    let (Some(f), Some(p)) = (leaf(&r, FILE_PATH), leaf(&r, POS)) else {
        return Err("no file_path and pos columns with their reserved ids".into());
    };
    let (paths, pos) = (texts(&r, f)?, longs(&r, p)?);
    if paths.len() != pos.len() || pos.iter().any(Option::is_none) {
        return Err("null file_path or pos".into());
    }
    let mut out = PosDel::default();
    let mut names: HashMap<Vec<u8>, Arc<str>> = HashMap::new();
    let mut prev: Option<(&[u8], i64)> = None;
    for (t, p) in paths.iter().zip(pos.iter().flatten()) {
        let b = t.data();
        if prev.is_some_and(|(q, n)| q > b || (q == b && n > *p)) && out.unsorted.is_none() {
            out.unsorted = Some(format!("{} {p}", String::from_utf8_lossy(b)));
        }
        prev = Some((b, *p));
        let name = names.entry(b.to_vec()).or_insert_with(|| String::from_utf8_lossy(b).into()).clone();
        out.by_path.entry(name).or_default().push(*p);
    }
    for v in out.by_path.values_mut() {
        v.sort_unstable();
        v.dedup();
    }
    Ok(out)
}

/// Every live Parquet position delete file of the table, by path.
pub fn position_deletes(m: &Model) -> HashMap<Arc<str>, PosDel> {
    let mut paths: Vec<Arc<str>> = Vec::new();
    for (_, r) in m.manifests() {
        let live = r
            .manifest
            .entries
            .iter()
            .filter(|e| e.live() && e.content == 1 && e.format.eq_ignore_ascii_case("parquet") && !e.encrypted);
        paths.extend(live.map(|e| e.path.clone()));
    }
    paths.sort();
    paths.dedup();
    let out = Mutex::new(HashMap::new());
    crate::parallel(m.threads, &paths, |p| {
        let file = m.locator.path(p);
        if file.is_file() {
            let d = read_posdel(&file).unwrap_or_else(|e| PosDel { broken: Some(e), ..PosDel::default() });
            out.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(p.clone(), d);
        }
    });
    out.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
