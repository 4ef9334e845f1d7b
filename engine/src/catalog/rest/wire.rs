//! JSON of the REST protocol, both directions: the client and floe's own server share it.

use std::collections::HashMap;

use iceberg::spec::{FormatVersion, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::super::NewTable;
use super::http::string_map;
use crate::table::Metadata;
use crate::types::{ExtTypes, restore_types, substitute};
use crate::{Error, Result};

/// A load, create, register or commit result (REST-40).
#[derive(Debug)]
pub struct LoadResult {
    /// Where the metadata lies; `None` while a table is only staged.
    pub metadata_location: Option<String>,
    /// The table's metadata.
    pub metadata: Metadata,
    /// The table's configuration, with the storage credentials merged in.
    pub config: HashMap<String, String>,
}

/// Parses a load result. Of several storage credentials the longest prefix of the table's location wins (REST-15).
pub fn parse_load_result(body: &Value) -> Result<LoadResult> {
    let metadata = body
        .get("metadata")
        .filter(|m| m.is_object())
        .ok_or_else(|| Error::malformed("the result has no metadata").clause("REST-40"))?;
    let metadata = Metadata::from_json(&serde_json::to_vec(metadata).map_err(internal)?)?;
    let mut config = string_map(body.get("config"));
    let credentials = body.get("storage-credentials").and_then(Value::as_array).into_iter().flatten();
    let best = credentials
        .filter_map(|c| Some((c.get("prefix")?.as_str()?, c.get("config")?)))
        .filter(|(prefix, _)| metadata.location().starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len());
    if let Some((_, credential)) = best {
        config.extend(string_map(Some(credential)));
    }
    let metadata_location = body.get("metadata-location").and_then(Value::as_str).map(str::to_string);
    Ok(LoadResult { metadata_location, metadata, config })
}

/// A namespace: a list of levels.
pub fn parse_namespace(value: &Value) -> Result<NamespaceIdent> {
    let levels: Option<Vec<String>> = value
        .as_array()
        .and_then(|levels| levels.iter().map(|l| l.as_str().filter(|l| !l.is_empty()).map(str::to_string)).collect());
    match levels {
        Some(levels) if !levels.is_empty() => Ok(NamespaceIdent::from_vec(levels)?),
        _ => Err(Error::invalid(format!("a namespace is a list of non-empty names; found {value}"))),
    }
}

/// A table identifier.
pub fn parse_ident(value: &Value) -> Result<TableIdent> {
    let ns = parse_namespace(value.get("namespace").unwrap_or(&Value::Null))?;
    match value.get("name").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => Ok(TableIdent::new(ns, name.to_string())),
        _ => Err(Error::invalid(format!("a table identifier has a namespace and a name; found {value}"))),
    }
}

/// The reverse of [`parse_ident`].
pub fn ident_json(ident: &TableIdent) -> Value {
    json!({ "namespace": ident.namespace().as_ref() as &Vec<String>, "name": ident.name() })
}

/// Body of a create request (REST-8); the format version travels as a property.
pub fn create_request(table: &NewTable) -> Result<Value> {
    let mut properties = table.properties.clone();
    properties.insert("format-version".into(), (table.format_version as u8).to_string());
    // a staged creation only where it is asked for: the default, which Nessie wants to be told
    let mut body = json!({
        "name": table.ident.name(), "schema": encode(&table.schema)?, "properties": properties, "stage-create": false,
    });
    let fields = body.as_object_mut().expect("made as an object");
    if let Some(location) = &table.location {
        fields.insert("location".into(), json!(location));
    }
    if let Some(spec) = &table.partition_spec {
        fields.insert("partition-spec".into(), encode(spec)?);
    }
    if let Some(order) = &table.sort_order {
        fields.insert("write-order".into(), encode(order)?);
    }
    restore_types(&mut body["schema"], &table.ext);
    Ok(body)
}

/// What a create request asks for, and whether it is only staged.
pub fn parse_create_request(ns: NamespaceIdent, body: &Value) -> Result<(NewTable, bool)> {
    let name = body
        .get("name")
        .and_then(Value::as_str)
        .filter(|n| !n.is_empty())
        .ok_or_else(|| Error::invalid("a create request needs a name").clause("REST-8"))?;
    let mut properties = string_map(body.get("properties"));
    let format_version = match properties.remove("format-version").as_deref() {
        None | Some("2") => FormatVersion::V2,
        Some("1") => FormatVersion::V1,
        Some("3") => FormatVersion::V3,
        Some(v) => {
            return Err(Error::invalid(format!("format-version is {v:?}; allowed: 1, 2, 3")).clause("META-F01"));
        }
    };
    let mut ext = ExtTypes::default();
    let mut schema = body
        .get("schema")
        .cloned()
        .ok_or_else(|| Error::invalid("a create request needs a schema").clause("REST-8"))?;
    substitute(&mut schema, &mut ext)?;
    let table = NewTable {
        ident: TableIdent::new(ns, name.to_string()),
        schema: decode(schema, "schema")?,
        ext,
        partition_spec: optional::<UnboundPartitionSpec>(body, "partition-spec")?.filter(|s| !s.fields().is_empty()),
        sort_order: optional::<iceberg::spec::SortOrder>(body, "write-order")?.filter(|o| !o.fields.is_empty()),
        location: body.get("location").and_then(Value::as_str).map(str::to_string),
        properties,
        format_version,
    };
    Ok((table, body.get("stage-create").and_then(Value::as_bool).unwrap_or(false)))
}

/// Body of a commit (REST-50); extended types are put back into added schemas.
pub fn commit_request(
    ident: &TableIdent,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    ext: &ExtTypes,
) -> Result<Value> {
    let updates = updates.iter().map(|u| update_json(u, ext)).collect::<Result<Vec<_>>>()?;
    Ok(json!({ "identifier": ident_json(ident), "requirements": encode(&requirements)?, "updates": updates }))
}

fn update_json(update: &TableUpdate, ext: &ExtTypes) -> Result<Value> {
    let mut value = encode(update)?;
    if let Some(schema) = value.get_mut("schema") {
        restore_types(schema, ext);
    }
    Ok(value)
}

/// The commit that creates a table with given metadata: `assert-create`, then everything as updates.
pub fn creating_commit(ident: &TableIdent, metadata: &Metadata) -> Result<Value> {
    let mut updates = vec![
        json!({ "action": "assign-uuid", "uuid": metadata.uuid() }),
        json!({ "action": "upgrade-format-version", "format-version": metadata.format_version() as u8 }),
        json!({ "action": "set-location", "location": metadata.location() }),
    ];
    let mut add = |action: &str, key: &str, value: Value| updates.push(json!({ "action": action, key: value }));
    let mut schema = encode(metadata.current_schema().as_ref())?;
    restore_types(&mut schema, &metadata.ext);
    add("add-schema", "schema", schema);
    add("set-current-schema", "schema-id", json!(-1));
    add("add-spec", "spec", encode(metadata.default_partition_spec().as_ref())?);
    add("set-default-spec", "spec-id", json!(-1));
    add("add-sort-order", "sort-order", encode(metadata.default_sort_order().as_ref())?);
    add("set-default-sort-order", "sort-order-id", json!(-1));
    if !metadata.properties().is_empty() {
        add("set-properties", "updates", json!(metadata.properties()));
    }
    let mut snapshots: Vec<_> = metadata.snapshots().cloned().collect();
    snapshots.sort_by_key(|s| s.sequence_number());
    for snapshot in snapshots {
        let update = TableUpdate::AddSnapshot { snapshot: snapshot.as_ref().clone() };
        updates.push(encode(&update)?);
    }
    if let Some(head) = metadata.current_snapshot() {
        updates.push(json!({
            "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": head.snapshot_id(),
        }));
    }
    Ok(json!({ "identifier": ident_json(ident), "requirements": [{ "type": "assert-create" }], "updates": updates }))
}

/// A parsed commit.
#[derive(Debug)]
pub struct Commit {
    /// What must hold.
    pub requirements: Vec<TableRequirement>,
    /// The updates in the crate's model, extended types replaced.
    pub updates: Vec<TableUpdate>,
    /// The same as they came.
    pub raw: Vec<Value>,
    /// True types of the columns of added schemas.
    pub ext: ExtTypes,
}

impl Commit {
    /// Whether this commit creates the table.
    pub fn creates(&self) -> bool {
        self.requirements.contains(&TableRequirement::NotExist)
    }
}

/// Parses a commit; an unknown requirement or update is refused (REST-51).
pub fn parse_commit(body: &Value) -> Result<Commit> {
    let list = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.clone()),
        Some(_) => Err(Error::invalid(format!("{key} is a list")).clause("REST-50")),
    };
    let raw = list("updates")?;
    let mut ext = ExtTypes::default();
    let mut updates = Vec::new();
    for update in &raw {
        let mut update = update.clone();
        if let Some(schema) = update.get_mut("schema") {
            substitute(schema, &mut ext)?;
        }
        let action = update.get("action").and_then(Value::as_str).unwrap_or_default().to_string();
        updates.push(decode::<TableUpdate>(update, &format!("update {action:?}")).map_err(|e| e.clause("REST-51"))?);
    }
    let requirements = list("requirements")?
        .into_iter()
        .map(|r| {
            let kind = r.get("type").and_then(Value::as_str).unwrap_or_default().to_string();
            decode(r, &format!("requirement {kind:?}")).map_err(|e| e.clause("REST-51"))
        })
        .collect::<Result<_>>()?;
    Ok(Commit { requirements, updates, raw, ext })
}

/// Metadata of a table that a commit creates, from its updates; snapshots and refs are left for the builder. `location` is
/// used when no update says one.
pub fn metadata_of_creation(commit: &Commit, location: Option<String>) -> Result<Metadata> {
    let last = |action: &str, key: &str| {
        commit
            .raw
            .iter()
            .rev()
            .find(|u| u.get("action").and_then(Value::as_str) == Some(action))
            .and_then(|u| u.get(key))
            .cloned()
    };
    let missing = |what: &str| Error::invalid(format!("a commit that creates a table needs {what}")).clause("REST-R1");
    let mut schema = last("add-schema", "schema").ok_or_else(|| missing("add-schema"))?;
    let schema_fields = schema.as_object_mut().ok_or_else(|| missing("a schema object"))?;
    schema_fields.insert("schema-id".into(), json!(0));
    let last_column_id = max_id(&schema);
    let mut spec = last("add-spec", "spec").unwrap_or(json!({ "fields": [] }));
    let mut last_partition_id = 999;
    for field in spec.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
        let id = field.get("field-id").and_then(Value::as_i64).unwrap_or(last_partition_id + 1);
        last_partition_id = last_partition_id.max(id);
        field.as_object_mut().ok_or_else(|| missing("partition fields"))?.insert("field-id".into(), json!(id));
    }
    spec.as_object_mut().ok_or_else(|| missing("a spec object"))?.insert("spec-id".into(), json!(0));
    let mut order = last("add-sort-order", "sort-order").unwrap_or(json!({ "fields": [] }));
    let sorted = order.get("fields").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
    let order_id = i32::from(sorted);
    order.as_object_mut().ok_or_else(|| missing("a sort order object"))?.insert("order-id".into(), json!(order_id));
    let version = last("upgrade-format-version", "format-version").and_then(|v| v.as_u64()).unwrap_or(2);
    let location = last("set-location", "location")
        .and_then(|l| l.as_str().map(str::to_string))
        .or(location)
        .ok_or_else(|| missing("set-location"))?;
    let mut properties = Map::new();
    for update in &commit.raw {
        match (update.get("action").and_then(Value::as_str), update.get("updates"), update.get("removals")) {
            (Some("set-properties"), Some(Value::Object(set)), _) => properties.extend(set.clone()),
            (Some("remove-properties"), _, Some(Value::Array(keys))) => {
                properties.retain(|k, _| !keys.iter().any(|r| r.as_str() == Some(k)));
            }
            _ => {}
        }
    }
    let uuid = last("assign-uuid", "uuid").unwrap_or_else(|| json!(uuid::Uuid::new_v4()));
    let mut json = json!({
        "format-version": version,
        "table-uuid": uuid,
        "location": location.trim_end_matches('/'),
        "last-sequence-number": 0,
        "last-updated-ms": chrono::Utc::now().timestamp_millis(),
        "last-column-id": last_column_id,
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [spec],
        "last-partition-id": last_partition_id,
        "default-sort-order-id": order_id,
        "sort-orders": [order],
        "properties": properties,
        "snapshots": [], "refs": {}, "snapshot-log": [], "metadata-log": [],
    });
    if version >= 3 {
        json["next-row-id"] = json!(0);
    }
    if version == 1 {
        json["schema"] = json["schemas"][0].clone();
        json["partition-spec"] = json["partition-specs"][0]["fields"].clone();
    }
    Metadata::from_json(&serde_json::to_vec(&json).map_err(internal)?)
}

/// Highest field id in a schema.
fn max_id(value: &Value) -> i64 {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| match k.as_str() {
                "id" | "element-id" | "key-id" | "value-id" => v.as_i64().unwrap_or(0),
                _ => max_id(v),
            })
            .max()
            .unwrap_or(0),
        Value::Array(items) => items.iter().map(max_id).max().unwrap_or(0),
        _ => 0,
    }
}

fn optional<T: DeserializeOwned>(body: &Value, key: &str) -> Result<Option<T>> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => decode(v.clone(), key).map(Some),
    }
}

fn decode<T: DeserializeOwned>(value: Value, what: &str) -> Result<T> {
    serde_json::from_value(value).map_err(|e| Error::invalid(format!("{what}: {e}")).with_source(e))
}

fn encode<T: Serialize>(value: &T) -> Result<Value> {
    serde_json::to_value(value).map_err(internal)
}

fn internal(e: serde_json::Error) -> Error {
    Error::internal(format!("JSON: {e}")).with_source(e)
}
