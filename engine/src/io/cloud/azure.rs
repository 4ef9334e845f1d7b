//! Azure Data Lake and Blob Storage: `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…` and its kin.

use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};

use super::{Open, Props, check_endpoint};
use crate::Error;

const PUBLIC_CLOUD: &str = "core.windows.net";

/// Keys: `adls.connection-string[.HOST]`, `adls.sas-token[.HOST or .ACCOUNT]`, `adls.auth.shared-key.account.name` and
/// `.key` (also `adls.account-name`, `adls.account-key`), `adls.token`, `adls.tenant-id` with `adls.client-id` and
/// `adls.client-secret`, `adls.account-host`. What they leave open comes from `AZURE_*` and the machine's identity.
pub(super) fn open(authority: &str, props: &Props<'_>) -> Result<MicrosoftAzure, Open> {
    let (container, host) = match authority.split_once('@') {
        Some((container, host)) => (container, Some(host)),
        None => (authority, None),
    };
    if container.is_empty() || host.is_some_and(str::is_empty) {
        return Err(Error::invalid("expected CONTAINER@ACCOUNT.dfs.core.windows.net after abfss://").into());
    }
    let account_of_host = host.map(|h| h.split('.').next().unwrap_or(h));
    let scoped = |key: &str| {
        let by_host = host.map(|h| format!("{key}.{h}"));
        let by_account = account_of_host.map(|a| format!("{key}.{a}"));
        let keys: Vec<&str> = [by_host.as_deref(), by_account.as_deref(), Some(key)].into_iter().flatten().collect();
        props.get(&keys).map(str::to_string)
    };
    let connection =
        scoped("adls.connection-string").map(|text| Connection::parse(&text)).transpose()?.unwrap_or_default();
    let account = account_of_host
        .map(str::to_string)
        .or(connection.account)
        .or_else(|| props.get(&["adls.auth.shared-key.account.name", "adls.account-name"]).map(str::to_string));
    let key = connection
        .key
        .or_else(|| props.get(&["adls.auth.shared-key.account.key", "adls.account-key"]).map(str::to_string));
    let sas = connection.sas.or_else(|| scoped("adls.sas-token"));
    // Other clouds have other suffixes; the Data Lake host has a Blob host beside it.
    let endpoint = connection
        .endpoint
        .or_else(|| {
            props.get(&["adls.account-host"]).map(|h| if h.contains("://") { h.into() } else { format!("https://{h}") })
        })
        .or_else(|| {
            host.filter(|h| !h.ends_with(PUBLIC_CLOUD) && h.contains('.'))
                .map(|h| format!("https://{}", h.replacen(".dfs.", ".blob.", 1)))
        });

    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(props.retry()?)
        .with_client_options(props.client(endpoint.as_deref()))
        // One request less a put, and accounts with hierarchical namespaces have no tags.
        .with_disable_tagging(true);
    if let Some(account) = account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = endpoint {
        check_endpoint("adls endpoint", &endpoint)?;
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_string());
    }
    let client = (props.get(&["adls.client-id"]), props.get(&["adls.client-secret"]), props.get(&["adls.tenant-id"]));
    if let Some(key) = key {
        builder = builder.with_access_key(key);
    } else if let Some(sas) = sas {
        builder = builder.with_config(AzureConfigKey::SasKey, sas.trim_start_matches('?'));
    } else if let Some(token) = props.get(&["adls.token"]) {
        builder = builder.with_bearer_token_authorization(token);
    } else if let (Some(id), Some(secret), Some(tenant)) = client {
        builder = builder.with_client_secret_authorization(id, secret, tenant);
    } else if client != (None, None, None) {
        return Err(Error::invalid("adls.client-id, adls.client-secret and adls.tenant-id are needed together").into());
    }
    Ok(builder.build()?)
}

/// The parts of a storage connection string that matter.
#[derive(Default)]
struct Connection {
    account: Option<String>,
    key: Option<String>,
    sas: Option<String>,
    endpoint: Option<String>,
}

impl Connection {
    fn parse(text: &str) -> Result<Self, Error> {
        let mut out = Self::default();
        let (mut suffix, mut protocol) = (None, "https");
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            // The text is secret: a wrong part is not repeated.
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| Error::invalid("adls.connection-string: expected NAME=VALUE parts separated by ;"))?;
            match name {
                "AccountName" => out.account = Some(value.into()),
                "AccountKey" => out.key = Some(value.into()),
                "SharedAccessSignature" => out.sas = Some(value.into()),
                "BlobEndpoint" => out.endpoint = Some(value.into()),
                "EndpointSuffix" => suffix = Some(value),
                "DefaultEndpointsProtocol" => protocol = value,
                _ => {}
            }
        }
        if let (None, Some(suffix), Some(account)) =
            (&out.endpoint, suffix.filter(|s| *s != PUBLIC_CLOUD), &out.account)
        {
            out.endpoint = Some(format!("{protocol}://{account}.blob.{suffix}"));
        }
        Ok(out)
    }
}
