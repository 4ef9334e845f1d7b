//! Google Cloud Storage.

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::{HeaderMap, HeaderValue};

use super::{Open, Props, check_endpoint};
use crate::Error;

/// Keys: `gcs.oauth2.token`, `gcs.no-auth`, `gcs.service.host`, `gcs.user-project` (whom requests are billed to),
/// `gcp.auth.credentials-path` (a credentials file), `gcs.project-id` (accepted; objects need none). Else `GOOGLE_*`,
/// the application-default credentials and the machine's metadata server.
pub(super) fn open(bucket: &str, props: &Props<'_>) -> Result<GoogleCloudStorage, Open> {
    let host = props.get(&["gcs.service.host"]);
    let mut options = props.client(host);
    if let Some(project) = props.get(&["gcs.user-project"]) {
        let value = HeaderValue::from_str(project)
            .map_err(|_| Error::invalid("property gcs.user-project is not a header value"))?;
        options = options.with_default_headers(HeaderMap::from_iter([(
            "x-goog-user-project".parse().expect("a header name"),
            value,
        )]));
    }
    let token = props.get(&["gcs.oauth2.token"]);
    let anonymous = props.flag("gcs.no-auth")? == Some(true);
    // The environment's files are not even looked at when the properties say who asks.
    let mut builder = if token.is_some() || anonymous {
        GoogleCloudStorageBuilder::new()
    } else {
        GoogleCloudStorageBuilder::from_env()
    };
    builder = builder.with_bucket_name(bucket).with_retry(props.retry()?).with_client_options(options);
    if let Some(host) = host {
        check_endpoint("gcs.service.host", host)?;
        builder = builder.with_base_url(host.trim_end_matches('/'));
    }
    if let Some(token) = token {
        let credential = GcpCredential { bearer: token.to_string() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    } else if anonymous {
        builder = builder.with_skip_signature(true);
    } else if let Some(path) = props.get(&["gcp.auth.credentials-path"]) {
        builder = builder.with_application_credentials(path);
    }
    Ok(builder.build()?)
}
