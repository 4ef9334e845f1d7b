//! The suite every catalog passes, and what its tests share.
#![allow(dead_code)] // each test program uses a part of it

use std::collections::HashMap;
use std::sync::Arc;

use floe_engine::catalog::{Catalog, NewTable, TableCommit};
use floe_engine::table::Metadata;
use floe_engine::{ErrorKind, Result, Table};
use iceberg::spec::{
    FormatVersion, NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference, SnapshotRetention,
    Summary, Transform, Type, UnboundPartitionSpec,
};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};

/// What a catalog can do beyond the common part.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    pub rename: bool,
    pub namespace_properties: bool,
    /// Tables may lie where the caller says.
    pub custom_location: bool,
    /// Namespaces may have several levels.
    pub nested: bool,
    /// Namespaces that are always there.
    pub built_in: &'static [&'static str],
}

impl Abilities {
    /// Everything that only some catalogs can.
    pub const ALL: Self =
        Self { rename: true, namespace_properties: true, custom_location: true, nested: true, built_in: &[] };
    /// What a catalog of folders can.
    pub const FOLDERS: Self =
        Self { rename: false, namespace_properties: false, custom_location: false, nested: true, built_in: &[] };
}

pub fn ns(levels: &[&str]) -> NamespaceIdent {
    NamespaceIdent::from_strs(levels).unwrap()
}

pub fn ident(levels: &[&str], name: &str) -> TableIdent {
    TableIdent::new(ns(levels), name.into())
}

pub fn new_table(ident: &TableIdent, version: FormatVersion) -> NewTable {
    let fields = [
        NestedField::required(7, "id", Type::Primitive(PrimitiveType::Int)),
        NestedField::optional(9, "city", Type::Primitive(PrimitiveType::String)),
    ];
    let schema = Schema::builder().with_fields(fields.map(Arc::new)).build().unwrap();
    let spec = UnboundPartitionSpec::builder().add_partition_field(9, "city", Transform::Identity).unwrap().build();
    NewTable {
        ident: ident.clone(),
        schema,
        ext: Default::default(),
        partition_spec: Some(spec),
        sort_order: None,
        location: None,
        properties: HashMap::from([("write.delete.mode".into(), "merge-on-read".into())]),
        format_version: version,
    }
}

/// A commit that sets a property and adds an empty snapshot on `main`.
pub fn commit_of(base: &Table, key: &str, value: &str) -> TableCommit {
    let m = base.metadata();
    let updates = vec![
        TableUpdate::SetProperties { updates: HashMap::from([(key.to_string(), value.to_string())]) },
        TableUpdate::AddSnapshot { snapshot: next_snapshot(base) },
    ];
    let id = match &updates[1] {
        TableUpdate::AddSnapshot { snapshot } => snapshot.snapshot_id(),
        _ => unreachable!("made above"),
    };
    let retention = SnapshotRetention::branch(None, None, None);
    let mut updates = updates;
    updates.push(TableUpdate::SetSnapshotRef {
        ref_name: "main".into(),
        reference: SnapshotReference::new(id, retention),
    });
    let mut builder = m.inner.clone().into_builder(Some(base.metadata_location().to_string()));
    for update in updates.clone() {
        builder = update.apply(builder).unwrap();
    }
    let inner = builder.build().unwrap().metadata;
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: m.uuid() },
        TableRequirement::RefSnapshotIdMatch {
            r#ref: "main".into(),
            snapshot_id: m.current_snapshot().map(|s| s.snapshot_id()),
        },
    ];
    TableCommit { base: base.clone(), metadata: Metadata { inner, ext: m.ext.clone() }, updates, requirements }
}

fn next_snapshot(base: &Table) -> Snapshot {
    let m = base.metadata();
    let id = uuid::Uuid::new_v4().as_u64_pair().0 as i64 & i64::MAX;
    let builder = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(m.current_snapshot().map(|s| s.snapshot_id()))
        .with_sequence_number(m.next_sequence_number())
        .with_timestamp_ms(m.last_updated_ms() + 1)
        .with_manifest_list(format!("{}/metadata/snap-{id}.avro", m.location()))
        .with_schema_id(m.current_schema_id())
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() });
    if m.format_version() >= FormatVersion::V3 {
        builder.with_row_range(m.next_row_id(), 3).build()
    } else {
        builder.build()
    }
}

/// Commits property `key=value` and a snapshot, again on every lost race. Returns the number of races lost.
pub async fn commit_until_done(catalog: &Arc<dyn Catalog>, ident: &TableIdent, key: &str, value: &str) -> Result<u32> {
    for lost in 0..10_000 {
        let base = catalog.clone().load_table(ident).await?;
        match catalog.clone().commit_table(commit_of(&base, key, value)).await {
            Ok(_) => return Ok(lost),
            Err(e) if e.kind() == ErrorKind::CommitFailed => {
                tokio::time::sleep(std::time::Duration::from_millis(1 + u64::from(lost % 7))).await;
            }
            Err(e) => return Err(e),
        }
    }
    panic!("10,000 lost races");
}

/// Makes a namespace and a table of version 3 in it.
pub async fn make_table(catalog: &Arc<dyn Catalog>, ident: &TableIdent) -> Table {
    catalog.create_namespace(ident.namespace(), HashMap::new()).await.unwrap();
    catalog.clone().create_table(new_table(ident, FormatVersion::V3)).await.unwrap()
}

/// Each writer makes `each` commits, all at once; `judge` must see them all. The table is new.
pub async fn race(judge: &Arc<dyn Catalog>, writers: Vec<Arc<dyn Catalog>>, ident: &TableIdent, each: usize) {
    let count = writers.len();
    let mut tasks = Vec::new();
    for (w, catalog) in writers.into_iter().enumerate() {
        let ident = ident.clone();
        tasks.push(tokio::spawn(async move {
            for n in 0..each {
                commit_until_done(&catalog, &ident, &format!("w{w}-{n}"), "done").await.unwrap();
            }
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    assert_no_lost_commit(judge, ident, count, each).await;
}

/// Checks that exactly the properties `w{writer}-{n}` are there, with one snapshot, one version and one sequence number each.
pub async fn assert_no_lost_commit(catalog: &Arc<dyn Catalog>, ident: &TableIdent, writers: usize, each: usize) {
    let table = catalog.clone().load_table(ident).await.unwrap();
    let m = table.metadata();
    for w in 0..writers {
        for n in 0..each {
            let key = format!("w{w}-{n}");
            assert_eq!(m.properties().get(&key), Some(&"done".to_string()), "lost commit {key}");
        }
    }
    let all = writers * each;
    assert_eq!(m.snapshots().count(), all);
    assert_eq!(m.last_sequence_number(), all as i64);
    assert_eq!(m.history().len(), all);
    if m.format_version() >= FormatVersion::V3 {
        assert_eq!(m.next_row_id(), 3 * all as u64);
    }
    // The ancestry is one line.
    let mut current = m.current_snapshot();
    let mut length = 0;
    while let Some(s) = current {
        length += 1;
        current = s.parent_snapshot_id().and_then(|p| m.snapshot_by_id(p));
    }
    assert_eq!(length, all);
}

fn kind<T: std::fmt::Debug>(r: Result<T>) -> ErrorKind {
    r.expect_err("must be refused").kind()
}

/// Namespaces, tables, commits and errors by kind; leaves the catalog as it found it. `outside` is an empty folder.
pub async fn run(catalog: Arc<dyn Catalog>, can: Abilities, outside: &str) {
    namespaces(&catalog, can).await;
    tables(&catalog, can, outside).await;
    commits(&catalog).await;
    if can.rename {
        renames(&catalog).await;
    }
    registers(&catalog, outside).await;
}

async fn namespaces(catalog: &Arc<dyn Catalog>, can: Abilities) {
    let (top, deep) = (ns(&["a"]), ns(&["a", "b"]));
    assert!(!catalog.namespace_exists(&top).await.unwrap());
    assert_eq!(kind(catalog.namespace_properties(&top).await), ErrorKind::NotFound);
    assert_eq!(kind(catalog.drop_namespace(&top).await), ErrorKind::NotFound);
    assert_eq!(kind(catalog.list_tables(&top).await), ErrorKind::NotFound);
    assert_eq!(kind(catalog.list_namespaces(Some(&top)).await), ErrorKind::NotFound);

    catalog.create_namespace(&top, HashMap::new()).await.unwrap();
    assert_eq!(kind(catalog.create_namespace(&top, HashMap::new()).await), ErrorKind::AlreadyExists);
    let mut listed = catalog.list_namespaces(None).await.unwrap();
    listed.retain(|n| !can.built_in.contains(&n.join(".").as_str()));
    assert_eq!(listed, std::slice::from_ref(&top));
    if can.nested {
        catalog.create_namespace(&deep, HashMap::new()).await.unwrap();
        assert!(catalog.namespace_exists(&deep).await.unwrap());
        assert_eq!(catalog.list_namespaces(Some(&top)).await.unwrap(), std::slice::from_ref(&deep));
        assert_eq!(catalog.list_namespaces(Some(&deep)).await.unwrap(), []);
        assert_eq!(kind(catalog.drop_namespace(&top).await), ErrorKind::Conflict);
        catalog.drop_namespace(&deep).await.unwrap();
    } else {
        assert_eq!(kind(catalog.create_namespace(&deep, HashMap::new()).await), ErrorKind::InvalidInput);
        assert!(!catalog.namespace_exists(&deep).await.unwrap());
        assert_eq!(catalog.list_namespaces(Some(&top)).await.unwrap(), []);
    }
    catalog.drop_namespace(&top).await.unwrap();
    assert!(!catalog.namespace_exists(&top).await.unwrap());

    let props = HashMap::from([("owner".to_string(), "me".to_string()), ("x".to_string(), "1".to_string())]);
    if !can.namespace_properties {
        assert_eq!(kind(catalog.create_namespace(&top, props.clone()).await), ErrorKind::Unsupported);
        assert!(!catalog.namespace_exists(&top).await.unwrap(), "refused before anything was made");
        return;
    }
    catalog.create_namespace(&top, props).await.unwrap();
    assert_eq!(catalog.namespace_properties(&top).await.unwrap()["owner"], "me");
    let set = HashMap::from([("owner".to_string(), "you".to_string()), ("y".to_string(), "it's".to_string())]);
    catalog.update_namespace_properties(&top, &["x".to_string(), "absent".to_string()], &set).await.unwrap();
    let got = catalog.namespace_properties(&top).await.unwrap();
    assert_eq!((got["owner"].as_str(), got["y"].as_str(), got.get("x")), ("you", "it's", None));
    let both = HashMap::from([("y".to_string(), "2".to_string())]);
    let e = catalog.update_namespace_properties(&top, &["y".to_string()], &both).await;
    assert_eq!(kind(e), ErrorKind::InvalidInput);
    catalog.drop_namespace(&top).await.unwrap();
}

async fn tables(catalog: &Arc<dyn Catalog>, can: Abilities, outside: &str) {
    let levels: &[&str] = if can.nested { &["sales", "eu"] } else { &["sales"] };
    let space = ns(levels);
    catalog.create_namespace(&ns(&["sales"]), HashMap::new()).await.unwrap();
    if can.nested {
        catalog.create_namespace(&space, HashMap::new()).await.unwrap();
    }
    let id = ident(levels, "orders");
    assert!(!catalog.table_exists(&id).await.unwrap());
    assert_eq!(kind(catalog.clone().load_table(&id).await), ErrorKind::NotFound);
    assert_eq!(kind(catalog.drop_table(&id, false).await), ErrorKind::NotFound);
    let stray = new_table(&ident(&["nowhere"], "t"), FormatVersion::V3);
    assert_eq!(kind(catalog.clone().create_table(stray).await), ErrorKind::NotFound);
    let mut reserved = new_table(&id, FormatVersion::V3);
    reserved.properties.insert("format-version".into(), "3".into());
    assert_eq!(kind(catalog.clone().create_table(reserved).await), ErrorKind::InvalidInput);
    let mut codec = new_table(&id, FormatVersion::V3);
    codec.properties.insert("write.metadata.compression-codec".into(), "lz4".into());
    assert_eq!(kind(catalog.clone().create_table(codec).await), ErrorKind::InvalidInput);
    assert!(catalog.list_tables(&space).await.unwrap().is_empty());

    let made = catalog.clone().create_table(new_table(&id, FormatVersion::V3)).await.unwrap();
    let again = new_table(&id, FormatVersion::V3);
    assert_eq!(kind(catalog.clone().create_table(again).await), ErrorKind::AlreadyExists);
    let loaded = catalog.clone().load_table(&id).await.unwrap();
    assert_eq!(loaded.ident(), &id);
    assert_eq!(loaded.metadata().uuid(), made.metadata().uuid());
    assert_eq!(loaded.metadata().inner, made.metadata().inner);
    assert_eq!(loaded.metadata_location(), made.metadata_location());
    let m = loaded.metadata();
    assert_eq!((m.format_version(), m.next_row_id()), (FormatVersion::V3, 0));
    let ids: Vec<i32> = m.current_schema().as_struct().fields().iter().map(|f| f.id).collect();
    assert_eq!(ids, [1, 2], "field ids are given anew (META-9)");
    assert_eq!(m.default_partition_spec().fields()[0].source_id, 2);
    assert_eq!(m.properties()["write.delete.mode"], "merge-on-read");
    assert_eq!(m.properties()["write.parquet.compression-codec"], "zstd");
    assert!(!m.properties().contains_key("format-version"));
    assert!(!m.location().ends_with('/'));
    assert_eq!(catalog.list_tables(&space).await.unwrap(), std::slice::from_ref(&id));
    assert_eq!(catalog.list_namespaces(Some(&space)).await.unwrap(), [], "a table is no namespace");
    assert_eq!(kind(catalog.drop_namespace(&space).await), ErrorKind::Conflict);

    let v2 = ident(levels, "old");
    catalog.clone().create_table(new_table(&v2, FormatVersion::V2)).await.unwrap();
    assert_eq!(catalog.clone().load_table(&v2).await.unwrap().metadata().format_version(), FormatVersion::V2);
    catalog.drop_table(&v2, true).await.unwrap();

    let placed = ident(levels, "placed");
    let mut table = new_table(&placed, FormatVersion::V3);
    table.location = Some(format!("{outside}/placed/"));
    if can.custom_location {
        let t = catalog.clone().create_table(table).await.unwrap();
        assert_eq!(t.metadata().location(), format!("{outside}/placed"));
        catalog.drop_table(&placed, true).await.unwrap();
    } else {
        assert_eq!(kind(catalog.clone().create_table(table).await), ErrorKind::InvalidInput);
    }
    catalog.drop_table(&id, false).await.unwrap();
    assert!(!catalog.table_exists(&id).await.unwrap());
    assert_eq!(kind(loaded.refresh().await), ErrorKind::NotFound);
    if can.nested {
        catalog.drop_namespace(&space).await.unwrap();
    }
    catalog.drop_namespace(&ns(&["sales"])).await.unwrap();
}

async fn commits(catalog: &Arc<dyn Catalog>) {
    catalog.create_namespace(&ns(&["c"]), HashMap::new()).await.unwrap();
    let id = ident(&["c"], "t");
    let first = catalog.clone().create_table(new_table(&id, FormatVersion::V3)).await.unwrap();
    let second = catalog.clone().commit_table(commit_of(&first, "k", "1")).await.unwrap();
    assert_ne!(second.metadata_location(), first.metadata_location());
    let loaded = catalog.clone().load_table(&id).await.unwrap();
    assert_eq!(loaded.metadata_location(), second.metadata_location());
    assert_eq!(loaded.metadata().properties()["k"], "1");
    assert_eq!(loaded.metadata().inner, second.metadata().inner);
    let log: Vec<_> = loaded.metadata().metadata_log().iter().map(|l| l.metadata_file.as_str()).collect();
    assert_eq!(log, [first.metadata_location()]);

    // A stale base loses, and nothing changes.
    let e = catalog.clone().commit_table(commit_of(&first, "k", "2")).await;
    assert_eq!(kind(e), ErrorKind::CommitFailed);
    assert_eq!(catalog.clone().load_table(&id).await.unwrap().metadata_location(), second.metadata_location());
    // A requirement that does not hold.
    let mut wrong = commit_of(&second, "k", "2");
    wrong.requirements.push(TableRequirement::CurrentSchemaIdMatch { current_schema_id: 42 });
    assert_eq!(kind(catalog.clone().commit_table(wrong).await), ErrorKind::CommitFailed);
    // The second of two commits on one base.
    let (a, b) = (commit_of(&second, "a", "1"), commit_of(&second, "b", "1"));
    catalog.clone().commit_table(a).await.unwrap();
    assert_eq!(kind(catalog.clone().commit_table(b).await), ErrorKind::CommitFailed);
    let props = catalog.clone().load_table(&id).await.unwrap().metadata().properties().clone();
    assert_eq!((props.get("a").map(String::as_str), props.get("b"), props["k"].as_str()), (Some("1"), None, "1"));

    // The table goes and comes back under its name: old handles must not commit to the new one.
    let old = catalog.clone().load_table(&id).await.unwrap();
    catalog.drop_table(&id, true).await.unwrap();
    assert_eq!(kind(catalog.clone().commit_table(commit_of(&old, "k", "3")).await), ErrorKind::NotFound);
    assert!(!catalog.table_exists(&id).await.unwrap());
    let fresh = catalog.clone().create_table(new_table(&id, FormatVersion::V3)).await.unwrap();
    let e = kind(catalog.clone().commit_table(commit_of(&first, "k", "3")).await);
    assert!(matches!(e, ErrorKind::Conflict | ErrorKind::CommitFailed), "{e:?}");
    let now = catalog.clone().load_table(&id).await.unwrap();
    assert_eq!(now.metadata().inner, fresh.metadata().inner);
    catalog.drop_table(&id, true).await.unwrap();
    catalog.drop_namespace(&ns(&["c"])).await.unwrap();
}

async fn renames(catalog: &Arc<dyn Catalog>) {
    catalog.create_namespace(&ns(&["r"]), HashMap::new()).await.unwrap();
    catalog.create_namespace(&ns(&["r2"]), HashMap::new()).await.unwrap();
    let (a, b, c) = (ident(&["r"], "a"), ident(&["r2"], "b"), ident(&["r"], "c"));
    let made = catalog.clone().create_table(new_table(&a, FormatVersion::V3)).await.unwrap();
    catalog.clone().create_table(new_table(&c, FormatVersion::V3)).await.unwrap();
    assert_eq!(kind(catalog.rename_table(&a, &c).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(catalog.rename_table(&b, &ident(&["r"], "d")).await), ErrorKind::NotFound);
    assert_eq!(kind(catalog.rename_table(&a, &ident(&["none"], "d")).await), ErrorKind::NotFound);
    catalog.rename_table(&a, &b).await.unwrap();
    assert!(!catalog.table_exists(&a).await.unwrap());
    let moved = catalog.clone().load_table(&b).await.unwrap();
    assert_eq!(moved.metadata().uuid(), made.metadata().uuid());
    catalog.clone().commit_table(commit_of(&moved, "k", "1")).await.unwrap();
    for t in [&b, &c] {
        catalog.drop_table(t, true).await.unwrap();
    }
    catalog.drop_namespace(&ns(&["r"])).await.unwrap();
    catalog.drop_namespace(&ns(&["r2"])).await.unwrap();
}

async fn registers(catalog: &Arc<dyn Catalog>, outside: &str) {
    catalog.create_namespace(&ns(&["g"]), HashMap::new()).await.unwrap();
    let id = ident(&["g"], "t");
    let made = catalog.clone().create_table(new_table(&id, FormatVersion::V3)).await.unwrap();
    let copy = format!("{outside}/00004-{}.metadata.json", uuid::Uuid::new_v4());
    std::fs::create_dir_all(outside).unwrap();
    std::fs::write(&copy, made.metadata().to_json().unwrap()).unwrap();
    assert_eq!(kind(catalog.clone().register_table(&id, &copy).await), ErrorKind::AlreadyExists);
    let other = ident(&["g"], "other");
    let nowhere = ident(&["none"], "other");
    assert_eq!(kind(catalog.clone().register_table(&nowhere, &copy).await), ErrorKind::NotFound);
    let absent = format!("{outside}/00009-x.metadata.json");
    assert_eq!(kind(catalog.clone().register_table(&other, &absent).await), ErrorKind::NotFound);
    let broken = format!("{outside}/00005-x.metadata.json");
    std::fs::write(&broken, b"{\"format-version\":3").unwrap();
    // Through a server it is the caller's bad request.
    let refused = kind(catalog.clone().register_table(&other, &broken).await);
    assert!(matches!(refused, ErrorKind::Malformed | ErrorKind::InvalidInput), "{refused:?}");
    assert!(!catalog.table_exists(&other).await.unwrap());

    let registered = catalog.clone().register_table(&other, &copy).await.unwrap();
    assert_eq!(registered.metadata().uuid(), made.metadata().uuid());
    let next = catalog.clone().commit_table(commit_of(&registered, "k", "1")).await.unwrap();
    let loaded = catalog.clone().load_table(&other).await.unwrap();
    assert_eq!(loaded.metadata_location(), next.metadata_location());
    assert_eq!(catalog.clone().load_table(&id).await.unwrap().metadata_location(), made.metadata_location());
    catalog.drop_table(&other, false).await.unwrap();
    catalog.drop_table(&id, true).await.unwrap();
    catalog.drop_namespace(&ns(&["g"])).await.unwrap();
}
