//! Runs the workload. Sources are floe's, so that all engines read the same history; every engine has a copy of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;

use super::super::model::Model;
use super::super::run::{CATALOG, NAMESPACE, bytes, failure, report, table, texts};
use super::super::usage::{Meter, Usage};
use super::super::{Plan, Report, Sample};
use super::model::{Changed, History, TABLE, Update};
use super::peers::{self, Way};
use crate::drivers::Driver;

/// A copy of a source.
struct Copy {
    /// Index of the engine that keeps it.
    engine: usize,
    name: String,
    /// Why it takes no further part.
    broken: String,
}

struct Source {
    mode: String,
    name: String,
    history: History,
    /// Indices of the engines that read its changes.
    readers: Vec<usize>,
    copies: Vec<Copy>,
    /// Why nothing of it is measured.
    broken: String,
}

/// One update of a source, as others see it.
struct Step {
    what: String,
    round: u32,
    from: i64,
    to: i64,
    before: String,
    after: String,
    changed: Changed,
}

/// Runs the plan on started engines over `warehouse`; the first of `drivers` is floe. `tell` hears what is being measured.
pub async fn run(
    plan: &Plan,
    warehouse: &Path,
    drivers: &mut [Box<dyn Driver>],
    mut absent: Vec<(String, String)>,
    tell: &dyn Fn(&str),
) -> Result<Report, String> {
    if drivers.first().is_none_or(|d| d.name() != "floe") {
        return Err("the workload cdc needs the engine floe: it makes the history that the others read".into());
    }
    let catalog = HadoopCatalog::new(CATALOG, &warehouse.display().to_string(), std::collections::HashMap::new());
    let catalog: Arc<dyn Catalog> = Arc::new(catalog.map_err(|e| e.to_string())?);
    let ways: Vec<Option<Way>> = drivers.iter().map(|d| Way::of(d.name())).collect();
    for (d, way) in drivers.iter().zip(&ways) {
        if way.is_none() {
            absent.push((d.name().into(), "this workload knows no way to ask it for changes".into()));
        }
    }
    let mut run = Run { plan, warehouse, drivers, ways, catalog, samples: Vec::new(), tell };
    run.prepare().await?;
    run.with_peers().await;
    run.by_size().await;
    Ok(report(plan, run.drivers, absent, run.samples))
}

struct Run<'a> {
    plan: &'a Plan,
    warehouse: &'a Path,
    drivers: &'a mut [Box<dyn Driver>],
    ways: Vec<Option<Way>>,
    catalog: Arc<dyn Catalog>,
    samples: Vec<Sample>,
    tell: &'a dyn Fn(&str),
}

impl Run<'_> {
    async fn prepare(&mut self) -> Result<(), String> {
        let t = table(self.warehouse, "none");
        let sql = format!("CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}");
        failure(self.drivers[0].apply(&sql, &t).await).map_or(Ok(()), Err)?;
        for (d, way) in self.drivers.iter_mut().zip(&self.ways) {
            for sql in way.map_or(&[][..], Way::settings) {
                if let Some(why) = failure(d.apply(sql, &t).await) {
                    return Err(format!("{}: {sql}: {why}", d.name()));
                }
            }
        }
        Ok(())
    }

    /// 1 % and 2 % of the rows updated, scattered, in every mode, by all engines.
    async fn with_peers(&mut self) {
        let mut sources = Vec::new();
        for mode in &self.plan.modes {
            let readers = (0..self.drivers.len()).filter(|i| self.ways[*i].is_some_and(|w| w.reads(mode))).collect();
            sources.push(self.source(&format!("src_{}", mode.replace('-', "_")), mode, self.plan.rows, readers).await);
        }
        for (what, step, first) in [("1 % updated", 100, 0), ("2 % updated", 50, 25)] {
            for round in 0..=self.plan.samples {
                for s in &mut sources {
                    self.round(s, what, round, Update::Scattered { step, at: first + round }).await;
                }
            }
        }
        self.drop_all(&sources).await;
    }

    /// As many changed rows in a table of a tenth of the size, by floe alone.
    async fn by_size(&mut self) {
        let rows = self.plan.rows;
        let mut sources = Vec::new();
        for size in [rows, rows / 10] {
            sources.push(self.source(&format!("size_{size}"), "merge-on-read", size, vec![0]).await);
        }
        let each = rows / 1000;
        for round in 0..=self.plan.samples {
            for (s, step) in sources.iter_mut().zip([1000, 100]) {
                let from = rows / 20 + round * each;
                let size = s.name.trim_start_matches("size_").to_string();
                let what = format!("{each} neighbours updated of {size}");
                self.round(s, &what, round, Update::Neighbours { from, to: from + each }).await;
                let what = format!("{each} scattered updated of {size}");
                self.round(s, &what, round, Update::Scattered { step, at: round }).await;
            }
        }
        self.drop_all(&sources).await;
    }

    /// A source of `rows` rows, and a copy of it, in step, by each reader that keeps one.
    async fn source(&mut self, name: &str, mode: &str, rows: u32, readers: Vec<usize>) -> Source {
        let mut s = Source {
            mode: mode.into(),
            name: name.into(),
            history: History::new(rows),
            readers,
            copies: Vec::new(),
            broken: String::new(),
        };
        let full = format!("{CATALOG}.{NAMESPACE}.{name}");
        let insert = Model::insert(&full, rows);
        for sql in [Model::create(&full, mode, &self.plan.properties), insert] {
            (self.tell)(&format!("{name}: {sql}"));
            if s.broken.is_empty() {
                s.broken = failure(self.drivers[0].apply(&sql, &table(self.warehouse, name)).await).unwrap_or_default();
            }
        }
        for engine in s.readers.clone() {
            if self.ways[engine] == Some(Way::Diff) {
                continue;
            }
            let copy = format!("{name}_of_{}", self.drivers[engine].name().replace('-', "_"));
            (self.tell)(&format!("{copy}: first copy"));
            let done = if self.ways[engine] == Some(Way::Floe) {
                self.floe_sync(name, &copy).await.map(|_| ())
            } else {
                self.first_copy(engine, &full, &copy).await
            };
            s.copies.push(Copy { engine, name: copy, broken: done.err().unwrap_or_default() });
        }
        s
    }

    async fn first_copy(&mut self, engine: usize, source: &str, copy: &str) -> Result<(), String> {
        let full = format!("{CATALOG}.{NAMESPACE}.{copy}");
        for sql in [
            Model::create(&full, "merge-on-read", &self.plan.properties),
            format!("INSERT INTO {full} SELECT * FROM {source}"),
        ] {
            let t = table(self.warehouse, copy);
            failure(self.drivers[engine].apply(&sql, &t).await).map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Updates a source; then every engine reads the changes, and every copy is brought into step and compared.
    async fn round(&mut self, s: &mut Source, what: &str, round: u32, update: Update) {
        let full = format!("{CATALOG}.{NAMESPACE}.{}", s.name);
        (self.tell)(&format!("{what}, round {round}: {}", s.name));
        let before = table(self.warehouse, &s.name);
        let from = self.head(&s.name).await;
        let sql = update.sql(&full);
        if s.broken.is_empty() {
            s.broken = failure(self.drivers[0].apply(&sql, &before).await).unwrap_or_default();
        }
        s.history.apply(update);
        let to = self.head(&s.name).await;
        let (Ok(from), Ok(to), true) = (from, to, s.broken.is_empty()) else {
            let why = format!("the source could not be made: {}", s.broken);
            s.copies.iter().for_each(|c| self.fail(s, &format!("sync, {what}"), c.engine, round, why.clone()));
            return;
        };
        let after = table(self.warehouse, &s.name).metadata;
        let changed = s.history.last();
        let step = Step { what: what.into(), round, from, to, before: before.metadata, after, changed };
        for engine in s.readers.clone() {
            self.changelog(s, &step, engine).await;
        }
        for i in 0..s.copies.len() {
            self.sync(s, &step, i).await;
        }
        self.compare(s, &step).await;
    }

    /// Reads the changes; the time counts when they are the model's.
    async fn changelog(&mut self, s: &Source, step: &Step, engine: usize) {
        let what = format!("changelog, {}", step.what);
        (self.tell)(&format!("{what}, round {}: {} of {}", step.round, self.drivers[engine].name(), s.name));
        let t = table(self.warehouse, &s.name);
        let begin = Instant::now();
        let (answer, want) = if self.ways[engine] == Some(Way::Diff) {
            let sql = peers::diff(&step.before, &step.after);
            (self.drivers[engine].query(&sql, &t).await, step.changed.diff())
        } else {
            let made = self.drivers[engine].apply(&peers::view(&s.name, step.from, step.to), &t).await;
            if let Some(why) = failure(made) {
                return self.fail(s, &what, engine, step.round, why);
            }
            (self.drivers[engine].query(super::model::VIEW, &t).await, step.changed.view())
        };
        let seconds = begin.elapsed().as_secs_f64();
        match texts(answer) {
            Ok(got) if got == want => {
                let mut sample = self.sample(s, &what, engine, step.round);
                sample.seconds = Some(seconds);
                sample.rows = 2 * step.changed.rows;
                self.keep(sample);
            }
            Ok(got) => self.fail(s, &what, engine, step.round, format!("wrong rows: {got:?} instead of {want:?}")),
            Err(why) => self.fail(s, &what, engine, step.round, why),
        }
    }

    /// Brings a copy into step; whether it is, [`Run::compare`] says.
    async fn sync(&mut self, s: &mut Source, step: &Step, copy: usize) {
        let Copy { engine, name, broken } = &s.copies[copy];
        let (engine, name) = (*engine, name.clone());
        let what = format!("sync, {}", step.what);
        if !broken.is_empty() {
            let why = broken.clone();
            return self.fail(s, &what, engine, step.round, why);
        }
        (self.tell)(&format!("{what}, round {}: {} of {}", step.round, self.drivers[engine].name(), s.name));
        let folder = table(self.warehouse, &name).location;
        let size = bytes(Path::new(&folder));
        let begin = Instant::now();
        let done = if self.ways[engine] == Some(Way::Floe) {
            self.floe_sync(&s.name, &name).await
        } else {
            self.spark_sync(engine, s, step, &name).await.map(|()| Usage::default())
        };
        let seconds = begin.elapsed().as_secs_f64();
        match done {
            Ok(usage) => {
                let mut sample = self.sample(s, &what, engine, step.round);
                sample.seconds = Some(seconds);
                sample.rows = step.changed.rows;
                sample.bytes = bytes(Path::new(&folder)).saturating_sub(size);
                sample.usage = usage;
                self.keep(sample);
            }
            Err(why) => {
                s.copies[copy].broken.clone_from(&why);
                self.fail(s, &what, engine, step.round, why);
            }
        }
    }

    /// floe's sync, in this process, and what it took.
    async fn floe_sync(&self, source: &str, target: &str) -> Result<Usage, String> {
        let text = format!(
            "source: {{table: {NAMESPACE}.{source}}}\n\
             target: {{table: {NAMESPACE}.{target}, mode: merge-on-read, equality_columns: [id]}}"
        );
        let config = PipelineConfig::parse(&text, "bench").map_err(|e| e.to_string())?;
        let sync =
            Sync::with_catalogs(config, self.catalog.clone(), self.catalog.clone()).map_err(|e| e.to_string())?;
        let (_keep, stop) = tokio::sync::watch::channel(false);
        let meter = Meter::start(Some(std::process::id()));
        sync.run(stop, |_| {}).await.map_err(|e| format!("failed: {e}"))?;
        Ok(meter.stop())
    }

    async fn spark_sync(&mut self, engine: usize, s: &Source, step: &Step, copy: &str) -> Result<(), String> {
        let d = &mut self.drivers[engine];
        let source = table(self.warehouse, &s.name);
        failure(d.apply(&peers::view(&s.name, step.from, step.to), &source).await).map_or(Ok(()), Err)?;
        let target = table(self.warehouse, copy);
        failure(d.apply(&peers::merge(copy), &target).await).map_or(Ok(()), Err)
    }

    /// Compares every copy with the model; the times of one that is wrong do not count.
    async fn compare(&mut self, s: &mut Source, step: &Step) {
        let want = s.history.table();
        let what = format!("sync, {}", step.what);
        for copy in s.copies.iter_mut().filter(|c| c.broken.is_empty()) {
            (self.tell)(&format!("{what}, round {}: comparing {}", step.round, copy.name));
            let sql = format!("{TABLE}{CATALOG}.{NAMESPACE}.{}", copy.name);
            let t = table(self.warehouse, &copy.name);
            let why = match texts(self.drivers[0].query(&sql, &t).await) {
                Ok(got) if got == want => continue,
                Ok(got) => format!("wrong rows: {got:?} instead of {want:?}"),
                Err(why) => why,
            };
            let name = self.drivers[copy.engine].name();
            let of_it = |x: &&mut Sample| x.what == what && x.engine == name && x.mode == s.mode;
            for x in self.samples.iter_mut().filter(of_it) {
                x.seconds = None;
                x.reason.clone_from(&why);
            }
            copy.broken = why;
        }
    }

    async fn head(&self, name: &str) -> Result<i64, String> {
        let ident = iceberg::TableIdent::from_strs([NAMESPACE, name]).map_err(|e| e.to_string())?;
        let t = self.catalog.clone().load_table(&ident).await.map_err(|e| e.to_string())?;
        t.metadata().current_snapshot_id().ok_or_else(|| format!("{name} has no snapshot"))
    }

    async fn drop_all(&mut self, sources: &[Source]) {
        for name in sources.iter().flat_map(|s| s.copies.iter().map(|c| &c.name).chain([&s.name])) {
            // room for the next tables; what stays is removed with the folder
            let sql = format!("DROP TABLE IF EXISTS {CATALOG}.{NAMESPACE}.{name} PURGE");
            let _ = self.drivers[0].apply(&sql, &table(self.warehouse, name)).await;
        }
    }

    fn sample(&self, s: &Source, what: &str, engine: usize, round: u32) -> Sample {
        Sample {
            what: what.into(),
            engine: self.drivers[engine].name().into(),
            writer: "floe".into(),
            mode: s.mode.clone(),
            round,
            ..Sample::default()
        }
    }

    fn keep(&mut self, s: Sample) {
        (self.tell)(&format!("{}, round {}: {} {:?} s {}", s.what, s.round, s.engine, s.seconds, s.reason));
        self.samples.push(s);
    }

    fn fail(&mut self, s: &Source, what: &str, engine: usize, round: u32, reason: String) {
        let sample = Sample { reason, ..self.sample(s, what, engine, round) };
        self.keep(sample);
    }
}
