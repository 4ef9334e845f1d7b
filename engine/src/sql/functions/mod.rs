//! Spark's functions that DataFusion lacks or does otherwise.

mod nested;
mod scalar;
mod string;
mod variant;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::prelude::SessionContext;

pub use nested::{assign, assign_parts, assign_udf};
pub use string::spark_strings;
pub(crate) use string::write_date;
pub use variant::{is_variant, variant_json};

/// Registers all of them.
pub fn register(ctx: &SessionContext) {
    for f in scalar::all().into_iter().chain(nested::all()).chain(string::all()).chain(variant::all()) {
        ctx.register_udf(f);
    }
}

type Types = fn(&[DataType]) -> DfResult<DataType>;
type Body = fn(&[ArrayRef], &DataType, usize) -> DfResult<ArrayRef>;

/// A function over whole arrays.
#[derive(Clone)]
pub(super) struct Simple {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    types: Types,
    body: Body,
}

impl Simple {
    pub(super) fn udf(
        name: &'static str,
        aliases: &[&str],
        signature: Signature,
        types: Types,
        body: Body,
    ) -> ScalarUDF {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        ScalarUDF::new_from_impl(Self { name, aliases, signature, types, body })
    }

    /// Any number of arguments of any types.
    pub(super) fn any() -> Signature {
        // DataFusion's signature for any arguments asks for at least one
        Signature::user_defined(Volatility::Immutable)
    }
}

impl std::fmt::Debug for Simple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simple").field("name", &self.name).finish()
    }
}

impl PartialEq for Simple {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Simple {}

impl std::hash::Hash for Simple {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Simple {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        (self.types)(args)
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(args.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|a| a.to_array(rows)).collect::<DfResult<Vec<_>>>()?;
        let out = (self.body)(&arrays, args.return_field.data_type(), rows)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(datafusion::scalar::ScalarValue::try_from_array(&out, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::clone(&out)))
    }
}

/// Casts one value; one that does not fit is an error.
pub(super) fn cast_scalar(
    value: &datafusion::scalar::ScalarValue,
    to: &DataType,
) -> DfResult<datafusion::scalar::ScalarValue> {
    let cast = nested::cast_by_position(&value.to_array()?, to)?;
    datafusion::scalar::ScalarValue::try_from_array(&cast, 0)
}
