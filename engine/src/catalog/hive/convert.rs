//! A table as the metastore describes it: columns in Hive's words, and the parameters by which Iceberg tables are known.

use std::collections::{BTreeMap, HashMap};

use iceberg::TableIdent;
use iceberg::spec::{PrimitiveType, Type};

use super::thrift::{Fields, Value};
use crate::table::Metadata;

pub(super) const TABLE_TYPE: &str = "table_type";
pub(super) const METADATA_LOCATION: &str = "metadata_location";
const PREVIOUS_LOCATION: &str = "previous_metadata_location";

// Fields of the metastore's structs.
const TABLE_NAME: i16 = 1;
const TABLE_DATABASE: i16 = 2;
const TABLE_STORAGE: i16 = 7;
const TABLE_PARAMETERS: i16 = 9;
const STORAGE_COLUMNS: i16 = 1;
const STORAGE_LOCATION: i16 = 2;
pub(super) const DATABASE_DESCRIPTION: i16 = 2;
pub(super) const DATABASE_LOCATION: i16 = 3;
pub(super) const DATABASE_PARAMETERS: i16 = 4;

/// Name of a table.
pub(super) fn name_of(table: &Fields) -> Option<&str> {
    table.get(&TABLE_NAME).and_then(Value::as_text)
}

/// Parameters of a table.
pub(super) fn parameters(table: &Fields) -> BTreeMap<String, String> {
    table.get(&TABLE_PARAMETERS).map(Value::text_entries).unwrap_or_default()
}

/// Whether the parameters are an Iceberg table's.
pub(super) fn is_iceberg(parameters: &BTreeMap<String, String>) -> bool {
    parameters.get(TABLE_TYPE).is_some_and(|t| t.eq_ignore_ascii_case("iceberg"))
}

/// A new external table.
pub(super) fn new_table(ident: &TableIdent, owner: &str, metadata: &Metadata, location: &str) -> Fields {
    let now = i32::try_from(chrono::Utc::now().timestamp()).unwrap_or(i32::MAX);
    let serde =
        Fields::from([(2, Value::text("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")), (3, empty_map())]);
    let storage = Fields::from([
        (3, Value::text("org.apache.hadoop.mapred.FileInputFormat")),
        (4, Value::text("org.apache.hadoop.mapred.FileOutputFormat")),
        (5, Value::Bool(false)),
        (6, Value::I32(0)),
        (7, Value::Struct(serde)),
        (8, Value::texts::<String>([])),
        (9, Value::structs(Vec::new())),
        (10, empty_map()),
    ]);
    let mut table = Fields::from([
        (TABLE_NAME, Value::text(ident.name())),
        (TABLE_DATABASE, Value::text(ident.namespace().join("."))),
        (3, Value::text(owner)),
        (4, Value::I32(now)),
        (5, Value::I32(now)),
        (6, Value::I32(0)),
        (TABLE_STORAGE, Value::Struct(storage)),
        (8, Value::structs(Vec::new())),
        (12, Value::text("EXTERNAL_TABLE")),
    ]);
    point_to(&mut table, metadata, location, None);
    table
}

fn empty_map() -> Value {
    Value::text_map([])
}

/// Gives a table another name; everything else stays.
pub(super) fn rename(table: &mut Fields, to: &TableIdent) {
    table.insert(TABLE_NAME, Value::text(to.name()));
    table.insert(TABLE_DATABASE, Value::text(to.namespace().join(".")));
}

/// Makes a table's description that of `metadata`, which lies at `location`. Parameters that others set stay; a table
/// property that `before` had and `metadata` has not goes.
pub(super) fn point_to(table: &mut Fields, metadata: &Metadata, location: &str, before: Option<&Metadata>) {
    let mut parameters = parameters(table);
    for key in before.map(|b| b.properties().keys()).into_iter().flatten() {
        if !metadata.properties().contains_key(key) {
            parameters.remove(key);
        }
    }
    parameters.extend(metadata.properties().iter().map(|(k, v)| (k.clone(), v.clone())));
    if let Some(old) = parameters.insert(METADATA_LOCATION.into(), location.into()) {
        parameters.insert(PREVIOUS_LOCATION.into(), old);
    }
    parameters.insert(TABLE_TYPE.into(), "ICEBERG".into());
    parameters.insert("EXTERNAL".into(), "TRUE".into());
    parameters.insert("uuid".into(), metadata.uuid().to_string());
    table.insert(TABLE_PARAMETERS, Value::text_map(&parameters));
    if let Some(Value::Struct(storage)) = table.get_mut(&TABLE_STORAGE) {
        storage.insert(STORAGE_COLUMNS, Value::structs(columns(metadata)));
        storage.insert(STORAGE_LOCATION, Value::text(metadata.location()));
    }
}

/// Columns of the current schema.
fn columns(metadata: &Metadata) -> Vec<Fields> {
    metadata
        .current_schema()
        .as_struct()
        .fields()
        .iter()
        .map(|f| {
            let kind = if metadata.ext.0.contains_key(&f.id) { "binary".into() } else { hive_type(&f.field_type) };
            let comment = Value::text(f.doc.clone().unwrap_or_default());
            Fields::from([(1, Value::text(f.name.to_lowercase())), (2, Value::text(kind)), (3, comment)])
        })
        .collect()
}

/// Hive's word for a type; what Hive lacks is shown as the nearest it has, for its own programs never read the files.
pub(super) fn hive_type(t: &Type) -> String {
    match t {
        Type::Primitive(p) => match p {
            PrimitiveType::Boolean => "boolean".into(),
            PrimitiveType::Int => "int".into(),
            PrimitiveType::Long => "bigint".into(),
            PrimitiveType::Float => "float".into(),
            PrimitiveType::Double => "double".into(),
            PrimitiveType::Date => "date".into(),
            PrimitiveType::Timestamp | PrimitiveType::TimestampNs => "timestamp".into(),
            PrimitiveType::Timestamptz | PrimitiveType::TimestamptzNs => "timestamp with local time zone".into(),
            PrimitiveType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            PrimitiveType::Time | PrimitiveType::String | PrimitiveType::Uuid => "string".into(),
            PrimitiveType::Fixed(_) | PrimitiveType::Binary => "binary".into(),
        },
        Type::Struct(s) => {
            let fields: Vec<String> =
                s.fields().iter().map(|f| format!("{}:{}", f.name, hive_type(&f.field_type))).collect();
            format!("struct<{}>", fields.join(","))
        }
        Type::List(l) => format!("array<{}>", hive_type(&l.element_field.field_type)),
        Type::Map(m) => format!("map<{},{}>", hive_type(&m.key_field.field_type), hive_type(&m.value_field.field_type)),
    }
}

/// Properties of a database, as Iceberg's namespaces have them.
pub(super) fn namespace_properties(database: &Fields) -> HashMap<String, String> {
    let mut out: HashMap<_, _> =
        database.get(&DATABASE_PARAMETERS).map(Value::text_entries).unwrap_or_default().into_iter().collect();
    for (id, key) in [(DATABASE_LOCATION, "location"), (DATABASE_DESCRIPTION, "comment")] {
        if let Some(text) = database.get(&id).and_then(Value::as_text).filter(|t| !t.is_empty()) {
            out.insert(key.into(), text.into());
        }
    }
    out
}

/// Puts properties into a database's description, replacing all it had.
pub(super) fn set_namespace_properties(database: &mut Fields, properties: &HashMap<String, String>) {
    let special = ["location", "comment"];
    let plain: BTreeMap<_, _> = properties.iter().filter(|(k, _)| !special.contains(&k.as_str())).collect();
    database.insert(DATABASE_PARAMETERS, Value::text_map(plain));
    match properties.get("comment") {
        Some(comment) => database.insert(DATABASE_DESCRIPTION, Value::text(comment)),
        None => database.remove(&DATABASE_DESCRIPTION),
    };
    if let Some(location) = properties.get("location") {
        database.insert(DATABASE_LOCATION, Value::text(location.trim_end_matches('/')));
    }
}
