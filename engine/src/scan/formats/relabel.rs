//! Arrays as a decoder gives them, in the types and with the field ids that the table's reader expects.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};

use crate::{Error, Result};

/// The batch with the columns of `target`, position by position.
pub(super) fn batch(from: &RecordBatch, target: &SchemaRef) -> Result<RecordBatch> {
    if from.num_columns() != target.fields().len() {
        return Err(Error::internal(format!(
            "the decoder gave {} columns where {} were asked for",
            from.num_columns(),
            target.fields().len()
        )));
    }
    let columns =
        from.columns().iter().zip(target.fields()).map(|(c, f)| array(c, f.data_type())).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(from.num_rows()));
    Ok(RecordBatch::try_new_with_options(target.clone(), columns, &options)?)
}

fn array(from: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let wrong = || Error::malformed(format!("a column of type {} was read where {to} is expected", from.data_type()));
    if from.data_type() == to {
        return Ok(from.clone());
    }
    Ok(match to {
        DataType::Struct(fields) => {
            let s = from.as_struct_opt().filter(|s| s.num_columns() == fields.len()).ok_or_else(wrong)?;
            let columns =
                s.columns().iter().zip(fields).map(|(c, f)| array(c, f.data_type())).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, s.nulls().cloned(), s.len())?)
        }
        DataType::List(field) => {
            let l: &ListArray = from.as_list_opt().ok_or_else(wrong)?;
            let values = array(l.values(), field.data_type())?;
            Arc::new(ListArray::try_new(field.clone(), l.offsets().clone(), values, l.nulls().cloned())?)
        }
        DataType::Map(field, _) => {
            let DataType::Struct(kv) = field.data_type() else { return Err(wrong()) };
            // a map, or Avro's array of key-value records
            let (offsets, nulls, entries) = match from.data_type() {
                DataType::Map(..) => {
                    let m: &MapArray = from.as_map();
                    (m.offsets().clone(), m.nulls().cloned(), m.entries().clone())
                }
                DataType::List(_) => {
                    let l: &ListArray = from.as_list();
                    let entries = l.values().as_struct_opt().ok_or_else(wrong)?;
                    (l.offsets().clone(), l.nulls().cloned(), entries.clone())
                }
                _ => return Err(wrong()),
            };
            if entries.num_columns() != 2 {
                return Err(wrong());
            }
            let columns =
                entries.columns().iter().zip(kv).map(|(c, f)| array(c, f.data_type())).collect::<Result<Vec<_>>>()?;
            let entries = StructArray::try_new_with_length(kv.clone(), columns, None, entries.len())?;
            Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, false)?)
        }
        leaf => cast_with_options(from, leaf, &CastOptions { safe: false, format_options: Default::default() })?,
    })
}
