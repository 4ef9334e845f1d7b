//! Answers of the server: JSON bodies and errors (REST-40, REST-60, REST-61).

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use floe_engine::{Error, ErrorKind, Table};
use serde_json::{Value, json};

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    raw(status, body.to_string())
}

/// An answer whose body is JSON text already.
pub(crate) fn raw(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 204.
pub(crate) fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// An error body.
pub(crate) fn error(status: StatusCode, name: &str, message: &str) -> Response {
    json(status, &json!({ "error": { "message": message, "type": name, "code": status.as_u16() } }))
}

/// What a request was about, to name what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Namespace,
    Table,
    /// Like `Table`, where a bad request is a fault of the caller's commit.
    Commit,
}

/// The answer for an engine error.
pub(crate) fn failure(e: &Error, about: About) -> Response {
    let missing_namespace = about == About::Namespace || e.message().starts_with("there is no namespace");
    let (status, name) = match e.kind() {
        ErrorKind::NotFound if missing_namespace => (404, "NoSuchNamespaceException"),
        // A file that is gone is a broken table, not a missing one; of a commit it is what the caller named.
        ErrorKind::NotFound if about == About::Commit || e.message().starts_with("there is no") => {
            (404, "NoSuchTableException")
        }
        ErrorKind::AlreadyExists => (409, "AlreadyExistsException"),
        ErrorKind::Conflict if about == About::Namespace => (409, "NamespaceNotEmptyException"),
        ErrorKind::Conflict | ErrorKind::CommitFailed => (409, "CommitFailedException"),
        ErrorKind::CommitUnknown => (500, "CommitStateUnknownException"),
        ErrorKind::InvalidInput => (400, "BadRequestException"),
        // What a caller sent is malformed; what lies in the store is a fault of the table.
        ErrorKind::Malformed if about == About::Commit => (400, "BadRequestException"),
        ErrorKind::Unsupported => (406, "UnsupportedOperationException"),
        ErrorKind::Denied => (403, "ForbiddenException"),
        _ => (500, "InternalServerError"),
    };
    if status == 500 {
        tracing::error!("request failed: {e}");
    }
    error(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), name, &e.to_string())
}

/// A load result; `snapshots=refs` leaves out snapshots that no ref names.
pub(crate) fn table(table: &Table, only_refs: bool) -> Result<Response, Error> {
    let metadata = table.metadata().to_json()?;
    let mut text =
        String::from_utf8(metadata).map_err(|e| Error::internal(format!("metadata JSON is not UTF-8: {e}")))?;
    if only_refs {
        let mut value: Value =
            serde_json::from_str(&text).map_err(|e| Error::internal(format!("metadata JSON: {e}")))?;
        let named: Vec<Value> = value
            .get("refs")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|refs| refs.values().filter_map(|r| r.get("snapshot-id").cloned()))
            .collect();
        if let Some(snapshots) = value.get_mut("snapshots").and_then(Value::as_array_mut) {
            snapshots.retain(|s| s.get("snapshot-id").is_some_and(|id| named.contains(id)));
        }
        text = value.to_string();
    }
    let location = Value::from(table.metadata_location());
    let body = format!("{{\"metadata-location\":{location},\"metadata\":{text},\"config\":{{}}}}");
    let mut response = raw(StatusCode::OK, body);
    if let Ok(tag) = HeaderValue::from_str(&etag(table, only_refs)) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// Names one representation of one version (REST-41): metadata files are never rewritten, so the location will do.
pub(crate) fn etag(table: &Table, only_refs: bool) -> String {
    let hash = table
        .metadata_location()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("\"{}-{hash:016x}-{}\"", if only_refs { "refs" } else { "all" }, table.metadata().last_updated_ms())
}
