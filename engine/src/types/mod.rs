//! Types: what the `iceberg` model holds, and the V3 types it does not (TYPE-*).
//!
//! `iceberg` 0.10.1 has no `variant`, `unknown`, `geometry` or `geography`. Table metadata is JSON, so before that
//! crate parses it a column of such a type is replaced by a surrogate primitive, and the true type is kept here by
//! field id (ids are unique in a table); on writing the surrogate is put back. One module, nothing else knows.

use std::collections::BTreeMap;

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

/// True types of surrogate columns, by field id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtTypes(pub BTreeMap<i32, ExtType>);

impl ExtTypes {
    /// True type of a field, if its type in the `iceberg` model is a surrogate.
    pub fn get(&self, field_id: i32) -> Option<&ExtType> {
        self.0.get(&field_id)
    }
}
