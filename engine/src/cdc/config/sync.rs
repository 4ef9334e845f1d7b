//! `sync:`, floe's own keys.

use super::{Section, optional_table_name};
use crate::Result;

/// What happens when the source's schema has columns that the target lacks, or other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaEvolution {
    /// An error that names the columns and the statements that add them.
    Off,
    /// New columns are added to the target and types widened.
    Add,
    /// Like `Add`; columns that the source renamed or dropped are renamed or dropped in the target too.
    Full,
}

/// How merge-on-read deletes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteFormat {
    /// Deletion vectors on V3, position-delete files on V2: readers pay least.
    Positions,
    /// Equality deletes: the target is not read, its readers pay.
    Equality,
}

/// floe's keys of a sync.
#[derive(Debug, Clone)]
pub struct SyncConfig {
    /// `id`: names this sync in the target's snapshot summaries; by default derived from the source table.
    pub id: Option<String>,
    /// `snapshots_per_commit`: source snapshots a target commit takes at most (1 by default).
    pub snapshots_per_commit: usize,
    /// `schema_evolution`: off (default), add, full.
    pub schema_evolution: SchemaEvolution,
    /// `delete_format`: positions (default), equality.
    pub delete_format: DeleteFormat,
    /// `stop_after_snapshots`: a stream ends after so many source snapshots.
    pub stop_after_snapshots: Option<u64>,
    /// `stop_at_snapshot`: a stream ends after this source snapshot (id, branch or tag).
    pub stop_at_snapshot: Option<String>,
    /// `stop_when_idle`: a stream ends when it has caught up.
    pub stop_when_idle: bool,
    /// `ledger`: table that holds the position when rows name their tables; by default `floe_sync` beside them.
    pub ledger: Option<String>,
    /// `memory_mb`: rows held at a time when changes are resolved (256 by default).
    pub memory_mb: usize,
}

impl SyncConfig {
    /// Reads and checks the section.
    pub fn from_section(mut s: Section) -> Result<Self> {
        let id = s.string("id")?;
        let snapshots_per_commit = s.integer("snapshots_per_commit", 1)?.unwrap_or(1);
        let schema_evolution = s
            .choice(
                "schema_evolution",
                &[("off", SchemaEvolution::Off), ("add", SchemaEvolution::Add), ("full", SchemaEvolution::Full)],
            )?
            .unwrap_or(SchemaEvolution::Off);
        let delete_format = s
            .choice("delete_format", &[("positions", DeleteFormat::Positions), ("equality", DeleteFormat::Equality)])?
            .unwrap_or(DeleteFormat::Positions);
        let stop_after_snapshots = s.integer("stop_after_snapshots", 1)?;
        let stop_at_snapshot = s.string("stop_at_snapshot")?;
        let stop_when_idle = s.boolean("stop_when_idle")?.unwrap_or(false);
        let ledger = optional_table_name(&mut s, "ledger")?;
        let memory_mb = s.integer("memory_mb", 16)?.unwrap_or(256);
        s.finish()?;
        Ok(Self {
            id,
            snapshots_per_commit: usize::try_from(snapshots_per_commit).unwrap_or(1),
            schema_evolution,
            delete_format,
            stop_after_snapshots: stop_after_snapshots.map(i64::unsigned_abs),
            stop_at_snapshot,
            stop_when_idle,
            ledger,
            memory_mb: usize::try_from(memory_mb).unwrap_or(256),
        })
    }
}
