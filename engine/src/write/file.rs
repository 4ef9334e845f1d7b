//! One Parquet file being written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Fields, Schema as ArrowSchema, SchemaRef};
use iceberg::spec::{NestedField, Schema, SortOrder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::async_writer::{AsyncArrowWriter, ParquetObjectWriter};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::dictionary;
use super::metrics::{Collector, MetricsConfig};
use super::parquet_schema::parquet_schema;
use crate::io::FileIo;
use crate::manifest::Metrics;
use crate::types::{ExtTypes, arrow_field, schema_to_json, storage_schema};
use crate::{Error, Result};

/// What all files of one write have in common.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Columns of the rows, unknown ones included.
    pub(super) fields: Vec<Arc<NestedField>>,
    pub(super) ext: ExtTypes,
    /// Stored columns.
    pub(super) arrow: SchemaRef,
    parquet: SchemaDescriptor,
    props: WriterProperties,
    /// Columns whose dictionary the table's properties decide (PROP-14).
    asked: HashSet<String>,
    metrics: MetricsConfig,
}

impl Layout {
    /// Layout of rows of `schema` followed by the optional columns `extra`; `prefix` is `write.parquet.` or
    /// `write.delete.parquet.`, where the latter falls back on the former.
    pub(super) fn new(
        schema: &Schema,
        extra: &[Arc<NestedField>],
        ext: &ExtTypes,
        properties: &HashMap<String, String>,
        deletes: bool,
        metrics: MetricsConfig,
        mut footer: Vec<(String, String)>,
    ) -> Result<Self> {
        let fields: Vec<_> = schema.as_struct().fields().iter().chain(extra).cloned().collect();
        let mut stored = storage_schema(schema, ext).fields().to_vec();
        stored.extend(extra.iter().map(|f| arrow_field(f, ext)));
        if stored.is_empty() {
            return Err(Error::unsupported("a file without columns cannot be written to Parquet").clause("PARQ-1"));
        }
        let full = Schema::builder().with_schema_id(schema.schema_id()).with_fields(fields.iter().cloned()).build()?;
        footer.push(("iceberg.schema".into(), schema_to_json(&full, ext)?.to_string()));
        Ok(Self {
            parquet: parquet_schema(&fields, ext)?,
            arrow: Arc::new(ArrowSchema::new(Fields::from(stored))),
            fields,
            ext: ext.clone(),
            props: writer_properties(properties, deletes, footer)?,
            asked: properties.keys().filter_map(|k| k.strip_prefix(DICTIONARY)).map(str::to_string).collect(),
            metrics,
        })
    }
}

/// Property that decides on a column's dictionary (PROP-14).
const DICTIONARY: &str = "write.parquet.dict-encoding-enabled.column.";

/// A layout's metrics modes for a table.
pub(super) fn table_metrics(
    schema: &Schema,
    order: &SortOrder,
    properties: &HashMap<String, String>,
) -> Result<MetricsConfig> {
    MetricsConfig::of(schema, order, properties)
}

fn writer_properties(
    properties: &HashMap<String, String>,
    deletes: bool,
    footer: Vec<(String, String)>,
) -> Result<WriterProperties> {
    let get = |key: &str| -> Option<(String, &String)> {
        let delete = format!("write.delete.parquet.{key}");
        let data = format!("write.parquet.{key}");
        deletes
            .then(|| properties.get(&delete).map(|v| (delete, v)))
            .flatten()
            .or_else(|| properties.get(&data).map(|v| (data, v)))
    };
    let size = |key: &str, default: usize| -> Result<usize> {
        match get(key) {
            None => Ok(default),
            Some((name, v)) => v.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                Error::invalid(format!("property {name} is {v:?}; a positive integer is allowed")).clause("PROP-8")
            }),
        }
    };
    let mut b = WriterProperties::builder()
        .set_created_by(format!("floe version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(compression(get("compression-codec"), get("compression-level"))?)
        .set_max_row_group_bytes(Some(size("row-group-size-bytes", 134_217_728)?))
        .set_data_page_size_limit(size("page-size-bytes", 1_048_576)?)
        .set_data_page_row_count_limit(size("page-row-limit", 20_000)?)
        .set_dictionary_page_size_limit(size("dict-size-bytes", 2_097_152)?)
        .set_key_value_metadata(Some(footer.into_iter().map(|(k, v)| KeyValue::new(k, v)).collect()));
    if let Some((name, v)) = get("page-version") {
        b = b.set_writer_version(match v.as_str() {
            "v1" => WriterVersion::PARQUET_1_0,
            "v2" => WriterVersion::PARQUET_2_0,
            _ => {
                return Err(Error::invalid(format!("property {name} is {v:?}; allowed: v1, v2")).clause("PROP-9"));
            }
        });
    }
    for (key, value) in properties {
        let flag = || {
            value.to_ascii_lowercase().parse::<bool>().map_err(|_| {
                Error::invalid(format!("property {key} is {value:?}; allowed: true, false")).clause("PROP-13")
            })
        };
        if let Some(c) = key.strip_prefix("write.parquet.bloom-filter-enabled.column.") {
            b = b.set_column_bloom_filter_enabled(path(c), flag()?);
        } else if let Some(c) = key.strip_prefix(DICTIONARY) {
            b = b.set_column_dictionary_enabled(path(c), flag()?);
        } else if let Some(c) = key.strip_prefix("write.parquet.bloom-filter-fpp.column.") {
            let fpp = value.parse::<f64>().ok().filter(|f| *f > 0.0 && *f < 1.0).ok_or_else(|| {
                Error::invalid(format!("property {key} is {value:?}; a number between 0 and 1 is allowed"))
                    .clause("PROP-13")
            })?;
            b = b.set_column_bloom_filter_fpp(path(c), fpp);
        }
    }
    Ok(b.build())
}

fn path(column: &str) -> ColumnPath {
    ColumnPath::new(column.split('.').map(str::to_string).collect())
}

/// Codec and level; zstd without the property, as new tables of Java have it (PROP-10).
fn compression(codec: Option<(String, &String)>, level: Option<(String, &String)>) -> Result<Compression> {
    let Some((name, codec)) = codec else {
        return Ok(Compression::ZSTD(ZstdLevel::default()));
    };
    let bad_level = |allowed: &str| {
        let (name, l) = level.as_ref().map_or(("", ""), |(n, l)| (n.as_str(), l.as_str()));
        Error::invalid(format!("property {name} is {l:?}; allowed with {codec}: {allowed}")).clause("PROP-10")
    };
    let text = level.as_ref().map(|(_, l)| l.as_str());
    Ok(match codec.to_ascii_lowercase().as_str() {
        "zstd" => Compression::ZSTD(match text {
            None => ZstdLevel::default(),
            Some(l) => l.parse().ok().and_then(|l| ZstdLevel::try_new(l).ok()).ok_or_else(|| bad_level("1 to 22"))?,
        }),
        "gzip" => Compression::GZIP(match text {
            None => GzipLevel::default(),
            Some(l) => l.parse().ok().and_then(|l| GzipLevel::try_new(l).ok()).ok_or_else(|| bad_level("0 to 9"))?,
        }),
        "brotli" => Compression::BROTLI(match text {
            None => BrotliLevel::default(),
            Some(l) => l.parse().ok().and_then(|l| BrotliLevel::try_new(l).ok()).ok_or_else(|| bad_level("0 to 11"))?,
        }),
        "snappy" => Compression::SNAPPY,
        "lz4_raw" => Compression::LZ4_RAW,
        "uncompressed" | "none" => Compression::UNCOMPRESSED,
        other => {
            return Err(Error::unsupported(format!(
                "property {name} is {other:?}; supported: zstd, gzip, snappy, brotli, lz4_raw, uncompressed"
            ))
            .clause("PROP-10"));
        }
    })
}

/// A file being written.
pub(super) struct FileWriter {
    inner: AsyncArrowWriter<ParquetObjectWriter>,
    collector: Collector,
    location: String,
    rows: i64,
}

/// What is known of a file when it is done.
pub(super) struct Finished {
    pub(super) location: String,
    pub(super) rows: i64,
    pub(super) size: i64,
    pub(super) metrics: Metrics,
    pub(super) split_offsets: Vec<i64>,
}

impl FileWriter {
    /// Opens a file; `first` are its first rows, where they say how it is best encoded.
    pub(super) fn open(io: &FileIo, location: String, layout: &Layout, first: Option<&RecordBatch>) -> Result<Self> {
        let (store, _, store_path) = io.resolve(&location)?;
        let props = match first {
            Some(rows) => dictionary::fitted(&layout.props, rows, |p| layout.asked.contains(&p.string()))?,
            None => layout.props.clone(),
        };
        let options = ArrowWriterOptions::new()
            .with_properties(props)
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(layout.parquet.clone());
        let inner = AsyncArrowWriter::try_new_with_options(
            ParquetObjectWriter::new(store, store_path),
            layout.arrow.clone(),
            options,
        )?;
        let collector = Collector::new(layout.fields.clone(), layout.ext.clone(), layout.metrics.clone());
        Ok(Self { inner, collector, location, rows: 0 })
    }

    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.collector.add(batch)?;
        self.inner.write(batch).await.map_err(|e| Error::from(e).at(&self.location))?;
        self.rows += batch.num_rows() as i64;
        Ok(())
    }

    /// Bytes so far, those of the open row group estimated.
    pub(super) fn bytes(&self) -> usize {
        self.inner.bytes_written() + self.inner.in_progress_size()
    }

    pub(super) async fn finish(mut self) -> Result<Finished> {
        let footer = self.inner.finish().await.map_err(|e| Error::from(e).at(&self.location))?;
        Ok(Finished {
            rows: self.rows,
            size: self.inner.bytes_written() as i64,
            split_offsets: split_offsets(&footer),
            metrics: self.collector.finish(&footer)?,
            location: self.location,
        })
    }
}

/// Start of each row group (PARQ-17): its first page, which may be a dictionary.
fn split_offsets(footer: &ParquetMetaData) -> Vec<i64> {
    footer
        .row_groups()
        .iter()
        .filter(|g| g.num_columns() > 0)
        .map(|g| {
            let c = g.column(0);
            c.dictionary_page_offset().filter(|d| *d > 0 && *d < c.data_page_offset()).unwrap_or(c.data_page_offset())
        })
        .collect()
}
