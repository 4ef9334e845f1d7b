//! Values for the columns of the target: assignments, defaults, and the cast to the column's type.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr as DfExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::sqlparser::ast::Expr;
use iceberg::spec::{Literal, NestedFieldRef, PrimitiveLiteral, PrimitiveType, Type};

use super::store::store;
use super::template::quoted;
use super::{Assignment, Target};
use crate::types::arrow_schema;
use crate::{Error, Result};

/// The SQL of each column of the target after assignments; assigned expressions are appended to `exprs` and stand as `$n`.
/// `current` gives the SQL of the column's present value.
pub fn assigned_columns(
    target: &Target,
    assignments: &[Assignment],
    exprs: &mut Vec<Expr>,
    current: impl Fn(&str) -> String,
) -> Result<Vec<String>> {
    let schema = target.table.metadata().current_schema();
    let fields = schema.as_struct().fields();
    for a in assignments {
        let first = a.path.first().map(String::as_str).unwrap_or_default();
        if !fields.iter().any(|f| f.name.eq_ignore_ascii_case(first)) {
            return Err(unknown_column(first, fields, target));
        }
    }
    fields
        .iter()
        .map(|f| {
            let mine: Vec<Assignment> = assignments
                .iter()
                .filter(|a| a.path[0].eq_ignore_ascii_case(&f.name))
                .map(|a| Assignment { path: a.path[1..].to_vec(), value: a.value.clone() })
                .collect();
            value_sql(f, &mine, exprs, &current(&f.name), target)
        })
        .collect()
}

fn value_sql(
    field: &NestedFieldRef,
    assignments: &[Assignment],
    exprs: &mut Vec<Expr>,
    current: &str,
    target: &Target,
) -> Result<String> {
    match assignments {
        [] => return Ok(current.to_string()),
        [one] if one.path.is_empty() => return literal_or_default(field, &one.value, exprs),
        _ => {}
    }
    if assignments.iter().any(|a| a.path.is_empty()) {
        return Err(Error::invalid(format!("column {} is assigned twice", field.name)).at(target.table.ident()));
    }
    let Type::Struct(s) = field.field_type.as_ref() else {
        return Err(Error::invalid(format!(
            "{} is not a struct: {} can't be assigned",
            field.name,
            assignments[0].path.join(".")
        ))
        .at(target.table.ident()));
    };
    let mut parts = Vec::new();
    for a in assignments {
        if !s.fields().iter().any(|f| f.name.eq_ignore_ascii_case(&a.path[0])) {
            return Err(unknown_column(&a.path[0], s.fields(), target));
        }
    }
    for f in s.fields() {
        let mine: Vec<Assignment> = assignments
            .iter()
            .filter(|a| a.path[0].eq_ignore_ascii_case(&f.name))
            .map(|a| Assignment { path: a.path[1..].to_vec(), value: a.value.clone() })
            .collect();
        let name = f.name.replace('\'', "''");
        let inner = format!("get_field({current}, '{name}')");
        parts.push(format!("'{name}', {}", value_sql(f, &mine, exprs, &inner, target)?));
    }
    Ok(format!("named_struct({})", parts.join(", ")))
}

/// `$n` for an expression; the keyword DEFAULT gives the column's `write-default` (DEFV-*).
pub fn literal_or_default(field: &NestedFieldRef, value: &Expr, exprs: &mut Vec<Expr>) -> Result<String> {
    if let Expr::Identifier(i) = value
        && i.quote_style.is_none()
        && i.value.eq_ignore_ascii_case("default")
    {
        return default_sql(field);
    }
    exprs.push(value.clone());
    Ok(format!("${}", exprs.len()))
}

/// SQL of a column's `write-default`, or NULL. A required column without a default has no value to take.
pub fn default_sql(field: &NestedFieldRef) -> Result<String> {
    match (&field.write_default, field.required) {
        (Some(l), _) => literal_sql(l, &field.field_type),
        (None, false) => Ok("NULL".into()),
        (None, true) => Err(Error::invalid(format!(
            "column {} is NOT NULL and has no default: the statement must give a value",
            field.name
        ))
        .clause("DEFV-1")),
    }
}

fn literal_sql(l: &Literal, ty: &Type) -> Result<String> {
    use PrimitiveLiteral as L;
    let (Literal::Primitive(p), Type::Primitive(t)) = (l, ty) else {
        return Err(Error::unsupported("a default of a nested type can't be used in a statement; give the value"));
    };
    Ok(match (t, p) {
        (_, L::Boolean(b)) => b.to_string(),
        (PrimitiveType::Date, L::Int(d)) => format!("CAST({d} AS DATE)"),
        (_, L::Int(v)) => v.to_string(),
        (PrimitiveType::Timestamp | PrimitiveType::Timestamptz, L::Long(v)) => {
            format!("arrow_cast({v}, 'Timestamp(Microsecond, None)')")
        }
        (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs, L::Long(v)) => {
            format!("arrow_cast({v}, 'Timestamp(Nanosecond, None)')")
        }
        (PrimitiveType::Time, L::Long(v)) => format!("arrow_cast({v}, 'Time64(Microsecond)')"),
        (_, L::Long(v)) => v.to_string(),
        (_, L::Float(v)) => format!("CAST('{}' AS FLOAT)", v.0),
        (_, L::Double(v)) => format!("CAST('{}' AS DOUBLE)", v.0),
        (_, L::String(s)) => format!("'{}'", s.replace('\'', "''")),
        (_, L::Binary(b)) => format!("X'{}'", b.iter().map(|b| format!("{b:02X}")).collect::<String>()),
        (PrimitiveType::Decimal { precision, scale }, L::Int128(v)) => {
            format!("arrow_cast('{}', 'Decimal128({precision}, {scale})')", decimal_text(*v, *scale))
        }
        (t, p) => return Err(Error::unsupported(format!("default {p:?} of type {t} can't be used in a statement"))),
    })
}

fn decimal_text(v: i128, scale: u32) -> String {
    let digits = format!("{:0>width$}", v.unsigned_abs(), width = scale as usize + 1);
    let (int, frac) = digits.split_at(digits.len() - scale as usize);
    let sign = if v < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{int}") } else { format!("{sign}{int}.{frac}") }
}

fn unknown_column(name: &str, fields: &[NestedFieldRef], target: &Target) -> Error {
    let names: Vec<_> = fields.iter().map(|f| f.name.as_str()).collect();
    Error::invalid(format!("no column {name}; there are: {}", names.join(", "))).at(target.table.ident())
}

/// Casts the columns of `plan` after the first `head` to the target's columns (and lineage columns when `lineage`), and names
/// them so. Refuses what ANSI store assignment refuses.
pub fn cast_to_target(plan: LogicalPlan, head: usize, target: &Target, lineage: bool) -> Result<LogicalPlan> {
    let metadata = target.table.metadata();
    let arrow = arrow_schema(metadata.current_schema(), &metadata.ext);
    let mut wanted: Vec<(String, DataType)> =
        arrow.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
    if lineage {
        wanted.push(("_row_id".into(), DataType::Int64));
        wanted.push(("_last_updated_sequence_number".into(), DataType::Int64));
    }
    let columns: Vec<Column> = plan.schema().columns();
    if columns.len() != head + wanted.len() {
        return Err(Error::invalid(format!(
            "the statement gives {} columns, the table has {}",
            columns.len().saturating_sub(head),
            wanted.len()
        ))
        .at(target.table.ident()));
    }
    let mut exprs: Vec<DfExpr> = columns[..head].iter().map(|c| DfExpr::Column(c.clone())).collect();
    for (c, (name, ty)) in columns[head..].iter().zip(&wanted) {
        let e = DfExpr::Column(c.clone());
        let from = e.get_type(plan.schema().as_ref())?;
        if !assignable(&from, ty) {
            return Err(Error::invalid(format!(
                "a value of type {from} can't be written to column {name} of type {ty}"
            ))
            .at(target.table.ident()));
        }
        let e = match (&from, ty) {
            (from, ty) if from == ty => e,
            (_, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) => store(e, ty),
            _ => cast(e, ty.clone()),
        };
        exprs.push(e.alias(name));
    }
    Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
}

/// What ANSI store assignment allows: any number to any number (overflow is an error when it happens), anything printable to
/// string, dates to timestamps, nested types field by field; never strings to numbers, dates or booleans.
fn assignable(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    let number = |t: &DataType| t.is_numeric();
    let string = |t: &DataType| matches!(t, D::Utf8 | D::LargeUtf8 | D::Utf8View);
    let binary = |t: &DataType| matches!(t, D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_));
    let list = |t: &DataType| matches!(t, D::List(_) | D::LargeList(_) | D::ListView(_) | D::FixedSizeList(..));
    match (from, to) {
        (a, b) if a == b => true,
        (D::Null, _) => true,
        (D::Dictionary(_, v), t) => assignable(v, t),
        (a, b) if number(a) && number(b) => true,
        (a, b) if string(b) => !a.is_nested() && !binary(a),
        (a, b) if binary(a) && binary(b) => true,
        (D::Timestamp(..), D::Timestamp(..)) | (D::Date32 | D::Date64, D::Timestamp(..)) => true,
        (D::Timestamp(..), D::Date32) | (D::Date64, D::Date32) => true,
        (D::Time32(_) | D::Time64(_), D::Time64(_)) => true,
        (D::Struct(a), D::Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| assignable(a.data_type(), b.data_type()))
        }
        (D::Map(a, _), D::Map(b, _)) => assignable(a.data_type(), b.data_type()),
        (a, b) if list(a) && list(b) => match (element(a), element(b)) {
            (Some(a), Some(b)) => assignable(a, b),
            _ => false,
        },
        _ => false,
    }
}

fn element(t: &DataType) -> Option<&DataType> {
    match t {
        DataType::List(f) | DataType::LargeList(f) | DataType::ListView(f) | DataType::FixedSizeList(f, _) => {
            Some(f.data_type())
        }
        _ => None,
    }
}

/// A select list in which every expression has a name of its own: two equal expressions would clash otherwise.
pub fn select_list(columns: &[String]) -> String {
    let named: Vec<String> = columns.iter().enumerate().map(|(i, c)| format!("{c} AS __floe_c{i}")).collect();
    named.join(", ")
}

/// Columns of the target as SQL, qualified by an alias.
pub fn plain_columns(target: &Target, alias: &str) -> Vec<String> {
    let alias = quoted(alias);
    let schema = target.table.metadata().current_schema();
    schema.as_struct().fields().iter().map(|f| format!("{alias}.{}", quoted(&f.name))).collect()
}
