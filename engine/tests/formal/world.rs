//! One table in memory: a catalog that can lose answers, and the files under it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use floe_engine::catalog::{Catalog, NewTable, TableCommit};
use floe_engine::io::FileIo;
use floe_engine::table::Metadata;
use floe_engine::types::ExtTypes;
use floe_engine::{Error, ErrorKind, Result, Table};
use iceberg::spec::{
    FormatVersion, NestedField, PrimitiveType, Schema, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use iceberg::{NamespaceIdent, TableCreation, TableIdent};
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::store::{Call, Fate, Hook, Tap};

/// What becomes of a commit request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Net {
    /// It is answered.
    Clean,
    /// It is carried out, the answer is lost.
    AnswerLost,
    /// It never arrives.
    RequestLost,
}

/// A version of the table.
pub type Version = (String, Arc<Metadata>);

/// Catalog of one table.
#[derive(Debug)]
pub struct One {
    current: Mutex<Version>,
    io: FileIo,
    net: Net,
}

impl One {
    pub fn new(current: Version, io: FileIo, net: Net) -> Arc<Self> {
        Arc::new(Self { current: Mutex::new(current), io, net })
    }

    /// The newest version, from the catalog's own view.
    pub fn version(&self) -> Version {
        self.current.lock().expect("no panic while held").clone()
    }

    pub fn table(self: &Arc<Self>) -> Table {
        let (location, metadata) = self.version();
        Table::new(ident(), location.as_str(), metadata, self.io.clone(), self.clone())
    }
}

pub fn ident() -> TableIdent {
    TableIdent::from_strs(["ns", "t"]).expect("a name")
}

fn no<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!("{what}: this catalog has one table")))
}

#[async_trait]
impl Catalog for One {
    fn name(&self) -> &str {
        "one"
    }

    async fn list_namespaces(&self, _: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        no("list_namespaces")
    }

    async fn create_namespace(&self, _: &NamespaceIdent, _: HashMap<String, String>) -> Result<()> {
        no("create_namespace")
    }

    async fn namespace_exists(&self, _: &NamespaceIdent) -> Result<bool> {
        Ok(true)
    }

    async fn namespace_properties(&self, _: &NamespaceIdent) -> Result<HashMap<String, String>> {
        Ok(HashMap::new())
    }

    async fn drop_namespace(&self, _: &NamespaceIdent) -> Result<()> {
        no("drop_namespace")
    }

    async fn list_tables(&self, _: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        Ok(vec![ident()])
    }

    async fn table_exists(&self, _: &TableIdent) -> Result<bool> {
        Ok(true)
    }

    async fn create_table(self: Arc<Self>, _: NewTable) -> Result<Table> {
        no("create_table")
    }

    async fn load_table(self: Arc<Self>, _: &TableIdent) -> Result<Table> {
        Ok(self.table())
    }

    async fn drop_table(&self, _: &TableIdent, _: bool) -> Result<()> {
        no("drop_table")
    }

    async fn rename_table(&self, _: &TableIdent, _: &TableIdent) -> Result<()> {
        no("rename_table")
    }

    async fn register_table(self: Arc<Self>, _: &TableIdent, _: &str) -> Result<Table> {
        no("register_table")
    }

    async fn commit_table(self: Arc<Self>, commit: TableCommit) -> Result<Table> {
        if self.net == Net::RequestLost {
            return Err(Error::new(ErrorKind::Io, "injected: connection refused"));
        }
        {
            let mut current = self.current.lock().expect("no panic while held");
            if current.0 != commit.base.metadata_location() {
                return Err(Error::new(ErrorKind::CommitFailed, "the pointer moved"));
            }
            for r in &commit.requirements {
                r.check(Some(&current.1.inner))?;
            }
            let location = format!("memory:/t/metadata/{}.json", uuid::Uuid::new_v4());
            *current = (location, Arc::new(commit.metadata));
        }
        if self.net == Net::AnswerLost {
            return Err(Error::new(ErrorKind::Io, "injected: connection reset"));
        }
        Ok(self.table())
    }
}

/// Remembers deletes and does none: other branches of the exploration still need the files.
#[derive(Default)]
pub struct Deleted(pub Mutex<Vec<String>>);

impl Hook for Deleted {
    fn fate(&self, call: Call, path: &Path) -> Fate {
        if call != Call::Delete {
            return Fate::Go;
        }
        self.0.lock().expect("no panic while held").push(format!("memory:/{path}"));
        Fate::Skip
    }
}

/// Files over `store`, and the record of deletes.
pub fn files(store: &Arc<InMemory>) -> (FileIo, Arc<Deleted>) {
    let deleted = Arc::new(Deleted::default());
    let io = FileIo::default();
    io.register("memory://", Arc::new(Tap::new(store.clone(), deleted.clone())));
    (io, deleted)
}

/// A new table `(k int, v int, p int)`, partitioned by `p`, which is `k % 2`.
pub fn empty(version: FormatVersion, properties: &[(&str, &str)]) -> Version {
    let field = |id, name| NestedField::optional(id, name, Type::Primitive(PrimitiveType::Int)).into();
    let schema =
        Schema::builder().with_fields([field(1, "k"), field(2, "v"), field(3, "p")]).build().expect("a schema");
    let spec =
        UnboundPartitionSpec::builder().add_partition_field(3, "p", Transform::Identity).expect("a spec").build();
    // packing manifests would take most of the time
    let own = [("commit.retry.num-retries", "0"), ("write.manifest.compression-codec", "uncompressed")];
    let properties = own.iter().chain(properties);
    let creation = TableCreation::builder()
        .name("t".to_string())
        .location("memory:/t".to_string())
        .schema(schema)
        .partition_spec_opt(Some(spec))
        .properties(properties.map(|(k, v)| (k.to_string(), v.to_string())).collect::<HashMap<_, _>>())
        .format_version(version)
        .build();
    let built = TableMetadataBuilder::from_table_creation(creation).and_then(|b| b.build()).expect("a table");
    ("memory:/t/metadata/v1.json".into(), Arc::new(Metadata { inner: built.metadata, ext: ExtTypes::default() }))
}
