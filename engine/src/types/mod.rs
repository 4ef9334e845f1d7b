//! Types: what the `iceberg` model holds, and the V3 types it does not (TYPE-*).
//!
//! `iceberg` 0.10.1 has no `variant`, `unknown`, `geometry` or `geography`. Table metadata is JSON, so before that
//! crate parses it a column of such a type is replaced by a surrogate primitive, and the true type is kept here by
//! field id (ids are unique in a table); on writing the surrogate is put back. One module, nothing else knows.

use std::collections::BTreeMap;

use iceberg::spec::{NestedField, PrimitiveType, Type};

mod arrow_schema;
mod literal;
mod literal_array;
mod literal_json;
mod metadata_json;
mod overlay;
mod partition;
mod prune;
mod transform;

pub use arrow_schema::{
    FIELD_ID_KEY, arrow_field, arrow_schema, arrow_type, field_id, read_arrow_schema, storage_schema,
};
pub use literal::{compare, datum, decode_bound, encode_bound, literals_equal, primitive};
pub use literal_array::{array_value, literal_to_array};
pub(crate) use literal_json::{from_hex, parse_date};
pub use literal_json::{literal_from_json, literal_to_json};
pub use metadata_json::{gzip, metadata_from_json, metadata_to_json};
pub use overlay::{
    restore_types, schema_from_json, schema_from_value, schema_to_json, substitute, type_from_json, type_name,
};
pub(crate) use partition::column_by_id;
pub use partition::{
    human_value, partition_from_path, partition_path, partition_to_string, partition_type, partition_values,
    source_type,
};
pub use prune::{canonical_nans, column_at, field_path, optional, prune_fields, select_fields};
pub(crate) use transform::as_source;
pub use transform::{hash_bytes, transform_array, transform_literal};

/// Id of the reserved lineage column `_row_id` (RID-13).
pub const ROW_ID: i32 = 2_147_483_540;
/// Id of the reserved lineage column `_last_updated_sequence_number` (RID-14).
pub const LAST_UPDATED_SEQUENCE_NUMBER: i32 = 2_147_483_539;
/// Largest field id that a table may use (RID-1).
pub const MAX_TABLE_FIELD_ID: i32 = 2_147_483_447;

/// A V3 type that the `iceberg` model cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtType {
    /// `variant`: surrogate `binary`.
    Variant,
    /// `unknown`: surrogate `boolean`; every value is null and no file stores the column.
    Unknown,
    /// `geometry(crs)`: surrogate `binary` (WKB). The string is the type as the metadata words it.
    Geometry(String),
    /// `geography(crs, algorithm)`: surrogate `binary` (WKB). The string is the type as the metadata words it.
    Geography(String),
}

impl ExtType {
    /// The primitive that stands for it in the `iceberg` model.
    pub fn surrogate(&self) -> PrimitiveType {
        match self {
            Self::Unknown => PrimitiveType::Boolean,
            _ => PrimitiveType::Binary,
        }
    }

    /// The type string of table metadata (JSON-3).
    pub fn as_str(&self) -> &str {
        match self {
            Self::Variant => "variant",
            Self::Unknown => "unknown",
            Self::Geometry(s) | Self::Geography(s) => s,
        }
    }
}

/// True types of surrogate columns, by field id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtTypes(pub BTreeMap<i32, ExtType>);

impl ExtTypes {
    /// True type of a field, if its type in the `iceberg` model is a surrogate.
    pub fn get(&self, field_id: i32) -> Option<&ExtType> {
        self.0.get(&field_id)
    }

    /// True type of `field` as it stands in one schema: an id that was `unknown` and got promoted since (EVO-1) has
    /// an entry, but its newer schema no longer holds the surrogate.
    pub fn of(&self, field: &NestedField) -> Option<&ExtType> {
        self.0.get(&field.id).filter(|e| *field.field_type == Type::Primitive(e.surrogate()))
    }

    /// Whether `field` is an `unknown` column: always null and in no file (TYPE-1).
    pub fn is_unknown(&self, field: &NestedField) -> bool {
        matches!(self.of(field), Some(ExtType::Unknown))
    }
}

#[cfg(test)]
mod tests;
