//! A table with a partition field of every type, and files in it.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    FormatVersion, Literal, ManifestContentType, ManifestFile, NestedField, PrimitiveType as T, Schema, SortOrder,
    Struct, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};

use crate::manifest::{
    ById, Content, DataFile, FileFormat, ManifestEntry, ManifestTarget, Metrics, Status, partition_type, read_manifest,
    write_manifest,
};
use crate::table::Metadata;
use crate::types::ExtTypes;

/// A partition source: name, type, transform, a value.
pub type Column = (&'static str, T, Transform, Literal);

/// [`columns`] and two of type uuid.
pub fn columns_and_uuids() -> Vec<Column> {
    let uuid = |v| Literal::uuid(uuid::Uuid::from_u128(v));
    let mut out = columns();
    out.push(("u", T::Uuid, Transform::Identity, uuid(0xf000_0000_0000_0000_0000_0000_0000_0001)));
    out.push(("u2", T::Uuid, Transform::Identity, uuid(2)));
    out
}

/// A partition source of every type that the `iceberg` crate can write and read in a manifest: not uuid.
pub fn columns() -> Vec<Column> {
    vec![
        ("i", T::Int, Transform::Identity, Literal::int(-7)),
        ("l", T::Long, Transform::Identity, Literal::long(1i64 << 40)),
        ("s", T::String, Transform::Truncate(3), Literal::string("äbc")),
        ("d", T::Date, Transform::Identity, Literal::date(19_000)),
        ("ts", T::Timestamp, Transform::Day, Literal::date(-1)),
        ("tz", T::Timestamptz, Transform::Hour, Literal::int(450_000)),
        ("tm", T::Time, Transform::Identity, Literal::time(86_399_999_999)),
        ("fx", T::Fixed(3), Transform::Identity, Literal::fixed([1u8, 0, 255])),
        ("bn", T::Binary, Transform::Identity, Literal::binary([9u8, 9])),
        ("dc", T::Decimal { precision: 9, scale: 2 }, Transform::Identity, Literal::decimal(-12_345)),
        ("b", T::Boolean, Transform::Identity, Literal::bool(true)),
        ("nn", T::Long, Transform::Bucket(16), Literal::int(3)),
    ]
}

/// Metadata of a table with all columns, partitioned by some of them, with the given properties.
pub fn metadata(version: FormatVersion, partitioned_by: &[Column], properties: &[(&str, &str)]) -> Metadata {
    let all = columns_and_uuids();
    let fields = all.iter().enumerate().map(|(i, (name, ty, _, _))| {
        let ty = Type::Primitive(ty.clone());
        Arc::new(NestedField::optional(i as i32 + 1, *name, ty))
    });
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    let mut spec = UnboundPartitionSpec::builder();
    for (i, (name, _, transform, _)) in all.iter().enumerate() {
        if partitioned_by.iter().any(|c| c.0 == *name) {
            let field = format!("{name}_p");
            spec = spec.add_partition_field(i as i32 + 1, field, *transform).unwrap();
        }
    }
    let inner = TableMetadataBuilder::new(
        schema,
        spec.build(),
        SortOrder::unsorted_order(),
        "memory:/t".to_string(),
        version,
        properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<HashMap<_, _>>(),
    )
    .unwrap()
    .build()
    .unwrap()
    .metadata;
    Metadata { inner, ext: ExtTypes::default() }
}

/// A data file with everything filled in.
pub fn full_file(path: &str, columns: &[Column]) -> DataFile {
    let partition = columns.iter().map(|c| Some(c.3.clone())).collect::<Struct>();
    DataFile {
        content: Content::Data,
        path: path.into(),
        format: FileFormat::Parquet,
        spec_id: 0,
        partition: Arc::new(partition),
        record_count: 10,
        file_size: 1234,
        metrics: Some(Box::new(Metrics {
            column_sizes: [(1, 40), (2, 80)].into(),
            value_counts: [(1, 10), (2, 10)].into(),
            null_value_counts: [(1, 0), (2, 3)].into(),
            nan_value_counts: ById::default(),
            lower_bounds: [(1, vec![0xff, 0xff, 0xff, 0xff]), (2, 5i64.to_le_bytes().to_vec())].into(),
            upper_bounds: [(1, vec![7, 0, 0, 0]), (2, 9i64.to_le_bytes().to_vec())].into(),
        })),
        key_metadata: Some(vec![1, 2, 3]),
        split_offsets: Some(vec![4, 400]),
        equality_ids: None,
        sort_order_id: Some(0),
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size: None,
    }
}

/// A bare unpartitioned file.
pub fn bare(path: &str, rows: i64) -> DataFile {
    DataFile::new(Content::Data, FileFormat::Parquet, path, 0, Arc::new(Struct::empty()), rows, 1234)
}

/// A deletion vector.
pub fn dv(path: &str, of: &str) -> DataFile {
    DataFile {
        content: Content::PositionDeletes,
        format: FileFormat::Puffin,
        referenced_data_file: Some(of.into()),
        content_offset: Some(4),
        content_size: Some(42),
        ..bare(path, 3)
    }
}

/// An entry; ADDED ones inherit their numbers.
pub fn entry(status: Status, file: DataFile) -> ManifestEntry {
    let added = status == Status::Added;
    ManifestEntry {
        status,
        snapshot_id: Some(if added { 77 } else { 11 }),
        sequence_number: (!added).then_some(3),
        file_sequence_number: (!added).then_some(4),
        file,
    }
}

/// Writes entries and numbers the manifest as a list would: sequence 9, ids from `first_row_id`.
pub fn write(
    m: &Metadata,
    content: ManifestContentType,
    entries: &[ManifestEntry],
    first_row_id: Option<u64>,
) -> (Vec<u8>, ManifestFile) {
    let target = ManifestTarget::new(m, 0, content).unwrap();
    let (bytes, mut file) = write_manifest(&target, "memory:/t/metadata/m0.avro", 77, entries).unwrap();
    file.sequence_number = 9;
    file.first_row_id = first_row_id;
    (bytes.to_vec(), file)
}

/// Reads them back.
pub fn read(m: &Metadata, bytes: &[u8], file: &ManifestFile) -> crate::Result<Vec<ManifestEntry>> {
    read_manifest(bytes, file, &partition_type(m, 0).unwrap())
}
