//! What the source of a MERGE says about the rows of the target that can match.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::NullEquality;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use futures::TryStreamExt;

use super::keys::{Keys, udf};
use super::{Cx, TARGET, run};
use crate::Result;
use crate::scan::{MetaColumn, RowFilter};

/// A filter is worth its time when it leaves at most one row in so many of the target's.
const SELECTIVE: i64 = 8;

/// The filter of the target's rows in an inner join of the target with rows in memory, by the keys of one of its equalities; `None`
/// where it has none that can be used, or most rows would pass.
pub(super) async fn by_join(cx: &Cx<'_>, join: LogicalPlan, target_rows: i64) -> Result<Option<RowFilter>> {
    let optimized = cx.ctx.state().optimize(&join)?;
    // where null equals null, a null in the source has its rows in the target: no set of keys says which
    let Some(join) = only_join(&optimized)?.filter(|j| j.null_equality == NullEquality::NullEqualsNothing) else {
        return Ok(None);
    };
    let (source, pairs): (_, Vec<(&Expr, &Expr)>) = match (reads_target(&join.left)?, reads_target(&join.right)?) {
        (true, false) => (&join.right, join.on.iter().map(|(l, r)| (l, r)).collect()),
        (false, true) => (&join.left, join.on.iter().map(|(l, r)| (r, l)).collect()),
        _ => return Ok(None),
    };
    for (target, key) in pairs {
        let plain = target.column_refs().iter().all(|c| MetaColumn::by_name(&c.name).is_none());
        if !plain || target.column_refs().is_empty() || target.is_volatile() || key.is_volatile() {
            continue;
        }
        let ty = key.get_type(source.schema())?;
        let plan = LogicalPlanBuilder::from(source.as_ref().clone()).project(vec![key.clone()])?.build()?;
        let mut columns: Vec<ArrayRef> = vec![arrow::array::new_empty_array(&ty)];
        for stream in run(cx, plan).await? {
            let batches: Vec<_> = stream.try_collect().await?;
            columns.extend(batches.iter().map(|b| b.column(0).clone()));
        }
        let Some(keys) = Keys::of(&columns)? else { continue };
        if i64::try_from(keys.len()).unwrap_or(i64::MAX) > target_rows / SELECTIVE {
            continue;
        }
        return Ok(Some(RowFilter { files: bounds(target, &keys, &ty)?, rows: udf(keys).call(vec![target.clone()]) }));
    }
    Ok(None)
}

/// The condition on files: between the least and the greatest key.
fn bounds(target: &Expr, keys: &Keys, ty: &DataType) -> Result<Vec<Expr>> {
    Ok(match keys.bounds(ty)? {
        Some((low, high)) => vec![target.clone().gt_eq(lit(low)), target.clone().lt_eq(lit(high))],
        None => vec![lit(false)],
    })
}

/// The join of a plan that has just one, when it is an inner one.
fn only_join(plan: &LogicalPlan) -> Result<Option<Join>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(j) = node {
            found.push(j.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found.pop().filter(|j| found.is_empty() && j.join_type == JoinType::Inner))
}

fn reads_target(plan: &LogicalPlan) -> Result<bool> {
    Ok(plan.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(t) if t.table_name.table() == TARGET)))?)
}
