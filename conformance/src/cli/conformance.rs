//! `floe conformance`: the main job. floe's own cells come first; the other engines join when they are installed and started.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinSet;

use crate::drivers::{Driver, Floe, Launch, Place, Process, kill_all};
use crate::engines::{self, Engine, Home};
use crate::launch;
use crate::matrix::result::{AUDIT, Cell, EngineRow, FACTS, Results};
use crate::matrix::{Session, run_scenario};
use crate::matrix::{deviations, proof};
use crate::report::{self, verdicts};
use crate::scenario::{self, Scenario};
use crate::serve::Local;
use floe_engine::catalog::HadoopCatalog;

/// Name of the shared catalog in statements.
const CATALOG: &str = "ice";

/// Arguments of `floe conformance`.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// Engines to run, by name; floe and every engine of the default run unless given
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Run an engine of your own: a command that speaks the driver protocol
    #[arg(long)]
    engine_cmd: Option<String>,
    /// Scenarios whose id matches (`dv/*`) or contains this text
    #[arg(long, default_value = "*")]
    scenario: String,
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

/// Runs the subcommand. `Ok(0)`: every cell is accepted and no reviewed verdict changed; `Ok(1)`: not so; `Ok(130)`:
/// stopped by Ctrl-C, with every engine ended.
pub async fn run(args: &ConformanceArgs) -> Result<i32, String> {
    let outcome = tokio::select! {
        done = conformance(args) => done,
        _ = interrupted() => Ok(130),
    };
    kill_all();
    if args.launcher == Launcher::Container {
        launch::remove_mine().await;
    }
    outcome
}

/// Ctrl-C or a termination signal.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let term = async {
        match signal(SignalKind::terminate()) {
            Ok(mut s) => _ = s.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = term => {}
    }
}

async fn conformance(args: &ConformanceArgs) -> Result<i32, String> {
    let begin = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let root = scenario::find_root().ok_or("no folder `scenarios` here or above; run floe inside its checkout")?;
    let scenarios = scenario::load_all(&root, &args.scenario)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    if scenarios.is_empty() {
        return Err(format!(
            "no scenario matches {:?}; their ids are the paths below {}",
            args.scenario,
            root.display()
        ));
    }
    let book = deviations::parse(deviations::FILE).map_err(|e| format!("known-deviations.toml: {e}"))?;
    let (with_floe, chosen) = choose(args)?;
    let out = prepare(&args.out)?;
    let session =
        |prefix: &str| Session { warehouse: out.join("warehouse"), catalog: CATALOG.into(), prefix: prefix.into() };

    let shared = HadoopCatalog::new(CATALOG, &out.join("warehouse").display().to_string(), HashMap::new())
        .map_err(|e| e.to_string())?;
    let rest = Local::start(Arc::new(shared)).await?;
    if args.launcher == Launcher::Container {
        launch::sweep().await;
    }
    let mut starting = JoinSet::new();
    for (place, engine) in chosen.into_iter().enumerate() {
        let (dir, launcher, rest) = (out.clone(), args.launcher, rest.uri().to_string());
        starting.spawn(async move { (place, start(engine, launcher, &dir, &rest).await) });
    }
    if let Some(command) = &args.engine_cmd {
        let launch = custom(command, &out, rest.uri());
        starting.spawn(async move { (usize::MAX, start_custom(launch).await) });
    }

    let bar = bar(args.quiet);
    let on_cell = |c: &Cell| {
        bar.inc(1);
        bar.set_message(format!("{} {} -> {}", c.scenario, c.writer, c.reader));
    };
    let mut rows = Vec::new();
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    let mut cells = Vec::new();
    if with_floe {
        let floe = Floe::new(&out.join("warehouse"), CATALOG).map_err(|e| e.to_string())?;
        rows.push(row_of_floe(&floe));
        drivers.push(Box::new(floe));
        bar.set_length(3 * scenarios.len() as u64);
        for s in &scenarios {
            cells.extend(run_scenario(&session("alone"), &mut drivers, s, 0, &[0], &on_cell).await);
        }
    }
    bar.set_message("waiting for engines");
    let mut joined: Vec<(usize, EngineRow, Option<Process>)> = Vec::new();
    while let Some(done) = starting.join_next().await {
        let (place, (row, process)) = done.map_err(|e| format!("starting an engine failed: {e}"))?;
        bar.println(match &process {
            Some(_) => format!("{} {} joined after {:.1} s", row.name, row.version, row.start_seconds),
            None => format!("{} skipped: {}", row.name, row.skipped),
        });
        joined.push((place, row, process));
    }
    joined.sort_by_key(|j| j.0);
    for (_, row, process) in joined {
        rows.push(row);
        drivers.extend(process.map(|p| Box::new(p) as Box<dyn Driver>));
    }
    bar.set_length((scenarios.len() * drivers.len() * (drivers.len() + 2)) as u64);
    run_all(&session("by"), &mut drivers, &scenarios, with_floe, &mut cells, &on_cell).await;
    for d in &mut drivers {
        d.stop().await;
    }
    bar.finish_and_clear();

    let stale = deviations::apply(&book, &mut cells, &rows);
    let results = Results {
        schema: 1,
        floe: env!("CARGO_PKG_VERSION").into(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        launcher: format!("{:?}", args.launcher).to_lowercase(),
        engines: rows,
        scenarios,
        cells,
        stale_deviations: stale,
    };
    finish(args, &root, &out, &results)
}

/// Every writer by scenario; what floe did alone is not done again.
async fn run_all(
    session: &Session,
    drivers: &mut [Box<dyn Driver>],
    scenarios: &[Scenario],
    with_floe: bool,
    cells: &mut Vec<Cell>,
    on_cell: crate::matrix::Progress<'_>,
) {
    for s in scenarios {
        for w in 0..drivers.len() {
            if !drivers[w].hello().roles.iter().any(|r| r == "write") {
                continue;
            }
            let alone = with_floe && w == 0;
            let readers: Vec<usize> = (0..drivers.len())
                .filter(|r| !(alone && *r == 0))
                .filter(|r| drivers[*r].hello().roles.iter().any(|x| x == "read"))
                .collect();
            if readers.is_empty() {
                continue;
            }
            let new = run_scenario(session, drivers, s, w, &readers, on_cell).await;
            // floe's facts and bytes were judged when it ran alone
            let again = |c: &Cell| alone && [FACTS, AUDIT].contains(&c.reader.as_str());
            cells.extend(new.into_iter().filter(|c| !again(c)));
        }
    }
}

/// Writes the reports, prints the matrix, compares with the reviewed verdicts.
fn finish(args: &ConformanceArgs, root: &Path, out: &Path, results: &Results) -> Result<i32, String> {
    report::write_all(results, out).map_err(|e| format!("cannot write reports into {}: {e}", out.display()))?;
    print!("{}", report::terminal::text(results));
    proof::unproven(results).iter().for_each(|line| println!("{line}"));
    let file = root.parent().unwrap_or(root).join("reports/matrix.txt");
    let reviewed = match std::fs::read_to_string(&file) {
        Ok(text) => verdicts::parse(&text).map_err(|e| format!("{}: {e}", file.display()))?,
        Err(_) => std::collections::BTreeMap::new(),
    };
    let changed = verdicts::changes(&reviewed, &verdicts::of(results));
    if args.accept {
        std::fs::write(&file, verdicts::accept(&reviewed, results)).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("verdicts accepted into {}", file.display());
    } else if !changed.is_empty() {
        println!("\nverdicts that changed against {} (accept them with --accept):", file.display());
        changes_list(&changed);
    }
    println!("report: {}", out.join("report.html").display());
    Ok(i32::from(!results.green() || (!args.accept && !changed.is_empty())))
}

fn changes_list(changed: &[String]) {
    changed.iter().for_each(|c| println!("  {c}"));
}

/// Whether floe takes part, and the other engines.
fn choose(args: &ConformanceArgs) -> Result<(bool, Vec<Engine>), String> {
    if args.engines.is_empty() {
        return Ok((true, engines::registry().into_iter().filter(|e| e.default).collect()));
    }
    let others = args.engines.iter().filter(|n| *n != "floe").map(|n| engines::find(n)).collect::<Result<_, _>>()?;
    Ok((args.engines.iter().any(|n| n == "floe"), others))
}

/// Makes the output folder and removes an earlier run's tables from it.
pub(super) fn prepare(out: &Path) -> Result<PathBuf, String> {
    let io = |e: std::io::Error| format!("cannot use {} for output: {e}", out.display());
    std::fs::create_dir_all(out).map_err(io)?;
    let out = out.canonicalize().map_err(io)?;
    for name in ["warehouse", "engines"] {
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
    let hello = d.hello();
    EngineRow {
        name: "floe".into(),
        title: format!("floe {}", hello.version),
        version: hello.version.clone(),
        iceberg: hello.iceberg.clone(),
        roles: hello.roles.clone(),
        capabilities: hello.capabilities.clone(),
        command: "cargo floe conformance --engines floe".into(),
        ..EngineRow::default()
    }
}

/// Installs and starts an engine; without a process the row says why.
pub(super) async fn start(engine: Engine, launcher: Launcher, out: &Path, rest: &str) -> (EngineRow, Option<Process>) {
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
        Process::start_at(engine.launch(&dir, &scratch, &out.join("warehouse"), CATALOG, rest)?, place).await
    };
    match launched.await {
        Ok(p) => {
            fill(&mut row, &p);
            row.start_seconds = begin.elapsed().as_secs_f64();
            (row, Some(p))
        }
        Err(why) => {
            row.skipped = why;
            (row, None)
        }
    }
}

fn fill(row: &mut EngineRow, p: &Process) {
    let hello = p.hello();
    row.version.clone_from(&hello.version);
    row.iceberg.clone_from(&hello.iceberg);
    row.roles.clone_from(&hello.roles);
    row.capabilities.clone_from(&hello.capabilities);
}

fn custom(command: &str, out: &Path, rest: &str) -> Launch {
    let text = |path: std::io::Result<PathBuf>, or: &str| path.map_or_else(|_| or.into(), |p| p.display().to_string());
    Launch {
        name: "custom".into(),
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

async fn start_custom(launch: Launch) -> (EngineRow, Option<Process>) {
    let command = format!("cargo floe conformance --engine-cmd {:?}", launch.command.last().map_or("", String::as_str));
    let mut row = EngineRow { name: "custom".into(), title: "your engine".into(), command, ..EngineRow::default() };
    match Process::start(launch).await {
        Ok(p) => {
            fill(&mut row, &p);
            row.title = format!("{} {}", p.hello().engine, p.hello().version);
            (row, Some(p))
        }
        Err(why) => {
            row.skipped = why;
            (row, None)
        }
    }
}
