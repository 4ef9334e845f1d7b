//! Requests of the REST catalog client: paths, headers, retries, and errors from status and body (REST-60..63).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use iceberg::NamespaceIdent;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::auth::Auth;
use crate::{Error, ErrorKind, Result};

/// Everything but unreserved characters is escaped in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one catalog server.
#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    /// Base URI without a trailing slash.
    uri: String,
    /// `prefix/` or nothing.
    prefix: String,
    separator: String,
    auth: Auth,
    heads: HashSet<String>,
    /// Whether the server keeps outcomes by `Idempotency-Key` (REST-63).
    idempotent: bool,
}

/// An answer of status 2xx or 3xx.
#[derive(Debug)]
pub(super) struct Answer {
    pub body: Value,
}

/// What a request does, for retries and the meaning of 409.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Reads; repeated freely.
    Read,
    /// Creates something; 409 means that it exists.
    Create,
    /// Deletes something; 409 means that it is in use.
    Delete,
    /// Commits; 409 is a lost race, no answer is an unknown outcome.
    Commit,
}

impl Http {
    /// Connects: asks for the configuration (REST-30) and returns it merged with the given properties.
    pub(super) async fn connect(
        uri: &str,
        mut props: HashMap<String, String>,
    ) -> Result<(Self, HashMap<String, String>)> {
        let uri = uri.trim_end_matches('/').trim_end_matches("/v1").to_string();
        if !uri.starts_with("http://") && !uri.starts_with("https://") {
            return Err(Error::invalid("a REST catalog is at an http:// or https:// URI").at(&uri));
        }
        let client = client_of(&props)?;
        let auth = Auth::from_props(&uri, &props)?;
        let mut http = Self {
            client,
            uri,
            prefix: String::new(),
            separator: "\u{1f}".into(),
            auth,
            heads: HashSet::new(),
            idempotent: false,
        };
        let query: Vec<(&str, String)> = props.get("warehouse").map(|w| ("warehouse", w.clone())).into_iter().collect();
        let config = http.send(Method::GET, "config", &query, None, Does::Read).await?.body;
        // What is the user's own, such as the fence around file access, no server sets.
        let of_server = |key| string_map(config.get(key)).into_iter().filter(|(k, _)| !super::is_own(k));
        let mut merged: HashMap<String, String> = of_server("defaults").collect();
        merged.extend(props.drain());
        merged.extend(of_server("overrides"));
        if let Some(p) = merged.get("prefix").map(|p| p.trim_matches('/')).filter(|p| !p.is_empty()) {
            // A prefix may have several levels.
            let parts: Vec<String> = p.split('/').map(escape).collect();
            http.prefix = format!("{}/", parts.join("/"));
        }
        if let Some(s) = merged.get("namespace-separator") {
            http.separator = percent_encoding::percent_decode_str(s).decode_utf8_lossy().into_owned();
        }
        // Without `endpoints` no HEAD may be assumed (REST-31).
        let endpoints = config.get("endpoints").and_then(Value::as_array).into_iter().flatten();
        http.heads = endpoints.filter_map(Value::as_str).filter(|e| e.starts_with("HEAD ")).map(Into::into).collect();
        http.idempotent = config.get("idempotency-key-lifetime").is_some_and(Value::is_string);
        // The configuration may bring headers or another identity.
        if let Some(token) = merged.get("token") {
            http.auth = Auth::from_props(&http.uri, &HashMap::from([("token".to_string(), token.clone())]))?;
        }
        http.client = client_of(&merged)?;
        Ok((http, merged))
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether the server answers HEAD on this kind of object (`tables/{table}` or nothing after the namespace).
    pub(super) fn has_head(&self, tail: &str) -> bool {
        self.heads.iter().any(|e| e.ends_with(&format!("/namespaces/{{namespace}}{tail}")))
    }

    /// A namespace as one path segment (REST-32).
    pub(super) fn namespace(&self, ns: &NamespaceIdent) -> String {
        escape(&ns.join(&self.separator))
    }

    /// A namespace as a query value.
    pub(super) fn namespace_query(&self, ns: &NamespaceIdent) -> String {
        ns.join(&self.separator)
    }

    /// Sends a request below the prefix.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
        does: Does,
    ) -> Result<Answer> {
        self.send(method, &format!("{}{path}", self.prefix), query, body, does).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
        does: Does,
    ) -> Result<Answer> {
        let url = format!("{}/v1/{path}", self.uri);
        let key = (self.idempotent && does != Does::Read).then(|| uuid::Uuid::now_v7().to_string());
        // Without a key only reading is safe to repeat after an answer went missing.
        let repeatable = does == Does::Read || key.is_some();
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        let mut renewed = false;
        loop {
            let outcome = self.once(&method, &url, query, body, key.as_deref()).await;
            let (error, again) = match outcome {
                Ok((status, bytes)) if status.is_success() || status == StatusCode::NOT_MODIFIED => {
                    return parse_answer(&bytes).map_err(|e| e.at(&url));
                }
                Ok((status, bytes)) => {
                    let denied = matches!(status.as_u16(), 401 | 419);
                    if denied && !renewed && self.auth.forget().await {
                        renewed = true;
                        continue;
                    }
                    let again = matches!(status.as_u16(), 429 | 502 | 503 | 504);
                    (error_of(status, &bytes, does), again)
                }
                Err(Failure::Config(e)) => return Err(e),
                Err(Failure::Transport(e)) => {
                    // Nothing was sent when the connection could not be made.
                    let sent = !e.is_connect();
                    let kind = if does == Does::Commit && sent { ErrorKind::CommitUnknown } else { ErrorKind::Io };
                    (Error::new(kind, format!("the catalog server does not answer: {}", cause(&e))), true)
                }
            };
            if !again || !repeatable || attempt == ATTEMPTS {
                return Err(error.at(format!("{method} {url}")));
            }
            attempt += 1;
            // Jitter keeps clients that failed together from coming back together.
            let jitter = uuid::Uuid::new_v4().as_bytes()[0] as u32;
            tokio::time::sleep(pause + pause * jitter / 512).await;
            pause *= 2;
        }
    }

    async fn once(
        &self,
        method: &Method,
        url: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
        key: Option<&str>,
    ) -> std::result::Result<(StatusCode, Vec<u8>), Failure> {
        let mut request = self.client.request(method.clone(), url).query(query);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut request = request.build().map_err(Failure::Transport)?;
        self.auth.authorize(&self.client, &mut request).await.map_err(Failure::Config)?;
        let response = self.client.execute(request).await.map_err(Failure::Transport)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(Failure::Transport)?;
        Ok((status, bytes.to_vec()))
    }
}

enum Failure {
    Config(Error),
    Transport(reqwest::Error),
}

/// The innermost cause of a transport error, without the URL (which may carry a query).
pub(super) fn cause(e: &reqwest::Error) -> String {
    let mut current: &dyn std::error::Error = e;
    while let Some(next) = current.source() {
        current = next;
    }
    let kind = if e.is_timeout() {
        "timed out: "
    } else if e.is_connect() {
        "cannot connect: "
    } else {
        ""
    };
    format!("{kind}{current}")
}

fn client_of(props: &HashMap<String, String>) -> Result<reqwest::Client> {
    let mut headers = HeaderMap::new();
    headers.insert("X-Iceberg-Access-Delegation", HeaderValue::from_static("vended-credentials"));
    for (key, value) in props {
        let Some(name) = key.strip_prefix("header.") else {
            continue;
        };
        let bad = |what| Error::invalid(format!("property {key:?}: not a valid header {what}"));
        let name = HeaderName::try_from(name).map_err(|_| bad("name"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    reqwest::Client::builder()
        .default_headers(headers)
        .timeout(TIMEOUT)
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("floe/", env!("CARGO_PKG_VERSION")))
        // A redirect could carry a token to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|e| Error::internal(format!("HTTP client: {}", cause(&e))))
}

fn parse_answer(bytes: &[u8]) -> Result<Answer> {
    if bytes.is_empty() {
        return Ok(Answer { body: Value::Null });
    }
    let body = serde_json::from_slice(bytes)
        .map_err(|e| Error::malformed(format!("the catalog server's answer is not JSON: {e}")))?;
    Ok(Answer { body })
}

/// The error of a status and its body (REST-60, REST-61, REST-62).
fn error_of(status: StatusCode, body: &[u8], does: Does) -> Error {
    let json: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let field = |k: &str| json.pointer(&format!("/error/{k}")).and_then(Value::as_str);
    let message = match field("message") {
        Some(m) => m.to_string(),
        None => String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_string(),
    };
    let kind = match status.as_u16() {
        401 | 403 | 419 => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        400 | 422 => ErrorKind::InvalidInput,
        405 | 406 | 501 => ErrorKind::Unsupported,
        409 => match does {
            Does::Commit => ErrorKind::CommitFailed,
            Does::Create => ErrorKind::AlreadyExists,
            Does::Read | Does::Delete => ErrorKind::Conflict,
        },
        500 | 502..=504 if does == Does::Commit => ErrorKind::CommitUnknown,
        _ => ErrorKind::Io,
    };
    let name = field("type").map(|t| format!(" {t}")).unwrap_or_default();
    Error::new(kind, format!("server answered {}{name}: {message}", status.as_u16()))
}

/// A string as one path segment.
pub(super) fn escape(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// An object of strings; other values are left out.
pub(super) fn string_map(value: Option<&Value>) -> HashMap<String, String> {
    let Some(Value::Object(map)) = value else {
        return HashMap::new();
    };
    map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect()
}
