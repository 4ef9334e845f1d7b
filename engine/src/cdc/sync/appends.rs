//! Mode append: a range that removes or changes rows is refused before the first of its snapshots is written.

use arrow::array::{Array, AsArray};
use futures::StreamExt;
use iceberg::spec::Operation;

use super::{Inner, Start, Step, position};
use crate::cdc::config::WriteMode;
use crate::cdc::connect::table_ident;
use crate::cdc::range;
use crate::{Error, ErrorKind, Result, Table};

/// The error for a change that an appending target cannot take.
pub(super) fn removes() -> Error {
    Error::invalid("mode append takes inserts only, and the source has deletes or updates; use `mode: merge-on-read`")
        .at("target.mode")
}

impl Inner {
    /// Looks at all that a run has before it now. An `append` snapshot adds rows and does nothing else, so that only others are
    /// read (CDC-6). What a stream meets later is refused when it comes.
    pub(super) async fn check_appends(&self, source: &Table, sync_id: &str) -> Result<()> {
        if self.target.mode != WriteMode::Append {
            return Ok(());
        }
        let Some(start) = self.known_start(source, sync_id).await? else {
            return Ok(());
        };
        let steps = range::steps(source, self.source.branch.as_deref(), &start, &self.end())?;
        let (mut rest, mut from) = (steps.as_slice(), start);
        let mut left = self.sync.stop_after_snapshots.unwrap_or(u64::MAX);
        while let Some((batch, tail)) = self.next_batch(rest)
            && left > 0
        {
            if let Some(step) =
                batch.iter().rfind(|s| s.changes_rows() && s.snapshot.summary().operation != Operation::Append)
                && self.removes_rows(source, batch, from.clone()).await?
            {
                let id = step.snapshot.snapshot_id();
                return Err(Error::invalid(format!("{}; nothing was written", removes().message()))
                    .at(format!("target.mode, for source snapshot {id}")));
            }
            left = left.saturating_sub(batch.iter().filter(|s| s.changes_rows()).count() as u64);
            from = Start::After(batch[batch.len() - 1].snapshot.snapshot_id().to_string());
            rest = tail;
        }
        Ok(())
    }

    /// Where the run begins, as far as the tables that are there tell; `None` = after what the source has now.
    async fn known_start(&self, source: &Table, sync_id: &str) -> Result<Option<Start>> {
        let holder = match self.target.table.fixed() {
            Some(name) => name,
            None => self.sync.ledger.as_deref().ok_or_else(|| Error::internal("a template without a ledger"))?,
        };
        let position = match self.target_catalog.clone().load_table(&table_ident(holder)?).await {
            Ok(table) => {
                let position = position::find(&table, sync_id)?;
                if let Some(p) = &position {
                    p.check_source(source, table.ident())?;
                }
                position
            }
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        Ok(match position {
            Some(p) => Some(Start::After(p.snapshot_id.to_string())),
            None => self.source.start.fixed(),
        })
    }

    /// Whether what a batch comes to has a row that goes.
    async fn removes_rows(&self, source: &Table, batch: &[Step], from: Start) -> Result<bool> {
        let (m, last) = (source.metadata(), &batch[batch.len() - 1].snapshot);
        // a table of many is read with the schema of its batch, one target with the newest that it fits
        let current =
            Some(m.current_schema().clone()).filter(|s| self.target.table.fixed().is_some() && self.fields(s).is_ok());
        let schema = match current {
            Some(s) => s,
            None => last.schema(&m.inner)?,
        };
        let mut changes = self.scan(source, schema, from, last, batch.len() > 1, None).await?.stream();
        let kind = changes.schema().index_of("_change_type")?;
        while let Some(rows) = changes.next().await {
            let rows = rows?;
            let kinds =
                rows.column(kind).as_string_opt::<i32>().ok_or_else(|| Error::internal("_change_type is no string"))?;
            if (0..kinds.len()).any(|i| matches!(kinds.value(i), "DELETE" | "UPDATE_BEFORE")) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
