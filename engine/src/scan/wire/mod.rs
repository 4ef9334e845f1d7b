//! A scan as data, so that another process can run it: what [`IcebergScanExec`] holds, without a catalog and without
//! secrets. JSON, in a fixed order: one scan always has one form.

mod files;
mod pred;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema as ArrowSchema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use iceberg::spec::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::files::{EntryWire, FileWire, Packing, Unpacked, from_hex, to_hex};
use self::files::{SplitWire, pack_groups, unpack_groups};
use self::pred::PredWire;
use super::columns::MetaColumn;
use super::exec::IcebergScanExec;
use super::output::{OutColumn, Output};
use super::reader::{LateFilter, ScanContext};
use crate::deletes::DeleteLoader;
use crate::expr::FilePruner;
use crate::io::FileIo;
use crate::table::Metadata;
use crate::types::read_arrow_schema;
use crate::{Error, Result};

/// A scan that was written by [`IcebergScanExec::to_wire`] and parsed again.
#[derive(Debug)]
pub struct ScanWire {
    form: Form,
    metadata: Arc<Metadata>,
}

/// The JSON of a scan.
#[derive(Debug, Serialize, Deserialize)]
struct Form {
    /// Table metadata without snapshots: schemas, specs and properties are what reading needs.
    metadata: Value,
    /// Store properties that are no secrets.
    store: BTreeMap<String, String>,
    output: OutputWire,
    late: Option<OutputWire>,
    pred: PredWire,
    entries: Vec<EntryWire>,
    files: Vec<FileWire>,
    groups: Vec<Vec<SplitWire>>,
    exact_rows: Option<usize>,
    batch_size: usize,
}

/// Output columns: a schema of the table, ids of its fields, and the columns in order.
#[derive(Debug, Serialize, Deserialize)]
struct OutputWire {
    schema: i32,
    fields: Vec<i32>,
    columns: Vec<ColumnWire>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ColumnWire {
    Table(usize),
    Meta(String),
}

impl IcebergScanExec {
    /// The scan as bytes. The late filter's expression is not in it: [`IcebergScanExec::late_filter`] has it.
    ///
    /// Errors: [`crate::ErrorKind::Unsupported`] for what only this process can read (memory and registered stores).
    pub fn to_wire(&self) -> Result<Vec<u8>> {
        let cx = self.context();
        let mut packing = Packing::new(&cx.metadata, &cx.io);
        let (files, groups) = pack_groups(self.groups(), &mut packing)?;
        let form = Form {
            metadata: without_history(&cx.metadata)?,
            store: cx.io.shareable_properties(),
            output: OutputWire::of(&cx.output, &cx.metadata)?,
            late: cx.late.as_ref().map(|l| OutputWire::of(&l.input, &cx.metadata)).transpose()?,
            pred: PredWire::of(cx.pruner.pred()),
            entries: packing.finish(),
            files,
            groups,
            exact_rows: self.exact_rows(),
            batch_size: cx.batch_size,
        };
        serde_json::to_vec(&form).map_err(|e| Error::internal(format!("a scan as JSON: {e}")))
    }

    /// The filter that runs inside the reader, and the columns that it is over.
    pub fn late_filter(&self) -> Option<(&Arc<dyn PhysicalExpr>, &SchemaRef)> {
        self.context().late.as_ref().map(|l| (&l.expr, &l.input.arrow))
    }
}

impl ScanWire {
    /// Parses bytes of [`IcebergScanExec::to_wire`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let form: Form =
            serde_json::from_slice(bytes).map_err(|e| Error::malformed(format!("not a scan of floe's: {e}")))?;
        let json = serde_json::to_vec(&form.metadata).map_err(|e| Error::internal(format!("metadata: {e}")))?;
        let metadata = Arc::new(Metadata::from_json(&json)?);
        Ok(Self { form, metadata })
    }

    /// Columns of the late filter; `None` = the scan has none.
    pub fn late_schema(&self) -> Result<Option<SchemaRef>> {
        Ok(self.form.late.as_ref().map(|l| l.build(&self.metadata)).transpose()?.map(|o| o.arrow))
    }

    /// The scan. `late` is the filter over [`ScanWire::late_schema`]; `store` are properties of this process, which win over
    /// those that came along.
    pub fn build(
        self,
        late: Option<Arc<dyn PhysicalExpr>>,
        store: &HashMap<String, String>,
    ) -> Result<IcebergScanExec> {
        let Self { form, metadata } = self;
        let late = match (form.late, late) {
            (Some(input), Some(expr)) => Some(LateFilter { input: input.build(&metadata)?, expr }),
            (None, None) => None,
            _ => return Err(Error::malformed("a scan and its late filter do not belong together")),
        };
        let io = io_of(form.store, store);
        let entries = Unpacked::new(form.entries, &metadata)?;
        let groups = unpack_groups(&form.files, form.groups, &entries)?;
        let cx = ScanContext {
            deletes: DeleteLoader::new(io.clone(), metadata.clone()),
            io,
            output: form.output.build(&metadata)?,
            pruner: Arc::new(FilePruner::new(form.pred.build()?, &metadata.inner)),
            late,
            batch_size: form.batch_size.max(1),
            metadata: metadata.clone(),
        };
        Ok(IcebergScanExec::new(Arc::new(cx), groups, form.exact_rows))
    }
}

impl OutputWire {
    fn of(output: &Output, metadata: &Metadata) -> Result<Self> {
        let id = output.schema.schema_id();
        let whole = metadata.schema_by_id(id);
        let fields = output.schema.as_struct().fields();
        if !fields.iter().all(|f| whole.is_some_and(|s| s.as_struct().fields().contains(f))) {
            return Err(Error::unsupported(format!("the columns read are not those of schema {id} of the table")));
        }
        let columns = output.columns.iter().map(|c| match c {
            OutColumn::Table(i) => ColumnWire::Table(*i),
            OutColumn::Meta(m) => ColumnWire::Meta(m.name().to_string()),
        });
        Ok(Self { schema: id, fields: fields.iter().map(|f| f.id).collect(), columns: columns.collect() })
    }

    fn build(&self, metadata: &Metadata) -> Result<Output> {
        let whole = metadata
            .schema_by_id(self.schema)
            .ok_or_else(|| Error::malformed(format!("schema {} is not in the metadata", self.schema)))?;
        let fields = self
            .fields
            .iter()
            .map(|id| {
                let found = whole.as_struct().fields().iter().find(|f| f.id == *id);
                found.cloned().ok_or_else(|| Error::malformed(format!("field {id} is not in schema {}", self.schema)))
            })
            .collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Schema::builder().with_schema_id(self.schema).with_fields(fields).build()?);
        let table_arrow = read_arrow_schema(&schema, &metadata.ext, true);
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut out: Vec<FieldRef> = Vec::with_capacity(self.columns.len());
        for c in &self.columns {
            match c {
                ColumnWire::Table(i) => {
                    let field = table_arrow.fields().get(*i);
                    out.push(field.cloned().ok_or_else(|| Error::malformed(format!("there is no column {i}")))?);
                    columns.push(OutColumn::Table(*i));
                }
                ColumnWire::Meta(name) => {
                    let meta = MetaColumn::by_name(name)
                        .ok_or_else(|| Error::malformed(format!("there is no metadata column {name:?}")))?;
                    out.push(meta.field(metadata)?);
                    columns.push(OutColumn::Meta(meta));
                }
            }
        }
        Ok(Output { schema, table_arrow, columns, arrow: Arc::new(ArrowSchema::new(out)) })
    }
}

/// Access to files with the properties that came along and those of this process, which win.
pub(crate) fn io_of(came: BTreeMap<String, String>, own: &HashMap<String, String>) -> FileIo {
    let mut props: HashMap<String, String> = came.into_iter().collect();
    props.extend(own.iter().map(|(k, v)| (k.clone(), v.clone())));
    FileIo::new(props)
}

/// Metadata without what grows with the table's age.
pub(crate) fn without_history(metadata: &Metadata) -> Result<Value> {
    let mut value: Value = serde_json::from_slice(&metadata.to_json()?)
        .map_err(|e| Error::internal(format!("table metadata as JSON: {e}")))?;
    if let Some(o) = value.as_object_mut() {
        for key in ["refs", "snapshot-log", "metadata-log", "statistics", "partition-statistics", "current-snapshot-id"]
        {
            o.shift_remove(key);
        }
        o.insert("snapshots".into(), Value::Array(Vec::new()));
    }
    Ok(value)
}
