//! Equality deletes as a hash set of row-encoded keys (EQDEL-2: null equals null, and NaN equals NaN).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef as ArrowSchemaRef};
use arrow::row::{RowConverter, SortField};
use iceberg::spec::{Schema, SchemaRef};

use crate::manifest::ManifestEntry;
use crate::scan::BatchAdapter;
use crate::table::Metadata;
use crate::types::{arrow_schema, arrow_type, canonical_nans, column_by_id, optional, prune_fields};
use crate::{Error, Result};

/// The keys of all equality-delete files with the same equality columns that apply to a data file.
pub struct EqualityDeletes {
    ids: Vec<i32>,
    columns: Vec<Column>,
    converter: RowConverter,
    keys: HashSet<Box<[u8]>>,
    adapters: OnceLock<Vec<BatchAdapter>>,
}

/// An equality column as the table's newest schema that has it describes it.
#[derive(Debug, Clone)]
struct Column {
    id: i32,
    ty: DataType,
    /// The top-level column, with nothing in it but the way to the equality column.
    schema: Arc<Schema>,
    arrow: ArrowSchemaRef,
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
        Ok(Self {
            ids: ids.to_vec(),
            columns,
            converter: RowConverter::new(sort)?,
            keys: HashSet::new(),
            adapters: OnceLock::new(),
        })
    }

    /// Field ids of the equality columns, sorted.
    pub fn ids(&self) -> &[i32] {
        &self.ids
    }

    /// Adds the rows of a delete file; extra columns are ignored (EQDEL-5).
    pub fn add(&mut self, batch: &RecordBatch, path: &str) -> Result<()> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for c in &self.columns {
            let found = column_by_id(batch.schema_ref().fields(), batch.columns(), c.id).ok_or_else(|| {
                Error::malformed(format!("equality-delete file lacks its equality column with field id {}", c.id))
                    .at(path)
                    .clause("EQDEL-1")
            })?;
            columns.push(canonical_nans(arrow::compute::cast(&found, &c.ty)?));
        }
        let rows = self.converter.convert_columns(&columns)?;
        for row in rows.iter() {
            self.keys.insert(row.as_ref().into());
        }
        Ok(())
    }

    /// Ties the set to a data file, whose columns are then found like those of any read: by field id, name mapping or
    /// position, widened, with `initial-default` or null for what the file lacks (EQDEL-4). Gives the top-level columns of
    /// the file that [`Self::keep`] needs.
    pub fn bind(&self, file: &ArrowSchemaRef, metadata: &Metadata, entry: &ManifestEntry) -> Result<Vec<usize>> {
        let adapters = self
            .columns
            .iter()
            .map(|c| BatchAdapter::try_new(file, &c.schema, &c.arrow, metadata, entry))
            .collect::<Result<Vec<_>>>()?;
        let roots = adapters.iter().flat_map(|a| a.roots().to_vec()).collect();
        self.adapters.set(adapters).map_err(|_| Error::internal("equality deletes of one file bound to another"))?;
        Ok(roots)
    }

    /// Rows to keep of a batch of the data file that the set is bound to.
    pub fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let adapters = self.adapters.get().ok_or_else(|| Error::internal("equality deletes without a data file"))?;
        let columns = self
            .columns
            .iter()
            .zip(adapters)
            .map(|(c, adapter)| {
                let rows = adapter.adapt(batch)?;
                let leaf = column_by_id(rows.schema_ref().fields(), rows.columns(), c.id)
                    .ok_or_else(|| Error::internal(format!("no column with field id {}", c.id)))?;
                Ok(canonical_nans(leaf))
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let rows = self.converter.convert_columns(&columns)?;
        Ok(rows.iter().map(|r| Some(!self.keys.contains(r.as_ref()))).collect())
    }
}

/// The column's type and place, from the current schema or the newest one that had it (EQDEL-4).
fn equality_column(id: i32, metadata: &Metadata) -> Result<Column> {
    let mut schemas: Vec<&SchemaRef> = metadata.schemas_iter().collect();
    schemas.sort_by_key(|s| std::cmp::Reverse(s.schema_id()));
    schemas.insert(0, metadata.current_schema());
    for s in schemas {
        let Some(f) = s.field_by_id(id) else { continue };
        let bad = |why: &str| Err(Error::malformed(format!("equality column {} {why}", f.name)).clause("EQDEL-3"));
        let Some(p) = f.field_type.as_primitive_type().filter(|_| metadata.ext.of(f).is_none()) else {
            return bad("is not of a comparable primitive type");
        };
        let pruned: Vec<_> = prune_fields(s.as_struct().fields(), &[id]).iter().map(optional).collect();
        if pruned.is_empty() {
            return bad("lies in a list or map");
        }
        let schema = Arc::new(Schema::builder().with_fields(pruned).build()?);
        return Ok(Column { id, ty: arrow_type(p), arrow: arrow_schema(&schema, &metadata.ext), schema });
    }
    Err(Error::malformed(format!("equality_ids names field id {id}, which no schema of the table has"))
        .clause("EQDEL-4"))
}
