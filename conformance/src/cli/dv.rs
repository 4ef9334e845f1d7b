//! `floe dv`: looks into a Puffin file, or checks it against the clauses.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Args, Subcommand};
use floe_engine::dv::{BlobMetadata, DeletionVector, PuffinFile, describe, read_footer};
use floe_engine::io::FileIo;
use floe_engine::{Error, ErrorKind};

/// Positions that a dump shows of each vector.
const FIRST: usize = 16;

/// Arguments of `floe dv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 clean, 1 violations, 2 the file cannot be read.

Examples:
  floe dv dump warehouse/ns/t/data/00000-0-deletes.puffin
  floe dv check --offset 4 --length 42 warehouse/ns/t/data/00000-0-deletes.puffin")]
pub struct DvArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the footer, the blobs, and of each deletion vector its cardinality, first positions and containers
    Dump(Target),
    /// Validate everything; exit 0 when clean, 1 on violations, 2 when the file cannot be read
    Check(Target),
}

#[derive(Debug, Args)]
struct Target {
    /// Puffin file: a path or a location
    file: String,
    /// First byte of one deletion vector's blob, read directly, without the footer
    #[arg(long, requires = "length")]
    offset: Option<u64>,
    /// Bytes of that blob
    #[arg(long, requires = "offset")]
    length: Option<u64>,
}

/// What was found: text for stdout, faults for stderr.
#[derive(Debug, Default)]
pub struct Found {
    /// Description of what could be read.
    pub text: String,
    /// Every fault, each naming file, offset and clause.
    pub faults: Vec<Error>,
}

impl Found {
    /// 0 clean, 1 violations, 2 unreadable.
    pub fn exit_code(&self) -> i32 {
        let code = |e: &Error| {
            if e.kind() == ErrorKind::Malformed { 1 } else { 2 }
        };
        self.faults.iter().map(code).max().unwrap_or(0)
    }
}

/// Runs the subcommand; faults go to stderr. The exit code is 0, 1 on violations, or 2 when the file cannot be read.
pub async fn run(args: &DvArgs) -> Result<i32, String> {
    let (target, dump) = match &args.action {
        Action::Dump(t) => (t, true),
        Action::Check(t) => (t, false),
    };
    let found = inspect(&FileIo::default(), &location(&target.file)?, target.offset.zip(target.length)).await;
    let mut out = std::io::stdout().lock();
    let written = match (dump, found.exit_code()) {
        (true, _) => out.write_all(found.text.as_bytes()),
        (false, 0) => writeln!(out, "{}: ok", target.file),
        (false, _) => Ok(()),
    };
    written.map_err(|e| format!("stdout: {e}"))?;
    for fault in &found.faults {
        eprintln!("{fault}");
    }
    Ok(found.exit_code())
}

/// A path becomes absolute; a location with a scheme stays.
fn location(file: &str) -> Result<String, String> {
    if file.contains(':') && !std::path::Path::new(file).exists() {
        return Ok(file.to_string());
    }
    let path = std::path::absolute(file).map_err(|e| format!("{file}: {e}"))?;
    path.into_os_string().into_string().map_err(|p| format!("{}: not UTF-8", p.display()))
}

/// Reads a Puffin file, or the one blob at (offset, length), checks all of it and describes it.
pub async fn inspect(io: &FileIo, location: &str, blob: Option<(u64, u64)>) -> Found {
    let mut found = Found::default();
    let done = match blob {
        Some((offset, length)) => inspect_blob(io, location, offset, length, &mut found).await,
        None => inspect_file(io, location, &mut found).await,
    };
    found.faults.extend(done.err());
    found
}

async fn inspect_blob(io: &FileIo, file: &str, offset: u64, length: u64, found: &mut Found) -> Result<(), Error> {
    let size = io.size(file).await?.ok_or_else(|| Error::not_found("no such file").at(file))?;
    let end = offset.checked_add(length).filter(|end| *end <= size && length > 0);
    let Some(end) = end else {
        return Err(Error::malformed(format!("truncated: {length} bytes at {offset} in a file of {size} bytes"))
            .at(format!("{file} byte {offset}"))
            .clause("DV-24"));
    };
    let bytes = io.read_range(file, offset..end).await?;
    let dv = DeletionVector::decode_in(&bytes, file, offset)?;
    describe_dv(&dv, &bytes, &mut found.text)
}

async fn inspect_file(io: &FileIo, file: &str, found: &mut Found) -> Result<(), Error> {
    let bytes = io.read(file).await?;
    let puffin = read_footer(file, &bytes)?;
    describe_file(file, &puffin, &mut found.text);
    for (i, blob) in puffin.blobs.iter().enumerate() {
        describe_blob(i, blob, &mut found.text);
        if blob.is_dv() {
            let described = puffin
                .decode_dv(file, &bytes, blob)
                // The footer has checked that the blob lies in the file.
                .and_then(|dv| {
                    describe_dv(&dv, &bytes[blob.offset as usize..][..blob.length as usize], &mut found.text)
                });
            found.faults.extend(described.err());
        }
    }
    Ok(())
}

fn describe_file(file: &str, puffin: &PuffinFile, out: &mut String) {
    let (size, footer, blobs) = (puffin.file_size, puffin.footer_offset, puffin.blobs.len());
    let _ = writeln!(out, "{file}: {size} bytes, footer at {footer}, blobs {blobs}");
    for (k, v) in &puffin.properties {
        let _ = writeln!(out, "  {k} = {v}");
    }
}

fn describe_blob(i: usize, blob: &BlobMetadata, out: &mut String) {
    let BlobMetadata { blob_type, fields, snapshot_id, sequence_number, offset, length, .. } = blob;
    let codec = blob.compression_codec.as_deref().unwrap_or("none");
    let _ = writeln!(
        out,
        "blob {i}: {blob_type}, offset {offset}, length {length}, fields {fields:?}, snapshot-id {snapshot_id}, \
         sequence-number {sequence_number}, codec {codec}"
    );
    for (k, v) in &blob.properties {
        let _ = writeln!(out, "  {k} = {v}");
    }
}

fn describe_dv(dv: &DeletionVector, blob: &[u8], out: &mut String) -> Result<(), Error> {
    let first: Vec<String> = dv.iter().take(FIRST).map(|p| p.to_string()).collect();
    let more = if dv.len() > FIRST as u64 { ", …" } else { "" };
    let _ = writeln!(out, "  positions {}: {}{more}", dv.len(), first.join(", "));
    for c in describe(blob)? {
        let kind = format!("{:?}", c.kind).to_lowercase();
        let _ = writeln!(out, "  container from {}: {kind}, {}", c.key << 16, c.cardinality);
    }
    Ok(())
}
