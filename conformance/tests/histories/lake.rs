//! A warehouse in a folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use floe_engine::catalog::HadoopCatalog;
use floe_engine::io::FileIo;
use floe_engine::io::object_store::local::LocalFileSystem;
use floe_engine::maintenance::{OrphanOptions, remove_orphan_files};
use floe_engine::sql::Session;
use floe_engine::sql::functions::spark_strings;
use floe_engine::{Result, Table};

use crate::store::{Hook, Tap};

pub struct Lake {
    pub session: Session,
    pub folder: PathBuf,
    pub catalog: Arc<HadoopCatalog>,
}

impl Lake {
    /// Opens the warehouse in `folder`.
    pub async fn open(folder: &Path) -> Self {
        Self::over(folder, FileIo::default()).await
    }

    /// The same over a store that `hook` decides about.
    pub async fn hooked(folder: &Path, hook: Arc<dyn Hook>) -> Self {
        let io = FileIo::default();
        io.register("file://", Arc::new(Tap::new(Arc::new(LocalFileSystem::new()), hook)));
        Self::over(folder, io).await
    }

    async fn over(folder: &Path, io: FileIo) -> Self {
        let warehouse = folder.display().to_string();
        let catalog = HadoopCatalog::with_io("ice", &warehouse, HashMap::new(), io).expect("a catalog");
        let catalog = Arc::new(catalog);
        let mut session = Session::new(catalog.clone(), "ice");
        session.set_namespace(iceberg::NamespaceIdent::new("ns".into()));
        Self { session, folder: folder.to_path_buf(), catalog }
    }

    /// Statements that must succeed.
    pub async fn run(&mut self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}\n{e}");
        }
    }

    /// Rows as text, in the query's order.
    pub async fn try_rows(&mut self, sql: &str) -> Result<Vec<String>> {
        let done = self.session.execute(sql).await?;
        Ok(texts(&done.last().expect("a statement").batches))
    }

    /// Sorted rows of a query that must succeed.
    pub async fn rows(&mut self, sql: &str) -> Vec<String> {
        let mut out = self.try_rows(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        out.sort();
        out
    }

    pub async fn table(&self, name: &str) -> Table {
        self.session.table(&["ns".to_string(), name.to_string()]).await.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// What the auditor has against a table.
    pub fn audit(&self, name: &str) -> Result<(), String> {
        audit(&self.folder.join("ns").join(name))
    }

    /// Orphans of a table; with `remove` they are deleted.
    pub async fn orphans(&self, name: &str, remove: bool) -> Vec<String> {
        let options = OrphanOptions { older_than_ms: Some(i64::MAX), location: None, dry_run: !remove };
        remove_orphan_files(&self.table(name).await, &options)
            .await
            .unwrap_or_else(|e| panic!("orphans of {name}: {e}"))
    }
}

/// What the auditor has against the table in a folder.
pub fn audit(folder: &Path) -> Result<(), String> {
    let options = floe_audit::Options { threads: Some(1), ..Default::default() };
    let report = floe_audit::audit(folder, &options).map_err(|e| e.to_string())?;
    if report.errors == 0 { Ok(()) } else { Err(report.text()) }
}

/// Cells of rows, joined.
pub fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let mut out = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| spark_strings(c.as_ref()).expect("prints")).collect();
        for r in 0..batch.num_rows() {
            let cells: Vec<&str> = columns.iter().map(|c| if c.is_null(r) { "NULL" } else { c.value(r) }).collect();
            out.push(cells.join("|"));
        }
    }
    out
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for f in std::fs::read_dir(from).expect("a folder") {
        let f = f.expect("an entry").path();
        let target = to.join(f.file_name().expect("a name"));
        if f.is_dir() {
            copy(&f, &target);
        } else {
            std::fs::copy(&f, &target).expect("a copy");
        }
    }
}
