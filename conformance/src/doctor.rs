//! What `floe doctor` tries of a catalog and its store, and what is likely wrong where it stops.

use std::collections::HashMap;
use std::sync::Arc;

use floe_engine::catalog::{Catalog, NewTable, TableCommit, open_catalog};
use floe_engine::table::Metadata;
use floe_engine::{Error, ErrorKind, Result, Table};
use iceberg::spec::{FormatVersion, NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};

/// One step that was tried.
#[derive(Debug)]
pub struct Step {
    /// What was tried.
    pub name: &'static str,
    /// What came out: a remark, or the fault.
    pub outcome: Result<String>,
}

/// Tries everything in order; stops at the first step without which the next make no sense. What it made it removes.
pub async fn examine(spec: &str, props: HashMap<String, String>, read_only: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let catalog = match open_catalog(spec, "doctor", props).await {
        Ok(c) => c,
        Err(e) => {
            let name = if e.kind() == ErrorKind::Denied { "authenticate" } else { "reach" };
            steps.push(Step { name, outcome: Err(e) });
            return steps;
        }
    };
    steps.push(Step { name: "reach", outcome: Ok(format!("opened {spec}")) });
    let namespaces = catalog.list_namespaces(None).await;
    if let Err(e) = &namespaces
        && e.kind() == ErrorKind::Denied
    {
        push(&mut steps, "authenticate", namespaces.map(|_| String::new()));
        return steps;
    }
    let listed = namespaces.as_ref().map(|n| n.clone()).unwrap_or_default();
    if namespaces.is_ok() {
        push(&mut steps, "authenticate", Ok("the catalog answers us".into()));
    }
    let fine = push(&mut steps, "list namespaces", namespaces.map(|n| format!("{} at the top", n.len())));
    if !fine {
        return steps;
    }
    for ns in &listed {
        let tables = catalog.list_tables(ns).await;
        let first = tables.as_ref().ok().and_then(|t| t.first().cloned());
        let failed = tables.is_err();
        // Empty namespaces say little: the first that has a table is shown.
        if first.is_none() && !failed && ns != listed.last().unwrap_or(ns) {
            continue;
        }
        push(&mut steps, "list tables", tables.map(|t| format!("{} in {}", t.len(), ns.join("."))));
        if let Some(id) = first {
            match catalog.clone().load_table(&id).await {
                Ok(table) => {
                    push(&mut steps, "load a table", Ok(format!("{id}, {}", table.metadata_location())));
                    push(&mut steps, "read a file", read(&table).await);
                }
                Err(e) => _ = push(&mut steps, "load a table", Err(e)),
            }
        }
        break;
    }
    if !read_only {
        write_steps(&catalog, &mut steps).await;
    }
    steps
}

/// The table's metadata file, from the store itself: a server's answer does not prove that its files can be reached.
async fn read(table: &Table) -> Result<String> {
    let bytes = table.io().read(table.metadata_location()).await?;
    Ok(format!("{} bytes of {}", bytes.len(), table.metadata_location()))
}

fn push(steps: &mut Vec<Step>, name: &'static str, outcome: Result<String>) -> bool {
    let fine = outcome.is_ok();
    steps.push(Step { name, outcome });
    fine
}

async fn write_steps(catalog: &Arc<dyn Catalog>, steps: &mut Vec<Step>) {
    let ns = NamespaceIdent::new(format!("floe_doctor_{}", std::process::id()));
    let made = catalog.create_namespace(&ns, HashMap::new()).await;
    if !push(steps, "create namespace", made.map(|()| ns.join("."))) {
        return;
    }
    let id = TableIdent::new(ns.clone(), "t".into());
    match catalog.clone().create_table(scratch(&id)).await {
        Ok(table) => {
            push(steps, "create table", Ok(table.metadata_location().to_string()));
            push(steps, "write a file", write(&table).await);
            push(steps, "conditional put", conditional_put(&table).await);
            push(steps, "commit", commit(catalog, &table).await);
            let dropped = catalog.drop_table(&id, true).await;
            push(steps, "drop table", dropped.map(|()| "purged".into()));
        }
        Err(e) => {
            push(steps, "create table", Err(e));
        }
    }
    let dropped = catalog.drop_namespace(&ns).await;
    push(steps, "drop namespace", dropped.map(|()| String::new()));
}

fn scratch(id: &TableIdent) -> NewTable {
    let field = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    NewTable {
        ident: id.clone(),
        schema: Schema::builder().with_fields([Arc::new(field)]).build().expect("one field of a primitive type"),
        ext: Default::default(),
        partition_spec: None,
        sort_order: None,
        location: None,
        properties: HashMap::new(),
        format_version: FormatVersion::V3,
    }
}

/// A file written, read back, listed and deleted.
async fn write(table: &Table) -> Result<String> {
    let (io, folder) = (table.io(), format!("{}/data", table.metadata().location()));
    io.create_folder(&folder).await?;
    let file = format!("{folder}/floe-doctor-{}.txt", std::process::id());
    io.write_new(&file, "written by floe doctor".into()).await?;
    let found = io.read(&file).await;
    let listed = io.list(&folder).await;
    io.delete(&file).await?;
    if found?.as_ref() != b"written by floe doctor" {
        return Err(Error::malformed("the file came back with other bytes").at(file));
    }
    if !listed?.iter().any(|f| file.ends_with(f.location.rsplit('/').next().unwrap_or_default())) {
        return Err(Error::malformed("a file just written is not listed").at(folder));
    }
    Ok(file)
}

/// Two creations of one file: the second must be refused, or two writers can both believe they committed.
async fn conditional_put(table: &Table) -> Result<String> {
    let file = format!("{}/floe-doctor.txt", table.metadata_folder());
    let io = table.io();
    io.write_new(&file, "first".into()).await?;
    let second = io.write_new(&file, "second".into()).await;
    let kept = io.read(&file).await;
    io.delete(&file).await?;
    match (second, kept?.as_ref()) {
        (Err(e), b"first") if e.kind() == ErrorKind::AlreadyExists => Ok("one file, one creator".into()),
        (Err(e), b"first") => Err(e),
        _ => Err(Error::new(ErrorKind::Unsupported, "the store let a second writer replace a file").at(file)),
    }
}

/// A commit, and another on the same base, which must lose.
async fn commit(catalog: &Arc<dyn Catalog>, base: &Table) -> Result<String> {
    let make = |value: &str| -> Result<TableCommit> {
        let updates =
            vec![TableUpdate::SetProperties { updates: HashMap::from([("doctor".into(), value.to_string())]) }];
        let m = base.metadata();
        let mut builder = m.inner.clone().into_builder(Some(base.metadata_location().to_string()));
        for u in updates.clone() {
            builder = u.apply(builder)?;
        }
        let metadata = Metadata { inner: builder.build()?.metadata, ext: m.ext.clone() };
        let requirements = vec![TableRequirement::UuidMatch { uuid: m.uuid() }];
        Ok(TableCommit { base: base.clone(), metadata, updates, requirements })
    };
    let next = catalog.clone().commit_table(make("1")?).await?;
    let found = base.refresh().await?;
    if found.metadata_location() != next.metadata_location() {
        return Err(Error::internal("the committed version is not the current one").at(found.metadata_location()));
    }
    Ok(next.metadata_location().to_string())
}

/// Likely cause and remedy of a fault, by what was said, by kind and step.
pub fn advice(step: &str, e: &Error) -> &'static str {
    let said = |part: &str| e.message().contains(part);
    if said("TLS failure") {
        return "likely: the port speaks plain http, or its certificate is not trusted: check http against https, or name \
                the authority's file in SSL_CERT_FILE";
    }
    if said("no credentials") {
        return "set the keys: s3.access-key-id and s3.secret-access-key, gcs.oauth2.token, adls.*, or the provider's \
                environment variables (AWS_*, GOOGLE_APPLICATION_CREDENTIALS, AZURE_*)";
    }
    if said("NoSuchBucket") || said("ContainerNotFound") {
        return "the bucket or container of the warehouse does not exist at this endpoint: make it, or correct the name";
    }
    if said("SignatureDoesNotMatch") || said("InvalidAccessKeyId") {
        return "the store does not know this key, or the secret is another one's: check both, and that no space was copied along";
    }
    match (e.kind(), step) {
        (ErrorKind::Denied, _) if said("sandbox") => "allow the location: --sandbox takes several, separated by ;",
        (ErrorKind::Denied, "reach" | "authenticate" | "list namespaces") => {
            "likely: a missing, wrong or expired credential; check token, credential, rest.auth.type or password"
        }
        (ErrorKind::Denied, "load a table" | "read a file") => {
            "likely: keys that may not read here; a REST catalog can vend some: see docs/catalogs.md"
        }
        (ErrorKind::Denied, _) => {
            "likely: keys that may read but not write; give them the right to create and delete objects"
        }
        (ErrorKind::InvalidInput, "reach") => {
            "likely: a typing error in the catalog or its properties; see what is allowed above"
        }
        (ErrorKind::InvalidInput, "create table") => "likely: no warehouse; set it with --prop warehouse=…",
        (ErrorKind::NotFound, "reach" | "list namespaces") => {
            "likely: a wrong folder, host, database, prefix or warehouse"
        }
        (ErrorKind::NotFound, "read a file") => {
            "the catalog points to a file that is not there: another store than the writer's, or somebody deleted it"
        }
        (ErrorKind::NotFound, "write a file") => {
            "the store confirmed a file and then had none: tables need a store with read-after-write"
        }
        (ErrorKind::NotFound, _) => "likely: the warehouse's bucket or folder does not exist",
        (ErrorKind::Io, "reach") => {
            "likely: the server does not run, the port is wrong, a firewall is in between, or a proxy is needed"
        }
        (ErrorKind::Io, _) => {
            "likely: the store cannot be reached or is read-only; check endpoint, network and free space"
        }
        (ErrorKind::Unsupported, "conditional put") => {
            "concurrent writers would lose commits here: use a catalog that keeps the pointer itself (sql, rest, hive)"
        }
        (ErrorKind::Unsupported, _) => "the catalog cannot do this; use another kind of catalog if you need it",
        (ErrorKind::Malformed, "reach") => "likely: another kind of server listens at this port",
        (ErrorKind::Malformed, _) => "likely: a table that another program damaged; floe audit shows where",
        (ErrorKind::CommitFailed | ErrorKind::Conflict, _) => {
            "likely: somebody else works in the scratch namespace; run again"
        }
        (ErrorKind::CommitUnknown, _) => "the server went silent within a change: look at its log, then run again",
        _ => "unexpected: please report it with the line above",
    }
}
