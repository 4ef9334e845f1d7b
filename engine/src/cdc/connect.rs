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
    const ALLOWED: &str = "hadoop (with `warehouse`), hive, rest, sql, jdbc (with `uri`)";
    let bad = |m: String| Error::invalid(m).at("catalog_properties");
    let kind = c.properties.get("type").ok_or_else(|| bad(format!("key `type` is required; allowed: {ALLOWED}")))?;
    let key = match kind.to_ascii_lowercase().as_str() {
        "hadoop" => "warehouse",
        "hive" | "rest" | "sql" | "jdbc" => "uri",
        other => return Err(bad(format!("key `type` is {other:?}; allowed: {ALLOWED}"))),
    };
    let place = c.properties.get(key).ok_or_else(|| bad(format!("a catalog of type {kind} needs key `{key}`")))?;
    let props: HashMap<String, String> =
        c.properties.iter().filter(|(k, _)| *k != "type").map(|(k, v)| (k.clone(), v.clone())).collect();
    open_catalog(&format!("{}:{place}", kind.to_ascii_lowercase()), &c.name, props).await
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
