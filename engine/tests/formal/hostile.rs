//! Hostile bytes, always run: a corpus made by code, and what libFuzzer found worth keeping, is damaged in seeded ways and given
//! to every reader. No panic, no endless loop, no memory beyond a bound. The fuzz crate runs the same targets for as long as one
//! likes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use floe_engine::commit::{Change, Producer, commit};
use floe_engine::dv::{DeletionVector, PuffinWriter};
use floe_engine::manifest::load_manifest_list;
use iceberg::spec::FormatVersion;
use object_store::memory::InMemory;

use crate::figures::tell;
use crate::files::{Row, data, vectors};
use crate::model::block_on;
use crate::targets::TARGETS;
use crate::world::{Net, One, empty, files};

/// One input may take this long, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// The process may grow by this much.
const MEMORY_MB: u64 = 600;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Inputs that the fuzzer kept: a line each in base64, in `fuzz/kept/TARGET.txt`.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/kept/{target}.txt"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let all: Vec<Vec<u8>> = text.lines().map(|l| STANDARD.decode(l).expect("base64")).collect();
    assert!(!all.is_empty(), "{} is empty", file.display());
    all
}

/// Right inputs of each target, to damage.
fn corpus() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let sets: Vec<DeletionVector> = [
        (0..1).collect::<Vec<u64>>(),
        (0..300).step_by(3).collect(),
        (0..20_000).step_by(2).collect(),
        (10..9_000).collect(),
        vec![1, 65_536, 1 << 32, (3 << 32) + 9],
    ]
    .into_iter()
    .map(|p| DeletionVector::try_from_positions(p).expect("positions"))
    .collect();
    let mut dv: Vec<Vec<u8>> = sets.iter().map(|s| s.encode().expect("a blob")).collect();
    dv.extend(sets.iter().map(|s| s.encode_vector().expect("a vector")));
    let mut puffin = PuffinWriter::new();
    for (i, s) in sets.iter().enumerate() {
        puffin.add_dv(s, &format!("memory:/t/data/f{i}.parquet")).expect("a blob");
    }
    let (metadata, manifests, lists) = block_on(table());
    let sql = [
        "SELECT a, count(*) FROM ns.t VERSION AS OF 5 WHERE a IN (1, 2) AND b LIKE 'x%' GROUP BY a ORDER BY 1 DESC LIMIT 3",
        "CREATE TABLE ns.t (id INT NOT NULL, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DECIMAL(9,2)>) USING iceberg \
         PARTITIONED BY (bucket(4, id), days(ts)) TBLPROPERTIES ('format-version'='3')",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.x > 1 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 5 AFTER b",
        "CALL ice.system.rewrite_data_files(table => 'ns.t', options => map('a','b'), where => 'id > 3')",
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT CAST(id AS INT), 'it''s' FROM range(10)",
        "UPDATE t SET a.b = CASE WHEN c THEN 1 ELSE -2.5e3 END WHERE d BETWEEN DATE '2020-01-01' AND TIMESTAMP '2021-01-01 00:00:00'",
    ];
    let config = [
        "source: {table: ns.src, catalog_properties: {type: hadoop, warehouse: /w}, from_snapshot: 5, streaming: true}\n\
         target:\n  table: copy.dst\n  mode: merge-on-read\n  equality_columns: [id, x]\nsync: {snapshots_per_commit: 1}\n",
        "{\"table\": \"ns.t\", \"catalog_name\": \"c\", \"filter\": \"id > 3\", \"keep\": [\"a\", \"b.c\"]}",
        "table: ds.my_{a}_{b.c}\npartition_fields: ['bucket(a, 4)', 'truncate(b,3)', 'day(c)']\nsort_fields: ['a desc nulls last']\n",
        // anchors that multiply
        "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
         d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
         g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\ntable: *g\n",
    ];
    let owned = |t: &[&str]| t.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>();
    vec![
        ("dv", dv),
        ("puffin", vec![puffin.finish().expect("a file").to_vec()]),
        ("metadata", metadata),
        ("manifest", manifests),
        ("manifest_list", lists),
        ("sql", owned(&sql)),
        ("config", owned(&config)),
    ]
}

/// Metadata, manifests and lists of a small table.
async fn table() -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut metadata, mut manifests, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for codec in ["gzip", "uncompressed", "snappy", "zstd"] {
        let store = std::sync::Arc::new(InMemory::new());
        let properties = [("write.manifest.compression-codec", codec)];
        let one = One::new(empty(FormatVersion::V3, &properties), files(&store).0, Net::Clean);
        let a = data("a", &[Row::new(1, 0), Row::new(3, 0)]);
        for (producer, added) in [
            (Producer::MergeAppend, vec![a.clone(), data("b", &[Row::new(2, 0)])]),
            (Producer::RowDelta, vectors("v", &[(a, 1)])),
        ] {
            commit(&one.table(), Change { added, ..Change::new(producer) })
                .await
                .unwrap_or_else(|e| panic!("{codec}: {e}"));
        }
        let t = one.table();
        metadata.push(t.metadata().to_json().expect("JSON"));
        let head = t.metadata().current_snapshot().expect("a head").clone();
        lists.push(t.io().read(head.manifest_list()).await.expect("a list").to_vec());
        for m in load_manifest_list(t.io(), &head).await.expect("a list") {
            manifests.push(t.io().read(&m.manifest_path).await.expect("a manifest").to_vec());
        }
    }
    metadata.push(floe_engine::types::gzip(&metadata[0]).expect("packed"));
    (metadata, manifests, lists)
}

/// Damages bytes in one to three places.
fn damage(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut b = seeds[dice.roll(seeds.len())].clone();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(b.len());
        match dice.roll(10) {
            0 if !b.is_empty() => b[at] ^= 1 << dice.roll(8),
            1 if !b.is_empty() => b[at] = [0, 0x7f, 0x80, 0xff, b'"', b'(', b'[', b'{', b'9'][dice.roll(9)],
            2 => b.truncate(at),
            3 => {
                // a length that is far too large, in the ways that lengths are written
                let huge: [&[u8]; 5] = [
                    &[0xff; 8],
                    &[0x7f, 0xff, 0xff, 0xff],
                    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
                    b"99999999999999999999",
                ];
                let huge = huge[dice.roll(5)];
                let end = (at + huge.len()).min(b.len());
                b.splice(at..end, huge.iter().copied());
            }
            4 => {
                let end = (at + dice.roll(64)).min(b.len());
                let piece = b[at..end].to_vec();
                b.splice(at..at, piece);
            }
            5 => {
                let end = (at + dice.roll(32)).min(b.len());
                b.drain(at..end);
            }
            6 => {
                let open = [&b"("[..], b"[", b"{\"a\":", b"- ", b"NOT ", b"/*", b"ARRAY<", b"'"][dice.roll(8)];
                let many = open.repeat([2, 200, 20_000][dice.roll(3)]);
                b.splice(at..at, many);
            }
            7 => {
                let other = &seeds[dice.roll(seeds.len())];
                let from = dice.roll(other.len());
                b.truncate(at);
                b.extend_from_slice(&other[from..]);
            }
            8 if !b.is_empty() => b.swap(at, 0),
            _ => {
                let n = [0u64, 1, u64::from(u32::MAX), i64::MAX as u64][dice.roll(4)].to_le_bytes();
                let end = (at + 8).min(b.len());
                b.splice(at..end, n);
            }
        }
    }
    b
}

/// Kilobytes the process has had at most.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn rounds() -> usize {
    if std::env::var_os("FLOE_FORMAL").is_some_and(|v| v == "long") { 200_000 } else { 3_000 }
}

#[test]
fn hostile_bytes_are_refused_in_time_and_space() {
    let corpus = corpus();
    let before = peak_kb();
    let mut total = 0;
    for (name, target) in TARGETS {
        let mut seeds = corpus.iter().find(|c| c.0 == name).expect("a corpus").1.clone();
        seeds.extend(kept(name));
        for s in &seeds {
            target(s);
        }
        let (tell, told) = mpsc::channel::<(usize, Vec<u8>)>();
        let rounds = rounds();
        let worker = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
            let mut dice = Dice(0x5eed ^ name.len() as u64);
            for n in 0..rounds {
                let input = damage(&seeds, &mut dice);
                if tell.send((n, input.clone())).is_err() {
                    return Ok(());
                }
                let began = Instant::now();
                if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
                    return Err((n, input, "panics"));
                }
                if began.elapsed() > PATIENCE {
                    return Err((n, input, "takes too long"));
                }
            }
            Ok(())
        });
        let worker = worker.expect("a thread");
        let mut last = None;
        loop {
            match told.recv_timeout(PATIENCE * 2) {
                Ok(input) => {
                    last = Some(input);
                    total += 1;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let (n, input) = last.expect("an input");
                    panic!("{name}: input {n} has no end: {}", shown(&input));
                }
            }
        }
        if let Err((n, input, what)) = worker.join().expect("the worker ends") {
            panic!("{name}: input {n} {what}: {}", shown(&input));
        }
    }
    let grown = (peak_kb().saturating_sub(before)) / 1024;
    println!("hostile bytes: memory grew by {grown} MB");
    tell("hostile bytes", &format!("{total} inputs to {} readers", TARGETS.len()));
    assert!(grown < MEMORY_MB, "hostile inputs made the process grow by {grown} MB");
}

/// Writes the corpus as files into the folder `FLOE_FUZZ_SEEDS`, one below it for each target.
#[test]
#[ignore = "makes the seeds of fuzz/run"]
fn seeds_of_the_fuzzer() {
    let folder = std::path::PathBuf::from(std::env::var_os("FLOE_FUZZ_SEEDS").expect("FLOE_FUZZ_SEEDS is set"));
    for (name, mut seeds) in corpus() {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        seeds.extend(kept(name));
        for (i, s) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("{i:04}")), s).expect("a file");
        }
    }
}

fn shown(input: &[u8]) -> String {
    let head = &input[..input.len().min(400)];
    format!("{} bytes, {}", input.len(), head.escape_ascii())
}

/// What must not go deep: nesting is refused, in every language that is read.
#[test]
fn nesting_is_refused() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
    let (_, target) = TARGETS[5];
    target(format!("SELECT {}", deep("(", ")")).as_bytes());
    target(format!("SELECT {}", deep("NOT ", "")).as_bytes());
    target(format!("SELECT {}", deep("- ", "")).as_bytes());
    target(format!("SELECT {}", deep("CASE WHEN ", " THEN 1 END")).as_bytes());
    target(format!("SELECT * FROM {}", deep("(SELECT * FROM ", ")")).as_bytes());
    target(format!("SELECT CAST(1 AS {})", deep("ARRAY<", ">")).as_bytes());
    target(format!("SELECT CAST(1 AS {})", deep("STRUCT<a: ", ">")).as_bytes());
    target(format!("SELECT * FROM {}", deep("(", ")")).as_bytes());
    target(format!("SELECT 1 FROM a JOIN {}", deep("(b JOIN ", ")")).as_bytes());
    target(format!("SELECT {}", deep("f(", ")")).as_bytes());
    target(format!("SELECT a{}", "[1]".repeat(50_000)).as_bytes());
    target(format!("CREATE TABLE t (a {} )", deep("ARRAY<", ">")).as_bytes());
    target(format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(20_000)).as_bytes());
    let (_, target) = TARGETS[2];
    target(deep("[", "]").as_bytes());
    target(deep("{\"schemas\":", "}").as_bytes());
    let (_, target) = TARGETS[6];
    target(deep("[", "]").as_bytes());
    target(deep("{a: ", "}").as_bytes());
}
