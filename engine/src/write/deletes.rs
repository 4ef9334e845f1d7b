//! V2 position-delete files (POSDEL-*) and equality-delete files (EQDEL-*).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, Struct, Type};
use uuid::Uuid;

use super::cast::{Conform, InputMapping};
use super::file::{Layout, table_metrics};
use super::metrics::{MetricsConfig, Mode};
use super::{Job, data_file, guarded};
use crate::dv::DeletionVector;
use crate::manifest::{Content, DataFile};
use crate::table::Table;
use crate::types::{partition_path, partition_type, prune_fields};
use crate::{Error, Result};

/// Rows of a batch of position deletes.
const BATCH: usize = 65_536;

/// How position deletes are grouped into files (POSDEL-7, PROP-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// One delete file a data file.
    File,
    /// One delete file a partition.
    Partition,
}

impl Granularity {
    /// From `write.delete.granularity`; unset means `file`, as Spark does (TRAP-28).
    pub fn of(table: &Table) -> Result<Self> {
        match table.property("write.delete.granularity", "file").to_ascii_lowercase().as_str() {
            "file" => Ok(Self::File),
            "partition" => Ok(Self::Partition),
            other => {
                Err(Error::invalid(format!("property write.delete.granularity is {other:?}; allowed: file, partition"))
                    .clause("PROP-4"))
            }
        }
    }
}

/// Deleted positions of one data file.
#[derive(Debug, Clone)]
pub struct PositionDeletes {
    /// The data file's path exactly as its manifest entry has it (POSDEL-3, LOC-5).
    pub path: Arc<str>,
    /// Spec of the data file.
    pub spec_id: i32,
    /// Partition of the data file.
    pub partition: Arc<Struct>,
    /// Deleted positions.
    pub positions: DeletionVector,
}

/// Writes V2 Parquet position-delete files, sorted by path and position (POSDEL-2), with whole bounds (POSDEL-6);
/// `referenced_data_file` is set when a file's deletes are all of one data file (POSDEL-5). Entries without positions
/// are left out.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a path given twice and for an unknown spec. After any error no file of this write is left.
pub async fn write_position_deletes(
    table: &Table,
    deletes: Vec<PositionDeletes>,
    granularity: Granularity,
) -> Result<Vec<DataFile>> {
    let mut groups: BTreeMap<(i32, String, Arc<str>), Vec<PositionDeletes>> = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    for d in deletes.into_iter().filter(|d| !d.positions.is_empty()) {
        if !seen.insert(d.path.clone()) {
            return Err(Error::invalid("position deletes of one data file are given twice")
                .at(&d.path)
                .clause("POSDEL-2"));
        }
        let folder = folder(table, d.spec_id, &d.partition)?;
        let file: Arc<str> = if granularity == Granularity::File { d.path.clone() } else { "".into() };
        groups.entry((d.spec_id, folder, file)).or_default().push(d);
    }
    let path_field = NestedField::required(2_147_483_546, "file_path", Type::Primitive(PrimitiveType::String));
    let pos_field = NestedField::required(2_147_483_545, "pos", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([Arc::new(path_field), Arc::new(pos_field)]).build()?;
    let layout = Layout::new(
        &schema,
        &[],
        &table.metadata().ext,
        table.metadata().properties(),
        true,
        MetricsConfig::all(Mode::Full),
        vec![("delete-type".into(), "position".into())],
    )?;
    let job = Job::new(table, Uuid::new_v4());
    guarded(&job, async {
        let mut files = Vec::new();
        for ((spec_id, folder, _), mut group) in groups {
            group.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
            let mut writer = job.open(0, &folder, "-deletes", &layout, None)?;
            for d in &group {
                let mut positions = d.positions.iter().peekable();
                while positions.peek().is_some() {
                    let chunk: Vec<_> = positions.by_ref().take(BATCH).map(|p| p as i64).collect();
                    let paths = StringArray::from_iter_values(std::iter::repeat_n(&*d.path, chunk.len()));
                    let positions = Int64Array::from_iter_values(chunk);
                    let batch = RecordBatch::try_new(layout.arrow.clone(), vec![Arc::new(paths), Arc::new(positions)])?;
                    writer.write(&batch).await?;
                }
            }
            let done = writer.finish().await?;
            let mut file = data_file(done, Content::PositionDeletes, spec_id, group[0].partition.clone());
            if let [only] = &group[..] {
                file.referenced_data_file = Some(only.path.clone());
            }
            files.push(file);
        }
        Ok(files)
    })
    .await
}

fn folder(table: &Table, spec_id: i32, partition: &Struct) -> Result<String> {
    let metadata = table.metadata();
    let spec = metadata.partition_spec_by_id(spec_id).ok_or_else(|| {
        Error::invalid(format!("no partition spec has id {spec_id}")).at(table.ident()).clause("META-F11")
    })?;
    if partition.fields().len() != spec.fields().len() {
        return Err(Error::invalid(format!(
            "partition tuple has {} values, and spec {spec_id} has {} fields",
            partition.fields().len(),
            spec.fields().len()
        ))
        .clause("PART-2"));
    }
    Ok(partition_path(spec, &partition_type(spec, &metadata.inner)?, partition))
}

/// The column that equality deletes may compare by (EQDEL-3): a primitive with an equality, at the top or inside structs.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for another.
pub fn equality_field(table: &Table, id: i32) -> Result<NestedFieldRef> {
    let schema = table.metadata().current_schema();
    let field = schema
        .field_by_id(id)
        .ok_or_else(|| Error::invalid(format!("no column has id {id}")).at(table.ident()).clause("EQDEL-1"))?;
    let bad = |why: &str| {
        Err(Error::invalid(format!("column {:?} cannot be a delete column: {why}", field.name)).clause("EQDEL-3"))
    };
    match field.field_type.as_ref() {
        _ if table.metadata().ext.of(field).is_some() => bad("its type has no equality"),
        Type::Primitive(PrimitiveType::Float | PrimitiveType::Double) => bad("it is float or double"),
        Type::Primitive(_) if prune_fields(schema.as_struct().fields(), &[id]).is_empty() => {
            bad("it lies in a list or map")
        }
        Type::Primitive(_) => Ok(field.clone()),
        _ => bad("it is nested"),
    }
}

/// Writes one equality-delete file of the given partition: the delete columns `equality_ids` and nothing else
/// (EQDEL-1), those inside structs in structs with nothing else. The batches hold these columns by name, in any order;
/// others are refused.
/// No rows give no file.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] for a delete column that is no primitive, is float or double, or lies in a list or
/// map (EQDEL-3). After any error no file of this write is left.
pub async fn write_equality_deletes(
    table: &Table,
    spec_id: i32,
    partition: Arc<Struct>,
    equality_ids: &[i32],
    batches: Vec<RecordBatch>,
) -> Result<Vec<DataFile>> {
    let metadata = table.metadata();
    let schema = metadata.current_schema();
    if equality_ids.is_empty() {
        return Err(Error::invalid("an equality delete needs at least one column").clause("EQDEL-1"));
    }
    let folder = folder(table, spec_id, &partition)?;
    for id in equality_ids {
        equality_field(table, *id)?;
    }
    let deletes = Schema::builder().with_fields(prune_fields(schema.as_struct().fields(), equality_ids)).build()?;
    for f in deletes.as_struct().fields() {
        if batches.iter().any(|b| b.column_by_name(&f.name).is_none()) {
            return Err(Error::invalid(format!("the rows lack delete column {:?}", f.name)).clause("EQDEL-1"));
        }
    }
    let layout = Layout::new(
        &deletes,
        &[],
        &metadata.ext,
        metadata.properties(),
        true,
        table_metrics(schema, metadata.default_sort_order(), metadata.properties())?,
        vec![
            ("delete-type".into(), "equality".into()),
            ("delete-field-ids".into(), equality_ids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")),
        ],
    )?;
    let mut rows = Vec::new();
    for b in &batches {
        let plan = Conform::plan(
            b.schema_ref(),
            layout.fields.clone(),
            layout.ext.clone(),
            layout.arrow.clone(),
            InputMapping::ByName,
        )?;
        rows.push(plan.apply(b)?);
    }
    if rows.iter().all(|b| b.num_rows() == 0) {
        return Ok(Vec::new());
    }
    let job = Job::new(table, Uuid::new_v4());
    guarded(&job, async {
        let mut writer = job.open(0, &folder, "-deletes", &layout, None)?;
        for b in &rows {
            writer.write(b).await?;
        }
        let mut file = data_file(writer.finish().await?, Content::EqualityDeletes, spec_id, partition.clone());
        file.equality_ids = Some(equality_ids.to_vec());
        // EQDEL-7
        file.sort_order_id = Some(0);
        Ok(vec![file])
    })
    .await
}
