//! What catalogs share that keep a pointer to a table's metadata file, in a database or a metastore.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use iceberg::TableIdent;

use super::files::{first_metadata, read_metadata};
use super::{Catalog, NewTable, table_already_exists};
use crate::io::FileIo;
use crate::table::Metadata;
use crate::{Error, ErrorKind, Result};

/// How often the table is looked at after a commit whose outcome is unknown, and the pause before each look (CONC-43).
const STATUS_CHECKS: u32 = 3;
const STATUS_PAUSE: Duration = Duration::from_millis(200);

/// Metadata of a table that is to be created: refused when there is one, and placed where `catalog` would unless the caller
/// says. The namespace exists.
pub(super) async fn new_metadata(
    catalog: &dyn Catalog,
    table: &NewTable,
    props: &HashMap<String, String>,
) -> Result<Metadata> {
    if catalog.table_exists(&table.ident).await? {
        return Err(table_already_exists(&table.ident));
    }
    let location = match &table.location {
        Some(l) => l.clone(),
        None => catalog.default_location(&table.ident).await?,
    };
    first_metadata(table, &location, props)
}

/// Reads the metadata file that a pointer names. A file that is gone is not the same as no table.
pub(super) async fn current_metadata(io: &FileIo, ident: &TableIdent, location: &str) -> Result<Metadata> {
    read_metadata(io, location).await.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::malformed(format!("table {ident} points to a metadata file that is not there"))
            .at(location)
            .with_source(e),
        _ => e,
    })
}

/// After a swap whose outcome is unknown: did it make `new` the table's metadata file (CONC-43)? `look` gives the pointer;
/// without a table the answer is no, and a look that fails is repeated.
pub(super) async fn was_committed<F>(io: &FileIo, new: &str, look: impl Fn() -> F) -> bool
where
    F: Future<Output = Result<Option<String>>>,
{
    for _ in 0..STATUS_CHECKS {
        tokio::time::sleep(STATUS_PAUSE).await;
        match look().await {
            Err(_) => {}
            Ok(None) => return false,
            Ok(Some(current)) if current == new => return true,
            Ok(Some(current)) => {
                if let Ok(m) = read_metadata(io, &current).await
                    && m.metadata_log().iter().any(|l| l.metadata_file == new)
                {
                    return true;
                }
            }
        }
    }
    false
}

/// Deletes the metadata file of a commit that did not happen; what stays is an orphan, not a fault.
pub(super) async fn discard(io: &FileIo, file: &str) {
    if let Err(e) = io.delete(file).await {
        tracing::warn!("cannot delete the metadata file of a refused commit: {e}");
    }
}
