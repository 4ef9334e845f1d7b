//! The work of [`Work`](crate::protocol::Work) on floe's engine, in this process.

use std::hint::black_box;
use std::time::Instant;

use floe_engine::dv::DeletionVector;
use floe_engine::expr::{FilePruner, Pred};
use floe_engine::{Error, Result, Table};

use crate::bench::usage::{forget_peak, peak_kib};
use crate::protocol::Measured;

/// Decodes the blob that a file holds.
pub(super) fn decode(blob: &str, calls: u32) -> Result<Measured> {
    let bytes = std::fs::read(blob).map_err(|e| Error::not_found(format!("cannot read {blob}: {e}")))?;
    let start = Instant::now();
    for _ in 1..calls {
        black_box(DeletionVector::decode(black_box(&bytes))?);
    }
    let vector = DeletionVector::decode(black_box(&bytes))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Measured { seconds, count: vector.len(), check: vector.iter().sum(), peak_mib: None })
}

/// Plans a scan of all rows of the newest state; a plan's memory is given back within the time.
pub(super) async fn plan(table: &Table, calls: u32) -> Result<Measured> {
    let head = table.metadata().current_snapshot_id();
    let this = std::process::id();
    let told = forget_peak(this);
    let (mut count, mut check) = (0, 0);
    let start = Instant::now();
    for _ in 0..calls {
        let pruner = FilePruner::new(Pred::True, table.metadata());
        let planned = floe_engine::scan::plan(table, head, &pruner).await?;
        count = planned.tasks.len() as u64;
        check = planned.tasks.iter().filter(|t| t.deletes.dv.is_some()).count() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Measured { seconds, count, check, peak_mib: told.then(|| peak_kib(this)).flatten().map(|kib| kib / 1024.0) })
}
