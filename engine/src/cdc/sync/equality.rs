//! Equality deletes for keys: which partition specs they must be written under so that they reach every row (SCAN-3, SCAN-4).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat_batches, take_record_batch};
use iceberg::spec::{Literal, ManifestContentType, Schema, Struct, Transform};

use super::apply::discard;
use super::lookup::key_fields;
use crate::cdc::resolve::Encoder;
use crate::commit::FileFilter;
use crate::manifest::{DataFile, load_manifest_list};
use crate::types::{
    array_value, arrow_schema, arrow_type, as_source, column_at, column_by_id, partition_type, prune_fields,
    select_fields, transform_array,
};
use crate::write::{equality_field, write_equality_deletes};
use crate::{Error, Result, Table};

/// How the keys of one table become equality deletes.
#[derive(Debug)]
pub(super) struct EqualityPlan {
    table: Table,
    ids: Vec<i32>,
    paths: Vec<Vec<String>>,
    /// Specs to write under; one that is unpartitioned reaches everything and is then the only one.
    specs: BTreeSet<i32>,
}

/// Data files of other specs than those that deletes were written for.
struct Unreached(BTreeSet<i32>);

impl FileFilter for Unreached {
    fn may_match(&self, file: &DataFile) -> bool {
        !self.0.contains(&file.spec_id)
    }

    fn describe(&self) -> String {
        format!("partition specs other than {:?}", self.0)
    }
}

impl EqualityPlan {
    /// Plans for the table's head.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] for a key column that equality deletes can't compare by (EQDEL-3), and when the
    /// table is partitioned by a column that is no key: rows of a key may then lie anywhere, and only deletes of an
    /// unpartitioned spec would reach them.
    pub(super) async fn new(table: &Table, keys: &[String]) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::invalid("equality deletes need at least one equality column")
                .at(table.ident())
                .clause("EQDEL-1"));
        }
        let fields = key_fields(table, keys)?;
        let ids: Vec<i32> = fields.iter().map(|k| k.field.id).collect();
        for id in &ids {
            equality_field(table, *id).map_err(|e| e.at(table.ident()))?;
        }
        let metadata = table.metadata();
        let paths = fields.into_iter().map(|k| k.path).collect();
        let mut unpartitioned: Vec<_> =
            metadata.partition_specs_iter().filter(|s| metadata.is_unpartitioned(s.spec_id())).collect();
        // one without `void` fields reads as global to every engine
        unpartitioned.sort_by_key(|s| (s.fields().len(), s.spec_id()));
        if let Some(global) = unpartitioned.first() {
            return Ok(Self { table: table.clone(), ids, paths, specs: BTreeSet::from([global.spec_id()]) });
        }
        let mut specs = BTreeSet::from([metadata.default_partition_spec_id()]);
        if let Some(head) = metadata.current_snapshot() {
            for m in load_manifest_list(table.io(), head).await? {
                if m.content == ManifestContentType::Data && (m.has_added_files() || m.has_existing_files()) {
                    specs.insert(m.partition_spec_id);
                }
            }
        }
        for id in &specs {
            let spec = metadata.partition_spec_by_id(*id).ok_or_else(|| {
                Error::malformed(format!("no partition spec has id {id}")).at(table.ident()).clause("META-F11")
            })?;
            let other = spec.fields().iter().find(|f| f.transform != Transform::Void && !ids.contains(&f.source_id));
            if let Some(f) = other {
                let name = metadata.current_schema().name_by_field_id(f.source_id).unwrap_or(&f.name).to_string();
                return Err(Error::invalid(format!(
                    "the table is partitioned by {name}, which is no equality column: its equality deletes would miss rows \
                     in other partitions. Make {name} an equality column, or use deletes by position"
                ))
                .at(table.ident())
                .clause("SCAN-3"));
            }
        }
        Ok(Self { table: table.clone(), ids, paths, specs })
    }

    /// Whether the deletes reach every spec and partition.
    pub(super) fn is_global(&self) -> bool {
        self.specs.iter().all(|id| self.table.metadata().is_unpartitioned(*id))
    }

    /// Says which concurrently added files the deletes do not reach.
    pub(super) fn unreached(&self) -> Arc<dyn FileFilter> {
        Arc::new(Unreached(self.specs.clone()))
    }

    /// The columns of rows that hold the keys.
    pub(super) fn key_columns(rows: &RecordBatch, keys: &[String]) -> Result<RecordBatch> {
        let mut at = Vec::new();
        for k in keys {
            let root = k.split('.').next().unwrap_or(k);
            let i = rows.schema_ref().index_of(k).or_else(|_| rows.schema_ref().index_of(root)).map_err(|_| {
                Error::invalid(format!("equality column {k} is not among the rows' columns")).clause("EQDEL-1")
            })?;
            if !at.contains(&i) {
                at.push(i);
            }
        }
        Ok(rows.project(&at)?)
    }

    /// Writes the deletes of the keys, one file a spec and partition. After an error none is left.
    pub(super) async fn write(&self, gone: &[RecordBatch]) -> Result<Vec<DataFile>> {
        let metadata = self.table.metadata();
        let fields = prune_fields(metadata.current_schema().as_struct().fields(), &self.ids);
        let schema = Schema::builder().with_fields(fields).build()?;
        let arrow = arrow_schema(&schema, &metadata.ext);
        let gone = gone.iter().map(|b| select_fields(b, &arrow)).collect::<Result<Vec<_>>>()?;
        let keys = self.distinct(&concat_batches(&arrow, &gone)?)?;
        if keys.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        for spec in &self.specs {
            for (partition, rows) in self.by_partition(*spec, &schema, &keys)? {
                match write_equality_deletes(&self.table, *spec, Arc::new(partition), &self.ids, vec![rows]).await {
                    Ok(files) => out.extend(files),
                    Err(e) => {
                        discard(&self.table, &out).await;
                        return Err(e);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Each key once.
    fn distinct(&self, keys: &RecordBatch) -> Result<RecordBatch> {
        let leaves = self
            .paths
            .iter()
            .map(|p| column_at(keys, p).ok_or_else(|| Error::internal(format!("no key column {}", p.join(".")))))
            .collect::<Result<Vec<_>>>()?;
        let encoded = Encoder::new(leaves.iter().map(|c| c.data_type()))?.encode(&leaves)?;
        let mut seen = HashSet::new();
        let picked: Vec<u32> =
            (0u32..).zip(encoded.iter()).filter(|(_, r)| seen.insert(r.data())).map(|(i, _)| i).collect();
        Ok(take_record_batch(keys, &UInt32Array::from(picked))?)
    }

    /// The keys by the partition of a spec in which their rows would lie.
    fn by_partition(&self, spec_id: i32, schema: &Schema, keys: &RecordBatch) -> Result<Vec<(Struct, RecordBatch)>> {
        let metadata = self.table.metadata();
        let spec = metadata
            .partition_spec_by_id(spec_id)
            .ok_or_else(|| Error::internal(format!("no partition spec has id {spec_id}")))?;
        let ty = partition_type(spec, &metadata.inner)?;
        let mut columns = Vec::with_capacity(spec.fields().len());
        for f in spec.fields() {
            if f.transform == Transform::Void {
                columns.push(new_null_array(&arrow_type(&iceberg::spec::PrimitiveType::Boolean), keys.num_rows()));
                continue;
            }
            let source = as_source(schema, &metadata.ext, f)?;
            let column = column_by_id(keys.schema_ref().fields(), keys.columns(), f.source_id)
                .ok_or_else(|| Error::internal(format!("no key column has id {}", f.source_id)))?;
            columns.push(transform_array(f.transform, &column, &source)?);
        }
        let mut order: Vec<(Struct, Vec<u32>)> = Vec::new();
        let mut index: HashMap<Struct, usize> = HashMap::new();
        for row in 0..keys.num_rows() {
            let tuple = columns.iter().zip(ty.fields()).map(|(c, f)| array_value(c.as_ref(), row, &f.field_type));
            let tuple: Struct = tuple.collect::<Result<Vec<Option<Literal>>>>()?.into_iter().collect();
            let at = *index.entry(tuple.clone()).or_insert_with(|| {
                order.push((tuple, Vec::new()));
                order.len() - 1
            });
            order[at].1.push(row as u32);
        }
        order.into_iter().map(|(tuple, rows)| Ok((tuple, take_record_batch(keys, &UInt32Array::from(rows))?))).collect()
    }
}
