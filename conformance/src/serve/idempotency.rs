//! `Idempotency-Key` (REST-63): the outcome of a change is kept for a while, and a repeated request gets it again instead
//! of being done twice.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::{MAX_BODY, Server, reply};

/// How long an outcome is kept; the configuration says it as `PT30M`.
const KEEP: Duration = Duration::from_secs(30 * 60);
pub(crate) const LIFETIME: &str = "PT30M";
/// Outcomes kept at most; the oldest go first.
const MAX_KEPT: usize = 10_000;

/// Outcomes by key.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Mutex<HashMap<String, Kept>>);

#[derive(Debug, Clone)]
struct Kept {
    at: Instant,
    request: u64,
    /// `None` while the first request is still at work.
    answer: Option<(StatusCode, Bytes)>,
}

enum Found {
    New,
    Working,
    Other,
    Done(StatusCode, Bytes),
}

impl Outcomes {
    fn enter(&self, key: &str, request: u64) -> Found {
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        kept.retain(|_, k| k.at.elapsed() < KEEP);
        if let Some(k) = kept.get(key) {
            return match &k.answer {
                _ if k.request != request => Found::Other,
                None => Found::Working,
                Some((status, body)) => Found::Done(*status, body.clone()),
            };
        }
        if kept.len() >= MAX_KEPT
            && let Some(oldest) = kept.iter().min_by_key(|(_, k)| k.at).map(|(key, _)| key.clone())
        {
            kept.remove(&oldest);
        }
        kept.insert(key.to_string(), Kept { at: Instant::now(), request, answer: None });
        Found::New
    }

    fn leave(&self, key: &str, answer: Option<(StatusCode, Bytes)>) {
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        match answer {
            Some(answer) => {
                if let Some(k) = kept.get_mut(key) {
                    k.answer = Some(answer);
                }
            }
            None => {
                kept.remove(key);
            }
        }
    }
}

/// Forgets a key whose request was dropped before it ended.
struct Entered<'a> {
    outcomes: &'a Outcomes,
    key: &'a str,
    done: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.outcomes.leave(self.key, None);
        }
    }
}

pub(crate) async fn replay(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let key = request.headers().get("Idempotency-Key").and_then(|v| v.to_str().ok()).map(str::to_string);
    let Some(key) = key.filter(|_| !matches!(*request.method(), Method::GET | Method::HEAD)) else {
        return next.run(request).await;
    };
    if uuid_version(&key) != Some('7') {
        return reply::error(StatusCode::BAD_REQUEST, "BadRequestException", "Idempotency-Key is a UUID of version 7");
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return reply::error(StatusCode::PAYLOAD_TOO_LARGE, "BadRequestException", "the body is too large or was cut");
    };
    let mut hash = DefaultHasher::new();
    (parts.method.as_str(), parts.uri.to_string(), &body).hash(&mut hash);
    match server.outcomes.enter(&key, hash.finish()) {
        Found::New => {}
        Found::Done(status, body) if body.is_empty() => {
            let mut response = reply::nothing();
            *response.status_mut() = status;
            return response;
        }
        Found::Done(status, body) => {
            return reply::raw(status, String::from_utf8_lossy(&body).into_owned());
        }
        Found::Working => {
            return reply::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailableException",
                "the first request with this key is still at work; try again",
            );
        }
        Found::Other => {
            return reply::error(
                StatusCode::UNPROCESSABLE_ENTITY,
                "UnprocessableEntityException",
                "this key was used for another request",
            );
        }
    }
    let mut entered = Entered { outcomes: &server.outcomes, key: &key, done: false };
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    // A conflict may be gone on the next try and a server fault is no outcome: neither is kept.
    let status = parts.status;
    if status.is_success() || (status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 409 | 429)) {
        server.outcomes.leave(&key, Some((status, body.clone())));
        entered.done = true;
    }
    drop(entered);
    Response::from_parts(parts, Body::from(body))
}

/// The version digit of a UUID in its usual text form.
fn uuid_version(text: &str) -> Option<char> {
    let groups: Vec<&str> = text.split('-').collect();
    let shape = groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12]);
    (shape && groups.iter().all(|g| g.chars().all(|c| c.is_ascii_hexdigit()))).then(|| groups[2].chars().next())?
}
