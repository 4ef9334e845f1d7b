//! Statements that change rows: names are resolved here, the row-level module does the rest.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, Values};
use iceberg::spec::MAIN_BRANCH;

use super::ast::{Assignment, Delete, Insert, Merge, MergeAction, MergeKind, Name, Update};
use super::bind::Binder;
use super::session::{Located, Session, StatementResult, Suffix};
use crate::rowlevel::{self, InsertMode, MergeClause, MergeStatement, Target};
use crate::scan::IcebergTableProvider;
use crate::{Error, Result, Table};

/// Reads a table; `old_schema` reads with the snapshot's schema instead of the table's, `hidden` adds the metadata columns.
pub(super) fn scan(
    table: Table,
    snapshot: Option<i64>,
    old_schema: bool,
    hidden: bool,
) -> Result<Arc<dyn TableProvider>> {
    if old_schema {
        return IcebergTableProvider::try_new(table, snapshot, hidden);
    }
    let schema = table.metadata().current_schema().clone();
    Ok(Arc::new(IcebergTableProvider::with_schema(table, snapshot, schema, hidden)?))
}

/// The table and branch that a statement writes to.
async fn target(session: &Session, name: &Name) -> Result<Target> {
    let Located { table, suffix } = session.locate(name).await?;
    let branch = match suffix {
        None => MAIN_BRANCH.to_string(),
        Some(Suffix::Branch(b)) => b,
        Some(Suffix::Tag(t)) => {
            return Err(Error::invalid(format!("tag {t} can't be written to; branches can")).at(table.ident()));
        }
        Some(Suffix::Metadata(_)) => {
            return Err(Error::invalid("a metadata table can't be written to").at(name.join(".")));
        }
    };
    Ok(Target { table, branch, alias: String::new() })
}

/// A target whose columns the binder knows; expressions are bound after this.
pub(super) fn bind_target(
    binder: &mut Binder<'_>,
    target: &mut Target,
    name: &Name,
    alias: Option<&str>,
) -> Result<()> {
    let provider = target.provider()?;
    target.alias = binder.add_target(name, alias, provider.schema().fields());
    Ok(())
}

/// Path of an assigned column without the table's name or alias in front.
fn column_path(a: &Assignment, target: &Target, name: &Name) -> Vec<String> {
    let schema = target.table.metadata().current_schema();
    let is_column = |p: &str| schema.as_struct().fields().iter().any(|f| f.name.eq_ignore_ascii_case(p));
    let path = &a.target;
    let qualified = |prefix: &[String]| {
        path.len() > prefix.len() && prefix.iter().zip(path).all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    if !is_column(&path[0]) || path.len() > 1 {
        if qualified(std::slice::from_ref(&target.alias)) && is_column(&path[1]) {
            return path[1..].to_vec();
        }
        for start in 0..name.len() {
            if qualified(&name[start..]) {
                return path[name.len() - start..].to_vec();
            }
        }
    }
    path.clone()
}

async fn assignments(
    binder: &mut Binder<'_>,
    list: Vec<Assignment>,
    target: &Target,
    name: &Name,
) -> Result<Vec<rowlevel::Assignment>> {
    let mut out = Vec::with_capacity(list.len());
    for mut a in list {
        let path = column_path(&a, target, name);
        bind_value(binder, &mut a.value).await?;
        out.push(rowlevel::Assignment { path, value: a.value });
    }
    Ok(out)
}

/// Binds a value; the bare keyword DEFAULT is left for the row-level module.
async fn bind_value(binder: &mut Binder<'_>, e: &mut Expr) -> Result<()> {
    match e {
        Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default") => Ok(()),
        e => binder.bind_expr(e).await,
    }
}

/// Appends the rows of a query to a table: `CREATE TABLE … AS`.
pub(super) async fn append_query(session: &Session, table: &Name, query: Box<Query>) -> Result<()> {
    run_insert(session, table, query, None, false, &[], InsertMode::Append).await
}

/// `INSERT INTO|OVERWRITE`.
pub(super) async fn insert(session: &mut Session, insert: Insert) -> Result<StatementResult> {
    let Insert { table, overwrite, columns, by_name, partition, source } = insert;
    let mode = match (overwrite, session.dynamic_overwrite()) {
        (false, _) => InsertMode::Append,
        (true, true) => InsertMode::OverwritePartitions,
        (true, false) => InsertMode::OverwriteAll,
    };
    run_insert(session, &table, source, columns, by_name, &partition, mode).await?;
    Ok(StatementResult::none())
}

async fn run_insert(
    session: &Session,
    name: &Name,
    mut query: Box<Query>,
    columns: Option<Vec<String>>,
    by_name: bool,
    partition: &[(String, Option<Expr>)],
    mode: InsertMode,
) -> Result<()> {
    let target = target(session, name).await?;
    if !partition.is_empty() {
        return Err(Error::unsupported(
            "INSERT … PARTITION (…): give the values as columns of the query; \
             `SET spark.sql.sources.partitionOverwriteMode = dynamic` replaces just the partitions that get rows",
        )
        .at(target.table.ident()));
    }
    let mut binder = Binder::new(session);
    let columns = match columns {
        Some(c) => {
            super::values::fill_defaults(&mut query, &c, &target)?;
            Some(c)
        }
        None => {
            let all: Vec<String> =
                target.table.metadata().current_schema().as_struct().fields().iter().map(|f| f.name.clone()).collect();
            super::values::fill_defaults(&mut query, &all, &target)?;
            None
        }
    };
    // outputs get names of their own, so that equal expressions do not clash
    binder.bind_output(&mut query).await?;
    let plan = match binder.planner().plan_query(query.as_ref().clone()) {
        Ok(plan) => plan,
        // rows such as `struct(1)` and `struct(NULL)` have no common type until each is cast to the table's
        Err(e) => match (query.body.as_ref(), &columns) {
            (SetExpr::Values(values), None) if values.rows.len() > 1 => {
                rows_apart(&binder, values, &target).await.map_err(|_| e)?
            }
            _ => return Err(e),
        },
    };
    let columns = match (columns, by_name) {
        (None, true) => Some(plan.schema().fields().iter().map(|f| f.name().clone()).collect()),
        (c, _) => c,
    };
    rowlevel::insert(binder.planner(), &target, plan, columns.as_deref(), mode).await?;
    Ok(())
}

/// Plans each literal row by itself.
async fn rows_apart(binder: &Binder<'_>, values: &Values, target: &Target) -> Result<LogicalPlan> {
    let mut plans = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let one = Values { rows: vec![row.clone()], ..values.clone() };
        plans.push(binder.planner().plan_query(super::values::query_of(one)?)?);
    }
    rowlevel::literal_rows(binder.planner(), target, plans).await
}

/// `DELETE FROM`.
pub(super) async fn delete(session: &mut Session, delete: Delete) -> Result<StatementResult> {
    let mut target = target(session, &delete.table).await?;
    let mut binder = Binder::new(session);
    bind_target(&mut binder, &mut target, &delete.table, delete.alias.as_deref())?;
    let mut selection = delete.selection;
    if let Some(e) = &mut selection {
        binder.bind_expr(e).await?;
    }
    rowlevel::delete(binder.planner(), &target, selection).await?;
    Ok(StatementResult::none())
}

/// `UPDATE`.
pub(super) async fn update(session: &mut Session, update: Update) -> Result<StatementResult> {
    let mut target = target(session, &update.table).await?;
    let mut binder = Binder::new(session);
    bind_target(&mut binder, &mut target, &update.table, update.alias.as_deref())?;
    let set = assignments(&mut binder, update.assignments, &target, &update.table).await?;
    let mut selection = update.selection;
    if let Some(e) = &mut selection {
        binder.bind_expr(e).await?;
    }
    rowlevel::update(binder.planner(), &target, &set, selection).await?;
    Ok(StatementResult::none())
}

/// `MERGE INTO`.
pub(super) async fn merge(session: &mut Session, merge: Merge) -> Result<StatementResult> {
    let Merge { target: name, alias, mut source, mut on, clauses } = merge;
    let mut target = target(session, &name).await?;
    let mut binder = Binder::new(session);
    binder.bind_factor(&mut source).await?;
    let source_alias = take_alias(&mut source)?;
    bind_target(&mut binder, &mut target, &name, alias.as_deref())?;
    if source_alias.eq_ignore_ascii_case(&target.alias) {
        return Err(Error::invalid(format!(
            "MERGE: target and source are both called {source_alias}; give one an alias"
        ))
        .at(target.table.ident()));
    }
    binder.bind_expr(&mut on).await?;
    let mut statement = MergeStatement {
        source,
        source_alias,
        on,
        matched: Vec::new(),
        not_matched: Vec::new(),
        not_matched_by_source: Vec::new(),
    };
    for mut c in clauses {
        if let Some(e) = &mut c.condition {
            binder.bind_expr(e).await?;
        }
        let action = match c.action {
            MergeAction::UpdateAll => rowlevel::MergeAction::UpdateAll,
            MergeAction::Update(list) => {
                rowlevel::MergeAction::Update(assignments(&mut binder, list, &target, &name).await?)
            }
            MergeAction::Delete => rowlevel::MergeAction::Delete,
            MergeAction::InsertAll => rowlevel::MergeAction::InsertAll,
            MergeAction::Insert { columns, mut values } => {
                for v in &mut values {
                    bind_value(&mut binder, v).await?;
                }
                rowlevel::MergeAction::Insert(columns, values)
            }
        };
        let list = match c.kind {
            MergeKind::Matched => &mut statement.matched,
            MergeKind::NotMatched => &mut statement.not_matched,
            MergeKind::NotMatchedBySource => &mut statement.not_matched_by_source,
        };
        list.push(MergeClause { condition: c.condition, action });
    }
    rowlevel::merge(binder.planner(), &target, &statement).await?;
    Ok(StatementResult::none())
}

/// The alias of a bound source, taken off it: the row-level module gives its own.
fn take_alias(source: &mut TableFactor) -> Result<String> {
    let alias = match source {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. } => alias,
        other => return Err(Error::invalid(format!("MERGE: {other} can't be a source; allowed: a table or a query"))),
    };
    match alias.as_ref() {
        Some(a) if a.columns.is_empty() => Ok(a.name.value.clone()),
        Some(a) => Err(Error::unsupported(format!("MERGE: column aliases in {a}; name the columns in the query"))),
        None => Err(Error::invalid("MERGE: the source needs an alias")),
    }
}

/// `TRUNCATE TABLE`.
pub(super) async fn truncate(session: &mut Session, table: &Name) -> Result<StatementResult> {
    let target = target(session, table).await?;
    rowlevel::truncate(&target).await?;
    Ok(StatementResult::none())
}
