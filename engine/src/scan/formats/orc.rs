//! ORC data and delete files (ORC-*): decoding by `orc-rust`; field ids and Iceberg's types from the attributes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType as Arrow, Field, FieldRef, Schema as ArrowSchema, SchemaRef, TimeUnit};
use bytes::Bytes;
use orc_rust::arrow_reader::ArrowReaderBuilder;
use orc_rust::projection::ProjectionMask;
use orc_rust::schema::{ArrowSchemaOptions, DataType, TimestampPrecision};

use super::Batches;
use super::orc_footer::type_attributes;
use crate::types::FIELD_ID_KEY;
use crate::{Error, Result};

/// An ORC file.
pub(super) struct OrcFile {
    builder: ArrowReaderBuilder<Bytes>,
}

impl OrcFile {
    pub(super) fn open(bytes: Bytes) -> Result<(SchemaRef, Self)> {
        let attributes = type_attributes(&bytes)?;
        let nanos = attributes.iter().any(|a| a.get("iceberg.timestamp-unit").is_some_and(|u| u == "NANOS"));
        // microseconds reach further; nanoseconds are asked for where a column has them
        let precision = if nanos { TimestampPrecision::Nanosecond } else { TimestampPrecision::Microsecond };
        let builder = ArrowReaderBuilder::try_new(bytes).map_err(bad)?.with_timestamp_precision(precision);
        let labels = Labels { attributes, precision };
        let fields = builder
            .file_metadata()
            .root_data_type()
            .children()
            .iter()
            .map(|c| labels.field(c.name(), c.data_type()))
            .collect::<Result<Vec<_>>>()?;
        Ok((Arc::new(ArrowSchema::new(fields)), Self { builder }))
    }

    pub(super) fn batches(self, roots: &[usize], batch_size: usize) -> Result<Batches> {
        let root = self.builder.file_metadata().root_data_type();
        let columns: Vec<usize> = roots
            .iter()
            .map(|i| {
                root.children()
                    .get(*i)
                    .map(|c| c.data_type().column_index())
                    .ok_or_else(|| Error::internal(format!("ORC file has no column {i}")))
            })
            .collect::<Result<_>>()?;
        if columns.is_empty() {
            return Ok(rows_only(self.builder.file_metadata().number_of_rows(), batch_size));
        }
        let mask = ProjectionMask::roots(root, columns);
        let reader = self.builder.with_projection(mask).with_batch_size(batch_size).build();
        Ok(Box::new(reader.map(|b| b.map_err(|e| Error::malformed(format!("ORC file: {e}"))))))
    }
}

/// Batches without a column.
fn rows_only(rows: u64, batch_size: usize) -> Batches {
    let mut left = usize::try_from(rows).unwrap_or(usize::MAX);
    Box::new(std::iter::from_fn(move || {
        let n = left.min(batch_size.max(1));
        left -= n;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(n));
        (n > 0).then(|| {
            let schema = Arc::new(ArrowSchema::empty());
            Ok(arrow::array::RecordBatch::try_new_with_options(schema, Vec::new(), &options)?)
        })
    }))
}

fn bad(e: orc_rust::error::OrcError) -> Error {
    Error::malformed(format!("ORC file: {e}"))
}

struct Labels {
    attributes: Vec<HashMap<String, String>>,
    precision: TimestampPrecision,
}

impl Labels {
    fn attribute(&self, column: usize, key: &str) -> Option<&str> {
        self.attributes.get(column)?.get(key).map(String::as_str)
    }

    /// A column with its id, in the Arrow type of the Iceberg type that the attributes name.
    fn field(&self, name: &str, orc: &DataType) -> Result<FieldRef> {
        let column = orc.column_index();
        let id = self.attribute(column, "iceberg.id").map(|id| (FIELD_ID_KEY.to_string(), id.to_string()));
        Ok(Arc::new(Field::new(name, self.arrow(orc)?, true).with_metadata(id.into_iter().collect())))
    }

    fn arrow(&self, orc: &DataType) -> Result<Arrow> {
        Ok(match orc {
            DataType::Struct { children, .. } => Arrow::Struct(
                children.iter().map(|c| self.field(c.name(), c.data_type())).collect::<Result<Vec<_>>>()?.into(),
            ),
            DataType::List { child, .. } => Arrow::List(self.field("element", child)?),
            DataType::Map { key, value, .. } => {
                let key = self.field("key", key)?.as_ref().clone().with_nullable(false);
                let kv = Arrow::Struct(vec![Arc::new(key), self.field("value", value)?].into());
                Arrow::Map(Arc::new(Field::new("key_value", kv, false)), false)
            }
            DataType::Union { .. } => return Err(Error::unsupported("ORC type union").clause("ORC-1")),
            DataType::Long { column_index } if self.attribute(*column_index, "iceberg.long-type") == Some("TIME") => {
                Arrow::Time64(TimeUnit::Microsecond)
            }
            DataType::TimestampWithLocalTimezone { .. } => {
                let unit = match self.precision {
                    TimestampPrecision::Nanosecond => TimeUnit::Nanosecond,
                    TimestampPrecision::Microsecond => TimeUnit::Microsecond,
                };
                Arrow::Timestamp(unit, Some("+00:00".into()))
            }
            other => other
                .to_arrow_data_type_with_options(ArrowSchemaOptions::new().with_timestamp_precision(self.precision)),
        })
    }
}
