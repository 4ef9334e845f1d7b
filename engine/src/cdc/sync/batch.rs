//! A batch of source snapshots: which they are, with which schema they are read, how they reach a table.

use std::sync::Arc;

use iceberg::spec::{NestedFieldRef, Schema, SchemaRef, Snapshot, SnapshotRef, Type};

use super::apply::{self, Outcome, Plan};
use super::difference::{Difference, refuse};
use super::drift::Drift;
use super::position::{self, Position};
use super::{Inner, evolve, target};
use crate::cdc::changelog::{ChangelogScan, MetaColumns};
use crate::cdc::columns;
use crate::cdc::config::{Columns, SchemaEvolution};
use crate::cdc::range::{End, Start, Step};
use crate::types::{ExtTypes, arrow_schema, field_path};
use crate::{Result, Table};

impl Inner {
    /// The steps of the next target commit and those after it. A batch has one schema; steps that change nothing ride along,
    /// and make none of their own.
    pub(super) fn next_batch<'s>(&self, steps: &'s [Step]) -> Option<(&'s [Step], &'s [Step])> {
        steps.iter().position(Step::changes_rows)?;
        let schema = |s: &Step| s.snapshot.schema_id();
        let (mut n, mut counted) = (0, 0);
        for s in steps {
            let counts = usize::from(s.changes_rows());
            if counted > 0 && (counted + counts > self.sync.snapshots_per_commit || schema(s) != schema(&steps[n - 1]))
            {
                break;
            }
            counted += counts;
            n += 1;
        }
        Some(steps.split_at(n))
    }

    /// Fields of the rows that are written, and the schema they are read with, given the source's schema.
    pub(super) fn fields(&self, schema: &Schema) -> Result<(Vec<NestedFieldRef>, SchemaRef)> {
        let read = columns::project(schema, &self.source.read.columns).map_err(|e| e.at("source"))?;
        let read = Arc::new(Schema::builder().with_schema_id(schema.schema_id()).with_fields(read).build()?);
        let written = columns::project(&read, &self.target.columns).map_err(|e| e.at("target"))?;
        Ok((written, read))
    }

    /// The source's fields at the level that the target's are made of, whatever `keep` and `drop` say.
    fn level(&self, schema: &Schema) -> Vec<NestedFieldRef> {
        match &self.target.columns {
            Columns::Only(c) => match schema.field_by_name(c).map(|f| f.field_type.as_ref()) {
                Some(Type::Struct(s)) => s.fields().to_vec(),
                _ => Vec::new(),
            },
            _ => schema.as_struct().fields().to_vec(),
        }
    }

    /// Finds the schema to read with: the first of `schemas` that the target fits as it is. When none does, the target is
    /// brought to the last, as far as `schema_evolution` allows.
    ///
    /// Errors: columns that do not fit, and the statements that would mend it.
    pub(super) async fn fit(
        &self,
        source: &Table,
        target: &Table,
        schemas: &[SchemaRef],
        position: Option<&Position>,
        sync_id: &str,
    ) -> Result<(Table, SchemaRef)> {
        let m = source.metadata();
        let old = position::last_schema(target, position, sync_id).and_then(|id| m.schema_by_id(id)).cloned();
        let have = target.metadata().current_schema().clone();
        let mut found = None;
        for schema in schemas {
            // a schema without a column that the configuration names is no candidate; the last one must have it
            let fields = match self.fields(schema) {
                Ok((fields, _)) => fields,
                Err(e) => {
                    found = Some(Err(e));
                    continue;
                }
            };
            let drift = old
                .as_ref()
                .map(|o| Drift::of(&self.level(o), &self.level(schema), have.as_struct().fields()))
                .unwrap_or_default();
            let difference = Difference::of(&fields, &m.ext, target);
            if difference.is_empty() && drift.is_empty() {
                return Ok((target.clone(), schema.clone()));
            }
            found = Some(Ok((schema.clone(), fields, drift, difference)));
        }
        let Some(last) = found else {
            return Err(crate::Error::internal("a batch without a schema"));
        };
        let (schema, fields, drift, difference) = last?;
        let evolution = self.sync.schema_evolution;
        let harmful = drift.harmful().next().is_some();
        let may = match evolution {
            SchemaEvolution::Off => difference.is_empty() && !harmful,
            SchemaEvolution::Add => !harmful,
            SchemaEvolution::Full => true,
        };
        if !may {
            return Err(refuse(&difference, &drift, target));
        }
        if evolution == SchemaEvolution::Off {
            return Ok((target.clone(), schema));
        }
        let drift = if evolution == SchemaEvolution::Full { drift } else { Drift::default() };
        let mark = position::schema_mark(sync_id, schema.schema_id(), position);
        Ok((evolve::evolve(target, &fields, &m.ext, &drift, mark).await?, schema))
    }

    /// How rows with `fields` are applied to a table.
    pub(super) fn plan(
        &self,
        table: &Table,
        fields: Vec<NestedFieldRef>,
        ext: &ExtTypes,
        sync_id: &str,
    ) -> Result<Plan> {
        let keys = target::key_columns(table, &self.target)?;
        let written = Schema::builder().with_fields(fields).build()?;
        if let Some(k) = keys.iter().find(|k| field_path(&written, k).is_none()) {
            return Err(columns::unknown(k, &written).at("equality_columns"));
        }
        Ok(Plan {
            mode: self.target.mode,
            keys,
            upsert: self.target.upsert,
            deletes: self.sync.delete_format,
            sync_id: sync_id.to_string(),
            columns: arrow_schema(&written, ext),
            only: match &self.target.columns {
                Columns::Only(c) => Some(c.clone()),
                _ => None,
            },
        })
    }

    /// The changes after `start` up to `last`, read with `schema`. `keys` = the target's key columns, where there is one
    /// target; else the configured ones.
    pub(super) async fn scan(
        &self,
        source: &Table,
        schema: SchemaRef,
        start: Start,
        last: &Snapshot,
        several: bool,
        keys: Option<&[String]>,
    ) -> Result<ChangelogScan> {
        let keys = keys.or(self.target.equality_columns.as_deref()).unwrap_or_default();
        let (_, read) = self.fields(&schema)?;
        let mut scan = ChangelogScan::builder(source.clone())
            .branch(self.source.branch.clone())
            .range(start, End::At(last.snapshot_id().to_string()))
            .schema(schema)
            .columns(self.source.read.columns.clone())
            .filter(self.source.read.filter.clone())
            .meta_columns(MetaColumns::Spark)
            .net_changes(several)
            .memory(self.sync.memory_mb << 20)
            .elsewhere(self.elsewhere.clone());
        // inside `only` the key is no top-level column of the source: rows are matched by value alone
        let only = matches!(self.target.columns, Columns::Only(_));
        if !keys.is_empty() && !only && keys.iter().all(|k| read.as_struct().fields().iter().any(|f| f.name == *k)) {
            scan = scan.identifier_columns(keys.to_vec());
        }
        scan.build().await
    }

    /// Applies a batch to the one target.
    pub(super) async fn apply_one(
        &self,
        source: &Table,
        target: &Table,
        batch: &[Step],
        start: Start,
        sync_id: &str,
        position: Option<&Position>,
    ) -> Result<Outcome> {
        let last: &SnapshotRef = &batch[batch.len() - 1].snapshot;
        let m = source.metadata();
        let schemas = [m.current_schema().clone(), last.schema(&m.inner)?];
        let (table, schema) = self.fit(source, target, &schemas, position, sync_id).await?;
        let (fields, _) = self.fields(&schema)?;
        let plan = self.plan(&table, fields, &m.ext, sync_id)?;
        let scan = self.scan(source, schema.clone(), start, last, batch.len() > 1, Some(&plan.keys)).await?;
        let summary = self.summary(sync_id, source, last, schema.schema_id());
        apply::apply(&table, &plan, scan.stream(), summary).await
    }
}
