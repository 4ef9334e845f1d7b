//! `floe doctor`: tries a catalog and its store step by step, and says what is likely wrong where it stops.

use std::collections::HashMap;
use std::sync::Arc;

use clap::Args;
use floe_engine::catalog::{Catalog, NewTable, TableCommit, open_catalog};
use floe_engine::table::Metadata;
use floe_engine::{Error, ErrorKind, Result, Table};
use iceberg::spec::{FormatVersion, NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};

/// Arguments of `floe doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The catalog: `hadoop:DIR`, `sql:URL`, `rest:URI`, or a name in floe.toml
    #[arg(long, default_value = "hadoop:warehouse")]
    catalog: String,
    /// A property, `key=value`; may be given several times
    #[arg(long = "prop", value_name = "KEY=VALUE")]
    props: Vec<String>,
    /// Change nothing: no scratch namespace, table and file
    #[arg(long)]
    read_only: bool,
}

/// One step that was tried.
#[derive(Debug)]
pub struct Step {
    /// What was tried.
    pub name: &'static str,
    /// What came out: a remark, or the fault.
    pub outcome: Result<String>,
}

/// Prints a line a step; the exit code is 1 when one failed.
pub async fn run(args: &DoctorArgs) -> std::result::Result<i32, String> {
    let mut props = HashMap::new();
    for p in &args.props {
        let (k, v) = p.split_once('=').ok_or_else(|| format!("--prop {p}: expected KEY=VALUE"))?;
        props.insert(k.to_string(), v.to_string());
    }
    let steps = examine(&args.catalog, props, args.read_only).await;
    let mut failed = false;
    for step in &steps {
        match &step.outcome {
            Ok(remark) => println!("ok    {:18} {remark}", step.name),
            Err(e) => {
                failed = true;
                println!("FAIL  {:18} {e}", step.name);
                println!("      {:18} {}", "", advice(step.name, e));
            }
        }
    }
    Ok(i32::from(failed))
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
    let listed = namespaces.as_ref().map(|n| n.clone()).unwrap_or_default();
    let fine = push(&mut steps, "list namespaces", namespaces.map(|n| format!("{} at the top", n.len())));
    if !fine {
        return steps;
    }
    if let Some(ns) = listed.first() {
        let tables = catalog.list_tables(ns).await;
        let first = tables.as_ref().ok().and_then(|t| t.first().cloned());
        push(&mut steps, "list tables", tables.map(|t| format!("{} in {}", t.len(), ns.join("."))));
        if let Some(id) = first {
            let loaded = catalog.clone().load_table(&id).await;
            push(&mut steps, "load a table", loaded.map(|t| format!("{id}, {}", t.metadata_location())));
        }
    }
    if !read_only {
        write_steps(&catalog, &mut steps).await;
    }
    steps
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

/// Likely cause and remedy of a fault.
fn advice(step: &str, e: &Error) -> &'static str {
    match (e.kind(), step) {
        (ErrorKind::Denied, _) => {
            "likely: a missing, wrong or expired credential, or no right to do this; check token, credential or password"
        }
        (ErrorKind::InvalidInput, "reach") => {
            "likely: a typing error in the catalog or its properties; see what is allowed above"
        }
        (ErrorKind::InvalidInput, "create table") => "likely: no warehouse; set it with --prop warehouse=…",
        (ErrorKind::NotFound, "reach") => "likely: a wrong folder, host or database; make it first",
        (ErrorKind::Io, "reach") => {
            "likely: the server does not run, the port is wrong, a firewall or TLS is in between"
        }
        (ErrorKind::Io, _) => {
            "likely: the store cannot be reached or is read-only; check endpoint, network and free space"
        }
        (ErrorKind::Unsupported, "conditional put") => {
            "concurrent writers would lose commits here: use a catalog that keeps the pointer itself (sql, rest)"
        }
        (ErrorKind::Unsupported, _) => "the catalog cannot do this; use another kind of catalog if you need it",
        (ErrorKind::Malformed, _) => "likely: a table that another program damaged; floe audit shows where",
        (ErrorKind::CommitFailed | ErrorKind::Conflict, _) => {
            "likely: somebody else works in the scratch namespace; run again"
        }
        _ => "unexpected: please report it with the line above",
    }
}
