//! Statements of the SQL catalog, the same text for SQLite and PostgreSQL. Each change is one statement, or a transaction
//! that begins with a write, so that no reader's snapshot has to be upgraded.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use sqlx::any::{AnyArguments, AnyPoolOptions};
use sqlx::query::Query;
use sqlx::{Any, AnyPool, Connection, Row};
use url::Url;

use crate::{Error, ErrorKind, Result};

const TABLES: &str = "CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name))";
const NAMESPACES: &str = "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))";

/// Longest metadata location the catalog's tables hold, in characters (CAT-2); SQLite itself would not check.
const MAX_LOCATION: usize = 1000;

/// How long a statement waits for SQLite's lock, and a caller for a connection.
const WAIT: Duration = Duration::from_secs(30);

/// Property with which a catalog that only is read is opened: `true` = a database that is not there is refused, not made.
pub const MUST_EXIST: &str = "must-exist";

#[derive(Debug)]
pub(super) struct Db {
    pool: AnyPool,
    /// Whether `iceberg_type` exists: a catalog made with the old schema stays readable (CAT-2).
    pub(super) typed: bool,
    sqlite: bool,
}

/// A statement with its text parameters, `$1` first.
fn statement<'q>(sql: &'q str, params: &[&str]) -> Query<'q, Any, AnyArguments<'q>> {
    params.iter().fold(sqlx::query(sql), |q, p| q.bind(p.to_string()))
}

impl Db {
    pub(super) async fn open(url: &str, props: &HashMap<String, String>) -> Result<Self> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let target = Target::parse(url, props)?;
        let shown = target.shown.clone();
        let place = |e: Error| e.at(&shown);
        let mut options = AnyPoolOptions::new().acquire_timeout(WAIT).idle_timeout(None).max_lifetime(None);
        if target.sqlite {
            options = options.after_connect(|connection, _| {
                Box::pin(async move {
                    let wait = format!("PRAGMA busy_timeout = {}", WAIT.as_millis());
                    sqlx::query(&wait).execute(connection).await.map(|_| ())
                })
            });
        }
        if !target.sqlite {
            // The pool would repeat a refused connection until its time is up, and then not say why.
            let probe = sqlx::AnyConnection::connect(&target.url).await.map_err(|e| place(connect_error(e)))?;
            probe.close().await.map_err(|e| place(connect_error(e)))?;
        }
        // A database in memory lives in its one connection.
        let connections = if target.memory { 1 } else { 4 };
        let pool = options
            .max_connections(connections)
            .min_connections(u32::from(target.memory))
            .connect(&target.url)
            .await
            .map_err(|e| place(connect_error(e)))?;
        for sql in [TABLES, NAMESPACES] {
            if let Err(e) = sqlx::query(sql).execute(&pool).await {
                // Two sessions may create the tables at once; PostgreSQL then refuses one of them.
                let there = sqlx::query("SELECT catalog_name FROM iceberg_tables WHERE 1 = 0").execute(&pool).await;
                if there.is_err() {
                    return Err(place(db_error(e)));
                }
            }
        }
        let typed = match sqlx::query("SELECT iceberg_type FROM iceberg_tables WHERE 1 = 0").execute(&pool).await {
            Ok(_) => true,
            Err(sqlx::Error::Database(e)) if e.message().contains("iceberg_type") => false,
            Err(e) => return Err(place(db_error(e))),
        };
        Ok(Self { pool, typed, sqlite: target.sqlite })
    }

    /// Restricts a statement to tables: a JDBC catalog also holds views.
    fn only_tables(&self) -> &'static str {
        if self.typed { " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" } else { "" }
    }

    async fn strings(&self, sql: &str, params: &[&str]) -> Result<Vec<String>> {
        let rows = statement(sql, params).fetch_all(&self.pool).await.map_err(db_error)?;
        rows.iter().map(|r| r.try_get::<String, _>(0).map_err(db_error)).collect()
    }

    async fn change(&self, sql: &str, params: &[&str]) -> std::result::Result<u64, sqlx::Error> {
        Ok(statement(sql, params).execute(&self.pool).await?.rows_affected())
    }

    pub(super) async fn pointer(&self, catalog: &str, ns: &str, table: &str) -> Result<Option<String>> {
        let sql = format!(
            "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2
             AND table_name = $3 AND metadata_location IS NOT NULL{}",
            self.only_tables()
        );
        Ok(self.strings(&sql, &[catalog, ns, table]).await?.pop())
    }

    /// Names of all namespaces that are declared or hold something, as stored.
    pub(super) async fn namespaces(&self, catalog: &str) -> Result<Vec<String>> {
        self.strings(
            "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = $1
             UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = $1",
            &[catalog],
        )
        .await
    }

    pub(super) async fn tables(&self, catalog: &str, ns: &str) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2{} ORDER BY table_name",
            self.only_tables()
        );
        self.strings(&sql, &[catalog, ns]).await
    }

    /// False: something of that name is there.
    pub(super) async fn insert(&self, catalog: &str, ns: &str, table: &str, location: &str) -> Result<bool> {
        check_length(location)?;
        let (column, value) = if self.typed { (", iceberg_type", ", 'TABLE'") } else { ("", "") };
        let sql = format!(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location{column})
             VALUES ($1, $2, $3, $4{value})"
        );
        match self.change(&sql, &[catalog, ns, table, location]).await {
            Ok(_) => Ok(true),
            Err(sqlx::Error::Database(e)) if e.is_unique_violation() => Ok(false),
            Err(e) => Err(db_error(e)),
        }
    }

    /// The compare-and-swap of a commit (CAT-4). False: the pointer is not `old` any more.
    /// [`ErrorKind::CommitUnknown`] when the database did not answer.
    pub(super) async fn swap(&self, catalog: &str, ns: &str, table: &str, old: &str, new: &str) -> Result<bool> {
        check_length(new)?;
        let sql = format!(
            "UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2
             WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $2{}",
            self.only_tables()
        );
        match self.change(&sql, &[new, old, catalog, ns, table]).await {
            Ok(n) => Ok(n == 1),
            Err(e) if self.nothing_happened(&e) => Err(db_error(e)),
            Err(e) => Err(Error::new(ErrorKind::CommitUnknown, format!("the database did not confirm the swap: {e}"))
                .with_source(e)),
        }
    }

    /// Whether an error proves that the statement changed nothing.
    fn nothing_happened(&self, e: &sqlx::Error) -> bool {
        match e {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => true,
            // SQLite: busy, locked, read-only, full, constraint; an I/O error may come after the commit.
            sqlx::Error::Database(e) if self.sqlite => {
                let code = e.code().and_then(|c| c.parse::<u32>().ok()).unwrap_or(0) & 0xff;
                matches!(code, 5 | 6 | 8 | 13 | 19)
            }
            sqlx::Error::Database(_) => true,
            _ => false,
        }
    }

    pub(super) async fn drop_table(&self, catalog: &str, ns: &str, table: &str, location: &str) -> Result<bool> {
        let sql = "DELETE FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
                   AND metadata_location = $4";
        Ok(self.change(sql, &[catalog, ns, table, location]).await.map_err(db_error)? == 1)
    }

    /// `None`: the target exists; false: the source does not.
    pub(super) async fn rename_table(
        &self,
        catalog: &str,
        from: (&str, &str),
        to: (&str, &str),
    ) -> Result<Option<bool>> {
        let sql = format!(
            "UPDATE iceberg_tables SET table_namespace = $1, table_name = $2
             WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5{}",
            self.only_tables()
        );
        match self.change(&sql, &[to.0, to.1, catalog, from.0, from.1]).await {
            Ok(n) => Ok(Some(n == 1)),
            Err(sqlx::Error::Database(e)) if e.is_unique_violation() => Ok(None),
            Err(e) => Err(db_error(e)),
        }
    }

    /// False: it is there.
    pub(super) async fn create_namespace(
        &self,
        catalog: &str,
        ns: &str,
        props: &HashMap<String, String>,
    ) -> Result<bool> {
        let mut tx = self.pool.begin().await.map_err(db_error)?;
        // The marker first: of two creators one meets the primary key.
        let mut sorted: Vec<_> = props.iter().collect();
        sorted.sort_by_key(|(k, _)| (k.as_str() != super::EXISTS, k.as_str()));
        for (k, v) in sorted {
            match statement(INSERT_PROPERTY, &[catalog, ns, k, v]).execute(&mut *tx).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(e)) if e.is_unique_violation() => return Ok(false),
                Err(e) => return Err(db_error(e)),
            }
        }
        tx.commit().await.map_err(db_error)?;
        Ok(true)
    }

    pub(super) async fn namespace_properties(&self, catalog: &str, ns: &str) -> Result<HashMap<String, String>> {
        let sql = "SELECT property_key, property_value FROM iceberg_namespace_properties
                   WHERE catalog_name = $1 AND namespace = $2 AND property_value IS NOT NULL";
        let rows = statement(sql, &[catalog, ns]).fetch_all(&self.pool).await.map_err(db_error)?;
        rows.iter().map(|r| Ok((r.try_get(0).map_err(db_error)?, r.try_get(1).map_err(db_error)?))).collect()
    }

    pub(super) async fn update_namespace(
        &self,
        catalog: &str,
        ns: &str,
        removals: &[String],
        updates: &HashMap<String, String>,
    ) -> Result<()> {
        let mut tx = self.pool.begin().await.map_err(db_error)?;
        for key in removals.iter().chain(updates.keys()) {
            let sql = "DELETE FROM iceberg_namespace_properties
                       WHERE catalog_name = $1 AND namespace = $2 AND property_key = $3";
            statement(sql, &[catalog, ns, key]).execute(&mut *tx).await.map_err(db_error)?;
        }
        for (k, v) in updates {
            statement(INSERT_PROPERTY, &[catalog, ns, k, v]).execute(&mut *tx).await.map_err(db_error)?;
        }
        tx.commit().await.map_err(db_error)
    }

    /// False: a table or view is in it.
    pub(super) async fn drop_namespace(&self, catalog: &str, ns: &str) -> Result<bool> {
        let sql = "DELETE FROM iceberg_namespace_properties WHERE catalog_name = $1 AND namespace = $2 AND NOT EXISTS
                   (SELECT 1 FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2)";
        Ok(self.change(sql, &[catalog, ns]).await.map_err(db_error)? > 0)
    }
}

const INSERT_PROPERTY: &str = "INSERT INTO iceberg_namespace_properties
    (catalog_name, namespace, property_key, property_value) VALUES ($1, $2, $3, $4)";

fn check_length(location: &str) -> Result<()> {
    if location.chars().count() > MAX_LOCATION {
        return Err(Error::invalid(format!(
            "metadata location has {} characters; a SQL catalog holds at most {MAX_LOCATION}",
            location.chars().count()
        ))
        .at(location)
        .clause("CAT-2"));
    }
    Ok(())
}

fn db_error(e: sqlx::Error) -> Error {
    Error::new(ErrorKind::Io, format!("catalog database: {e}")).with_source(e)
}

fn connect_error(e: sqlx::Error) -> Error {
    let denied = matches!(&e, sqlx::Error::Database(d) if matches!(d.code().as_deref(), Some("28P01" | "28000")));
    let kind = if denied { ErrorKind::Denied } else { ErrorKind::Io };
    Error::new(kind, format!("cannot open the catalog database: {e}")).with_source(e)
}

/// Folder of a SQLite file as an absolute path; `None` for memory and other databases.
pub(super) fn folder_of(url: &str) -> Result<Option<String>> {
    let Some(path) = sqlite_path(url) else {
        return Ok(None);
    };
    if path.is_empty() || path.contains(":memory:") {
        return Ok(None);
    }
    let file = std::path::absolute(path.split('?').next().unwrap_or_default())?;
    Ok(file.parent().and_then(Path::to_str).map(str::to_string))
}

/// The path (and parameters) of a SQLite URL; JDBC's and SQLAlchemy's spellings are taken too.
fn sqlite_path(url: &str) -> Option<String> {
    let rest = url.strip_prefix("jdbc:").unwrap_or(url).strip_prefix("sqlite:")?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    Some(match rest.strip_prefix("//") {
        Some(r) => format!("/{r}"),
        None => rest.to_string(),
    })
}

/// Where to connect.
struct Target {
    url: String,
    /// The URL without secrets, for messages.
    shown: String,
    sqlite: bool,
    memory: bool,
}

impl Target {
    fn parse(url: &str, props: &HashMap<String, String>) -> Result<Self> {
        if let Some(path) = sqlite_path(url) {
            let memory = path.contains(":memory:");
            let (file, params) = path.split_once('?').unwrap_or((&path, ""));
            if file.is_empty() {
                return Err(Error::invalid("sqlite: needs a file, e.g. sqlite:/data/catalog.db, or sqlite::memory:"));
            }
            if !memory
                && let Some(folder) = folder_of(url)?
                && !Path::new(&folder).is_dir()
            {
                return Err(Error::not_found("the folder of the catalog database does not exist").at(folder));
            }
            if !memory && props.get(MUST_EXIST).is_some_and(|v| v == "true") && !Path::new(file).exists() {
                return Err(Error::not_found("there is no such catalog database").at(format!("sqlite:{file}")));
            }
            let file = file.replace('%', "%25").replace('#', "%23");
            let url = match (memory, params) {
                (true, _) => "sqlite::memory:".to_string(),
                (false, "") => format!("sqlite:{file}?mode=rwc"),
                (false, p) => format!("sqlite:{file}?{p}"),
            };
            return Ok(Self { shown: format!("sqlite:{file}"), url, sqlite: true, memory });
        }
        let plain = url.strip_prefix("jdbc:").unwrap_or(url);
        let scheme = plain.split(':').next().unwrap_or_default();
        let scheme = scheme.split('+').next().unwrap_or_default();
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(Error::invalid(format!(
                "a SQL catalog is at sqlite:PATH, sqlite::memory: or postgres://HOST/DATABASE; found scheme {scheme:?}"
            )));
        }
        let rest = plain.split_once(':').map_or("", |(_, r)| r);
        let mut parsed = Url::parse(&format!("postgres:{rest}")).map_err(|e| {
            Error::invalid(format!("not a PostgreSQL URL: {e}; expected postgres://USER@HOST:PORT/DATABASE"))
        })?;
        let refused = |()| Error::invalid("a PostgreSQL URL needs a host: postgres://USER@HOST:PORT/DATABASE");
        if let Some(user) = props.get("jdbc.user").or(props.get("user")) {
            parsed.set_username(user).map_err(refused)?;
        }
        if let Some(password) = props.get("jdbc.password").or(props.get("password")) {
            parsed.set_password(Some(password)).map_err(refused)?;
        }
        let mut shown = parsed.clone();
        let _ = shown.set_password(None);
        shown.set_query(None);
        Ok(Self { url: parsed.to_string(), shown: shown.to_string(), sqlite: false, memory: false })
    }
}
