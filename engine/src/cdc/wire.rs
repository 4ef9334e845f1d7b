//! The reading of changed files as data, in the forms of [`crate::scan::ScanWire`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use iceberg::spec::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff::{FileDiff, Side};
use super::reader::RowReader;
use super::reading::{ChangedFile, ChangesExec};
use crate::dv::DeletionVector;
use crate::scan::wire::{EntryWire, FileWire, Packing, Unpacked, from_hex, io_of, to_hex, without_history};
use crate::table::Metadata;
use crate::types::{arrow_schema, schema_from_value, schema_to_json};
use crate::{Error, Result};

/// A reading of changes that was written by [`ChangesExec::to_wire`] and parsed again.
#[derive(Debug)]
pub struct ChangesWire {
    form: Form,
    metadata: Arc<Metadata>,
    schema: Arc<Schema>,
    arrow: SchemaRef,
}

#[derive(Debug, Serialize, Deserialize)]
struct Form {
    metadata: Value,
    store: BTreeMap<String, String>,
    /// Columns that are read.
    schema: Value,
    filtered: bool,
    entries: Vec<EntryWire>,
    files: Vec<DiffWire>,
    groups: Vec<Vec<usize>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DiffWire {
    before: Option<FileWire>,
    after: Option<FileWire>,
    equality: Vec<usize>,
    /// Rows in question, as a vector (DV-20), in hex.
    only: Option<String>,
    bytes: u64,
}

impl ChangesExec {
    /// The plan as bytes, without its filter: [`ChangesExec::filter`] has it.
    ///
    /// Errors: [`crate::ErrorKind::Unsupported`] for what only this process can read.
    pub fn to_wire(&self) -> Result<Vec<u8>> {
        let (io, metadata, schema) = self.reader.parts();
        if arrow_schema(schema, &metadata.ext) != *self.reader.arrow() {
            return Err(Error::unsupported("the columns read are not those of their schema"));
        }
        let mut packing = Packing::new(metadata, io);
        let side = |s: &Option<Side>, packing: &mut Packing<'_>| {
            s.as_ref().map(|s| packing.file(&s.entry, &s.deletes)).transpose()
        };
        let files = self
            .files
            .iter()
            .map(|f| {
                Ok(DiffWire {
                    before: side(&f.diff.before, &mut packing)?,
                    after: side(&f.diff.after, &mut packing)?,
                    equality: f.diff.equality.iter().map(|e| packing.place(e)).collect::<Result<_>>()?,
                    only: f.only.as_ref().map(|v| Ok::<_, Error>(to_hex(&v.encode_vector()?))).transpose()?,
                    bytes: f.bytes,
                })
            })
            .collect::<Result<_>>()?;
        let form = Form {
            metadata: without_history(metadata)?,
            store: io.shareable_properties(),
            schema: schema_to_json(schema, &metadata.ext)?,
            filtered: self.reader.filter().is_some(),
            entries: packing.finish(),
            files,
            groups: self.groups.clone(),
        };
        serde_json::to_vec(&form).map_err(|e| Error::internal(format!("a reading of changes as JSON: {e}")))
    }

    /// The filter of the rows, and the columns that it is over.
    pub fn filter(&self) -> Option<(&Arc<dyn PhysicalExpr>, &SchemaRef)> {
        self.reader.filter().map(|f| (f, self.reader.arrow()))
    }
}

impl ChangesWire {
    /// Parses bytes of [`ChangesExec::to_wire`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let form: Form = serde_json::from_slice(bytes)
            .map_err(|e| Error::malformed(format!("not a reading of changes of floe's: {e}")))?;
        let json = serde_json::to_vec(&form.metadata).map_err(|e| Error::internal(format!("metadata: {e}")))?;
        let metadata = Arc::new(Metadata::from_json(&json)?);
        let (schema, _) = schema_from_value(form.schema.clone())?;
        let arrow = arrow_schema(&schema, &metadata.ext);
        Ok(Self { form, metadata, schema: Arc::new(schema), arrow })
    }

    /// Columns of the filter; `None` = there is no filter.
    pub fn filter_schema(&self) -> Option<SchemaRef> {
        self.form.filtered.then(|| self.arrow.clone())
    }

    /// The plan. `filter` is over [`ChangesWire::filter_schema`]; `store` are properties of this process, which win over those
    /// that came along.
    pub fn build(self, filter: Option<Arc<dyn PhysicalExpr>>, store: &HashMap<String, String>) -> Result<ChangesExec> {
        let Self { form, metadata, schema, arrow } = self;
        if form.filtered != filter.is_some() {
            return Err(Error::malformed("a reading of changes and its filter do not belong together"));
        }
        let entries = Unpacked::new(form.entries, &metadata)?;
        let side = |f: &Option<FileWire>| -> Result<Option<Side>> {
            let Some(f) = f else { return Ok(None) };
            let (entry, deletes) = entries.file(f)?;
            Ok(Some(Side { entry, deletes }))
        };
        let mut files = Vec::with_capacity(form.files.len());
        for f in &form.files {
            let diff = FileDiff {
                before: side(&f.before)?,
                after: side(&f.after)?,
                equality: f.equality.iter().map(|at| entries.entry(*at)).collect::<Result<_>>()?,
            };
            if diff.before.is_none() && diff.after.is_none() {
                return Err(Error::malformed("a changed file that is on neither side"));
            }
            let only = f.only.as_ref().map(|hex| {
                let bytes = from_hex(hex).ok_or_else(|| Error::malformed("rows in question are not hex"))?;
                DeletionVector::decode_vector(&bytes)
            });
            files.push(ChangedFile { diff, only: only.transpose()?, bytes: f.bytes });
        }
        if let Some(at) = form.groups.iter().flatten().find(|at| **at >= files.len()) {
            return Err(Error::malformed(format!("there is no changed file {at}")));
        }
        let io = io_of(form.store, store);
        let reader = RowReader::new(io, metadata, schema, arrow, filter);
        Ok(ChangesExec::grouped(reader, files, form.groups))
    }
}
