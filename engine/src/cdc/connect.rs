//! Catalogs and tables named by a configuration.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::{NamespaceIdent, TableIdent};

use super::config::CatalogConfig;
use crate::catalog::{Catalog, open_catalog};
use crate::{Error, Result};

/// Opens the catalog of a configuration. Without `catalog_properties`, `catalog_name` is a catalog of `floe.toml`.
pub async fn connect(c: &CatalogConfig) -> Result<Arc<dyn Catalog>> {
    if c.properties.is_empty() {
        return open_catalog(&c.name, &c.name, HashMap::new()).await;
    }
    // the configuration has checked both keys
    let kind = c.properties.get("type").map(|k| k.to_ascii_lowercase()).unwrap_or_default();
    let key = if kind == "hadoop" { "warehouse" } else { "uri" };
    let place = c.properties.get(key).map_or("", String::as_str);
    let props: HashMap<String, String> =
        c.properties.iter().filter(|(k, _)| *k != "type").map(|(k, v)| (k.clone(), v.clone())).collect();
    open_catalog(&format!("{kind}:{place}"), &c.name, props).await
}

/// `namespace.table` as an identifier.
pub fn table_ident(name: &str) -> Result<TableIdent> {
    let mut parts: Vec<String> = name.split('.').map(str::to_string).collect();
    match parts.pop() {
        Some(table) if !parts.is_empty() && !table.is_empty() => {
            Ok(TableIdent::new(NamespaceIdent::from_vec(parts)?, table))
        }
        _ => Err(Error::invalid(format!("{name:?} is no table name; allowed: NAMESPACE.TABLE"))),
    }
}
