//! Reading a manifest: blocks are decoded straight into [`ManifestEntry`] by a program that is compiled once from the
//! writer schema in the header, by field id; inheritance is applied to all entries, in order (SEQ-*, FRID-2, FRID-8).

use std::sync::Arc;

use iceberg::spec::{Literal, ManifestContentType, ManifestFile, PrimitiveType, Struct, StructType};

use super::avro::{Decoder, Node, Schema};
use super::container::Container;
use super::values::{primitive_types, read_value};
use super::{ById, Content, DataFile, FileFormat, ManifestEntry, Metrics, Status};
use crate::{Error, Result};

/// What of an entry is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Columns {
    /// Everything.
    #[default]
    All,
    /// Everything but column metrics, which are most of a wide table's manifest.
    WithoutMetrics,
}

/// Target of a field of the entry or of its data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Skip,
    Status,
    SnapshotId,
    Sequence,
    FileSequence,
    DataFile,
    Content,
    Path,
    Format,
    Partition,
    RecordCount,
    FileSize,
    ColumnSizes,
    ValueCounts,
    NullCounts,
    NanCounts,
    Lower,
    Upper,
    KeyMetadata,
    SplitOffsets,
    EqualityIds,
    SortOrder,
    FirstRowId,
    Referenced,
    Offset,
    Size,
}

const ENTRY: &[(i32, &str, Slot)] = &[
    (0, "status", Slot::Status),
    (1, "snapshot_id", Slot::SnapshotId),
    (3, "sequence_number", Slot::Sequence),
    (4, "file_sequence_number", Slot::FileSequence),
    (2, "data_file", Slot::DataFile),
];

const DATA_FILE: &[(i32, &str, Slot)] = &[
    (134, "content", Slot::Content),
    (100, "file_path", Slot::Path),
    (101, "file_format", Slot::Format),
    (102, "partition", Slot::Partition),
    (103, "record_count", Slot::RecordCount),
    (104, "file_size_in_bytes", Slot::FileSize),
    (108, "column_sizes", Slot::ColumnSizes),
    (109, "value_counts", Slot::ValueCounts),
    (110, "null_value_counts", Slot::NullCounts),
    (137, "nan_value_counts", Slot::NanCounts),
    (125, "lower_bounds", Slot::Lower),
    (128, "upper_bounds", Slot::Upper),
    (131, "key_metadata", Slot::KeyMetadata),
    (132, "split_offsets", Slot::SplitOffsets),
    (135, "equality_ids", Slot::EqualityIds),
    (140, "sort_order_id", Slot::SortOrder),
    (142, "first_row_id", Slot::FirstRowId),
    (143, "referenced_data_file", Slot::Referenced),
    (144, "content_offset", Slot::Offset),
    (145, "content_size_in_bytes", Slot::Size),
];

/// A compiled record: for each field in writing order its slot and schema node.
type Program = Vec<(Slot, usize)>;

fn compile(schema: &Schema, node: usize, table: &[(i32, &str, Slot)], columns: Columns) -> Result<Program> {
    let Node::Record(fields) = &schema.nodes[node] else {
        return Err(Error::malformed("Avro schema of a manifest must be a record").clause("MAN-1"));
    };
    Ok(fields
        .iter()
        .map(|f| {
            let hit = match f.id {
                Some(id) => table.iter().find(|t| t.0 == id),
                None => table.iter().find(|t| t.1 == f.name),
            };
            let slot = hit.map_or(Slot::Skip, |t| t.2);
            let is_metric = matches!(
                slot,
                Slot::ColumnSizes | Slot::ValueCounts | Slot::NullCounts | Slot::NanCounts | Slot::Lower | Slot::Upper
            );
            (if is_metric && columns == Columns::WithoutMetrics { Slot::Skip } else { slot }, f.node)
        })
        .collect())
}

fn record_node(schema: &Schema, program: &Program, slot: Slot, id: &'static str, name: &str) -> Result<usize> {
    let node = program.iter().find(|p| p.0 == slot).map(|p| p.1);
    let node = node.ok_or_else(|| Error::malformed(format!("manifest schema has no field {name}")).clause(id))?;
    match &schema.nodes[node] {
        Node::Record(_) => Ok(node),
        _ => Err(Error::malformed(format!("manifest field {name} must be a record")).clause(id)),
    }
}

fn require(program: &Program, slot: Slot, id: &'static str, name: &str) -> Result<()> {
    if program.iter().any(|p| p.0 == slot) {
        return Ok(());
    }
    Err(Error::malformed(format!("manifest schema has no field {name}")).clause(id))
}

/// Reads all entries of a manifest, DELETED ones included, with inheritance applied.
///
/// `partition` is the struct type of the manifest's spec ([`super::partition_type`]). Errors name the manifest, the
/// entry and the clause.
pub fn read_manifest(bytes: &[u8], file: &ManifestFile, partition: &StructType) -> Result<Vec<ManifestEntry>> {
    let mut out = Vec::with_capacity(expected(file, bytes));
    read_manifest_with(bytes, file, partition, Columns::All, |e| {
        out.push(e);
        Ok(())
    })?;
    Ok(out)
}

/// How many entries the list announces; an upper bound keeps a wrong list from reserving memory.
pub(super) fn expected(file: &ManifestFile, bytes: &[u8]) -> usize {
    let counts = [file.added_files_count, file.existing_files_count, file.deleted_files_count];
    let expected: usize = counts.iter().map(|c| c.unwrap_or(0) as usize).sum();
    expected.min(bytes.len() / 8)
}

/// Streams the entries of a manifest in file order; every entry is seen, so row ids are right before any filtering
/// (FRID-9).
pub fn read_manifest_with(
    bytes: &[u8],
    file: &ManifestFile,
    partition: &StructType,
    columns: Columns,
    mut each: impl FnMut(ManifestEntry) -> Result<()>,
) -> Result<()> {
    read_inner(bytes, file, partition, columns, &mut each).map_err(|e| e.at(&file.manifest_path))
}

fn read_inner(
    bytes: &[u8],
    file: &ManifestFile,
    partition: &StructType,
    columns: Columns,
    each: &mut dyn FnMut(ManifestEntry) -> Result<()>,
) -> Result<()> {
    let mut container = Container::open(bytes)?;
    let deletes = file.content == ManifestContentType::Deletes;
    if let Some(content) = container.text("content") {
        let says_deletes = match content {
            "data" => false,
            "deletes" => true,
            other => {
                return Err(
                    Error::malformed(format!("manifest content {other:?}; allowed: data, deletes")).clause("MAN-K6")
                );
            }
        };
        if says_deletes != deletes {
            return Err(Error::malformed(format!(
                "manifest holds {content}, the manifest list says {}",
                if deletes { "deletes" } else { "data" }
            ))
            .clause("ML-4"));
        }
    }
    let schema = &container.schema;
    let entry = compile(schema, 0, ENTRY, columns)?;
    require(&entry, Slot::Status, "MAN-E1", "status")?;
    let data_file_node = record_node(schema, &entry, Slot::DataFile, "MAN-E5", "data_file")?;
    let data_file = compile(schema, data_file_node, DATA_FILE, columns)?;
    require(&data_file, Slot::Path, "MAN-D02", "file_path")?;
    require(&data_file, Slot::RecordCount, "MAN-D05", "record_count")?;
    require(&data_file, Slot::FileSize, "MAN-D06", "file_size_in_bytes")?;
    let partition_fields = match data_file.iter().find(|p| p.0 == Slot::Partition) {
        Some(_) => {
            let node = record_node(schema, &data_file, Slot::Partition, "MAN-D04", "partition")?;
            compile_partition(schema, node, partition)?
        }
        None => Vec::new(),
    };
    let mut reader = EntryReader {
        deletes,
        file,
        v1_sequence: !entry.iter().any(|p| p.0 == Slot::Sequence),
        entry,
        data_file,
        partition_fields,
        width: partition.fields().len(),
        last_partition: None,
        last_path: None,
        next_row_id: if deletes {
            None
        } else {
            file.first_row_id
                .map(i64::try_from)
                .transpose()
                .map_err(|_| Error::malformed("first_row_id does not fit a long").clause("ML-16"))?
        },
    };
    let mut index = 0usize;
    container.for_each(|schema, d| {
        let e = reader.read(schema, d).map_err(|e| e.at(format!("{} entry {index}", file.manifest_path)))?;
        index += 1;
        each(e)
    })
}

/// Field of a partition record: position in the spec (or none), node, expected type.
type PartitionField = (Option<usize>, usize, Option<PrimitiveType>);

fn compile_partition(schema: &Schema, node: usize, partition: &StructType) -> Result<Vec<PartitionField>> {
    let Node::Record(fields) = &schema.nodes[node] else {
        return Ok(Vec::new());
    };
    let types = primitive_types(partition)?;
    Ok(fields
        .iter()
        .map(|f| {
            let pos = partition.fields().iter().position(|p| match f.id {
                Some(id) => p.id == id,
                None => p.name == f.name,
            });
            (pos, f.node, pos.map(|p| types[p].clone()))
        })
        .collect())
}

struct EntryReader<'m> {
    deletes: bool,
    file: &'m ManifestFile,
    /// The sequence-number column is absent: everything is sequence 0 (SEQ-3).
    v1_sequence: bool,
    entry: Program,
    data_file: Program,
    partition_fields: Vec<PartitionField>,
    width: usize,
    /// Raw bytes and value of the previous entry's tuple: neighbours mostly share it.
    last_partition: Option<(Vec<u8>, Arc<Struct>)>,
    /// Path of the previous entry's file: many deletion vectors lie in one.
    last_path: Option<Arc<str>>,
    /// Running row id; `None` when the manifest has none (FRID-8).
    next_row_id: Option<i64>,
}

fn missing(name: &str, id: &'static str) -> Error {
    Error::malformed(format!("{name} is null")).clause(id)
}

fn not_negative(v: i64, name: &str, id: &'static str) -> Result<i64> {
    if v < 0 { Err(Error::malformed(format!("{name} is negative: {v}")).clause(id)) } else { Ok(v) }
}

impl EntryReader<'_> {
    fn read(&mut self, schema: &Schema, d: &mut Decoder<'_>) -> Result<ManifestEntry> {
        let (mut status, mut snapshot_id, mut sequence, mut file_sequence, mut file) = (None, None, None, None, None);
        for i in 0..self.entry.len() {
            let (slot, node) = self.entry[i];
            match slot {
                Slot::Status => status = schema.opt_long(node, d)?,
                Slot::SnapshotId => snapshot_id = schema.opt_long(node, d)?,
                Slot::Sequence => sequence = schema.opt_long(node, d)?,
                Slot::FileSequence => file_sequence = schema.opt_long(node, d)?,
                Slot::DataFile => file = Some(self.read_file(schema, d)?),
                _ => schema.skip(node, d)?,
            }
        }
        let status = match status {
            Some(0) => Status::Existing,
            Some(1) => Status::Added,
            Some(2) => Status::Deleted,
            other => {
                return Err(Error::malformed(format!("status {other:?}; allowed: 0, 1, 2")).clause("MAN-E1"));
            }
        };
        let mut file = file.ok_or_else(|| missing("data_file", "MAN-E5"))?;
        let inherits = status == Status::Added || self.file.sequence_number == 0;
        let inherit = |own: Option<i64>, name: &str| match own {
            Some(v) => Ok(v),
            None if self.v1_sequence => Ok(0),
            None if inherits => Ok(self.file.sequence_number),
            None => Err(Error::malformed(format!("{name} is null on an entry that is not ADDED")).clause("SEQ-4")),
        };
        let sequence = inherit(sequence, "sequence_number")?;
        // Java tolerates a missing file sequence number on carried-over entries: no rule of reading depends on it
        let file_sequence = match file_sequence {
            None if !inherits && !self.v1_sequence => None,
            own => Some(inherit(own, "file_sequence_number")?),
        };
        self.inherit_row_id(status, &mut file)?;
        if status != Status::Deleted {
            check_delete_file(&file)?;
        }
        Ok(ManifestEntry {
            status,
            snapshot_id: Some(snapshot_id.unwrap_or(self.file.added_snapshot_id)),
            sequence_number: Some(sequence),
            file_sequence_number: file_sequence,
            file,
        })
    }

    fn inherit_row_id(&mut self, status: Status, file: &mut DataFile) -> Result<()> {
        match self.next_row_id {
            None => file.first_row_id = None,
            Some(next) if file.first_row_id.is_none() && status != Status::Deleted => {
                file.first_row_id = Some(next);
                let after = next.checked_add(file.record_count);
                self.next_row_id = Some(after.ok_or_else(|| Error::malformed("row ids overflow").clause("FRID-2"))?);
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn read_file(&mut self, schema: &Schema, d: &mut Decoder<'_>) -> Result<DataFile> {
        let (mut content, mut path, mut format, mut partition) = (None, None, None, None);
        let (mut record_count, mut file_size) = (None, None);
        let mut metrics: Option<Box<Metrics>> = None;
        let (mut key_metadata, mut split_offsets, mut equality_ids) = (None, None, None);
        let (mut sort_order_id, mut first_row_id, mut referenced) = (None, None, None);
        let (mut content_offset, mut content_size) = (None, None);
        for i in 0..self.data_file.len() {
            let (slot, node) = self.data_file[i];
            match slot {
                Slot::Content => content = schema.opt_long(node, d)?,
                Slot::Path => path = schema.opt_str(node, d)?.map(|p| self.path(p)),
                Slot::Format => format = schema.opt_str(node, d)?.map(parse_format).transpose()?,
                Slot::Partition => partition = Some(self.read_partition(schema, d)?),
                Slot::RecordCount => record_count = schema.opt_long(node, d)?,
                Slot::FileSize => file_size = schema.opt_long(node, d)?,
                Slot::ColumnSizes => longs(schema, node, d, &mut metrics, |m| &mut m.column_sizes)?,
                Slot::ValueCounts => longs(schema, node, d, &mut metrics, |m| &mut m.value_counts)?,
                Slot::NullCounts => longs(schema, node, d, &mut metrics, |m| &mut m.null_value_counts)?,
                Slot::NanCounts => longs(schema, node, d, &mut metrics, |m| &mut m.nan_value_counts)?,
                Slot::Lower => bounds(schema, node, d, &mut metrics, |m| &mut m.lower_bounds)?,
                Slot::Upper => bounds(schema, node, d, &mut metrics, |m| &mut m.upper_bounds)?,
                Slot::KeyMetadata => key_metadata = schema.opt_bytes(node, d)?.map(<[u8]>::to_vec),
                Slot::SplitOffsets => split_offsets = long_list(schema, node, d)?,
                Slot::EqualityIds => {
                    equality_ids = long_list(schema, node, d)?
                        .map(|l| l.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>())
                        .transpose()
                        .map_err(|_| Error::malformed("equality id does not fit an int").clause("MAN-D19"))?;
                }
                Slot::SortOrder => sort_order_id = schema.opt_int(node, d)?,
                Slot::FirstRowId => first_row_id = schema.opt_long(node, d)?,
                Slot::Referenced => referenced = schema.opt_str(node, d)?.map(Arc::<str>::from),
                Slot::Offset => content_offset = schema.opt_long(node, d)?,
                Slot::Size => content_size = schema.opt_long(node, d)?,
                _ => schema.skip(node, d)?,
            }
        }
        let content = self.content(content, equality_ids.is_some())?;
        Ok(DataFile {
            content,
            path: path.ok_or_else(|| missing("file_path", "MAN-D02"))?,
            format: format.ok_or_else(|| missing("file_format", "MAN-D03"))?,
            spec_id: self.file.partition_spec_id,
            partition: partition.unwrap_or_else(|| Arc::new(Struct::empty())),
            record_count: not_negative(
                record_count.ok_or_else(|| missing("record_count", "MAN-D05"))?,
                "record_count",
                "MAN-D05",
            )?,
            file_size: not_negative(
                file_size.ok_or_else(|| missing("file_size_in_bytes", "MAN-D06"))?,
                "file_size_in_bytes",
                "MAN-D06",
            )?,
            metrics,
            key_metadata,
            split_offsets,
            equality_ids,
            sort_order_id,
            first_row_id: if content == Content::Data { first_row_id } else { None },
            referenced_data_file: referenced,
            content_offset,
            content_size,
        })
    }

    fn path(&mut self, path: &str) -> Arc<str> {
        match &self.last_path {
            Some(last) if **last == *path => last.clone(),
            _ => self.last_path.insert(path.into()).clone(),
        }
    }

    /// The content of a file; a missing marker is taken from the kind of manifest, never assumed to be data.
    fn content(&self, content: Option<i64>, has_equality_ids: bool) -> Result<Content> {
        match (content, self.deletes) {
            (Some(0) | None, false) => Ok(Content::Data),
            (Some(1), true) => Ok(Content::PositionDeletes),
            (Some(2), true) => Ok(Content::EqualityDeletes),
            (None, true) => Ok(if has_equality_ids { Content::EqualityDeletes } else { Content::PositionDeletes }),
            (Some(c @ 0..=2), deletes) => Err(Error::malformed(format!(
                "content {c} in a manifest of {}",
                if deletes { "deletes" } else { "data files" }
            ))
            .clause("MAN-1")),
            (Some(c), _) => Err(Error::malformed(format!("content {c}; allowed: 0, 1, 2")).clause("MAN-D01")),
        }
    }

    fn read_partition(&mut self, schema: &Schema, d: &mut Decoder<'_>) -> Result<Arc<Struct>> {
        let start = d.pos();
        let mut probe = *d;
        for (_, node, _) in &self.partition_fields {
            schema.skip(*node, &mut probe)?;
        }
        let raw = probe.slice(start, probe.pos());
        if let Some((last, value)) = &self.last_partition
            && last == raw
        {
            *d = probe;
            return Ok(value.clone());
        }
        let mut values: Vec<Option<Literal>> = vec![None; self.width];
        for (pos, node, want) in &self.partition_fields {
            match pos {
                Some(pos) => values[*pos] = read_value(schema, *node, want.as_ref(), d)?.map(Literal::Primitive),
                None => schema.skip(*node, d)?,
            }
        }
        let value = Arc::new(values.into_iter().collect::<Struct>());
        self.last_partition = Some((raw.to_vec(), value.clone()));
        Ok(value)
    }
}

/// What a delete file must and must not carry (DEL-6): without its reference a DV would silently apply to nothing.
fn check_delete_file(file: &DataFile) -> Result<()> {
    if file.content == Content::Data {
        return Ok(());
    }
    if file.format == FileFormat::Puffin {
        if file.referenced_data_file.is_none() {
            return Err(missing("referenced_data_file of a deletion vector", "DV-6"));
        }
        let offset = file.content_offset.ok_or_else(|| missing("content_offset of a deletion vector", "DEL-6"))?;
        let size = file.content_size.ok_or_else(|| missing("content_size_in_bytes of a deletion vector", "DEL-6"))?;
        not_negative(offset, "content_offset", "MAN-D23")?;
        not_negative(size, "content_size_in_bytes", "MAN-D24")?;
    } else if file.content_offset.is_some() || file.content_size.is_some() {
        return Err(Error::malformed(format!(
            "content_offset or content_size_in_bytes on a {} delete file",
            file.format.as_str()
        ))
        .clause("DEL-6"));
    }
    Ok(())
}

fn parse_format(s: &str) -> Result<FileFormat> {
    for f in [FileFormat::Parquet, FileFormat::Puffin, FileFormat::Avro, FileFormat::Orc] {
        if s.eq_ignore_ascii_case(f.as_str()) {
            return Ok(f);
        }
    }
    Err(Error::malformed(format!("file_format {s:?}; allowed: avro, orc, parquet, puffin")).clause("MAN-D03"))
}

fn long_list(schema: &Schema, node: usize, d: &mut Decoder<'_>) -> Result<Option<Vec<i64>>> {
    let mut out = Vec::new();
    let present = schema.opt_array(node, d, |item, d| {
        let v = schema.opt_long(item, d)?;
        out.push(v.ok_or_else(|| Error::malformed("null in a list of numbers"))?);
        Ok(())
    })?;
    Ok(present.then_some(out))
}

fn longs(
    schema: &Schema,
    node: usize,
    d: &mut Decoder<'_>,
    metrics: &mut Option<Box<Metrics>>,
    pick: fn(&mut Metrics) -> &mut ById<i64>,
) -> Result<()> {
    schema.opt_array(node, d, |item, d| {
        let (key, value) = pair(schema, item)?;
        let k = schema.opt_int(key, d)?;
        let v = schema.opt_long(value, d)?;
        if let (Some(k), Some(v)) = (k, v) {
            pick(metrics.get_or_insert_default()).push(k, v);
        }
        Ok(())
    })?;
    if let Some(m) = metrics {
        pick(m).settle();
    }
    Ok(())
}

fn bounds(
    schema: &Schema,
    node: usize,
    d: &mut Decoder<'_>,
    metrics: &mut Option<Box<Metrics>>,
    pick: fn(&mut Metrics) -> &mut ById<Vec<u8>>,
) -> Result<()> {
    schema.opt_array(node, d, |item, d| {
        let (key, value) = pair(schema, item)?;
        let k = schema.opt_int(key, d)?;
        let v = schema.opt_bytes(value, d)?;
        if let (Some(k), Some(v)) = (k, v) {
            pick(metrics.get_or_insert_default()).push(k, v.to_vec());
        }
        Ok(())
    })?;
    if let Some(m) = metrics {
        pick(m).settle();
    }
    Ok(())
}

/// Key and value nodes of a map that is stored as an array of records (MAN-3).
#[inline]
fn pair(schema: &Schema, item: usize) -> Result<(usize, usize)> {
    match &schema.nodes[item] {
        Node::Record(f) if f.len() == 2 && f[0].name == "key" => Ok((f[0].node, f[1].node)),
        _ => Err(Error::malformed("a metrics map must be an array of records of key and value").clause("MAN-3")),
    }
}
