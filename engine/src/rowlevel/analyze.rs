//! What a statement's filter says about whole files.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::Expr;

use super::template;
use super::{Cx, TARGET, Target};
use crate::Result;
use crate::expr::{Pred, from_df_all};

/// The filter of a statement over the target as a [`Pred`]. A filter with a subquery, or one that needs rows of another
/// table, is [`Pred::Unknown`].
pub fn predicate(cx: &Cx, target: &Target, selection: Option<&Expr>) -> Result<Pred> {
    let Some(selection) = selection else { return Ok(Pred::True) };
    let alias = template::quoted(&target.alias);
    let sql = format!("SELECT 1 FROM {TARGET} AS {alias} WHERE $1");
    let plan = template::plan(cx, template::fill(&sql, std::slice::from_ref(selection), &[])?)?;
    let plan = cx.ctx.state().optimize(&plan)?;
    Ok(pred_of_plan(&plan, target).unwrap_or(Pred::Unknown))
}

fn pred_of_plan(plan: &LogicalPlan, target: &Target) -> Option<Pred> {
    let mut filters: Vec<DfExpr> = Vec::new();
    let mut scans = 0;
    let mut empty = false;
    let mut other = false;
    plan.apply(|node| {
        match node {
            LogicalPlan::Filter(f) => filters.extend(split_conjunction(&f.predicate).into_iter().cloned()),
            LogicalPlan::TableScan(s) => {
                scans += 1;
                filters.extend(s.filters.iter().cloned());
            }
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {}
            LogicalPlan::EmptyRelation(e) => empty |= !e.produce_one_row,
            _ => other = true,
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .ok()?;
    if empty && scans == 0 && !other {
        return Some(Pred::False);
    }
    if other || scans != 1 {
        return None;
    }
    filters.dedup();
    let schema = target.table.metadata().current_schema();
    Some(from_df_all(&filters, schema, &target.table.metadata().ext))
}
