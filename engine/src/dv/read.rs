//! Reading a deletion vector that a manifest entry names: by (path, offset, length), without the footer unless asked (DV-30).

use std::collections::HashMap;

use super::codec::{MAX_BLOB_LEN, MIN_BLOB_LEN};
use super::footer::read_footer_of;
use super::vector::DeletionVector;
use crate::io::{FileIo, normalize};
use crate::manifest::{Content, DataFile};
use crate::{Error, Result};

/// From this length on, the file's size is asked for before the buffer is made: the length comes from a manifest.
const LARGE_BLOB: u64 = 8 << 20;

/// How strictly [`read_dv`] reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DvOptions {
    /// Takes positions at or beyond the data file's row count; they delete nothing. Refused otherwise.
    pub lenient_positions: bool,
    /// Also reads the footer and compares the blob's metadata with the entry: finds an entry that points at another
    /// data file's vector, at the price of two or three more requests.
    pub check_footer: bool,
}

/// The blob that an entry names.
struct Place<'a> {
    path: &'a str,
    offset: u64,
    size: u64,
    referenced: &'a str,
}

/// Checks a deletion vector's manifest entry by itself (DEL-6, DV-6, DV-7): format and content, referenced data file,
/// offset and length that fit the file.
pub fn check_entry(file: &DataFile) -> Result<()> {
    place(file).map(drop)
}

fn place(file: &DataFile) -> Result<Place<'_>> {
    let path: &str = &file.path;
    let bad =
        |clause, message: String| Err(Error::malformed(format!("deletion vector: {message}")).at(path).clause(clause));
    if !file.is_dv() {
        return bad(
            "DEL-6",
            format!(
                "{:?} with content {:?}; a deletion vector is PUFFIN with position deletes",
                file.format, file.content
            ),
        );
    }
    if file.content != Content::PositionDeletes {
        return bad("DV-7", format!("content {:?}; position deletes are required", file.content));
    }
    let Some(referenced) = file.referenced_data_file.as_deref().filter(|r| !r.is_empty()) else {
        return bad("DV-6", "no referenced_data_file in the manifest entry; it is required".into());
    };
    let (Some(offset), Some(size)) = (file.content_offset, file.content_size) else {
        return bad(
            "DEL-6",
            "no content_offset or content_size_in_bytes in the manifest entry; both are required".into(),
        );
    };
    let Some(offset) = u64::try_from(offset).ok().filter(|o| *o >= 4) else {
        return bad("DV-7", format!("content_offset {offset}; blobs start at byte 4 or later"));
    };
    let Some(size) = u64::try_from(size).ok().filter(|s| (MIN_BLOB_LEN..=MAX_BLOB_LEN).contains(s)) else {
        return bad("DV-30", format!("content_size_in_bytes {size}; {MIN_BLOB_LEN} to {MAX_BLOB_LEN} are allowed"));
    };
    if i128::from(offset) + i128::from(size) > i128::from(file.file_size) {
        return bad("DV-7", format!("blob of {size} bytes at {offset} in a file of {} bytes", file.file_size));
    }
    if file.record_count < 0 {
        return bad("DV-7", format!("record_count {}; it is the cardinality", file.record_count));
    }
    Ok(Place { path, offset, size, referenced })
}

/// Reads the deletion vector that `file` names with one ranged request of exactly its blob.
///
/// `data_file_rows` is the row count of the data file; with it, positions beyond are refused unless
/// [`DvOptions::lenient_positions`]. Errors name file, offset and clause: an entry that is not a deletion vector's or misses
/// a field (DEL-6, DV-6, DV-7), a blob that is truncated, of wrong length, magic or checksum, or not one well-formed vector
/// (DV-20..26, DV-40..45), a cardinality other than `record_count` (DV-7), a position that is no row (DV-1), and with
/// [`DvOptions::check_footer`] a footer that says otherwise (DV-7).
pub async fn read_dv(
    io: &FileIo,
    file: &DataFile,
    data_file_rows: Option<i64>,
    opts: &DvOptions,
) -> Result<DeletionVector> {
    let at = place(file)?;
    let end = at.offset + at.size;
    if at.size > LARGE_BLOB {
        check_end(io, &at, end).await?;
    }
    let blob = match io.read_range(at.path, at.offset..end).await {
        Ok(blob) => blob,
        Err(e) => {
            // A store's own word for a range beyond the end is an I/O error; the fault is the file's.
            check_end(io, &at, end).await?;
            return Err(e);
        }
    };
    let dv = DeletionVector::decode_in(&blob, at.path, at.offset)?;
    let bad = |clause, message: String| {
        Err(Error::malformed(format!("deletion vector: {message}"))
            .at(format!("{} byte {}", at.path, at.offset))
            .clause(clause))
    };
    let cardinality = dv.len();
    if u64::try_from(file.record_count) != Ok(cardinality) {
        return bad("DV-7", format!("{cardinality} positions, record_count {}", file.record_count));
    }
    if let Some(rows) = data_file_rows
        && !opts.lenient_positions
        && let Some(max) = dv.max()
        && i64::try_from(max).is_ok_and(|m| m >= rows)
    {
        return bad("DV-1", format!("position {max} in a data file of {rows} rows ({})", at.referenced));
    }
    if opts.check_footer {
        check_footer(io, file, &at, cardinality).await?;
    }
    Ok(dv)
}

/// An error if the file ends before `end`.
async fn check_end(io: &FileIo, at: &Place<'_>, end: u64) -> Result<()> {
    match io.size(at.path).await? {
        Some(size) if size < end => Err(Error::malformed(format!(
            "deletion vector: truncated: blob of {} bytes in a file of {size} bytes",
            at.size
        ))
        .at(format!("{} byte {}", at.path, at.offset))
        .clause("DV-7")),
        Some(_) => Ok(()),
        None => Err(Error::not_found("no such deletion vector file").at(at.path)),
    }
}

async fn check_footer(io: &FileIo, file: &DataFile, at: &Place<'_>, cardinality: u64) -> Result<()> {
    let puffin = read_footer_of(io, at.path).await?;
    let bad = |clause, message: String| {
        Err(Error::malformed(format!("deletion vector: {message}"))
            .at(format!("{} byte {}", at.path, at.offset))
            .clause(clause))
    };
    if puffin.file_size != file.file_size as u64 {
        return bad("DV-7", format!("file_size_in_bytes {} of a file of {} bytes", file.file_size, puffin.file_size));
    }
    let Some(blob) = puffin.blob_at(at.offset as i64, at.size as i64) else {
        return bad("DV-7", format!("the footer has no blob of {} bytes at {}", at.size, at.offset));
    };
    if !blob.is_dv() {
        return bad("DV-7", format!("the footer says that this blob is of type {:?}", blob.blob_type));
    }
    if blob.cardinality() != Some(cardinality) {
        return bad("DV-27", format!("{cardinality} positions, cardinality {:?} in the footer", blob.cardinality()));
    }
    match blob.referenced_data_file() {
        Some(r) if normalize(r) == normalize(at.referenced) => Ok(()),
        other => bad(
            "DV-6",
            format!("the footer says that this vector is of {other:?}, the manifest entry {:?}", at.referenced),
        ),
    }
}

/// Checks that a deletion vector's entry is for the data file at `data_file` (DV-6).
pub fn check_reference(dv: &DataFile, data_file: &str) -> Result<()> {
    let at = place(dv)?;
    if normalize(at.referenced) != normalize(data_file) {
        return Err(Error::malformed(format!(
            "deletion vector is expected to reference {data_file:?}, not {:?}",
            at.referenced
        ))
        .at(format!("{} byte {}", at.path, at.offset))
        .clause("DV-6"));
    }
    Ok(())
}

/// Checks that no data file has two deletion vectors among `dvs`, the live ones of a snapshot (DV-2, DV-11); other files are
/// passed over. The error names both.
pub fn check_unique<'a>(dvs: impl IntoIterator<Item = &'a DataFile>) -> Result<()> {
    let mut seen: HashMap<String, &DataFile> = HashMap::new();
    for dv in dvs.into_iter().filter(|f| f.is_dv()) {
        let at = place(dv)?;
        if let Some(first) = seen.insert(normalize(at.referenced), dv) {
            let offset = first.content_offset.unwrap_or_default();
            return Err(Error::malformed(format!(
                "two live deletion vectors for {}: {} at {offset}, and {} at {}; at most one is allowed",
                at.referenced, first.path, at.path, at.offset
            ))
            .at(format!("{} byte {}", at.path, at.offset))
            .clause("DV-2"));
        }
    }
    Ok(())
}
