//! S3 and what speaks its protocol.

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};

use super::{Open, Props, check_endpoint};
use crate::Error;

/// Keys: `s3.endpoint`, `s3.region` or `client.region`, `s3.access-key-id`, `s3.secret-access-key`, `s3.session-token`,
/// `s3.path-style-access`, `s3.anonymous`, `s3.sse.type` (`none`, `s3`, `kms`) and `s3.sse.key`. What they leave open
/// comes from `AWS_*` and the machine's role. Path style unless `s3.path-style-access=false`.
pub(super) fn open(bucket: &str, props: &Props<'_>) -> Result<AmazonS3, Open> {
    if props.flag("s3.remote-signing-enabled")? == Some(true) {
        return Err(Error::unsupported(
            "s3.remote-signing-enabled: requests cannot be signed by the catalog; ask it for vended credentials",
        )
        .into());
    }
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(props.retry()?);
    let from_env = |key| AmazonS3Builder::from_env().get_config_value(&key);
    let endpoint = props
        .get(&["s3.endpoint"])
        .map(str::to_string)
        .or_else(|| from_env(AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| from_env(AmazonS3ConfigKey::Endpoint));
    builder = builder.with_client_options(props.client(endpoint.as_deref()));
    let virtual_host = props.flag("s3.path-style-access")? == Some(false);
    builder = builder.with_virtual_hosted_style_request(virtual_host);
    if let Some(endpoint) = &endpoint {
        let mut url = check_endpoint("s3.endpoint", endpoint)?;
        if virtual_host {
            let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
            url.set_host(Some(&host)).map_err(|e| {
                Error::invalid(format!("s3.endpoint cannot take the bucket {bucket:?} in its host: {e}"))
            })?;
        }
        builder = builder.with_endpoint(url.as_str().trim_end_matches('/'));
    }
    if let Some(region) = props.get(&["s3.region", "client.region"]) {
        builder = builder.with_region(region);
    }
    match (props.get(&["s3.access-key-id"]), props.get(&["s3.secret-access-key"])) {
        (Some(id), Some(secret)) => {
            let credential = AwsCredential {
                key_id: id.to_string(),
                secret_key: secret.to_string(),
                token: props.get(&["s3.session-token"]).map(str::to_string),
            };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        (None, None) => {}
        (Some(_), None) => return Err(Error::invalid("s3.access-key-id is set and s3.secret-access-key is not").into()),
        (None, Some(_)) => return Err(Error::invalid("s3.secret-access-key is set and s3.access-key-id is not").into()),
    }
    if props.flag("s3.anonymous")? == Some(true) {
        builder = builder.with_skip_signature(true);
    }
    match props.get(&["s3.sse.type"]) {
        None | Some("none") => {}
        Some("s3") => builder = builder.with_config(sse("aws_server_side_encryption")?, "AES256"),
        Some("kms") => {
            let key = props.get(&["s3.sse.key"]);
            builder = builder.with_config(sse("aws_server_side_encryption")?, "aws:kms");
            if let Some(key) = key {
                builder = builder.with_config(sse("aws_sse_kms_key_id")?, key);
            }
        }
        Some(other) => {
            return Err(Error::unsupported(format!("s3.sse.type is {other:?}; allowed: none, s3, kms")).into());
        }
    }
    Ok(builder.build()?)
}

fn sse(key: &str) -> Result<AmazonS3ConfigKey, object_store::Error> {
    key.parse()
}
