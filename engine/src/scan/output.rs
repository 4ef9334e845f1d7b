//! What a scan gives: table columns by field id, then metadata columns, in the projection's order.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    StructArray, new_null_array,
};
use arrow::datatypes::{DataType, SchemaRef};
use iceberg::spec::{Literal, Schema};

use super::columns::{MetaColumn, partition_union, primitive_arrow};
use crate::manifest::ManifestEntry;
use crate::table::Metadata;
use crate::types::literal_to_array;
use crate::{Error, Result};

/// A column of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutColumn {
    /// The i-th field of the projected table schema.
    Table(usize),
    /// A metadata column.
    Meta(MetaColumn),
}

/// The projected output of a scan.
#[derive(Debug, Clone)]
pub struct Output {
    /// Projected table columns, in table order, as an Iceberg schema.
    pub schema: Arc<Schema>,
    /// Arrow form of `schema` as the reader gives it.
    pub table_arrow: SchemaRef,
    /// Columns of the output.
    pub columns: Vec<OutColumn>,
    /// Arrow schema of the output.
    pub arrow: SchemaRef,
}

impl Output {
    /// Whether a metadata column is asked for.
    pub fn wants(&self, c: MetaColumn) -> bool {
        self.columns.contains(&OutColumn::Meta(c))
    }

    /// Whether row positions are needed.
    pub fn wants_positions(&self) -> bool {
        self.wants(MetaColumn::Pos) || self.wants(MetaColumn::RowId)
    }

    /// Puts the output together. `table` holds the table columns; `rows` what the metadata columns need of the same rows.
    pub fn assemble(&self, table: &RecordBatch, rows: &Rows<'_>, constants: &Constants) -> Result<RecordBatch> {
        let n = table.num_rows();
        let columns = self
            .columns
            .iter()
            .map(|c| match c {
                OutColumn::Table(i) => Ok(table.column(*i).clone()),
                OutColumn::Meta(m) => meta_column(*m, n, rows, constants),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(n));
        Ok(RecordBatch::try_new_with_options(self.arrow.clone(), columns, &options)?)
    }
}

/// Per-row inputs of the metadata columns.
#[derive(Debug, Default)]
pub struct Rows<'a> {
    /// Positions in the data file.
    pub positions: Option<&'a Int64Array>,
    /// Whether a delete applies.
    pub deleted: Option<&'a BooleanArray>,
    /// `_row_id` as stored in the file.
    pub row_id: Option<&'a Int64Array>,
    /// `_last_updated_sequence_number` as stored in the file.
    pub last_updated: Option<&'a Int64Array>,
}

/// What is the same for all rows of a data file.
#[derive(Debug)]
pub struct Constants {
    path: ArrayRef,
    spec_id: i32,
    partition: StructArray,
    first_row_id: Option<i64>,
    sequence_number: Option<i64>,
}

impl Constants {
    /// Constants of a data file.
    pub fn new(entry: &ManifestEntry, metadata: &Metadata) -> Result<Self> {
        Ok(Self {
            path: Arc::new(StringArray::from_iter_values([&entry.file.path])),
            spec_id: entry.file.spec_id,
            partition: partition_row(entry, metadata)?,
            first_row_id: entry.file.first_row_id,
            sequence_number: entry.sequence_number,
        })
    }
}

/// The partition tuple as one row of the `_partition` column.
fn partition_row(entry: &ManifestEntry, metadata: &Metadata) -> Result<StructArray> {
    let union = partition_union(metadata)?;
    let spec = metadata.partition_spec_by_id(entry.file.spec_id).ok_or_else(|| {
        Error::malformed(format!("partition spec {} is not in the table's metadata", entry.file.spec_id))
            .at(&entry.file.path)
    })?;
    let DataType::Struct(fields) = MetaColumn::Partition.field(metadata)?.data_type().clone() else {
        return Err(Error::internal("_partition is a struct"));
    };
    let columns = union
        .iter()
        .map(|(id, _, ty)| {
            let value: Option<&Literal> = spec
                .fields()
                .iter()
                .position(|f| f.field_id == *id)
                .and_then(|i| entry.file.partition.fields().get(i))
                .and_then(Option::as_ref);
            literal_to_array(value, &primitive_arrow(ty)?, 1)
        })
        .collect::<Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Ok(StructArray::new_empty_fields(1, None));
    }
    Ok(StructArray::try_new(fields, columns, None)?)
}

fn repeat(one: &ArrayRef, n: usize) -> Result<ArrayRef> {
    Ok(arrow::compute::take(one, &Int32Array::from(vec![0; n]), None)?)
}

fn meta_column(c: MetaColumn, n: usize, rows: &Rows<'_>, k: &Constants) -> Result<ArrayRef> {
    let positions = || rows.positions.ok_or_else(|| Error::internal("positions were not tracked"));
    Ok(match c {
        MetaColumn::File => Arc::new(DictionaryArray::try_new(Int32Array::from(vec![0; n]), k.path.clone())?),
        MetaColumn::Pos => Arc::new(positions()?.clone()),
        MetaColumn::Deleted => match rows.deleted {
            Some(d) => Arc::new(d.clone()),
            None => Arc::new(BooleanArray::from(vec![false; n])),
        },
        MetaColumn::SpecId => Arc::new(Int32Array::from(vec![k.spec_id; n])),
        MetaColumn::Partition => {
            if k.partition.num_columns() == 0 {
                Arc::new(StructArray::new_empty_fields(n, None))
            } else {
                repeat(&(Arc::new(k.partition.clone()) as ArrayRef), n)?
            }
        }
        // LINEAGE-4, LINEAGE-5
        MetaColumn::RowId => match k.first_row_id {
            None => new_null_array(&DataType::Int64, n),
            Some(first) => {
                let pos = positions()?;
                match rows.row_id {
                    None => Arc::new(pos.unary::<_, arrow::datatypes::Int64Type>(|p| first + p)),
                    Some(stored) => Arc::new(
                        stored
                            .iter()
                            .zip(pos.values())
                            .map(|(s, p)| Some(s.unwrap_or(first + p)))
                            .collect::<Int64Array>(),
                    ),
                }
            }
        },
        MetaColumn::LastUpdatedSequenceNumber => match (k.first_row_id, k.sequence_number) {
            (Some(_), Some(seq)) => match rows.last_updated {
                None => Arc::new(Int64Array::from(vec![seq; n])),
                Some(stored) => Arc::new(stored.iter().map(|s| Some(s.unwrap_or(seq))).collect::<Int64Array>()),
            },
            _ => new_null_array(&DataType::Int64, n),
        },
    })
}
