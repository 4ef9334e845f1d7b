//! Plans `sqlparser` text over a set of already resolved tables, with Spark's types and operators.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::{TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, TableReference, config::ConfigOptions, plan_err};
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, GetFieldAccess, LogicalPlan, ScalarUDF, TableSource, WindowUDF, lit,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator};

use super::floats;
use super::range::range_table;
use crate::rowlevel::QueryPlanner;
use crate::{Error, Result};

/// Zone of `TIMESTAMP` values, as the `iceberg` crate words it in Arrow types.
pub const UTC: &str = "+00:00";

/// DataFusion's settings for Spark's text.
pub fn config() -> SessionConfig {
    let mut config = SessionConfig::new();
    let options = config.options_mut();
    options.execution.time_zone = Some(UTC.into());
    // identifiers are matched to columns before planning (see `bind`), so they are taken as they stand
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.support_varchar_with_length = true;
    // Spark: nulls come first when ascending, last when descending
    options.sql_parser.default_null_ordering = "nulls_min".into();
    config
}

/// A DataFusion session that reads Spark's types, operators, functions and `range`; `last_rule` sees every physical plan last.
pub fn context(
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    last_rule: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> SessionContext {
    super::parser::stack();
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_type_planner(Arc::new(SparkTypes))
        .with_default_features();
    if let Some(rule) = last_rule {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(SparkOperators));
    let ctx = SessionContext::new_with_state(builder.build());
    super::functions::register(&ctx);
    ctx.register_udtf("range", Arc::new(Range));
    ctx
}

#[derive(Debug)]
struct Range;

impl TableFunctionImpl for Range {
    fn call(&self, args: &[Expr]) -> DfResult<Arc<dyn TableProvider>> {
        range_table(args).map_err(DataFusionError::from)
    }
}

/// Tables by their one-part internal name, over a DataFusion session.
#[derive(Clone)]
pub struct Planner {
    ctx: SessionContext,
    state: SessionState,
    tables: HashMap<String, Arc<dyn TableProvider>>,
    expr_planners: Vec<Arc<dyn ExprPlanner>>,
    types: Arc<dyn TypePlanner>,
}

impl QueryPlanner for Planner {
    fn plan_with(&self, query: ast::Query, tables: &[(&'static str, Arc<dyn TableProvider>)]) -> Result<LogicalPlan> {
        let mut planner = self.clone();
        planner.tables.extend(tables.iter().map(|(name, table)| (name.to_string(), table.clone())));
        planner.plan_query(query)
    }

    fn context(&self) -> &SessionContext {
        &self.ctx
    }
}

impl Planner {
    /// A planner without tables.
    pub fn new(ctx: SessionContext) -> Self {
        let state = ctx.state();
        let expr_planners = state.expr_planners().to_vec();
        Self { ctx, state, tables: HashMap::new(), expr_planners, types: Arc::new(SparkTypes) }
    }

    /// The session that runs the plans.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Makes a table known under a name that queries use as it stands, here and in the session.
    pub fn register(&mut self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        self.ctx.register_table(TableReference::bare(name), table.clone())?;
        self.tables.insert(name.to_string(), table);
        Ok(())
    }

    /// Plans a query whose tables are registered (see [`super::bind`]).
    pub fn plan_query(&self, query: ast::Query) -> Result<LogicalPlan> {
        let planner = SqlToRel::new_with_options(self, self.parser_options());
        Ok(floats::in_plan(planner.sql_statement_to_plan(ast::Statement::Query(Box::new(query)))?)?)
    }

    /// Plans an expression over `schema`; subqueries may use registered tables.
    pub fn plan_expr(&self, expr: ast::Expr, schema: &DFSchema) -> Result<Expr> {
        let planner = SqlToRel::new_with_options(self, self.parser_options());
        Ok(floats::in_expr(planner.sql_to_expr(expr, schema, &mut PlannerContext::new())?, schema)?)
    }

    /// Value of an expression without columns.
    pub fn constant(&self, expr: ast::Expr) -> Result<datafusion::scalar::ScalarValue> {
        let text = expr.to_string();
        let e = self.plan_expr(expr, &DFSchema::empty())?;
        let simplified = self.simplify(e)?;
        match simplified {
            Expr::Literal(v, _) => Ok(v),
            _ => Err(Error::invalid(format!("expected a constant, found {text}"))),
        }
    }

    fn simplify(&self, e: Expr) -> DfResult<Expr> {
        let simplifier = ExprSimplifier::new(
            SimplifyContext::default()
                .with_config_options(self.state.config_options().clone())
                .with_query_execution_start_time(Some(chrono::Utc::now())),
        );
        let schema = DFSchema::empty();
        simplifier.simplify(simplifier.coerce(e, &schema)?)
    }

    fn parser_options(&self) -> ParserOptions {
        ParserOptions::from(&self.state.config_options().sql_parser)
    }
}

impl ContextProvider for Planner {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        match self.tables.get(name.table()) {
            Some(t) if name.schema().is_none() => Ok(provider_as_source(t.clone())),
            _ => plan_err!("table {name} not found"),
        }
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        if !name.eq_ignore_ascii_case("range") {
            return plan_err!("there is no table function {name:?}; allowed: range");
        }
        let args = args.into_iter().map(|a| self.simplify(a)).collect::<DfResult<Vec<_>>>()?;
        let table = range_table(&args).map_err(DataFusionError::from)?;
        Ok(Arc::new(DefaultTableSource::new(table)))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(datafusion::datasource::cte_worktable::CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expr_planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(self.types.clone())
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(&name.to_lowercase()).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(&name.to_lowercase()).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(&name.to_lowercase()).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// Spark's type names where DataFusion reads them otherwise: `TIMESTAMP` has a zone, all times are microseconds.
#[derive(Debug)]
struct SparkTypes;

impl TypePlanner for SparkTypes {
    fn plan_type(&self, ty: &ast::DataType) -> DfResult<Option<DataType>> {
        use ast::DataType as T;
        Ok(Some(match ty {
            T::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
            }
            T::Timestamp(_, ast::TimezoneInfo::WithoutTimeZone) | T::TimestampNtz(_) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            T::Time(_, _) => DataType::Time64(TimeUnit::Microsecond),
            T::String(_) => DataType::Utf8,
            T::TinyInt(_) | T::SmallInt(_) => DataType::Int32,
            T::Float(_) | T::Real => DataType::Float32,
            T::Double(_) => DataType::Float64,
            T::Binary(_) => DataType::Binary,
            T::Decimal(ast::ExactNumberInfo::None) | T::Dec(ast::ExactNumberInfo::None) => DataType::Decimal128(10, 0),
            T::Decimal(info) | T::Dec(info) | T::Numeric(info) => match info {
                ast::ExactNumberInfo::Precision(p) => decimal(*p, 0)?,
                ast::ExactNumberInfo::PrecisionAndScale(p, s) => decimal(*p, *s)?,
                ast::ExactNumberInfo::None => DataType::Decimal128(10, 0),
            },
            T::Custom(name, _) => match name.to_string().to_ascii_uppercase().as_str() {
                "TIMESTAMP_LTZ" => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
                "TIMESTAMP_NTZ" => DataType::Timestamp(TimeUnit::Microsecond, None),
                "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
                "TIMESTAMPTZ_NS" => DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())),
                "LONG" => DataType::Int64,
                "BYTE" | "SHORT" => DataType::Int32,
                "VOID" => DataType::Null,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }
}

fn decimal(precision: u64, scale: i64) -> DfResult<DataType> {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if s >= 0 && (s as u8) <= p => Ok(DataType::Decimal128(p, s)),
        _ => plan_err!("DECIMAL({precision},{scale}): precision is 1 to 38 and scale 0 to the precision"),
    }
}

/// `/` of integers is a double, and dividing by zero gives null.
#[derive(Debug)]
struct SparkOperators;

impl ExprPlanner for SparkOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let original = |left, right| Ok(PlannerResult::Original(RawBinaryExpr { op: op.clone(), left, right }));
        let integer_division = matches!(op, BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide);
        if !integer_division && !matches!(op, BinaryOperator::Divide | BinaryOperator::Modulo) {
            return original(left, right);
        }
        let (Ok(l), Ok(r)) = (left.get_type(schema), right.get_type(schema)) else {
            return original(left, right);
        };
        let nullable_right = if is_nonzero_literal(&right) {
            right
        } else {
            let zero = lit(0i32).cast_to(&r, schema).unwrap_or_else(|_| lit(0i32));
            datafusion::functions::core::expr_fn::nullif(right, zero)
        };
        let integers = (l.is_integer() || l.is_null()) && (r.is_integer() || r.is_null());
        Ok(PlannerResult::Planned(match op {
            BinaryOperator::Modulo => left % nullable_right,
            _ if integer_division => {
                let to_long = |e: Expr| e.cast_to(&DataType::Int64, schema);
                to_long(left)? / to_long(nullable_right)?
            }
            _ if integers => {
                left.cast_to(&DataType::Float64, schema)? / nullable_right.cast_to(&DataType::Float64, schema)?
            }
            _ => left / nullable_right,
        }))
    }

    // Spark counts the elements of an array from 0
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> DfResult<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = expr;
        match field_access {
            GetFieldAccess::ListIndex { key }
                if matches!(expr.get_type(schema)?, DataType::List(_) | DataType::LargeList(_)) =>
            {
                let from_one = *key + lit(1i64);
                Ok(PlannerResult::Planned(datafusion::functions_nested::expr_fn::array_element(expr, from_one)))
            }
            field_access => Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr })),
        }
    }
}

fn is_nonzero_literal(e: &Expr) -> bool {
    match e {
        Expr::Literal(v, _) => v
            .cast_to(&DataType::Float64)
            .is_ok_and(|v| matches!(v, datafusion::scalar::ScalarValue::Float64(Some(f)) if f != 0.0)),
        Expr::Cast(c) => is_nonzero_literal(&c.expr),
        _ => false,
    }
}
