//! Files and their deletes as data: each delete once, however many files it applies to.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{Literal, PrimitiveType, Struct};
use serde::{Deserialize, Serialize};

use crate::deletes::Deletes;
use crate::io::FileIo;
use crate::manifest::{Content, DataFile, FileFormat, ManifestEntry, Status, partition_type, primitive_types};
use crate::scan::plan::FileTask;
use crate::scan::split::Split;
use crate::table::Metadata;
pub(crate) use crate::types::from_hex;
use crate::types::{decode_bound, encode_bound, primitive};
use crate::{Error, Result};

/// A live manifest entry without column metrics: planning is done with them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EntryWire {
    content: i32,
    format: String,
    path: String,
    spec: i32,
    /// Partition values in single-value binary form (BIN-*), in hex.
    partition: Vec<Option<String>>,
    rows: i64,
    bytes: i64,
    snapshot: Option<i64>,
    sequence: Option<i64>,
    file_sequence: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    key_metadata: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    split_offsets: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    equality_ids: Option<Vec<i32>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sort_order: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    first_row_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    referenced: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    offset: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    size: Option<i64>,
}

/// A data file and its deletes, by their places in the list of all entries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileWire {
    entry: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    dv: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    positions: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    equality: Vec<usize>,
}

/// A split: place of its file, range of row groups, weight in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SplitWire(usize, Option<(i64, i64)>, i64);

/// Partition types by spec.
struct Types<'a> {
    metadata: &'a Metadata,
    known: HashMap<i32, Vec<PrimitiveType>>,
}

impl Types<'_> {
    fn of(&mut self, spec: i32) -> Result<Vec<PrimitiveType>> {
        if let Some(t) = self.known.get(&spec) {
            return Ok(t.clone());
        }
        let types = primitive_types(&partition_type(&self.metadata.inner, spec)?)?;
        self.known.insert(spec, types.clone());
        Ok(types)
    }
}

/// Entries on their way out: each is written once, however often it is referred to.
pub(crate) struct Packing<'a> {
    types: Types<'a>,
    io: &'a FileIo,
    places: HashMap<*const ManifestEntry, usize>,
    entries: Vec<EntryWire>,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(metadata: &'a Metadata, io: &'a FileIo) -> Self {
        Self { types: Types { metadata, known: HashMap::new() }, io, places: HashMap::new(), entries: Vec::new() }
    }

    /// The place of an entry.
    ///
    /// Errors: [`crate::ErrorKind::Unsupported`] for a file that only this process can read.
    pub(crate) fn place(&mut self, e: &Arc<ManifestEntry>) -> Result<usize> {
        if let Some(at) = self.places.get(&Arc::as_ptr(e)) {
            return Ok(*at);
        }
        if !self.io.is_shared(&e.file.path) {
            return Err(Error::unsupported("the file's store belongs to this process alone").at(&e.file.path));
        }
        self.entries.push(EntryWire::of(e, &mut self.types)?);
        self.places.insert(Arc::as_ptr(e), self.entries.len() - 1);
        Ok(self.entries.len() - 1)
    }

    pub(crate) fn file(&mut self, entry: &Arc<ManifestEntry>, deletes: &Deletes) -> Result<FileWire> {
        Ok(FileWire {
            entry: self.place(entry)?,
            dv: deletes.dv.as_ref().map(|d| self.place(d)).transpose()?,
            positions: deletes.positions.iter().map(|d| self.place(d)).collect::<Result<_>>()?,
            equality: deletes.equality.iter().map(|d| self.place(d)).collect::<Result<_>>()?,
        })
    }

    pub(crate) fn finish(self) -> Vec<EntryWire> {
        self.entries
    }
}

/// Entries that came.
pub(crate) struct Unpacked(Vec<Arc<ManifestEntry>>);

impl Unpacked {
    pub(crate) fn new(entries: Vec<EntryWire>, metadata: &Metadata) -> Result<Self> {
        let mut types = Types { metadata, known: HashMap::new() };
        Ok(Self(entries.into_iter().map(|e| e.build(&mut types).map(Arc::new)).collect::<Result<_>>()?))
    }

    pub(crate) fn entry(&self, at: usize) -> Result<Arc<ManifestEntry>> {
        self.0.get(at).cloned().ok_or_else(|| Error::malformed(format!("there is no file {at}")))
    }

    pub(crate) fn file(&self, f: &FileWire) -> Result<(Arc<ManifestEntry>, Deletes)> {
        let many = |places: &[usize]| places.iter().map(|at| self.entry(*at)).collect::<Result<Vec<_>>>();
        let deletes = Deletes {
            dv: f.dv.map(|at| self.entry(at)).transpose()?,
            positions: many(&f.positions)?,
            equality: many(&f.equality)?,
        };
        Ok((self.entry(f.entry)?, deletes))
    }
}

/// Files of groups of splits, and the groups.
pub(super) fn pack_groups(
    groups: &[Vec<Split>],
    packing: &mut Packing<'_>,
) -> Result<(Vec<FileWire>, Vec<Vec<SplitWire>>)> {
    let (mut files, mut places) = (Vec::new(), HashMap::new());
    let mut split = |s: &Split| -> Result<SplitWire> {
        let at = match places.get(&Arc::as_ptr(&s.task)) {
            Some(at) => *at,
            None => {
                files.push(packing.file(&s.task.entry, &s.task.deletes)?);
                places.insert(Arc::as_ptr(&s.task), files.len() - 1);
                files.len() - 1
            }
        };
        Ok(SplitWire(at, s.range, s.weight))
    };
    let groups = groups.iter().map(|g| g.iter().map(&mut split).collect::<Result<_>>()).collect::<Result<_>>()?;
    Ok((files, groups))
}

pub(super) fn unpack_groups(
    files: &[FileWire],
    groups: Vec<Vec<SplitWire>>,
    entries: &Unpacked,
) -> Result<Vec<Vec<Split>>> {
    let tasks = files
        .iter()
        .map(|f| entries.file(f).map(|(entry, deletes)| Arc::new(FileTask { entry, deletes })))
        .collect::<Result<Vec<_>>>()?;
    let split = |SplitWire(at, range, weight): SplitWire| -> Result<Split> {
        let task = tasks.get(at).cloned().ok_or_else(|| Error::malformed(format!("a scan has no file {at}")))?;
        Ok(Split { task, range, weight })
    };
    groups.into_iter().map(|g| g.into_iter().map(split).collect()).collect()
}

impl EntryWire {
    fn of(e: &ManifestEntry, types: &mut Types<'_>) -> Result<Self> {
        let f = &e.file;
        let types = types.of(f.spec_id).map_err(|e| e.at(&f.path))?;
        let partition = f
            .partition
            .fields()
            .iter()
            .enumerate()
            .map(|(i, v)| match (v.as_ref(), types.get(i)) {
                (None, _) => Ok(None),
                (Some(v), Some(ty)) => {
                    let v = primitive(v).ok_or_else(|| Error::malformed("a partition value is no primitive"))?;
                    Ok(Some(to_hex(&encode_bound(v, ty)?)))
                }
                (Some(_), None) => Err(Error::malformed("more partition values than the spec has fields")),
            })
            .collect::<Result<_>>()
            .map_err(|e| e.at(&f.path))?;
        Ok(Self {
            content: f.content as i32,
            format: f.format.as_str().into(),
            path: f.path.to_string(),
            spec: f.spec_id,
            partition,
            rows: f.record_count,
            bytes: f.file_size,
            snapshot: e.snapshot_id,
            sequence: e.sequence_number,
            file_sequence: e.file_sequence_number,
            key_metadata: f.key_metadata.as_deref().map(to_hex),
            split_offsets: f.split_offsets.clone(),
            equality_ids: f.equality_ids.clone(),
            sort_order: f.sort_order_id,
            first_row_id: f.first_row_id,
            referenced: f.referenced_data_file.as_deref().map(Into::into),
            offset: f.content_offset,
            size: f.content_size,
        })
    }

    fn build(self, types: &mut Types<'_>) -> Result<ManifestEntry> {
        let types = types.of(self.spec).map_err(|e| e.at(&self.path))?;
        let bad = |what: String| Error::malformed(what).at(&self.path);
        let content = match self.content {
            0 => Content::Data,
            1 => Content::PositionDeletes,
            2 => Content::EqualityDeletes,
            n => return Err(bad(format!("content {n}; allowed: 0, 1, 2"))),
        };
        let format = [FileFormat::Parquet, FileFormat::Avro, FileFormat::Orc, FileFormat::Puffin]
            .into_iter()
            .find(|f| f.as_str() == self.format)
            .ok_or_else(|| bad(format!("unknown file format {:?}", self.format)))?;
        if self.partition.len() != types.len() {
            return Err(bad(format!("{} partition values; the spec has {}", self.partition.len(), types.len())));
        }
        let values = self.partition.iter().zip(&types).map(|(v, ty)| {
            v.as_ref()
                .map(|hex| {
                    let value = from_hex(hex).and_then(|b| decode_bound(&b, ty));
                    value.map(Literal::Primitive).ok_or_else(|| bad(format!("{hex:?} is no value of type {ty}")))
                })
                .transpose()
        });
        let partition: Struct = values.collect::<Result<Vec<_>>>()?.into_iter().collect();
        let key_metadata = match &self.key_metadata {
            Some(hex) => Some(from_hex(hex).ok_or_else(|| bad("key metadata is not hex".into()))?),
            None => None,
        };
        let file = DataFile {
            key_metadata,
            split_offsets: self.split_offsets,
            equality_ids: self.equality_ids,
            sort_order_id: self.sort_order,
            first_row_id: self.first_row_id,
            referenced_data_file: self.referenced.map(Into::into),
            content_offset: self.offset,
            content_size: self.size,
            ..DataFile::new(content, format, self.path, self.spec, Arc::new(partition), self.rows, self.bytes)
        };
        Ok(ManifestEntry {
            status: Status::Existing,
            snapshot_id: self.snapshot,
            sequence_number: self.sequence,
            file_sequence_number: self.file_sequence,
            file,
        })
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
