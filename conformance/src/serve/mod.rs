//! `floe serve`: an Iceberg REST catalog over any of floe's catalogs (REST-*), so that other engines share its tables.
//!
//! Commits are validated here: requirements are checked and updates applied on the catalog's current metadata, and the
//! pointer is compared and swapped by the catalog behind. A lost race behind the server is repeated as long as the
//! requirements hold.

mod commit;
mod handlers;
mod idempotency;
mod local;
mod reply;

pub use local::Local;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use floe_engine::catalog::Catalog;

use self::idempotency::Outcomes;

/// Largest request body, in bytes: a commit that carries thousands of snapshots is still below.
const MAX_BODY: usize = 64 << 20;

/// The endpoints this server has, as its configuration lists them (REST-1).
pub(crate) const ENDPOINTS: [&str; 16] = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
];

/// What the handlers share.
#[derive(Debug)]
pub struct Server {
    pub(crate) catalog: Arc<dyn Catalog>,
    token: Option<String>,
    pub(crate) outcomes: Outcomes,
}

impl Server {
    /// A server over `catalog`; with a token every request but the configuration of tokens must carry it.
    pub fn new(catalog: Arc<dyn Catalog>, token: Option<String>) -> Arc<Self> {
        Arc::new(Self { catalog, token, outcomes: Outcomes::default() })
    }

    /// The routes of the protocol.
    pub fn router(self: Arc<Self>) -> Router {
        let table = "/v1/namespaces/{namespace}/tables/{table}";
        Router::new()
            .route("/v1/config", get(handlers::config))
            .route("/v1/oauth/tokens", post(handlers::token))
            .route("/v1/namespaces", get(handlers::list_namespaces).post(handlers::create_namespace))
            .route(
                "/v1/namespaces/{namespace}",
                get(handlers::load_namespace).head(handlers::has_namespace).delete(handlers::drop_namespace),
            )
            .route("/v1/namespaces/{namespace}/properties", post(handlers::set_namespace_properties))
            .route("/v1/namespaces/{namespace}/tables", get(handlers::list_tables).post(handlers::create_table))
            .route("/v1/namespaces/{namespace}/register", post(handlers::register_table))
            .route(
                table,
                get(handlers::load_table)
                    .head(handlers::has_table)
                    .post(handlers::commit_table)
                    .delete(handlers::drop_table),
            )
            .route(&format!("{table}/metrics"), post(handlers::metrics))
            .route(&format!("{table}/credentials"), get(handlers::credentials))
            .route("/v1/tables/rename", post(handlers::rename_table))
            .route("/v1/transactions/commit", post(handlers::commit_transaction))
            .fallback(handlers::no_such_route)
            .method_not_allowed_fallback(handlers::no_such_method)
            .layer(middleware::from_fn_with_state(self.clone(), idempotency::replay))
            .layer(middleware::from_fn_with_state(self.clone(), authenticate))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(self)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

/// Refuses a request without the server's token.
async fn authenticate(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Some(token) = server.token() else {
        return next.run(request).await;
    };
    if request.uri().path() == "/v1/oauth/tokens" {
        return next.run(request).await;
    }
    let given = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    if given.and_then(|g| g.strip_prefix("Bearer ")).is_some_and(|g| same_text(g, token)) {
        return next.run(request).await;
    }
    let what = if given.is_some() { "the bearer token is not valid" } else { "a bearer token is needed" };
    reply::error(StatusCode::UNAUTHORIZED, "NotAuthorizedException", what)
}

/// Compares without stopping at the first difference, so that time tells nothing.
pub(crate) fn same_text(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}
