//! Projection of a data file's columns to the expected schema by field id (PROJ-*, EVO-*, DEFV-*).

use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef};
use iceberg::spec::{ListType, Literal, MapType, NameMapping, NestedFieldRef, Schema, StructType, Transform, Type};
use parquet_variant_compute::{VariantArray, unshred_variant};

use crate::manifest::ManifestEntry;
use crate::table::Metadata;
use crate::types::{ExtType, ExtTypes, field_id, literal_to_array};
use crate::{Error, Result};

/// Maps batches of one file to the expected columns. When nothing differs the columns pass through untouched.
#[derive(Debug)]
pub struct BatchAdapter {
    expected: SchemaRef,
    columns: Vec<Source>,
    roots: Vec<usize>,
    names: Vec<String>,
    layout: OnceLock<Vec<usize>>,
}

/// Where an expected column comes from.
#[derive(Debug)]
enum Source {
    /// The n-th of `roots`, as it is or converted.
    File(usize, Convert),
    /// The same value for every row.
    Constant(ArrayRef),
}

/// How a column of the file becomes the expected one.
#[derive(Debug)]
enum Convert {
    Same,
    Cast(DataType),
    Struct(Vec<(FieldRef, Child)>),
    /// A variant some of whose parts are columns of their own: put together again (VAR-*).
    Unshred(Fields),
    List(FieldRef, Box<Convert>),
    Map(FieldRef, Box<Convert>, Box<Convert>),
}

#[derive(Debug)]
enum Child {
    File(usize, Convert),
    Constant(ArrayRef),
}

/// How fields of the file are found.
struct Finder<'a> {
    ext: &'a ExtTypes,
    by_name: Option<NameMapping>,
    by_position: bool,
    place: &'a str,
}

impl BatchAdapter {
    /// An adapter from `file` (with Parquet field ids in its metadata) to `schema`, whose Arrow form is `expected`.
    ///
    /// A file without field ids is read through the table's `schema.name-mapping.default`, or by position when there is none.
    /// Errors: a required column without default that is missing (PROJ-*), a type that no promotion reaches (EVO-*).
    pub fn try_new(
        file: &SchemaRef,
        schema: &Schema,
        expected: &SchemaRef,
        metadata: &Metadata,
        entry: &ManifestEntry,
    ) -> Result<Self> {
        let finder = Finder::new(file, metadata, &entry.file.path)?;
        let mut roots = Vec::new();
        let mut names = Vec::new();
        let mut columns = Vec::new();
        for (i, (want, arrow)) in schema.as_struct().fields().iter().zip(expected.fields()).enumerate() {
            let position =
                metadata.current_schema().as_struct().fields().iter().position(|f| f.id == want.id).unwrap_or(i);
            let found = finder.find(file.fields(), want, position);
            let partition = identity_value(want, metadata, entry);
            match found {
                // a column that only its name or place points to yields to the partition's value (PROJ-2)
                Some(at) if finder.has_ids() || partition.is_none() => {
                    let convert = finder.convert(file.field(at), want, arrow)?;
                    columns.push(Source::File(roots.len(), convert));
                    roots.push(at);
                    names.push(file.field(at).name().clone());
                }
                _ => columns.push(Source::Constant(match partition {
                    Some(v) => literal_to_array(v, arrow.data_type(), 1)?,
                    None => finder.missing(want, arrow)?,
                })),
            }
        }
        Ok(Self { expected: expected.clone(), columns, roots, names, layout: OnceLock::new() })
    }

    /// Top-level columns of the file that are needed.
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// The expected columns of a batch that holds (at least) the needed columns of the file.
    pub fn adapt(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let layout = match self.layout.get() {
            Some(l) => l,
            None => {
                let l = self
                    .names
                    .iter()
                    .map(|n| batch.schema_ref().index_of(n).map_err(Error::from))
                    .collect::<Result<Vec<_>>>()?;
                self.layout.get_or_init(|| l)
            }
        };
        let n = batch.num_rows();
        let columns = self
            .columns
            .iter()
            .map(|c| match c {
                Source::File(i, convert) => apply(convert, batch.column(layout[*i])),
                Source::Constant(one) => repeat(one, n),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(n));
        Ok(RecordBatch::try_new_with_options(self.expected.clone(), columns, &options)?)
    }
}

impl<'a> Finder<'a> {
    fn new(file: &SchemaRef, metadata: &'a Metadata, place: &'a str) -> Result<Self> {
        let has_ids = file.fields().iter().any(|f| field_id(f).is_some());
        let mapping = metadata.properties().get("schema.name-mapping.default");
        let by_name = match (has_ids, mapping) {
            (false, Some(json)) => Some(serde_json::from_str(json).map_err(|e| {
                Error::malformed(format!("schema.name-mapping.default is no name mapping: {e}"))
                    .at(place)
                    .clause("PROJ-10")
            })?),
            _ => None,
        };
        Ok(Self { ext: &metadata.ext, by_position: !has_ids && by_name.is_none(), by_name, place })
    }

    fn has_ids(&self) -> bool {
        self.by_name.is_none() && !self.by_position
    }

    fn find(&self, fields: &arrow::datatypes::Fields, want: &NestedFieldRef, position: usize) -> Option<usize> {
        if let Some(mapping) = &self.by_name {
            let names = mapped_names(mapping, want.id);
            return fields.iter().position(|f| names.iter().any(|n| n == f.name()));
        }
        if self.by_position {
            return (position < fields.len()).then_some(position);
        }
        fields.iter().position(|f| field_id(f) == Some(want.id))
    }

    fn missing(&self, want: &NestedFieldRef, arrow: &Field) -> Result<ArrayRef> {
        match (&want.initial_default, want.required) {
            (Some(v), _) => literal_to_array(Some(v), arrow.data_type(), 1),
            (None, false) => Ok(new_null_array(arrow.data_type(), 1)),
            (None, true) => Err(Error::malformed(format!(
                "required column {} (field id {}) is not in the file and has no initial-default",
                want.name, want.id
            ))
            .at(self.place)
            .clause("PROJ-6")),
        }
    }

    fn convert(&self, file: &Field, want: &NestedFieldRef, arrow: &Field) -> Result<Convert> {
        match self.ext.get(want.id) {
            Some(ExtType::Variant) => {
                let (DataType::Struct(from), DataType::Struct(to)) = (file.data_type(), arrow.data_type()) else {
                    return Err(self.mismatch(file.data_type(), arrow.data_type(), want));
                };
                if from.iter().any(|f| f.name() == "typed_value") {
                    return Ok(Convert::Unshred(to.clone()));
                }
                let parts = to
                    .iter()
                    .map(|t| {
                        let at = from.iter().position(|f| f.name() == t.name());
                        let at = at.ok_or_else(|| self.mismatch(file.data_type(), arrow.data_type(), want))?;
                        Ok((t.clone(), Child::File(at, self.leaf(from[at].data_type(), t.data_type()))))
                    })
                    .collect::<Result<Vec<_>>>()?;
                return Ok(Convert::Struct(parts));
            }
            Some(_) => return self.primitive(file.data_type(), arrow.data_type(), want),
            None => {}
        }
        match (want.field_type.as_ref(), file.data_type(), arrow.data_type()) {
            (Type::Primitive(_), from, to) => self.primitive(from, to, want),
            (Type::Struct(s), DataType::Struct(from), DataType::Struct(to)) => self.convert_struct(s, from, to),
            (Type::List(l), DataType::List(from) | DataType::LargeList(from), DataType::List(to)) => {
                self.convert_list(l, from, to)
            }
            (Type::Map(m), DataType::Map(from, _), DataType::Map(to, _)) => self.convert_map(m, from, to),
            (_, from, to) => Err(self.mismatch(from, to, want)),
        }
    }

    fn convert_struct(
        &self,
        s: &StructType,
        from: &arrow::datatypes::Fields,
        to: &arrow::datatypes::Fields,
    ) -> Result<Convert> {
        // metadata and nullability of the fields differ even when the data is the same, so the struct is put together anew
        let mut children = Vec::with_capacity(to.len());
        for (i, (want, arrow)) in s.fields().iter().zip(to).enumerate() {
            let child = match self.find(from, want, i) {
                Some(at) => Child::File(at, self.convert(&from[at], want, arrow)?),
                None => Child::Constant(self.missing(want, arrow)?),
            };
            children.push((arrow.clone(), child));
        }
        Ok(Convert::Struct(children))
    }

    fn convert_list(&self, l: &ListType, from: &FieldRef, to: &FieldRef) -> Result<Convert> {
        Ok(Convert::List(to.clone(), Box::new(self.convert(from, &l.element_field, to)?)))
    }

    fn convert_map(&self, m: &MapType, from: &FieldRef, to: &FieldRef) -> Result<Convert> {
        let (DataType::Struct(f), DataType::Struct(t)) = (from.data_type(), to.data_type()) else {
            return Err(Error::malformed("a map without key and value").at(self.place));
        };
        let [(fk, tk), (fv, tv)] = [(f.first(), t.first()), (f.get(1), t.get(1))];
        let (Some(fk), Some(tk), Some(fv), Some(tv)) = (fk, tk, fv, tv) else {
            return Err(Error::malformed("a map without key and value").at(self.place));
        };
        Ok(Convert::Map(
            to.clone(),
            Box::new(self.convert(fk, &m.key_field, tk)?),
            Box::new(self.convert(fv, &m.value_field, tv)?),
        ))
    }

    fn leaf(&self, from: &DataType, to: &DataType) -> Convert {
        if from == to { Convert::Same } else { Convert::Cast(to.clone()) }
    }

    fn primitive(&self, from: &DataType, to: &DataType, want: &NestedFieldRef) -> Result<Convert> {
        use DataType as D;
        let string = |t: &DataType| matches!(t, D::Utf8 | D::LargeUtf8 | D::Utf8View);
        let binary = |t: &DataType| matches!(t, D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_));
        let ok = match (from, to) {
            (a, b) if a == b => return Ok(Convert::Same),
            (_, D::Null) => true,
            (D::Int8 | D::Int16 | D::UInt8 | D::UInt16, D::Int32 | D::Int64) | (D::Int32 | D::UInt32, D::Int64) => true,
            (D::Float32, D::Float64) => true,
            (D::Decimal32(p, s) | D::Decimal64(p, s) | D::Decimal128(p, s), D::Decimal128(q, t)) => s == t && q >= p,
            (D::Date32, D::Timestamp(_, None)) => true,
            // another unit of the same instants; the zone's name does not matter, its presence does
            (D::Timestamp(_, a), D::Timestamp(_, b)) => {
                a.is_some() == b.is_some() || matches!(from, D::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None))
            }
            (D::Time32(_) | D::Time64(_), D::Time64(_)) => true,
            // some writers leave out the string annotation
            (a, b) if string(b) => string(a) || binary(a),
            (a, b) if binary(a) && binary(b) => true,
            _ => false,
        };
        if ok { Ok(Convert::Cast(to.clone())) } else { Err(self.mismatch(from, to, want)) }
    }

    fn mismatch(&self, from: &DataType, to: &DataType, want: &NestedFieldRef) -> Error {
        Error::malformed(format!(
            "column {} (field id {}) has type {from} in the file; expected {to} or a type that widens to it",
            want.name, want.id
        ))
        .at(self.place)
        .clause("EVO-1")
    }
}

/// Names that the mapping gives a field id.
fn mapped_names(mapping: &NameMapping, id: i32) -> Vec<String> {
    fn walk(fields: &[Arc<iceberg::spec::MappedField>], id: i32) -> Option<Vec<String>> {
        for f in fields {
            if f.field_id() == Some(id) {
                return Some(f.names().to_vec());
            }
            if let Some(found) = walk(f.fields(), id) {
                return Some(found);
            }
        }
        None
    }
    let fields: Vec<Arc<iceberg::spec::MappedField>> = mapping.fields().iter().cloned().map(Arc::new).collect();
    walk(&fields, id).unwrap_or_default()
}

/// A column that is missing from the file takes its value from an identity partition field (PROJ-*). Outer `None`: there is no
/// such field.
fn identity_value<'a>(
    want: &NestedFieldRef,
    metadata: &Metadata,
    entry: &'a ManifestEntry,
) -> Option<Option<&'a Literal>> {
    let spec = metadata.partition_spec_by_id(entry.file.spec_id)?;
    let i = spec.fields().iter().position(|f| f.source_id == want.id && f.transform == Transform::Identity)?;
    entry.file.partition.fields().get(i).map(Option::as_ref)
}

fn repeat(one: &ArrayRef, n: usize) -> Result<ArrayRef> {
    if *one.data_type() == DataType::Null || one.is_null(0) {
        return Ok(new_null_array(one.data_type(), n));
    }
    Ok(arrow::compute::take(one, &arrow::array::UInt32Array::from(vec![0; n]), None)?)
}

fn apply(convert: &Convert, array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match convert {
        Convert::Same => array.clone(),
        Convert::Cast(DataType::Null) => new_null_array(&DataType::Null, array.len()),
        Convert::Cast(to) => {
            cast_with_options(array, to, &CastOptions { safe: false, format_options: Default::default() })?
        }
        Convert::Struct(children) => {
            let s = array.as_struct_opt().ok_or_else(|| Error::internal("a struct column is no struct"))?;
            let mut columns = Vec::with_capacity(children.len());
            for (_, c) in children {
                columns.push(match c {
                    Child::File(i, convert) => apply(convert, s.column(*i))?,
                    Child::Constant(one) => repeat(one, s.len())?,
                });
            }
            let fields = children.iter().map(|(f, _)| f.clone()).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, s.nulls().cloned(), s.len())?)
        }
        Convert::Unshred(fields) => {
            let whole = unshred_variant(&VariantArray::try_new(array)?)?;
            let value = whole.value_field().ok_or_else(|| Error::malformed("a variant without its value"))?;
            let columns = fields
                .iter()
                .map(|f| match f.name().as_str() {
                    "metadata" => Ok(arrow::compute::cast(whole.metadata_field(), f.data_type())?),
                    _ => Ok(arrow::compute::cast(value, f.data_type())?),
                })
                .collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())?)
        }
        Convert::List(field, inner) => {
            let list = arrow::compute::cast(array, &list_of(array.data_type()))?;
            let l: &ListArray = list.as_list_opt().ok_or_else(|| Error::internal("a list column is no list"))?;
            let values = apply(inner, l.values())?;
            Arc::new(ListArray::try_new(field.clone(), l.offsets().clone(), values, l.nulls().cloned())?)
        }
        Convert::Map(field, key, value) => {
            let m: &MapArray = array.as_map_opt().ok_or_else(|| Error::internal("a map column is no map"))?;
            let DataType::Struct(kv) = field.data_type() else { return Err(Error::internal("a map without entries")) };
            let entries = StructArray::try_new_with_length(
                kv.clone(),
                vec![apply(key, m.keys())?, apply(value, m.values())?],
                None,
                m.entries().len(),
            )?;
            Arc::new(MapArray::try_new(field.clone(), m.offsets().clone(), entries, m.nulls().cloned(), false)?)
        }
    })
}

fn list_of(t: &DataType) -> DataType {
    match t {
        DataType::LargeList(f) => DataType::List(f.clone()),
        t => t.clone(),
    }
}
