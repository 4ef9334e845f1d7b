//! The metastore's methods that floe calls, with their errors by kind.

use std::time::Duration;

use super::thrift::{Failure, Fields, Reply, Value, call};
use crate::{Error, ErrorKind, Result};

/// Tables asked for in one request.
const TABLES_A_REQUEST: usize = 200;
const UNKNOWN_METHOD: i32 = 1;
/// First and longest pause between looks at a lock that others hold.
const LOCK_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// One metastore, or several that share their database.
#[derive(Debug, Clone)]
pub(super) struct Client {
    addresses: Vec<String>,
    /// Longest wait for a lock.
    pub(super) lock_timeout: Duration,
}

/// How a method's declared exceptions are to be taken, by field id of the result.
type Kinds<'a> = &'a [(i16, ErrorKind)];

impl Client {
    /// From `thrift://HOST:PORT[,…]` or `HOST:PORT`; port 9083 when there is none.
    pub(super) fn new(uri: &str, lock_timeout: Duration) -> Result<Self> {
        let mut addresses = Vec::new();
        for part in uri.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let bare = part.strip_prefix("thrift://").unwrap_or(part).trim_end_matches('/');
            if bare.is_empty() || bare.contains('/') || bare.contains("://") {
                return Err(Error::invalid("a Hive metastore is at thrift://HOST:PORT").at(part));
            }
            let has_port = bare.rsplit_once(':').is_some_and(|(_, p)| !p.is_empty() && p.parse::<u16>().is_ok());
            addresses.push(if has_port { bare.to_string() } else { format!("{bare}:9083") });
        }
        if addresses.is_empty() {
            return Err(Error::invalid("a Hive metastore needs its address: hive:thrift://HOST:PORT"));
        }
        Ok(Self { addresses, lock_timeout })
    }

    pub(super) fn shown(&self) -> String {
        self.addresses.join(",")
    }

    /// Calls a method. `changes`: an answer that goes missing leaves the outcome unknown.
    async fn call(&self, method: &'static str, arguments: Fields, kinds: Kinds<'_>, changes: bool) -> Result<Value> {
        let mut trouble = None;
        for address in &self.addresses {
            let (to, arguments) = (address.clone(), arguments.clone());
            let done = tokio::task::spawn_blocking(move || call(&to, method, &arguments))
                .await
                .map_err(|e| Error::internal(format!("metastore call: {e}")))?;
            match done {
                Ok(reply) => return of_reply(reply, kinds).map_err(|e| e.at(format!("{method} at {address}"))),
                Err(Failure::Connect(why)) => {
                    trouble = Some(
                        Error::new(ErrorKind::Io, format!("the metastore does not answer: {why}"))
                            .at(format!("{method} at {address}")),
                    );
                }
                Err(Failure::Lost(why)) => {
                    let kind = if changes { ErrorKind::CommitUnknown } else { ErrorKind::Io };
                    return Err(Error::new(kind, format!("no answer of the metastore: {why}"))
                        .at(format!("{method} at {address}")));
                }
                Err(Failure::Broken(why)) => {
                    return Err(Error::malformed(format!(
                        "{why}; is there a metastore, without SASL and TLS, at this port?"
                    ))
                    .at(format!("{method} at {address}")));
                }
            }
        }
        Err(trouble.unwrap_or_else(|| Error::internal("no metastore address")))
    }

    pub(super) async fn databases(&self) -> Result<Vec<String>> {
        let answer = self.call("get_all_databases", Fields::new(), &[(1, ErrorKind::Io)], false).await?;
        Ok(answer.items().iter().filter_map(|v| v.as_text().map(str::to_string)).collect())
    }

    pub(super) async fn database(&self, name: &str) -> Result<Fields> {
        let args = Fields::from([(1, Value::text(name))]);
        fields(self.call("get_database", args, &[(1, ErrorKind::NotFound), (2, ErrorKind::Io)], false).await?)
    }

    pub(super) async fn create_database(&self, database: Fields) -> Result<()> {
        let kinds = [(1, ErrorKind::AlreadyExists), (2, ErrorKind::InvalidInput), (3, ErrorKind::Io)];
        let args = Fields::from([(1, Value::Struct(database))]);
        self.call("create_database", args, &kinds, true).await.map(drop)
    }

    pub(super) async fn alter_database(&self, name: &str, database: Fields) -> Result<()> {
        let args = Fields::from([(1, Value::text(name)), (2, Value::Struct(database))]);
        self.call("alter_database", args, &[(1, ErrorKind::Io), (2, ErrorKind::NotFound)], true).await.map(drop)
    }

    /// Drops a database without tables; its folder stays.
    pub(super) async fn drop_database(&self, name: &str) -> Result<()> {
        let kinds = [(1, ErrorKind::NotFound), (2, ErrorKind::Conflict), (3, ErrorKind::Io)];
        let args = Fields::from([(1, Value::text(name)), (2, Value::Bool(false)), (3, Value::Bool(false))]);
        self.call("drop_database", args, &kinds, true).await.map(drop)
    }

    /// All tables of a database, whatever they are.
    pub(super) async fn tables(&self, database: &str) -> Result<Vec<Fields>> {
        let args = Fields::from([(1, Value::text(database))]);
        let names = self.call("get_all_tables", args, &[(1, ErrorKind::Io)], false).await?;
        let mut out = Vec::new();
        for some in names.items().chunks(TABLES_A_REQUEST) {
            let names: Vec<&str> = some.iter().filter_map(Value::as_text).collect();
            let request = Fields::from([(1, Value::text(database)), (2, Value::texts(names.clone()))]);
            let kinds = [(1, ErrorKind::Io), (2, ErrorKind::InvalidInput), (3, ErrorKind::NotFound)];
            let args = Fields::from([(1, Value::Struct(request))]);
            let answer = self.call("get_table_objects_by_name_req", args, &kinds, false).await?;
            let tables = answer.as_fields().and_then(|f| f.get(&1)).map(Value::items).unwrap_or_default();
            out.extend(tables.iter().filter_map(|t| t.as_fields().cloned()));
        }
        Ok(out)
    }

    pub(super) async fn table(&self, database: &str, name: &str) -> Result<Fields> {
        let kinds = [(1, ErrorKind::Io), (2, ErrorKind::NotFound)];
        let request = Fields::from([(1, Value::text(database)), (2, Value::text(name))]);
        let args = Fields::from([(1, Value::Struct(request.clone()))]);
        match self.call("get_table_req", args, &kinds, false).await {
            Ok(answer) => match fields(answer)?.remove(&1) {
                Some(Value::Struct(table)) => Ok(table),
                _ => Err(Error::malformed("the metastore's answer holds no table")),
            },
            // An old metastore.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                fields(self.call("get_table", request, &kinds, false).await?)
            }
            Err(e) => Err(e),
        }
    }

    pub(super) async fn create_table(&self, table: Fields) -> Result<()> {
        let kinds =
            [(1, ErrorKind::AlreadyExists), (2, ErrorKind::InvalidInput), (3, ErrorKind::Io), (4, ErrorKind::NotFound)];
        self.call("create_table", Fields::from([(1, Value::Struct(table))]), &kinds, true).await.map(drop)
    }

    /// Replaces a table's description. `context`: what the metastore is to check and to leave alone.
    pub(super) async fn alter_table(
        &self,
        database: &str,
        name: &str,
        table: Fields,
        context: &[(String, String)],
    ) -> Result<()> {
        let context = Fields::from([(1, Value::text_map(context.iter().map(|(k, v)| (k, v))))]);
        let args = Fields::from([
            (1, Value::text(database)),
            (2, Value::text(name)),
            (3, Value::Struct(table)),
            (4, Value::Struct(context)),
        ]);
        let kinds = [(1, ErrorKind::Conflict), (2, ErrorKind::Io)];
        self.call("alter_table_with_environment_context", args, &kinds, true).await.map(drop)
    }

    /// Takes a table out of the metastore; its files stay.
    pub(super) async fn drop_table(&self, database: &str, name: &str) -> Result<()> {
        let args = Fields::from([(1, Value::text(database)), (2, Value::text(name)), (3, Value::Bool(false))]);
        self.call("drop_table", args, &[(1, ErrorKind::NotFound), (2, ErrorKind::Io)], true).await.map(drop)
    }

    /// Locks a table exclusively, waiting for others up to the lock timeout; returns the lock's id.
    pub(super) async fn lock(&self, database: &str, table: &str) -> Result<i64> {
        const EXCLUSIVE: i32 = 3;
        const TABLE_LEVEL: i32 = 2;
        const ACQUIRED: i32 = 1;
        const WAITING: i32 = 2;
        let component = Fields::from([
            (1, Value::I32(EXCLUSIVE)),
            (2, Value::I32(TABLE_LEVEL)),
            (3, Value::text(database)),
            (4, Value::text(table)),
        ]);
        let user = std::env::var("USER").ok().filter(|u| !u.is_empty()).unwrap_or_else(|| "floe".into());
        let request = Fields::from([
            (1, Value::structs(vec![component])),
            (3, Value::text(user)),
            (4, Value::text("localhost")),
            (5, Value::text(format!("floe-{}", uuid::Uuid::new_v4()))),
        ]);
        let kinds = [(1, ErrorKind::Io), (2, ErrorKind::Io)];
        let args = Fields::from([(1, Value::Struct(request))]);
        let mut answer = fields(self.call("lock", args, &kinds, false).await?)?;
        let Some(Value::I64(id)) = answer.get(&1).cloned() else {
            return Err(Error::malformed("the metastore's lock has no id"));
        };
        let start = std::time::Instant::now();
        let mut pause = LOCK_PAUSE.0;
        loop {
            match answer.get(&2) {
                Some(Value::I32(ACQUIRED)) => return Ok(id),
                Some(Value::I32(WAITING)) if start.elapsed() < self.lock_timeout => {}
                state => {
                    let held = matches!(state, Some(Value::I32(WAITING)));
                    let _ = self.unlock(id).await;
                    let why = if held { "another writer holds it" } else { "the metastore gave it up" };
                    return Err(Error::new(ErrorKind::CommitFailed, format!("no lock on {database}.{table}: {why}"))
                        .clause("COMMIT-1"));
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOCK_PAUSE.1);
            let args = Fields::from([(1, Value::Struct(Fields::from([(1, Value::I64(id))])))]);
            let kinds = [(1, ErrorKind::Io), (2, ErrorKind::Io), (3, ErrorKind::Io)];
            answer = match self.call("check_lock", args, &kinds, false).await {
                Ok(answer) => fields(answer)?,
                Err(e) => {
                    let _ = self.unlock(id).await;
                    return Err(e);
                }
            };
        }
    }

    pub(super) async fn unlock(&self, id: i64) -> Result<()> {
        let args = Fields::from([(1, Value::Struct(Fields::from([(1, Value::I64(id))])))]);
        self.call("unlock", args, &[(1, ErrorKind::Io), (2, ErrorKind::Io)], false).await.map(drop)
    }
}

fn fields(value: Value) -> Result<Fields> {
    match value {
        Value::Struct(f) => Ok(f),
        _ => Err(Error::malformed("the metastore's answer is not a struct")),
    }
}

fn of_reply(reply: Reply, kinds: Kinds<'_>) -> Result<Value> {
    match reply {
        Reply::Refused { message, code } => {
            let kind = if code == UNKNOWN_METHOD { ErrorKind::Unsupported } else { ErrorKind::Io };
            Err(Error::new(kind, format!("the metastore refused the call: {message}")))
        }
        Reply::Result(mut result) => {
            if let Some(value) = result.remove(&0) {
                return Ok(value);
            }
            match result.into_iter().next() {
                // A method without a value.
                None => Ok(Value::Struct(Fields::new())),
                Some((id, exception)) => {
                    let kind = kinds.iter().find(|(i, _)| *i == id).map_or(ErrorKind::Io, |(_, k)| *k);
                    let message = exception.as_fields().and_then(|f| f.get(&1)).and_then(Value::as_text);
                    // A compare-and-swap that lost (HIVE-26882) comes as the general exception.
                    let kind = match message {
                        Some(m) if m.contains("The table has been modified") => ErrorKind::CommitFailed,
                        _ => kind,
                    };
                    Err(Error::new(kind, format!("metastore: {}", message.unwrap_or("no message"))))
                }
            }
        }
    }
}
