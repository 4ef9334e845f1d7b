//! Object stores by scheme: S3, Google Cloud Storage, Azure. Each is opened from a location's authority, the catalog's
//! properties and the environment, and wrapped so that its errors say what the server said and no secret.

mod azure;
mod errors;
mod gcs;
mod s3;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::limit::LimitStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use self::errors::{Explained, secrets_of};
pub(crate) use self::errors::{is_secret, redact, said};
use crate::{Error, Result};

/// Requests of one store in flight at the same time, when property `io.max-requests` does not say.
const MAX_REQUESTS: usize = 64;
/// A request with its answer's body may take this long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Schemes that are object stores, as messages list them.
pub(super) const SCHEMES: &str = "s3, s3a, s3n, gs, abfss, abfs, wasbs, wasb";

/// Opens the store at `scheme://authority`; `None` when the scheme is not one of [`SCHEMES`].
pub(super) fn open(
    scheme: &str,
    authority: &str,
    props: &HashMap<String, String>,
) -> Result<Option<Arc<dyn ObjectStore>>> {
    let known = matches!(scheme, "s3" | "s3a" | "s3n" | "gs" | "abfs" | "abfss" | "wasb" | "wasbs");
    if !known {
        return Ok(None);
    }
    if authority.is_empty() {
        return Err(Error::invalid(format!("{scheme}: location has no bucket or container")));
    }
    let props = Props(props);
    let limit = props.number("io.max-requests")?.unwrap_or(MAX_REQUESTS).max(1);
    let secrets = Arc::new(secrets_of(props.0));
    let wrap = |store: Arc<dyn ObjectStore>| -> Arc<dyn ObjectStore> {
        Arc::new(LimitStore::new(Explained::new(store, secrets.clone()), limit))
    };
    let opened = match scheme {
        "gs" => gcs::open(authority, &props).map(|s| wrap(Arc::new(s))),
        "abfs" | "abfss" | "wasb" | "wasbs" => azure::open(authority, &props).map(|s| wrap(Arc::new(s))),
        _ => s3::open(authority, &props).map(|s| wrap(Arc::new(s))),
    };
    opened.map(Some).map_err(|e| e.explained(&format!("{scheme} store: "), &secrets))
}

/// A store that cannot be opened.
enum Open {
    Ours(Error),
    Store(object_store::Error),
}

impl Open {
    /// The error a user sees: what the store says stands behind `before`, without secrets.
    fn explained(self, before: &str, secrets: &[String]) -> Error {
        match self {
            Self::Ours(e) => e,
            Self::Store(e) => Error::invalid(format!("{before}{}", redact(&e.to_string(), secrets))),
        }
    }
}

impl From<object_store::Error> for Open {
    fn from(e: object_store::Error) -> Self {
        Self::Store(e)
    }
}

impl From<Error> for Open {
    fn from(e: Error) -> Self {
        Self::Ours(e)
    }
}

/// Properties with typed access; an empty value is no value.
struct Props<'a>(&'a HashMap<String, String>);

impl Props<'_> {
    /// The first of these keys that is set.
    fn get(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|k| self.0.get(*k)).map(String::as_str).filter(|v| !v.is_empty())
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.get(&[key])
            .map(|v| match v.to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(Error::invalid(format!("property {key} is {v:?}; allowed: true, false"))),
            })
            .transpose()
    }

    fn number(&self, key: &str) -> Result<Option<usize>> {
        self.get(&[key])
            .map(|v| {
                v.parse().map_err(|_| Error::invalid(format!("property {key} is {v:?}; a whole number is allowed")))
            })
            .transpose()
    }

    /// Five tries within a minute, with growing, jittered pauses; `io.max-retries` changes the number.
    fn retry(&self) -> Result<RetryConfig> {
        Ok(RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(5),
                base: 2.,
            },
            max_retries: self.number("io.max-retries")?.unwrap_or(5),
            retry_timeout: Duration::from_secs(60),
        })
    }

    /// Plain HTTP only where the endpoint says so.
    fn client(&self, endpoint: Option<&str>) -> ClientOptions {
        ClientOptions::new()
            .with_allow_http(endpoint.is_some_and(|e| e.starts_with("http://")))
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT)
    }
}

/// An endpoint is an `http://` or `https://` URI with a host.
fn check_endpoint(key: &str, endpoint: &str) -> Result<url::Url> {
    let parsed = url::Url::parse(endpoint).ok().filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host());
    parsed.ok_or_else(|| Error::invalid(format!("property {key} is not an http:// or https:// URI with a host")))
}

/// AWS credentials by the same rules as the S3 store's, for requests that are signed elsewhere.
pub(crate) fn aws_credentials(props: &HashMap<String, String>) -> Result<object_store::aws::AwsCredentialProvider> {
    let store = s3::open("unused", &Props(props)).map_err(|e| e.explained("", &secrets_of(props)))?;
    Ok(store.credentials().clone())
}

/// Google credentials by the same rules as the GCS store's.
pub(crate) fn google_credentials(props: &HashMap<String, String>) -> Result<object_store::gcp::GcpCredentialProvider> {
    let store = gcs::open("unused", &Props(props)).map_err(|e| e.explained("", &secrets_of(props)))?;
    Ok(store.credentials().clone())
}
