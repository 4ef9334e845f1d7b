//! One function an endpoint (REST-1 to REST-22).

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use floe_engine::catalog::files::first_metadata;
use floe_engine::catalog::rest::wire;
use floe_engine::io::FileIo;
use floe_engine::{Error, ErrorKind, Result};
use iceberg::{NamespaceIdent, TableIdent};
use serde_json::{Value, json};

use super::reply::{self, About, failure};
use super::{ENDPOINTS, Server, commit, idempotency, same_text};

type Params = Query<HashMap<String, String>>;
type Shared = State<Arc<Server>>;

/// Turns a result into an answer.
fn answer(result: Result<Response>, about: About) -> Response {
    result.unwrap_or_else(|e| failure(&e, about))
}

/// A namespace of a path; its levels are joined by the unit separator (REST-32).
fn namespace(text: &str) -> Result<NamespaceIdent> {
    let levels: Vec<&str> = text.split('\u{1f}').collect();
    if levels.iter().any(|l| l.is_empty()) {
        return Err(Error::invalid("a namespace has no empty level").clause("REST-32"));
    }
    Ok(NamespaceIdent::from_strs(levels)?)
}

fn ident((ns, table): &(String, String)) -> Result<TableIdent> {
    Ok(TableIdent::new(namespace(ns)?, table.clone()))
}

fn parse(body: &Bytes) -> Result<Value> {
    serde_json::from_slice(body).map_err(|e| Error::invalid(format!("the body is not JSON: {e}")))
}

/// Cuts a listing into pages when the client asks for them (REST-33); a token is the number of items before it.
fn page(mut items: Vec<Value>, key: &str, params: &HashMap<String, String>) -> Result<Response> {
    let bad = |k: &str| Error::invalid(format!("{k} is not valid")).clause("REST-33");
    let size = match params.get("pageSize") {
        Some(s) => s.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| bad("pageSize"))?,
        None => usize::MAX,
    };
    let Some(token) = params.get("pageToken") else {
        return Ok(reply::json(StatusCode::OK, &json!({ key: items, "next-page-token": null })));
    };
    let start = if token.is_empty() { 0 } else { token.parse::<usize>().map_err(|_| bad("pageToken"))? };
    let end = start.saturating_add(size).min(items.len());
    let next = (end < items.len()).then(|| end.to_string());
    let items: Vec<Value> = items.drain(start.min(end)..end).collect();
    Ok(reply::json(StatusCode::OK, &json!({ key: items, "next-page-token": next })))
}

pub(crate) async fn config() -> Response {
    let body = json!({
        "defaults": {}, "overrides": {}, "endpoints": ENDPOINTS, "idempotency-key-lifetime": idempotency::LIFETIME,
    });
    reply::json(StatusCode::OK, &body)
}

/// OAuth2 client credentials for the one token there is: the secret is the token (REST-2).
pub(crate) async fn token(State(server): Shared, body: Bytes) -> Response {
    let oauth_error =
        |status, error: &str, why: &str| reply::json(status, &json!({ "error": error, "error_description": why }));
    let form: HashMap<String, String> = parse_form(&body);
    let Some(token) = server.token() else {
        return oauth_error(StatusCode::BAD_REQUEST, "invalid_request", "this server asks for no token");
    };
    if form.get("grant_type").map(String::as_str) != Some("client_credentials") {
        return oauth_error(StatusCode::BAD_REQUEST, "unsupported_grant_type", "allowed: client_credentials");
    }
    match form.get("client_secret") {
        Some(secret) if same_text(secret, token) => {
            let body = json!({ "access_token": token, "token_type": "bearer", "expires_in": 3600 });
            reply::json(StatusCode::OK, &body)
        }
        _ => oauth_error(StatusCode::UNAUTHORIZED, "invalid_client", "the client secret is not valid"),
    }
}

/// Fields of an `application/x-www-form-urlencoded` body.
fn parse_form(body: &Bytes) -> HashMap<String, String> {
    let uri: Option<axum::http::Uri> =
        std::str::from_utf8(body).ok().and_then(|b| format!("http://localhost/?{b}").parse().ok());
    uri.and_then(|u| Query::<HashMap<String, String>>::try_from_uri(&u).ok()).map(|q| q.0).unwrap_or_default()
}

pub(crate) async fn list_namespaces(State(server): Shared, Query(params): Params) -> Response {
    let list = async || {
        let parent = params.get("parent").filter(|p| !p.is_empty()).map(|p| namespace(p)).transpose()?;
        let items = server.catalog.list_namespaces(parent.as_ref()).await?;
        page(items.iter().map(|n| json!(n.as_ref() as &Vec<String>)).collect(), "namespaces", &params)
    };
    answer(list().await, About::Namespace)
}

pub(crate) async fn create_namespace(State(server): Shared, body: Bytes) -> Response {
    let create = async || {
        let body = parse(&body)?;
        let ns = wire::parse_namespace(body.get("namespace").unwrap_or(&Value::Null))?;
        let properties = strings(body.get("properties"))?;
        match server.catalog.create_namespace(&ns, properties.clone()).await {
            // Spark adds an owner to every namespace; a catalog of folders has nowhere to keep it.
            Err(e) if e.kind() == ErrorKind::Unsupported && properties.keys().all(|k| k == "owner") => {
                server.catalog.create_namespace(&ns, HashMap::new()).await?;
            }
            other => other?,
        }
        let made = json!({ "namespace": ns.as_ref() as &Vec<String>, "properties": properties });
        Ok(reply::json(StatusCode::OK, &made))
    };
    answer(create().await, About::Namespace)
}

/// An object whose values are all strings.
fn strings(value: Option<&Value>) -> Result<HashMap<String, String>> {
    let map = match value {
        None | Some(Value::Null) => return Ok(HashMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(Error::invalid("properties are an object")),
    };
    map.iter()
        .map(|(k, v)| match v.as_str() {
            Some(s) => Ok((k.clone(), s.to_string())),
            None => Err(Error::invalid(format!("property {k:?} is not a string"))),
        })
        .collect()
}

pub(crate) async fn load_namespace(State(server): Shared, Path(ns): Path<String>) -> Response {
    let load = async || {
        let ns = namespace(&ns)?;
        let properties = server.catalog.namespace_properties(&ns).await?;
        let body = json!({ "namespace": ns.as_ref() as &Vec<String>, "properties": properties });
        Ok(reply::json(StatusCode::OK, &body))
    };
    answer(load().await, About::Namespace)
}

pub(crate) async fn has_namespace(State(server): Shared, Path(ns): Path<String>) -> Response {
    let has = async || {
        let ns = namespace(&ns)?;
        require(server.catalog.namespace_exists(&ns).await?, || format!("there is no namespace {}", ns.join(".")))
    };
    answer(has().await, About::Namespace)
}

/// 204 or 404.
fn require(there: bool, missing: impl FnOnce() -> String) -> Result<Response> {
    if there { Ok(reply::nothing()) } else { Err(Error::not_found(missing())) }
}

pub(crate) async fn drop_namespace(State(server): Shared, Path(ns): Path<String>) -> Response {
    let drop = async || {
        server.catalog.drop_namespace(&namespace(&ns)?).await?;
        Ok(reply::nothing())
    };
    answer(drop().await, About::Namespace)
}

pub(crate) async fn set_namespace_properties(State(server): Shared, Path(ns): Path<String>, body: Bytes) -> Response {
    let set = async || {
        let ns = namespace(&ns)?;
        let body = parse(&body)?;
        let updates = strings(body.get("updates"))?;
        let removals: Vec<String> = match body.get("removals") {
            None | Some(Value::Null) => Vec::new(),
            Some(r) => serde_json::from_value(r.clone()).map_err(|e| Error::invalid(format!("removals: {e}")))?,
        };
        if let Some(both) = removals.iter().find(|k| updates.contains_key(*k)) {
            let why = format!("property {both:?} is both set and removed");
            return Ok(reply::error(StatusCode::UNPROCESSABLE_ENTITY, "UnprocessableEntityException", &why));
        }
        let before = server.catalog.namespace_properties(&ns).await?;
        server.catalog.update_namespace_properties(&ns, &removals, &updates).await?;
        let (removed, missing): (Vec<_>, Vec<_>) = removals.into_iter().partition(|k| before.contains_key(k));
        let mut updated: Vec<_> = updates.into_keys().collect();
        updated.sort();
        Ok(reply::json(StatusCode::OK, &json!({ "updated": updated, "removed": removed, "missing": missing })))
    };
    answer(set().await, About::Namespace)
}

pub(crate) async fn list_tables(State(server): Shared, Path(ns): Path<String>, Query(params): Params) -> Response {
    let list = async || {
        let tables = server.catalog.list_tables(&namespace(&ns)?).await?;
        page(tables.iter().map(wire::ident_json).collect(), "identifiers", &params)
    };
    answer(list().await, About::Namespace)
}

pub(crate) async fn create_table(State(server): Shared, Path(ns): Path<String>, body: Bytes) -> Response {
    let create = async || {
        let (table, staged) = wire::parse_create_request(namespace(&ns)?, &parse(&body)?)?;
        let catalog = server.catalog.clone();
        if !staged {
            let made = catalog.create_table(table).await?;
            make_folders(made.metadata().location()).await?;
            return reply::table(&made, false);
        }
        if !catalog.namespace_exists(table.ident.namespace()).await? {
            return Err(Error::not_found(format!("there is no namespace {}", table.ident.namespace().join("."))));
        }
        if catalog.table_exists(&table.ident).await? {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("table {} exists", table.ident)));
        }
        let location = match &table.location {
            Some(l) => l.clone(),
            None => catalog.default_location(&table.ident).await?,
        };
        let metadata = first_metadata(&table, &location, &HashMap::new())?.to_json()?;
        make_folders(&location).await?;
        let text = String::from_utf8(metadata).map_err(|e| Error::internal(format!("metadata JSON: {e}")))?;
        Ok(reply::raw(StatusCode::OK, format!("{{\"metadata-location\":null,\"metadata\":{text},\"config\":{{}}}}")))
    };
    answer(create().await, About::Table)
}

/// Some clients write files into folders that they take for granted: a table's own folders are there from the start. Stores
/// without folders need nothing.
async fn make_folders(location: &str) -> Result<()> {
    let io = FileIo::new(HashMap::new());
    for folder in ["metadata", "data"] {
        let path = format!("{}/{folder}", location.trim_end_matches('/'));
        if let Ok(Some(_)) = io.local_path(&path) {
            io.create_folder(&path).await?;
        }
    }
    Ok(())
}

pub(crate) async fn register_table(State(server): Shared, Path(ns): Path<String>, body: Bytes) -> Response {
    let register = async || {
        let body = parse(&body)?;
        let text = |k: &str| {
            let value = body.get(k).and_then(Value::as_str).filter(|v| !v.is_empty());
            value.ok_or_else(|| Error::invalid(format!("a register request needs {k}")).clause("REST-9"))
        };
        if body.get("overwrite").and_then(Value::as_bool) == Some(true) {
            return Err(Error::unsupported("register with overwrite: drop the table first").clause("REST-9"));
        }
        let id = TableIdent::new(namespace(&ns)?, text("name")?.to_string());
        reply::table(&server.catalog.clone().register_table(&id, text("metadata-location")?).await?, false)
    };
    answer(register().await, About::Commit)
}

pub(crate) async fn load_table(
    State(server): Shared,
    Path(path): Path<(String, String)>,
    Query(params): Params,
    headers: HeaderMap,
) -> Response {
    let load = async || {
        let only_refs = match params.get("snapshots").map(String::as_str) {
            None | Some("all" | "") => false,
            Some("refs") => true,
            Some(other) => {
                return Err(Error::invalid(format!("snapshots is {other:?}; allowed: all, refs")).clause("REST-10"));
            }
        };
        let table = server.catalog.clone().load_table(&ident(&path)?).await?;
        let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
        if known == Some(reply::etag(&table, only_refs).as_str()) {
            let mut response = reply::nothing();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        reply::table(&table, only_refs)
    };
    answer(load().await, About::Table)
}

pub(crate) async fn has_table(State(server): Shared, Path(path): Path<(String, String)>) -> Response {
    let has = async || {
        let id = ident(&path)?;
        require(server.catalog.table_exists(&id).await?, || format!("there is no table {id}"))
    };
    answer(has().await, About::Table)
}

pub(crate) async fn commit_table(State(server): Shared, Path(path): Path<(String, String)>, body: Bytes) -> Response {
    let make = async || {
        let id = ident(&path)?;
        let body = parse(&body)?;
        if let Some(named) = body.get("identifier").filter(|n| !n.is_null()) {
            let named = wire::parse_ident(named)?;
            if named != id {
                return Err(Error::invalid(format!("the path names {id}, the body {named}")).clause("REST-50"));
            }
        }
        let parsed = wire::parse_commit(&body)?;
        reply::table(&commit::apply(server.catalog.clone(), &id, &parsed).await?, false)
    };
    answer(make().await, About::Commit)
}

/// Several tables at once cannot be made atomic over floe's catalogs; one can.
pub(crate) async fn commit_transaction(State(server): Shared, body: Bytes) -> Response {
    let make = async || {
        let body = parse(&body)?;
        let changes = body.get("table-changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let [change] = changes else {
            return Err(Error::unsupported(format!(
                "a transaction over {} tables: this server commits one table at a time",
                changes.len()
            ))
            .clause("REST-22"));
        };
        let id = wire::parse_ident(change.get("identifier").unwrap_or(&Value::Null))?;
        commit::apply(server.catalog.clone(), &id, &wire::parse_commit(change)?).await?;
        Ok(reply::nothing())
    };
    answer(make().await, About::Commit)
}

pub(crate) async fn drop_table(
    State(server): Shared,
    Path(path): Path<(String, String)>,
    Query(params): Params,
) -> Response {
    let drop = async || {
        let purge = params.get("purgeRequested").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        server.catalog.drop_table(&ident(&path)?, purge).await?;
        Ok(reply::nothing())
    };
    answer(drop().await, About::Table)
}

pub(crate) async fn rename_table(State(server): Shared, body: Bytes) -> Response {
    let rename = async || {
        let body = parse(&body)?;
        let id = |k: &str| wire::parse_ident(body.get(k).unwrap_or(&Value::Null));
        server.catalog.rename_table(&id("source")?, &id("destination")?).await?;
        Ok(reply::nothing())
    };
    answer(rename().await, About::Table)
}

/// Reports of scans and commits are taken and not kept (REST-21).
pub(crate) async fn metrics(Path(path): Path<(String, String)>, body: Bytes) -> Response {
    let take = || {
        ident(&path)?;
        parse(&body)?;
        Ok(reply::nothing())
    };
    answer(take(), About::Table)
}

/// Files are reached with the client's own means: there are none to hand out (REST-15).
pub(crate) async fn credentials(State(server): Shared, Path(path): Path<(String, String)>) -> Response {
    let give = async || {
        let id = ident(&path)?;
        if !server.catalog.table_exists(&id).await? {
            return Err(Error::not_found(format!("there is no table {id}")));
        }
        Ok(reply::json(StatusCode::OK, &json!({ "storage-credentials": [] })))
    };
    answer(give().await, About::Table)
}

pub(crate) async fn no_such_route(uri: axum::http::Uri) -> Response {
    let why = format!("there is no endpoint {}; GET /v1/config lists what there is", uri.path());
    reply::error(StatusCode::NOT_FOUND, "NoSuchEndpointException", &why)
}

pub(crate) async fn no_such_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let why = format!("{method} is not possible on {}", uri.path());
    reply::error(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", &why)
}
