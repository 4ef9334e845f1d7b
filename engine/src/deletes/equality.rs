//! Equality deletes as a hash set of row-encoded keys (EQDEL-2: null equals null).

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use iceberg::spec::{Literal, SchemaRef};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::table::Metadata;
use crate::types::{arrow_type, literal_to_array};
use crate::{Error, Result};

/// The keys of all equality-delete files with the same equality columns that apply to a data file.
pub struct EqualityDeletes {
    ids: Vec<i32>,
    columns: Vec<Column>,
    converter: RowConverter,
    keys: HashSet<Box<[u8]>>,
}

/// An equality column as the table's newest schema that has it describes it.
#[derive(Debug, Clone)]
struct Column {
    id: i32,
    ty: DataType,
    initial_default: Option<Literal>,
}

impl std::fmt::Debug for EqualityDeletes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EqualityDeletes").field("ids", &self.ids).field("keys", &self.keys.len()).finish()
    }
}

impl EqualityDeletes {
    /// An empty set over the columns `ids` (sorted). A column that the current schema has dropped is taken from the newest
    /// schema that had it (EQDEL-4); one that no schema has is refused.
    pub fn new(ids: &[i32], metadata: &Metadata) -> Result<Self> {
        let columns = ids.iter().map(|id| equality_column(*id, metadata)).collect::<Result<Vec<_>>>()?;
        let sort = columns.iter().map(|c| SortField::new(c.ty.clone())).collect();
        Ok(Self { ids: ids.to_vec(), columns, converter: RowConverter::new(sort)?, keys: HashSet::new() })
    }

    /// Field ids of the equality columns, sorted.
    pub fn ids(&self) -> &[i32] {
        &self.ids
    }

    /// Adds the rows of a delete file; extra columns are ignored (EQDEL-5).
    pub fn add(&mut self, batch: &RecordBatch, path: &str) -> Result<()> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for c in &self.columns {
            let found = find_column(batch, c.id).ok_or_else(|| {
                Error::malformed(format!("equality-delete file lacks its equality column with field id {}", c.id))
                    .at(path)
                    .clause("EQDEL-1")
            })?;
            columns.push(arrow::compute::cast(&found, &c.ty)?);
        }
        let rows = self.converter.convert_columns(&columns)?;
        for row in rows.iter() {
            self.keys.insert(row.as_ref().into());
        }
        Ok(())
    }

    /// Rows of a data file's batch to keep. The batch holds the file's own columns with Parquet field ids; a column that the
    /// file lacks is read by projection rules: its `initial-default`, else null (EQDEL-4).
    pub fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let columns = self
            .columns
            .iter()
            .map(|c| match find_column(batch, c.id) {
                Some(a) => Ok(arrow::compute::cast(&a, &c.ty)?),
                None => literal_to_array(c.initial_default.as_ref(), &c.ty, batch.num_rows()),
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let rows = self.converter.convert_columns(&columns)?;
        Ok(rows.iter().map(|r| Some(!self.keys.contains(r.as_ref()))).collect())
    }
}

/// The column with a field id, at the top or inside structs; a null parent makes a null leaf (EQDEL-3).
fn find_column(batch: &RecordBatch, id: i32) -> Option<ArrayRef> {
    let text = id.to_string();
    batch.schema_ref().fields().iter().zip(batch.columns()).find_map(|(f, a)| descend(f, a, &text))
}

fn descend(field: &arrow::datatypes::Field, array: &ArrayRef, id: &str) -> Option<ArrayRef> {
    if field.metadata().get(PARQUET_FIELD_ID_META_KEY).is_some_and(|v| v == id) {
        return Some(array.clone());
    }
    let s = array.as_any().downcast_ref::<StructArray>()?;
    let found = s.fields().iter().zip(s.columns()).find_map(|(f, a)| descend(f, a, id))?;
    if s.null_count() == 0 {
        return Some(found);
    }
    let parent_null = arrow::compute::is_null(s).ok()?;
    nullif(&found, &parent_null).ok()
}

/// The column's type and default, from the current schema or the newest one that had it (EQDEL-4).
fn equality_column(id: i32, metadata: &Metadata) -> Result<Column> {
    let mut schemas: Vec<&SchemaRef> = metadata.schemas_iter().collect();
    schemas.sort_by_key(|s| std::cmp::Reverse(s.schema_id()));
    schemas.insert(0, metadata.current_schema());
    for s in schemas {
        if let Some(f) = s.field_by_id(id) {
            let Some(p) = f.field_type.as_primitive_type().filter(|_| metadata.ext.get(id).is_none()) else {
                return Err(Error::malformed(format!(
                    "equality column {} is not of a comparable primitive type",
                    f.name
                ))
                .clause("EQDEL-3"));
            };
            return Ok(Column { id, ty: arrow_type(p), initial_default: f.initial_default.clone() });
        }
    }
    Err(Error::malformed(format!("equality_ids names field id {id}, which no schema of the table has"))
        .clause("EQDEL-4"))
}
