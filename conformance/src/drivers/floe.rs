//! floe's own engine as a driver: in this process, one SQL session for the whole run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use floe_engine::catalog::HadoopCatalog;
use floe_engine::sql::{Session, StatementResult};
use floe_engine::{Error, ErrorKind};

use super::{Driver, ROW_LIMIT, arrow_rows, measure};
use crate::protocol::{Answer, Hello, Measured, PROTOCOL, TableRef, Work};
use crate::scenario::CAPABILITIES;
use crate::value::Rows;

/// The in-process engine.
pub struct Floe {
    session: Session,
    catalog: String,
    hello: Hello,
}

impl Floe {
    /// A session over the Hadoop-layout warehouse folder, known to statements as `catalog`.
    pub fn new(warehouse: &Path, catalog: &str) -> floe_engine::Result<Self> {
        let store = HadoopCatalog::new(catalog, &warehouse.display().to_string(), HashMap::new())?;
        let capabilities = CAPABILITIES.iter().map(|c| c.0);
        let words = |w: &[&str]| w.iter().map(ToString::to_string).collect();
        let hello = Hello {
            protocol: PROTOCOL,
            engine: "floe".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            iceberg: String::new(),
            roles: words(&["write", "read"]),
            catalogs: words(&["hadoop"]),
            capabilities: capabilities.map(ToString::to_string).collect(),
            sql: true,
        };
        Ok(Self { session: Session::new(Arc::new(store), catalog), catalog: catalog.into(), hello })
    }

    async fn rows(&mut self, sql: &str) -> Answer<Rows> {
        match self.session.execute_one(sql).await {
            Ok(result) => convert(&result).map_or_else(Answer::Error, Answer::Ok),
            Err(e) => judge(&e),
        }
    }

    fn name_of(&self, table: &TableRef) -> String {
        format!("{}.{}.{}", self.catalog, table.namespace, table.name)
    }
}

fn convert(result: &StatementResult) -> Result<Rows, String> {
    let fields = result.schema.as_ref().map(|s| s.fields().to_vec()).unwrap_or_default();
    let (columns, rows) = arrow_rows::convert(&fields, &result.batches)?;
    Ok(Rows::new(columns, rows, ROW_LIMIT))
}

/// Trouble with storage and faults of floe itself are errors; everything else is floe saying no.
fn judge<T>(e: &Error) -> Answer<T> {
    match e.kind() {
        ErrorKind::Io | ErrorKind::Internal => Answer::Error(e.to_string()),
        _ => Answer::Refused(e.to_string()),
    }
}

#[async_trait]
impl Driver for Floe {
    fn name(&self) -> &str {
        "floe"
    }

    fn hello(&self) -> &Hello {
        &self.hello
    }

    async fn apply(&mut self, sql: &str, _: &TableRef) -> Answer<()> {
        match self.session.execute_one(sql).await {
            Ok(_) => Answer::Ok(()),
            Err(e) => judge(&e),
        }
    }

    async fn scan(&mut self, table: &TableRef) -> Answer<Rows> {
        let name = self.name_of(table);
        let at = table.snapshot.map_or_else(String::new, |s| format!(" VERSION AS OF {s}"));
        self.rows(&format!("SELECT * FROM {name}{at}")).await
    }

    async fn query(&mut self, sql: &str, _: &TableRef) -> Answer<Rows> {
        self.rows(sql).await
    }

    async fn changes(&mut self, table: &TableRef, from: Option<i64>, to: Option<i64>) -> Answer<Rows> {
        let option = |k: &str, v: Option<i64>| v.map(|v| format!("'{k}', '{v}'"));
        let options: Vec<String> =
            [option("start-snapshot-id", from), option("end-snapshot-id", to)].into_iter().flatten().collect();
        let options =
            if options.is_empty() { String::new() } else { format!(", options => map({})", options.join(", ")) };
        let make = format!(
            "CALL {}.system.create_changelog_view(table => '{}.{}', changelog_view => 'floe_changes'{options})",
            self.catalog, table.namespace, table.name
        );
        match self.session.execute_one(&make).await {
            Ok(_) => self.rows("SELECT * FROM floe_changes").await,
            Err(e) => judge(&e),
        }
    }

    async fn measure(&mut self, work: &Work, calls: u32) -> Answer<Measured> {
        let measured = match work {
            Work::Decode { blob, .. } => measure::decode(blob, calls),
            Work::Plan { table } => match self.session.table(&[table.namespace.clone(), table.name.clone()]).await {
                Ok(table) => measure::plan(&table, calls).await,
                Err(e) => Err(e),
            },
        };
        measured.map_or_else(|e| judge(&e), Answer::Ok)
    }

    async fn revive(&mut self) {}

    fn alive(&self) -> bool {
        true
    }

    async fn stop(&mut self) {}
}
