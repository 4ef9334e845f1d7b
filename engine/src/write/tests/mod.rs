//! Tests of the writers: files are read back with the `parquet` crate.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use iceberg::spec::{FormatVersion, TableMetadataBuilder, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableCreation, TableIdent};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use super::*;
use crate::catalog::{Catalog, NewTable, TableCommit};
use crate::table::Metadata;
use crate::types::schema_from_value;

mod data;
mod deletes;
mod input;
mod metrics;

/// A catalog that is never asked: writers only need the table.
#[derive(Debug)]
struct NoCatalog;

fn none<T>() -> Result<T> {
    Err(Error::unsupported("this catalog holds nothing"))
}

#[async_trait]
impl Catalog for NoCatalog {
    fn name(&self) -> &str {
        "none"
    }
    async fn list_namespaces(&self, _: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        none()
    }
    async fn create_namespace(&self, _: &NamespaceIdent, _: HashMap<String, String>) -> Result<()> {
        none()
    }
    async fn namespace_exists(&self, _: &NamespaceIdent) -> Result<bool> {
        none()
    }
    async fn namespace_properties(&self, _: &NamespaceIdent) -> Result<HashMap<String, String>> {
        none()
    }
    async fn drop_namespace(&self, _: &NamespaceIdent) -> Result<()> {
        none()
    }
    async fn list_tables(&self, _: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        none()
    }
    async fn table_exists(&self, _: &TableIdent) -> Result<bool> {
        none()
    }
    async fn create_table(self: Arc<Self>, _: NewTable) -> Result<Table> {
        none()
    }
    async fn create_from_metadata(self: Arc<Self>, _: &TableIdent, _: Metadata) -> Result<Table> {
        none()
    }
    async fn load_table(self: Arc<Self>, _: &TableIdent) -> Result<Table> {
        none()
    }
    async fn drop_table(&self, _: &TableIdent, _: bool) -> Result<()> {
        none()
    }
    async fn rename_table(&self, _: &TableIdent, _: &TableIdent) -> Result<()> {
        none()
    }
    async fn register_table(self: Arc<Self>, _: &TableIdent, _: &str) -> Result<Table> {
        none()
    }
    async fn commit_table(self: Arc<Self>, _: TableCommit) -> Result<Table> {
        none()
    }
}

/// A V3 table in memory; `fields` is the field list of its schema in JSON, ids from 1 in the order of the format.
fn table(fields: Value, spec: Option<UnboundPartitionSpec>, properties: &[(&str, &str)]) -> Table {
    table_at("memory:/w/t", fields, spec, properties)
}

fn table_at(location: &str, fields: Value, spec: Option<UnboundPartitionSpec>, properties: &[(&str, &str)]) -> Table {
    let (schema, ext) =
        schema_from_value(serde_json::json!({"type": "struct", "schema-id": 0, "fields": fields})).unwrap();
    let creation = TableCreation::builder()
        .name("t".into())
        .location(location.into())
        .schema(schema)
        .partition_spec_opt(spec)
        .properties(properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<HashMap<_, _>>())
        .format_version(FormatVersion::V3)
        .build();
    let inner = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
    let ident = TableIdent::new(NamespaceIdent::new("ns".into()), "t".into());
    let io = FileIo::default();
    Table::new(
        ident,
        format!("{location}/metadata/v1.metadata.json"),
        Arc::new(Metadata { inner, ext }),
        io,
        Arc::new(NoCatalog),
    )
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn stream_of(batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let schema: SchemaRef = batches[0].schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok))))
}

async fn read(table: &Table, file: &DataFile) -> (RecordBatch, ParquetRecordBatchReaderBuilder<bytes::Bytes>) {
    let bytes = table.io().read(&file.path).await.unwrap();
    assert_eq!(bytes.len() as i64, file.file_size, "file_size is the length of the file");
    let open = || ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let batches: Vec<_> = open().build().unwrap().map(|b| b.unwrap()).collect();
    let schema = batches.first().map_or_else(|| open().schema().clone(), RecordBatch::schema);
    let all = arrow::compute::concat_batches(&schema, &batches).unwrap();
    assert_eq!(all.num_rows() as i64, file.record_count);
    (all, open())
}

async fn files_below(table: &Table) -> usize {
    table.io().list(table.metadata().location()).await.unwrap().len()
}
