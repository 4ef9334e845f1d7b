//! Statements as parsed. Expressions and queries are `sqlparser`'s.

use datafusion::sql::sqlparser::ast;
use iceberg::spec::Transform;

/// Parts of a name as written, quotes taken off.
pub type Name = Vec<String>;

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `SELECT`, `WITH`, `VALUES`, `TABLE`.
    Query(Box<ast::Query>),
    /// `EXPLAIN query`.
    Explain(Box<ast::Query>),
    /// `CREATE NAMESPACE|DATABASE|SCHEMA`.
    CreateNamespace { name: Name, if_not_exists: bool, properties: Vec<(String, String)> },
    /// `DROP NAMESPACE|DATABASE|SCHEMA`.
    DropNamespace { name: Name, if_exists: bool, cascade: bool },
    /// `SHOW NAMESPACES|DATABASES|SCHEMAS [IN parent]`.
    ShowNamespaces { parent: Option<Name> },
    /// `SHOW TABLES [IN namespace]`.
    ShowTables { namespace: Option<Name> },
    /// `SHOW TBLPROPERTIES t [('key')]`.
    ShowProperties { table: Name, key: Option<String> },
    /// `SHOW CREATE TABLE t`.
    ShowCreate { table: Name },
    /// `DESCRIBE [TABLE] [EXTENDED] t`.
    Describe { table: Name, extended: bool },
    /// `DESCRIBE NAMESPACE n`.
    DescribeNamespace { name: Name },
    /// `USE [NAMESPACE] n`.
    Use { name: Name },
    /// `CREATE [OR REPLACE] TABLE`, `REPLACE TABLE`.
    CreateTable(Box<CreateTable>),
    /// `DROP TABLE`.
    DropTable { table: Name, if_exists: bool, purge: bool },
    /// `CREATE [OR REPLACE] [TEMPORARY] VIEW`.
    CreateView {
        name: Name,
        or_replace: bool,
        if_not_exists: bool,
        temporary: bool,
        columns: Vec<String>,
        query: Box<ast::Query>,
    },
    /// `DROP VIEW`.
    DropView { name: Name, if_exists: bool },
    /// `INSERT`.
    Insert(Box<Insert>),
    /// `DELETE`.
    Delete(Box<Delete>),
    /// `UPDATE`.
    Update(Box<Update>),
    /// `MERGE`.
    Merge(Box<Merge>),
    /// `TRUNCATE TABLE`.
    Truncate { table: Name },
    /// `ALTER TABLE`.
    AlterTable { table: Name, action: AlterAction },
    /// `CALL [catalog.]system.procedure(…)`.
    Call(Box<Call>),
    /// `SET key = value`, `SET key`, `SET`.
    Set { key: Option<String>, value: Option<String> },
}

/// A column type (TYPE-*).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SqlType {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal(u32, u32),
    Date,
    Time,
    /// Without zone, microseconds.
    TimestampNtz,
    /// With zone, microseconds: Spark's `TIMESTAMP`.
    Timestamp,
    /// Without zone, nanoseconds.
    TimestampNs,
    /// With zone, nanoseconds.
    TimestamptzNs,
    String,
    Binary,
    Uuid,
    Fixed(u64),
    Struct(Vec<SqlField>),
    List(Box<SqlType>),
    Map(Box<SqlType>, Box<SqlType>),
    Variant,
    Unknown,
    /// The type as table metadata words it.
    Geometry(String),
    /// The type as table metadata words it.
    Geography(String),
}

/// A field of a struct type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlField {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: SqlType,
    /// `NOT NULL`.
    pub required: bool,
    /// `COMMENT`.
    pub comment: Option<String>,
}

/// A column of `CREATE TABLE` or `ADD COLUMN`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Name; more than one part in `ADD COLUMN` of a nested field.
    pub path: Name,
    /// Type.
    pub ty: SqlType,
    /// `NOT NULL`.
    pub required: bool,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `DEFAULT`.
    pub default: Option<ast::Expr>,
    /// `FIRST` or `AFTER`, in `ADD COLUMN`.
    pub position: Option<Position>,
}

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before its siblings.
    First,
    /// After the named sibling.
    After(String),
}

/// A partition or sort term: a transform of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Transform.
    pub transform: Transform,
    /// Path of the source column.
    pub column: Name,
}

/// `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Name.
    pub table: Name,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `OR REPLACE`, or `REPLACE TABLE`.
    pub replace: bool,
    /// Whether a table that is not there may be created: false for `REPLACE TABLE`.
    pub create: bool,
    /// Columns; empty when the query gives them.
    pub columns: Vec<ColumnDef>,
    /// `USING`.
    pub using: Option<String>,
    /// `PARTITIONED BY`.
    pub partitioned_by: Vec<Term>,
    /// `LOCATION`.
    pub location: Option<String>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `TBLPROPERTIES` and `OPTIONS`.
    pub properties: Vec<(String, String)>,
    /// `AS query`.
    pub query: Option<Box<ast::Query>>,
}

/// `INSERT INTO|OVERWRITE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Target.
    pub table: Name,
    /// `OVERWRITE`.
    pub overwrite: bool,
    /// Listed columns, if any.
    pub columns: Option<Vec<String>>,
    /// `BY NAME`.
    pub by_name: bool,
    /// `PARTITION (a = 1, b)`: static values and dynamic columns.
    pub partition: Vec<(String, Option<ast::Expr>)>,
    /// Rows; a value may be the identifier `DEFAULT`.
    pub source: Box<ast::Query>,
}

/// `DELETE FROM`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Target.
    pub table: Name,
    /// Its alias.
    pub alias: Option<String>,
    /// `WHERE`.
    pub selection: Option<ast::Expr>,
}

/// `col[.nested] = expression`; the expression may be the identifier `DEFAULT`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Path as written: it may start with the table's name or alias.
    pub target: Name,
    /// Value.
    pub value: ast::Expr,
}

/// `UPDATE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Target.
    pub table: Name,
    /// Its alias.
    pub alias: Option<String>,
    /// `SET`.
    pub assignments: Vec<Assignment>,
    /// `WHERE`.
    pub selection: Option<ast::Expr>,
}

/// `MERGE INTO`.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// Target.
    pub target: Name,
    /// Its alias.
    pub alias: Option<String>,
    /// Source: a table or a query, with its alias.
    pub source: ast::TableFactor,
    /// `ON`.
    pub on: ast::Expr,
    /// Clauses in order: the first that applies to a row wins.
    pub clauses: Vec<MergeClause>,
}

/// A `WHEN` clause.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeClause {
    /// Which rows.
    pub kind: MergeKind,
    /// `AND condition`.
    pub condition: Option<ast::Expr>,
    /// What happens to them.
    pub action: MergeAction,
}

/// Rows of a `WHEN` clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeKind {
    /// Rows of both.
    Matched,
    /// Rows of the source alone.
    NotMatched,
    /// Rows of the target alone.
    NotMatchedBySource,
}

/// Action of a `WHEN` clause.
#[derive(Debug, Clone, PartialEq)]
pub enum MergeAction {
    /// `UPDATE SET *`: all columns by name.
    UpdateAll,
    /// `UPDATE SET …`.
    Update(Vec<Assignment>),
    /// `DELETE`.
    Delete,
    /// `INSERT *`: all columns by name.
    InsertAll,
    /// `INSERT (columns) VALUES (values)`; no columns = all, in order.
    Insert { columns: Vec<String>, values: Vec<ast::Expr> },
}

/// An action of `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// `SET TBLPROPERTIES`.
    SetProperties(Vec<(String, String)>),
    /// `UNSET TBLPROPERTIES [IF EXISTS]`.
    UnsetProperties { keys: Vec<String>, if_exists: bool },
    /// `SET LOCATION`.
    SetLocation(String),
    /// `ADD COLUMN(S) [IF NOT EXISTS]`.
    AddColumns { columns: Vec<ColumnDef>, if_not_exists: bool },
    /// `DROP COLUMN(S) [IF EXISTS]`.
    DropColumns { paths: Vec<Name>, if_exists: bool },
    /// `RENAME COLUMN a TO b`.
    RenameColumn { path: Name, to: String },
    /// `ALTER|CHANGE COLUMN`.
    AlterColumn { path: Name, change: ColumnChange },
    /// `RENAME TO`.
    RenameTable(Name),
    /// `ADD PARTITION FIELD term [AS name]`.
    AddPartitionField { term: Term, name: Option<String> },
    /// `DROP PARTITION FIELD`: a term, or the field's name (then an identity term of that name).
    DropPartitionField(Term),
    /// `REPLACE PARTITION FIELD a WITH term [AS name]`.
    ReplacePartitionField { from: Term, to: Term, name: Option<String> },
    /// `WRITE …`: the sort order, and `write.distribution-mode` if the words say one.
    WriteOrder { terms: Vec<SortTerm>, distribution: Option<&'static str> },
    /// `SET IDENTIFIER FIELDS`.
    SetIdentifierFields(Vec<Name>),
    /// `DROP IDENTIFIER FIELDS`.
    DropIdentifierFields(Vec<Name>),
    /// `CREATE [OR REPLACE]|REPLACE BRANCH|TAG`.
    SetRef(SetRef),
    /// `DROP BRANCH|TAG`.
    DropRef { branch: bool, name: String, if_exists: bool },
}

/// A change of one column.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum ColumnChange {
    Type(SqlType),
    Comment(String),
    Position(Position),
    SetNotNull,
    DropNotNull,
    SetDefault(ast::Expr),
    DropDefault,
}

/// A term of a sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortTerm {
    /// What is sorted by.
    pub term: Term,
    /// `DESC`.
    pub descending: bool,
    /// `NULLS FIRST|LAST`; the default is first for ascending, last for descending.
    pub nulls_first: bool,
}

/// `CREATE|REPLACE BRANCH|TAG`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRef {
    /// A branch, else a tag.
    pub branch: bool,
    /// Name.
    pub name: String,
    /// A new ref may be made.
    pub create: bool,
    /// An existing ref may be moved.
    pub replace: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `AS OF VERSION`; the current snapshot without it.
    pub snapshot_id: Option<i64>,
    /// `RETAIN`, milliseconds.
    pub max_ref_age_ms: Option<i64>,
    /// `WITH SNAPSHOT RETENTION n SNAPSHOTS`.
    pub min_snapshots_to_keep: Option<i32>,
    /// `WITH SNAPSHOT RETENTION … n DAYS`, milliseconds.
    pub max_snapshot_age_ms: Option<i64>,
}

/// `CALL`.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name parts: `[catalog,] system, procedure`.
    pub name: Name,
    /// Arguments: by position (no name) first, then by name.
    pub args: Vec<(Option<String>, ast::Expr)>,
}
