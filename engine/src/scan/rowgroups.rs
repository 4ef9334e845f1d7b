//! Row-group pruning by Parquet statistics, with the same rules as file pruning.

use std::ops::Range;

use parquet::basic::Type as Physical;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use crate::expr::{FilePruner, Pred};
use crate::manifest::{DataFile, Metrics};

/// Row groups to read.
#[derive(Debug, Clone, Default)]
pub struct RowGroups {
    /// Their indices.
    pub indices: Vec<usize>,
    /// Their rows, as positions in the file.
    pub rows: Vec<Range<u64>>,
}

/// Row groups that start in the byte range and may hold selected rows. Positions count all rows of the file (RID-16).
pub fn select(
    metadata: &ParquetMetaData,
    range: Option<(i64, i64)>,
    file: &DataFile,
    pruner: Option<&FilePruner>,
) -> RowGroups {
    let columns = pruner.map(|p| columns_of(p.pred(), metadata)).unwrap_or_default();
    let mut out = RowGroups::default();
    let mut first = 0u64;
    for (i, rg) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(rg.num_rows()).unwrap_or(0);
        let span = first..first + rows;
        first += rows;
        if let Some((start, end)) = range {
            let at = offset(rg);
            if at < start || at >= end {
                continue;
            }
        }
        if let Some(p) = pruner
            && !columns.is_empty()
            && !p.may_match(&as_file(file, rg, &columns))
        {
            continue;
        }
        out.indices.push(i);
        out.rows.push(span);
    }
    out
}

/// Where a row group starts, as `split_offsets` counts it.
fn offset(rg: &RowGroupMetaData) -> i64 {
    rg.file_offset().filter(|o| *o > 0).unwrap_or_else(|| {
        rg.columns().first().map_or(0, |c| {
            c.dictionary_page_offset().filter(|d| *d > 0).map_or(c.data_page_offset(), |d| d.min(c.data_page_offset()))
        })
    })
}

/// Leaf columns at the top level that the filter tests: (field id, column index).
fn columns_of(pred: &Pred, metadata: &ParquetMetaData) -> Vec<(i32, usize)> {
    let mut ids = Vec::new();
    collect_ids(pred, &mut ids);
    let schema = metadata.file_metadata().schema_descr();
    (0..schema.num_columns())
        .filter_map(|i| {
            let column = schema.column(i);
            let info = column.self_type().get_basic_info();
            (column.path().parts().len() == 1 && info.has_id() && ids.contains(&info.id())).then(|| (info.id(), i))
        })
        .collect()
}

fn collect_ids(pred: &Pred, out: &mut Vec<i32>) {
    match pred {
        Pred::And(ps) | Pred::Or(ps) => ps.iter().for_each(|p| collect_ids(p, out)),
        Pred::Leaf(l) => out.push(l.field_id),
        _ => {}
    }
}

/// The row group described as a data file, so that one set of rules prunes both.
fn as_file(file: &DataFile, rg: &RowGroupMetaData, columns: &[(i32, usize)]) -> DataFile {
    let mut m = Metrics::default();
    for (id, i) in columns {
        let column = rg.column(*i);
        m.value_counts.insert(*id, column.num_values());
        let Some(stats) = column.statistics() else { continue };
        if let Some(n) = stats.null_count_opt() {
            m.null_value_counts.insert(*id, i64::try_from(n).unwrap_or(-1));
        }
        if !plain_order(column.column_descr(), stats) {
            continue;
        }
        if let Some(b) = stats.min_bytes_opt() {
            m.lower_bounds.insert(*id, b.to_vec());
        }
        if let Some(b) = stats.max_bytes_opt() {
            m.upper_bounds.insert(*id, b.to_vec());
        }
    }
    DataFile { record_count: rg.num_rows(), metrics: Some(Box::new(m)), ..file.clone() }
}

/// Whether the statistics' bytes are the single-value binary form: not decimals (BIN-*), other time units or deprecated orders.
fn plain_order(column: &parquet::schema::types::ColumnDescriptor, stats: &Statistics) -> bool {
    use parquet::basic::{LogicalType as L, TimeUnit};
    if stats.is_min_max_deprecated() && stats.physical_type() == Physical::BYTE_ARRAY {
        return false;
    }
    match column.logical_type_ref() {
        Some(L::String | L::Date) | None => !matches!(
            (column.physical_type(), column.converted_type()),
            (Physical::INT96, _)
                | (
                    _,
                    parquet::basic::ConvertedType::DECIMAL
                        | parquet::basic::ConvertedType::TIMESTAMP_MILLIS
                        | parquet::basic::ConvertedType::TIME_MILLIS
                )
        ),
        Some(L::Integer { is_signed, .. }) => *is_signed,
        Some(L::Timestamp { unit, .. } | L::Time { unit, .. }) => *unit == TimeUnit::MICROS,
        Some(_) => false,
    }
}
