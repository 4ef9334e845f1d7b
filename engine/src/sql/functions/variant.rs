//! Functions of variants, which are structs of `metadata` and `value` here (PARQ-11).

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use arrow::compute::{CastOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::scalar::ScalarValue;
use parquet_variant::{Variant, VariantPath, VariantPathElement};
use parquet_variant_compute::{GetOptions, VariantArray, VariantArrayBuilder, variant_get as get, variant_to_json};
use parquet_variant_json::JsonToVariant;

use super::Simple;
use super::scalar::arity;
use crate::{Error, Result};

pub(super) fn all() -> Vec<ScalarUDF> {
    vec![
        Simple::udf(
            "parse_json",
            &[],
            Simple::any(),
            |t| arity("parse_json", t, 1..=1, variant_type()),
            |a, _, _| parse(&a[0], true),
        ),
        Simple::udf(
            "try_parse_json",
            &[],
            Simple::any(),
            |t| arity("try_parse_json", t, 1..=1, variant_type()),
            |a, _, _| parse(&a[0], false),
        ),
        Simple::udf(
            "to_json",
            &[],
            Simple::any(),
            |t| {
                require_variant("to_json", t.first())?;
                arity("to_json", t, 1..=1, DataType::Utf8)
            },
            |a, _, _| Ok(Arc::new(variant_json(&a[0])?)),
        ),
        Simple::udf(
            "is_variant_null",
            &[],
            Simple::any(),
            |t| {
                require_variant("is_variant_null", t.first())?;
                arity("is_variant_null", t, 1..=1, DataType::Boolean)
            },
            |a, _, _| is_null(&a[0]),
        ),
        ScalarUDF::new_from_impl(VariantGet { name: "variant_get", strict: true, signature: Simple::any() }),
        ScalarUDF::new_from_impl(VariantGet { name: "try_variant_get", strict: false, signature: Simple::any() }),
    ]
}

/// A variant in floe's Arrow form.
fn variant_type() -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("metadata", DataType::Binary, false),
        Field::new("value", DataType::Binary, false),
    ]))
}

/// Whether a type is a variant as floe reads and writes it.
pub fn is_variant(t: &DataType) -> bool {
    let binary = |t: &DataType| matches!(t, DataType::Binary | DataType::BinaryView | DataType::LargeBinary);
    match t {
        DataType::Struct(fs) => {
            fs.len() == 2 && fs.iter().zip(["metadata", "value"]).all(|(f, n)| f.name() == n && binary(f.data_type()))
        }
        _ => false,
    }
}

fn require_variant(function: &str, t: Option<&DataType>) -> DfResult<()> {
    match t {
        Some(t) if is_variant(t) || t.is_null() => Ok(()),
        Some(t) => plan_err!("{function} takes a variant, not {t}"),
        None => plan_err!("{function} takes a variant"),
    }
}

/// The crate's variants in floe's Arrow form.
fn plain(v: &VariantArray) -> DfResult<ArrayRef> {
    let DataType::Struct(fields) = variant_type() else { return exec_err!("a variant is a struct") };
    let Some(value) = v.value_field() else { return exec_err!("a variant without its value") };
    let columns = vec![cast(v.metadata_field(), &DataType::Binary)?, cast(value, &DataType::Binary)?];
    Ok(Arc::new(StructArray::try_new(fields, columns, v.nulls().cloned())?))
}

/// Variants as JSON texts.
///
/// # Errors
/// [`crate::ErrorKind::Malformed`] for bytes that are no variant.
pub fn variant_json(variants: &ArrayRef) -> Result<StringArray> {
    if variants.data_type().is_null() {
        return Ok(StringArray::new_null(variants.len()));
    }
    variant_to_json(&checked(variants)?).map_err(malformed)
}

fn malformed(e: arrow::error::ArrowError) -> Error {
    Error::malformed(format!("variant: {e}")).clause("VAR-1")
}

/// Variants with plain binary parts, every value of which was looked through: the crate's own accessors trust their bytes
/// (case L8).
fn checked(variants: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = variant_type() else { return Err(Error::internal("a variant is a struct")) };
    let s = variants.as_struct_opt().filter(|s| is_variant(s.data_type()));
    let s = s.ok_or_else(|| Error::invalid(format!("{} is no variant", variants.data_type())))?;
    let columns = s.columns().iter().map(|c| Ok(cast(c, &DataType::Binary)?)).collect::<Result<Vec<ArrayRef>>>()?;
    let (metadata, value) = (columns[0].as_binary::<i32>(), columns[1].as_binary::<i32>());
    for i in (0..s.len()).filter(|i| s.is_valid(*i)) {
        Variant::try_new(metadata.value(i), value.value(i)).map_err(malformed)?;
    }
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, s.nulls().cloned(), s.len())?))
}

/// JSON texts as variants. What is no JSON is an error, or with `!strict` null; a JSON null is a variant, not a null.
fn parse(text: &ArrayRef, strict: bool) -> DfResult<ArrayRef> {
    let text = cast(text, &DataType::Utf8)?;
    let text = text.as_string::<i32>();
    let mut out = VariantArrayBuilder::new(text.len());
    for value in text.iter() {
        let Some(json) = value else {
            out.append_null();
            continue;
        };
        // asked first: the builder keeps what it took before an error
        match serde_json::from_str::<serde::de::IgnoredAny>(json) {
            Ok(_) => out.append_json(json)?,
            Err(_) if !strict => out.append_null(),
            Err(e) => return exec_err!("parse_json: {json:?} is no JSON: {e}"),
        }
    }
    plain(&out.build())
}

fn is_null(v: &ArrayRef) -> DfResult<ArrayRef> {
    let v = VariantArray::try_new(&checked(v)?)?;
    let mut out = Vec::with_capacity(v.len());
    for i in 0..v.len() {
        out.push(v.is_valid(i) && v.try_value(i)? == Variant::Null);
    }
    Ok(Arc::new(arrow::array::BooleanArray::from(out)))
}

/// `variant_get(v, path[, type])`: the part at a path such as `$.a[0].b`, cast to a type (`variant` when none is named).
/// Null when nothing is there. A value that does not cast is an error, or with `try_` null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct VariantGet {
    name: &'static str,
    strict: bool,
    signature: Signature,
}

impl VariantGet {
    fn literal(&self, what: &str, value: Option<&ScalarValue>) -> DfResult<String> {
        match value {
            Some(ScalarValue::Utf8(Some(s)) | ScalarValue::LargeUtf8(Some(s)) | ScalarValue::Utf8View(Some(s))) => {
                Ok(s.clone())
            }
            _ => plan_err!("{}: the {what} must be a string literal", self.name),
        }
    }
}

impl ScalarUDFImpl for VariantGet {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        plan_err!("{}: its type depends on its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        let n = args.arg_fields.len();
        if !(2..=3).contains(&n) {
            return plan_err!("{} takes 2 or 3 arguments, not {n}", self.name);
        }
        require_variant(self.name, args.arg_fields.first().map(|f| f.data_type()))?;
        path(&self.literal("path", args.scalar_arguments[1])?)?;
        let ty = match args.scalar_arguments.get(2) {
            Some(t) => type_of(&self.literal("type", *t)?)?,
            None => variant_type(),
        };
        Ok(Arc::new(Field::new(self.name, ty, true)))
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(args.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let to = args.return_field.data_type();
        let out = if array.data_type().is_null() {
            arrow::array::new_null_array(to, array.len())
        } else {
            let ColumnarValue::Scalar(text) = &args.args[1] else {
                return plan_err!("{}: the path must be a string literal", self.name);
            };
            let text = self.literal("path", Some(text))?;
            let array = checked(&array)?;
            let options = GetOptions::new_with_path(VariantPath::new(path(&text)?));
            if is_variant(to) {
                plain(&VariantArray::try_new(&get(&array, options)?)?)?
            } else {
                let field = Arc::new(Field::new("typed", to.clone(), true));
                let cast_options = CastOptions { safe: !self.strict, format_options: Default::default() };
                let options = options.with_as_type(Some(field)).with_cast_options(cast_options);
                get(&array, options).map_err(|e| DataFusionError::Execution(format!("{}: {e}", self.name)))?
            }
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?));
        }
        Ok(ColumnarValue::Array(out))
    }
}

/// `$`, then `.name`, `['name']`, `["name"]` or `[index]`, any number of times.
fn path(text: &str) -> DfResult<Vec<VariantPathElement<'static>>> {
    let bad = || DataFusionError::Plan(format!("{text:?} is no path into a variant; expected e.g. $.a[0]['b']"));
    let mut rest = text.strip_prefix('$').ok_or_else(bad)?;
    let mut out = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(bad());
            }
            out.push(VariantPathElement::field(name[..end].to_string()));
            rest = &name[end..];
            continue;
        }
        let inner = rest.strip_prefix('[').ok_or_else(bad)?;
        match inner.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let name = &inner[1..];
                let end = name.find(quote).ok_or_else(bad)?;
                out.push(VariantPathElement::field(name[..end].to_string()));
                rest = name[end + 1..].strip_prefix(']').ok_or_else(bad)?;
            }
            _ => {
                let (index, after) = inner.split_once(']').ok_or_else(bad)?;
                out.push(VariantPathElement::index(index.trim().parse().map_err(|_| bad())?));
                rest = after;
            }
        }
    }
    Ok(out)
}

/// A primitive type by Spark's name.
fn type_of(name: &str) -> DfResult<DataType> {
    let lower = name.trim().to_ascii_lowercase();
    Ok(match lower.as_str() {
        "boolean" => DataType::Boolean,
        "byte" | "tinyint" => DataType::Int8,
        "short" | "smallint" => DataType::Int16,
        "int" | "integer" => DataType::Int32,
        "long" | "bigint" => DataType::Int64,
        "float" | "real" => DataType::Float32,
        "double" => DataType::Float64,
        "string" => DataType::Utf8,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "variant" => variant_type(),
        _ => {
            let parts =
                lower.strip_prefix("decimal(").and_then(|d| d.strip_suffix(')')).and_then(|d| d.split_once(','));
            match parts.and_then(|(p, s)| Some((p.trim().parse::<u8>().ok()?, s.trim().parse::<i8>().ok()?))) {
                Some((p, s)) if (1..=38).contains(&p) && (0..=i16::from(p)).contains(&i16::from(s)) => {
                    DataType::Decimal128(p, s)
                }
                _ => {
                    return plan_err!(
                        "{name:?} is no type for a variant's part; allowed: boolean, byte, short, int, long, float, double, \
                         decimal(p, s), string, binary, date, timestamp, timestamp_ntz, variant"
                    );
                }
            }
        }
    })
}
