//! A session: a catalog, a current namespace, temporary views, settings; runs statements one by one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Query;
use iceberg::{NamespaceIdent, TableIdent};

use super::ast::{Name, Statement};
use super::bind::{Binder, METADATA_COLUMNS};
use super::metadata_tables::{self, MetadataTable};
use super::parser::parse;
use super::split::split;
use super::{ddl, dml, procedures, show};
use crate::catalog::Catalog;
use crate::{Error, ErrorKind, Result, Table};

/// Name of a catalog that has no other.
pub const DEFAULT_NAME: &str = "ice";

/// Rows of a statement; a statement without rows has no schema.
#[derive(Debug, Clone, Default)]
pub struct StatementResult {
    /// Columns, if the statement gives rows.
    pub schema: Option<SchemaRef>,
    /// Rows.
    pub batches: Vec<RecordBatch>,
}

impl StatementResult {
    /// No rows: DDL and DML.
    pub fn none() -> Self {
        Self::default()
    }

    /// Rows of `schema`.
    pub fn rows(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema: Some(schema), batches }
    }

    /// One batch.
    pub fn batch(batch: RecordBatch) -> Self {
        Self { schema: Some(batch.schema()), batches: vec![batch] }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A temporary view.
#[derive(Debug, Clone)]
pub enum View {
    /// A query, planned anew at each use: it sees the tables as they are then.
    Query {
        /// As parsed.
        query: Box<Query>,
        /// New names of its columns, if given.
        columns: Vec<String>,
    },
    /// Rows of a provider, e.g. a changelog.
    Rows(Arc<dyn TableProvider>),
}

/// Which version of a table is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// A snapshot.
    Snapshot(i64),
    /// Head of a branch, or a tag.
    Ref(String),
    /// The snapshot that was current at this time, milliseconds since the epoch.
    TimestampMs(i64),
}

/// A table that a name was found to mean.
#[derive(Debug, Clone)]
pub struct Located {
    /// The table.
    pub table: Table,
    /// What the name says after the table.
    pub suffix: Option<Suffix>,
}

/// Last part of a name that is no table's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suffix {
    /// `.snapshots` and the like.
    Metadata(MetadataTable),
    /// `.branch_x`.
    Branch(String),
    /// `.tag_x`.
    Tag(String),
}

/// A SQL session. Statements run in order; each sees the tables as they are when it starts.
#[derive(Debug)]
pub struct Session {
    catalog: Arc<dyn Catalog>,
    name: String,
    pub(super) namespace: NamespaceIdent,
    views: HashMap<String, View>,
    settings: BTreeMap<String, String>,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    last_rule: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl Session {
    /// A session over a catalog, which statements may call by `name` (`name.ns.t`, `CALL name.system.…`). The current
    /// namespace is `default`.
    pub fn new(catalog: Arc<dyn Catalog>, name: impl Into<String>) -> Self {
        let mut config = super::planner::config();
        let options = config.options_mut();
        // writers rely on the partitions that a query's source has
        options.optimizer.enable_round_robin_repartition = false;
        Self {
            catalog,
            name: name.into(),
            namespace: NamespaceIdent::new("default".into()),
            views: HashMap::new(),
            settings: BTreeMap::new(),
            config,
            runtime: Arc::new(RuntimeEnv::default()),
            last_rule: None,
        }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.catalog
    }

    /// The catalog's name in statements.
    pub fn catalog_name(&self) -> &str {
        &self.name
    }

    /// The current namespace.
    pub fn namespace(&self) -> &NamespaceIdent {
        &self.namespace
    }

    /// Makes a namespace current; it need not exist yet.
    pub fn set_namespace(&mut self, ns: NamespaceIdent) {
        self.namespace = ns;
    }

    /// DataFusion's settings of new statements.
    pub fn config_mut(&mut self) -> &mut SessionConfig {
        &mut self.config
    }

    /// A rule that sees every physical plan of a statement last, and may have it run elsewhere.
    pub fn set_last_rule(&mut self, rule: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
        self.last_rule = rule;
    }

    /// The rule of [`Session::set_last_rule`].
    pub fn last_rule(&self) -> Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        self.last_rule.clone()
    }

    /// Value of a `SET key = value`; keys are matched without regard to case.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(&key.to_lowercase()).map(String::as_str)
    }

    /// The settings, keys in lower case.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Whether `INSERT OVERWRITE` replaces only the partitions it writes.
    pub fn dynamic_overwrite(&self) -> bool {
        ["spark.sql.sources.partitionoverwritemode", "partitionoverwritemode"]
            .iter()
            .any(|k| self.setting(k).is_some_and(|v| v.eq_ignore_ascii_case("dynamic")))
    }

    /// A temporary view.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.get(&name.to_lowercase())
    }

    /// Makes or replaces a temporary view.
    pub fn register_view(&mut self, name: &str, view: View) {
        self.views.insert(name.to_lowercase(), view);
    }

    /// Drops a temporary view; whether it was there.
    pub fn drop_view(&mut self, name: &str) -> bool {
        self.views.remove(&name.to_lowercase()).is_some()
    }

    /// Names of the temporary views, sorted.
    pub fn view_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.views.keys().cloned().collect();
        names.sort();
        names
    }

    /// A fresh DataFusion session that reads Spark's types, operators, functions and `range`.
    pub fn context(&self) -> SessionContext {
        super::planner::context(self.config.clone(), self.runtime.clone(), self.last_rule.clone())
    }

    /// Runs a script. The first statement that fails ends it: the error names its number, line and text; what the
    /// statements before it did stays.
    pub async fn execute(&mut self, script: &str) -> Result<Vec<StatementResult>> {
        let mut out = Vec::new();
        for (n, piece) in split(script).into_iter().enumerate() {
            let result = self.execute_one(piece.text).await;
            out.push(result.map_err(|e| in_statement(&e, n + 1, piece.line, piece.text))?);
        }
        Ok(out)
    }

    /// Runs one statement.
    pub async fn execute_one(&mut self, sql: &str) -> Result<StatementResult> {
        let statement = parse(sql)?;
        self.run(statement).await
    }

    /// Runs a parsed statement.
    pub async fn run(&mut self, statement: Statement) -> Result<StatementResult> {
        match statement {
            Statement::Query(query) => self.query(*query).await,
            Statement::Explain(query) => show::explain(self, *query).await,
            Statement::Use { name } => {
                let ns = self.namespace_ident(&name)?;
                if !self.catalog.namespace_exists(&ns).await? {
                    return Err(Error::not_found(format!("namespace {} does not exist", ns.join("."))));
                }
                self.namespace = ns;
                Ok(StatementResult::none())
            }
            Statement::Set { key, value } => self.set(key, value),
            Statement::CreateView { name, or_replace, if_not_exists, temporary, columns, query } => {
                let [name] = name.as_slice() else {
                    return Err(no_stored_views(&name));
                };
                if !temporary {
                    return Err(no_stored_views(std::slice::from_ref(name)));
                }
                if self.view(name).is_some() && if_not_exists {
                    return Ok(StatementResult::none());
                }
                if self.view(name).is_some() && !or_replace {
                    let message = "the view exists; CREATE OR REPLACE TEMPORARY VIEW replaces it";
                    return Err(Error::new(ErrorKind::AlreadyExists, message).at(name));
                }
                self.create_view(name, columns, query).await
            }
            Statement::DropView { name, if_exists } => {
                let dropped = match name.as_slice() {
                    [one] => self.drop_view(one),
                    _ => false,
                };
                if !dropped && !if_exists {
                    return Err(Error::not_found("there is no such temporary view").at(name.join(".")));
                }
                Ok(StatementResult::none())
            }
            Statement::Insert(s) => dml::insert(self, *s).await,
            Statement::Delete(s) => dml::delete(self, *s).await,
            Statement::Update(s) => dml::update(self, *s).await,
            Statement::Merge(s) => dml::merge(self, *s).await,
            Statement::Truncate { table } => dml::truncate(self, &table).await,
            Statement::Call(call) => procedures::call(self, *call).await,
            Statement::ShowNamespaces { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowProperties { .. }
            | Statement::ShowCreate { .. }
            | Statement::Describe { .. }
            | Statement::DescribeNamespace { .. } => show::show(self, statement).await,
            ddl => ddl::run(self, ddl).await,
        }
    }

    /// Runs a query.
    pub async fn query(&self, mut query: Query) -> Result<StatementResult> {
        let mut binder = Binder::new(self);
        binder.bind_output(&mut query).await?;
        let plan = binder.planner().plan_query(query)?;
        let frame = binder.planner().context().execute_logical_plan(plan).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        // the physical plan may know more about nullability than the logical one
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        Ok(StatementResult::rows(schema, batches))
    }

    async fn create_view(&mut self, name: &str, columns: Vec<String>, query: Box<Query>) -> Result<StatementResult> {
        // planned once now, under a name of its own, so that a wrong query is refused here
        let before = self.views.remove(&name.to_lowercase());
        let view = View::Query { query, columns };
        let View::Query { query, .. } = &view else {
            return Err(Error::internal("view"));
        };
        let mut probe = query.as_ref().clone();
        let mut binder = Binder::new(self);
        let planned = match binder.bind_query(&mut probe).await {
            Ok(()) => binder.planner().plan_query(probe).map(|_| ()),
            Err(e) => Err(e),
        };
        if let Err(e) = planned {
            if let Some(view) = before {
                self.register_view(name, view);
            }
            return Err(e);
        }
        self.register_view(name, view);
        Ok(StatementResult::none())
    }

    fn set(&mut self, key: Option<String>, value: Option<String>) -> Result<StatementResult> {
        match (key, value) {
            (Some(key), Some(value)) => {
                self.settings.insert(key.to_lowercase(), value);
                Ok(StatementResult::none())
            }
            (Some(key), None) => {
                let value = self.setting(&key).unwrap_or("<undefined>").to_string();
                show::pairs(("key", "value"), [(key, value)])
            }
            (None, _) => show::pairs(("key", "value"), self.settings.clone()),
        }
    }

    // ---- names

    /// Parts of a name without the catalog's in front: this session's name, or `ice`, which scripts for Spark use.
    fn without_catalog<'n>(&self, name: &'n [String]) -> &'n [String] {
        match name {
            [first, rest @ ..]
                if !rest.is_empty()
                    && (first.eq_ignore_ascii_case(&self.name) || first.eq_ignore_ascii_case(DEFAULT_NAME)) =>
            {
                rest
            }
            name => name,
        }
    }

    /// The namespace that a statement names.
    pub fn namespace_ident(&self, name: &[String]) -> Result<NamespaceIdent> {
        let parts = self.without_catalog(name);
        NamespaceIdent::from_strs(parts).map_err(Error::from)
    }

    /// The table that a statement names, whether it exists or not.
    pub fn table_ident(&self, name: &[String]) -> Result<TableIdent> {
        match self.without_catalog(name) {
            [table] => Ok(TableIdent::new(self.namespace.clone(), table.clone())),
            [ns @ .., table] => Ok(TableIdent::new(NamespaceIdent::from_strs(ns)?, table.clone())),
            [] => Err(Error::invalid("the name of the table is empty")),
        }
    }

    /// The existing table that a statement names, without a metadata table or ref after it.
    pub async fn table(&self, name: &[String]) -> Result<Table> {
        self.catalog.clone().load_table(&self.table_ident(name)?).await
    }

    /// The table that a name means, and what the name says after it (`.snapshots`, `.branch_x`, `.tag_x`).
    pub async fn locate(&self, name: &[String]) -> Result<Located> {
        let ident = self.table_ident(name)?;
        let missing = match self.catalog.clone().load_table(&ident).await {
            Ok(table) => {
                return Ok(Located { table, suffix: None });
            }
            Err(e) if e.kind() == ErrorKind::NotFound => e,
            Err(e) => return Err(e),
        };
        let parts = self.without_catalog(name);
        if let [base @ .., last] = parts
            && !base.is_empty()
            && let Some(suffix) = Suffix::parse(last)
        {
            let table = match self.catalog.clone().load_table(&self.table_ident(base)?).await {
                Ok(table) => table,
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
                Err(e) => return Err(e),
            };
            return Ok(Located { table, suffix: Some(suffix) });
        }
        Err(missing)
    }

    /// Snapshot of a version; `None` when the table has no snapshot yet and none is asked for.
    pub fn snapshot_of(
        &self,
        table: &Table,
        version: Option<&Version>,
        suffix: Option<&Suffix>,
    ) -> Result<Option<i64>> {
        let named = |name: &str, kind: &str| {
            table
                .snapshot_of_ref(name)
                .map(|s| Some(s.snapshot_id()))
                .ok_or_else(|| Error::not_found(format!("table has no {kind} {name:?}")).at(table.ident()))
        };
        match (version, suffix) {
            (Some(_), Some(Suffix::Branch(_) | Suffix::Tag(_))) => {
                Err(Error::invalid("a name with .branch_ or .tag_ has no further version").at(table.ident()))
            }
            (None, Some(Suffix::Branch(name))) => named(name, "branch"),
            (None, Some(Suffix::Tag(name))) => named(name, "tag"),
            (None, _) => Ok(table.metadata().current_snapshot_id()),
            (Some(Version::Ref(name)), _) => named(name, "branch or tag"),
            (Some(Version::Snapshot(id)), _) => match table.metadata().snapshot_by_id(*id) {
                Some(_) => Ok(Some(*id)),
                None => Err(Error::not_found(format!("table has no snapshot {id}")).at(table.ident())),
            },
            (Some(Version::TimestampMs(ms)), _) => {
                let at = table.metadata().history().iter().rev().find(|l| l.timestamp_ms <= *ms);
                at.map(|l| Some(l.snapshot_id)).ok_or_else(|| {
                    Error::not_found(format!("table has no snapshot as old as {ms} ms")).at(table.ident())
                })
            }
        }
    }

    /// Provider of a table, a version of it, or one of its metadata tables; and the hidden columns that it shows.
    pub(super) async fn provider(
        &self,
        name: &Name,
        version: Option<&Version>,
        hidden: bool,
    ) -> Result<(Arc<dyn TableProvider>, Vec<String>)> {
        let Located { table, suffix } = self.locate(name).await?;
        let snapshot = self.snapshot_of(&table, version, suffix.as_ref())?;
        if let Some(Suffix::Metadata(kind)) = suffix {
            return Ok((metadata_tables::provider(&table, kind, snapshot).await?, Vec::new()));
        }
        // a version is read with the schema of its time, a branch with the table's
        let old_schema = version.is_some() || matches!(suffix, Some(Suffix::Tag(_)));
        let provider = dml::scan(table, snapshot, old_schema, hidden)?;
        let schema = provider.schema();
        let shown = METADATA_COLUMNS.iter().filter(|c| hidden && schema.column_with_name(c).is_some());
        Ok((provider, shown.map(ToString::to_string).collect()))
    }
}

impl Suffix {
    fn parse(part: &str) -> Option<Self> {
        if let Some(kind) = MetadataTable::parse(part) {
            return Some(Self::Metadata(kind));
        }
        if let Some(name) = part.strip_prefix("branch_") {
            return Some(Self::Branch(name.to_string()));
        }
        part.strip_prefix("tag_").map(|name| Self::Tag(name.to_string()))
    }
}

fn no_stored_views(name: &[String]) -> Error {
    Error::unsupported("catalogs of floe hold no views; use CREATE [OR REPLACE] TEMPORARY VIEW with a one-part name")
        .at(name.join("."))
}

/// The error of a statement in a script.
pub fn in_statement(e: &Error, number: usize, line: usize, text: &str) -> Error {
    let short: String = text.chars().take(200).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    let mut out = Error::new(e.kind(), format!("statement {number} (line {line}): {short}{dots}\n{}", e.message()));
    if let Some(place) = e.place() {
        out = out.at(place);
    }
    if let Some(clause) = e.clause_id() {
        out = out.clause(clause);
    }
    out
}

/// Milliseconds since the epoch of a constant time: a timestamp, a date, a string of one, or a number of seconds.
pub(super) fn timestamp_ms(value: &ScalarValue) -> Option<i64> {
    let value = match value {
        ScalarValue::Int32(Some(s)) => return i64::from(*s).checked_mul(1000),
        ScalarValue::Int64(Some(s)) => return s.checked_mul(1000),
        v => v,
    };
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some(super::planner::UTC.into()));
    match value.cast_to(&micros) {
        Ok(ScalarValue::TimestampMicrosecond(Some(us), _)) => Some(us.div_euclid(1000)),
        _ => None,
    }
}
