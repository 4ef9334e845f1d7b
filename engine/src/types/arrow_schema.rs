//! Arrow schemas of Iceberg schemas (PARQ-*), with field ids in the fields' metadata.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema, SchemaRef, TimeUnit};
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};

use super::{ExtType, ExtTypes};

/// Key of the field id in an Arrow field's metadata, as the `parquet` crate reads and writes it.
pub const FIELD_ID_KEY: &str = "PARQUET:field_id";

/// Zone of timestamps with zone: instants are always UTC (TYPE-6).
const UTC: &str = "+00:00";

/// Field id of an Arrow field, if its metadata has one.
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(FIELD_ID_KEY)?.parse().ok()
}

/// Arrow schema of the table's rows: strings `Utf8`, binaries `Binary`, variant a struct of `metadata` and `value`,
/// unknown `Null`, geometry and geography `Binary` (WKB).
pub fn arrow_schema(schema: &Schema, ext: &ExtTypes) -> SchemaRef {
    Arc::new(ArrowSchema::new(fields(schema.as_struct().fields(), ext, Mode::PLAIN)))
}

/// Arrow schema of scans: with `views`, strings and binaries are views, which the Parquet reader fills without a copy.
pub fn read_arrow_schema(schema: &Schema, ext: &ExtTypes, views: bool) -> SchemaRef {
    Arc::new(ArrowSchema::new(fields(schema.as_struct().fields(), ext, Mode { views, ..Mode::PLAIN })))
}

/// Arrow schema of what a file stores: as [`arrow_schema`] without unknown columns, wherever they stand (TYPE-1, PARQ-13).
pub fn storage_schema(schema: &Schema, ext: &ExtTypes) -> SchemaRef {
    Arc::new(ArrowSchema::new(fields(schema.as_struct().fields(), ext, Mode { stored: true, ..Mode::PLAIN })))
}

/// Arrow field of an Iceberg field, with its id.
pub fn arrow_field(field: &NestedField, ext: &ExtTypes) -> FieldRef {
    make_field(field, &field.name, ext, Mode::PLAIN)
}

/// Arrow type of a primitive.
pub fn arrow_type(p: &PrimitiveType) -> DataType {
    primitive_type(p, false)
}

#[derive(Clone, Copy)]
struct Mode {
    views: bool,
    stored: bool,
}

impl Mode {
    const PLAIN: Self = Self { views: false, stored: false };
}

fn fields(list: &[Arc<NestedField>], ext: &ExtTypes, mode: Mode) -> Fields {
    list.iter().filter(|f| !(mode.stored && ext.is_unknown(f))).map(|f| make_field(f, &f.name, ext, mode)).collect()
}

fn make_field(field: &NestedField, name: &str, ext: &ExtTypes, mode: Mode) -> FieldRef {
    let field_type = data_type(field, ext, mode);
    Arc::new(
        Field::new(name, field_type, !field.required)
            .with_metadata(HashMap::from([(FIELD_ID_KEY.to_string(), field.id.to_string())])),
    )
}

fn data_type(field: &NestedField, ext: &ExtTypes, mode: Mode) -> DataType {
    let binary = || {
        if mode.views { DataType::BinaryView } else { DataType::Binary }
    };
    match ext.of(field) {
        Some(ExtType::Unknown) => return DataType::Null,
        Some(ExtType::Geometry(_) | ExtType::Geography(_)) => return binary(),
        // The parts of a variant are found by name and carry no ids (PARQ-11).
        Some(ExtType::Variant) => {
            return DataType::Struct(Fields::from(vec![
                Field::new("metadata", binary(), false),
                Field::new("value", binary(), false),
            ]));
        }
        None => {}
    }
    match field.field_type.as_ref() {
        Type::Primitive(p) => primitive_type(p, mode.views),
        Type::Struct(s) => DataType::Struct(fields(s.fields(), ext, mode)),
        Type::List(l) => DataType::List(make_field(&l.element_field, "element", ext, mode)),
        Type::Map(m) => {
            // keys are compared with plain strings (`m['k']`)
            let entries = Fields::from(vec![
                make_field(&m.key_field, "key", ext, Mode { views: false, ..mode }),
                make_field(&m.value_field, "value", ext, mode),
            ]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
        }
    }
}

fn primitive_type(p: &PrimitiveType, views: bool) -> DataType {
    use PrimitiveType as P;
    match p {
        P::Boolean => DataType::Boolean,
        P::Int => DataType::Int32,
        P::Long => DataType::Int64,
        P::Float => DataType::Float32,
        P::Double => DataType::Float64,
        P::Decimal { precision, scale } => DataType::Decimal128(*precision as u8, *scale as i8),
        P::Date => DataType::Date32,
        P::Time => DataType::Time64(TimeUnit::Microsecond),
        P::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        P::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        P::TimestampNs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        P::TimestamptzNs => DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())),
        P::String if views => DataType::Utf8View,
        P::String => DataType::Utf8,
        P::Uuid => DataType::FixedSizeBinary(16),
        P::Fixed(n) => DataType::FixedSizeBinary(*n as i32),
        P::Binary if views => DataType::BinaryView,
        P::Binary => DataType::Binary,
    }
}
