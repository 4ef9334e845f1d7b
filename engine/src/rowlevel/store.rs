//! The cast of a nested value to a column's type: structs go by name when the names agree, else by position, as Spark assigns
//! `struct(1, 'x')` to `STRUCT<a: INT, b: STRING>`. DataFusion casts structs by name alone.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Fields};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::{Error, Result};

/// `value` as a column of type `to`.
pub(super) fn store(value: Expr, to: &DataType) -> Expr {
    store_udf(to.clone()).call(vec![value])
}

/// The column type of a function that [`store`] made; `None` for any other function.
pub fn store_type(f: &ScalarUDF) -> Option<&DataType> {
    f.inner().as_any().downcast_ref::<Store>().map(|s| &s.to)
}

/// The function that casts a value to a column of type `to`, as [`store_type`] took it apart.
pub fn store_udf(to: DataType) -> ScalarUDF {
    ScalarUDF::new_from_impl(Store { to, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq)]
struct Store {
    to: DataType,
    signature: Signature,
}

impl Hash for Store {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to.hash(state);
    }
}

impl ScalarUDFImpl for Store {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "store"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(convert(&arrays[0], &self.to)?))
    }
}

fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let wrong = || Error::invalid(format!("a value of type {} can't be written as {to}", array.data_type()));
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if *array.data_type() == DataType::Null {
        return Ok(new_null_array(to, array.len()));
    }
    Ok(match to {
        DataType::Struct(fields) => {
            let s = array.as_struct_opt().ok_or_else(wrong)?;
            if s.num_columns() != fields.len() {
                return Err(wrong());
            }
            let at = by_name(s.fields(), fields);
            let columns = fields
                .iter()
                .enumerate()
                .map(|(i, f)| convert(s.column(at.as_ref().map_or(i, |a| a[i])), f.data_type()))
                .collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, s.nulls().cloned(), s.len())?)
        }
        DataType::List(field) => {
            let list = match array.data_type() {
                DataType::List(_) => array.clone(),
                DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::ListView(f) => {
                    cast(array, &DataType::List(f.clone()))?
                }
                _ => return Err(wrong()),
            };
            let l: &ListArray = list.as_list_opt().ok_or_else(wrong)?;
            let values = convert(l.values(), field.data_type())?;
            Arc::new(ListArray::try_new(field.clone(), l.offsets().clone(), values, l.nulls().cloned())?)
        }
        DataType::Map(field, sorted) => {
            let m: &MapArray = array.as_map_opt().ok_or_else(wrong)?;
            let DataType::Struct(kv) = field.data_type() else { return Err(wrong()) };
            let columns = vec![convert(m.keys(), kv[0].data_type())?, convert(m.values(), kv[1].data_type())?];
            let entries = StructArray::try_new_with_length(kv.clone(), columns, None, m.entries().len())?;
            Arc::new(MapArray::try_new(field.clone(), m.offsets().clone(), entries, m.nulls().cloned(), *sorted)?)
        }
        leaf => cast_with_options(array, leaf, &CastOptions { safe: false, format_options: Default::default() })?,
    })
}

/// For each wanted field its index by name; `None` when some name is missing.
fn by_name(from: &Fields, to: &Fields) -> Option<Vec<usize>> {
    to.iter().map(|t| from.iter().position(|f| f.name().eq_ignore_ascii_case(t.name()))).collect()
}
