//! Metadata columns: computed from where a row lies, not stored in the table's schema (RID-*).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use iceberg::spec::{PartitionSpec, Type};

use crate::table::Metadata;
use crate::types::{arrow_type, source_type};
use crate::{Error, Result};

/// A metadata column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaColumn {
    /// `_file`: location of the data file.
    File,
    /// `_pos`: 0-based ordinal in the data file, before deletes and filters (RID-16).
    Pos,
    /// `_deleted`: whether a delete applies; a scan that asks for it returns deleted rows too, as Spark does.
    Deleted,
    /// `_spec_id`: partition spec of the data file.
    SpecId,
    /// `_partition`: partition tuple, in the union of all specs' fields.
    Partition,
    /// `_row_id` (LINEAGE-4).
    RowId,
    /// `_last_updated_sequence_number` (LINEAGE-4).
    LastUpdatedSequenceNumber,
}

/// All of them, in the order in which they follow the table's columns.
pub const META_COLUMNS: [MetaColumn; 7] = [
    MetaColumn::File,
    MetaColumn::Pos,
    MetaColumn::Deleted,
    MetaColumn::SpecId,
    MetaColumn::Partition,
    MetaColumn::RowId,
    MetaColumn::LastUpdatedSequenceNumber,
];

/// Field id of `_row_id` in data files (RID-13).
pub const ROW_ID_FIELD_ID: i32 = 2147483540;
/// Field id of `_last_updated_sequence_number` in data files (RID-14).
pub const LAST_UPDATED_FIELD_ID: i32 = 2147483539;

impl MetaColumn {
    /// Name of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "_file",
            Self::Pos => "_pos",
            Self::Deleted => "_deleted",
            Self::SpecId => "_spec_id",
            Self::Partition => "_partition",
            Self::RowId => "_row_id",
            Self::LastUpdatedSequenceNumber => "_last_updated_sequence_number",
        }
    }

    /// The column of that name (case-insensitive, as in Spark).
    pub fn by_name(name: &str) -> Option<Self> {
        META_COLUMNS.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// Arrow field of the column.
    pub fn field(self, metadata: &Metadata) -> Result<FieldRef> {
        Ok(Arc::new(match self {
            Self::File => Field::new(self.name(), file_type(), false),
            Self::Pos => Field::new(self.name(), DataType::Int64, false),
            Self::Deleted => Field::new(self.name(), DataType::Boolean, false),
            Self::SpecId => Field::new(self.name(), DataType::Int32, false),
            Self::Partition => Field::new(self.name(), DataType::Struct(partition_fields(metadata)?), true),
            Self::RowId | Self::LastUpdatedSequenceNumber => Field::new(self.name(), DataType::Int64, true),
        }))
    }
}

/// `_file` repeats one value for a whole file: a dictionary keeps it free.
pub(crate) fn file_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Fields of `_partition`: the union of the fields of all specs, by field id, oldest spec first.
pub(crate) fn partition_union(metadata: &Metadata) -> Result<Vec<(i32, String, Type)>> {
    let mut specs: Vec<_> = metadata.partition_specs_iter().collect();
    specs.sort_by_key(|s| s.spec_id());
    let mut out: Vec<(i32, String, Type)> = Vec::new();
    for spec in specs {
        for (i, f) in spec.fields().iter().enumerate() {
            if out.iter().any(|(id, ..)| *id == f.field_id) || f.transform == iceberg::spec::Transform::Void {
                continue;
            }
            if let Some(ty) = partition_field_type(spec, i, metadata) {
                out.push((f.field_id, f.name.clone(), ty));
            }
        }
    }
    Ok(out)
}

/// Result type of a partition field; `None` when no schema has its source column any more.
pub(crate) fn partition_field_type(spec: &PartitionSpec, i: usize, metadata: &Metadata) -> Option<Type> {
    let f = &spec.fields()[i];
    let source = source_type(metadata, f.source_id)?;
    f.transform.result_type(&source).ok()
}

fn partition_fields(metadata: &Metadata) -> Result<Fields> {
    partition_union(metadata)?
        .into_iter()
        .map(|(_, name, ty)| Ok(Field::new(name, primitive_arrow(&ty)?, true)))
        .collect()
}

/// Arrow type of a partition value; partition values are primitive.
pub(crate) fn primitive_arrow(ty: &Type) -> Result<DataType> {
    match ty {
        Type::Primitive(p) => Ok(arrow_type(p)),
        other => {
            Err(Error::malformed(format!("partition field of type {other}; primitives are allowed")).clause("PART-3"))
        }
    }
}
