//! Column definitions as `iceberg` schemas, and types as text (TYPE-*).

use std::sync::Arc;

use iceberg::spec::{
    ListType, Literal, MapType, NestedField, NestedFieldRef, NullOrder, PrimitiveLiteral, PrimitiveType, Schema,
    SortDirection, SortField, SortOrder, StructType, Transform, Type, UnboundPartitionSpec,
};

use super::ast::{ColumnDef, SortTerm, SqlType, Term};
use super::functions::cast_scalar;
use super::planner::Planner;
use crate::types::{ExtType, ExtTypes};
use crate::{Error, Result};

/// Gives out field ids and remembers the true types of surrogate columns.
#[derive(Debug)]
pub(super) struct Ids<'s> {
    /// Last id given out.
    pub last: i32,
    /// True types.
    pub ext: ExtTypes,
    /// Schema whose columns of the same full name give their ids: that of a table which is replaced.
    pub old: Option<&'s Schema>,
}

impl Ids<'_> {
    pub(super) fn next(&mut self, path: &str, ty: &SqlType) -> i32 {
        if let Some(old) = self.old.and_then(|s| s.field_by_name(path))
            && self.keeps_id(old, ty, path)
        {
            return old.id;
        }
        self.last += 1;
        self.last
    }

    /// A replaced column keeps its id when its type stays; another type under the same id would change what older schemas say.
    fn keeps_id(&self, old: &iceberg::spec::NestedField, ty: &SqlType, path: &str) -> bool {
        let mut scratch = Ids { last: 0, ext: ExtTypes::default(), old: None };
        let new = scratch.of(ty, old.id, path);
        let nested = |t: &Type| std::mem::discriminant(t);
        scratch.ext.get(old.id) == self.ext.get(old.id)
            && if new.is_primitive() { new == *old.field_type } else { nested(&new) == nested(&old.field_type) }
    }

    /// The type of field `id`; its nested fields get new ids, siblings before children, as Java does (EVO-*).
    pub(super) fn of(&mut self, ty: &SqlType, id: i32, path: &str) -> Type {
        let primitive = Type::Primitive;
        match ty {
            SqlType::Boolean => primitive(PrimitiveType::Boolean),
            SqlType::Int => primitive(PrimitiveType::Int),
            SqlType::Long => primitive(PrimitiveType::Long),
            SqlType::Float => primitive(PrimitiveType::Float),
            SqlType::Double => primitive(PrimitiveType::Double),
            SqlType::Decimal(precision, scale) => {
                primitive(PrimitiveType::Decimal { precision: *precision, scale: *scale })
            }
            SqlType::Date => primitive(PrimitiveType::Date),
            SqlType::Time => primitive(PrimitiveType::Time),
            SqlType::TimestampNtz => primitive(PrimitiveType::Timestamp),
            SqlType::Timestamp => primitive(PrimitiveType::Timestamptz),
            SqlType::TimestampNs => primitive(PrimitiveType::TimestampNs),
            SqlType::TimestamptzNs => primitive(PrimitiveType::TimestamptzNs),
            SqlType::String => primitive(PrimitiveType::String),
            SqlType::Binary => primitive(PrimitiveType::Binary),
            SqlType::Uuid => primitive(PrimitiveType::Uuid),
            SqlType::Fixed(n) => primitive(PrimitiveType::Fixed(*n)),
            SqlType::Struct(fields) => {
                let ids: Vec<i32> = fields.iter().map(|f| self.next(&format!("{path}.{}", f.name), &f.ty)).collect();
                let fields = fields
                    .iter()
                    .zip(ids)
                    .map(|(f, id)| {
                        let mut field = NestedField::new(
                            id,
                            &f.name,
                            self.of(&f.ty, id, &format!("{path}.{}", f.name)),
                            f.required,
                        );
                        field.doc.clone_from(&f.comment);
                        Arc::new(field)
                    })
                    .collect();
                Type::Struct(StructType::new(fields))
            }
            SqlType::List(element) => {
                let path = format!("{path}.element");
                let id = self.next(&path, element);
                Type::List(ListType::new(Arc::new(NestedField::list_element(id, self.of(element, id, &path), false))))
            }
            SqlType::Map(key, value) => {
                let (key_path, value_path) = (format!("{path}.key"), format!("{path}.value"));
                let (k, v) = (self.next(&key_path, key), self.next(&value_path, value));
                Type::Map(MapType::new(
                    Arc::new(NestedField::map_key_element(k, self.of(key, k, &key_path))),
                    Arc::new(NestedField::map_value_element(v, self.of(value, v, &value_path), false)),
                ))
            }
            SqlType::Variant => self.extended(id, ExtType::Variant, PrimitiveType::Binary),
            SqlType::Unknown => self.extended(id, ExtType::Unknown, PrimitiveType::Boolean),
            SqlType::Geometry(text) => self.extended(id, ExtType::Geometry(text.clone()), PrimitiveType::Binary),
            SqlType::Geography(text) => self.extended(id, ExtType::Geography(text.clone()), PrimitiveType::Binary),
        }
    }

    fn extended(&mut self, id: i32, ty: ExtType, surrogate: PrimitiveType) -> Type {
        self.ext.0.insert(id, ty);
        Type::Primitive(surrogate)
    }
}

/// Whether a type needs format version 3 (TYPE-*), by its name.
pub(super) fn needs_v3(ty: &SqlType) -> Option<&'static str> {
    match ty {
        SqlType::TimestampNs => Some("timestamp_ns"),
        SqlType::TimestamptzNs => Some("timestamptz_ns"),
        SqlType::Variant => Some("variant"),
        SqlType::Unknown => Some("unknown"),
        SqlType::Geometry(_) => Some("geometry"),
        SqlType::Geography(_) => Some("geography"),
        SqlType::Struct(fields) => fields.iter().find_map(|f| needs_v3(&f.ty)),
        SqlType::List(e) => needs_v3(e),
        SqlType::Map(k, v) => needs_v3(k).or_else(|| needs_v3(v)),
        _ => None,
    }
}

/// Fields of a table from its column definitions: ids count on from `ids`.
pub(super) fn new_fields(
    columns: &[ColumnDef],
    version: u8,
    planner: &Planner,
    ids: &mut Ids<'_>,
) -> Result<Vec<NestedFieldRef>> {
    let own: Vec<i32> = columns.iter().map(|c| ids.next(&c.path.join("."), &c.ty)).collect();
    let mut fields = Vec::with_capacity(columns.len());
    for (c, id) in columns.iter().zip(own) {
        check_column(c, version)?;
        let path = c.path.join(".");
        let mut field = NestedField::new(id, &path, ids.of(&c.ty, id, &path), c.required);
        field.doc.clone_from(&c.comment);
        if let Some(default) = &c.default {
            let value = default_value(planner, default.clone(), &field.field_type, &field.name)?;
            // a new table has no rows that lack the column: only later writes need the default (DEFV-*)
            field.initial_default.clone_from(&value);
            field.write_default = value;
        }
        fields.push(Arc::new(field));
    }
    Ok(fields)
}

/// Refuses what the format version cannot hold.
pub(super) fn check_column(c: &ColumnDef, version: u8) -> Result<()> {
    let name = c.path.join(".");
    if version < 3 {
        if let Some(ty) = needs_v3(&c.ty) {
            return Err(Error::invalid(format!("type {ty} needs format-version 3; the table has {version}")).at(name));
        }
        if c.default.is_some() {
            return Err(
                Error::invalid(format!("default values need format-version 3; the table has {version}")).at(name)
            );
        }
    }
    match (&c.ty, &c.default) {
        (SqlType::Unknown, _) if c.required => {
            Err(Error::invalid("a column of type unknown is always null, it can't be NOT NULL").at(name))
        }
        (SqlType::Unknown | SqlType::Variant | SqlType::Geometry(_) | SqlType::Geography(_), Some(_)) => {
            Err(Error::invalid("a column of this type has no default but null").at(name))
        }
        (SqlType::Struct(_) | SqlType::List(_) | SqlType::Map(..), Some(_)) => {
            Err(Error::unsupported("defaults of nested columns are not supported; allowed: primitive types").at(name))
        }
        _ => Ok(()),
    }
}

/// A constant as the default of a column; `NULL` is no default.
pub(super) fn default_value(
    planner: &Planner,
    expr: datafusion::sql::sqlparser::ast::Expr,
    ty: &Type,
    column: &str,
) -> Result<Option<Literal>> {
    let Type::Primitive(p) = ty else {
        return Err(
            Error::unsupported("defaults of nested columns are not supported; allowed: primitive types").at(column)
        );
    };
    let value = planner.constant(expr)?;
    if value.is_null() {
        return Ok(None);
    }
    let value = cast_scalar(&value, &arrow_of(p)).map_err(|e| Error::from(e).at(column))?;
    Ok(Some(literal(&value, p).ok_or_else(|| Error::invalid(format!("{value} is no default of type {p}")).at(column))?))
}

/// Arrow type of a primitive.
pub(super) fn arrow_of(p: &PrimitiveType) -> arrow::datatypes::DataType {
    use arrow::datatypes::{DataType as D, TimeUnit as U};
    let utc = || Some(super::planner::UTC.into());
    match p {
        PrimitiveType::Boolean => D::Boolean,
        PrimitiveType::Int => D::Int32,
        PrimitiveType::Long => D::Int64,
        PrimitiveType::Float => D::Float32,
        PrimitiveType::Double => D::Float64,
        PrimitiveType::Decimal { precision, scale } => D::Decimal128(*precision as u8, *scale as i8),
        PrimitiveType::Date => D::Date32,
        PrimitiveType::Time => D::Time64(U::Microsecond),
        PrimitiveType::Timestamp => D::Timestamp(U::Microsecond, None),
        PrimitiveType::Timestamptz => D::Timestamp(U::Microsecond, utc()),
        PrimitiveType::TimestampNs => D::Timestamp(U::Nanosecond, None),
        PrimitiveType::TimestamptzNs => D::Timestamp(U::Nanosecond, utc()),
        PrimitiveType::String => D::Utf8,
        PrimitiveType::Uuid => D::FixedSizeBinary(16),
        PrimitiveType::Fixed(n) => D::FixedSizeBinary(i32::try_from(*n).unwrap_or(i32::MAX)),
        PrimitiveType::Binary => D::Binary,
    }
}

fn literal(value: &datafusion::scalar::ScalarValue, ty: &PrimitiveType) -> Option<Literal> {
    use datafusion::scalar::ScalarValue as S;
    let primitive = match value {
        S::Boolean(Some(v)) => PrimitiveLiteral::Boolean(*v),
        S::Int32(Some(v)) => PrimitiveLiteral::Int(*v),
        S::Int64(Some(v)) => PrimitiveLiteral::Long(*v),
        S::Float32(Some(v)) => PrimitiveLiteral::Float((*v).into()),
        S::Float64(Some(v)) => PrimitiveLiteral::Double((*v).into()),
        S::Decimal128(Some(v), _, _) => PrimitiveLiteral::Int128(*v),
        S::Date32(Some(v)) => PrimitiveLiteral::Int(*v),
        S::Time64Microsecond(Some(v)) | S::TimestampMicrosecond(Some(v), _) | S::TimestampNanosecond(Some(v), _) => {
            PrimitiveLiteral::Long(*v)
        }
        S::Utf8(Some(v)) => PrimitiveLiteral::String(v.clone()),
        S::FixedSizeBinary(16, Some(v)) if *ty == PrimitiveType::Uuid => {
            PrimitiveLiteral::UInt128(u128::from_be_bytes(v.as_slice().try_into().ok()?))
        }
        S::Binary(Some(v)) | S::FixedSizeBinary(_, Some(v)) => PrimitiveLiteral::Binary(v.clone()),
        _ => return None,
    };
    Some(Literal::Primitive(primitive))
}

/// Full name of the column that a path means, without regard to case; `element`, `key`, `value` name the parts of lists
/// and maps.
pub(super) fn resolve<'s>(schema: &'s Schema, path: &[String]) -> Result<&'s NestedFieldRef> {
    let name = path.join(".");
    schema
        .field_by_name(&name)
        .or_else(|| schema.field_by_name_case_insensitive(&name))
        .ok_or_else(|| Error::not_found(format!("table has no column {name:?}; it has: {}", column_names(schema))))
}

fn column_names(schema: &Schema) -> String {
    schema.as_struct().fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Name of a partition field, as Java makes it.
pub(super) fn partition_name(transform: Transform, column: &str) -> String {
    match transform {
        Transform::Identity => column.to_string(),
        Transform::Bucket(n) => format!("{column}_bucket_{n}"),
        Transform::Truncate(n) => format!("{column}_trunc_{n}"),
        Transform::Year => format!("{column}_year"),
        Transform::Month => format!("{column}_month"),
        Transform::Day => format!("{column}_day"),
        Transform::Hour => format!("{column}_hour"),
        Transform::Void => format!("{column}_null"),
        Transform::Unknown => column.to_string(),
    }
}

/// Source column and transform of a term, if the transform takes the column's type.
pub(super) fn bind_term<'s>(schema: &'s Schema, ext: &ExtTypes, term: &Term) -> Result<&'s NestedFieldRef> {
    let field = resolve(schema, &term.column)?;
    let name = term.column.join(".");
    if ext.of(field).is_some() || !field.field_type.is_primitive() {
        let ty = type_text(&field.field_type, field.id, ext);
        return Err(
            Error::invalid(format!("a column of type {ty} can't be transformed; allowed: primitive types")).at(name)
        );
    }
    term.transform.result_type(&field.field_type).map_err(|e| Error::invalid(e.message().to_string()).at(&name))?;
    Ok(field)
}

/// The partition spec of a new table.
pub(super) fn partition_spec(schema: &Schema, ext: &ExtTypes, terms: &[Term]) -> Result<UnboundPartitionSpec> {
    let mut builder = UnboundPartitionSpec::builder();
    for term in terms {
        let field = bind_term(schema, ext, term)?;
        let column = schema.name_by_field_id(field.id).unwrap_or(&field.name);
        builder = builder.add_partition_field(field.id, partition_name(term.transform, column), term.transform)?;
    }
    Ok(builder.build())
}

/// The sort order of `WRITE ORDERED BY`.
pub(super) fn sort_order(schema: &Schema, ext: &ExtTypes, terms: &[SortTerm]) -> Result<SortOrder> {
    let mut builder = SortOrder::builder();
    for t in terms {
        let field = bind_term(schema, ext, &t.term)?;
        builder.with_sort_field(
            SortField::builder()
                .source_id(field.id)
                .transform(t.term.transform)
                .direction(if t.descending { SortDirection::Descending } else { SortDirection::Ascending })
                .null_order(if t.nulls_first { NullOrder::First } else { NullOrder::Last })
                .build(),
        );
    }
    if terms.is_empty() {
        return Ok(SortOrder::unsorted_order());
    }
    Ok(builder.build(schema)?)
}

/// A type as Spark names it.
pub(super) fn type_text(ty: &Type, id: i32, ext: &ExtTypes) -> String {
    // an entry speaks for a column only while its type is the surrogate: unknown may have become another type
    if let Some(e) = ext.get(id).filter(|e| *ty == Type::Primitive(e.surrogate())) {
        return match e {
            ExtType::Variant => "variant".into(),
            ExtType::Unknown => "void".into(),
            ExtType::Geometry(t) | ExtType::Geography(t) => t.clone(),
        };
    }
    match ty {
        Type::Primitive(p) => match p {
            PrimitiveType::Long => "bigint".into(),
            PrimitiveType::Timestamptz => "timestamp".into(),
            PrimitiveType::Timestamp => "timestamp_ntz".into(),
            PrimitiveType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            PrimitiveType::Fixed(n) => format!("fixed({n})"),
            p => p.to_string(),
        },
        Type::Struct(s) => {
            let fields: Vec<String> =
                s.fields().iter().map(|f| format!("{}:{}", f.name, type_text(&f.field_type, f.id, ext))).collect();
            format!("struct<{}>", fields.join(","))
        }
        Type::List(l) => format!("array<{}>", type_text(&l.element_field.field_type, l.element_field.id, ext)),
        Type::Map(m) => format!(
            "map<{},{}>",
            type_text(&m.key_field.field_type, m.key_field.id, ext),
            type_text(&m.value_field.field_type, m.value_field.id, ext)
        ),
    }
}

/// Column definitions for the output of a query.
pub(super) fn columns_of(schema: &arrow::datatypes::Schema) -> Result<Vec<ColumnDef>> {
    schema
        .fields()
        .iter()
        .map(|f| {
            let ty = sql_type(f.data_type()).map_err(|e| e.at(f.name()))?;
            Ok(ColumnDef {
                path: vec![f.name().clone()],
                ty,
                required: false,
                comment: None,
                default: None,
                position: None,
            })
        })
        .collect()
}

fn sql_type(ty: &arrow::datatypes::DataType) -> Result<SqlType> {
    use arrow::datatypes::{DataType as D, TimeUnit as U};
    Ok(match ty {
        D::Null => SqlType::Unknown,
        D::Boolean => SqlType::Boolean,
        D::Int8 | D::Int16 | D::Int32 | D::UInt8 | D::UInt16 => SqlType::Int,
        D::Int64 | D::UInt32 | D::UInt64 => SqlType::Long,
        D::Float16 | D::Float32 => SqlType::Float,
        D::Float64 => SqlType::Double,
        D::Decimal128(p, s) if *s >= 0 => SqlType::Decimal(u32::from(*p), *s as u32),
        D::Date32 | D::Date64 => SqlType::Date,
        D::Time32(_) | D::Time64(_) => SqlType::Time,
        D::Timestamp(U::Nanosecond, None) => SqlType::TimestampNs,
        D::Timestamp(U::Nanosecond, Some(_)) => SqlType::TimestamptzNs,
        D::Timestamp(_, None) => SqlType::TimestampNtz,
        D::Timestamp(_, Some(_)) => SqlType::Timestamp,
        D::Utf8 | D::LargeUtf8 | D::Utf8View => SqlType::String,
        D::Binary | D::LargeBinary | D::BinaryView => SqlType::Binary,
        D::FixedSizeBinary(n) => SqlType::Fixed(u64::try_from(*n).unwrap_or_default()),
        D::Struct(fields) => SqlType::Struct(
            fields
                .iter()
                .map(|f| {
                    let ty = sql_type(f.data_type())?;
                    Ok(super::ast::SqlField { name: f.name().clone(), ty, required: false, comment: None })
                })
                .collect::<Result<_>>()?,
        ),
        D::List(f) | D::LargeList(f) => SqlType::List(Box::new(sql_type(f.data_type())?)),
        D::Map(f, _) => match f.data_type() {
            D::Struct(kv) if kv.len() == 2 => {
                SqlType::Map(Box::new(sql_type(kv[0].data_type())?), Box::new(sql_type(kv[1].data_type())?))
            }
            _ => {
                return Err(Error::unsupported(format!("a table has no column of type {ty}")));
            }
        },
        other => {
            return Err(Error::unsupported(format!("a table has no column of type {other}")));
        }
    })
}

/// A partition value as Java shows it to people: `2025-01-02`, `2025-01`, `abc`.
pub(super) fn human(transform: Transform, value: &PrimitiveLiteral, ty: &PrimitiveType) -> String {
    let day = |days: i64| {
        let mut out = String::new();
        super::functions::write_date(days, &mut out);
        out
    };
    let months = |n: i32| {
        let (year, month) = (1970 + n.div_euclid(12), n.rem_euclid(12) + 1);
        format!("{year:04}-{month:02}")
    };
    match (transform, value, ty) {
        (Transform::Year, PrimitiveLiteral::Int(n), _) => format!("{:04}", 1970 + n),
        (Transform::Month, PrimitiveLiteral::Int(n), _) => months(*n),
        (Transform::Day, PrimitiveLiteral::Int(n), _) => day(i64::from(*n)),
        (Transform::Hour, PrimitiveLiteral::Int(n), _) => {
            let n = i64::from(*n);
            format!("{}-{:02}", day(n.div_euclid(24)), n.rem_euclid(24))
        }
        (_, PrimitiveLiteral::String(s), _) => s.clone(),
        (_, value, ty) => match super::metadata_tables::json_value(value, ty) {
            serde_json::Value::String(s) => s,
            v => v.to_string(),
        },
    }
}
