//! `floe conformance`: the main job. floe's own cells come first; the other engines join when they are installed and started.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::{AbortHandle, JoinSet};

use super::signals::until_asked_to_end;
use crate::drivers::{Driver, Floe, Launch, Place, Process};
use crate::engines::{self, Engine, Home};
use crate::launch;
use crate::matrix::result::{CatalogResult, Cell, EngineRow, Results};
use crate::matrix::{Field, Session, catalogs, deviations, proof};
use crate::report::{self, verdicts};
use crate::scenario::generated::{self, History};
use crate::scenario::{self, Scenario};
use crate::serve::Local;
use floe_engine::catalog::HadoopCatalog;

/// Name of the shared catalog in statements.
pub(super) const CATALOG: &str = "ice";

/// Name of the engine of `--engine-cmd`.
const CUSTOM: &str = "custom";

/// The pattern of every scenario.
const ALL: &str = "*";

/// How long a round waits for one more engine: installed ones all start within it, so that one round serves them.
const GRACE: Duration = Duration::from_secs(20);

/// Environment of engines whose work is a few small statements: a virtual machine's second compiler would take more of a
/// small machine than it gives back. Benchmarks keep it.
pub(super) const SHORT_WORK: (&str, &str) = ("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1");

/// Arguments of `floe conformance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 every cell is a pass, refused as declared, a known deviation or skipped with its reason (so is an engine of --engines \
that this machine cannot have), and no reviewed verdict changed; 1 not so, or the engine of --engine-cmd did not start, or no engine \
ran; 130 stopped by Ctrl-C.

Examples:
  floe conformance --engines floe --scenario 'dv/*'
  floe conformance --engines floe,spark35,duckdb --out out
  floe conformance --engines floe --engine-cmd 'python3 my_driver.py'
  floe conformance --again out --out out-again")]
pub struct ConformanceArgs {
    /// Engines to run, by name; floe and every engine of the default run unless given. One that cannot be had here is skipped,
    /// with its reason
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Run an engine of your own: a command that speaks the driver protocol. It must start
    #[arg(long)]
    engine_cmd: Option<String>,
    /// Scenarios whose id matches (`dv/*`) or contains this text
    #[arg(long, default_value = ALL)]
    scenario: String,
    /// Only the scenarios of which an earlier run (`results.json` or its folder) has a cell that was not accepted, or another verdict
    /// than the reviewed one; exit 1 when there is none
    #[arg(long, value_name = "RUN", conflicts_with = "scenario")]
    again: Option<PathBuf>,
    /// Add this many generated histories; what an engine fails is cut down and written to OUT/generated as a scenario file
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000))]
    generated: u64,
    /// Seed of the first generated history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Catalogs to put floe on beside those that need no server: sections of floe.toml by the names of `floe engines`
    #[arg(long, value_delimiter = ',')]
    catalogs: Vec<String>,
    /// How engines are started
    #[arg(long, value_enum, default_value_t = Launcher::Native)]
    launcher: Launcher,
    /// Folder of the result file and the reports
    #[arg(long, default_value = "out")]
    out: PathBuf,
    /// Take this run's verdicts as the reviewed ones
    #[arg(long)]
    accept: bool,
    /// No progress bar, only the matrix
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Launcher {
    /// Processes of this machine
    Native,
    /// Containers
    Container,
}

/// Runs the subcommand. `Ok(0)`: every cell is accepted and no reviewed verdict changed; `Ok(1)`: not so, or the engine of
/// `--engine-cmd` did not start, or none did; `Ok(130)`: stopped by Ctrl-C, with every engine ended.
pub async fn run(args: &ConformanceArgs) -> Result<i32, String> {
    let outcome = until_asked_to_end(conformance(args)).await;
    if args.launcher == Launcher::Container {
        launch::remove_mine().await;
    }
    outcome
}

async fn conformance(args: &ConformanceArgs) -> Result<i32, String> {
    let begin = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let root = scenario::find_root().ok_or("no folder `scenarios` here or above; run floe inside its checkout")?;
    // names first: loading the models of all scenarios takes a while
    catalogs::check_names(&args.catalogs)?;
    let (with_floe, chosen) = choose(args)?;
    let again = args.again.as_ref().map(|run| again(run, args, &root)).transpose()?;
    let mut scenarios = scenario::load_all(&root, &args.scenario)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    if let Some(open) = again {
        scenarios.retain(|s| open.contains(&s.id));
    }
    let whole = args.scenario == ALL && args.again.is_none();
    let histories: Vec<History> = (0..args.generated).map(|i| History::of(args.seed.wrapping_add(i))).collect();
    scenarios.extend(histories.iter().map(History::scenario));
    if scenarios.is_empty() {
        return Err(format!(
            "no scenario matches {:?}; their ids are the paths below {}",
            args.scenario,
            root.display()
        ));
    }
    let book = deviations::parse(deviations::FILE).map_err(|e| format!("known-deviations.toml: {e}"))?;
    let out = prepare(&args.out)?;
    let session = Session { warehouse: out.join("warehouse"), catalog: CATALOG.into(), prefix: "run".into() };

    let rest = shared_catalog(&out).await?;
    if args.launcher == Launcher::Container {
        launch::sweep().await;
    }
    let mut starting = JoinSet::new();
    let mut awaited = Vec::new();
    for (place, engine) in chosen.into_iter().enumerate() {
        let (dir, launcher, rest) = (out.clone(), args.launcher, rest.uri().to_string());
        let one = async move { (place + 1, start(engine, launcher, &dir, &rest, &[SHORT_WORK]).await) };
        awaited.push(starting.spawn(one));
    }
    if let Some(command) = &args.engine_cmd {
        let (launch, command) = (custom(command, &out, rest.uri()), command.clone());
        awaited.push(starting.spawn(async move { (usize::MAX, start_custom(launch, &command).await) }));
    }

    let bar = bar(args.quiet);
    let say = |line: String| bar.suspend(|| println!("{line}"));
    let on_cell = |c: &Cell| {
        bar.inc(1);
        bar.set_message(format!("{} {} -> {}", c.scenario, c.writer, c.reader));
    };
    let mut put_on = Vec::new();
    let results = |field: &Field, catalogs: &[CatalogResult]| {
        let (engines, mut cells) = field.so_far(&scenarios);
        let stale_deviations = deviations::apply(&book, &mut cells, &engines, whole);
        let (scenarios, seconds) = (scenarios.clone(), begin.elapsed().as_secs_f64());
        let launcher = format!("{:?}", args.launcher).to_lowercase();
        let floe = env!("CARGO_PKG_VERSION").into();
        Results {
            schema: 1,
            floe,
            started,
            seconds,
            launcher,
            engines,
            scenarios,
            cells,
            stale_deviations,
            catalogs: catalogs.to_vec(),
            figures: figures(&root),
        }
    };
    let mut field = Field::default();
    if with_floe {
        let floe = Floe::new(&out.join("warehouse"), CATALOG).map_err(|e| e.to_string())?;
        field.join(0, row_of_floe(&floe), Some(Box::new(floe)));
        bar.set_length(field.ahead(scenarios.len()));
        // once all others are ready, what is left is done together with them
        let ready = move || !awaited.is_empty() && awaited.iter().all(AbortHandle::is_finished);
        field.round(&session, &scenarios, &on_cell, ready).await;
        if !starting.is_empty() {
            say(format!("floe alone: {}", report::terminal::summary(&results(&field, &[]))));
        }
        if whole || !args.catalogs.is_empty() {
            bar.set_message("catalogs");
            put_on = catalogs::run(&out.join("catalogs"), &args.catalogs).await;
        }
    }
    bar.set_message("waiting for engines");
    while let Some(first) = starting.join_next().await {
        // engines that are ready at about the same time share a round
        let mut ready = vec![first];
        while let Ok(Some(next)) = tokio::time::timeout(GRACE, starting.join_next()).await {
            ready.push(next);
        }
        for done in ready {
            let (place, (row, process)) = done.map_err(|e| format!("starting an engine failed: {e}"))?;
            say(match &process {
                Some(_) => format!("{} {} joined after {:.1} s", row.name, row.version, row.start_seconds),
                None => format!("{} skipped: {}", row.name, row.skipped),
            });
            field.join(place, row, process.map(|p| Box::new(p) as Box<dyn Driver>));
        }
        bar.set_length(bar.position() + field.ahead(scenarios.len()));
        field.round(&session, &scenarios, &on_cell, || false).await;
    }
    let all = results(&field, &put_on);
    bar.set_message("cutting down what failed");
    for (writer, reader, found) in field.cut_down(&session, &histories, &all).await {
        let file = write_found(&out, &writer, &reader, found)?;
        say(format!("{writer} -> {reader}: the least statements that show it are in {}", file.display()));
    }
    field.stop().await;
    bar.finish_and_clear();
    finish(args, &root, &out, &all)
}

/// Writes a generated history that an engine failed as a scenario file.
fn write_found(out: &Path, writer: &str, reader: &str, mut found: Scenario) -> Result<PathBuf, String> {
    let folder = out.join(generated::AREA);
    let seed = found.id.rsplit('/').next().unwrap_or_default();
    let file = folder.join(format!("{seed}-{writer}-{reader}.toml"));
    found.id.clear();
    let text = toml::to_string_pretty(&found).map_err(|e| format!("{}: {e}", file.display()))?;
    let io = |e: std::io::Error| format!("cannot write {}: {e}", file.display());
    std::fs::create_dir_all(&folder).map_err(io)?;
    std::fs::write(&file, text).map_err(io)?;
    Ok(file)
}

/// Writes the reports, prints the matrix, compares with the reviewed verdicts.
fn finish(args: &ConformanceArgs, root: &Path, out: &Path, results: &Results) -> Result<i32, String> {
    report::write_all(results, out).map_err(|e| format!("cannot write reports into {}: {e}", out.display()))?;
    print!("{}", report::terminal::text(results));
    proof::unproven(results).iter().for_each(|line| println!("{line}"));
    let (file, reviewed) = reviewed(root)?;
    let changed = verdicts::changes(&reviewed, &verdicts::of(results));
    if args.accept {
        std::fs::write(&file, verdicts::accept(&reviewed, results)).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("verdicts accepted into {}", file.display());
    } else if !changed.is_empty() {
        println!("\nverdicts that changed against {} (accept them with --accept):", file.display());
        changed.iter().for_each(|c| println!("  {c}"));
    }
    println!("report: {}", out.join("report.html").display());
    let missing = missing(results);
    if let Some(what) = &missing {
        eprintln!("floe: {what}");
    }
    Ok(i32::from(!results.green() || (!args.accept && !changed.is_empty()) || missing.is_some()))
}

/// The file of the reviewed verdicts, and what it says; nothing when it is not there.
fn reviewed(root: &Path) -> Result<(PathBuf, BTreeMap<verdicts::Key, String>), String> {
    let file = root.parent().unwrap_or(root).join("reports/matrix.txt");
    let said = match std::fs::read_to_string(&file) {
        Ok(text) => verdicts::parse(&text).map_err(|e| format!("{}: {e}", file.display()))?,
        Err(_) => BTreeMap::new(),
    };
    Ok((file, said))
}

/// Scenarios that are to be run again after an earlier run.
fn again(run: &Path, args: &ConformanceArgs, root: &Path) -> Result<BTreeSet<String>, String> {
    let open = open_scenarios(&report::read(run)?, &reviewed(root)?.1);
    if open.is_empty() {
        return Err(format!("{}: every cell was accepted, nothing is to be run again", run.display()));
    }
    let folder = if run.is_dir() { run } else { run.parent().unwrap_or(run) };
    if let (Ok(a), Ok(b)) = (folder.canonicalize(), args.out.canonicalize())
        && a == b
    {
        return Err(format!("--out {}: that run's own results are there; name another folder", args.out.display()));
    }
    Ok(open)
}

/// Scenarios of which a run has a cell that is not accepted, or another verdict than the reviewed one.
fn open_scenarios(run: &Results, reviewed: &BTreeMap<verdicts::Key, String>) -> BTreeSet<String> {
    let now = verdicts::of(run);
    let changed = now.iter().filter(|(k, v)| reviewed.get(*k).is_some_and(|old| old != *v)).map(|(k, _)| k.0.clone());
    run.cells.iter().filter(|c| !c.accepted).map(|c| c.scenario.clone()).chain(changed).collect()
}

/// An engine without which the run answers nothing that was asked.
fn missing(results: &Results) -> Option<String> {
    let absent = |e: &&EngineRow| !e.skipped.is_empty();
    if let Some(custom) = results.engines.iter().filter(absent).find(|e| e.name == CUSTOM) {
        return Some(format!(
            "the engine of --engine-cmd did not run: {}; to run it: {}",
            custom.skipped, custom.command
        ));
    }
    (results.engines.iter().filter(absent).count() == results.engines.len())
        .then(|| "no engine ran, and nothing was judged".to_string())
}

/// What the formal tests counted: the lines of `reports/figures`.
fn figures(root: &Path) -> Vec<String> {
    let folder = root.parent().unwrap_or(root).join("reports/figures");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut lines: Vec<String> =
        files.filter_map(|f| Some(std::fs::read_to_string(f.path()).ok()?.trim().to_string())).collect();
    lines.sort();
    lines
}

/// Whether floe takes part, and the other engines.
fn choose(args: &ConformanceArgs) -> Result<(bool, Vec<Engine>), String> {
    if args.engines.is_empty() {
        return Ok((true, engines::registry().into_iter().filter(|e| e.default).collect()));
    }
    Ok((args.engines.iter().any(|n| n == "floe"), others(&args.engines)?))
}

/// The engines of these names, floe apart; the error lists the names there are.
pub(super) fn others(names: &[String]) -> Result<Vec<Engine>, String> {
    names.iter().filter(|n| *n != "floe").map(|n| engines::find(n)).collect()
}

/// A REST catalog over the run's warehouse, for engines that take no folder.
pub(super) async fn shared_catalog(out: &Path) -> Result<Local, String> {
    let warehouse = out.join("warehouse").display().to_string();
    let catalog = HadoopCatalog::new(CATALOG, &warehouse, HashMap::new()).map_err(|e| e.to_string())?;
    Local::start(Arc::new(catalog)).await
}

/// Makes the folder that `--out` names.
pub(super) fn make_folder(out: &Path) -> Result<(), String> {
    if out.exists() && !out.is_dir() {
        return Err(format!("--out {} is a file; a folder is needed, there or to be made", out.display()));
    }
    std::fs::create_dir_all(out).map_err(|e| format!("cannot make the folder --out {}: {e}", out.display()))
}

/// Folders that a run makes in its output folder.
const OWN: [&str; 3] = ["warehouse", "engines", "catalogs"];
/// What says that they are a run's.
const MARK: &str = ".floe-run";

/// Makes the output folder and removes an earlier run's tables from it; what nobody says a run made is not touched.
pub(super) fn prepare(out: &Path) -> Result<PathBuf, String> {
    let io = |e: std::io::Error| format!("cannot use {} for output: {e}", out.display());
    make_folder(out)?;
    let out = out.canonicalize().map_err(io)?;
    // results of a run that was before there was a mark
    let mine = [MARK, "results.json", "bench.json"].iter().any(|f| out.join(f).is_file());
    if let Some(other) = OWN.iter().map(|name| out.join(name)).find(|d| !mine && d.exists()) {
        return Err(format!(
            "--out {}: {} is there and no run made it; a run would remove it. Name another folder",
            out.display(),
            other.display()
        ));
    }
    std::fs::write(out.join(MARK), "a run of floe; the next one removes warehouse, engines and catalogs here\n")
        .map_err(io)?;
    for name in OWN {
        let old = out.join(name);
        if old.exists() {
            std::fs::remove_dir_all(&old).map_err(io)?;
        }
        std::fs::create_dir_all(&old).map_err(io)?;
    }
    Ok(out)
}

pub(super) fn bar(quiet: bool) -> ProgressBar {
    use std::io::IsTerminal as _;
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn row_of_floe(d: &Floe) -> EngineRow {
    let mut row = EngineRow {
        name: "floe".into(),
        title: format!("floe {}", d.hello().version),
        command: "cargo floe conformance --engines floe".into(),
        ..EngineRow::default()
    };
    fill(&mut row, d);
    row
}

/// Installs and starts an engine with `env` on top of its own; without a process the row says why.
pub(super) async fn start(
    engine: Engine,
    launcher: Launcher,
    out: &Path,
    rest: &str,
    env: &[(&str, &str)],
) -> (EngineRow, Option<Process>) {
    let mut row = EngineRow {
        name: engine.name.clone(),
        title: engine.title.clone(),
        version: engine.version.clone(),
        iceberg: engine.iceberg.clone(),
        command: engine.command(),
        ..EngineRow::default()
    };
    let begin = Instant::now();
    let launched = async {
        let place = match launcher {
            Launcher::Native => Place::Native,
            Launcher::Container => {
                launch::daemon().await?;
                Place::Container(launch::image_of(&engine.name, &engine.image)?)
            }
        };
        let home = Home::find()?;
        let copy = engine.clone();
        let installed = tokio::task::spawn_blocking(move || {
            engines::install(&copy, &home, &|stage| tracing::info!("{}: {stage}", copy.name))
        });
        let dir = installed.await.map_err(|e| e.to_string())??.dir;
        let scratch = out.join("engines").join(&engine.name);
        let mut launch = engine.launch(&dir, &scratch, &out.join("warehouse"), CATALOG, rest)?;
        launch.env.extend(env.iter().map(|(k, v)| (k.to_string(), v.to_string())));
        Process::start_at(launch, place).await
    };
    let process = started(&mut row, launched.await);
    if process.is_some() {
        row.start_seconds = begin.elapsed().as_secs_f64();
    }
    (row, process)
}

/// Writes into the row what came of starting its engine.
fn started(row: &mut EngineRow, launched: Result<Process, String>) -> Option<Process> {
    match launched {
        Ok(p) => {
            fill(row, &p);
            Some(p)
        }
        Err(why) => {
            row.skipped = why;
            None
        }
    }
}

fn fill(row: &mut EngineRow, d: &dyn Driver) {
    let hello = d.hello();
    row.version.clone_from(&hello.version);
    row.iceberg.clone_from(&hello.iceberg);
    row.roles.clone_from(&hello.roles);
    row.capabilities.clone_from(&hello.capabilities);
}

fn custom(command: &str, out: &Path, rest: &str) -> Launch {
    let text = |path: std::io::Result<PathBuf>, or: &str| path.map_or_else(|_| or.into(), |p| p.display().to_string());
    Launch {
        name: CUSTOM.into(),
        command: vec!["sh".into(), "-c".into(), format!("cd \"$FLOE_CWD\" && exec {command}")],
        env: vec![
            ("FLOE_CWD".into(), text(std::env::current_dir(), ".")),
            ("FLOE_EXE".into(), text(std::env::current_exe(), "floe")),
        ],
        scratch: out.join("engines/custom"),
        warehouse: out.join("warehouse"),
        catalog: CATALOG.into(),
        rest: Some(rest.to_string()),
        start_timeout: std::time::Duration::from_secs(180),
        step_timeout: std::time::Duration::from_secs(120),
    }
}

async fn start_custom(launch: Launch, command: &str) -> (EngineRow, Option<Process>) {
    let command = format!("cargo floe conformance --engine-cmd '{}'", command.replace('\'', "'\\''"));
    let mut row = EngineRow { name: CUSTOM.into(), title: "your engine".into(), command, ..EngineRow::default() };
    let process = started(&mut row, Process::start(launch).await);
    if let Some(p) = &process {
        row.title = format!("{} {}", p.hello().engine, p.hello().version);
    }
    (row, process)
}
