//! The Rust `iceberg` crate's own scan as a driver: a child process that speaks the protocol, so that a panic or a hang in
//! it is seen as that of any other engine. Its table metadata, planning and reader are used as they are.

use std::io::{BufRead as _, Write as _};

use arrow::record_batch::RecordBatch;
use futures::TryStreamExt as _;
use iceberg::io::FileIO;
use iceberg::table::StaticTable;
use iceberg::{ErrorKind, TableIdent};
use serde_json::{Value, json};

use super::arrow_rows;
use crate::protocol::{Answer, Hello, PROTOCOL, TableRef};
use crate::value::Rows;

/// Version of the crate, which the workspace pins.
pub const VERSION: &str = "0.10.1";

/// What the crate says it can read: deletion vectors are none of it.
const CAPABILITIES: &[&str] =
    &["v2", "v3", "position-deletes", "equality-deletes", "time-travel", "schema-evolution", "partition-evolution"];

/// Answers requests on standard input until `stop` or its end.
pub async fn serve() -> Result<i32, String> {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("cannot read a request: {e}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let request: Value = serde_json::from_str(&line).map_err(|e| format!("a request is no JSON: {e}"))?;
        let command = request["cmd"].as_str().unwrap_or_default().to_string();
        let mut reply = match answer(&command, &request).await {
            Answer::Ok(v) => json!({ "ok": v }),
            Answer::Refused(m) => json!({ "refused": { "message": m } }),
            Answer::Skipped(m) => json!({ "skipped": { "reason": m } }),
            Answer::Error(m) => json!({ "error": { "message": m, "class": "" } }),
        };
        reply["id"] = request["id"].clone();
        writeln!(out, "{reply}").and_then(|()| out.flush()).map_err(|e| format!("cannot answer: {e}"))?;
        if command == "stop" {
            break;
        }
    }
    Ok(0)
}

async fn answer(command: &str, request: &Value) -> Answer<Value> {
    let encode = |r: Rows| serde_json::to_value(r).map_err(|e| e.to_string());
    match command {
        "hello" => {
            let words = |w: &[&str]| w.iter().map(ToString::to_string).collect();
            let hello = Hello {
                protocol: PROTOCOL,
                engine: "iceberg crate".into(),
                version: VERSION.into(),
                iceberg: VERSION.into(),
                roles: words(&["read"]),
                catalogs: words(&["path"]),
                capabilities: words(CAPABILITIES),
                sql: false,
            };
            serde_json::to_value(hello).map_or_else(|e| Answer::Error(e.to_string()), Answer::Ok)
        }
        "stop" => Answer::Ok(json!({})),
        "scan" => {
            let limit = request["limit"].as_u64().unwrap_or(1000) as usize;
            match serde_json::from_value::<TableRef>(request["table"].clone()) {
                Ok(table) => scan(&table, limit).await.and_then(encode),
                Err(e) => Answer::Error(format!("broken request: {e}")),
            }
        }
        other => Answer::Skipped(format!("the driver has no {other}")),
    }
}

/// Reads a state by its metadata file, at the snapshot that was asked for.
async fn scan(table: &TableRef, limit: usize) -> Answer<Rows> {
    if table.metadata.is_empty() {
        return Answer::Skipped("there is no metadata file yet".into());
    }
    match read(table).await {
        Ok((fields, batches)) => match arrow_rows::convert(&fields, &batches) {
            Ok((columns, rows)) => Answer::Ok(Rows::new(columns, rows, limit)),
            Err(e) => Answer::Error(e),
        },
        Err(e) if e.kind() == ErrorKind::FeatureUnsupported => Answer::Refused(e.to_string()),
        Err(e) => Answer::Error(e.to_string()),
    }
}

type Batches = (Vec<arrow::datatypes::FieldRef>, Vec<RecordBatch>);

async fn read(table: &TableRef) -> iceberg::Result<Batches> {
    let ident = TableIdent::from_strs([&table.namespace, &table.name])?;
    let found = StaticTable::from_metadata_file(&table.metadata, ident, FileIO::new_with_fs()).await?;
    let metadata = found.metadata();
    // an empty scan has no batches to take the columns from
    let mut schema = metadata.current_schema().clone();
    let mut scan = found.scan();
    if let Some(id) = table.snapshot {
        scan = scan.snapshot_id(id);
        if let Some(s) = metadata.snapshot_by_id(id) {
            schema = s.schema(&metadata)?;
        }
    }
    let fields = iceberg::arrow::schema_to_arrow_schema(&schema)?.fields().to_vec();
    let batches: Vec<RecordBatch> = scan.build()?.to_arrow().await?.try_collect().await?;
    let fields = batches.first().map_or(fields, |b| b.schema().fields().to_vec());
    Ok((fields, batches))
}
