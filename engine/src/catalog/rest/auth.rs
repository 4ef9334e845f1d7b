//! Who the client says it is: nothing, a bearer token, basic, OAuth2 client credentials, Google's application-default
//! credentials, or AWS keys that sign each request. Tokens are kept until shortly before they expire.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::HttpRequest;
use object_store::gcp::GcpCredentialProvider;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::io::cloud;
use crate::{Error, ErrorKind, Result};

/// A token is renewed this long before it expires, so that no request carries one that ends on the way.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// Lifetime assumed when the server names none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
const GOOGLE_METADATA_SERVER: &str = "http://metadata.google.internal";

/// Where the `Authorization` header comes from.
pub(super) enum Auth {
    None,
    /// A fixed header value; never printed.
    Fixed(Secret),
    /// Google's tokens, for keys of a service account: the store's credentials renew themselves.
    Google(GcpCredentialProvider),
    /// AWS signature version 4.
    Signed {
        credentials: AwsCredentialProvider,
        service: String,
        region: String,
    },
    /// Tokens fetched when needed.
    Renewed {
        source: Source,
        cached: Mutex<Option<(Secret, Instant)>>,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Credentials of other crates may print what they hold: only the kind is shown.
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(_) => "Fixed(***)",
            Self::Google(_) => "Google(***)",
            Self::Signed { .. } => "Signed(***)",
            Self::Renewed { .. } => "Renewed(***)",
        })
    }
}

/// Text that `Debug` does not show.
pub(super) struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// How a token is fetched.
#[derive(Debug)]
pub(super) enum Source {
    /// OAuth2 client credentials at a token endpoint.
    Client { endpoint: String, id: Option<String>, secret: Secret, extra: Vec<(String, String)> },
    /// Google: a user's refresh token.
    GoogleUser { endpoint: String, id: String, secret: Secret, refresh: Secret },
    /// Google: the metadata server of a machine there.
    GoogleMachine { base: String },
}

impl Auth {
    /// From the catalog's properties; `uri` is the catalog's base. Keys: `rest.auth.type` (none, basic, oauth2, google),
    /// `token`, `credential`, `oauth2-server-uri`, `scope`, `audience`, `resource`, `rest.auth.basic.*`,
    /// `gcp.auth.credentials-path`; for `sigv4` (also `rest.sigv4-enabled=true`) `rest.signing-name`, `rest.signing-region`,
    /// `rest.access-key-id`, `rest.secret-access-key`, `rest.session-token`, else the S3 store's credentials.
    pub(super) fn from_props(uri: &str, props: &HashMap<String, String>) -> Result<Self> {
        let get = |k: &str| props.get(k).filter(|v| !v.is_empty());
        let kind = match get("rest.auth.type").map(String::as_str) {
            Some(kind) => kind,
            None if get("rest.sigv4-enabled").is_some_and(|v| v.eq_ignore_ascii_case("true")) => "sigv4",
            None if get("token").is_some() || get("credential").is_some() => "oauth2",
            None => "none",
        };
        match kind {
            "none" => Ok(Self::None),
            "basic" => {
                let (Some(user), Some(password)) = (get("rest.auth.basic.username"), get("rest.auth.basic.password"))
                else {
                    return Err(Error::invalid(
                        "rest.auth.type=basic needs rest.auth.basic.username and rest.auth.basic.password",
                    ));
                };
                Ok(Self::Fixed(Secret(format!("Basic {}", base64(format!("{user}:{password}").as_bytes())))))
            }
            "oauth2" => match (get("token"), get("credential")) {
                (Some(token), _) => Ok(Self::Fixed(Secret(format!("Bearer {token}")))),
                (None, Some(credential)) => Ok(Self::renewed(client_source(uri, credential, props))),
                (None, None) => Err(Error::invalid("rest.auth.type=oauth2 needs `token` or `credential` (id:secret)")),
            },
            "google" => google(props),
            "sigv4" => signed(uri, props),
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("rest.auth.type is {other:?}; allowed: none, basic, oauth2, google, sigv4"),
            )),
        }
    }

    fn renewed(source: Source) -> Self {
        Self::Renewed { source, cached: Mutex::new(None) }
    }

    /// Puts into a request, which is otherwise complete, what proves who sends it.
    pub(super) async fn authorize(&self, http: &reqwest::Client, request: &mut reqwest::Request) -> Result<()> {
        if let Self::Signed { credentials, service, region } = self {
            let credential = credentials.get_credential().await.map_err(|e| refused("AWS", &e))?;
            return sign(&credential, service, region, request);
        }
        if let Some(value) = self.header(http).await? {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| Error::invalid("the token or password has characters that a header cannot hold"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    /// Value of the `Authorization` header; fetches a token when there is none or it is about to end.
    async fn header(&self, http: &reqwest::Client) -> Result<Option<String>> {
        match self {
            Self::None => Ok(None),
            Self::Signed { .. } => Ok(None),
            Self::Fixed(value) => Ok(Some(value.0.clone())),
            Self::Google(credentials) => {
                let credential = credentials.get_credential().await.map_err(|e| refused("Google", &e))?;
                Ok(Some(format!("Bearer {}", credential.bearer)))
            }
            Self::Renewed { source, cached } => {
                let mut cached = cached.lock().await;
                if let Some((value, until)) = &*cached
                    && Instant::now() < *until
                {
                    return Ok(Some(value.0.clone()));
                }
                let (token, lifetime) = source.fetch(http).await?;
                let value = format!("Bearer {token}");
                // A lifetime shorter than the margin is used for half of itself.
                let keep = lifetime.saturating_sub(RENEW_BEFORE).max(lifetime / 2);
                *cached = Some((Secret(value.clone()), Instant::now() + keep));
                Ok(Some(value))
            }
        }
    }

    /// Forgets a token the server refused; true if asking for another makes sense.
    pub(super) async fn forget(&self) -> bool {
        match self {
            Self::Renewed { cached, .. } => cached.lock().await.take().is_some(),
            _ => false,
        }
    }
}

impl Source {
    async fn fetch(&self, http: &reqwest::Client) -> Result<(String, Duration)> {
        let request = match self {
            Self::Client { endpoint, id, secret, extra } => {
                let mut form = vec![("grant_type", "client_credentials"), ("client_secret", secret.0.as_str())];
                form.extend(id.as_deref().map(|id| ("client_id", id)));
                form.extend(extra.iter().map(|(k, v)| (k.as_str(), v.as_str())));
                http.post(endpoint).form(&form)
            }
            Self::GoogleUser { endpoint, id, secret, refresh } => http.post(endpoint).form(&[
                ("grant_type", "refresh_token"),
                ("client_id", id.as_str()),
                ("client_secret", secret.0.as_str()),
                ("refresh_token", refresh.0.as_str()),
            ]),
            Self::GoogleMachine { base } => http
                .get(format!("{base}/computeMetadata/v1/instance/service-accounts/default/token"))
                .header("Metadata-Flavor", "Google"),
        };
        let place = self.endpoint();
        let unreachable = |e: reqwest::Error| {
            Error::new(ErrorKind::Io, format!("token endpoint does not answer: {}", super::http::cause(&e))).at(place)
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body: Value = serde_json::from_slice(&response.bytes().await.map_err(unreachable)?).unwrap_or(Value::Null);
        if !status.is_success() {
            // OAuth2 errors have `error` and `error_description`; nothing else of the body is shown.
            let text = |k: &str| body.get(k).and_then(Value::as_str).unwrap_or_default();
            let why = format!("{} {}", text("error"), text("error_description"));
            return Err(Error::new(
                ErrorKind::Denied,
                format!("token endpoint refused with status {}: {}", status.as_u16(), why.trim()),
            )
            .at(place));
        }
        let token = body
            .get("access_token")
            .and_then(Value::as_str)
            .ok_or_else(|| Error::malformed("the token endpoint's answer has no access_token").at(place))?;
        let lifetime = body.get("expires_in").and_then(Value::as_u64).map_or(DEFAULT_LIFETIME, Duration::from_secs);
        Ok((token.to_string(), lifetime))
    }

    fn endpoint(&self) -> &str {
        match self {
            Self::Client { endpoint, .. } | Self::GoogleUser { endpoint, .. } => endpoint,
            Self::GoogleMachine { base } => base,
        }
    }
}

fn client_source(uri: &str, credential: &str, props: &HashMap<String, String>) -> Source {
    let endpoint = match props.get("oauth2-server-uri") {
        Some(u) if u.contains("://") => u.clone(),
        Some(path) => format!("{uri}/{}", path.trim_start_matches('/')),
        None => format!("{uri}/v1/oauth/tokens"),
    };
    let (id, secret) = match credential.split_once(':') {
        Some((id, secret)) => (Some(id.to_string()), secret),
        None => (None, credential),
    };
    let scope = props.get("scope").cloned().unwrap_or_else(|| "catalog".into());
    let mut extra = vec![("scope".to_string(), scope)];
    for key in ["audience", "resource"] {
        extra.extend(props.get(key).map(|v| (key.to_string(), v.clone())));
    }
    Source::Client { endpoint, id, secret: Secret(secret.to_string()), extra }
}

/// Application-default credentials: the file named by a property or the environment, the one the gcloud command leaves,
/// else the machine's metadata server.
fn google(props: &HashMap<String, String>) -> Result<Auth> {
    let named = props
        .get("gcp.auth.credentials-path")
        .cloned()
        .or_else(|| std::env::var("GOOGLE_APPLICATION_CREDENTIALS").ok())
        .filter(|p| !p.is_empty());
    let path = match &named {
        Some(p) => Some(PathBuf::from(p)),
        None => std::env::home_dir()
            .map(|h| h.join(".config/gcloud/application_default_credentials.json"))
            .filter(|p| p.is_file()),
    };
    let Some(path) = path else {
        let base = std::env::var("GCE_METADATA_HOST").map(|h| format!("http://{h}"));
        let base = base.unwrap_or_else(|_| GOOGLE_METADATA_SERVER.into());
        return Ok(Auth::renewed(Source::GoogleMachine { base }));
    };
    let place = path.display().to_string();
    let bytes = std::fs::read(&path).map_err(|e| Error::from(e).at(&place))?;
    // The parser's message could quote a secret: it is not shown.
    let file: Value = serde_json::from_slice(&bytes)
        .map_err(|_| Error::invalid("the Google credentials file is not JSON").at(&place))?;
    let text = |k: &str| {
        file.get(k)
            .and_then(Value::as_str)
            .map(str::to_string)
            .ok_or_else(|| Error::invalid(format!("the Google credentials file has no {k:?}")).at(&place))
    };
    match text("type")?.as_str() {
        "authorized_user" => Ok(Auth::renewed(Source::GoogleUser {
            endpoint: text("token_uri").unwrap_or_else(|_| "https://oauth2.googleapis.com/token".into()),
            id: text("client_id")?,
            secret: Secret(text("client_secret")?),
            refresh: Secret(text("refresh_token")?),
        })),
        "service_account" => {
            let key = HashMap::from([("gcp.auth.credentials-path".to_string(), place.clone())]);
            Ok(Auth::Google(cloud::google_credentials(&key).map_err(|e| e.at(&place))?))
        }
        other => Err(Error::unsupported(format!(
            "Google credentials of type {other:?}; floe takes authorized_user (gcloud auth application-default login), \
             service_account and the metadata server; for others pass `token`"
        ))
        .at(&place)),
    }
}

/// Signing of requests for the service and region that properties or the host name say (`glue.REGION.amazonaws.com`).
fn signed(uri: &str, props: &HashMap<String, String>) -> Result<Auth> {
    let get = |keys: &[&str]| keys.iter().find_map(|k| props.get(*k).filter(|v| !v.is_empty())).cloned();
    let host = uri.split("://").nth(1).and_then(|r| r.split(['/', ':']).next()).unwrap_or_default();
    let mut labels = host.strip_suffix(".amazonaws.com").unwrap_or_default().split('.').filter(|l| !l.is_empty());
    let (host_service, host_region) = (labels.next().map(str::to_string), labels.next().map(str::to_string));
    let service = get(&["rest.signing-name"]).or(host_service).unwrap_or_else(|| "execute-api".into());
    let region = get(&["rest.signing-region", "client.region", "s3.region"])
        .or(host_region)
        .or_else(|| std::env::var("AWS_REGION").ok())
        .ok_or_else(|| Error::invalid("sigv4 needs the region: set rest.signing-region or client.region"))?;
    let mut keys: HashMap<String, String> = props
        .iter()
        .filter(|(k, _)| k.starts_with("s3.") || k.starts_with("client."))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for key in ["access-key-id", "secret-access-key", "session-token"] {
        if let Some(value) = get(&[format!("rest.{key}").as_str()]) {
            keys.insert(format!("s3.{key}"), value);
        }
    }
    let credentials = cloud::aws_credentials(&keys)?;
    Ok(Auth::Signed { credentials, service, region })
}

/// Adds the signature's headers to a request whose body is in memory.
fn sign(credential: &AwsCredential, service: &str, region: &str, request: &mut reqwest::Request) -> Result<()> {
    let body = request.body().and_then(|b| b.as_bytes()).map(Bytes::copy_from_slice).unwrap_or_default();
    let mut shadow = HttpRequest::new(body.into());
    *shadow.method_mut() = request.method().clone();
    *shadow.uri_mut() =
        request.url().as_str().parse().map_err(|_| Error::internal("a URL that is no URI cannot be signed"))?;
    if let Some(kind) = request.headers().get(CONTENT_TYPE) {
        shadow.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    AwsAuthorizer::new(credential, service, region).authorize(&mut shadow, None);
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"] {
        if let Some(value) = shadow.headers().get(name) {
            let mut value = value.clone();
            value.set_sensitive(true);
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(())
}

fn refused(whose: &str, e: &object_store::Error) -> Error {
    Error::new(ErrorKind::Denied, format!("no {whose} credentials: {}", cloud::redact(&e.to_string(), &[])))
}

/// Standard Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
