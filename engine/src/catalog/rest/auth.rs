//! Who the client says it is: nothing, a bearer token, basic, OAuth2 client credentials, or Google's application-default
//! credentials. Tokens are kept until shortly before they expire.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Mutex;

use crate::{Error, ErrorKind, Result};

/// A token is renewed this long before it expires, so that no request carries one that ends on the way.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// Lifetime assumed when the server names none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
const GOOGLE_METADATA_SERVER: &str = "http://metadata.google.internal";

/// Where the `Authorization` header comes from.
#[derive(Debug)]
pub(super) enum Auth {
    None,
    /// A fixed header value; never printed.
    Fixed(Secret),
    /// Tokens fetched when needed.
    Renewed {
        source: Source,
        cached: Mutex<Option<(Secret, Instant)>>,
    },
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
    /// `gcp.auth.credentials-path`.
    pub(super) fn from_props(uri: &str, props: &HashMap<String, String>) -> Result<Self> {
        let get = |k: &str| props.get(k).filter(|v| !v.is_empty());
        let kind = match get("rest.auth.type").map(String::as_str) {
            Some(kind) => kind,
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
            "google" => Ok(Self::renewed(google_source(props)?)),
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("rest.auth.type is {other:?}; allowed: none, basic, oauth2, google"),
            )),
        }
    }

    fn renewed(source: Source) -> Self {
        Self::Renewed { source, cached: Mutex::new(None) }
    }

    /// Value of the `Authorization` header; fetches a token when there is none or it is about to end.
    pub(super) async fn header(&self, http: &reqwest::Client) -> Result<Option<String>> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some(value.0.clone())),
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
fn google_source(props: &HashMap<String, String>) -> Result<Source> {
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
        return Ok(Source::GoogleMachine { base: base.unwrap_or_else(|_| GOOGLE_METADATA_SERVER.into()) });
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
        "authorized_user" => Ok(Source::GoogleUser {
            endpoint: text("token_uri").unwrap_or_else(|_| "https://oauth2.googleapis.com/token".into()),
            id: text("client_id")?,
            secret: Secret(text("client_secret")?),
            refresh: Secret(text("refresh_token")?),
        }),
        other => Err(Error::unsupported(format!(
            "Google credentials of type {other:?}; floe takes authorized_user (gcloud auth application-default login) \
             and the metadata server; for others pass `token`"
        ))
        .at(&place)),
    }
}

/// Standard Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(word >> (18 - 6 * i) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("user:pass", "dXNlcjpwYXNz")];
        for (plain, want) in cases {
            assert_eq!(base64(plain.as_bytes()), want);
        }
    }
}
