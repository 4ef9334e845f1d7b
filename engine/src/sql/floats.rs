//! Where a decimal meets a floating-point number, it becomes DOUBLE, as in Spark. DataFusion would make both DECIMAL(30, 15): small
//! numbers would become 0, rows that no statement named would change, and large ones would end it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{InList, InSubquery};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Subquery, Union,
    Values, cast, col,
};

/// Functions whose arguments are values of one type.
const ALIKE: [&str; 9] = ["array", "coalesce", "greatest", "ifnull", "least", "make_array", "nullif", "nvl", "nvl2"];

/// Gives the plan's expressions Spark's types, before anything depends on them.
pub(super) fn in_plan(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(node)?.data)
}

/// Gives an expression over `schema` Spark's types.
pub(super) fn in_expr(e: Expr, schema: &DFSchema) -> DfResult<Expr> {
    Ok(e.transform_up(|e| one(e, schema))?.data)
}

fn node(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let plan = match plan {
        LogicalPlan::Union(u) => union(u)?,
        LogicalPlan::Values(v) => values(v)?,
        LogicalPlan::Join(j) => Transformed::yes(LogicalPlan::Join(join(j)?)),
        other => Transformed::no(other),
    };
    let done = plan.transform_data(|p| p.map_expressions(|e| e.transform_up(|e| one(e, &schema))))?;
    // what an input became may change what a node yields
    done.map_data(LogicalPlan::recompute_schema)
}

fn one(e: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    Ok(match e {
        Expr::BinaryExpr(b) => match alike([&*b.left, &*b.right], schema) {
            Some(mut v) => {
                let (right, left) = (v.remove(1), v.remove(0));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), b.op, Box::new(right))))
            }
            None => Transformed::no(Expr::BinaryExpr(b)),
        },
        Expr::Between(b) => match alike([&*b.expr, &*b.low, &*b.high], schema) {
            Some(mut v) => {
                let (high, low, e) = (v.remove(2), v.remove(1), v.remove(0));
                Transformed::yes(Expr::Between(Between::new(Box::new(e), b.negated, Box::new(low), Box::new(high))))
            }
            None => Transformed::no(Expr::Between(b)),
        },
        Expr::InList(l) => match alike(std::iter::once(&*l.expr).chain(&l.list), schema) {
            Some(mut v) => {
                let e = v.remove(0);
                Transformed::yes(Expr::InList(InList::new(Box::new(e), v, l.negated)))
            }
            None => Transformed::no(Expr::InList(l)),
        },
        Expr::InSubquery(s) => in_subquery(s, schema)?,
        Expr::Case(c) => case(c, schema),
        Expr::ScalarFunction(mut f) if ALIKE.contains(&f.func.name()) => match alike(&f.args, schema) {
            Some(args) => {
                f.args = args;
                Transformed::yes(Expr::ScalarFunction(f))
            }
            None => Transformed::no(Expr::ScalarFunction(f)),
        },
        other => Transformed::no(other),
    })
}

fn is_decimal(t: &DataType) -> bool {
    matches!(t, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Whether both kinds are among the types.
fn mixed<'a>(types: impl IntoIterator<Item = &'a DataType>) -> bool {
    let (mut decimal, mut float) = (false, false);
    for t in types {
        decimal |= is_decimal(t);
        float |= t.is_floating();
    }
    decimal && float
}

/// The expressions with the decimals among them as DOUBLE; `None` when that is not called for.
fn alike<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Vec<Expr>> {
    let all: Vec<&Expr> = all.into_iter().collect();
    // what has no type yet is left to the error that planning gives
    let types: Vec<DataType> = all.iter().map(|e| e.get_type(schema)).collect::<DfResult<_>>().ok()?;
    mixed(&types).then(|| all.into_iter().zip(&types).map(|(e, t)| double(e.clone(), t)).collect())
}

fn double(e: Expr, t: &DataType) -> Expr {
    if is_decimal(t) { cast(e, DataType::Float64) } else { e }
}

/// The operand with the values that it is compared with, and the results with each other.
fn case(mut c: Case, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(e) = &c.expr
        && let Some(mut v) = alike(std::iter::once(&**e).chain(c.when_then_expr.iter().map(|(w, _)| &**w)), schema)
    {
        c.expr = Some(Box::new(v.remove(0)));
        c.when_then_expr.iter_mut().zip(v).for_each(|((w, _), new)| **w = new);
        changed = true;
    }
    let results = c.when_then_expr.iter().map(|(_, t)| &**t).chain(c.else_expr.as_deref());
    if let Some(v) = alike(results, schema) {
        let mut v = v.into_iter();
        for ((_, then), new) in c.when_then_expr.iter_mut().zip(v.by_ref()) {
            **then = new;
        }
        c.else_expr = v.next().map(Box::new);
        changed = true;
    }
    if changed { Transformed::yes(Expr::Case(c)) } else { Transformed::no(Expr::Case(c)) }
}

fn in_subquery(s: InSubquery, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let field = s.subquery.subquery.schema().field(0).clone();
    let Ok(t) = s.expr.get_type(schema) else { return Ok(Transformed::no(Expr::InSubquery(s))) };
    if !mixed([&t, field.data_type()]) {
        return Ok(Transformed::no(Expr::InSubquery(s)));
    }
    let plan = project(s.subquery.subquery.clone(), |_| true)?;
    let subquery = Subquery { subquery: plan, ..s.subquery };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery::new(Box::new(double(*s.expr, &t)), subquery, s.negated))))
}

/// The plan with the decimals among the chosen columns as DOUBLE, under their names.
fn project(plan: Arc<LogicalPlan>, chosen: impl Fn(usize) -> bool) -> DfResult<Arc<LogicalPlan>> {
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .enumerate()
        .map(|(i, (qualifier, f))| {
            let column = Expr::Column((qualifier, f).into());
            if chosen(i) && is_decimal(f.data_type()) {
                cast(column, DataType::Float64).alias_qualified(qualifier.cloned(), f.name())
            } else {
                column
            }
        })
        .collect();
    Ok(Arc::new(LogicalPlanBuilder::new_from_arc(plan).project(columns)?.build()?))
}

fn union(u: Union) -> DfResult<Transformed<LogicalPlan>> {
    let columns = u.schema.fields().len();
    let of = |i: usize| {
        u.inputs
            .iter()
            .filter(move |p| p.schema().fields().len() == columns)
            .map(move |p| p.schema().field(i).data_type())
    };
    let uneven: Vec<bool> = (0..columns).map(|i| mixed(of(i))).collect();
    if !uneven.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(u)));
    }
    let inputs = u.inputs.iter().map(|p| project(p.clone(), |i| uneven[i])).collect::<DfResult<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// VALUES is planned with the common type of each column in place: it is taken off again where it hides a floating-point number.
fn values(v: Values) -> DfResult<Transformed<LogicalPlan>> {
    let none = DFSchema::empty();
    let bare = |e: &Expr, t: &DataType| match e {
        Expr::Cast(Cast { expr, data_type }) if data_type == t => (**expr).clone(),
        other => other.clone(),
    };
    let mut rows = v.values.clone();
    let mut changed = false;
    for (i, field) in v.schema.fields().iter().enumerate().filter(|(_, f)| is_decimal(f.data_type())) {
        let cells: Vec<Expr> = v.values.iter().map(|row| bare(&row[i], field.data_type())).collect();
        if cells.iter().any(|c| c.get_type(&none).is_ok_and(|t| t.is_floating())) {
            changed = true;
            rows.iter_mut().zip(cells).for_each(|(row, c)| row[i] = cast(c, DataType::Float64));
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(v)));
    }
    let names: Vec<Expr> = (1..).zip(v.schema.fields()).map(|(i, f)| col(ident_of(i)).alias(f.name())).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.project(names)?.build()?))
}

/// Name of a column of VALUES.
fn ident_of(i: usize) -> datafusion::common::Column {
    datafusion::common::Column::from_name(format!("column{i}"))
}

fn join(mut j: Join) -> DfResult<Join> {
    let (left, right) = (j.left.schema().clone(), j.right.schema().clone());
    for (l, r) in &mut j.on {
        if let (Ok(a), Ok(b)) = (l.get_type(&left), r.get_type(&right))
            && mixed([&a, &b])
        {
            *l = double(l.clone(), &a);
            *r = double(r.clone(), &b);
        }
    }
    Ok(j)
}
