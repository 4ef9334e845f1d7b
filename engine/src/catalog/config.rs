//! Opening a catalog from what a user wrote: `hadoop:DIR`, `sql:URL`, `rest:URI`, `hive:URI`, or a name in `floe.toml`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use super::{Catalog, HadoopCatalog, HiveCatalog, RestCatalog, SqlCatalog, properties};
use crate::{Error, Result};

const ALLOWED: &str = "hadoop:DIR, sql:sqlite:PATH, sql:postgres://HOST/DATABASE, rest:URI, hive:thrift://HOST:PORT, or the name of a [catalog.NAME] section in floe.toml";

/// Kinds of catalog; the last is another word for `sql`.
const KINDS: [&str; 5] = ["hadoop", "sql", "rest", "hive", "jdbc"];

/// Opens the catalog that `spec` names and calls it `name`. Properties given here win over those of `floe.toml`, which is
/// looked for in the current folder and its parents.
pub async fn open_catalog(spec: &str, name: &str, props: HashMap<String, String>) -> Result<Arc<dyn Catalog>> {
    open_catalog_in(Path::new("."), spec, name, props).await
}

/// [`open_catalog`] with `floe.toml` looked for from `folder` upwards.
pub async fn open_catalog_in(
    folder: &Path,
    spec: &str,
    name: &str,
    props: HashMap<String, String>,
) -> Result<Arc<dyn Catalog>> {
    properties::check_catalog("", &props)?;
    if let Some((kind, target)) = spec.split_once(':') {
        return open_kind(kind, target, name, props).await;
    }
    let Section { kind, props: mut all } = from_file(folder, spec)?;
    all.extend(props);
    let key = if kind == "hadoop" { "warehouse" } else { "uri" };
    let target = all.get(key).cloned().ok_or_else(|| {
        Error::invalid(format!("catalog {spec:?} of type {kind:?} needs `{key}`")).at(format!("[catalog.{spec}]"))
    })?;
    open_kind(&kind, &target, name, all).await
}

async fn open_kind(kind: &str, target: &str, name: &str, props: HashMap<String, String>) -> Result<Arc<dyn Catalog>> {
    match kind {
        "hadoop" => Ok(Arc::new(HadoopCatalog::new(name, &absolute(target)?, props)?)),
        "sql" | "jdbc" => {
            let mut props = props;
            if let Some(w) = props.get("warehouse") {
                let w = absolute(w)?;
                props.insert("warehouse".into(), w);
            }
            Ok(Arc::new(SqlCatalog::open(name, target, props).await?))
        }
        "rest" => Ok(Arc::new(RestCatalog::open(name, target, props).await?)),
        "hive" => {
            let mut props = props;
            if let Some(w) = props.get("warehouse") {
                let w = absolute(w)?;
                props.insert("warehouse".into(), w);
            }
            Ok(Arc::new(HiveCatalog::open(name, target, props).await?))
        }
        _ => Err(Error::invalid(format!("unknown kind of catalog {kind:?}; allowed: {ALLOWED}"))),
    }
}

/// A folder as a location: URIs stay, paths become absolute (LOC-1).
fn absolute(target: &str) -> Result<String> {
    if target.is_empty() {
        return Err(Error::invalid("a Hadoop catalog needs its warehouse folder: hadoop:DIR"));
    }
    if target.split_once(':').is_some_and(|(scheme, _)| scheme.len() > 1 && !scheme.contains('/')) {
        return Ok(target.to_string());
    }
    let path = std::path::absolute(target)?;
    // `./` and `//` go, `..` stays refused by the store.
    let path: std::path::PathBuf = path.components().collect();
    path.into_os_string().into_string().map_err(|_| Error::invalid("the warehouse folder's name is not UTF-8"))
}

/// A section `[catalog.NAME]`.
#[derive(Debug, PartialEq)]
struct Section {
    kind: String,
    props: HashMap<String, String>,
}

fn from_file(folder: &Path, name: &str) -> Result<Section> {
    let start = std::path::absolute(folder)?;
    let Some(file) = start.ancestors().map(|a| a.join("floe.toml")).find(|f| f.is_file()) else {
        return Err(Error::invalid(format!(
            "{name:?} is no catalog, and there is no floe.toml to look it up; allowed: {ALLOWED}"
        )));
    };
    let text = std::fs::read_to_string(&file)
        .map_err(|e| Error::system("cannot read the catalogs' file", e).at(file.display()))?;
    let mut section = parse_section(&text, name).map_err(|e| e.at(file.display()))?;
    // A relative warehouse is relative to the file that says it.
    if let (Some(w), Some(parent)) = (section.props.get_mut("warehouse"), file.parent())
        && !w.contains(':')
    {
        *w = parent.join(&*w).to_string_lossy().into_owned();
    }
    Ok(section)
}

fn parse_section(text: &str, name: &str) -> Result<Section> {
    let document: Table = text.parse().map_err(|e| Error::invalid(format!("not valid TOML: {e}")))?;
    let catalogs = document.get("catalog").and_then(Value::as_table);
    let Some(section) = catalogs.and_then(|c| c.get(name)).and_then(Value::as_table) else {
        let mut known: Vec<&str> = catalogs.map(|c| c.keys().map(String::as_str).collect()).unwrap_or_default();
        known.sort_unstable();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        return Err(Error::invalid(format!("no section [catalog.{name}]; it has: {known}")));
    };
    let mut props = HashMap::new();
    for (key, value) in section {
        flatten(key, value, &mut props)?;
    }
    let kind = props.remove("type");
    let Some(kind) = kind.clone().filter(|k| KINDS.contains(&k.as_str())) else {
        let found = kind.map_or_else(|| "no `type`".into(), |k| format!("the `type` {k:?}"));
        let allowed = KINDS[..KINDS.len() - 1].join(", ");
        return Err(Error::invalid(format!("[catalog.{name}] has {found}; allowed: {allowed}")));
    };
    properties::check_catalog(&format!("[catalog.{name}] "), &props)?;
    Ok(Section { kind, props })
}

/// Nested tables become dotted keys: `s3.endpoint` may be written either way.
fn flatten(key: &str, value: &Value, out: &mut HashMap<String, String>) -> Result<()> {
    let text = match value {
        Value::Table(table) => {
            return table.iter().try_for_each(|(k, inner)| flatten(&format!("{key}.{k}"), inner, out));
        }
        Value::String(s) => s.clone(),
        Value::Integer(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::Boolean(b) => b.to_string(),
        _ => {
            return Err(Error::invalid(format!("{key}: a property is a string, a number or a boolean")));
        }
    };
    out.insert(key.to_string(), text);
    Ok(())
}

#[cfg(test)]
mod tests;
