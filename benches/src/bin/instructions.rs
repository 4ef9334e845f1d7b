//! The work whose instructions are counted: `instructions make DIR` makes the table, `instructions run DIR` does the works of `WORKS` after
//! their set-up, with a call of `work_begins` before each and one at the end. `tests/instructions.rs` runs it under valgrind, which writes
//! down at each such call what was counted since the last one.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use floe_benches::{Warehouse, large, positions};
use floe_engine::Table;
use floe_engine::catalog::{Catalog, HadoopCatalog};
use floe_engine::deletes::DeleteIndex;
use floe_engine::dv::DeletionVector;
use floe_engine::expr::{FilePruner, Pred};
use floe_engine::manifest::{ManifestEntry, live_entries};
use floe_engine::scan::plan;
use iceberg::TableIdent;

/// Data files of the table, with a vector each.
const FILES: usize = 300;
/// Positions of each vector of the codec.
const POSITIONS: u64 = 100_000;
/// Names of the works, in the order in which they are done.
const WORKS: [&str; 8] = [
    "dv encode, 1 % at random",
    "dv decode, 1 % at random",
    "dv encode, runs",
    "dv decode, runs",
    "dv keep mask, 1 % at random",
    "delete index, build",
    "delete index, look up",
    "plan",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["names"] => WORKS.iter().for_each(|w| println!("{w}")),
        ["make", folder] => large::make(&mut Warehouse::at(Path::new(folder)), "t", FILES),
        ["run", folder] => run(folder),
        _ => {
            eprintln!("instructions names | make DIR | run DIR");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Valgrind knows it by its name.
#[inline(never)]
fn work_begins(n: usize) {
    black_box(n);
}

/// One thread: what it does is the same each time.
fn run(folder: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let vector = |shape| DeletionVector::try_from_positions(positions(shape, POSITIONS)).expect("positions below 2^63");
    let (random, runs) = (vector("random"), vector("runs"));
    let blobs = [&random, &runs].map(|v| v.encode().expect("below 2 GiB"));
    let rows = random.max().map_or(0, |m| m + 1);
    let catalog: Arc<dyn Catalog> = Arc::new(HadoopCatalog::new("ice", folder, HashMap::new()).expect("a catalog"));
    let ident = TableIdent::from_strs(["ns", "t"]).expect("a name");
    let table: Table = runtime.block_on(catalog.load_table(&ident)).expect("the table");
    let head = table.metadata().current_snapshot_id().expect("a snapshot");
    let (data, deletes) = runtime.block_on(live_entries(&table, head)).expect("entries");
    let deletes: Vec<Arc<ManifestEntry>> = deletes.into_iter().map(Arc::new).collect();
    let build = || DeleteIndex::build(deletes.iter().cloned(), table.metadata()).expect("an index");
    let index = build();
    let pruner = FilePruner::new(Pred::True, table.metadata());
    let all: [&dyn Fn() -> usize; WORKS.len()] = [
        &|| random.encode().map_or(0, |b| b.len()),
        &|| DeletionVector::decode(&blobs[0]).map_or(0, |v| v.len() as usize),
        &|| runs.encode().map_or(0, |b| b.len()),
        &|| DeletionVector::decode(&blobs[1]).map_or(0, |v| v.len() as usize),
        &|| (0..rows).step_by(8192).filter_map(|start| random.keep_mask(start, 8192)).map(|m| m.len()).sum(),
        &|| usize::from(build().for_file(&data[0]).is_ok()),
        &|| data.iter().filter(|e| index.for_file(e).is_ok_and(|d| d.dv.is_some())).count(),
        &|| runtime.block_on(plan(&table, Some(head), &pruner)).map_or(0, |p| p.tasks.len()),
    ];
    for (n, work) in all.iter().enumerate() {
        work_begins(n);
        assert_ne!(black_box(work()), 0, "it did nothing");
    }
    work_begins(all.len());
}
