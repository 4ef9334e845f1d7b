//! What a store's server said, in one line and without secrets.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};

type StoreResult<T> = Result<T, StoreError>;

/// Longest part of a server's own words that is shown.
const SHOWN: usize = 300;

/// A store whose errors are explained.
#[derive(Debug)]
pub(super) struct Explained {
    inner: Arc<dyn ObjectStore>,
    secrets: Secrets,
}

/// Values that no message may hold.
type Secrets = Arc<Vec<String>>;

impl Explained {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }

    fn explain(&self, e: StoreError) -> StoreError {
        explain(e, &self.secrets)
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Explained {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        self.inner.put_opts(location, payload, opts).await.map_err(|e| self.explain(e))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await.map_err(|e| self.explain(e))?;
        Ok(Box::new(ExplainedUpload { inner, secrets: self.secrets.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(location, options).await.map_err(|e| self.explain(e))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await.map_err(|e| self.explain(e))
    }

    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        let secrets = self.secrets.clone();
        self.inner.delete_stream(locations).map(move |r| r.map_err(|e| explain(e, &secrets))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let secrets = self.secrets.clone();
        self.inner.list(prefix).map(move |r| r.map_err(|e| explain(e, &secrets))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await.map_err(|e| self.explain(e))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await.map_err(|e| self.explain(e))
    }
}

#[derive(Debug)]
struct ExplainedUpload {
    inner: Box<dyn MultipartUpload>,
    secrets: Secrets,
}

#[async_trait]
impl MultipartUpload for ExplainedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let secrets = self.secrets.clone();
        self.inner.put_part(data).map(move |r| r.map_err(|e| explain(e, &secrets))).boxed()
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        self.inner.complete().await.map_err(|e| explain(e, &self.secrets))
    }

    async fn abort(&mut self) -> StoreResult<()> {
        self.inner.abort().await.map_err(|e| explain(e, &self.secrets))
    }
}

/// One line in place of a store's error.
#[derive(Debug)]
struct Said(String);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

/// The line that stands in an error that [`explain`] has made.
pub(crate) fn said(e: &StoreError) -> Option<&str> {
    let source = match e {
        StoreError::Generic { source, .. }
        | StoreError::NotFound { source, .. }
        | StoreError::NotSupported { source }
        | StoreError::AlreadyExists { source, .. }
        | StoreError::Precondition { source, .. }
        | StoreError::PermissionDenied { source, .. }
        | StoreError::Unauthenticated { source, .. } => source,
        _ => return None,
    };
    source.downcast_ref::<Said>().map(|s| s.0.as_str())
}

/// The same kind of error, with a source that is one line without secrets.
fn explain(e: StoreError, secrets: &[String]) -> StoreError {
    let said = |source: &(dyn std::error::Error + 'static)| {
        let text = summary(&chain(source));
        Box::new(Said(redact(&text, secrets)))
    };
    match e {
        StoreError::Generic { store, source } => {
            let (path, source) = (String::new(), said(source.as_ref()));
            // A refused listing comes without its kind.
            match source.0.strip_prefix("server answered ").and_then(|t| t.get(..3)) {
                Some("401") => StoreError::Unauthenticated { path, source },
                Some("403") => StoreError::PermissionDenied { path, source },
                Some("404") => StoreError::NotFound { path, source },
                _ if source.0.starts_with(NO_CREDENTIALS) => StoreError::Unauthenticated { path, source },
                _ => StoreError::Generic { store, source },
            }
        }
        StoreError::NotFound { path, source } => StoreError::NotFound { path, source: said(source.as_ref()) },
        StoreError::NotSupported { source } => StoreError::NotSupported { source: said(source.as_ref()) },
        StoreError::AlreadyExists { path, source } => StoreError::AlreadyExists { path, source: said(source.as_ref()) },
        StoreError::Precondition { path, source } => StoreError::Precondition { path, source: said(source.as_ref()) },
        StoreError::NotModified { path, source } => StoreError::NotModified { path, source: said(source.as_ref()) },
        StoreError::PermissionDenied { path, source } => {
            StoreError::PermissionDenied { path, source: said(source.as_ref()) }
        }
        StoreError::Unauthenticated { path, source } => {
            StoreError::Unauthenticated { path, source: said(source.as_ref()) }
        }
        e => e,
    }
}

/// An error and its causes, each once.
fn chain(e: &(dyn std::error::Error + 'static)) -> String {
    let mut text = e.to_string();
    let mut current = e.source();
    while let Some(cause) = current {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        current = cause.source();
    }
    text
}

const NO_CREDENTIALS: &str = "no credentials";

/// The gist of a failed request: the server's status, code and message, or why there was no answer.
fn summary(text: &str) -> String {
    for (sign, what) in [
        (
            "169.254.169.254",
            "no credentials: neither properties, environment nor this machine's role give AWS or Azure keys",
        ),
        (
            "metadata.google.internal",
            "no credentials: neither properties, environment nor this machine give a Google identity",
        ),
        (
            "metadata/identity/oauth2",
            "no credentials: neither properties, environment nor this machine give an Azure identity",
        ),
    ] {
        if text.contains(sign) {
            return what.to_string();
        }
    }
    if let Some((_, rest)) = text.split_once("status code: ") {
        let (status, body) = rest.split_once(':').unwrap_or((rest, ""));
        let said = server_words(body);
        return match said.is_empty() {
            true => format!("server answered {}", status.trim()),
            false => format!("server answered {}: {said}", status.trim()),
        };
    }
    if let Some((_, body)) = text.split_once("Server returned error response: ") {
        return format!("server answered with an error: {}", server_words(body));
    }
    let lower = text.to_ascii_lowercase();
    let tls = ["certificate", "invalidcontenttype", "handshake", "tls"].iter().any(|s| lower.contains(s));
    let prefix = if tls { "TLS failure (is the certificate trusted, and does the port speak https?): " } else { "" };
    format!("{prefix}{}", cut(text))
}

/// Code and message of an XML or JSON error body; else its first words.
fn server_words(body: &str) -> String {
    let tag = |name: &str| {
        let start = body.find(&format!("<{name}>"))? + name.len() + 2;
        let end = body[start..].find(&format!("</{name}>"))? + start;
        Some(body[start..end].trim().to_string())
    };
    if let Some(code) = tag("Code") {
        return match tag("Message") {
            Some(message) => format!("{code}: {}", cut(&message)),
            None => code,
        };
    }
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(body.trim())
        && let Some(message) = json.pointer("/error/message").or_else(|| json.get("message")).and_then(|m| m.as_str())
    {
        return cut(message);
    }
    cut(body.trim())
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect::<String>().replace(['\n', '\r'], " ")
}

/// Whether a property holds a secret, by its name.
pub(crate) fn is_secret(key: &str) -> bool {
    const NAMES: [&str; 9] = [
        "secret",
        "token",
        "password",
        "credential",
        "account-key",
        "account.key",
        "sas",
        "connection-string",
        "sse.key",
    ];
    NAMES.iter().any(|n| key.contains(n)) && !key.ends_with("-path")
}

/// Values of the properties that are secrets by their names, and those of the environment.
pub(super) fn secrets_of(props: &HashMap<String, String>) -> Vec<String> {
    const ENVIRONMENT: [&str; 5] = [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_CLIENT_SECRET",
        "AZURE_STORAGE_SAS_KEY",
    ];
    let of_props = props.iter().filter(|(k, _)| is_secret(k)).map(|(_, v)| v.clone());
    let of_env = ENVIRONMENT.iter().filter_map(|k| std::env::var(k).ok());
    let whole: Vec<String> = of_props.chain(of_env).collect();
    // A signature or a connection string is secret in its parts, too: a server may repeat one.
    let parts = whole.iter().flat_map(|v| v.split(['&', ';'])).filter_map(|p| p.split_once('='));
    let parts: Vec<String> = parts
        .filter(|(k, _)| matches!(*k, "sig" | "AccountKey" | "SharedAccessSignature"))
        .map(|(_, v)| v.into())
        .collect();
    // Very short values would blot out ordinary words.
    let mut out: Vec<String> = whole.into_iter().chain(parts).filter(|v| v.len() >= 6).collect();
    out.sort_by_key(|v| std::cmp::Reverse(v.len()));
    out
}

/// Takes secrets and the queries of URLs (which may be signatures) out of a text.
pub(crate) fn redact(text: &str, secrets: &[String]) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            out.push(' ');
        }
        match word.find("://").and_then(|s| word[s..].find('?').map(|q| s + q)) {
            Some(query) => {
                out.push_str(&word[..query]);
                out.push_str("?***");
            }
            None => out.push_str(word),
        }
    }
    for secret in secrets {
        if out.contains(secret.as_str()) {
            out = out.replace(secret.as_str(), "***");
        }
    }
    out
}
