//! A sync whose rows say which table they go to. Each table records the position of its own data; a ledger, a table without
//! rows, records how far all of them are. A crash between the two makes some tables get a batch offered again that they have,
//! which their own position tells.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use iceberg::TableIdent;
use iceberg::spec::{FormatVersion, NestedField, NestedFieldRef, PrimitiveType, Schema, SchemaRef, SnapshotRef, Type};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::apply::{Applied, Outcome, apply};
use super::position::{self, Position};
use super::target::{load_or_create, load_or_make};
use super::{Inner, Start, Step};
use crate::catalog::{Catalog, NewTable};
use crate::cdc::connect::table_ident;
use crate::cdc::range::{self, End};
use crate::commit::{Change, Producer, commit};
use crate::types::ExtTypes;
use crate::{Error, Result, Table};

/// Batches that wait for a table.
const QUEUE: usize = 2;
/// What a table's stream says when the rows stopped before their end.
const INTERRUPTED: &str = "the changes ended before their end";

/// Loads or makes the ledger.
pub(super) async fn ledger(catalog: &Arc<dyn Catalog>, ident: &TableIdent) -> Result<Table> {
    load_or_make(catalog, ident, || {
        let field = NestedField::optional(1, "sync_id", Type::Primitive(PrimitiveType::String));
        let comment = "Positions of floe cdc syncs, in the summaries of its snapshots; it has no rows";
        Ok(NewTable {
            ident: ident.clone(),
            schema: Schema::builder().with_fields([field.into()]).build()?,
            ext: ExtTypes::default(),
            partition_spec: None,
            sort_order: None,
            location: None,
            properties: HashMap::from([("comment".to_string(), comment.to_string())]),
            format_version: FormatVersion::V3,
        })
    })
    .await
}

enum Item {
    Rows(RecordBatch),
    /// The stream is whole. A channel that closes without it was cut off.
    End,
}

/// Where a table is, seen from a batch.
enum Place {
    Before,
    Inside,
    Done,
}

/// What a batch's tables have in common.
struct Batch {
    inner: Arc<Inner>,
    source: Table,
    schema: SchemaRef,
    fields: Vec<NestedFieldRef>,
    /// Ids of the source's snapshots up to the batch's last, oldest first, and where the batch begins in it.
    chain: Vec<i64>,
    first: usize,
    last: SnapshotRef,
    sync_id: String,
}

/// Applies a batch to every table that it has rows for, all at once, then moves the ledger on.
pub(super) async fn apply_many(
    inner: &Arc<Inner>,
    source: &Table,
    ledger: &Table,
    steps: &[Step],
    start: Start,
    sync_id: &str,
) -> Result<Outcome> {
    let last = steps[steps.len() - 1].snapshot.clone();
    let schema = last.schema(&source.metadata().inner)?;
    let (fields, read) = inner.fields(&schema)?;
    inner.target.table.check(&read)?;
    let end = End::At(last.snapshot_id().to_string());
    let kept = range::steps(source, inner.source.branch.as_deref(), &Start::Beginning, &end)?;
    let chain: Vec<i64> = kept.iter().map(|s| s.snapshot.snapshot_id()).collect();
    let scan = inner.scan(source, schema.clone(), start, &last, steps.len() > 1, None).await?;
    let batch = Arc::new(Batch {
        inner: inner.clone(),
        source: source.clone(),
        schema,
        fields,
        first: chain.len().saturating_sub(steps.len()),
        chain,
        last: last.clone(),
        sync_id: sync_id.to_string(),
    });
    let mut tasks: JoinSet<Result<Option<Outcome>>> = JoinSet::new();
    let fed = batch.feed(scan.stream(), &mut tasks).await;
    let (mut done, mut errors, mut superseded) = (Vec::new(), Vec::new(), false);
    while let Some(r) = tasks.join_next().await {
        match r {
            Ok(Ok(Some(Outcome::Done(d)))) => done.push(d),
            Ok(Ok(Some(Outcome::Superseded(_)))) => superseded = true,
            Ok(Ok(None)) => {}
            Ok(Err(e)) => errors.push(e),
            Err(e) => errors.push(Error::internal(format!("a table's task: {e}"))),
        }
    }
    // what cut the stream off says more than that it was cut off
    fed?;
    let cause = errors.iter().position(|e| !e.to_string().contains(INTERRUPTED)).unwrap_or(0);
    if !errors.is_empty() {
        return Err(errors.swap_remove(cause));
    }
    if superseded {
        return Ok(Outcome::Superseded(ledger.refresh().await?));
    }
    let summary = inner.summary(sync_id, source, &last, batch.schema.schema_id());
    let c = commit(ledger, Change { summary, ..Change::new(Producer::FastAppend) }).await?;
    Ok(Outcome::Done(Applied {
        table: c.table,
        snapshot_id: c.snapshot_id,
        commits: done.len() as u64,
        inserted: done.iter().map(|d| d.inserted).sum(),
        deleted: done.iter().map(|d| d.deleted).sum(),
    }))
}

impl Batch {
    /// Hands each row to the task of its table. Tasks see the end of the stream only if all of it was handed out.
    async fn feed(
        self: &Arc<Self>,
        mut stream: SendableRecordBatchStream,
        tasks: &mut JoinSet<Result<Option<Outcome>>>,
    ) -> Result<()> {
        let mut open: HashMap<String, mpsc::Sender<Item>> = HashMap::new();
        let mut row = 0;
        while let Some(rows) = stream.next().await {
            let rows = rows?;
            for (name, part) in self.inner.target.table.split(&rows, row)? {
                let tx = open.entry(name).or_insert_with_key(|name| {
                    let (tx, rx) = mpsc::channel(QUEUE);
                    let (batch, name) = (self.clone(), name.clone());
                    tasks.spawn(async move { batch.table(&name, rx).await.map_err(|e| e.at(name)) });
                    tx
                });
                if tx.send(Item::Rows(part)).await.is_err() {
                    // that task has failed, and says why
                    return Ok(());
                }
            }
            row += rows.num_rows();
        }
        for tx in open.values() {
            let _ = tx.send(Item::End).await;
        }
        Ok(())
    }

    /// Applies the rows of one table. `None` = it had them.
    async fn table(&self, name: &str, mut rx: mpsc::Receiver<Item>) -> Result<Option<Outcome>> {
        let (inner, source) = (&self.inner, &self.source);
        let ext = &source.metadata().ext;
        let ident = table_ident(name)?;
        let table = load_or_create(&inner.target_catalog, &ident, &inner.target, &self.fields, ext).await?;
        let position = position::find(&table, &self.sync_id)?;
        if let Some(p) = &position {
            p.check_source(source, &ident)?;
        }
        let place = position.as_ref().map_or(Place::Before, |p| self.place(p));
        if !matches!(place, Place::Before) {
            // its rows are not needed, but the others' stream must flow
            while let Some(Item::Rows(_)) = rx.recv().await {}
        }
        let changes = match (&place, &position) {
            (Place::Done, _) => return Ok(None),
            (Place::Inside, Some(p)) => self.rest(name, p).await?,
            _ => None,
        };
        let schemas = [self.schema.clone()];
        let (table, _) = inner.fit(source, &table, &schemas, position.as_ref(), &self.sync_id).await?;
        let plan = inner.plan(&table, self.fields.clone(), ext, &self.sync_id)?;
        let changes = match changes {
            Some(c) => c,
            None => {
                // the first rows say what the columns are
                let Some(Item::Rows(first)) = rx.recv().await else {
                    return Err(Error::internal(INTERRUPTED));
                };
                received(first, rx)
            }
        };
        let summary = inner.summary(&self.sync_id, source, &self.last, self.schema.schema_id());
        Ok(Some(apply(&table, &plan, changes, summary).await?))
    }

    fn place(&self, p: &Position) -> Place {
        match self.chain.iter().position(|id| *id == p.snapshot_id) {
            Some(i) if i + 1 == self.chain.len() => Place::Done,
            Some(i) if i >= self.first => Place::Inside,
            Some(_) => Place::Before,
            None if p.sequence_number > self.last.sequence_number() => Place::Done,
            None => Place::Before,
        }
    }

    /// The rows of one table after a position inside the batch: an earlier run, with other batches, came that far with it.
    async fn rest(&self, name: &str, p: &Position) -> Result<Option<SendableRecordBatchStream>> {
        let start = Start::After(p.snapshot_id.to_string());
        let scan = self.inner.scan(&self.source, self.schema.clone(), start, &self.last, true, None).await?;
        let (template, name) = (self.inner.target.table.clone(), name.to_string());
        let stream = scan.stream().filter_map(move |rows| {
            let mine = rows.and_then(|rows| {
                let parts = template.split(&rows, 0).map_err(DataFusionError::from)?;
                Ok(parts.into_iter().find(|(n, _)| *n == name).map(|(_, rows)| rows))
            });
            std::future::ready(mine.transpose())
        });
        Ok(Some(Box::pin(RecordBatchStreamAdapter::new(scan.schema(), stream))))
    }
}

/// A channel's rows as a stream, which fails when it is cut off.
fn received(first: RecordBatch, rx: mpsc::Receiver<Item>) -> SendableRecordBatchStream {
    let schema = first.schema();
    let rest = futures::stream::unfold(Some(rx), |rx| async move {
        let mut rx = rx?;
        let item: DfResult<RecordBatch> = match rx.recv().await {
            Some(Item::Rows(rows)) => return Some((Ok(rows), Some(rx))),
            Some(Item::End) => return None,
            None => Err(Error::internal(INTERRUPTED).into()),
        };
        Some((item, None))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(first)]).chain(rest)))
}
