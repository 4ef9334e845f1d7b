//! A catalog in memory, fake files, and short cuts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use iceberg::spec::{
    FormatVersion, Literal, NestedField, PrimitiveType, Schema, Struct, TableMetadataBuilder, Transform, Type,
    UnboundPartitionSpec,
};
use iceberg::{NamespaceIdent, TableCreation, TableIdent};

use crate::catalog::{Catalog, NewTable, TableCommit};
use crate::commit::{Change, Committed, Producer, commit};
use crate::io::FileIo;
use crate::manifest::{Content, DataFile, FileFormat, ManifestEntry, live_entries, load_manifest, load_manifest_list};
use crate::table::Metadata;
use crate::types::ExtTypes;
use crate::{Error, ErrorKind, Result, Table};

/// What the catalog does with the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Refuse it as if the pointer had moved.
    Lost,
    /// Make it current, then claim not to know.
    UnknownApplied,
    /// Fail with an I/O error.
    Io,
}

/// Catalog in memory; its tables' files are in memory too.
#[derive(Debug, Default)]
pub struct Memory {
    tables: Mutex<HashMap<TableIdent, (String, Arc<Metadata>)>>,
    io: FileIo,
    pub faults: Mutex<VecDeque<Fault>>,
}

impl Memory {
    fn wrap(self: &Arc<Self>, ident: &TableIdent, at: &(String, Arc<Metadata>)) -> Table {
        Table::new(ident.clone(), at.0.as_str(), at.1.clone(), self.io.clone(), self.clone())
    }
}

#[async_trait]
impl Catalog for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    async fn list_namespaces(&self, _: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        Ok(Vec::new())
    }

    async fn create_namespace(&self, _: &NamespaceIdent, _: HashMap<String, String>) -> Result<()> {
        Ok(())
    }

    async fn namespace_exists(&self, _: &NamespaceIdent) -> Result<bool> {
        Ok(true)
    }

    async fn namespace_properties(&self, _: &NamespaceIdent) -> Result<HashMap<String, String>> {
        Ok(HashMap::new())
    }

    async fn drop_namespace(&self, _: &NamespaceIdent) -> Result<()> {
        Ok(())
    }

    async fn list_tables(&self, _: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        Ok(self.tables.lock().unwrap().keys().cloned().collect())
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        Ok(self.tables.lock().unwrap().contains_key(ident))
    }

    async fn create_table(self: Arc<Self>, table: NewTable) -> Result<Table> {
        let location = "memory:/warehouse/t".to_string();
        let creation = TableCreation::builder()
            .name(table.ident.name().to_string())
            .location(location.clone())
            .schema(table.schema)
            .partition_spec_opt(table.partition_spec)
            .properties(table.properties)
            .format_version(table.format_version)
            .build();
        let metadata = TableMetadataBuilder::from_table_creation(creation)?.build()?.metadata;
        let at = (format!("{location}/metadata/v1.json"), Arc::new(Metadata { inner: metadata, ext: table.ext }));
        let out = self.wrap(&table.ident, &at);
        self.tables.lock().unwrap().insert(table.ident, at);
        Ok(out)
    }

    async fn load_table(self: Arc<Self>, ident: &TableIdent) -> Result<Table> {
        let tables = self.tables.lock().unwrap();
        let at = tables.get(ident).ok_or_else(|| Error::not_found("table").at(ident))?;
        Ok(self.wrap(ident, at))
    }

    async fn drop_table(&self, ident: &TableIdent, _: bool) -> Result<()> {
        self.tables.lock().unwrap().remove(ident);
        Ok(())
    }

    async fn rename_table(&self, _: &TableIdent, to: &TableIdent) -> Result<()> {
        Err(Error::unsupported("rename").at(to))
    }

    async fn register_table(self: Arc<Self>, ident: &TableIdent, _: &str) -> Result<Table> {
        Err(Error::unsupported("register").at(ident))
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            Some(Fault::Lost) => {
                return Err(Error::new(ErrorKind::CommitFailed, "injected: the pointer moved"));
            }
            Some(Fault::Io) => return Err(Error::new(ErrorKind::Io, "injected: connection reset")),
            _ => {}
        }
        let ident = commit.base.ident().clone();
        let mut tables = self.tables.lock().unwrap();
        let current = tables.get(&ident).ok_or_else(|| Error::not_found("table").at(&ident))?;
        if current.0 != commit.base.metadata_location() {
            return Err(Error::new(ErrorKind::CommitFailed, "the pointer moved"));
        }
        for r in &commit.requirements {
            r.check(Some(&current.1.inner))?;
        }
        // what a REST server does: the updates alone must give the same row counter as the whole metadata
        let location = format!("memory:/warehouse/t/metadata/{}.json", uuid::Uuid::new_v4());
        tables.insert(ident.clone(), (location, Arc::new(commit.metadata)));
        if fault == Some(Fault::UnknownApplied) {
            return Err(Error::new(ErrorKind::CommitUnknown, "injected: no answer"));
        }
        Ok(self.wrap(&ident, &tables[&ident]))
    }
}

/// A new table (id int, part int), partitioned by identity(part) if asked.
pub async fn table(version: FormatVersion, partitioned: bool, properties: &[(&str, &str)]) -> (Arc<Memory>, Table) {
    let field = |id, name| Arc::new(NestedField::optional(id, name, Type::Primitive(PrimitiveType::Int)));
    let schema = Schema::builder().with_fields([field(1, "id"), field(2, "part")]).build().unwrap();
    let spec = partitioned
        .then(|| UnboundPartitionSpec::builder().add_partition_field(2, "part", Transform::Identity).unwrap().build());
    let catalog = Arc::new(Memory::default());
    let new = NewTable {
        ident: TableIdent::from_strs(["ns", "t"]).unwrap(),
        schema,
        ext: ExtTypes::default(),
        partition_spec: spec,
        sort_order: None,
        location: None,
        properties: properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        format_version: version,
    };
    let table = catalog.clone().create_table(new).await.unwrap();
    (catalog, table)
}

fn file(content: Content, format: FileFormat, name: &str, rows: i64, size: i64) -> DataFile {
    DataFile::new(content, format, format!("memory:/warehouse/t/data/{name}"), 0, Arc::new(Struct::empty()), rows, size)
}

/// An unpartitioned data file.
pub fn data(name: &str, rows: i64, size: i64) -> DataFile {
    file(Content::Data, FileFormat::Parquet, name, rows, size)
}

/// Puts a file into a partition.
pub fn within(mut f: DataFile, spec_id: i32, value: Option<i32>) -> DataFile {
    f.spec_id = spec_id;
    f.partition = Arc::new(Struct::from_iter([value.map(Literal::int)]));
    f
}

/// A deletion vector for `of`; `name` distinguishes Puffin files, `offset` blobs in one.
pub fn dv(of: &DataFile, name: &str, offset: i64, cardinality: i64, blob: i64) -> DataFile {
    let mut f = file(Content::PositionDeletes, FileFormat::Puffin, name, cardinality, 500);
    f.referenced_data_file = Some(of.path.clone());
    f.content_offset = Some(offset);
    f.content_size = Some(blob);
    f.spec_id = of.spec_id;
    f.partition = of.partition.clone();
    f
}

/// A V2 position delete file; `of` makes it file-scoped.
pub fn pos(name: &str, of: Option<&DataFile>, rows: i64, size: i64) -> DataFile {
    let mut f = file(Content::PositionDeletes, FileFormat::Parquet, name, rows, size);
    f.referenced_data_file = of.map(|o| o.path.clone());
    f
}

/// An equality delete file on column 1.
pub fn eq(name: &str, rows: i64, size: i64) -> DataFile {
    let mut f = file(Content::EqualityDeletes, FileFormat::Parquet, name, rows, size);
    f.equality_ids = Some(vec![1]);
    f
}

/// A change of main.
pub fn change(producer: Producer, added: Vec<DataFile>, removed: Vec<DataFile>) -> Change {
    Change { added, removed, ..Change::new(producer) }
}

/// Commits what was read from `table` and returns the table after it.
pub async fn go(table: &Table, producer: Producer, added: Vec<DataFile>, removed: Vec<DataFile>) -> Table {
    let mut c = change(producer, added, removed);
    c.validation.from_snapshot = table.metadata().current_snapshot_id();
    done(commit(table, c).await).table
}

/// Unwraps with the error's text.
pub fn done(r: Result<Committed>) -> Committed {
    r.unwrap_or_else(|e| panic!("commit failed: {e}"))
}

/// A key of the head's summary.
pub fn key(table: &Table, key: &str) -> Option<String> {
    let head = table.metadata().current_snapshot().expect("a head");
    if key == "operation" {
        return Some(head.summary().operation.as_str().to_string());
    }
    head.summary().additional_properties.get(key).cloned()
}

/// Asserts keys of the head's summary; "-" means absent.
#[track_caller]
pub fn expect(table: &Table, want: &[(&str, &str)]) {
    for (k, v) in want {
        let got = key(table, k).unwrap_or_else(|| "-".to_string());
        assert_eq!(got, *v, "{k} of {:?}", table.metadata().current_snapshot().unwrap().summary());
    }
}

/// `first-row-id` and `added-rows` of the head.
pub fn row_range(table: &Table) -> Option<(u64, u64)> {
    table.metadata().current_snapshot().unwrap().row_range()
}

/// Live entries of the head: data, deletes.
pub async fn live(table: &Table) -> (Vec<ManifestEntry>, Vec<ManifestEntry>) {
    live_entries(table, table.metadata().current_snapshot().unwrap().snapshot_id()).await.unwrap()
}

/// All entries of the head, with their manifests' paths.
pub async fn all_entries(table: &Table) -> Vec<(String, Vec<ManifestEntry>)> {
    let mut out = Vec::new();
    for m in load_manifest_list(table.io(), table.metadata().current_snapshot().unwrap()).await.unwrap() {
        let entries = load_manifest(table.io(), &m, table.metadata()).await.unwrap();
        out.push((m.manifest_path, entries));
    }
    out
}

/// Names of the metadata files that exist.
pub async fn stored(table: &Table) -> Vec<String> {
    let mut out: Vec<String> = table
        .io()
        .list("memory:/warehouse/t/metadata")
        .await
        .unwrap()
        .into_iter()
        .map(|f| f.location.rsplit('/').next().unwrap().to_string())
        .collect();
    out.sort();
    out
}
